#!/usr/bin/env python3
"""srp_tables.py finds nothing wrong in what Linux's initiator and target say to each other, and every change of that."""
import dataclasses
import pathlib
import struct
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import srp_tables  # noqa: E402

PCAPS = pathlib.Path(__file__).resolve().parents[1] / "golden" / "pcaps"
GOLDEN = [PCAPS / f"srp_{name}.pcap" for name in ("login", "rw", "logout")]
ABORT = PCAPS / "srp_abort.pcap"
RSP_OPCODE, CMD_OPCODE, TSK_MGMT_OPCODE = 0xC1, 0x02, 0x01


class Tables(unittest.TestCase):
    def test_every_table_tiles_its_unit(self):
        for name, octets, table, _ in srp_tables.UNITS.values():
            fields, faults = srp_tables.decode(table, bytes(octets))
            self.assertEqual(faults, [], name)
            self.assertEqual(sum(row[3] for row in table), octets * 8, name)
        for table, octets in ((srp_tables.LOGIN_REQ_RDMA_CM, 56), (srp_tables.DIRECT, 16), (srp_tables.INDIRECT, 20),
                              *((table, srp_tables.DM_OCTETS) for table in srp_tables.DM_ATTRIBUTES.values())):
            self.assertEqual(sum(row[3] for row in table), octets * 8)

    def test_linux_is_found_right(self):
        sums, faults = srp_tables.judge(GOLDEN)
        self.assertEqual(faults, [])
        self.assertEqual((sums["login"], sums["refusal"], sums["end"]), (1, 0, 1))
        self.assertGreater(min(sums["read"], sums["write"]), 0)
        self.assertEqual(sums["marker"], 1, "srpt has had the RTU")
        sums, faults = srp_tables.judge([ABORT])
        self.assertEqual(faults, [])
        self.assertEqual((sums["login"], sums["abort"], sums["reset"]), (1, 1, 1))

    def test_any_reserved_bit_of_a_golden_unit_is_missed_by_nobody(self):
        units = {}
        for message in (each for path in (*GOLDEN, ABORT) for each in srp_tables.messages(path)):
            if message.kind == "send":
                units.setdefault(message.octets[0], message.octets)
        self.assertEqual(set(units), {CMD_OPCODE, RSP_OPCODE, TSK_MGMT_OPCODE})
        for opcode, unit in units.items():
            self.assertEqual(srp_tables.decode_unit(unit)[2], [])
            for name, octet, bit, bits in srp_tables.UNITS[opcode][2]:
                for each in range(bits if name == "" else 0):
                    changed = bytearray(unit)
                    changed[octet + (bit + each) // 8] ^= 0x80 >> (bit + each) % 8
                    self.assertTrue(srp_tables.decode_unit(bytes(changed))[2], f"{opcode:#x}: bit {each} behind octet {octet}")
            for wrong in (unit[:-1], unit + b"\0", b"\x55" + unit[1:]):
                self.assertTrue(srp_tables.decode_unit(wrong)[2])

    def judge_changed(self, change):
        """The faults in the golden conversation after change(messages)."""
        whole = [each for path in GOLDEN for each in self.real(path)]
        change(whole)
        srp_tables.messages = lambda _: whole
        try:
            return " ".join(srp_tables.judge(["changed"])[1])
        finally:
            srp_tables.messages = self.real

    real = staticmethod(srp_tables.messages)

    @staticmethod
    def first(whole, kind, opcode=None):
        return next(at for at, each in enumerate(whole) if each.kind == kind and (opcode is None or each.octets[0] == opcode))

    @staticmethod
    def with_octets(message, at, octets):
        return dataclasses.replace(message, octets=message.octets[:at] + octets + message.octets[at + len(octets):])

    def test_a_conversation_that_is_wrong_as_a_whole_is_found(self):
        def alter(kind, opcode, at, octets):
            def change(whole):
                place = self.first(whole, kind, opcode)
                whole[place] = self.with_octets(whole[place], at, octets)
            return change

        def twice(kind, opcode):
            return lambda whole: whole.insert(self.first(whole, kind, opcode), whole[self.first(whole, kind, opcode)])

        def move(whole):
            place = self.first(whole, "read")
            address, key, length = whole[place].place
            whole[place] = dataclasses.replace(whole[place], place=(address, key, length + 1))

        def mark(kind, address, key):
            def change(whole):
                place = next(at for at, each in enumerate(whole) if each.kind == "write" and not each.place[2])
                whole[place] = dataclasses.replace(whole[place], kind=kind, place=(address, key, 0))
            return change

        def swap(whole):
            place = self.first(whole, "send", RSP_OPCODE)
            command = whole[self.first(whole, "send", CMD_OPCODE)]
            whole[place] = dataclasses.replace(whole[place], sender=command.sender, qp=command.qp)

        data = srp_tables.CM_MESSAGES[0x13][1]
        for change, words in ((alter("send", RSP_OPCODE, 8, b"\xee" * 8), "is of no command"),
                              (twice("send", CMD_OPCODE), "is in use"), (twice("send", RSP_OPCODE), "is of no command"), (move, "no descriptor allows"),
                              (mark("write", 0, 7), "a marker as a write at 0x0 under 0x7"), (mark("write", 8, 0), "a marker as a write at 0x8"),
                              (mark("read", 0, 0), "a marker as a read"),
                              (swap, "by the wrong end"),
                              (alter("REP", None, data + 4, struct.pack(">I", 0)), "without a credit"),
                              (alter("REP", None, data + 8, b"\xee" * 8), "the request was"),
                              (alter("REP", None, data + 1, b"\x01"), "reserved at octet 1"),
                              (alter("REQ", None, 140 + 36 + 11, b"\x07"), "LOGIN_REQ")):
            with self.subTest(words):
                self.assertIn(words, self.judge_changed(change))
        self.assertEqual(self.judge_changed(lambda whole: None), "", "unchanged, nothing is found")


if __name__ == "__main__":
    unittest.main()
