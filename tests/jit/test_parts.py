"""Long reductions in two kernels: when they are cut, and that results stay what they are."""

from dataclasses import replace

import numpy as np
import pytest
from graph_cases import leaf
from kernel_maker import Maker, matmul, reduction, run_oracle
from random_kernels import Draw

from jit import graph as g
from jit import parts
from jit.dtype import dtypes
from jit.emit import Emitted
from jit.parts import in_parts
from jit.schedule import schedule
from runtime.call import Estimate

F32 = dtypes.float32
RANDOM = np.random.default_rng(11)


def whole(kernel):
    outputs = sum(a.written for a in kernel.arguments)
    return Emitted(
        kernel, tuple(range(len(kernel.arguments))), outputs, Estimate(7, 8), frozenset()
    )


def cut(kernel, device="AMD"):
    """The kernels, and the elements of the slots made for them."""
    made = []

    def make(dtype, count):
        made.append((dtype, count))
        return len(kernel.arguments) + len(made) - 1

    return in_parts(whole(kernel), device, make), made


def sizes(emitted):
    return [(a.size, "reduce" if a.reduce else "loop") for a in emitted.kernel.axes]


def run(kernels, made, arrays):
    """All slots after the kernels ran in order on numpy."""
    slots = [np.array(a) for a in arrays] + [np.zeros(n, d.numpy) for d, n in made]
    for emitted in kernels:
        after = run_oracle(emitted.kernel, [slots[s] for s in emitted.slots])
        for slot, array in zip(emitted.slots, after, strict=True):
            slots[slot] = array
    return slots[: len(arrays)]


@pytest.fixture
def small(monkeypatch):
    """Everything with more than 64 elements is cut, into parts of 8 or more."""
    monkeypatch.setattr(parts, "_PART", 8)
    monkeypatch.setattr(parts, "_GPU", replace(parts._GPU, groups=32, worth=64))


def test_a_sum_of_16_million_is_a_sum_of_2048_sums():
    kernels, made = cut(reduction("sum", 1, 1 << 24))
    assert [sizes(k) for k in kernels] == [
        [(2048, "loop"), (1, "loop"), (8192, "reduce")],
        [(1, "loop"), (2048, "reduce")],
    ]
    assert made == [(F32, 2048)]
    assert [k.slots for k in kernels] == [(2, 1), (0, 2)]
    assert [k.outputs for k in kernels] == [1, 1]


def test_kernels_are_named_by_their_sizes():
    kernels, _ = cut(reduction("sum", 1, 1 << 24))
    assert kernels[0].kernel.name.startswith("r_2048_1_8192_")
    assert kernels[1].kernel.name.startswith("r_1_2048_")


def test_a_length_without_a_good_divisor_has_a_shorter_last_part():
    kernels, _ = cut(reduction("sum", 1, 1048583))  # a prime
    assert sizes(kernels[0]) == [(256, "loop"), (1, "loop"), (4097, "reduce")]


def test_the_processor_takes_even_parts_only():
    assert len(cut(reduction("sum", 1, 1 << 24), "CPU")[0]) == 2
    assert len(cut(reduction("sum", 1, (1 << 24) + 43), "CPU")[0]) == 1


@pytest.mark.parametrize(
    "kernel",
    [
        reduction("sum", 1, 1 << 19),  # too short
        reduction("sum", 64, 1 << 20),  # enough outputs
        reduction("sum", 1, 0),
        reduction("sum", 1, 1 << 24, NOOPT=1),
        matmul(512, 512, 512),
    ],
)
def test_what_does_not_pay_stays_one_kernel(kernel):
    kernels, made = cut(kernel)
    assert [k.kernel for k in kernels] == [kernel]
    assert made == []


