#!/usr/bin/env python3
"""newer_distribution.py finds the machine's own mirror in either of apt's formats."""
import pathlib
import tempfile
import unittest

import newer_distribution

DEB822 = """Types: deb
# a comment
URIs: http://mirror.example/security
Suites: oldname-security
Components: main

Types: deb
URIs: http://mirror.example/debian
Suites: oldname oldname-updates
Components: main
Signed-By: /usr/share/keyrings/some.gpg
"""
ONE_LINE = """# deb http://commented.example/debian oldname main
deb [arch=amd64 signed-by=/etc/keys/own.gpg] https://other.example/debian oldname main contrib
deb https://plain.example/debian elsewhere main
"""


class Mirror(unittest.TestCase):
    def entries(self, **files):
        with tempfile.TemporaryDirectory() as folder:
            place = pathlib.Path(folder)
            (place / "sources.list.d").mkdir()
            for name, text in files.items():
                (place / name.replace("__", "/").replace("_", ".")).write_text(text)
            return list(newer_distribution.entries(place))

    def test_deb822(self):
        found = self.entries(**{"sources_list_d__debian_sources": DEB822})
        self.assertEqual(newer_distribution.mirror("oldname", found), ("http://mirror.example/debian", "/usr/share/keyrings/some.gpg"))

    def test_one_line(self):
        found = self.entries(sources_list=ONE_LINE)
        self.assertEqual(newer_distribution.mirror("oldname", found), ("https://other.example/debian", "/etc/keys/own.gpg"))
        self.assertEqual(newer_distribution.mirror("elsewhere", found), ("https://plain.example/debian", ""))

    def test_a_machine_of_another_release_names_no_mirror(self):
        self.assertIsNone(newer_distribution.mirror("newname", self.entries(sources_list=ONE_LINE)))
        self.assertIsNone(newer_distribution.mirror("newname", self.entries()))


if __name__ == "__main__":
    unittest.main()
