"""Stores of registers: written only where a later block reads the home."""

import pytest

from sim.isa.emitter import Emitter
from sim.isa.liveness import Written, write_stores
from sim.isa.register_homes import RegisterHomes


class Words(RegisterHomes):
    """Registers of one word each."""

    def place(self, key):
        return 4 * key, "i32", 4

    def read(self, key):
        return self._fetch(key)

    def write(self, key, text):
        self._define(key, text)


def stores(*blocks, everything=frozenset()):
    """blocks: (start, successors, what the block does); the stores that are written."""
    emitter = Emitter(32)
    written = []
    for start, successors, act in blocks:
        emitter.label(f"b{start}")
        registers = Words(emitter)
        act(registers)
        written.append(Written(start, successors, registers))
    write_stores(emitter.lines, written, set(everything))
    return [line.split(",")[0].strip() for line in emitter.lines if " store " in line]


def nothing(_):
    pass


def seven(registers):
    registers.write(3, "7")


def read(registers):
    registers.read(3)


def test_a_register_that_nobody_reads_is_not_stored():
    assert stores((0, (1,), seven), (1, (), nothing)) == []


@pytest.mark.parametrize("between", [nothing, read])
def test_a_register_that_a_later_block_reads_is_stored(between):
    assert stores((0, (1,), seven), (1, (2,), between), (2, (), read)) == ["store i32 7"]


def test_a_register_that_is_written_again_before_it_is_read_is_not_stored():
    def eight_and_read(registers):
        registers.write(3, "8")
        registers.read(3)

    assert stores((0, (1,), seven), (1, (), eight_and_read)) == []


def test_everything_lives_where_code_goes_anywhere():
    assert stores((0, None, seven), everything={3}) == ["store i32 7"]


def test_a_call_that_reads_a_home_needs_its_store():
    def seven_and_call(registers):
        registers.write(3, "7")
        registers.expose([3])

    assert stores((0, (), seven_and_call)) == ["store i32 7"]


def test_a_call_that_writes_a_whole_home_makes_the_store_before_it_needless():
    def seven_and_call(registers):
        registers.write(3, "7")
        registers.overwrite([3], whole=True)

    assert stores((0, (1,), seven_and_call), (1, (), read)) == []
