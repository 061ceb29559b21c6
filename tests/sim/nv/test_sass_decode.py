"""Machine code to instructions: literal words, and what is refused."""

import struct

import pytest

from hcq.errors import SimFault
from sim.nv.sass.decode import decode, decode_all
from sim.nv.sass.instruction import Operand

FADD = 0x000FE200000000000000000F0E0E7221
LDG = 0x000EA8000C1E190000000004020E7981
BRA = 0x000FEA00038000000000000000240947
NOP = 0x000FC000000000000000000000007918


def test_a_float_addition_has_its_registers_in_assembly_order():
    instruction = decode(FADD)
    assert instruction.name == "FADD"
    assert instruction.modifiers == ()
    assert instruction.destinations == (Operand("reg", 14),)
    assert instruction.sources == (Operand("reg", 14), Operand("reg", 15))


def test_the_guard_of_an_unconditional_instruction_is_pt():
    assert decode(FADD).guard == Operand("pred", 7)


def test_a_guard_may_be_inverted():
    assert decode(FADD & ~0xF000 | 0xA000).guard == Operand("pred", 2, inv=True)


def test_the_uniform_datapath_is_guarded_by_uniform_predicates():
    assert decode(0x000FF6000FFFE03F0000003F3F3FF290).guard == Operand("upred", 7, inv=True)


def test_float_sources_may_be_negative_and_absolute():
    first, second = decode(FADD | 1 << 72 | 1 << 62).sources
    assert (first.neg, first.abs, second.neg, second.abs) == (True, False, False, True)


def test_modifiers_stand_in_the_order_they_are_written():
    assert decode(FADD | 1 << 80 | 3 << 78 | 1 << 77).modifiers == ("FTZ", "RZ", "SAT")


def test_a_float_immediate_holds_its_bits():
    assert decode(0x000FE200000100003F80000000040421).sources[1] == Operand(
        "fimm", count=32, value=0x3F800000
    )


def test_the_immediate_of_a_double_is_its_high_half():
    assert decode(0x040FE200000002003FE0000016107429).sources[1] == Operand(
        "fimm", count=64, value=0x3FE00000
    )


def test_packed_halves_share_one_immediate():
    assert decode(0x040FE20000000800C200420004067430).sources[1] == Operand(
        "fimm", count=16, value=0xC2004200
    )


def test_a_negative_integer_immediate_holds_32_bits_and_is_signed():
    word = 0x000FC80007FFE0FFFFFFFF0307097810
    assert decode(word).sources[1] == Operand("imm", value=0xFFFFFF03, signed=True)


def test_a_64_bit_integer_immediate_is_extended():
    word = 0x000FE40000800001FFFFFFFF04047407
    assert decode(word, target="sm_120").sources[1] == Operand(
        "imm", count=2, value=0xFFFFFFFFFFFFFFFF, signed=True
    )


def test_a_constant_names_bank_and_offset():
    word = 0x040FE2000000000000006400050D7621
    assert decode(word, target="sm_86").sources[1] == Operand("const", value=0x190, bank=0)


def test_a_wide_multiplication_covers_pairs():
    instruction = decode(0x004FCC00078E02060000000405067825)
    assert instruction.spelling == "IMAD.WIDE"
    assert [operand.count for operand in instruction.destinations] == [2, 1]
    assert [operand.count for operand in instruction.sources] == [1, 1, 2]


def test_predicates_the_text_leaves_out_are_listed():
    assert decode(0x004FCC00078E02060000000405067825).destinations[1] == Operand(
        "pred", 7, hidden=True
    )


def test_an_addition_with_carry_complements_instead_of_negating():
    word = 0x000FE200017E2400000000FFFF0F7210
    assert decode(word | 1 << 75).sources[2] == Operand("reg", 0, inv=True)


def test_a_load_has_a_pair_and_a_descriptor():
    memory = decode(LDG).sources[0]
    assert memory.base == Operand("reg", 2, 2)
    assert memory.descriptor == Operand("ureg", 4, 2)
    assert memory.wide


def test_the_size_of_a_load_decides_how_many_registers_it_writes():
    assert [decode(LDG | size << 73).destinations[1].count for size in (4, 5, 6)] == [1, 2, 4]


