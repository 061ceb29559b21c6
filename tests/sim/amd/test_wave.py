"""Dispatches: work-groups, waves, barriers, and what they are counted as."""

import numpy as np
import pytest
from bare_amd import SPIN, Gpu, words

# Machine code as literal words; the comments are what llvm-mc prints for them.
STORE_ONE_MORE = words(  # each lane adds 3 to its word
    0xF4040200, 0xF8000000,  # s_load_b64 s[8:9], s[0:1], null
    0x30020082,  # v_lshlrev_b32_e32 v1, 2, v0
    0xDC520000, 0x02080001,  # global_load_b32 v2, v1, s[8:9]
    0x4A040483,  # v_add_nc_u32_e32 v2, 3, v2
    0xDC6A0000, 0x00080201,  # global_store_b32 v1, v2, s[8:9]
    0xBFB00000,  # s_endpgm
)  # fmt: skip

GROUP_AND_LANE = words(  # word n of the grid becomes group << 16 | item
    0xF4040200, 0xF8000000,  # s_load_b64 s[8:9], s[0:1], null
    0x30020082,  # v_lshlrev_b32_e32 v1, 2, v0
    0x840B8802,  # s_lshl_b32 s11, s2, 8
    0x4A02020B,  # v_add_nc_u32_e32 v1, s11, v1
    0xD6560002, 0x04012002,  # v_lshl_or_b32 v2, s2, 16, v0
    0xDC6A0000, 0x00080201,  # global_store_b32 v1, v2, s[8:9]
    0xBFB00000,  # s_endpgm
)  # fmt: skip

PACKED_IDS = words(  # stores v0 and the three work-group ids
    0xF4040200, 0xF8000000,  # s_load_b64 s[8:9], s[0:1], null
    0xD71F0001, 0x000100C1,  # v_mbcnt_lo_u32_b32 v1, -1, 0
    0x30020284,  # v_lshlrev_b32_e32 v1, 4, v1
    0x7E080300,  # v_mov_b32_e32 v4, v0
    0x7E0A0202,  # v_mov_b32_e32 v5, s2
    0x7E0C0203,  # v_mov_b32_e32 v6, s3
    0x7E0E0204,  # v_mov_b32_e32 v7, s4
    0xDC760000, 0x00080401,  # global_store_b128 v1, v[4:7], s[8:9]
    0xBFB00000,  # s_endpgm
)  # fmt: skip

TRIANGLE = words(  # lane n loops n times, summing n
    0xF4040200, 0xF8000000,  # s_load_b64 s[8:9], s[0:1], null
    0x30020082,  # v_lshlrev_b32_e32 v1, 2, v0
    0x7E040280,  # v_mov_b32_e32 v2, 0
    0x7E060280,  # v_mov_b32_e32 v3, 0
    0xBE8A007E,  # s_mov_b32 s10, exec_lo
    0x4A040102,  # v_add_nc_u32_e32 v2, v2, v0
    0x4A060681,  # v_add_nc_u32_e32 v3, 1, v3
    0x7C920103,  # v_cmp_lt_u32_e32 vcc_lo, v3, v0
    0x8B7E6A7E,  # s_and_b32 exec_lo, exec_lo, vcc_lo
    0xBFA6FFFB,  # s_cbranch_execnz loop
    0xBEFE000A,  # s_mov_b32 exec_lo, s10
    0xDC6A0000, 0x00080201,  # global_store_b32 v1, v2, s[8:9]
    0xBFB00000,  # s_endpgm
)  # fmt: skip

REVERSE_IN_LDS = words(  # 64 items exchange through LDS across two waves
    0xF4040200, 0xF8000000,  # s_load_b64 s[8:9], s[0:1], null
    0x30020082,  # v_lshlrev_b32_e32 v1, 2, v0
    0xD8340000, 0x00000001,  # ds_store_b32 v1, v0
    0xBFBD0000,  # s_barrier
    0x4C0602FF, 0x000000FC,  # v_sub_nc_u32_e32 v3, 0xfc, v1
    0xD8D80000, 0x02000003,  # ds_load_b32 v2, v3
    0xDC6A0000, 0x00080201,  # global_store_b32 v1, v2, s[8:9]
    0xBFB00000,  # s_endpgm
)  # fmt: skip

ONE_WAVE_LEAVES = words(  # the first wave ends before the barrier that the second waits at
    0xF4040200, 0xF8000000,  # s_load_b64 s[8:9], s[0:1], null
    0x30020082,  # v_lshlrev_b32_e32 v1, 2, v0
    0x7E040287,  # v_mov_b32_e32 v2, 7
    0x7C9800A0,  # v_cmp_gt_u32_e32 vcc_lo, 32, v0
    0xBFA40003,  # s_cbranch_vccnz leave
    0xBFBD0000,  # s_barrier
    0xDC6A0000, 0x00080201,  # global_store_b32 v1, v2, s[8:9]
    0xBFB00000,  # s_endpgm
)  # fmt: skip

