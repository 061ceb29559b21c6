"""Runs grids: kernels as native code on a few threads, or in the interpreter.

An Executor belongs to one simulated GPU. Blocks are handed out one by one to the calling
thread and, once a launch turns out to be long, to helper threads. Native code returns now
and then, so a kernel that never ends can be stopped.

Source: CUDA "Programming Guide", hardware implementation; NVIDIA open-gpu-doc, the compute
classes' QMD headers.
"""

from __future__ import annotations

import ctypes
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from typing import Any

from hcq.errors import SimFault
from sim.isa import state
from sim.isa.jit import Jit
from sim.isa.native import Library, load_library
from sim.memory import GpuMemory, PageFault
from sim.nv.sass import frame
from sim.nv.sass.kernels import Kernel, Kernels, explain
from sim.nv.sass.launch import Lanes, LaunchRecord, ThreadRecord, starting_lanes
from sim.nv.sass.semantics import all_semantics
from sim.nv.sass.translate import WANTS_PART

FIRST_SLICE = 8  # blocks before the clock is looked at
SLICE_SECONDS = 0.005  # how long native code may run before Python looks at `stop`
LONGEST_SLICE = 1 << 16  # blocks
POLL_SECONDS = 0.0002  # between looks at `stop` while helpers finish
HELPER_SECONDS = 0.0003  # work left that is worth waking a helper thread
BRANCH_REACH = 1 << 16  # bytes behind known code where a table's targets may lie
BRANCH_BANK = 2  # the constant bank that holds compilers' branch tables

ACCESS = {state.READ: "read", state.WRITE: "write", state.EXECUTE: "execute"}
KINDS = {
    state.FAULT_MEMORY: "memory", state.FAULT_LDS: "shared", state.FAULT_PRIVATE: "local",
    state.FAULT_MISALIGNED: "misaligned",
}  # fmt: skip
RUN_TYPE = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_void_p)


@dataclass(frozen=True)
class Launch:
    """One grid, as the compute engine hands it over.

    code is the address of the first instruction; registers what the launch allocates for each
    thread; local_bytes is for each thread; constants holds (address, bytes) of each bank, None
    where none is bound; the windows are the generic addresses of shared and local memory.
    """

    code: int
    registers: int
    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    shared_bytes: int
    local_bytes: int
    local_base: int
    barriers: int
    constants: tuple[tuple[int, int] | None, ...]
    shared_window: int
    local_window: int
    sm: str


class WarpFault(Exception):
    """A warp did what hardware reports as a fault, or was stopped.

    kind: "memory", "illegal", "misaligned", "shared", "local" or "aborted"; address: the first
    bad byte (shared: the offset; illegal: the instruction); access: "read", "write" or
    "execute"; pc: address of the instruction.
    """

    def __init__(self, kind: str, address: int, access: str, pc: int, text: str) -> None:
        super().__init__(text)
        self.kind = kind
        self.address = address
        self.access = access
        self.pc = pc
        self.text = text


def never() -> bool:
    """The stop callback of a launch that nobody wants to stop."""
    return False


class Executor:
    """Executes launches of one simulated GPU.

    threads: host threads, the caller's included. interpret: the numpy interpreter instead of
    native code. cache_directory: where translated kernels are kept between processes.
    """

    def __init__(
        self,
        memory: GpuMemory,
        *,
        threads: int = 2,
        interpret: bool = False,
        cache_directory: str | None = None,
    ) -> None:
        self.memory = memory
        self.interpret = interpret
        self.jit = Jit(cache_directory)
        all_semantics()  # now: a launch may come while the process ends and imports fail
        self.counters = {"warps": 0, "instructions": 0, "launches": 0}
        self._kernels = Kernels(memory, self.jit)
        self._library: tuple[Library, Any] | None = None
        self._lanes: dict[tuple[int, int, int], Lanes] = {}
        self._launch = LaunchRecord()
        self._records = [ThreadRecord(number) for number in range(max(1, threads))]
        self._pool: ThreadPoolExecutor | None = None
        self._lock = threading.Lock()

    def run(self, launch: Launch, stop: Callable[[], bool] = never) -> None:
        """Run every block; WarpFault when a warp faults or stop() asks to end."""
        with self._lock, self.memory.in_use():
            self.counters["launches"] += 1
            if 0 in launch.grid or 0 in launch.block:
                return
            if self.interpret:
                self._interpret(launch, stop)
            else:
                _Run(self, launch, stop).run()

    def close(self) -> None:
        """Let the helper threads go."""
        if self._pool is not None:
            self._pool.shutdown()
            self._pool = None

    # --- shared with _Run

    def kernels(self) -> Kernels:
        """The translated kernels."""
        return self._kernels

    def launch_record(self) -> LaunchRecord:
        """The record that all threads share: one launch runs at a time."""
        return self._launch

    def records(self) -> list[ThreadRecord]:
        """One record per thread; the caller's is the first."""
        return self._records

    def library(self) -> tuple[Library, Any]:
        """The native library, and its `run` as a callable."""
        if self._library is None:
            library = load_library(self.jit, 32, strict=True)
            self._library = library, RUN_TYPE(library.run)
        return self._library

    def lanes(self, block: tuple[int, int, int]) -> Lanes:
        """Initial thread numbers, kept since most launches share a few shapes."""
        if block not in self._lanes:
            self._lanes[block] = starting_lanes(block)
        return self._lanes[block]

    def helper(self, work: Callable[[], None]) -> Future[None]:
        """Run work on a helper thread."""
        if self._pool is None:
            self._pool = ThreadPoolExecutor(
                max_workers=len(self._records), thread_name_prefix="sim-warp"
            )
        return self._pool.submit(work)

    def _interpret(self, launch: Launch, stop: Callable[[], bool]) -> None:
        from sim.nv.sass import interpret

        try:
            kernel = self._kernels.at(launch.code, launch.sm)
            check_constants(kernel, launch)
            counts = interpret.run_grid(self.memory, launch, self.lanes(launch.block), stop)
        except interpret.BadAccess as bad:
            raise WarpFault(bad.kind, bad.address, bad.access, bad.pc, str(bad)) from None
        except interpret.Stopped as stopped:
            raise WarpFault("aborted", launch.code, "", launch.code, str(stopped)) from None
        self.counters["warps"] += counts[0]
        self.counters["instructions"] += counts[1]


