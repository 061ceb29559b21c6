"""One simulated AMD GPU: its memory, doorbells, queues, clock and execution units.

Queues are stepped from outside (`sim/schedule.py`); what goes wrong in one of
them is handed to the kernel driver (`sim/amd/kfd.py`), as interrupts would be.
"""

import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

from sim.amd.caches import Caches
from sim.amd.chips import Chip
from sim.amd.doorbell import Doorbells
from sim.amd.launch import Launch
from sim.amd.queue import Queue
from sim.board import Board, Executor, Fault, Patience
from sim.clock import GPU_TICK_NANOSECONDS
from sim.memory import GpuMemory, PageFault

# What work costs in virtual time. Guess: the order of magnitude of a real board.
PACKET_NANOSECONDS = 200
DISPATCH_NANOSECONDS = 5_000
COPY_BYTES_PER_NANOSECOND = 20


class Driver(Protocol):
    """What the GPU tells its kernel driver."""

    def interrupt(self, gpu: "Gpu", context: int) -> None: ...
    def memory_fault(self, gpu: "Gpu", queue: Queue, address: int, access: str) -> None: ...
    def queue_error(self, gpu: "Gpu", queue: Queue) -> None: ...
    def reset(self, gpu: "Gpu", cause: str) -> None: ...


@dataclass
class Limits:
    """How a GPU is built and how patient it is. Sizes in bytes, times in seconds."""

    vram: int | None = None
    gtt: int = 32 << 30  # host memory that GPUs may use
    large_bar: bool = True
    queues: int = 127
    watchdog: float | None = None  # a kernel that runs longer gets the GPU reset
    preemptible: bool = True  # False: a queue cannot be destroyed while its kernel runs
    late: bool = False  # results and host writes are seen only after the right barriers
    kernel_seconds: float = 5.0  # seeded mode: real time after which a kernel counts as endless
    executor: Callable[[GpuMemory], Executor] | None = None


