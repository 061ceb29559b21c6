"""Decoding: literal words in, instructions out, and what is refused.

The words were assembled by hand from the encoding tables of the RDNA 3 ISA document.
"""

import random
import struct
import time

import pytest

from hcq.errors import SimFault
from sim.amd.rdna.decode import decode, decode_all
from sim.amd.rdna.instruction import Dpp, Operand, inline_bits
from sim.amd.rdna.opcodes import OPCODES
from sim.amd.rdna.text import text


def of(*words, **options):
    return decode(struct.pack(f"<{len(words)}I", *words), **options)


def test_scalar_add_has_its_three_registers():
    instruction = of(0x80030201)  # SOP2 op 0: sdst 3, ssrc1 2, ssrc0 1
    assert (instruction.name, instruction.format, instruction.size) == ("s_add_u32", "SOP2", 4)
    assert instruction.destinations == (Operand("sgpr", 3),)
    assert instruction.sources == (Operand("sgpr", 1), Operand("sgpr", 2))


def test_vector_add_reads_vgprs_from_code_256():
    instruction = of(0x06020503)  # VOP2 op 3: vdst 1, vsrc1 2, src0 0x103
    assert instruction.name == "v_add_f32"
    assert instruction.destinations == (Operand("vgpr", 1),)
    assert instruction.sources == (Operand("vgpr", 0x103 - 256), Operand("vgpr", 2))


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        (0x80, Operand("int", 128, 1, 0)),
        (0xC0, Operand("int", 192, 1, 64)),
        (0xC1, Operand("int", 193, 1, -1)),
        (0xD0, Operand("int", 208, 1, -16)),
        (0xF0, Operand("float", 240, 1, 0x3F000000)),
        (0xF8, Operand("float", 248, 1, 0x3E22F983)),
        (0x69, Operand("sgpr", 105)),
        (0x6A, Operand("vcc", 0)),
        (0x6B, Operand("vcc", 1)),
        (0x6C, Operand("ttmp", 0)),
        (0x7B, Operand("ttmp", 15)),
        (0x7C, Operand("null", 124)),
        (0x7D, Operand("m0", 125)),
        (0x7E, Operand("exec", 0)),
        (0x7F, Operand("exec", 1)),
        (0xEB, Operand("aperture", 235)),
        (0xEE, Operand("aperture", 238)),
        (0xFB, Operand("vccz", 251)),
        (0xFC, Operand("execz", 252)),
        (0xFD, Operand("scc", 253)),
    ],
)
def test_scalar_source_codes(code, expected):
    assert of(0xBE800000 | code).sources == (expected,)  # s_mov_b32 s0, ...


@pytest.mark.parametrize(
    ("bits", "expected"), [(16, 0x3118), (32, 0x3E22F983), (64, 0x3FC45F306DC9C882)]
)
def test_inverse_two_pi_has_its_own_bits_per_width(bits, expected):
    assert inline_bits(of(0xBE8000F8).sources[0], bits) == expected


def test_a_literal_makes_the_instruction_longer():
    instruction = of(0x7E0202FF, 0x12345678)  # v_mov_b32 v1, 0x12345678
    assert instruction.size == 8
    assert instruction.literal == 0x12345678
    assert instruction.sources == (Operand("literal", 255, 1, 0x12345678),)


def test_two_operands_share_one_literal():
    instruction = of(0xD6130005, 0x03FDFEFF, 0x40490FDB)  # v_fma_f32, three times code 255
    assert instruction.size == 12
    assert [source.value for source in instruction.sources] == [0x40490FDB] * 3


def test_fmamk_keeps_its_constant_between_the_sources():
    instruction = of(0x58020503, 0x42280000)  # v_fmamk_f32 v1, v3, 42.0, v2
    assert instruction.sources == (
        Operand("vgpr", 3),
        Operand("literal", 255, 1, 0x42280000),
        Operand("vgpr", 2),
    )


