"""Memory instructions as data: what they access, how wide, and what atomics do.

Source: mesa: src/nouveau/compiler/nak/ir.rs (OpLd, OpSt, OpAtom, OpLdc, MemType, AtomOp);
PTX ISA, "ld", "st", "atom", "red", "ldmatrix".
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache

from hcq.errors import SimFault
from sim.isa.value import F32, F64, I32, I64, U16, U32, U64, Type, Value, where
from sim.nv.sass.access import flush
from sim.nv.sass.formats import NAMES
from sim.nv.sass.half import float_of
from sim.nv.sass.instruction import Instruction
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


def _add_halves(is_brain: bool) -> Update:
    def operation(memory: Value, data: Value, _: Value | None) -> Value:
        total = None
        for at in (0, 16):
            a, b = (float_of((v >> at).to(U16), is_brain) for v in (memory, data))
            one = brain(odd_sum(a.to(F64), b.to(F64))) if is_brain else (a + b).bits(U16)
            placed = one.to(U32) << at
            total = placed if total is None else total | placed
        return memory if total is None else total

    return operation


FLOATS: dict[str, tuple[int, Type, Update]] = {
    "F32.FTZ.RN": (32, F32, _add_single), "F32.RN": (32, F32, _add), "F64.RN": (64, F64, _add),
    "F16x2.RN": (32, U32, _add_halves(False)), "BF16x2.RN": (32, U32, _add_halves(True)),
}  # fmt: skip
INTEGERS: dict[str, Type] = {"S32": I32, "64": U64, "S64": I64, "": U32}
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
    if words[0] in FLOATS or (len(words) > 1 and words[1] in FLOATS):
        if words[0] == "ADD":
            bits, kind, update = FLOATS[words[1]]
            return AtomicOp(name, "float", bits, kind, update)
        raise SimFault(f"instruction {mnemonic}.{'.'.join(words)} is not simulated")
    if "128" in words or any(word.startswith(("F16", "F32", "BF16")) for word in words):
        raise SimFault(f"instruction {mnemonic}.{'.'.join(words)} is not simulated")
    kind = next((INTEGERS[w] for w in words if w in INTEGERS), U32)
    operation = words[0]
    cast = operation.startswith("CAST")
    if operation == "CAS" or cast:
        return AtomicOp(name, "swap", kind.bits, kind, _swap, second=True, cast=cast)
    if operation in DIRECT:
        return AtomicOp(name, DIRECT[operation], kind.bits, kind)
    if operation in ("MIN", "MAX"):
        sign = "" if kind.kind == "i" else "u"
        return AtomicOp(name, sign + operation.lower(), kind.bits, kind)
    if operation in ("INC", "DEC") and kind == U32:
        update = _increment if operation == "INC" else _decrement
        return AtomicOp(name, operation.lower(), kind.bits, kind, update)
    raise SimFault(f"instruction {mnemonic}.{'.'.join(words)} is not simulated")
