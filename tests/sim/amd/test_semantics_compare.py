"""Known answers for every comparison: v_cmp writes a mask, v_cmpx EXEC, inactive lanes give 0."""

from pathlib import Path

import numpy as np
import pytest

from sim.amd.rdna.categories import all_semantics
from sim.amd.rdna.instruction import Instruction, Operand
from sim.amd.rdna.interpret import Wave
from sim.amd.rdna.operands import execute

TABLE = Path(__file__).parent / "vectors" / "comparisons.txt"
FAMILIES = {"float": ("f16", "f32", "f64"), "signed": ("i16", "i32", "i64"),
            "unsigned": ("u16", "u32", "u64")}  # fmt: skip


def load():
    """{mnemonic without v_cmp: (pairs of operands, expected bits)}."""
    pairs, cases = {}, {}
    for line in TABLE.read_text().splitlines():
        words = line.split()
        if not words or words[0] == "#" or line.startswith("#"):
            continue
        if words[0] == "pairs":
            pairs[words[1]] = [tuple(int(n, 16) for n in word.split(",")) for word in words[2:]]
        elif words[0] == "class":
            values = [int(word, 16) for word in words[2:]]
            own = [(value, 1 << bit) for bit, value in enumerate(values)]
            others = [(value, 0x3FF & ~(1 << bit)) for bit, value in enumerate(values)]
            cases[f"class_{words[1]}"] = (own + others, "1" * 10 + "0" * 10)
        else:
            for kind in FAMILIES[words[0]]:
                name = f"{words[1]}_{kind}"
                if f"v_cmp_{name}" in all_semantics():
                    cases[name] = (pairs[kind], words[2])
    return cases


CASES = load()


def compare(name, pairs, live):
    wave = Wave(32, 0, bytearray())
    wave.set_exec(live)
    for index, column in ((2, 0), (6, 1)):
        numbers = np.array([pair[column] for pair in pairs], np.uint64)
        wave.vgprs[index, : len(pairs)] = (numbers & np.uint64(0xFFFF_FFFF)).astype(np.uint32)
        wave.vgprs[index + 1, : len(pairs)] = (numbers >> np.uint64(32)).astype(np.uint32)
    wave.scalars["sgpr"][60] = 0xFFFF_FFFF
    destination = Operand("exec" if "cmpx" in name else "sgpr", 0 if "cmpx" in name else 60)
    sources = (Operand("vgpr", 2), Operand("vgpr", 6))
    execute(Instruction(0, 4, "VOPC", name, 0, {}, (destination,), sources), wave)
    return int(wave.scalars[destination.kind][destination.index])


def mask_of(bits, live):
    return sum(1 << at for at, bit in enumerate(bits) if bit == "1") & live


@pytest.mark.parametrize("live", [0xFFFF_FFFF, 0xFFFF_F5B6])
@pytest.mark.parametrize("name", sorted(CASES))
def test_v_cmp(name, live):
    pairs, bits = CASES[name]
    # Lanes beyond the pairs compare 0 with 0: keep them off.
    live &= (1 << len(pairs)) - 1
    assert compare(f"v_cmp_{name}", pairs, live) == mask_of(bits, live)


@pytest.mark.parametrize("name", sorted(CASES))
def test_v_cmpx(name):
    pairs, bits = CASES[name]
    live = (1 << len(pairs)) - 2
    assert compare(f"v_cmpx_{name}", pairs, live) == mask_of(bits, live)


def test_every_comparison_has_a_known_answer():
    compared = {f"v_{kind}_{name}" for name in CASES for kind in ("cmp", "cmpx")}
    assert {name for name in all_semantics() if name.startswith("v_cmp")} == compared
