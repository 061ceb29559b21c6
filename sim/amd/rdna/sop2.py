"""Scalar instructions of two sources, and those with a 16-bit immediate (SOP2, SOPK).

Source: AMD "RDNA3" Instruction Set Architecture, sections 16.1 (SOP2) and 16.2 (SOPK).
"""

from collections.abc import Callable

from sim.amd.rdna.semantics import scalar
from sim.isa.value import I32, I64, U32, U64, Type, Value, constant, where

Pair = tuple[Value, Value]


def _sized(name: str) -> Callable[[Callable[..., Pair]], Callable[..., Pair]]:
    """Register one function for `name`_b32 and `name`_b64, both with SCC = (result != 0)."""

    def register(function: Callable[..., Pair]) -> Callable[..., Pair]:
        scalar(f"{name}_b32", U32, U32, to=(U32, "scc"))(function)
        scalar(f"{name}_b64", U64, U64, to=(U64, "scc"))(function)
        return function

    return register


def with_nonzero(value: Value) -> Pair:
    """The value, and SCC: whether it is not 0."""
    return value, value != 0


# --- sums


@scalar("s_add_u32", U32, U32, to=(U32, "scc"))
def s_add_u32(a: Value, b: Value) -> Pair:
    total = a + b
    return total, total < a


@scalar("s_sub_u32", U32, U32, to=(U32, "scc"))
def s_sub_u32(a: Value, b: Value) -> Pair:
    return a - b, b > a


@scalar("s_add_i32", I32, I32, to=(I32, "scc"))
def s_add_i32(a: Value, b: Value) -> Pair:
    total = a + b
    return total, ((a ^ total) & (b ^ total)) < 0


@scalar("s_sub_i32", I32, I32, to=(I32, "scc"))
def s_sub_i32(a: Value, b: Value) -> Pair:
    rest = a - b
    return rest, ((a ^ b) & (a ^ rest)) < 0


@scalar("s_addc_u32", U32, U32, to=(U32, "scc"), reads=("scc",))
def s_addc_u32(a: Value, b: Value, carry: Value) -> Pair:
    total = a.to(U64) + b.to(U64) + carry.to(U64)
    return total.to(U32), (total >> 32) != 0


@scalar("s_subb_u32", U32, U32, to=(U32, "scc"), reads=("scc",))
def s_subb_u32(a: Value, b: Value, borrow: Value) -> Pair:
    taken = b.to(U64) + borrow.to(U64)
    return (a.to(U64) - taken).to(U32), taken > a.to(U64)


@scalar("s_absdiff_i32", I32, I32, to=(I32, "scc"))
def s_absdiff_i32(a: Value, b: Value) -> Pair:
    rest = a - b
    return with_nonzero(where(rest < 0, -rest, rest))


@scalar("s_mul_i32", I32, I32, to=I32)
def s_mul_i32(a: Value, b: Value) -> Value:
    return a * b


@scalar("s_mul_hi_u32", U32, U32, to=U32)
def s_mul_hi_u32(a: Value, b: Value) -> Value:
    return ((a.to(U64) * b.to(U64)) >> 32).to(U32)


@scalar("s_mul_hi_i32", I32, I32, to=I32)
def s_mul_hi_i32(a: Value, b: Value) -> Value:
    return ((a.to(I64) * b.to(I64)) >> 32).to(I32)


# --- shifts


@scalar("s_lshl_b32", U32, U32, to=(U32, "scc"))
def s_lshl_b32(a: Value, count: Value) -> Pair:
    return with_nonzero(a << (count & 31))


@scalar("s_lshl_b64", U64, U32, to=(U64, "scc"))
def s_lshl_b64(a: Value, count: Value) -> Pair:
    return with_nonzero(a << (count & 63))


def _shift_right(a: Value, count: Value) -> Pair:
    return with_nonzero(a >> (count & (a.type.bits - 1)))


for _name, _type in (
    ("s_lshr_b32", U32), ("s_lshr_b64", U64), ("s_ashr_i32", I32), ("s_ashr_i64", I64),
):  # fmt: skip
    scalar(_name, _type, U32, to=(_type, "scc"))(_shift_right)


def _shift_add(shift: int) -> Callable[[Value, Value], Pair]:
    def shift_add(a: Value, b: Value) -> Pair:
        total = (a.to(U64) << shift) + b.to(U64)
        return total.to(U32), (total >> 32) != 0

    return shift_add


for _shift in (1, 2, 3, 4):
    scalar(f"s_lshl{_shift}_add_u32", U32, U32, to=(U32, "scc"))(_shift_add(_shift))


# --- minimum, maximum: SCC says that the first was chosen


def _smaller(a: Value, b: Value) -> Pair:
    first = a < b
    return where(first, a, b), first


