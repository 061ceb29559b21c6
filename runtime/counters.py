"""What has been run and what is allocated, for the whole process and per device.

`GlobalCounters.kernel_count`, `.global_ops`, `.global_mem`, `.time_sum_s`, `.mem_used`;
`GlobalCounters.device("AMD:0")` has the same for one device. Kernels are counted
when they are dispatched; copies have counters of their own.
"""

import threading
from collections.abc import Callable
from dataclasses import dataclass, field


@dataclass
class Counters:
    """Totals since the last reset; `mem_used` is live memory and survives a reset.

    kernel_count: kernels dispatched. global_ops: arithmetic operations by the
    kernels' own account. global_mem: bytes they move by that account.
    time_sum_s: device seconds, where they were measured (DEBUG=2 or wait=True).
    copy_count, copy_bytes: copies between buffers.
    """

    kernel_count: int = 0
    global_ops: int = 0
    global_mem: int = 0
    time_sum_s: float = 0.0
    copy_count: int = 0
    copy_bytes: int = 0
    _live: Callable[[], int] = field(default=int, repr=False)

    @property
    def mem_used(self) -> int:
        """Bytes of device memory that live buffers hold now."""
        return self._live()

    def reset(self) -> None:
        """Back to zero; live memory is a state, not a total, and stays."""
        self.kernel_count = self.global_ops = self.global_mem = 0
        self.time_sum_s = 0.0
        self.copy_count = self.copy_bytes = 0

    def add_kernels(self, count: int, operations: int, size: int, seconds: float) -> None:
        """Account for dispatched kernels."""
        self.kernel_count += count
        self.global_ops += operations
        self.global_mem += size
        self.time_sum_s += seconds

    def add_copy(self, size: int) -> None:
        """Account for one copy of `size` bytes."""
        self.copy_count += 1
        self.copy_bytes += size


class ProcessCounters(Counters):
    """The process's totals, and one `Counters` per opened device."""

    def __init__(self) -> None:
        super().__init__(_live=self._sum)
        self._devices: dict[str, Counters] = {}
        self._lock = threading.Lock()

    def device(self, name: str) -> Counters:
        """The counters of one device, "AMD:0" or "AMD"; zeros before it opens."""
        found = self._devices.get(name) or self._devices.get(f"{name}:0")
        return found if found is not None else Counters()

    def add_device(self, name: str, live: Callable[[], int]) -> Counters:
        """A device opens: its counters; `live` gives its live bytes."""
        counters = self._devices[name] = Counters(_live=live)
        return counters

    def remove_device(self, name: str) -> None:
        """A device has closed: its memory no longer counts as live."""
        self._devices.pop(name, None)

    def record(self, where: Counters, operations: int, size: int, seconds: float) -> None:
        """One kernel ran on the device that `where` belongs to."""
        with self._lock:
            self.add_kernels(1, operations, size, seconds)
            where.add_kernels(1, operations, size, seconds)

    def record_copy(self, where: Counters | None, size: int) -> None:
        """One copy ran; `where`: the device that did the work, None for the host."""
        with self._lock:
            self.add_copy(size)
            if where is not None:
                where.add_copy(size)

    def reset(self) -> None:
        """Every total of the process and of each device back to zero."""
        with self._lock:
            super().reset()
            for counters in self._devices.values():
                counters.reset()

    def _sum(self) -> int:
        return sum(counters.mem_used for counters in list(self._devices.values()))


GlobalCounters = ProcessCounters()
