"""Bitwise logic, shifts, permutation of bytes, and predicates.

Source: mesa: src/nouveau/compiler/nak/ir.rs (OpLop3, OpPLop3, OpShf, OpPrmt, OpSel);
PTX ISA, "prmt", "shf", "lop3".
"""

from sim.isa.value import BOOL, I32, I64, U32, U64, Value, where
from sim.nv.sass.access import Access, read_flag
from sim.nv.sass.semantics import means

FULL2 = 0xF  # of a truth table of two inputs


def table3(a: Value, b: Value, c: Value, table: int) -> Value:
    """The function of three inputs whose truth table is given: bit 4a + 2b + c."""
    zero, one = table & FULL2, table >> 4
    if one == zero:
        return _table2(b, c, zero)
    if one == zero ^ FULL2:
        return a ^ _table2(b, c, zero) if zero else a
    return _either(a, b, c, zero, one)


def _either(a: Value, b: Value, c: Value, zero: int, one: int) -> Value:
    """The function `one` of b and c where a, else `zero`; they are not opposites."""
    if zero == 0:
        return a & _table2(b, c, one)
    if one == FULL2:
        return a | _table2(b, c, zero)
    if one == 0:
        return ~a & _table2(b, c, zero)
    if zero == FULL2:
        return ~a | _table2(b, c, one)
    return (a & _table2(b, c, one)) | (~a & _table2(b, c, zero))


def _table2(b: Value, c: Value, table: int) -> Value:
    """The same for two inputs: bit 2b + c."""
    simple = {
        0b1010: lambda: c, 0b0101: lambda: ~c, 0b1100: lambda: b, 0b0011: lambda: ~b,
        0b1000: lambda: b & c, 0b1110: lambda: b | c, 0b0110: lambda: b ^ c,
        0b0100: lambda: b & ~c, 0b0010: lambda: ~b & c, 0b0001: lambda: ~(b | c),
        0b0111: lambda: ~(b & c), 0b1001: lambda: ~(b ^ c), 0b1101: lambda: b | ~c,
        0b1011: lambda: ~b | c,
    }  # fmt: skip
    if table in simple:
        return simple[table]()
    return b.constant(b.type, -1 if table else 0) if b.type != BOOL else b.constant(BOOL, table)


@means("LOP3", "ULOP3")
def lop3(x: Access) -> None:
    """Any function of three words; the predicate tells whether the result has bits."""
    result = table3(x.raw(0), x.raw(1), x.raw(2), x.constant_of(3) or 0)
    if x.results:
        x.write(result)
    if x.has_flag_result(0):
        some = result != 0
        x.write_flag(0, some & x.flag(0) if x.has("PAND") else some | x.flag(0))


@means("PLOP3", "UPLOP3")
def plop3(x: Access) -> None:
    """Two functions of three predicates."""
    tables = [o.value for o in x.data if o.kind == "imm"]
    if len(x.flags) == 3:
        a, b, c = (read_flag(x.registers, o) for o in x.flags)
    else:
        a, b, c = (x.word(o).bits(I32) < 0 for o in x.data if o.kind != "imm")
    for at, table in enumerate(tables):
        if x.has_flag_result(at):
            x.write_flag(at, table3(a, b, c, table))


@means("SHF", "USHF")
def shf(x: Access) -> None:
    """c:a as 64 bits, shifted by b; the high or the low word."""
    right, high = x.has("R"), x.has("HI")
    signed = x.has("S32") or x.has("S64")
    bits = 64 if x.has("S64") or x.has("U64") else 32
    count = x.constant_of(1)
    if count is not None:
        limit = count & (bits - 1) if x.has("W") else min(count, bits)
        x.write(_shift_fixed(x, limit, right, high, signed))
        return
    amount = x.raw(1)
    if x.has("W"):
        amount = amount & (bits - 1)
    elif bits == 64 or not _is_simple(x, right, high):
        amount = where(amount > bits, bits, amount)
    if _is_simple(x, right, high):
        x.write(_shift_word(x, amount, right, signed))
        return
    wide = _both(x, signed)
    if not right:
        shifted = where(amount > 63, 0, wide << (amount & 63))
    elif signed:
        shifted = wide >> where(amount > 63, 63, amount)
    else:
        shifted = where(amount > 63, 0, wide >> (amount & 63))
    x.write(_part(shifted, high))


def _is_simple(x: Access, right: bool, high: bool) -> bool:
    """Whether only one of the two words matters."""
    return right == high


def _shift_word(x: Access, amount: Value, right: bool, signed: bool) -> Value:
    if not right:
        return where(amount > 31, 0, x.raw(0) << (amount & 31))
    if signed:
        return (x.raw(2).bits(I32) >> where(amount > 31, 31, amount)).bits(U32)
    return where(amount > 31, 0, x.raw(2) >> (amount & 31))


def _both(x: Access, signed: bool) -> Value:
    wide = x.raw(0).to(U64) | (x.raw(2).to(U64) << 32)
    return wide.bits(I64) if signed else wide


def _part(wide: Value, high: bool) -> Value:
    whole = wide.bits(U64)
    return (whole >> 32 if high else whole).to(U32)