def _larger(a: Value, b: Value) -> Pair:
    first = a >= b
    return where(first, a, b), first


for _type, _suffix in ((I32, "i32"), (U32, "u32")):
    scalar(f"s_min_{_suffix}", _type, _type, to=(_type, "scc"))(_smaller)
    scalar(f"s_max_{_suffix}", _type, _type, to=(_type, "scc"))(_larger)


# --- bits


@_sized("s_and")
def s_and(a: Value, b: Value) -> Pair:
    return with_nonzero(a & b)


@_sized("s_or")
def s_or(a: Value, b: Value) -> Pair:
    return with_nonzero(a | b)


@_sized("s_xor")
def s_xor(a: Value, b: Value) -> Pair:
    return with_nonzero(a ^ b)


@_sized("s_nand")
def s_nand(a: Value, b: Value) -> Pair:
    return with_nonzero(~(a & b))


@_sized("s_nor")
def s_nor(a: Value, b: Value) -> Pair:
    return with_nonzero(~(a | b))


@_sized("s_xnor")
def s_xnor(a: Value, b: Value) -> Pair:
    return with_nonzero(~(a ^ b))


@_sized("s_and_not1")
def s_and_not1(a: Value, b: Value) -> Pair:
    return with_nonzero(a & ~b)


@_sized("s_or_not1")
def s_or_not1(a: Value, b: Value) -> Pair:
    return with_nonzero(a | ~b)


def _extract(a: Value, control: Value) -> Pair:
    """Bits [offset + size - 1 : offset]; control holds offset in its low bits, size in [22:16]."""
    bits = a.type.bits
    offset = control & (bits - 1)
    size = (control >> 16) & 0x7F
    # Shifting left, then right by the same amount, extends by the type's signedness.
    kept = where(size > bits, bits, size)
    spare = where(kept == 0, 0, bits - kept)
    shifted = a.bits(a.type.unsigned) >> offset
    field = (shifted << spare).bits(a.type) >> spare
    return with_nonzero(where(size == 0, 0, field))


for _type, _suffix in ((U32, "u32"), (I32, "i32"), (U64, "u64"), (I64, "i64")):
    scalar(f"s_bfe_{_suffix}", _type, U32, to=(_type, "scc"))(_extract)


def _field_mask(wide: Type) -> Callable[[Value, Value], Value]:
    def field_mask(size: Value, offset: Value) -> Value:
        ones = (constant(size, wide, 1) << (size & (wide.bits - 1))) - 1
        return ones << (offset & (wide.bits - 1))

    return field_mask


scalar("s_bfm_b32", U32, U32, to=U32)(_field_mask(U32))
scalar("s_bfm_b64", U32, U32, to=U64)(_field_mask(U64))


# --- choice and packing


@scalar("s_cselect_b32", U32, U32, to=U32, reads=("scc",))
def s_cselect_b32(a: Value, b: Value, scc: Value) -> Value:
    return where(scc, a, b)


@scalar("s_cselect_b64", U64, U64, to=U64, reads=("scc",))
def s_cselect_b64(a: Value, b: Value, scc: Value) -> Value:
    return where(scc, a, b)


@scalar("s_pack_ll_b32_b16", U32, U32, to=U32)
def s_pack_ll_b32_b16(a: Value, b: Value) -> Value:
    return (a & 0xFFFF) | (b << 16)


@scalar("s_pack_lh_b32_b16", U32, U32, to=U32)
def s_pack_lh_b32_b16(a: Value, b: Value) -> Value:
    return (a & 0xFFFF) | (b & 0xFFFF_0000)


@scalar("s_pack_hh_b32_b16", U32, U32, to=U32)
def s_pack_hh_b32_b16(a: Value, b: Value) -> Value:
    return (a >> 16) | (b & 0xFFFF_0000)


@scalar("s_pack_hl_b32_b16", U32, U32, to=U32)
def s_pack_hl_b32_b16(a: Value, b: Value) -> Value:
    return (a >> 16) | (b << 16)


# --- immediate forms: the 16-bit immediate extends by sign


@scalar("s_movk_i32", to=I32, reads=("zero", "imm"))
def s_movk_i32(zero: Value, immediate: int) -> Value:
    return constant(zero, I32, immediate)


@scalar("s_cmovk_i32", to=I32, reads=("old", "scc", "imm"))
def s_cmovk_i32(old: Value, scc: Value, immediate: int) -> Value:
    return where(scc, immediate, old)


@scalar("s_addk_i32", to=(I32, "scc"), reads=("old", "imm"))
def s_addk_i32(old: Value, immediate: int) -> Pair:
    return s_add_i32(old, constant(old, I32, immediate))


@scalar("s_mulk_i32", to=I32, reads=("old", "imm"))
def s_mulk_i32(old: Value, immediate: int) -> Value:
    return old * immediate
