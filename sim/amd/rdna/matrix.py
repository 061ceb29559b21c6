"""WMMA: one 16x16x16 matrix product per wave.

Lane l holds row l % 16 of A and column l % 16 of B, sixteen elements each, every 16 lanes of the
wave holding the same. Register r of C and D holds, in lane l, column l % 16 of row 2r + l // 16,
in waves of 64 (half as many registers; the names end in _w64 here) of row 4r + l // 16. Products
are added in order of k, each with one rounding; the hardware's order is not documented.

Source: AMD "RDNA3" Instruction Set Architecture, section 7.9 (WMMA).
"""

from collections.abc import Callable, Sequence

from hcq.errors import SimFault
from sim.amd.rdna.semantics import Function, vector
from sim.amd.rdna.vop3p import brain_halves, clamp_i32, halves, signed_field, to_brain
from sim.isa.value import F16, F32, I32, I64, U16, U32, Value, fma

Words = tuple[Value, ...]
SIZE = 16


def _elements(words: Words, split: Callable[[Value], Sequence[Value]]) -> list[Value]:
    return [element for word in words for element in split(word)]


def _rows(a: Value, register: int) -> Value:
    """A's element for the row that each lane has in a register of the result."""
    rows = a.width // SIZE  # of one register
    return a.take([rows * register + lane // SIZE for lane in range(a.width)])


def _columns(b: Value) -> Value:
    return b.take([lane % SIZE for lane in range(b.width)])


def _wide(word: Value) -> tuple[Value, Value]:
    low, high = halves(word, F16)
    return low.to(F32), high.to(F32)


def _refuse_negation(neg_lo: int) -> None:
    if neg_lo:
        raise SimFault("WMMA with negated floats is not simulated")


def _float_product(a: list[Value], b: list[Value], addends: list[Value]) -> list[Value]:
    columns = [_columns(element) for element in b]
    results = []
    for register, total in enumerate(addends):
        for element, column in zip(a, columns, strict=True):
            total = fma(_rows(element, register), column, total)
        results.append(total)
    return results


def _to_f32(
    split: Callable[[Value], Sequence[Value]],
) -> Callable[[Words, Words, Words, int], Words]:
    def product(a: Words, b: Words, c: Words, neg_lo: int) -> Words:
        _refuse_negation(neg_lo)
        addends = [word.bits(F32) for word in c]
        results = _float_product(_elements(a, split), _elements(b, split), addends)
        return tuple(result.bits(U32) for result in results)

    return product


def _define(name: str, count: int, reads: tuple[str, ...], product: Function) -> None:
    """Register a product whose A and B take `count` registers, for both wave sizes."""
    vector(name, count, count, 8, to=8, reads=reads)(product)
    vector(f"{name}_w64", count, count, 4, to=4, reads=reads)(product)


_define("v_wmma_f32_16x16x16_f16", 8, ("neg_lo",), _to_f32(_wide))
_define("v_wmma_f32_16x16x16_bf16", 8, ("neg_lo",), _to_f32(brain_halves))


def _integer(bits: int) -> Callable[[Words, Words, Words, int, bool], Words]:
    def product(a: Words, b: Words, c: Words, neg_lo: int, clamp: bool) -> Words:
        left = _fields(a, bits, bool(neg_lo & 1))
        right = [_columns(element) for element in _fields(b, bits, bool(neg_lo & 2))]
        results = []
        for register, word in enumerate(c):
            total = word.bits(I32).to(I64)
            for element, column in zip(left, right, strict=True):
                total = total + _rows(element, register) * column
            results.append((clamp_i32(total) if clamp else total.to(I32)).bits(U32))
        return tuple(results)

    return product


def _fields(words: Words, bits: int, signed: bool) -> list[Value]:
    count = 32 // bits
    return [signed_field(word, number, bits, signed) for word in words for number in range(count)]


_define("v_wmma_i32_16x16x16_iu8", 4, ("neg_lo", "clamp"), _integer(8))
_define("v_wmma_i32_16x16x16_iu4", 2, ("neg_lo", "clamp"), _integer(4))

# Results of 16 bits fill one half of each register, by op_sel bit 2; the other half stays.
HIGH_HALF = 4


def _narrow(
    split: Callable[[Value], Sequence[Value]],
    widen: Callable[[Value], Value],
    narrow: Callable[[Value], Value],
) -> Callable[[Words, Words, Words, int, int], Words]:
    def product(a: Words, b: Words, c: Words, op_sel: int, neg_lo: int) -> Words:
        _refuse_negation(neg_lo)
        high = bool(op_sel & HIGH_HALF)
        halved = [(word >> 16 if high else word).to(U16) for word in c]
        addends = [widen(half) for half in halved]
        results = _float_product(_elements(a, split), _elements(b, split), addends)
        return tuple(_merge(word, narrow(r), high) for word, r in zip(c, results, strict=True))

    return product


def _merge(word: Value, half: Value, high: bool) -> Value:
    placed = half.to(U32) << 16 if high else half.to(U32)
    return (word & (0xFFFF if high else 0xFFFF_0000)) | placed


_define(
    "v_wmma_f16_16x16x16_f16", 8, ("op_sel", "neg_lo"),
    _narrow(_wide, lambda half: half.bits(F16).to(F32), lambda r: r.to(F16).bits(U16)),
)  # fmt: skip
_define(
    "v_wmma_bf16_16x16x16_bf16", 8, ("op_sel", "neg_lo"),
    _narrow(brain_halves, lambda half: (half.to(U32) << 16).bits(F32), to_brain),
)  # fmt: skip
