"""Runs dispatches: kernels as native code on a few threads, or in the interpreter.

An Executor belongs to one simulated GPU. Work-groups are handed out one by one to
the calling thread and, once a dispatch turns out to be long, to helper threads.
Native code returns now and then, so a kernel that never ends can be stopped.

Source: AMD "RDNA3" Instruction Set Architecture, chapter 3; LLVM AMDGPUUsage,
"Initial Kernel Execution State".
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from hcq.errors import SimFault
from sim.amd.rdna import interpret
from sim.amd.rdna.kernels import Kernel, Kernels, explain
from sim.amd.rdna.launch import (
    LaunchRecord,
    ThreadRecord,
    scratch_bytes,
    scratch_threads,
    vector_registers,
)  # fmt: skip
from sim.amd.rdna.mode import launch_denormals
from sim.isa import state
from sim.isa.executor import BaseExecutor, ExecutionFault
from sim.isa.native import Library, load_library
from sim.isa.native_launch import ACCESS, NativeLaunch
from sim.memory import PageFault


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


class WaveFault(ExecutionFault):
    """A wave did what hardware reports as a fault, or was stopped.

    kind: "memory", "illegal" or "aborted"; address: the first bad byte (memory) or the
    instruction (illegal); access: "read", "write" or "execute"; pc: address of the instruction.
    """


class Executor(BaseExecutor[Dispatch]):
    """Executes dispatches of one simulated GPU. run() raises WaveFault."""

    fault = WaveFault
    kernels: Kernels
    wave = "wave"
    launch = "dispatch"

    def set_up(self) -> None:
        """Make what only this instruction set has."""
        self.kernels = Kernels(self.memory, self.jit)
        self.launch_record = LaunchRecord()  # one dispatch runs at a time
        self.records = [ThreadRecord(number) for number in range(self.threads)]

    def is_empty(self, launch: Dispatch) -> bool:
        """Whether there is no work-item."""
        return 0 in launch.groups or 0 in launch.threads

    def load_library(self, width: int) -> Library:
        """The native library for a wave size."""
        return load_library(self.jit, width)

    def run_native(self, launch: Dispatch, stop: Callable[[], bool]) -> None:
        """Run translated code; WaveFault."""
        run = _Run(self, launch, stop)
        if run.is_large:
            self.run_interpreted(launch, stop)
        else:
            run.run()

    def run_interpreted(self, launch: Dispatch, stop: Callable[[], bool]) -> None:
        """Run in the interpreter, one work-group after the other; WaveFault."""
        dispatch = launch
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
                self.count(len(waves), 0)
                self.count(0, interpret.run_group(self.memory, waves, stop))
        except PageFault as fault:
            raise WaveFault("memory", fault.address, fault.access, _pc(fault), str(fault)) from None
        except interpret.Stopped as stopped:
            raise WaveFault("aborted", dispatch.code, "", _pc(stopped), str(stopped)) from None
        except SimFault as fault:
            raise WaveFault("illegal", _pc(fault), "execute", _pc(fault), str(fault)) from None


def _pc(fault: SimFault) -> int:
    """Where a wave was, as the interpreter noted it."""
    return int(str(fault.facts.get("pc", "0")), 16)


class _Run(NativeLaunch[Kernel, ThreadRecord]):
    """One dispatch while native code runs it."""

    fault = WaveFault

    def __init__(self, executor: Executor, dispatch: Dispatch, stop: Callable[[], bool]) -> None:
        self._library, call = executor.library(dispatch.wave_size)
        super().__init__(executor, dispatch.code, executor.launch_record, call, stop)
        self._memory = executor.memory
        self._kernels = executor.kernels
        self._records = executor.records
        self._dispatch = dispatch
        self._lanes = executor.lanes(dispatch.threads, dispatch.wave_size)
        self._shared = executor.launch_record
        self._shared.prepare(dispatch, self._lanes)
        self._kernel = self.find_kernel(self._translated)

    def _translated(self) -> Kernel:
        dispatch = self._dispatch
        denormals = launch_denormals(dispatch.rsrc1)
        return self._kernels.at(dispatch.code, dispatch.wave_size, denormals)

    @property
    def is_large(self) -> bool:
        """Whether the code is rather interpreted."""
        return self._kernel.is_large

    def run(self) -> None:
        """Run to the end; WaveFault."""
        self._check_registers()
        self._translate()
        most = scratch_threads(self._dispatch, self._lanes.count, len(self._records))
        self.run_with(self._records[:most])

    def prepare(self, record: ThreadRecord) -> None:
        """Fill a thread's record."""
        record.prepare(self._dispatch, self._shared, self._memory.table_pointer, self._library)

    def translate_more(self, target: int) -> None:
        """A computed branch went to code that is not translated yet. PageFault, WaveFault."""
        self._memory.check(target, 4, "execute")
        self._kernel = self._kernels.add_targets(self._kernel, {target - self._dispatch.code})
        self._check_registers()
        self._translate()

    def fault_of(self, record: ThreadRecord) -> WaveFault:
        """What the wave met."""
        offset = record.get(state.FAULT_PC)
        offset -= (offset & 0x8000_0000) << 1
        pc, address = self._dispatch.code + offset, record.get(state.FAULT_ADDRESS)
        if record.get(state.FAULT) == state.FAULT_ILLEGAL:
            return WaveFault("illegal", pc, "execute", pc, self._why(offset, pc))
        access = ACCESS[record.get(state.FAULT_ACCESS)]
        return WaveFault(
            "memory", address, access, pc, f"{access} of {address:#x} by the wave at {pc:#x}"
        )

    def _why(self, offset: int, pc: int) -> str:
        try:
            interpret.fetch(self._memory, pc, self._dispatch.wave_size)
        except SimFault as problem:
            return str(problem)
        return f"at {pc:#x}: {explain(self._kernel, offset)}"

    def _check_registers(self) -> None:
        have, used = vector_registers(self._dispatch), self._kernel.vector_count
        if used > have:
            raise WaveFault(
                "illegal", self._dispatch.code, "execute", self._dispatch.code,
                f"the kernel at {self._dispatch.code:#x} uses v{used - 1}, "
                f"but RSRC1 allocates {have} VGPRs",
            )  # fmt: skip

    def _translate(self) -> None:
        for kind, at in ((True, state.FULL_CODE), (False, state.PART_CODE)):
            if kind in self._lanes.kinds:
                self._shared.set(at, self._kernels.function(self._kernel, full=kind))
