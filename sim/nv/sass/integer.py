"""Integer arithmetic.

Carries: a sum leaves what does not fit in 32 bits as predicates; a negated operand counts
as its complement plus one, so a difference carries where it does not borrow.

Source: mesa: src/nouveau/compiler/nak/ir.rs (OpIAdd3, OpIMad, OpLea, OpIMnMx, OpFlo, ...).
"""

from sim.isa.value import I32, I64, U32, U64, Value, where
from sim.nv.sass.access import Access
from sim.nv.sass.semantics import means


def _term(x: Access, at: int) -> Value:
    """A summand in 33 bits: what a negated one carries is in bit 32."""
    operand = x.data[at]
    value = x.word(operand)
    if operand.neg:
        return (~value).to(U64) + 1
    return (~value if operand.inv else value).to(U64)


def _carry_in(x: Access) -> list[Value]:
    return [x.flag(at) for at in range(len(x.flags))] if x.has("X") else []


def _sum(x: Access) -> None:
    if x.has("64"):
        _sum64(x)
        return
    count = len(x.data)
    if not (x.has_flag_result(0) or x.has_flag_result(1)):
        total = x.u32(0)
        for at in range(1, count):
            if not _is_zero(x, at):
                total = total + x.u32(at)
        for carry in _carry_in(x):
            total = total + carry.to(U32)
        x.write(total)
        return
    total = _term(x, 0)
    for at in range(1, count):
        total = total + _term(x, at)
    for carry in _carry_in(x):
        total = total + carry.to(U64)
    over = total >> 32
    x.write(total.to(U32))
    x.write_flag(0, over != 0)
    x.write_flag(1, over > 1)


def _is_zero(x: Access, at: int) -> bool:
    operand = x.data[at]
    return x.constant_of(at) == 0 and not operand.inv


def add_with_carry(total: Value, value: Value, carries: Value) -> tuple[Value, Value]:
    """64-bit (sum, number of carries so far)."""
    result = total + value
    return result, carries + (result < total).to(U32)


def _sum64(x: Access) -> None:
    carries = x.number(U32, 0)
    total = x.u64(0)
    for at in range(1, len(x.data)):
        operand = x.data[at]
        if operand.neg:
            total, carries = add_with_carry(total, ~x.pair(at), carries)
            total, carries = add_with_carry(total, x.number(U64, 1), carries)
        else:
            total, carries = add_with_carry(total, x.u64(at), carries)
    for carry in _carry_in(x):
        total, carries = add_with_carry(total, carry.to(U64), carries)
    x.write(total)
    x.write_flag(0, carries != 0)
    x.write_flag(1, carries > 1)


means("IADD3", "UIADD3", "IADD")(_sum)


@means("VIADD", "UVIADD")
def viadd(x: Access) -> None:
    """Two summands, or two or four packed ones."""
    parts = {"16x2": 16, "S16x2": 16, "U8x4": 8, "S8x4": 8}
    bits = next((parts[w] for w in x.words if w in parts), 32)
    if bits == 32:
        if x.has("ISAT"):
            total = x.i32(0).to(I64) + _signed_term(x, 1)
            x.write(clamp(total, -(1 << 31), (1 << 31) - 1).to(I32))
            return
        x.write(x.u32(0) + x.u32(1))
        return
    if x.has("ISAT"):
        raise x.refuse("packed")
    x.write(_packed_sum(x, bits))


