"""Copies between the host and memory it cannot address: 32 pinned slots of 2 MiB.

Each slot is used again once its timeline value has passed, so the host fills one
while the copy engine empties others.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Protocol

from hcq.interrupt import Lock
from hcq.memory import Buffer

SLOT_COUNT = 32
SLOT_BYTES = 2 << 20


class Copier(Protocol):
    """The part of a device that staging needs."""

    def submit_copy(self, destination: int, source: int, size: int) -> int: ...
    def wait(self, value: int, timeout: float | None = None) -> None: ...

    @property
    def submitted(self) -> int: ...


class Staging:
    """The slots; their memory is had at first use."""

    def __init__(self, device: Copier, allocate: Callable[[int], Buffer]) -> None:
        self._device = device
        self._allocate = allocate
        self._buffer: Buffer | None = None
        self._values = [0] * SLOT_COUNT
        self._next = 0
        self._lock = Lock()

    def copy_in(self, destination: int, data: memoryview) -> None:
        """Host bytes to a GPU address; `data` may change once this returns."""
        with self._lock, self._kept():
            for at in range(0, len(data), SLOT_BYTES):
                piece = data[at : at + SLOT_BYTES]
                slot, address, view = self._take()
                view[: len(piece)] = piece
                self._values[slot] = self._device.submit_copy(destination + at, address, len(piece))

    def copy_out(self, source: int, into: memoryview) -> None:
        """Bytes at a GPU address to the host, several slots in flight."""
        with self._lock, self._kept():
            flying: list[tuple[int, int, memoryview]] = []
            for at in range(0, len(into), SLOT_BYTES):
                if len(flying) == SLOT_COUNT:
                    self._land(flying.pop(0), into)
                size = min(SLOT_BYTES, len(into) - at)
                slot, address, view = self._take()
                value = self._device.submit_copy(address, source + at, size)
                self._values[slot] = value
                flying.append((value, at, view[:size]))
            for piece in flying:
                self._land(piece, into)

    @contextmanager
    def _kept(self) -> Iterator[None]:
        """After an error or Ctrl-C no slot is used again before all copies are over."""
        try:
            yield
        except BaseException:
            self._values = [self._device.submitted] * SLOT_COUNT
            raise

    def _land(self, piece: tuple[int, int, memoryview], into: memoryview) -> None:
        value, at, view = piece
        self._device.wait(value)
        into[at : at + len(view)] = view

    def _take(self) -> tuple[int, int, memoryview]:
        if self._buffer is None:
            self._buffer = self._allocate(SLOT_COUNT * SLOT_BYTES)
        slot = self._next
        self._next = (slot + 1) % SLOT_COUNT
        self._device.wait(self._values[slot])
        start = slot * SLOT_BYTES
        view = self._buffer.view()[start : start + SLOT_BYTES]
        return slot, self._buffer.address + start, view