def test_branch_target_counts_words_from_the_next_instruction():
    instruction = of(0xBFA0FFFE, address=0x1000)  # s_branch -2
    assert instruction.offset == -2
    assert instruction.target == 0x0FFC


def test_vop3_modifiers_stand_in_the_operands():
    instruction = of(0xD5038105, 0x50020501)  # v_add_f32 v5, |v1|, -v2 clamp mul:4
    assert instruction.sources == (
        Operand("vgpr", 1, abs=True),
        Operand("vgpr", 2, neg=True),
    )
    assert instruction.clamp
    assert instruction.omod == 2


def test_op_sel_chooses_halves_of_16_bit_operands():
    instruction = of(0xD5325005, 0x00020501)  # v_add_f16 v5.h, v1.l, v2.h
    assert instruction.destinations == (Operand("vgpr", 5, hi=True),)
    assert instruction.sources == (Operand("vgpr", 1), Operand("vgpr", 2, hi=True))


def test_short_encodings_keep_the_half_in_bit_7_of_the_register():
    instruction = of(0x640205 << 8 | 0x83)  # v_add_f16 v1.l, v3.h, v2.l
    assert instruction.destinations == (Operand("vgpr", 1),)
    assert instruction.sources == (Operand("vgpr", 3, hi=True), Operand("vgpr", 2))


@pytest.mark.parametrize(("wave_size", "count"), [(32, 1), (64, 2)])
def test_a_compare_writes_as_much_of_vcc_as_there_are_lanes(wave_size, count):
    instruction = of(0x7C220501, wave_size=wave_size)  # v_cmp_lt_f32 vcc, v1, v2
    assert instruction.destinations == (Operand("vcc", 0, count),)


def test_cmpx_writes_exec():
    assert of(0x7D220501).destinations == (Operand("exec", 0),)  # v_cmpx_lt_f32 v1, v2


def test_cndmask_reads_vcc_last():
    assert of(0x02020501).sources[-1] == Operand("vcc", 0)  # v_cndmask_b32 v1, v1, v2, vcc


def test_carry_instructions_have_a_mask_as_second_destination():
    instruction = of(0xD7000A05, 0x00020501)  # v_add_co_u32 v5, s10, v1, v2
    assert instruction.destinations == (Operand("vgpr", 5), Operand("sgpr", 10))


def test_carry_in_of_the_long_form_is_a_scalar():
    instruction = of(0xD5200A05, 0x00320501)  # v_add_co_ci_u32 v5, s10, v1, v2, s12
    assert instruction.sources[-1] == Operand("sgpr", 12)


def test_readlane_writes_a_scalar():
    instruction = of(0xD7600003, 0x00010501)  # v_readlane_b32 s3, v1, 2
    assert instruction.destinations == (Operand("sgpr", 3),)
    assert instruction.sources == (Operand("vgpr", 1), Operand("int", 130, 1, 2))


def test_vopd_has_two_halves_and_the_second_register_differs_in_its_low_bit():
    # v_dual_mul_f32 v4, v1, v2 :: v_dual_add_f32 v7, v3, v5
    instruction = of(0xC8C80501, 0x04060B03)
    x, y = instruction.halves
    assert (x.name, y.name) == ("v_dual_mul_f32", "v_dual_add_f32")
    assert x.destinations == (Operand("vgpr", 4),)
    assert y.destinations == (Operand("vgpr", 7),)
    assert y.sources == (Operand("vgpr", 3), Operand("vgpr", 5))


def test_dpp16_replaces_the_first_source():
    # v_add_f32 v1, v3, v2 row_shr:1 row_mask:0xf bank_mask:0x3 bound_ctrl
    instruction = of(0x060204FA, 0xF3091103 | 1 << 19)
    assert instruction.dpp == Dpp(16, ctrl=0x111, row_mask=0xF, bank_mask=3, bound_ctrl=True)
    assert instruction.sources[0] == Operand("vgpr", 3)


