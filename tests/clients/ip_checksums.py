"""IP packets of IPoIB's connected mode (RFC 4755) in a capture, whole, and whether their checksums are right. Shares no code with Weft.

SENDs of several packets (IBTA vol 1 §9.3.1) are put together in the order of their PSNs.
"""
import struct

import crc_check

PSNS = 1 << 24
FIRST, MIDDLE, LAST, ONLY = 0, 1, 2, 4    # of SENDs over RC; over UC 0x20 more
TCP, UDP = 6, 17
NONE = b"\0\0"                            # of UDP over IPv4: no checksum (RFC 768)


def payloads(path):
    """((source LID, destination QP), opcode, PSN, payload) of every packet over RC or UC."""
    with open(path, "rb") as file:
        data = file.read()
    for record in crc_check.records(data):
        packet = crc_check.erf_payload(record)
        bth = 48 if packet[1] & 3 == crc_check.GLOBAL else 8
        opcode = packet[bth]
        if opcode >= 0x40:
            continue
        length = 4 * (struct.unpack(">H", packet[4:6])[0] & 0x7FF)
        qp, psn = (struct.unpack(">I", packet[bth + at:bth + at + 4])[0] & 0xFFFFFF for at in (4, 8))
        pad = packet[bth + 1] >> 4 & 3
        yield (struct.unpack(">H", packet[6:8])[0], qp), opcode & 0x1F, psn, packet[bth + 12:length - 4 - pad]


def messages(path):
    """The payload of each SEND that was captured whole, once."""
    parts = {}  # by connection: (next PSN, octets)
    for connection, opcode, psn, payload in payloads(path):
        if opcode == ONLY:
            yield payload
        elif opcode == FIRST:
            parts[connection] = ((psn + 1) % PSNS, payload)
        elif opcode in (MIDDLE, LAST) and connection in parts and parts[connection][0] == psn:
            octets = parts.pop(connection)[1] + payload
            if opcode == LAST:
                yield octets
            else:
                parts[connection] = ((psn + 1) % PSNS, octets)


def sum_of(octets):
    """RFC 1071."""
    octets += b"\0" * (len(octets) % 2)
    total = sum(struct.unpack(f">{len(octets) // 2}H", octets))
    while total > 0xFFFF:
        total = (total & 0xFFFF) + (total >> 16)
    return total


def check(path):
    """{"right": packets of TCP and UDP with a right checksum, "wrong": others, "longest": octets of IP, "reserved": headers that say something there}"""
    found = {"right": 0, "wrong": 0, "longest": 0, "reserved": 0}
    for message in messages(path):
        kind, reserved = struct.unpack(">HH", message[:4])
        packet = message[4:]
        if kind == 0x0800 and len(packet) >= 20:
            header = 4 * (packet[0] & 0xF)
            protocol, addresses = packet[9], packet[12:20]
        elif kind == 0x86DD and len(packet) >= 40:
            header, protocol, addresses = 40, packet[6], packet[8:40]
        else:
            continue
        if protocol not in (TCP, UDP) or (protocol == UDP and packet[header + 6:header + 8] == NONE):
            continue
        pseudo = addresses + struct.pack(">II", len(packet) - header, protocol)
        found["right" if sum_of(pseudo + packet[header:]) == 0xFFFF else "wrong"] += 1
        found["longest"] = max(found["longest"], len(packet))
        found["reserved"] += reserved != 0
    return found
