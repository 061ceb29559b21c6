"""One AMD GPU: opens it, wires its parts together, closes it.

Thread safety: opening, allocating, loading, submitting and waiting are safe from
any thread; submissions of one thread keep their order. A queue that is being
built belongs to one thread.
"""

from collections import deque
from collections.abc import Sequence
from contextlib import ExitStack
from typing import Any

from hcq import capture
from hcq import host as hosts
from hcq.amd import memory, signals
from hcq.amd.arch import ARCHES, Arch
from hcq.amd.clock import Clock
from hcq.amd.copies import Copies
from hcq.amd.hdp import HdpFlush
from hcq.amd.kfd import process
from hcq.amd.loader import Loader
from hcq.amd.memory import Memory, Statistics
from hcq.amd.program import Program
from hcq.amd.queue import COMPUTE, COPY, ComputeQueue
from hcq.amd.scratch import ScratchMemory
from hcq.amd.topology import Node, gpus
from hcq.amd.work import AnyQueue, Work
from hcq.errors import BufferUseError, DeviceNotFound, OutOfMemory, UnsupportedDevice
from hcq.host import Host
from hcq.ioctl_defs import kfd
from hcq.memory import Buffer
from hcq.timeline import TIME_OFFSET, Signal

ARGUMENT_RING_BYTES = 16 << 20
LEAVE_SECONDS = 1.0
# Source: Linux amdgpu sdma_v6_0.c pads indirect buffers to a multiple of 8 words.
INDIRECT_PADDING_WORDS = 8


