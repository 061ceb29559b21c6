"""Runs grids: kernels as native code on a few threads, or in the interpreter.

An Executor belongs to one simulated GPU. Blocks are handed out one by one to the calling
thread and, once a launch turns out to be long, to helper threads. Native code returns now
and then, so a kernel that never ends can be stopped.

Source: CUDA "Programming Guide", hardware implementation; NVIDIA open-gpu-doc, the compute
classes' QMD headers.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from sim.isa import state
from sim.isa.executor import BaseExecutor, ExecutionFault
from sim.isa.native import Library, load_library
from sim.isa.native_launch import ACCESS, NativeLaunch
from sim.memory import PageFault
from sim.nv.sass import frame
from sim.nv.sass.convergence import STUCK_LANES
from sim.nv.sass.kernels import Kernel, Kernels, explain
from sim.nv.sass.launch import LaunchRecord, ThreadRecord
from sim.nv.sass.translate import WANTS_PART

BRANCH_REACH = 1 << 16  # bytes behind known code where a table's targets may lie
BRANCH_BANK = 2  # the constant bank that holds compilers' branch tables

KINDS = {
    state.FAULT_MEMORY: "memory", state.FAULT_LDS: "shared", state.FAULT_PRIVATE: "local",
    state.FAULT_MISALIGNED: "misaligned",
}  # fmt: skip


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


class WarpFault(ExecutionFault):
    """A warp did what hardware reports as a fault, or was stopped.

    kind: "memory", "illegal", "misaligned", "shared", "local" or "aborted"; address: the first
    bad byte (shared: the offset; illegal: the instruction); access: "read", "write" or
    "execute"; pc: address of the instruction.
    """


class Executor(BaseExecutor[Launch]):
    """Executes launches of one simulated GPU. run() raises WarpFault."""

    fault = WarpFault
    kernels: Kernels
    wave = "warp"
    launch = "launch"

    def set_up(self) -> None:
        """Make what only this instruction set has."""
        self.kernels = Kernels(self.memory, self.jit)
        self.launch_record = LaunchRecord()  # one launch runs at a time
        self.records = [ThreadRecord(number) for number in range(self.threads)]

    def is_empty(self, launch: Launch) -> bool:
        """Whether there is no thread."""
        return 0 in launch.grid or 0 in launch.block

    def load_library(self, width: int) -> Library:
        """The native library, which refuses what this hardware refuses."""
        return load_library(self.jit, width, strict=True)

    def run_native(self, launch: Launch, stop: Callable[[], bool]) -> None:
        """Run translated code; WarpFault."""
        run = _Run(self, launch, stop)
        if run.is_large:
            self.run_interpreted(launch, stop)
        else:
            run.run()

    def run_interpreted(self, launch: Launch, stop: Callable[[], bool]) -> None:
        """Run in the interpreter; WarpFault."""
        from sim.nv.sass import interpret

        try:
            kernel = self.kernels.at(launch.code, launch.sm)
            check_registers(kernel, launch)
            check_constants(kernel, launch)
            counts = interpret.run_grid(self.memory, launch, self.lanes(launch.block), stop)
        except interpret.BadAccess as bad:
            raise WarpFault(bad.kind, bad.address, bad.access, bad.pc, str(bad)) from None
        except interpret.Stopped as stopped:
            raise WarpFault("aborted", launch.code, "", launch.code, str(stopped)) from None
        self.count(*counts)


def check_registers(kernel: Kernel, launch: Launch) -> None:
    """WarpFault if the code names registers that the launch does not allocate."""
    have, used, code = launch.registers, kernel.register_count, launch.code
    if used > have:
        raise WarpFault(
            "illegal", code, "execute", code,
            f"the kernel at {code:#x} uses R{used - 1}, but the launch allocates {have} "
            "registers",
        )  # fmt: skip


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


class _Run(NativeLaunch[Kernel, ThreadRecord]):
    """One launch while native code runs it."""

    fault = WarpFault

    def __init__(self, executor: Executor, launch: Launch, stop: Callable[[], bool]) -> None:
        self._library, call = executor.library(32)
        super().__init__(executor, launch.code, executor.launch_record, call, stop)
        self._memory = executor.memory
        self._kernels = executor.kernels
        self._records = executor.records
        self._shape = launch
        self._lanes = executor.lanes(launch.block)
        self._kernel = self.find_kernel(lambda: self._kernels.at(launch.code, launch.sm))
        self._shared = executor.launch_record
        self._shared.prepare(launch, self._lanes, max(launch.registers, 1))

    @property
    def is_large(self) -> bool:
        """Whether the code is rather interpreted."""
        return self._kernel.is_large

    def run(self) -> None:
        """Run to the end; WarpFault."""
        check_registers(self._kernel, self._shape)
        check_constants(self._kernel, self._shape)
        self._copy_banks()
        self._translate(self._lanes.kinds)
        self.run_with(self._records)

    def prepare(self, record: ThreadRecord) -> None:
        """Fill a thread's record."""
        record.prepare(self._shape, self._shared, self._memory.table_pointer, self._library)

    def translate_more(self, target: int) -> None:
        """Lanes parted or met for the first time, or went to code not translated yet.

        PageFault, WarpFault.
        """
        if target != WANTS_PART:
            self._memory.check(target, 16, "execute")
            targets = {target - self._shape.code, *self._branch_table()}
            self._kernel = self._kernels.add_targets(self._kernel, targets)
            check_registers(self._kernel, self._shape)
            check_constants(self._kernel, self._shape)
        self._translate(frozenset({True, False}))

    def _copy_banks(self) -> None:
        try:
            self._shared.copy_banks(self._shape, self._memory)
        except PageFault as fault:
            code = self._shape.code
            raise WarpFault("memory", fault.address, "read", code, str(fault)) from None

    def _translate(self, kinds: frozenset[bool]) -> None:
        kernels = self._kernels
        for kind, at in ((True, state.FULL_CODE), (False, state.PART_CODE)):
            known = kind in self._kernel.functions
            if kind in kinds or known:
                self._shared.set(at, kernels.function(self._kernel, full=kind))

    def _branch_table(self) -> set[int]:
        """Likely targets of computed branches: what the compiler's tables hold, all at once."""
        known = self._kernel.program
        jumps = [o for i in self._kernel.instructions if i.name == "BRX" for o in i.sources]
        bases = [o.value for o in jumps if o.kind == "jump"]
        constants = self._shape.constants
        if not bases or len(constants) <= BRANCH_BANK or constants[BRANCH_BANK] is None:
            return set()
        address, size = constants[BRANCH_BANK] or (0, 0)
        data = self._memory.read(address, size & ~3)
        words = memoryview(data).cast("i")
        places = {base + word for word in words for base in bases}
        return {
            place for place in places for low, high in known.ranges()
            if low <= place < high + BRANCH_REACH and place % 16 == 0
        }  # fmt: skip

    def fault_of(self, record: ThreadRecord) -> WarpFault:
        """What the warp met."""
        offset = frame.place_of_fault(record.get(state.FAULT_PC))
        pc, address = self._shape.code + offset, record.get(state.FAULT_ADDRESS)
        kind = record.get(state.FAULT)
        if kind == state.FAULT_ILLEGAL:
            text = f"at {pc:#x}: {explain(self._kernel, offset)}"
            return WarpFault("illegal", pc, "execute", pc, text)
        if kind == state.FAULT_STUCK:
            text = f"at {pc:#x}: {STUCK_LANES}"
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
