"""Reads operands out of the bits of an instruction, as the table's slots say.

Source: mesa: src/nouveau/compiler/nak/sm70_encode.rs (set_alu_reg, set_src_cb,
set_mem_access, set_rel_offset).
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

from sim.nv.sass.formats import FORMS, HALF_SIGNS, PAIRS, SIGNS, SWIZZLES, Bits
from sim.nv.sass.instruction import TRUE_PREDICATE, ZERO_REGISTER, Operand
from sim.nv.sass.opcodes import Row, Slot

INSTRUCTION_SIZE = 16

_ALL_64 = (1 << 64) - 1
_WORDS = {"g": "SIGN", "r": "ROW", "c": "COL"}
_POSITIONS = {"A": 0, "B": 1, "C": 2, "Z": 1}
_VARIABLE_LATENCY = frozenset(
    {"MUFU", "F2F", "F2I", "I2F", "FRND", "FLO", "POPC", "BREV", "FCHK", "NANOSLEEP", "WARPSYNC"}
)
_CONVERSIONS = frozenset({"F2F", "F2I", "F2FP", "FRND", "I2F", "I2FP", "UI2F"})
_NUMBERS = ("F16", "F32", "F64", "BF16")
_NOT_WORDS = {"U8", "S8", "U16", "S16", "U64", "S64"}
_DOUBLE = frozenset({"DADD", "DMUL", "DFMA", "DSETP", "DMMA"})  # few such units in sm_120
_WIDE_SIZES = {"2", "64", "S64", "F64", "F32x2", "F16x4", "BF16x4"}
_WIDEST_SIZES = {"4", "128", "F32x4", "F16x8", "BF16x8"}
_SMALL = ("8816", "8832", "88128")  # shapes of matrix products with 8 rows
_MEMORY = re.compile(r"([RUI])(\d+)([we]?)(?:\*(\d+))?(?:@(\d+)(?:!(\d+))?)?(?:\+(\d+)(?=[+\]]))?")


class BadOperand(Exception):
    """A field holds what the instruction does not take; the text says which."""


@dataclass
class Code:
    """One instruction while it is decoded."""

    bits: Bits
    row: Row
    chip: int
    address: int
    modifiers: tuple[str, ...] = ()
    hidden: set[int] = field(default_factory=set)

    @property
    def form(self) -> int:
        """Which operand sits in which slot."""
        return self.row.opcode >> 9

    @property
    def next(self) -> int:
        """The address of the following instruction."""
        return self.address + INSTRUCTION_SIZE


def uniform_register(code: Code, low: int, count: int = 1) -> Operand:
    """A uniform register: 6 bits, 8 since sm_100."""
    return Operand("ureg", code.bits.take(low, 8 if code.chip >= 100 else 6), count)


def zero_uniform(chip: int) -> int:
    """The number of URZ."""
    return ZERO_REGISTER if chip >= 100 else 63


def _count(code: Code, slot: Slot) -> int:
    if slot.count == "w":
        words = {part for name in code.modifiers for part in name.split(".")}
        return 4 if words & _WIDEST_SIZES else 2 if words & _WIDE_SIZES else 1
    if slot.count == "q":
        if not code.row.opcode & 0x10:
            if 3 in (code.bits.take(75, 2), code.bits.take(84, 2)):
                raise BadOperand(f"{code.row.name} of 32 bits with a 64-bit operand")
            if code.row.name == "F2F":
                _check_types(code)
            return 1
        low = 75 if slot.kind == "R" else 84
        wide = code.bits.take(low, 2) == 3
        if not wide and code.bits.take(159 - low, 2) != 3:
            raise BadOperand(f"{code.row.name} of 64 bits without a 64-bit operand")
        if wide and code.row.name == "F2F" and code.bits.take(159 - low, 2) == 3:
            raise BadOperand("F2F between 64 bits and 64 bits")
        return 2 if wide else 1
    if slot.count == "x":
        return matrix_counts(code)["DABC".index("D" if slot.kind == "R" else slot.kind)]
    return int(slot.count or 1)


def _check_types(code: Code) -> None:
    """F2F is between different types; before sm_90 bfloat16 comes only from single precision."""
    result, source = (word for word in code.modifiers if word in _NUMBERS)
    if result == source or (code.chip < 90 and result == "BF16" and source != "F32"):
        raise BadOperand(f"F2F.{result}.{source}")


def matrix_counts(code: Code) -> tuple[int, int, int, int]:
    """Registers of the result and the three operands of a matrix product.

    Source: PTX ISA, "Matrix Fragments for mma".
    """
    name, words = code.row.name, code.modifiers
    if name == "DMMA":
        if not words[0].startswith("16"):
            return 4, 2, 2, 4
        columns = int(words[0].rpartition("x")[2])  # of A
        return 8, columns, columns // 2, 8
    result = 2 if "F16" in words or words[0] in _SMALL else 4
    return (result, *_factor_counts(name, words), result)


def _factor_counts(name: str, words: tuple[str, ...]) -> tuple[int, int]:
    """Registers of the two factors of a product of numbers narrower than double precision."""
    if words[0] in _SMALL:
        return 1, 1
    if words[0] == "SP":  # of A only half the elements are there
        few = words[1] == "1688" or (words[1] == "16816" and "TF32" not in words)
        return (2, 2) if few and name == "HMMA" else (4, 4)
    if name == "HMMA":
        wide = words[0] == "16816" or (words[0] == "1688" and "TF32" in words)
    else:
        is_narrow = "S4" in words or "U4" in words
        wide = words[0] in ("16864", "168256") or (words[0] == "16832" and not is_narrow)
    return (4, 2) if wide else (2, 1)


def read(code: Code, slot: Slot) -> Operand:
    """The operand of one slot."""
    if slot.kind.startswith("["):
        return _memory(code, slot)
    operand = _READERS[slot.kind](code, slot)
    if slot.optional and code.chip < slot.below and _is_nothing(code, operand):
        return replace(operand, hidden=True)
    return operand


def _is_nothing(code: Code, operand: Operand) -> bool:
    if operand.kind in ("pred", "upred"):
        return operand.index == TRUE_PREDICATE and not operand.inv
    if operand.kind in ("reg", "ureg"):
        zero = ZERO_REGISTER if operand.kind == "reg" else zero_uniform(code.chip)
        return operand.index == zero
    return operand.kind == "imm" and not operand.value


# The three slots of arithmetic.


def _alu(code: Code, slot: Slot) -> Operand:
    position = _POSITIONS[slot.kind]
    kind, low = ("reg", 24) if position == 0 else FORMS[code.form][position - 1]
    if kind == "imm":
        return _immediate(code, slot)
    if code.row.uniform or kind == "ureg":
        operand = uniform_register(code, low, _count(code, slot))
    elif kind == "const":
        operand = _constant(code, _count(code, slot))
    else:
        reuse = _is_reused(code, 2 if slot.kind == "Z" else position)
        operand = Operand("reg", code.bits.take(low, 8), _count(code, slot), reuse=reuse)
    if "d" in slot.mode:
        operand = replace(operand, count=max(operand.count, 2))
    return _signed(code, slot, operand, low)


def _is_reused(code: Code, position: int) -> bool:
    """The hint counts in arithmetic of fixed latency, and with the bit that used to mean yield."""
    hint = bool(code.bits.take(122 + position)) and bool(code.bits.take(109))
    name = code.row.name
    return hint and name not in _VARIABLE_LATENCY and not (code.chip == 120 and name in _DOUBLE)


def _immediate(code: Code, slot: Slot) -> Operand:
    value = code.bits.take(32, 32)
    mode = slot.mode[:1]
    if code.row.name in _CONVERSIONS:
        return _converted_immediate(code, value)
    if mode == "f":
        return Operand("fimm", 0, 32, value)
    if mode in ("d", "e"):
        return Operand("fimm", 0, 64, value)
    if mode in ("h", "m"):
        brain = ("BF16_V2",) if "BF16_V2" in code.modifiers else ()
        return Operand("fimm", 0, 16, value, modifiers=brain)
    signed = slot.mode.endswith("s")
    count = _count(code, slot)
    if signed and count == 2:
        value = code.bits.signed(32, 32) & _ALL_64
    return Operand("imm", 0, count, value, signed=signed)


def _converted_immediate(code: Code, value: int) -> Operand:
    """The number that a conversion takes: a float or an integer of its source's type."""
    name, words = code.row.name, code.modifiers
    from_integer = "I2F" in name
    kind = next((word for word in reversed(words) if word in _NUMBERS), "F32")
    if name == "F2FP":
        kind = "F32"
    if set(words) & _NOT_WORDS if from_integer else kind in ("F16", "BF16"):
        raise BadOperand(f"{'.'.join((name, *filter(None, words)))} with an immediate")
    if from_integer:
        return Operand("imm", value=value, signed="U32" not in words)
    return Operand("fimm", 0, 64 if kind == "F64" else 32, value)


