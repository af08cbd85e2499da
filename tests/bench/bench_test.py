#!/usr/bin/env python3
"""What scripts/bench makes of output: every program's, the ratios, the limits, and what fails or is missing."""
import importlib.machinery
import importlib.util
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import types
import unittest

FOLDER = tempfile.TemporaryDirectory()
os.environ["WEFT_BUILD_DIR"] = FOLDER.name
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import bench_kernel  # noqa: E402
import bench_net  # noqa: E402
import bench_placed  # noqa: E402
import bench_resolver  # noqa: E402
import bench_rows  # noqa: E402
import bench_runs  # noqa: E402
import bench_storage  # noqa: E402
import bench_ways  # noqa: E402
import weft_clients  # noqa: E402

LATENCY = """
 #bytes #iterations    t_min[usec]    t_max[usec]  t_typical[usec]    t_avg[usec]    t_stdev[usec]   99% percentile[usec]   99.9% percentile[usec]
 8       20000          1.12           350.61       1.25     	       1.31        	1.20   		1.90    		9.04   
---
"""
BANDWIDTH = """
 #bytes     #iterations    BW peak[MB/sec]    BW average[MB/sec]   MsgRate[Mpps]
 4096       20000            3000.11            2500.00		   0.640000
---
"""
UCX = """[1.5] [machine:1:0] perftest.c:900  UCX  WARN  CPU affinity is not set
|    Stage     | # iterations | 50.0%ile | average | overall |  average |  overall |  average  |  overall  |
[thread 0]              1039      0.315  1614.343  1614.343      619.45     619.45         619         619
Final:                 20000      0.250     4.785     5.785        1.59    1000.00      208995      250000
"""
HOP = {"best_hop_ns": 100.0, "median_hop_ns": 120.0, "nearest_cpus": [2, 3], "million_lines_per_s": 50, "pairs": [{"cpus": [2, 3], "hop_ns": 100}]}


def figures_of_an_idle_machine():
    figures = {}
    bench_rows.add_hop(figures, json.dumps(HOP))
    bench_rows.add_memory_copy(figures, '[{"size": 4096, "gigabytes_per_s": 8.192}]')
    bench_rows.add_tcp(figures, '[{"size": 8, "one_way_us": 5, "gigabytes_per_s": 0.008, "million_messages_per_s": 1}]')
    bench_rows.add(figures, "UCX ucp_put_lat 8 B", "us", 0.25)
    return figures


class Ways(unittest.TestCase):
    USUAL, OTHER = bench_ways.Way("h1"), bench_ways.Way("v1", options=("--ns",))

    def test_server_and_client_have_cpus_of_their_own(self):
        before = os.sched_getaffinity(0)
        first, second = bench_ways.half_of_cpus(0), bench_ways.half_of_cpus(1)
        self.assertEqual(first | second, before)
        if len(before) > 1:
            self.assertFalse(first & second)
        with bench_ways.on_cpus(first):
            self.assertEqual(os.sched_getaffinity(0), first)
        self.assertEqual(os.sched_getaffinity(0), before)

    def test_a_program_runs_both_ways_in_turns(self):
        order = []

        def run(way):
            order.append(way.name)
            return {"h1": 2.0, "v1": 3.0}[way.name] + len(order)
        (figure,), failures = bench_ways.measure([("ib_send_lat 8 B", "us", run)], self.USUAL, self.OTHER, 3, lambda _: None)
        self.assertEqual(order, ["h1", "v1", "v1", "h1", "h1", "v1"])
        self.assertEqual((figure.values[self.USUAL], figure.values[self.OTHER], failures), ([3.0, 6.0, 7.0], [5.0, 6.0, 9.0], []))
        (row,) = bench_ways.rows([figure])
        self.assertEqual((row["name"], row["value"], row["peer"], row["peer_value"], row["ratio"], row["best"], row["runs"]),
                         ("ib_send_lat 8 B v1", 6.0, "h1", 6.0, 1.0, 5.0, 3))
        self.assertRegex(bench_ways.lines([figure])[1], r"ib_send_lat 8 B +6\.00 +6\.00 us +1\.00 +3\.00 +5\.00 +1\.67")

    def test_a_program_that_fails_is_left_out_and_named(self):
        def run(_):
            raise bench_runs.Failure("ib_send_lat", "did not end well", "no device")
        figures, failures = bench_ways.measure([("ib_send_lat 8 B", "us", run)], self.USUAL, self.OTHER, 3, lambda _: None)
        self.assertEqual(figures, [])
        self.assertIn("no device", failures[0])


