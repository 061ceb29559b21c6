"""Packed instructions (two halves of a word at once), dot products and mixed-precision fma.

Source: AMD "RDNA3" Instruction Set Architecture, section 16.11 (VOP3P) and 7.6 (packed math).
"""

from collections.abc import Callable
from typing import Any

from sim.amd.rdna.convert import pack
from sim.amd.rdna.half import add_unsigned, subtract_unsigned
from sim.amd.rdna.mode import clamp_to_one
from sim.amd.rdna.semantics import Token, vector
from sim.amd.rdna.vop2 import larger, maximum, minimum, shift_left, shift_right, smaller
from sim.amd.rdna.vop3 import saturated_difference, saturated_sum
from sim.isa.value import (
    F16,
    F32,
    I16,
    I32,
    I64,
    U16,
    U32,
    U64,
    Type,
    Value,
    constant,
    fma,
    where,
)


def halves(a: Value, kind: Type) -> tuple[Value, Value]:
    """The low and high 16 bits of a U32."""
    return a.to(U16).bits(kind), (a >> 16).to(U16).bits(kind)


def _packed(name: str, function: Callable[..., Value], kind: Type, count: int) -> None:
    """Register a function of halves; floats clamp to [0, 1] like any float result."""

    def both(*arguments: Any) -> Value:
        *sources, clamp = arguments
        pairs = zip(*(halves(source, kind) for source in sources), strict=True)
        low, high = (function(*pair) for pair in pairs)
        if clamp and kind.kind == "f":
            low, high = clamp_to_one(low), clamp_to_one(high)
        return pack(low, high)

    token = "packed" if kind.kind == "f" else "packed_int"
    sources: tuple[Token, ...] = (token,) * count
    vector(name, *sources, to=U32, reads=("clamp",))(both)


def _saturating(name: str, function: Callable[[Value, Value, bool], Value], kind: Type) -> None:
    """Register a function of halves that takes clamp itself."""

    def both(a: Value, b: Value, clamp: bool) -> Value:
        (a_low, a_high), (b_low, b_high) = halves(a, kind), halves(b, kind)
        return pack(function(a_low, b_low, clamp), function(a_high, b_high, clamp))

    vector(name, "packed_int", "packed_int", to=U32, reads=("clamp",))(both)


def _sum(a: Value, b: Value) -> Value:
    return a + b


def _product(a: Value, b: Value) -> Value:
    return a * b


def _multiply_add(a: Value, b: Value, c: Value) -> Value:
    return a * b + c


for _name, _function, _kind, _count in (
    ("v_pk_add_f16", _sum, F16, 2), ("v_pk_mul_f16", _product, F16, 2),
    ("v_pk_min_f16", minimum, F16, 2), ("v_pk_max_f16", maximum, F16, 2),
    ("v_pk_fma_f16", fma, F16, 3),
    ("v_pk_mul_lo_u16", _product, U16, 2),
    ("v_pk_mad_u16", _multiply_add, U16, 3), ("v_pk_mad_i16", _multiply_add, I16, 3),
    ("v_pk_min_u16", smaller, U16, 2), ("v_pk_max_u16", larger, U16, 2),
    ("v_pk_min_i16", smaller, I16, 2), ("v_pk_max_i16", larger, I16, 2),
    ("v_pk_lshlrev_b16", shift_left, U16, 2), ("v_pk_lshrrev_b16", shift_right, U16, 2),
    ("v_pk_ashrrev_i16", shift_right, I16, 2),
):  # fmt: skip
    _packed(_name, _function, _kind, _count)

for _name, _clamped, _kind in (
    ("v_pk_add_u16", add_unsigned, U16), ("v_pk_sub_u16", subtract_unsigned, U16),
    ("v_pk_add_i16", saturated_sum, I16), ("v_pk_sub_i16", saturated_difference, I16),
):  # fmt: skip
    _saturating(_name, _clamped, _kind)


@vector("v_pk_fmac_f16", U32, U32, to=U32, reads=("old",))
def v_pk_fmac_f16(a: Value, b: Value, old: Value) -> Value:
    pairs = zip(halves(a, F16), halves(b, F16), halves(old, F16), strict=True)
    low, high = (fma(*pair) for pair in pairs)
    return pack(low, high)


# --- dot products of halves


def _wide_halves(a: Value) -> tuple[Value, Value]:
    low, high = halves(a, F16)
    return low.to(F32), high.to(F32)


def brain_halves(a: Value) -> tuple[Value, Value]:
    """Two bfloat16, which are the high halves of F32."""
    return (a << 16).bits(F32), (a & 0xFFFF_0000).bits(F32)


