"""An iSCSI initiator of a few lines, for what no program does: raw CDBs, protection information, floods of logins, CHAP that was heard before.
RFC 7143; one connection, error recovery level 0, no digests."""
import hashlib
import socket
import struct

SECONDS = 10                     # policy: of each answer
NO_TAG = 0xFFFFFFFF
NAME = "iqn.2026-01.org.weft:plain"
NOP_IN, RESPONSE, LOGIN_RESPONSE, DATA_IN, R2T = 0x20, 0x21, 0x23, 0x25, 0x31
SECURITY, OPERATIONAL, FULL_FEATURE = 0, 1, 3
OPERATIONAL_KEYS = ("HeaderDigest=None", "DataDigest=None", "InitialR2T=Yes", "ImmediateData=No", "MaxRecvDataSegmentLength=262144", "ErrorRecoveryLevel=0")


class Refused(Exception):
    """A login that was refused; `status` is class and detail (RFC 7143 §11.13.5)."""

    def __init__(self, status):
        super().__init__(f"login refused with status {status:04x}h")
        self.status = status


class Connection:
    """One connection, until the end of a with block."""

    def __init__(self, port, target, host="127.0.0.1", isid=1):
        self.target, self.isid = target, isid
        self.socket = socket.create_connection((host, port), SECONDS)
        self.command_sn, self.status_sn, self.tag = 1, 0, 0

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.socket.close()

    def octets(self, count):
        octets = b""
        while len(octets) < count:
            part = self.socket.recv(count - len(octets))
            if not part:
                raise ConnectionError("the target has closed the connection")
            octets += part
        return octets

    def send(self, header, data=b""):
        self.socket.sendall(header[:5] + len(data).to_bytes(3, "big") + header[8:] + data + bytes(-len(data) % 4))

    def receive(self):
        """(basic header, data)"""
        header = self.octets(48)
        length = int.from_bytes(header[5:8], "big")
        return header, self.octets(length + -length % 4)[:length]

    def login_step(self, stage, next_stage, transit, keys):
        """The pairs of the answer."""
        flags = (0x80 if transit else 0) | stage << 2 | (next_stage if transit else 0)
        header = struct.pack(">BBBBIQIHHII16x", 0x43, flags, 0, 0, 0, (0x8000_0000_0000 | self.isid) << 16, 1, 0, 0, self.command_sn, self.status_sn)
        self.send(header, "".join(key + "\0" for key in keys).encode())
        header, data = self.receive()
        if header[0] & 0x3F != LOGIN_RESPONSE:
            raise ConnectionError(f"a login is answered with opcode {header[0]:02x}h")
        status = struct.unpack_from(">H", header, 36)[0]
        if status:
            raise Refused(status)
        self.status_sn = struct.unpack_from(">I", header, 24)[0] + 1
        return dict(pair.split("=", 1) for pair in data.decode().split("\0") if pair)

    def names(self):
        return [f"InitiatorName={NAME}", "SessionType=Normal", f"TargetName={self.target}"]

    def login(self):
        self.login_step(OPERATIONAL, FULL_FEATURE, True, [*self.names(), *OPERATIONAL_KEYS])
        return self

    def challenge(self, methods="CHAP", algorithm=5):
        """CHAP's first two steps: {CHAP_I, CHAP_C, ...}."""
        self.login_step(SECURITY, OPERATIONAL, False, [*self.names(), f"AuthMethod={methods}"])
        return self.login_step(SECURITY, OPERATIONAL, False, [f"CHAP_A={algorithm}"])

    def prove(self, name, response):
        self.login_step(SECURITY, OPERATIONAL, True, [f"CHAP_N={name}", f"CHAP_R=0x{response.hex()}"])

    def command(self, cdb, data_out=b"", expected=0):
        """(status, sense key and code as (key, code) or None, data-in) of a command."""
        self.tag += 1
        flags = 0x80 | (0x20 if data_out else 0x40 if expected else 0) | 1
        length = len(data_out) or expected
        extended = b""
        if len(cdb) > 16:
            rest = cdb[16:]
            extended = struct.pack(">HBB", len(rest) + 1, 1, 0) + rest
            extended += bytes(-len(extended) % 4)
        header = struct.pack(">BBHBBBBQIIII", 0x01, flags, 0, len(extended) // 4, 0, 0, 0, 0, self.tag, length, self.command_sn, self.status_sn)
        self.socket.sendall(header + cdb[:16].ljust(16, b"\0") + extended)
        self.command_sn += 1
        data_in = bytearray(expected)
        came = 0
        while True:
            header, data = self.receive()
            opcode = header[0] & 0x3F
            if opcode == R2T:
                self.send_data(header, data_out)
            elif opcode == DATA_IN:
                offset = struct.unpack_from(">I", header, 40)[0]
                data_in[offset:offset + len(data)] = data
                came = max(came, offset + len(data))
                if header[1] & 1:
                    self.status_sn += 1
                    return header[3], None, bytes(data_in[:came])
            elif opcode == RESPONSE:
                self.status_sn += 1
                sense = data[2:]
                return header[3], (sense[2] & 15, sense[12] << 8 | sense[13]) if sense else None, bytes(data_in[:came])
            elif opcode != NOP_IN:
                raise ConnectionError(f"a command is answered with opcode {opcode:02x}h")

    def send_data(self, request, data_out):
        tag, transfer_tag = struct.unpack_from(">II", request, 16)
        offset, length = struct.unpack_from(">II", request, 40)
        header = struct.pack(">BBHIQII4xI4xII4x", 0x05, 0x80, 0, 0, 0, tag, transfer_tag, self.status_sn, 0, offset)
        self.send(header, data_out[offset:offset + length])


def chap_response(identifier, secret, challenge):
    """RFC 1994 §4.1, by MD5; of CHAP_I and CHAP_C as they came."""
    return hashlib.md5(bytes([int(identifier)]) + secret.encode() + bytes.fromhex(challenge[2:])).digest()


def crc_t10_dif(block):
    """SBC-3 §4.22.4."""
    crc = 0
    for octet in block:
        crc ^= octet << 8
        for _ in range(8):
            crc = (crc << 1 ^ (0x8BB7 if crc & 0x8000 else 0)) & 0xFFFF
    return crc


def tuple_of(block, application_tag, reference_tag):
    """Protection information of a block (SBC-3 §4.22.3)."""
    return struct.pack(">HHI", crc_t10_dif(block), application_tag, reference_tag)


def block_cdb(opcode, protect, lba, blocks):
    """READ (16), WRITE (16) with RDPROTECT or WRPROTECT."""
    return struct.pack(">BBQIBB", opcode, protect << 5, lba, blocks, 0, 0)
