"""Kernels that choose registers while they run, ask the time, or count in LDS: both engines.

The words were assembled with llvm-mc 22 for gfx1100; the text stands beside them.
"""

import pytest
from bare_amd import words

from hcq.errors import SimFault
from sim.amd.rdna.clock import s_getreg_b32, s_sendmsg_rtn_b64
from sim.amd.rdna.decode import decode
from sim.amd.rdna.interpret import Wave
from sim.amd.rdna.operands import execute
from sim.isa.value import U64

PICK = words(  # lane-dependent v[4:6][M0] to v2
    0xF4040200, 0xF8000000,  # s_load_b64 s[8:9], s[0:1], null
    0x30020082,  # v_lshlrev_b32_e32 v1, 2, v0
    0x7E08028A,  # v_mov_b32_e32 v4, 10
    0x7E0A028B,  # v_mov_b32_e32 v5, 11
    0x4A0C008C,  # v_add_nc_u32_e32 v6, 12, v0
    0xBEFD0002,  # s_mov_b32 m0, s2
    0x7E048704,  # v_movrels_b32_e32 v2, v4
    0xDC6A0000, 0x00080201,  # global_store_b32 v1, v2, s[8:9]
    0xBFB00000,  # s_endpgm
)  # fmt: skip

PUT = words(  # 9 into v[4:7][M0], in half of the lanes
    0xF4040200, 0xF8000000,  # s_load_b64 s[8:9], s[0:1], null
    0x30020084,  # v_lshlrev_b32_e32 v1, 4, v0
    0x7E080280,  # v_mov_b32_e32 v4, 0
    0x7E0A0280,  # v_mov_b32_e32 v5, 0
    0x7E0C0280,  # v_mov_b32_e32 v6, 0
    0x7E0E0280,  # v_mov_b32_e32 v7, 0
    0xBEFD0002,  # s_mov_b32 m0, s2
    0xBEFE00FF, 0x0000FFFF,  # s_mov_b32 exec_lo, 0xffff
    0x7E088489,  # v_movreld_b32_e32 v4, 9
    0xBEFE00C1,  # s_mov_b32 exec_lo, -1
    0xDC760000, 0x00080401,  # global_store_b128 v1, v[4:7], s[8:9]
    0xBFB00000,  # s_endpgm
)  # fmt: skip

SCALARS = words(  # pairs, one scalar, and both ends at once
    0xF4040200, 0xF8000000,  # s_load_b64 s[8:9], s[0:1], null
    0xBE900094,  # s_mov_b32 s16, 20
    0xBE910095,  # s_mov_b32 s17, 21
    0xBE920096,  # s_mov_b32 s18, 22
    0xBE930097,  # s_mov_b32 s19, 23
    0xBEFD0002,  # s_mov_b32 m0, s2
    0xBE944110,  # s_movrels_b64 s[20:21], s[16:17]
    0xBE904287,  # s_movreld_b32 s16, 7
    0xBE914410,  # s_movrelsd_2_b32 s17, s16
    0x7E040214,  # v_mov_b32_e32 v2, s20
    0x7E060215,  # v_mov_b32_e32 v3, s21
    0x7E080211,  # v_mov_b32_e32 v4, s17
    0x7E0A0212,  # v_mov_b32_e32 v5, s18
    0x30020084,  # v_lshlrev_b32_e32 v1, 4, v0
    0xDC760000, 0x00080201,  # global_store_b128 v1, v[2:5], s[8:9]
    0xBFB00000,  # s_endpgm
)  # fmt: skip

TIME = words(  # before and after a branch
    0xF4040200, 0xF8000000,  # s_load_b64 s[8:9], s[0:1], null
    0xBE8C4D83,  # s_sendmsg_rtn_b64 s[12:13], sendmsg(MSG_RTN_GET_REALTIME)
    0xBFA00000,  # s_branch 0
    0xBE8E4D83,  # s_sendmsg_rtn_b64 s[14:15], sendmsg(MSG_RTN_GET_REALTIME)
    0x7E04020C,  # v_mov_b32_e32 v2, s12
    0x7E06020D,  # v_mov_b32_e32 v3, s13
    0x7E08020E,  # v_mov_b32_e32 v4, s14
    0x7E0A020F,  # v_mov_b32_e32 v5, s15
    0x30020084,  # v_lshlrev_b32_e32 v1, 4, v0
    0xDC760000, 0x00080201,  # global_store_b128 v1, v[2:5], s[8:9]
    0xBFB00000,  # s_endpgm
)  # fmt: skip

