"""A resolver that is none, for a host's RDMA netlink: hangs, lies, answers twice or for others, or sends what is no message.

    odd_resolver.py MODE                        prints a line when it listens, and one for each question
    odd_resolver.py unprivileged DGID SGID      answers whatever may be asked, without the right to: a path between these GIDs

Run on a host (weft exec --ns). Messages are put together here from linux/rdma/rdma_netlink.h and ib_user_sa.h, not by code of Weft's.
"""
import ctypes
import ipaddress
import os
import socket
import struct
import sys
import time

NETLINK_RDMA, GROUP_LS = 20, 3
RESOLVE, FAILURE = 4 << 10, 4 << 10 | 0x100
DGID, SGID, PATH_RECORD = 4, 5, 1
PRIMARY, GMP, BIDIRECTIONAL = 2, 1, 8 | 32


def message(kind, sequence, payload=b""):
    return struct.pack("=IHHII", 16 + len(payload), kind, 0, sequence, 0) + payload


def attributes(payload):
    found, at = {}, 0
    while at + 4 <= len(payload):
        length, kind = struct.unpack_from("=HH", payload, at)
        if length < 4:
            break
        found[kind & 0x1FFF] = payload[at + 4:at + length]
        at += (length + 3) & ~3
    return found


def record(dgid, sgid, dlid):
    """A PathRecord (IBTA vol 1 §15.2.5.16) whose ends may be anybody's."""
    return struct.pack(">Q16s16sHHIBBHHBBB7x", 0, dgid, sgid, dlid, 0xBFFF, 0, 0, 0x80, 0xFFFF, 0, 0x84, 0x87, 0x92)


def path_answer(sequence, dgid, sgid, dlid):
    data = struct.pack("=II", PRIMARY | GMP | BIDIRECTIONAL, 0) + record(dgid, sgid, dlid)
    return message(RESOLVE, sequence, struct.pack("=HH", 4 + len(data), PATH_RECORD) + data)


def answers(mode, sequence, asked):
    stranger = bytes.fromhex("fe80000000000000") + b"\xAA" * 8
    dgid, sgid = asked.get(DGID, stranger), asked.get(SGID, stranger)
    return {
        "hangs": [],
        "lies": [path_answer(sequence, stranger, sgid, 0xBFFF)],
        "refuses-twice": [message(FAILURE, sequence)] * 2,
        "answers-others": [path_answer((sequence + step) & 0xFFFFFFFF, dgid, sgid, 0xBFFF) for step in range(1, 9)] + [message(FAILURE, sequence)],
        "garbage": [message(RESOLVE, sequence, b"\xFF" * 40), b"\x10\x00\x00", message(RESOLVE, sequence)],
    }[mode]


def give_up_privileges():
    """No capabilities (capset(2)), under the same user."""
    libc = ctypes.CDLL(None, use_errno=True)
    version_3 = struct.pack("=Ii", 0x20080522, 0)
    if libc.capset(version_3, bytes(24)) != 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))


def guess(dgid, sgid):
    """Until its end answers the questions with the numbers that a kernel side may have come to."""
    give_up_privileges()
    listener = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, NETLINK_RDMA)
    listener.bind((0, 1 << GROUP_LS - 1))
    listener.setblocking(False)
    print("listens", flush=True)
    while True:
        for sequence in range(1, 200):
            listener.sendto(path_answer(sequence, dgid, sgid, 0xBFFF), (0, 0))
        try:
            while listener.recv(65536):
                pass
        except BlockingIOError:
            time.sleep(0.05)


def main():
    mode = sys.argv[1]
    if mode == "unprivileged":
        guess(*(ipaddress.IPv6Address(word).packed for word in sys.argv[2:4]))
    listener = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, NETLINK_RDMA)
    listener.bind((0, 1 << GROUP_LS - 1))
    print("listens", flush=True)
    while True:
        datagram = listener.recv(65536)
        _, kind, _, sequence, _ = struct.unpack_from("=IHHII", datagram)
        if kind == RESOLVE:
            print("asked", flush=True)
            for answer in answers(mode, sequence, attributes(datagram[16 + 68:])):
                listener.sendto(answer, (0, 0))


if __name__ == "__main__":
    main()
