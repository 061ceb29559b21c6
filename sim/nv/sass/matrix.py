"""Matrix products of a warp: mma.sync.

With g = lane / 4 and t = lane % 4: A's register r holds, for halves, row g (r even) or
g + 8 (r odd) and columns 2t, 2t + 1, from register 2 on 8 columns further; for tf32 one
column t, from register 2 on 4 columns further. B's register r holds column g and rows
2t, 2t + 1 (+ 8 r), for tf32 row t (+ 4 r). C and D hold row g (registers 0 and 1) or
g + 8 (2 and 3), columns 2t and 2t + 1; as halves two columns are one register. Products of
bytes have four to a register, of 4 bits eight, of bits 32.

Products are added in order of k with one rounding each; the hardware's order and its internal
truncation are not documented.

Source: PTX ISA, "Matrix Fragments for mma.m16n8k16" and its neighbours.
"""

from collections.abc import Callable
from dataclasses import replace

from sim.isa.value import F16, F32, F64, I32, I64, U16, U32, U64, Value, fma
from sim.nv.sass.access import Access
from sim.nv.sass.half import float_of
from sim.nv.sass.instruction import Operand
from sim.nv.sass.integer import clamp
from sim.nv.sass.semantics import means

LANES = range(32)
ROWS = 16
INTEGERS = ("U8", "S8", "U4", "S4")

# What becomes of a total with one element of a row and of a column.
Step = Callable[[Value, Value, Value], Value]


def _words(x: Access, operand: Operand) -> list[Value]:
    return [x.word(operand, part) for part in range(operand.count)]


def _elements(word: Value, kind: str) -> list[Value]:
    """What one register holds, as F32 or I32; single bits stay together."""
    if kind == "TF32":
        return [(word & 0xFFFF_E000).bits(F32)]
    if kind == "B1":
        return [word]
    if kind in INTEGERS:
        bits = int(kind[1:])
        ups = [word << (32 - bits - at) for at in range(0, 32, bits)]
        if kind[0] == "S":
            return [up.bits(I32) >> (32 - bits) for up in ups]
        return [(up >> (32 - bits)).bits(I32) for up in ups]
    halves = word.to(U16), (word >> 16).to(U16)
    return [float_of(half, kind == "BF16").to(F32) for half in halves]


def _multiply_add(left: Value, right: Value, total: Value) -> Value:
    return fma(left, right, total) if left.type.kind == "f" else total + left * right


