"""One simulated NVIDIA GPU: its doorbell page, channels, clock and execution units.

Channels are stepped from outside (`sim/schedule.py`). What goes wrong in one of them
ends its whole channel group (`sim/nv/faults.py`), as on hardware.
"""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from hashlib import sha1
from typing import Any

from sim.board import Board, Executor, Patience
from sim.memory import GpuMemory
from sim.nv import faults
from sim.nv.channel import Channel
from sim.nv.chips import Chip
from sim.nv.limits import NvLimits
from sim.nv.usermode import NEVER, Usermode

# What work costs in virtual time. Guess: the order of magnitude of a real board.
METHOD_NANOSECONDS = 20
LAUNCH_NANOSECONDS = 3_000
COPY_BYTES_PER_NANOSECOND = 50
UUID_BYTES = 16


class VaSpace:
    """A GPU address space: page table, and the units that run code in it.

    Its mappings are unified memory's.
    """

    def __init__(self, gpu: "Gpu") -> None:
        self.gpu = gpu
        self.is_registered = False  # with unified memory
        self.memory = GpuMemory()
        self._executor: Executor | None = None

    def execution_units(self) -> Executor:
        """What carries out machine code. Made with the first compute object, not with the first
        launch: that may come while the program ends, when modules cannot be loaded any more.
        """
        if self._executor is None:
            make: Callable[[GpuMemory], Executor] | None = self.gpu.limits.executor
            if make is None:
                from sim.nv.units import Units

                make = Units
            self._executor = make(self.memory)
            self.gpu.executors.append(self._executor)
        return self._executor

    def close(self) -> None:
        """The object is gone; what its units counted stays."""
        if self._executor and all(c.setup.space is not self for c in self.gpu.queues):
            self.gpu.retire(self._executor)
            self._executor = None


