"""Text of instructions, against literal lines and against NVIDIA's disassembler.

Two sources of words: every instruction of the compiled corpus (corpus.py), and words
made from those by changing random bits.
"""

import random
from itertools import chain

import nvdisasm
import pytest
from nv_vectors import CASES

from hcq.errors import SimFault
from sim.nv.sass.decode import decode
from sim.nv.sass.text import text

CHIPS = ("sm_86", "sm_90", "sm_120")
OTHERS = ("sm_80", "sm_89", "sm_100")
EVERY = [*CHIPS, *(pytest.param(chip, marks=pytest.mark.long) for chip in OTHERS)]


@pytest.mark.parametrize(
    ("word", "target", "line"),
    [
        (0x000FE200000000000000000F0E0E7221, "sm_90", "FADD R14, R14, R15"),
        (0x000FE200000100003F80000000040421, "sm_90", "@P0 FADD.FTZ R4, R0, 1"),
        (0x040FE2000000000000006400050D7621, "sm_86", "FADD R13, R5.reuse, c[0x0][0x190]"),
        (0x000FE40007FFE1FF0000000500077210, "sm_90", "IADD3 R7, -R0, R5, RZ"),
        (0x000FCA0007FFE800000000030F087210, "sm_120", "IADD3 R8, PT, PT, R15, R3, -R0"),
        (0x000FE200017E2400000000FFFF0F7210, "sm_90", "IADD3.X R15, RZ, RZ, R0, P2, P1"),
        (0x000FC800078E02FF0000000B0A147225, "sm_90", "IMAD.WIDE R20, R10, R11, RZ"),
        (0x000FE200078E00FF000000FFFF068224, "sm_90", "@!P0 IMAD.MOV.U32 R6, RZ, RZ, RZ"),
        (0x000FE200078E00FF0000000204007824, "sm_90", "IMAD.SHL.U32 R0, R4, 0x2, RZ"),
        (0x000FC600078EC0FF0000000308087212, "sm_90", "LOP3.LUT R8, R8, R3, RZ, 0xc0, !PT"),
        (0x000FC8000001160000000018FF077819, "sm_90", "SHF.R.U32.HI R7, RZ, 0x18, R0"),
        (0x000FDA0003F063000000000D0700720C, "sm_90", "ISETP.GE.AND.EX P0, PT, R7, R13, PT, P0"),
        (0x000FE40000800001FFFFFFFF04047407, "sm_120", "SEL.64 R4, R4, -0x1, P1"),
        (0x040FE20000000800C200420004067430, "sm_90", "HADD2 R6, R4.reuse.H0_H0, -3, 3"),
        (0x000FDC0003F0C2007FF000000600742A, "sm_90", "DSETP.GTU.AND P0, PT, |R6|, +INF , PT"),
        (0x000E24000020D8000000000A000A7311, "sm_90", "F2I.U64.TRUNC R10, R10"),
        (0x000FE200000018FF000000060C04723C, "sm_90", "HMMA.16816.F32 R4, R12, R6, RZ"),
        (0x000EA8000C1E190000000004020E7981, "sm_90", "LDG.E R14, desc[UR4][R2.64]"),
        (0x000EA8000C1E1900000000040A0A7981, "sm_86", "LDG.E R10, [R10.64]"),
        (0x000FE2000C1019040010000502007986, "sm_90", "STG.E desc[UR4][R2.64+0x1000], R5"),
        (0x000FE2000000080000000A00FF017B82, "sm_90", "LDC R1, c[0x0][0x28]"),
        (0x000EA800001008000000080001147983, "sm_90", "LDL R20, [R1+0x8]"),
        (0x000E2E00000021000000000000007919, "sm_90", "S2R R0, SR_TID.X"),
        (0x000FEA00038000000000000000240947, "sm_90", "@P0 BRA 0xa0"),
        (0x000FEA00038000000000009000000947, "sm_86", "@P0 BRA 0xa0"),
        (0x000FEA00038000000000000000007941, "sm_90", "BSYNC B0"),
        (0x001FEA0003E000000000000014007950, "sm_90", "RET.ABS.NODEC R20 0x0"),
        (0x000FEC00000144000000000000007B1D, "sm_90", "BAR.RED.AND.DEFER_BLOCKING 0x0, P0"),
        (0x000FE200081F890000000004FF007981, "sm_86", "LDG.E.MMIO.SYS R0, [UR4]"),
        (0x000FE200081F890000000004FF007981, "sm_90", "LDG.E.MMIO.SYS R0, [RZ.U32+UR4]"),
        (0x000FE200081F890000000004FF007981, "sm_100", "LDG.E.MMIO.SYS R0, [RZ.U32+UR4]"),
        (0x000FE200081F890000000004FF007981, "sm_120", "LDG.E.MMIO.SYS R0, [RZ.U32+UR4]"),
        (0x000FE200081F89000000000402007981, "sm_86", "LDG.E.MMIO.SYS R0, [R2.U32+UR4]"),
    ],
)
def test_lines(word, target, line):
    assert text(decode(word, target=target), target) == line


