"""Assigns: what is updated in place, what takes a temporary, and in which order."""

import time

import numpy as np
import pytest
from graph_cases import add, contents, full, leaf, matmul, mul, ones, row, spread

from hcq.errors import BufferUseError
from hcq.settings import Context
from jit import graph as g
from jit.dtype import dtypes
from jit.graph import Op
from jit.schedule import schedule

f32 = dtypes.float32


def test_an_update_is_one_kernel_in_place(interpreter):
    a = leaf(interpreter, np.arange(3, dtype=np.float32))
    (call,) = schedule([], [(a, mul(a, full(2.0, (3,))))])
    assert call.buffers == (a.realized,)
    interpreter.run([call])
    assert contents(interpreter, a).tolist() == [0, 2, 4]


@pytest.mark.row("TEN-09")
def test_a_shift_by_one_reads_the_old_values(interpreter):
    a = leaf(interpreter, np.arange(5, dtype=np.float32))
    target, source = g.slice_(a, ((1, 4, 1),)), g.slice_(a, ((0, 4, 1),))
    interpreter.run(schedule([], [(target, source)]))
    assert contents(interpreter, a).tolist() == [0, 0, 1, 2, 3]


@pytest.mark.row("TEN-09")
def test_part_of_memory_is_updated_in_place(interpreter):
    a = leaf(interpreter, np.arange(5, dtype=np.float32))
    part = g.slice_(a, ((1, 3, 1),))
    calls = schedule([], [(part, mul(part, full(10.0, (3,))))])
    assert len(calls) == 1
    interpreter.run(calls)
    assert contents(interpreter, a).tolist() == [0, 10, 20, 30, 4]


def test_two_tensors_swap(interpreter):
    a = leaf(interpreter, np.arange(3, dtype=np.float32))
    b = leaf(interpreter, np.arange(3, dtype=np.float32) + 10)
    interpreter.run(schedule([], [(a, b), (b, a)]))
    assert contents(interpreter, a).tolist() == [10, 11, 12]
    assert contents(interpreter, b).tolist() == [0, 1, 2]


def test_a_reader_of_the_old_value_runs_first(interpreter):
    a = leaf(interpreter, np.arange(4, dtype=np.float32))
    total = g.reduce(a, "sum", (0,))
    calls = schedule([total], [(a, full(0.0, (4,)))])
    interpreter.run(calls)
    assert contents(interpreter, total).tolist() == 6
    assert contents(interpreter, a).tolist() == [0, 0, 0, 0]


def test_a_value_that_depends_on_the_whole_target_uses_a_temporary(interpreter):
    a = leaf(interpreter, np.arange(4, dtype=np.float32))
    shifted = g.elementwise(Op.SUB, a, g.slice_(a, ((3, 4, -1),)))
    calls = schedule([], [(a, shifted)])
    assert len(calls) == 2
    interpreter.run(calls)
    assert contents(interpreter, a).tolist() == [-3, -1, 1, 3]


def test_an_output_that_views_the_target_keeps_the_old_value(interpreter):
    a = leaf(interpreter, np.arange(4, dtype=np.float32))
    view = g.reshape(a, (2, 2))
    interpreter.run(schedule([view], [(a, full(9.0, (4,)))]))
    assert contents(interpreter, view).tolist() == [[0, 1], [2, 3]]


def test_an_assigned_value_that_is_also_an_output_has_memory_of_its_own(interpreter):
    a = leaf(interpreter, np.arange(4, dtype=np.float32))
    value = mul(a, full(2.0, (4,)))
    interpreter.run(schedule([value], [(a, value)]))
    assert value.realized is not a.realized
    assert (
        contents(interpreter, value).tolist() == contents(interpreter, a).tolist() == [0, 2, 4, 6]
    )


def test_the_last_of_overlapping_assigns_wins(interpreter):
    a = leaf(interpreter, np.zeros(4, np.float32))
    left, right = g.slice_(a, ((0, 3, 1),)), g.slice_(a, ((1, 3, 1),))
    interpreter.run(schedule([], [(left, full(1.0, (3,))), (right, full(2.0, (3,)))]))
    assert contents(interpreter, a).tolist() == [1, 2, 2, 2]


