"""Packed half and bfloat16 arithmetic: two numbers in a register.

Half NaNs and bfloat16 NaNs are 0x7fff.

Source: PTX ISA, "Half Precision Floating Point Instructions";
mesa: src/nouveau/compiler/nak/ir.rs (OpHAdd2, OpHFma2, OpHMul2, OpHMnMx2).
"""

from dataclasses import replace

from sim.isa.value import F16, F32, F64, U16, U32, Value, fma, where
from sim.nv.sass.access import Access, flush, quiet, saturate
from sim.nv.sass.rounding import brain, odd_sum
from sim.nv.sass.semantics import means

Halves = tuple[Value, ...]


def float_of(bits: Value, is_brain: bool) -> Value:
    """A 16-bit pattern: F32 for a bfloat16, else F16."""
    return (bits.to(U32) << 16).bits(F32) if is_brain else bits.bits(F16)


def brain_of_same(value: Value) -> Value:
    """The bits (U16) of a F32 that came from a bfloat16 unchanged."""
    return where(value.is_nan(), 0x7FFF, value.bits(U32) >> 16).to(U16)


def pack(x: Access, halves: Halves) -> None:
    """Write two 16-bit patterns (U16) as a word."""
    x.write(halves[0].to(U32) | (halves[1].to(U32) << 16))


def _operands(x: Access, count: int) -> list[Halves]:
    """For the low, then the high half: the operands, F16 or (BF16_V2) F32."""
    is_brain = x.has("BF16_V2")
    sides = []
    for at in range(count):
        values = [float_of(half, is_brain) for half in x.halves(at)]
        sides.append([flush(v) for v in values] if x.flushes and not is_brain else values)
    return list(zip(*sides, strict=True))


def _finish_half(x: Access, value: Value) -> Value:
    if x.flushes:
        value = flush(value)
    if x.has("SAT"):
        value = saturate(value)
    if x.has("RELU"):
        value = where(value > 0.0, value, where(value.is_nan(), value, 0.0))
    return value.bits(U16)


def _finish_brain(x: Access, exact: Value) -> Value:
    bits = brain(exact)
    if x.has("RELU"):
        bits = where((bits & 0x8000) != 0, 0, bits)
    if x.has("SAT"):
        raise x.refuse("of bfloat16")
    return bits


@means("HADD2")
def hadd2(x: Access) -> None:
    """Sums; F32: of the low halves, in single precision."""
    if x.has("F32"):
        a, b = (value.to(F32) for value in _operands(x, 2)[0])
        total = a + b
        x.write(saturate(total) if x.has("SAT") else total)
        return
    results = []
    for a, b in _operands(x, 2):
        if x.has("BF16_V2"):
            results.append(_finish_brain(x, odd_sum(a.to(F64), b.to(F64))))
        else:
            results.append(_finish_half(x, a + b))
    pack(x, tuple(results))


@means("HMUL2")
def hmul2(x: Access) -> None:
    """Products."""
    results = []
    for a, b in _operands(x, 2):
        if x.has("BF16_V2"):
            exact = a.to(F64) * b.to(F64)
            results.append(_finish_brain(x, _zero_wins(x, a, b, exact, 0.0)))
        else:
            results.append(_finish_half(x, _zero_wins(x, a, b, a * b, 0.0)))
    pack(x, tuple(results))


@means("HFMA2")
def hfma2(x: Access) -> None:
    """Products plus c, rounded once. Compilers also make constants with it: -0 * 0 + c."""
    constant = _made_constant(x)
    if constant is not None:
        x.write(x.number(U32, constant))
        return
    results = []
    for a, b, c in _operands(x, 3):
        if x.has("BF16_V2"):
            exact = odd_sum(a.to(F64) * b.to(F64), c.to(F64))
            results.append(_finish_brain(x, _zero_wins(x, a, b, exact, quiet(c).to(F64))))
        else:
            results.append(_finish_half(x, _zero_wins(x, a, b, fma(a, b, c), quiet(c))))
    pack(x, tuple(results))


def _zero_wins(x: Access, a: Value, b: Value, result: Value, other: Value | float) -> Value:
    """FMZ: 0 times anything is 0, so that the result is `other`."""
    return where((a == 0.0) | (b == 0.0), other, result) if x.has("FMZ") else result


def _made_constant(x: Access) -> int | None:
    """The bits of c where a * b is -0 and c an immediate of plain numbers."""
    a, b, c = x.data
    if c.kind != "fimm" or x.constant_of(0) != 0 or x.constant_of(1) != 0 or not a.neg:
        return None
    exponent = 0x7F80 if x.has("BF16_V2") else 0x7C00
    plain = all(c.value >> at & exponent != exponent for at in (0, 16))
    simple = not (b.neg or c.neg or c.abs or x.flushes or x.has("SAT") or x.has("RELU"))
    return c.value if plain and simple else None


@means("HMNMX2")
def hmnmx2(x: Access) -> None:
    """The lesser or greater of each half."""
    from sim.nv.sass.floats import least_or_greatest

    results = []
    for a, b in _operands(x, 2):
        best = least_or_greatest(x, a, b, x.flag(0))
        results.append(brain_of_same(best) if x.has("BF16_V2") else best.bits(U16))
    if x.has("XORSIGN"):
        sides = zip(results, _unforced(x, 0), _unforced(x, 1), strict=True)
        results = [_with_sign(bits, a ^ b, x.has("BF16_V2")) for bits, a, b in sides]
    pack(x, tuple(results))


def _unforced(x: Access, at: int) -> Halves:
    """The bits of both halves of an operand, but for its absolute value."""
    operand = x.data[at]
    return x.halves_of(replace(operand, abs=False))


def _with_sign(bits: Value, sign: Value, is_brain: bool) -> Value:
    """A number with the sign bit of `sign`; NaNs stay."""
    size = bits & 0x7FFF
    return where(size > (0x7F80 if is_brain else 0x7C00), size, size | (sign & 0x8000))
