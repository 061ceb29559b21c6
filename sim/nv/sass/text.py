"""Instructions as text, spelled as nvdisasm spells them.

For error messages, traces, and for the test that compares every line with nvdisasm. Two
differences: no semicolon, and branch targets are addresses in hexadecimal, as nvdisasm
prints them for bare code (`nvdisasm -b SM90`), never labels.
"""

import math
import struct

from sim.nv.sass.decode import chip_number
from sim.nv.sass.formats import special_registers
from sim.nv.sass.instruction import TRUE_PREDICATE, ZERO_REGISTER, Instruction, Operand
from sim.nv.sass.operands import INSTRUCTION_SIZE, zero_uniform

# Number -> name, of every chip.
SPECIAL_REGISTERS = {**special_registers(90), **special_registers(120)}

_SCIENTIFIC_FROM = 1e9  # larger numbers are printed with an exponent


def text(instruction: Instruction, target: str = "sm_90") -> str:
    """One line, without address: `@P0 FADD.FTZ R4, R0, 1`."""
    writer = _Writer(chip_number(target), instruction)
    guard = instruction.guard
    always = guard.index == TRUE_PREDICATE and not guard.inv
    before = "" if always else f"@{writer.operand(guard)} "
    shown = [o for o in instruction.destinations + instruction.sources if not o.hidden]
    return f"{before}{instruction.spelling} {', '.join(map(writer.operand, shown))}".rstrip()


class _Writer:
    """Operands of one instruction."""

    def __init__(self, chip: int, instruction: Instruction) -> None:
        self.chip = chip
        self.next = instruction.address + INSTRUCTION_SIZE
        self.is_copy = instruction.name == "LDGSTS"

    def operand(self, operand: Operand) -> str:
        """An operand with its signs."""
        text: str = getattr(self, operand.kind)(operand)
        if operand.kind in ("const", "ureg") and operand.modifiers:
            text = ".".join((text, *operand.modifiers))
        is_half = operand.modifiers == ("H1",)
        if is_half and operand.abs:
            text += ".H1"
        if operand.abs:
            text = f"|{text}|"
        if operand.reuse:
            text += ".reuse"
        if operand.kind == "reg" and operand.modifiers and not (is_half and operand.abs):
            text = ".".join((text, *operand.modifiers))
        not_sign = "!" if "pred" in operand.kind else "~"
        return "-" * operand.neg + not_sign * operand.inv + text

    def reg(self, operand: Operand) -> str:
        return "RZ" if operand.index == ZERO_REGISTER else f"R{operand.index}"

    def ureg(self, operand: Operand) -> str:
        return "URZ" if operand.index == zero_uniform(self.chip) else f"UR{operand.index}"

    def pred(self, operand: Operand) -> str:
        return "PT" if operand.index == TRUE_PREDICATE else f"P{operand.index}"

    def upred(self, operand: Operand) -> str:
        return "U" + self.pred(operand)

    def predset(self, _: Operand) -> str:
        return "PR"

    def barrier(self, operand: Operand) -> str:
        return f"B{operand.index}"

    def scoreboard(self, operand: Operand) -> str:
        return f"SB{operand.index}"

    def special(self, operand: Operand) -> str:
        return special_registers(self.chip).get(operand.index, f"SR{operand.index}")

    def imm(self, operand: Operand) -> str:
        value, bits = operand.value, 32 * operand.count
        return _hex(value - (1 << bits)) if operand.signed and value >> bits - 1 else _hex(value)

    def fimm(self, operand: Operand) -> str:
        if operand.count != 16:
            return _float(operand.value, operand.count)
        brain = "BF16_V2" in operand.modifiers
        halves = (operand.value >> 16, operand.value & 0xFFFF)
        return ", ".join(_float(h << 16, 32) if brain else _float(h, 16) for h in halves)

    def const(self, operand: Operand) -> str:
        return f"c[{operand.bank:#x}][{self._sum(operand)}]"

    def constur(self, operand: Operand) -> str:
        base = operand.ubase
        return f"cx[{self.ureg(base) if base else ''}][{_hex(operand.value)}]"

    def mem(self, operand: Operand) -> str:
        descriptor = operand.descriptor
        if descriptor is None or descriptor.hidden:
            return f"[{self._sum(operand)}]"
        return f"desc[{self.ureg(descriptor)}][{self._sum(operand)}]"

    def label(self, operand: Operand) -> str:
        return _hex(operand.value)

    def jump(self, operand: Operand) -> str:
        base, value = self.reg(operand.base) if operand.base else "", operand.value
        if "relative" in operand.modifiers:
            return f"{base} {_hex(value - self.next)}"
        if "optional" in operand.modifiers and not value:
            return base
        return f"{base} {_hex(value)}"

    def _sum(self, operand: Operand) -> str:
        parts = []
        uniform = operand.ubase or operand.descriptor
        if operand.base and self._is_shown(operand, operand.base):
            scale = f".X{operand.scale}" * (operand.scale > 1)
            wide = ".64" * (operand.wide and uniform is not None)
            short = ".U32" * ("short" in operand.modifiers)
            parts.append(self.reg(operand.base) + scale + wide + short)
        if operand.ubase and (operand.kind == "mem" or self._is_shown(operand, operand.ubase)):
            parts.append(self.ureg(operand.ubase))
        if operand.value or not parts:
            parts.append(_hex(operand.value))
        return "+".join(parts)

    def _is_shown(self, operand: Operand, base: Operand) -> bool:
        """A zero base is left out unless nothing else is there."""
        zero = ZERO_REGISTER if base.kind == "reg" else zero_uniform(self.chip)
        if operand.kind == "mem" and operand.ubase:
            is_named = self.is_copy or (self.chip >= 90 and "short" in operand.modifiers)
            return is_named or base is operand.ubase or base.index != zero
        return base.index != zero or not operand.value or operand.wide


def _hex(value: int) -> str:
    return f"-{-value:#x}" if value < 0 else f"{value:#x}"


def _float(bits: int, width: int) -> str:
    """A float as C prints it with 20 digits."""
    if bits == 1 << min(width, 32) - 1:
        return "-0.0 "
    if width == 64:
        value = struct.unpack(">d", struct.pack(">Q", bits << 32))[0]
    else:
        code, layout = (">H", ">e") if width == 16 else (">I", ">f")
        value = struct.unpack(layout, struct.pack(code, bits))[0]
    if math.isnan(value):
        sign = "-" if bits >> (31 if width == 64 else width - 1) else "+"
        quiet = {16: 9, 32: 22, 64: 19}[width]
        return f"{sign}{'Q' if bits >> quiet & 1 else 'S'}NAN "
    if math.isinf(value):
        return f"{'-' if value < 0 else '+'}INF "
    if abs(value) >= _SCIENTIFIC_FROM:
        return f"{value:.20e}"
    return f"{value:.20g}"
