"""Machine code to instructions.

What the table does not name is refused with its words and position, never skipped: unknown
opcodes, values of a field that no name belongs to, and set bits that no field covers.

Source: mesa: src/nouveau/compiler/nak/sm70_encode.rs.
"""

from collections.abc import Iterator, Mapping

from hcq.errors import SimFault
from sim.nv.sass.formats import WORD, Bits
from sim.nv.sass.instruction import ZERO_REGISTER, Instruction, Operand
from sim.nv.sass.opcodes import CHIPS, ROWS, Modifier, Row
from sim.nv.sass.operands import INSTRUCTION_SIZE, BadOperand, Code, read

_IMAD = 0x24
_NO_SHIFTS = (1 << 16, 1 << 31)  # IMAD multiplies with these without being called SHL

# Guarded by a uniform predicate although their slots are not those of the uniform datapath.
_UNIFORM = frozenset(
    {
        "ULDC", "LDCU", "S2UR", "CS2UR", "UMOV", "USEL", "UPLOP3", "UCGABAR_ARV", "UCGABAR_WAIT",
    }
)  # fmt: skip

# The slots for registers. One that the row does not use may hold RZ or URZ.
_SLOTS = (24, 32, 64)


def chip_number(target: str) -> int:
    """sm_90 -> 90. Raises SimFault for a chip whose code is not known."""
    number = int(target.removeprefix("sm_").rstrip("af")) if target.startswith("sm_") else 0
    if number not in CHIPS:
        known = ", ".join(f"sm_{chip}" for chip in CHIPS)
        raise SimFault(f"machine code of {target} is not known", hint=f"known are {known}")
    return number


def decode(word: int, address: int = 0, *, target: str = "sm_90") -> Instruction:
    """The instruction whose 128 bits are `word` and that runs at `address`.

    Raises SimFault, naming the words and the position, for anything else.
    """
    chip = chip_number(target)
    fields = WORD.unpack(word)
    rows = ROWS[chip].get(fields["opcode"], ())
    row = next((row for row in rows if _holds(row, word)), None)
    if row is None:
        what = f"of {rows[0].name}" if rows else f"{fields['opcode']:#05x}"
        raise _refused(f"unknown {'form' if rows else 'opcode'} {what}", word, address, target)
    try:
        return _instruction(Code(Bits(word), row, chip, address), fields)
    except BadOperand as problem:
        raise _refused(str(problem), word, address, target) from None


def decode_all(code: bytes, address: int = 0, *, target: str = "sm_90") -> Iterator[Instruction]:
    """Every instruction of a piece of code. Raises SimFault as decode does, or if it ends early."""
    if len(code) % INSTRUCTION_SIZE:
        raise SimFault(f"code of {len(code)} bytes ends inside an instruction")
    for offset in range(0, len(code), INSTRUCTION_SIZE):
        word = int.from_bytes(code[offset : offset + INSTRUCTION_SIZE], "little")
        yield decode(word, address + offset, target=target)


def _refused(what: str, word: int, address: int, target: str) -> SimFault:
    words = " ".join(f"{word >> 32 * i & 0xFFFFFFFF:08x}" for i in range(4))
    return SimFault(f"{what} is not simulated", facts={
        "target": target, "words": words, "address": hex(address),
    })  # fmt: skip


def _holds(row: Row, word: int) -> bool:
    return all(word >> low & (1 << width) - 1 == value for low, width, value in row.bits)


def _instruction(code: Code, fields: Mapping[str, int]) -> Instruction:
    row, bits = code.row, code.bits
    for low, width, _ in row.bits:
        bits.take(low, width)
    code.modifiers = tuple(name for m in row.modifiers if (name := _modifier(code, m)))
    destinations = tuple(read(code, slot) for slot in row.destinations)
    sources = tuple(read(code, slot) for slot in row.sources)
    _check_rest(code)
    guard = "upred" if row.name in _UNIFORM or (row.uniform and row.name != "VOTEU") else "pred"
    return Instruction(
        code.address,
        bits.word,
        row.name,
        _use(row, sources) + code.modifiers,
        Operand(guard, fields["guard"], inv=bool(fields["guard_not"])),
        destinations,
        sources,
    )


def _use(row: Row, sources: tuple[Operand, ...]) -> tuple[str, ...]:
    """What a multiply-add is used for: a move, an addition or a shift. Only a spelling."""
    if row.name != "IMAD" or row.opcode & 0x1FF != _IMAD or len(sources) != 3:
        return ()
    first, second, third = sources
    if any(operand.kind == "ureg" for operand in sources):
        return ()
    factor = second.value if second.kind == "imm" else None
    alone = _is_zero(third)
    if _is_zero(first) or _is_zero(second) or factor == 0 or (factor == 1 and alone):
        return ("MOV",)
    if factor == 1:
        return ("IADD",)
    shifts = factor is not None and factor.bit_count() == 1 and factor not in _NO_SHIFTS
    return ("SHL",) if shifts and alone else ()


def _is_zero(operand: Operand) -> bool:
    return operand.kind == "reg" and operand.index == ZERO_REGISTER


def _modifier(code: Code, modifier: Modifier) -> str:
    value = 0
    for low, width in modifier.pieces:
        value = value << width | code.bits.take(low, width)
    names = modifier.names
    if isinstance(names, Mapping):
        name = names.get(value)
    else:
        name = names[value] if value < len(names) else None
    if name is None:
        low = modifier.pieces[-1][0]
        raise BadOperand(f"{code.row.name} with the value {value} in the field at bit {low}")
    return name


def _check_rest(code: Code) -> None:
    """Refuse set bits without a meaning."""
    row, bits = code.row, code.bits
    for low, width in row.ignored:
        bits.take(low, width)
    if (row.uniform or _takes_uniform(row)) and not bits.take(91):
        raise BadOperand(f"{row.name} without the bit of the uniform datapath")
    for low in _SLOTS:
        if bits.unread >> low & 0xFF in (0x3F, 0xFF):
            bits.take(low, 8)
    if bits.unread:
        raise BadOperand(f"{row.name} with unknown bits {bits.unread:#x}")


def _takes_uniform(row: Row) -> bool:
    is_arithmetic = any(slot.kind in "ABCZ" and slot.mode for slot in row.sources)
    return is_arithmetic and row.opcode >> 9 in (6, 7)
