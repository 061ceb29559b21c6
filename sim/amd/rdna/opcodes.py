"""The opcode table: which operands each instruction has.

Read from gfx1100.tsv, whose columns are format, opcode, mnemonic, destinations,
sources and modifiers; an operand is `field:kind`, a modifier `name:mask`. The kinds
are explained in tools/gen_isa.py.
"""

import csv
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from importlib.resources import files

# Operand fields that must be zero in instructions that have no such operand.
_MUST_BE_ZERO = {
    "VOP1": {"vdst"},
    "VOPD_X": {"vsrc1"},
    "VOPD_Y": {"vsrc1"},
    "DS": {"vdst", "addr", "data0", "data1"},
    "FLAT": {"sve"},
    "GLOBAL": {"sve"},
}

_COUNTS = {"m": 0, "h": 1, "c": 1, "g": 0, "k": 1}


@dataclass(frozen=True)
class Slot:
    """One operand: the field that holds its code, what may stand there, and its dwords."""

    field: str
    kind: str  # "v" "s" "a" "m" "h" "c" "g" "k"
    count: int


@dataclass(frozen=True)
class Opcode:
    """One row of the table."""

    format: str
    op: int
    name: str
    destinations: tuple[Slot, ...]
    sources: tuple[Slot, ...]
    scalar_destination: bool  # VOP3 with sdst in place of abs and op_sel
    unused: tuple[str, ...]  # fields that must be zero
    two_encodings: bool  # exists in a 32-bit encoding and as VOP3
    modifiers: Mapping[str, int]  # neg, abs, op_sel, ...: which bits may be set


def _slots(text: str) -> tuple[Slot, ...]:
    pairs = (entry.split(":") for entry in text.split())
    return tuple(
        Slot(field, kind[0], int(kind[1:]) if kind[1:] else _COUNTS[kind]) for field, kind in pairs
    )


def _unused(row: Mapping[str, str]) -> tuple[str, ...]:
    used = {entry.split(":")[0] for entry in f"{row['destinations']} {row['sources']}".split()}
    return tuple(sorted(_MUST_BE_ZERO.get(row["format"], set()) - used))


def _rows(lines: Iterable[str]) -> list[dict[str, str]]:
    table = (line for line in lines if not line.startswith("#"))
    return list(csv.DictReader(table, delimiter="\t"))


def opcodes_of(rows: Sequence[Mapping[str, str]]) -> list[Opcode]:
    """The rows of a table, parsed."""
    long = {row["name"]: row["modifiers"] for row in rows if row["format"] == "VOP3"}
    short = {row["name"] for row in rows if row["format"] in ("VOP1", "VOP2", "VOPC")}
    return [
        Opcode(
            row["format"],
            int(row["op"]),
            row["name"],
            _slots(row["destinations"]),
            _slots(row["sources"]),
            "sdst:" in row["destinations"] and row["format"] == "VOP3",
            _unused(row),
            row["name"] in short and row["name"] in long,
            _masks(row["modifiers"], long.get(row["name"], "")),
        )
        for row in rows
    ]


def _masks(own: str, long: str) -> Mapping[str, int]:
    """A DPP word of a short encoding takes the modifiers of the long one."""
    pairs = (entry.split(":") for entry in f"{long.replace('dpp:1', '')} {own}".split())
    return {name: int(mask) for name, mask in pairs}


def _load() -> Mapping[tuple[str, int], Opcode]:
    text = files("sim.amd.rdna").joinpath("gfx1100.tsv").read_text(encoding="utf-8")
    return {(opcode.format, opcode.op): opcode for opcode in opcodes_of(_rows(text.splitlines()))}


OPCODES = _load()

# Names that are followed by _e32 or _e64 in text, because both encodings have them.
TWO_ENCODINGS = frozenset(opcode.name for opcode in OPCODES.values() if opcode.two_encodings)
