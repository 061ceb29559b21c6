"""The known answers in tests/sim/nv/vectors: machine words, registers before and after."""

from dataclasses import dataclass
from pathlib import Path

from sim.nv.sass.decode import decode

VECTORS = Path(__file__).parent / "sim" / "nv" / "vectors"


@dataclass(frozen=True)
class Case:
    line: str
    chip: str
    word: int
    before: tuple[tuple[str, int], ...]
    after: tuple[tuple[str, int], ...]

    @property
    def instruction(self):
        return decode(self.word, 0, target=self.chip)


def _fields(text):
    pairs = (item.split("=") for item in text.split())
    return tuple((name, int(value, 16)) for name, value in pairs)


def parse(line):
    left, right = line.split("->")
    chip, word, before = left.split(" ", 2)
    return Case(line, chip, int(word, 16), _fields(before), _fields(right))


def load():
    cases = {}
    for table in sorted(VECTORS.glob("*.txt")):
        for line in table.read_text().splitlines():
            if line and not line.startswith("#"):
                case = parse(line)
                cases.setdefault(case.instruction.name, []).append(case)
    return cases


CASES = load()
