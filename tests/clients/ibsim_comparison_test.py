#!/usr/bin/env python3
"""What ibsim_comparison.py takes for a difference, without a fabric."""
import pathlib
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import ibsim_comparison  # noqa: E402

PORT = """# Port info: Lid 1 port 0
Mkey:............................<not displayed>
CapMask:.........................0x50c04a
				IsSM
				IsTrapSupported
Lid:.............................1
"""
LINK = '           5    1[  ] ==( 4X      25.78125 Gbps Active/  LinkUp)==>      13    1[  ] "h7 weft0" (Could be 12X)\n'


class Comparison(unittest.TestCase):
    def test_what_is_indented_belongs_to_the_field_above(self):
        self.assertIn(("CapMask", "0x50c04a IsSM IsTrapSupported"), ibsim_comparison.fields(PORT))

    def test_equal_outputs_do_not_differ(self):
        self.assertEqual(ibsim_comparison.differences("portinfo host", PORT, PORT), [])

    def test_another_value_differs(self):
        self.assertEqual(ibsim_comparison.differences("portinfo host", PORT, PORT.replace("Lid:.............................1", "Lid:...2")), [("Lid", "1", "2")])

    def test_a_line_that_one_has_differs(self):
        more = PORT + "GuidCap:.........................32\n"
        self.assertEqual(ibsim_comparison.differences("portinfo host", PORT, more), [("GuidCap", "nothing", "32")])
        self.assertEqual(ibsim_comparison.differences("portinfo host", more, PORT), [("GuidCap", "32", "nothing")])

    def test_the_remark_of_a_link_is_apart_from_the_link(self):
        [(_, theirs, ours)] = ibsim_comparison.differences("iblinkinfo", LINK, LINK.replace("Could be 12X", " "))
        self.assertEqual((theirs, ours), ("Could be 12X", " "))
        self.assertEqual(len(ibsim_comparison.differences("iblinkinfo", LINK, LINK.replace("Active", "Initialize"))), 2)

    def test_only_a_row_that_fits_wholly_explains(self):
        self.assertIsNotNone(ibsim_comparison.explanation("portinfo host", "SubnetTimeout", "31", "18"))
        self.assertIsNone(ibsim_comparison.explanation("portinfo host", "SubnetTimeout", "31", "19"))
        self.assertIsNone(ibsim_comparison.explanation("portinfo host", "Lid", "1", "2"))


if __name__ == "__main__":
    unittest.main()