APPEND = words(  # what a counter was before, for each wave
    0xF4040200, 0xF8000000,  # s_load_b64 s[8:9], s[0:1], null
    0x30020082,  # v_lshlrev_b32_e32 v1, 2, v0
    0x7E040280,  # v_mov_b32_e32 v2, 0
    0x7E060285,  # v_mov_b32_e32 v3, 5
    0xD8340010, 0x00000302,  # ds_store_b32 v2, v3 offset:16
    0xBF89FC07,  # s_waitcnt lgkmcnt(0)
    0xBFBD0000,  # s_barrier
    0xBEFD0088,  # s_mov_b32 m0, 8
    0xD8F80008, 0x02000000,  # ds_append v2 offset:8
    0xBFBD0000,  # s_barrier
    0xD8F80008, 0x03000000,  # ds_append v3 offset:8
    0xBF89FC07,  # s_waitcnt lgkmcnt(0)
    0x4C040503,  # v_sub_nc_u32_e32 v2, v3, v2
    0xDC6A0000, 0x00080201,  # global_store_b32 v1, v2, s[8:9]
    0xBFB00000,  # s_endpgm
)  # fmt: skip


@pytest.mark.parametrize(("index", "first"), [(0, 10), (1, 11), (2, 12)])
def test_m0_chooses_the_register_that_is_read(gpu, index, first):
    step = 1 if index == 2 else 0
    found = gpu.run_with(index, PICK)[:32].tolist()
    assert found == [first + step * lane for lane in range(32)]


@pytest.mark.parametrize("index", [12, 0x8000_0000, 0xFFFF_FFF0])
def test_beyond_the_sixteen_registers_that_the_wave_has_v0_is_read(gpu, index):
    assert gpu.run_with(index, PICK)[:32].tolist() == list(range(32))


def test_m0_chooses_the_register_that_is_written_in_active_lanes(gpu):
    found = gpu.run_with(2, PUT)[:128].reshape(32, 4).tolist()
    assert found == [[0, 0, 9, 0]] * 16 + [[0, 0, 0, 0]] * 16


def test_nothing_is_written_beyond_the_registers_that_the_wave_has(gpu):
    assert not gpu.run_with(12, PUT)[:128].any()


def test_m0_chooses_scalar_registers(gpu):
    # s[20:21] = s[18:19]; s18 = 7; s17 = s18 (source and destination by their own fields)
    assert gpu.run_with(2, SCALARS)[:4].tolist() == [22, 23, 7, 7]


def test_destination_and_source_have_fields_of_their_own(gpu):
    # M0 as a whole is beyond every register: s0 is read, and s_movreld writes nothing.
    assert gpu.run_with(1 << 16 | 3, SCALARS)[2:4].tolist() == [21, 23]


def test_time_goes_on_from_the_tick_of_the_launch(gpu):
    first, _, later, _ = gpu.run(TIME, started=1000)[:4].tolist()
    assert 1000 <= first < later < 1020


def test_lanes_of_all_waves_are_counted(gpu):
    # The first wave adds its 32 lanes, then the second its own; then each again.
    found = gpu.run(APPEND, threads=(64, 1, 1), lds=512)[:64].tolist()
    assert found == [64] * 64


def test_registers_that_m0_chooses_agree_in_waves_of_64(gpu):
    found = gpu.run_with(2, PICK, threads=(64, 1, 1), wave_size=64)[:64].tolist()
    assert found == [12 + lane for lane in range(64)]


# --- refusals


def run_alone(*values):
    wave = Wave(32, 0, bytearray())
    wave.set_exec(0xFFFF_FFFF)
    execute(decode(words(*values)), wave)


@pytest.mark.refusal
def test_a_shuffled_move_by_m0_is_refused():
    with pytest.raises(SimFault, match="v_movrels_b32 with DPP is not simulated"):
        run_alone(0x7E0886FA, 0xFF00E405)


@pytest.mark.refusal
def test_a_scalar_move_by_m0_to_vcc_is_refused():
    with pytest.raises(SimFault, match="s_movrels_b32 between sgpr and vcc is not simulated"):
        run_alone(0xBEEA4005)


@pytest.mark.refusal
def test_other_hardware_registers_are_refused_by_number():
    clock = Wave(32, 0, bytearray()).constant(U64, 5)
    with pytest.raises(SimFault, match="s_getreg_b32 of hardware register 23 is not simulated"):
        s_getreg_b32(0xF817, 0xF, clock)


@pytest.mark.refusal
def test_other_messages_are_refused_by_number():
    clock = Wave(32, 0, bytearray()).constant(U64, 5)
    with pytest.raises(SimFault, match="s_sendmsg_rtn of message 128 is not simulated"):
        s_sendmsg_rtn_b64(128, clock)
