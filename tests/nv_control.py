"""The control programs in tests/sim/nv/control.txt, as test_sass_control.py describes them."""

from dataclasses import dataclass
from pathlib import Path

PROGRAMS = Path(__file__).parent / "sim" / "nv" / "control.txt"
STORE = (
    0x000FE20000000A0000005800FF047B82,  # LDC.64 R4, c[0x0][0x160]
    0x000FE200000E00040000000400027825,  # IMAD.WIDE.U32 R2, R0, 0x4, R4
    0x000FE200001009000000000102007386,  # STG.E [R2.64], R1
    0x000FE20003800000000000000000794D,  # EXIT
)


@dataclass(frozen=True)
class ControlProgram:
    title: str
    chip: str
    threads: int
    words: tuple[tuple[int, str], ...]  # with what is put into them
    answer: str


def load():
    programs = []
    for block in PROGRAMS.read_text().split("\n\n")[1:]:
        head, *lines, last = block.strip().splitlines()
        where, title = head.split(": ")
        chip, threads = where.split()
        parts = [line.partition("#")[0].split() for line in lines]
        words = tuple((int(part[0], 16), part[1] if part[1:] else "") for part in parts)
        answer = last.removeprefix("-> ")
        programs.append(ControlProgram(title, chip, int(threads), words, answer))
    return programs


CONTROL_PROGRAMS = load()
