#!/usr/bin/env python3
"""What management.py makes of the output of OpenSM and infiniband-diags, without a fabric."""
import pathlib
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import management  # noqa: E402

PORTS = """CA    14  1 0x0257461000080001 4x EDR - SW     5  2 0x0257462000040000 ( 'h8 weft0' - 's4' )
SW     5  4 0x0257462000040000 4x EDR - SW     7  4 0x0257462000060000 ( 's4' - 's6' )
"""
LOG = """Nov 21 22:40:01 187105 [41B4C6C0] 0x02 -> SUBNET UP
Nov 21 22:40:02 604774 [774F56C0] 0x01 -> osm_pkey_rec_rcv_process: ERR 4608: Ignoring PKeyRecord request
Nov 21 22:40:03 604774 [774F56C0] 0x01 -> osm_pkey_rec_rcv_process: ERR 4608: Ignoring PKeyRecord request
"""


class Management(unittest.TestCase):
    def test_lids_are_read_by_name_of_the_node(self):
        self.assertEqual(management.lids(PORTS), {"h8": "14", "s4": "5"})

    def test_each_error_of_the_log_counts_once(self):
        self.assertEqual(management.errors_of(LOG), ["osm_pkey_rec_rcv_process: ERR 4608: Ignoring PKeyRecord request"])
        self.assertEqual(management.errors_of(LOG.splitlines()[0]), [])

    def test_the_capability_mask_is_that_of_the_first_port(self):
        self.assertEqual(management.capability_mask("\t\tCapability mask: 0x0661ca6a\n\t\tCapability mask: 0x0\n"), 0x0661CA6A)
        self.assertIsNone(management.capability_mask("no port"))

    def test_lines_are_counted_exactly(self):
        check = management.counts(r"^Ca\t: 0x", 2)
        self.assertIsNone(check("Ca\t: 0x1\nCa\t: 0x2\n"))
        self.assertIn("1 of 2", check("Ca\t: 0x1\n"))
        self.assertIn("3 of 2", check("Ca\t: 0x1\n" * 3))

    def test_what_is_missing_is_named(self):
        self.assertIsNone(management.says("a", "b")("b\na"))
        self.assertIn("does not say b", management.says("a", "b")("a"))

    def test_a_fabrics_shape_makes_its_checks(self):
        cables = [check for program, arguments, check, _ in management.queries(8, 6, 16) if arguments == ["-p"]][0]
        self.assertIn("2 of 32", cables(PORTS))


if __name__ == "__main__":
    unittest.main()
