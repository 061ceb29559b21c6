"""The interpreter: one work-group, one instruction at a time, on numpy lanes.

Slow and plain: it is the oracle that the translator is compared with. Registers and
control flow are here; memory instructions in interpret_memory.py; everything that
computes in the semantics files.

Source: AMD "RDNA3" Instruction Set Architecture, chapters 3 (wave state) and 4 (program flow);
section 3.13 (initial state).
"""

from collections.abc import Callable, Sequence
from typing import Protocol

import numpy as np

from hcq.bits import Layout
from hcq.errors import SimFault
from sim.amd.rdna import mode
from sim.amd.rdna.decode import decode
from sim.amd.rdna.instruction import Instruction
from sim.amd.rdna.interpret_memory import access_memory
from sim.amd.rdna.memory_ops import OPERATIONS
from sim.amd.rdna.operands import execute, is_zero_mask, read_value, read_word
from sim.amd.rdna.relative import SGPR_COUNT
from sim.amd.rdna.semantics import CONTROL, NO_EFFECT
from sim.isa.numpy_value import NumpyValue
from sim.isa.value import BOOL, U32, U64, Type, Value
from sim.memory import GpuMemory, PageFault

LONGEST = 20  # bytes of the longest instruction
STOP_EVERY = 256  # instructions between two looks at the stop callback

# Source: AMD GC 11 register reference, COMPUTE_PGM_RSRC2.
RSRC2 = Layout("COMPUTE_PGM_RSRC2", 32, {
    "lds_size":       (23, 15),
    "tidig_comp_cnt": (12, 11),
    "tg_size_en":     (10, 10),
    "tgid_z_en":      ( 9,  9),
    "tgid_y_en":      ( 8,  8),
    "tgid_x_en":      ( 7,  7),
    "user_sgpr":      ( 5,  1),
    "scratch_en":     ( 0,  0),
})  # fmt: skip
LDS_GRANULE = 512  # bytes


class Stopped(SimFault):
    """The stop callback asked to end a kernel."""


class Launch(Protocol):
    """What starts a work-group: sim.amd.wave.Dispatch meets it."""

    @property
    def code(self) -> int: ...
    @property
    def rsrc2(self) -> int: ...
    @property
    def user_data(self) -> tuple[int, ...]: ...
    @property
    def threads(self) -> tuple[int, int, int]: ...
    @property
    def wave_size(self) -> int: ...


class Wave:
    """Registers of one wave; meets operands.Registers."""

    def __init__(self, width: int, pc: int, lds: bytearray, scratch: int = 0) -> None:
        self.width = width
        self.pc = pc
        self.lds = lds
        self.scratch = scratch  # address of this wave's scratch
        self.vgprs = np.zeros((256, width), dtype=np.uint32)
        self.scalars = {
            kind: np.zeros(count, dtype=np.uint32)
            for kind, count in (("sgpr", 106), ("ttmp", 16), ("vcc", 2), ("exec", 2), ("m0", 1))
        }
        self._scc = False
        self.is_ended = False
        self.at_barrier = False
        self.executed = 0
        self.denormals = mode.KEEP_DENORMALS
        self.started = 0  # tick of the 100 MHz counter
        self.counts = {"vgpr": 256, "sgpr": SGPR_COUNT}  # registers that an index reaches

    @property
    def scc(self) -> Value:
        """Uniform BOOL."""
        return self.constant(BOOL, self._scc)

    def set_scc(self, value: Value) -> None:
        """Replace SCC."""
        self._scc = bool(element(value))

    def exec_mask(self) -> NumpyValue:
        """EXEC as BOOL lanes."""
        low, high = self.scalars["exec"].tolist()
        wide = U32 if self.width == 32 else U64
        return self.constant(wide, low | high << 32).unballot()

    def set_exec(self, lanes: int) -> None:
        """Make the low bits of lanes the active ones."""
        self.scalars["exec"][:] = [lanes & 0xFFFF_FFFF, lanes >> 32]

    def read(self, kind: str, index: int) -> NumpyValue:
        """One dword register."""
        if kind == "vgpr":
            return NumpyValue(U32, self.vgprs[index].copy(), self.width)
        at = 0 if kind == "m0" else index
        return NumpyValue(U32, self.scalars[kind][at : at + 1].copy(), self.width)

    def write(self, kind: str, index: int, value: Value, mask: Value | None) -> None:
        """Write one dword register."""
        if not isinstance(value, NumpyValue):
            raise TypeError("a value of another engine")
        if kind != "vgpr":
            self.scalars[kind][0 if kind == "m0" else index] = value.element()
            return
        lanes = mask.spread() if isinstance(mask, NumpyValue) else slice(None)
        self.vgprs[index][lanes] = value.spread()[lanes]

    def read_at(self, kind: str, number: Value) -> NumpyValue:
        """The register with a uniform number; register 0 beyond the last."""
        index = element(number)
        return self.read(kind, index if index < self.counts[kind] else 0)

    def write_at(self, kind: str, number: Value, value: Value, mask: Value | None) -> None:
        """Write it; nothing beyond the last."""
        index = element(number)
        if index < self.counts[kind]:
            self.write(kind, index, value, mask)

    def constant(self, target: Type, number: float) -> NumpyValue:
        """A uniform value."""
        return NumpyValue.uniform(target, number, self.width)

    def clock(self) -> NumpyValue:
        """The launch's tick and one for each instruction since."""
        return self.constant(U64, self.started + self.executed)


def element(value: Value) -> int:
    """The number in a uniform value."""
    if not isinstance(value, NumpyValue):
        raise TypeError("a value of another engine")
    return int(value.element())


