"""tgt's iSER target on one host, libiscsi's programs on another; the same target by TCP beside it, in the same run.

libiscsi is helped over two faults of its own: it takes a connection's memory for zeroed (MALLOC_PERTURB_, which needs malloc without its
thread caches), and it frees what malloc gave into a pool of blocks of another size (LIBISCSI_CACHE_ALLOCATIONS). Others stay, and each test
runs in a process of its own, so that what dies of them ends nothing else: DIFFERENCES says which tests end how, and otherwise than over TCP, and why
(lib/iser.c of libiscsi 1.19.0, usr/iscsi/iser.c of tgt 1.0.85).
"""
import concurrent.futures
import os
import pathlib
import re
import subprocess
import tempfile
import time

import weft_clients

PORT = 3260                      # of iSER: tgt knows no other
INITIATORS = ("iqn.2007-10.com.github:sahlberg:libiscsi:iscsi-test", "iqn.2007-10.com.github:sahlberg:libiscsi:iscsi-test-2")
READY_SECONDS = 20               # policy
TEST_SECONDS = 60                # policy
DISK_BYTES = 512 << 10           # policy: libiscsi's iSER moves at most 256 KiB at a time, and its tests up to half of the disk
HELP = {"MALLOC_PERTURB_": "255", "GLIBC_TUNABLES": "glibc.malloc.tcache_count=0", "LIBISCSI_CACHE_ALLOCATIONS": "0"}
TRANSPORTS = ("iser", "iscsi")   # names of URLs, and of tgt's drivers
TRIES = 3                        # policy: libiscsi's iSER gives up what takes a second, which a busy machine may take for anything
# {why: {test: (verdict over iSER, verdict over TCP)}}: tests that end otherwise than over TCP.
DIFFERENCES = {
    "libiscsi's iSER takes the length that it asked for as the length that came": {
        "SCSI.Inquiry.AllocLength": ("failed", "passed"),
        "SCSI.Inquiry.BlockLimits": ("failed", "skipped"),
        "SCSI.ModeSense6.Residuals": ("failed", "passed"),
    },
    "libiscsi's iSER has room for 256 commands at a time and does not look": {
        "SCSI.Read10.Async": ("died", "failed"),
        "SCSI.Write10.Async": ("died", "failed"),
    },
    "libiscsi's iSER looks for the data of a task management request": {
        "SCSI.Reserve6.TargetColdReset": ("died", "skipped"),
        "SCSI.Reserve6.TargetWarmReset": ("died", "skipped"),
        "SCSI.Reserve6.LUNReset": ("died", "passed"),
        "iSCSI.iSCSITMF.AbortTaskSimpleAsync": ("died", "passed"),
        "iSCSI.iSCSITMF.LUNResetSimpleAsync": ("died", "failed"),
    },
    "libiscsi's iSER sends no command that expects no data when its CDB moves some": {
        "iSCSI.iSCSIResiduals.Read10Invalid": ("died", "passed"),
        "iSCSI.iSCSIResiduals.Read10Residuals": ("died", "passed"),
        "iSCSI.iSCSIResiduals.Read12Residuals": ("died", "passed"),
        "iSCSI.iSCSIResiduals.Read16Residuals": ("died", "passed"),
        "iSCSI.iSCSIResiduals.Write10Residuals": ("died", "passed"),
        "iSCSI.iSCSIResiduals.Write12Residuals": ("died", "passed"),
        "iSCSI.iSCSIResiduals.Write16Residuals": ("died", "passed"),
        "iSCSI.iSCSIResiduals.WriteVerify10Residuals": ("died", "passed"),
        "iSCSI.iSCSIResiduals.WriteVerify12Residuals": ("died", "passed"),
        "iSCSI.iSCSIResiduals.WriteVerify16Residuals": ("died", "passed"),
    },
    "libiscsi's iSER gives up after a second when no answer is due": {
        "iSCSI.iSCSIcmdsn.iSCSICmdSnTooHigh": ("failed", "passed"),
        "iSCSI.iSCSIcmdsn.iSCSICmdSnTooLow": ("failed", "passed"),
    },
    "tgt's iSER keeps a reservation until the connection's time-wait is over": {
        "SCSI.Reserve6.Logout": ("failed", "passed"),
        "SCSI.Reserve6.ITNexusLoss": ("failed", "passed"),
    },
}


