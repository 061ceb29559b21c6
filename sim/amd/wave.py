"""Runs dispatches: kernels as native code on a few threads, or in the interpreter.

An Executor belongs to one simulated GPU. Work-groups are handed out one by one to
the calling thread and, once a dispatch turns out to be long, to helper threads.
Native code returns now and then, so a kernel that never ends can be stopped.

Source: AMD "RDNA3" Instruction Set Architecture, chapter 3; LLVM AMDGPUUsage,
"Initial Kernel Execution State".
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
from sim.amd.rdna import interpret
from sim.amd.rdna.kernels import Kernel, Kernels, explain
from sim.amd.rdna.launch import (
    Lanes,
    LaunchRecord,
    ThreadRecord,
    scratch_bytes,
    scratch_threads,
    starting_lanes,
    vector_registers,
)  # fmt: skip
from sim.amd.rdna.mode import launch_denormals
from sim.amd.rdna.semantics import all_semantics
from sim.isa import state
from sim.isa.jit import Jit
from sim.isa.native import Library, load_library
from sim.memory import GpuMemory, PageFault

FIRST_SLICE = 8  # work-groups before the clock is looked at
SLICE_SECONDS = 0.005  # how long native code may run before Python looks at `stop`
LONGEST_SLICE = 1 << 16  # work-groups
POLL_SECONDS = 0.0002  # between looks at `stop` while helpers finish
HELPER_SECONDS = 0.0003  # work left that is worth waking a helper thread

ACCESS = {state.READ: "read", state.WRITE: "write", state.EXECUTE: "execute"}
RUN_TYPE = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_void_p)


@dataclass(frozen=True)
class Dispatch:
    """One grid launch, as the packet processor hands it over.

    code is the address of the first instruction; rsrc1-3 the program resource registers;
    user_data all 16 words; groups and threads per dimension; wave_size 32 or 64; started is the
    tick of the 100 MHz counter.
    """

    code: int
    rsrc1: int
    rsrc2: int
    rsrc3: int
    user_data: tuple[int, ...]
    groups: tuple[int, int, int]
    threads: tuple[int, int, int]
    wave_size: int
    scratch_base: int = 0
    tmpring_size: int = 0
    started: int = 0


class WaveFault(Exception):
    """A wave did what hardware reports as a fault, or was stopped.

    kind: "memory", "illegal" or "aborted"; address: the first bad byte (memory) or the
    instruction (illegal); access: "read", "write" or "execute"; pc: address of the instruction.
    """

    def __init__(self, kind: str, address: int, access: str, pc: int, text: str) -> None:
        super().__init__(text)
        self.kind = kind
        self.address = address
        self.access = access
        self.pc = pc
        self.text = text


def never() -> bool:
    """The stop callback of a dispatch that nobody wants to stop."""
    return False


class Executor:
    """Executes dispatches of one simulated GPU.

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
        self.counters = {"waves": 0, "instructions": 0, "dispatches": 0}
        self._kernels = Kernels(memory, self.jit)
        self._libraries: dict[int, tuple[Library, Any]] = {}
        self._lanes: dict[tuple[tuple[int, int, int], int], Lanes] = {}
        self._launch = LaunchRecord()
        self._records = [ThreadRecord(number) for number in range(max(1, threads))]
        self._pool: ThreadPoolExecutor | None = None
        self._lock = threading.Lock()

    def run(self, dispatch: Dispatch, stop: Callable[[], bool] = never) -> None:
        """Run every work-group; WaveFault when a wave faults or stop() asks to end."""
        with self._lock, self.memory.in_use():
            self.counters["dispatches"] += 1
            if 0 in dispatch.groups or 0 in dispatch.threads:
                return
            if self.interpret:
                self._interpret(dispatch, stop)
            else:
                _Run(self, dispatch, stop).run()

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
        """The record that all threads share: one dispatch runs at a time."""
        return self._launch

    def records(self) -> list[ThreadRecord]:
        """One record per thread; the caller's is the first."""
        return self._records

    def library(self, wave_size: int) -> tuple[Library, Any]:
        """The native library for a wave size, and its `run` as a callable."""
        found = self._libraries.get(wave_size)
        if found is None:
            library = load_library(self.jit, wave_size)
            found = self._libraries[wave_size] = library, RUN_TYPE(library.run)
        return found

    def lanes(self, threads: tuple[int, int, int], wave_size: int) -> Lanes:
        """Initial lane ids, kept since most dispatches share a few shapes."""
        key = (threads, wave_size)
        if key not in self._lanes:
            self._lanes[key] = starting_lanes(threads, wave_size)
        return self._lanes[key]

    def helper(self, work: Callable[[], None]) -> Future[None]:
        """Run work on a helper thread."""
        if self._pool is None:
            self._pool = ThreadPoolExecutor(
                max_workers=len(self._records), thread_name_prefix="sim-wave"
            )
        return self._pool.submit(work)

    # --- the interpreter

    def _interpret(self, dispatch: Dispatch, stop: Callable[[], bool]) -> None:
        x, y, z = dispatch.groups
        size = scratch_bytes(dispatch)
        count = self.lanes(dispatch.threads, dispatch.wave_size).count
        scratch = [dispatch.scratch_base + number * size for number in range(count)]
        try:
            for index in range(x * y * z):
                group = (index % x, index // x % y, index // (x * y))
                waves = interpret.start_group(dispatch, group, scratch)
                for wave in waves:
                    wave.started = dispatch.started
                    wave.denormals = launch_denormals(dispatch.rsrc1)
                    wave.counts["vgpr"] = vector_registers(dispatch)
                self.counters["waves"] += len(waves)
                self.counters["instructions"] += interpret.run_group(self.memory, waves, stop)
        except PageFault as fault:
            raise WaveFault("memory", fault.address, fault.access, _pc(fault), str(fault)) from None
        except interpret.Stopped as stopped:
            raise WaveFault("aborted", dispatch.code, "", _pc(stopped), str(stopped)) from None
        except SimFault as fault:
            raise WaveFault("illegal", _pc(fault), "execute", _pc(fault), str(fault)) from None


def _pc(fault: SimFault) -> int:
    """Where a wave was, as the interpreter noted it."""
    return int(str(fault.facts.get("pc", "0")), 16)


class _Run:
    """One dispatch while native code runs it."""

    def __init__(self, executor: Executor, dispatch: Dispatch, stop: Callable[[], bool]) -> None:
        self._executor = executor
        self._dispatch = dispatch
        self._stop = stop
        self._lanes = executor.lanes(dispatch.threads, dispatch.wave_size)
        self._launch = executor.launch_record()
        self._launch.prepare(dispatch, self._lanes)
        self._library, self._call = executor.library(dispatch.wave_size)
        self._kernel = self._find_kernel()
        self._faulted: list[ThreadRecord] = []
        self._errors: list[WaveFault] = []
        self._retranslate = threading.Lock()

    def run(self) -> None:
        """Run to the end; WaveFault."""
        self._check_registers()
        self._translate()
        every = self._executor.records()
        records = every[: scratch_threads(self._dispatch, self._lanes.count, len(every))]
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
                self._executor.counters["waves"] += record.get(state.WAVE_COUNT)
                self._executor.counters["instructions"] += record.get(state.INSTRUCTIONS)
        if self._errors:
            raise self._errors[0]
        if self._faulted:
            raise self._fault(self._faulted[0])

    # --- before

    def _find_kernel(self) -> Kernel:
        try:
            dispatch = self._dispatch
            denormals = launch_denormals(dispatch.rsrc1)
            return self._executor.kernels().at(dispatch.code, dispatch.wave_size, denormals)
        except PageFault as fault:
            raise WaveFault("memory", fault.address, "execute", fault.address, str(fault)) from None
        except SimFault as fault:
            code = self._dispatch.code
            raise WaveFault("illegal", code, "execute", code, str(fault)) from None

    def _check_registers(self) -> None:
        have, used = vector_registers(self._dispatch), self._kernel.vector_count
        if used > have:
            raise WaveFault(
                "illegal", self._dispatch.code, "execute", self._dispatch.code,
                f"the kernel at {self._dispatch.code:#x} uses v{used - 1}, "
                f"but RSRC1 allocates {have} VGPRs",
            )  # fmt: skip

    def _translate(self) -> None:
        kernels = self._executor.kernels()
        for kind, at in ((True, state.FULL_CODE), (False, state.PART_CODE)):
            if kind in self._lanes.kinds:
                self._launch.set(at, kernels.function(self._kernel, full=kind))

    def _prepare(self, record: ThreadRecord) -> None:
        record.prepare(
            self._dispatch, self._launch, self._executor.memory.table_pointer, self._library
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
        groups = FIRST_SLICE
        while self._step(records[0], groups):
            if self._stop():
                self._abort()
                return
            before, now = now, time.perf_counter()
            if now - before < SLICE_SECONDS:
                groups = min(2 * groups, LONGEST_SLICE)
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

    def _step(self, record: ThreadRecord, groups: int) -> bool:
        """Run native code for a slice; whether there is more to do."""
        record.set(state.SLICE, groups)
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
        code = self._dispatch.code
        self._errors.append(
            WaveFault("aborted", code, "", code, f"the kernel at {code:#x} was stopped")
        )

    def _add_code(self, record: ThreadRecord) -> bool:
        """A computed branch went to code that is not translated yet."""
        target = record.wave_word(state.JUMP)
        with self._retranslate:
            try:
                self._executor.memory.check(target, 4, "execute")
            except PageFault as fault:
                self._errors.append(
                    WaveFault("memory", fault.address, "execute", target, str(fault))
                )
                self._launch.set(state.STOP, 1)
                return False
            self._kernel = self._executor.kernels().add_target(self._kernel, target)
            self._translate()
        return True

    # --- after

    def _fault(self, record: ThreadRecord) -> WaveFault:
        code = self._dispatch.code
        offset = record.get(state.FAULT_PC)
        offset -= (offset & 0x8000_0000) << 1
        pc, address = code + offset, record.get(state.FAULT_ADDRESS)
        if record.get(state.FAULT) == state.FAULT_ILLEGAL:
            return WaveFault("illegal", pc, "execute", pc, self._why(offset, pc))
        access = ACCESS[record.get(state.FAULT_ACCESS)]
        return WaveFault(
            "memory", address, access, pc, f"{access} of {address:#x} by the wave at {pc:#x}"
        )

    def _why(self, offset: int, pc: int) -> str:
        try:
            interpret.fetch(self._executor.memory, pc, self._dispatch.wave_size)
        except SimFault as problem:
            return str(problem)
        return f"at {pc:#x}: {explain(self._kernel, offset)}"
