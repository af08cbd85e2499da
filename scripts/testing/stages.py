"""The stages of scripts/test, in order: what must hold, and what shows it."""
from commands import LOGS, ROOT, Command, Stage, build, client, ctest, live, sanitizer_preload, script

JUDGEMENTS = ("crc_check", "weft_clients", "fat_tree", "pyverbs", "verdicts", "ucx", "libfabric", "mpi", "qperf", "tools", "compatibility",
              "management", "newer_distribution", "ibsim_comparison", "osmtest_comparison", "srp_tables", "storage")
CHECKERS = ("scripts/testing/runner", "scripts/testing/build_ahead", "scripts/testing/corpora", "scripts/testing/unit_tests", "tests/bench/bench", "cmake/join_sources")
CRASHES = ("peers", "daemon", "stop", "fork", "busy", "many", "connections", "torture")
HOSTILE = ("run", "cm")

# Rooms with threads. The explorers of interleavings switch stacks, which the thread sanitizer takes for calls without end; and
# a reader that polls the last byte of a word is ordered behind the store of the word by the CPU, not by what the sanitizer
# knows of addresses; nor does it know of the order that a word from another process makes (VerbsImport). Its own thread in each
# process keeps tests from entering user namespaces, which a process of several threads may not. The tables of refusals (Explain) say
# in words what one call of one thread was told: half of the time, and no thread that other tests lack. Clang's, since that of g++ 12
# does not lock its allocator over fork(): a child waits for ever for a lock that another thread of its parent held.
TSAN_ROOMS = ("ring", "os", "station", "host", "daemon", "verbs")
TSAN_TESTS = (*TSAN_ROOMS, "core")  # of the core the tests with threads (tests/core), whose program alone is built
NOT_UNDER_TSAN = "Interleaving[.]|Explorer[.]|WhileItGrows|VerbsImport[.]|ShowsTheLastByteOfAWriteLast|[.]replay$|Namespace|FunctionFileSystemTest[.]|ProcessEnder|/Explain"

ASAN = (("ASAN_OPTIONS", "detect_leaks=1"), ("UBSAN_OPTIONS", "print_stacktrace=1"))
LONG_CHURN = (("WEFT_CHURN_SECONDS", "60"),)  # tests/core/churn_test.cc, and rounds of completion_threads_test.cc
# In quotes, since the checkout's folder may have a space in its name.
TSAN = (("TSAN_OPTIONS", f"suppressions='{ROOT / 'tests' / 'tsan.supp'}' halt_on_error=1 die_after_fork=0"),)


def placement(mode):
    """The environment in which the programs of a command have direct placement always, never, or where it is quicker."""
    return (("WEFT_PLACEMENT", mode),)


