"""The interpreter: control flow, barriers, initial state and refusals, on literal machine words.

The words were assembled with llvm-mc 22 for gfx1100; the text stands beside them.
"""

import ctypes
import mmap
import struct
from types import SimpleNamespace

import numpy as np
import pytest

from hcq.errors import SimFault
from sim.amd.rdna.interpret import Stopped, Wave, run_group, start_group
from sim.memory import GpuMemory, PageFault

END = 0xBFB00000  # s_endpgm

VECTOR_ADD = [
    0xF4000080, 0xF8000018,  # s_load_b32 s2, s[0:1], 0x18
    0xD6560000, 0x04010C0D,  # v_lshl_or_b32 v0, s13, 6, v0
    0xBF89FC07,  # s_waitcnt lgkmcnt(0)
    0x7C980002,  # v_cmp_gt_u32_e32 vcc_lo, s2, v0
    0xBE82206A,  # s_and_saveexec_b32 s2, vcc_lo
    0xBFA5001C,  # s_cbranch_execz 28
    0xF4080100, 0xF8000000,  # s_load_b128 s[4:7], s[0:1], null
    0x7E020280,  # v_mov_b32_e32 v1, 0
    0xF4040000, 0xF8000010,  # s_load_b64 s[0:1], s[0:1], 0x10
    0xD73C0000, 0x00020082,  # v_lshlrev_b64 v[0:1], 2, v[0:1]
    0xBF89FC07,  # s_waitcnt lgkmcnt(0)
    0xD7006A02, 0x00020004,  # v_add_co_u32 v2, vcc_lo, s4, v0
    0xD5207C03, 0x01AA0205,  # v_add_co_ci_u32_e64 v3, null, s5, v1, vcc_lo
    0xD7006A04, 0x00020006,  # v_add_co_u32 v4, vcc_lo, s6, v0
    0xD5207C05, 0x01AA0207,  # v_add_co_ci_u32_e64 v5, null, s7, v1, vcc_lo
    0xDC520000, 0x027C0002,  # global_load_b32 v2, v[2:3], off
    0xDC520000, 0x037C0004,  # global_load_b32 v3, v[4:5], off
    0xD7006A00, 0x00020000,  # v_add_co_u32 v0, vcc_lo, s0, v0
    0xD5207C01, 0x01AA0201,  # v_add_co_ci_u32_e64 v1, null, s1, v1, vcc_lo
    0xBF8903F7,  # s_waitcnt vmcnt(0)
    0x06040702,  # v_add_f32_e32 v2, v2, v3
    0xDC6A0000, 0x007C0200,  # global_store_b32 v[0:1], v2, off
    END,
]  # fmt: skip

EXCHANGE = [  # each wave of two reads what the other wrote to LDS
    0x30020082,  # v_lshlrev_b32_e32 v1, 2, v0
    0xD8340000, 0x00000001,  # ds_store_b32 v1, v0
    0xBF89FC07,  # s_waitcnt lgkmcnt(0)
    0xBFBD0000,  # s_barrier
    0x3A0202FF, 0x00000080,  # v_xor_b32_e32 v1, 0x80, v1
    0xD8D80000, 0x02000001,  # ds_load_b32 v2, v1
    END,
]  # fmt: skip

SUM_TO_N = [
    0xBE840080,  # s_mov_b32 s4, 0
    0x80040204,  # s_add_u32 s4, s4, s2
    0x80828102,  # s_sub_u32 s2, s2, 1
    0xBF078002,  # s_cmp_lg_u32 s2, 0
    0xBFA2FFFC,  # s_cbranch_scc1 65532
    END,
]

FIRST_WAVE_LEAVES = [
    0x7C9800A0,  # v_cmp_gt_u32_e32 vcc_lo, 32, v0
    0xBFA40002,  # s_cbranch_vccnz 2
    0xBFBD0000,  # s_barrier
    0x7E0A0287,  # v_mov_b32_e32 v5, 7
    END,
]

CALL = [
    0xBE844700,  # s_getpc_b64 s[4:5]
    0x80049004,  # s_add_u32 s4, s4, 16
    0xBE864904,  # s_swappc_b64 s[6:7], s[4:5]
    0xBE880085,  # s_mov_b32 s8, 5
    END,
    0xBE890086,  # s_mov_b32 s9, 6
    0xBE804806,  # s_setpc_b64 s[6:7]
]

SELF = 0xBFA0FFFF  # s_branch 65535: to itself


