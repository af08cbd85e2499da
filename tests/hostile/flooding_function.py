#!/usr/bin/env python3
"""A virtual function that floods the port which it shares, by the host's umad device: each KIND of MAD as fast as it can, answers unread.

    flooding_function.py SA_LID OWN_GID OTHER_GID COUNT KIND...

    joins       COUNT groups, each another one, from OWN_GID
    foreign     joins in the name of OTHER_GID, which another function has
    tables      GetTable of all nodes, by RMPP, whose segments are never acknowledged
    requests    REQs of CM to OTHER_GID's port, each with another communication ID, never continued
    qp0         SMPs by QP0

At its end it says how many of each it has sent; a send that its device refused is not counted.
"""
import ctypes
import ipaddress
import os
import struct
import sys

CLASS_SA, CLASS_CM, CLASS_SMP = 3, 7, 1
GET, SET, SEND, GET_TABLE = 1, 2, 3, 0x12
NODE_RECORD, MEMBER_RECORD, PATH_RECORD, REQ, NODE_INFO = 0x11, 0x38, 0x35, 0x10, 0x11
GSI_QKEY = 0x80010000
# MGID, PortGID, Q_Key, P_Key, TClass, SL, FlowLabel and JoinState: what makes a group (IBTA vol 1 §15.2.5.17)
TO_MAKE = 1 << 0 | 1 << 1 | 1 << 2 | 1 << 6 | 1 << 7 | 1 << 12 | 1 << 13 | 1 << 16
MAD_BYTES = 256


def umad():
    library = ctypes.CDLL("libibumad.so.3", use_errno=True)
    library.umad_size.restype = ctypes.c_size_t
    library.umad_send.argtypes = [ctypes.c_int, ctypes.c_int, ctypes.c_void_p, ctypes.c_int, ctypes.c_int, ctypes.c_int]
    library.umad_set_addr.argtypes = [ctypes.c_void_p, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_int]
    return library


def header(mgmt_class, version, method, transaction, attribute):
    return struct.pack(">BBBBHHQHHI", 1, mgmt_class, version, method, 0, 0, transaction, attribute, 0, 0)


def sa(method, transaction, attribute, mask=0, record=b""):
    data = header(CLASS_SA, 2, method, transaction, attribute) + struct.pack(">BBBBII", 1 if method == GET_TABLE else 0, 0, 0, 0, 0, 0)
    return (data + struct.pack(">QHHQ", 0, 0, 0, mask) + record).ljust(MAD_BYTES, b"\0")


def join(number, port_gid):
    group = struct.pack(">QQ", 0xFF124077FFFF0000, number)
    record = group + port_gid + struct.pack(">IHBBHBBIBB", 0x0B1B, 0, 0, 0, 0xFFFF, 0, 0, 0, 0x21, 0)
    return sa(SET, number, MEMBER_RECORD, TO_MAKE, record)


class Flood:
    def __init__(self, sa_lid, own, other):
        self.umad, self.sa_lid, self.own, self.other = umad(), sa_lid, own, other
        if self.umad.umad_init() < 0:
            raise OSError("umad_init")
        self.port = self.umad.umad_open_port(None, 1)
        if self.port < 0:
            raise OSError(-self.port, os.strerror(-self.port))
        self.agents = {kind: self.umad.umad_register(self.port, kind, version, 0, None) for kind, version in ((CLASS_SA, 2), (CLASS_CM, 2), (CLASS_SMP, 1))}
        if min(self.agents.values()) < 0:
            raise OSError(f"umad_register: {self.agents}")
        self.header = self.umad.umad_size()

    def send(self, mgmt_class, mad):
        buffer = ctypes.create_string_buffer(self.header + len(mad))
        self.umad.umad_set_addr(buffer, self.sa_lid, 0 if mgmt_class == CLASS_SMP else 1, 0, ctypes.c_int32(0 if mgmt_class == CLASS_SMP else GSI_QKEY - (1 << 32)).value)
        self.umad.umad_set_pkey(buffer, 0)
        ctypes.memmove(ctypes.addressof(buffer) + self.header, mad, len(mad))
        return self.umad.umad_send(self.port, self.agents[mgmt_class], buffer, len(mad), 0, 0) >= 0

    def mad(self, kind, number):
        """(class, MAD) of the number-th one."""
        if kind == "joins":
            return CLASS_SA, join(number, self.own)
        if kind == "foreign":
            return CLASS_SA, join(number, self.other)
        if kind == "tables":
            return CLASS_SA, sa(GET_TABLE, number, NODE_RECORD)
        if kind == "requests":  # of which the manager of ids reads the local communication ID, at the start of the data
            return CLASS_CM, (header(CLASS_CM, 2, SEND, number, REQ) + struct.pack(">I", number)).ljust(MAD_BYTES, b"\0")
        return CLASS_SMP, header(CLASS_SMP, 1, GET, number, NODE_INFO).ljust(MAD_BYTES, b"\0")


def main():
    sa_lid, own, other, count, *kinds = sys.argv[1:]
    flood = Flood(int(sa_lid), ipaddress.ip_address(own).packed, ipaddress.ip_address(other).packed)
    for kind in kinds:
        sent = sum(flood.send(*flood.mad(kind, number)) for number in range(1, int(count) + 1))
        print(f"{kind}: {sent}", flush=True)


if __name__ == "__main__":
    main()
