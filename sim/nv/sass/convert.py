"""Conversions between integers and floats of every width.

Float to integer: out of range is the nearest end; NaN is 0 with NTZ, else only the highest bit.

Source: PTX ISA, "cvt"; mesa: src/nouveau/compiler/nak/ir.rs (OpF2F, OpF2I, OpI2F, OpFRnd).
"""

from sim.isa.value import F16, F32, F64, I32, I64, U16, U32, U64, Type, Value, where
from sim.nv.sass.access import Access, flush
from sim.nv.sass.floats import rounding_of
from sim.nv.sass.half import float_of, pack
from sim.nv.sass.integer import clamp
from sim.nv.sass.rounding import brain, directed
from sim.nv.sass.semantics import means

FLOATS = ("F16", "F32", "F64", "BF16")
INTEGERS = {
    "U8": ("u", 8), "S8": ("i", 8), "U16": ("u", 16), "S16": ("i", 16), "U32": ("u", 32),
    "S32": ("i", 32), "U64": ("u", 64), "S64": ("i", 64),
}  # fmt: skip


def _float_source(x: Access, kind: str) -> Value:
    """Source 0 as F16, F32 or F64."""
    if kind == "F64":
        return x.f64(0)
    if kind == "F32":
        return x.f32(0)
    value = float_of(x.halves(0)[0], kind == "BF16")
    return flush(value) if x.flushes and kind == "F16" else value


def _store_float(x: Access, exact: Value, kind: str, mode: str) -> None:
    """Write a F64, exact or rounded to odd, as a float."""
    if kind == "F64":
        x.write(exact)
    elif kind == "BF16":
        x.write(brain(exact, mode))
    else:
        result = directed(exact, F16 if kind == "F16" else F32, mode)
        x.write(flush(result) if x.flushes and kind == "F32" else result)


@means("F2F")
def f2f(x: Access) -> None:
    """Float to float: the result's type, then the source's."""
    kinds = [w for w in x.instruction.modifiers if w in FLOATS]
    source = _float_source(x, kinds[1])
    _store_float(x, source.to(F64), kinds[0], rounding_of(x))


def _rounded(x: Access, value: Value) -> Value:
    """To a whole number, as the modifiers say."""
    if x.has("FLOOR"):
        return value.floor()
    if x.has("CEIL"):
        return value.ceil()
    return value.truncate() if x.has("TRUNC") else value.round_even()


@means("FRND")
def frnd(x: Access) -> None:
    """To a whole number of the same type."""
    kind = next((w for w in x.instruction.modifiers if w in FLOATS), "F32")
    value = _float_source(x, kind)
    result = _rounded(x, value)
    if kind == "BF16":
        bits = result.bits(U32) >> 16
        x.write(where(result.is_nan(), 0x7FFF, bits))
    else:
        x.write(result)


def _integer_type(x: Access) -> Type:
    for word in x.instruction.modifiers:
        if word in INTEGERS:
            return Type(*INTEGERS[word])
    return I32


@means("F2I")
def f2i(x: Access) -> None:
    """Float to integer."""
    kind = next((w for w in x.instruction.modifiers if w in FLOATS), "F32")
    x.write(_whole(x, _float_source(x, kind), _integer_type(x)))


def _whole(x: Access, value: Value, target: Type) -> Value:
    """A float as an integer in at least 32 bits, the nearest end where it is out of range."""
    wide = _rounded(x, value).to(F64)
    if target.bits == 64:
        result = wide.to(target)
        highest = 1 << 63
    else:
        limited = wide.to(I64)
        low = 0 if target.kind == "u" else -(1 << (target.bits - 1))
        high = (1 << (target.bits - (target.kind == "i"))) - 1
        result = clamp(limited, low, high).to(I32)
        highest = 1 << (target.bits - 1)
    nan = 0 if x.has("NTZ") else highest
    return where(value.is_nan(), nan, result.bits(result.type.unsigned))


def _integer_source(x: Access) -> Value:
    """Source 0 as I64 or U64, from the byte or half its modifiers name."""
    kind = _integer_type(x)
    if kind.bits == 64:
        return x.pair(0).bits(kind)
    word = x.raw(0)
    if kind.bits < 32:
        start = 0
        for name in x.data[0].modifiers:
            start = 16 if name == "H1" else 8 * int(name[1:]) if name.startswith("B") else start
        up = word << (32 - kind.bits - start)
        word = (up.bits(I32) >> (32 - kind.bits)).bits(U32) if kind.kind == "i" else up >> (
            32 - kind.bits
        )
    return word.bits(I32).to(I64) if kind.kind == "i" else word.to(U64)


