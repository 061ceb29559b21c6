"""Vector comparisons: a lane mask to VCC or scalar registers, or (v_cmpx) to EXEC.

Source: AMD "RDNA3" Instruction Set Architecture, section 16.9 (VOPC).
"""

from collections.abc import Callable
from operator import eq, ge, gt, le, lt, ne

from sim.amd.rdna.semantics import vector
from sim.amd.rdna.vop2 import is_signalling
from sim.isa.value import (
    BOOL,
    F16,
    F32,
    F64,
    I16,
    I32,
    I64,
    U16,
    U32,
    U64,
    Type,
    Value,
    constant,
)  # fmt: skip

Relation = Callable[[Value, Value], Value]


def _never(a: Value, b: Value) -> Value:
    return constant(a, BOOL, 0)


def _always(a: Value, b: Value) -> Value:
    return constant(a, BOOL, 1)


def _unordered(a: Value, b: Value) -> Value:
    return a.is_nan() | b.is_nan()


def _not(relation: Relation) -> Relation:
    return lambda a, b: ~relation(a, b)


def _ordered_different(a: Value, b: Value) -> Value:
    return (a < b) | (a > b)


INTEGER: dict[str, Relation] = {
    "f": _never, "lt": lt, "eq": eq, "le": le, "gt": gt, "ne": ne, "ge": ge, "t": _always,
}  # fmt: skip
FLOAT: dict[str, Relation] = {
    "f": _never, "lt": lt, "eq": eq, "le": le, "gt": gt, "lg": _ordered_different, "ge": ge,
    "o": _not(_unordered), "u": _unordered, "nge": _not(ge), "nlg": _not(_ordered_different),
    "ngt": _not(gt), "nle": _not(le), "neq": ne, "nlt": _not(lt), "t": _always,
}  # fmt: skip
TYPES = {
    "f16": F16, "f32": F32, "f64": F64, "i16": I16, "u16": U16, "i32": I32, "u32": U32,
    "i64": I64, "u64": U64,
}  # fmt: skip


def _both(name: str, first: Type, second: Type, relation: Relation) -> None:
    vector(f"v_cmp_{name}", first, second, to="mask")(relation)
    vector(f"v_cmpx_{name}", first, second, to="exec")(relation)


def _register() -> None:
    for suffix, type_ in TYPES.items():
        for name, relation in (FLOAT if type_.kind == "f" else INTEGER).items():
            if type_.bits > 16 or type_.kind == "f" or name not in ("f", "t"):
                _both(f"{name}_{suffix}", type_, type_, relation)


_register()

MANTISSA_BITS = {16: 10, 32: 23, 64: 52}


def classify(a: Value, wanted: Value) -> Value:
    """BOOL: whether the class of a is among the bits of wanted (U32).

    Bits: 0 signalling NaN, 1 quiet NaN, 2 -inf, 3 -normal, 4 -denormal, 5 -0, 6 +0,
    7 +denormal, 8 +normal, 9 +inf.
    """
    negative = (a.bits(a.type.unsigned) >> (a.type.bits - 1)) != 0
    nan, size = a.is_nan(), a.absolute()
    zero = size == 0.0
    infinite = size == float("inf")
    lowest_normal = constant(a, a.type.unsigned, 1 << MANTISSA_BITS[a.type.bits]).bits(a.type)
    denormal = (size < lowest_normal) & ~zero
    normal = (size >= lowest_normal) & ~infinite
    signalling = is_signalling(a)
    found = _wants(wanted, 0) & signalling | _wants(wanted, 1) & nan & ~signalling
    for kind, below, above in (
        (infinite, 2, 9), (normal, 3, 8), (denormal, 4, 7), (zero, 5, 6),
    ):  # fmt: skip
        found = found | _wants(wanted, below) & kind & negative
        found = found | _wants(wanted, above) & kind & ~negative
    return found


def _wants(wanted: Value, bit: int) -> Value:
    wants: Value = (wanted & (1 << bit)) != 0
    return wants


_both("class_f16", F16, U32, classify)
_both("class_f32", F32, U32, classify)
_both("class_f64", F64, U32, classify)
