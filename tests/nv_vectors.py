"""The known answers in tests/sim/nv/vectors: machine words, what there was before and after.

A line is `chip word before -> after`, all numbers hexadecimal. Names are R, UR, P, UP with a
number, C<bank>:<offset> a word of a constant bank, G<offset> of global memory, S<offset> of
shared memory, L<offset> of the lanes' local memory, and `mask`, the lanes that run. A value is
one or more items with commas between them: a number, `a..b` for all from a to b, `a/step` for
a, a + step, ... in the 32 lanes, `item*count` for the same again; g and h before a number are
the low and the high word of the address of that byte of global memory. The values of a
register are its lanes', repeated to 32; those of memory words that lie one behind the other.

What `after` does not name stays as it was.
"""

from dataclasses import dataclass
from functools import cache
from pathlib import Path

from sim.nv.sass.decode import chip_number, decode
from sim.nv.sass.opcodes import ROWS

VECTORS = Path(__file__).parent / "sim" / "nv" / "vectors"
ARITHMETIC = ("compare", "convert", "float", "half", "integer", "logic")


@cache
def decoded(word, chip):
    return decode(word, 0, target=chip)


@dataclass(frozen=True)
class Case:
    line: str
    chip: str
    word: int
    before: tuple[tuple[str, str], ...]
    after: tuple[tuple[str, str], ...]
    table: str

    @property
    def instruction(self):
        return decoded(self.word, self.chip)


def _fields(text):
    return tuple(tuple(item.split("=")) for item in text.split())


def parse(line, table=""):
    left, right = line.split("->")
    chip, word, before = left.split(" ", 2)
    return Case(line, chip, int(word, 16), _fields(before), _fields(right), table)


def lines(name):
    """The lines of a table that are no comments."""
    text = (VECTORS / f"{name}.txt").read_text()
    return [line for line in text.splitlines() if line and not line.startswith("#")]


def load():
    cases = {}
    for table in sorted(VECTORS.glob("*.txt")):
        if table.stem != "refused":
            for line in lines(table.stem):
                case = parse(line, table.stem)
                cases.setdefault(case.instruction.name, []).append(case)
    return cases


def numbers(text, base=0):
    """The numbers of a value; base: the address of global memory."""
    result = []
    for item in text.split(","):
        item, _, count = item.partition("*")
        first, _, step = item.partition("/")
        start, _, end = first.partition("..")
        if start[0] in "gh":
            address = base + int(start[1:], 16)
            made = [(address if start[0] == "g" else address >> 32) & 0xFFFF_FFFF]
        else:
            made = list(range(int(start, 16), int(end or start, 16) + 1))
        if step:
            made = [(made[0] + int(step, 16) * lane) & 0xFFFF_FFFF for lane in range(32)]
        result += made * int(count or "1", 16)
    return result


def row_of(word, chip):
    """The row of the instruction table that a word is decoded by."""
    for row in ROWS[chip_number(chip)][word & 0xFFF]:
        if all(word >> low & (1 << width) - 1 == value for low, width, value in row.bits):
            return row
    raise ValueError(f"{word:032x} of {chip}")


CASES = load()
