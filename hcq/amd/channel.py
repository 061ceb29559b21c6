"""A hardware queue: its ring, its pointers, its doorbell.

Publishing is one method, because its order is the contract. Pointers are 64-bit
and never wrap: words for compute, bytes for copies; a copy packet never lies
across the end of the ring.
"""

import struct
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from typing import Any

from hcq.amd import pm4, sdma
from hcq.amd.arch import Arch, save_area
from hcq.amd.defs import sdma as sdma_defs
from hcq.amd.kfd import ENGINE_ID_VERSION, Allocation, Kfd
from hcq.amd.topology import Node
from hcq.bits import align
from hcq.buffers import view_of
from hcq.builder import Builder, check_queue
from hcq.errors import QueueError
from hcq.host import PAGE, Region
from hcq.interrupt import Lock
from hcq.ioctl_defs import kfd
from hcq.queue import plain
from hcq.timeline import Timeline

RING_BYTES = 1 << 20
READ_POINTER, WRITE_POINTER = 0, 128  # offsets in the pointer page
WORD = 4

GTT = kfd.ALLOC_GTT | kfd.ALLOC_NO_SUBSTITUTE | kfd.ALLOC_WRITABLE | kfd.ALLOC_EXECUTABLE
RING_FLAGS = GTT | kfd.ALLOC_PUBLIC | kfd.ALLOC_COHERENT | kfd.ALLOC_UNCACHED
VRAM = kfd.ALLOC_VRAM | kfd.ALLOC_NO_SUBSTITUTE | kfd.ALLOC_WRITABLE | kfd.ALLOC_EXECUTABLE

Publish = Callable[["Channel", Sequence[int], int, int], None]


