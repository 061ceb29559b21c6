"""Operands and modifiers, as both engines apply them around a meaning."""

import re
from pathlib import Path

import numpy as np
import pytest

from hcq.errors import SimFault
from sim.amd.rdna import categories, semantics
from sim.amd.rdna.dpp import source_lane
from sim.amd.rdna.instruction import Dpp, Instruction, Operand, float_operand
from sim.amd.rdna.interpret import Wave
from sim.amd.rdna.operands import execute, read_value
from sim.isa.value import F16, F32, F64, I64, U32, U64

V1, V2, V3, V4 = (Operand("vgpr", n) for n in (1, 2, 3, 4))
ONE, TWO, HALF = 0x3F80_0000, 0x4000_0000, 0x3F00_0000
NAN = 0x7FC0_0000


@pytest.fixture
def wave():
    made = Wave(32, 0, bytearray())
    made.set_exec(0xFFFF_FFFF)
    made.vgprs[1], made.vgprs[2] = ONE, TWO
    return made


def vector(name, *sources, to=V4, **fields):
    return Instruction(0, 8, "VOP3", name, 0, {}, (to,), sources, **fields)


def run(wave, *arguments, **fields):
    execute(vector(*arguments, **fields), wave)
    return int(wave.vgprs[4][0])


# --- constants


@pytest.mark.parametrize(
    ("operand", "target", "bits"),
    [
        (Operand("int", 193, 1, -1), U32, 0xFFFF_FFFF),
        (Operand("int", 193, 2, -1), U64, 0xFFFF_FFFF_FFFF_FFFF),
        (float_operand(242), F16, 0x3C00),
        (float_operand(242), F32, ONE),
        (float_operand(242, 2), F64, 0x3FF0_0000_0000_0000),
        (float_operand(248), F32, 0x3E22_F983),  # 1/(2*pi)
        (Operand("literal", 255, 2, 0x4000_0000), F64, 0x4000_0000_0000_0000),
        (Operand("literal", 255, 2, 0x8000_0000), U64, 0x8000_0000),
        (Operand("literal", 255, 2, 0x8000_0000), I64, 0xFFFF_FFFF_8000_0000),
        (Operand("literal", 255, 1, 0x1234_5678), F16, 0x5678),
        (Operand("aperture", 235, 2), U64, 1 << 48),
        (Operand("aperture", 238, 2), U64, (2 << 48) | 0xFFFF_FFFF),
        (Operand("null", 124, 2), U64, 0),
    ],
)
def test_constant_operands(wave, operand, target, bits):
    assert read_value(wave, operand, target).bits(target.unsigned).element() == bits


def test_scc_and_zero_tests_are_operands(wave):
    wave._scc = True
    assert read_value(wave, Operand("scc", 253), U32).element() == 1
    assert read_value(wave, Operand("vccz", 251), U32).element() == 1
    assert read_value(wave, Operand("execz", 252), U32).element() == 0


@pytest.mark.refusal
def test_lds_direct_is_refused(wave):
    with pytest.raises(SimFault, match="operand lds_direct is not simulated"):
        run(wave, "v_mov_b32", Operand("lds_direct", 254))


# --- source and output modifiers


def test_negation_and_absolute_value(wave):
    assert run(wave, "v_add_f32", Operand("vgpr", 1, neg=True), V2) == ONE
    negative = Operand("vgpr", 3, abs=True, neg=True)
    wave.vgprs[3] = ONE
    assert run(wave, "v_add_f32", negative, V2) == ONE


def test_modifiers_reach_the_bits_of_a_select(wave):
    mask = Operand("int", 128, 1, 0)
    assert run(wave, "v_cndmask_b32", Operand("vgpr", 1, neg=True), V2, mask) == ONE | 1 << 31


@pytest.mark.parametrize(("omod", "bits"), [(0, 0x4040_0000), (1, 0x40C0_0000),
                                            (2, 0x4140_0000), (3, 0x3FC0_0000)])  # fmt: skip
def test_output_scale(wave, omod, bits):
    assert run(wave, "v_add_f32", V1, V2, omod=omod) == bits


@pytest.mark.parametrize(
    ("value", "bits"), [(TWO, ONE), (HALF, HALF), (ONE | 1 << 31, 0), (NAN, 0), (1 << 31, 0)]
)
def test_clamp_keeps_a_float_within_zero_and_one(wave, value, bits):
    wave.vgprs[3] = value
    assert run(wave, "v_max_f32", V3, V3, clamp=True) == bits


@pytest.mark.refusal
def test_clamp_without_a_meaning_is_refused(wave):
    with pytest.raises(SimFault, match="clamp of v_mul_lo_u32 is not simulated"):
        run(wave, "v_mul_lo_u32", V1, V2, clamp=True)


# --- halves


def test_a_half_leaves_the_other_half_of_its_register(wave):
    wave.vgprs[3], wave.vgprs[4] = 0x4000_3C00, 0xAAAA_BBBB
    high, low = Operand("vgpr", 3, hi=True), Operand("vgpr", 3)
    assert run(wave, "v_add_f16", high, low) == 0xAAAA_4200
    assert run(wave, "v_add_f16", low, low, to=Operand("vgpr", 4, hi=True)) == 0x4000_4200


# --- destinations