def test_adam_updates_all_its_state_in_one_kernel(interpreter):
    p, m, v, x = (ones(interpreter, 6, 5) for _ in range(4))
    grad = g.reduce(mul(row(x, (4, 6, 5)), full(2.0, (4, 6, 5))), "sum", (0,))
    m2 = add(mul(m, full(0.9, (6, 5))), mul(grad, full(0.1, (6, 5))))
    v2 = add(mul(v, full(0.9, (6, 5))), mul(mul(grad, grad), full(0.1, (6, 5))))
    p2 = g.elementwise(Op.SUB, p, g.elementwise(Op.DIV, m2, g.elementwise(Op.SQRT, v2)))
    (call,) = schedule([], [(m, m2), (v, v2), (p, p2)])
    assert call.outputs == 3
    interpreter.run([call])
    assert np.allclose(contents(interpreter, m), 1.7)
    assert np.allclose(contents(interpreter, v), 7.3)
    assert np.allclose(contents(interpreter, p), 1 - 1.7 / 7.3**0.5)


@pytest.mark.refusal
@pytest.mark.parametrize(
    ("target", "message"),
    [
        (lambda a: add(a, a), "is no memory that can be assigned to"),
        (lambda a: g.pad(g.slice_(a, ((0, 1, 1),)), ((1, 1, 0),)), "is no memory"),
        (lambda a: g.slice_(a, ((0, 2, 1),)), "cannot be assigned to"),
        (lambda a: g.cast(a, dtypes.int32), "cannot be assigned to"),
    ],
)
def test_what_cannot_be_assigned_to(interpreter, target, message):
    a = ones(interpreter, 3)
    with pytest.raises(BufferUseError, match=message):
        schedule([], [(target(a), a)])


@pytest.mark.refusal
def test_an_expanded_target_is_refused(interpreter):
    a = ones(interpreter, 1)
    with pytest.raises(BufferUseError, match="is no memory that can be assigned to"):
        schedule([], [(g.expand(a, (3,)), ones(interpreter, 3))])


def mlp_step(interpreter):
    """Loss and assigns of one Adam step: 64 -> 128 -> 10, batch 32, softmax cross entropy."""
    shapes = ((64, 128), (128,), (128, 10), (10,))
    w1, b1, w2, b2 = parameters = [ones(interpreter, *shape) for shape in shapes]
    x, hot = ones(interpreter, 32, 64), ones(interpreter, 32, 10)
    h = add(matmul(x, w1), row(b1, (32, 128)))
    a = g.elementwise(Op.MAX, h, full(0.0, (32, 128)))
    z = add(matmul(a, w2), row(b2, (32, 10)))
    z = g.elementwise(Op.SUB, z, spread(g.reduce(z, "max", (1,)), (32, 10), 1))
    total = g.elementwise(Op.LOG, g.reduce(g.elementwise(Op.EXP, z), "sum", (1,)))
    log = g.elementwise(Op.SUB, z, spread(total, (32, 10), 1))
    loss = g.reduce(mul(log, hot), "sum", (0, 1))
    dz = g.elementwise(Op.SUB, g.elementwise(Op.EXP, log), hot)
    da = matmul(dz, g.permute(w2, (1, 0)))
    zero = full(0.0, (32, 128))
    dh = g.elementwise(Op.WHERE, g.elementwise(Op.LT, zero, h), da, zero)
    products = [matmul(g.permute(x, (1, 0)), dh), matmul(g.permute(a, (1, 0)), dz)]
    sums = [g.reduce(dh, "sum", (0,)), g.reduce(dz, "sum", (0,))]
    grads = [products[0], sums[0], products[1], sums[1]]
    assigns = []
    for p, grad, shape in zip(parameters, grads, shapes, strict=True):
        m, v = ones(interpreter, *shape), ones(interpreter, *shape)
        m2 = add(mul(m, full(0.9, shape)), mul(grad, full(0.1, shape)))
        v2 = add(mul(v, full(0.99, shape)), mul(mul(grad, grad), full(0.01, shape)))
        change = g.elementwise(Op.DIV, m2, g.elementwise(Op.SQRT, v2))
        assigns += [(m, m2), (v, v2), (p, g.elementwise(Op.SUB, p, change))]
    return loss, assigns


def test_a_train_step_is_eleven_kernels(interpreter):
    loss, assigns = mlp_step(interpreter)
    assert len(schedule([loss], assigns)) == 11


def test_a_train_step_is_scheduled_in_thirty_milliseconds(interpreter):
    def once():
        loss, assigns = mlp_step(interpreter)
        start = time.perf_counter()
        with Context(SCACHE=0):
            schedule([loss], assigns)
        return time.perf_counter() - start

    assert min(once() for _ in range(5)) < 0.03
