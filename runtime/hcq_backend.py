"""Backend over a raw queue device: allocate, copy, load, launch on hcq's verbs.

Everything of one device goes through one lock, except waits. `free` is called
from finalizers, which may run in the middle of any of these calls and in the
same thread; so it only notes what to free, and frees when the lock is free.
"""

import threading
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Protocol

from hcq.errors import CodeObjectError, DeviceLost, GpuTimeout, Unsupported, WaitTimeout
from hcq.memory import Buffer
from hcq.settings import Context
from runtime.backend import Code, Memory, MemoryOptions

CLOSE_MS = 500  # limit of a wait without progress while closing
# Two timestamps, each in the upper half of 16 bytes; the lower half may be overwritten.
STAMP_BYTES, FIRST_STAMP, LAST_STAMP = 32, 8, 24

Place = tuple[Memory, int]
Grid = tuple[int, int, int]


class Vendor(Protocol):
    """hcq.amd, or another package that opens raw devices."""

    def open(self, index: int) -> Any: ...


def open_backend(vendor: Vendor, index: int) -> "HcqBackend":
    """The index-th device of a vendor, as a backend."""
    return HcqBackend(vendor.open(index))


class HcqProgram:
    """A code object on the device, and how it is launched."""

    def __init__(self, code: Code, raw: Any) -> None:
        self.name = code.entry
        self.raw = raw
        self.grid: Grid = code.grid
        self.block: Grid = code.block