def test_null_swallows_a_result(wave):
    before = wave.vgprs.copy()
    execute(
        Instruction(0, 8, "VOP3", "v_add_co_u32", 0, {}, (V4, Operand("null", 124)), (V1, V2)), wave
    )
    assert (wave.vgprs[5:] == before[5:]).all()


def test_a_mask_of_64_lanes_fills_a_register_pair():
    wave = Wave(64, 0, bytearray())
    wave.set_exec((1 << 64) - 2)
    wave.vgprs[1] = np.arange(64)
    compare = Instruction(
        0, 4, "VOPC", "v_cmp_gt_u32", 0, {}, (Operand("vcc", 0, 2),), (Operand("int", 0, 1, 33), V1)
    )
    execute(compare, wave)
    assert wave.scalars["vcc"].tolist() == [0xFFFF_FFFE, 1]


def test_a_dual_instruction_reads_before_it_writes(wave):
    halves = tuple(
        Instruction(0, 8, "VOPD", f"v_dual_{name}", 0, {}, (to,), sources)
        for name, to, sources in (("mov_b32", V1, (V2,)), ("add_f32", V2, (V1, V1)))
    )
    execute(Instruction(0, 8, "VOPD", "pair", 0, {}, (V1, V2), (), halves=halves), wave)
    assert (wave.vgprs[1][0], wave.vgprs[2][0]) == (TWO, TWO)


# --- DPP


@pytest.mark.parametrize(
    ("ctrl", "lane", "source"),
    [
        (0x1B, 5, 6),  # quad_perm [3, 2, 1, 0]
        (0x101, 3, 4), (0x101, 15, None),  # row_shl:1
        (0x112, 17, None), (0x112, 18, 16),  # row_shr:2
        (0x121, 16, 31),  # row_ror:1
        (0x140, 2, 13), (0x141, 10, 13),  # row_mirror, row_half_mirror
        (0x153, 30, 19),  # row_share:3
        (0x165, 3, 6),  # row_xmask:5
    ],
)  # fmt: skip
def test_dpp_source_lanes(ctrl, lane, source):
    assert source_lane(Dpp(16, ctrl=ctrl), lane) == source


def shuffled(wave, dpp, live=0xFFFF_FFFF):
    wave.set_exec(live)
    wave.vgprs[1] = np.arange(100, 132)
    wave.vgprs[4] = 7
    execute(vector("v_mov_b32", V1, dpp=dpp), wave)
    return wave.vgprs[4].tolist()


def test_a_lane_without_source_keeps_its_value(wave):
    row = [7, *range(100, 115), 7, *range(116, 131)]
    assert shuffled(wave, Dpp(16, ctrl=0x111)) == row


def test_bound_control_reads_zero(wave):
    row = [0, *range(100, 115), 0, *range(116, 131)]
    assert shuffled(wave, Dpp(16, ctrl=0x111, bound_ctrl=True)) == row


def test_an_inactive_source_counts_as_missing_unless_fetched(wave):
    live = 0xFFFF_FFFE
    assert shuffled(wave, Dpp(16, ctrl=0x111), live)[:3] == [7, 7, 101]
    assert shuffled(wave, Dpp(16, ctrl=0x111, fi=True), live)[:3] == [7, 100, 101]


def test_row_and_bank_masks_protect_lanes(wave):
    got = shuffled(wave, Dpp(16, ctrl=0xE4, row_mask=1, bank_mask=2))
    assert got == [7] * 4 + [104, 105, 106, 107] + [7] * 24


def test_dpp8_permutes_groups_of_eight(wave):
    got = shuffled(wave, Dpp(8, lanes=(7, 6, 5, 4, 3, 2, 1, 0)), 0xFFFF_FFFE)
    assert got[:9] == [7, 106, 105, 104, 103, 102, 101, 0, 115]


def test_dpp_applies_to_the_first_source_only(wave):
    wave.vgprs[1] = np.arange(32)
    execute(vector("v_sub_nc_u32", V1, V1, dpp=Dpp(16, ctrl=0x150)), wave)
    assert wave.vgprs[4].tolist() == [(lane & 16) - lane & 0xFFFF_FFFF for lane in range(32)]


@pytest.mark.refusal
def test_an_unknown_dpp_control_is_refused():
    with pytest.raises(SimFault, match="DPP control 0x130 is not simulated"):
        source_lane(Dpp(16, ctrl=0x130), 0)


# --- the registry


def test_every_module_that_registers_is_a_category():
    folder = Path(categories.__file__).parent
    registers = re.compile(r"^from sim.amd.rdna.semantics import .*\b(vector|scalar)\b", re.M)
    found = {path.stem for path in folder.glob("*.py") if registers.search(path.read_text())}
    assert {module.__name__.rpartition(".")[2] for module in categories.MODULES} == found


@pytest.mark.refusal
def test_a_second_owner_of_a_mnemonic_is_refused():
    with pytest.raises(ValueError, match="v_add_f32 has a meaning already"):
        semantics.vector("v_add_f32", F32, F32, to=F32)(lambda a, b: a)


@pytest.mark.refusal
def test_an_instruction_without_meaning_names_its_neighbour(wave):
    with pytest.raises(SimFault, match="v_swaprel_b32 is not simulated"):
        run(wave, "v_swaprel_b32", V1, V2)


@pytest.mark.refusal
def test_a_wrong_number_of_sources_is_refused(wave):
    with pytest.raises(SimFault, match="v_add_f32 has 1 sources, not 2"):
        run(wave, "v_add_f32", V1)
