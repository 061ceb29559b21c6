"""Known answers for every opcode that computes within a lane, and both engines against each other.

The literals lie in vectors/*.txt: machine words, what registers hold before, and after.
"""

import random
from dataclasses import replace

import numpy as np
import pytest
from nv_straight import Machine, State
from nv_vectors import CASES

from hcq.errors import SimFault
from sim.nv.sass.categories import all_semantics, lookup
from sim.nv.sass.decode import decode
from sim.nv.sass.instruction import Instruction, Operand
from sim.nv.sass.semantics import CONTROL, NO_EFFECT, means

OLD = 0xDEAD_BEEF


def put(state, name, value):
    """Set a register in every lane."""
    if name.startswith("C"):
        bank, offset = name[1:].split(":")
        state.banks[int(bank), int(offset, 16) // 4] = value
    elif name.startswith("UR"):
        state.uniform[int(name[2:])] = value
    elif name.startswith("UP"):
        state.uniform_predicates[int(name[2:])] = value
    elif name.startswith("R"):
        state.registers[int(name[1:])] = value
    else:
        state.predicates[int(name[1:])] = value


def get(state, name):
    if name.startswith("UR"):
        return state.uniform[int(name[2:])]
    if name.startswith("UP"):
        return state.uniform_predicates[int(name[2:])]
    if name.startswith("R"):
        return state.registers[int(name[1:])]
    return state.predicates[int(name[1:])]


def check(case):
    before = State()
    before.registers[:] = OLD
    before.mask = 0xA5F5_0FF1
    for name, value in case.before:
        put(before, name, value)
    instruction = replace(case.instruction, guard=Operand("pred", 7))
    after = Machine(case.chip).interpret([instruction], before)
    active = np.array([bool(before.mask >> lane & 1) for lane in range(32)])
    for name, value in case.after:
        got = get(after, name)
        if np.ndim(got):
            assert (got[active] == value).all(), f"{case.line}: {name}={int(got[0]):x}"
            assert (got[~active] == get(before, name)[~active]).all(), case.line
        else:
            assert got == value, f"{case.line}: {name}={int(got):x}"


@pytest.mark.row("SIM-05")
@pytest.mark.parametrize("name", sorted(CASES))
def test_known_answers_of(name):
    for case in CASES[name]:
        check(case)


# --- both engines


POOL = sorted({(case.chip, case.word) for cases in CASES.values() for case in cases})
SPECIAL = [0, 1, 31, 32, 33, 0x7FFF_FFFF, 0x8000_0000, 0xFFFF_FFFF, 0x3F80_0000, 0xBF80_0000,
           0x7F80_0000, 0xFF80_0000, 0x7FC0_0000, 0x7F80_0001, 0x8000_0001, 0x007F_FFFF,
           0x7C00_FC00, 0x7E01_0001, 0x3C00_BC00, 0x43E0_0000, 0x4F00_0000]  # fmt: skip


def mutated(rng, instruction):
    """The instruction with other registers, pairs still even."""

    def other(operand):
        if operand.kind == "reg" and operand.index != 255:
            return replace(operand, index=rng.randrange(0, 16) // operand.count * operand.count)
        if operand.kind == "pred" and operand.index != 7:
            return replace(operand, index=rng.randrange(7))
        return operand

    guard = Operand("pred", rng.randrange(7), inv=rng.random() < 0.5)
    if rng.random() < 0.7 or instruction.name.startswith("U"):
        guard = Operand("pred", 7)
    return replace(
        instruction, guard=guard,
        destinations=tuple(map(other, instruction.destinations)),
        sources=tuple(map(other, instruction.sources)),
    )  # fmt: skip


def random_state(rng, mask):
    state = State()
    numbers = np.random.default_rng(rng.getrandbits(32))
    for row in state.registers[:40]:
        row[:] = numbers.integers(0, 1 << 32, 32)
        singles = (numbers.standard_normal(32) * 2.0 ** numbers.integers(-8, 9, 32)).astype("f")
        choice = numbers.integers(0, 4, 32)
        row[:] = np.where(choice == 0, numbers.choice(SPECIAL, 32), row)
        row[:] = np.where(choice == 1, singles.view(np.uint32), row)
    state.predicates[:] = numbers.integers(0, 2, (7, 32))
    state.uniform[:60] = numbers.integers(0, 1 << 32, 60)
    state.uniform_predicates[:] = numbers.integers(0, 2, 7)
    state.banks[:] = numbers.integers(0, 1 << 32, state.banks.shape)
    state.mask = mask
    return state


def program(rng, chip, length):
    words = [word for where, word in POOL if where == chip]
    chosen = [decode(rng.choice(words), 0, target=chip) for _ in range(length)]
    return [replace(mutated(rng, i), address=16 * at) for at, i in enumerate(chosen)]


@pytest.mark.row("SIM-05")
@pytest.mark.parametrize("mask", [0xFFFF_FFFF, 0x0F0F_33F1], ids=["full", "part"])
@pytest.mark.parametrize("chip", ["sm_86", "sm_90", "sm_120"])
@pytest.mark.parametrize("seed", range(3))
def test_random_programs_leave_the_same_bits_in_both_engines(seed, chip, mask, tmp_path):
    rng = random.Random(f"{seed} {chip} {mask}")
    machine = Machine(chip, str(tmp_path))
    instructions = program(rng, chip, 60)
    before = random_state(rng, mask)
    one, two = machine.interpret(instructions, before), machine.translate(instructions, before)
    for name in ("registers", "predicates", "uniform", "uniform_predicates"):
        a, b = getattr(one, name), getattr(two, name)
        wrong = np.argwhere(a != b)
        assert not len(wrong), (name, wrong[:3].tolist(), [i.spelling for i in instructions])


# --- refusals


def test_an_opcode_has_one_owner():
    with pytest.raises(ValueError, match="IADD3 has a meaning already"):
        means("IADD3")(lambda _: None)


@pytest.mark.refusal
def test_an_instruction_without_a_meaning_is_named():
    unknown = Instruction(0, 0, "IADDD", ("X",), Operand("pred", 7), (), ())
    with pytest.raises(SimFault, match=r"IADDD\.X is not simulated, did you mean 'IADD"):
        lookup(unknown)


def test_no_opcode_is_both_computed_and_ignored():
    registry = set(all_semantics())
    assert not registry & (CONTROL | NO_EFFECT)
    assert not CONTROL & NO_EFFECT