# --- starting a work-group


def start_group(
    launch: Launch, group: tuple[int, int, int], scratch: Sequence[int] = ()
) -> list[Wave]:
    """The waves of one work-group in their initial state.

    scratch holds the address of each wave's scratch slot, if the kernel has any.
    """
    fields = RSRC2.unpack(launch.rsrc2)
    lds = bytearray(fields["lds_size"] * LDS_GRANULE)
    x, y, z = launch.threads
    total, width = x * y * z, launch.wave_size
    waves = []
    for number, first in enumerate(range(0, total, width)):
        wave = Wave(width, launch.code, lds, scratch[number] if scratch else 0)
        thread = np.arange(first, first + width)
        packed = thread % x | (thread // x % y) << 10 | (thread // (x * y)) << 20
        wave.vgprs[0] = packed.astype(np.uint32)
        wave.set_exec((1 << min(width, total - first)) - 1)
        _fill_scalars(wave, launch, group, fields)
        waves.append(wave)
    return waves


def _fill_scalars(
    wave: Wave, launch: Launch, group: tuple[int, int, int], fields: dict[str, int]
) -> None:
    at = fields["user_sgpr"]
    values = list(launch.user_data[:at]) + [0] * (at - len(launch.user_data))
    for axis, name in enumerate(("tgid_x_en", "tgid_y_en", "tgid_z_en")):
        if fields[name]:
            values.append(group[axis])
    wave.scalars["sgpr"][: len(values)] = values


def run_group(
    memory: GpuMemory,
    waves: Sequence[Wave],
    stop: Callable[[], bool] = lambda: False,
    code: dict[int, Instruction] | None = None,
) -> int:
    """Run a work-group to its end; the number of instructions executed.

    code keeps decoded instructions by address; groups of one dispatch may share it.
    PageFault and SimFault name what a wave did wrong, with the instruction's address as the
    fact `pc`; Stopped when stop() said so.
    """
    code = {} if code is None else code
    while not all(wave.is_ended for wave in waves):
        for wave in waves:
            while not (wave.is_ended or wave.at_barrier):
                if wave.executed % STOP_EVERY == 0 and stop():
                    raise Stopped(f"stopped at {wave.pc:#x}")
                _step_or_name(memory, wave, code)
        # Waves that ended do not take part in the barrier any more.
        for wave in waves:
            wave.at_barrier = False
    return sum(wave.executed for wave in waves)


def _step_or_name(memory: GpuMemory, wave: Wave, code: dict[int, Instruction]) -> None:
    pc = wave.pc
    try:
        step(memory, wave, code)
    except SimFault as fault:
        fault.facts.setdefault("pc", hex(pc))
        raise


def step(memory: GpuMemory, wave: Wave, code: dict[int, Instruction]) -> None:
    """Execute the instruction at the wave's program counter."""
    instruction = code.get(wave.pc)
    if instruction is None:
        instruction = code[wave.pc] = fetch(memory, wave.pc, wave.width)
    wave.executed += 1
    wave.pc += instruction.size
    name = instruction.name
    if name in NO_EFFECT:
        return
    if name in CONTROL:
        _control(instruction, wave)
    elif name in OPERATIONS:
        access_memory(instruction, OPERATIONS[name], wave, memory)
    elif name == mode.SET_REGISTER:
        if not element(mode.keeps(instruction, wave, read_word(wave, instruction.sources[0]))):
            raise mode.refused_change(instruction)
    elif name in mode.CHANGES:
        mode.change(instruction, wave)
    else:
        execute(instruction, wave)


def fetch(memory: GpuMemory, address: int, wave_size: int) -> Instruction:
    """Decode the instruction at a GPU address; PageFault if it is not executable."""
    memory.check(address, 4, "execute")
    size = LONGEST
    while size > 4 and not _is_executable(memory, address, size):
        size -= 4
    return decode(memory.read(address, size), 0, address, wave_size=wave_size)


def _is_executable(memory: GpuMemory, address: int, size: int) -> bool:
    try:
        memory.check(address, size, "execute")
    except PageFault:
        return False
    return True


def _control(instruction: Instruction, wave: Wave) -> None:
    name = instruction.name
    if name == "s_endpgm":
        wave.is_ended = True
    elif name == "s_barrier":
        wave.at_barrier = True
    elif name == "s_branch":
        wave.pc = instruction.target
    elif name in CONDITIONS:
        if CONDITIONS[name](wave):
            wave.pc = instruction.target
    else:
        _jump(instruction, wave)


def _jump(instruction: Instruction, wave: Wave) -> None:
    after = wave.pc
    if instruction.name == "s_call_b64":
        wave.pc = instruction.target
    elif instruction.name != "s_getpc_b64":
        wave.pc = element(read_value(wave, instruction.sources[0], U64))
    if instruction.destinations:
        low = instruction.destinations[0]
        wave.write(low.kind, low.index, wave.constant(U32, after), None)
        wave.write(low.kind, low.index + 1, wave.constant(U32, after >> 32), None)


CONDITIONS: dict[str, Callable[[Wave], bool]] = {
    "s_cbranch_scc0": lambda wave: not element(wave.scc),
    "s_cbranch_scc1": lambda wave: bool(element(wave.scc)),
    "s_cbranch_vccz": lambda wave: bool(element(is_zero_mask(wave, "vcc"))),
    "s_cbranch_vccnz": lambda wave: not element(is_zero_mask(wave, "vcc")),
    "s_cbranch_execz": lambda wave: bool(element(is_zero_mask(wave, "exec"))),
    "s_cbranch_execnz": lambda wave: not element(is_zero_mask(wave, "exec")),
}