class Device:
    """An open GPU. Use `hcq.amd.open()`; close it, or leave that to the end of the process.

    `name` is "AMD:0", `target` "gfx1100". `submit()` orders all work of the device on
    its timeline; `channels[kind].submit()` is the way past it.
    """

    def __init__(self, index: int, *, timeline_start: int = 0) -> None:
        host = capture.wrap(hosts.current())
        node = _find(host, index)
        self.index = index
        self.name = f"AMD:{index}"
        self.arch = _arch(node)
        self.target = self.arch.name
        self._node = node
        self._process = process(host)
        # Pairs of cells for timestamps, and the value after which each may be written again.
        self._parked: deque[tuple[int, tuple[Signal, Signal]]] = deque()
        self._stamps: list[tuple[Signal, Signal]] = []  # all of these pairs
        self.work = Work(self.name, self.arch, node, self._process, host)
        with ExitStack() as undo, self._process.lock:
            self._open(undo, timeline_start)
            self._closing = undo.pop_all()
        capture.device(host, self.name, self.target)

    def _open(self, undo: ExitStack, timeline_start: int) -> None:
        gpu_id = self._node.gpu_id
        self._process.acquire(gpu_id, self._node.render_node)
        self._process.join(gpu_id)
        undo.callback(self._leave)
        undo.callback(self._give_stamps)
        work = self.work
        work.open(undo, timeline_start)
        self.memory = Memory(
            self._process, self._node, self, lambda: work.timeline.reached, work.drain
        )
        undo.callback(self.memory.close)
        self.hdp = HdpFlush(self._process, gpu_id)
        undo.callback(self.hdp.close)
        self.copies = Copies(work, self._plain, self.free)
        ring = self.allocate(ARGUMENT_RING_BYTES, host=True, name="argument ring")
        scratch = ScratchMemory(
            self.arch,
            self._node,
            lambda size: self.allocate(size, cpu_access=False, name="private memory"),
            self.free,
        )
        self.loader = Loader(work, self.copies, ring, scratch, self._allocate_code)
        self.clock = Clock(self._process, gpu_id)
        work.describe = self.memory.describe
        work.before_publish = self._before_publish

    def _leave(self) -> None:
        self._process.leave(self._node.gpu_id)
        if not self._process.members:
            signals.release(self._process)

    def close(self) -> None:
        """Wait for what runs (a failed device is not waited for), release all; idempotent."""
        if self.work.is_closed:
            return
        self._process.check_process()
        with self._process.lock, self.work.lock, ExitStack() as last:
            last.callback(self._release)
            if self.failed is None:
                try:
                    self.work.drain()
                except KeyboardInterrupt:
                    last.pop_all()  # still open: close it again
                    raise

    def _release(self) -> None:
        self.work.is_closed = True
        self.work.waits.leave(LEAVE_SECONDS)  # other threads may be reading signals
        with ExitStack() as steps:
            steps.callback(self._closing.close)
            # Queues first: a kernel that never ends must not see its memory go, which would
            # be a fault, after which the kernel stops all that this process runs on the GPU.
            for channel in self.work.channels.values():
                steps.callback(channel.close)

    def __repr__(self) -> str:
        return f"<{self.name} {self.target}>"

    @property
    def failed(self) -> BaseException | None:
        """The first error that made the device unusable, else None."""
        return self.work.failed

    @failed.setter
    def failed(self, error: BaseException | None) -> None:
        self.work.failed = error

    def health(self) -> str:
        """ "ok", or what helps: "restart-process"."""
        return "ok" if self.failed is None else "restart-process"

    @property
    def stats(self) -> Statistics:
        """Counters of its memory."""
        return self.memory.stats

    @property
    def notes(self) -> list[str]:
        """Optional requests that the kernel refused."""
        return self._process.notes

    # Memory.

    def allocate(
        self,
        size: int,
        *,
        host: bool = False,
        cpu_access: bool | None = None,
        uncached: bool = False,
        zero: bool = False,
        name: str = "",
    ) -> Buffer:
        """Memory of `size` bytes: VRAM, or with `host` memory of the machine.

        `cpu_access`: None gives VRAM a host view where the chip can (resizable BAR),
        True insists on one, False does without. `uncached` is for host memory that both
        sides poll. Contents are undefined unless `zero`. OutOfMemory when it cannot be had.
        """
        with self.work.lock:
            self.work.usable()
            flags, view = self._flags(host, cpu_access, uncached)
            buffer = self.memory.allocate(size, flags, view=view, name=name)
        if zero and size:
            self.copies.clear(buffer)
        return buffer

    def _flags(self, host: bool, cpu_access: bool | None, uncached: bool) -> tuple[int, bool]:
        if host:
            return (memory.UNCACHED_HOST_FLAGS if uncached else memory.HOST_FLAGS), True
        can = self._node.is_memory_visible and self.hdp.works
        if cpu_access and not can:
            raise OutOfMemory(
                f"{self.name}: no VRAM that the CPU can address",
                device=self.name,
                facts={"asked": "host view of VRAM", "limit": 0},
                hint="turn on resizable BAR in the firmware, or use host=True or copies",
            )
        if can and cpu_access is not False:
            return memory.VISIBLE_VRAM_FLAGS, True
        return memory.VRAM_FLAGS, False

    def _plain(self, size: int, host: bool) -> Buffer:
        name = "staging" if host else "bounce"
        return self.allocate(size, host=host, cpu_access=False, name=name)

    def _allocate_code(self, size: int) -> Buffer:
        flags, view = self._flags(False, None, False)
        return self.memory.allocate(size, flags | kfd.ALLOC_EXECUTABLE, view=view, name="code")

    def adopt(self, address: int, size: int, name: str = "") -> Buffer:
        """Whole pages of this process that the GPU may use at the same address."""
        with self.work.lock:
            self.work.usable()
            return self.memory.adopt(address, size, name)

    def free(self, buffer: Buffer) -> None:
        """Give memory back once everything submitted so far is done; waits for nothing."""
        if self.work.is_closed:
            return
        with self.work.lock:
            self._process.check_process()
            self.memory.free(buffer, self.work.timeline.submitted)

    def buffers_at(self, address: int) -> str:
        """What lies at or nearest to an address, as text."""
        with self.work.lock:
            return self.memory.describe(address)

    def copy_in(self, buffer: Buffer, offset: int, data: Any) -> None:
        """Host bytes into a buffer, after everything submitted so far; `data` may then change."""
        self.copies.copy_in(buffer, offset, data)

    def copy_out(self, buffer: Buffer, offset: int, into: Any) -> None:
        """A buffer's bytes to the host, after everything submitted so far."""
        self.copies.copy_out(buffer, offset, into)

    def copy(self, destination: int, source: int, size: int) -> int:
        """Copy between GPU addresses as memmove does; the timeline value that ends it."""
        return self.copies.copy(destination, source, size)

    # Programs.

    def load(self, image: bytes, entry: str) -> Program:
        """Upload a code object; CodeObjectError before anything is, OutOfMemory for its needs."""
        return self.loader.load(image, entry)

    def arguments(
        self,
        program: Program,
        values: Sequence[int | float],
        grid: Sequence[int] | None = None,
        block: Sequence[int] | None = None,
    ) -> int:
        """The GPU address of an argument block in the ring, for launches of one queue.

        A block is used again once its submission is over: the queue may be submitted again
        until then, afterwards that is QueueError; a bound queue keeps its blocks. `grid` and
        `block` are checked first (LaunchError), and needed by programs that read them.
        """
        return self.loader.arguments(program, values, grid, block)

    def launch(
        self,
        program: Program,
        values: Sequence[int | float],
        grid: tuple[int, int, int],
        block: Sequence[int],
        *,
        wait: bool = False,
    ) -> float | None:
        """Run a program once; with `wait`, the seconds it took on the device."""
        queue = ComputeQueue(self.arch)
        arguments = self.arguments(program, values, grid, block)
        try:
            if wait:
                return self._timed(queue, program, arguments, grid, block)
            self.submit(queue.launch(program, arguments, grid, block))
        except BaseException:
            self.loader.blocks.commit(arguments, self.work.timeline.submitted)
            raise
        return None

    def _timed(
        self, queue: Any, program: Program, arguments: int, grid: tuple[int, int, int], block: Any
    ) -> float:
        cells = self._cells()
        start, end = cells
        try:
            queue.timestamp(start.address + TIME_OFFSET)
            queue.launch(program, arguments, grid, block)
            queue.timestamp(end.address + TIME_OFFSET)
            self.wait(self.submit(queue))
            return self.clock.nanoseconds(end.time - start.time) / 1e9
        finally:
            # After an error the GPU might still write the cells.
            self._parked.append((self.work.timeline.submitted, cells))

    def _cells(self) -> tuple[Signal, Signal]:
        with self.work.lock:
            if self._parked and self.work.timeline.is_done(self._parked[0][0]):
                return self._parked.popleft()[1]
            pair = self.signals.take(), self.signals.take()
            self._stamps.append(pair)
        return pair

    def _give_stamps(self) -> None:
        # Once the queues are gone nothing writes them any more.
        for pair in self._stamps:
            for cell in pair:
                self.signals.give(cell)

    # Queues.

    @property
    def channels(self) -> dict[str, Any]:
        """The hardware queues by kind."""
        return dict(self.work.channels)

    @property
    def signals(self) -> Any:
        """The pool of signal cells."""
        return self.work.signals

    def queue(self, kind: str = COMPUTE, name: str = "") -> Any:
        """A new queue to build: "compute" or "copy"."""
        return self.work.queue(kind, name)

    def bind(self, queue: AnyQueue) -> AnyQueue:
        """Move a queue's words to device memory; submits then push a pointer to them."""
        if queue.bound is None:
            words = queue.words
            if queue.kind == COPY:
                words += [0] * (-len(words) % INDIRECT_PADDING_WORDS)
            size = max(4, len(words) * 4)
            bound = self.allocate(size, host=True, uncached=True, name=f"words of {queue.name}")
            view = bound.view().cast("I")
            for at, word in enumerate(words):
                view[at] = word
            with self.work.lock:
                self.loader.pin(queue)
                self.loader.scratch.is_pinned = True
                queue.bound = bound
        return queue

    def unbind(self, queue: AnyQueue) -> None:
        """Free the memory of a bound queue once its last run is over."""
        if queue.bound is not None:
            self.free(queue.bound)
            with self.work.lock:
                self.loader.pin(queue, -1)
                queue.bound = None

    def submit(self, queue: AnyQueue) -> int:
        """Run a queue after all earlier work of this device; the timeline value it signals."""
        return self.work.submit(queue)

    def _before_publish(self, queue: AnyQueue, value: int) -> None:
        self.loader.commit(queue, value)
        if self.memory.visible_vram:
            self.hdp.flush()

    def wait(self, value: int, timeout: float | None = None) -> None:
        """Until the timeline passes a value: WaitTimeout after `timeout` seconds where given,
        GpuTimeout when the default limit passes without any progress."""
        self.work.wait(value, timeout)

    def wait_signal(self, signal: Signal, value: int, timeout: float | None = None) -> None:
        """Until a signal holds at least a value."""
        self.work.wait_signal(signal, value, timeout)

    def synchronize(self, timeout: float | None = None) -> None:
        """Until everything submitted is done; then free what waited for that."""
        self.work.wait(self.work.timeline.submitted, timeout)
        with self.work.lock:
            if not self.work.is_closed:
                self.memory.collect()

    # Time.

    def time(self, start: int, end: int) -> float:
        """Nanoseconds between two timestamps that lie at GPU addresses in host memory."""
        first, last = (self._read64(at) for at in (start, end))
        return self.clock.nanoseconds(last - first)

    def _read64(self, address: int) -> int:
        found = self.memory.at(address)
        if found is None or found[0].region is None:
            raise BufferUseError("no host memory there", facts={"address": hex(address)})
        buffer, offset = found
        buffer.check(offset, 8)
        return int.from_bytes(buffer.view()[offset : offset + 8], "little")


def _find(host: Host, index: int) -> Node:
    nodes = gpus(host)
    if not 0 <= index < len(nodes):
        raise DeviceNotFound(
            f"no AMD:{index}: {len(nodes)} AMD GPU(s) here",
            device=f"AMD:{index}",
            facts={"count": len(nodes), "known": ", ".join(n.target for n in nodes) or "none"},
            hint="indices start at 0; a cgroup or container may hide GPUs",
        )
    return nodes[index]


def _arch(node: Node) -> Arch:
    arch = ARCHES.get(node.get("gfx_target_version"))
    if arch is None:
        raise UnsupportedDevice(
            f"the GPU is a {node.target}, which is not supported",
            facts={
                "found": node.target,
                "supported": ", ".join(a.name for a in ARCHES.values()),
            },
        )
    return arch
