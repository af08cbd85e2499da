#!/usr/bin/env python3
"""Archives of inputs: the same to the octet whoever makes them, and nothing is lost on the way."""
import pathlib
import subprocess
import sys
import tempfile
import unittest
import zipfile

sys.dont_write_bytecode = True
import corpora

ROOT = pathlib.Path(__file__).resolve().parents[2]
INPUTS = {"b.input": b"\x00\xff" * 300, "a.input": b"", "found-it.input": b"PK\x03\x04"}


class Archives(unittest.TestCase):
    def setUp(self):
        self.folder = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory()))

    def test_round_trips(self):
        archive = self.folder / "some.zip"
        corpora.write(archive, INPUTS)
        self.assertEqual(corpora.read(archive), INPUTS)
        corpora.unpack(archive, self.folder / "unpacked")
        self.assertEqual({path.name: path.read_bytes() for path in (self.folder / "unpacked").iterdir()}, INPUTS)

    def test_is_the_same_whatever_order_and_times_the_inputs_have(self):
        corpora.write(self.folder / "one.zip", INPUTS)
        corpora.unpack(self.folder / "one.zip", self.folder / "unpacked")
        corpora.pack(self.folder / "unpacked", self.folder / "two.zip")
        corpora.write(self.folder / "three.zip", dict(reversed(INPUTS.items())))
        self.assertEqual((self.folder / "one.zip").read_bytes(), (self.folder / "two.zip").read_bytes())
        self.assertEqual((self.folder / "one.zip").read_bytes(), (self.folder / "three.zip").read_bytes())

    def test_of_none_is_empty(self):
        self.assertEqual(corpora.read(self.folder / "none.zip"), {})

    def test_those_of_this_tree_are_as_they_are_written(self):
        archives = sorted((ROOT / "tests" / "corpora").glob("*.zip"))
        self.assertTrue(archives)
        for archive in archives:
            with self.subTest(archive.name), zipfile.ZipFile(archive) as file:
                self.assertIsNone(file.testzip())
                corpora.write(self.folder / "again.zip", corpora.read(archive))
                self.assertEqual((self.folder / "again.zip").read_bytes(), archive.read_bytes())

    def test_of_this_tree_belong_to_the_fuzzers_that_scripts_fuzz_runs(self):
        archives = {archive.name.removeprefix("weft_").removesuffix("_fuzz.zip") for archive in (ROOT / "tests" / "corpora").glob("weft_*.zip")}
        listed = subprocess.run([sys.executable, "-B", ROOT / "scripts" / "fuzz", "--list"], capture_output=True, text=True, check=True).stdout.split()
        self.assertEqual(archives, set(listed))


if __name__ == "__main__":
    unittest.main()