def test_dpp16_modifiers_stand_in_the_operands():
    instruction = of(0x060204FA, 0xFF901103)  # abs of source 1, neg of source 0
    assert instruction.sources == (Operand("vgpr", 3, neg=True), Operand("vgpr", 2, abs=True))


def test_dpp8_names_eight_lanes():
    # lanes 7 6 5 4 3 2 1 0, low bits first
    instruction = of(0x7E0202E9, 0x05397703)
    assert instruction.dpp == Dpp(8, lanes=(7, 6, 5, 4, 3, 2, 1, 0))


def test_scalar_load_has_base_offset_and_no_offset_register():
    instruction = of(0xF4040002, 0xF8000010)  # s_load_b64 s[0:1], s[4:5], 0x10
    assert instruction.destinations == (Operand("sgpr", 0, 2),)
    assert instruction.sources == (Operand("sgpr", 4, 2), Operand("null", 124))
    assert instruction.offset == 16


def test_scalar_load_offset_is_signed():
    assert of(0xF4040002, 0xF81FFFFC).offset == -4


def test_global_load_without_scalar_base_has_a_64_bit_address():
    instruction = of(0xDC521FFC, 0x057C0002)  # global_load_b32 v5, v[2:3], off offset:-4
    assert instruction.name == "global_load_b32"
    assert instruction.sources == (Operand("vgpr", 2, 2), Operand("null", 124))
    assert instruction.offset == -4


def test_global_store_with_scalar_base_has_a_32_bit_address():
    instruction = of(0xDC6A0008, 0x00040302)  # global_store_b32 v2, v3, s[4:5] offset:8
    assert instruction.sources == (Operand("vgpr", 2), Operand("vgpr", 3), Operand("sgpr", 4, 2))


@pytest.mark.parametrize(("glc", "count"), [(0, 0), (1, 1)])
def test_an_atomic_has_a_destination_only_if_it_returns(glc, count):
    instruction = of(0xDCD60000 | glc << 14, 0x057C0302)  # global_atomic_add_u32
    assert instruction.name == "global_atomic_add_u32"
    assert len(instruction.destinations) == count


def test_compare_and_swap_returns_half_of_what_it_is_given():
    instruction = of(0xDCD24000, 0x057C0402)  # global_atomic_cmpswap_b32 ... glc
    assert instruction.destinations == (Operand("vgpr", 5),)
    assert instruction.sources[1] == Operand("vgpr", 4, 2)


def test_scratch_address_is_optional():
    instruction = of(0xDC510010, 0x057C0000)  # scratch_load_b32 v5, off, off offset:16
    assert instruction.sources == (Operand("null", 124), Operand("null", 124))


def test_ds_offsets_are_one_number_or_two():
    assert of(0xD8340201, 0x00000102).offset == 0x0201  # ds_store_b32
    two = of(0xD8380201, 0x00030102)  # ds_store_2addr_b32
    assert (two.offset, two.offset1) == (1, 2)


def test_buffer_load_with_both_registers_has_a_64_bit_address():
    instruction = of(0xE0500008, 0x80C10402)  # buffer_load_b32 v4, v[2:3], s[4:7], 0 idxen offen
    assert instruction.sources == (
        Operand("vgpr", 2, 2),
        Operand("sgpr", 4, 4),
        Operand("int", 128, 1, 0),
    )


def test_wmma_operands_are_eight_registers():
    instruction = of(0xCC404010, 0x1C421100)  # v_wmma_f32_16x16x16_f16
    assert instruction.destinations == (Operand("vgpr", 16, 8),)
    assert instruction.sources[1] == Operand("vgpr", 8, 8)


def test_mixed_fma_has_ordinary_modifiers():
    instruction = of(0xCC200105, 0x440E0501)  # v_fma_mix_f32 v5, |v1|, -v2, v3
    assert [source.neg for source in instruction.sources] == [False, True, False]
    assert [source.abs for source in instruction.sources] == [True, False, False]
    assert (instruction.neg_lo, instruction.neg_hi) == (0, 0)


