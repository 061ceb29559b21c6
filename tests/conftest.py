"""The fixture `machine` of `sim.testing`, and what all machine code is compared with.

The machine code that every test file compiles is compared with what LLVM's and NVIDIA's
disassemblers print.
"""

import signal
import sys
from contextlib import suppress
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

from images import Images, watch

pytest_plugins = ["sim.testing"]
IMAGES = pytest.StashKey[Images]()


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
