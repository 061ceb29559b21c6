"""Reciprocals, roots, exponentials, logarithms, sine and cosine.

The hardware approximates and flushes denormals, but for the hyperbolic tangent's; here they
are flushed too, and results are rounded from double precision, at most 1 ulp away. Sine and
cosine take revolutions: code multiplies by 1 / (2 pi) first.

Source: PTX ISA, "rcp.approx", "ex2.approx" and their neighbours (subnormal inputs are
flushed), "tanh" (subnormals are supported); mesa: src/nouveau/compiler/nak/ir.rs (OpMuFu).
"""

from collections.abc import Callable

from sim.isa.functions import cosine, exp2, log2, sine
from sim.isa.value import F32, F64, U32, U64, Value, where
from sim.nv.sass.access import Access, flush
from sim.nv.sass.half import float_of
from sim.nv.sass.rounding import directed
from sim.nv.sass.semantics import means

LOG2E = 1.4426950408889634


def _reciprocal(x: Value) -> Value:
    return 1.0 / x


def _root_reciprocal(x: Value) -> Value:
    return 1.0 / x.sqrt()


def _sine(x: Value) -> Value:
    result = sine(x)
    return where(x.absolute() == float("inf"), x.constant(F64, float("nan")) + 0.0, result)


def _cosine(x: Value) -> Value:
    result = cosine(x)
    return where(x.absolute() == float("inf"), x.constant(F64, float("nan")) + 0.0, result)


def _tanh(x: Value) -> Value:
    """(e - 1) / (e + 1) with e = exp(2 |x|); small arguments by their series."""
    size = x.absolute()
    limited = where(size > 20.0, 20.0, size)
    power = exp2(limited * (2.0 * LOG2E))
    large = (power - 1.0) / (power + 1.0)
    square = limited * limited
    series = 1.0 + square * (-1.0 / 3 + square * (2.0 / 15 + square * (-17.0 / 315)))
    result = where(size < 0.02, limited * series, large)
    result = where(x.bits(U64) >> 63 != 0, result.negate(), result)
    return where(x.is_nan(), x + 0.0, result)


FUNCTIONS: dict[str, Callable[[Value], Value]] = {
    "COS": _cosine, "SIN": _sine, "EX2": exp2, "LG2": log2, "RCP": _reciprocal,
    "RSQ": _root_reciprocal, "SQRT": lambda x: x.sqrt(), "TANH": _tanh,
}  # fmt: skip


@means("MUFU")
def mufu(x: Access) -> None:
    """One of FUNCTIONS, or the high word of a double's reciprocal or root."""
    name = x.instruction.modifiers[0]
    if name in ("RCP64H", "RSQ64H"):
        _high_word(x, _reciprocal if name == "RCP64H" else _root_reciprocal)
        return
    if x.has("F16"):
        half = float_of(x.half(0), False)
        result = FUNCTIONS[name](half.to(F64))
        x.write(directed(result, half.type, ""))
        return
    if x.has("BF16"):
        raise x.refuse("of bfloat16")
    if name == "TANH":
        x.write(_tanh(x.f32(0).to(F64)).to(F32))
        return
    value = flush(x.f32(0))
    if name == "RCP":
        x.write(flush(_reciprocal(value)))
        return
    if name == "SQRT":
        x.write(value.sqrt())
        return
    x.write(flush(FUNCTIONS[name](value.to(F64)).to(F32)))


def _high_word(x: Access, function: Callable[[Value], Value]) -> None:
    """The source is the high word of a double whose low word is 0; denormals are flushed."""
    operand = x.data[0]
    word = x.word(operand, 1) if operand.kind == "fimm" else x.raw(0)
    word = word & 0x7FFF_FFFF if operand.abs else word
    word = word ^ 0x8000_0000 if operand.neg else word
    exponent = word & 0x7FF0_0000
    word = where(exponent == 0, word & 0x8000_0000, word)
    result = function((word.to(U64) << 32).bits(F64)).bits(U64)
    high = (result >> 32).to(U32)
    x.write(where((high & 0x7FF0_0000) == 0, high & 0x8000_0000, high))
