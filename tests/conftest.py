"""The fixture `machine`: a simulated machine in the place of this one.

Beside it, the machine code that every test file compiles is compared with what LLVM's and
NVIDIA's disassemblers print.
"""

import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from hcq import host
from sim.launch import DEFAULT_DRIVER
from sim.machine import Machine

sys.path.insert(0, str(Path(__file__).parent))

from images import Images, watch

IMAGES = pytest.StashKey[Images]()


@pytest.fixture
def machine() -> Iterator[Callable[..., Machine]]:
    """machine(gpu="gfx1100", count=1, seed=None, kfd=(1, 17), **limits): a machine, in place.

    `gpu` may be a list; `driver` is the version of NVIDIA's driver, or a series such as 580.
    Everything is shut down and the real machine back in place afterwards.
    """
    made: list[Machine] = []
    before = host.use(None)

    def make(gpu="gfx1100", count=1, driver=DEFAULT_DRIVER, **options):
        names = [gpu] if isinstance(gpu, str) else list(gpu)
        found = Machine([name for name in names for _ in range(count)], driver=driver, **options)
        made.append(found)
        host.use(found)
        return found

    yield make
    host.use(before)
    for found in reversed(made):
        found.shut_down()


@pytest.fixture(scope="session")
def images(request):
    """The code objects that this process compiled so far."""
    return request.config.stash[IMAGES]


@pytest.fixture(scope="session")
def amd_fidelity():
    """The comparison of AMD kernels, which remembers what it has seen."""
    from fidelity import Fidelity

    return Fidelity()


@pytest.fixture(scope="session")
def nv_fidelity(tmp_path_factory):
    """The comparison of cubins, which remembers what it has seen."""
    from fidelity_nv import Fidelity

    return Fidelity(tmp_path_factory.mktemp("cubins"))


@pytest.fixture(scope="module", autouse=True)
def faithful(images, amd_fidelity, nv_fidelity):
    """All machine code that a test file compiled reads as the vendors' tools print it.

    And the simulators can execute it. Where such a tool is not installed, nothing is compared;
    continuous integration must have it.
    """
    yield
    with suppress(pytest.skip.Exception):
        assert amd_fidelity.problems(images.of("LLVM:gfx1100")) == []
    with suppress(pytest.skip.Exception):
        for target in images.targets("PTX"):
            assert nv_fidelity.problems(target.removeprefix("PTX:"), images.of(target)) == []


def pytest_configure(config) -> None:
    """Let Ctrl-C interrupt: a shell starts what runs in the background with it ignored."""
    signal.signal(signal.SIGINT, signal.default_int_handler)
    config.stash[IMAGES] = watch()