class Gpu:
    """One GPU. `lock` is held while its queues are stepped or changed."""

    def __init__(self, board: Board, chip: Chip, index: int, limits: Limits) -> None:
        self.board = board
        self.chip = chip
        self.index = index
        self.name = f"amd{index}"
        self.limits = limits
        self.gpu_id = 0x5D31 + 0x0101 * index
        self.minor = 128 + index
        self.vram = limits.vram or chip.vram_bytes
        self.large_bar = limits.large_bar
        self.masked = False
        self.memory = GpuMemory()
        self.doorbells = Doorbells(board.space)
        self.queues: list[Queue] = []
        self.lock = threading.RLock()
        self.wanted = 0  # threads that want the lock: stepping makes way for them
        self.is_working = False
        self.evicted_until = 0  # nanoseconds; memory is short, the kernel keeps the queues off
        self.running: Queue | None = None  # whose kernel is on the execution units
        self.hangs: list[tuple[Queue, int]] = []  # and since when, in seeded mode
        self.is_held = False  # a test wants the queues to stand still
        self.is_stopped = False  # after a fault or reset nothing runs any more
        self.driver: Driver | None = None
        self.executor: Executor | None = None
        self.caches: Caches | None = None
        self.traces = board.seeded
        self.record = board.record
        self.notify = board.notify

    def ticks(self) -> int:
        """The 100 MHz counter."""
        return self.board.clock.nanoseconds() // GPU_TICK_NANOSECONDS

    def count(self, name: str, amount: int = 1) -> None:
        """Add to a counter of the machine."""
        self.board.count(name, amount)

    def cells(self) -> list[tuple[int, int]]:
        """Where doorbells are rung, and what was seen there last."""
        queues = [] if self.is_stopped else self.queues
        return [(self.doorbells.cell_address(q.setup.cell), q.doorbell) for q in queues]

    def runnable(self) -> list[Queue]:
        """The queues that may get somewhere."""
        if self.is_stopped or self.is_held:
            return []
        if self.board.clock.nanoseconds() < self.evicted_until:
            return []
        return [queue for queue in self.queues if queue.is_runnable]

    def step(self, queue: Queue, limit: int = 1) -> bool:
        """Carry out up to `limit` packets of a queue; False when the first one has to wait."""
        with self.lock:
            self.is_working = True
            try:
                done = queue.run(limit)
            finally:
                self.is_working = False
        self.board.clock.advance(done * PACKET_NANOSECONDS)
        return done > 0

    def spend_copy(self, size: int) -> None:
        """Let the time pass that a copy of `size` bytes takes."""
        self.board.clock.advance(size // COPY_BYTES_PER_NANOSECOND)

    def dispatch(self, queue: Queue, launch: Launch) -> bool:
        """Carry out a launch to its end. False: it hangs, the queue stays on its packet."""
        self.count("dispatches")
        self.record("dispatch", self.index, queue.name, launch.groups, launch.threads)
        if 0 in launch.groups:
            return True
        patience = Patience(self.board, queue, self.limits.watchdog, self.limits.kernel_seconds)
        from sim.amd.wave import Dispatch, WaveFault

        self.running = queue
        try:
            with self.memory.in_use():
                self._run(Dispatch(**vars(launch), started=self.ticks()), patience)
        except WaveFault as fault:
            return self._wave_fault(queue, launch, fault, patience)
        finally:
            self.running = None
        self.board.clock.advance(DISPATCH_NANOSECONDS)
        return True

    def interrupt(self, context: int) -> None:
        """Tell the driver that an event's slot was written."""
        if self.driver:
            self.driver.interrupt(self, context)

    def memory_fault(self, queue: Queue, address: int, access: str, text: str) -> None:
        """A page fault of queue or kernel."""
        self._note("memory", queue, text)
        self.record("fault", self.index, queue.name, "memory", access)
        if self.driver:
            self.driver.memory_fault(self, queue, address, access)

    def queue_error(self, queue: Queue, text: str, kind: str = "queue") -> None:
        """Something the command processor or the waves refuse."""
        self._note(kind, queue, text)
        self.record("fault", self.index, queue.name, kind)
        if self.driver:
            self.driver.queue_error(self, queue)

    def look_for_hangs(self) -> None:
        """Seeded mode: reset the GPU when a kernel hangs for longer than the watchdog allows."""
        if self.limits.watchdog is None or self.is_stopped or not self.driver:
            return
        now = self.board.clock.nanoseconds()
        if any(now - since > self.limits.watchdog * 1e9 for _, since in self.hangs):
            self.driver.reset(self, "hang")

    def close(self) -> None:
        """Stop what runs and let go of the doorbells."""
        for queue in self.queues:
            queue.stopping = True
        with self.lock:
            self.queues.clear()
            self.doorbells.close()
            if self.executor:
                self.executor.close()

    def executed(self) -> dict[str, int]:
        """Counters of the execution units."""
        return self.executor.counters if self.executor else {}

    def page_kind(self, address: int, access: str) -> str:
        """Why an access faults: not-present, read-only or no-execute."""
        try:
            self.memory.check(address, 1, access)
        except PageFault as fault:
            return fault.kind
        return "not-present"

    def _run(self, dispatch: Any, patience: Patience) -> None:
        if self.caches:
            self.caches.before()
        try:
            self.execution_units().run(dispatch, patience.is_over)
        finally:
            if self.caches:
                self.caches.after()

    def execution_units(self) -> Executor:
        """What carries out machine code. Made with the first compute queue, not with the first
        launch: that may come while the program ends, when modules cannot be loaded any more.
        """
        if self.executor is None:
            if self.limits.executor:
                self.executor = self.limits.executor(self.memory)
            else:
                from sim.amd.units import Units

                self.executor = Units(self.memory)
        return self.executor

    def _wave_fault(self, queue: Queue, launch: Launch, fault: Any, patience: Patience) -> bool:
        where = f"{queue.name}, kernel at {launch.code:#x}"
        queue.halted = True
        if fault.kind == "memory":
            note = self.memory.note_of(fault.address)
            text = f"{where}, pc {fault.pc:#x}: {fault.access} of {fault.address:#x}: {fault.text}"
            text += note and f"; {note}"
            self.memory_fault(queue, fault.address, fault.access, text)
        elif fault.kind != "aborted":
            self.queue_error(queue, f"{where}, pc {fault.pc:#x}: {fault.text}", "wave")
        elif not queue.stopping:
            self._hang(queue, f"{where} does not end", patience)
        return False

    def _hang(self, queue: Queue, text: str, patience: Patience) -> None:
        self._note("hang", queue, text)
        self.record("hang", self.index, queue.name)
        if self.board.seeded:
            self.hangs.append((queue, self.board.clock.nanoseconds()))
        elif patience.is_reset and self.driver:
            self.driver.reset(self, "hang")

    def _note(self, kind: str, queue: Queue, text: str) -> None:
        queue.fault = text
        self.board.faults.append(Fault(kind, self.index, queue.name, text))
