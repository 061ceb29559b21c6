"""A channel: its ring, its pushbuffers, its doorbell; and the group both channels are in.

Publishing is one method, because its order is the contract. The GPU's own read index
comes late, so what is open is counted here and closed by what the GPU signals.
"""

import struct
import threading
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from typing import Any

from hcq.bits import align
from hcq.buffers import view_of
from hcq.builder import check_queue
from hcq.errors import DeviceOpenError, QueueError
from hcq.interrupt import Lock
from hcq.ioctl_defs import nv_ctrl, nv_escape, nv_rm
from hcq.nv import methods
from hcq.nv.defs import classes, host, qmd
from hcq.nv.driver import LOW
from hcq.nv.gpu import Gpu
from hcq.nv.memory import Allocation, Kind, allocate, free
from hcq.nv.qmd import HOLES
from hcq.nv.queue import RECORD_WORDS
from hcq.nv.rm import RmError
from hcq.queue import COMPUTE, COPY, plain
from hcq.timeline import Signal, Timeline

ENTRIES = 4096
USERD_AT = ENTRIES * host.GP_ENTRY_BYTES
RING_BYTES = USERD_AT + 4096
PUSH_BYTES = 2 << 20
CONTEXT_BYTES = 512 << 20  # address space for the context buffers of a channel
NOTIFIER_BYTES = 4096
WORD = 4
LOW_PIECE = PUSH_BYTES  # offsets inside the words are below it, addresses are not

Publish = Callable[["Channel", Sequence[int], int, int], None]
Piece = tuple[int, int]  # address of words, how many

_ONE_WORD = host.GP_ENTRY.pack(length=1)
_SUBROUTINE = host.GP_ENTRY.pack(level=1)

# Taking a free lock is a locked instruction, which drains what write combining holds.
_fence = threading.Lock()


