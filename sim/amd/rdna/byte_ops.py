"""Instructions on the four bytes of a word: permutation, sums of differences, averages.

Source: AMD "RDNA3" Instruction Set Architecture, section 16.10 (V_PERM_B32, V_SAD_U8 ...).
"""

from collections.abc import Callable

from sim.amd.rdna.semantics import vector
from sim.isa.value import U16, U32, U64, Value, constant, where

Three = Callable[[Value, Value, Value], Value]


def byte(a: Value, number: int) -> Value:
    """One byte, zero-extended."""
    return (a >> (8 * number)) & 0xFF


@vector("v_perm_b32", U32, U32, U32, to=U32)
def v_perm_b32(high: Value, low: Value, selectors: Value) -> Value:
    both = (high.to(U64) << 32) | low.to(U64)
    result = constant(low, U32, 0)
    for position in range(4):
        result = result | (_selected(both, byte(selectors, position)) << (8 * position))
    return result


def _selected(both: Value, selector: Value) -> Value:
    """0-7: a byte of the eight; 8-11: the sign of byte 1, 3, 5, 7; 12: 0; above: 0xff."""
    picked = ((both >> ((selector & 7) << 3)) & 0xFF).to(U32)
    sign_at = ((selector & 3) << 4) + 15
    sign = ((both >> sign_at) & 1).to(U32) * 0xFF
    fixed = where(selector == 12, 0, constant(picked, U32, 0xFF))
    return where(selector < 8, picked, where(selector < 12, sign, fixed))


def difference(a: Value, b: Value) -> Value:
    """|a - b| of unsigned values."""
    return where(a > b, a - b, b - a)


def _byte_differences(a: Value, b: Value, *, masked: bool = False) -> Value:
    """The sum over four bytes; masked leaves out those where b's byte is 0."""
    total = constant(a, U32, 0)
    for number in range(4):
        left, right = byte(a, number), byte(b, number)
        one = difference(left, right)
        total = total + (where(right == 0, 0, one) if masked else one)
    return total


@vector("v_sad_u8", U32, U32, U32, to=U32)
def v_sad_u8(a: Value, b: Value, c: Value) -> Value:
    return _byte_differences(a, b) + c


@vector("v_sad_hi_u8", U32, U32, U32, to=U32)
def v_sad_hi_u8(a: Value, b: Value, c: Value) -> Value:
    return (_byte_differences(a, b) << 16) + c


@vector("v_msad_u8", U32, U32, U32, to=U32)
def v_msad_u8(a: Value, b: Value, c: Value) -> Value:
    return _byte_differences(a, b, masked=True) + c


@vector("v_sad_u16", U32, U32, U32, to=U32)
def v_sad_u16(a: Value, b: Value, c: Value) -> Value:
    return difference(a & 0xFFFF, b & 0xFFFF) + difference(a >> 16, b >> 16) + c


@vector("v_sad_u32", U32, U32, U32, to=U32)
def v_sad_u32(a: Value, b: Value, c: Value) -> Value:
    return difference(a, b) + c


def _four_windows(*, masked: bool) -> Three:
    """Differences of b's bytes with four windows of a, each added to 16 bits of c."""

    def windows(a: Value, b: Value, c: Value) -> Value:
        result = constant(a, U64, 0)
        for position in range(4):
            window = (a >> (8 * position)).to(U32)
            base = (c >> (16 * position)).to(U16).to(U32)
            total = _byte_differences(window, b, masked=masked) + base
            result = result | (total.to(U16).to(U64) << (16 * position))
        return result

    return windows


vector("v_qsad_pk_u16_u8", U64, U32, U64, to=U64)(_four_windows(masked=False))
vector("v_mqsad_pk_u16_u8", U64, U32, U64, to=U64)(_four_windows(masked=True))


@vector("v_mqsad_u32_u8", U64, U32, 4, to=4)
def v_mqsad_u32_u8(a: Value, b: Value, c: tuple[Value, ...]) -> tuple[Value, ...]:
    windows = [(a >> (8 * position)).to(U32) for position in range(4)]
    return tuple(
        _byte_differences(window, b, masked=True) + base
        for window, base in zip(windows, c, strict=True)
    )


@vector("v_lerp_u8", U32, U32, U32, to=U32)
def v_lerp_u8(a: Value, b: Value, c: Value) -> Value:
    result = constant(a, U32, 0)
    for number in range(4):
        round_up = byte(c, number) & 1
        average = (byte(a, number) + byte(b, number) + round_up) >> 1
        result = result | (average << (8 * number))
    return result
