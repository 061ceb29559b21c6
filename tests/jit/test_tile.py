"""Plans: what is split how, and what a plan may never do."""

import pytest
from kernel_maker import Maker, convolution, elementwise, matmul, reduction
from random_kernels import Draw

from jit.access import Strides
from jit.codegen.amdgcn import AmdRenderer
from jit.codegen.cpu import LEVELS
from jit.codegen.nvptx import NvRenderer
from jit.dtype import dtypes
from jit.tile import Split, balanced, power_below
from jit.tile_cpu import make_plan as cpu_plan
from jit.tile_gpu import make_plan as gpu_plan
from jit.tile_staged import staged_axes, staged_strides

V4, GPU = LEVELS["x86-64-v4"], AmdRenderer.machines["gfx1100"]
NVIDIA = NvRenderer.machines["sm_90"]
F32 = dtypes.float32


def add(count, dtype=dtypes.float32):
    return elementwise("add", dtype, dtype, count, 2)


def splits(plan):
    return [(s.unroll, s.threads, s.lanes) for s in plan.splits]


def test_a_split_covers_its_axis_and_overlaps_at_the_end():
    split = Split(size=100, unroll=2, threads=4, lanes=2)
    assert (split.extent, split.tiles, split.ragged) == (16, 7, True)
    assert not Split(size=96, unroll=2, threads=4, lanes=2).ragged


@pytest.mark.parametrize(
    ("threads", "run"), [(1, 1), (7, 7), (32, 32), (256, 32), (48, 48), (64, 32)]
)
def test_a_run_is_at_most_a_wave(threads, run):
    assert Split(size=1000, threads=threads).run == run


@pytest.mark.parametrize(("size", "most", "extent"), [(10, 16, 10), (17, 16, 9), (5, 2, 2)])
def test_balanced_extents(size, most, extent):
    assert balanced(size, most) == extent


def test_power_below():
    assert [power_below(n) for n in (1, 2, 3, 31, 32)] == [1, 2, 2, 16, 32]


@pytest.mark.parametrize(
    ("dtype", "lanes"), [(dtypes.float64, 8), (dtypes.float32, 16), (dtypes.uint8, 64)]
)
def test_cpu_lanes_fill_a_register(dtype, lanes):
    plan = cpu_plan(add(10000, dtype), V4)
    assert plan.splits[0].lanes == lanes


def test_math_functions_get_the_lanes_of_float64():
    kernel = elementwise("sin", dtypes.float32, dtypes.float32, 10000)
    assert cpu_plan(kernel, V4).splits[0].lanes == 8


def test_cpu_lanes_lie_where_memory_is_contiguous():
    rows, columns = reduction("sum", 200, 300), reduction("sum", 200, 300, last=False)
    assert cpu_plan(rows, V4).vector == 1
    assert cpu_plan(columns, V4).vector == 0


def test_a_cpu_product_keeps_a_tile_of_vectors():
    plan = cpu_plan(matmul(512, 512, 512), V4)
    assert splits(plan) == [(8, 1, 1), (2, 1, 16), (1, 1, 1)]


def test_a_long_cpu_sum_has_several_accumulators():
    plan = cpu_plan(reduction("sum", 3, 10000), V4)
    assert (plan.accumulators, splits(plan)) == (4, [(1, 1, 1), (4, 1, 16)])


def test_a_cpu_group_is_worth_a_thread():
    plan = cpu_plan(add(1 << 20), V4)
    assert plan.chunk * plan.splits[0].extent == 16384


def test_a_gpu_product_keeps_rows_in_registers_and_columns_in_lanes():
    plan = gpu_plan(matmul(512, 512, 15), GPU)
    assert splits(plan) == [(16, 1, 1), (4, 32, 1), (4, 1, 1)]


def test_a_deep_gpu_product_takes_four_waves_that_share_columns():
    kernel = matmul(512, 512, 512)
    plan = gpu_plan(kernel, GPU)
    assert splits(plan) == [(16, 4, 1), (4, 32, 1), (8, 1, 1)]
    assert [e.arg for e in plan.staged] == [2]  # rows come by scalar loads
    assert staged_axes(Strides(kernel), plan, plan.staged[0]) == [1, 2]
    assert staged_strides(Strides(kernel), plan, plan.staged[0], 4) == {1: 1, 2: 128 + 4}


def test_where_loads_that_lanes_share_cost_as_much_both_factors_are_shared():
    kernel = matmul(1024, 1024, 512)
    plan = gpu_plan(kernel, NVIDIA)
    assert splits(plan) == [(16, 4, 1), (4, 32, 1), (8, 1, 1)]
    assert [e.arg for e in plan.staged] == [1, 2]


