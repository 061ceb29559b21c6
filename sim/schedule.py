"""Who runs the simulated queues, and when.

Free-running: a thread for each GPU, woken by its doorbells, so that the program
and the device run side by side. Seeded: nothing runs but inside a call to the
machine, in an order that the seed decides, on a clock that only this file moves.
"""

import threading
import time
from collections.abc import Sequence
from random import Random
from typing import Any, Protocol

from sim.clock import VirtualClock
from sim.watch import Watch

BURST = 64  # packets of one queue before another gets its turn
RELAX_SECONDS = 0.0005
LOCK_YIELD_SECONDS = 0.0001
# How many sleeps the watcher takes before it looks around: with a packet that waits for
# memory after each one, without any after about 50 ms.
SLEEPS_STALLED, SLEEPS_IDLE = 1, 1000

# Virtual nanoseconds that a fruitless look of the program costs: doubled each time in a row.
FIRST_IDLE_STEP, LAST_IDLE_STEP = 1_000, 250_000_000
CALL_NANOSECONDS = 1_000
MOST_STEPS = 8


class Gpu(Protocol):
    """What is stepped: one simulated GPU. `name` is its own in the machine."""

    name: str
    lock: Any
    wanted: int
    is_held: bool
    is_stopped: bool
    queues: Any

    def runnable(self) -> Sequence[Any]:
        """The queues that may get somewhere."""

    def step(self, queue: Any, limit: int = 1) -> bool:
        """Carry out up to `limit` packets; False when the first has to wait."""

    def cells(self) -> list[tuple[int, int]]:
        """Where doorbells are rung, and what was seen there last."""

    def look_for_hangs(self) -> None:
        """Reset the GPU when something hangs too long."""


class FreeRunning:
    """A thread for each GPU that has queues."""

    def __init__(self, gpus: Sequence[Gpu]) -> None:
        self._gpus = gpus
        self._stopping = False
        self._bell = threading.Lock()
        self._bell.acquire()
        self._watches: dict[str, Watch] = {}
        self._threads: list[threading.Thread] = []

    def start(self, gpu: Gpu) -> None:
        """Begin to watch a GPU; called when it has a queue."""
        if gpu.name in self._watches or self._stopping:
            return
        self._watches = {**self._watches, gpu.name: Watch()}
        name = f"sim-{gpu.name}"
        thread = threading.Thread(target=self._serve, args=(gpu,), name=name, daemon=True)
        self._threads.append(thread)
        thread.start()

    def changed(self, gpu: Gpu) -> None:
        """The queues of a GPU are others now: watch those."""
        if gpu.name in self._watches:
            self._watches[gpu.name].wake()

    def notify(self) -> None:
        """A packet wrote memory: let the waiting program look."""
        if self._bell.locked():
            try:
                self._bell.release()
            except RuntimeError:
                return  # another thread was quicker

    def relax(self, within: int | None = None) -> None:
        """The program waits: give the core away until something happened, for a moment at most."""
        self.nudge()
        self._bell.acquire(timeout=RELAX_SECONDS)

    def nudge(self) -> None:
        """The program is about to wait: let sleeping watchers look at once."""
        for watch in self._watches.values():
            if watch.is_waiting:
                watch.wake()

    def before_call(self) -> None:
        """The device needs no invitation."""

    def stop(self) -> None:
        """End the threads. Kernels that still run have been told to stop."""
        self._stopping = True
        for watch in self._watches.values():
            watch.wake()
        for thread in self._threads:
            thread.join(5.0)

    def _serve(self, gpu: Gpu) -> None:
        watch = self._watches[gpu.name]
        while not self._stopping:
            if self._work(gpu):
                continue
            with gpu.lock:
                cells = gpu.cells()
                # What rang between the last look and now is in the cells already.
                still = gpu.is_held or gpu.is_stopped
                stalled = not still and any(q.is_runnable for q in gpu.queues)
            watch.wait(cells, SLEEPS_STALLED if stalled else SLEEPS_IDLE)

    def _work(self, gpu: Gpu) -> bool:
        """Step every queue once as far as it goes; False when none got anywhere."""
        moved = False
        for queue in gpu.runnable():
            while gpu.step(queue, BURST):
                moved = True
                if gpu.wanted or gpu.is_held or self._stopping:
                    break
        if moved:
            self.notify()
        if gpu.wanted:
            time.sleep(LOCK_YIELD_SECONDS)
        return moved


class Seeded:
    """One thing at a time, in an order drawn from a seed."""

    def __init__(self, gpus: Sequence[Gpu], seed: int, clock: VirtualClock) -> None:
        self._gpus = gpus
        self._random = Random(seed)
        self._clock = clock
        self._idle_step = FIRST_IDLE_STEP
        self._active = False

    def start(self, gpu: Gpu) -> None:
        """Nothing to start: the program's calls drive the device."""

    def changed(self, gpu: Gpu) -> None:
        """Nothing watches."""

    def notify(self) -> None:
        """Nobody waits elsewhere."""

    def relax(self, within: int | None = None) -> None:
        """Run some packets; when there is nothing to do, let time pass, ever faster.

        `within`: nanoseconds after which the caller wants to look again at the latest.
        """
        if self._run(self._random.randint(1, MOST_STEPS)):
            self._idle_step = FIRST_IDLE_STEP
            return
        step = self._idle_step if within is None else min(self._idle_step, within)
        self._clock.advance(step)
        for gpu in self._gpus:
            gpu.look_for_hangs()
        self._idle_step = min(self._idle_step * 2, LAST_IDLE_STEP)

    def nudge(self) -> None:
        """Nobody sleeps."""

    def before_call(self) -> None:
        """The device may have got somewhere since the last call, and a call takes time."""
        self._clock.advance(CALL_NANOSECONDS)
        self._run(self._random.randint(0, 2))

    def stop(self) -> None:
        """Nothing to stop."""

    def _run(self, steps: int) -> bool:
        if self._active:  # an interrupt handler of the program called back
            return False
        self._active = True
        try:
            return self._steps(steps)
        finally:
            self._active = False

    def _steps(self, steps: int) -> bool:
        moved = False
        stalled: set[int] = set()
        while steps:
            choices = [(gpu, queue) for gpu in self._gpus for queue in gpu.runnable()
                       if id(queue) not in stalled]  # fmt: skip
            if not choices:
                break
            gpu, queue = self._random.choice(choices)
            if gpu.step(queue):
                moved = True
                stalled.clear()
                steps -= 1
            else:
                stalled.add(id(queue))
        return moved


Scheduler = FreeRunning | Seeded
