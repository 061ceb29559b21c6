"""Denormals of 32 bits in the modes that a launch or a kernel can choose: both engines.

The words were assembled with llvm-mc 22 for gfx1100; the text stands beside them.
"""

import pytest
from bare_amd import Gpu, words

from hcq.errors import SimFault
from sim.amd.rdna import mode
from sim.amd.rdna.decode import decode
from sim.amd.rdna.interpret import Wave
from sim.amd.wave import WaveFault

ARITHMETIC = words(  # a sum, a product, the product with denormals kept, MODE
    0xF4040200, 0xF8000000,  # s_load_b64 s[8:9], s[0:1], null
    0x30020084,  # v_lshlrev_b32_e32 v1, 4, v0
    0x7E140202,  # v_mov_b32_e32 v10, s2
    0x060414FF, 0x00800000,  # v_add_f32_e32 v2, 0x800000, v10
    0x7E1602FF, 0x80800000,  # v_mov_b32_e32 v11, 0x80800000
    0x100616F0,  # v_mul_f32_e32 v3, 0.5, v11
    0xBF92000F,  # s_denorm_mode 15
    0x100816F0,  # v_mul_f32_e32 v4, 0.5, v11
    0xBF92000C,  # s_denorm_mode 12
    0xB883F801,  # s_getreg_b32 s3, hwreg(HW_REG_MODE)
    0x7E0A0203,  # v_mov_b32_e32 v5, s3
    0xDC760000, 0x00080201,  # global_store_b128 v1, v[2:5], s[8:9]
    0xBFB00000,  # s_endpgm
)  # fmt: skip

LOOKS = words(  # what sees denormals whatever MODE says: moves and classes; a comparison; a maximum
    0xF4040200, 0xF8000000,  # s_load_b64 s[8:9], s[0:1], null
    0x30020084,  # v_lshlrev_b32_e32 v1, 4, v0
    0x7E040202,  # v_mov_b32_e32 v2, s2
    0x7E0C02FF, 0x00000090,  # v_mov_b32_e32 v6, 0x90
    0x7CFC0C02,  # v_cmp_class_f32_e32 vcc_lo, s2, v6
    0xD5010003, 0x01A90280,  # v_cndmask_b32_e64 v3, 0, 1, vcc_lo
    0x7C240480,  # v_cmp_eq_f32_e32 vcc_lo, 0, v2
    0xD5010004, 0x01A90280,  # v_cndmask_b32_e64 v4, 0, 1, vcc_lo
    0x200A0502,  # v_max_f32_e32 v5, v2, v2
    0xDC760000, 0x00080201,  # global_store_b128 v1, v[2:5], s[8:9]
    0xBFB00000,  # s_endpgm
)  # fmt: skip

TWO_WAYS = words(  # one of two ways changes the mode
    0xF4040200, 0xF8000000,  # s_load_b64 s[8:9], s[0:1], null
    0xBF068002,  # s_cmp_eq_u32 s2, 0
    0xBFA20001,  # s_cbranch_scc1 1
    0xBF92000C,  # s_denorm_mode 12
    0xBF800000,  # s_nop 0
    0x7E020280,  # v_mov_b32_e32 v1, 0
    0xDC6A0000, 0x00080101,  # global_store_b32 v1, v1, s[8:9]
    0xBFB00000,  # s_endpgm
)  # fmt: skip

SET_MODE = words(  # the denormal field of MODE, to s2
    0xF4040200, 0xF8000000,  # s_load_b64 s[8:9], s[0:1], null
    0x30020082,  # v_lshlrev_b32_e32 v1, 2, v0
    0xB9021901,  # s_setreg_b32 hwreg(HW_REG_MODE, 4, 4), s2
    0x7E040202,  # v_mov_b32_e32 v2, s2
    0xDC6A0000, 0x00080201,  # global_store_b32 v1, v2, s[8:9]
    0xBFB00000,  # s_endpgm
)  # fmt: skip


FLUSH, KEEP_SOURCES, KEEP_RESULTS, KEEP = 0xC0, 0xD0, 0xE0, 0xF0


@pytest.mark.parametrize(
    ("float_mode", "total", "product"),
    [
        (FLUSH, 0x800000, 0x80000000),
        (KEEP_SOURCES, 0x800001, 0x80000000),
        (KEEP_RESULTS, 0x800000, 0x80400000),
        (KEEP, 0x800001, 0x80400000),
    ],
)
def test_a_launch_says_which_denormals_are_kept(gpu, float_mode, total, product):
    found = gpu.run_with(1, ARITHMETIC, float_mode=float_mode)[:2].tolist()
    assert found == [total, product]


@pytest.mark.parametrize("float_mode", [FLUSH, KEEP])
def test_a_kernel_can_change_the_mode(gpu, float_mode):
    # The compiler does so around the steps of a division.
    found = gpu.run_with(1, ARITHMETIC, float_mode=float_mode)[2:4].tolist()
    assert found == [0x80400000, 0x3C0]


def test_moves_and_classes_see_denormals_in_every_mode(gpu):
    assert gpu.run_with(1, LOOKS, float_mode=FLUSH)[:4].tolist() == [1, 1, 1, 0]
    assert gpu.run_with(1, LOOKS, float_mode=KEEP)[:4].tolist() == [1, 1, 0, 1]


def test_the_same_kernel_is_translated_for_each_mode(gpu):
    for float_mode in (FLUSH, KEEP, FLUSH):
        product = 0x80400000 if float_mode == KEEP else 0x80000000
        assert gpu.run_with(0, ARITHMETIC, float_mode=float_mode)[1] == product


@pytest.mark.parametrize("number", [0xF, 0xFFFF_FFFF])
def test_a_register_may_set_mode_to_what_it_is(gpu, number):
    assert gpu.run_with(number, SET_MODE, float_mode=KEEP)[:32].tolist() == [number] * 32


# --- refusals


@pytest.mark.refusal
@pytest.mark.parametrize("number", [0, 0xC])
def test_a_register_that_changes_mode_is_refused(gpu, number):
    with pytest.raises(WaveFault, match="s_setreg_b32 that changes MODE is not simulated"):
        gpu.run_with(number, SET_MODE, float_mode=KEEP)


@pytest.mark.refusal
@pytest.mark.parametrize("float_mode", [0x30, 0xF1, 0xFC])
def test_a_launch_with_another_mode_is_refused(gpu, float_mode):
    with pytest.raises(WaveFault, match=f"FLOAT_MODE {float_mode:#x} is not simulated"):
        gpu.run_with(1, ARITHMETIC, float_mode=float_mode)


@pytest.mark.refusal
def test_two_modes_that_meet_are_refused_by_the_translator(tmp_path):
    gpu = Gpu(cache_directory=str(tmp_path))
    with pytest.raises(WaveFault, match="two denormal modes meet here"):
        gpu.run_with(1, TWO_WAYS, float_mode=KEEP)


@pytest.mark.refusal
@pytest.mark.parametrize(
    ("code", "text"),
    [
        ((0xBF910001,), "s_round_mode to 0x1"),
        ((0xBF920003,), "s_denorm_mode to 0x0"),
        ((0xB9801801, 0x1), "s_setreg_imm32_b32 to 0x1"),
        ((0xB9800017, 0x1), "s_setreg_imm32_b32 of hardware register 23"),
    ],
)
def test_other_changes_are_refused(code, text):
    with pytest.raises(SimFault, match=text):
        mode.change(decode(words(*code)), Wave(32, 0, bytearray()))