@pytest.mark.parametrize("kind", ["sum", "prod", "max", "min"])
@pytest.mark.parametrize("depth", [1000, 1009])
@pytest.mark.parametrize("last", [True, False])
@pytest.mark.parametrize("dtype", [F32, dtypes.int32, dtypes.uint8, dtypes.float64, dtypes.bool])
def test_results_of_every_kind_and_type(small, kind, depth, last, dtype):
    kernel = reduction(kind, 3, depth, last=last, dtype=dtype)
    values = RANDOM.integers(0, 2, 3 * depth) + (kind == "prod" and dtype is not dtypes.bool)
    if kind == "prod" and dtype is not dtypes.bool:
        values = np.where(np.arange(3 * depth) % 500 == 7, 3, 1)
    arrays = [np.zeros(3, dtype.numpy), values.astype(dtype.numpy)]
    kernels, made = cut(kernel)
    assert len(kernels) == 2
    assert np.array_equal(run(kernels, made, arrays)[0], run_oracle(kernel, arrays)[0])


def test_several_reductions_with_what_follows(small):
    m = Maker()
    i, k = m.axis(0), m.axis(1)
    x, y = m.load(1, F32, i * 1009 + k), m.load(2, F32, k)
    total = m.reduce("sum", x * y) + m.reduce("max", x) * m.load(3, F32, i)
    kernel = m.kernel(
        [(F32, 3), (F32, 3027), (F32, 1009), (F32, 3)], [3, -1009], [(0, i, total + 1.0)]
    )
    arrays = [RANDOM.integers(-4, 5, a.count).astype(np.float32) for a in kernel.arguments]
    kernels, made = cut(kernel)
    assert [(d.name, n % 3) for d, n in made] == [("float32", 0)] * 2
    assert kernels[1].slots == (0, 4, 5, 3)
    assert np.array_equal(run(kernels, made, arrays)[0], run_oracle(kernel, arrays)[0])


def test_an_update_in_place_reads_the_old_values(small):
    m = Maker()
    i, k = m.axis(0), m.axis(1)
    old = m.load(0, F32, i)
    kernel = m.kernel(
        [(F32, 3), (F32, 3000)],
        [3, -1000],
        [(0, i, old + m.reduce("sum", old * m.load(1, F32, i * 1000 + k)))],
    )
    kernels, made = cut(kernel)
    assert [a.written for a in kernels[0].kernel.arguments] == [True, False, False]
    assert [a.written for a in kernels[1].kernel.arguments] == [True, False]
    arrays = [np.array([1, 2, 3], np.float32), np.ones(3000, np.float32)]
    assert run(kernels, made, arrays)[0].tolist() == [1001, 2002, 3003]


@pytest.mark.parametrize("seed", range(300, 330))
def test_random_kernels(small, seed):
    draw = Draw(seed)
    kernels, made = cut(draw.plain)
    assert np.array_equal(
        run(kernels, made, draw.arrays)[0], run_oracle(draw.plain, draw.arrays)[0]
    )


def test_a_variable_goes_where_it_is_used(small):
    m = Maker()
    k = m.axis(0)
    total = m.reduce("sum", m.load(1, dtypes.int32, k)) + m.variable("n")
    kernel = m.kernel(
        [(dtypes.int32, 1), (dtypes.int32, 512)], [-512], [(0, m.const(0, m.index), total)]
    )
    kernels, _ = cut(kernel)
    assert [k.kernel.variables for k in kernels] == [(), ("n",)]


def test_a_scheduled_sum_runs_in_two_kernels(interpreter):
    node = g.reduce(
        leaf(interpreter, np.arange(1 << 20, dtype=np.int32), device="AMD"), "sum", (0,)
    )
    calls = schedule([node])
    assert [c.kernel.name.rsplit("_", 1)[0] for c in calls] == ["r_256_4096", "r_1_256"]
    interpreter.run(calls)
    assert interpreter.read(node.realized, node.dtype)[0] == np.arange(1 << 20, dtype=np.int32).sum(
        dtype=np.int32
    )
