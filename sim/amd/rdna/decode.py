"""Machine code to instructions.

What the tables do not name is refused with its words and position, never skipped:
the graphics formats (image, export, interpolation), reserved operand codes,
misaligned scalar groups and code that ends inside an instruction.

Source: AMD "RDNA3" Instruction Set Architecture, section 15.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import Any

from hcq.bits import Layout
from hcq.errors import SimFault
from sim.amd.rdna import formats
from sim.amd.rdna.instruction import Dpp, Instruction, Operand
from sim.amd.rdna.opcodes import OPCODES, Opcode
from sim.amd.rdna.operand_codes import DPP8, DPP8_FI, DPP16, NULL, BadOperand
from sim.amd.rdna.operand_readers import Code, Partial

# SOPP instructions whose immediate must be zero.
NO_IMMEDIATE = frozenset({
    "s_wait_idle", "s_code_end", "s_endpgm_saved", "s_endpgm_ordered_ps_done", "s_wakeup",
    "s_ttracedata", "s_icache_inv", "s_barrier",
})  # fmt: skip

_GRAPHICS = frozenset({"VINTERP", "LDSDIR", "MTBUF", "MIMG", "EXP"})


def decode(code: bytes, offset: int = 0, address: int = 0, *, wave_size: int = 32) -> Instruction:
    """The instruction that starts `offset` bytes into code and runs at `address`.

    wave_size decides only how many registers a lane mask covers. Raises SimFault,
    naming the words and the position, for anything that is not an instruction.
    """
    position = Code(code, offset, address, wave_size // 32)
    try:
        name = _format(position.word(0))
        return _DECODERS[name](position)
    except BadOperand as reason:
        shown = range(offset, min(offset + 12, len(code) - 3), 4)
        words = [f"{int.from_bytes(code[i : i + 4], 'little'):#010x}" for i in shown]
        raise SimFault(
            f"cannot decode the instruction at {address:#x}: {reason}",
            facts={"address": hex(address), "offset": offset, "words": " ".join(words)},
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


def _start(code: Code, layout: Layout, name: str | None = None) -> Partial:
    """Fields and opcode row of the instruction."""
    words = layout.size_bits // 32
    record = code.word(0) if words == 1 else code.word(0) | code.word(1) << 32
    fields = layout.unpack(record)
    key = (name or layout.name, fields["op"])
    opcode = OPCODES.get(key)
    if opcode is None:
        raise BadOperand(f"{key[0]} has no opcode {key[1]}")
    reserved = record & formats.RESERVED[layout.name]
    if reserved:
        raise BadOperand(f"{opcode.name} has reserved bits set: {reserved:#x}")
    for field in opcode.unused:
        if fields[field]:
            raise BadOperand(f"{opcode.name} does not use {field}, which is {fields[field]:#x}")
    return Partial(code, opcode, fields, words)


def _finish(partial: Partial, **rest: Any) -> Instruction:
    """The instruction, with whatever its format adds."""
    destinations = partial.operands(partial.opcode.destinations)
    sources = rest.pop("sources", None)
    if sources is None:
        sources = partial.operands(partial.opcode.sources)
    return Instruction(
        address=partial.code.address,
        size=4 * partial.words,
        format=partial.opcode.format,
        name=partial.opcode.name,
        op=partial.opcode.op,
        fields=partial.fields,
        destinations=destinations,
        sources=sources,
        literal=partial.literal,
        dpp=partial.dpp,
        **rest,
    )


# Formats.


def _plain(layout: Layout) -> Callable[[Code], Instruction]:
    """Scalar formats that have nothing but operands."""

    def decode_plain(code: Code) -> Instruction:
        return _finish(_start(code, layout))

    return decode_plain


def _immediate(layout: Layout) -> Callable[[Code], Instruction]:
    """SOPK and SOPP: a signed 16-bit number."""

    def decode_immediate(code: Code) -> Instruction:
        partial = _start(code, layout)
        if partial.opcode.name in NO_IMMEDIATE and partial.fields["simm16"]:
            raise BadOperand(f"{partial.opcode.name} has no immediate")
        return _finish(partial, offset=_signed(partial.fields["simm16"], 16))

    return decode_immediate


def _smem(code: Code) -> Instruction:
    partial = _start(code, formats.SMEM)
    return _finish(partial, offset=_signed(partial.fields["offset"], 21))


def _vector(layout: Layout) -> Callable[[Code], Instruction]:
    """VOP1, VOP2, VOPC: one word, and perhaps a literal or DPP word."""

    def decode_vector(code: Code) -> Instruction:
        partial = _start(code, layout)
        if partial.opcode.sources:
            _take_dpp(partial)
        sources = partial.operands(partial.opcode.sources)
        return _finish(partial, sources=_dpp_modifiers(partial, sources))

    return decode_vector


def _vop3(code: Code) -> Instruction:
    partial = _start(code, formats.VOP3)
    fields = partial.fields
    if partial.opcode.scalar_destination:
        partial = _start(code, formats.VOP3SD, "VOP3")
        fields = partial.fields
    _check_modifiers(partial.opcode, fields)
    _take_dpp(partial)
    sources = partial.operands(partial.opcode.sources)
    return _finish(partial,
        sources=_modified(sources, fields["neg"], fields.get("abs", 0)),
        clamp=bool(fields["clamp"]),
        omod=fields["omod"],
        op_sel=fields.get("op_sel", 0),
    )


def _vop3p(code: Code) -> Instruction:
    partial = _start(code, formats.VOP3P)
    fields = partial.fields
    if code.masks == 2 and partial.opcode.name.startswith("v_wmma"):
        partial.opcode = _of_wide_waves(partial.opcode)
    _check_modifiers(partial.opcode, fields)
    _take_dpp(partial)
    sources = partial.operands(partial.opcode.sources)
    if partial.dpp is not None and sources[1].kind != "vgpr":
        raise BadOperand(f"{partial.opcode.name} with DPP takes only a VGPR as src1")
    neg_lo, neg_hi = fields["neg"], fields["neg_hi"]
    if "_mix" in partial.opcode.name:  # one number per source, so the two mean neg and abs
        sources = _modified(sources, neg_lo, neg_hi)
        neg_lo = neg_hi = 0
    return _finish(partial,
        sources=sources,
        clamp=bool(fields["clamp"]),
        op_sel=fields["op_sel"],
        op_sel_hi=fields["op_sel_hi"] | fields["op_sel_hi_2"] << 2,
        neg_lo=neg_lo,
        neg_hi=neg_hi,
    )


def _of_wide_waves(opcode: Opcode) -> Opcode:
    """A matrix product for waves of 64 lanes: C and D take half as many registers."""
    *factors, addend = opcode.sources
    return replace(
        opcode,
        destinations=tuple(replace(d, count=d.count // 2) for d in opcode.destinations),
        sources=(*factors, replace(addend, count=addend.count // 2)),
    )


def _vopd(code: Code) -> Instruction:
    if code.masks != 1:
        raise BadOperand("VOPD is only for waves of 32 lanes")
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
        partial = Partial(code, opcode, own, words, literal=shared)
        halves.append(_finish(partial))
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


def _ds(code: Code) -> Instruction:
    partial = _start(code, formats.DS)
    fields = partial.fields
    if "2addr" in partial.opcode.name:
        return _finish(partial, offset=fields["offset0"], offset1=fields["offset1"])
    return _finish(partial, offset=fields["offset0"] | fields["offset1"] << 8)


def _flat(code: Code) -> Instruction:
    segment = code.word(0) >> 16 & 3
    if segment == 3:
        raise BadOperand("FLAT has no segment 3")
    partial = _start(code, formats.FLAT, formats.SEGMENTS[segment])
    if not segment and partial.fields["saddr"] != NULL:
        raise BadOperand("flat instructions have no scalar address")
    offset = partial.fields["offset"]
    return _finish(partial, offset=_signed(offset, 13) if segment else offset)


def _mubuf(code: Code) -> Instruction:
    partial = _start(code, formats.MUBUF)
    return _finish(partial, offset=partial.fields["offset"])


def _take_dpp(partial: Partial) -> None:
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


def _dpp_modifiers(partial: Partial, sources: tuple[Operand, ...]) -> tuple[Operand, ...]:
    """DPP16 gives 32-bit encodings the modifiers that VOP3 has in its own word."""
    fields = partial.dpp_fields
    if partial.dpp is None or partial.dpp.kind == 8:
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


_DECODERS: Mapping[str, Callable[[Code], Instruction]] = {
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
