"""What raw devices of every vendor do: memory, copies, queues, launches, waits.

A vendor opens the device, fills in the parts and hooks, and adds what is its own.
Thread safety: opening, allocating, loading, submitting and waiting are safe from
any thread; submissions of one thread keep their order. A queue that is being
built belongs to one thread.
"""

from collections import deque
from collections.abc import Sequence
from contextlib import ExitStack
from types import TracebackType
from typing import Any, Self

from hcq.arguments_ring import ArgumentRing
from hcq.buffers import Buffers, Statistics
from hcq.builder import check_queue
from hcq.copies import Copies, check_address, check_buffer
from hcq.errors import BufferUseError, HcqError
from hcq.interrupt import unbroken
from hcq.memory import Buffer
from hcq.opening import check_settings
from hcq.program import check_program
from hcq.queue import COMPUTE, check_known
from hcq.timeline import TIME_OFFSET, Signal
from hcq.work import Work

Sizes = tuple[int, int, int]

# How long close() lets waits of other threads end, and the end of a block that failed lets the
# GPU finish.
LEAVE_SECONDS = 1.0


class RawDevice:
    """An open GPU. Close it, or leave that to the end of the process.

    `submit()` orders all work of the device on its timeline; `channels[kind].submit()`
    is the way past it.
    """

    name: str
    target: str
    work: Work
    memory: Buffers
    copies: Copies
    ring: ArgumentRing
    _closing: ExitStack

    def __init__(self) -> None:
        check_settings()
        # Pairs of cells for timestamps, and the value after which each may be written again.
        self._parked: deque[tuple[int, tuple[Signal, Signal]]] = deque()
        self._stamps: list[tuple[Signal, Signal]] = []  # all of these pairs

    # What a vendor fills in.

    def load(self, image: bytes, entry: str) -> Any:
        """Upload a code object; CodeObjectError before anything is, OutOfMemory for its needs."""
        raise NotImplementedError

    def _lay_down(
        self,
        program: Any,
        values: Sequence[int | float],
        grid: Sequence[int] | None,
        block: Sequence[int] | None,
    ) -> int:
        """The GPU address of a program's argument block; grid and block are in their limits."""
        raise NotImplementedError

    def _kind(self, host: bool, cpu_access: bool | None, uncached: bool) -> tuple[Any, bool]:
        """(the vendor's kind of memory, whether it gets a host view)."""
        raise NotImplementedError

    def _prepare(self, queue: Any) -> None:
        """What a queue needs before its words move to device memory."""

    def _unprepare(self, queue: Any) -> None:
        """Its words did not move, or are back."""

    def _pinned(self) -> None:
        """Words that name private memory have moved to device memory."""

    def _nanoseconds(self, ticks: int) -> float:
        """A span of the GPU clock."""
        raise NotImplementedError

    def _lock(self) -> Any:
        """What opening and closing of devices of this process take."""
        raise NotImplementedError

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is None:
            self.close()
            return
        # What went wrong in the block is what its caller must see, and soon: often it is why
        # the GPU waits for something that will not come.
        try:
            self._end(LEAVE_SECONDS)
        except (HcqError, OSError) as trouble:
            error.add_note(f"while {self.name} was closed: {str(trouble).splitlines()[0]}")

    def __repr__(self) -> str:
        return f"<{self.name} {self.target}>"

    def close(self) -> None:
        """Wait for what runs (a failed device is not waited for), release all; idempotent."""
        self._end(None)

    @unbroken
    def _end(self, timeout: float | None) -> None:
        if self.work.is_closed:
            return
        self.work.check_process()
        with self._lock(), self.work.lock, ExitStack() as last:
            last.callback(self._release)
            if self.failed is None:
                try:
                    self.work.wait(self.work.timeline.submitted, timeout)
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

    @property
    def driver_version(self) -> str:
        """The kernel driver's version, for reports."""
        return ""

    @property
    def memory_bytes(self) -> int:
        """Size of the GPU's own memory."""
        return 0

    @property
    def bus(self) -> str:
        """PCI address, as in lspci -D: "0000:01:00.0"."""
        return ""

    @property
    def failed(self) -> BaseException | None:
        """The first error that made the device unusable, else None."""
        return self.work.failed

    @failed.setter
    def failed(self, error: BaseException | None) -> None:
        self.work.failed = error

    def health(self) -> str:
        """ "ok", or what helps: "reset-device" (close it and open it again),
        "restart-process" or "reboot"."""
        failed = self.failed
        return "ok" if failed is None else self.work.remedy(failed).health

    @property
    def stats(self) -> Statistics:
        """Counters of its memory."""
        return self.memory.stats

    # Memory.

    @unbroken
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

        `cpu_access`: None gives VRAM a host view where that costs nothing, True insists
        on one, False does without. `uncached` is for host memory that both
        sides poll. Contents are undefined unless `zero`. OutOfMemory when it cannot be had.
        """
        with self.work.lock:
            self.work.usable()
            kind, view = self._kind(host, cpu_access, uncached)
            buffer = self.memory.allocate(size, kind, view=view, name=name)
        if zero and size:
            self.copies.clear(buffer)
        return buffer

    def _plain(self, size: int, host: bool) -> Buffer:
        name = "staging" if host else "bounce"
        return self.allocate(size, host=host, cpu_access=False, name=name)

    def adopt(self, address: int, size: int, name: str = "") -> Buffer:
        """Whole pages of this process that the GPU may use at the same address."""
        with self.work.lock:
            self.work.usable()
            return self.memory.adopt(address, size, name)

    def free(self, buffer: Buffer) -> None:
        """Give memory back once everything submitted so far is done; waits for nothing."""
        if self.work.is_closed:
            return
        check_buffer(buffer, "free")
        with self.work.lock:
            self.work.check_process()
            self.memory.free(buffer, self.work.timeline.submitted)

    def buffers_at(self, address: int) -> str:
        """What lies at or nearest to an address, as text."""
        check_address(address, "buffers_at")
        with self.work.lock:
            return self._describe(address)

    def _describe(self, address: int) -> str:
        # Without the lock: who holds it may be waiting for the failure that this is to tell of.
        return self.signals.describe(address) or self.memory.describe(address)

    @unbroken
    def copy_in(self, buffer: Buffer, offset: int, data: Any) -> None:
        """Host bytes into a buffer, after everything submitted so far; `data` may then change."""
        self.copies.copy_in(buffer, offset, data)

    @unbroken
    def copy_out(self, buffer: Buffer, offset: int, into: Any) -> None:
        """A buffer's bytes to the host, after everything submitted so far."""
        self.copies.copy_out(buffer, offset, into)

    @unbroken
    def copy(self, destination: int, source: int, size: int) -> int:
        """Copy between GPU addresses as memmove does; the timeline value that ends it."""
        return self.copies.copy(destination, source, size)

    # Launching.

    @unbroken
    def arguments(
        self,
        program: Any,
        values: Sequence[int | float],
        grid: Sequence[int] | None = None,
        block: Sequence[int] | None = None,
    ) -> int:
        """The GPU address of an argument block in the ring, for launches of one queue.

        A block is used again once its submission is over: the queue may be submitted again
        until then, afterwards that is QueueError; a bound queue keeps its blocks. `grid` and
        `block` are checked first (LaunchError), and needed by programs that read them from
        memory that the caller lays down.

        Of `values`, an int is packed as an integer and a float as a float of the parameter's
        size, a numpy scalar as its own type: code objects do not tell types. For a float
        parameter give 3.0, not 3.
        """
        return self._arguments(program, values, grid, block)

    def _arguments(
        self,
        program: Any,
        values: Sequence[int | float],
        grid: Sequence[int] | None,
        block: Sequence[int] | None,
    ) -> int:
        check_program(program, "arguments", self)
        if grid is not None and block is not None:
            # Here already: a block of arguments is only given back by a submission.
            program.check_launch(grid, block)
            check_known(program.name, grid)
        return self._lay_down(program, values, grid, block)

    @unbroken
    def launch(
        self,
        program: Any,
        values: Sequence[int | float],
        grid: Sizes,
        block: Sequence[int],
        *,
        wait: bool = False,
    ) -> float | None:
        """Run a program once; with `wait`, the seconds it took on the device.

        `values` are packed as `arguments()` says: ints as integers, floats as floats.
        """
        check_program(program, "launch", self)
        queue = self.work.queue(COMPUTE)
        arguments = self._arguments(program, values, grid, block)
        try:
            if wait:
                return self._timed(queue, program, arguments, grid, block)
            self.submit(queue.launch(program, arguments, grid, block))
        except BaseException:
            self.ring.blocks.commit(arguments, self.work.timeline.submitted)
            raise
        return None

    def _timed(
        self, queue: Any, program: Any, arguments: int, grid: Sizes, block: Sequence[int]
    ) -> float:
        cells = self._cells()
        start, end = cells
        try:
            queue.timestamp(start.address + TIME_OFFSET)
            queue.launch(program, arguments, grid, block)
            queue.timestamp(end.address + TIME_OFFSET)
            self.wait(self.submit(queue))
            return self._nanoseconds(end.time - start.time) / 1e9
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

    @unbroken
    def bind(self, queue: Any) -> Any:
        """Move a queue's words to device memory; submits then push a pointer to them."""
        check_queue(queue, "bind")
        if queue.bound is None:
            self._prepare(queue)
            with ExitStack() as undo:
                undo.callback(self._unprepare, queue)
                size = max(4, len(queue.words) * 4)
                bound = self.allocate(size, host=True, uncached=True, name=f"words of {queue.name}")
                undo.callback(self.free, bound)
                self._placed(queue, bound.address)
                view = bound.view().cast("I")
                for at, word in enumerate(queue.words):
                    view[at] = word
                with self.work.lock:
                    self.ring.pin(queue)
                    self._pinned()
                    queue.bound = bound
                    undo.pop_all()
        return queue

    def _placed(self, queue: Any, address: int) -> None:
        """A queue's words are about to be written at an address."""

    @unbroken
    def unbind(self, queue: Any) -> None:
        """Free the memory of a bound queue once its last run is over."""
        check_queue(queue, "unbind")
        if queue.bound is not None:
            self.free(queue.bound)
            with self.work.lock:
                self.ring.pin(queue, -1)
                queue.bound = None
                self._unprepare(queue)

    def submit(self, queue: Any) -> int:
        """Run a queue after all earlier work of this device; the timeline value it signals."""
        return self.work.submit(queue)

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
        """Nanoseconds between two timestamps, by their GPU addresses: in signal cells (theirs lie
        at `cell.address + 8`) or in buffers with a host view; else BufferUseError."""
        first, last = (self._read64(at) for at in (start, end))
        return self._nanoseconds(last - first)

    def _read64(self, address: int) -> int:
        check_address(address, "time")
        cell = self.signals.at(address)
        if cell is not None:
            region, at = cell
            return int(region.read64(at))
        found = self.memory.at(address)
        if found is None or not 0 <= found[1] < found[0].size:
            raise BufferUseError(
                f"no host memory at {address:#x}",
                facts={"address": hex(address), "nearest": self._describe(address)},
                hint="give the time of a signal cell (cell.address + 8), or an address in a "
                "buffer with host=True",
            )
        buffer, offset = found
        buffer.check(offset, 8)
        return int.from_bytes(buffer.view()[offset : offset + 8], "little")