def test_offsets_are_signed():
    assert decode(LDG | 0xFFFFF0 << 40).sources[0].value == -16


def test_shared_memory_scales_its_base():
    memory = decode(0x000E2800000008000000000004057984 | 2 << 78).sources[0]
    assert (memory.scale, memory.base) == (8, Operand("reg", 4))


def test_a_branch_names_an_address():
    assert decode(BRA, 0x1000).target == 0x10A0


def test_older_chips_keep_branch_distances_elsewhere():
    assert decode(0x000FEA00038000000000009000000947, 0x1000, target="sm_86").target == 0x10A0


def test_an_addition_has_no_target():
    assert decode(FADD).target is None


def test_an_indexed_branch_adds_its_register_to_an_address():
    jump = decode(0x000FEA000383FFFFFFFFFFFC04B07949, 0x130).sources[1]
    assert (jump.kind, jump.base, jump.value) == ("jump", Operand("reg", 4, 2), 0)


def test_a_matrix_product_covers_fragments():
    instruction = decode(0x000FE200000018FF000000060C04723C)
    counts = [operand.count for operand in instruction.destinations + instruction.sources]
    assert counts == [4, 4, 2, 4]


def test_urz_is_63_before_sm_100_and_255_since():
    old = decode(0x000FC600080000000000003F00047C82, target="sm_90")
    new = decode(0x000FC80008010000000000FF00047C82, target="sm_120")
    assert (old.sources[0].index, new.sources[0].index) == (63, 255)


def test_code_is_a_row_of_16_byte_instructions():
    code = struct.pack("<QQQQ", FADD & (1 << 64) - 1, FADD >> 64, NOP & (1 << 64) - 1, NOP >> 64)
    addresses = [(i.address, i.name) for i in decode_all(code, 0x7F00)]
    assert addresses == [(0x7F00, "FADD"), (0x7F10, "NOP")]


@pytest.mark.row("SIM-03")
@pytest.mark.refusal
@pytest.mark.parametrize(
    ("word", "what"),
    [
        (FADD & ~0xFFF | 0xFFF, "unknown opcode 0xfff"),
        (FADD | 1 << 90, "FADD with unknown bits 0x40000000000000000000000"),
        (LDG | 7 << 73, "LDG with the value 7 in the field at bit 73"),
        (LDG & ~(1 << 72), "LDG with a 32-bit address"),
        (0x000FE200000008001000000900097230, "HADD2 has no such half of operand Z"),
        (0x000FEA00038000000000000000007941 | 1 << 91, "BSYNC with unknown bits"),
        (0x000E24000020D8000000000A000A7311 & ~(3 << 75), "F2I of 64 bits without"),
        (0x000FE2000FFFE03F0000000504047290 & ~(1 << 91), "UIADD3 without the bit"),
    ],
)
def test_what_no_table_names_is_refused(word, what):
    with pytest.raises(SimFault, match=what):
        decode(word)


@pytest.mark.row("SIM-03")
@pytest.mark.refusal
def test_a_refusal_names_words_and_position():
    with pytest.raises(SimFault, match="opcode") as caught:
        decode(0xFFF, 0x1230, target="sm_86")
    assert caught.value.facts == {
        "target": "sm_86",
        "words": "00000fff 00000000 00000000 00000000",
        "address": "0x1230",
    }


@pytest.mark.refusal
def test_an_instruction_of_another_chip_is_refused():
    with pytest.raises(SimFault, match="unknown opcode 0x235"):
        decode(0x000FE400078E0100000000FF03007235, target="sm_100")


@pytest.mark.refusal
def test_an_unknown_chip_is_refused():
    with pytest.raises(SimFault, match="machine code of sm_70 is not known"):
        decode(FADD, target="sm_70")


@pytest.mark.refusal
def test_code_that_ends_inside_an_instruction_is_refused():
    with pytest.raises(SimFault, match="code of 17 bytes ends inside an instruction"):
        list(decode_all(b"\0" * 17))


def test_a_matrix_load_writes_a_register_for_each_matrix():
    counts = [decode(0x000EA80000000000000010000008783B | n << 72) for n in (0, 1, 2)]
    assert [instruction.destinations[0].count for instruction in counts] == [1, 2, 4]
