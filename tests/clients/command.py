#!/usr/bin/env python3
"""The weft command itself: what it prints, how it refuses, which exit status it has.

    command.py
"""
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import time
import unittest
from xml.etree import ElementTree

import weft_clients

TWO_HCAS = """
[[host]]
name = "h1"
[[host.hca]]
[[host.hca]]
ports = 2
[[host]]
name = "h2"
[[host.hca]]
[[host.hca.port]]
lmc = 2
[[switch]]
name = "s1"
ports = 4
""" + "".join(f'[[link]]\na = "{host}"\nb = "s1:{port}"\n' for port, host in enumerate(("h1:1", "h1/weft1:1", "h1/weft1:2", "h2:1"), 1))

GOLDEN = weft_clients.ROOT / "tests" / "golden" / "pcaps"


def weft(*arguments, timeout=60, **environment):
    return subprocess.run([weft_clients.weft_command(), *arguments], capture_output=True, text=True, timeout=timeout,
                          stdin=subprocess.DEVNULL, env={**os.environ, **environment})


class Command(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        self.run_directory = str(pathlib.Path(self.folder.name) / "run")

    def weft(self, *arguments, **environment):
        return weft(*arguments, **{"WEFT_RUN": self.run_directory, "WEFT_FABRIC": "test", **environment})

    def test_help_names_every_subcommand_and_usage_errors_are_status_2(self):
        done = self.weft("--help")
        self.assertEqual(done.returncode, 0)
        for name in ("run", "up", "down", "status", "exec", "topology", "vf", "explain", "capture", "decode"):
            self.assertIn(name, done.stdout)
        self.assertEqual(self.weft("fly").returncode, 2)
        self.assertEqual(self.weft().returncode, 2)

    def test_a_fabric_goes_up_and_down(self):
        self.assertEqual(self.weft("up", "star", "3").returncode, 0)
        self.addCleanup(self.weft, "down")
        again = self.weft("up")
        self.assertEqual(again.returncode, 1)
        self.assertIn("is up already", again.stderr)
        status = json.loads(self.weft("status", "--counters", "--json").stdout)
        self.assertEqual({port["node"] for port in status["ports"]}, {"h1", "h2", "h3", "s1"})
        self.assertIn("Active", self.weft("status").stdout)
        self.assertEqual(self.weft("exec", "h2", "--", "sh", "-c", "test $WEFT_HOST = h2 && exit 7").returncode, 7)
        self.assertEqual(self.weft("exec", "h2", "--", "no-such-program").returncode, 127)
        nobody = self.weft("exec", "h9", "--", "true")
        self.assertEqual(nobody.returncode, 1)
        self.assertIn("h1 to h3", nobody.stderr)
        full = self.weft("capture", "h1", "-o", "/dev/full")
        self.assertEqual(full.returncode, 1)
        self.assertIn("/dev/full: No space left on device", full.stderr)
        refused = self.weft("capture", "h9", "-o", os.devnull)
        self.assertEqual(refused.returncode, 1)
        self.assertEqual(self.weft("down").returncode, 0)
        self.assertEqual(os.listdir(self.run_directory), [], "nothing is left behind")
        self.assertIn("weft up", self.weft("status").stderr)

    def test_hosts_may_have_several_hcas_and_ports_several_lids(self):
        topology = pathlib.Path(self.folder.name) / "two.toml"
        topology.write_text(TWO_HCAS)
        self.assertEqual(self.weft("up", str(topology)).returncode, 0)
        self.addCleanup(self.weft, "down")
        status = json.loads(self.weft("status", "--json").stdout)
        peers = {port["name"]: port["peer"] and port["peer"]["name"] for port in status["ports"]}
        self.assertEqual(peers["s1:3"], "h1/weft1:2")
        self.assertEqual(peers["h2:1"], "s1:4")
        self.assertEqual([port["lmc"] for port in status["ports"] if port["name"] == "h2:1"], [2])
        devices = self.weft("exec", "h1", "--", "ibv_devinfo").stdout
        self.assertEqual(devices.count("hca_id:"), 2)
        self.assertEqual(devices.count("PORT_ACTIVE"), 3)
        port = str(20_000 + os.getpid() % 10_000)
        done = self.weft("run", "--fabric", str(topology), "--on", "h1", f"ibv_rc_pingpong -c -d weft1 -i 2 -p {port}",
                         "--on", "h2", f"ibv_rc_pingpong -c -p {port} 127.77.0.1")
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertEqual(done.stdout.count("1000 iters in"), 2)

    def test_run_labels_output_and_ends_with_the_last_programs_status(self):
        done = self.weft("run", "--on", "h1", "echo one; exit 3", "--on", "h2", "echo two; exit 4", "--delay", "0.1")
        self.assertEqual(done.returncode, 4)
        self.assertIn("h1 | one", done.stdout)
        self.assertIn("h2 | two", done.stdout)
        self.assertEqual(os.listdir(self.run_directory), [])

    def test_run_ends_servers_that_would_wait_for_ever(self):
        done = self.weft("run", "--on", "h1", "sleep 1000", "--on", "h2", "true", "--delay", "0")
        self.assertEqual(done.returncode, 0)

    def test_run_starts_the_next_program_when_the_last_listens_by_rdma_cm(self):
        start = time.monotonic()
        done = self.weft("run", "--on", "h1", "rping -s -C 3", "--on", "h2", "rping -c -a 127.77.0.1 -C 3 -v")
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertEqual(done.stdout.count("ping data"), 3)
        self.assertLess(time.monotonic() - start, 8, "it waits for 10 s for what does not listen")

    def test_run_of_one_program_passes_its_output_and_status(self):
        done = self.weft("run", "--", "sh", "-c", "echo $WEFT_HOST; exit 5")
        self.assertEqual((done.stdout, done.returncode), ("h1\n", 5))
        for option in (("--fabric", "pair"), ("--fault", "drop every=9"), ("--time-scale", "2"), ("--sm-port", "h1:1")):
            done = self.weft("run", *option, "--", "sh", "-c", "echo $WEFT_HOST; exit 5")
            self.assertEqual((done.stdout, done.returncode), ("h1\n", 5), option)
        self.assertEqual(self.weft("run").returncode, 2)
        self.assertEqual(self.weft("run", "--on", "h9", "true").returncode, 1)

    def test_topologies_round_trip_through_files(self):
        generated = self.weft("topology", "generate", "fat-tree", "4")
        self.assertEqual(generated.returncode, 0)
        path = pathlib.Path(self.folder.name) / "tree.toml"
        path.write_text(generated.stdout)
        self.assertEqual(self.weft("topology", "show", str(path)).stdout, self.weft("topology", "show", "fat-tree", "4").stdout)
        path.write_text("hosts = 7\n")
        broken = self.weft("topology", "show", str(path))
        self.assertEqual(broken.returncode, 1)
        self.assertIn("tree.toml", broken.stderr)

    def test_topologies_are_written_in_every_form_and_read_back(self):
        path = pathlib.Path(self.folder.name) / "torus.net"
        path.write_text(self.weft("topology", "generate", "torus:3x3", "--to", "net").stdout)
        self.assertEqual(self.weft("topology", "show", str(path)).stdout, self.weft("topology", "show", "torus:3x3").stdout)
        self.assertEqual(self.weft("topology", "convert", str(path), "--to", "net").stdout, path.read_text())
        self.assertTrue(self.weft("topology", "convert", str(path), "--to", "dot").stdout.startswith("graph fabric {"))
        path.write_text("Ca 1 \"h1\"\n[1] \"h2\"[1]\n")
        broken = self.weft("up", str(path))
        self.assertEqual(broken.returncode, 1)
        self.assertIn('torus.net:2: no node has the id "h2"', broken.stderr)

    def test_links_and_time_are_as_the_command_line_says(self):
        options = ["--link-rate", "0.1", "--link-delay", "200us", "--time-scale", "0.5"]
        generated = self.weft("topology", "generate", "pair", *options)
        for line in ("rate_gbps = 0.1", "delay_ns = 200000", "time_scale = 0.5"):
            self.assertIn(line, generated.stdout.splitlines())
        path = pathlib.Path(self.folder.name) / "slow.toml"
        path.write_text(generated.stdout)
        self.assertIn("timeouts times 0.5", self.weft("topology", "show", str(path)).stdout)
        self.assertEqual(self.weft("up", str(path)).returncode, 0)
        self.addCleanup(self.weft, "down")
        ports = json.loads(self.weft("status", "--json").stdout)["ports"]
        self.assertEqual({(port["rate_mbps"], port["delay_ns"]) for port in ports}, {(100, 200_000)})
        self.assertIn("0.1 Gb/s, 200000 ns", self.weft("status").stdout)
        for wrong in (["--link-rate", "0"], ["--link-delay", "2s"], ["--time-scale", "0"]):
            self.assertEqual(self.weft("run", *wrong, "--", "true").returncode, 1, wrong)
        self.assertEqual(self.weft("run", "--link-delay", "5", "--", "true").returncode, 2, "a time has a unit")

    def test_decode_prints_captures_of_the_linux_kernel(self):
        captures = sorted(GOLDEN.glob("*.pcap"))
        self.assertTrue(captures)
        decoded = 0
        for capture in captures:
            done = self.weft("decode", "--summary", str(capture))
            self.assertEqual(done.returncode, 0, (capture, done.stderr))
            decoded += done.stdout.count("RoCEv2 ")
        self.assertGreater(decoded, 100)
        self.assertEqual(self.weft("decode", "/etc/hostname").returncode, 1)

    def test_decode_finds_a_damaged_packet(self):
        whole = sorted(GOLDEN.glob("*.pcap"))[0].read_bytes()
        damaged = pathlib.Path(self.folder.name) / "damaged.pcap"
        damaged.write_bytes(whole[:-1] + bytes([whole[-1] ^ 1]))  # of the last packet's ICRC
        done = self.weft("decode", "--summary", str(damaged))
        self.assertEqual(done.returncode, 1)
        self.assertEqual(done.stdout.count("ICRC wrong"), 1)
        self.assertIn("1 of ", done.stderr)


    def test_the_only_fabric_that_is_up_is_the_one_that_is_meant(self):
        def anonymous(*arguments):
            return self.weft(*arguments, WEFT_FABRIC="")
        self.assertEqual(anonymous("up", "--name", "lab").returncode, 0)
        self.addCleanup(self.weft, "down", "--name", "lab")
        self.assertEqual(json.loads(anonymous("status", "--json").stdout)["fabric"], "lab")
        self.assertEqual(anonymous("exec", "h2", "--", "sh", "-c", "echo $WEFT_FABRIC").stdout, "lab\n")
        for command in (("link", "down", "h1"), ("port", "set", "h1:1", "reset"), ("fault", "list"), ("node", "add", "h3", "--link", "h2")):
            self.assertNotIn("is not up", anonymous(*command).stderr, command)
        self.assertEqual(self.weft("status").returncode, 1, "a name that is said is not exchanged for another")
        self.assertEqual(self.weft("up").returncode, 0)
        self.addCleanup(self.weft, "down")
        for command in (("status",), ("down",), ("exec", "h1", "--", "true")):
            several = anonymous(*command)
            self.assertEqual(several.returncode, 1)
            self.assertIn("several fabrics are up: lab, test; select one by --name or WEFT_FABRIC", several.stderr)
        self.assertEqual(anonymous("up").returncode, 0)
        self.addCleanup(self.weft, "down", "--name", "default")
        self.assertEqual(json.loads(anonymous("status", "--json").stdout)["fabric"], "default")

    def test_an_unknown_command_is_called_so(self):
        for words, said in ((("frobnicate",), "unknown command 'frobnicate'; the commands are in weft --help"),
                            (("link", "sideways", "h1"), "unknown command 'sideways'; the commands are in weft link --help"),
                            (("link", "--name", "lab", "sideways"), "unknown command 'sideways'")):
            done = self.weft(*words)
            self.assertEqual(done.returncode, 2)
            self.assertIn(said, done.stderr)
        self.assertNotIn("unknown command", self.weft("--frobnicate").stderr)

    def test_a_program_that_is_not_there_is_127_and_one_that_cannot_be_executed_126(self):
        folder = pathlib.Path(self.folder.name) / "nosuchprog"  # execvp() says EACCES of it, as of a folder of PATH that may not be searched
        folder.mkdir()
        plain = pathlib.Path(self.folder.name) / "plain"
        plain.write_text("")
        path = {"PATH": f"{os.environ['PATH']}:{self.folder.name}"}
        self.assertEqual(self.weft("up").returncode, 0)
        self.addCleanup(self.weft, "down")
        for words in (("exec", "h1", "--"), ("run", "--")):
            for name, status, said in (("nosuchprog", 127, "nosuchprog: not found"), ("plain", 126, "plain: Permission denied"),
                                       (str(plain), 126, "plain: Permission denied"), (f"{self.folder.name}/none", 127, "none: No such file")):
                done = self.weft(*words, name, **path)
                self.assertEqual(done.returncode, status, (words, name, done.stderr))
                self.assertIn(said, done.stderr)

    def test_programs_outside_an_ordinary_users_path_are_found(self):
        self.assertEqual(self.weft("up").returncode, 0)
        self.addCleanup(self.weft, "down")
        for path, expected in (("/usr/bin:/bin", "/usr/bin:/bin:/usr/sbin:/sbin"), ("/sbin:/usr/bin:/bin", "/sbin:/usr/bin:/bin:/usr/sbin")):
            for words in (("exec", "h1", "--"), ("exec", "--ns", "h1", "--"), ("run", "--on", "h1")):
                command = ["printenv PATH"] if words[0] == "run" else ["printenv", "PATH"]
                done = self.weft(*words, *command, PATH=path)
                self.assertEqual((done.returncode, done.stdout.strip().rsplit(" ", 1)[-1]), (0, expected), (words, done.stderr))

    def installed(self, name):
        """The weft command in a folder of that name, with what programs on hosts load."""
        built, there = weft_clients.build_folder() / "src" / "compat", pathlib.Path(self.folder.name) / name
        for folder in ("bin", "lib/weft"):
            (there / folder).mkdir(parents=True)
        for library in ("ibverbs/libibverbs.so.1", "ibumad/libibumad.so.3", "rdmacm/librdmacm.so.1", "netlink/libweft-netlink.so"):
            shutil.copy(built / library, there / "lib" / "weft")
        return shutil.copy(weft_clients.weft_command(), there / "bin")

    def run_installed(self, command, *arguments):
        return subprocess.run([command, *arguments], capture_output=True, text=True, timeout=60, stdin=subprocess.DEVNULL,
                              env={**os.environ, "WEFT_RUN": self.run_directory, "WEFT_FABRIC": "test"})

    def test_works_in_a_folder_whose_name_has_a_space(self):
        """`rdma` asks netlink, whose library programs load before all others: LD_PRELOAD ends names at spaces."""
        command = self.installed("a place with spaces")
        self.assertEqual(self.run_installed(command, "up", "pair").returncode, 0)
        self.addCleanup(self.run_installed, command, "down")
        for program in (("rdma", "dev"), ("ibv_devices",)):
            done = self.run_installed(command, "exec", "h1", "--", *program)
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertIn("weft0", done.stdout)
            self.assertEqual(done.stderr, "")

    def test_says_so_in_a_folder_whose_name_the_dynamic_linker_cannot_read(self):
        command = self.installed("a:place")
        self.assertEqual(self.run_installed(command, "up", "pair").returncode, 0)
        self.addCleanup(self.run_installed, command, "down")
        done = self.run_installed(command, "exec", "h1", "--", "true")
        self.assertEqual(done.returncode, 1)
        self.assertIn("move Weft to a folder without", done.stderr)

    def test_a_drawing_needs_no_other_program(self):
        for topology in ("torus:4x4x4", "fat-tree:4:3", "pair"):
            drawn = self.weft("topology", "generate", topology, "--to", "svg", PATH="/nowhere")
            self.assertEqual(drawn.returncode, 0, drawn.stderr)
            names = [text.text for text in ElementTree.fromstring(drawn.stdout).iter("{http://www.w3.org/2000/svg}text")]
            self.assertIn("h2", names)

    def test_a_topology_is_a_file_or_a_pipe_of_bounded_size(self):
        for path, said in (("/dev/zero", "is a device or socket"), (self.folder.name, "is a folder"), ("/no/such", "No such file")):
            done = self.weft("up", path)
            self.assertEqual(done.returncode, 1, path)
            self.assertIn(said, done.stderr)
        large = pathlib.Path(self.folder.name) / "large.toml"
        with large.open("wb") as file:
            file.truncate(1 << 40)
        self.assertIn("MiB", self.weft("topology", "show", str(large)).stderr)
        endless = subprocess.run(["sh", "-c", 'yes | "$0" topology show /dev/stdin', weft_clients.weft_command()], capture_output=True,
                                 text=True, timeout=60)
        self.assertEqual((endless.returncode, "MiB" in endless.stderr), (1, True), endless.stderr)
        piped = subprocess.run([weft_clients.weft_command(), "topology", "show", "/dev/stdin"], capture_output=True, text=True, timeout=60,
                               input=self.weft("topology", "generate", "pair").stdout)
        self.assertEqual(piped.stdout, self.weft("topology", "show", "pair").stdout)


class BuildFolder(unittest.TestCase):
    """What scripts/weft does before it runs the command, with programs in the place of cmake and ninja that say what they were asked."""

    CMAKE = """#!/bin/sh
while [ $# -gt 0 ]; do case $1 in -S) from=$2;; -B) to=$2;; esac; shift; done
if [ -e "$to/CMakeCache.txt" ] && ! grep -qx "CMAKE_HOME_DIRECTORY:INTERNAL=$from" "$to/CMakeCache.txt"; then
  echo "CMake Error: The source does not match the source used to generate cache"; exit 1
fi
echo "configured $from" >>"$LOG"
printf 'CMAKE_HOME_DIRECTORY:INTERNAL=%s\nCMAKE_CACHEFILE_DIR:INTERNAL=%s\n' "$from" "$to" >"$to/CMakeCache.txt"
echo "$from" >"$to/build.ninja"
"""
    NINJA = """#!/bin/sh
echo "built $(cat "$2/build.ninja")" >>"$LOG"
"""

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name).resolve()
        (self.folder / "bin").mkdir()
        for name, text in (("cmake", self.CMAKE), ("ninja", self.NINJA), ("g++", "#!/bin/sh\n")):
            program = self.folder / "bin" / name
            program.write_text(text)
            program.chmod(0o755)

    def build(self, root):
        log = self.folder / "log"
        log.write_text("")
        done = subprocess.run(["bash", "-euc", '. "$0/scripts/common.sh"; build_programs "$1" "$1/build/release"', weft_clients.ROOT, root],
                              env={**os.environ, "PATH": f"{self.folder / 'bin'}:{os.environ['PATH']}", "LOG": str(log)},
                              capture_output=True, text=True, timeout=60)
        self.assertEqual(done.returncode, 0, done.stderr)
        return log.read_text().splitlines()

    def test_is_made_anew_in_a_checkout_that_was_moved_or_copied(self):
        first, copy, moved = (self.folder / name for name in ("first", "copy", "moved"))
        self.assertEqual(self.build(first), [f"configured {first}", f"built {first}"])
        self.assertEqual(self.build(first), [f"built {first}"], "and only then")
        shutil.copytree(first, copy)
        self.assertEqual(self.build(copy), [f"configured {copy}", f"built {copy}"])
        first.rename(moved)
        self.assertEqual(self.build(moved), [f"configured {moved}", f"built {moved}"])
        self.assertEqual(self.build(moved), [f"built {moved}"])


if __name__ == "__main__":
    sys.exit(unittest.main(verbosity=1))