def _constant(code: Code, count: int) -> Operand:
    offset = code.bits.signed(40, 14) * 4
    if code.bits.take(91):
        offset &= 0xFFFF
        return Operand("constur", 0, count, offset, ubase=uniform_register(code, 32))
    return Operand("const", 0, count, offset, bank=code.bits.take(54, 5))


def _signed(code: Code, slot: Slot, operand: Operand, low: int) -> Operand:
    """The operand with its sign, complement, and what is written behind it."""
    bits, mode = code.bits, slot.mode
    if mode[0] in "hm":
        return _half(code, slot, operand, low)
    negative, absolute = SIGNS[low]
    if mode[0] in "fdeptuvy" or mode[-1] == "i" or mode[0] == "i":
        operand = replace(operand, neg=bool(bits.take(negative)))
    if mode[0] in "fdeptuvy":
        operand = replace(operand, abs=bool(bits.take(absolute)))
    if mode[0] == "x":
        operand = replace(operand, inv=bool(bits.take(negative)))
    return replace(operand, modifiers=_suffix(code, slot, operand.kind))


def _suffix(code: Code, slot: Slot, kind: str) -> tuple[str, ...]:
    """What is written behind an operand."""
    mode = slot.mode
    if mode[0] in _WORDS:
        return (_WORDS[mode[0]],)
    if mode[0] in "pq":
        return ("H1",) * code.bits.take(int(mode[1:]))
    if mode[0] == "o":
        part = code.bits.take(int(mode[1:]), 2)
        return (f"B{part}",) if part else ()
    if mode in ("b", "y") and kind == "reg":
        return _part_of(code)
    if mode[0] not in "tuv":
        return ()
    width = 2 if mode[0] == "v" else 3
    name = PAIRS[width][code.bits.take(int(mode[1:]), width)]
    if name is None:
        raise BadOperand(f"{code.row.name} has no such pair of operand {slot.kind}")
    return (name,)


