"""Signals: 16-byte cells in memory that host and GPUs see; and the timeline over them.

A cell holds a 64-bit value and a 64-bit time. Engines compare 32 bits, so the
timeline keeps payloads below 2**32: it turns to its other cell before they would wrap.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING

from hcq.errors import DeviceLost, FieldError, QueueError
from hcq.interrupt import Lock

if TYPE_CHECKING:
    from hcq.host import Region

SIGNAL_SIZE = 16
TIME_OFFSET = 8
PAYLOAD_LIMIT = 1 << 32


class Signal:
    """One cell: `address` for the GPU, `value` and `time` for the host."""

    def __init__(self, address: int, region: "Region") -> None:
        self.address = address
        self._region = region
        self.reset()

    def reset(self, value: int = 0) -> None:
        """Set the value from the host and clear the time; FieldError for no 64-bit count."""
        if not isinstance(value, int):
            raise FieldError(f"a signal's value is a whole number, not {value!r}")
        self._region.write64(TIME_OFFSET, 0)
        self._region.write64(0, value)

    @property
    def value(self) -> int:
        """What was last signaled, or set by reset()."""
        return self._region.read64(0)

    @property
    def time(self) -> int:
        """GPU clock ticks of the last signal."""
        return self._region.read64(TIME_OFFSET)


class SignalPool:
    """Cells from pages that `grow` provides as (GPU address, host view); it never shrinks."""

    def __init__(self, grow: Callable[[], tuple[int, "Region"]]) -> None:
        self._grow = grow
        self._free: list[tuple[int, Region]] = []
        self._pages: list[tuple[int, int]] = []  # (GPU address, size)
        self._taken: dict[int, Region] = {}
        self._is_closed = False
        self._lock = Lock()  # threads and devices share the pool

    def take(self) -> Signal:
        """A cell that reads zero."""
        with self._lock:
            if self._is_closed:
                raise DeviceLost(
                    "no signal cell can be had: the devices that see them are closed",
                    hint="open a device again, and take cells of its signals",
                )
            if not self._free:
                address, page = self._grow()
                self._pages.append((address, page.size))
                self._free = [
                    (address + at, page.window(at, SIGNAL_SIZE))
                    for at in reversed(range(0, page.size, SIGNAL_SIZE))
                ]
            address, region = self._free.pop()
            self._taken[address] = region
        return Signal(address, region)

    def seen(self, address: int) -> int | None:
        """The value in the cell at an address; None for an address of no cell in use."""
        region = self._taken.get(address)
        return None if region is None else region.read64(0)

    def at(self, address: int) -> "tuple[Region, int] | None":
        """The cell in use over an address, as the host sees it, and the offset in it."""
        offset = address % SIGNAL_SIZE  # pages are aligned to more
        region = self._taken.get(address - offset)
        return None if region is None else (region, offset)

    def describe(self, address: int) -> str | None:
        """`signal cell 0x1000 (16 bytes), offset 8`; None for an address in none of the pages."""
        if not any(start <= address < start + size for start, size in self._pages):
            return None
        offset = address % SIGNAL_SIZE
        use = "" if address - offset in self._taken else ", in no use"
        return f"signal cell {address - offset:#x} ({SIGNAL_SIZE} bytes){use}, offset {offset}"

    def close(self) -> None:
        """The pages go: cells that are still held become unreadable, BufferUseError."""
        for region in self._taken.values():
            region.invalidate()
        self._taken, self._free, self._pages = {}, [], []
        self._is_closed = True

    def give(self, signal: Signal) -> None:
        """Take a cell back; it is reset before anyone gets it again."""
        if not isinstance(signal, Signal):
            raise QueueError(
                f"give takes a signal cell, not {type(signal).__name__}",
                facts={"given": repr(signal)},
                hint="give back what take() returned",
            )
        region = self._taken.pop(signal.address, None)
        if region is None:
            raise QueueError(f"signal {signal.address:#x} was already given back")
        self._free.append((signal.address, region))


class Timeline:
    """The counter that orders a device's work: each submission waits v - 1 and signals v.

    Values only grow and may pass 2**64. What lies in memory is the payload, the
    value modulo 2**32; payload 0 is never signaled. `turn()` moves to the second
    cell, and may only be called once everything submitted has finished.
    """

    def __init__(self, first: Signal, second: Signal, start: int = 0) -> None:
        self._cells = [first, second]
        self.submitted = start
        self._drained = start
        self.cell.reset(self.payload(start))

    @property
    def cell(self) -> Signal:
        """The cell in use."""
        return self._cells[0]

    @staticmethod
    def payload(value: int) -> int:
        """What the cell holds for a value."""
        return value % PAYLOAD_LIMIT

    @property
    def must_turn(self) -> bool:
        """The next payload would be 0."""
        return self.payload(self.submitted + 1) == 0

    @property
    def reached(self) -> int:
        """The last value that has passed."""
        epoch = self.submitted - self.payload(self.submitted)
        return max(self._drained, epoch + self.cell.value)

    def turn(self) -> None:
        """Go on in the other cell, past the payload that wraps."""
        self.submitted += 1
        self._drained = self.submitted
        self._cells.reverse()
        self.cell.reset()

    @property
    def following(self) -> int:
        """The value of the next submission; whoever publishes it sets `submitted`."""
        if self.must_turn:
            raise QueueError("the timeline must be drained and turned first")
        return self.submitted + 1

    @property
    def previous_payload(self) -> int:
        """What the next submission waits for in the cell: 0 right after a turn."""
        return self.payload(self.submitted)

    def is_done(self, value: int) -> bool:
        """Whether everything up to a value has finished."""
        return value <= self._drained or self.reached >= value
