"""Random tensor programs give numpy's bits on every backend and in every mode."""

import os

import numpy as np
import pytest
from fuzz_gradients import check_gradients, gradients_of
from fuzz_programs import Random, value_of
from fuzz_storage import Session

from hcq import settings
from jit.realize import realize
from runtime.device import KINDS, Device
from tensor import Tensor

GPUS = [name for name in ("AMD", "NV") if name in KINDS]
WAYS = {
    "CPU": {},
    "CPU without tiling": {"NOOPT": 1},
    "CPU at level v2": {"DEVICE": "CPU:LLVM:x86-64-v2"},
    "CPU at level v3": {"DEVICE": "CPU:LLVM:x86-64-v3"},
    **{name: {} for name in GPUS},
}
# Settings that may change how values come about, never which.
MODES = [{"SCACHE": 0}, {"CCACHE": 0}, {"LRU": 0}, {"NUM_CPU_THREADS": 1}, {"PARALLEL": 0}]
STEPS = 14


@pytest.fixture(params=WAYS)
def way(request):
    """The device to run on, with the settings of one way in force."""
    name = request.param
    if name in GPUS:
        request.getfixturevalue("simulated_gpus")
    elif not _has(name[-2:]):
        pytest.skip(f"this processor does not run {name[-2:]}")
    reopen = "DEVICE" in WAYS[name]
    if reopen:
        Device.close_all()
    with settings.Context(**WAYS[name]):
        yield name.split()[0]
    if reopen:
        Device.close_all()


def _has(level):
    """Whether this processor runs the level that a way ends with, if it ends with one."""
    needed = {"v2": "sse4_2", "v3": "avx2"}.get(level)
    if needed is None:
        return True
    with open("/proc/cpuinfo") as file:
        return needed in file.read()


def differences(seed, device, large=False):
    """Outputs of a random program that are not what numpy says."""
    pool = Random(seed, device, large).grow(STEPS)
    drawn = np.random.default_rng(seed + 10**6).integers(0, len(pool), 3)
    chosen = [pool[i] for i in sorted({*map(int, drawn), len(pool) - 1, len(pool) // 2})]
    realize([node for node, _ in chosen])
    # A sum may start at +0 or at its first element, so the sign of a zero is not compared.
    return [(n, np.argwhere(value_of(n) != want)) for n, want in chosen if unequal(n, want)]


def unequal(node, want):
    """Whether any value differs; +0 and -0 are equal."""
    found = value_of(node)
    return found.shape != want.shape or bool((found != want).any())


def first_seed(count, part):
    """Where the seeds of a long run start: FUZZ_SEED moves it."""
    return int(os.environ.get("FUZZ_SEED", "0")) + 100_000 + count * part


@pytest.mark.row("EXE-11")
@pytest.mark.parametrize("part", range(4))
def test_a_random_program_is_what_numpy_says(way, part):
    for seed in range(part * 8, part * 8 + (4 if way == "AMD" else 8)):
        assert differences(seed, way, large=part % 2 == 1) == [], seed


@pytest.mark.row("TEN-09")
def test_random_writes_to_views_are_what_numpy_says(way):
    for seed in range(4 if way == "AMD" else 8):
        Session(seed, way).run(12)


@pytest.mark.row("CMP-05")
@pytest.mark.parametrize("mode", MODES, ids=str)
def test_a_random_program_is_the_same_without_a_cache(mode):
    with settings.Context(**mode):
        for seed in range(40, 44):
            assert differences(seed, "CPU") == [], seed


@pytest.mark.row("CMP-17")
def test_a_cached_plan_gives_a_second_graph_of_its_shape_its_own_values():
    for seed in range(50, 56):
        for _ in range(3):
            assert differences(seed, "CPU") == [], seed


@pytest.mark.row("TEN-23")
def test_gradients_of_random_programs_are_finite_differences():
    for seed in range(10):
        check_gradients(seed, "CPU")


@pytest.mark.long
@pytest.mark.row("TEN-23")
@pytest.mark.parametrize("gpu", GPUS)
def test_gradients_of_random_programs_on_a_gpu_are_those_of_the_processor(simulated_gpus, gpu):
    for seed in range(30):
        for one, other in zip(gradients_of(seed, "CPU"), gradients_of(seed, gpu), strict=True):
            np.testing.assert_allclose(one, other, rtol=2e-4, atol=2e-4, err_msg=str(seed))


@pytest.mark.long
@pytest.mark.parametrize("part", range(10))
def test_many_random_programs_are_what_numpy_says(way, part):
    count = 40 if way in GPUS else 120
    start = first_seed(count, part)
    for seed in range(start, start + count):
        assert differences(seed, way, large=part % 2 == 1) == [], seed


@pytest.mark.long
@pytest.mark.parametrize("part", range(5))
def test_many_random_writes_are_what_numpy_says(way, part):
    count = 30 if way == "AMD" else 100
    start = first_seed(count, part)
    for seed in range(start, start + count):
        Session(seed, way).run(16)


@pytest.mark.long
@pytest.mark.parametrize("mode", MODES, ids=str)
def test_many_random_programs_are_the_same_without_a_cache(mode):
    with settings.Context(**mode):
        for seed in range(first_seed(100, 20), first_seed(100, 21)):
            assert differences(seed, "CPU") == [], seed
        for seed in range(first_seed(50, 40), first_seed(50, 41)):
            Session(seed, "CPU").run(16)


@pytest.mark.long
@pytest.mark.parametrize("part", range(4))
def test_gradients_of_many_random_programs_are_finite_differences(part):
    start = first_seed(100, part)
    for seed in range(start, start + 100):
        check_gradients(seed, "CPU")


def test_copies_keep_every_bit():
    """A NaN's payload and the sign of zero survive being moved and joined."""
    bits = np.array([0x80000000, 0x7FC12345, 0xFFC00001, 0x00000001, 0xFF800000], np.uint32)
    t = Tensor(bits.view(np.float32), device="CPU")
    moved = t.flip(0).reshape(5, 1).expand(5, 3).permute(1, 0)[1].cat(t)
    assert moved.numpy().view(np.uint32).tolist() == [*bits[::-1].tolist(), *bits.tolist()]
