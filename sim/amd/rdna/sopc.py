"""Scalar comparisons: the result is SCC (SOPC, and SOPK's comparisons with an immediate).

Source: AMD "RDNA3" Instruction Set Architecture, sections 16.4 (SOPC) and 16.2 (SOPK).
"""

from collections.abc import Callable
from operator import eq, ge, gt, le, lt, ne

from sim.amd.rdna.semantics import scalar
from sim.isa.value import I32, U32, U64, Type, Value, constant

RELATIONS: dict[str, Callable[[Value, Value], Value]] = {
    "eq": eq, "lg": ne, "gt": gt, "ge": ge, "lt": lt, "le": le,
}  # fmt: skip


def _immediate(
    relation: Callable[[Value, Value], Value], wide: Type
) -> Callable[[Value, int], Value]:
    def compare(a: Value, immediate: int) -> Value:
        # Unsigned forms extend the 16 bits with zeros.
        number = immediate if wide == I32 else immediate & 0xFFFF
        return relation(a, constant(a, wide, number))

    return compare


def _register() -> None:
    for name, relation in RELATIONS.items():
        for wide, suffix in ((I32, "i32"), (U32, "u32")):
            scalar(f"s_cmp_{name}_{suffix}", wide, wide, to="scc")(relation)
            compare = _immediate(relation, wide)
            scalar(f"s_cmpk_{name}_{suffix}", wide, to="scc", reads=("imm",))(compare)
    scalar("s_cmp_eq_u64", U64, U64, to="scc")(eq)
    scalar("s_cmp_lg_u64", U64, U64, to="scc")(ne)


_register()


def _bit(a: Value, position: Value) -> Value:
    return (a >> (position & (a.type.bits - 1))) & 1


def _bit_clear(a: Value, position: Value) -> Value:
    return _bit(a, position).to(U32).compare("eq", constant(a, U32, 0))


def _bit_set(a: Value, position: Value) -> Value:
    return _bit(a, position).to(U32).compare("eq", constant(a, U32, 1))


for _bits, _type in ((32, U32), (64, U64)):
    scalar(f"s_bitcmp0_b{_bits}", _type, U32, to="scc")(_bit_clear)
    scalar(f"s_bitcmp1_b{_bits}", _type, U32, to="scc")(_bit_set)
