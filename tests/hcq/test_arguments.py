"""Argument blocks: literal bytes."""

import re

import numpy as np
import pytest

from hcq.arguments import Argument, ArgumentLayout, natural
from hcq.errors import FieldError, LaunchError


@pytest.mark.row("HCQ-14")
def test_natural_layout_puts_pointers_first_then_aligned_scalars():
    # u8, u64, u16, f32
    layout = natural([1, 8, 2, 4], pointers=1)
    assert [a.offset for a in layout.arguments] == [0, 8, 16, 24, 28]
    values = [0x1122334455667788, 0xAB, 0x0102030405060708, 0xCDEF, 1.0]
    assert layout.pack(values) == bytes.fromhex(
        "8877665544332211ab000000000000000807060504030201efcd00000000803f"
    )


@pytest.mark.row("HCQ-14")
def test_packed_layout_is_taken_from_offsets():
    # The same four scalars without gaps, as metadata may say.
    fields = [("a", 0, 1), ("b", 1, 8), ("c", 9, 2), ("d", 11, 4)]
    layout = ArgumentLayout(tuple(Argument(*field) for field in fields), 16)
    assert layout.pack([0xAB, 0x0102030405060708, 0xCDEF, 1.0]) == bytes.fromhex(
        "ab0807060504030201efcd0000803f00"
    )


@pytest.mark.row("HCQ-14")
def test_floats_take_the_float_of_the_arguments_size():
    assert natural([2, 4, 8]).pack([1.0, 1.0, 1.0]) == bytes.fromhex(
        "003c00000000803f000000000000f03f"
    )


@pytest.mark.row("HCQ-14")
def test_negative_ints_are_twos_complement():
    assert natural([1, 2, 4, 8]).pack([-1, -2, -3, -4]) == bytes.fromhex(
        "ff00fefffdfffffffcffffffffffffff"
    )


@pytest.mark.row("HCQ-14")
@pytest.mark.refusal
@pytest.mark.parametrize("value", [256, -129])
def test_a_value_that_does_not_fit_is_refused(value):
    with pytest.raises(FieldError, match=f"kernel k: argument scalar0={value} does not fit in 1"):
        natural([1]).pack([value], "k")


@pytest.mark.row("HCQ-14")
@pytest.mark.refusal
def test_a_float_for_an_address_is_refused():
    with pytest.raises(LaunchError, match="argument pointer0 of 8 bytes cannot be a float"):
        natural([], pointers=1).pack([1.0], "k")


@pytest.mark.row("HCQ-14")
@pytest.mark.refusal
@pytest.mark.parametrize(("size", "value"), [(2, 65520.0), (4, 1e39), (4, -1e39)])
def test_a_float_beyond_its_arguments_float_is_refused(size, value):
    match = rf"scalar0={re.escape(str(value))} does not fit in {size}"
    with pytest.raises(FieldError, match=match):
        natural([size]).pack([value], "k")


@pytest.mark.row("HCQ-14")
@pytest.mark.parametrize("value", ["inf", "-inf", "nan"])
def test_floats_that_are_no_numbers_are_floats(value):
    expected = {"inf": "0000807f", "-inf": "000080ff", "nan": "0000c07f"}
    assert natural([4]).pack([float(value)]).hex() == expected[value]


@pytest.mark.row("HCQ-14")
@pytest.mark.parametrize(
    ("value", "text"),
    [
        (np.float16(1), "003c"),
        (np.float32(3), "00004040"),
        (np.float64(3), "0000000000000840"),
        (np.int8(-1), "ff"),
        (np.int16(-2), "feff"),
        (np.int32(-3), "fdffffff"),
        (np.int64(-4), "fcffffffffffffff"),
        (np.uint32(0xFFFFFFFF), "ffffffff"),
        (np.uint64(1 << 63), "0000000000000080"),
        (np.bool_(True), "01"),
        (np.array(7, dtype=np.int32), "07000000"),  # counts as an int
    ],
)
def test_a_numpy_scalar_is_packed_as_its_own_type(value, text):
    assert natural([value.itemsize]).pack([value]).hex() == text


@pytest.mark.row("HCQ-14")
@pytest.mark.refusal
@pytest.mark.parametrize(
    ("size", "value", "what"),
    [
        (8, np.float32(3), "a numpy float32"),
        (4, np.float64(3), "a numpy float64"),
        (4, np.int64(3), "a numpy int64"),
        (8, np.int32(3), "a numpy int32"),
        (4, np.bool_(True), "a numpy bool"),
        (8, np.complex64(1), "a numpy complex64"),
        (8, np.datetime64(0, "s"), "a numpy datetime64"),
    ],
)
def test_a_numpy_scalar_of_another_size_or_kind_is_refused(size, value, what):
    match = rf"kernel k: argument scalar0 of {size} bytes cannot be {what}"
    with pytest.raises(LaunchError, match=match):
        natural([size]).pack([value], "k")


@pytest.mark.row("HCQ-14")
@pytest.mark.refusal
def test_numpy_scalars_for_addresses_are_whole_numbers():
    layout = natural([], pointers=1)
    assert layout.pack([np.uint64(0x10_0000_0000)]).hex() == "0000000010000000"
    with pytest.raises(LaunchError, match="argument pointer0 of 8 bytes cannot be a numpy float64"):
        layout.pack([np.float64(1)], "k")


@pytest.mark.row("HCQ-14")
@pytest.mark.refusal
@pytest.mark.parametrize("value", ["3", None, [3], 3j, np.array([1, 2]), np.array(1.5)])
def test_what_is_no_number_is_refused(value):
    with pytest.raises(FieldError, match=r"argument scalar0=.* does not fit in 4 bytes"):
        natural([4]).pack([value], "k")


@pytest.mark.refusal
def test_a_wrong_count_is_refused():
    with pytest.raises(LaunchError, match="kernel k takes 2 arguments, got 1"):
        natural([4, 4]).pack([1], "k")
