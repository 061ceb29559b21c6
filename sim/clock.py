"""Clocks of a simulated machine: real time, or time that only moves when told to."""

import time

GPU_TICK_NANOSECONDS = 10  # Source: facts of the vendor's counter, 100 MHz on every AMD part


class RealClock:
    """The machine runs freely: its time is ours."""

    def nanoseconds(self) -> int:
        """Nanoseconds since some start; never goes back."""
        return time.monotonic_ns()

    def advance(self, nanoseconds: int) -> None:
        """Real time passes by itself."""


class VirtualClock:
    """Time that passes only as the scheduler says, so that a limit of 30 s costs nothing."""

    START = 1_000_000_000

    def __init__(self) -> None:
        self._now = self.START

    def nanoseconds(self) -> int:
        """Nanoseconds since the machine was switched on, one second before the program began."""
        return self._now

    def advance(self, nanoseconds: int) -> None:
        """Let time pass."""
        self._now += nanoseconds


Clock = RealClock | VirtualClock
