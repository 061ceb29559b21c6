"""Vector instructions of two sources (VOP2).

Source: AMD "RDNA3" Instruction Set Architecture, section 16.8 (VOP2).
"""

from collections.abc import Callable
from operator import add, mul, sub

from sim.amd.rdna.semantics import vector
from sim.isa.value import (
    F16,
    F32,
    F64,
    I32,
    I64,
    QUIET_NAN,
    U16,
    U32,
    U64,
    Type,
    Value,
    constant,
    fma,
    where,
)  # fmt: skip

Pair = tuple[Value, Value]


def reversed_sub(a: Value, b: Value) -> Value:
    """b - a."""
    return b - a


# --- float arithmetic

for _type, _suffix in ((F32, "f32"), (F16, "f16")):
    vector(f"v_add_{_suffix}", _type, _type, to=_type)(add)
    vector(f"v_sub_{_suffix}", _type, _type, to=_type)(sub)
    vector(f"v_subrev_{_suffix}", _type, _type, to=_type)(reversed_sub)
    vector(f"v_mul_{_suffix}", _type, _type, to=_type)(mul)
    # Accumulating, with the literal as addend and with the literal as factor.
    vector(f"v_fmac_{_suffix}", _type, _type, to=_type, reads=("old",))(fma)
    vector(f"v_fmaak_{_suffix}", _type, _type, _type, to=_type)(fma)
    vector(f"v_fmamk_{_suffix}", _type, _type, _type, to=_type)(fma)
    vector(f"v_fma_{_suffix}", _type, _type, _type, to=_type)(fma)

vector("v_add_f64", F64, F64, to=F64)(add)
vector("v_mul_f64", F64, F64, to=F64)(mul)
vector("v_fma_f64", F64, F64, F64, to=F64)(fma)


def multiply_zero_wins(a: Value, b: Value) -> Value:
    """a * b, but +0 where either is 0, whatever the other is."""
    return where((a == 0.0) | (b == 0.0), 0.0, a * b)


def _fused_zero_wins(a: Value, b: Value, c: Value) -> Value:
    return where((a == 0.0) | (b == 0.0), constant(a, a.type, 0.0) + c, fma(a, b, c))


vector("v_mul_dx9_zero_f32", F32, F32, to=F32)(multiply_zero_wins)
vector("v_fmac_dx9_zero_f32", F32, F32, to=F32, reads=("old",))(_fused_zero_wins)
vector("v_fma_dx9_zero_f32", F32, F32, F32, to=F32)(_fused_zero_wins)


# --- float minimum and maximum. The IEEE mode bit is set in every compute kernel: a NaN loses
# against a number, a signalling NaN makes the result NaN, -0 is below +0.


def default_nan(like: Value) -> Value:
    """The quiet NaN of like's type."""
    return constant(like, like.type.unsigned, QUIET_NAN[like.type.bits]).bits(like.type)


def is_signalling(a: Value) -> Value:
    """BOOL: a NaN whose quiet bit is clear."""
    quiet = {16: 1 << 9, 32: 1 << 22, 64: 1 << 51}[a.type.bits]
    loud: Value = (a.bits(a.type.unsigned) & quiet) == 0
    return a.is_nan() & loud


def minimum(a: Value, b: Value) -> Value:
    """The smaller number."""
    same: Value = a == b
    return _chosen(a, b, (a < b) | (same & _is_negative(a)))


def maximum(a: Value, b: Value) -> Value:
    """The larger number."""
    same: Value = a == b
    return _chosen(a, b, (a > b) | (same & ~_is_negative(a)))


def _chosen(a: Value, b: Value, first: Value) -> Value:
    nan = default_nan(a)
    number = where(a.is_nan(), b, where(b.is_nan() | first, a, b))
    bad = is_signalling(a) | is_signalling(b) | (a.is_nan() & b.is_nan())
    return where(bad, nan, number)


def _is_negative(a: Value) -> Value:
    negative: Value = (a.bits(a.type.unsigned) >> (a.type.bits - 1)) != 0
    return negative


for _type, _suffix in ((F32, "f32"), (F16, "f16"), (F64, "f64")):
    vector(f"v_min_{_suffix}", _type, _type, to=_type)(minimum)
    vector(f"v_max_{_suffix}", _type, _type, to=_type)(maximum)


# --- integers


def smaller(a: Value, b: Value) -> Value:
    """Integer minimum."""
    return where(a < b, a, b)


def larger(a: Value, b: Value) -> Value:
    """Integer maximum."""
    return where(a > b, a, b)


for _type, _suffix in ((I32, "i32"), (U32, "u32")):
    vector(f"v_min_{_suffix}", _type, _type, to=_type)(smaller)
    vector(f"v_max_{_suffix}", _type, _type, to=_type)(larger)


def shift_left(count: Value, a: Value) -> Value:
    """a << count, the count taken modulo the width."""
    return a << (count & (a.type.bits - 1))


def shift_right(count: Value, a: Value) -> Value:
    """a >> count, the count taken modulo the width."""
    return a >> (count & (a.type.bits - 1))


