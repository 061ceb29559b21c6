"""Graphs whose shape is known are not scheduled again, and nothing is mixed up by that."""

import time

import numpy as np
import pytest
from graph_cases import DEVICE, add, compute, contents, leaf, matmul, ones

from hcq.errors import BufferUseError
from hcq.settings import Context
from jit import graph as g
from jit.dtype import dtypes
from jit.graph import Op
from jit.kernels import counters
from jit.schedule import schedule

f32 = dtypes.float32


def step(interpreter, x, w):
    return g.reduce(g.elementwise(Op.EXP, matmul(x, w)), "sum", (0,))


@pytest.mark.row("CMP-17")
def test_a_graph_of_known_shape_is_not_scheduled_again(interpreter):
    first = [ones(interpreter, 5, 6), ones(interpreter, 6, 7)]
    schedule([step(interpreter, *first)])
    scheduled, found, lowered = counters.scheduled, counters.found, counters.lowered
    second = [ones(interpreter, 5, 6), ones(interpreter, 6, 7)]
    schedule([step(interpreter, *second)])
    assert (counters.scheduled, counters.lowered) == (scheduled, lowered)
    assert counters.found == found + 1


@pytest.mark.row("CMP-17")
def test_scache_0_schedules_again(interpreter):
    inputs = ones(interpreter, 5, 6), ones(interpreter, 6, 7)
    schedule([step(interpreter, *inputs)])
    scheduled = counters.scheduled
    with Context(SCACHE=0):
        schedule([step(interpreter, *inputs)])
    assert counters.scheduled == scheduled + 1


@pytest.mark.row("CMP-17")
def test_a_hit_never_mixes_buffers(interpreter):
    for value in (1.0, 2.0, 1.0, 3.0):
        x = leaf(interpreter, np.full((2, 3), value, np.float32))
        w = leaf(interpreter, np.full((3, 2), value + 1, np.float32))
        assert (compute(interpreter, matmul(x, w)) == 3 * value * (value + 1)).all()
        assert (compute(interpreter, matmul(w, x)) == 2 * value * (value + 1)).all()


@pytest.mark.row("CMP-17")
def test_one_buffer_twice_is_another_graph_than_two(interpreter):
    a, b = ones(interpreter, 3), leaf(interpreter, np.full(3, 5, np.float32))
    assert compute(interpreter, add(a, b)).tolist() == [6, 6, 6]
    assert compute(interpreter, add(a, a)).tolist() == [2, 2, 2]
    assert compute(interpreter, add(b, a)).tolist() == [6, 6, 6]


@pytest.mark.row("CMP-17")
def test_a_hit_never_mixes_variables(interpreter):
    a = leaf(interpreter, np.zeros(2, np.float32))
    for value in (3, 8, 3):
        variable = g.Node(Op.VARIABLE, dtypes.int32, (), (), ("n", 0, 9, value), DEVICE)
        wide = g.cast(g.expand(g.reshape(variable, (1,)), (2,)), f32)
        (call,) = schedule([add(a, wide)])
        assert call.variables == {"n": value}


@pytest.mark.row("CMP-17")
def test_overlap_of_target_and_source_is_part_of_the_shape(interpreter):
    a = leaf(interpreter, np.arange(6, dtype=np.float32))
    apart = g.buffer(a.realized.view(3, f32, 12), (3,), f32)
    over = g.buffer(a.realized.view(3, f32, 4), (3,), f32)
    target = g.buffer(a.realized.view(3, f32, 0), (3,), f32)
    assert len(schedule([], [(target, add(apart, apart))])) == 1
    calls = schedule([], [(target, add(over, over))])
    assert len(calls) == 2
    interpreter.run(calls)
    assert contents(interpreter, a).tolist() == [2, 4, 6, 3, 4, 5]


@pytest.mark.refusal
def test_a_variable_has_one_value_in_a_graph(interpreter):
    one, two = (
        g.Node(Op.VARIABLE, dtypes.int32, (), (), ("n", 0, 9, value), DEVICE) for value in (1, 2)
    )
    with pytest.raises(BufferUseError, match="'n' is bound to two values"):
        schedule([add(one, two)])


@pytest.mark.row("CMP-05")
def test_an_equal_kernel_in_another_graph_is_not_lowered_again(interpreter):
    x = ones(interpreter, 3, 11)
    schedule([g.reduce(x, "sum", (1,))])
    lowered, reused = counters.lowered, counters.reused
    y = ones(interpreter, 3, 11)
    schedule([g.reduce(y, "sum", (1,)), g.elementwise(Op.SIN, ones(interpreter, 13))])
    assert counters.lowered == lowered + 1
    assert counters.reused == reused + 1


@pytest.mark.row("CMP-05")
def test_equal_layers_are_one_kernel(interpreter):
    node, w = ones(interpreter, 4, 4), ones(interpreter, 4, 4)
    for _ in range(3):
        node = g.elementwise(Op.TANH, matmul(node, w))
    calls = schedule([node])
    assert len(calls) == 3
    assert len({call.kernel.key for call in calls[:3]}) == 1


def test_a_cached_schedule_takes_less_than_two_milliseconds(interpreter):
    inputs = ones(interpreter, 5, 6), ones(interpreter, 6, 7)

    def once():
        node = step(interpreter, *inputs)
        start = time.perf_counter()
        schedule([node])
        return time.perf_counter() - start

    assert min(once() for _ in range(5)) < 0.002
