"""Scalar instructions of one source (SOP1), among them those that change EXEC.

Source: AMD "RDNA3" Instruction Set Architecture, section 16.3 (SOP1).
"""

from collections.abc import Callable

from sim.amd.rdna.semantics import scalar
from sim.amd.rdna.sop2 import Pair, with_nonzero
from sim.isa.value import I8, I16, I32, I64, U8, U16, U32, U64, Value, constant, where


def _same(a: Value) -> Value:
    return a


scalar("s_mov_b32", U32, to=U32)(_same)
scalar("s_mov_b64", U64, to=U64)(_same)


def _conditional(a: Value, old: Value, scc: Value) -> Value:
    return where(scc, a, old)


scalar("s_cmov_b32", U32, to=U32, reads=("old", "scc"))(_conditional)
scalar("s_cmov_b64", U64, to=U64, reads=("old", "scc"))(_conditional)


def _reverse(a: Value) -> Value:
    return a.reverse_bits()


scalar("s_brev_b32", U32, to=U32)(_reverse)
scalar("s_brev_b64", U64, to=U64)(_reverse)


def lowest_set(a: Value) -> Value:
    """Position of the lowest set bit as U32; -1 for 0."""
    return where(a == 0, 0xFFFF_FFFF, a.trailing_zeros().to(U32))


def zeros_above(a: Value) -> Value:
    """Zero bits above the highest set bit as U32; -1 for 0."""
    return where(a == 0, 0xFFFF_FFFF, a.leading_zeros().to(U32))


def sign_copies(a: Value) -> Value:
    """How many leading bits equal the sign bit, as U32; -1 if all do."""
    return zeros_above((a ^ (a >> (a.type.bits - 1))).bits(a.type.unsigned))


scalar("s_ctz_i32_b32", U32, to=U32)(lowest_set)
scalar("s_ctz_i32_b64", U64, to=U32)(lowest_set)
scalar("s_clz_i32_u32", U32, to=U32)(zeros_above)
scalar("s_clz_i32_u64", U64, to=U32)(zeros_above)
scalar("s_cls_i32", I32, to=U32)(sign_copies)
scalar("s_cls_i32_i64", I64, to=U32)(sign_copies)


@scalar("s_sext_i32_i8", U32, to=I32)
def s_sext_i32_i8(a: Value) -> Value:
    return a.to(U8).bits(I8).to(I32)


@scalar("s_sext_i32_i16", U32, to=I32)
def s_sext_i32_i16(a: Value) -> Value:
    return a.to(U16).bits(I16).to(I32)


def _clear_bit(position: Value, old: Value) -> Value:
    return old & ~_bit_at(position, old)


def _set_bit(position: Value, old: Value) -> Value:
    return old | _bit_at(position, old)


def _bit_at(position: Value, like: Value) -> Value:
    return constant(like, like.type, 1) << (position & (like.type.bits - 1))


for _bits, _type in ((32, U32), (64, U64)):
    scalar(f"s_bitset0_b{_bits}", U32, to=_type, reads=("old",))(_clear_bit)
    scalar(f"s_bitset1_b{_bits}", U32, to=_type, reads=("old",))(_set_bit)


@scalar("s_bitreplicate_b64_b32", U32, to=U64)
def s_bitreplicate_b64_b32(a: Value) -> Value:
    # Spread the 32 bits to the even places by halves, then double each.
    spread = a.to(U64)
    for shift, keep in (
        (16, 0x0000_FFFF_0000_FFFF), (8, 0x00FF_00FF_00FF_00FF), (4, 0x0F0F_0F0F_0F0F_0F0F),
        (2, 0x3333_3333_3333_3333), (1, 0x5555_5555_5555_5555),
    ):  # fmt: skip
        spread = (spread | (spread << shift)) & keep
    return spread | (spread << 1)


@scalar("s_abs_i32", I32, to=(I32, "scc"))
def s_abs_i32(a: Value) -> Pair:
    return with_nonzero(where(a < 0, -a, a))


def _count_ones(a: Value) -> Pair:
    return with_nonzero(a.popcount().to(U32))


def _count_zeros(a: Value) -> Pair:
    return with_nonzero((~a).popcount().to(U32))


for _bits, _type in ((32, U32), (64, U64)):
    scalar(f"s_bcnt0_i32_b{_bits}", _type, to=(U32, "scc"))(_count_zeros)
    scalar(f"s_bcnt1_i32_b{_bits}", _type, to=(U32, "scc"))(_count_ones)


def _any_of_quad(a: Value) -> Value:
    """Bit 4n holds whether any of bits 4n to 4n + 3 is set; the others are 0."""
    lowest = 0x1111_1111_1111_1111 & ((1 << a.type.bits) - 1)
    pairs = a | (a >> 1)
    return (pairs | (pairs >> 2)) & lowest


def _quad_mask(a: Value) -> Pair:
    packed = _any_of_quad(a)
    full = (1 << a.type.bits) - 1
    for shift, keep in (
        (3, 0x0303_0303_0303_0303), (6, 0x000F_000F_000F_000F), (12, 0x0000_00FF_0000_00FF),
        (24, 0x0000_0000_0000_FFFF),
    ):  # fmt: skip
        if shift < a.type.bits:
            packed = (packed | (packed >> shift)) & (keep & full)
    return with_nonzero(packed)


def _whole_quads(a: Value) -> Pair:
    return with_nonzero(_any_of_quad(a) * 15)


def _inverted(a: Value) -> Pair:
    return with_nonzero(~a)


for _bits, _type in ((32, U32), (64, U64)):
    scalar(f"s_quadmask_b{_bits}", _type, to=(_type, "scc"))(_quad_mask)
    scalar(f"s_wqm_b{_bits}", _type, to=(_type, "scc"))(_whole_quads)
    scalar(f"s_not_b{_bits}", _type, to=(_type, "scc"))(_inverted)


# --- EXEC: the destination gets the old EXEC (saveexec) or the new one (wrexec)

EXEC_OPERATIONS: dict[str, Callable[[Value, Value], Value]] = {
    "and": lambda a, live: a & live,
    "or": lambda a, live: a | live,
    "xor": lambda a, live: a ^ live,
    "nand": lambda a, live: ~(a & live),
    "nor": lambda a, live: ~(a | live),
    "xnor": lambda a, live: ~(a ^ live),
    "and_not0": lambda a, live: ~a & live,
    "or_not0": lambda a, live: ~a | live,
    "and_not1": lambda a, live: a & ~live,
    "or_not1": lambda a, live: a | ~live,
}


def _save(operation: Callable[[Value, Value], Value]) -> Callable[..., tuple[Value, ...]]:
    def save_exec(a: Value, live: Value) -> tuple[Value, ...]:
        updated = operation(a, live)
        return live, updated, updated != 0

    return save_exec


def _write(operation: Callable[[Value, Value], Value]) -> Callable[..., tuple[Value, ...]]:
    def write_exec(a: Value, live: Value) -> tuple[Value, ...]:
        updated = operation(a, live)
        return updated, updated, updated != 0

    return write_exec


def _register_exec() -> None:
    for name, operation in EXEC_OPERATIONS.items():
        for bits, wide in ((32, U32), (64, U64)):
            results = (wide, "exec", "scc")
            save = scalar(f"s_{name}_saveexec_b{bits}", wide, to=results, reads=("exec",))
            save(_save(operation))
            if name in ("and_not0", "and_not1"):
                write = scalar(f"s_{name}_wrexec_b{bits}", wide, to=results, reads=("exec",))
                write(_write(operation))


_register_exec()
