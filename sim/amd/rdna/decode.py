"""Machine code to instructions.

What the tables do not name is refused with its words and position, never skipped:
the graphics formats (image, export, interpolation), reserved operand codes,
misaligned scalar groups and code that ends inside an instruction.

Source: AMD "RDNA3" Instruction Set Architecture, section 15.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from hcq.bits import Layout
from hcq.errors import SimFault
from sim.amd.rdna import formats
from sim.amd.rdna.instruction import Dpp, Instruction, Operand
from sim.amd.rdna.opcodes import OPCODES, Opcode, Slot
from sim.amd.rdna.operand_codes import (
    DPP8,
    DPP8_FI,
    DPP16,
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

# SOPP instructions whose immediate must be zero.
NO_IMMEDIATE = frozenset({
    "s_wait_idle", "s_code_end", "s_endpgm_saved", "s_endpgm_ordered_ps_done", "s_wakeup",
    "s_ttracedata", "s_icache_inv", "s_barrier",
})  # fmt: skip

_GRAPHICS = frozenset({"VINTERP", "LDSDIR", "MTBUF", "MIMG", "EXP"})
_OFF = Operand("null", NULL)


@dataclass(frozen=True)
class _Code:
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
class _Partial:
    """An instruction while its operands are being read."""

    code: _Code
    opcode: Opcode
    fields: dict[str, int]
    words: int
    literal: int | None = None
    dpp: Dpp | None = None
    dpp_fields: Mapping[str, int] | None = None

    def operands(self, slots: tuple[Slot, ...]) -> tuple[Operand, ...]:
        """Every operand of the slots; return slots only where the instruction returns."""
        return tuple(
            _READERS[slot.kind](self, slot)
            for slot in slots
            if slot.field != "return" or self.fields["glc"]
        )

    def take_literal(self) -> int:
        """The literal word, which all operands of an instruction share."""
        if self.literal is None:
            self.literal = self.code.word(self.words)
            self.words += 1
        return self.literal

    def finish(self, **rest: Any) -> Instruction:
        """The instruction, with whatever its format adds."""
        rest.setdefault("destinations", self.operands(self.opcode.destinations))
        rest.setdefault("sources", self.operands(self.opcode.sources))
        return Instruction(
            address=self.code.address,
            size=4 * self.words,
            format=self.opcode.format,
            name=self.opcode.name,
            op=self.opcode.op,
            fields=self.fields,
            literal=self.literal,
            dpp=self.dpp,
            **rest,
        )


def decode(code: bytes, offset: int = 0, address: int = 0, *, wave_size: int = 32) -> Instruction:
    """The instruction that starts `offset` bytes into code and runs at `address`.

    wave_size decides only how many registers a lane mask covers. Raises SimFault,
    naming the words and the position, for anything that is not an instruction.
    """
    position = _Code(code, offset, address, wave_size // 32)
    try:
        name = _format(position.word(0))
        return _DECODERS[name](position)
    except BadOperand as reason:
        words = [code[i : i + 4].hex(" ") for i in range(offset, min(offset + 12, len(code)), 4)]
        raise SimFault(
            f"cannot decode the instruction at {address:#x}: {reason}",
            facts={"address": hex(address), "offset": offset, "bytes": " | ".join(words)},
        ) from None


def decode_all(code: bytes, address: int = 0, *, wave_size: int = 32) -> Iterator[Instruction]:
    """Every instruction of code from its start, which runs at `address`."""
    offset = 0
    while offset < len(code):
        instruction = decode(code, offset, address + offset, wave_size=wave_size)
        yield instruction
        offset += instruction.size


def _prefixes() -> list[str | None]:
    """The format of each value of the nine high bits."""
    table: list[str | None] = [None] * 512
    for bits, count, name in reversed(formats.PREFIXES):
        free = 9 - count
        for low in range(1 << free):
            table[(bits << free) + low] = name
    return table


_FORMAT_OF = _prefixes()


def _format(word: int) -> str:
    name = _FORMAT_OF[word >> 23]
    if name is None:
        raise BadOperand(f"no instruction format starts with {word:#010x}")
    if name in _GRAPHICS:
        raise BadOperand(f"{name} instructions are not simulated")
    return name


def _start(code: _Code, layout: Layout, name: str | None = None) -> _Partial:
    """Fields and opcode row of the instruction."""
    words = layout.size_bits // 32
    record = code.word(0) if words == 1 else code.word(0) | code.word(1) << 32
    fields = layout.unpack(record)
    key = (name or layout.name, fields["op"])
    opcode = OPCODES.get(key)
    if opcode is None:
        raise BadOperand(f"{key[0]} has no opcode {key[1]}")
    for field in opcode.unused:
        if fields[field]:
            raise BadOperand(f"{opcode.name} does not use {field}, which is {fields[field]:#x}")
    return _Partial(code, opcode, fields, words)


# Operand readers, one per slot kind.


def _read_vgpr(partial: _Partial, slot: Slot) -> Operand:
    field = "vdst" if slot.field == "return" else slot.field
    if field not in partial.fields:  # MUBUF returns where its data came from
        field = "vdata"
    code = partial.fields[field]
    if field.startswith("src"):
        if (field != "src0" or partial.dpp is None) and code < FIRST_VGPR:
            raise BadOperand(f"{partial.opcode.name} takes only a VGPR")
        return _read_any(partial, slot)
    return vgpr(code, slot.count + partial.fields.get("tfe", 0) * (slot.field == "vdata"))


def _read_scalar(partial: _Partial, slot: Slot) -> Operand:
    code = partial.fields[slot.field]
    if slot.field == "saddr" and code == NULL:
        return _OFF
    if code == LITERAL:
        return Operand("literal", code, slot.count, partial.take_literal())
    if code >= FIRST_VGPR or (code == LDS_DIRECT and slot.field.startswith("ssrc")):
        raise BadOperand(f"{partial.opcode.name} takes only a scalar as {slot.field}")
    read = scalar if slot.field in _WRITTEN else source
    return read(code * _SCALES.get(slot.field, 1), slot.count)


_WRITTEN = frozenset({"sdst", "sdata", "vdst"})
_SCALES = {"sbase": 2, "srsrc": 4}


def _read_any(partial: _Partial, slot: Slot) -> Operand:
    code = partial.fields[slot.field]
    if code == LITERAL:
        return Operand("literal", code, slot.count, partial.take_literal())
    if slot.field == "src0" and partial.dpp is not None:
        assert partial.dpp_fields is not None
        return vgpr(partial.dpp_fields["src0"], slot.count)
    operand = source(code, slot.count)
    if slot.count > 1 and code == LDS_DIRECT:
        raise BadOperand("lds_direct is one dword")
    if slot.count > 2 and operand.kind not in _WIDE:
        raise BadOperand(f"{slot.count} dwords cannot come from {operand.kind}")
    return operand


_WIDE = frozenset({"vgpr", "int", "float"})


def _read_mask(partial: _Partial, slot: Slot) -> Operand:
    if slot.field == "vcc":
        return scalar(VCC, partial.code.masks)
    if slot.field == "exec":
        return scalar(EXEC, partial.code.masks)
    return scalar(partial.fields[slot.field], partial.code.masks)


def _read_half(partial: _Partial, slot: Slot) -> Operand:
    """A 16-bit VGPR: the half is bit 7 in 32-bit encodings, in VOP3 a bit of op_sel."""
    code = partial.fields[slot.field]
    if slot.field == "src0":
        if code < FIRST_VGPR:
            raise BadOperand(f"{partial.opcode.name} takes only a VGPR")
        return _read_any_half(partial, slot)
    if partial.opcode.format == "VOP3":
        return vgpr(code, 1, bool(partial.fields["op_sel"] & 8))
    return vgpr(code & 127, 1, code > 127)


def _read_any_half(partial: _Partial, slot: Slot) -> Operand:
    operand = _read_any(partial, slot)
    if partial.opcode.format == "VOP3":
        high = bool(partial.fields["op_sel"] >> int(slot.field[-1]) & 1)
        return replace(operand, hi=True) if high else operand
    if operand.kind != "vgpr":
        return operand
    return vgpr(operand.index & 127, 1, operand.index > 127)


def _read_address(partial: _Partial, slot: Slot) -> Operand:
    fields = partial.fields
    if partial.opcode.format == "MUBUF":
        count = fields["offen"] + fields["idxen"]
        return vgpr(fields["vaddr"], count) if count else _OFF
    if partial.opcode.format == "SCRATCH":
        return vgpr(fields["addr"], 1) if fields["sve"] else _OFF
    return vgpr(fields["addr"], 2 if fields["saddr"] == NULL else 1)


def _read_literal(partial: _Partial, slot: Slot) -> Operand:
    return Operand("literal", LITERAL, slot.count, partial.take_literal())


_READERS: Mapping[str, Callable[[_Partial, Slot], Operand]] = {
    "v": _read_vgpr,
    "s": _read_scalar,
    "a": _read_any,
    "m": _read_mask,
    "h": _read_half,
    "c": _read_any_half,
    "g": _read_address,
    "k": _read_literal,
}


# Formats.


def _plain(layout: Layout) -> Callable[[_Code], Instruction]:
    """Scalar formats that have nothing but operands."""

    def decode_plain(code: _Code) -> Instruction:
        return _start(code, layout).finish()

    return decode_plain


def _immediate(layout: Layout) -> Callable[[_Code], Instruction]:
    """SOPK and SOPP: a signed 16-bit number."""

    def decode_immediate(code: _Code) -> Instruction:
        partial = _start(code, layout)
        if partial.opcode.name in NO_IMMEDIATE and partial.fields["simm16"]:
            raise BadOperand(f"{partial.opcode.name} has no immediate")
        return partial.finish(offset=_signed(partial.fields["simm16"], 16))

    return decode_immediate


def _smem(code: _Code) -> Instruction:
    partial = _start(code, formats.SMEM)
    return partial.finish(offset=_signed(partial.fields["offset"], 21))


def _vector(layout: Layout) -> Callable[[_Code], Instruction]:
    """VOP1, VOP2, VOPC: one word, and perhaps a literal or DPP word."""

    def decode_vector(code: _Code) -> Instruction:
        partial = _start(code, layout)
        if partial.opcode.sources:
            _take_dpp(partial)
        sources = partial.operands(partial.opcode.sources)
        return partial.finish(sources=_dpp_modifiers(partial, sources))

    return decode_vector


def _vop3(code: _Code) -> Instruction:
    partial = _start(code, formats.VOP3)
    fields = partial.fields
    if partial.opcode.scalar_destination:
        partial = _start(code, formats.VOP3SD, "VOP3")
        fields = partial.fields
    _check_modifiers(partial.opcode, fields)
    _take_dpp(partial)
    sources = partial.operands(partial.opcode.sources)
    return partial.finish(
        sources=_modified(sources, fields["neg"], fields.get("abs", 0)),
        clamp=bool(fields["clamp"]),
        omod=fields["omod"],
        op_sel=fields.get("op_sel", 0),
    )


def _vop3p(code: _Code) -> Instruction:
    partial = _start(code, formats.VOP3P)
    fields = partial.fields
    _check_modifiers(partial.opcode, fields)
    _take_dpp(partial)
    sources = partial.operands(partial.opcode.sources)
    if partial.dpp is not None and sources[1].kind != "vgpr":
        raise BadOperand(f"{partial.opcode.name} with DPP takes only a VGPR as src1")
    neg_lo, neg_hi = fields["neg"], fields["neg_hi"]
    if "_mix" in partial.opcode.name:  # one number per source, so the two mean neg and abs
        sources = _modified(sources, neg_lo, neg_hi)
        neg_lo = neg_hi = 0
    return partial.finish(
        sources=sources,
        clamp=bool(fields["clamp"]),
        op_sel=fields["op_sel"],
        op_sel_hi=fields["op_sel_hi"] | fields["op_sel_hi_2"] << 2,
        neg_lo=neg_lo,
        neg_hi=neg_hi,
    )


def _vopd(code: _Code) -> Instruction:
    fields = formats.VOPD.unpack(code.word(0) | code.word(1) << 32)
    fields["vdst_y"] = fields["vdst_y"] << 1 | ~fields["vdst_x"] & 1
    shared: int | None = None
    halves = []
    words = 2
    for letter in "xy":
        op = fields[f"op_{letter}"]
        opcode = OPCODES.get((f"VOPD_{letter.upper()}", op))
        if opcode is None:
            raise BadOperand(f"VOPD has no opcode {op} in its half {letter.upper()}")
        own = {field: fields[f"{field}_{letter}"] for field in ("vdst", "src0", "vsrc1")}
        if own["vsrc1"] and opcode.unused:
            raise BadOperand(f"{opcode.name} does not use vsrc1, which is {own['vsrc1']:#x}")
        partial = _Partial(code, opcode, own, words, literal=shared)
        halves.append(partial.finish())
        shared, words = partial.literal, partial.words
    x, y = halves
    return Instruction(
        address=code.address,
        size=4 * words,
        format="VOPD",
        name=f"{x.name} :: {y.name}",
        op=x.op << 5 | y.op,
        fields=fields,
        destinations=x.destinations + y.destinations,
        sources=x.sources + y.sources,
        literal=shared,
        halves=(x, y),
    )


def _ds(code: _Code) -> Instruction:
    partial = _start(code, formats.DS)
    fields = partial.fields
    if "2addr" in partial.opcode.name:
        return partial.finish(offset=fields["offset0"], offset1=fields["offset1"])
    return partial.finish(offset=fields["offset0"] | fields["offset1"] << 8)


def _flat(code: _Code) -> Instruction:
    segment = code.word(0) >> 16 & 3
    if segment == 3:
        raise BadOperand("FLAT has no segment 3")
    partial = _start(code, formats.FLAT, formats.SEGMENTS[segment])
    if not segment and partial.fields["saddr"] != NULL:
        raise BadOperand("flat instructions have no scalar address")
    offset = partial.fields["offset"]
    return partial.finish(offset=_signed(offset, 13) if segment else offset)


def _mubuf(code: _Code) -> Instruction:
    partial = _start(code, formats.MUBUF)
    return partial.finish(offset=partial.fields["offset"])


def _take_dpp(partial: _Partial) -> None:
    """Read the DPP word if src0 announces one."""
    code = partial.fields["src0"]
    if code in (DPP8, DPP8_FI, DPP16) and "dpp" not in partial.opcode.modifiers:
        raise BadOperand(f"{partial.opcode.name} cannot shuffle lanes")
    if code == DPP16:
        fields = formats.DPP16.unpack(partial.code.word(partial.words))
        partial.dpp = Dpp(
            16,
            ctrl=fields["dpp_ctrl"],
            row_mask=fields["row_mask"],
            bank_mask=fields["bank_mask"],
            bound_ctrl=bool(fields["bound_ctrl"]),
            fi=bool(fields["fi"]),
        )
    elif code in (DPP8, DPP8_FI):
        fields = formats.DPP8.unpack(partial.code.word(partial.words))
        lanes = tuple(fields[f"lane_{i}"] for i in range(8))
        partial.dpp = Dpp(8, lanes=lanes, fi=code == DPP8_FI)
    else:
        return
    partial.dpp_fields = fields
    partial.words += 1


def _dpp_modifiers(partial: _Partial, sources: tuple[Operand, ...]) -> tuple[Operand, ...]:
    """DPP16 gives 32-bit encodings the modifiers that VOP3 has in its own word."""
    fields = partial.dpp_fields
    if fields is None or partial.dpp is None or partial.dpp.kind == 8:
        return sources
    neg = fields["src0_neg"] | fields["src1_neg"] << 1
    absolute = fields["src0_abs"] | fields["src1_abs"] << 1
    _check_modifiers(partial.opcode, {"neg": neg, "abs": absolute})
    return _modified(sources, neg, absolute)


def _check_modifiers(opcode: Opcode, fields: Mapping[str, int]) -> None:
    """A modifier that the instruction does not have is a reserved bit."""
    for name in ("neg", "abs", "neg_hi", "op_sel", "clamp"):
        if fields.get(name, 0) & ~opcode.modifiers.get(name, 0):
            raise BadOperand(f"{opcode.name} has no {name} modifier {fields[name]:#x}")
    if fields.get("omod", 0) and "omod" not in opcode.modifiers:
        raise BadOperand(f"{opcode.name} has no output modifier")


def _modified(sources: tuple[Operand, ...], neg: int, absolute: int) -> tuple[Operand, ...]:
    if not neg | absolute:
        return sources
    return tuple(
        replace(operand, neg=bool(neg >> i & 1), abs=bool(absolute >> i & 1))
        for i, operand in enumerate(sources)
    )


def _signed(value: int, bits: int) -> int:
    return value - (value >> bits - 1 << bits)


_DECODERS: Mapping[str, Callable[[_Code], Instruction]] = {
    "SOP1": _plain(formats.SOP1),
    "SOP2": _plain(formats.SOP2),
    "SOPC": _plain(formats.SOPC),
    "SOPK": _immediate(formats.SOPK),
    "SOPP": _immediate(formats.SOPP),
    "SMEM": _smem,
    "VOP1": _vector(formats.VOP1),
    "VOP2": _vector(formats.VOP2),
    "VOPC": _vector(formats.VOPC),
    "VOP3": _vop3,
    "VOP3P": _vop3p,
    "VOPD": _vopd,
    "DS": _ds,
    "FLAT": _flat,
    "MUBUF": _mubuf,
}