class Bench:
    """Pages that the GPU may use, kept alive."""

    def __init__(self):
        self.memory = GpuMemory()
        self.pages = []

    def allocate(self, data, *, executable=False):
        size = -(-max(len(data), 1) // 4096) * 4096
        page = mmap.mmap(-1, size)
        page[: len(data)] = data
        self.pages.append(page)
        address = ctypes.addressof(ctypes.c_char.from_buffer(page))
        self.memory.map(address, size, executable=executable)
        return address

    def code(self, words):
        return self.allocate(struct.pack(f"<{len(words)}I", *words), executable=True)

    def run(self, words, threads=(32, 1, 1), **rest):
        waves = start_group(launch(self.code(words), threads, **rest), (0, 0, 0))
        run_group(self.memory, waves)
        return waves


def launch(code, threads, *, rsrc2=0, user_data=(), wave_size=32):
    return SimpleNamespace(
        code=code, rsrc2=rsrc2, user_data=user_data, threads=threads, wave_size=wave_size
    )


@pytest.fixture
def bench():
    return Bench()


# --- whole kernels


def test_vector_add(bench):
    a, b = np.arange(45, dtype=np.float32), np.arange(45, dtype=np.float32) * 0.5
    first, second = bench.allocate(a.tobytes()), bench.allocate(b.tobytes())
    sums = bench.allocate(bytes(4096))
    arguments = bench.allocate(struct.pack("<QQQI", first, second, sums, 45))
    user = (arguments & 0xFFFF_FFFF, arguments >> 32, *[0] * 11)
    words = list(VECTOR_ADD)
    start = launch(bench.code(words), (64, 1, 1), rsrc2=13 << 1 | 1 << 7, user_data=user)
    run_group(bench.memory, start_group(start, (0, 0, 0)))
    got = np.frombuffer(bench.memory.read(sums, 256), np.float32)
    assert got[:45].tolist() == [1.5 * n for n in range(45)]
    assert got[45:].tolist() == [0.0] * 19


@pytest.mark.row("SIM-04")
def test_waves_exchange_through_lds_at_a_barrier(bench):
    first, second = bench.run(EXCHANGE, (64, 1, 1), rsrc2=1 << 15)
    assert first.vgprs[2].tolist() == list(range(32, 64))
    assert second.vgprs[2].tolist() == list(range(32))


def test_a_scalar_loop_runs_until_its_condition_fails(bench):
    (wave,) = bench.run(SUM_TO_N, user_data=(0, 0, 100), rsrc2=3 << 1)
    assert wave.scalars["sgpr"][4] == 5050
    assert wave.executed == 1 + 4 * 100 + 1


def test_a_wave_that_ended_does_not_hold_up_the_barrier(bench):
    first, second = bench.run(FIRST_WAVE_LEAVES, (64, 1, 1))
    assert first.vgprs[5].tolist() == [0] * 32
    assert second.vgprs[5].tolist() == [7] * 32


def test_calls_return_behind_the_call(bench):
    (wave,) = bench.run(CALL)
    assert (wave.scalars["sgpr"][8], wave.scalars["sgpr"][9]) == (5, 6)


def test_both_halves_of_a_pair_read_before_either_writes(bench):
    words = [0xCA100102, 0x01020101, END]  # v_dual_mov_b32 v1, v2 :: v_dual_mov_b32 v2, v1
    (wave,) = start_group(launch(bench.code(words), (32, 1, 1)), (0, 0, 0))
    wave.vgprs[1], wave.vgprs[2] = 11, 22
    run_group(bench.memory, [wave])
    assert (wave.vgprs[1][0], wave.vgprs[2][0]) == (22, 11)


# --- initial state


def test_work_item_ids_are_packed_into_v0():
    first, second = start_group(launch(0, (5, 4, 3)), (0, 0, 0))
    assert first.vgprs[0][:6].tolist() == [0, 1, 2, 3, 4, 1 << 10]
    assert second.vgprs[0][0] == 2 | 2 << 10 | 1 << 20  # work-item 32 = (2, 2, 1)


def test_the_last_wave_is_filled_in_part():
    _, second = start_group(launch(0, (40, 1, 1)), (0, 0, 0))
    assert second.scalars["exec"].tolist() == [0xFF, 0]


def test_a_wave_of_64_uses_both_words_of_exec():
    (wave,) = start_group(launch(0, (64, 1, 1), wave_size=64), (0, 0, 0))
    assert wave.scalars["exec"].tolist() == [0xFFFFFFFF, 0xFFFFFFFF]


def test_group_ids_follow_the_user_registers():
    rsrc2 = 2 << 1 | 1 << 7 | 1 << 9  # two user registers, x and z
    (wave,) = start_group(launch(0, (1, 1, 1), rsrc2=rsrc2, user_data=(8, 9)), (5, 6, 7))
    assert wave.scalars["sgpr"][:5].tolist() == [8, 9, 5, 7, 0]


def test_lds_comes_in_units_of_512_bytes():
    (wave,) = start_group(launch(0, (1, 1, 1), rsrc2=3 << 15), (0, 0, 0))
    assert len(wave.lds) == 1536


# --- refusals


@pytest.mark.refusal
def test_an_endless_kernel_is_stopped(bench):
    waves = start_group(launch(bench.code([SELF]), (32, 1, 1)), (0, 0, 0))
    asked = []
    with pytest.raises(Stopped, match="stopped at"):
        run_group(bench.memory, waves, lambda: len(asked) > 1 or asked.append(1))
    assert waves[0].executed == 512


@pytest.mark.refusal
def test_code_outside_executable_pages_faults(bench):
    data = bench.allocate(struct.pack("<I", END))
    waves = start_group(launch(data, (32, 1, 1)), (0, 0, 0))
    with pytest.raises(PageFault, match=f"execute of {data:#x}: page is no-execute"):
        run_group(bench.memory, waves)


@pytest.mark.row("SIM-03")
@pytest.mark.refusal
def test_an_instruction_without_meaning_is_refused_by_name(bench):
    with pytest.raises(SimFault, match="instruction s_trap is not simulated") as caught:
        bench.run([0xBF900002])  # s_trap 2
    assert "pc" in caught.value.facts


@pytest.mark.refusal
@pytest.mark.parametrize(
    ("words", "name"),
    [
        ([0xBF920000], "s_denorm_mode to 0x0"),
        ([0xBF910001], "s_round_mode to 0x1"),
        ([0xB9801801, 0x1], "s_setreg_imm32_b32 to 0x1"),
    ],
)
def test_modes_that_would_change_arithmetic_are_refused(bench, words, name):
    with pytest.raises(SimFault, match=f"{name} is not simulated"):
        bench.run([*words, END])


@pytest.mark.parametrize("words", [[0xBF92000F], [0xB9801901, 0xF]])
def test_setting_the_mode_to_what_it_is_changes_nothing(bench, words):
    (wave,) = bench.run([*words, END])
    assert wave.is_ended


def test_registers_of_a_fresh_wave_are_zero():
    wave = Wave(32, 0, bytearray())
    assert not wave.vgprs.any()
