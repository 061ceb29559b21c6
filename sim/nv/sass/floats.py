"""Single-precision arithmetic.

Denormals are kept unless the instruction says FTZ; every NaN is 0x7fffffff.

Source: PTX ISA, "Floating Point Instructions"; mesa: src/nouveau/compiler/nak/ir.rs (OpFAdd ...).
"""

from sim.isa.value import F32, F64, I32, U32, Value, fma, where
from sim.nv.sass.access import Access, flush, quiet, saturate
from sim.nv.sass.half import float_of
from sim.nv.sass.rounding import MODES, directed, odd_sum
from sim.nv.sass.semantics import means

SCALES = {"M2": 2.0, "M4": 4.0, "M8": 8.0, "D2": 0.5, "D4": 0.25, "D8": 0.125}


def rounding_of(x: Access) -> str:
    """The rounding mode of an instruction; "" is to nearest even."""
    return next((mode for mode in MODES if x.has(mode)), "")


def finish(x: Access, value: Value) -> None:
    """Flush, saturate and write."""
    if x.flushes:
        value = flush(value)
    if x.has("SAT"):
        value = saturate(value)
    x.write(value)


@means("FADD", "UFADD")
def fadd(x: Access) -> None:
    """a + b."""
    mode, a, b = rounding_of(x), x.f32(0), x.f32(1)
    if not mode:
        finish(x, a + b)
        return
    exact = odd_sum(a.to(F64), b.to(F64))
    finish(x, _zero_sum(directed(exact, F32, mode), a, b, mode))


def _zero_sum(total: Value, a: Value, b: Value, mode: str) -> Value:
    """Toward minus infinity the sum of opposite numbers is -0."""
    if mode != "RM":
        return total
    minus = a.bits(U32) != b.bits(U32)
    return where((total == 0.0) & minus, -0.0, total)


@means("FMUL", "UFMUL")
def fmul(x: Access) -> None:
    """a * b, sometimes scaled by a power of two; FMZ: 0 times anything is 0."""
    mode, a, b = rounding_of(x), x.f32(0), x.f32(1)
    scale = next((SCALES[w] for w in x.words if w in SCALES), 1.0)
    exact = bool(mode) or scale != 1.0
    result = directed(a.to(F64) * b.to(F64) * scale, F32, mode) if exact else a * b
    finish(x, _zero_wins(x, result, a, b))


def _zero_wins(x: Access, product: Value, a: Value, b: Value) -> Value:
    if not x.has("FMZ"):
        return product
    return where((a == 0.0) | (b == 0.0), 0.0, product)


@means("FFMA", "UFFMA")
def ffma(x: Access) -> None:
    """a * b + c, rounded once."""
    a, b, c = x.f32(0), x.f32(1), x.f32(2)
    result = _fused(rounding_of(x), a, b, c)
    if x.has("FMZ"):
        result = where((a == 0.0) | (b == 0.0), quiet(c), result)
    finish(x, result)


def _fused(mode: str, a: Value, b: Value, c: Value) -> Value:
    if not mode:
        return fma(a, b, c)
    exact = odd_sum(a.to(F64) * b.to(F64), c.to(F64))
    result = directed(exact, F32, mode)
    if mode == "RM":
        signs = (a.bits(U32) ^ b.bits(U32) ^ c.bits(U32)).bits(I32) < 0
        result = where((exact == 0.0) & signs, -0.0, result)
    return result


@means("FHADD")
def fhadd(x: Access) -> None:
    """a + b in single precision, a being half of a register."""
    mode, a, b = rounding_of(x), _widened(x, 0), x.f32(1)
    total = directed(odd_sum(a.to(F64), b.to(F64)), F32, mode)
    finish(x, _zero_sum(total, a, b, mode))


@means("FHFMA")
def fhfma(x: Access) -> None:
    """a * b + c in single precision, rounded once; a and b are halves of registers."""
    finish(x, _fused(rounding_of(x), _widened(x, 0), _widened(x, 1), x.f32(2)))


def _widened(x: Access, at: int) -> Value:
    """A 16-bit source in single precision, which holds all of its values."""
    return float_of(x.half(at), x.has("BF16")).to(F32)


