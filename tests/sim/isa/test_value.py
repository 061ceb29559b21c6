"""Values on numpy lanes: the arithmetic that both engines must share, as literal answers."""

import numpy as np
import pytest

from hcq.errors import SimFault
from sim.isa.numpy_value import NumpyValue
from sim.isa.value import (
    BOOL,
    F16,
    F32,
    F64,
    I8,
    I16,
    I32,
    I64,
    U8,
    U16,
    U32,
    U64,
    constant,
    fma,
    lane_id,
    unballot,
    where,
)

NANS = {F16: 0x7E00, F32: 0x7FC0_0000, F64: 0x7FF8 << 48}


def uniform(kind, number):
    return NumpyValue.uniform(kind, number)


def from_bits(kind, raw):
    return NumpyValue.uniform(kind.unsigned, raw).bits(kind)


def bits(value):
    return value.bits(value.type.unsigned).element()


# --- integers


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (uniform(U32, 0xFFFF_FFFF) + 1, 0),
        (uniform(U32, 0) - 1, 0xFFFF_FFFF),
        (uniform(I32, -(2**31)) - 1, 2**31 - 1),
        (uniform(U64, 2**63) * 2, 0),
        (5 - uniform(I32, 7), -2),
        (uniform(I32, -8) >> 1, -4),
        (uniform(U32, 0x8000_0000) >> 31, 1),
        (uniform(U64, 1) << uniform(U32, 63), 2**63),
        (~uniform(U16, 0), 0xFFFF),
        (-uniform(I8, -128), -128),
        (uniform(U32, 0xF0).popcount(), 4),
        (uniform(U32, 1).leading_zeros(), 31),
        (uniform(U64, 0).leading_zeros(), 64),
        (uniform(U32, 8).trailing_zeros(), 3),
        (uniform(U32, 0).trailing_zeros(), 32),
        (uniform(U32, 1).reverse_bits(), 0x8000_0000),
        (uniform(U8, 0x81) ^ 1, 0x80),
    ],
)
def test_integer_operations(value, expected):
    assert value.element() == expected


@pytest.mark.parametrize(
    ("value", "target", "expected"),
    [
        (uniform(I8, -1), U32, 0xFFFF_FFFF),  # extends by the source's sign
        (uniform(U8, 0xFF), I32, 255),
        (uniform(I32, -1), U64, 2**64 - 1),
        (uniform(U32, 0x1_2345), U16, 0x2345),
        (uniform(BOOL, 1), U32, 1),
        (uniform(U32, 7), BOOL, True),
        (uniform(I64, 2**53 + 1), F64, 2.0**53),
        (uniform(U32, 0xFFFF_FFFF), F32, 4294967296.0),
        (uniform(F32, 2.9), I32, 2),
        (uniform(F32, -2.9), I32, -2),
        (uniform(F32, -1.0), U32, 0),
        (uniform(F32, 1e20), I32, 2**31 - 1),
        (uniform(F64, 1e20), U64, 2**64 - 1),
        (uniform(F64, -1e20), I64, -(2**63)),
        (uniform(F32, float("nan")), I32, 0),
        (uniform(F16, 65504.0), I16, 32767),
    ],
)
def test_conversions(value, target, expected):
    assert value.to(target).element() == expected


# --- floats


@pytest.mark.parametrize("kind", [F16, F32, F64])
def test_arithmetic_makes_the_default_nan(kind):
    infinity = uniform(kind, float("inf"))
    payload = from_bits(kind, bits(infinity) | 1)
    for value in (infinity - infinity, payload + 1.0, infinity * 0.0, uniform(kind, -1.0).sqrt()):
        assert bits(value) == NANS[kind]


def test_sign_operations_keep_a_nan():
    nan = from_bits(F32, 0x7F80_0001)
    assert bits(nan.negate()) == 0xFF80_0001
    assert bits(from_bits(F32, 0xFF80_0001).absolute()) == 0x7F80_0001


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (from_bits(F32, 1) + from_bits(F32, 1), 2),  # denormals are kept
        (uniform(F32, 1.0) / 3.0, 0x3EAA_AAAB),
        (uniform(F16, 1.0) / 3.0, 0x3555),
        (uniform(F64, 2.0).sqrt(), 0x3FF6_A09E_667F_3BCD),
        (uniform(F32, 2.5).round_even(), 0x4000_0000),
        (uniform(F32, -0.5).ceil(), 0x8000_0000),
        (uniform(F32, -1.5).truncate(), 0xBF80_0000),
        (uniform(F32, -1.5).floor(), 0xC000_0000),
        (uniform(F64, 1e-46).to(F32), 0),
        (uniform(F32, 65520.0).to(F16), 0x7C00),
    ],
)
def test_float_operations(value, expected):
    assert bits(value) == expected


