#!/usr/bin/env python3
"""crc_check.py finds the CRCs of the specification's sample packet right, and every changed bit wrong."""
import pathlib
import random
import struct
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import crc_check  # noqa: E402

# IBTA vol 1 §7.8.3, the local sample packet: an RC RDMA WRITE Only of 14 octets.
SAMPLE = bytes.fromhex("7012375C 000E17D2 0A202487 0087B1B3 000DEC2A 01710A1C 015D4002 38F27A05"
                       "0000000E BB884D85 FD5CFBA4 728BC069 0ED40000 9625B75A 45FA")


def erf(packet, kind=21, extensions=0):
    headers = b"".join(bytes([0x80 if index + 1 < extensions else 0]) + bytes(7) for index in range(extensions))
    length = 16 + len(headers) + len(packet)
    return struct.pack("<Q", 1 << 32) + struct.pack(">BBHHH", kind | (0x80 if extensions else 0), 4, length, 0, len(packet)) + headers + packet


def pcap(records, link_type=197):
    head = struct.pack("<IHHiIII", 0xA1B2C3D4, 2, 4, 0, 0, 65535, link_type)
    return head + b"".join(struct.pack("<IIII", 1, 2, len(record), len(record)) + record for record in records)


def with_crcs(body, with_grh=False):
    packet = body + struct.pack("<I", crc_check.icrc(body, with_grh))
    return packet + struct.pack("<H", crc_check.vcrc(packet))


class CrcCheck(unittest.TestCase):
    def check(self, data):
        with tempfile.NamedTemporaryFile() as file:
            file.write(data)
            file.flush()
            return crc_check.check_file(file.name)

    def test_the_sample_packet_of_the_specification_is_right(self):
        crc_check.check_packet(SAMPLE)

    def test_every_changed_bit_is_found(self):
        for bit in range(8 * len(SAMPLE)):
            changed = bytearray(SAMPLE)
            changed[bit // 8] ^= 1 << bit % 8
            with self.subTest(bit), self.assertRaises(crc_check.Malformed):
                crc_check.check_packet(bytes(changed))

    def test_pcap_and_bare_erf_and_extension_headers_are_read(self):
        for data in (pcap([erf(SAMPLE)] * 3), erf(SAMPLE) * 3, pcap([erf(SAMPLE, extensions=2)] * 3)):
            result = self.check(data)
            self.assertEqual((result["packets"], result["wrong"], result["opcodes"]), (3, 0, {"0x0a": 3}))

    def test_switches_may_change_the_vl_and_routers_the_grh_without_a_new_icrc(self):
        local = bytearray(SAMPLE[:-2])
        local[0] ^= 0x30
        crc_check.check_packet(bytes(local) + struct.pack("<H", crc_check.vcrc(local)))
        lrh = bytes([0x00, 0x03]) + bytes.fromhex("0001") + struct.pack(">H", (48 + 12 + 4 + 4) // 4) + bytes.fromhex("0002")
        packet = bytearray(with_crcs(lrh + b"\x60" + bytes(39) + bytes.fromhex("0400ffff00000011800000aa") + b"data", True))
        crc_check.check_packet(bytes(packet))
        packet[15] = 63  # hop limit
        crc_check.check_packet(bytes(packet[:-2]) + struct.pack("<H", crc_check.vcrc(packet[:-2])))

    def test_a_wrong_icrc_under_a_right_vcrc_is_found(self):
        packet = bytearray(SAMPLE[:-2])
        packet[-6] ^= 1  # payload
        result = self.check(pcap([erf(bytes(packet) + struct.pack("<H", crc_check.vcrc(packet)))]))
        self.assertEqual(result["wrong"], 1)
        self.assertIn("ICRC", result["problems"][0])

    def test_files_that_are_cut_or_of_another_kind_are_refused(self):
        cut = pcap([erf(SAMPLE)])[:-5]
        for data in (cut, erf(SAMPLE)[:-5], pcap([erf(SAMPLE, kind=2)]), pcap([erf(SAMPLE)], link_type=247), pcap([erf(SAMPLE)[:40]])):
            self.assertGreater(self.check(data)["wrong"], 0)

    def test_random_packets_round_trip(self):
        source = random.Random(1)
        for _ in range(200):
            payload = bytes(source.randrange(256) for _ in range(4 * source.randrange(256)))
            length = (8 + 12 + len(payload) + 4) // 4
            lrh = bytes([0xF0 & source.randrange(256), 0x02]) + source.randbytes(2) + struct.pack(">H", length) + source.randbytes(2)
            crc_check.check_packet(with_crcs(lrh + source.randbytes(12) + payload))


if __name__ == "__main__":
    unittest.main()
