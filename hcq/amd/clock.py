"""GPU clock ticks as nanoseconds, and tied to the host's clock.

Source: the GPU's timestamp counter runs at 100 MHz (ROCr, HSA_AMD_AGENT_INFO
timestamp frequency on these parts); pairs come from KFD_GET_CLOCK_COUNTERS.
"""

from dataclasses import dataclass

from hcq.amd.kfd import Kfd
from hcq.ioctl_defs import kfd

NANOSECONDS_PER_TICK = 10


@dataclass(frozen=True)
class ClockPair:
    """Both clocks at one moment: GPU ticks, host nanoseconds."""

    ticks: int
    host_ns: int


class Clock:
    """The clock of one GPU. Host times never run backwards for growing ticks."""

    def __init__(self, process: Kfd, gpu_id: int) -> None:
        self._process = process
        self._gpu_id = gpu_id
        self._anchor: ClockPair | None = None

    def pair(self) -> ClockPair:
        """Read both clocks."""
        args = self._process.call(kfd.GET_CLOCK_COUNTERS, gpu_id=self._gpu_id)
        frequency = args.system_clock_freq or 1_000_000_000
        return ClockPair(
            args.gpu_clock_counter, args.system_clock_counter * 1_000_000_000 // frequency
        )

    @staticmethod
    def nanoseconds(ticks: int) -> float:
        """A span of GPU ticks."""
        return float(ticks * NANOSECONDS_PER_TICK)

    def host_time(self, ticks: int) -> int:
        """Host nanoseconds of a GPU time; one anchor for all, so order is kept."""
        if self._anchor is None:
            self._anchor = self.pair()
        return self._anchor.host_ns + (ticks - self._anchor.ticks) * NANOSECONDS_PER_TICK