COUNT = words(  # every item adds 1 to word 0
    0xF4040200, 0xF8000000,  # s_load_b64 s[8:9], s[0:1], null
    0x7E020280,  # v_mov_b32_e32 v1, 0
    0x7E040281,  # v_mov_b32_e32 v2, 1
    0xDCD60000, 0x00080201,  # global_atomic_add_u32 v1, v2, s[8:9]
    0xBFB00000,  # s_endpgm
)  # fmt: skip

CALL = words(  # calls a function through s_swappc_b64: 5 * 9 + 3
    0xF4040200, 0xF8000000,  # s_load_b64 s[8:9], s[0:1], null
    0x30020082,  # v_lshlrev_b32_e32 v1, 2, v0
    0xBE8C4700,  # s_getpc_b64 s[12:13]
    0x800CA40C,  # s_add_u32 s12, s12, 36
    0x820D800D,  # s_addc_u32 s13, s13, 0
    0x7E040285,  # v_mov_b32_e32 v2, 5
    0xBE8E490C,  # s_swappc_b64 s[14:15], s[12:13]
    0x4A040483,  # v_add_nc_u32_e32 v2, 3, v2
    0xDC6A0000, 0x00080201,  # global_store_b32 v1, v2, s[8:9]
    0xBFB00000,  # s_endpgm
    0xBF800000,  # s_nop 0
    0xD72C0002, 0x00011302,  # v_mul_lo_u32 v2, v2, 9
    0xBE80480E,  # s_setpc_b64 s[14:15]
)  # fmt: skip

PRIVATE_ARRAY = words(  # each item keeps 4 words in scratch and reads the one its id selects
    0xF4040200, 0xF8000000,  # s_load_b64 s[8:9], s[0:1], null
    0x30020082,  # v_lshlrev_b32_e32 v1, 2, v0
    0x3614028C,  # v_and_b32_e32 v10, 12, v1
    0x7E080300,  # v_mov_b32_e32 v4, v0
    0x4A0A00FF, 0x00000100,  # v_add_nc_u32_e32 v5, 0x100, v0
    0x4A0C00FF, 0x00000200,  # v_add_nc_u32_e32 v6, 0x200, v0
    0x4A0E00FF, 0x00000300,  # v_add_nc_u32_e32 v7, 0x300, v0
    0xDC750010, 0x007C0400,  # scratch_store_b128 off, v[4:7], off offset:16
    0xDC510010, 0x02FC000A,  # scratch_load_b32 v2, v10, off offset:16
    0xDC6A0000, 0x00080201,  # global_store_b32 v1, v2, s[8:9]
    0xBFB00000,  # s_endpgm
)  # fmt: skip

STORE_ZERO = words(  # stores 0 at word 0
    0xF4040200, 0xF8000000,  # s_load_b64 s[8:9], s[0:1], null
    0x7E020280,  # v_mov_b32_e32 v1, 0
    0xDC6A0000, 0x00080101,  # global_store_b32 v1, v1, s[8:9]
    0xBFB00000,  # s_endpgm
)  # fmt: skip

LDS_BEYOND = words(  # stores to and loads from LDS that was not allocated
    0xF4040200, 0xF8000000,  # s_load_b64 s[8:9], s[0:1], null
    0x30020082,  # v_lshlrev_b32_e32 v1, 2, v0
    0x7E040289,  # v_mov_b32_e32 v2, 9
    0xD8340000, 0x00000001,  # ds_store_b32 v1, v0
    0xD8D80000, 0x02000001,  # ds_load_b32 v2, v1
    0xDC6A0000, 0x00080201,  # global_store_b32 v1, v2, s[8:9]
    0xBFB00000,  # s_endpgm
)  # fmt: skip

SKIPPED = words(0xBFA00001, 0xFFFFFFFF, 0xBFB00000)  # s_branch over it; s_endpgm


def test_every_lane_runs(gpu):
    gpu.words[:] = np.arange(1024)
    assert gpu.run(STORE_ONE_MORE)[:33].tolist() == [*range(3, 35), 32]


def test_a_partly_filled_wave_leaves_other_lanes_alone(gpu):
    gpu.words[:] = np.arange(1024)
    assert gpu.run(STORE_ONE_MORE, threads=(20, 1, 1))[:32].tolist() == [
        *range(3, 23), *range(20, 32)
    ]  # fmt: skip


def test_a_wave_of_64_lanes(gpu):
    gpu.words[:] = np.arange(1024)
    found = gpu.run(STORE_ONE_MORE, threads=(64, 1, 1), wave_size=64)
    assert found[:65].tolist() == [*range(3, 67), 64]


