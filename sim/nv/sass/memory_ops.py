"""Memory instructions as data: what they access, how wide, and what atomics do.

Source: mesa: src/nouveau/compiler/nak/ir.rs (OpLd, OpSt, OpAtom, OpLdc, MemType, AtomOp);
PTX ISA, "ld", "st", "atom", "red", "ldmatrix".
"""

import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache

from hcq.errors import SimFault
from sim.isa.value import BOOL, F32, F64, I32, I64, U16, U32, U64, Type, Value, where
from sim.nv.sass.access import Access, flush
from sim.nv.sass.floats import extreme
from sim.nv.sass.formats import NAMES
from sim.nv.sass.half import brain_of_same, float_of
from sim.nv.sass.instruction import ZERO_REGISTER, Instruction, Operand
from sim.nv.sass.rounding import brain, odd_sum

# Mnemonic -> (space, action)
SPACES = {
    "LDG": ("global", "load"), "STG": ("global", "store"),
    "LD": ("generic", "load"), "ST": ("generic", "store"),
    "LDS": ("shared", "load"), "STS": ("shared", "store"),
    "LDL": ("local", "load"), "STL": ("local", "store"),
    "LDC": ("constant", "load"), "ULDC": ("constant", "load"), "LDCU": ("constant", "load"),
    "ATOMG": ("global", "atomic"), "RED": ("global", "atomic"), "REDG": ("global", "atomic"),
    "ATOMS": ("shared", "atomic"), "ATOM": ("generic", "atomic"),
    "LDSM": ("shared", "matrix"), "STSM": ("shared", "matrix"),
    "LDGSTS": ("global", "copy"), "QSPC": ("generic", "query"),
}  # fmt: skip


PAIR = 2  # registers of a 64-bit address


