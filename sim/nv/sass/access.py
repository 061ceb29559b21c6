"""An instruction's operands as Values, modifiers applied, and its results written.

Semantics see only this. Register files are behind `Registers`, which the interpreter
and the translator implement.

Source: mesa: src/nouveau/compiler/nak/ir.rs (SrcMod, SrcSwizzle).
"""

from __future__ import annotations

from typing import Protocol

from hcq.errors import SimFault
from sim.isa.value import BOOL, F32, F64, I32, U16, U32, U64, Type, Value, where
from sim.nv.sass.instruction import TRUE_PREDICATE, ZERO_REGISTER, Instruction, Operand

# What arithmetic makes of NaNs, by width.
# Source: PTX ISA, "Floating Point Instructions" (single: 0x7fffffff; half 0x7fff); CUDA
# math_constants.h (double).
NANS = {16: 0x7FFF, 32: 0x7FFF_FFFF, 64: 0xFFF8 << 48}
PREDICATES = ("pred", "upred")


class Registers(Protocol):
    """The registers of one warp. Values have one element per lane, or one for the warp."""

    chip: int  # 80, 86, ...

    def read(self, index: int) -> Value:
        """R0 to R254, U32 lanes."""

    def write(self, index: int, value: Value, mask: Value | None) -> None:
        """Lanes outside mask keep the old value; None: every lane that runs."""

    def read_uniform(self, index: int) -> Value:
        """UR, U32."""

    def write_uniform(self, index: int, value: Value, mask: Value | None) -> None:
        """mask is uniform; where it does not hold the old value stays."""

    def predicate(self, index: int) -> Value:
        """P0 to P6, BOOL lanes."""

    def set_predicate(self, index: int, value: Value, mask: Value | None) -> None:
        """As write."""

    def uniform_predicate(self, index: int) -> Value:
        """UP0 to UP6, uniform BOOL."""

    def set_uniform_predicate(self, index: int, value: Value, mask: Value | None) -> None:
        """As write_uniform."""

    def constant_word(self, bank: int, offset: int) -> Value:
        """A word of a constant bank, uniform U32."""

    def constant(self, target: Type, number: float) -> Value:
        """A uniform value."""

    def running(self) -> Value:
        """BOOL: the lanes that execute this instruction, guards not looked at."""

    def special(self, name: str) -> Value:
        """A special register by its name without SR_, U32."""


