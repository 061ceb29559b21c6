"""Dispatches that fault, and kernels that never end."""

import time

import pytest
from bare_amd import SPIN, words

from sim.amd.wave import WaveFault

# Machine code as literal words; the comments are what llvm-mc prints for them.
LOAD_FAR = words(  # loads 0x10000000 bytes past the buffer
    0xF4040200, 0xF8000000,  # s_load_b64 s[8:9], s[0:1], null
    0x7E0202FF, 0x10000000,  # v_mov_b32_e32 v1, 0x10000000
    0xDC520000, 0x02080001,  # global_load_b32 v2, v1, s[8:9]
    0xBFB00000,  # s_endpgm
)  # fmt: skip

STORE_LANE_FIVE_FAR = words(  # only lane 5 stores past the buffer
    0xF4040200, 0xF8000000,  # s_load_b64 s[8:9], s[0:1], null
    0x30020082,  # v_lshlrev_b32_e32 v1, 2, v0
    0x7C940085,  # v_cmp_eq_u32_e32 vcc_lo, 5, v0
    0x7E0602FF, 0x10000000,  # v_mov_b32_e32 v3, 0x10000000
    0x02020701,  # v_cndmask_b32_e32 v1, v1, v3, vcc_lo
    0xDC6A0000, 0x00080001,  # global_store_b32 v1, v0, s[8:9]
    0xBFB00000,  # s_endpgm
)  # fmt: skip

LAST_BYTES = words(  # loads 4 bytes of which 2 lie past the page
    0xF4040200, 0xF8000000,  # s_load_b64 s[8:9], s[0:1], null
    0x7E0202FF, 0x00000FFE,  # v_mov_b32_e32 v1, 0xffe
    0xDC520000, 0x02080001,  # global_load_b32 v2, v1, s[8:9]
    0xBFB00000,  # s_endpgm
)  # fmt: skip

WRAPS = words(  # loads 16 bytes across the end of the address space
    0x7E0402C2,  # v_mov_b32_e32 v2, -2
    0x7E0602C1,  # v_mov_b32_e32 v3, -1
    0xDC5E0000, 0x047C0002,  # global_load_b128 v[4:7], v[2:3], off
    0xBFB00000,  # s_endpgm
)  # fmt: skip

SCALAR_NULL = words(  # loads from address 0x1000
    0xBE8801FF, 0x00001000,  # s_mov_b64 s[8:9], 0x1000
    0xF4040204, 0xF8000000,  # s_load_b64 s[8:9], s[8:9], null
    0xBFB00000,  # s_endpgm
)  # fmt: skip

STORE_ZERO = words(  # stores 0 at word 0
    0xF4040200, 0xF8000000,  # s_load_b64 s[8:9], s[0:1], null
    0x7E020280,  # v_mov_b32_e32 v1, 0
    0xDC6A0000, 0x00080101,  # global_store_b32 v1, v1, s[8:9]
    0xBFB00000,  # s_endpgm
)  # fmt: skip

JUMP_AWAY = words(  # jumps to 0x1000
    0xBE8801FF, 0x00001000,  # s_mov_b64 s[8:9], 0x1000
    0xBE804808,  # s_setpc_b64 s[8:9]
)  # fmt: skip

ENDLESS = words(  # never ends
    0xBFA0FFFF,  # s_branch again
)  # fmt: skip

HIGH_REGISTER = words(  # uses v100
    0x7EC80280,  # v_mov_b32_e32 v100, 0
    0xBFB00000,  # s_endpgm
)  # fmt: skip

ILLEGAL = words(0xBE810080, 0xFFFFFFFF, 0xBFB00000)  # s_mov_b32 s1, 0; nothing; s_endpgm


def fault_of(gpu, code, **fields):
    with pytest.raises(WaveFault) as caught:
        gpu.run(code, **fields)
    return caught.value


@pytest.mark.row("SIM-06")
@pytest.mark.refusal
def test_a_load_from_unmapped_memory_is_a_fault_with_its_address(gpu):
    fault = fault_of(gpu, LOAD_FAR)
    assert (fault.kind, fault.access, fault.address) == (
        "memory", "read", gpu.data + 0x10000000
    )  # fmt: skip


@pytest.mark.refusal
def test_the_fault_is_that_of_the_lane_that_did_it(gpu):
    fault = fault_of(gpu, STORE_LANE_FIVE_FAR)
    assert (fault.access, fault.address) == ("write", gpu.data + 0x10000000)