class Resolver(unittest.TestCase):
    FOUND = {bench_resolver.rate_name(64, 32): [90_000, 200_000, 110_000], f"resolver, beside {bench_resolver.OPENSM}": [20.0, 10.0, 30.0],
             bench_resolver.OPENSM: [100.0, 140.0, 90.0], f"resolver, beside {bench_resolver.OWN}": [25.0], bench_resolver.OWN: [50.0],
             f"resolver by netlink, beside {bench_resolver.OPENSM}": [200.0]}

    def test_a_path_is_compared_with_the_sa_of_the_same_fabric(self):
        rows = {row["name"]: row for row in bench_resolver.rows(self.FOUND)}
        beside = rows[f"a path: resolver, beside {bench_resolver.OPENSM}"]
        self.assertEqual((beside["value"], beside["peer_value"], beside["ratio"], beside["best"], beside["runs"]), (20.0, 100.0, 0.2, 10.0, 3))
        self.assertEqual(rows[f"a path: resolver, beside {bench_resolver.OWN}"]["ratio"], 0.5)
        rate = rows[bench_resolver.rate_name(64, 32)]
        self.assertEqual((rate["value"], rate["unit"], rate["best"], rate["peer"]), (110_000, "/s", 200_000, None))

    def test_the_lines_say_how_many_times_quicker(self):
        text = "\n".join(bench_resolver.lines(self.FOUND))
        for words in ("110,000 /s (asked: 100,000)", f"100.0 us from {bench_resolver.OPENSM}: 5.0 times quicker (asked: 5)",
                      f"50.0 us from {bench_resolver.OWN}: 2.0 times quicker", f"200.00 us from the resolver by netlink, 100.0 us from {bench_resolver.OPENSM}"):
            self.assertIn(words, text)

    def test_a_path_that_is_not_five_times_quicker_is_a_failure(self):
        self.assertEqual(bench_resolver.too_slow_a_path(self.FOUND), [])
        slow = {**self.FOUND, f"resolver, beside {bench_resolver.OPENSM}": [20.1]}
        self.assertEqual(len(bench_resolver.too_slow_a_path(slow)), 1)
        self.assertIn("asked: 5 times", bench_resolver.too_slow_a_path(slow)[0])

    def test_what_was_not_measured_is_left_out(self):
        self.assertEqual(len(bench_resolver.lines({})), 1)
        self.assertEqual(bench_resolver.rows({}), [])


class Kernel(unittest.TestCase):
    FOUND = {"completion, direct": ("us", "polled by hand", [(0.2, 0.1), (0.4, 0.1), (0.3, 0.2)]), "a path from the cache": ("us", None, [(5.0, None)]),
             "protection information, verified": ("GB/s", "ISA-L's CRC alone", [(4.0, 8.0), (6.0, 8.0)])}

    def test_a_figure_is_beside_the_same_by_hand(self):
        rows = {row["name"]: row for row in bench_kernel.rows(self.FOUND)}
        row = rows["kernel: completion, direct"]
        self.assertEqual((row["value"], row["unit"], row["peer"], row["peer_value"], row["best"], row["runs"]), (0.3, "us", "polled by hand", 0.1, 0.2, 3))
        self.assertAlmostEqual(row["ratio"], 3)
        self.assertEqual((rows["kernel: a path from the cache"]["ratio"], rows["kernel: protection information, verified"]["best"]), (None, 6.0))

    def test_the_lines_say_how_many_times_it_is(self):
        text = "\n".join(bench_kernel.lines(self.FOUND))
        self.assertRegex(text, r"completion, direct +0\.300 us +3\.00 times 0\.1 us polled by hand")
        self.assertRegex(text, r"(?m)^a path from the cache +5\.000 us *$")
        self.assertEqual(bench_kernel.lines({}), [])

    def test_no_figure_is_nothing(self):
        whole = {"name": "a", "value": 1.0, "unit": "us", "peer": "b", "peer_value": 2.0}
        self.assertEqual(bench_kernel.parse(json.dumps([whole])), [whole])
        for spoilt in ([], [whole | {"value": 0}], [whole | {"peer_value": 0}]):
            with self.assertRaises(bench_rows.Unreadable):
                bench_kernel.parse(json.dumps(spoilt))