def test_a_partly_filled_wave_of_64_lanes(gpu):
    gpu.words[:] = 1
    found = gpu.run(STORE_ONE_MORE, threads=(40, 1, 1), wave_size=64)
    assert found[:64].tolist() == [4] * 40 + [1] * 24


@pytest.mark.row("SIM-04")
def test_every_group_and_item_runs_once(gpu):
    found = gpu.run(GROUP_AND_LANE, groups=(4, 1, 1), threads=(64, 1, 1))
    assert found[:256].tolist() == [group << 16 | item for group in range(4) for item in range(64)]


def test_item_ids_are_packed_into_one_register(gpu):
    found = gpu.run(PACKED_IDS, threads=(4, 2, 2))
    assert found[0:64:4].tolist() == [
        x | y << 10 | z << 20 for z in range(2) for y in range(2) for x in range(4)
    ]


def test_group_ids_come_in_three_dimensions(gpu):
    found = gpu.run(PACKED_IDS, groups=(2, 3, 4), threads=(1, 1, 1))
    assert found[1:4].tolist() == [1, 2, 3]  # groups run in order, the last one stays


def test_lanes_leave_a_loop_one_by_one(gpu):
    found = gpu.run(TRIANGLE, threads=(40, 1, 1))
    assert found[:40].tolist() == [0, *(n * n for n in range(1, 40))]


def test_waves_meet_at_a_barrier(gpu):
    found = gpu.run(REVERSE_IN_LDS, threads=(64, 1, 1), lds=512)
    assert found[:64].tolist() == list(range(63, -1, -1))


def test_a_wave_that_ended_is_not_waited_for(gpu):
    found = gpu.run(ONE_WAVE_LEAVES, threads=(64, 1, 1))
    assert found[:64].tolist() == [0] * 32 + [7] * 32


def test_a_wave_that_spins_lets_others_run(native):
    assert native.run(SPIN, threads=(64, 1, 1))[:64].tolist() == [1] * 64


@pytest.mark.parametrize("threads", [1, 2])
def test_atomics_of_all_threads_add_up(cache, threads):
    gpu = Gpu(threads=threads, cache_directory=cache)
    assert gpu.run(COUNT, groups=(5000, 1, 1), threads=(64, 1, 1))[0] == 320000
    gpu.executor.close()


def test_a_called_function_returns(gpu):
    assert gpu.run(CALL, threads=(64, 1, 1))[:64].tolist() == [48] * 64


def test_scratch_is_private_to_each_item(gpu):
    scratch, _ = gpu.allocate(64 * 4096)
    found = gpu.run(
        PRIVATE_ARRAY, threads=(64, 1, 1), scratch_base=scratch, tmpring_size=4 << 12 | 32
    )
    assert found[:64].tolist() == [item % 4 * 256 + item for item in range(64)]


def test_threads_share_a_small_scratch_ring(native):
    # Two slots: one work-group of two waves at a time. Beyond the slots lies no memory.
    scratch, _ = native.allocate(2 * 4096)
    native.run(
        PRIVATE_ARRAY, groups=(4000, 1, 1), threads=(64, 1, 1), scratch_base=scratch,
        tmpring_size=16 << 12 | 2,
    )  # fmt: skip
    assert native.words[:64].tolist() == [item % 4 * 256 + item for item in range(64)]


def test_lds_that_was_not_allocated_reads_zero(gpu):
    gpu.words[:] = 5
    assert gpu.run(LDS_BEYOND)[:32].tolist() == [0] * 32


def test_an_empty_grid_runs_nothing(gpu):
    gpu.words[:] = 5
    assert gpu.run(STORE_ZERO, groups=(0, 1, 1))[0] == 5


@pytest.mark.row("SIM-02")
def test_waves_and_instructions_are_counted_exactly(gpu):
    gpu.run(TRIANGLE, threads=(32, 1, 1))
    # 5 before the loop, 5 in each of 31 rounds, 3 after it.
    assert gpu.executor.counters == {"waves": 1, "instructions": 163, "dispatches": 1}


def test_counts_of_all_threads_add_up(native):
    native.run(COUNT, groups=(5000, 1, 1), threads=(64, 1, 1))
    assert native.executor.counters == {"waves": 10000, "instructions": 50000, "dispatches": 1}


def test_changed_code_is_noticed(native):
    entry = native.load(STORE_ONE_MORE)
    native.words[:] = 0
    native.run(entry)
    patched = STORE_ONE_MORE.replace(words(0x4A040483), words(0x4A040485))  # adds 5, not 3
    native.memory.write(entry, patched)
    assert native.run(entry)[0] == 8


def test_a_flipped_bit_changes_the_result(native):
    code = bytearray(STORE_ONE_MORE)
    code[20] ^= 4  # of the constant 3: it becomes 7
    assert native.run(bytes(code))[0] == 7


def test_code_is_not_fetched_before_it_is_reached(gpu):
    gpu.run(SKIPPED)
    assert gpu.executor.counters["instructions"] == 2
