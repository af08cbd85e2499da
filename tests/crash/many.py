#!/usr/bin/env python3
"""Processes all to all on one fabric, an RC QP each way per pair: every message arrives whole, and the fabric costs little.

    many.py [--smoke] [--processes 64] [--messages 4]

Measured while the programs live, connected and idle: shared memory of all of them and of weftd (each page counted once, by
Pss_Shmem), and the CPU time that all of them take together.
"""
import os
import select
import sys
import time

import crash

ANSWER_SECONDS = 60             # policy: for everybody's next line; a machine with few CPUs runs them all
IDLE_SECONDS = 5
SHARED_MEMORY_LIMIT = 1 << 30   # bytes
IDLE_CPU_LIMIT = 0.01           # of one CPU


def lines_of(programs, what):
    """One line of every program, within the bound."""
    deadline, lines, pending = time.monotonic() + ANSWER_SECONDS, {}, {program.stdout.fileno(): number for number, program in enumerate(programs)}
    partial = dict.fromkeys(pending, b"")
    while pending:
        ready, _, _ = select.select(list(pending), [], [], max(deadline - time.monotonic(), 0))
        crash.require(ready, lambda: f"{what}: {len(pending)} of {len(programs)} programs did not answer in {ANSWER_SECONDS} s")
        for descriptor in ready:
            piece = os.read(descriptor, 65536)
            number = pending[descriptor]
            crash.require(piece, lambda: f"{what}: program {number} ended with {programs[number].wait(5)}")
            partial[descriptor] += piece
            if piece.endswith(b"\n"):
                lines[number] = partial[descriptor].decode().split()
                del pending[descriptor]
    return [lines[number] for number in range(len(programs))]


def tell(program, text):
    program.stdin.write(text + "\n")
    program.stdin.flush()


def run_programs(fabric, count, messages):
    """All messages sent and checked; returns the programs, alive."""
    programs = [fabric.converse(f"h{rank + 1}", [crash.program("all_to_all"), str(rank), str(count), str(messages)]) for rank in range(count)]
    addresses = lines_of(programs, "addresses")  # LID, then the QPN that is for each rank
    for rank, program in enumerate(programs):
        tell(program, "\n".join(f"{peer[0]} {peer[1 + rank]}" for peer in addresses))
    lines_of(programs, "connections")
    for program in programs:
        tell(program, "0 0")
    lines_of(programs, "messages")
    return programs


def measure(fabric, programs):
    """(bytes of shared memory, CPU time while idle in parts of a CPU)"""
    everybody = [fabric.daemon, *(program.pid for program in programs)]
    shared = 1024 * sum(crash.kibibytes(pid, "smaps_rollup", "Pss_Shmem") for pid in everybody)
    time.sleep(1)  # the last acknowledgements
    before, start = [crash.cpu_seconds(pid) for pid in everybody], time.monotonic()
    time.sleep(IDLE_SECONDS)
    seconds = time.monotonic() - start
    spent = [crash.cpu_seconds(pid) - earlier for pid, earlier in zip(everybody, before)]
    crash.require(all(crash.is_running(pid) for pid in everybody), "a program ended while it was to be idle")
    return shared, sum(spent) / seconds


def test(arguments):
    count = 16 if arguments.smoke else arguments.processes
    with crash.Fabric(f"star {count}") as fabric:
        start = time.monotonic()
        programs = run_programs(fabric, count, arguments.messages)
        seconds = time.monotonic() - start
        crash.require(len(fabric.programs()) == count, "weft status does not list every program")
        shared, idle = measure(fabric, programs)
        figures = (f"{count} processes, {count * (count - 1)} QPs: {count * (count - 1) * arguments.messages} messages right in {seconds:.1f} s, "
                   f"{shared / 2**20:.1f} MiB of shared memory, {100 * idle:.3f} % of a CPU when idle")
        crash.require(shared < SHARED_MEMORY_LIMIT, f"too much shared memory: {figures}")
        crash.require(idle < IDLE_CPU_LIMIT, f"not idle: {figures}")
        for program in programs:
            program.stdin.close()
        crash.require(all(program.wait(ANSWER_SECONDS) == 0 for program in programs), "a program failed at its end")
        crash.wait_for(lambda: not fabric.programs(), crash.SETTLE_SECONDS, "weft status lists programs that have ended")
    return figures


if __name__ == "__main__":
    chosen = crash.arguments(__doc__, options=[("--processes", {"type": int, "default": 64, "help": "how many (default 64)"}),
                                               ("--messages", {"type": int, "default": 4, "help": "each way over each QP (default 4)"})])
    sys.exit(crash.main(lambda: test(chosen)))