@means("I2F", "UI2F")
def i2f(x: Access) -> None:
    """Integer to float."""
    kind = next((w for w in x.instruction.modifiers if w in FLOATS), "F32")
    source, mode = _integer_source(x), rounding_of(x)
    if _integer_type(x).bits < 64:
        if kind == "F32" and not mode:
            # Through 64 bits it is exact, so this rounds once.
            x.write(source.to(F64).to(F32))
            return
        _store_float(x, source.to(F64), kind, mode)
        return
    if kind == "F64":
        x.write(_double_of(source, mode))
    else:
        _store_float(x, _odd_double(source), kind, mode)


def _magnitude(source: Value) -> tuple[Value, Value]:
    """(sign, |source|) of a 64-bit integer."""
    negative = source < 0 if source.type.kind == "i" else source != source
    return negative, where(negative, -source, source).bits(U64)


def _odd_double(source: Value) -> Value:
    """A 64-bit integer as F64, rounded to odd: its low bits as one bit that says "something"."""
    negative, size = _magnitude(source)
    low = size & 0x7FF
    big = size >= (1 << 53)
    kept = where(big & (low != 0), (size & ~0x7FF) | 0x800, size)
    # Bit 11 is beyond what a single or a half keeps, and marks what was cut off.
    result = kept.to(F64)
    return where(negative, result.negate(), result)


def _double_of(source: Value, mode: str) -> Value:
    near = source.to(F64)
    if not mode:
        return near
    negative, size = _magnitude(source)
    whole = near.absolute()
    # 2**64 does not fit back: it is above whatever it came from.
    top = whole >= 2.0**64
    back = where(top, 0.0, whole).to(U64)
    over = top | (back > size)
    under = (back < size) & ~top
    raw = whole.bits(U64)
    if mode == "RZ":
        inward, outward = over, over & ~over
    else:
        up = negative if mode == "RM" else ~negative
        inward, outward = over & ~up, under & up
    stepped = where(inward, raw - 1, where(outward, raw + 1, raw)).bits(F64)
    return where(negative, stepped.negate(), stepped)


@means("I2FP", "UI2FP")
def i2fp(x: Access) -> None:
    """A 32-bit integer to single precision."""
    word = x.raw(0)
    wide = word.to(U64) if x.has("U32") else word.bits(I32).to(I64)
    x.write(directed(wide.to(F64), F32, rounding_of(x)))


@means("I2I")
def i2i(x: Access) -> None:
    """A 32-bit integer, saturated to a narrower one."""
    kind = Type(*INTEGERS[x.instruction.modifiers[0]])
    low = 0 if kind.kind == "u" else -(1 << (kind.bits - 1))
    high = (1 << (kind.bits - (kind.kind == "i"))) - 1
    x.write(clamp(x.i32(0), low, high))


@means("F2FP")
def f2fp(x: Access) -> None:
    """Two singles packed, a in the high half, or one merged with half of a register."""
    if x.words & {"E4M3", "E5M2", "PACK_AB_MERGE_C", "UNPACK_B", "UNPACK_B_MERGE_C"}:
        raise x.refuse("to or from 8-bit floats")
    if x.has("SATFINITE"):
        raise x.refuse("with SATFINITE")
    if x.has("MERGE_C"):
        _refuse_merging(x, 1)
        pack(x, (_narrowed(x, 0), x.number(U16, 0)))
        return
    pack(x, (_narrowed(x, 1), _narrowed(x, 0)))


def _narrowed(x: Access, at: int) -> Value:
    """Source `at`, a single, as the bits of a half or bfloat16."""
    value = x.f32(at)
    if x.has("RELU"):
        value = where(value > 0.0, value, where(value.is_nan(), value, 0.0))
    wide, mode = value.to(F64), rounding_of(x)
    return brain(wide, mode) if x.has("BF16") else directed(wide, F16, mode).bits(U16)


def _refuse_merging(x: Access, at: int) -> None:
    """How the last source is merged is not documented; with RZ the rest is zeros."""
    if x.constant_of(at) != 0:
        raise x.refuse("merged with a register")


@means("F2IP")
def f2ip(x: Access) -> None:
    """Two singles as bytes. Guess: a in the second byte."""
    _refuse_merging(x, 2)
    kind = _integer_type(x)
    packed = x.number(U32, 0)
    for place, at in ((0, 1), (8, 0)):
        value = _whole(x, x.f32(at), kind)
        if x.has("RELU"):
            value = where(value.bits(I32) < 0, 0, value)
        packed = packed | ((value & 0xFF) << place)
    x.write(packed)
