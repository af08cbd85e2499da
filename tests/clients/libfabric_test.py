#!/usr/bin/env python3
"""What libfabric.py runs and what it makes of the output, without a fabric."""
import pathlib
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import libfabric  # noqa: E402

ROWS = """bytes   #sent   #ack     total       time     MB/sec    usec/xfer   Mxfers/sec
64      3       =3       384         0.02s      0.00     963.15       0.00
6m      3       =3       36m         0.49s    255.22   24650.70       0.00
"""
MSG = """provider: verbs
    fabric: IB-0xfe80000000000000
    domain: weft0
    version: 117.0
    type: FI_EP_MSG
    protocol: FI_PROTO_RDMA_CM_IB_RC
"""
DETAILS = "".join(f"    {name}: {value}\n" for name, value in libfabric.TRUTH.items()) + "    src_addr: fi_sockaddr_in://127.77.0.1:0\n"


class Libfabric(unittest.TestCase):
    def test_a_part_has_every_row_of_the_whole(self):
        self.assertEqual({case.aspect for case in libfabric.cases(True)}, {case.aspect for case in libfabric.cases(False)})

    def test_messages_without_an_answer_and_sizes_that_are_missing_are_found(self):
        judge = libfabric.judge_rows(3, "6m")
        self.assertIsNone(judge(ROWS))
        self.assertIn("the first 64", judge(ROWS.replace("=3 ", "+1 ", 1)))
        self.assertIn("the first 64", judge(ROWS.replace("64      3       =3", "64      2       =2")))
        self.assertIn("no row of 6m", judge(ROWS.replace("6m", "4m")))
        self.assertIn("no row of 6m", judge(""))

    def test_a_type_of_endpoint_is_listed_alone(self):
        judge = libfabric.judge_list("FI_EP_MSG")
        self.assertIsNone(judge(MSG))
        self.assertIn("does not show", judge(MSG.replace("weft0", "eth0")))
        self.assertIn("FI_EP_DGRAM", judge(MSG + MSG.replace("EP_MSG", "EP_DGRAM")))

    def test_details_must_be_so(self):
        judge = libfabric.judge_details("127.77.0.1")
        self.assertIsNone(judge(DETAILS))
        self.assertIn("mtu ['2048'] instead of 4096", judge(DETAILS.replace("4096", "2048")))
        self.assertIn("no endpoint of 127.77.0.1", judge(DETAILS.replace("_in://127.77.0.1", "_ib://[fe80::1]")))


if __name__ == "__main__":
    unittest.main()