def test_waves_share_only_where_enough_tiles_are_left():
    assert not gpu_plan(matmul(512, 512, 512), NVIDIA).staged
    assert gpu_plan(matmul(256, 512, 512), GPU).splits[0].threads == 2


def test_what_a_kernel_overwrites_is_not_shared():
    m = Maker()
    i, j, k = (m.axis(a) for a in range(3))
    total = m.reduce("sum", m.load(1, F32, i * 512 + k) * m.load(0, F32, k * 512 + j))
    kernel = m.kernel([(F32, 512 * 512)] * 2, [512, 512, -512], [(0, i * 512 + j, total)])
    assert not gpu_plan(kernel, GPU).staged


def test_shared_tiles_leave_room_for_other_groups():
    for dtype in (dtypes.float32, dtypes.float64, dtypes.uint8):
        kernel = matmul(2048, 2048, 512, dtype=dtype)
        plan, strides = gpu_plan(kernel, NVIDIA), Strides(kernel)
        size = dtype.itemsize
        used = [staged_strides(strides, plan, e, size)[2] * size * 8 for e in plan.staged]
        assert len(used) == 2
        assert sum(used) <= 12 << 10


def test_the_longest_reduce_axis_is_the_one_that_turns():
    plan = gpu_plan(convolution(padding=1), GPU)
    assert plan.inner == 4
    assert splits(plan)[1] == (16, 4, 1)


def test_nvidia_blocks_have_several_warps():
    assert splits(gpu_plan(add(1 << 20), NVIDIA)) == [(8, 128, 1)]
    assert splits(gpu_plan(add(1 << 20), GPU)) == [(8, 32, 1)]


def test_a_small_gpu_product_keeps_enough_tiles():
    plan = gpu_plan(matmul(64, 64, 64), GPU)
    assert plan.splits[0].tiles * plan.splits[1].tiles >= GPU.least_tiles


def test_few_outputs_share_a_reduction_among_threads():
    plan = gpu_plan(reduction("sum", 3, 100000), GPU)
    assert (plan.inner, plan.splits[1].threads) == (1, 256)


def test_many_rows_take_a_wave_each():
    plan = gpu_plan(reduction("sum", 2000, 512), GPU)
    assert plan.splits[1].threads == 32


def test_columns_put_points_in_lanes_and_waves_along_the_reduction():
    plan = gpu_plan(reduction("sum", 1000, 500, last=False), GPU)
    assert plan.loops_first
    assert splits(plan) == [(1, 32, 1), (4, 8, 1)]


def test_a_product_of_a_row_and_a_matrix_reads_rows_of_the_matrix():
    assert gpu_plan(matmul(1, 1024, 1024), GPU).loops_first
    assert not gpu_plan(matmul(1024, 1, 1024), GPU).loops_first


def test_short_rows_take_a_thread_each():
    plan = gpu_plan(reduction("sum", 2000, 16), GPU)
    assert splits(plan)[0] == (1, 32, 1)


def test_lanes_that_differ_are_loaded_once_for_all_channels():
    # A convolution: what a lane loads does not depend on the output channel, axis 1.
    m = Maker()
    b, o, x, c, k = (m.axis(a) for a in range(5))
    data = m.load(1, dtypes.float32, (b * 8 + c) * 66 + x + k)
    value = m.reduce("sum", data * m.load(2, dtypes.float32, (o * 8 + c) * 3 + k))
    kernel = m.kernel(
        [(dtypes.float32, n) for n in (64 * 16 * 64, 64 * 8 * 66, 16 * 8 * 3)],
        [64, 16, 64, -8, -3],
        [(0, (b * 16 + o) * 64 + x, value)],
    )
    plan = gpu_plan(kernel, GPU)
    assert plan.splits[1].unroll == 16
    assert plan.splits[0].unroll == 1


@pytest.mark.parametrize("planner", [(cpu_plan, V4), (gpu_plan, GPU)], ids=["cpu", "gpu"])
def test_noopt_splits_nothing_but_lanes_of_a_wave(planner):
    plan, machine = planner
    found = plan(matmul(128, 128, 128, NOOPT=1), machine)
    assert [(s.unroll, s.lanes) for s in found.splits] == [(1, 1)] * 3
    assert found.splits[2].threads == 1


@pytest.mark.parametrize("seed", range(200, 260))
def test_no_extent_is_larger_than_its_axis(seed):
    kernel = Draw(seed).kernel
    for plan in (cpu_plan(kernel, V4), gpu_plan(kernel, GPU)):
        assert all(s.extent <= s.size for s in plan.splits)
        assert plan.threads <= GPU.most_threads