class Storage(unittest.TestCase):
    FOUND = {"SRP, 4 KiB random reads, 32 at a time": ("/s", "tgt over iSER", [(300.0, 100.0), (100.0, 100.0), (200.0, 50.0)]),
             "SRP, one 4 KiB read": ("us", "tgt over iSER", [(20.0, 40.0)]), "SRP, CPU time of a 4 KiB read's initiator": ("us", None, [(3.0, None)])}

    def test_ratios_are_of_medians_and_the_best_of_a_time_is_the_least(self):
        rows = {row["name"]: row for row in bench_storage.rows(self.FOUND)}
        row = rows["storage: SRP, 4 KiB random reads, 32 at a time"]
        self.assertEqual((row["value"], row["peer_value"], row["ratio"], row["best"], row["runs"]), (200.0, 100.0, 2.0, 300.0, 3))
        self.assertEqual(rows["storage: SRP, one 4 KiB read"]["ratio"], 0.5)
        text = "\n".join(bench_storage.lines(self.FOUND))
        self.assertRegex(text, r"32 at a time +200\.0 /s +2\.00 times 100\.0 /s of tgt over iSER \(asked: 3\.0\)")
        self.assertRegex(text, r"(?m)^SRP, CPU time of a 4 KiB read's initiator +3\.0 us *$")
        self.assertEqual(bench_storage.lines({}), [])

    def test_what_programs_print_is_read_or_refused(self):
        self.assertEqual(bench_storage.parse_iscsi_perf("iops average 10 \rlba 5, iops current 7, iops average 1234 (5 MB/s)\n"), 1234.0)
        load = {"failed": 0, "lost": 0, "commands": 5}
        self.assertEqual(bench_storage.parse_load(json.dumps(load)), load)
        job = {"error": 0, "read": {"total_ios": 4, "iops": 2.0, "bw_bytes": 1 << 21}}
        self.assertEqual(bench_storage.parse_fio("note\n" + json.dumps({"jobs": [job]})), (2.0, 2.0))
        for refused in (lambda: bench_storage.parse_iscsi_perf("none"), lambda: bench_storage.parse_iscsi_perf("iops average 0"),
                        lambda: bench_storage.parse_load(json.dumps(load | {"failed": 1})), lambda: bench_storage.parse_load(json.dumps(load | {"commands": 0})),
                        lambda: bench_storage.parse_fio(json.dumps({"jobs": [job | {"error": 5}]}))):
            with self.assertRaises(bench_rows.Unreadable):
                refused()


class Net(unittest.TestCase):
    def test_qperfs_way_is_half_of_a_request_and_its_answer(self):
        for said, microseconds in (("20.5 us", 41), ("900 ns", 1.8), ("1.25 ms", 2500)):
            self.assertAlmostEqual(bench_net.parse_qperf(f"udp_lat:\n    latency  =  {said}\n"), microseconds)
        for said in ("", "udp_lat:\n    latency  =  3 furlongs\n", "udp_bw:\n    send_bw  =  20 us\n"):
            self.assertRaises(bench_rows.Unreadable, bench_net.parse_qperf, said)

    def test_figures_stand_beside_one_peer_at_a_time(self):
        fabric = bench_ways.Way("over the fabric")
        figures = [bench_ways.Figure(name, "us", peer, fabric) for name in ("ping", "UDP") for peer in (bench_net.VETH, bench_net.PASTAS)]
        groups = bench_net.by_peer(figures)
        self.assertEqual([[figure.name for figure in group] for group in groups], [["ping", "UDP"], ["ping", "UDP"]])
        self.assertEqual([group[0].usual.name for group in groups], ["veth", "two pastas"])
        self.assertEqual(bench_net.by_peer([]), [[], []])


