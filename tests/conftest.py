"""The fixture `machine`: a simulated machine in the place of this one.

Beside it, every test file's AMD kernels are compared with LLVM's disassembler.
"""

import signal
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from hcq import host
from sim.launch import DEFAULT_DRIVER
from sim.machine import Machine

sys.path.insert(0, str(Path(__file__).parent))


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
def kernels():
    """(images of AMD kernels compiled so far, the comparison that remembers what it has seen)."""
    from fidelity import Fidelity, watch

    return watch(), Fidelity()


@pytest.fixture(scope="module", autouse=True)
def faithful(kernels):
    """Every AMD kernel that a test file compiled reads as LLVM prints it, and can be executed."""
    yield
    from fidelity import Missing

    images, comparison = kernels
    try:
        problems = comparison.problems(images)
    except Missing:
        return
    assert problems == []


def pytest_configure() -> None:
    """Let Ctrl-C interrupt: a shell starts what runs in the background with it ignored."""
    signal.signal(signal.SIGINT, signal.default_int_handler)