def test_decode_all_walks_by_size():
    code = struct.pack("<4I", 0x7E0202FF, 0x12345678, 0xBF800000, 0xBFB00000)
    found = [(i.address, i.name) for i in decode_all(code, 0x100)]
    assert found == [(0x100, "v_mov_b32"), (0x108, "s_nop"), (0x10C, "s_endpgm")]


def test_the_table_has_the_1356_rows_of_gfx1100():
    assert len(OPCODES) == 1356


def test_400_instructions_decode_within_20_ms():
    code = struct.pack("<2I", 0xD6130005, 0x04060501) * 400
    times = []
    for _ in range(5):
        start = time.perf_counter()
        assert sum(1 for _ in decode_all(code)) == 400
        times.append(time.perf_counter() - start)
    assert min(times) < 0.02


@pytest.mark.refusal
@pytest.mark.row("SIM-03")
@pytest.mark.parametrize(
    ("words", "reason"),
    [
        ((0xEC000000, 0), "no instruction format starts with 0xec000000"),
        ((0xBE80FF00,), "SOP1 has no opcode 255"),
        ((0xBE8000D1,), "operand code 209 is reserved"),
        ((0xBE8000E6,), "operand code 230 is reserved"),
        ((0xBE800101,), "2 registers of sgpr cannot start at 1"),
        ((0xBEFD0100,), "m0 is one dword"),
        ((0x7FFE3103,), "outside the 256 VGPRs"),
        ((0x7E0202FF,), "the code ends inside the instruction"),
        ((0xD6130005,), "the code ends inside the instruction"),
        ((0xF0000000, 0), "MIMG instructions are not simulated"),
        ((0xF8000000, 0), "EXP instructions are not simulated"),
        ((0xCD000000, 0), "VINTERP instructions are not simulated"),
        ((0xD5250005, 0x20020501), "v_add_nc_u32 has no neg modifier 0x1"),
        ((0xD5250105, 0x00020501), "v_add_nc_u32 has no abs modifier 0x1"),
        ((0xD5250005, 0x08020501), "v_add_nc_u32 has no output modifier"),
        ((0xD5031005, 0x00020501), "v_add_f32 has no op_sel modifier 0x2"),
        ((0x7E0430FA, 0xFF01E402), "v_ceil_f64 cannot shuffle lanes"),
        ((0xBFBD0001,), "s_barrier has no immediate"),
        ((0xD8350000, 0x00000102), "ds_store_b32 has reserved bits set: 0x10000"),
        ((0xD8340000, 0x01000102), "ds_store_b32 does not use vdst, which is 0x1"),
        ((0xDC500000, 0x05040002), "flat instructions have no scalar address"),
        ((0xDC530000, 0x057C0002), "FLAT has no segment 3"),
        ((0xD7600003, 0x00020501), "v_readlane_b32 takes only a scalar as src1"),
        ((0x7E060401,), "v_readfirstlane_b32 takes only a VGPR"),
        ((0xCC404010, 0x18421100), "8 dwords cannot come from sgpr"),
    ],
)
def test_what_is_no_instruction_is_refused(words, reason):
    with pytest.raises(SimFault, match=reason):
        of(*words)


@pytest.mark.refusal
def test_vopd_is_refused_in_waves_of_64():
    with pytest.raises(SimFault, match="VOPD is only for waves of 32 lanes"):
        of(0xC8C80501, 0x04060B03, wave_size=64)


@pytest.mark.refusal
def test_a_refusal_names_position_and_words():
    code = struct.pack("<3I", 0xBF800000, 0xBE80FF00, 0xBF800000)
    with pytest.raises(SimFault, match=r"at 0x1004.*\n.*words=0xbe80ff00 0xbf800000"):
        decode(code, 4, 0x1004)


def test_any_bytes_are_an_instruction_or_a_refusal():
    rng = random.Random(1100)
    decoded = 0
    for _ in range(5000):
        try:
            decoded += bool(text(decode(rng.randbytes(16))))
        except SimFault:
            continue
    assert decoded > 500
