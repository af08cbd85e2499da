"""SRP by the tables of its units alone: what crosses a link is decoded and judged, whoever sent it. Shares no code with Weft.

Offsets and widths are those of SRP revision 16a and SRP-2 (immediate data), of IBTA vol 1 chapter 12 (the CM's REQ, REJ and REP) and
§16.3.3 (device management). srp.py judges live captures of Weft by it, srp_tables_test.py golden ones of Linux.
"""
import dataclasses
import pathlib
import struct

import crc_check

# (name, octet, bit in it, bits), in order and without a hole; a name of "" is reserved: sent as zero.
LOGIN_REQ = (("opcode", 0, 0, 8), ("", 1, 0, 56), ("tag", 8, 0, 64), ("iu length", 16, 0, 32), ("", 20, 0, 32), ("formats", 24, 0, 16), ("immediate", 26, 0, 1),
             ("", 26, 1, 5), ("multichannel", 26, 6, 2), ("", 27, 0, 8), ("immediate offset", 28, 0, 16), ("", 30, 0, 16), ("initiator", 32, 0, 128),
             ("target", 48, 0, 128))
LOGIN_REQ_RDMA_CM = (("tag", 0, 0, 64), ("formats", 8, 0, 16), ("immediate", 10, 0, 1), ("", 10, 1, 5), ("multichannel", 10, 6, 2), ("opcode", 11, 0, 8),
                     ("iu length", 12, 0, 32), ("initiator", 16, 0, 128), ("target", 32, 0, 128), ("immediate offset", 48, 0, 16), ("", 50, 0, 48))
LOGIN_RSP = (("opcode", 0, 0, 8), ("", 1, 0, 24), ("delta", 4, 0, 32), ("tag", 8, 0, 64), ("iu length", 16, 0, 32), ("answer length", 20, 0, 32),
             ("formats", 24, 0, 16), ("immediate", 26, 0, 1), ("", 26, 1, 5), ("multichannel", 26, 6, 2), ("", 27, 0, 200))
LOGIN_REJ = (("opcode", 0, 0, 8), ("", 1, 0, 24), ("reason", 4, 0, 32), ("tag", 8, 0, 64), ("", 16, 0, 64), ("formats", 24, 0, 16), ("", 26, 0, 48))
TAG_ONLY = (("opcode", 0, 0, 8), ("", 1, 0, 56), ("tag", 8, 0, 64))
T_LOGOUT = (("opcode", 0, 0, 8), ("notice", 1, 0, 8), ("", 2, 0, 16), ("reason", 4, 0, 32), ("tag", 8, 0, 64))
TSK_MGMT = (("opcode", 0, 0, 8), ("notice", 1, 0, 8), ("", 2, 0, 48), ("tag", 8, 0, 64), ("", 16, 0, 32), ("lun", 20, 0, 64), ("", 28, 0, 16),
            ("function", 30, 0, 8), ("", 31, 0, 8), ("task", 32, 0, 64), ("", 40, 0, 64))
CMD = (("opcode", 0, 0, 8), ("notice", 1, 0, 8), ("", 2, 0, 24), ("out format", 5, 0, 4), ("in format", 5, 4, 4), ("out count", 6, 0, 8), ("in count", 7, 0, 8),
       ("tag", 8, 0, 64), ("", 16, 0, 32), ("lun", 20, 0, 64), ("", 28, 0, 8), ("attribute", 29, 0, 8), ("", 30, 0, 8), ("more cdb", 31, 0, 6), ("", 31, 6, 2),
       ("cdb", 32, 0, 128))
RSP = (("opcode", 0, 0, 8), ("notice", 1, 0, 8), ("", 2, 0, 16), ("delta", 4, 0, 32), ("tag", 8, 0, 64), ("", 16, 0, 16), ("flags", 18, 0, 8),
       ("status", 19, 0, 8), ("out residual", 20, 0, 32), ("in residual", 24, 0, 32), ("sense length", 28, 0, 32), ("response length", 32, 0, 32))