def _sum(
    a: list[list[Value]], b: list[list[Value]], totals: list[Value], rows: int,
    step: Step = _multiply_add,
) -> list[Value]:  # fmt: skip
    """totals + a * b; totals by lane: rows g, from the third on g + 8; columns 2t, 2t + 1."""
    per = len(a[0])  # elements of a register
    results = []
    for at, total in enumerate(totals):
        half = at // 2 if rows == ROWS else 0
        for part in range(len(b)):
            for quad in range(4):
                for element in range(per):
                    left = a[part * (rows // 8) + half][element]
                    right = b[part][element]
                    left = left.take([lane // 4 * 4 + quad for lane in LANES])
                    right = right.take([(lane % 4 * 2 + at % 2) * 4 + quad for lane in LANES])
                    total = step(left, right, total)
        results.append(total)
    return results


@means("HMMA")
def hmma(x: Access) -> None:
    """Halves, bfloat16 or tf32, summed in single precision or (F16) in halves."""
    _refuse_sparse(x)
    kind = "BF16" if x.has("BF16") else "TF32" if x.has("TF32") else "F16"
    a = [_elements(word, kind) for word in _words(x, x.data[0])]
    b = [_elements(word, kind) for word in _words(x, x.data[1])]
    c = _words(x, x.data[2])
    if any(o.neg or o.abs for o in x.data):
        raise x.refuse("with signs")
    narrow = x.instruction.modifiers[1] == "F16"
    if narrow:
        totals = [e for word in c for e in _elements(word, "F16")]
    else:
        totals = [word.bits(F32) for word in c]
    results = _sum(a, b, totals, ROWS)
    words = [value.bits(U32) for value in results]
    if narrow:
        halves = [value.to(F16).bits(U16).to(U32) for value in results]
        words = [halves[0] | (halves[1] << 16), halves[2] | (halves[3] << 16)]
    for part, word in enumerate(words):
        x.write_word(x.results[0], part, word)


@means("DMMA")
def dmma(x: Access) -> None:
    """Doubles, 8x8x4 or 16x8x4 and multiples: laid out as tf32, each in a pair of registers."""
    if len(x.instruction.modifiers) > 1:
        raise x.refuse("with directed rounding")
    small = x.instruction.modifiers[0] in ("884", "8x8x4")
    a, b, c = x.data if not small else (replace(x.data[at], count=n) for at, n in _SMALL_PAIRS)
    left, right = ([[value] for value in _doubles(x, operand)] for operand in (a, b))
    for at, value in enumerate(_sum(left, right, _doubles(x, c), 8 if small else ROWS)):
        whole = value.bits(U64)
        x.write_word(x.results[0], 2 * at, whole.to(U32))
        x.write_word(x.results[0], 2 * at + 1, (whole >> 32).to(U32))


_SMALL_PAIRS = ((0, 2), (1, 2), (2, 4))  # operand of 8x8x4, its registers


def _doubles(x: Access, operand: Operand) -> list[Value]:
    """The doubles in the pairs of registers of an operand, signs applied."""
    words = [word.to(U64) for word in _words(x, operand)]
    pairs = zip(words[::2], words[1::2], strict=True)
    values = [(low | (high << 32)).bits(F64) for low, high in pairs]
    if operand.abs:
        values = [value.absolute() for value in values]
    return [value.negate() for value in values] if operand.neg else values


def _refuse_sparse(x: Access) -> None:
    """Products whose first matrix comes with a description of which elements it has."""
    if x.has("SP"):
        raise x.refuse("of a sparse matrix")


@means("IMMA")
def imma(x: Access) -> None:
    """Integers of 8 or 4 bits, summed in 32 bits; SAT: the sum, kept between the ends."""
    _refuse_sparse(x)
    kinds = [m for m in x.instruction.modifiers if m in INTEGERS]
    a = [_elements(word, kinds[0]) for word in _words(x, x.data[0])]
    b = [_elements(word, kinds[1]) for word in _words(x, x.data[1])]
    saturates = x.has("SAT")
    totals = [word.bits(I32) for word in _words(x, x.data[2])]
    if saturates:
        totals = [total.to(I64) for total in totals]
    rows = 8 if len(totals) == 2 else ROWS
    results = _sum(a, b, totals, rows, _wide_step if saturates else _multiply_add)
    for part, value in enumerate(results):
        if saturates:
            value = clamp(value, -(1 << 31), (1 << 31) - 1).to(I32)
        x.write_word(x.results[0], part, value.bits(U32))


def _wide_step(left: Value, right: Value, total: Value) -> Value:
    return total + (left * right).to(I64)


@means("BMMA")
def bmma(x: Access) -> None:
    """Bits: how many of a row and a column are both set (AND) or differ (XOR)."""
    a, b = ([_elements(word, "B1") for word in _words(x, x.data[at])] for at in (0, 1))
    totals = _words(x, x.data[2])
    is_and = x.has("AND")

    def step(left: Value, right: Value, total: Value) -> Value:
        return total + (left & right if is_and else left ^ right).popcount()

    rows = 8 if len(totals) == 2 else ROWS
    for part, value in enumerate(_sum(a, b, totals, rows, step)):
        x.write_word(x.results[0], part, value)


@means("MOVM")
def movm(x: Access) -> None:
    """An 8x8 matrix of halves, transposed: lane l holds row l / 4, columns 2 (l % 4) and on."""
    if not (x.has("16") and x.has("MT88")):
        raise x.refuse("of that layout")
    word = x.raw(0)
    halves = [(word & 0xFFFF), word >> 16]
    result = None
    for at in (0, 1):
        # Element (row r, column c) comes from row c, column r: lane 4c + r / 2, half r % 2.
        lanes = [(lane % 4 * 2 + at) * 4 + lane // 4 // 2 for lane in LANES]
        odd = [lane // 4 % 2 for lane in LANES]
        picked = _choose(halves[0].take(lanes), halves[1].take(lanes), odd, x)
        one = picked << 16 * at
        result = one if result is None else result | one
    x.write(result if result is not None else word)


def _choose(even: Value, odd: Value, which: list[int], x: Access) -> Value:
    from sim.isa.value import lane_id, where

    lane = lane_id(x.number(U32, 0))
    return where(((lane >> 2) & 1) != 0, odd, even) if any(which) else even
