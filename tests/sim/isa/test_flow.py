"""Basic blocks found by following code."""

import pytest

from hcq.errors import SimFault
from sim.isa.flow import BasicBlock, Flow


def blocks(code, starts=(0,)):
    """code: by place, what is there: "" for a plain instruction, else where it goes."""

    def read(at):
        if at >= len(code):
            raise SimFault(f"nothing at {at}")
        return at

    def leaves(at):
        return code[at] or None if code[at] != "end" else ()

    return Flow(read, lambda at: at + 1, leaves).blocks(starts, BasicBlock)


def test_straight_code_is_one_block():
    assert blocks(["", "", "end"])[0].instructions == [0, 1, 2]


def test_a_branch_ends_a_block():
    found = blocks(["", (3, 2), "end", "end"])
    assert {start: b.successors for start, b in found.items()} == {0: (3, 2), 2: (), 3: ()}


def test_a_target_within_a_block_splits_it():
    found = blocks(["", "", (1,)])
    assert [(b.instructions, b.successors) for b in found.values()] == [([0], (1,)), ([1, 2], (1,))]


def test_code_that_nobody_reaches_is_not_read():
    assert 1 not in blocks([(2,), "", "end"])


def test_more_starts_are_followed():
    assert set(blocks([(2,), "end", "end"], starts=(0, 1))) == {0, 1, 2}


@pytest.mark.parametrize("code", [["", ""], ["", (2,)]])
def test_what_cannot_be_read_is_a_problem_of_its_block(code):
    last = list(blocks(code).values())[-1]
    assert str(last.problem).startswith("nothing at 2")
