"""The launcher: parse its options, put a simulated machine in place, run the script.

The script sees what it would see without the launcher: sys.argv, `__name__`,
sys.path[0] and its own exit code.
"""

import atexit
import importlib.util
import os
import re
import runpy
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from types import ModuleType

from hcq import host
from hcq.errors import ConfigError, HcqError, Unsupported, nearest
from sim import build
from sim.build import CHIPS
from sim.machine import DEFAULT_DRIVER, Machine
from sim.nv import series
from sim.products import meant

DEFAULT_GPUS = ("gfx1100", "sm_90")
DRIVER = re.compile(r"\d+(\.\d+){0,2}")
USAGE = (
    "python -m sim [--gpu NAME]... [--count N] [--seed N] [--driver V] [--stats] [--faults PLAN] "
    "(SCRIPT | -m MODULE) [ARGUMENT]..."
)
HELP = f"""usage: {USAGE}

Run a Python script on a machine with simulated GPUs: it sees their device files, as on hardware.

  --gpu NAME     a GPU to have; may be repeated; default: {" and ".join(DEFAULT_GPUS)}
  --count N      so many of each, 1 to 64; default: 1
  --seed N       run in an order that the number decides; without it the GPUs run freely
  --driver V     version of NVIDIA's driver, or a series: {series.known()};
                 default: {DEFAULT_DRIVER}
  --stats        at the end print what the GPUs counted, on stderr
  --faults PLAN  not available yet
  -m MODULE      run a module instead of a script
  -h, --help     print this

chips: {", ".join(CHIPS)}
The script chooses among them as on hardware: DEVICE=AMD, DEVICE=NV, DEVICE=NV:1.
"""


@dataclass
class Options:
    """What the command line asks for. `target` is the script, or the module after -m."""

    gpus: list[str] = field(default_factory=list)
    count: int = 1
    seed: int | None = None
    driver: str = DEFAULT_DRIVER  # of NVIDIA chips
    stats: bool = False
    help: bool = False
    is_module: bool = False
    target: str = ""
    arguments: list[str] = field(default_factory=list)


def main(arguments: list[str], write: Callable[[str], object] = sys.stderr.write) -> None:
    """Run a script on a simulated machine; its exit is ours. A bad option exits with 2."""
    try:
        options = parse(arguments)
        if options.help:
            sys.stdout.write(HELP)
            return
        if not options.is_module and not os.path.isfile(options.target):
            raise ConfigError(f"no script {options.target!r}")
        # Registered before the machine, this runs when everything else has been closed.
        machines: list[Machine] = []
        if options.stats:
            atexit.register(_print_stats, machines, write)
        names = [name for name in options.gpus for _ in range(options.count)]
        machines.append(Machine(names, seed=options.seed, driver=options.driver))
    except HcqError as error:
        write(f"{type(error).__name__}: {error.what}\n")
        raise SystemExit(2) from None
    host.use(machines[0])
    if options.is_module:
        _run_module(options)
    else:
        _run_script(options)


def parse(arguments: list[str]) -> Options:
    """The options; ConfigError with one line for a bad one, Unsupported for fault plans."""
    options = Options()
    words = list(arguments)
    while words and words[0].startswith("-"):
        word = words.pop(0)
        if word == "-m":
            options.is_module = True
            break
        name, given, value = word.partition("=")
        if name in _FLAGS and not given:
            setattr(options, _FLAGS[name], True)
        elif name in _VALUES:
            if not given and not words:
                raise ConfigError(f"option {name} needs a value")
            _VALUES[name](options, value if given else words.pop(0))
        else:
            near = nearest(name, [*_FLAGS, *_VALUES, "-m"])
            raise ConfigError(f"no option {word!r}{near}; {_CHIPS}; usage: {USAGE}")
    if not words and not options.help:
        what = "module" if options.is_module else "script"
        raise ConfigError(f"no {what} to run; usage: {USAGE}")
    options.target, options.arguments = (words or [""])[0], words[1:]
    options.gpus = options.gpus or list(DEFAULT_GPUS)
    build.check(options.gpus, options.driver)
    return options


def _gpu(options: Options, value: str) -> None:
    if value not in CHIPS:
        raise ConfigError(f"--gpu {value}: no such chip{meant(value, CHIPS)}; {_CHIPS}")
    options.gpus.append(value)


def _count(options: Options, value: str) -> None:
    options.count = _number("--count", value)
    if not 1 <= options.count <= 64:
        raise ConfigError(f"--count {value}: 1 to 64 are accepted; {_CHIPS}")


def _seed(options: Options, value: str) -> None:
    options.seed = _number("--seed", value, "a whole number of at least 0")


def _driver(options: Options, value: str) -> None:
    if not DRIVER.fullmatch(value):
        accepted = f"a version such as {DEFAULT_DRIVER} or a series of {series.known()}"
        raise ConfigError(f"--driver {value}: {accepted} is accepted; {_CHIPS}")
    series.resolve(value)
    options.driver = value


def _faults(options: Options, value: str) -> None:
    raise Unsupported(f"--faults {value}: fault plans are not available yet")


def _number(name: str, value: str, accepted: str = "a whole number") -> int:
    if not value.isdecimal():
        raise ConfigError(f"{name} {value}: {accepted} is accepted; {_CHIPS}")
    return int(value)


_CHIPS = f"chips: {', '.join(CHIPS)}"
_FLAGS = {"--stats": "stats", "--help": "help", "-h": "help"}
_VALUES: dict[str, Callable[[Options, str], None]] = {
    "--gpu": _gpu, "--count": _count, "--seed": _seed, "--driver": _driver, "--faults": _faults,
}  # fmt: skip


def _run_script(options: Options) -> None:
    path = options.target
    with open(path, "rb") as file:
        code = compile(file.read(), path, "exec")
    sys.argv = [path, *options.arguments]
    sys.path[0] = os.path.dirname(os.path.realpath(path))
    module = ModuleType("__main__")
    module.__dict__.update(__file__=path, __builtins__=__builtins__, __cached__=None)
    sys.modules["__main__"] = module
    exec(code, module.__dict__)


def _run_module(options: Options) -> None:
    sys.argv = [options.target, *options.arguments]
    sys.path[0] = os.getcwd()
    if not _can_run(options.target):
        sys.stderr.write(f"ConfigError: no module {options.target!r} that can be run\n")
        raise SystemExit(2)
    runpy.run_module(options.target, run_name="__main__", alter_sys=True)


def _can_run(module: str) -> bool:
    """Whether there is such a module, or package with a __main__. Its parents are imported."""
    try:
        found = importlib.util.find_spec(module)
        if found is not None and found.submodule_search_locations is not None:
            found = importlib.util.find_spec(f"{module}.__main__")
    except ModuleNotFoundError as error:
        if module != error.name and not module.startswith(f"{error.name}."):
            raise  # something that is there imports what is not
        return False
    except (ImportError, ValueError):  # of names such as "..x" and "x."
        return False
    return found is not None


def _print_stats(machines: list[Machine], write: Callable[[str], object]) -> None:
    for machine in machines:
        write("".join(f"{name} {value}\n" for name, value in machine.stats.items()))