class Access:
    """One instruction while it is executed."""

    def __init__(self, instruction: Instruction, registers: Registers) -> None:
        self.instruction = instruction
        self.registers = registers
        self.words = frozenset(w for m in instruction.modifiers for w in m.split("."))
        self.data = [o for o in instruction.sources if o.kind not in PREDICATES]
        self.flags = [o for o in instruction.sources if o.kind in PREDICATES]
        self.results = [o for o in instruction.destinations if o.kind not in PREDICATES]
        self.flag_results = [o for o in instruction.destinations if o.kind in PREDICATES]
        self.guard = guard_of(instruction, registers)

    def has(self, word: str) -> bool:
        """Whether the name carries a modifier."""
        return word in self.words

    def number(self, target: Type, number: float) -> Value:
        """A constant."""
        return self.registers.constant(target, number)

    @property
    def flushes(self) -> bool:
        """Whether denormals count as zeros."""
        return "FTZ" in self.words or "FMZ" in self.words

    def refuse(self, what: str) -> SimFault:
        """The error for a form without a meaning."""
        return SimFault(f"instruction {self.instruction.spelling} {what} is not simulated")

    # --- operands

    def word(self, operand: Operand, part: int = 0) -> Value:
        """One word of an operand without its modifiers, U32."""
        kind = operand.kind
        if kind == "reg":
            if operand.index == ZERO_REGISTER:
                return self.number(U32, 0)
            return self.registers.read(operand.index + part)
        if kind == "ureg":
            return self._uniform(operand.index + part, operand.index)
        if kind in ("imm", "fimm"):
            return self.number(U32, self._immediate(operand, part))
        if kind == "const" and not is_indexed(operand):
            return self.registers.constant_word(operand.bank, fixed_offset(operand) + 4 * part)
        raise self.refuse(f"with an operand of kind {kind}")

    def _uniform(self, index: int, first: int) -> Value:
        zero = 63 if self.registers.chip < 100 else ZERO_REGISTER
        if first == zero:
            return self.number(U32, 0)
        return self.registers.read_uniform(index)

    def _immediate(self, operand: Operand, part: int) -> int:
        if operand.kind == "fimm":
            if operand.count == 64:
                return operand.value if part else 0
            return operand.value
        if part and operand.count == 1:
            return 0xFFFF_FFFF if operand.value & 0x8000_0000 else 0
        return operand.value >> 32 * part & 0xFFFF_FFFF

    def raw(self, at: int) -> Value:
        """Source `at` as it is, U32. Predicates do not count."""
        return self.word(self.data[at])

    def u32(self, at: int) -> Value:
        """Source `at` as an integer, negated or complemented."""
        operand = self.data[at]
        value = self.word(operand)
        if operand.inv:
            return ~value
        return -value if operand.neg else value

    def i32(self, at: int) -> Value:
        """The same, signed."""
        return self.u32(at).bits(I32)

    def pair(self, at: int) -> Value:
        """Source `at` as 64 bits, without modifiers."""
        operand = self.data[at]
        low, high = self.word(operand, 0), self.word(operand, 1)
        return low.to(U64) | (high.to(U64) << 32)

    def u64(self, at: int) -> Value:
        """Source `at` as a 64-bit integer, negated or complemented."""
        operand = self.data[at]
        value = self.pair(at)
        if operand.inv:
            return ~value
        return -value if operand.neg else value

    def constant_of(self, at: int) -> int | None:
        """The number of an immediate source, None for anything else."""
        operand = self.data[at]
        if operand.kind == "reg" and operand.index == ZERO_REGISTER:
            return 0
        return operand.value if operand.kind == "imm" else None

    def f32(self, at: int) -> Value:
        """Source `at` as single precision, flushed if the instruction says so."""
        value = self._signs(self.word(self.data[at]).bits(F32), self.data[at])
        return flush(value) if self.flushes else value

    def f64(self, at: int) -> Value:
        """Source `at` as double precision."""
        return self._signs(self.pair(at).bits(F64), self.data[at])

    @staticmethod
    def _signs(value: Value, operand: Operand) -> Value:
        if operand.abs:
            value = value.absolute()
        return value.negate() if operand.neg else value

    def halves(self, at: int) -> tuple[Value, Value]:
        """Source `at` as two 16-bit patterns, low first, swizzled, signs applied, U16."""
        return self.halves_of(self.data[at])

    def halves_of(self, operand: Operand) -> tuple[Value, Value]:
        """The same of any operand."""
        word = self.word(operand)
        low, high = word.to(U16), (word >> 16).to(U16)
        if "H0_H0" in operand.modifiers:
            high = low
        if "H1_H1" in operand.modifiers:
            low = high
        return self._half_signs(low, operand), self._half_signs(high, operand)

    def half(self, at: int) -> Value:
        """The half of source `at` that is meant, a 16-bit pattern, signs applied, U16."""
        return self.halves(at)["H1" in self.data[at].modifiers]

    @staticmethod
    def _half_signs(bits: Value, operand: Operand) -> Value:
        if operand.abs:
            bits = bits & 0x7FFF
        return bits ^ 0x8000 if operand.neg else bits

    def flag(self, at: int) -> Value:
        """Predicate source `at`, BOOL."""
        return read_flag(self.registers, self.flags[at])

    def has_flag_result(self, at: int) -> bool:
        """Whether predicate result `at` is kept."""
        return at < len(self.flag_results) and self.flag_results[at].index != TRUE_PREDICATE

    # --- results

    def write(self, value: Value, at: int = 0) -> None:
        """Write result `at`: 64-bit values fill a pair, narrower ones a word."""
        operand = self.results[at]
        if value.type.bits == 64:
            whole = value.bits(U64)
            self.write_word(operand, 0, whole.to(U32))
            self.write_word(operand, 1, (whole >> 32).to(U32))
            return
        if value.type.bits < 32:
            value = value.to(U32) if value.type.kind in "ub" else value.bits(U16).to(U32)
        self.write_word(operand, 0, value.bits(U32))

    def write_word(self, operand: Operand, part: int, value: Value) -> None:
        """One word of a result."""
        if operand.kind == "ureg":
            zero = 63 if self.registers.chip < 100 else ZERO_REGISTER
            if operand.index != zero:
                self.registers.write_uniform(operand.index + part, value, self.guard)
        elif operand.index != ZERO_REGISTER:
            self.registers.write(operand.index + part, value, self.guard)

    def write_flag(self, at: int, value: Value) -> None:
        """Write predicate result `at`, if there is one."""
        if not self.has_flag_result(at):
            return
        operand = self.flag_results[at]
        if operand.kind == "pred":
            self.registers.set_predicate(operand.index, value, self.guard)
        else:
            self.registers.set_uniform_predicate(operand.index, value, self.guard)

    def lanes(self) -> Value:
        """BOOL: the lanes that execute this, the guard included."""
        running = self.registers.running()
        return running if self.guard is None else running & self.guard