class Target:
    """tgtd on a host, until the end of a with block: a target by iSER and one by TCP, each with a disk of its own."""

    def __init__(self, fabric, host, tcp_port, disk_bytes=DISK_BYTES):
        self.fabric, self.host, self.disk_bytes = fabric, host, disk_bytes
        self.address = weft_clients.address_of(host)
        self.ports = {"iser": PORT, "iscsi": tcp_port}

    def __enter__(self):
        self.folder = tempfile.TemporaryDirectory(prefix="weft-tgt-")
        self.environment = {"TGT_IPC_SOCKET": str(pathlib.Path(self.folder.name) / "control")}
        self.log = open(pathlib.Path(self.folder.name) / "tgtd.log", "w+", encoding="utf-8", errors="replace")
        self.child = subprocess.Popen([self.fabric.weft, "exec", self.host, "--", "tgtd", "-f", "-C", "0", "--iscsi", f"portal={self.address}:{self.ports['iscsi']}"],
                                      stdin=subprocess.DEVNULL, stdout=self.log, stderr=subprocess.STDOUT, start_new_session=True,
                                      env=self.fabric.environment(self.environment))
        try:
            self.wait_until_it_listens()
            for number, transport in enumerate(TRANSPORTS, 1):
                self.control(transport, "target", "new", number, "--targetname", self.name_of(transport))
                self.control(transport, "target", "bind", number, "--initiator-address", "ALL")
                for initiator in INITIATORS:
                    self.control(transport, "target", "bind", number, "--initiator-name", initiator)
                self.make_disk(transport)
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_):
        weft_clients.end(self.child)
        self.log.close()
        self.folder.cleanup()

    def text(self):
        self.log.flush()
        return pathlib.Path(self.log.name).read_text(encoding="utf-8", errors="replace")

    @staticmethod
    def name_of(transport):
        return f"iqn.2026-01.org.weft:{transport}"

    def url(self, transport):
        return f"{transport}://{self.address}:{self.ports[transport]}/{self.name_of(transport)}/1"

    def wait_until_it_listens(self):
        deadline = time.monotonic() + READY_SECONDS
        while not (os.path.exists(self.environment["TGT_IPC_SOCKET"] + ".0") and self.fabric.has_id(self.host, PORT)
                   and weft_clients.somebody_listens(self.ports["iscsi"])):
            if self.child.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError(f"tgtd does not listen\n{self.text()}")
            time.sleep(0.05)

    def control(self, transport, mode, operation, number, *more):
        subprocess.run(["tgtadm", "--lld", transport, "--mode", mode, "--op", operation, "--tid", str(number), *more], check=True, capture_output=True,
                       text=True, timeout=30, env={**os.environ, **self.environment})

    def make_disk(self, transport):
        path = pathlib.Path(self.folder.name) / transport
        path.write_bytes(b"")
        os.truncate(path, self.disk_bytes)
        self.control(transport, "logicalunit", "new", TRANSPORTS.index(transport) + 1, "--lun", "1", "--backing-store", str(path))

    def renew_disk(self, transport):
        """Without what a client that died has left behind: reservations, registrations. While its commands are there, tgtd refuses."""
        deadline = time.monotonic() + READY_SECONDS
        while True:
            try:
                self.control(transport, "logicalunit", "delete", TRANSPORTS.index(transport) + 1, "--lun", "1")
                return self.make_disk(transport)
            except subprocess.CalledProcessError:
                if time.monotonic() > deadline:
                    raise
                time.sleep(0.1)


def run_client(fabric, host, command, seconds):
    """(exit status, output); None as status when it was ended."""
    child = fabric.start(host, command, HELP)
    output, in_time = weft_clients.communicate(child, time.monotonic() + seconds)
    return (child.returncode if in_time else None), output


# --- what a program says, over iSER as over TCP

def compared(fabric, target, host, case):
    start = time.monotonic()
    said = {}
    for transport in TRANSPORTS:
        for _ in range(TRIES):
            status, output = run_client(fabric, host, [case.program, "-i", INITIATORS[0], *case.arguments, target.url(transport)], case.timeout_seconds)
            if status is not None or not missed_its_end(output):
                break
        said[transport] = (status, output)
    status, output = said["iser"]
    if case.check is has_figures:
        print(f"{case.name}: " + ", ".join("{}: {} commands, {} MB a second".format(transport, *figures(said[transport][1])) for transport in TRANSPORTS), flush=True)
    detail = ("did not end in time" if status is None else f"exit status {status}" if status else case.check(output) or "" if case.check else "")
    if not detail and not case.check and said["iser"] != said["iscsi"]:
        detail = "says something else than over TCP"
    return weft_clients.Outcome(case, "FAILED" if detail else "ok", time.monotonic() - start, detail, said["iscsi"][1], output)


def figures(output):
    """The last average that iscsi-perf gives, in commands and megabytes a second."""
    found = re.findall(r"iops average (\d+) \((\d+) MB/s\)", output)
    return tuple(map(int, found[-1])) if found else (0, 0)


def has_figures(output):
    """iscsi-perf has read more than nothing, to its end."""
    return None if figures(output)[0] > 0 and "finished" in output else "no figures"


def missed_its_end(output):
    """iscsi-perf asks once a second whether exactly no second is left, and counts on below that, unsigned: when a look comes a second late, it reads for ever."""
    return re.search(r"\d{9,}:\d\d:\d\d - lba", output) is not None


