"""AMDGCN code: what it asks of a launch, and its results on a simulated GPU."""

import shutil
import subprocess

import numpy as np
import pytest
from kernel_maker import (
    Maker,
    convolution,
    elementwise,
    host_levels,
    matmul,
    reduction,
    relabelled,
    run_native,
    run_oracle,
)

from hcq import host
from jit.codegen.nvptx import NvRenderer
from jit.compile import renderer
from jit.dtype import dtypes
from jit.math import FUNCTIONS
from runtime.buffer import Buffer
from runtime.call import ProgramCall
from runtime.device import Device
from runtime.execute import run_linear
from sim.machine import Machine

RANDOM = np.random.default_rng(3)
TARGET = "LLVM:gfx1100"


def floats(count, dtype=np.float32):
    return RANDOM.uniform(-2, 2, count).astype(dtype)


@pytest.fixture(scope="module")
def simulated():
    """One simulated GPU for all tests here: starting one costs more than most kernels."""
    Device.close_all()
    machine = Machine(["gfx1100"])
    before = host.use(machine)
    yield
    Device.close_all()
    host.use(before)
    machine.shut_down()


@pytest.fixture
def gpu(simulated, tmp_path, monkeypatch):
    """run(kernel, arrays): the arrays after a launch on a simulated gfx1100."""
    monkeypatch.setenv("CACHEDB", str(tmp_path / "cache.db"))

    def run(kernel, arrays, **variables):
        buffers = []
        for argument, array in zip(kernel.arguments, arrays, strict=True):
            buffer = Buffer("AMD", argument.count, argument.dtype).ensure_allocated()
            buffer.copy_in(np.ascontiguousarray(array).tobytes())
            buffers.append(buffer)
        run_linear([ProgramCall(kernel, tuple(buffers), "AMD", variables=variables)])
        return [
            np.frombuffer(b.copy_out(), a.dtype.numpy)
            for b, a in zip(buffers, kernel.arguments, strict=True)
        ]

    return run


@pytest.fixture(params=["gfx1100", "sm_90"])
def planned(request, monkeypatch):
    """Kernels for gfx1100 are planned as for this chip."""
    if request.param != "gfx1100":
        monkeypatch.setattr(renderer(TARGET), "machine", NvRenderer.machines[request.param])
    return request.param


def assembly(kernel, tmp_path):
    code = renderer(TARGET).render(kernel).finish()
    path = tmp_path / "kernel.o"
    path.write_bytes(code.image)
    tool = shutil.which("llvm-objdump-22") or pytest.skip("llvm-objdump-22 is not installed")
    return subprocess.run(
        [tool, "-d", "--mcpu=gfx1100", path], capture_output=True, text=True, check=True
    ).stdout


def test_arguments_are_pointers_then_variables_of_the_index_type():
    code = renderer(TARGET).render(matmul(3, 4, 5)).finish()
    assert [(a.kind, a.dtype, a.size, a.written) for a in code.arguments] == [
        ("buffer", "float32", 8, True),
        ("buffer", "float32", 8, False),
        ("buffer", "float32", 8, False),
    ]


@pytest.mark.parametrize("kind", ["elementwise", "matmul", "tree"])
def test_a_kernel_asks_for_no_hidden_argument(kind):
    kernel = {
        "elementwise": elementwise("pow", dtypes.float32, dtypes.float32, 5000, 2),
        "matmul": matmul(33, 65, 129),
        "tree": reduction("sum", 3, 5000),
    }[kind]
    image = renderer(TARGET).render(kernel).finish().image
    assert b".args" in image
    assert b"hidden_" not in image


def test_work_items_of_a_wave_touch_neighbours():
    code = (
        renderer(TARGET)
        .render(elementwise("add", dtypes.float32, dtypes.float32, 1 << 20, 2))
        .finish()
    )
    assert code.block == (32, 1, 1)
    assert code.grid == (4096, 1, 1)


def test_a_small_kernel_is_one_work_group_without_idle_lanes():
    code = (
        renderer(TARGET).render(elementwise("add", dtypes.float32, dtypes.float32, 7, 2)).finish()
    )
    assert (code.grid, code.block) == ((1, 1, 1), (7, 1, 1))


def test_a_matrix_product_keeps_a_tile_in_registers(tmp_path):
    text = assembly(matmul(512, 512, 15), tmp_path)
    loop = text[: text.index("s_cbranch_scc1")]
    # 16 rows by 4 columns per work-item, 4 deep; rows come through scalar registers.
    assert loop.count("fmac_f32") == 16 * 4 * 4
    assert loop.count("global_load") == 16