@means("FMNMX", "UFMNMX")
def fmnmx(x: Access) -> None:
    """The lesser or greater; a number wins over a NaN unless NAN is asked for."""
    result = least_or_greatest(x, x.f32(0), x.f32(1), x.flag(0))
    if x.has("XORSIGN"):
        sign = (_plain(x, 0) ^ _plain(x, 1)) & 0x8000_0000
        raw = result.bits(U32) & 0x7FFF_FFFF
        result = where(result.is_nan(), raw, raw | sign).bits(F32)
    x.write(result)


def _plain(x: Access, at: int) -> Value:
    word = x.raw(at)
    return word ^ 0x8000_0000 if x.data[at].neg else word


@means("FMNMX3")
def fmnmx3(x: Access) -> None:
    """The least or greatest of three."""
    flag = x.flag(0)
    first = least_or_greatest(x, x.f32(0), x.f32(1), flag)
    x.write(least_or_greatest(x, first, x.f32(2), flag))


def least_or_greatest(x: Access, a: Value, b: Value, least: Value) -> Value:
    """min where `least` holds, else max; with NAN a NaN wins over a number."""
    return extreme(a, b, least, nan_wins=x.has("NAN"))


def extreme(a: Value, b: Value, least: Value, *, nan_wins: bool = False) -> Value:
    """min where `least` holds, else max; -0 is below +0; NaNs are the canonical one."""
    nan = a.constant(a.type, float("nan"))
    nan = nan + 0.0  # the canonical one
    minus = a.bits(a.type.unsigned) >> (a.type.bits - 1) != 0
    below = (a < b) | ((a == b) & minus)
    result = where(below ^ ~least, a, b)
    if nan_wins:
        return where(a.is_nan() | b.is_nan(), nan, result)
    result = where(b.is_nan(), a, where(a.is_nan(), b, result))
    return where(a.is_nan() & b.is_nan(), nan, result)


@means("FSEL", "UFSEL")
def fsel(x: Access) -> None:
    """a where the predicate holds, else b."""
    x.write(where(x.flag(0), x.f32(0), x.f32(1)))


@means("FCHK")
def fchk(x: Access) -> None:
    """Whether a / b needs the slow way: an operand or a step of the fast one may leave the range.

    Guess: the exact ranges of the hardware. These are narrower, which costs time, not bits.
    """
    a, b = (x.raw(at) >> 23 & 0xFF for at in (0, 1))
    difference = a - b + 127
    fine = (b - 3 < 247) & (a - 26 < 226) & (difference - 26 < 224)
    x.write_flag(0, ~fine)


def _pairs(x: Access, at: int) -> list[Value]:
    operand = x.data[at]
    words = [x.word(operand, part) for part in (0, 1)]
    how = operand.modifiers[0] if operand.modifiers else ""
    if how == "F32":
        words[1] = words[0]
    elif how == "F32x2.LO_HI":
        words.reverse()
    elif how.endswith("NP"):
        raise x.refuse("with an operand F32x2.HI_LO.NP")
    values = [word.bits(F32) for word in words]
    if operand.abs:
        values = [value.absolute() for value in values]
    if operand.neg:
        values = [value.negate() for value in values]
    return [flush(value) for value in values] if x.flushes else values


@means("FADD2", "FMUL2", "FFMA2")
def packed_singles(x: Access) -> None:
    """Two singles at once."""
    if rounding_of(x):
        raise x.refuse("with directed rounding")
    columns = list(zip(*(_pairs(x, at) for at in range(len(x.data))), strict=True))
    for part, values in enumerate(columns):
        if x.instruction.name == "FADD2":
            result = values[0] + values[1]
        elif x.instruction.name == "FMUL2":
            result = _zero_wins(x, values[0] * values[1], *values)
        else:
            fused = fma(*values)
            is_zero = (values[0] == 0.0) | (values[1] == 0.0)
            result = where(is_zero, quiet(values[2]), fused) if x.has("FMZ") else fused
        if x.flushes:
            result = flush(result)
        x.write_word(x.results[0], part, result.bits(U32))
