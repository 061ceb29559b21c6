"""Comparisons into predicates and masks.

Source: mesa: src/nouveau/compiler/nak/ir.rs (OpISetP, OpFSetP, OpDSetP, OpHSetP2);
PTX ISA, "Comparison and Selection Instructions".
"""

import operator
from collections.abc import Callable

from sim.isa.value import BOOL, I32, I64, U16, U32, U64, Value, where
from sim.nv.sass.access import Access, flush
from sim.nv.sass.half import float_of
from sim.nv.sass.semantics import means

ORDERED: dict[str, Callable[[Value, Value], Value]] = {
    "LT": operator.lt, "EQ": lambda a, b: same(a, b), "LE": operator.le,
    "GT": operator.gt, "GE": operator.ge,
}  # fmt: skip


def same(a: Value, b: Value) -> Value:
    """a == b as BOOL."""
    result: Value = a == b
    return result


def different(a: Value, b: Value) -> Value:
    """a != b as BOOL; NaNs differ."""
    result: Value = a != b
    return result


def _unordered(a: Value, b: Value) -> Value:
    return a.is_nan() | b.is_nan()


def float_compare(x: Access, name: str, a: Value, b: Value) -> Value:
    """A float comparison by its name; a trailing U holds for NaNs too."""
    if name in ORDERED:
        return ORDERED[name](a, b)
    if name in ("F", "T"):
        return x.number(BOOL, name == "T")
    other: dict[str, Callable[[], Value]] = {
        "NE": lambda: (a < b) | (a > b),
        "NEU": lambda: different(a, b),
        "NAN": lambda: _unordered(a, b),
        "NUM": lambda: ~_unordered(a, b),
    }
    if name in other:
        return other[name]()
    if name.endswith("U") and name[:-1] in ORDERED:
        return ORDERED[name[:-1]](a, b) | _unordered(a, b)
    raise x.refuse("as a comparison")


def comparison(x: Access) -> str:
    """The comparison of an instruction: the first modifier that is one."""
    names = {*ORDERED, "NE", "NUM", "NAN", "LTU", "EQU", "LEU", "GTU", "NEU", "GEU", "F", "T",
             "MIN", "MAX"}  # fmt: skip
    for name in x.instruction.modifiers:
        if name in names:
            return name
    raise x.refuse("without a comparison")


def combine(x: Access, value: Value) -> None:
    """Write value and its opposite, each combined with the predicate source."""
    write_both(x, value, ~value)


def write_both(x: Access, value: Value, other: Value) -> None:
    """Write two predicates, each combined with the predicate source."""
    flag = x.flag(0)
    for at, one in enumerate((value, other)):
        if x.has_flag_result(at):
            x.write_flag(at, combined(x, one, flag))


def combined(x: Access, value: Value, flag: Value) -> Value:
    """One predicate combined with another by AND, OR or XOR."""
    if x.has("OR"):
        return value | flag
    return value ^ flag if x.has("XOR") else value & flag


@means("ISETP", "UISETP")
def isetp(x: Access) -> None:
    """Integers; EX continues a comparison of lower words."""
    name = comparison(x)
    if x.has("U64") or x.has("S64"):
        kind = U64 if x.has("U64") else I64
        a, b = x.pair(0).bits(kind), x.pair(1).bits(kind)
    else:
        kind = U32 if x.has("U32") else I32
        a, b = x.raw(0).bits(kind), x.raw(1).bits(kind)
    combine(x, _integers(x, name, a, b))


def _integers(x: Access, name: str, a: Value, b: Value) -> Value:
    if name in ("F", "T"):
        return x.number(BOOL, name == "T")
    if not x.has("EX"):
        return different(a, b) if name == "NE" else ORDERED[name](a, b)
    low = x.flag(1)
    if name == "NE":
        return different(a, b) | low
    if name == "EQ":
        return same(a, b) & low
    strict = (a < b) if name in ("LT", "LE") else (a > b)
    return strict | (same(a, b) & low)


@means("FSETP", "UFSETP")
def fsetp(x: Access) -> None:
    """Single precision."""
    combine(x, float_compare(x, comparison(x), x.f32(0), x.f32(1)))


@means("DSETP")
def dsetp(x: Access) -> None:
    """Double precision. MIN and MAX: whether a is taken; and whether the result is b, a NaN."""
    name, a, b = comparison(x), x.f64(0), x.f64(1)
    if name not in ("MIN", "MAX"):
        combine(x, float_compare(x, name, a, b))
        return
    less = _total_less(a, b) if name == "MIN" else _total_less(b, a)
    write_both(x, (less & ~a.is_nan()) | b.is_nan(), a.is_nan() & b.is_nan())


def _total_less(a: Value, b: Value) -> Value:
    """a < b, with -0 below +0."""
    negative = a.bits(I64) < 0
    return (a < b) | (same(a, b) & negative)


@means("FSET", "UFSET")
def fset(x: Access) -> None:
    """A comparison as 1.0 (BF) or all ones."""
    value = float_compare(x, comparison(x), x.f32(0), x.f32(1))
    value = combined(x, value, x.flag(0))
    ones = 0x3F80_0000 if x.has("BF") else 0xFFFF_FFFF
    x.write(where(value, x.number(U32, ones), 0))


def _packed(x: Access) -> list[Value]:
    """The comparisons of the low and the high halves."""
    brain = x.has("BF16_V2")
    sides = []
    for at in (0, 1):
        values = [float_of(half, brain) for half in x.halves(at)]
        sides.append([flush(v) for v in values] if x.flushes and not brain else values)
    name = comparison(x)
    return [float_compare(x, name, a, b) for a, b in zip(*sides, strict=True)]


@means("HSETP2")
def hsetp2(x: Access) -> None:
    """Both halves: a predicate each, or one for both with H_AND."""
    low, high = _packed(x)
    if x.has("H_AND"):
        both = low & high
        write_both(x, both, ~both)
    else:
        write_both(x, low, high)


@means("HSET2")
def hset2(x: Access) -> None:
    """Both halves as 1.0 (BF) or all ones."""
    one = (0x3F80 if x.has("BF16_V2") else 0x3C00) if x.has("BF") else 0xFFFF
    halves = [where(combined(x, v, x.flag(0)), x.number(U16, one), 0) for v in _packed(x)]
    x.write(halves[0].to(U32) | (halves[1].to(U32) << 16))