@pytest.mark.row("SIM-13")
@pytest.mark.parametrize("chip", EVERY)
def test_the_words_of_the_known_answers_read_as_the_disassembler_prints_them(chip, tmp_path):
    words = sorted({case.word for case in chain(*CASES.values()) if case.chip == chip})
    theirs = nvdisasm.disassemble(words, chip, tmp_path)
    ours = [text(decode(word, 16 * i, target=chip), chip) for i, word in enumerate(words)]
    assert [pair for pair in zip(ours, theirs, strict=True) if pair[0] != pair[1]] == []


@pytest.mark.row("SIM-13")
@pytest.mark.parametrize("chip", CHIPS)
def test_a_32_bit_base_reads_as_the_disassembler_prints_it(chip, tmp_path):
    load, store = 0x000FE200081F890000000004_00007981, 0x000FE2000810090400000008_00007986
    words = [word | base << 24 | offset << 40 for word in (load, store)
             for base in (2, 255) for offset in (0, 0x10, 0xFFFFF0)]  # fmt: skip
    theirs = nvdisasm.disassemble(words, chip, tmp_path)
    assert [text(decode(word, target=chip), chip) for word in words] == theirs


@pytest.fixture(scope="module")
def corpus():
    """corpus(chip): section -> code, compiled once."""
    known = {}

    def of(chip):
        if chip not in known:
            known[chip] = nvdisasm.compiled(chip)
        return known[chip]

    return of


@pytest.mark.row("SIM-13")
@pytest.mark.parametrize("chip", EVERY)
def test_every_compiled_instruction_reads_as_the_disassembler_prints_it(chip, corpus, tmp_path):
    words = nvdisasm.words_of(b"".join(corpus(chip).values()))
    theirs = nvdisasm.disassemble(words, chip, tmp_path)
    ours = [text(decode(word, 16 * i, target=chip), chip) for i, word in enumerate(words)]
    assert [pair for pair in zip(ours, theirs, strict=True) if pair[0] != pair[1]] == []


def test_the_corpus_is_as_wide_as_what_the_compiler_emits(corpus):
    sections = [corpus(chip) for chip in CHIPS]
    assert min(len(names) for names in sections) >= 120
    found = [
        decode(word, target=chip)
        for chip, names in zip(CHIPS, sections, strict=True)
        for word in nvdisasm.words_of(b"".join(names.values()))
    ]
    assert len({instruction.name for instruction in found}) >= 100
    assert len({instruction.spelling for instruction in found}) >= 300


def changed(words, rng, count):
    """Words with one to five changed bits, a few from each opcode."""
    result, seen = [], set()
    for word in words:
        if word & 0xFFF in seen:
            continue
        seen.add(word & 0xFFF)
        for _ in range(count):
            other = word
            for _ in range(rng.choice((1, 1, 2, 3, 5))):
                other ^= 1 << rng.choice((rng.randrange(16, 105), rng.randrange(72, 92)))
            result.append(other)
    return result


def ours_of(word, address, chip):
    """Our text, None for what we refuse."""
    try:
        return text(decode(word, address, target=chip), chip)
    except SimFault:
        return None


@pytest.mark.row("SIM-13")
@pytest.mark.parametrize("chip", EVERY)
def test_changed_words_read_as_the_disassembler_prints_them_or_are_refused(chip, corpus, tmp_path):
    rng = random.Random(chip)
    words = changed(nvdisasm.words_of(b"".join(corpus(chip).values())), rng, 24)
    theirs = nvdisasm.disassemble(words, chip, tmp_path)
    ours = [ours_of(word, 16 * i, chip) for i, word in enumerate(words)]
    pairs = [(a, b) for a, b in zip(ours, theirs, strict=True) if a is not None]
    assert len(pairs) > 600
    assert [pair for pair in pairs if pair[0] != pair[1]] == []