def _half(code: Code, slot: Slot, operand: Operand, low: int) -> Operand:
    negative, absolute, swizzle = HALF_SIGNS[low]
    operand = replace(
        operand,
        neg=bool(code.bits.take(negative)),
        abs=bool(code.bits.take(absolute)),
    )
    if slot.mode[0] == "m":
        return operand
    half = SWIZZLES[code.bits.take(swizzle, 2)]
    if half is None:
        raise BadOperand(f"{code.row.name} has no such half of operand {slot.kind}")
    return replace(operand, modifiers=(half,)) if half else operand


def _part_of(code: Code) -> tuple[str, ...]:
    """Which byte or half of a register is converted."""
    part = code.bits.take(60, 2)
    if not part:
        return ()
    words = set(code.modifiers)
    if words & {"U8", "S8"}:
        return (f"B{part}",)
    if words & {"U16", "S16", "F16", "BF16"} and part == 1:
        return ("H1",)
    raise BadOperand(f"{code.row.name} has no part {part} of its operand")


# Everything else.


def _register(code: Code, slot: Slot) -> Operand:
    if slot.mode.startswith("j"):
        reuse = bool(code.bits.take(int(slot.mode[1:])))
    else:
        reuse = slot.mode == "n" and _is_reused(code, (24, 32, 64).index(slot.low))
    return Operand("reg", code.bits.take(slot.low, 8), _count(code, slot), reuse=reuse)


def _uniform(code: Code, slot: Slot) -> Operand:
    return uniform_register(code, slot.low, _count(code, slot))


def _predicate(kind: str) -> Callable[[Code, Slot], Operand]:
    def reader(code: Code, slot: Slot) -> Operand:
        inverted = slot.inverted and bool(code.bits.take(slot.low + 3))
        return Operand(kind, code.bits.take(slot.low, 3), inv=inverted)

    return reader


def _number(code: Code, slot: Slot) -> Operand:
    return Operand("imm", value=code.bits.take(slot.low, slot.width))


def _signed_number(code: Code, slot: Slot) -> Operand:
    value = code.bits.signed(slot.low, slot.width)
    return Operand("imm", 0, _count(code, slot), value & _ALL_64, signed=True)


def _table(code: Code, _: Slot) -> Operand:
    return Operand("imm", value=code.bits.take(64, 3) | code.bits.take(72, 5) << 3)


def _wide_number(code: Code, _: Slot) -> Operand:
    return Operand("imm", count=2, value=code.bits.take(24, 64))


def _special(code: Code, slot: Slot) -> Operand:
    return Operand("special", code.bits.take(slot.low, 8))


def _barrier(code: Code, slot: Slot) -> Operand:
    return Operand("barrier", code.bits.take(slot.low, 4))


def _scoreboard(code: Code, slot: Slot) -> Operand:
    return Operand("scoreboard", code.bits.take(slot.low, 3))


def _all_predicates(_: Code, __: Slot) -> Operand:
    return Operand("predset")


