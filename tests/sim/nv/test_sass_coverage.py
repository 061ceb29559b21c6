"""Every opcode has literal known answers, or is refused by name.

The instruction table says what opcodes there are; the words of vectors/*.txt and control.txt
show which of them have answers, those of vectors/refused.txt which are refused.
"""

from itertools import chain

import pytest
from nv_control import CONTROL_PROGRAMS, STORE
from nv_straight import Machine, State
from nv_units import every_unit, units_of
from nv_vectors import CASES, decoded, lines

from hcq.errors import SimFault
from sim.nv.sass.cfg import Block, Program
from sim.nv.sass.decode import chip_number
from sim.nv.sass.translate import Translator

REFUSED = [line.split(" ", 2) for line in lines("refused")]


def answered():
    """(word, chip) of everything with a literal answer."""
    yield from ((case.word, case.chip) for case in chain(*CASES.values()))
    yield from ((word, p.chip) for p in CONTROL_PROGRAMS for word, _ in p.words)
    yield from ((word, "sm_90") for word in STORE)


def refused():
    yield from ((int(word, 16), chip) for chip, word, _ in REFUSED)


def without(words):
    """The units of the table that none of these words shows."""
    shown = set().union(*(units_of(word, chip) for word, chip in words))
    return {unit: chips for unit, chips in every_unit().items() if unit not in shown}


@pytest.mark.row("SIM-05")
def test_every_opcode_form_and_modifier_has_known_answers_or_is_refused():
    assert without(chain(answered(), refused())) == {}


@pytest.mark.row("SIM-05")
def test_an_opcode_without_known_answers_is_found():
    rest = [(word, chip) for word, chip in answered() if decoded(word, chip).name != "FFMA"]
    assert {unit[0] for unit in without(chain(rest, refused()))} == {"FFMA"}


@pytest.mark.row("SIM-05")
def test_a_form_without_known_answers_is_found():
    # IADD3 with an immediate: 0x810
    rest = [(word, chip) for word, chip in answered() if word & 0xFFF != 0x810]
    assert {unit[:2] for unit in without(chain(rest, refused()))} == {("IADD3", "0x810")}


@pytest.mark.row("SIM-03")
@pytest.mark.refusal
@pytest.mark.parametrize(("chip", "word", "message"), REFUSED, ids=lambda text: text[-40:])
def test_what_has_no_meaning_is_refused_by_name(chip, word, message):
    instruction = decoded(int(word, 16), chip)
    with pytest.raises(SimFault) as caught:
        Machine(chip).interpret([instruction], State())
    assert str(caught.value).splitlines()[0] == message
    translator = Translator(Program({0: Block(0, [instruction])}), chip_number(chip), full=True)
    translator.text("refused")
    assert [str(problem).splitlines()[0] for problem in translator.problems.values()] == [message]
    assert instruction.name in message