@pytest.mark.refusal
def test_the_fault_names_the_instruction(gpu):
    entry = gpu.load(LOAD_FAR)
    assert fault_of(gpu, entry).pc == entry + 16


@pytest.mark.refusal
def test_the_first_bad_byte_is_the_fault_address(gpu):
    fault = fault_of(gpu, LAST_BYTES)
    assert fault.address == gpu.data + 4096


@pytest.mark.refusal
def test_an_access_across_the_end_of_the_address_space_faults(gpu):
    assert fault_of(gpu, WRAPS).address == 0xFFFF_FFFF_FFFF_FFFE


@pytest.mark.refusal
def test_a_scalar_load_from_nowhere_faults(gpu):
    fault = fault_of(gpu, SCALAR_NULL)
    assert (fault.kind, fault.access, fault.address) == ("memory", "read", 0x1000)


@pytest.mark.refusal
def test_a_store_to_a_read_only_page_faults(gpu):
    gpu.memory.unmap(gpu.data, 4096)
    gpu.memory.map(gpu.data, 4096, writable=False)
    fault = fault_of(gpu, STORE_ZERO)
    assert (fault.kind, fault.access, fault.address) == ("memory", "write", gpu.data)


@pytest.mark.refusal
def test_an_unmapped_buffer_faults_at_the_next_dispatch(native):
    entry = native.load(STORE_ZERO)
    native.run(entry)
    native.memory.unmap(native.data, 4096)
    assert fault_of(native, entry).address == native.data


@pytest.mark.refusal
def test_a_buffer_unmapped_while_a_kernel_reads_it_is_a_fault(native):
    rounds = []

    def unmap_once():
        rounds.append(None)
        if len(rounds) == 2:
            native.memory.unmap(native.data, 4096)
        return False

    entry = native.load(SPIN)  # one wave alone: it waits for ever
    with pytest.raises(WaveFault) as caught:
        native.run(entry, stop=unmap_once)
    assert (caught.value.kind, caught.value.address) == ("memory", native.data + 512)


@pytest.mark.refusal
def test_code_must_be_executable(gpu):
    address, _ = gpu.allocate(4096)
    fault = fault_of(gpu, address)
    assert (fault.kind, fault.access, fault.address) == ("memory", "execute", address)


@pytest.mark.refusal
def test_a_jump_out_of_the_code_faults(gpu):
    fault = fault_of(gpu, JUMP_AWAY)
    assert (fault.kind, fault.access, fault.address) == ("memory", "execute", 0x1000)


@pytest.mark.row("SIM-03")
@pytest.mark.row("SIM-11")
@pytest.mark.refusal
def test_an_unknown_instruction_faults_with_its_word_and_place(gpu):
    entry = gpu.load(ILLEGAL)
    fault = fault_of(gpu, entry)
    assert (fault.kind, fault.pc) == ("illegal", entry + 4)
    assert "0xffffffff" in fault.text
    assert f"{entry + 4:#x}" in fault.text


@pytest.mark.refusal
def test_registers_beyond_the_allocation_are_refused(native):
    fault = fault_of(native, HIGH_REGISTER)
    assert (fault.kind, fault.text) == (
        "illegal",
        f"the kernel at {fault.pc:#x} uses v100, but RSRC1 allocates 16 VGPRs",
    )


def test_the_gpu_works_on_after_a_fault(native):
    fault_of(native, LOAD_FAR)
    native.words[:] = 5
    assert native.run(STORE_ZERO)[0] == 0


@pytest.mark.refusal
def test_a_kernel_that_never_ends_can_be_stopped(gpu):
    limit = time.monotonic() + 0.05
    with pytest.raises(WaveFault, match="stopped") as caught:
        gpu.run(ENDLESS, stop=lambda: time.monotonic() > limit)
    assert caught.value.kind == "aborted"
    assert time.monotonic() - limit < 0.05


@pytest.mark.refusal
def test_endless_groups_can_be_stopped_on_all_threads(native):
    limit = time.monotonic() + 0.05
    with pytest.raises(WaveFault, match="stopped"):
        native.run(ENDLESS, groups=(64, 1, 1), stop=lambda: time.monotonic() > limit)
    native.words[:] = 5
    assert native.run(STORE_ZERO)[0] == 0