class HcqBackend:
    """One raw queue device. Launches and copies are ordered by its timeline."""

    def __init__(self, device: Any) -> None:
        self.device = device
        self.name: str = device.name
        self.arch: str = device.target
        self.renderers: tuple[str, ...] = getattr(device, "renderers", (f"LLVM:{device.target}",))
        self.driver: str = getattr(device, "driver_version", "")
        self.memory_size: int = getattr(device, "memory_bytes", 0)
        self.bus: str = getattr(device, "bus", "")
        self._lock = threading.Lock()
        self._freed: deque[Any] = deque()
        self._stamps: list[Any] = []  # pairs of timestamps that nobody uses now

    def allocate(self, size: int, options: MemoryOptions) -> Buffer:
        """Device memory, or pinned memory of the machine; OutOfMemory, Unsupported."""
        if options.external:
            raise Unsupported(
                f"{self.name} cannot use memory it did not allocate",
                device=self.name,
                facts={"option": "external"},
                hint="copy it in, or use hcq's device.adopt() for whole pages",
            )
        if options.uncached and not options.host:
            raise Unsupported(
                f"{self.name} has no memory with option 'uncached' of its own",
                device=self.name,
                facts={"option": "uncached"},
                hint="uncached memory is the machine's: add host=True",
            )
        # Without a host view copies go through the copy engine, which needs no wait of ours.
        with self._use() as device:
            buffer: Buffer = device.allocate(
                size,
                host=options.host,
                cpu_access=options.cpu_access,
                uncached=options.uncached,
                zero=options.zero,
            )
        return buffer

    def free(self, memory: Buffer) -> None:
        """Give memory back once all work queued so far is over. Safe in a finalizer."""
        self._freed.append(memory)
        self._settle()

    def label(self, memory: Buffer, name: str) -> None:
        """What faults call this memory."""
        memory.name = name

    def host_view(self, memory: Buffer) -> memoryview | None:
        """The memory as bytes where the host can address it."""
        return memory.view() if memory.region is not None else None

    def copy_in(self, memory: Buffer, offset: int, data: memoryview) -> None:
        """Host bytes to the device, after everything queued; data may then change."""
        with self._use() as device:
            device.copy_in(memory, offset, data)

    def copy_out(self, memory: Buffer, offset: int, into: memoryview) -> None:
        """Device bytes to the host, once everything queued is done."""
        self.device.synchronize()
        with self._use() as device:
            device.copy_out(memory, offset, into)

    def transfer(
        self, target: Buffer, target_offset: int, source: Buffer, source_offset: int, size: int
    ) -> None:
        """Copy on the device, like memmove."""
        to, from_ = target.address + target_offset, source.address + source_offset
        if to == from_:
            return
        with self._use() as device:
            device.copy(to, from_, size)

    def load(self, code: Code) -> HcqProgram:
        """Upload a code object; CodeObjectError if it is for something else."""
        if code.target not in self.renderers:
            raise CodeObjectError(
                f"{self.name} cannot run {code.entry!r}",
                device=self.name,
                facts={
                    "found": f"{code.format} for {code.target}",
                    "wanted": " or ".join(self.renderers),
                },
            )
        with self._use() as device:
            return HcqProgram(code, device.load(code.image, code.entry))

    def launch(
        self,
        program: HcqProgram,
        buffers: Sequence[Place],
        scalars: Sequence[int],
        grid: Grid | None = None,
    ) -> None:
        """Queue one run after everything before it."""
        values = [memory.address + offset for memory, offset in buffers]
        values += scalars
        with self._use() as device:
            device.launch(program.raw, values, grid or program.grid, program.block)

    def launch_timed(
        self,
        program: HcqProgram,
        buffers: Sequence[Place],
        scalars: Sequence[int],
        grid: Grid | None = None,
        limit_ms: float | None = None,
    ) -> float:
        """Run and wait; device seconds between the timestamps around the kernel.

        limit_ms: GpuTimeout when the kernel has not finished that long after the
        work before it; the device is then failed.
        """
        values = [memory.address + offset for memory, offset in buffers]
        values += scalars
        grid = grid or program.grid
        raw, block = program.raw, program.block
        if limit_ms is not None:
            self.device.synchronize()  # the limit is on this kernel alone
        with self._use() as device:
            stamps = self._stamps.pop() if self._stamps else _stamps(device)
            start, end = stamps.address + FIRST_STAMP, stamps.address + LAST_STAMP
            arguments = device.arguments(raw, values, grid, block)
            queue = device.queue("compute").timestamp(start)
            queue.launch(raw, arguments, grid, block).barrier().timestamp(end)
            value = device.submit(queue)
        try:
            device.wait(value, None if limit_ms is None else limit_ms / 1000)
        except WaitTimeout as error:
            raise self._ran_too_long(program, limit_ms or 0, error) from None
        seconds = float(device.time(start, end)) / 1e9
        self._stamps.append(stamps)
        return seconds

    def synchronize(self, timeout: float | None = None) -> None:
        """Until all queued work is done; WaitTimeout after `timeout` seconds."""
        self.device.synchronize(timeout)
        self._settle()

    def health(self) -> str:
        """ok, or what helps."""
        return str(self.device.health())

    def close(self) -> None:
        """Close the device; work that makes no progress is not waited for."""
        with Context(HCQ_TIMEOUT_MS=CLOSE_MS):
            try:
                self.device.close()
            except DeviceLost:
                self.device.close()  # it has failed now, so nothing is waited for

    @contextmanager
    def _use(self) -> Iterator[Any]:
        with self._lock:
            while self._freed:
                self.device.free(self._freed.popleft())
            yield self.device
        if self._freed:
            self._settle()

    def _settle(self) -> None:
        while self._freed and self._lock.acquire(blocking=False):
            try:
                while self._freed:
                    self.device.free(self._freed.popleft())
            finally:
                self._lock.release()

    def _ran_too_long(self, program: HcqProgram, limit: float, cause: WaitTimeout) -> GpuTimeout:
        error = GpuTimeout(
            f"{self.name}: kernel {program.name} did not finish within {limit:g} ms",
            device=self.name,
            facts={**cause.facts, "kernel": program.name, "limit_ms": limit},
        )
        error.hint = f"the device is failed now: {self.device.work.remedy(error).advice}"
        self.device.failed = self.device.failed or error
        return error


def _stamps(device: Any) -> Any:
    return device.allocate(STAMP_BYTES, host=True, name="timestamps")
