"""Vector instructions of one source (VOP1): moves, bits, rounding.

Source: AMD "RDNA3" Instruction Set Architecture, section 16.7 (VOP1).
"""

from sim.amd.rdna.semantics import vector
from sim.amd.rdna.sop1 import lowest_set, sign_copies, zeros_above
from sim.isa.value import F16, F32, F64, I16, I32, U16, U32, Value, constant, where


def _same(a: Value) -> Value:
    return a


vector("v_mov_b32", U32, to=U32)(_same)
vector("v_mov_b16", U16, to=U16)(_same)


def _inverted(a: Value) -> Value:
    return ~a


vector("v_not_b32", U32, to=U32)(_inverted)
vector("v_not_b16", U16, to=U16)(_inverted)


@vector("v_bfrev_b32", U32, to=U32)
def v_bfrev_b32(a: Value) -> Value:
    return a.reverse_bits()


vector("v_clz_i32_u32", U32, to=U32)(zeros_above)
vector("v_ctz_i32_b32", U32, to=U32)(lowest_set)
vector("v_cls_i32", I32, to=U32)(sign_copies)


def _swapped(a: Value, b: Value) -> tuple[Value, Value]:
    return b, a


vector("v_swap_b32", U32, U32, to=(U32, U32))(_swapped)
vector("v_swap_b16", U16, U16, to=(U16, U16))(_swapped)


# --- rounding


def _floor(a: Value) -> Value:
    return a.floor()


def _ceil(a: Value) -> Value:
    return a.ceil()


def _truncate(a: Value) -> Value:
    return a.truncate()


def _round_even(a: Value) -> Value:
    return a.round_even()


# The largest value below 1: the fraction of a tiny negative number must not round up to 1.
BELOW_ONE = {16: 0x3BFF, 32: 0x3F7F_FFFF, 64: 0x3FEF_FFFF_FFFF_FFFF}


def fraction(a: Value) -> Value:
    """a - floor(a), below 1."""
    limit = constant(a, a.type.unsigned, BELOW_ONE[a.type.bits]).bits(a.type)
    rest = a - a.floor()
    return where(rest > limit, limit, rest)


for _type, _suffix in ((F16, "f16"), (F32, "f32"), (F64, "f64")):
    vector(f"v_floor_{_suffix}", _type, to=_type)(_floor)
    vector(f"v_ceil_{_suffix}", _type, to=_type)(_ceil)
    vector(f"v_trunc_{_suffix}", _type, to=_type)(_truncate)
    vector(f"v_rndne_{_suffix}", _type, to=_type)(_round_even)
    vector(f"v_fract_{_suffix}", _type, to=_type)(fraction)


# --- mantissa and exponent

BIAS = {16: 15, 32: 127, 64: 1023}
MANTISSA = {16: 10, 32: 23, 64: 52}


def biased_exponent(a: Value) -> Value:
    """The exponent field, as I32; 0 for zero and denormals."""
    field = a.absolute().bits(a.type.unsigned) >> MANTISSA[a.type.bits]
    return field.to(U32).bits(I32)


def is_finite(a: Value) -> Value:
    """BOOL: neither infinite nor NaN."""
    return a.absolute() < float("inf")


def _normalised(a: Value) -> tuple[Value, Value]:
    """a with denormals scaled up to normal numbers, and the exponent to add back (I32)."""
    shift = MANTISSA[a.type.bits] + 1
    tiny = biased_exponent(a) == 0
    scale = constant(a, a.type, float(1 << shift))
    return where(tiny, a * scale, a), where(tiny, constant(a, I32, -shift), 0)


def frexp_exponent(a: Value) -> Value:
    """The exponent that puts the mantissa into [0.5, 1), I32; 0 for 0, inf and NaN."""
    normal, added = _normalised(a)
    exponent = biased_exponent(normal) - (BIAS[a.type.bits] - 1) + added
    return where(is_finite(a) & (a != 0.0), exponent, 0)


def frexp_mantissa(a: Value) -> Value:
    """The mantissa in [0.5, 1) with the sign; 0, inf and NaN come back."""
    normal, _ = _normalised(a)
    bits, mantissa = a.type.bits, MANTISSA[a.type.bits]
    keep = (1 << (bits - 1)) | ((1 << mantissa) - 1)
    half = (BIAS[bits] - 1) << mantissa
    scaled = ((normal.bits(a.type.unsigned) & keep) | half).bits(a.type)
    return where(is_finite(a) & (a != 0.0), scaled, a)


@vector("v_frexp_exp_i16_f16", F16, to=I16)
def v_frexp_exp_i16_f16(a: Value) -> Value:
    return frexp_exponent(a).to(I16)


vector("v_frexp_exp_i32_f32", F32, to=I32)(frexp_exponent)
vector("v_frexp_exp_i32_f64", F64, to=I32)(frexp_exponent)
for _type, _suffix in ((F16, "f16"), (F32, "f32"), (F64, "f64")):
    vector(f"v_frexp_mant_{_suffix}", _type, to=_type)(frexp_mantissa)