class Parsing(unittest.TestCase):
    def test_latency_is_perftests_typical(self):
        self.assertEqual(bench_rows.parse_perftest("ib_send_lat", 8, LATENCY), {"us": 1.25})

    def test_bandwidth_is_the_average_in_powers_of_ten(self):
        self.assertEqual(bench_rows.parse_perftest("ib_send_bw", 4096, BANDWIDTH), {"GB/s": 2.62144, "M/s": 0.64})

    def test_a_row_of_another_size_or_shape_is_none(self):
        for program, size, output in (("ib_send_lat", 80, LATENCY), ("ib_send_bw", 8, LATENCY), ("ib_send_lat", 4096, BANDWIDTH),
                                      ("ib_send_lat", 8, ""), ("ib_send_bw", 4096, BANDWIDTH.replace("2500.00", "many"))):
            with self.assertRaises(bench_rows.Unreadable):
                bench_rows.parse_perftest(program, size, output)

    def test_a_clock_that_perftest_does_not_know_is_worth_another_run(self):
        for spoilt in ("inf", "nan", "-nan"):
            with self.assertRaises(bench_rows.ClockUnknown):
                bench_rows.parse_perftest("ib_send_bw", 4096, BANDWIDTH.replace("2500.00", spoilt))

    def test_ucx_gives_the_median_latency_and_the_whole_runs_rate(self):
        self.assertEqual(bench_rows.parse_ucx(UCX), {"us": 0.25, "GB/s": 1.048576, "M/s": 0.25})

    def test_ucx_without_a_final_row_is_unreadable(self):
        with self.assertRaises(bench_rows.Unreadable):
            bench_rows.parse_ucx(UCX.replace("Final:", "[thread 0]"))

    def test_one_cpu_has_no_hop(self):
        figures = {}
        self.assertIsNone(bench_rows.add_hop(figures, '{"pairs": [], "reason": "one CPU only"}'))
        self.assertEqual(figures, {})

    def test_the_nearest_pair_is_where_peers_are_pinned(self):
        self.assertEqual(bench_rows.add_hop({}, json.dumps(HOP)), (2, 3))


class Ratios(unittest.TestCase):
    def setUp(self):
        self.figures = figures_of_an_idle_machine()

    def beside(self, name, *values, unit="us"):
        self.figures[name] = bench_rows.Figure(unit, list(values))
        return {row["peer"]: row for row in bench_rows.rows(self.figures, (1, 2)) if row["name"] == name}

    def test_a_figure_has_a_row_for_each_peer(self):
        rows = self.beside("ib_write_lat 8 B", 1.0, 1.5, 9.0)
        self.assertEqual({peer: row["ratio"] for peer, row in rows.items()},
                         {"cache-line hop": 15.0, "UCX ucp_put_lat": 6.0, "TCP ping-pong": 0.3})
        row = rows["cache-line hop"]
        self.assertEqual((row["value"], row["unit"], row["peer_value"], row["best"], row["runs"]), (1.5, "us", 0.1, 1.0, 3))

    def test_a_round_trip_stands_beside_round_trips(self):
        rows = self.beside("ib_read_lat 8 B", 2.0)
        self.assertEqual({peer: row["ratio"] for peer, row in rows.items()}, {"2 cache-line hops": 10.0, "TCP round trip": 0.2})

    def test_a_large_message_must_also_be_copied(self):
        self.assertEqual(self.beside("ib_send_lat 4 KiB", 1.2)["cache-line hop and memcpy"]["peer_value"], 0.1 + 0.5)

    def test_bandwidth_stands_beside_memcpy_and_small_messages_beside_lines(self):
        self.assertEqual(self.beside("ib_send_bw 4 KiB", 4.096, unit="GB/s")["memcpy"]["ratio"], 0.5)
        self.assertEqual(self.beside("ib_send_bw 8 B", 5, unit="M/s")["cache-line stream"]["ratio"], 0.1)

    def test_the_best_of_rates_is_the_largest(self):
        self.assertEqual(bench_rows.Figure("GB/s", [1, 3, 2]).best, 3)
        self.assertEqual(bench_rows.Figure("us", [2, 1, 3]).best, 1)

    def test_many_threads_stand_beside_one(self):
        self.beside("weft_thread_rate 1 thread", 2.0, unit="M/s")
        self.assertEqual(self.beside("weft_thread_rate 2 threads", 3.0, unit="M/s")["1 thread"]["ratio"], 1.5)

    def test_what_was_not_measured_is_left_out(self):
        self.figures = {}
        self.assertEqual([(row["peer"], row["ratio"]) for row in self.beside("ib_read_bw 64 KiB", 7.0, unit="GB/s").values()], [(None, None)])
        self.assertEqual(len(bench_rows.table(self.figures, (1, 2))), 2)

    def test_the_table_shows_what_the_rows_say(self):
        self.beside("ib_write_lat 8 B", 1.5)
        self.beside("weft_thread_rate 1 thread", 2.0, unit="M/s")
        self.beside("weft_thread_rate 2 threads", 3.0, unit="M/s")
        lines = bench_rows.table(self.figures, (1, 2))
        self.assertEqual(lines[1].split(), "ib_write_lat 8 B 1.50 1.50 us 0.100 15.0 0.250 6.00 5.00 0.300".split())
        self.assertTrue(lines[3].endswith("1.50 of one thread"))

    def test_numbers_keep_three_digits(self):
        self.assertEqual([bench_rows.number(value) for value in (0, 0.0123, 1.5, 42.24, 100, 12345.6)],
                         ["0", "0.0123", "1.50", "42.2", "100", "12346"])


