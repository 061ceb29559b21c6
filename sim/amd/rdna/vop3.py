"""Integer vector instructions of two and three sources that only VOP3 encodes.

Source: AMD "RDNA3" Instruction Set Architecture, section 16.10 (VOP3).
"""

from collections.abc import Callable

from sim.amd.rdna.semantics import vector
from sim.amd.rdna.vop2 import larger, low24, smaller
from sim.isa.value import I32, I64, U16, U32, U64, Type, Value, constant, where

Three = Callable[[Value, Value, Value], Value]

# --- products


@vector("v_mul_lo_u32", U32, U32, to=U32)
def v_mul_lo_u32(a: Value, b: Value) -> Value:
    return a * b


def _high_product(wide: Type) -> Callable[[Value, Value], Value]:
    return lambda a, b: ((a.to(wide) * b.to(wide)) >> 32).to(a.type)


vector("v_mul_hi_u32", U32, U32, to=U32)(_high_product(U64))
vector("v_mul_hi_i32", I32, I32, to=I32)(_high_product(I64))


def _mad24(a: Value, b: Value, c: Value) -> Value:
    return low24(a) * low24(b) + c


vector("v_mad_u32_u24", U32, U32, U32, to=U32)(_mad24)
vector("v_mad_i32_i24", I32, I32, I32, to=I32)(_mad24)


@vector("v_mad_u64_u32", U32, U32, U64, to=(U64, "mask"))
def v_mad_u64_u32(a: Value, b: Value, c: Value) -> tuple[Value, Value]:
    total = a.to(U64) * b.to(U64) + c
    return total, total < c


@vector("v_mad_i64_i32", I32, I32, I64, to=(I64, "mask"))
def v_mad_i64_i32(a: Value, b: Value, c: Value) -> tuple[Value, Value]:
    product = a.to(I64) * b.to(I64)
    total = product + c
    # The carry of the 65-bit sum of both sign-extended addends.
    over = ((product ^ total) & (c ^ total)) < 0
    negative: Value = total < 0
    return total, negative ^ over


# --- sums of signed words, with saturation


def saturated_sum(a: Value, b: Value, clamp: bool) -> Value:
    """Signed a + b, kept inside the type when clamp is set."""
    total = a + b
    return _saturate(a, ((a ^ total) & (b ^ total)) < 0, total) if clamp else total


def saturated_difference(a: Value, b: Value, clamp: bool) -> Value:
    """Signed a - b, kept inside the type when clamp is set."""
    rest = a - b
    return _saturate(a, ((a ^ b) & (a ^ rest)) < 0, rest) if clamp else rest


def _saturate(a: Value, over: Value, result: Value) -> Value:
    top = (1 << (a.type.bits - 1)) - 1
    # The first operand's sign says which way it went over.
    limit = where(a < 0, constant(a, a.type, -top - 1), top)
    return where(over, limit, result)


vector("v_add_nc_i32", I32, I32, to=I32, reads=("clamp",))(saturated_sum)
vector("v_sub_nc_i32", I32, I32, to=I32, reads=("clamp",))(saturated_difference)

# --- three operands at once

THREE: dict[str, Three] = {
    "v_xor3_b32": lambda a, b, c: a ^ b ^ c,
    "v_or3_b32": lambda a, b, c: a | b | c,
    "v_and_or_b32": lambda a, b, c: (a & b) | c,
    "v_add3_u32": lambda a, b, c: a + b + c,
    "v_xad_u32": lambda a, b, c: (a ^ b) + c,
    "v_lshl_add_u32": lambda a, b, c: (a << (b & 31)) + c,
    "v_add_lshl_u32": lambda a, b, c: (a + b) << (c & 31),
    "v_lshl_or_b32": lambda a, b, c: (a << (b & 31)) | c,
    "v_bfi_b32": lambda a, b, c: (a & b) | (~a & c),
}
for _name, _function in THREE.items():
    vector(_name, U32, U32, U32, to=U32)(_function)


def median(a: Value, b: Value, c: Value) -> Value:
    """The middle of three integers."""
    return larger(smaller(a, b), smaller(larger(a, b), c))


for _type, _suffix in ((I32, "i32"), (U32, "u32")):
    for _name, _function in (
        ("v_min3", lambda a, b, c: smaller(smaller(a, b), c)),
        ("v_max3", lambda a, b, c: larger(larger(a, b), c)),
        ("v_med3", median),
        ("v_maxmin", lambda a, b, c: smaller(larger(a, b), c)),
        ("v_minmax", lambda a, b, c: larger(smaller(a, b), c)),
    ):
        vector(f"{_name}_{_suffix}", _type, _type, _type, to=_type)(_function)


# --- bit fields


def _extract(a: Value, offset: Value, size: Value) -> Value:
    """size bits of a from offset (both modulo 32), extended by a's signedness; 0 for size 0."""
    start, count = offset & 31, size & 31
    spare = where(count == 0, 0, 32 - count)
    # A field that reaches past bit 31 is cut there, then extended from its own last bit.
    field = ((a.bits(U32) >> start) << spare).bits(a.type) >> spare
    past = (start + count) >= 32
    return where(count == 0, 0, where(past, a >> start, field))


vector("v_bfe_u32", U32, U32, U32, to=U32)(_extract)
vector("v_bfe_i32", I32, U32, U32, to=I32)(_extract)


@vector("v_bfm_b32", U32, U32, to=U32)
def v_bfm_b32(size: Value, offset: Value) -> Value:
    return ((constant(size, U32, 1) << (size & 31)) - 1) << (offset & 31)


@vector("v_bcnt_u32_b32", U32, U32, to=U32)
def v_bcnt_u32_b32(a: Value, b: Value) -> Value:
    return a.popcount() + b


def _align(unit: int) -> Three:
    """The 64 bits a:b shifted right by c units, low word."""

    def align(a: Value, b: Value, c: Value) -> Value:
        both = (a.to(U64) << 32) | b.to(U64)
        count = (c & (32 // unit - 1)).to(U64)
        return (both >> (count * unit)).to(U32)

    return align


vector("v_alignbit_b32", U32, U32, U16, to=U32)(_align(1))
vector("v_alignbyte_b32", U32, U32, U16, to=U32)(_align(8))


# --- how many lanes below this one are set in a mask


def _count_below(mask: Value, base: Value, lane: Value, first: int) -> Value:
    past: Value = lane >= first
    inside = where(past, lane - first, 0)
    full = lane >= first + 32
    below = (constant(lane, U32, 1) << (inside & 31)) - 1
    chosen = where(full, mask, where(past, mask & below, 0))
    return chosen.popcount() + base


@vector("v_mbcnt_lo_u32_b32", U32, U32, to=U32, reads=("lane",))
def v_mbcnt_lo_u32_b32(mask: Value, base: Value, lane: Value) -> Value:
    return _count_below(mask, base, lane, 0)


@vector("v_mbcnt_hi_u32_b32", U32, U32, to=U32, reads=("lane",))
def v_mbcnt_hi_u32_b32(mask: Value, base: Value, lane: Value) -> Value:
    return _count_below(mask, base, lane, 32)