for _name, _function, _type in (
    ("v_lshlrev_b32", shift_left, U32), ("v_lshlrev_b64", shift_left, U64),
    ("v_lshrrev_b32", shift_right, U32), ("v_lshrrev_b64", shift_right, U64),
    ("v_ashrrev_i32", shift_right, I32), ("v_ashrrev_i64", shift_right, I64),
):  # fmt: skip
    vector(_name, U32, _type, to=_type)(_function)


def bit_and(a: Value, b: Value) -> Value:
    """Bitwise and."""
    return a & b


def bit_or(a: Value, b: Value) -> Value:
    """Bitwise or."""
    return a | b


def bit_xor(a: Value, b: Value) -> Value:
    """Bitwise exclusive or."""
    return a ^ b


for _bits, _type in ((32, U32), (16, U16)):
    vector(f"v_and_b{_bits}", _type, _type, to=_type)(bit_and)
    vector(f"v_or_b{_bits}", _type, _type, to=_type)(bit_or)
    vector(f"v_xor_b{_bits}", _type, _type, to=_type)(bit_xor)


@vector("v_xnor_b32", U32, U32, to=U32)
def v_xnor_b32(a: Value, b: Value) -> Value:
    return ~(a ^ b)


@vector("v_cndmask_b32", U32, U32, "mask", to=U32)
def v_cndmask_b32(no: Value, yes: Value, mask: Value) -> Value:
    return where(mask, yes, no)


@vector("v_cndmask_b16", U16, U16, "mask", to=U16)
def v_cndmask_b16(no: Value, yes: Value, mask: Value) -> Value:
    return where(mask, yes, no)


# --- sums with saturation (clamp) and with carry


@vector("v_add_nc_u32", U32, U32, to=U32, reads=("clamp",))
def v_add_nc_u32(a: Value, b: Value, clamp: bool) -> Value:
    total = a + b
    return where(total < a, 0xFFFF_FFFF, total) if clamp else total


@vector("v_sub_nc_u32", U32, U32, to=U32, reads=("clamp",))
def v_sub_nc_u32(a: Value, b: Value, clamp: bool) -> Value:
    return where(a < b, 0, a - b) if clamp else a - b


@vector("v_subrev_nc_u32", U32, U32, to=U32, reads=("clamp",))
def v_subrev_nc_u32(a: Value, b: Value, clamp: bool) -> Value:
    return v_sub_nc_u32(b, a, clamp)


@vector("v_add_co_ci_u32", U32, U32, "mask", to=(U32, "mask"), reads=("clamp",))
def v_add_co_ci_u32(a: Value, b: Value, carry: Value, clamp: bool) -> Pair:
    partial = a + b
    total = partial + carry.to(U32)
    over = (partial < a) | (total < partial)
    return (where(over, 0xFFFF_FFFF, total) if clamp else total), over


@vector("v_sub_co_ci_u32", U32, U32, "mask", to=(U32, "mask"), reads=("clamp",))
def v_sub_co_ci_u32(a: Value, b: Value, borrow: Value, clamp: bool) -> Pair:
    rest = a - b - borrow.to(U32)
    under = (a < b) | ((a == b) & borrow)
    return (where(under, 0, rest) if clamp else rest), under


@vector("v_subrev_co_ci_u32", U32, U32, "mask", to=(U32, "mask"), reads=("clamp",))
def v_subrev_co_ci_u32(a: Value, b: Value, borrow: Value, clamp: bool) -> Pair:
    return v_sub_co_ci_u32(b, a, borrow, clamp)


@vector("v_add_co_u32", U32, U32, to=(U32, "mask"), reads=("clamp",))
def v_add_co_u32(a: Value, b: Value, clamp: bool) -> Pair:
    return v_add_nc_u32(a, b, clamp), (a + b) < a


@vector("v_sub_co_u32", U32, U32, to=(U32, "mask"), reads=("clamp",))
def v_sub_co_u32(a: Value, b: Value, clamp: bool) -> Pair:
    return v_sub_nc_u32(a, b, clamp), a < b


@vector("v_subrev_co_u32", U32, U32, to=(U32, "mask"), reads=("clamp",))
def v_subrev_co_u32(a: Value, b: Value, clamp: bool) -> Pair:
    return v_sub_co_u32(b, a, clamp)


# --- 24-bit multiplication


def low24(a: Value) -> Value:
    """The low 24 bits, extended by the type's signedness."""
    return (a << 8) >> 8


def _product24(wide: Type, shift: int) -> Callable[[Value, Value], Value]:
    def product(a: Value, b: Value) -> Value:
        return ((low24(a).to(wide) * low24(b).to(wide)) >> shift).to(a.type)

    return product


for _name, _type, _wide, _shift in (
    ("v_mul_i32_i24", I32, I64, 0), ("v_mul_hi_i32_i24", I32, I64, 32),
    ("v_mul_u32_u24", U32, U64, 0), ("v_mul_hi_u32_u24", U32, U64, 32),
):  # fmt: skip
    vector(_name, _type, _type, to=_type)(_product24(_wide, _shift))
