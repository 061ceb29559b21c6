"""Conversions between number types.

Source: AMD "RDNA3" Instruction Set Architecture, sections 16.7 (VOP1), 16.8 (VOP2), 16.10 (VOP3).
"""

from collections.abc import Callable

from sim.amd.rdna.semantics import vector
from sim.isa.value import (
    F16,
    F32,
    F64,
    I16,
    I32,
    U8,
    U16,
    U32,
    Type,
    Value,
    constant,
    where,
)


def _to(target: Type) -> Callable[[Value], Value]:
    return lambda a: a.to(target)


for _name, _from, _target in (
    ("v_cvt_f32_i32", I32, F32), ("v_cvt_f32_u32", U32, F32),
    ("v_cvt_i32_f32", F32, I32), ("v_cvt_u32_f32", F32, U32),
    ("v_cvt_f64_i32", I32, F64), ("v_cvt_f64_u32", U32, F64),
    ("v_cvt_i32_f64", F64, I32), ("v_cvt_u32_f64", F64, U32),
    ("v_cvt_f16_f32", F32, F16), ("v_cvt_f32_f16", F16, F32),
    ("v_cvt_f32_f64", F64, F32), ("v_cvt_f64_f32", F32, F64),
    ("v_cvt_f16_u16", U16, F16), ("v_cvt_f16_i16", I16, F16),
    ("v_cvt_u16_f16", F16, U16), ("v_cvt_i16_f16", F16, I16),
    ("v_cvt_i32_i16", I16, I32), ("v_cvt_u32_u16", U16, U32),
):  # fmt: skip
    vector(_name, _from, to=_target)(_to(_target))


@vector("v_cvt_nearest_i32_f32", F32, to=I32)
def v_cvt_nearest_i32_f32(a: Value) -> Value:
    # Halves go up; a double holds a + 0.5 exactly.
    return (a.to(F64) + 0.5).floor().to(I32)


@vector("v_cvt_floor_i32_f32", F32, to=I32)
def v_cvt_floor_i32_f32(a: Value) -> Value:
    return a.floor().to(I32)


@vector("v_cvt_off_f32_i4", U32, to=F32)
def v_cvt_off_f32_i4(a: Value) -> Value:
    signed = ((a & 15) ^ 8).bits(I32) - 8
    return signed.to(F32) * 0.0625


def _byte(number: int) -> Callable[[Value], Value]:
    return lambda a: ((a >> (8 * number)) & 0xFF).to(F32)


for _number in range(4):
    vector(f"v_cvt_f32_ubyte{_number}", U32, to=F32)(_byte(_number))


# --- packed results


def pack(low: Value, high: Value) -> Value:
    """Two 16-bit values side by side as U32."""
    return low.bits(U16).to(U32) | (high.bits(U16).to(U32) << 16)


def half_toward_zero(a: Value) -> Value:
    """F32 to F16, rounded toward zero; beyond the range the largest finite number."""
    nearest = a.to(F16)
    away = nearest.to(F32).absolute() > a.absolute()
    # One step of the encoding is one step toward zero, from infinity too.
    raw = nearest.bits(U16)
    return where(away, raw - 1, raw).bits(F16)


@vector("v_cvt_pk_rtz_f16_f32", F32, F32, to=U32)
def v_cvt_pk_rtz_f16_f32(a: Value, b: Value) -> Value:
    return pack(half_toward_zero(a), half_toward_zero(b))


@vector("v_pack_b32_f16", F16, F16, to=U32)
def v_pack_b32_f16(a: Value, b: Value) -> Value:
    return pack(a, b)


def _pack_with(convert: Callable[[Value], Value]) -> Callable[[Value, Value], Value]:
    return lambda a, b: pack(convert(a), convert(b))


def clamp_integer(a: Value, low: int, high: int) -> Value:
    """An integer kept within low and high."""
    return where(a < low, low, where(a > high, high, a))


def signed_norm(a: Value) -> Value:
    """[-1, 1] to I16: times 32767, to nearest even; NaN becomes 0."""
    return _within(a, -1.0, 32767.0).to(I16)


def unsigned_norm(a: Value) -> Value:
    """[0, 1] to U16: times 65535, to nearest even; NaN becomes 0."""
    return _within(a, 0.0, 65535.0).to(U16)


def _within(a: Value, low: float, scale: float) -> Value:
    wide = a.to(F32)
    limited = where(wide < low, low, where(wide > 1.0, 1.0, wide))
    return (limited.to(F64) * scale).round_even()


vector("v_cvt_norm_i16_f16", F16, to=I16)(signed_norm)
vector("v_cvt_norm_u16_f16", F16, to=U16)(unsigned_norm)
for _type, _suffix in ((F16, "f16"), (F32, "f32")):
    vector(f"v_cvt_pk_norm_i16_{_suffix}", _type, _type, to=U32)(_pack_with(signed_norm))
    vector(f"v_cvt_pk_norm_u16_{_suffix}", _type, _type, to=U32)(_pack_with(unsigned_norm))
vector("v_cvt_pk_i16_f32", F32, F32, to=U32)(_pack_with(_to(I16)))
vector("v_cvt_pk_u16_f32", F32, F32, to=U32)(_pack_with(_to(U16)))


@vector("v_cvt_pk_u16_u32", U32, U32, to=U32)
def v_cvt_pk_u16_u32(a: Value, b: Value) -> Value:
    return pack(clamp_integer(a, 0, 0xFFFF).to(U16), clamp_integer(b, 0, 0xFFFF).to(U16))


@vector("v_cvt_pk_i16_i32", I32, I32, to=U32)
def v_cvt_pk_i16_i32(a: Value, b: Value) -> Value:
    low, high = (clamp_integer(side, -0x8000, 0x7FFF).to(I16) for side in (a, b))
    return pack(low, high)


@vector("v_cvt_pk_u8_f32", F32, U32, U32, to=U32)
def v_cvt_pk_u8_f32(a: Value, position: Value, rest: Value) -> Value:
    shift = (position & 3) << 3
    field = constant(rest, U32, 0xFF) << shift
    return (rest & ~field) | (a.to(U8).to(U32) << shift)


@vector("v_sat_pk_u8_i16", U32, to=U16)
def v_sat_pk_u8_i16(a: Value) -> Value:
    low = clamp_integer(a.to(U16).bits(I16), 0, 0xFF).bits(U16)
    high = clamp_integer((a >> 16).to(U16).bits(I16), 0, 0xFF).bits(U16)
    return low | (high << 8)
