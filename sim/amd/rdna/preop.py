"""V_TRIG_PREOP_F64: 53 bits of 2/pi, for reducing huge arguments of sine and cosine.

Source: AMD "RDNA3" Instruction Set Architecture, section 16.12 (V_TRIG_PREOP_F64). The constant has
1201 bits after the point; bits beyond are 0.
"""

from functools import cache

from sim.amd.rdna.divide import v_ldexp_f64
from sim.amd.rdna.semantics import vector
from sim.amd.rdna.vop1 import biased_exponent
from sim.amd.rdna.vop2 import default_nan
from sim.isa.value import F64, I32, U32, U64, Value, constant, where

BITS = 1201  # of 2/pi that the hardware keeps
SEGMENT = 53
WORDS = -(-BITS // 32)


def _arctangent(inverse: int, one: int) -> int:
    """arctan(1 / inverse) * one, by its series."""
    term = total = one // inverse
    divisor, sign = 3, -1
    while term:
        term //= inverse * inverse
        total += sign * (term // divisor)
        divisor, sign = divisor + 2, -sign
    return total


@cache
def two_over_pi() -> tuple[int, ...]:
    """The fraction bits of 2/pi as 32-bit words, the highest first."""
    spare = 64
    one = 1 << BITS + spare
    pi = 16 * _arctangent(5, one) - 4 * _arctangent(239, one)  # Machin's formula
    bits = (2 * one << BITS) // pi << WORDS * 32 - BITS
    return tuple(bits >> 32 * (WORDS - 1 - at) & 0xFFFF_FFFF for at in range(WORDS))


@vector("v_trig_preop_f64", F64, U32, to=F64)
def v_trig_preop_f64(a: Value, segment: Value) -> Value:
    exponent = biased_exponent(a)
    beyond = where(exponent > 1077, exponent - 1077, 0)
    start = (segment & 31).bits(I32) * SEGMENT + beyond
    index, shift = (start >> 5).bits(U32), (start & 31).bits(U32)
    first, second, third = (_word(index + at) for at in range(3))
    high = first.to(U64) << 32 | second.to(U64)
    low = third.to(U64) >> (32 - shift).to(U64)
    bits = (high << shift.to(U64) | low) >> 64 - SEGMENT
    scale = where(exponent >= 1968, 128 - SEGMENT - start, -SEGMENT - start)
    result: Value = v_ldexp_f64(bits.to(F64), scale)
    return where(a.is_nan(), default_nan(a), result)


def _word(index: Value) -> Value:
    """A word of 2/pi per lane; 0 beyond the end."""
    result = constant(index, U32, 0)
    for at, word in enumerate(two_over_pi()):
        result = where(index == at, word, result)
    return result