def _indexed_constant(code: Code, slot: Slot) -> Operand:
    bits, base, ubase = code.bits, None, None
    if slot.kind == "CU":
        ubase = uniform_register(code, slot.low)
    elif slot.low:
        base = Operand("reg", bits.take(slot.low, 8))
    offset = bits.signed(54 - slot.width, slot.width)
    count = 4 if "128" in code.modifiers else 2 if "64" in code.modifiers else 1
    return Operand("const", 0, count, offset, bits.take(54, 5), base=base, ubase=ubase)


def _displacement(code: Code) -> int:
    """Bytes of a branch: 48 bits of words; since sm_90 of quarter words, with 8 more bits."""
    if code.chip < 90:
        return code.bits.signed(34, 48) * 4
    return (code.bits.signed(34, 48) << 8 | code.bits.take(16, 8)) * 4


def _label(code: Code, _: Slot) -> Operand:
    return Operand("label", value=code.next + _displacement(code))


def _near_label(code: Code, _: Slot) -> Operand:
    return Operand("label", value=code.next + code.bits.signed(34, 30) * 4)


def _absolute(code: Code, _: Slot) -> Operand:
    return Operand("label", value=_displacement(code))


def _jump(code: Code, slot: Slot) -> Operand:
    base = Operand("reg", code.bits.take(slot.low, 8), 2)
    value = _displacement(code)
    absolute = slot.mode in ("a", "c")
    shown = () if slot.mode == "l" else ("optional",) if slot.mode == "c" else ("plain",)
    if not slot.mode:
        shown = ("relative",)
    value = value if absolute else code.next + value
    return Operand("jump", value=value, base=base, modifiers=shown)


def _divergence(code: Code, slot: Slot) -> Operand:
    operand = uniform_register(code, slot.low)
    return replace(operand, inv=bool(code.bits.take(82 if code.chip >= 100 else slot.low + 6)))


def _memory(code: Code, slot: Slot) -> Operand:
    parts = {m[0]: m for m in (m.groups() for m in _MEMORY.finditer(slot.kind))}
    bits = code.bits
    _, low, wide, scale, _, _, _ = parts["R"]
    is_wide = wide == "w" or (wide == "e" and "E" in code.modifiers)
    operand = Operand("mem", wide=is_wide, value=_offset(bits, parts["I"]))
    base = Operand("reg", bits.take(int(low), 8), 2 if is_wide else 1)
    if scale:
        operand = replace(operand, scale=(1, 4, 8, 16)[bits.take(int(scale), 2)])
    if "U" not in parts or not bits.take(91):
        return replace(operand, base=base)
    _, low, _, _, descriptor, sized, _ = parts["U"]
    if sized and not is_wide:
        raise BadOperand(f"{code.row.name} with a 32-bit address")
    if sized and not bits.take(int(sized)):
        if descriptor and bits.take(int(descriptor)):
            raise BadOperand(f"{code.row.name} with a descriptor and a 32-bit base")
        # A 32-bit base that is extended with zeros, on a 64-bit uniform address.
        short = replace(operand, wide=False, modifiers=("short",))
        uniform = uniform_register(code, int(low), 2)
        return replace(short, base=replace(base, count=1), ubase=uniform)
    if descriptor and bits.take(int(descriptor)):
        pair = replace(uniform_register(code, int(low), 2), hidden=_is_short(code))
        return replace(operand, base=base, descriptor=pair)
    if sized and code.chip >= 90 and base.index == ZERO_REGISTER and code.row.name != "LDGSTS":
        raise BadOperand(f"{code.row.name} with RZ as a 64-bit base")
    uniform = uniform_register(code, int(low), 2 if is_wide else 1)
    return replace(operand, base=base, ubase=uniform)


def _is_short(code: Code) -> bool:
    """Before sm_90 descriptors are named only where bit 101 says so."""
    return code.chip < 90 and not code.bits.take(101)


def _offset(bits: Bits, part: tuple[str, ...]) -> int:
    return bits.signed(int(part[1]), int(part[6] or 24))


_READERS: Mapping[str, Callable[[Code, Slot], Operand]] = {
    "A": _alu,
    "B": _alu,
    "Z": _alu,
    "C": lambda code, slot: _indexed_constant(code, slot) if slot.width else _alu(code, slot),
    "CU": _indexed_constant,
    "R": _register,
    "U": _uniform,
    "P": _predicate("pred"),
    "Q": _predicate("upred"),
    "#": _number,
    "~": _signed_number,
    "T": _table,
    "W": _wide_number,
    "S": _special,
    "K": _barrier,
    "D": _scoreboard,
    "PR": _all_predicates,
    "L": _label,
    "N": _near_label,
    "Y": _absolute,
    "J": _jump,
    "V": _divergence,
}