CRED_REQ = (("opcode", 0, 0, 8), ("notice", 1, 0, 8), ("", 2, 0, 16), ("delta", 4, 0, 32), ("tag", 8, 0, 64))
AER_REQ = (("opcode", 0, 0, 8), ("notice", 1, 0, 8), ("", 2, 0, 16), ("delta", 4, 0, 32), ("tag", 8, 0, 64), ("", 16, 0, 32), ("lun", 20, 0, 64),
           ("sense length", 28, 0, 32), ("", 32, 0, 32))
DIRECT = (("address", 0, 0, 64), ("key", 8, 0, 32), ("length", 12, 0, 32))
INDIRECT = (*DIRECT, ("total", 16, 0, 32))
# opcode: (name, octets, table, who sends it)
UNITS = {0x00: ("LOGIN_REQ", 64, LOGIN_REQ, "initiator"), 0x01: ("TSK_MGMT", 48, TSK_MGMT, "initiator"), 0x02: ("CMD", 48, CMD, "initiator"),
         0x03: ("I_LOGOUT", 16, TAG_ONLY, "initiator"), 0x41: ("CRED_RSP", 16, TAG_ONLY, "initiator"), 0x42: ("AER_RSP", 16, TAG_ONLY, "initiator"),
         0x80: ("T_LOGOUT", 16, T_LOGOUT, "target"), 0x81: ("CRED_REQ", 16, CRED_REQ, "target"), 0x82: ("AER_REQ", 36, AER_REQ, "target"),
         0xC0: ("LOGIN_RSP", 52, LOGIN_RSP, "target"), 0xC1: ("RSP", 36, RSP, "target"), 0xC2: ("LOGIN_REJ", 32, LOGIN_REJ, "target")}
FUNCTIONS, RESPONSES = (0x01, 0x02, 0x04, 0x08, 0x40), (0, 1, 2, 4, 5)
NONE, AS_DIRECT, AS_INDIRECT, AS_IMMEDIATE = range(4)
RSP_VALID, SNS_VALID = 0x01, 0x02

IO_UNIT_INFO = (("change", 0, 0, 16), ("slots", 2, 0, 8), ("flags", 3, 0, 8), ("controllers", 4, 0, 1024), ("", 132, 0, 480))
IOC_PROFILE = (("guid", 0, 0, 64), ("vendor", 8, 0, 32), ("device", 12, 0, 32), ("version", 16, 0, 16), ("", 18, 0, 16), ("subsystem vendor", 20, 0, 32),
               ("subsystem", 24, 0, 32), ("class", 28, 0, 16), ("subclass", 30, 0, 16), ("protocol", 32, 0, 16), ("protocol version", 34, 0, 16),
               ("", 36, 0, 16), ("initiators", 38, 0, 16), ("depth", 40, 0, 16), ("", 42, 0, 8), ("reads", 43, 0, 8), ("message size", 44, 0, 32),
               ("transfer size", 48, 0, 32), ("operations", 52, 0, 8), ("services mask", 53, 0, 8), ("services", 54, 0, 8), ("", 55, 0, 72), ("text", 64, 0, 512),
               ("", 128, 0, 512))
SERVICE_ENTRIES = tuple(row for at in (0, 48, 96, 144) for row in ((f"name {at // 48}", at, 0, 320), (f"service {at // 48}", at + 40, 0, 64)))
DEVICE_MANAGEMENT, DM_DATA, DM_OCTETS = 0x06, 64, 192
DM_ATTRIBUTES = {0x10: IO_UNIT_INFO, 0x11: IOC_PROFILE, 0x12: SERVICE_ENTRIES}

MAD_HEADER, CM_CLASS = 24, 0x07
# Of the CM's messages with data of their users: attribute: (name, first octet of the data behind the MAD header, octets).
CM_MESSAGES = {0x10: ("REQ", 140, 92), 0x12: ("REJ", 84, 148), 0x13: ("REP", 36, 196), 0x14: ("RTU", 8, 224), 0x15: ("DREQ", 12, 220), 0x16: ("DREP", 8, 224)}
RDMA_CM_HEADER = 36              # before the data of a REQ whose service ID is RDMA-CM's
RDMA_CM_SERVICE = 0x0000000001
CONSUMER_REJECT = 28