def check_constants(kernel: Kernel, launch: Launch) -> None:
    """WarpFault if the code reads beyond a constant bank of the launch."""
    for number, (end, at) in kernel.constant_ends.items():
        bank = launch.constants[number] if number < len(launch.constants) else None
        address, size = bank or (0, 0)
        if end > size:
            pc = launch.code + at
            raise WarpFault(
                "memory", address + size, "read", pc,
                f"the instruction at {pc:#x} reads byte {end - 1:#x} of constant bank {number}, "
                f"which has {size:#x}",
            )  # fmt: skip


class _Run:
    """One launch while native code runs it."""

    def __init__(self, executor: Executor, launch: Launch, stop: Callable[[], bool]) -> None:
        self._executor = executor
        self._shape = launch
        self._stop = stop
        self._lanes = executor.lanes(launch.block)
        self._launch = executor.launch_record()
        self._library, self._call = executor.library()
        self._kernel = self._find_kernel()
        self._launch.prepare(launch, self._lanes, max(launch.registers, 1))
        self._faulted: list[ThreadRecord] = []
        self._errors: list[WarpFault] = []
        self._retranslate = threading.Lock()

    def run(self) -> None:
        """Run to the end; WarpFault."""
        self._check_registers()
        check_constants(self._kernel, self._shape)
        self._copy_banks()
        self._translate(self._lanes.kinds)
        records = self._executor.records()
        helpers: list[Future[None]] = []
        used = [records[0]]
        self._prepare(records[0])
        try:
            self._caller(records, used, helpers)
        finally:
            if not self._is_done:
                self._launch.set(state.STOP, 1)
            for helper in helpers:
                helper.result()
            for record in used:
                self._executor.counters["warps"] += record.get(state.WAVE_COUNT)
                self._executor.counters["instructions"] += record.get(state.INSTRUCTIONS)
        if self._errors:
            raise self._errors[0]
        if self._faulted:
            raise self._fault(self._faulted[0])

    # --- before

    def _find_kernel(self) -> Kernel:
        launch = self._shape
        try:
            return self._executor.kernels().at(launch.code, launch.sm)
        except PageFault as fault:
            raise WarpFault(
                "memory", fault.address, "execute", fault.address, str(fault)
            ) from None
        except SimFault as fault:
            code = launch.code
            raise WarpFault("illegal", code, "execute", code, str(fault)) from None

    def _check_registers(self) -> None:
        have, used, code = self._shape.registers, self._kernel.register_count, self._shape.code
        if used > have:
            raise WarpFault(
                "illegal", code, "execute", code,
                f"the kernel at {code:#x} uses R{used - 1}, but the launch allocates {have} "
                "registers",
            )  # fmt: skip

    def _copy_banks(self) -> None:
        try:
            self._launch.copy_banks(self._shape, self._executor.memory)
        except PageFault as fault:
            code = self._shape.code
            raise WarpFault("memory", fault.address, "read", code, str(fault)) from None

    def _translate(self, kinds: frozenset[bool]) -> None:
        kernels = self._executor.kernels()
        for kind, at in ((True, state.FULL_CODE), (False, state.PART_CODE)):
            known = kind in self._kernel.functions
            if kind in kinds or known:
                self._launch.set(at, kernels.function(self._kernel, full=kind))

    def _prepare(self, record: ThreadRecord) -> None:
        record.prepare(
            self._shape, self._launch, self._executor.memory.table_pointer, self._library
        )

    # --- while it runs

    @property
    def _is_done(self) -> bool:
        done = self._launch.get(state.NEXT_GROUP) >= self._launch.total
        return done and not self._faulted and not self._errors

    def _caller(
        self, records: list[ThreadRecord], used: list[ThreadRecord], helpers: list[Future[None]]
    ) -> None:
        """The calling thread's part: it also asks `stop` and wakes helpers."""
        started = now = time.perf_counter()
        blocks = FIRST_SLICE
        while self._step(records[0], blocks):
            if self._stop():
                self._abort()
                return
            before, now = now, time.perf_counter()
            if now - before < SLICE_SECONDS:
                blocks = min(2 * blocks, LONGEST_SLICE)
            taken = max(1, min(self._launch.get(state.NEXT_GROUP), self._launch.total))
            left = (self._launch.total - taken) * (now - started) / taken
            while left > HELPER_SECONDS and len(used) < len(records):
                record = records[len(used)]
                self._prepare(record)
                used.append(record)
                helpers.append(self._executor.helper(partial(self._helper, record)))
        while not all(helper.done() for helper in helpers):
            if self._stop():
                self._abort()
                return
            time.sleep(POLL_SECONDS)

    def _helper(self, record: ThreadRecord) -> None:
        while self._step(record, 1 << 30):
            pass

    def _step(self, record: ThreadRecord, blocks: int) -> bool:
        """Run native code for a slice; whether there is more to do."""
        record.set(state.SLICE, blocks)
        result = self._call(record.address)
        if result == state.SLICED:
            return True
        if result == state.WANTS_CODE:
            return self._add_code(record)
        if result == state.FAULTED:
            self._faulted.append(record)
            self._launch.set(state.STOP, 1)
        return False

    def _abort(self) -> None:
        self._launch.set(state.STOP, 1)
        code = self._shape.code
        self._errors.append(
            WarpFault("aborted", code, "", code, f"the kernel at {code:#x} was stopped")
        )

    def _add_code(self, record: ThreadRecord) -> bool:
        """Lanes parted or met for the first time, or went to code that is not translated yet."""
        target = record.warp_word(state.JUMP)
        with self._retranslate:
            if target != WANTS_PART:
                try:
                    self._executor.memory.check(target, 16, "execute")
                except PageFault as fault:
                    self._errors.append(
                        WarpFault("memory", fault.address, "execute", target, str(fault))
                    )
                    self._launch.set(state.STOP, 1)
                    return False
                targets = {target - self._shape.code, *self._branch_table()}
                self._kernel = self._executor.kernels().add_targets(self._kernel, targets)
            self._translate(frozenset({True, False}))
        return True

    def _branch_table(self) -> set[int]:
        """Likely targets of computed branches: what the compiler's tables hold, all at once."""
        known = self._kernel.program
        jumps = [o for i in self._kernel.instructions if i.name == "BRX" for o in i.sources]
        bases = [o.value for o in jumps if o.kind == "jump"]
        constants = self._shape.constants
        if not bases or len(constants) <= BRANCH_BANK or constants[BRANCH_BANK] is None:
            return set()
        address, size = constants[BRANCH_BANK] or (0, 0)
        data = self._executor.memory.read(address, size & ~3)
        words = memoryview(data).cast("i")
        places = {base + word for word in words for base in bases}
        return {
            place for place in places for low, high in known.ranges()
            if low <= place < high + BRANCH_REACH and place % 16 == 0
        }  # fmt: skip

    # --- after

    def _fault(self, record: ThreadRecord) -> WarpFault:
        offset = frame.place_of_fault(record.get(state.FAULT_PC))
        pc, address = self._shape.code + offset, record.get(state.FAULT_ADDRESS)
        kind = record.get(state.FAULT)
        if kind == state.FAULT_ILLEGAL:
            text = f"at {pc:#x}: {explain(self._kernel, offset)}"
            return WarpFault("illegal", pc, "execute", pc, text)
        access = ACCESS[record.get(state.FAULT_ACCESS)]
        name = KINDS[kind]
        if name == "misaligned":
            address = record.in_shared(address)
        what = {
            "shared": f"shared memory byte {address:#x}", "local": f"local byte {address:#x}",
            "misaligned": f"misaligned {address:#x}", "memory": f"{address:#x}",
        }[name]  # fmt: skip
        return WarpFault(name, address, access, pc, f"{access} of {what} by the warp at {pc:#x}")
