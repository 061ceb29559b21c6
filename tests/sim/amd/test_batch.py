"""Loads and stores in sequence that become one call of the library."""

import numpy as np
import pytest
from bare_amd import words

from sim.amd.rdna.cfg import CodeReader, discover
from sim.amd.rdna.translate import Translator
from sim.amd.wave import WaveFault

# Machine code as literal words; the comments are what llvm-mc prints for them.

COPY_ROWS = words(  # copies 4 rows of 32 words, 128 bytes apart, to 512 bytes further on
    0xF4040200, 0xF8000000,  # s_load_b64 s[8:9], s[0:1], null
    0x30020082,  # v_lshlrev_b32_e32 v1, 2, v0
    0xDC520000, 0x04080001,  # global_load_b32 v4, v1, s[8:9]
    0xDC520080, 0x05080001,  # global_load_b32 v5, v1, s[8:9] offset:128
    0xDC520100, 0x06080001,  # global_load_b32 v6, v1, s[8:9] offset:256
    0xDC520180, 0x07080001,  # global_load_b32 v7, v1, s[8:9] offset:384
    0xDC6A0200, 0x00080401,  # global_store_b32 v1, v4, s[8:9] offset:512
    0xDC6A0280, 0x00080501,  # global_store_b32 v1, v5, s[8:9] offset:640
    0xDC6A0300, 0x00080601,  # global_store_b32 v1, v6, s[8:9] offset:768
    0xDC6A0380, 0x00080701,  # global_store_b32 v1, v7, s[8:9] offset:896
    0xBFB00000,  # s_endpgm
)  # fmt: skip

COPY_COLUMNS = words(  # the same with 64-bit addresses, lanes 64 bytes apart, words 4
    0xF4040200, 0xF8000000,  # s_load_b64 s[8:9], s[0:1], null
    0x30020086,  # v_lshlrev_b32_e32 v1, 6, v0
    0xD7006A02, 0x00020208,  # v_add_co_u32 v2, vcc_lo, s8, v1
    0x7E060209,  # v_mov_b32_e32 v3, s9
    0xDC520000, 0x047C0002,  # global_load_b32 v4, v[2:3], off
    0xDC520004, 0x057C0002,  # global_load_b32 v5, v[2:3], off offset:4
    0xDC520008, 0x067C0002,  # global_load_b32 v6, v[2:3], off offset:8
    0xDC6A0020, 0x007C0402,  # global_store_b32 v[2:3], v4, off offset:32
    0xDC6A0024, 0x007C0502,  # global_store_b32 v[2:3], v5, off offset:36
    0xDC6A0028, 0x007C0602,  # global_store_b32 v[2:3], v6, off offset:40
    0xBFB00000,  # s_endpgm
)  # fmt: skip

ROWS_OFF_THE_END = words(  # the third of three rows starts at the end of the page
    0xF4040200, 0xF8000000,  # s_load_b64 s[8:9], s[0:1], null
    0x30020082,  # v_lshlrev_b32_e32 v1, 2, v0
    0x4A0202FF, 0x00000F00,  # v_add_nc_u32_e32 v1, 0xf00, v1
    0xDC520000, 0x04080001,  # global_load_b32 v4, v1, s[8:9]
    0xDC520080, 0x05080001,  # global_load_b32 v5, v1, s[8:9] offset:128
    0xDC520100, 0x06080001,  # global_load_b32 v6, v1, s[8:9] offset:256
    0xBFB00000,  # s_endpgm
)  # fmt: skip

OWN_ADDRESS = words(  # the first load overwrites the address that the second uses
    0xF4040200, 0xF8000000,  # s_load_b64 s[8:9], s[0:1], null
    0x30020082,  # v_lshlrev_b32_e32 v1, 2, v0
    0x7E080301,  # v_mov_b32_e32 v4, v1
    0xDC520000, 0x01080001,  # global_load_b32 v1, v1, s[8:9]
    0xDC520080, 0x02080001,  # global_load_b32 v2, v1, s[8:9] offset:128
    0xDC6A0200, 0x00080204,  # global_store_b32 v4, v2, s[8:9] offset:512
    0xBFB00000,  # s_endpgm
)  # fmt: skip


@pytest.fixture
def gpu(gpu):
    """Its page of data counts up."""
    gpu.words[:] = np.arange(1024)
    return gpu


def calls_of(code):
    padded = code.ljust(4096, b"\0")
    program = discover(CodeReader(lambda at, size: padded[at : at + size], 0), 32)
    return Translator(program, 32, full=True).text("kernel").count("call void %")


def test_rows_are_copied(gpu):
    assert gpu.run(COPY_ROWS)[128:257].tolist() == [*range(128), 256]


def test_rows_of_a_partly_filled_wave_are_copied(gpu):
    found = gpu.run(COPY_ROWS, threads=(20, 1, 1))[128:256].tolist()
    assert found == [row * 32 + lane + 128 * (lane >= 20) for row in range(4) for lane in range(32)]


def test_rows_of_64_lanes_are_copied(gpu):
    found = gpu.run(COPY_ROWS, threads=(64, 1, 1), wave_size=64)
    assert found[128:289].tolist() == [*range(160), 288]  # rows overlap, the later one stays


def test_columns_are_copied(gpu):
    found = gpu.run(COPY_COLUMNS).reshape(64, 16)[:32, 8:11]
    assert found.tolist() == [[16 * lane + word for word in range(3)] for lane in range(32)]


def test_an_address_that_is_overwritten_is_read_again(gpu):
    # Word n holds 8 * n below 64 and n from there on; lane n reads word 2 * n + 32 in the end.
    gpu.words[:64] = np.arange(64) * 8
    found = gpu.run(OWN_ADDRESS)[128:160].tolist()
    assert found == [16 * lane + 256 for lane in range(16)] + list(range(64, 96, 2))


@pytest.mark.refusal
def test_the_row_that_faults_is_named(gpu):
    entry = gpu.load(ROWS_OFF_THE_END)
    with pytest.raises(WaveFault, match="read of") as caught:
        gpu.run(entry)
    assert (caught.value.address, caught.value.pc) == (gpu.data + 4096, entry + 36)


def test_a_sequence_is_one_call():
    assert calls_of(COPY_ROWS) == 3  # s_load_b64, the loads, the stores


def test_loads_of_their_own_address_stay_apart():
    assert calls_of(OWN_ADDRESS) == 4