def test_waves_share_the_columns_of_a_deep_matrix_product(tmp_path):
    text = assembly(matmul(512, 512, 512), tmp_path)
    loop = text[: text.index("s_cbranch_scc1")]
    assert loop.count("fmac_f32") == 16 * 4 * 8
    # 8 by 128 columns fetched by 128 work-items, before the loop and in it.
    assert loop.count("global_load_b32") == 2 * 8
    assert loop.count("ds_store_2addr") * 2 == 8
    assert loop.count("ds_load_2addr") * 2 == 4 * 8
    assert loop.count("s_barrier") == 2
    assert loop.count("s_load_b256") == 16


def test_few_outputs_and_a_long_reduction_share_local_memory(tmp_path):
    text = assembly(reduction("sum", 3, 50000), tmp_path)
    assert "ds_store_b32" in text
    assert "s_barrier" in text


def test_one_wave_needs_no_barrier(tmp_path):
    text = assembly(reduction("sum", 2000, 512), tmp_path)
    assert "ds_store_b32" in text
    assert "s_barrier" not in text


def test_noopt_leaves_registers_and_local_memory_alone(tmp_path):
    text = assembly(matmul(128, 128, 128, NOOPT=1), tmp_path)
    assert text.count("v_fmac_f32") == 1
    assert "v_dual_fmac" not in text


@pytest.mark.parametrize("count", [1, 31, 33, 1031, 70001])
def test_elementwise_kernels(gpu, count):
    a, b = floats(count), floats(count)
    kernel = elementwise("add", dtypes.float32, dtypes.float32, count, 2)
    assert np.array_equal(gpu(kernel, [np.zeros_like(a), a, b])[0], a + b)


@pytest.mark.parametrize("count", [7, 1031, 70001])
def test_updates_in_place(gpu, count):
    m = Maker()
    i = m.axis(0)
    value = m.load(0, dtypes.float32, i) * 2.0 + m.load(1, dtypes.float32, i)
    kernel = m.kernel([(dtypes.float32, count)] * 2, [count], [(0, i, value)])
    a, b = floats(count), floats(count)
    assert np.array_equal(gpu(kernel, [a, b])[0], a * 2 + b)