def _shift_fixed(x: Access, count: int, right: bool, high: bool, signed: bool) -> Value:
    """A shift by a known number of bits."""
    if right == high and count < 32:
        word = x.raw(2 if right else 0)
        if not right:
            return word << count
        return (word.bits(I32) >> count).bits(U32) if signed else word >> count
    wide = _both(x, signed)
    if count > 63:
        wide = wide >> 63 if signed and right else wide.constant(wide.type, 0)
    else:
        wide = wide >> count if right else wide << count
    return _part(wide, high)


MODES = ("F4E", "B4E", "RC8", "ECL", "ECR", "RC16")


@means("PRMT", "UPRMT")
def prmt(x: Access) -> None:
    """Four bytes chosen from c:a by b."""
    mode = next((m for m in MODES if x.has(m)), "")
    selector = x.constant_of(1)
    if selector is None:
        x.write(_by_value(x, mode))
        return
    nibbles = _indices(selector, mode)
    total = None
    for word, shift, mask in _runs(nibbles):
        source = x.raw(2 if word else 0)
        moved = source << shift if shift > 0 else source >> -shift
        one = moved & mask if mask != 0xFFFF_FFFF else moved
        total = one if total is None else total | one
    for at, nibble in enumerate(nibbles):
        if nibble & 8:
            source = x.raw(2 if nibble & 4 else 0)
            sign = (source << (24 - 8 * (nibble & 3))).bits(I32) >> 31
            one = sign.bits(U32) & (0xFF << 8 * at)
            total = one if total is None else total | one
    x.write(x.number(U32, 0) if total is None else total)


def _indices(selector: int, mode: str) -> list[int]:
    """The nibbles of a mode's selector: byte 0 to 7 for each byte of the result."""
    n = selector & 3
    table = {
        "F4E": [n + i for i in range(4)],
        "B4E": [(n - i) & 7 for i in range(4)],
        "RC8": [n] * 4,
        "ECL": [max(i, n) for i in range(4)],
        "ECR": [min(i, n) for i in range(4)],
        "RC16": [2 * (selector & 1), 2 * (selector & 1) + 1] * 2,
        "": [selector >> 4 * i & 15 for i in range(4)],
    }
    return table[mode]


def _runs(nibbles: list[int]) -> list[tuple[int, int, int]]:
    """(word, left shift, mask) of neighbouring bytes that move together; no sign bytes."""
    runs: dict[tuple[int, int], int] = {}
    for at, nibble in enumerate(nibbles):
        if not nibble & 8:
            key = (nibble >> 2, 8 * (at - (nibble & 3)))
            runs[key] = runs.get(key, 0) | 0xFF << 8 * at
    return [(word, shift, mask) for (word, shift), mask in runs.items()]


def _by_value(x: Access, mode: str) -> Value:
    selector = x.raw(1)
    if mode:
        choices = [_number(_indices(n, mode)) for n in range(4)]
        picked = x.number(U32, choices[3])
        for n in (2, 1, 0):
            picked = where((selector & 3) == n, choices[n], picked)
        selector = picked
    wide = x.raw(0).to(U64) | (x.raw(2).to(U64) << 32)
    total = x.number(U32, 0)
    for at in range(4):
        nibble = selector >> 4 * at
        byte = (wide >> ((nibble & 7) << 3)).to(U32) & 0xFF
        if not mode:
            sign = where((byte & 0x80) != 0, x.number(U32, 0xFF), 0)
            byte = where((nibble & 8) != 0, sign, byte)
        total = total | (byte << 8 * at)
    return total


def _number(nibbles: list[int]) -> int:
    return sum(nibble << 4 * at for at, nibble in enumerate(nibbles))


@means("SEL", "USEL")
def sel(x: Access) -> None:
    """a where the predicate holds, else b; words or pairs."""
    if x.has("64"):
        x.write(where(x.flag(0), x.pair(0), x.pair(1)))
    else:
        x.write(where(x.flag(0), x.raw(0), x.raw(1)))


@means("MOV", "UMOV")
def mov(x: Access) -> None:
    """A word or a pair."""
    x.write(x.pair(0) if x.has("64") else x.raw(0))


@means("P2R")
def p2r(x: Access) -> None:
    """Predicates as bits of a byte of a, where b has ones."""
    shift = next((8 * n for n in (1, 2, 3) if x.has(f"B{n}")), 0)
    mask = x.word(x.data[-1]) & 0x7F
    bits = x.number(U32, 0)
    for at in range(7):
        bits = bits | (x.registers.predicate(at).to(U32) << at)
    old = x.word(x.data[-2])
    x.write((old & ~(mask << shift)) | ((bits & mask) << shift))


@means("R2P")
def r2p(x: Access) -> None:
    """Bits of a byte of a into predicates, where b has ones."""
    shift = next((8 * int(part[1:]) for part in x.data[0].modifiers), 0)
    value, mask = x.raw(0) >> shift, x.constant_of(1)
    for at in range(7):
        bit = ((value >> at) & 1) != 0
        if mask is None:
            bit = where(((x.raw(1) >> at) & 1) != 0, bit, x.registers.predicate(at))
        elif not mask >> at & 1:
            continue
        x.registers.set_predicate(at, bit, x.guard)
