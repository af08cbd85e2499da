#!/usr/bin/env python3
"""Runs tests of rdma-core's suite by name, inside a simulated host, and says of each when it begins and how it ended.

    pyverbs_inside.py FOLDER RESULTS ADDRESS TEST...

FOLDER holds the unpacked package `tests`; RESULTS becomes one JSON object a line, so that a runner knows which test was under way
when this process hung or died. Every test is given the first device, port 1, GID 0, and ADDRESS as the port's: the suite would ask
/sys and `ip` for that of a network interface, which a simulated host has not.
"""
import json
import os
import sys
import unittest


class Lines(unittest.TestResult):
    """A line when a test begins, and one with its verdict when it ends."""

    def __init__(self, stream):
        super().__init__()
        self.stream, self.verdict, self.detail = stream, "", ""

    def write(self, **line):
        self.stream.write(json.dumps(line) + "\n")
        self.stream.flush()

    def startTest(self, test):
        super().startTest(test)
        self.verdict, self.detail = "ok", ""
        self.write(test=test.id(), verdict="begun")

    def stopTest(self, test):
        super().stopTest(test)
        self.write(test=test.id(), verdict=self.verdict, detail=self.detail)

    def judge(self, verdict, detail):
        # The first bad word counts: what tearDown() says after a failure is its consequence.
        if self.verdict not in ("failed", "error"):
            self.verdict, self.detail = verdict, detail

    def addSkip(self, test, reason):
        super().addSkip(test, reason)
        self.judge("skipped", reason)

    def addFailure(self, test, err):
        super().addFailure(test, err)
        self.judge("failed", self.failures[-1][1])

    def addError(self, test, err):
        super().addError(test, err)
        self.judge("error", self.errors[-1][1])

    def addSubTest(self, test, subtest, err):
        super().addSubTest(test, subtest, err)
        if err is not None:
            self.judge("failed", f"{subtest}: {err[1]!r}")

    def addUnexpectedSuccess(self, test):
        super().addUnexpectedSuccess(test)
        self.judge("failed", "unexpected success")


def give_address(address):
    """In place of the suite's own look at the machine; what it does with the address stays its own."""
    try:
        from tests.base import RDMATestCase
    except ImportError:
        return  # a suite of verbs alone
    RDMATestCase._get_ip_mac = lambda self, device, port, index: self.args.append([device, port, index, address, None])


def main():
    folder, results, address, names = sys.argv[1], sys.argv[2], sys.argv[3], sys.argv[4:]
    sys.path[:1] = [folder, os.path.join(folder, "tests")]  # not our own folder, where pyverbs.py lies
    sys.argv[1:] = ["--dev", "weft0", "--port", "1", "--gid", "0"]
    import args_parser  # noqa: E402  (of the suite, found only now)
    args_parser.parser.parse_args()
    give_address(address)
    suite = unittest.defaultTestLoader.loadTestsFromNames(names)
    with open(results, "a", encoding="utf-8") as stream:
        suite.run(Lines(stream))
    os._exit(0)  # what a failed test left behind may not be able to go


if __name__ == "__main__":
    main()
