"""Private memory of kernels: one buffer per device that grows with the neediest program.

How much a chip needs, and who is told of a new buffer, is the vendor's.
"""

from collections.abc import Callable
from typing import Generic, Protocol, TypeVar

from hcq.errors import OutOfMemory
from hcq.memory import Buffer


class Sized(Protocol):
    """What some bytes per thread come to on a chip."""

    @property
    def total(self) -> int:
        """Bytes of the buffer."""


S = TypeVar("S", bound=Sized)


class PrivateMemory(Generic[S]):
    """Grown by `need()` when a program is loaded."""

    def __init__(self, allocate: Callable[[int], Buffer], free: Callable[[Buffer], None]) -> None:
        self._allocate = allocate
        self._free = free
        self._buffer: Buffer | None = None
        self.bytes_per_thread = 0

    # What a vendor fills in.

    def _size(self, bytes_per_thread: int) -> S:
        """What that many bytes take."""
        raise NotImplementedError

    def _check(self, size: S) -> None:
        """ValueError for more than the chip can be told of."""

    def _changed(self, buffer: Buffer, size: S, old: Buffer | None) -> None:
        """A new buffer is there; the old one is to be freed."""
        raise NotImplementedError

    def need(self, kernel: str, bytes_per_thread: int) -> None:
        """Have at least this much; OutOfMemory with the kernel's name, the old size staying."""
        if bytes_per_thread <= self.bytes_per_thread:
            return
        size = self._size(bytes_per_thread)
        try:
            self._check(size)
            buffer = self._allocate(size.total)
        except (OutOfMemory, ValueError) as error:
            raise OutOfMemory(
                f"kernel {kernel}: {bytes_per_thread} bytes of private memory per thread "
                "cannot be had",
                facts={
                    "kernel": kernel,
                    "bytes_per_thread": bytes_per_thread,
                    "needed": size.total,
                    "have_per_thread": self.bytes_per_thread,
                    "reason": str(error).splitlines()[0],
                },
                hint="use fewer or smaller private arrays in the kernel, or free buffers",
            ) from None
        old, self._buffer = self._buffer, buffer
        self.bytes_per_thread = bytes_per_thread
        self._changed(buffer, size, old)
