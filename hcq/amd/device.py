"""One AMD GPU: opens it, wires its parts together, closes it.

Thread safety: opening, allocating, loading, submitting and waiting are safe from
any thread; submissions of one thread keep their order. A queue that is being
built belongs to one thread.
"""

import threading
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from contextlib import ExitStack
from typing import Any

from hcq import capture
from hcq.amd import faults, signals
from hcq.amd import memory as memory_flags
from hcq.amd.arch import ARCHES, Arch
from hcq.amd.channel import Channel, ComputeChannel, CopyChannel
from hcq.amd.clock import Clock
from hcq.amd.code import CodeMemory
from hcq.amd.defs import descriptor
from hcq.amd.events import Incident, MemoryFault, open_events
from hcq.amd.frame import Frame
from hcq.amd.hdp import HdpFlush
from hcq.amd.kfd import Kfd, process
from hcq.amd.memory import Memory, Statistics
from hcq.amd.program import Program, parse
from hcq.amd.queue import COMPUTE, COPY, ComputeQueue, CopyQueue
from hcq.amd.scratch import ScratchMemory
from hcq.amd.staging import Staging
from hcq.amd.topology import Node, gpus
from hcq.amd.waits import Waits
from hcq.errors import (
    BufferUseError,
    DeviceLost,
    DeviceNotFound,
    HcqError,
    LaunchError,
    OutOfMemory,
    QueueError,
    UnsupportedDevice,
    WaitTimeout,
)
from hcq.host import Host
from hcq.ioctl_defs import kfd
from hcq.memory import Buffer, BumpAllocator
from hcq.timeline import TIME_OFFSET, Signal, Timeline

AnyQueue = ComputeQueue | CopyQueue
ARGUMENT_RING_BYTES = 16 << 20
DIRECT_COPY_BYTES = 64 << 10
KEPT_SUBMISSIONS = 64
# Source: Linux drivers/base/devcoredump.c; amdgpu writes one after a reset.
CORE_DUMP = "/sys/class/drm/renderD{minor}/device/devcoredump/data"
CORE_DUMP_BYTES = 1000
CHUNK = 1 << 20


