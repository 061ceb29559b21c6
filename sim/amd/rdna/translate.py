"""A kernel's machine code -> one native function over vectors of lanes.

The function is `i32 f(thread, wave)`: it goes to the block where the wave
stopped, runs until the wave ends, waits or yields, and returns a wave status.
Registers live in the wave record between blocks (emit_registers.py), so nothing
has to be saved at a barrier and a wave can be resumed at any entry.
"""

from __future__ import annotations

from hcq.errors import SimFault
from sim.amd.rdna import mode
from sim.amd.rdna.cfg import Block, Program, exec_codes, mark_full, step_full
from sim.amd.rdna.emit_batch import batch_at, emit_batch
from sim.amd.rdna.emit_memory import MemoryEmitter
from sim.amd.rdna.emit_registers import EmitRegisters
from sim.amd.rdna.instruction import Instruction
from sim.amd.rdna.memory_ops import is_memory
from sim.amd.rdna.operands import execute, is_zero_mask, read_word
from sim.amd.rdna.semantics import NO_EFFECT
from sim.isa import state
from sim.isa.emitter import Emitter
from sim.isa.liveness import Written
from sim.isa.llvm_value import LlvmValue, own
from sim.isa.translator import BaseTranslator, ask_for, cases, label_of
from sim.isa.value import U32, Value

LEAST_MASKED = 4  # vector results that make a second version of a block worth its translation
EVERYTHING = set(range(256 + 256))


class Translator(BaseTranslator):
    """Writes one function for a program.

    `full`: for waves that start with every lane active.
    """

    def __init__(self, program: Program, wave_size: int, *, full: bool) -> None:
        super().__init__(Emitter(wave_size))
        self.program = program
        self.width = wave_size
        self.is_full = full
        self.label = ""  # of the block being written
        if full:
            mark_full(program, wave_size)
        else:
            for block in program.blocks.values():
                block.full = frozenset()

    def text(self, name: str) -> str:
        """The module, with the function called `name`."""
        written = [w for block in self.program.blocks.values() for w in self._versions(block)]
        starts = cases(self.program.entries & set(self.program.blocks))
        entry = f"""  switch i32 %resume, label %unknown [ {starts} ]
unknown:
{ask_for("%resume")}"""
        return self.module(name, entry, written, EVERYTHING)

    # --- one block

    def _versions(self, block: Block) -> list[Written]:
        """The block; where lanes are only likely to be all active, once with that known."""
        if not self.is_full or not _wants_two(block, self.width):
            return [self._block(block, label_of(block.start), block.full)]
        emitter, label = self.emitter, label_of(block.start)
        emitter.label(label)
        check = EmitRegisters(emitter, block.full)
        everybody = emitter.pure(f"icmp eq i{self.width} {check.exec_bits()}, -1")
        emitter.line(f"br i1 {everybody}, label %all_{label}, label %some_{label}")
        full = block.full | exec_codes(self.width)
        versions = [
            self._block(block, f"all_{label}", full),
            self._block(block, f"some_{label}", block.full),
        ]
        versions[0].registers.uses |= check.uses
        return versions

    def _block(self, block: Block, label: str, full: frozenset[int]) -> Written:
        emitter = self.emitter
        registers = EmitRegisters(emitter, full)
        memory = MemoryEmitter(emitter, registers, self.extras.__setitem__)
        self.label = label
        emitter.label(label)
        count_at = self.begin_count()
        done = 0
        try:
            if block.denormals is None:
                raise SimFault("two denormal modes meet here, which is not simulated")
            registers.denormals = block.denormals
            while done < len(block.instructions):
                batch = batch_at(block.instructions, done)
                if batch:
                    emit_batch(memory, batch)
                else:
                    self._instruction(block.instructions[done], registers, memory)
                done += max(len(batch), 1)
        except SimFault as problem:
            at = block.instructions[done].address if block.instructions else block.start
            self._fault(at, problem)
        else:
            if block.problem is not None:
                self._fault(block.end, block.problem)
            elif not _transfers(block):
                emitter.line(f"br label %{label_of(block.successors[0])}")
        self.count(count_at, done)
        anywhere = block.last in ("s_setpc_b64", "s_swappc_b64")
        return Written(block.start, None if anywhere else block.successors, registers)

    def _instruction(
        self, instruction: Instruction, registers: EmitRegisters, memory: MemoryEmitter
    ) -> None:
        name = instruction.name
        if name in NO_EFFECT:
            return
        if name in mode.CHANGES:
            mode.change(instruction, registers)
        elif name == mode.SET_REGISTER:
            self._set_mode(instruction, registers)
        elif name in CONTROL_EMITTERS:
            CONTROL_EMITTERS[name](self, instruction, registers)
        elif is_memory(name):
            memory.emit(instruction)
            step_full(instruction, registers.full)
        else:
            before = set(registers.full)
            step_full(instruction, before)
            # What becomes full is read as all ones only after the instruction.
            execute(instruction, registers)
            registers.full = before

    def _set_mode(self, instruction: Instruction, registers: EmitRegisters) -> None:
        """The wave goes on if MODE stays as it is, else it faults."""
        emitter = self.emitter
        same = own(mode.keeps(instruction, registers, read_word(registers, instruction.sources[0])))
        place = f"{self.label}_{instruction.address & 0xFFFFFFFF:x}"
        emitter.line(f"br i1 {same.text}, label %kept_{place}, label %changed_{place}")
        emitter.label(f"changed_{place}", follows=True)
        self._fault(instruction.address, mode.refused_change(instruction))
        emitter.label(f"kept_{place}")

    def _fault(self, offset: int, problem: SimFault) -> None:
        self.fault_at(offset, problem, offset & 0xFFFFFFFF)

    # --- control

    def go(self, source: Instruction, target: int) -> str:
        """The label that leads to target; over a backward branch the wave may yield."""
        if target > source.address:
            return label_of(target)
        return f"back_{self.label}"

    def backward(self, source: Instruction, target: int) -> None:
        """The code behind a `back_` label."""
        if target > source.address:
            return
        emitter = self.emitter
        emitter.label(f"back_{self.label}")
        out = emitter.effect(f"icmp sle i64 {self.spend()}, 0")
        label = f"yield_{self.label}"
        emitter.line(f"br i1 {out}, label %{label}, label %{label_of(target)}")
        emitter.label(label)
        self.leave(target, state.RUN)

    def computed(self, target: str) -> None:
        """Go to an i64 address: a block that is translated, or back to Python for a new one."""
        emitter = self.emitter
        entry = emitter.effect("load i64, ptr %codep")
        distance = emitter.effect(f"sub i64 {target}, {entry}")
        offset = emitter.effect(f"trunc i64 {distance} to i32")
        stay = self.is_spent()
        self.leave(offset, state.RUN)
        emitter.label(stay, follows=True)
        unknown = f"unknown_{distance[1:]}"
        starts = cases(self.program.blocks, 64)
        emitter.line(f"switch i64 {distance}, label %{unknown} [ {starts} ]")
        emitter.label(unknown)
        emitter.line(f"store i64 {target}, ptr %jumpp")
        emitter.line(f"store i32 {offset}, ptr %resumep")
        emitter.line(f"ret i32 {state.JUMPED}")

    def absolute_value(self, offset: int) -> LlvmValue:
        """The low and high word of a code address come from this i64."""
        return LlvmValue(self.emitter, U32, self.absolute(offset), False)


