"""Branches, calls, convergence and barriers: small programs of literal words, in both engines.

control.txt has them: `chip threads: what it shows`, the words, and `->` with what R1 holds in
each thread at the end. S2R puts the thread's number into R0; what stores R1 is put behind.
`lo50` behind a word puts the low half of the address of byte 50 (hexadecimal) into its
immediate, `hi50` the high half, `abs50` the whole into the field of an absolute branch.
"""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
from bare_nv import Gpu
from nv_vectors import numbers

from sim.nv.sass.decode import chip_number
from sim.nv.warp import Launch, WarpFault

PROGRAMS = Path(__file__).parent / "control.txt"
STORE = (
    0x000FE20000000A0000005800FF047B82,  # LDC.64 R4, c[0x0][0x160]
    0x000FE200000E00040000000400027825,  # IMAD.WIDE.U32 R2, R0, 0x4, R4
    0x000FE200001009000000000102007386,  # STG.E [R2.64], R1
    0x000FE20003800000000000000000794D,  # EXIT
)
NOP = 0x000FE200000000000000000000007918
BANK_BYTES = 0x200


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


def patched(word, patch, code, chip):
    if not patch:
        return word
    kind, address = patch[:-2], code + int(patch[-2:], 16)
    if kind == "abs":
        field = address // 4
        if chip_number(chip) < 90:
            return word | field << 34
        return word | (field & 0xFF) << 16 | field >> 8 << 34
    return word | (address & 0xFFFF_FFFF if kind == "lo" else address >> 32) << 32


@pytest.fixture(params=["interpreted", "translated"])
def run(request, tmp_path):
    """run(chip, threads, words): what R1 held in each thread."""

    def one(chip, threads, words):
        gpu = Gpu(chip, interpret=request.param == "interpreted", cache_directory=str(tmp_path))
        code = gpu.room(16 * (len(words) + 8), executable=True)
        whole = [patched(word, patch, code, chip) for word, patch in words] + [*STORE, NOP]
        gpu.memory.write(code, b"".join(word.to_bytes(16, "little") for word in whole))
        out = gpu.put(np.zeros(threads, np.uint32))
        bank = np.zeros(BANK_BYTES, np.uint8)
        bank[0x160:0x168] = np.array([out], np.uint64).view(np.uint8)
        banks = ((gpu.put(bank), BANK_BYTES),) + (None,) * 7
        gpu.executor.run(Launch(
            code, 32, (1, 1, 1), (threads, 1, 1), 0x800, 0x100, gpu.local, 1, banks,
            0x7294 << 32, 0x7293 << 32, chip,
        ))  # fmt: skip
        return gpu.get(out, np.uint32, threads).tolist()

    return one


@pytest.mark.row("SIM-05")
@pytest.mark.parametrize(
    "program", CONTROL_PROGRAMS, ids=lambda p: f"{p.chip} {p.title}".replace(" ", "_")
)
def test_programs_leave_what_their_listing_says(run, program):
    want = np.resize(numbers(program.answer), program.threads).tolist()
    assert run(program.chip, program.threads, program.words) == want


@pytest.mark.refusal
def test_a_trap_stops_the_kernel_and_is_named(run):
    # BPT.TRAP 0x1
    with pytest.raises(WarpFault, match=r"the kernel stopped itself with BPT\.TRAP"):
        run("sm_90", 32, [(0x000FE20000300000000000040000795C, "")])
