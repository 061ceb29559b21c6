"""Reads operands: from fields, the literal word and the DPP word to Operand.

One reader per kind of slot in the opcode table. The order matters in one place: the
literal word stands after everything else, so it is fetched when the first operand asks.

Source: AMD "RDNA3" Instruction Set Architecture, sections 5.2 and 15.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

from sim.amd.rdna.instruction import Dpp, Operand
from sim.amd.rdna.opcodes import Opcode, Slot
from sim.amd.rdna.operand_codes import (
    EXEC,
    FIRST_VGPR,
    LDS_DIRECT,
    LITERAL,
    NULL,
    VCC,
    BadOperand,
    scalar,
    source,
    vgpr,
)

_OFF = Operand("null", NULL)
_WRITTEN = frozenset({"sdst", "sdata", "vdst"})
_SCALES = {"sbase": 2, "srsrc": 4}
_WIDE = frozenset({"vgpr", "int", "float"})


@dataclass(frozen=True)
class Code:
    """The words at one position, and what all operands of the instruction share."""

    data: bytes
    offset: int
    address: int
    masks: int  # dwords of a lane mask

    def word(self, index: int) -> int:
        """The word `index` words after the position."""
        start = self.offset + 4 * index
        if start + 4 > len(self.data):
            raise BadOperand("the code ends inside the instruction")
        return int.from_bytes(self.data[start : start + 4], "little")


@dataclass
class Partial:
    """An instruction while its operands are being read."""

    code: Code
    opcode: Opcode
    fields: dict[str, int]
    words: int
    literal: int | None = None
    dpp: Dpp | None = None
    dpp_fields: Mapping[str, int] = field(default_factory=dict)

    def operands(self, slots: tuple[Slot, ...]) -> tuple[Operand, ...]:
        """Every operand of the slots; return slots only where the instruction returns."""
        return tuple(
            _READERS[slot.kind](self, slot)
            for slot in slots
            if slot.field != "return" or self.fields["glc"]
        )

    def take_literal(self) -> int:
        """The literal word, which all operands of an instruction share."""
        if self.dpp is not None:
            raise BadOperand(f"{self.opcode.name} has both a DPP word and a literal")
        if self.literal is None:
            self.literal = self.code.word(self.words)
            self.words += 1
        return self.literal


def _read_vgpr(partial: Partial, slot: Slot) -> Operand:
    name = "vdst" if slot.field == "return" else slot.field
    if name not in partial.fields:  # MUBUF returns where its data came from
        name = "vdata"
    code = partial.fields[name]
    if name.startswith("src"):
        if (name != "src0" or partial.dpp is None) and code < FIRST_VGPR:
            raise BadOperand(f"{partial.opcode.name} takes only a VGPR")
        return _read_any(partial, slot)
    return vgpr(code, slot.count + partial.fields.get("tfe", 0) * (name == "vdata"))


def _read_scalar(partial: Partial, slot: Slot) -> Operand:
    code = partial.fields[slot.field]
    if slot.field == "saddr" and code == NULL:
        return _OFF
    if code == LITERAL:
        return Operand("literal", code, slot.count, partial.take_literal())
    if code >= FIRST_VGPR or (code == LDS_DIRECT and slot.field.startswith("ssrc")):
        raise BadOperand(f"{partial.opcode.name} takes only a scalar as {slot.field}")
    read = scalar if slot.field in _WRITTEN else source
    return read(code * _SCALES.get(slot.field, 1), slot.count)


def _read_any(partial: Partial, slot: Slot) -> Operand:
    code = partial.fields[slot.field]
    if code == LITERAL:
        return Operand("literal", code, slot.count, partial.take_literal())
    if slot.field == "src0" and partial.dpp is not None:
        return vgpr(partial.dpp_fields["src0"], slot.count)
    operand = source(code, slot.count)
    if slot.count > 1 and code == LDS_DIRECT:
        raise BadOperand("lds_direct is one dword")
    if slot.count > 2 and operand.kind not in _WIDE:
        raise BadOperand(f"{slot.count} dwords cannot come from {operand.kind}")
    return operand


def _read_mask(partial: Partial, slot: Slot) -> Operand:
    if slot.field == "vcc":
        return scalar(VCC, partial.code.masks)
    if slot.field == "exec":
        return scalar(EXEC, partial.code.masks)
    return scalar(partial.fields[slot.field], partial.code.masks)


def _read_half(partial: Partial, slot: Slot) -> Operand:
    """A 16-bit VGPR: the half is bit 7 in 32-bit encodings, in VOP3 a bit of op_sel."""
    code = partial.fields[slot.field]
    if slot.field == "src0":
        if code < FIRST_VGPR:
            raise BadOperand(f"{partial.opcode.name} takes only a VGPR")
        return _read_any_half(partial, slot)
    if partial.opcode.format == "VOP3":
        return vgpr(code, 1, bool(partial.fields["op_sel"] & 8))
    return vgpr(code & 127, 1, code > 127)


def _read_any_half(partial: Partial, slot: Slot) -> Operand:
    operand = _read_any(partial, slot)
    if partial.opcode.format == "VOP3":
        high = bool(partial.fields["op_sel"] >> int(slot.field[-1]) & 1)
        return replace(operand, hi=True) if high else operand
    if operand.kind != "vgpr":
        return operand
    return vgpr(operand.index & 127, 1, operand.index > 127)


def _read_address(partial: Partial, slot: Slot) -> Operand:
    fields = partial.fields
    if partial.opcode.format == "MUBUF":
        count = fields["offen"] + fields["idxen"]
        return vgpr(fields["vaddr"], count) if count else _OFF
    if partial.opcode.format == "SCRATCH":
        return vgpr(fields["addr"], 1) if fields["sve"] else _OFF
    return vgpr(fields["addr"], 2 if fields["saddr"] == NULL else 1)


def _read_literal(partial: Partial, slot: Slot) -> Operand:
    return Operand("literal", LITERAL, slot.count, partial.take_literal())


_READERS: Mapping[str, Callable[[Partial, Slot], Operand]] = {
    "v": _read_vgpr,
    "s": _read_scalar,
    "a": _read_any,
    "m": _read_mask,
    "h": _read_half,
    "c": _read_any_half,
    "g": _read_address,
    "k": _read_literal,
}
