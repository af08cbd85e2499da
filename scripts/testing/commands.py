"""What a stage of scripts/test consists of: commands, and what happens when one fails. Standard library only."""
import dataclasses
import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
LOGS = ROOT / "build" / "test-logs"
PYTHON = [sys.executable, "-B"]
WAITING = 1  # policy: live tests beside those that keep the CPUs busy, since they wait half of their time


@dataclasses.dataclass(frozen=True)
class Command:
    """One process. `live`: it runs programs beside each other in real time, so that a busy machine may fail it; one that
    fails is run twice more, alone, and is unsteady if both pass. `ctest`: the preset whose tests it runs; of these only
    those with the label `live` get that chance. A value of the environment that is a function is asked for when the command
    runs: before, bootstrap may not have installed what it looks for."""
    argv: tuple
    environment: tuple = ()
    builds: bool = False
    live: bool = False
    ctest: str = ""

    def variables(self):
        return {key: value() if callable(value) else value for key, value in self.environment}

    def shown(self):
        return " ".join([*(f"{key}={value}" for key, value in self.variables().items()), *self.argv])


@dataclasses.dataclass(frozen=True)
class Stage:
    name: str
    what: str
    commands: tuple
    needs: tuple = ()
    quick: bool = False
    long: bool = False    # runs only with --long
    beside: bool = False  # may run at the same time as its neighbours in the list that may, too


def build(preset, *targets):
    """Configure and build a CMake preset, or only some of its targets."""
    chosen = ["--target", *targets] if targets else []
    return (Command(("cmake", "--preset", preset), builds=True),
            Command(("cmake", "--build", "--preset", preset, *chosen), builds=True))


def ctest(preset, jobs, seeds, only=None, without=None, environment=()):
    """Unit tests, simulation and live tests of a preset whose names have `only` and not `without`; the house rules are a stage of their
    own. What has the label `unit` runs many tests to a process; the rest gets a process for each."""
    variables = (("WEFT_SIM_SEEDS", str(seeds)), *environment)
    some = tuple(word for option, value in (("--only", only), ("--except", without)) if value for word in (option, value))
    some_of_ctest = tuple(word for option, value in (("-R", only), ("-E", without)) if value for word in (option, value))
    return (Command((*PYTHON, "scripts/testing/unit_tests.py", preset, "--jobs", str(jobs), "--report", str(LOGS / f"{preset}-unit.xml"), *some), variables),
            Command(("ctest", "--preset", preset, "-LE", "house|unit", "-j", str(jobs + WAITING), *some_of_ctest), variables, ctest=preset))


def script(path, *arguments):
    return (Command((*PYTHON, path, *arguments)),)


def live(path, *arguments, preset="release", environment=()):
    """A runner of real programs on a built fabric."""
    return (Command((*PYTHON, path, *arguments), (("WEFT_BUILD_DIR", str(ROOT / "build" / preset)), *environment), live=True),)


def client(name, *arguments, **options):
    return live(f"tests/clients/{name}.py", *arguments, **options)


def sanitizer_runtime():
    """Of clang 19, which must be there by now."""
    return subprocess.run(["clang++-19", "-print-file-name=libclang_rt.asan-x86_64.so"], capture_output=True, text=True,
                          check=True).stdout.strip()


def sanitizer_preload():
    """A sanitized library inside an ordinary program wants the runtime first; the programs' own leaks are not ours."""
    return (("WEFT_CLIENT_PRELOAD", sanitizer_runtime), ("ASAN_OPTIONS", "detect_leaks=0"), ("UBSAN_OPTIONS", "print_stacktrace=1"))
