"""How bytes get from one buffer to another.

Routes, first that fits: "direct" within one backend; "target view": the source
writes into the target's host view; "source view": the target reads from the
source's host view; "staged": through chunks of host memory. Bytes of this
process (HostBytes) are a side with a host view.
"""

from hcq.errors import BufferUseError
from runtime.allocator import NOTHING
from runtime.buffer import HOST, Buffer, HostBytes

CHUNK = 2 << 20  # bytes per step of a staged copy


def transfer(target: Buffer, source: Buffer) -> str:
    """Copy all bytes of source to target; returns the route taken ("empty" for no bytes).

    Sizes are equal, else BufferUseError. Everything queued on either device before
    is seen; the bytes are in place for everything called after.
    """
    if target.size != source.size:
        raise BufferUseError(
            f"copy from {source} to {target}: sizes differ",
            device=target.device,
            facts={"target_size": target.size, "source_size": source.size},
        )
    if not target.size:
        return "empty"
    if target.device == HOST or source.device == HOST:
        return _with_host(target, source)
    to, at = target.located()
    from_, start = source.located()
    here, there = target.opened, source.opened
    if here is there and "transfer" in here.capabilities:
        here.backend.transfer(to, at, from_, start, target.size)
        return "direct"
    view = _host_view(target)
    if view is not None:
        there.hook("copy_out")(from_, start, view)
        return "target view"
    view = _host_view(source)
    if view is not None:
        here.hook("copy_in")(to, at, view)
        return "source view"
    _staged(target, source)
    return "staged"


def _with_host(target: Buffer, source: Buffer) -> str:
    """One side is bytes of this process, which need no device."""
    if isinstance(target, HostBytes):
        if isinstance(source, HostBytes):
            target.bytes[:] = source.bytes
        else:
            source.opened.hook("copy_out")(*source.located(), target.bytes)
        return "target view"
    if not isinstance(source, HostBytes):
        raise BufferUseError(f"{source} has no host bytes")
    view = _host_view(target)
    if view is not None:
        view[:] = source.bytes
        return "target view"
    target.opened.hook("copy_in")(*target.located(), source.bytes)
    return "source view"


def _host_view(buffer: Buffer) -> memoryview | None:
    """A buffer's bytes in place, with nothing queued on them any more; None if impossible."""
    memory, offset = buffer.located()
    if memory is NOTHING:
        return None
    view = buffer.opened.host_view(memory)
    if view is None:
        return None
    buffer.opened.backend.synchronize()
    return view[offset : offset + buffer.size]


def _staged(target: Buffer, source: Buffer) -> None:
    out, into = source.opened.hook("copy_out"), target.opened.hook("copy_in")
    to, at = target.located()
    from_, start = source.located()
    stage = memoryview(bytearray(min(CHUNK, target.size)))
    for done in range(0, target.size, CHUNK):
        part = stage[: min(CHUNK, target.size - done)]
        out(from_, start + done, part)
        into(to, at + done, part)