class Channel:
    """One channel and its engine object."""

    def __init__(self, gpu: Gpu, kind: str, progress: Signal) -> None:
        self.gpu = gpu
        self.kind = kind
        self.name = f"{kind}0"
        self.put = 0  # ring entries, never wraps
        # Words to run once, with the next queue: behind the wait it is put after.
        self.prelude: list[int] = []
        self.on_publish: Publish | None = None
        self.wait_for_space: Callable[[Callable[[], bool], Channel], None] | None = None
        # Gives argument blocks of a queue what they lack; told when its launches are done.
        self.lay_down: Callable[[Any, Callable[[], bool]], None] | None = None
        # The device's, once it has this channel.
        self.lock = Lock()
        self.usable: Callable[[], None] = lambda: None
        self._progress = progress  # of queues that go past the timeline
        self._raw = 0
        # What the GPU may still read: (end in the pushbuffer, entries, whether it is done).
        self._open: deque[tuple[int, int, Callable[[], bool]]] = deque()
        self._used_entries = 0
        self._head = self._tail = 0  # bytes of pushbuffer, never wrap
        self._parts: list[Allocation] = []
        self._closing = ExitStack()
        self.handle = self.engine = self.token = 0

    # Opening: the parts in the order the group needs them.

    def make(self, group: int, context_share: int) -> None:
        """The channel and its engine, in a group."""
        with ExitStack() as undo:
            self._undo = undo
            self.ring = self._part(RING_BYTES, Kind.CONTIGUOUS)
            self.push = self._part(PUSH_BYTES, Kind.VRAM)
            self.notifier = self._part(NOTIFIER_BYTES, Kind.UNCACHED_HOST)
            view_of(self.ring).write(0, bytes(self.ring.size))
            view_of(self.notifier).write(0, bytes(self.notifier.size))
            self._ring_view = view_of(self.ring)
            self._userd = self._ring_view.window(USERD_AT, host.USERD_BYTES)
            self._push_view = view_of(self.push)
            self.notices = view_of(self.notifier)
            # Read at every submission: the state of the error entry, 0 while all is well.
            self.alarm = self.notices.view()[: nv_rm.NOTIFICATION_BYTES].cast("H")
            rm = self.gpu.rm
            self.handle = rm.alloc(
                group,
                self.gpu.classes.channel,
                rm.abi.channel,
                hObjectError=self.notifier.handle,
                gpFifoOffset=self.ring.address,
                gpFifoEntries=ENTRIES,
                hContextShare=context_share,
                hUserdMemory=[self.ring.handle],
                userdOffset=[USERD_AT],
            )
            undo.callback(rm.free, self.handle)
            number = self.gpu.classes.compute if self.kind == COMPUTE else self.gpu.classes.copy
            self.engine = self._engine(number)
            undo.callback(rm.free, self.engine)
            self._closing = undo.pop_all()

    def _engine(self, number: int) -> int:
        try:
            return self.gpu.rm.alloc(self.handle, number)
        except RmError as error:
            if error.status != nv_escape.STATE_IN_USE:
                raise
            raise DeviceOpenError(
                f"{self.gpu.name}: another process has the GPU for itself (exclusive compute mode)",
                device=self.gpu.name,
                facts={**error.facts, "cause": str(error).splitlines()[0]},
                hint="end that process, or sudo nvidia-smi --compute-mode=DEFAULT",
            ) from None

    def _part(self, size: int, kind: Kind) -> Allocation:
        part = allocate(self.gpu, size, kind)
        self._undo.callback(free, self.gpu, part)
        return part

    def register(self) -> None:
        """The token for the doorbell, and address space for the context's buffers."""
        gpu = self.gpu
        self.token = gpu.rm.control(self.handle, nv_ctrl.GET_WORK_SUBMIT_TOKEN).workSubmitToken
        address = gpu.driver.host.reserve(CONTEXT_BYTES, 2 << 20, LOW)
        self._closing.callback(gpu.driver.host.release, address, CONTEXT_BYTES)
        handles = (gpu.rm.client, self.handle)
        gpu.driver.uvm.register_channel(gpu.uuid, gpu.driver.ctl, handles, address, CONTEXT_BYTES)
        self._closing.callback(gpu.driver.uvm.unregister_channel, gpu.uuid, *handles)

    def close(self) -> None:
        """Free the channel and what it used, backwards; idempotent."""
        self._closing.pop_all().close()

    # What is open.

    @property
    def get(self) -> int:
        """How far the GPU has read, as it says; it says so late."""
        return self.put - (self.put - self._userd.read32(host.USERD_GP_GET)) % ENTRIES

    @property
    def used(self) -> int:
        """Ring entries the GPU may still have to read."""
        self._collect()
        return self._used_entries

    def _collect(self) -> None:
        while self._open and self._open[0][2]():
            end, entries, _ = self._open.popleft()
            self._tail = end
            self._used_entries -= entries

    def _start(self, size: int) -> int:
        """Where in the pushbuffer `size` bytes lie together, counted without wrapping."""
        at = self._head % PUSH_BYTES
        return self._head if at + size <= PUSH_BYTES else self._head + PUSH_BYTES - at

    def _has_space(self, size: int, entries: int) -> bool:
        self._collect()
        # One entry stays free: a full ring must not look like an empty one.
        if self._used_entries + entries >= ENTRIES:
            return False
        return self._start(size) + size - self._tail <= PUSH_BYTES

    def _await_space(self, size: int, entries: int) -> None:
        limit = PUSH_BYTES // 2
        if size > limit or entries >= ENTRIES:
            raise QueueError(
                f"{size} bytes are too many for queue {self.name}",
                facts={"queue": self.name, "bytes": size, "limit": limit, "entries": entries},
                hint="bind the queue, so that the ring holds only a pointer, or cut it",
            )
        if self._has_space(size, entries) or self.wait_for_space is None:
            return
        self.wait_for_space(lambda: self._has_space(size, entries), self)

    # Submitting.

    def check(self, queue: Any) -> None:
        """QueueError for a queue of another kind, or whose words are not all known."""
        check_queue(queue, "submit")
        queue.check_kind(self.kind)
        queue.check_target(self.gpu.arch)
        queue.check_known()

    def submit(self, queue: Any) -> None:
        """Publish a queue's words past the timeline, or a pointer to them where bound.

        DeviceLost when the device is closed or has failed, DeviceBanned in a forked child.
        """
        with self.lock:
            self.usable()
            self.check(queue)
            if not queue.words and not queue.records:
                return
            number = self._raw + 1
            signal = plain(methods.release(self._progress.address, number))
            self._publish(queue, ([], signal), lambda: self._progress.value >= number)
            self._raw = number

    def run(
        self, queue: Any, frame: tuple[list[int], list[int]], timeline: Timeline, value: int
    ) -> None:
        """Publish a queue's words between those of its frame; the timeline takes the value."""

        def is_done() -> bool:
            return timeline.is_done(value)

        self._publish(queue, frame, is_done, timeline, value)

    def _publish(
        self,
        queue: Any,
        frame: tuple[list[int], list[int]],
        is_done: Callable[[], bool],
        timeline: Timeline | None = None,
        value: int = 0,
    ) -> None:
        """Hand the GPU words: contents, entries, fence, put, fence, doorbell, in this order."""
        queue.finish()
        if queue.argument_words and self.lay_down is not None:
            self.lay_down(queue, is_done)
        words, pieces = self._laid_out(queue, frame)
        size = align(len(words) * WORD, qmd.ALIGNMENT)
        self._await_space(size, len(pieces))
        start = self._start(size)
        address = self.push.address + start % PUSH_BYTES
        if queue.bound is None:
            methods_at = len(frame[0]) + len(self.prelude) + len(queue.first)
            self._point(queue, words, methods_at, address)
        self._push_view.write(start % PUSH_BYTES, struct.pack(f"<{len(words)}I", *words))
        for index, (at, count) in enumerate(pieces):
            where = at if at >= LOW_PIECE else address + at
            self._write_entry(self.put + index, where, count)
        put = self.put + len(pieces)
        if self.on_publish is not None:
            self.on_publish(self, words, put, value)
        self._open.append((start + size, len(pieces), is_done))
        self._head = start + size
        self._used_entries += len(pieces)
        self.put = put
        self.prelude = []
        if timeline is not None:
            timeline.submitted = value
        self._ring()

    def _laid_out(
        self, queue: Any, frame: tuple[list[int], list[int]]
    ) -> tuple[list[int], list[Piece]]:
        """The words for the pushbuffer, and the pieces the GPU is led through.

        A piece's address below LOW_PIECE counts from the start of the words.
        """
        before, after = frame
        if queue.bound is not None:
            first = [*before, *self.prelude, *queue.first]
            pieces = [(0, len(first))] if first else []
            pieces += queue.segments(queue.bound.address)
            if after:
                pieces.append((len(first) * WORD, len(after)))
            return [*first, *after], pieces
        words = [*before, *self.prelude, *queue.first, *queue.words, *after]
        pieces = [(0, len(words))]
        for record in queue.records:
            words += [0] * (-len(words) % RECORD_WORDS)
            words += record
        return words, pieces

    def _point(self, queue: Any, words: list[int], methods_at: int, address: int) -> None:
        if not queue.records:
            return
        stride = align(len(queue.records[0]), RECORD_WORDS)
        last = len(words) - len(queue.records[-1])
        first = last - stride * (len(queue.records) - 1)
        for word, record in queue.pointers:
            at = address + WORD * (first + stride * record)
            words[methods_at + word] = at >> qmd.POINTER_SHIFT
        holes = HOLES[self.gpu.arch.qmd_version]
        for record, following in queue.links:
            at = address + WORD * (first + stride * following)
            words[first + stride * record + holes.dependent_pointer] = at >> qmd.POINTER_SHIFT

    def _write_entry(self, index: int, address: int, count: int) -> None:
        # An address lies in an entry where its own bits are.
        entry = address + count * _ONE_WORD + _SUBROUTINE
        self._ring_view.write64(index % ENTRIES * host.GP_ENTRY_BYTES, entry)

    def entries(self, put: int) -> list[int]:
        """The ring entries up to an index that is about to be published."""
        indices = range(self.put, put)
        return [self._ring_view.read64(at % ENTRIES * host.GP_ENTRY_BYTES) for at in indices]

    def ring_doorbell(self) -> None:
        """Publish the put index again, which is harmless."""
        self.usable()
        self._ring()

    def _ring(self) -> None:
        with _fence:  # words and entries are out before the index
            self._userd.write32(host.USERD_GP_PUT, self.put % ENTRIES)
        with _fence:  # and the index before the doorbell
            self.gpu.doorbell.write32(host.NOTIFY_CHANNEL_PENDING, self.token)


