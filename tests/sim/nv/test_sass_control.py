"""Branches, calls, convergence and barriers: small programs of literal words, in both engines.

control.txt has them: `chip threads: what it shows`, the words, and `->` with what R1 holds in
each thread at the end. S2R puts the thread's number into R0; what stores R1 is put behind.
`lo50` behind a word puts the low half of the address of byte 50 (hexadecimal) into its
immediate, `hi50` the high half, `abs50` the whole into the field of an absolute branch.
"""

import numpy as np
import pytest
from bare_nv import Gpu
from nv_control import CONTROL_PROGRAMS, STORE
from nv_vectors import numbers

from sim.nv.sass.decode import chip_number
from sim.nv.warp import Launch, WarpFault

NOP = 0x000FE200000000000000000000007918
BANK_BYTES = 0x200


def patched(word, patch, code, chip):
    if not patch:
        return word
    kind, address = patch[:-2], code + int(patch[-2:], 16)
    if kind == "abs":
        field = address // 4
        if chip_number(chip) < 90:
            return word | field << 34
        return word | (field & 0xFF) << 16 | field >> 8 << 34
    return word | (address & 0xFFFF_FFFF if kind == "lo" else address >> 32) << 32


@pytest.fixture(params=["interpreted", "translated"])
def run(request, tmp_path):
    """run(chip, threads, words): what R1 held in each thread."""

    def one(chip, threads, words):
        gpu = Gpu(chip, interpret=request.param == "interpreted", cache_directory=str(tmp_path))
        code = gpu.room(16 * (len(words) + 8), executable=True)
        whole = [patched(word, patch, code, chip) for word, patch in words] + [*STORE, NOP]
        gpu.memory.write(code, b"".join(word.to_bytes(16, "little") for word in whole))
        out = gpu.put(np.zeros(threads, np.uint32))
        bank = np.zeros(BANK_BYTES, np.uint8)
        bank[0x160:0x168] = np.array([out], np.uint64).view(np.uint8)
        banks = ((gpu.put(bank), BANK_BYTES),) + (None,) * 7
        gpu.executor.run(Launch(
            code, 32, (1, 1, 1), (threads, 1, 1), 0x800, 0x100, gpu.local, 1, banks,
            0x7294 << 32, 0x7293 << 32, chip,
        ))  # fmt: skip
        return gpu.get(out, np.uint32, threads).tolist()

    return one


@pytest.mark.row("SIM-05")
@pytest.mark.parametrize(
    "program", CONTROL_PROGRAMS, ids=lambda p: f"{p.chip} {p.title}".replace(" ", "_")
)
def test_programs_leave_what_their_listing_says(run, program):
    want = np.resize(numbers(program.answer), program.threads).tolist()
    assert run(program.chip, program.threads, program.words) == want


@pytest.mark.refusal
def test_a_trap_stops_the_kernel_and_is_named(run):
    # BPT.TRAP 0x1
    with pytest.raises(WarpFault, match=r"the kernel stopped itself with BPT\.TRAP"):
        run("sm_90", 32, [(0x000FE20000300000000000040000795C, "")])


APART = [  # each half of the warp comes to its own WARPSYNC for all lanes, and votes behind it
    0x000FE200000021000000000000007919,  # S2R R0, SR_TID.X
    0x000FE20000000F00FFFFFFFF00077802,  # MOV R7, 0xffffffff
    0x000FE20003F01070000000100000780C,  # ISETP.LT.U32.AND P0, PT, R0, 0x10, PT
    0x000FE2000380000000000000000C0947,  # @P0 BRA 0x70
    0x000FE200038000000000000007007348,  # WARPSYNC R7
    0x000FE200038E010000000000FF017806,  # VOTE.ANY R1, PT, PT
    0x000FE200038000000000000000087947,  # BRA 0x90
    0x000FE200038000000000000007007348,  # WARPSYNC R7
    0x000FE200038E010000000000FF017806,  # VOTE.ANY R1, PT, PT
]
UNEQUAL = [  # lanes that name each other in masks that differ
    0x000FE200000021000000000000007919,  # S2R R0, SR_TID.X
    0x000FE20000000F00FFFFFFFF00077802,  # MOV R7, 0xffffffff
    0x000FE20003F01070000000100000780C,  # ISETP.LT.U32.AND P0, PT, R0, 0x10, PT
    0x000FE20000000F00FFFF000100070802,  # @P0 MOV R7, 0xffff0001
    0x000FE20003A000000000000007007348,  # WARPSYNC.EXCLUSIVE R7
    0x000FE200038E010000000000FF017806,  # VOTE.ANY R1, PT, PT
]


@pytest.mark.refusal
@pytest.mark.parametrize("words", [APART, UNEQUAL], ids=["apart", "unequal"])
def test_lanes_that_wait_for_each_other_in_vain_are_named(run, words):
    named = "lanes of one warp wait for each other and can never meet"
    with pytest.raises(WarpFault, match=named):
        run("sm_90", 32, [(word, "") for word in words])
