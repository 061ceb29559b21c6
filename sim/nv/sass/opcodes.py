"""The instruction table: reads the text tables of the opcodes_* modules.

One row says how one opcode is decoded. Its columns, separated by bars:

name         what nvdisasm calls it
opcodes      12-bit opcodes in hexadecimal, or `9-bit opcode / forms`; a leading u marks
             the uniform datapath, where slots hold uniform registers
conditions   `74=1` (bit 74 is set), `24+8=ff` (bits 31:24), `>=90` (chip); the first row
             whose conditions hold is taken; `*87+4`: bits 90:87 may hold anything
destinations, sources   operands, in the order they are written
modifiers    what follows the name: `LUT` always, `FTZ@80` if bit 80 is set, `!X@81` if it
             is not, `rnd@78` the name of a field (formats.NAMES), `int64@80+73` a field
             of several pieces, high ones first, `fp8@88,3` three bits wide

Operands: R16 a register, U16 a uniform register, P81 and Q81 a predicate and a uniform
predicate (P!87 with a `not` bit behind it), PR all predicates, A B C the operands of the form
(Z: B whose reuse hint is that of C), #42+12 and ~40+24 unsigned and signed numbers, W 64 bits
of a number, T the table of PLOP3, S72 a special register, K16 a convergence barrier, D44 a
scoreboard, C24+16 a constant with an index register (CU24+17 a uniform one), L N Y branch
targets (far, near, absolute), J24 a branch through a register, V24 the lanes of a divergent
branch, [R24+U32+I40] memory: w is a 64-bit base, e one if bit 72 is set, *78 two bits of
scale, @76 the bit that makes U a descriptor, !90 the bit that must be set with it.

A letter behind a dot says how a slot is read: f float, d double, e high half of a double,
h packed half, m packed half without swizzle, t u v packed pair of floats (with the bit of its
order), i integer with sign, x integer with complement, n plain; a second letter s marks
signed immediates. b and y add a part of a register, q88 a half, p88 a half with a sign, o76 a
byte, g r c the words SIGN ROW COL, j50 a register with its own bit for the reuse hint;
in J, a l c say how the target is written. `:2` counts registers, `:w` takes the count from
the size modifier, `:q` from the formats of a conversion, `:x` from a matrix shape. A question
mark leaves an operand out of the text when it is PT, RZ or 0, `?<100` only on older chips.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache

from sim.nv.sass import (
    opcodes_control,
    opcodes_float,
    opcodes_integer,
    opcodes_matrix,
    opcodes_memory,
    opcodes_move,
    opcodes_uniform,
)
from sim.nv.sass.formats import NAMES, Names

CHIPS = (80, 86, 89, 90, 100, 120)
NO_CONSTANTS = 100  # since this chip arithmetic takes no operand from a constant bank

_OPERAND = re.compile(
    r"(?P<kind>\[.*\]|[A-Z#~]+)(?P<inverted>!?)(?P<low>\d*)(?:\+(?P<width>\d+))?"
    r"(?:\.(?P<mode>\w+))?(?::(?P<count>\w))?(?P<optional>\?)?(?:<(?P<below>\d+))?"
)
_CHIP = re.compile(r"(>=|<|=)(\d+)")
_BITS = re.compile(r"(\d+)(?:\+(\d+))?=(\w+)")
_IGNORED = re.compile(r"\*(\d+)\+(\d+)")


@dataclass(frozen=True)
class Slot:
    """One operand of a row."""

    kind: str
    low: int
    width: int
    inverted: bool
    mode: str
    count: str
    optional: bool
    below: int  # left out of the text only on chips below this


@dataclass(frozen=True)
class Modifier:
    """One modifier of a row: the pieces of its field (low bit, width), and names by value."""

    pieces: tuple[tuple[int, int], ...]
    names: Names


@dataclass(frozen=True)
class Row:
    """How one opcode is decoded, when its conditions hold."""

    name: str
    opcode: int
    uniform: bool
    bits: tuple[tuple[int, int, int], ...]  # (low, width, value)
    ignored: tuple[tuple[int, int], ...]  # (low, width)
    destinations: tuple[Slot, ...]
    sources: tuple[Slot, ...]
    modifiers: tuple[Modifier, ...]


@cache
def _operand(text: str) -> Slot:
    match = _OPERAND.fullmatch(text)
    if match is None:
        raise ValueError(f"operand {text} of the instruction table")
    part = match.groupdict()
    return Slot(
        part["kind"],
        int(part["low"] or 0),
        int(part["width"] or 0),
        bool(part["inverted"]),
        part["mode"] or "",
        part["count"] or "",
        bool(part["optional"]),
        int(part["below"] or 1000),
    )


@cache
def _modifier(text: str) -> Modifier:
    name, _, place = text.partition("@")
    if not place:
        return Modifier((), (name,))
    places, _, width = place.partition(",")
    lows = [int(low) for low in places.split("+")]
    if name.startswith("!"):
        return Modifier(((lows[0], 1),), (name[1:], ""))
    if not name[0].islower():
        return Modifier(((lows[0], 1),), ("", name))
    names = NAMES[name]
    top = max(names) if isinstance(names, Mapping) else len(names) - 1
    first = int(width) if width else max(top.bit_length(), 1) - (len(lows) - 1)
    return Modifier(((lows[0], first), *((low, 1) for low in lows[1:])), names)


def _opcodes(text: str) -> Iterator[tuple[int, bool, bool]]:
    """12-bit opcode, whether it is uniform, whether its operand is a constant."""
    uniform = text.startswith("u")
    for item in text.lstrip("u").split(","):
        base, _, forms = item.partition("/")
        if not forms:
            yield int(base, 16), uniform, False
        for form in forms:
            yield int(base, 16) | int(form) << 9, uniform, form in "35"


def _holds(chip: int, condition: tuple[str, str]) -> bool:
    relation, number = condition[0], int(condition[1])
    if relation == "=":
        return chip == number
    return chip >= number if relation == ">=" else chip < number


def _chips(conditions: list[str]) -> frozenset[int]:
    relations = [m.groups() for c in conditions if (m := _CHIP.fullmatch(c))]
    return frozenset(chip for chip in CHIPS if all(_holds(chip, (r, n)) for r, n in relations))


def _rows(table: str) -> Iterator[tuple[Row, frozenset[int]]]:
    """Every row with the chips it is for."""
    for line in table.strip().splitlines():
        name, opcodes, conditions, *columns = (column.strip() for column in line.split("|"))
        destinations, sources, modifiers = (column.split() for column in columns)
        bits = [m for c in conditions.split() if (m := _BITS.fullmatch(c))]
        ignored = [m for c in conditions.split() if (m := _IGNORED.fullmatch(c))]
        chips = _chips(conditions.split())
        for opcode, uniform, constant in _opcodes(opcodes):
            row = Row(
                name,
                opcode,
                uniform,
                tuple((int(m[1]), int(m[2] or 1), int(m[3], 16)) for m in bits),
                tuple((int(m[1]), int(m[2])) for m in ignored),
                tuple(map(_operand, destinations)),
                tuple(map(_operand, sources)),
                tuple(map(_modifier, modifiers)),
            )
            yield row, frozenset(chip for chip in chips if chip < NO_CONSTANTS or not constant)


def _load() -> Mapping[int, Mapping[int, tuple[Row, ...]]]:
    tables: dict[int, dict[int, tuple[Row, ...]]] = {chip: {} for chip in CHIPS}
    for part in (
        opcodes_integer,
        opcodes_float,
        opcodes_uniform,
        opcodes_move,
        opcodes_memory,
        opcodes_control,
        opcodes_matrix,
    ):
        for row, chips in _rows(part.TABLE):
            for chip in chips:
                known = tables[chip].get(row.opcode, ())
                tables[chip][row.opcode] = (*known, row)
    return tables


# Chip (80 to 120) -> 12-bit opcode -> its rows, in the order they are tried.
ROWS = _load()