@pytest.mark.parametrize(
    ("kind", "a", "b", "c", "expected"),
    [
        # Rounded twice, each of these would come out one unit lower or higher.
        (F32, 0x3F80_0001, 0x3F80_0001, 0xBF80_0002, 0x2880_0000),
        (F32, 0x3F80_0800, 0x3F80_0800, 0x0000_0001, 0x3F80_1001),
        (F16, 0x3C01, 0x3C01, 0xBC02, 0x0010),
        (F64, 0x3FF0_0000_0000_0001, 0x3FF0_0000_0000_0001, 0xBFF0_0000_0000_0002,
         0x3970_0000_0000_0000),
        (F32, 0x7F80_0000, 0, 0, 0x7FC0_0000),
    ],
)  # fmt: skip
def test_fma_rounds_once(kind, a, b, c, expected):
    assert bits(fma(from_bits(kind, a), from_bits(kind, b), from_bits(kind, c))) == expected


def test_comparisons_are_ordered_except_inequality():
    one, nan = uniform(F32, 1.0), uniform(F32, float("nan"))
    answers = [one < nan, one > nan, one <= nan, one >= nan, one == nan, one != nan]
    assert [answer.element() for answer in answers] == [False] * 5 + [True]


# --- lanes


def lanes(*numbers):
    return NumpyValue.lanes(U32, np.resize(np.array(numbers, np.uint32), 32))


def test_lane_and_uniform_operands_mix():
    assert (lane_id(lanes(0)) + uniform(U32, 5)).data.tolist() == list(range(5, 37))


def test_take_follows_its_index_modulo_the_width():
    value = lane_id(lanes(0))
    assert value.take([31, 32, 2] + [0] * 29).data.tolist()[:3] == [31, 0, 2]
    assert value.take(value ^ 1).data.tolist()[:4] == [1, 0, 3, 2]


def test_lane_makes_a_uniform_value():
    picked = lane_id(lanes(0)).lane(uniform(U32, 37))
    assert picked.is_uniform
    assert picked.element() == 5


@pytest.mark.parametrize(("width", "mask"), [(32, 0x8000_0005), (64, 0x8000_0000_0000_0005)])
def test_ballot_and_unballot_are_inverse(width, mask):
    value = NumpyValue.uniform(U32 if width == 32 else U64, mask, width)
    taken = unballot(value)
    assert [at for at, bit in enumerate(taken.data) if bit] == [0, 2, width - 1]
    assert taken.ballot().element() == mask


def test_where_takes_a_number_on_either_side():
    mask = lane_id(lanes(0)) < 2
    assert where(mask, 9, lanes(1)).data.tolist()[:3] == [9, 9, 1]
    assert where(mask, lanes(1), 9).data.tolist()[:3] == [1, 1, 9]


def test_constants_wrap_into_their_type():
    assert constant(lanes(0), U32, -1).element() == 0xFFFF_FFFF


# --- refusals


@pytest.mark.refusal
def test_operands_of_two_types_are_refused():
    with pytest.raises(TypeError, match="operands of types u32 and i32"):
        uniform(U32, 1) + uniform(I32, 1)


@pytest.mark.refusal
def test_a_value_has_no_truth():
    with pytest.raises(TypeError, match="no truth of its own"):
        bool(uniform(U32, 1) == 1)


@pytest.mark.refusal
def test_minus_of_a_float_is_refused():
    with pytest.raises(TypeError, match="only its sign bit changes"):
        -uniform(F32, 1.0)


@pytest.mark.refusal
@pytest.mark.parametrize(
    ("kind", "operation"), [(F32, "and"), (U32, "div"), (F64, "shl"), (BOOL, "div")]
)
def test_operations_that_a_type_lacks_are_refused(kind, operation):
    with pytest.raises(SimFault, match=f"{operation} is not defined for"):
        uniform(kind, 1).binary(operation, uniform(kind, 1))


@pytest.mark.refusal
def test_reinterpreting_at_another_width_is_refused():
    with pytest.raises(TypeError, match="differ in width"):
        uniform(U32, 1).bits(U64)