def programs(smoke):
    yield weft_clients.Case("iscsi-inq", [], aspect="INQUIRY over iSER, as over TCP")
    yield weft_clients.Case("iscsi-inq", ["-e", "1", "-c", "176"], aspect="INQUIRY over iSER, as over TCP")
    yield weft_clients.Case("iscsi-readcapacity16", [], aspect="READ CAPACITY over iSER, as over TCP")
    for requests, blocks in ((64, 128),) if smoke else ((1, 8), (64, 8), (64, 128)):
        yield weft_clients.Case("iscsi-perf", ["-m", str(requests), "-b", str(blocks), "-t", "2"], check=has_figures, timeout_seconds=20, aspect="reads over iSER")


# --- libiscsi's test programs

def known_tests():
    """FAMILY.SUITE.TEST of SCSI and iSCSI."""
    listed = subprocess.run(["iscsi-test-cu", "--list"], capture_output=True, text=True, timeout=30).stdout
    return [name for name in listed.split() if re.fullmatch(r"i?SCSI\.\w+\.\w+", name)]


def verdict_of(status, output):
    """passed, skipped or failed, as the program says; died, when it does not come to say it."""
    if status is None or "Run Summary" not in output:
        return "died"
    summary = re.search(r"^\s+tests\s+(\d+)\s+(\d+)\s+(\d+)\s+(\d+)", output, re.MULTILINE)
    if not summary or summary.group(2) != "1":
        return "died"
    return "failed" if summary.group(4) != "0" else "skipped" if "[SKIPPED]" in output else "passed"


def why_it_differs(test):
    """Of DIFFERENCES; empty when the test ought to end as over TCP."""
    return next((why for why, tests in DIFFERENCES.items() if test in tests), "")


def suites_of(why, family):
    return ", ".join(sorted({name.split(".")[1] for name in DIFFERENCES[why] if name.startswith(family + ".")}))


def what_is_wrong(test, said):
    """A test has to end as over TCP, or exactly as DIFFERENCES says: one that has come to end otherwise does not belong there any more."""
    verdicts = tuple(said[transport][0] for transport in TRANSPORTS)
    wanted = DIFFERENCES.get(why_it_differs(test), {}).get(test)
    if wanted:
        return "" if verdicts == wanted else "{}: {}, over TCP {}, and not {} and {} as DIFFERENCES says".format(test, *verdicts, *wanted)
    return "" if verdicts[0] == verdicts[1] else "{}: {}, over TCP {}".format(test, *verdicts)


def run_test(fabric, target, host, test, transport):
    status, output = run_client(fabric, host, ["iscsi-test-cu", "--dataloss", "--test", test, target.url(transport)], TEST_SECONDS)
    verdict = verdict_of(status, output)
    if verdict != "passed":
        target.renew_disk(transport)
    return verdict, f"== {test} over {transport}: {verdict}\n{output}\n"


def run_beside(fabric, target, host, tests):
    """{test: {transport: (verdict, log)}}, both transports at a time."""
    with concurrent.futures.ThreadPoolExecutor(len(TRANSPORTS)) as pool:
        lanes = {transport: pool.submit(lambda name: [run_test(fabric, target, host, test, name) for test in tests], transport) for transport in TRANSPORTS}
        results = {transport: lane.result() for transport, lane in lanes.items()}
    return {test: {transport: results[transport][number] for transport in TRANSPORTS} for number, test in enumerate(tests)}


def summarize(found, seconds):
    """Outcomes of {test: {transport: (verdict, log)}}: for each family what ends as over TCP, and for each reason what does not."""
    groups = {}
    for test in found:
        groups.setdefault((test.split(".")[0], why_it_differs(test)), []).append(test)
    for (family, why), tests in groups.items():
        problems = {test: what_is_wrong(test, found[test]) for test in tests}
        wrong = "; ".join(problem for problem in problems.values() if problem)
        aspect = f"{family} tests over iSER " + (f"that end otherwise than over TCP: {suites_of(why, family)}" if why else "end as over TCP")
        case = weft_clients.Case("iscsi-test-cu", ["--dataloss", "--test", f"{len(tests)} of {family}"], aspect=aspect, refusal=why)
        logs = "".join(log for test in tests if problems[test] for _, log in found[test].values())
        yield weft_clients.Outcome(case, "FAILED" if wrong else "refused" if why else "ok", seconds, wrong, logs)


def conformance(fabric, target, host, tests):
    start = time.monotonic()
    found = run_beside(fabric, target, host, tests)
    for _ in range(TRIES - 1):
        again = [test for test, said in found.items() if what_is_wrong(test, said)]
        found.update(run_beside(fabric, target, host, again))
    for family in ("SCSI", "iSCSI"):
        for transport in TRANSPORTS:
            of_family = [said[transport][0] for test, said in found.items() if test.startswith(family + ".")]
            print(f"iscsi-test-cu, {family} by {transport}: " + ", ".join(f"{of_family.count(verdict)} {verdict}" for verdict in ("passed", "skipped", "failed", "died")))
    yield from summarize(found, time.monotonic() - start)
