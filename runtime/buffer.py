"""Bytes on a device, allocated when first needed, and views of them.

A buffer is metadata until something asks for its place. A view shares its root's
bytes at an offset and keeps the root alive. Memory goes back when the last
reference to root and views is gone. Every copy in or out is a copy call through
run_linear, so it is ordered, counted and shown like any other work.
"""

import ctypes
import weakref
from typing import TYPE_CHECKING, Any, Protocol, Self

from hcq.errors import BufferUseError, Unsupported
from runtime.allocator import NOTHING, PLAIN, Allocator, Block
from runtime.backend import Memory, MemoryOptions
from runtime.device import Device

if TYPE_CHECKING:
    from runtime.opened import OpenedDevice

HOST = "HOST"  # the device name of buffers over this process's own bytes


class Element(Protocol):
    """An element type, as far as buffers care."""

    @property
    def name(self) -> str: ...
    @property
    def itemsize(self) -> int: ...


class Buffer:
    """`count` elements on a device, or a view of some of another buffer's bytes.

    place: (memory, byte offset) once allocated, else None. offset: bytes from the
    start of base.
    """

    __slots__ = (
        "__weakref__",
        "_allocator",
        "_block",
        "_exports",
        "_gone",
        "_root",
        "count",
        "device",
        "dtype",
        "name",
        "offset",
        "options",
        "place",
        "size",
    )

    def __init__(
        self,
        device: str,
        count: int,
        dtype: Element,
        *,
        options: MemoryOptions = PLAIN,
        name: str = "",
    ) -> None:
        self.device = Device.canonicalize(device)
        self.count = count
        self.dtype = dtype
        self.size = count * dtype.itemsize
        self.options = options
        self.name = name
        # None for a root: a reference to itself would leave it to the cyclic collector.
        self._root: Buffer | None = None
        self.offset = 0
        self.place: tuple[Memory, int] | None = None
        self._block: Block | None = None
        self._allocator: Allocator | None = None
        self._exports: list[weakref.ref[Any]] | None = None  # host views of a root
        self._gone = ""  # how it became unusable
        if count < 0:
            raise BufferUseError(f"{self} cannot have {count} elements", facts={"count": count})

    def __repr__(self) -> str:
        of = "" if self._root is None else f" at {self.offset} of {self.base!r}"
        name = f" {self.name!r}" if self.name else ""
        return f"<Buffer{name} {self.device} {self.count} {self.dtype.name}{of}>"

    def __del__(self) -> None:
        # A constructor that raised leaves a half-made object; no block then.
        block = getattr(self, "_block", None)
        if block is not None and self._allocator is not None:
            self._allocator.release(block)

    @property
    def base(self) -> "Buffer":
        """The buffer whose memory this one lies in; itself for a root."""
        return self if self._root is None else self._root

    @property
    def opened(self) -> "OpenedDevice":
        """The device it lies on, opened."""
        return Device[self.device]

    @property
    def is_allocated(self) -> bool:
        """The root has memory."""
        return self.base.place is not None

    @property
    def is_initialized(self) -> bool:
        """This object itself has been given its place (a view: since its ensure_allocated)."""
        return self.place is not None and self.is_allocated

    @property
    def memory(self) -> Memory:
        """The backend's handle of the root's memory, allocated if need be."""
        return self.located()[0]

    def located(self) -> tuple[Memory, int]:
        """(memory, byte offset) of the first byte, allocated if need be."""
        place = self.place
        if place is None or (self._root is not None and self._root.place is None):
            place = self._locate()
        return place

    def ensure_allocated(self) -> Self:
        """Have memory from here on; nothing happens if it has."""
        self.located()
        return self

    def allocate(self) -> Self:
        """Have memory; BufferUseError if it already has."""
        if self.is_initialized:
            raise BufferUseError(f"{self} is already allocated", device=self.device)
        return self.ensure_allocated()

    def view(self, count: int, dtype: Element, offset_bytes: int) -> "Buffer":
        """`count` elements of `dtype` at an offset in bytes from this buffer's first byte.

        BufferUseError if that is not inside this buffer or not aligned to the element.
        """
        self._check_usable()
        size = count * dtype.itemsize
        start = self.offset + offset_bytes
        facts = {"offset": offset_bytes, "size": size, "base_size": self.size}
        if count < 0 or offset_bytes < 0 or offset_bytes + size > self.size:
            raise BufferUseError(
                f"a view does not fit into {self}", device=self.device, facts=facts
            )
        if size and start % dtype.itemsize:
            raise BufferUseError(
                f"a view of {dtype.name} is not aligned in {self}",
                device=self.device,
                facts={**facts, "alignment": dtype.itemsize},
            )
        view = object.__new__(type(self))
        view.device, view.count, view.dtype, view.size = self.device, count, dtype, size
        view.options, view.name = self.options, self.name
        view._root, view.offset, view.place = self.base, start, None
        view._block, view._allocator, view._exports, view._gone = None, None, None, ""
        return view

    def free(self) -> None:
        """Give the memory back now; a view only ends itself. Later use: BufferUseError.

        BufferUseError too while a host_view() of it is in use.
        """
        self._check_usable()
        self._check_exports("freed")
        if self._root is None and self.place is None and self.size:
            raise BufferUseError(f"{self} is not allocated", device=self.device)
        self.lose("was freed")
        block, self._block = self._block, None
        if block is not None and self._allocator is not None:
            self._allocator.release(block)

    def lose(self, how: str) -> None:
        """This buffer has no memory from here on; `how` is what later uses are told."""
        self._gone = how
        self.place = None

    def donate(self) -> "Buffer":
        """A new buffer that owns this one's memory; this one and its views are over."""
        self._check_usable()
        if self._root is not None:
            raise BufferUseError(f"{self} is a view; only a whole buffer can be donated")
        self._check_exports("donated")
        heir = Buffer(self.device, self.count, self.dtype, options=self.options, name=self.name)
        heir.place, heir._block, heir._allocator = self.place, self._block, self._allocator
        self._block = None
        self.lose("was donated")
        if heir._block is not None:
            heir._block.owner = weakref.ref(heir)
        return heir

    def copy_from(self, source: "Buffer") -> Self:
        """Copy all bytes of another buffer, on any device, into this one.

        BufferUseError unless sizes are equal and both have memory.
        """
        from runtime.call import CopyCall
        from runtime.execute import run_linear

        sides = {"target_size": self.size, "source_size": source.size}
        if self.size != source.size:
            raise BufferUseError(
                f"copy from {source} to {self}: sizes differ", device=self.device, facts=sides
            )
        for side in (self, source):
            side._check_usable()
            if not side.is_allocated:
                raise BufferUseError(
                    f"copy from {source} to {self}: {side} has no memory",
                    device=self.device,
                    facts=sides,
                )
        run_linear([CopyCall(self, source)])
        return self

    def copy_in(self, data: memoryview | bytes | bytearray) -> Self:
        """Write all bytes; data has exactly this size. It may change or go on return."""
        return self.ensure_allocated().copy_from(HostBytes(data))

    def copy_out(self) -> bytearray:
        """All bytes, once everything queued before has finished."""
        data = bytearray(self.size)
        HostBytes(data).copy_from(self)
        return data

    def host_view(self) -> memoryview:
        """The bytes themselves, without a copy, after all queued work; keeps the buffer alive.

        Unsupported where the processor cannot address them.
        """
        memory, offset = self.located()
        self.opened.backend.synchronize()
        whole = self.opened.host_view(memory) if self.size else memoryview(b"")
        if whole is None:
            raise Unsupported(
                f"{self.device} memory of {self} cannot be addressed by the processor",
                device=self.device,
                hint="allocate with MemoryOptions(cpu_access=True), or use copy_out()",
            )
        if not self.size:
            return whole
        bytes_ = (ctypes.c_char * self.size).from_buffer(whole, offset)
        bytes_.owner = self  # type: ignore[attr-defined]  # lives as long as the view
        base = self.base
        base._exports = [*base._exported(), weakref.ref(bytes_)]
        return memoryview(bytes_).cast("B")

    def _exported(self) -> "list[weakref.ref[Any]]":
        """Host views that are still in use."""
        return [view for view in self._exports or () if view() is not None]

    def _check_exports(self, how: str) -> None:
        """Memory that the process looks at must not become someone else's."""
        views = self._exported() if self._root is None else []
        if views:
            raise BufferUseError(
                f"{self} cannot be {how}: a host view of it is in use",
                device=self.device,
                facts={"buffer": self.name or repr(self), "views": len(views)},
                hint="drop what host_view() gave, or let the last reference end the buffer",
            )

    def _check_usable(self) -> None:
        gone = self._gone or self.base._gone
        if gone:
            raise BufferUseError(
                f"{self} {gone}",
                device=self.device,
                facts={"buffer": self.name or repr(self), "offset": self.offset, "size": self.size},
            )

    def _locate(self) -> tuple[Memory, int]:
        self._check_usable()
        base = self.base
        if base.place is None:
            base._allocate_root(self.opened.allocator)
        place = base.place
        if place is None:  # freed by another thread in between
            raise BufferUseError(f"{self} was freed", device=self.device)
        self.place = (place[0], self.offset)
        return self.place

    def _allocate_root(self, allocator: Allocator) -> None:
        with allocator.owners:
            if self.place is None:
                self._block = allocator.allocate(self.size, self.options, self.name)
                self._block.owner = weakref.ref(self)
                self._allocator = allocator
                self.place = (self._block.memory, 0)


class _Byte:
    """The element of host bytes."""

    name = "uint8"
    itemsize = 1


class HostBytes(Buffer):
    """Bytes of this process as one side of a copy; never on a device."""

    __slots__ = ("bytes",)

    def __init__(self, data: memoryview | bytes | bytearray) -> None:
        view = memoryview(data)
        self.bytes = view.cast("B") if view.nbytes else memoryview(b"")
        self.device = HOST
        self.count = self.size = self.bytes.nbytes
        self.dtype = _Byte()
        self.options, self.name, self._root, self.offset = PLAIN, "", None, 0
        self.place = (NOTHING, 0)
        self._block, self._allocator, self._exports, self._gone = None, None, None, ""