class Device:
    """An open GPU. Use `hcq.amd.open()`; close it, or leave that to the end of the process."""

    def __init__(self, index: int, *, timeline_start: int = 0) -> None:
        host = capture.wrap(_host())
        node = _find(host, index)
        self.index = index
        self.name = f"AMD:{index}"
        self.arch = _arch(node)
        self.target = self.arch.name
        self.failed: BaseException | None = None
        self.is_closed = False
        self._node = node
        self._host = host
        self._lock = threading.RLock()
        self._submissions: deque[faults.Submission] = deque(maxlen=KEPT_SUBMISSIONS)
        self._process: Kfd = process(host)
        with ExitStack() as undo, self._process.lock:
            self._open(undo, timeline_start)
            self._closing = undo.pop_all()
        capture.device(host, self)

    def _open(self, undo: ExitStack, timeline_start: int) -> None:
        gpu_id = self._node.gpu_id
        self._process.acquire(gpu_id, self._node.render_node)
        self._process.join(gpu_id)
        undo.callback(self._leave)
        self.events = open_events(self._process, gpu_id)
        undo.callback(self.events.close)
        self.signals = signals.pool(self._process, gpu_id)
        self.timeline = Timeline(self._signal(undo), self._signal(undo), timeline_start)
        self.waits = Waits(self._host, self.events, self._check, self._progress, self._incident)
        self.memory = Memory(
            self._process, self._node, self, lambda: self.timeline.reached, self._drain
        )
        undo.callback(self.memory.close)
        self.hdp = HdpFlush(self._process, gpu_id)
        undo.callback(self.hdp.close)
        self.channels: dict[str, Channel] = {}
        for kind in (ComputeChannel, CopyChannel):
            channel = kind(self._process, self._node, self.arch)
            undo.callback(channel.close)
            channel.wait_for_space = self._await_space
            channel.on_publish = self._published
            self.channels[channel.kind] = channel
        self._arguments = self.allocate(ARGUMENT_RING_BYTES, host=True, name="argument ring")
        self._blocks = BumpAllocator(
            self._arguments.address, ARGUMENT_RING_BYTES, self._wait_reused
        )
        self._staging = Staging(self, lambda size: self.allocate(size, host=True, name="staging"))
        self._code = CodeMemory(self._allocate_code, lambda: self.timeline.reached)
        self._frames: dict[tuple[str, int], Frame] = {}
        self.scratch = ScratchMemory(
            self.arch,
            self._node,
            lambda size: self.allocate(size, cpu_access=False, name="private memory"),
            self.free,
        )
        self.clock = Clock(self._process, gpu_id)

    def _signal(self, undo: ExitStack) -> Signal:
        signal = self.signals.take()
        undo.callback(self.signals.give, signal)
        return signal

    def _leave(self) -> None:
        self._process.leave(self._node.gpu_id)
        if not self._process.members:
            signals.release(self._process)

    def __repr__(self) -> str:
        return f"<{self.name} {self.target}>"

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
        with self._lock:
            self._usable()
            flags, view = self._flags(host, cpu_access, uncached)
            buffer = self.memory.allocate(size, flags, view=view, name=name)
        if zero and size:
            self._clear(buffer)
        return buffer

    def _flags(self, host: bool, cpu_access: bool | None, uncached: bool) -> tuple[int, bool]:
        if host:
            flags = memory_flags.UNCACHED_HOST_FLAGS if uncached else memory_flags.HOST_FLAGS
            return flags, True
        can = self._node.is_memory_visible and self.hdp.works
        if cpu_access and not can:
            raise OutOfMemory(
                f"{self.name}: no VRAM that the CPU can address",
                device=self.name,
                facts={"asked": "host view of VRAM", "limit": 0},
                hint="turn on resizable BAR in the firmware, or use host=True or copies",
            )
        if can and cpu_access is not False:
            return memory_flags.VISIBLE_VRAM_FLAGS, True
        return memory_flags.VRAM_FLAGS, False

    def adopt(self, address: int, size: int, name: str = "") -> Buffer:
        """Whole pages of this process that the GPU may use at the same address."""
        with self._lock:
            self._usable()
            return self.memory.adopt(address, size, name)

    def free(self, buffer: Buffer) -> None:
        """Give memory back once everything submitted so far is done; waits for nothing."""
        if self.is_closed:
            return
        with self._lock:
            self._process.check_process()
            self.memory.free(buffer, self.timeline.submitted)

    def _clear(self, buffer: Buffer) -> None:
        if buffer.region is None:
            self.submit(self.queue(COPY).fill(buffer.address, 0, buffer.size))
            return
        zeros = bytes(min(CHUNK, buffer.size))
        view = buffer.view()
        for at in range(0, buffer.size, CHUNK):
            size = min(CHUNK, buffer.size - at)
            view[at : at + size] = zeros[:size]

    def buffers_at(self, address: int) -> str:
        """What lies at or nearest to an address, as text."""
        with self._lock:
            return self.memory.describe(address)

    # Copies.

    def copy_in(self, buffer: Buffer, offset: int, data: Any) -> None:
        """Host bytes into a buffer, after everything submitted so far; `data` may then change."""
        view = memoryview(data).cast("B")
        buffer.check(offset, len(view))
        self._usable()
        if not view:
            return
        if buffer.region is not None and self._is_direct(len(view)):
            self.wait(self.timeline.submitted)
            buffer.view()[offset : offset + len(view)] = view
            return
        self._staging.copy_in(buffer.address + offset, view)

    def copy_out(self, buffer: Buffer, offset: int, into: Any) -> None:
        """A buffer's bytes to the host, after everything submitted so far."""
        view = memoryview(into).cast("B")
        buffer.check(offset, len(view))
        self._usable()
        if not view:
            return
        if buffer.region is not None and self._is_host(buffer):
            self.wait(self.timeline.submitted)
            view[:] = buffer.view()[offset : offset + len(view)]
            return
        self._staging.copy_out(buffer.address + offset, view)

    def copy(self, destination: int, source: int, size: int) -> int:
        """Copy between GPU addresses as memmove does; the timeline value that ends it."""
        distance = abs(destination - source)
        if 0 < distance < size and size > distance * 64:
            bounce = self.allocate(size, cpu_access=False, name="bounce")
            self.submit_copy(bounce.address, source, size)
            value = self.submit_copy(destination, bounce.address, size)
            self.free(bounce)
            return value
        return self.submit_copy(destination, source, size)

    def submit_copy(self, destination: int, source: int, size: int) -> int:
        """One copy by the copy engine; its timeline value."""
        return self.submit(self.queue(COPY).copy(destination, source, size))

    def _is_direct(self, size: int) -> bool:
        return size <= DIRECT_COPY_BYTES or self.timeline.is_done(self.timeline.submitted)

    @staticmethod
    def _is_host(buffer: Buffer) -> bool:
        return bool(buffer.owner.flags & kfd.ALLOC_GTT) or buffer.size <= DIRECT_COPY_BYTES

    # Programs.

    def load(self, image: bytes, entry: str) -> Program:
        """Upload a code object; CodeObjectError before anything is, OutOfMemory for its needs."""
        self._usable()
        code = parse(image, entry, self.arch)
        with self._lock:
            self._usable()
            self.scratch.need(entry, code.descriptor["private_segment_fixed_size"])
            address, chunk = self._code.take(code.size)
            try:
                program = Program(
                    code, self.arch, address, lambda: self.scratch.current, self._unload
                )
            except HcqError:
                self._code.give(address, 0)
                raise
            self.copy_in(chunk, address - chunk.address, code.image(address))
            self.channels[COMPUTE].prelude = list(self.queue(COMPUTE).acquire_code().words)
        return program

    def _allocate_code(self, size: int) -> Buffer:
        flags, view = self._flags(False, None, False)
        return self.memory.allocate(size, flags | kfd.ALLOC_EXECUTABLE, view=view, name="code")

    def _unload(self, program: Program) -> None:
        if program.address and not self.is_closed:
            with self._lock:
                self._code.give(program.address, self.timeline.submitted)
        program.address = 0

    def arguments(
        self,
        program: Program,
        values: Sequence[int | float],
        grid: Sequence[int] | None = None,
        block: Sequence[int] | None = None,
    ) -> int:
        """The GPU address of an argument block in the ring, good for launches of one submit.

        `grid` and `block` are needed by programs that read them from memory.
        """
        data = program.arguments.pack(values, program.name)
        if program.code.hidden:
            data = _with_hidden(program, data, grid, block)
        with self._lock:
            self._usable()
            address = self._blocks.take(max(16, len(data)), program.code.kernarg_alignment)
        region = self._arguments.region
        if region is None:
            raise BufferUseError("the argument ring has no host view")
        region.write(address - self._arguments.address, data)
        return address

    # Queues.

    def queue(self, kind: str = COMPUTE, name: str = "") -> Any:
        """A new queue to build: "compute" or "copy"."""
        if kind == COMPUTE:
            return ComputeQueue(self.arch, name)
        if kind == COPY:
            return CopyQueue(self.arch, name)
        raise QueueError(f"no queue kind {kind!r}", facts={"kinds": "compute, copy"})

    def bind(self, queue: AnyQueue) -> AnyQueue:
        """Move a queue's words to device memory; submits then push a pointer to them."""
        if queue.bound is None:
            words = queue.words
            queue.bound = self.allocate(
                max(4, len(words) * 4), host=True, uncached=True, name=f"words of {queue.name}"
            )
            view = queue.bound.view().cast("I")
            for at, word in enumerate(words):
                view[at] = word
            self.scratch.is_pinned = True
        return queue

    def unbind(self, queue: AnyQueue) -> None:
        """Free the memory of a bound queue once its last run is over."""
        if queue.bound is not None:
            self.free(queue.bound)
            queue.bound = None

    def submit(self, queue: AnyQueue) -> int:
        """Run a queue after all earlier work of this device; the timeline value it signals."""
        with self._lock:
            self._usable()
            channel = self.channels[queue.kind]
            if self.timeline.must_turn:
                self._drain()
                self.timeline.turn()
            body = channel.flatten(queue)
            value = self.timeline.following
            for block in queue.blocks:
                self._blocks.commit(block, value)
            words = self._framed(queue.kind, body, value)
            if self.memory.visible_vram:
                self.hdp.flush()
            channel.publish(words, self.timeline, value)
            self._submissions.append(
                faults.Submission(value, channel.name, tuple(queue.kernels), channel.put)
            )
            return value

    def launch(
        self,
        program: Program,
        values: Sequence[int | float],
        grid: Sequence[int],
        block: Sequence[int],
        *,
        wait: bool = False,
    ) -> float | None:
        """Run a program once; with `wait`, the seconds it took on the device."""
        queue = self.queue(COMPUTE)
        arguments = self.arguments(program, values, grid, block)
        if not wait:
            self.submit(queue.launch(program, arguments, tuple(grid), block))
            return None
        start, end = self.signals.take(), self.signals.take()
        queue.timestamp(start.address + TIME_OFFSET)
        queue.launch(program, arguments, tuple(grid), block)
        queue.timestamp(end.address + TIME_OFFSET)
        self.wait(self.submit(queue))
        seconds = self.clock.nanoseconds(end.time - start.time) / 1e9
        # Not after an error: the GPU might still write the cells.
        self.signals.give(start)
        self.signals.give(end)
        return seconds

    def _framed(self, kind: str, body: list[int], value: int) -> list[int]:
        cell = self.timeline.cell.address
        frame = self._frames.get((kind, cell))
        if frame is None:
            frame = self._frames[kind, cell] = Frame(
                lambda: self.queue(kind), cell, self.events.slot, self.events.signal_id
            )
        return frame.around(body, self.timeline.previous_payload, self.timeline.payload(value))

    # Waiting.

    def wait(self, value: int, timeout: float | None = None) -> None:
        """Until the timeline passes a value: WaitTimeout after `timeout` seconds where given,
        GpuTimeout when the default limit passes without any progress."""
        self._usable()
        if self.timeline.is_done(value):
            return
        if value > self.timeline.submitted:
            raise QueueError(
                f"{self.name}: value {value} was never submitted",
                facts={"value": value, "submitted": self.timeline.submitted},
            )
        for channel in self.channels.values():
            if channel.rung != channel.put:
                channel.ring_doorbell()

        def late(limit: float, is_hang: bool) -> Exception:
            return self._late(limit, is_hang, f"value {value}", value)

        self.waits.until(lambda: self.timeline.is_done(value), timeout, late)

    def synchronize(self, timeout: float | None = None) -> None:
        """Until everything submitted is done; then free what waited for that."""
        self.wait(self.timeline.submitted, timeout)
        with self._lock:
            self.memory.collect()

    def wait_signal(self, signal: Signal, value: int, timeout: float | None = None) -> None:
        """Until a signal holds at least a value."""
        self._usable()

        def late(limit: float, is_hang: bool) -> Exception:
            return self._late(limit, is_hang, f"signal {signal.address:#x} >= {value}", value)

        self.waits.until(lambda: signal.value >= value, timeout, late)

    def _late(self, limit: float, is_hang: bool, waited: str, value: int) -> Exception:
        if is_hang:
            return self._fail(faults.hang(self._scene(), limit, waited, self._core_dump()))
        return WaitTimeout(
            f"{self.name}: {waited} did not come within {limit:g} s",
            device=self.name,
            facts={
                "signal": hex(self.timeline.cell.address),
                "awaited": value,
                "seen": self.timeline.reached,
                "limit": limit,
            },
            hint="the device is still good: wait again, longer",
        )

    def _await_space(self, done: Callable[[], bool], channel: Channel) -> None:
        def late(limit: float, is_hang: bool) -> Exception:
            waited = f"space in queue {channel.name} (put {channel.put}, get {channel.get})"
            return self._late(limit, is_hang, waited, channel.put)

        self.waits.until(done, None, late)

    def _wait_reused(self, value: int) -> None:
        self.wait(min(value, self.timeline.submitted))

    def _drain(self) -> None:
        self.wait(self.timeline.submitted)

    # Failure.

    def _usable(self) -> None:
        if self.is_closed:
            raise DeviceLost(f"{self.name} is closed", device=self.name, hint="open it again")
        self._process.check_process()
        self._check()

    def _check(self) -> None:
        if self.failed is not None:
            raise faults.lost_again(self.failed, self.name)

    def _fail(self, error: HcqError) -> Exception:
        """Keep the first error; what to raise now."""
        with self._lock:
            if self.failed is None:
                self.failed = error
                return error
        return faults.lost_again(self.failed, self.name)

    def _incident(self, incidents: list[Incident]) -> None:
        scene = self._scene()
        # A reset says more than the memory fault that may come with it.
        for incident in incidents:
            if not isinstance(incident, MemoryFault):
                raise self._fail(faults.hardware_exception(incident, scene, self._core_dump()))
        for incident in incidents:
            if isinstance(incident, MemoryFault):
                nearest = self.memory.describe(incident.address)
                raise self._fail(faults.memory_fault(incident, scene, nearest))

    def _core_dump(self) -> str:
        path = CORE_DUMP.format(minor=self._node.get("drm_render_minor"))
        try:
            text = self._host.read(path) if self._host.exists(path) else b""
        except OSError:  # root only on most machines
            return ""
        return " ".join(text[:CORE_DUMP_BYTES].decode("utf-8", "replace").split())

    def _progress(self) -> tuple[int, ...]:
        return (self.timeline.cell.value, *(c.get for c in self.channels.values()))

    def _scene(self) -> faults.Scene:
        reached = self.timeline.reached
        rings = [f"{c.name} put {c.put} get {c.get}" for c in self.channels.values()]
        flying = [s for s in self._submissions if s.value > reached]
        return faults.Scene(self.name, reached, self.timeline.submitted, flying, rings)

    def health(self) -> str:
        """ "good", or what helps: "restart-process"."""
        return "good" if self.failed is None else "restart-process"

    def _published(self, channel: Channel, words: Iterable[int], put: int) -> None:
        capture.submission(self._host, self, channel, words, put)

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
        return buffer.region.read64(offset) if buffer.region else 0

    def close(self) -> None:
        """Wait for what runs (a failed device is not waited for), release all; idempotent."""
        if self.is_closed:
            return
        self._process.check_process()
        with self._process.lock, self._lock:
            if self.failed is None:
                self._drain()
            self.is_closed = True
            self._closing.close()


def _host() -> Host:
    from hcq import host

    return host.current()


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


def _with_hidden(
    program: Program, data: bytes, grid: Sequence[int] | None, block: Sequence[int] | None
) -> bytes:
    if grid is None or block is None:
        raise LaunchError(
            f"kernel {program.name} reads its launch size from memory: give grid and block",
            facts={"kernel": program.name, "hidden": [a.name for a in program.code.hidden]},
        )
    values = {
        **{f"hidden_block_count_{a}": grid[i] for i, a in enumerate("xyz")},
        **{f"hidden_group_size_{a}": block[i] for i, a in enumerate("xyz")},
        "hidden_grid_dims": 3,
    }
    block_data = bytearray(data)
    for argument in program.code.hidden:
        if argument.name in descriptor.HIDDEN_ARGUMENTS:
            value = int(values.get(argument.name, 0))
            end = argument.offset + argument.size
            block_data[argument.offset : end] = value.to_bytes(argument.size, "little")
    return bytes(block_data)
