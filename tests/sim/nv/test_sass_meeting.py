"""Lanes of a warp and warps of a block that wait for each other, as PTX says they do.

What compilers make of it differs: sm_86 calls functions of theirs, sm_90 has WARPSYNC.COLLECTIVE.

Source: PTX ISA, "bar, barrier", "bar.warp.sync", "vote.sync", "match.sync", "redux.sync".
"""

import numpy as np
import pytest
from bare_nv import Gpu, cubin, library
from nv_meeting import meetings

from sim.nv.warp import WarpFault

CHIPS = ("sm_86", "sm_90", "sm_120")
ENGINES = ("interpreted", "translated")
pytestmark = pytest.mark.skipif(library() is None, reason="needs the wheel nvidia-nvjitlink")

THREAD = np.arange(64)
LANE = THREAD % 32
FACTOR = np.where(LANE < 16, 3, 5)


def after_three(start):
    """Three times a factor that differs from arm to arm, plus what the other arm had."""
    value = start
    for _ in range(3):
        value = value * FACTOR + value[THREAD ^ 16]
    return value


CASES = {
    "exits_before_a_barrier": np.where(THREAD < 50, 1, 0),
    "atomics_between_barriers": np.where(THREAD < 50, 50_050, 0),
    "barrier_or": np.full(64, 1),
    "barrier_and": np.full(64, 10),
    "barrier_count": np.full(64, 64),
    "barrier_count_of_some": np.where(THREAD < 50, 45, 0),
    "ballot_in_groups": np.where(LANE % 2, 0xAAAA_AAAA, 0x5555_5555),
    "any_in_groups": LANE % 2,
    "sum_in_groups": np.where(LANE % 2, 256, 240),
    "match_all_in_groups": np.where(LANE % 2, 0xAAAA_AAAA, 0x5555_5555),
    "match_any_in_groups": 0x1111_1111 << LANE % 4,
    "shuffle_in_groups": THREAD ^ 2,
    "warp_barrier_in_two_arms": after_three(THREAD),
    "barrier_in_two_arms": after_three(THREAD),
    "shuffle_in_two_arms": after_three(THREAD),
    "ballot_in_two_arms": np.where(LANE % 2, 0, 0xFFFF_FFFF),
    "barrier_count_in_two_arms": np.where(THREAD < 16, 17, 16),
    "one_warp_apart_at_a_barrier": np.where(THREAD < 16, 9, 7),
    "exits_while_others_wait": np.where(LANE < 16, 0xFFFF00 + (THREAD ^ 3), 0),
    "spins_while_others_meet": np.where(LANE < 16, 5, 6),
    # 81 l + 27 (100 + l) + 9 (200 + l) + 3 (300 + l) + 400 + l
    "producer_and_consumer": np.where(THREAD < 32, 0, 5800 + 121 * LANE),
}


@pytest.fixture(scope="module")
def loaded(tmp_path_factory):
    """loaded(chip, engine): the programs on a GPU."""
    made = {}
    folder = str(tmp_path_factory.mktemp("cache"))

    def program(chip, engine):
        if (chip, engine) not in made:
            gpu = Gpu(chip, interpret=engine == "interpreted", cache_directory=folder)
            made[chip, engine] = gpu.load(cubin(chip, meetings(chip)))
        return made[chip, engine]

    return program


@pytest.fixture(params=[(c, e) for c in CHIPS for e in ENGINES], ids=lambda p: f"{p[0]}-{p[1]}")
def run(loaded, request):
    """run(kernel): what each of 64 threads stored."""
    program = loaded(*request.param)

    def one(kernel):
        gpu = program.gpu
        a = gpu.put(np.array([0xFFFF_FFFF], np.uint32))
        out = gpu.put(np.zeros(1024, np.uint32))
        program.run(kernel, (1,), (64,), out, a, a, a, np.uint32(0))
        return gpu.get(out, np.uint32, 64)

    return one


@pytest.mark.row("SIM-05")
@pytest.mark.parametrize("kernel", CASES)
def test_lanes_and_warps_meet(run, kernel):
    np.testing.assert_array_equal(run(kernel), CASES[kernel] % 2**32)


@pytest.mark.refusal
def test_warps_at_different_barriers_are_named(run):
    with pytest.raises(WarpFault, match="warps of one block wait at barriers that can never open"):
        run("different_barriers")
