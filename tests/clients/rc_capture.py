"""What crosses a link of reliable connections, from a file of `weft capture`: who SENDs, READs and WRITEs what. Shares no code with Weft.

Runners of clients import it: srp.py, iser_target.py.
"""
import collections
import dataclasses
import pathlib
import struct

import crc_check

GLOBAL_BTH, LOCAL_BTH = 48, 8
BTH_BYTES, RETH_BYTES, IETH_BYTES, ICRC_BYTES, VCRC_BYTES = 12, 16, 4, 4, 2
RC_OPCODES = 0x1F                # IBTA vol 1 table 35: the transport is in the upper three bits
INVALIDATING = (0x16, 0x17)
SENDS, WRITES, READ_REQUEST, READ_RESPONSES = (*range(0x00, 0x06), *INVALIDATING), range(0x06, 0x0C), 0x0C, range(0x0D, 0x11)
FIRST_OF_SEND = (0x00, 0x04, 0x05, 0x17)
FIRST_OF_WRITE = (0x06, 0x0A, 0x0B)
IMMEDIATE = (0x03, 0x05, 0x09, 0x0B)
AETH_RESPONSES = (0x0D, 0x0F, 0x10)


@dataclasses.dataclass(frozen=True)
class Packet:
    slid: int
    kind: str                    # send, write, read request, read response
    payload: bytes
    begins: bool                 # of a SEND: its message
    place: tuple | None          # of a READ's request and a WRITE's first packet: address, R_Key and length of the RETH


def packet_of(octets):
    """Of the reliable connection; None: of another transport, or an acknowledgement."""
    slid, lnh = int.from_bytes(octets[6:8], "big"), octets[1] & 3
    start = {crc_check.LOCAL: LOCAL_BTH, crc_check.GLOBAL: GLOBAL_BTH}.get(lnh)
    if start is None or octets[start] > RC_OPCODES:
        return None
    opcode, padding = octets[start], octets[start + 1] >> 4 & 3
    header, place = start + BTH_BYTES, None
    if opcode in FIRST_OF_WRITE or opcode == READ_REQUEST:
        place = struct.unpack(">QII", octets[header:header + RETH_BYTES])
        header += RETH_BYTES
    if opcode in SENDS:
        kind, header = "send", header + (IETH_BYTES if opcode in INVALIDATING else 0)
    elif opcode in WRITES:
        kind = "write"
    elif opcode == READ_REQUEST:
        kind = "read request"
    elif opcode in READ_RESPONSES:
        kind, header = "read response", header + (4 if opcode in AETH_RESPONSES else 0)
    else:
        return None
    header += 4 if opcode in IMMEDIATE else 0
    return Packet(slid, kind, octets[header:len(octets) - padding - ICRC_BYTES - VCRC_BYTES], opcode in FIRST_OF_SEND, place)


def packets_of(path):
    for record in crc_check.records(pathlib.Path(path).read_bytes()):
        packet = packet_of(crc_check.erf_payload(record))
        if packet is not None:
            yield packet


def sums(packets):
    """{(SLID, kind): [packets, octets of payload]}."""
    found = collections.defaultdict(lambda: [0, 0])
    for packet in packets:
        found[packet.slid, packet.kind][0] += 1
        found[packet.slid, packet.kind][1] += len(packet.payload)
    return dict(found)
