"""One AMD GPU: opens it, wires its parts together, closes it."""

from collections.abc import Sequence
from contextlib import ExitStack
from typing import Any

from hcq import capture, interrupt
from hcq import host as hosts
from hcq.amd import memory, signals
from hcq.amd.arch import ARCHES, Arch
from hcq.amd.clock import Clock
from hcq.amd.hdp import HdpFlush
from hcq.amd.kfd import process
from hcq.amd.loader import Loader
from hcq.amd.memory import Memory
from hcq.amd.program import Program
from hcq.amd.scratch import ScratchMemory
from hcq.amd.topology import Node, gpus
from hcq.amd.work import AmdWork, AnyQueue
from hcq.copies import Copies
from hcq.errors import OutOfMemory, UnsupportedDevice
from hcq.faults import stopped
from hcq.host import Host
from hcq.interrupt import unbroken
from hcq.ioctl_defs import kfd
from hcq.memory import Buffer
from hcq.opening import check_start, choose, opening
from hcq.program import check_entry
from hcq.queue import COPY
from hcq.raw_device import RawDevice

ARGUMENT_RING_BYTES = 16 << 20
# Source: Linux amdgpu sdma_v6_0.c pads indirect buffers to a multiple of 8 words.
INDIRECT_PADDING_WORDS = 8


class Device(RawDevice):
    """An open GPU. Use `hcq.amd.open()`; close it, or leave that to the end of the process.

    `name` is "AMD:0", `target` "gfx1100". `submit()` orders all work of the device on
    its timeline; `channels[kind].submit()` is the way past it.
    """

    work: AmdWork
    memory: Memory

    @unbroken
    def __init__(self, index: int, *, timeline_start: int = 0) -> None:
        super().__init__()
        check_start(timeline_start)
        host = capture.wrap(hosts.current())
        node = _find(host, index)
        self.index = index
        self.name = f"AMD:{index}"
        self.arch = _arch(node)
        self.target = self.arch.name
        self._node = node
        self._process = process(host)
        self.work = AmdWork(self.name, self.arch, node, self._process, host)
        with opening(self.name), ExitStack() as undo, self._process.lock:
            self._open(undo, timeline_start)
            capture.device(host, self.name, self.target)
            interrupt.point()  # while the device can still be closed
            self._closing = undo.pop_all()

    def _open(self, undo: ExitStack, timeline_start: int) -> None:
        gpu_id = self._node.gpu_id
        if gpu_id in self._process.stopped:
            raise stopped(self._process.stopped[gpu_id], self.name)
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
        self.copies = Copies(work, self._plain, self.free, self._sees)
        ring = self.allocate(ARGUMENT_RING_BYTES, host=True, name="argument ring")
        scratch = ScratchMemory(
            self.arch,
            self._node,
            lambda size: self.allocate(size, cpu_access=False, name="private memory"),
            self.free,
        )
        self.ring = self.loader = Loader(work, self.copies, ring, scratch, self._allocate_code)
        self.clock = Clock(self._process, gpu_id)
        work.describe = self._describe
        work.before_publish = self._before_publish

    def _leave(self) -> None:
        self._process.leave(self._node.gpu_id)
        if not self._process.members:
            signals.release(self._process)

    def _lock(self) -> Any:
        return self._process.lock

    def _nanoseconds(self, ticks: int) -> float:
        return self.clock.nanoseconds(ticks)

    @property
    def driver_version(self) -> str:
        """Of the kernel's compute interface."""
        return "KFD {}.{}".format(*self._process.version)

    @property
    def memory_bytes(self) -> int:
        """VRAM."""
        return self._node.memory_bytes

    @property
    def bus(self) -> str:
        """PCI address."""
        return self._node.bus

    @property
    def notes(self) -> list[str]:
        """Optional requests that the kernel refused."""
        return self._process.notes

    # Memory.

    def _kind(self, host: bool, cpu_access: bool | None, uncached: bool) -> tuple[int, bool]:
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

    def _sees(self, device: Any) -> bool:
        # Another device of the same GPU has its memory in the same address space.
        other = getattr(device, "_node", None)
        return device is self or getattr(other, "gpu_id", None) == self._node.gpu_id

    def _allocate_code(self, size: int) -> Buffer:
        flags, view = self._kind(False, None, False)
        return self.memory.allocate(size, flags | kfd.ALLOC_EXECUTABLE, view=view, name="code")

    # Programs.

    @unbroken
    def load(self, image: bytes, entry: str) -> Program:
        """Upload a code object; CodeObjectError before anything is, OutOfMemory for its needs."""
        check_entry(entry)
        program = self.loader.load(image, entry)
        program.device = self
        return program

    def _lay_down(
        self,
        program: Program,
        values: Sequence[int | float],
        grid: Sequence[int] | None,
        block: Sequence[int] | None,
    ) -> int:
        return self.loader.arguments(program, values, grid, block)

    # Queues.

    def _prepare(self, queue: AnyQueue) -> None:
        if queue.kind == COPY:
            queue.words += [0] * (-len(queue.words) % INDIRECT_PADDING_WORDS)

    def _pinned(self) -> None:
        self.loader.scratch.is_pinned = True

    def _before_publish(self, queue: AnyQueue, value: int) -> None:
        self.ring.commit(queue, value)
        if self.memory.visible_vram:
            self.hdp.flush()


def _find(host: Host, index: int) -> Node:
    nodes = gpus(host)
    known = [node.target for node in nodes]
    return choose(nodes, index, "AMD", "AMD", known, "a cgroup or container")


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