class Running(unittest.TestCase):
    """Programs that behave as they are told to."""

    @classmethod
    def setUpClass(cls):
        cls.folder = pathlib.Path(FOLDER.name) / "tests" / "bench"
        cls.folder.mkdir(parents=True)

    @classmethod
    def tearDownClass(cls):
        FOLDER.cleanup()

    def program(self, text):
        path = self.folder / "program"
        path.write_text("#!/bin/sh\n" + text)
        path.chmod(0o755)
        return path.name

    def test_output_is_passed_on(self):
        self.assertEqual(bench_runs.run_program(self.program('echo "$1"'), 8), "8\n")

    def test_a_failure_carries_the_output(self):
        with self.assertRaisesRegex(bench_runs.Failure, "(?s)program 8: exit status 3.*half.*reason"):
            bench_runs.run_program(self.program("echo half; echo reason >&2; exit 3"), 8)

    def test_a_program_that_does_not_end_is_ended(self):
        before, bench_runs.TIMEOUT_SECONDS = bench_runs.TIMEOUT_SECONDS, 0.3
        self.addCleanup(setattr, bench_runs, "TIMEOUT_SECONDS", before)
        with self.assertRaisesRegex(bench_runs.Failure, "(?s)did not end in.*begun"):
            bench_runs.run_program(self.program("echo begun; exec sleep 60"))

    def test_unreadable_output_is_a_failure_with_it(self):
        with self.assertRaisesRegex(bench_runs.Failure, "(?s)no JSON.*nonsense"):
            bench_runs.read("program", "nonsense", bench_rows.add_hop, {})
        with self.assertRaisesRegex(bench_runs.Failure, "(?s)one_way_us.*size"):
            bench_runs.read("program", '[{"size": 8}]', bench_rows.add_tcp, {})

    def with_ucx(self, text):
        """A Ucx whose program is this text."""
        path = pathlib.Path(FOLDER.name) / "bin"
        path.mkdir(exist_ok=True)
        (path / "ucx_perftest").write_text(f"#!{sys.executable}\n{text}")
        (path / "ucx_perftest").chmod(0o755)
        before = os.environ["PATH"]
        os.environ["PATH"] = f"{path}:{before}"
        self.addCleanup(os.environ.__setitem__, "PATH", before)
        return bench_runs.Ucx(weft_clients.Ports(), (0, 0))

    UCX_PROGRAM = """
import os, socket, sys
port = int(sys.argv[sys.argv.index("-p") + 1])
if "cma" in os.environ["UCX_TLS"]:
    sys.exit("not permitted")
if sys.argv[-1] == "127.0.0.1":
    socket.create_connection(("127.0.0.1", port)).recv(1)
    print({final!r})
else:
    server = socket.create_server(("127.0.0.1", port))
    server.accept()[0].send(b"x")
"""

    def test_the_first_transport_that_works_is_taken(self):
        ucx = self.with_ucx(self.UCX_PROGRAM.format(final=UCX))
        self.assertEqual(ucx.choose_transports(), "posix,self")
        self.assertEqual(ucx.run("tag_lat", 8)["us"], 0.25)

    def test_ucx_that_never_works_fails_with_every_reason(self):
        with self.assertRaisesRegex(bench_runs.Failure, "(?s)no transport.*not permitted.*no final row"):
            self.with_ucx(self.UCX_PROGRAM.format(final="nothing")).choose_transports()


