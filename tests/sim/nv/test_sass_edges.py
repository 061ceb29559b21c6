"""Edges that compilers seldom come to: constants far into a bank, lanes that wait all at once."""

import numpy as np
import pytest
from bare_nv import Gpu
from nv_control import STORE

from sim.nv.warp import Launch, WarpFault

S2R = 0x000E220000002100_0000000000007919  # S2R R0, SR_TID.X
FAR = 0x9008  # a byte of the 64 KiB that a bank may have
READS = {
    # Disassemblers print c[0x0][-0x6ff8].
    "MOV R1": 0x000FE20000000F00_00000000_00017A02 | FAR >> 2 << 40,
    "LDC R1": 0x000E220000000800_00000000_FF017B82 | FAR << 38,
}


@pytest.fixture(params=["interpreted", "translated"])
def gpu(request, tmp_path):
    return Gpu("sm_90", interpret=request.param == "interpreted", cache_directory=str(tmp_path))


def run(gpu, words, bank_bytes):
    """R1 of each lane at the end of the words, of which bank 0 holds 0x5EED at FAR."""
    whole = [S2R, *words, *STORE]
    code = gpu.room(16 * len(whole), executable=True)
    gpu.memory.write(code, b"".join(word.to_bytes(16, "little") for word in whole))
    out = gpu.put(np.zeros(32, np.uint32))
    bank = np.zeros(0x10000, np.uint8)
    bank[0x160:0x168] = np.array([out], np.uint64).view(np.uint8)
    bank[FAR : FAR + 4] = np.array([0x5EED], np.uint32).view(np.uint8)
    banks = ((gpu.put(bank), bank_bytes),) + (None,) * 7
    gpu.executor.run(Launch(
        code, 32, (1, 1, 1), (32, 1, 1), 0x400, 0, gpu.local, 0, banks,
        0x7294 << 32, 0x7293 << 32, "sm_90",
    ))  # fmt: skip
    return gpu.get(out, np.uint32, 32).tolist()


@pytest.mark.row("SIM-05")
@pytest.mark.parametrize("read", READS.values(), ids=READS)
def test_constants_lie_anywhere_in_64_kib(gpu, read):
    assert run(gpu, [read], 0x10000) == [0x5EED] * 32


@pytest.mark.refusal
@pytest.mark.row("SIM-06")
@pytest.mark.parametrize("read", READS.values(), ids=READS)
def test_constants_behind_the_end_of_their_bank_are_refused(gpu, read):
    text = r"reads byte 0x900b of constant bank 0, which has 0x9008"
    with pytest.raises(WarpFault, match=text) as caught:
        run(gpu, [read], FAR)
    assert caught.value.kind == "memory"


@pytest.mark.refusal
def test_lanes_that_come_together_and_wait_for_ever_are_named(gpu):
    # Two halves wait with masks of all lanes but one of the other half, and so for each other.
    words = [
        0x000FE20000000F00_FFFFFFFE_00047802,  # MOV R4, 0xfffffffe
        0x000FE20003F01070000000100000780C,  # ISETP.LT.U32.AND P0, PT, R0, 0x10, PT
        0x000FE20000000F00_7FFFFFFF_00040802,  # @P0 MOV R4, 0x7fffffff
        0x005FEA0003C000000000000004087348,  # WARPSYNC.COLLECTIVE R4, behind the next two
        0x004FE200008E01000000000000057806,  # VOTE.ANY R5, PT, P1
        0x001FEC0003800000000000000000791B,  # ENDCOLLECTIVE
    ]
    with pytest.raises(WarpFault, match="wait for each other") as caught:
        run(gpu, words, 0x10000)
    assert caught.value.kind == "illegal"


@pytest.mark.refusal
@pytest.mark.parametrize("distance", [1 << 32, -(1 << 32)])
def test_calls_beyond_2_gib_are_refused(gpu, distance):
    # CALL.ABS.NOINC: the low 8 bits of the target's words lie at bit 16, the others at bit 34
    field = (0x7000_0000_0000 + distance) // 4
    call = 0x000FEA0003C00000_00000000_0000_7943 | (field & 0xFF) << 16 | field >> 8 << 34
    with pytest.raises(WarpFault, match="more than 2 GiB from the entry") as caught:
        run(gpu, [call], 0x10000)
    assert caught.value.kind == "illegal"
