"""The pytest fixture `machine`: a simulated machine in the place of this one.

For test suites of drivers, this stack's own among them: `pytest_plugins = ["sim.testing"]` in
a conftest.py. Nothing else imports this module, so that pytest is needed by tests only.
"""

from collections.abc import Iterator, Sequence
from typing import Any, Protocol

import pytest

from hcq import host
from sim.machine import DEFAULT_DRIVER, Machine


class MakeMachine(Protocol):
    """Call it, and every device that is opened from then on is simulated."""

    def __call__(
        self,
        gpu: str | Sequence[str] = "gfx1100",
        count: int = 1,
        driver: str = DEFAULT_DRIVER,
        **options: Any,
    ) -> Machine: ...


@pytest.fixture
def machine() -> Iterator[MakeMachine]:
    """machine(gpu="gfx1100", count=1, seed=None, kfd=(1, 17), **limits): a machine, in place.

    `gpu` may be a list; `driver` is the version of NVIDIA's driver, or a series such as 580.
    Everything is shut down and the real machine back in place afterwards.
    """
    made: list[Machine] = []
    before = host.use(None)

    def make(
        gpu: str | Sequence[str] = "gfx1100",
        count: int = 1,
        driver: str = DEFAULT_DRIVER,
        **options: Any,
    ) -> Machine:
        names = [gpu] if isinstance(gpu, str) else list(gpu)
        found = Machine([name for name in names for _ in range(count)], driver=driver, **options)
        made.append(found)
        host.use(found)
        return found

    yield make
    host.use(before)
    for found in reversed(made):
        found.shut_down()