class Placed(unittest.TestCase):
    """Small messages between chosen CPUs."""

    SAMPLES = [bench_placed.Sample("ib_send_lat", (0, 1), hop, latency) for hop, latency in ((0.05, 0.2), (0.06, 0.9), (0.05, 0.2), (0.25, 0.6))]

    def setUp(self):
        self.hops = []
        for name, placeholder in (("hop_between", lambda cpus: self.hops.pop(0)), ("latency_between", lambda weft, program, cpus: 1.0)):
            self.addCleanup(setattr, bench_placed, name, getattr(bench_placed, name))
            setattr(bench_placed, name, placeholder)

    def test_both_sides_have_a_cpu_for_each_thread(self):
        self.assertEqual(bench_placed.pairs([0, 1, 2]), [])
        self.assertEqual(len(bench_placed.pairs([0, 1, 2, 3])), 6)

    def test_near_and_far_pairs_are_told_apart_by_their_hops(self):
        self.assertEqual(bench_placed.kinds(self.SAMPLES), [("near", 0.05, 0.2), ("far", 0.25, 0.6)])
        self.assertEqual(bench_placed.kinds(self.SAMPLES[:1]), [("near", 0.05, 0.2)])
        self.assertEqual(bench_placed.kinds([]), [])

    def test_the_line_through_both_is_what_a_hop_costs(self):
        near, far, line = bench_placed.lines(self.SAMPLES)
        self.assertIn("near CPUs: hop 0.050 us, 0.200 us, 4.00 hops", near)
        self.assertIn("far CPUs: hop 0.250 us, 0.600 us, 2.40 hops", far)
        self.assertTrue(line.endswith(": 0.100 us and 2.00 hops"), line)

    def test_a_row_stands_beside_its_own_hop(self):
        self.assertEqual([(row["name"], row["peer_value"], row["ratio"]) for row in bench_placed.rows(self.SAMPLES[2:3])],
                         [("ib_send_lat 8 B, near CPUs", 0.05, 4.0)])

    def test_a_run_whose_hop_changed_is_done_again(self):
        self.hops = [0.05, 0.25, 0.24, 0.26]
        self.assertEqual(bench_placed.sample(None, "ib_send_lat", (0, 1)), bench_placed.Sample("ib_send_lat", (0, 1), 0.25, 1.0))

    def test_a_hop_that_never_stays_makes_no_sample(self):
        self.hops = [0.05, 0.25] * bench_placed.TRIES
        self.assertIsNone(bench_placed.sample(None, "ib_send_lat", (0, 1)))

    def test_a_program_is_found_below_who_started_it(self):
        child = subprocess.Popen(["sh", "-c", f"exec 3<&0; {sys.executable} -c 'print(flush=True); input()' <&3 & wait"], stdin=subprocess.PIPE,
                                 stdout=subprocess.PIPE, start_new_session=True)
        for stream in (child.stdin, child.stdout):
            self.addCleanup(stream.close)
        self.addCleanup(weft_clients.end, child)
        child.stdout.readline()
        found = bench_placed.process_of(child, pathlib.Path(sys.executable).name)
        self.assertNotEqual(found, child.pid)
        cpu = min(os.sched_getaffinity(0))
        bench_placed.place(found, cpu, {cpu})
        self.assertEqual(os.sched_getaffinity(found), {cpu})
        with self.assertRaises(ProcessLookupError):
            bench_placed.process_of(child, "another")


class Repeating(unittest.TestCase):
    """scripts/bench itself, without its set-up."""

    def setUp(self):
        path = pathlib.Path(__file__).resolve().parents[2] / "scripts" / "bench"
        loader = importlib.machinery.SourceFileLoader("bench", str(path))
        module = importlib.util.module_from_spec(importlib.util.spec_from_loader("bench", loader))
        loader.exec_module(module)
        self.bench = module.Bench(types.SimpleNamespace(only=None, runs=3))

    def test_a_figure_has_every_run(self):
        values = iter((1, 2, 3, 4))
        self.bench.repeat_figure("name", "us", lambda: next(values))
        self.assertEqual((self.bench.figures["name"].values, self.bench.failures), ([1, 2, 3], []))

    def test_a_failure_leaves_the_whole_figure_out_and_is_kept(self):
        runs = []

        def run():
            runs.append(1)
            if len(runs) == 2:
                raise bench_runs.Failure("name", "died", "its last words")
            return 1
        self.bench.repeat_figure("before", "us", lambda: 7)
        self.bench.repeat_figure("name", "us", run)
        self.assertEqual(list(self.bench.figures), ["before"])
        self.assertEqual(self.bench.failures, ["name: died\nits last words"])


if __name__ == "__main__":
    unittest.main()