def to_brain(a: Value) -> Value:
    """F32 to bfloat16 bits (U16), to nearest even."""
    raw = a.bits(U32)
    rounded = (raw + 0x7FFF + ((raw >> 16) & 1)) >> 16
    return where(a.is_nan(), 0x7FC0, rounded).to(U16)


Split = Callable[[Value], tuple[Value, Value]]


def _dot2(a: Value, b: Value, c: Value, split: Split) -> Value:
    (a_low, a_high), (b_low, b_high) = split(a), split(b)
    return fma(a_high, b_high, fma(a_low, b_low, c))


@vector("v_dot2_f32_f16", "packed", "packed", F32, to=F32)
def v_dot2_f32_f16(a: Value, b: Value, c: Value) -> Value:
    return _dot2(a, b, c, _wide_halves)


@vector("v_dot2_f32_bf16", "packed", "packed", F32, to=F32)
def v_dot2_f32_bf16(a: Value, b: Value, c: Value) -> Value:
    return _dot2(a, b, c, brain_halves)


@vector("v_dot2acc_f32_f16", U32, U32, to=F32, reads=("old",))
def v_dot2acc_f32_f16(a: Value, b: Value, old: Value) -> Value:
    return _dot2(a, b, old, _wide_halves)


@vector("v_dot2acc_f32_bf16", U32, U32, to=F32, reads=("old",))
def v_dot2acc_f32_bf16(a: Value, b: Value, old: Value) -> Value:
    return _dot2(a, b, old, brain_halves)


@vector("v_dot2_f16_f16", U32, U32, F16, to=F16)
def v_dot2_f16_f16(a: Value, b: Value, c: Value) -> Value:
    return _dot2(a, b, c.to(F32), _wide_halves).to(F16)


@vector("v_dot2_bf16_bf16", U32, U32, U16, to=U16)
def v_dot2_bf16_bf16(a: Value, b: Value, c: Value) -> Value:
    return to_brain(_dot2(a, b, (c.to(U32) << 16).bits(F32), brain_halves))


# --- dot products of bytes and nibbles


def signed_field(a: Value, number: int, bits: int, signed: bool) -> Value:
    """Field `number` of `bits` bits, as I64."""
    raw = (a >> (bits * number)) & ((1 << bits) - 1)
    sign = 1 << (bits - 1)
    return (raw.to(U64) ^ sign).bits(I64) - sign if signed else raw.to(U64).bits(I64)


def integer_dot(a: Value, b: Value, bits: int, signed: tuple[bool, bool]) -> Value:
    """The sum of products of all fields, I64."""
    total = constant(a, I64, 0)
    for number in range(32 // bits):
        left = signed_field(a, number, bits, signed[0])
        total = total + left * signed_field(b, number, bits, signed[1])
    return total


def _signed_dot(bits: int) -> Callable[[Value, Value, Value, int, bool], Value]:
    def dot(a: Value, b: Value, c: Value, neg_lo: int, clamp: bool) -> Value:
        signed = bool(neg_lo & 1), bool(neg_lo & 2)
        total = integer_dot(a, b, bits, signed) + c.to(I64)
        return clamp_i32(total) if clamp else total.to(I32)

    return dot


def clamp_i32(total: Value) -> Value:
    """I64 kept within I32."""
    limited = smaller(larger(total, constant(total, I64, -(1 << 31))), _top(total, 31))
    return limited.to(I32)


def _top(like: Value, bits: int) -> Value:
    return constant(like, I64, (1 << bits) - 1)


def _unsigned_dot(bits: int) -> Callable[[Value, Value, Value, bool], Value]:
    def dot(a: Value, b: Value, c: Value, clamp: bool) -> Value:
        total = integer_dot(a, b, bits, (False, False)) + c.to(U64).bits(I64)
        return (smaller(total, _top(total, 32)) if clamp else total).bits(U64).to(U32)

    return dot


_signed_reads = ("neg_lo", "clamp")
vector("v_dot4_i32_iu8", U32, U32, I32, to=I32, reads=_signed_reads)(_signed_dot(8))
vector("v_dot8_i32_iu4", U32, U32, I32, to=I32, reads=_signed_reads)(_signed_dot(4))
vector("v_dot4_u32_u8", U32, U32, U32, to=U32, reads=("clamp",))(_unsigned_dot(8))
vector("v_dot8_u32_u4", U32, U32, U32, to=U32, reads=("clamp",))(_unsigned_dot(4))


# --- fma with sources of either precision

vector("v_fma_mix_f32", "mix", "mix", "mix", to=F32)(fma)


def _mixed_half(a: Value, b: Value, c: Value) -> Value:
    return fma(a, b, c).to(F16)


vector("v_fma_mixlo_f16", "mix", "mix", "mix", to=F16)(_mixed_half)
vector("v_fma_mixhi_f16", "mix", "mix", "mix", to="high")(_mixed_half)