class Channel:
    """Base of both kinds. `unit` is what a pointer counts, in bytes."""

    kind = ""
    unit = WORD

    def __init__(
        self, process: Kfd, node: Node, arch: Arch, *, ring_bytes: int = RING_BYTES, start: int = 0
    ) -> None:
        self._process = process
        self._node = node
        self._arch = arch
        self.ring_bytes = ring_bytes
        self.ring_units = ring_bytes // self.unit
        self.name = f"{self.kind}0"
        self.put = start  # units, 64-bit, never wraps
        # Words to run once, with the next queue: behind the wait it is put after.
        self.prelude: list[int] = []
        self.on_publish: Publish | None = None
        self.wait_for_space: Callable[[Callable[[], bool], Channel], None] | None = None
        # The device's, once it has this channel.
        self.lock = Lock()
        self.usable: Callable[[], None] = lambda: None
        self._parts: list[Allocation] = []
        with ExitStack() as undo:
            self._undo = undo
            self.ring = self._part(ring_bytes, RING_FLAGS)
            self.pointers = self._part(PAGE, RING_FLAGS)
            # The kernel takes the pointers as they stand; fresh memory holds anything.
            view_of(self.pointers).write(0, bytes(PAGE))
            for pointer in (READ_POINTER, WRITE_POINTER):
                view_of(self.pointers).write64(pointer, start)
            args = self._create()
            undo.callback(process.call, kfd.DESTROY_QUEUE, queue_id=args.queue_id)
            self.queue_id = args.queue_id
            self._map_doorbell(args.doorbell_offset)
            undo.pop_all()
        self._ring_view = view_of(self.ring)
        self._pointer_view = view_of(self.pointers)

    def _part(self, size: int, flags: int, *, view: bool = True) -> Allocation:
        part = self._process.allocate(self._node.gpu_id, size, flags, view=view)
        self._parts.append(part)
        self._undo.callback(self._process.free, part)
        return part

    def _create(self) -> Any:
        raise NotImplementedError

    def _request(self, **fields: int) -> Any:
        is_new = self._process.version >= ENGINE_ID_VERSION
        return self._process.call(
            kfd.CREATE_QUEUE if is_new else kfd.CREATE_QUEUE_1_16,
            ring_base_address=self.ring.address,
            write_pointer_address=self.pointers.address + WRITE_POINTER,
            read_pointer_address=self.pointers.address + READ_POINTER,
            ring_size=self.ring_bytes,
            gpu_id=self._node.gpu_id,
            queue_percentage=kfd.MAX_QUEUE_PERCENTAGE,
            queue_priority=7,
            **fields,
        )

    def _map_doorbell(self, offset: int) -> None:
        inside = offset % kfd.DOORBELL_SLICE
        self._slice = self._process.host.mmap(self._process.fd, kfd.DOORBELL_SLICE, offset - inside)
        self._undo.callback(self._process.host.munmap, self._slice)
        self.doorbell: Region = self._slice.window(inside, 8)

    @property
    def get(self) -> int:
        """How far the GPU has read, as it says."""
        return self._pointer_view.read64(READ_POINTER)

    @property
    def used(self) -> int:
        """Units between get and put; get may be reported modulo the ring."""
        return (self.put - self.get) % self.ring_units

    def check(self, queue: Builder) -> None:
        """QueueError for a queue of the other kind, or one whose words are not all known."""
        check_queue(queue, "submit")
        queue.check_kind(self.kind)
        queue.check_target(self._arch)
        queue.check_known()

    def run(
        self,
        queue: Builder,
        frame: tuple[list[int], list[int]],
        timeline: Timeline,
        value: int,
    ) -> None:
        """Publish a queue's words between those of its frame; the timeline takes the value."""
        before, after = frame
        self.publish(before + self.flatten(queue) + after, timeline, value)

    def submit(self, queue: Builder) -> None:
        """Publish a queue's words past the timeline, or a pointer to them where bound.

        DeviceLost when the device is closed or has failed, DeviceBanned in a forked child.
        """
        with self.lock:
            self.usable()
            self.publish(self.flatten(queue))

    def flatten(self, queue: Builder) -> list[int]:
        """The words to put into the ring for a queue."""
        self.check(queue)
        words = queue.words
        if queue.bound is not None and words:
            words = self.indirect(queue.bound.address, len(words))
        return [*self.prelude, *words] if self.prelude else words

    def indirect(self, address: int, count: int) -> list[int]:
        """Words that run `count` words at an address."""
        raise NotImplementedError

    def publish(
        self, words: Sequence[int], timeline: Timeline | None = None, value: int = 0
    ) -> None:
        """Hand the GPU words: contents, fence, write pointer, doorbell, in this order.

        Where the words signal a timeline's next value, the timeline takes it here.
        """
        if not words:
            return
        self._check_size(len(words))
        padding = self._padding(len(words))
        needed = (len(words) + padding) * WORD // self.unit
        self._await_space(needed)
        before = self.put
        at = before * self.unit % self.ring_bytes
        data = struct.pack(f"<{len(words)}I", *words)
        if padding:
            self._ring_view.write(at, bytes(padding * WORD))
            at = 0
        first = self.ring_bytes - at
        self._ring_view.write(at, data[:first])
        if first < len(data):
            self._ring_view.write(0, data[first:])
        if self.on_publish is not None:
            self.on_publish(self, words, before + needed, value)
        self.put = before + needed
        self.prelude = []
        if timeline is not None:
            timeline.submitted = value
        self._ring()

    def ring_doorbell(self) -> None:
        """Publish the write pointer again, which is harmless."""
        self.usable()
        self._ring()

    def _ring(self) -> None:
        # The fence: x86 keeps stores in order, and the store to the uncached doorbell
        # drains what write combining still holds, so contents and pointer are out first.
        self._pointer_view.write64(WRITE_POINTER, self.put)
        self.doorbell.write64(0, self.put)

    def _padding(self, count: int) -> int:
        return 0

    def _check_size(self, count: int) -> None:
        # Half the ring: a copy ring may have to leave out as much as it is given at the end.
        if count * WORD > self.ring_bytes // 2:
            raise QueueError(
                f"{count * WORD} bytes are too many for queue {self.name}",
                facts={"queue": self.name, "bytes": count * WORD, "limit": self.ring_bytes // 2},
                hint="bind the queue, so that the ring holds only a pointer, or cut it",
            )

    def _await_space(self, needed: int) -> None:
        # One unit stays free: a full ring must not look like an empty one.
        if self.used + needed < self.ring_units or self.wait_for_space is None:
            return
        self.wait_for_space(lambda: self.used + needed < self.ring_units, self)

    def close(self) -> None:
        """Destroy the queue and free what it used, backwards; idempotent."""
        if not self._parts:
            return
        parts, self._parts = self._parts, []
        with ExitStack() as steps:
            for part in parts:
                steps.callback(self._process.free, part)
            steps.callback(self._process.host.munmap, self._slice)
            steps.callback(self._process.call, kfd.DESTROY_QUEUE, queue_id=self.queue_id)


class ComputeChannel(Channel):
    """PM4; pointers count words."""

    kind = "compute"
    unit = WORD

    def _create(self) -> Any:
        area = save_area(self._arch, self._node.compute_units, self._node.xccs)
        control = self._node.properties.get("ctl_stack_size", area.control_stack)
        size = self._node.properties.get("cwsr_size", area.area)
        total = align((size + area.debug) * self._node.xccs, PAGE)
        eop = self._part(kfd.EOP_BUFFER_SIZE, VRAM, view=False)
        save = self._part(total, VRAM, view=False)
        return self._request(
            queue_type=kfd.QUEUE_TYPE_COMPUTE,
            eop_buffer_address=eop.address,
            eop_buffer_size=kfd.EOP_BUFFER_SIZE,
            ctx_save_restore_address=save.address,
            ctx_save_restore_size=size,
            ctl_stack_size=control,
        )

    def indirect(self, address: int, count: int) -> list[int]:
        """An INDIRECT_BUFFER packet."""
        return plain(pm4.indirect_buffer(address, count))


class CopyChannel(Channel):
    """SDMA; pointers count bytes, zero words are NOPs."""

    kind = "copy"
    unit = 1

    def _create(self) -> Any:
        return self._request(queue_type=kfd.QUEUE_TYPE_SDMA)

    def indirect(self, address: int, count: int) -> list[int]:
        """An INDIRECT packet, after NOPs so that it ends on an 8-word boundary."""
        # Everything this channel publishes is padded to 8 words, so the ring position is known.
        lead = sdma_defs.INDIRECT_END_ALIGNMENT_WORDS - sdma_defs.INDIRECT_WORDS
        return [0] * lead + plain(sdma.indirect(address, count))

    def publish(
        self, words: Sequence[int], timeline: Timeline | None = None, value: int = 0
    ) -> None:
        """As the base, in multiples of 8 words."""
        super().publish([*words, *[0] * (-len(words) % 8)], timeline, value)

    def _padding(self, count: int) -> int:
        at = self.put % self.ring_bytes
        left = (self.ring_bytes - at) // WORD
        return left if left < count else 0
