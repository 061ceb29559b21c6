"""One NVIDIA GPU: opens it, wires its parts together, closes it."""

from collections.abc import Sequence
from contextlib import ExitStack
from typing import Any

from hcq import capture, interrupt
from hcq import host as hosts
from hcq.arguments_ring import ArgumentRing
from hcq.code_memory import CodeMemory
from hcq.copies import Copies
from hcq.errors import QueueError
from hcq.host import Host
from hcq.interrupt import unbroken
from hcq.memory import Buffer
from hcq.nv.cubin import Cubin
from hcq.nv.defs.qmd import ALIGNMENT
from hcq.nv.driver import LOW, Card, Driver, driver
from hcq.nv.gpu import gpu_of
from hcq.nv.local import LocalMemory
from hcq.nv.memory import Kind, Memory
from hcq.nv.program import Program
from hcq.nv.queue import ComputeQueue
from hcq.nv.sizes import LaunchSizes
from hcq.nv.work import AnyQueue, NvWork
from hcq.opening import check_start, choose, opening
from hcq.program import check_entry
from hcq.queue import COMPUTE
from hcq.raw_device import RawDevice

ARGUMENT_RING_BYTES = 16 << 20


class Device(RawDevice):
    """An open GPU. Use `hcq.nv.open()`; close it, or leave that to the end of the process.

    `name` is "NV:0", `target` "sm_90". `submit()` orders all work of the device on
    its timeline; `channels[kind].submit()` is the way past it.
    """

    work: NvWork
    memory: Memory

    @unbroken
    def __init__(self, index: int, *, timeline_start: int = 0) -> None:
        super().__init__()
        check_start(timeline_start)
        host = capture.wrap(hosts.current())
        self.index = index
        self.name = f"NV:{index}"
        self._driver: Driver = driver(host)
        with opening(self.name), ExitStack() as undo, self._driver.lock:
            self._driver.members.append(self)
            undo.callback(self._driver.leave, self)
            self._open(undo, host, timeline_start)
            self.renderers = (f"PTX:{self.target}",)
            capture.device(host, self.name, self.target)
            interrupt.point()  # while the device can still be closed
            self._closing = undo.pop_all()

    def _open(self, undo: ExitStack, host: Host, timeline_start: int) -> None:
        self.gpu = gpu_of(self._driver, _find(self._driver, self.index), self.name)
        undo.callback(self.gpu.leave)
        self.arch = self.gpu.arch
        self.target = self.arch.name
        work = self.work = NvWork(self.name, self.gpu, host)
        undo.callback(self._give_stamps)
        work.open(undo, timeline_start)
        self.memory = Memory(self.gpu, self, lambda: work.timeline.reached, work.drain)
        undo.callback(self.memory.close)
        self.copies = Copies(work, self._plain, self.free, self._sees)
        ring = self.allocate(ARGUMENT_RING_BYTES, cpu_access=True, name="argument ring")
        self.ring = ArgumentRing(work, ring)
        self._sizes = LaunchSizes(self.name, ring, self.memory.at)
        work.channels[COMPUTE].lay_down = self._sizes.fill
        self._code = CodeMemory(work, self.copies, self._allocate_code)
        self.local = LocalMemory(
            self.gpu.shape,
            lambda size: self.allocate(size, cpu_access=False, name="private memory"),
            self.free,
            self._use_local,
        )
        work.describe = self._describe
        work.before_publish = self._before_publish

    def _lock(self) -> Any:
        return self._driver.lock

    def _nanoseconds(self, ticks: int) -> float:
        return float(ticks)

    @property
    def driver_version(self) -> str:
        """Of the kernel modules."""
        return self._driver.version

    @property
    def memory_bytes(self) -> int:
        """Video memory."""
        return self.gpu.memory_bytes

    @property
    def bus(self) -> str:
        """PCI address."""
        return self.gpu.card.bus

    @property
    def notes(self) -> list[str]:
        """Optional requests that the kernel refused."""
        return self._driver.rm.notes

    # Memory.

    def _kind(self, host: bool, cpu_access: bool | None, uncached: bool) -> tuple[Kind, bool]:
        if host:
            return (Kind.UNCACHED_HOST if uncached else Kind.HOST), True
        # Views of video memory take room in BAR1: only who asks gets one.
        return Kind.VRAM, bool(cpu_access)

    def _sees(self, device: Any) -> bool:
        # Another device of the same GPU has its memory in the same address space.
        return device is self or getattr(device, "gpu", None) is self.gpu

    def _allocate_code(self, size: int) -> Buffer:
        return self.memory.allocate(size, Kind.VRAM, view=False, name="code")

    # Programs.

    @unbroken
    def load(self, image: bytes, entry: str) -> Program:
        """Upload a cubin; CodeObjectError before anything is, OutOfMemory for its needs."""
        self.work.usable()
        check_entry(entry)
        cubin = Cubin(image, entry, self.arch)

        def make(address: int) -> Program:
            windows, unload = self._driver.windows, self._code.unload
            program = Program(cubin, self.arch, address, windows, self._sizes.filled, unload)
            with self.work.lock:
                self.local.need(entry, program.local_size)
            return program

        program = self._code.upload(cubin.size, make)
        program.device = self
        queue = ComputeQueue(self.arch).acquire_code()
        with self.work.lock:
            self.work.run_first(COMPUTE, queue.words)
        return program

    def _use_local(self, address: int, bytes_per_tpc: int) -> None:
        queue = ComputeQueue(self.arch).local_memory(address, bytes_per_tpc)
        self.work.run_first(COMPUTE, queue.words)

    def _lay_down(
        self,
        program: Program,
        values: Sequence[int | float],
        grid: Sequence[int] | None,
        block: Sequence[int] | None,
    ) -> int:
        # The kernel's constant bank 0; the submission of the launch fills in unknown sizes.
        address = self.ring.place(program.bank(values, grid, block), ALIGNMENT, program.name)
        sizes = None if grid is None or block is None else (tuple(grid), tuple(block))
        self._sizes.laid_down(address, sizes)
        return address

    # Queues.

    def _prepare(self, queue: AnyQueue) -> None:
        queue.seal()

    def _unprepare(self, queue: AnyQueue) -> None:
        queue.unseal()

    def _placed(self, queue: AnyQueue, address: int) -> None:
        end = address + 4 * len(queue.words)
        if end > LOW:
            raise QueueError(
                f"queue {queue.name} cannot be bound: no address below 2**40 is left",
                facts={"queue": queue.name, "address": hex(address), "limit": hex(LOW)},
                hint="free buffers, or submit the queue without binding it",
            )
        queue.point(address)

    def _before_publish(self, queue: AnyQueue, value: int) -> None:
        self.ring.commit(queue, value)


def _find(found: Driver, index: int) -> Card:
    cards = found.cards()
    return choose(cards, index, "NV", "NVIDIA", [card.bus for card in cards], "a container")