@dataclass(frozen=True)
class MemoryOp:
    """What a memory instruction does: `bits` per lane, sign-extended if `signed`."""

    space: str  # "global" "generic" "shared" "local" "constant"
    action: str  # "load" "store" "atomic" "matrix" "copy" "query"
    bits: int
    signed: bool

    @property
    def count(self) -> int:
        """Registers of the data."""
        return max(1, self.bits // 32)


def is_memory(name: str) -> bool:
    """Whether a mnemonic is one of these."""
    return name in SPACES


def describe(instruction: Instruction) -> MemoryOp:
    """What an instruction does."""
    words = {w for m in instruction.modifiers for w in m.split(".")}
    bits = 32
    for name, size in (("U8", 8), ("S8", 8), ("U16", 16), ("S16", 16), ("64", 64), ("128", 128)):
        if name in words:
            bits = size
    space, action = SPACES[instruction.name]
    if space == "constant" and words & {"IL", "IS", "ISL"}:
        raise SimFault(f"instruction {instruction.spelling} is not simulated")
    return MemoryOp(space, action, bits, bool(words & {"S8", "S16"}))


def whole_address(x: Access, operand: Operand) -> Value:
    """The sum of an address operand's parts, U64."""
    total = x.number(U64, operand.value)
    for register in (operand.base, operand.ubase):
        if register is None or register.index == ZERO_REGISTER:
            continue
        total = total + x.word(register).to(U64)
        if register.count == PAIR:
            total = total + (x.word(register, 1).to(U64) << 32)
    return total


_HINTS = ("E", *(name for name in NAMES["evict"] if name))  # they change nothing

Update = Callable[[Value, Value, Value | None], Value]


@dataclass(frozen=True)
class AtomicOp:
    """An atomic, as sim.isa.native_atomic wants it; `cast`: the result is whether it swapped."""

    name: str
    kind: str
    bits: int
    type: Type
    operation: Update | None = None
    second: bool = False  # takes a second operand: the new value of a compare-and-swap
    cast: bool = False
    parts: int = 1  # elements that lie one behind the other, each of them updated on its own

    @property
    def words(self) -> int:
        """Registers of the data."""
        return self.parts * self.bits // 32

    @property
    def size(self) -> int:
        """Bytes of a lane, and what its address is a multiple of."""
        return 4 * self.words


def _swap(memory: Value, compare: Value, new: Value | None) -> Value:
    assert new is not None
    return where(memory == compare, new, memory)


def _increment(memory: Value, limit: Value, _: Value | None) -> Value:
    return where(memory >= limit, 0, memory + 1)


def _decrement(memory: Value, limit: Value, _: Value | None) -> Value:
    return where((memory == 0) | (memory > limit), limit, memory - 1)


def _add_single(memory: Value, data: Value, _: Value | None) -> Value:
    return flush(flush(memory) + flush(data))


def _add(memory: Value, data: Value, _: Value | None) -> Value:
    return memory + data


def _of_halves(is_brain: bool, update: Callable[[Value, Value], Value]) -> Update:
    """What an update of a 16-bit float, which gives 16 bits, does to the two in a word."""

    def operation(memory: Value, data: Value, _: Value | None) -> Value:
        low, high = (
            update(*(float_of((v >> at).to(U16), is_brain) for v in (memory, data))).to(U32)
            for at in (0, 16)
        )
        return low | (high << 16)

    return operation


def _add_half(a: Value, b: Value) -> Value:
    return (a + b).bits(U16)


def _add_brain(a: Value, b: Value) -> Value:
    return brain(odd_sum(a.to(F64), b.to(F64)))


def _extreme_half(least: bool) -> Callable[[Value, Value], Value]:
    """Guess: NaNs and zeros as in min and max without .NaN, the number and -0 below +0."""

    def update(a: Value, b: Value) -> Value:
        best = extreme(a, b, a.constant(BOOL, int(least)))
        return brain_of_same(best) if best.type == F32 else best.bits(U16)

    return update


# Operation and element -> the type that memory is read as, and what is done.
_ELEMENTS: dict[tuple[str, str], tuple[Type, Update]] = {
    ("ADD", "F32.FTZ"): (F32, _add_single),
    ("ADD", "F32"): (F32, _add),
    ("ADD", "F64"): (F64, _add),
    ("ADD", "F16"): (U32, _of_halves(False, _add_half)),
    ("ADD", "BF16"): (U32, _of_halves(True, _add_brain)),
    **{
        (name, kind): (U32, _of_halves(kind == "BF16", _extreme_half(name == "MIN")))
        for name in ("MIN", "MAX") for kind in ("F16", "BF16")
    },
}  # fmt: skip
_FLOATS = re.compile(r"(B?F\d+)(?:x(\d))?(\.FTZ)?\.RN")  # type, how many, whether flushed
_WIDEST = 128
INTEGERS: dict[str, Type] = {
    "S32": I32, "64": U64, "S64": I64, "128": Type("u", _WIDEST), "": U32,
}  # fmt: skip
DIRECT = {"ADD": "add", "AND": "and", "OR": "or", "XOR": "xor", "EXCH": "xchg"}


def atomic_of(instruction: Instruction) -> AtomicOp:
    """What an atomic does; SimFault names one without a meaning."""
    words = [m for m in instruction.modifiers if m not in _HINTS]
    spelling = "_".join(m.replace(".", "_") for m in instruction.modifiers)
    return _atomic(instruction.name, tuple(words), spelling)


@cache
def _atomic(mnemonic: str, words: tuple[str, ...], spelling: str) -> AtomicOp:
    name = f"{mnemonic}_{spelling}"
    if "POPC" in words:
        return AtomicOp(name, "add", 32, U32)
    floats = next((match for w in words if (match := _FLOATS.fullmatch(w))), None)
    made = _of_floats(name, words[0], floats) if floats else _of_integers(name, words)
    if made is None:
        raise SimFault(f"instruction {mnemonic}.{'.'.join(words)} is not simulated")
    return made


def _of_floats(name: str, operation: str, match: re.Match[str]) -> AtomicOp | None:
    kind, count, flushed = match.groups()
    key = operation, kind + (flushed or "")
    if key not in _ELEMENTS:
        return None
    element, update = _ELEMENTS[key]
    parts = int(count or 1) * int(kind.lstrip("BF")) // element.bits
    return AtomicOp(name, "float", element.bits, element, update, parts=parts)


def _of_integers(name: str, words: tuple[str, ...]) -> AtomicOp | None:
    kind = next((INTEGERS[w] for w in words if w in INTEGERS), U32)
    operation = words[0]
    cast, wide = operation.startswith("CAST"), kind.bits == _WIDEST
    if operation == "CAS" or (cast and not wide):
        return AtomicOp(name, "swap", kind.bits, kind, _swap, second=True, cast=cast)
    if operation in DIRECT and (operation == "EXCH" or not wide):
        return AtomicOp(name, DIRECT[operation], kind.bits, kind)
    if operation in ("MIN", "MAX") and not wide:
        sign = "" if kind.kind == "i" else "u"
        return AtomicOp(name, sign + operation.lower(), kind.bits, kind)
    if operation in ("INC", "DEC") and kind == U32:
        update = _increment if operation == "INC" else _decrement
        return AtomicOp(name, operation.lower(), kind.bits, kind, update)
    return None
