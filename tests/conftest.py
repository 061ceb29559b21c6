"""The fixture `machine`: a simulated machine in the place of this one."""

from collections.abc import Callable, Iterator

import pytest

from hcq import host
from sim.launch import DEFAULT_DRIVER
from sim.machine import Machine


@pytest.fixture
def machine() -> Iterator[Callable[..., Machine]]:
    """machine(gpu="gfx1100", count=1, seed=None, kfd=(1, 17), **limits): a machine, in place.

    `gpu` may be a list; `driver` is the version of NVIDIA chips, of which there are none yet.
    Everything is shut down and the real machine back in place afterwards.
    """
    made: list[Machine] = []
    before = host.use(None)

    def make(gpu="gfx1100", count=1, driver=DEFAULT_DRIVER, **options):
        names = [gpu] if isinstance(gpu, str) else list(gpu)
        found = Machine([name for name in names for _ in range(count)], **options)
        made.append(found)
        host.use(found)
        return found

    yield make
    host.use(before)
    for found in reversed(made):
        found.shut_down()