class Gpu:
    """One GPU. `lock` is held while its channels are stepped or changed."""

    def __init__(self, board: Board, chip: Chip, index: int, limits: NvLimits) -> None:
        self.board = board
        self.chip = chip
        self.index = index
        self.name = f"nv{index}"
        self.limits = limits
        self.minor = index
        self.bus = 0x17 + index
        self.gpu_id = self.bus << 8
        self.uuid = sha1(f"hcq simulated {chip.name} {index}".encode()).digest()[:UUID_BYTES]
        self.vram = limits.vram or chip.vram_bytes
        self.bar1 = limits.bar1 or chip.bar1_bytes
        self.used = 0  # bytes of video memory
        self.bar1_used = 0
        self.usermode = Usermode(board.space, board.clock)
        self.queues: list[Channel] = []  # replaced, never changed: the watcher reads it
        self.executors: list[Executor] = []
        self._retired: dict[str, int] = {}  # what executors that are gone have counted
        self.lock = threading.RLock()
        self.notifiers = threading.Lock()  # held while they are written, and while they go
        self.wanted = 0  # threads that want the lock: stepping makes way for them
        self.running: Channel | None = None  # whose kernel is on the execution units
        self.is_working = False
        self.is_held = False  # a test wants the channels to stand still
        self.is_stopped = False
        self.is_lost = False  # off the bus: nothing answers
        self.is_initialised = False  # its node was opened once
        self.hangs: list[tuple[Channel, int]] = []  # and since when, in seeded mode
        self.traces = board.seeded
        self.notify = board.notify

    @property
    def classes(self) -> tuple[int, ...]:
        """The class list, as the driver reports it."""
        return self.limits.classes if self.limits.classes is not None else self.chip.classes

    @property
    def sm_version(self) -> int:
        """As GR_GET_INFO gives it."""
        return self.limits.sm_version or self.chip.sm_version

    def nanoseconds(self) -> int:
        """The clock of TIME_0 and of semaphore timestamps."""
        return self.board.clock.nanoseconds()

    def cells(self) -> list[tuple[int, int]]:
        """Where the doorbell is rung, and what was seen there last."""
        seen = self.usermode.value if self.is_held or self.is_stopped else NEVER
        return [(self.usermode.cell_address, seen)]

    def runnable(self) -> list[Channel]:
        """The channels that may get somewhere; answers the doorbell first."""
        if self.is_stopped or self.is_held:
            return []
        token = self.usermode.take()
        if token is not None:
            with self.lock:  # a channel that is freed now takes its control words along
                self._rung(token)
        return [channel for channel in self.queues if channel.is_runnable]

    def step(self, channel: Channel, limit: int = 1) -> bool:
        """Carry out up to `limit` methods of a channel; False when the first has to wait."""
        with self.lock:
            self.is_working = True
            try:
                done = channel.run(limit)
            finally:
                self.is_working = False
        self.board.clock.advance(done * METHOD_NANOSECONDS)
        return done > 0

    def spend_copy(self, size: int) -> None:
        """Let the time pass that a copy of `size` bytes takes."""
        self.board.clock.advance(size // COPY_BYTES_PER_NANOSECOND)

    def execute(self, channel: Channel, launch: Any) -> bool:
        """Carry out a launch to its end. False: it faulted or hangs."""
        from sim.nv.warp import WarpFault

        space = channel.setup.space
        with self.occupied(channel) as patience, space.memory.in_use():
            try:
                space.execution_units().run(launch, patience.is_over)
            except WarpFault as fault:
                if fault.kind == "aborted":
                    self.give_up(channel, f"kernel at {launch.code:#x}", patience)
                else:
                    faults.warp(channel, launch, fault)
                return False
        self.board.clock.advance(LAUNCH_NANOSECONDS)
        return True

    @contextmanager
    def occupied(self, channel: Channel) -> Iterator[Patience]:
        """While work of a channel runs that may take long: asked now and then whether to stop."""
        limits = self.limits
        self.running = channel
        try:
            yield Patience(self.board, channel, limits.watchdog, limits.kernel_seconds)
        finally:
            self.running = None

    def give_up(self, channel: Channel, what: str, patience: Patience) -> None:
        """Work of a channel was stopped: it goes away, or `what` takes too long."""
        if channel.stopping:
            return
        channel.is_hung = True
        faults.note(self, "hang", channel.name, f"{channel.name}, {what} does not end")
        self.board.record("hang", self.name, channel.name)
        if self.board.seeded:
            self.hangs.append((channel, self.nanoseconds()))
        elif patience.is_reset:
            faults.timeout(channel)

    def look_for_hangs(self) -> None:
        """Seeded mode: end channels whose kernel runs longer than the watchdog allows."""
        if self.limits.watchdog is None:
            return
        now = self.nanoseconds()
        for channel, since in list(self.hangs):
            if now - since > self.limits.watchdog * 1e9:
                self.hangs.remove((channel, since))
                faults.timeout(channel)

    def add(self, channel: Channel) -> None:
        """A channel exists from now on."""
        self.queues = [*self.queues, channel]

    def remove(self, channel: Channel) -> None:
        """A channel is gone."""
        self.queues = [other for other in self.queues if other is not channel]
        self.hangs = [hang for hang in self.hangs if hang[0] is not channel]

    def free_channel_id(self) -> int:
        """A number that no channel has."""
        used = {channel.identity for channel in self.queues}
        return next(number for number in range(1, 1 << 12) if number not in used)

    def lose(self) -> None:
        """The GPU falls off the bus."""
        self.is_lost = True
        for channel in self.queues:
            if not channel.halted:
                faults.lost(channel)

    def executed(self) -> dict[str, int]:
        """Counters of the execution units, summed."""
        found = dict(self._retired)
        for executor in self.executors:
            _add(found, executor.counters)
        return found

    def retire(self, executor: Executor) -> None:
        """Execution units that nobody needs any more."""
        executor.close()
        _add(self._retired, executor.counters)
        self.executors.remove(executor)

    def close(self) -> None:
        """Stop what runs and let go of the doorbell page."""
        for channel in self.queues:
            channel.stopping = True
        with self.lock:
            self.queues = []
            for executor in self.executors:
                executor.close()
            self.usermode.close()

    def _rung(self, token: int) -> None:
        self.board.record("doorbell", self.name, token)
        if all(channel.token != token for channel in self.queues):
            text = f"doorbell of {self.name}: no channel has the token {token:#x}"
            faults.note(self, "doorbell", "doorbell", text)
            return
        # Rings that follow each other fast overwrite the token, so every channel is looked at.
        for channel in self.queues:
            channel.look()


def _add(sums: dict[str, int], counters: dict[str, int]) -> None:
    for name, value in counters.items():
        sums[name] = sums.get(name, 0) + int(value)