# --- control instructions


def _branch(t: Translator, i: Instruction, _: EmitRegisters) -> None:
    t.emitter.line(f"br label %{t.go(i, i.target)}")
    t.backward(i, i.target)


def _conditional(t: Translator, i: Instruction, registers: EmitRegisters) -> None:
    what = i.name.removeprefix("s_cbranch_")
    condition: Value
    if what.startswith("scc"):
        condition = registers.scc
        taken = what == "scc1"
    else:
        condition = is_zero_mask(registers, "vcc" if what.startswith("vcc") else "exec")
        taken = what.endswith("z") and not what.endswith("nz")
    assert isinstance(condition, LlvmValue)
    yes, no = t.go(i, i.target), label_of(i.address + i.size)
    if not taken:
        yes, no = no, yes
    t.emitter.line(f"br i1 {condition.text}, label %{yes}, label %{no}")
    t.backward(i, i.target)


def _end(t: Translator, _: Instruction, __: EmitRegisters) -> None:
    t.emitter.line(f"ret i32 {state.ENDED}")


def _barrier(t: Translator, i: Instruction, _: EmitRegisters) -> None:
    t.leave(i.address + i.size, state.BARRIER)


def _write_pc(t: Translator, i: Instruction, registers: EmitRegisters) -> None:
    """The address of the next instruction into a register pair."""
    whole = t.absolute_value(i.address + i.size).text
    emitter = t.emitter
    low = emitter.pure(f"trunc i64 {whole} to i32")
    top = emitter.pure(f"lshr i64 {whole}, 32")
    high = emitter.pure(f"trunc i64 {top} to i32")
    destination = i.destinations[0]
    if destination.kind == "null":
        return
    for part, text in enumerate((low, high)):
        value = LlvmValue(emitter, U32, text, False)
        registers.write(destination.kind, destination.index + part, value, None)
    step_full(i, registers.full)


def _read_target(i: Instruction, registers: EmitRegisters) -> str:
    source = i.sources[0]
    words = [registers.read(source.kind, source.index + part).text for part in (0, 1)]
    return registers.pair(*words)


def _set_pc(t: Translator, i: Instruction, registers: EmitRegisters) -> None:
    t.computed(_read_target(i, registers))


def _swap_pc(t: Translator, i: Instruction, registers: EmitRegisters) -> None:
    target = _read_target(i, registers)
    _write_pc(t, i, registers)
    t.computed(target)


def _call(t: Translator, i: Instruction, registers: EmitRegisters) -> None:
    _write_pc(t, i, registers)
    _branch(t, i, registers)


CONTROL_EMITTERS = {
    "s_branch": _branch,
    "s_cbranch_scc0": _conditional,
    "s_cbranch_scc1": _conditional,
    "s_cbranch_vccz": _conditional,
    "s_cbranch_vccnz": _conditional,
    "s_cbranch_execz": _conditional,
    "s_cbranch_execnz": _conditional,
    "s_endpgm": _end,
    "s_barrier": _barrier,
    "s_getpc_b64": _write_pc,
    "s_setpc_b64": _set_pc,
    "s_swappc_b64": _swap_pc,
    "s_call_b64": _call,
}


def _wants_two(block: Block, wave_size: int) -> bool:
    """Whether a block gains from knowing that all lanes are active."""
    if exec_codes(wave_size) <= block.full:
        return False
    masked = sum(_is_masked(instruction) for instruction in block.instructions)
    return masked >= LEAST_MASKED


def _is_masked(instruction: Instruction) -> bool:
    return any(operand.kind == "vgpr" for operand in instruction.destinations)


def _transfers(block: Block) -> bool:
    """Whether the last instruction wrote where to go next."""
    return block.last in CONTROL_EMITTERS and block.last != "s_getpc_b64"
