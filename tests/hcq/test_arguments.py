"""Argument blocks: literal bytes."""

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


@pytest.mark.refusal
def test_a_wrong_count_is_refused():
    with pytest.raises(LaunchError, match="kernel k takes 2 arguments, got 1"):
        natural([4, 4]).pack([1], "k")