def stages(jobs, long=False):
    """Every stage; `long` makes each do all that it can instead of a part."""
    part = () if long else ("--smoke",)
    churn = LONG_CHURN if long else ()

    def some(*runners):
        return tuple(command for runner in runners for command in client(runner, *part))

    def every(folder, names):
        return tuple(command for name in names for command in live(f"{folder}/{name}.py", *part))

    def in_mode(mode):
        commands = [client("pyverbs", environment=placement(mode)), client("ucx", *part, environment=placement(mode))]
        commands += [live(f"tests/crash/{name}.py", *part, environment=placement(mode)) for name in ("peers", "fork")]
        if long:
            commands += [client(name, environment=placement(mode)) for name in ("perftest", "libfabric", "rdmacm", "mpi")]
        return sum(commands, ())

    built = ("release",)
    return [
        Stage("bootstrap", "what the build and the tests need is installed", (Command(("scripts/bootstrap", "--clang"), builds=True),), quick=True),
        Stage("rules", "the house rules: code, texts, and docs/REQUIREMENTS.md",
              (*script("tools/tidy"), *script("tools/requirements"), *script("tools/requirements_test.py")), quick=True, beside=True),
        Stage("checkers", "our own checkers find what is planted",
              (*script("tools/tidy_test.py"), *(command for name in CHECKERS for command in script(f"{name}_test.py")),
               *(command for name in JUDGEMENTS for command in script(f"tests/clients/{name}_test.py"))), quick=True, beside=True),
        Stage("dev", "clang 19 with sanitizers: unit tests, simulation, planted bugs, live tests",
              build("dev") + ctest("dev", jobs, 500 if long else 60, environment=(*ASAN, *churn)), ("bootstrap",), quick=True),
        Stage("requirements", "docs/REQUIREMENTS.md: every test that it names ran and passed", script("tools/requirements", "--ran", str(LOGS)), ("dev",), quick=True),
        Stage("release", "g++ 12, optimised: what a user runs, and the benchmarks",
              build("release", "weft_programs", "blockd", "blockd++", "weft_bench", "crash_programs", "weft_hostile_peer", "weft_hostile_cm", "weft_iwarp_connection", "weft_equal_ids"), ("bootstrap",)),
        Stage("pingpong", "ibv_*_pingpong on two hosts, a part of every combination; and under the sanitizers",
              some("pingpong") + client("pingpong", "--smoke", preset="dev", environment=sanitizer_preload()), ("dev", "release")),
        Stage("perftest", "perftest on two hosts, a part of every combination", some("perftest"), built),
        Stage("clients", "ibverbs-utils, Open MPI, MPICH, UCX and qperf, a part of what they can do", some("tools", "mpi", "ucx", "qperf"), built, beside=True),
        Stage("osmtest", "osmtest's flows on OpenSM over ibsim, on OpenSM over Weft and on Weft's own subnet manager, side by side", client("osmtest_comparison"), built, beside=True),
        Stage("own-manager", "infiniband-diags, osmtest and a second OpenSM against Weft's own subnet manager; a link is cut under ib_write_bw",
              some("own_manager"), built, beside=True),
        Stage("pyverbs", "rdma-core's own tests on one host, all that is not another vendor's; what is skipped is on a frozen list", client("pyverbs"), built, beside=True),
        Stage("live-changes", "MADs in captures, counters and under rules of faults; nodes that come and go while programs run", client("live_changes"), built, beside=True),
        Stage("placement", "long WRITEs and READs by the hand of who asks for them: which way and why, counters, captures and rules that begin and end, kills and stops, the guide",
              client("placement"), built, beside=True),
        Stage("placement-modes", "direct placement always, by system calls alone, and never, where the other stages have it where it is quicker: rdma-core's own tests, UCX, killed peers, fork(), one that lies",
              in_mode("direct") + in_mode("packets") + live("tests/crash/peers.py", *part, environment=placement("cma"))
              + live("tests/hostile/run.py", *part, environment=placement("cma")), built, beside=True),
        Stage("symbols", "the drop-in libraries have every symbol that Debian's have, and every client loads with them", client("drop_in_symbols"), built, beside=True),
        Stage("iscsi", "weft iscsi target: every test of libiscsi's suite, its tools, CHAP, reloading, the commands of the guide", client("iscsi"), built, beside=True),
        Stage("iscsi-attach", "weft iscsi attach and discover: disks of our target and of Debian's tgt as NBD to nbdcopy, nbdinfo and QEMU; CHAP, killed ends",
              client("iscsi_attach"), built, beside=True),
        Stage("iser-target", "weft iser target on a host: libiscsi's suite and tools as over TCP, QEMU's iser:, killed ends, the commands of the guide",
              client("iser_target"), built, beside=True),
        Stage("iscsi-soak", "fio with verification by iSER and TCP, our initiators and QEMU's, for half an hour, while links flap, connections are cut off, targets die and sessions are reinstated",
              client("iscsi_soak", "--seconds", "1800"), built, long=True),
        Stage("uml", "Linux's iscsi_tcp at weft iscsi target, and weft iscsi attach at LIO, in User Mode Linux", client("uml"), built, long=True),
        Stage("srp", "weft srp target and attach on two hosts: nbdcopy and QEMU against the image file, lists of initiators, killed ends and a cut link under load; a file system, with a look at what crosses the link; booting from a unit; Debian's srptools find it, and log in; a unit by two paths whose links are cut; links that lose, disks that fail, a hundred sessions; the commands of the guide",
              client("srp") + client("srp_paths") + client("srp_faults"), built, beside=True),
        Stage("srp-boot", "a Debian kernel with its root file system on a unit of weft srp target, by weft san-boot in QEMU: a login prompt, a clean end, and the next boot after the target was killed under writes",
              client("srp_boot"), built, long=True),
        Stage("net", "weft net: ping, TCP, multicast, tcpdump and tshark over ib0 of two hosts, killed processes, the commands of the guide", client("net"), built, beside=True),
        Stage("vnic", "weft vnic and weft em: ping, arping, TCP, tags and a bridge over opa0 of hosts, a manager and agents that are killed, packets that are none, the guide",
              client("vnic"), built, beside=True),
        Stage("opa", "Omni-Path parts of fabrics: topologies, LIDs beyond 16 bits beside an InfiniBand part, what verbs and ibnetdiscover see; 16B packets in captures",
              client("opa"), built, beside=True),
        Stage("resolver", "Debian's ibacm and weft resolver answer a host's kernel side over netlink instead of SA, as a capture shows; killed, odd and unprivileged ones, the guide; ibacm across a fat tree under both managers: warm, cold, in a storm of connections; ports that go",
              client("resolver") + client("acm_connections", *part), built, beside=True),
        Stage("iwpm", "Debian's iwpmd and weft iwpm map ports for drivers on hosts, each with the other, as captures show; killed daemons and drivers, the guide",
              client("iwpm"), built, beside=True),
        Stage("sriov", "virtual functions as hosts, as root and as an ordinary user: devices, perftest, rping, groups, saquery, OpenSM, a cable, kills, P_Keys and quotas, tunnels in captures, equal ids, one that lies, the guide; UCX, MPI, ibacm, SRP and others in eight of them at once",
              client("sriov") + client("function_programs") + live("tests/hostile/run.py", "--functions", *part), built, beside=True),
        Stage("fat-tree", "pingpong and perftest across a fat tree: counters add up, captures dissect, every CRC is right", some("fat_tree"), built, beside=True),
        Stage("storage", "tgt over iSER with libiscsi beside TCP, QEMU's migration over rdma:, uDAPL, ibacm: a part of each", some("storage"), built, beside=True),
        Stage("rdmacm", "rping and its like, perftest -R, rsockets and fio connect hosts by IP address", some("rdmacm"), built, beside=True),
        Stage("faults", "Debian's programs over links that lose, damage, double and reorder; the weft fault command", client("faults"), built, beside=True),
        Stage("management", "OpenSM and infiniband-diags on a fabric that only they manage, the same preloaded with libumad2sim, and beside ibsim",
              some("management") + client("ibsim") + client("ibsim_comparison"), built, beside=True),
        Stage("rdma-tool", "Debian's rdma shows hosts' devices, links, counters and what programs hold", client("rdma_tool"), built, beside=True),
        Stage("libfabric", "fi_info and fi_pingpong: verbs MSG and DGRAM endpoints, RDM by ofi_rxm and ofi_rxd", some("libfabric"), built, beside=True),
        Stage("blockd", "a protocol over the kernel side's API, as a program in C++ and a module in C, serves memory between two hosts; the commands of the guide", client("blockd"), built, beside=True),
        Stage("command", "the weft command: output, refusals, exit statuses", client("command"), built, beside=True),
        Stage("device-truth", "ibv_devinfo and ibv_asyncwatch print what is so", client("device_truth"), built, beside=True),
        Stage("newer", "tools of Debian 13, under its own dynamic linker and libc, on the drop-in libraries", client("newer_distribution"), built, beside=True),
        Stage("hostile", "a process that lies to programs and to the daemon hurts nobody, and is named in the log", every("tests/hostile", HOSTILE), built, beside=True),
        Stage("documented", "docs/COMPATIBILITY.md says of every client what the stages before found", client("compatibility"),
              ("pingpong", "perftest", "pyverbs", "clients", "rdmacm", "libfabric", "storage", "management", "own-manager")),
        Stage("hot-unplug", "a host goes while ib_write_bw, rping and both forms of blockd run on it and with it: each hears of it and ends, nothing is left; and it comes again",
              some("hot_unplug"), built),
        Stage("namespaces", "hosts as namespaces, as root and as an ordinary user: /sys beside ibv_devinfo and perfquery, services of one machine on two hosts, the end; Open MPI, UCX and PCP there",
              client("namespaces") + client("namespace_programs"), built),
        Stage("crash", "killed and stopped programs, a killed daemon, fork(), busy CPUs, many processes: a part of each", every("tests/crash", CRASHES), built),
        Stage("tsan", "thread sanitizer: every room with threads, the live verbs from several threads",
              build("tsan", *(f"weft_{room}_test" for room in TSAN_ROOMS), "weft_ibverbs_test", "weft_core_threads_test")
              + ctest("tsan", jobs, 60, f"^({'|'.join(TSAN_TESTS)})[.]", NOT_UNDER_TSAN, (*TSAN, *churn)), ("bootstrap",)),
        Stage("gcc", "g++ 12, library assertions: warning-free, unit tests and simulation", build("gcc") + ctest("gcc", jobs, 500), ("bootstrap",), long=True),
        Stage("clang", "clang 19 without precompiled headers, every check of undefined behaviour", build("clang") + ctest("clang", jobs, 60, environment=ASAN),
              ("bootstrap",), long=True),
    ]