def _packed_sum(x: Access, bits: int) -> Value:
    """Sums of the numbers of so many bits in two words; each may be negated."""
    packed = x.number(U32, 0)
    mask = (1 << bits) - 1
    for at in range(32 // bits):
        a, b = x.raw(0) >> at * bits, x.raw(1) >> at * bits
        a = -a if x.data[0].neg else a
        packed = packed | (((a - b if x.data[1].neg else a + b) & mask) << at * bits)
    return packed


def _signed_term(x: Access, at: int) -> Value:
    value = x.word(x.data[at]).bits(I32).to(I64)
    return -value if x.data[at].neg else value


def clamp(value: Value, low: int, high: int) -> Value:
    """Between low and high."""
    value = where(value < low, low, value)
    return where(value > high, high, value)


@means("IMAD", "UIMAD")
def imad(x: Access) -> None:
    """a * b + c: the low word, the high word (c is 64 bits) or both."""
    if not (x.has("WIDE") or x.has("HI")):
        total = _product32(x)
        for carry in _carry_in(x):
            total = total + carry.to(U32)
        x.write(total)
        return
    factor = x.constant_of(1)
    if factor is not None and 0 < factor < 1 << 31 and factor & (factor - 1) == 0:
        wide = x.raw(0).to(U64) if x.has("U32") else x.raw(0).bits(I32).to(I64).bits(U64)
        product = wide << (factor.bit_length() - 1)
    elif x.has("U32"):
        product = x.raw(0).to(U64) * x.raw(1).to(U64)
    else:
        wide = x.raw(0).bits(I32).to(I64) * x.raw(1).bits(I32).to(I64)
        product = wide.bits(U64)
    carries = x.number(U32, 0)
    if _is_zero(x, 2):
        total = product
    elif x.data[2].neg:
        total, carries = add_with_carry(product, ~x.pair(2), carries)
        total, carries = add_with_carry(total, x.number(U64, 1), carries)
    else:
        total, carries = add_with_carry(product, x.u64(2), carries)
    for carry in _carry_in(x):
        total, carries = add_with_carry(total, carry.to(U64), carries)
    x.write((total >> 32).to(U32) if x.has("HI") else total)
    x.write_flag(0, carries != 0)


def _product32(x: Access) -> Value:
    a, b = x.constant_of(0), x.constant_of(1)
    if a == 0 or b == 0:
        return x.u32(2)
    product = x.u32(0)
    if b is not None and b & (b - 1) == 0:
        shift = b.bit_length() - 1
        product = product << shift if shift else product
    else:
        product = product * x.u32(1)
    return product if _is_zero(x, 2) else product + x.u32(2)


@means("LEA", "ULEA")
def lea(x: Access) -> None:
    """(a << n) + b, or the high word of (c:a << n) plus b."""
    high = x.has("HI")
    shift = x.constant_of(len(x.data) - 1) or 0
    a = x.word(x.data[0])
    if high and x.has("SX32"):
        wide = a.bits(I32).to(I64).bits(U64)
    elif high:
        wide = a.to(U64) | (x.raw(2).to(U64) << 32)
    else:
        wide = a.to(U64)
    shifted = ((wide << shift) >> 32 if high else wide << shift).to(U32)
    if x.data[0].neg or x.data[0].inv:
        shifted = ~shifted
    if not (x.has_flag_result(0) or x.has("X")):
        shifted = shifted + 1 if x.data[0].neg else shifted
        x.write(shifted if _is_zero(x, 1) else shifted + x.u32(1))
        return
    total = shifted.to(U64) + _term(x, 1)
    if x.data[0].neg:
        total = total + 1
    for carry in _carry_in(x):
        total = total + carry.to(U64)
    x.write(total.to(U32))
    x.write_flag(0, (total >> 32) != 0)


PARTS = {"U16x2": 16, "S16x2": 16, "U8x4": 8, "S8x4": 8}


@means("IMNMX", "UIMNMX", "VIMNMX", "UVIMNMX", "VIMNMX3", "VIADDMNMX")
def minimum_maximum(x: Access) -> None:
    """The least where the predicate holds, else the greatest; VIADDMNMX adds first."""
    if x.results[0].count == 2:
        _minimum_of_pairs(x)
        return
    if x.flag_results:
        _refuse_predicates(x)
    part = next((w for w in x.words if w in PARTS), "")
    first, second, third = _compared(x, part)
    least = x.flag(0)
    if not part:
        kind = U32 if x.has("U32") else I32
        result = _choose(first.bits(kind), second.bits(kind), least)
        result = _choose(result, third.bits(kind), least)
        if x.has("RELU"):
            result = where(result < 0, 0, result)
        x.write(result)
        return
    bits, total = PARTS[part], x.number(U32, 0)
    for at in range(0, 32, bits):
        a, b, c = (_field(v, at, bits, part[0] == "S") for v in (first, second, third))
        one = _choose(_choose(a, b, least), c, least)
        if x.has("RELU"):
            one = where(one < 0, 0, one)
        total = total | ((one.bits(U32) & ((1 << bits) - 1)) << at)
    x.write(total)


def _compared(x: Access, part: str) -> tuple[Value, Value, Value]:
    """The numbers that are compared, the last one twice where there are only two."""
    if x.instruction.name == "VIADDMNMX":
        total = _packed_sum(x, PARTS[part]) if part else x.u32(0) + x.u32(1)
        return total, x.u32(2), x.u32(2)
    return x.u32(0), x.u32(1), x.u32(2 if x.instruction.name == "VIMNMX3" else 1)


def _refuse_predicates(x: Access) -> None:
    """What these write into predicates is not documented."""
    if x.has_flag_result(0) or x.has_flag_result(1):
        raise x.refuse("with predicates")


def _minimum_of_pairs(x: Access) -> None:
    _refuse_predicates(x)
    kind = U64 if x.has("U64") else I64
    x.write(_choose(x.pair(0).bits(kind), x.pair(1).bits(kind), x.flag(0)))


def _choose(a: Value, b: Value, least: Value) -> Value:
    return where((a < b) ^ ~least, a, b)


def _field(word: Value, at: int, bits: int, signed: bool) -> Value:
    """Bits of a word as I32 or U32."""
    up = word << (32 - bits - at)
    return up.bits(I32) >> (32 - bits) if signed else up >> (32 - bits)


@means("IABS", "UIABS")
def iabs(x: Access) -> None:
    """The absolute value; the most negative number stays."""
    value = x.i32(0)
    x.write(where(value < 0, -value, value))


@means("POPC", "UPOPC")
def popc(x: Access) -> None:
    """Number of set bits."""
    x.write(x.u32(0).popcount())


@means("BREV", "UBREV")
def brev(x: Access) -> None:
    """Bits in reverse order."""
    x.write(x.u32(0).reverse_bits())


@means("FLO", "UFLO")
def flo(x: Access) -> None:
    """Position of the highest bit that is not the sign's; all ones when there is none."""
    _refuse_predicates(x)
    value = x.u32(0)
    if not x.has("U32"):
        value = where(value.bits(I32) < 0, ~value, value)
    zeros = value.leading_zeros()
    place = zeros if x.has("SH") else 31 - zeros
    x.write(where(value == 0, 0xFFFF_FFFF, place))


@means("SGXT", "USGXT")
def sgxt(x: Access) -> None:
    """The low b bits of a, extended."""
    value, count = x.raw(0), x.raw(1)
    count = count & 31 if x.has("W") else where(count > 32, 32, count)
    up = (32 - count) & 31
    kind = U32 if x.has("U32") else I32
    extended = ((value << up).bits(kind) >> up).bits(U32)
    x.write(where(count == 0, 0, where(count == 32, value, extended)))


@means("BMSK", "UBMSK")
def bmsk(x: Access) -> None:
    """b ones from bit a on."""
    start, count = x.raw(0), x.raw(1)
    if x.has("W"):
        start, count = start & 31, count & 31
    start, count = (where(v > 32, 32, v) for v in (start, count))
    ones = (x.number(U64, 1) << count.to(U64)) - 1
    x.write((ones << start.to(U64)).to(U32))


@means("IDP")
def dot_product(x: Access) -> None:
    """Four bytes by four, or two halves by two bytes, summed onto c."""
    four = x.has("4A")
    bits, count = (8, 4) if four else (16, 2)
    types = x.instruction.modifiers[-2:]
    total = x.u32(2)
    first = 16 if x.has("HI") else 0
    for at in range(count):
        a = _field(x.raw(0), bits * at, bits, types[0][0] == "S").bits(U32)
        b = _field(x.raw(1), first + 8 * at, 8, types[1][0] == "S").bits(U32)
        total = total + a * b
    x.write(total)


@means("VABSDIFF")
def vabsdiff(x: Access) -> None:
    """|a - b| + c."""
    _refuse_predicates(x)
    kind = U32 if x.has("U32") else I32
    a, b = x.raw(0).bits(kind), x.raw(1).bits(kind)
    x.write(where(a > b, a - b, b - a).bits(U32) + x.raw(2))


@means("VABSDIFF4")
def vabsdiff4(x: Access) -> None:
    """|a - b| of four bytes, kept or summed onto c."""
    _refuse_predicates(x)
    total = x.raw(2) if x.has("ACC") else x.number(U32, 0)
    for at in range(0, 32, 8):
        a, b = (_field(x.raw(s), at, 8, not x.has("U8")).bits(I32) for s in (0, 1))
        one = where(a > b, a - b, b - a).bits(U32)
        total = total + one if x.has("ACC") else total | (one << at)
    x.write(total)
