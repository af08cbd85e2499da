#!/usr/bin/env python3
"""Recomputes every CRC of an InfiniBand capture in ERF records (pcap link type 197, or bare ERF). Shares no code with Weft.

    crc_check.py [-v] [--json] FILE...      exit status 1 when a CRC is wrong or a record cannot be read

ICRC: IBTA vol 1 §7.8.1, CRC-32 over LRH to payload with the fields that switches and routers may change read as ones.
VCRC: IBTA vol 1 §7.8.2, CRC-16 (polynomial 0x100B) over LRH to ICRC. Both are sent low octet first.
"""
import argparse
import collections
import json
import struct
import sys
import zlib

ERF_INFINIBAND = 21
PCAP_LINK_TYPE_ERF = 197
RAW, IPV6_RAW, LOCAL, GLOBAL = range(4)  # LNH, IBTA vol 1 §7.7.5


class Malformed(Exception):
    """What is wrong with the file or the record, in words."""


def _vcrc_table():
    table = []
    for octet in range(256):
        for _ in range(8):
            octet = octet >> 1 ^ (0xD008 if octet & 1 else 0)  # 0x100B, its bits reversed
        table.append(octet)
    return table


_VCRC = _vcrc_table()


def vcrc(octets):
    crc = 0xFFFF
    for octet in octets:
        crc = crc >> 8 ^ _VCRC[(crc ^ octet) & 0xFF]
    return crc ^ 0xFFFF


def icrc(octets, with_grh):
    """Of a packet from its LRH to the end of its payload and padding."""
    masked = bytearray(octets)
    masked[0] |= 0xF0                            # VL
    bth = 8
    if with_grh:
        masked[0:8] = b"\xff" * 8                # the whole LRH, which routers replace (IBTA vol 1 §7.8.1)
        masked[8] |= 0x0F                        # traffic class, with the next octet, and flow label
        masked[9:12] = b"\xff\xff\xff"
        masked[15] = 0xFF                        # hop limit
        bth = 48
    masked[bth + 4] = 0xFF                       # FECN, BECN and the reserved bits beside them
    return zlib.crc32(bytes(masked))


def check_packet(octets):
    """Raises Malformed with the reason unless both CRCs, and the lengths around them, are right."""
    if len(octets) < 8 + 2:
        raise Malformed(f"{len(octets)} octets are too few for a LRH and a VCRC")
    lnh, length = octets[1] & 3, 4 * (struct.unpack(">H", octets[4:6])[0] & 0x7FF)
    if length + 2 != len(octets):
        raise Malformed(f"PktLen says {length} octets to the ICRC, the record holds {len(octets) - 2}")
    want, = struct.unpack("<H", octets[-2:])
    have = vcrc(octets[:-2])
    if want != have:
        raise Malformed(f"VCRC is {want:#06x}, it should be {have:#06x}")
    if lnh in (RAW, IPV6_RAW):
        return
    shortest = (8 + 12 if lnh == LOCAL else 48 + 12) + 4 + 2
    if len(octets) < shortest:
        raise Malformed(f"{len(octets)} octets are too few for the headers that LNH {lnh} announces")
    want, = struct.unpack("<I", octets[-6:-2])
    have = icrc(octets[:-6], lnh == GLOBAL)
    if want != have:
        raise Malformed(f"ICRC is {want:#010x}, it should be {have:#010x}")


def erf_payload(record):
    """The packet of one ERF record, which may carry extension headers."""
    if len(record) < 16:
        raise Malformed("a record shorter than its header")
    kind, _, record_length, _, wire_length = struct.unpack(">BBHHH", record[8:16])
    if kind & 0x7F != ERF_INFINIBAND:
        raise Malformed(f"ERF type {kind & 0x7F} is not InfiniBand ({ERF_INFINIBAND})")
    position, more = 16, kind & 0x80
    while more:
        if position + 8 > len(record):
            raise Malformed("extension headers run past the record")
        more, position = record[position] & 0x80, position + 8
    if position + wire_length > len(record):
        raise Malformed(f"cut short: {wire_length} octets on the wire, {len(record) - position} in the record")
    if record_length > len(record):
        raise Malformed(f"the record length says {record_length}, there are {len(record)} octets")
    return record[position:position + wire_length]


def pcap_records(data):
    little = data[:4] in (b"\xd4\xc3\xb2\xa1", b"\x4d\x3c\xb2\xa1")
    order = "<" if little else ">"
    link_type, = struct.unpack(order + "I", data[20:24])
    if link_type & 0x0FFFFFFF != PCAP_LINK_TYPE_ERF:
        raise Malformed(f"link type {link_type} is not ERF ({PCAP_LINK_TYPE_ERF})")
    position = 24
    while position < len(data):
        if position + 16 > len(data):
            raise Malformed("the file ends inside a record header")
        captured, _ = struct.unpack(order + "II", data[position + 8:position + 16])
        if position + 16 + captured > len(data):
            raise Malformed("the file ends inside a record")
        yield data[position + 16:position + 16 + captured]
        position += 16 + captured


def erf_records(data):
    position = 0
    while position < len(data):
        if position + 16 > len(data):
            raise Malformed("the file ends inside a record header")
        length, = struct.unpack(">H", data[position + 10:position + 12])
        if length < 16 or position + length > len(data):
            raise Malformed("the file ends inside a record")
        yield data[position:position + length]
        position += length


def records(data):
    is_pcap = data[:4] in (b"\xd4\xc3\xb2\xa1", b"\xa1\xb2\xc3\xd4", b"\x4d\x3c\xb2\xa1", b"\xa1\xb2\x3c\x4d")
    return pcap_records(data) if is_pcap else erf_records(data)


def check_file(path, verbose=False):
    """{'packets', 'wrong', 'opcodes', 'problems'} of one capture."""
    with open(path, "rb") as file:
        data = file.read()
    packets, problems, opcodes = 0, [], collections.Counter()
    try:
        for number, record in enumerate(records(data), 1):
            packets += 1
            try:
                packet = erf_payload(record)
                check_packet(packet)
                bth = {LOCAL: 8, GLOBAL: 48}.get(packet[1] & 3)
                opcodes[f"{packet[bth]:#04x}" if bth else "raw"] += 1
                if verbose:
                    print(f"{number:6} {len(packet):5} octets, opcode {f'{packet[bth]:#04x}' if bth else 'raw'}: right")
            except Malformed as problem:
                problems.append(f"packet {number}: {problem}")
    except Malformed as problem:
        problems.append(str(problem))
    return {"file": str(path), "packets": packets, "wrong": len(problems), "opcodes": dict(opcodes), "problems": problems[:20]}


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("files", nargs="+")
    parser.add_argument("-v", "--verbose", action="store_true", help="one line a packet")
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    results = [check_file(path, arguments.verbose) for path in arguments.files]
    if arguments.json:
        print(json.dumps(results, indent=1))
    else:
        for result in results:
            print("{file}: {packets} packets, {wrong} wrong".format(**result))
            for problem in result["problems"]:
                print("  " + problem)
    return 1 if any(result["wrong"] for result in results) else 0


if __name__ == "__main__":
    sys.exit(main())
