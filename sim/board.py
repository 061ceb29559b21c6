"""What all parts of a simulated machine share, and what it keeps of refused work."""

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Protocol

from sim.clock import Clock
from sim.space import AddressSpace


class Executor(Protocol):
    """What carries out machine code of one vendor."""

    counters: dict[str, int]

    def run(self, launch: Any, stop: Callable[[], bool], /) -> None:
        """Carry out a launch; raises the vendor's wave or warp fault."""

    def close(self) -> None:
        """Let helper threads go."""


@dataclass(frozen=True)
class Fault:
    """Something a simulated GPU refused.

    `kind` is memory, queue, hang or simulator; wave on AMD; warp, doorbell or lost on NVIDIA.
    `gpu` counts the GPUs of that vendor.
    """

    kind: str
    gpu: int
    queue: str
    text: str


@dataclass
class Board:
    """What all parts of a machine share."""

    clock: Clock
    space: AddressSpace
    record: Callable[..., None]
    notify: Callable[[], None]
    seeded: bool
    counters: dict[str, int] = field(default_factory=dict)
    faults: list[Fault] = field(default_factory=list)

    def count(self, name: str, amount: int = 1) -> None:
        """Add to a counter of the machine."""
        self.counters[name] = self.counters.get(name, 0) + amount


class Stoppable(Protocol):
    """A queue or channel that may go away while its kernel runs."""

    stopping: bool


class Patience:
    """When a running kernel is stopped: its queue goes away, or it ran too long."""

    def __init__(
        self, board: Board, queue: Stoppable, watchdog: float | None, kernel_seconds: float
    ) -> None:
        self.queue = queue
        self.is_reset = False
        self._seeded = board.seeded
        self._watchdog = watchdog
        self._kernel_seconds = kernel_seconds
        self._started = time.monotonic()

    def is_over(self) -> bool:
        """Asked now and then while the kernel runs."""
        seconds = time.monotonic() - self._started
        if self._watchdog is not None and not self._seeded:
            self.is_reset = seconds > self._watchdog
        endless = self._seeded and seconds > self._kernel_seconds
        return self.queue.stopping or self.is_reset or endless