def read_flag(registers: Registers, operand: Operand) -> Value:
    """A predicate operand, BOOL."""
    if operand.index == TRUE_PREDICATE:
        return registers.constant(BOOL, 0 if operand.inv else 1)
    if operand.kind == "pred":
        value = registers.predicate(operand.index)
    else:
        value = registers.uniform_predicate(operand.index)
    return ~value if operand.inv else value


def is_indexed(operand: Operand) -> bool:
    """Whether a register takes part in where a constant lies."""
    return any(
        register is not None and register.index != ZERO_REGISTER
        for register in (operand.base, operand.ubase)
    )


def fixed_offset(operand: Operand) -> int:
    """Where in its bank a constant lies that no register has a part in.

    Disassemblers print the 16 bits of the field with a sign, but banks have up to 64 KiB.
    Source: mesa: src/nouveau/compiler/nak/sm70_encode.rs, set_src_cb; ir.rs, CBufRef.
    """
    return operand.value & 0xFFFF


def is_uniform(instruction: Instruction) -> bool:
    """Whether an instruction belongs to the uniform datapath: its guard is a uniform one."""
    return instruction.name.startswith("U") or instruction.name in ("LDCU", "VOTEU")


def guard_of(instruction: Instruction, registers: Registers) -> Value | None:
    """The lanes that the guard lets through; None for all."""
    guard = instruction.guard
    if guard.index == TRUE_PREDICATE and not guard.inv:
        return None
    if is_uniform(instruction):
        guard = Operand("upred", guard.index, inv=guard.inv)
    return read_flag(registers, guard)


def flush(value: Value) -> Value:
    """Denormals as zeros of their sign."""
    if value.type == F64:
        return value
    bits = value.type.bits
    raw = value.bits(value.type.unsigned)
    exponent = 0x7C00 if bits == 16 else 0x7F80_0000
    sign = raw & (1 << (bits - 1))
    return where((raw & exponent) == 0, sign, raw).bits(value.type)


def quiet(value: Value) -> Value:
    """The value as an addition of zero would leave it: every NaN is the canonical one."""
    return where(value.is_nan(), value + 0.0, value)


def saturate(value: Value) -> Value:
    """Between 0 and 1; NaN is +0."""
    above = where(value > 1.0, 1.0, value)
    return where(value > 0.0, above, value.constant(value.type, 0.0))
