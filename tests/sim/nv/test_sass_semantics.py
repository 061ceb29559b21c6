"""Known answers for every opcode that computes within a lane, and both engines against each other.

The literals lie in vectors/*.txt: machine words, what registers hold before, and after.
"""

import random
import re
from dataclasses import replace
from functools import cache
from itertools import chain
from pathlib import Path

import numpy as np
import pytest
from nv_straight import Machine, State
from nv_vectors import ARITHMETIC, CASES, numbers

from hcq.errors import SimFault
from sim.nv.sass import categories
from sim.nv.sass.categories import all_semantics, lookup
from sim.nv.sass.decode import decode
from sim.nv.sass.instruction import Instruction, Operand
from sim.nv.sass.semantics import CONTROL, NO_EFFECT, means

OLD, ALL = 0xDEAD_BEEF, 0xFFFF_FFFF


def place(state, name):
    """(array, index) of what a name means; None for the lanes that run."""
    letters = name.rstrip("0123456789abcdef:")
    number = name[len(letters) :]
    if letters == "C":
        bank, offset = number.split(":")
        return state.banks[int(bank)], int(offset, 16) // 4
    if letters in ("G", "S"):
        return state.room if letters == "G" else state.shared, int(number, 16) // 4
    if letters == "L":
        return state.local, int(number, 16) // 4
    arrays = {
        "R": state.registers, "P": state.predicates, "UR": state.uniform,
        "UP": state.uniform_predicates,
    }  # fmt: skip
    return arrays[letters], int(number)


def put(state, name, values, lanes=slice(None)):
    array, index = place(state, name)
    if array.ndim == 2:
        array[index, lanes] = np.resize(values, 32)[lanes]
    else:
        array[index : index + len(values)] = values


def state_before(case, base):
    state = State()
    state.registers[:] = OLD
    state.mask = 0xA5F5_0FF1
    for name, text in case.before:
        if name == "mask":
            state.mask = int(text, 16)
        else:
            put(state, name, numbers(text, base))
    return state


def state_after(case, before, base):
    """What a line says: the state before with what it names, in the lanes that run."""
    state = before.copy()
    active = np.array([bool(before.mask >> lane & 1) for lane in range(32)])
    for name, text in case.after:
        put(state, name, numbers(text, base), active)
    return state


def unguarded(case):
    return replace(case.instruction, guard=Operand("pred", 7))


def same(one, two, line):
    for name, value in vars(one).items():
        if name != "mask":
            wrong = np.argwhere(value != getattr(two, name))
            first = [hex(int(getattr(two, name)[tuple(at)])) for at in wrong[:3]]
            assert not len(wrong), (line, name, wrong[:3].tolist(), first)


@cache
def machine(chip):
    return Machine(chip)


@pytest.mark.row("SIM-05")
@pytest.mark.parametrize("name", sorted(CASES))
def test_known_answers_of(name):
    for case in CASES[name]:
        on = machine(case.chip)
        before = state_before(case, on.room)
        same(state_after(case, before, on.room), on.interpret([unguarded(case)], before), case.line)


# --- both engines


CHIPS = ("sm_80", "sm_86", "sm_89", "sm_90", "sm_100", "sm_120")


@pytest.mark.row("SIM-05")
@pytest.mark.parametrize("full", [True, False], ids=["full", "part"])
@pytest.mark.parametrize("chip", CHIPS)
def test_known_answers_of_lanes_and_memory_in_native_code(chip, full, tmp_path):
    cases = [
        case
        for case in chain(*CASES.values())
        if case.table not in ARITHMETIC and case.chip == chip
    ]
    on = Machine(chip, str(tmp_path))
    befores = [state_before(case, on.room) for case in cases]
    pairs = [(c, b) for c, b in zip(cases, befores, strict=True) if (b.mask == ALL) == full]
    run = on.native([[unguarded(case)] for case, _ in pairs], full)
    for number, (case, before) in enumerate(pairs):
        same(state_after(case, before, on.room), run(number, before), case.line)


POOL = sorted(
    {(case.chip, case.word) for case in chain(*CASES.values()) if case.table in ARITHMETIC}
)
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


def test_every_module_that_registers_is_a_category():
    folder = Path(categories.__file__).parent
    registers = re.compile(r"^from sim.nv.sass.semantics import .*\bmeans\b", re.M)
    found = {path.stem for path in folder.glob("*.py") if registers.search(path.read_text())}
    assert {module.__name__.rpartition(".")[2] for module in categories.MODULES} == found


def test_no_opcode_is_both_computed_and_ignored():
    registry = set(all_semantics())
    assert not registry & (CONTROL | NO_EFFECT)
    assert not CONTROL & NO_EFFECT
