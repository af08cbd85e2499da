#!/usr/bin/env python3
"""What tools.py makes of the output of ibverbs-utils, without a fabric."""
import pathlib
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import tools  # noqa: E402

DEVINFO = """hca_id:\tweft0
\ttransport:\t\t\tInfiniBand (0)
\tmax_sge:\t\t\t32
\tmax_srq:\t\t\t16384
\trc_odp_caps:
\t\tport:\t1
\t\t\tstate:\t\t\tPORT_ACTIVE (4)
\t\t\tactive_mtu:\t\t4096 (5)
\t\t\tport_lid:\t\t1
\t\t\tlink_layer:\t\tInfiniBand
\t\t\tGID[  0]:\t\tfe80:0000:0000:0000:0257:4610:0001:0001
"""


class Tools(unittest.TestCase):
    def test_the_device_must_be_listed(self):
        self.assertIsNone(tools.lists_device("    device   node GUID\n    weft0           \t0257461000010000\n"))
        self.assertIsNotNone(tools.lists_device("    device   node GUID\n"))

    def test_every_attribute_must_be_there(self):
        self.assertIsNone(tools.describes_device(DEVINFO))
        self.assertIn("PORT_ACTIVE", tools.describes_device(DEVINFO.replace("PORT_ACTIVE", "PORT_DOWN")))
        self.assertIn("port_lid", tools.describes_device(DEVINFO.replace("port_lid:\t\t1", "port_lid:\t\t0")))

    def test_only_the_failure_of_the_device_counts(self):
        self.assertTrue(tools.saw_failure("  event_type local catastrophic error (8), port 0\n"))
        self.assertFalse(tools.saw_failure("weft0: async event FD 5\n"))


if __name__ == "__main__":
    unittest.main()