def decode(table, octets):
    """({name: value}, [fault])."""
    fields, faults, covered = {}, [], 0
    for name, octet, bit, bits in table:
        start = octet * 8 + bit
        assert start == covered, f"the table has a hole before {octet}.{bit}"
        covered = start + bits
        if (covered + 7) // 8 > len(octets):
            return fields, [*faults, f"{len(octets)} octets end before octet {octet}"]
        span = octets[octet:(covered + 7) // 8]
        value = int.from_bytes(span, "big") >> (-covered % 8) & ((1 << bits) - 1)
        if name:
            fields[name] = value
        elif value:
            faults.append(f"reserved at octet {octet} is {value:#x}")
    return fields, faults


def buffers_of(fields, unit, immediate_offset, faults):
    """{"out" or "in": (length, [(address, key, length)])} of a command; what does not fit is a fault."""
    found, at = {}, 48 + 4 * fields["more cdb"]
    for side in ("out", "in"):
        kind, count, pieces = fields[f"{side} format"], fields[f"{side} count"], []
        if kind == AS_DIRECT:
            piece, wrong = decode(DIRECT, unit[at:at + 16])
            faults += wrong
            if count not in (0, 1):
                faults.append(f"{count} direct descriptors")
            if not wrong:
                pieces, at = [tuple(piece.values())], at + 16
                found[side] = (piece["length"], pieces)
        elif kind == AS_INDIRECT:
            head, wrong = decode(INDIRECT, unit[at:at + 20])
            faults += wrong
            at += 20
            for _ in range(count if not wrong else 0):
                piece, wrong = decode(DIRECT, unit[at:at + 16])
                faults += wrong
                pieces.append(tuple(piece.values()))
                at += 16
            if not wrong:
                if head["length"] % 16 or head["length"] // 16 < count:
                    faults.append(f"a table of {head['length']} octets, {count} of its descriptors in the unit")
                if head["length"] // 16 == count and sum(piece[2] for piece in pieces) != head["total"]:
                    faults.append("the descriptors' sum is not the total length")
                # The table in memory is read by the target, too.
                found[side] = (head["total"], [*pieces, (head["address"], head["key"], head["length"])])
        elif kind == AS_IMMEDIATE:
            if side == "in":
                faults.append("immediate data-in")
            if at + 4 > len(unit) or at + 4 > immediate_offset:
                faults.append("no room for an immediate descriptor")
                continue
            length = int.from_bytes(unit[at:at + 4], "big")
            at = immediate_offset + length
            found[side] = (length, [])
        elif kind != NONE:
            faults.append(f"descriptor format {kind}")
    if at != len(unit):
        faults.append(f"a command of {at} octets in {len(unit)}")
    return found


def decode_unit(unit, immediate_offset=68):
    """(name, fields, faults) of what a SEND carries."""
    if not unit or unit[0] not in UNITS:
        return "?", {}, [f"no opcode of SRP: {unit[:1].hex()}"]
    name, octets, table, _ = UNITS[unit[0]]
    fields, faults = decode(table, unit)
    if len(unit) < octets:
        return name, fields, faults or [f"{len(unit)} octets of {octets}"]
    length = octets
    if name == "CMD":
        fields["buffers"] = buffers_of(fields, unit, immediate_offset, faults)
        return name, fields, faults
    if name == "RSP":
        length += fields["response length"] if fields["flags"] & RSP_VALID else 0
        length += fields["sense length"] if fields["flags"] & SNS_VALID else 0
        if fields["flags"] & 0xC0:
            faults.append(f"flags {fields['flags']:#x}")
        if fields["flags"] & RSP_VALID:
            fields["code"] = unit[39] if len(unit) > 39 else None
            if fields["response length"] != 4 or fields["code"] not in RESPONSES:
                faults.append(f"response data of {fields['response length']} octets, code {fields['code']}")
    elif name == "AER_REQ":
        length += fields["sense length"]
    elif name == "TSK_MGMT" and fields["function"] not in FUNCTIONS:
        faults.append(f"function {fields['function']:#x}")
    if len(unit) != length:
        faults.append(f"{len(unit)} octets instead of {length}")
    return name, fields, faults


@dataclasses.dataclass(frozen=True)
class Message:
    sender: object               # LID or IP address
    kind: str                    # send, read, write, or the name of a CM message
    octets: bytes = b""          # of a SEND the unit, of a CM message what is behind the MAD header
    place: tuple = ()            # of a READ or WRITE: address, key, length
    qp: int = 0                  # that it goes to
    at: float = 0                # seconds, where the capture says so: when it left the sender


@dataclasses.dataclass(frozen=True)
class Managed:
    """A device management MAD's answer."""
    attribute: int
    modifier: int
    data: bytes


def transports(path):
    """(sender, octets from the BTH to the payload's end with its padding, seconds) of each packet of a capture: ERF records, or RoCE v2 in Ethernet."""
    data = pathlib.Path(path).read_bytes()
    order = "<" if data[:4] in (b"\xd4\xc3\xb2\xa1", b"\x4d\x3c\xb2\xa1") else ">"  # microseconds or nanoseconds
    if struct.unpack(order + "I", data[20:24])[0] & 0x0FFFFFFF == crc_check.PCAP_LINK_TYPE_ERF:
        for record in crc_check.records(data):
            packet = crc_check.erf_payload(record)
            start = {crc_check.LOCAL: 8, crc_check.GLOBAL: 48}.get(packet[1] & 3)
            if start is not None:
                yield int.from_bytes(packet[6:8], "big"), packet[start:-6], int.from_bytes(record[:8], "little") / (1 << 32)
        return
    at = 24
    while at + 16 <= len(data):
        length, = struct.unpack(order + "I", data[at + 8:at + 12])
        frame, at = data[at + 16:at + 16 + length], at + 16 + length
        if frame[12:14] == b"\x08\x00" and frame[14] == 0x45 and frame[23] == 17 and frame[36:38] == b"\x12\xb7":
            end = 14 + int.from_bytes(frame[16:18], "big")
            yield frame[26:30], frame[42:end - 4], 0


def messages(path):
    """Each Message and Managed of a capture, in order: SENDs whole, a packet that was sent again once."""
    parts, seen = {}, set()
    for sender, packet, time in transports(path):
        opcode, padding, qp, psn = packet[0], packet[1] >> 4 & 3, int.from_bytes(packet[5:8], "big"), int.from_bytes(packet[9:12], "big")
        body = packet[12:len(packet) - padding]
        if opcode == 0x64 and qp == 1 and len(body) >= 8 + 256:
            mad = body[8:8 + 256]
            attribute = int.from_bytes(mad[16:18], "big")
            if mad[1] == CM_CLASS and attribute in CM_MESSAGES:
                yield Message(sender, CM_MESSAGES[attribute][0], mad[MAD_HEADER:], at=time)
            elif mad[1] == DEVICE_MANAGEMENT and mad[3] & 0x80 and mad[4:6] == b"\0\0" and attribute in DM_ATTRIBUTES:
                yield Managed(attribute, int.from_bytes(mad[20:24], "big"), mad[DM_DATA:DM_DATA + DM_OCTETS])
            continue
        if opcode > 0x1F or (sender, qp, opcode, psn) in seen:
            continue
        if opcode <= 0x05 or opcode in (0x16, 0x17):
            seen.add((sender, qp, opcode, psn))
            body = body[4:] if opcode in (0x03, 0x05, 0x16, 0x17) else body
            parts[sender, qp] = body if opcode in (0x00, 0x04, 0x05, 0x17) else parts.get((sender, qp), b"") + body
            if opcode not in (0x00, 0x01):
                yield Message(sender, "send", parts.pop((sender, qp)), qp=qp, at=time)
        elif opcode in (0x06, 0x0A, 0x0B, 0x0C):
            seen.add((sender, qp, opcode, psn))
            yield Message(sender, "read" if opcode == 0x0C else "write", place=struct.unpack(">QII", body[:16]), qp=qp, at=time)


class Session:
    """One connection, from its REQ or from where a capture begins."""

    def __init__(self, initiator=None):
        self.initiator, self.target, self.qps = initiator, None, {}  # qps: {QP number: whose it is}
        self.faults, self.counts = [], dict.fromkeys(("login", "refusal", "read", "write", "immediate", "marker", "abort", "reset", "logout", "end"), 0)
        self.credits, self.immediate_offset, self.longest, self.login_tag = None, 68, None, None
        self.commands, self.tasks, self.logged_out = {}, {}, False

    def fault(self, words):
        self.faults.append(words)

    def take_cm(self, message):
        attribute = next(number for number, row in CM_MESSAGES.items() if row[0] == message.kind)
        _, start, octets = CM_MESSAGES[attribute]
        data = message.octets[start:start + octets]
        if message.kind == "REQ":
            service = int.from_bytes(message.octets[8:16], "big")
            self.qps[int.from_bytes(message.octets[32:35], "big")] = "initiator"
            by_rdma_cm = service >> 24 == RDMA_CM_SERVICE and service >> 16 != 0x013F
            table, at, size = (LOGIN_REQ_RDMA_CM, RDMA_CM_HEADER, 56) if by_rdma_cm else (LOGIN_REQ, 0, 64)
            fields, faults = decode(table, data[at:at + size])
            self.faults += [f"LOGIN_REQ: {fault}" for fault in faults]
            if fields["opcode"] != 0x00 or not fields["formats"] & 0x06 or fields["formats"] & ~0x06 or any(data[at + size:]):
                self.fault(f"LOGIN_REQ: {fields}")
            self.login_tag, self.wanted = fields["tag"], fields
            self.immediate_offset = fields["immediate offset"] or self.immediate_offset
        elif message.kind == "REP":
            self.target = message.sender
            self.qps[int.from_bytes(message.octets[12:15], "big")] = "target"
            name, fields, faults = decode_unit(data[:52])
            self.faults += [f"LOGIN_RSP: {fault}" for fault in faults]
            if name != "LOGIN_RSP" or fields["tag"] != self.login_tag or fields["formats"] & ~self.wanted["formats"] & ~0x06 or any(data[52:]):
                self.fault(f"{name}: {fields}, the request was {self.wanted}")
                return
            if fields["immediate"] and not self.wanted["immediate"] or fields["iu length"] < self.wanted["iu length"]:
                self.fault(f"LOGIN_RSP: {fields}, the request was {self.wanted}")
            self.credits, self.longest = fields["delta"], min(fields["iu length"], self.wanted["iu length"])
            self.counts["login"] += 1
        elif message.kind == "REJ" and int.from_bytes(message.octets[10:12], "big") == CONSUMER_REJECT:
            name, fields, faults = decode_unit(data[:32])
            self.faults += [f"LOGIN_REJ: {fault}" for fault in faults]
            if name != "LOGIN_REJ" or not 0x00010000 <= fields["reason"] <= 0x00010006:
                self.fault(f"{name}: {fields}")
            self.counts["refusal"] += 1
        elif message.kind == "DREQ":
            self.counts["end"] += 1

    def spend(self, name):
        if self.credits is not None:
            self.credits -= 1
            if self.credits < 0:
                self.fault(f"{name} without a credit")

    def take_unit(self, message):
        name, fields, faults = decode_unit(message.octets, self.immediate_offset)
        self.faults += [f"{name}: {fault}" for fault in faults]
        if name == "?" or faults:
            return
        by_initiator = UNITS[message.octets[0]][3] == "initiator"
        if self.initiator is None:
            self.initiator = message.sender if by_initiator else None
        if by_initiator != (message.sender == self.initiator):
            self.fault(f"{name} by the wrong end")
        if by_initiator and self.longest is not None and len(message.octets) > self.longest:
            self.fault(f"{name} of {len(message.octets)} octets, {self.longest} go")
        tag = fields["tag"]
        if name in ("CMD", "TSK_MGMT"):
            self.spend(name)
            if tag in self.commands or tag in self.tasks:
                self.fault(f"{name}: tag {tag:#x} is in use")
            (self.commands if name == "CMD" else self.tasks)[tag] = fields
            if name == "CMD":
                for side, kind in (("out", "write"), ("in", "read")):
                    self.counts[kind] += side in fields["buffers"]
                self.counts["immediate"] += fields["out format"] == AS_IMMEDIATE
            else:
                self.counts["abort"] += fields["function"] == 0x01
                self.counts["reset"] += fields["function"] == 0x08
        elif name == "RSP":
            self.answer(tag, fields)
        elif name in ("CRED_REQ", "AER_REQ") and self.credits is not None:
            self.credits += fields["delta"]
        elif name in ("I_LOGOUT", "T_LOGOUT"):
            self.counts["logout"] += 1
            self.logged_out = True

    def answer(self, tag, fields):
        if self.credits is not None:
            self.credits += fields["delta"] - (1 << 32 if fields["delta"] >> 31 else 0)
        if tag in self.tasks:
            task = self.tasks.pop(tag)
            if "code" not in fields:
                self.fault("a task management function's RSP without response data")
            elif fields["code"] == 0 and task["function"] == 0x01:
                self.commands.pop(task["task"], None)
            elif fields["code"] == 0:
                self.commands = {each: command for each, command in self.commands.items() if command["lun"] != task["lun"]}
        elif self.commands.pop(tag, None) is None:
            self.fault(f"RSP: tag {tag:#x} is of no command")

    def take_transfer(self, message):
        address, key, length = message.place
        if message.sender == self.initiator:
            self.fault(f"the initiator moves data: {message.kind}")
        if length == 0:                                          # R-SRPT-10: a marker
            if message.kind != "write" or key or address:
                self.fault(f"a marker as a {message.kind} at {address:#x} under {key:#x}")
            self.counts["marker"] += 1
            return
        side = "out" if message.kind == "read" else "in"
        pieces = [piece for command in self.commands.values() if side in command["buffers"] for piece in command["buffers"][side][1]]
        # Of a table whose descriptors are not all in the unit the others are not known here.
        tables = any(command[f"{each} format"] == AS_INDIRECT for command in self.commands.values() for each in ("out", "in"))
        inside = any(key == its_key and start <= address and address + length <= start + octets for start, its_key, octets in pieces)
        if not inside and not tables:
            self.fault(f"{message.kind} of {length} octets at {address:#x} under {key:#x}, which no descriptor allows")

    def finish(self):
        if (self.logged_out or self.counts["end"]) and self.tasks:
            self.fault(f"{len(self.tasks)} functions are not answered")
        return self


def sessions_of(paths):
    """Every Session in captures that follow one another; those of which a capture has no REQ are one."""
    by_ids, by_qps, others, found = {}, {}, None, []
    for message in (each for path in paths for each in messages(path) if isinstance(each, Message)):
        if message.kind in ("send", "read", "write"):
            session = by_qps.get((message.qp, message.sender))
            if session is None:
                others = others or Session()
                session = others
            (session.take_unit if message.kind == "send" else session.take_transfer)(message)
            continue
        local, remote = (int.from_bytes(message.octets[at:at + 4], "big") for at in (0, 4))
        if message.kind == "REQ":
            if (message.sender, local) in by_ids:
                continue                                         # sent again
            session = by_ids[message.sender, local] = Session(message.sender)
            session.id = local
            found.append(session)
        else:
            session = next((each for each in found if each.id in (local, remote)), None)
        if session is None or (message.kind == "REP" and session.target is not None):
            continue
        session.take_cm(message)
        for qp, whose in session.qps.items():
            by_qps.update({(qp, sender): session for sender in (session.initiator, session.target) if sender is not None})
    return [session.finish() for session in (*found, *([others] if others else []))]


def judge(paths):
    """({what: how often}, [fault]) of all sessions."""
    sums, faults = {}, []
    for session in sessions_of(paths):
        faults += session.faults
        for name, count in session.counts.items():
            sums[name] = sums.get(name, 0) + count
    return sums, faults


def judge_management(path):
    """({(attribute, modifier): fields}, [fault]) of device management's answers."""
    found, faults = {}, []
    for message in messages(path):
        if isinstance(message, Managed):
            fields, wrong = decode(DM_ATTRIBUTES[message.attribute], message.data)
            found[message.attribute, message.modifier] = fields
            faults += [f"attribute {message.attribute:#x}: {fault}" for fault in wrong]
    return found, faults
