"""Copies of one device: by the host where it can and that pays, else by the copy engine."""

from collections.abc import Callable
from typing import Any

from hcq.errors import BufferUseError
from hcq.memory import Buffer
from hcq.queue import COPY
from hcq.staging import Staging
from hcq.work import Work

DIRECT_COPY_BYTES = 64 << 10
CHUNK = 1 << 20
BOUNCE_PIECES = 64  # more pieces than this for an overlapping copy: through another buffer


class Copies:
    """`allocate(size, host)` gives scratch buffers, `free` takes them back.

    `sees` tells whether the buffers of a device are mapped on the GPU of this one.
    """

    def __init__(
        self,
        work: Work,
        allocate: Callable[[int, bool], Buffer],
        free: Callable[[Buffer], None],
        sees: Callable[[Any], bool],
    ) -> None:
        self._work = work
        self._allocate = allocate
        self._free = free
        self._sees = sees
        self.staging = Staging(self, lambda size: allocate(size, True))

    def wait(self, value: int, timeout: float | None = None) -> None:
        """As Work.wait."""
        self._work.wait(value, timeout)

    @property
    def submitted(self) -> int:
        """The last timeline value that was submitted."""
        return self._work.timeline.submitted

    def copy_in(self, buffer: Buffer, offset: int, data: Any) -> None:
        """Host bytes into a buffer, after everything submitted so far."""
        view = _bytes(data)
        self._check(buffer, "copy_in")
        buffer.check(offset, len(view))
        self._work.usable()
        if not view:
            return
        if buffer.region is not None and self._is_direct(len(view)):
            self._work.drain()
            buffer.view()[offset : offset + len(view)] = view
            return
        self.staging.copy_in(buffer.address + offset, view)

    def copy_out(self, buffer: Buffer, offset: int, into: Any) -> None:
        """A buffer's bytes to the host, after everything submitted so far."""
        view = _bytes(into)
        if view.readonly:
            raise BufferUseError("copy_out needs bytes it may write to", facts={"size": len(view)})
        self._check(buffer, "copy_out")
        buffer.check(offset, len(view))
        self._work.usable()
        if not view:
            return
        is_only_way = COPY not in self._work.channels
        if buffer.region is not None and (is_only_way or _reads_fast(buffer, len(view))):
            self._work.drain()
            view[:] = buffer.view()[offset : offset + len(view)]
            return
        self.staging.copy_out(buffer.address + offset, view)

    def copy(self, destination: int, source: int, size: int) -> int:
        """Copy between GPU addresses as memmove does; the timeline value that ends it."""
        if not all(isinstance(number, int) for number in (destination, source, size)):
            return self.submit_copy(destination, source, size)  # which refuses it by name
        distance = abs(destination - source)
        if 0 < distance < size and size > distance * BOUNCE_PIECES:
            bounce = self._allocate(size, False)
            try:
                self.submit_copy(bounce.address, source, size)
                return self.submit_copy(destination, bounce.address, size)
            finally:
                self._free(bounce)
        return self.submit_copy(destination, source, size)

    def submit_copy(self, destination: int, source: int, size: int) -> int:
        """One copy by the copy engine; its timeline value."""
        return self._work.submit(self._work.queue(COPY).copy(destination, source, size))

    def clear(self, buffer: Buffer) -> None:
        """Set a fresh buffer to zero."""
        if buffer.region is None:
            self._work.submit(self._work.queue(COPY).fill(buffer.address, 0, buffer.size))
            return
        zeros = bytes(min(CHUNK, buffer.size))
        view = buffer.view()
        for at in range(0, buffer.size, CHUNK):
            size = min(CHUNK, buffer.size - at)
            view[at : at + size] = zeros[:size]

    def _check(self, buffer: Any, call: str) -> None:
        check_buffer(buffer, call)
        if not self._sees(buffer.device):
            owner = buffer.device.name
            raise BufferUseError(
                f"{call} on {self._work.name}: buffer {buffer.label} is memory of {owner}",
                device=self._work.name,
                facts={"address": hex(buffer.address), "of": owner, "given_to": self._work.name},
                hint=f"copy between devices through the host: copy_out() of {owner}, then "
                f"copy_in() of {self._work.name}",
            )

    def _is_direct(self, size: int) -> bool:
        if COPY not in self._work.channels:
            return True
        timeline = self._work.timeline
        return size <= DIRECT_COPY_BYTES or timeline.is_done(timeline.submitted)


def check_buffer(buffer: Any, call: str) -> None:
    """BufferUseError for what is no buffer."""
    if not isinstance(buffer, Buffer):
        raise BufferUseError(
            f"{call} takes a buffer, not {type(buffer).__name__}",
            facts={"given": repr(buffer)},
            hint="give what device.allocate() returned",
        )


def check_address(address: Any, call: str) -> None:
    """BufferUseError for what is no address."""
    if not isinstance(address, int):
        raise BufferUseError(
            f"{call} takes an address, not {type(address).__name__}",
            facts={"given": repr(address)},
            hint="give buffer.address, or the address of a signal cell",
        )


def _bytes(data: Any) -> memoryview:
    try:
        view = memoryview(data)
    except (TypeError, ValueError, BufferError):  # numpy's dates have no buffer of their own
        raise BufferUseError(
            f"copies take bytes or what has them, not {type(data).__name__}",
            facts={"given": type(data).__name__},
            hint="bytes, bytearray, memoryview or a numpy array",
        ) from None
    if not view.c_contiguous:
        raise BufferUseError(
            "copies need bytes that lie one after the other",
            facts={"shape": view.shape, "strides": view.strides},
        )
    return view.cast("B") if view.nbytes else memoryview(bytearray())


def _reads_fast(buffer: Buffer, size: int) -> bool:
    # Reading through the BAR is slow: large reads of VRAM are the copy engine's.
    return not buffer.owner.is_vram or size <= DIRECT_COPY_BYTES
