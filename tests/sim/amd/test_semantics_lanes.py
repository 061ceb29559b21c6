"""Known answers for instructions that move values between lanes, and for matrix products."""

from pathlib import Path

import numpy as np
import pytest

from sim.amd.rdna.categories import all_semantics
from sim.amd.rdna.instruction import Instruction, Operand
from sim.amd.rdna.interpret import Wave
from sim.amd.rdna.operands import execute

VECTORS = Path(__file__).parent / "vectors"
DATA, OLD = 0x100, 0xDEAD_BEEF


def lines(name):
    text = (VECTORS / name).read_text().splitlines()
    return [line for line in text if line and not line.startswith("#")]


def arrange(name, keys, wave):
    """The sources of an instruction, their registers filled."""
    wave.vgprs[1] = DATA + np.arange(wave.width)
    data = Operand("vgpr", 1)
    if "mbcnt" in name:
        wave.scalars["sgpr"][0:2] = [int(keys["mask"], 16), int(keys["base"], 16)]
        return (Operand("sgpr", 0), Operand("sgpr", 1))
    if "permlane" in name and "low" in keys:
        wave.scalars["sgpr"][0:2] = [int(keys["low"], 16), int(keys["high"], 16)]
        return (data, Operand("sgpr", 0), Operand("sgpr", 1))
    if "permute" in name:
        wave.vgprs[2] = 4 * np.array([int(n) for n in keys["index"].split(",")])
        return (Operand("vgpr", 2), data)
    if "index" in keys:
        first = Operand("int", 128, 1, 0) if "data" in keys else data
        return (first, Operand("int", 0, 1, int(keys["index"])))
    return (data,)


def run(line):
    """(destination VGPR lanes or SGPR, expected words)."""
    left, right = line.split("->")
    name, *words = left.split()
    keys = dict(word.split("=") for word in words)
    wave = Wave(32, 0, bytearray())
    wave.set_exec(int(keys["exec"], 16))
    wave.vgprs[9] = OLD
    sources = arrange(name, keys, wave)
    uniform = "read" in name
    destination = Operand("sgpr" if uniform else "vgpr", 9)
    instruction = Instruction(
        0, 8, "VOP3", name, 0, {}, (destination,), sources,
        offset=int(keys.get("imm", "0"), 16), op_sel=int(keys.get("op_sel", "0"), 16),
    )  # fmt: skip
    execute(instruction, wave)
    got = [int(wave.scalars["sgpr"][9])] if uniform else wave.vgprs[9].tolist()
    return got, [word_of(item) for item in right.strip().split(",")]


def word_of(item):
    if item.startswith("#"):
        return int(item[1:])
    return {".": OLD, "z": 0}.get(item) if item in ".z" else DATA + int(item)


@pytest.mark.parametrize("line", lines("lanes.txt"))
def test_lane_movement(line):
    got, wanted = run(line)
    assert got == wanted


def test_permlane64_exchanges_the_halves_of_a_wide_wave():
    wave = Wave(64, 0, bytearray())
    wave.set_exec((1 << 64) - 1)
    wave.vgprs[1] = np.arange(64)
    instruction = Instruction(
        0, 4, "VOP1", "v_permlane64_b32", 0, {}, (Operand("vgpr", 2),), (Operand("vgpr", 1),)
    )
    execute(instruction, wave)
    assert wave.vgprs[2].tolist() == [*range(32, 64), *range(32)]


def test_mbcnt_counts_across_both_words_of_a_wide_wave():
    wave = Wave(64, 0, bytearray())
    wave.set_exec((1 << 64) - 1)
    for name, source, target in (("lo", Operand("int", 0, 1, 0), 2), ("hi", Operand("vgpr", 2), 3)):
        execute(
            Instruction(
                0, 8, "VOP3", f"v_mbcnt_{name}_u32_b32", 0, {}, (Operand("vgpr", target),),
                (Operand("int", 0, 1, -1), source),
            ),
            wave,
        )  # fmt: skip
    assert wave.vgprs[3].tolist() == list(range(64))


# --- matrix products


def half_bits(values, name):
    """Words of two halves per register: lane major."""
    if "iu" in name:
        bits = 8 if "iu8" in name else 4
        words = np.zeros((values.shape[0], values.shape[1] * bits // 32), np.uint32)
        for at in range(values.shape[1]):
            field = np.uint32(1 << bits) - 1 & values[:, at].astype(np.int32).view(np.uint32)
            words[:, at * bits // 32] |= field << np.uint32(at * bits % 32)
        return words
    if "bf16" in name.split("16x16x16_")[1]:
        raw = values.astype(np.float32).view(np.uint32) >> np.uint32(16)
    else:
        raw = values.astype(np.float16).view(np.uint16).astype(np.uint32)
    return raw[:, 0::2] | raw[:, 1::2] << np.uint32(16)


def result_bits(values, name):
    kind = name.split("_")[2]
    if kind == "i32":
        return values.astype(np.int32).view(np.uint32)
    if kind == "f16":
        return values.astype(np.float16).view(np.uint16).astype(np.uint32)
    raw = values.astype(np.float32).view(np.uint32)
    return raw if kind == "f32" else raw >> np.uint32(16)


def matrices():
    row, column = np.mgrid[0:16, 0:16]
    a = (3 * row + 5 * column) % 7 - 3
    b = (2 * row + 7 * column) % 5 - 2
    return a, b, row * column % 3


@pytest.mark.row("SIM-04")
@pytest.mark.parametrize("line", lines("matrix.txt"))
def test_matrix_product(line):
    left, right = line.split("->")
    name = left.strip().removesuffix("_w64")
    width = 64 if "_w64" in left else 32
    rows = width // 16  # of one register
    a, b, c = matrices()
    wave = Wave(width, 0, bytearray())
    wave.set_exec((1 << width) - 1)
    words = half_bits(a, name)
    count = words.shape[1]
    lane = np.arange(width)
    wave.vgprs[0:count] = words[lane % 16].T
    wave.vgprs[8 : 8 + count] = half_bits(b.T, name)[lane % 16].T
    addends = result_bits(c, name)
    for register in range(16 // rows):
        wave.vgprs[16 + register] = addends[rows * register + lane // 16, lane % 16]
    instruction = Instruction(
        0, 8, "VOP3P", name, 0, {}, (Operand("vgpr", 24, 16 // rows),),
        (Operand("vgpr", 0, count), Operand("vgpr", 8, count), Operand("vgpr", 16, 16 // rows)),
        neg_lo=3 if "iu" in name else 0,
    )  # fmt: skip
    execute(instruction, wave)
    for spot in right.split():
        place, number = spot.split("=")
        row, column = (int(n) for n in place.split(","))
        word = int(wave.vgprs[24 + row // rows, row % rows * 16 + column])
        assert word == int(result_bits(np.array([int(number)]), name)[0]), spot


# --- every opcode has a vector


def test_every_executable_opcode_has_a_known_answer():
    named = set()
    for table in VECTORS.glob("*.txt"):
        named |= {line.split()[0] for line in lines(table.name)}
    compared = {name for name in all_semantics() if name.startswith("v_cmp")}
    assert set(all_semantics()) - compared - named == set()
