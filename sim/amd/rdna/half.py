"""16-bit integers, and minimum, maximum and median of three floats of any width.

Source: AMD "RDNA3" Instruction Set Architecture, section 16.10 (VOP3).
"""

from collections.abc import Callable

from sim.amd.rdna.semantics import vector
from sim.amd.rdna.vop2 import larger, maximum, minimum, shift_left, shift_right, smaller
from sim.amd.rdna.vop3 import median, saturated_difference, saturated_sum
from sim.isa.value import F16, F32, I16, I32, U16, U32, Type, Value, where

Two = Callable[[Value, Value], Value]
Three = Callable[[Value, Value, Value], Value]


def add_unsigned(a: Value, b: Value, clamp: bool) -> Value:
    """a + b, with clamp the largest value on overflow."""
    total = a + b
    return where(total < a, (1 << a.type.bits) - 1, total) if clamp else total


def subtract_unsigned(a: Value, b: Value, clamp: bool) -> Value:
    """a - b, with clamp 0 on underflow."""
    return where(a < b, 0, a - b) if clamp else a - b


for _name, _function, _type in (
    ("v_add_nc_u16", add_unsigned, U16), ("v_sub_nc_u16", subtract_unsigned, U16),
    ("v_add_nc_i16", saturated_sum, I16), ("v_sub_nc_i16", saturated_difference, I16),
):  # fmt: skip
    vector(_name, _type, _type, to=_type, reads=("clamp",))(_function)

for _name, _shift, _type in (
    ("v_lshlrev_b16", shift_left, U16), ("v_lshrrev_b16", shift_right, U16),
    ("v_ashrrev_i16", shift_right, I16),
):  # fmt: skip
    vector(_name, U16, _type, to=_type)(_shift)


@vector("v_mul_lo_u16", U16, U16, to=U16)
def v_mul_lo_u16(a: Value, b: Value) -> Value:
    return a * b


def _multiply_add(a: Value, b: Value, c: Value) -> Value:
    return a * b + c


vector("v_mad_u16", U16, U16, U16, to=U16)(_multiply_add)
vector("v_mad_i16", I16, I16, I16, to=I16)(_multiply_add)


def _widened(wide: Type) -> Three:
    return lambda a, b, c: a.to(wide) * b.to(wide) + c


vector("v_mad_u32_u16", U16, U16, U32, to=U32)(_widened(U32))
vector("v_mad_i32_i16", I16, I16, I32, to=I32)(_widened(I32))

for _type, _suffix in ((U16, "u16"), (I16, "i16")):
    vector(f"v_min_{_suffix}", _type, _type, to=_type)(smaller)
    vector(f"v_max_{_suffix}", _type, _type, to=_type)(larger)


def _twice(inner: Two, outer: Two) -> Three:
    return lambda a, b, c: outer(inner(a, b), c)


def float_median(a: Value, b: Value, c: Value) -> Value:
    """The middle of three floats; with a NaN among them, the minimum."""
    with_nan = minimum(minimum(a, b), c)
    top = maximum(maximum(a, b), c)
    middle = where(top == a, maximum(b, c), where(top == b, maximum(a, c), maximum(a, b)))
    return where(a.is_nan() | b.is_nan() | c.is_nan(), with_nan, middle)


for _type, _suffix in ((F32, "f32"), (F16, "f16")):
    for _name, _three in (
        ("v_min3", _twice(minimum, minimum)), ("v_max3", _twice(maximum, maximum)),
        ("v_maxmin", _twice(maximum, minimum)), ("v_minmax", _twice(minimum, maximum)),
        ("v_med3", float_median),
    ):  # fmt: skip
        vector(f"{_name}_{_suffix}", _type, _type, _type, to=_type)(_three)

for _type, _suffix in ((U16, "u16"), (I16, "i16")):
    for _name, _three in (
        ("v_min3", _twice(smaller, smaller)), ("v_max3", _twice(larger, larger)),
        ("v_med3", median),
    ):  # fmt: skip
        vector(f"{_name}_{_suffix}", _type, _type, _type, to=_type)(_three)