class ChannelGroup:
    """Both channels of a GPU in one group, scheduled together."""

    def __init__(self, gpu: Gpu) -> None:
        self.gpu = gpu

    def open(self, undo: ExitStack, progress: dict[str, Signal]) -> dict[str, Channel]:
        """Compute and copy channel by kind, ready for submissions."""
        gpu, rm = self.gpu, self.gpu.rm
        group = rm.alloc(
            gpu.device,
            classes.KEPLER_CHANNEL_GROUP_A,
            nv_rm.CHANNEL_GROUP,
            hVASpace=gpu.space,
            engineType=nv_rm.ENGINE_GRAPHICS,
        )
        undo.callback(rm.free, group)
        share = rm.alloc(
            group,
            classes.FERMI_CONTEXT_SHARE_A,
            nv_rm.CONTEXT_SHARE,
            hVASpace=gpu.space,
            flags=nv_rm.CONTEXT_SHARE_ASYNC,
        )
        undo.callback(rm.free, share)
        channels = {}
        for kind in (COMPUTE, COPY):
            channel = channels[kind] = Channel(gpu, kind, progress[kind])
            channel.make(group, share)
            undo.callback(channel.close)
        rm.control(group, rm.abi.schedule_group, bEnable=1)
        for channel in channels.values():
            channel.register()
        return channels
