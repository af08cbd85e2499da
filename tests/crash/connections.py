#!/usr/bin/env python3
"""Programs that connect and disconnect as quickly as they can, and kill -9 of them at random: weftd keeps nothing of them.

    connections.py [--smoke] [--count 100000] [--seed N]

Each host has a server, and clients of the two others. Counted are connections that were made and ended in good order, as clients
say. Afterwards no program, identifier, time-wait or descriptor is left, and weftd's memory has not grown beyond a bound.
"""
import os
import random
import select
import signal
import sys
import time

import crash
import weft_clients

HOSTS = ("h1", "h2", "h3")
AT_ONCE = 16                    # connections of a client that are on their way
CYCLES_OF_CLIENT = 1_000_000    # more than it will live for
KILLS_A_SECOND = 2.0            # policy, as are the next ones
MINUTES = 30
WARM_UP = 300                   # cycles after which weftd's memory is measured first: allocators keep what they had once
TIME_WAIT_SECONDS = 30          # how long the protocol may owe something after the last program
GROWTH_LIMIT_KIB = 24 * 1024    # what an allocator keeps of the busiest moment; 100,000 leaked ids would be four times as much


class Storm:
    """The programs that run now, and what they said."""

    def __init__(self, fabric, chance, ports):
        self.fabric, self.chance, self.program = fabric, chance, crash.program("connections")
        self.ports = {host: str(ports.take()) for host in HOSTS}
        self.running, self.said, self.rest = {}, {}, {}
        self.cycles, self.kills = 0, {"server": 0, "client": 0}
        for host in HOSTS:
            self.start(("server", host))
        for host in HOSTS:
            for peer in HOSTS:
                if peer != host:
                    self.start(("client", host, peer))

    def start(self, role):
        server = role[-1]
        arguments = [role[0], weft_clients.address_of(server), self.ports[server]]
        if role[0] == "client":
            arguments += [str(CYCLES_OF_CLIENT), str(AT_ONCE)]
        child = self.fabric.start(role[1], [self.program, *arguments])
        self.running[role], self.said[role], self.rest[role] = child, 0, b""

    def listen(self, seconds):
        """What clients say meanwhile."""
        by_descriptor = {child.stdout.fileno(): role for role, child in self.running.items()}
        ready, _, _ = select.select(list(by_descriptor), [], [], seconds)
        for descriptor in ready:
            role = by_descriptor[descriptor]
            piece = os.read(descriptor, 65536)
            crash.require(piece, lambda: f"{' '.join(role)} ended with {self.running[role].wait(5)}: {self.rest[role].decode()}")
            *lines, self.rest[role] = (self.rest[role] + piece).split(b"\n")
            for line in lines:
                words = line.decode().split()
                crash.require(words[0] in ("cycles", "listening"), lambda: f"{' '.join(role)} says: {line.decode()}")
                if words[0] == "cycles":
                    self.cycles += int(words[1]) - self.said[role]
                    self.said[role] = int(words[1])

    def kill(self, role):
        child = self.running.pop(role)
        crash.require(child.poll() is None, lambda: f"{' '.join(role)} had ended with {child.returncode}")
        os.kill(child.pid, signal.SIGKILL)
        child.wait(crash.SETTLE_SECONDS)
        child.stdout.close()
        self.fabric.children.remove(child)
        self.kills[role[0]] += 1

    def rage(self, cycles):
        """Until there were so many connections; somebody is killed now and then, and starts anew."""
        deadline, last, moved = time.monotonic() + 60 * MINUTES, self.cycles, time.monotonic()
        kill_at = time.monotonic() + self.chance.expovariate(KILLS_A_SECOND)
        while self.cycles < cycles:
            now = time.monotonic()
            crash.require(now < deadline, lambda: f"{self.cycles} connections in {MINUTES} minutes")
            if self.cycles != last:
                last, moved = self.cycles, now
            crash.require(now < moved + 60, lambda: f"no connection for a minute, after {self.cycles}")
            if now >= kill_at:
                role = self.chance.choice(list(self.running))
                self.kill(role)
                self.start(role)
                kill_at = now + self.chance.expovariate(KILLS_A_SECOND)
            self.listen(max(0, min(kill_at - now, 1)))

    def end(self):
        for role in list(self.running):
            self.kill(role)


def managers(fabric):
    """{host: (ids of RDMA-CM, of the connection manager)}, of those that hold something"""
    held = {entry["host"]: (entry["rdma_cm_ids"], entry["connection_ids"]) for entry in fabric.status()["managers"]}
    return {host: counts for host, counts in held.items() if counts != (0, 0)}


def resident(fabric):
    return crash.kibibytes(fabric.daemon, "status", "RssAnon")


def quiet(fabric, before):
    fabric.must_settle(before)
    crash.require(not fabric.status()["connections"], lambda: f"connections are left: {fabric.status()['connections']}")
    crash.wait_for(lambda: not managers(fabric), TIME_WAIT_SECONDS, lambda: f"managers still hold {managers(fabric)}")


def test(arguments):
    chance, ports = random.Random(arguments.seed), weft_clients.Ports()
    with crash.Fabric("star 3") as fabric:
        Storm(fabric, chance, ports).end()  # programs leave their files of sysfs
        time.sleep(0.5)
        before = fabric.belongings()
        storm = Storm(fabric, chance, ports)
        storm.rage(WARM_UP)
        storm.end()
        quiet(fabric, before)
        first = resident(fabric)
        storm, start = Storm(fabric, chance, ports), time.monotonic()
        storm.rage(arguments.count)
        seconds, at_work = time.monotonic() - start, resident(fabric)
        storm.end()
        quiet(fabric, before)
        last = resident(fabric)
        crash.require(last <= first + GROWTH_LIMIT_KIB, f"weftd had {first} KiB before and {last} KiB after {storm.cycles} connections")
    return (f"{storm.cycles} connections of {len(HOSTS) * 2} clients, {storm.cycles / seconds:.0f} a second, {storm.kills['server']} servers and "
            f"{storm.kills['client']} clients killed; weftd: {first} KiB before, {at_work} KiB at work, {last} KiB after; nothing was left")


if __name__ == "__main__":
    chosen = crash.arguments(__doc__, count=(100_000, 2_000))
    print(f"seed {chosen.seed}", flush=True)
    sys.exit(crash.main(lambda: test(chosen)))