@pytest.mark.parametrize("shape", [(1, 1, 1), (3, 5, 7), (33, 65, 129), (128, 10, 64)])
@pytest.mark.parametrize("transposed", [False, True])
def test_matrix_products(gpu, shape, transposed):
    rows, columns, depth = shape
    a, b = floats((rows, depth)), floats((columns, depth) if transposed else (depth, columns))
    kernel = matmul(*shape, transposed=transposed)
    out, *_ = gpu(kernel, [np.zeros(rows * columns, np.float32), a, b])
    want = a.astype(np.float64) @ (b.T if transposed else b)
    assert np.allclose(out.reshape(rows, columns), want, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize(
    "kernel",
    [
        matmul(512, 1024, 100),  # steps left over after whole turns
        matmul(500, 1000, 64),  # the last tiles overlap
        matmul(512, 1024, 64, transposed=True),
        matmul(512, 1024, 32, dtype=dtypes.float64),
        matmul(512, 1024, 32, dtype=dtypes.float16),
        matmul(512, 1024, 32, dtype=dtypes.uint8),
        matmul(512, 1024, 32, dtype=dtypes.bool),
        convolution(side=35, channels=16),
        convolution(padding=1, channels=16),
        convolution(side=64, images=4, size=1),
    ],
    ids=lambda k: "-".join(str(a.size) for a in k.axes) + k.arguments[0].dtype.name,
)
def test_products_through_local_memory(gpu, planned, kernel):
    kernel = relabelled(kernel, planned)
    # Of gfx1100 one factor comes by scalar loads.
    assert len(renderer(TARGET).render(kernel).plan.staged) == (2 if planned == "sm_90" else 1)
    # Small whole numbers: sums are exact in any order.
    values = [RANDOM.integers(0, 3, a.count).astype(a.dtype.numpy) for a in kernel.arguments]
    want, *_ = run_native(kernel, values, host_levels()[-1])
    assert np.array_equal(gpu(kernel, values)[0], want)


@pytest.mark.parametrize(
    ("kind", "rows", "depth", "last"),
    [
        ("sum", 1, 10007, True),
        ("max", 3, 1003, True),
        ("sum", 2000, 65, True),
        ("min", 67, 33, False),
        ("prod", 5, 300, False),
        ("sum", 333, 1001, False),
        ("max", 40, 65, False),
        ("sum", 5, 0, True),
    ],
)
def test_reductions(gpu, kind, rows, depth, last):
    x = RANDOM.uniform(0.99, 1.01, rows * depth).astype(np.float32)
    out, _ = gpu(reduction(kind, rows, depth, last=last), [np.ones(rows, np.float32), x])
    shaped = x.reshape((rows, depth) if last else (depth, rows))
    numpy = {"sum": np.sum, "prod": np.prod, "max": np.max, "min": np.min}[kind]
    assert np.allclose(out, numpy(shaped.astype(np.float64), axis=1 if last else 0), rtol=1e-5)


@pytest.mark.parametrize("dtype", [dtypes.int64, dtypes.uint8, dtypes.float64, dtypes.float16])
def test_trees_of_other_types(gpu, dtype):
    x = RANDOM.permutation(np.arange(200) % 120).astype(dtype.numpy)
    out, _ = gpu(reduction("max", 1, 200, dtype=dtype), [x[:1] * 0, x])
    assert out[0] == 119


def test_a_padded_load_and_a_guarded_store(gpu):
    m = Maker()
    i = m.axis(0)
    valid = ~(i < 3) & (i < 48)
    store = (0, i, m.load(1, dtypes.float32, i - 3, valid), (i & 1).equals(0))
    kernel = m.kernel([(dtypes.float32, 51), (dtypes.float32, 45)], [51], [store])
    x = floats(45)
    out, _ = gpu(kernel, [np.full(51, 9, np.float32), x])
    assert np.array_equal(out[::2], np.pad(x, 3)[::2])
    assert out[1::2].tolist() == [9] * 25


def test_three_loops_two_reduce_loops_and_an_epilogue(gpu):
    m = Maker()
    b, y, x, c, k = (m.axis(a) for a in range(5))
    data = m.load(1, dtypes.float32, ((b * 3 + c) * 7 + y) * 13 + x + k)
    total = m.reduce("sum", data * m.load(2, dtypes.float32, c * 3 + k))
    value = (total + m.load(3, dtypes.float32, y)).of("max", 0.0)
    kernel = m.kernel(
        [(dtypes.float32, n) for n in (2 * 7 * 11, 2 * 3 * 7 * 13, 9, 7)],
        [2, 7, 11, -3, -3],
        [(0, (b * 7 + y) * 11 + x, value)],
    )
    arrays = [floats(a.count) for a in kernel.arguments]
    assert np.allclose(gpu(kernel, arrays)[0], run_oracle(kernel, arrays)[0], atol=1e-5)


@pytest.mark.parametrize("index", [dtypes.int32, dtypes.int64], ids=lambda t: t.name)
def test_a_variable_and_its_index_type(gpu, index):
    m = Maker(index)
    i, j = m.axis(0), m.axis(1)
    kernel = m.kernel([(index, 35 * 70)], [35, 70], [(0, i * 70 + j, i * j + m.variable("n"))])
    out, *_ = gpu(kernel, [np.zeros(35 * 70, index.numpy)], n=-7)
    assert np.array_equal(out.reshape(35, 70), np.outer(np.arange(35), np.arange(70)) - 7)


def test_a_value_beside_an_update_is_from_before_too(gpu):
    count = 1031
    m = Maker()
    i = m.axis(0)
    a = m.load(0, dtypes.float32, i)
    kernel = m.kernel([(dtypes.float32, count)] * 2, [count], [(0, i, a * 2.0), (1, i, a + 1.0)])
    x = floats(count)
    first, second = gpu(kernel, [x, np.zeros_like(x)])
    assert np.array_equal(first, x * 2)
    assert np.array_equal(second, x + 1)


@pytest.mark.row("TEN-10")
def test_math_functions_give_the_same_bits_as_on_the_cpu(gpu):
    specials = [0, -0.0, 1, -1, np.inf, -np.inf, np.nan, 1e-45, 3e38, 88.7, -103.9, 1e22, 0.5]
    bits = RANDOM.integers(0, 2**32, 200, dtype=np.uint32).view(np.float32)
    with np.errstate(all="ignore"):
        x = np.concatenate([np.array(specials, np.float32), bits, floats(200)])
    y = RANDOM.permutation(x)
    differ = []
    for name in FUNCTIONS:
        given = [x, y] if name in ("pow", "atan2") else [x]
        kernel = elementwise(name, dtypes.float32, dtypes.float32, len(x), len(given))
        arrays = [np.zeros_like(x), *given]
        here, there = run_native(kernel, arrays, host_levels()[-1])[0], gpu(kernel, arrays)[0]
        same = (here.view(np.uint32) == there.view(np.uint32)) | (np.isnan(here) & np.isnan(there))
        differ += [] if same.all() else [(name, x[~same][:3], here[~same][:3], there[~same][:3])]
    assert differ == []
