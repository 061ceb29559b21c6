"""Which kernels run, in which order, on which buffers; checked on numpy."""

import numpy as np
import pytest
from graph_cases import Random, add, compute, contents, full, leaf, matmul, mul, ones, row, spread

from hcq.errors import BufferUseError
from hcq.settings import Context
from jit import graph as g
from jit import order
from jit.dtype import dtypes
from jit.fuse import Fusion
from jit.graph import Op
from jit.realize import realize
from jit.schedule import schedule
from runtime.call import CopyCall

f32 = dtypes.float32


# What is one kernel


def test_nothing_to_do_is_no_call(interpreter):
    assert schedule([ones(interpreter, 3)]) == []


def test_realizing_realised_nodes_runs_nothing(interpreter):
    node = ones(interpreter, 3)
    assert schedule([node]) == []
    realize([node])


def test_an_unused_node_never_runs(interpreter):
    a = ones(interpreter, 3)
    add(a, a)
    assert len(schedule([mul(a, a)])) == 1


def test_softmax_is_three_kernels(interpreter):
    a = leaf(interpreter, np.random.default_rng(0).normal(size=(7, 33)).astype(np.float32))
    top = spread(g.reduce(a, "max", (1,)), (7, 33), 1)
    e = g.elementwise(Op.EXP, g.elementwise(Op.SUB, a, top))
    node = g.elementwise(Op.DIV, e, spread(g.reduce(e, "sum", (1,)), (7, 33), 1))
    calls = schedule([node])
    assert [call.kernel.name[:1] for call in calls] == ["r", "r", "e"]
    interpreter.run(calls)
    assert np.allclose(contents(interpreter, node).sum(1), 1)


def test_an_activation_that_uses_its_input_twice_joins_the_product(interpreter):
    h = matmul(ones(interpreter, 4, 5), ones(interpreter, 5, 6))
    half = mul(h, full(0.5, (4, 6)))
    assert len(schedule([mul(half, add(full(1.0, (4, 6)), g.elementwise(Op.ERF, h)))])) == 1


def test_a_product_used_in_two_kernels_is_computed_once(interpreter):
    h = matmul(ones(interpreter, 4, 5), ones(interpreter, 5, 6))
    first = g.reduce(g.elementwise(Op.SQRT, h), "sum", (0,))
    second = g.reduce(g.elementwise(Op.NEG, h), "sum", (1,))
    calls = schedule([first, second])
    assert sum("reduce" in call.kernel.text() for call in calls) == 3
    assert len(calls) == 3


def test_a_sum_of_two_products_is_two_kernels(interpreter):
    a, b = ones(interpreter, 8, 9), ones(interpreter, 9, 7)
    node = add(matmul(a, b), matmul(a, mul(b, b)))
    calls = schedule([node])
    assert len(calls) == 2
    interpreter.run(calls)
    assert (contents(interpreter, node) == 18).all()


def test_two_sums_over_the_same_loops_share_a_kernel(interpreter):
    a = leaf(interpreter, np.arange(12, dtype=np.float32).reshape(3, 4))
    total, squares = g.reduce(a, "sum", (1,)), g.reduce(mul(a, a), "sum", (1,))
    calls = schedule([total, squares])
    assert len(calls) == 1
    interpreter.run(calls)
    assert contents(interpreter, total).tolist() == [6, 22, 38]
    assert contents(interpreter, squares).tolist() == [14, 126, 366]


def test_outputs_of_one_shape_share_a_kernel(interpreter):
    a = ones(interpreter, 6)
    first, second = add(a, a), mul(a, a)
    (call,) = schedule([first, second])
    assert call.outputs == 2
    assert len(call.kernel.stores) == 2


def test_an_output_read_shifted_by_another_is_two_kernels(interpreter):
    a = leaf(interpreter, np.arange(4, dtype=np.float32))
    first = g.contiguous(add(a, a))
    second = add(first, g.slice_(first, ((3, 4, -1),)))
    calls = schedule([first, second])
    assert len(calls) == 2
    interpreter.run(calls)
    assert contents(interpreter, second).tolist() == [6, 6, 6, 6]


def test_a_costly_value_is_not_computed_per_broadcast(interpreter):
    a = ones(interpreter, 300)
    value = g.elementwise(Op.EXP, a)
    wide = add(row(value, (300, 300)), full(1.0, (300, 300)))
    assert len(schedule([wide])) == 2


def test_a_cheap_value_is(interpreter):
    wide = add(
        row(g.elementwise(Op.NEG, ones(interpreter, 300)), (300, 300)), full(1.0, (300, 300))
    )
    assert len(schedule([wide])) == 1


def test_a_long_chain_is_cut(interpreter):
    a = leaf(interpreter, np.zeros(8, np.float32))
    node = a
    for _ in range(10000):
        node = add(node, full(1.0, (8,)))
    calls = schedule([node])
    assert 30 < len(calls) < 60
    interpreter.run(calls)
    assert contents(interpreter, node).tolist() == [10000.0] * 8


def test_ten_thousand_movements_cost_no_kernel_of_their_own(interpreter):
    node = leaf(interpreter, np.arange(8, dtype=np.float32))
    for _ in range(5000):
        node = g.permute(g.reshape(node, (2, 4)), (1, 0))
        node = g.reshape(node, (8,))
    assert len(schedule([g.elementwise(Op.NEG, node)])) == 1


def test_sixty_diamonds_are_linear_work(interpreter):
    node = ones(interpreter, 5)
    for _ in range(60):
        node = mul(add(node, node), full(0.5, (5,)))
    (call,) = schedule([node])
    assert len(call.kernel.text().splitlines()) < 200


def test_sixty_shifted_diamonds_end_in_few_kernels(interpreter):
    node = ones(interpreter, 5)
    for _ in range(60):
        node = mul(add(node, g.slice_(node, ((4, 5, -1),))), full(0.5, (5,)))
    calls = schedule([node])
    assert len(calls) <= 60
    interpreter.run(calls)
    assert contents(interpreter, node).tolist() == [1.0] * 5


def test_many_inputs_are_split(interpreter):
    leaves = [ones(interpreter, 4) for _ in range(60)]
    node = leaves[0]
    for other in leaves[1:]:
        node = add(node, other)
    calls = schedule([node])
    assert max(len(call.buffers) for call in calls) <= 26
    interpreter.run(calls)
    assert contents(interpreter, node).tolist() == [60.0] * 4


def test_temporaries_share_memory(interpreter):
    node = ones(interpreter, 4, 4)
    for _ in range(6):
        node = matmul(node, node)
    calls = schedule([node])
    written = {id(call.buffers[0]) for call in calls}
    assert len(calls) == 6
    assert len(written) == 3  # two in turn, and the output


# Outputs


def test_contiguous_is_settled_when_something_else_is_wanted(interpreter):
    a = ones(interpreter, 4)
    middle = g.contiguous(add(a, a))
    interpreter.run(schedule([g.reduce(middle, "sum", (0,))]))
    assert contents(interpreter, middle).tolist() == [2, 2, 2, 2]


def test_a_reshape_of_memory_is_the_same_memory(interpreter):
    a = ones(interpreter, 2, 3)
    view = g.reshape(a, (6,))
    assert schedule([view]) == []
    assert view.realized is a.realized


def test_a_run_of_rows_is_a_view(interpreter):
    a = leaf(interpreter, np.arange(12, dtype=np.float32).reshape(4, 3))
    view = g.slice_(a, ((1, 2, 1), (0, 3, 1)))
    assert schedule([view]) == []
    assert (view.realized.base, view.realized.offset) == (a.realized, 12)
    assert contents(interpreter, view).tolist() == [[3, 4, 5], [6, 7, 8]]


def test_the_same_bits_of_another_type_are_a_view(interpreter):
    a = leaf(interpreter, np.array([1.0], np.float32))
    view = g.bitcast(a, dtypes.uint32)
    assert schedule([view]) == []
    assert contents(interpreter, view).tolist() == [0x3F800000]


def test_bits_of_a_computed_value_are_computed(interpreter):
    a = leaf(interpreter, np.array([0.5], np.float32))
    node = g.bitcast(add(a, a), dtypes.uint32)
    assert compute(interpreter, node).tolist() == [0x3F800000]


def test_a_constant_output_gets_memory(interpreter):
    assert compute(interpreter, full(2.5, (2, 2))).tolist() == [[2.5, 2.5], [2.5, 2.5]]


@pytest.mark.row("EXE-12")
@pytest.mark.parametrize("shape", [(0,), (3, 0), (0, 2, 0)])
def test_zero_sizes_launch_nothing(interpreter, shape):
    a = leaf(interpreter, np.zeros(shape, np.float32))
    node = add(a, a)
    assert schedule([node]) == []
    assert node.realized.count == 0


def test_the_same_output_twice_is_one(interpreter):
    a = ones(interpreter, 3)
    node = add(a, a)
    assert len(schedule([node, node])) == 1


# Devices


def test_a_copy_goes_through_a_copy_call(interpreter):
    a = leaf(interpreter, np.arange(3, dtype=np.float32))
    node = g.copy(add(a, a), "AMD:1")
    first, second = schedule([add(node, node)])[:2]
    assert first.device == a.device
    assert isinstance(second, CopyCall)
    assert (second.source, second.target.device) == (first.buffers[0], "AMD:1")


def test_a_copy_of_memory_reads_it_directly(interpreter):
    a = leaf(interpreter, np.arange(3, dtype=np.float32))
    node = g.copy(a, "AMD:1")
    (call,) = schedule([node])
    assert (call.source, call.target) == (a.realized, node.realized)


def test_a_copy_of_some_rows_reads_a_view(interpreter):
    a = leaf(interpreter, np.arange(12, dtype=np.float32).reshape(4, 3))
    node = g.copy(g.bitcast(g.slice_(a, ((2, 2, 1), (0, 3, 1))), dtypes.int32), "AMD:1")
    (call,) = schedule([node])
    assert (call.source.base, call.source.offset, call.source.size) == (a.realized, 24, 24)


def test_a_copy_of_columns_is_gathered_first(interpreter):
    a = leaf(interpreter, np.arange(12, dtype=np.float32).reshape(4, 3))
    node = g.copy(g.slice_(a, ((0, 4, 1), (1, 1, 1))), "AMD:1")
    calls = schedule([node])
    assert len(calls) == 2
    interpreter.run(calls)
    assert contents(interpreter, node).reshape(-1).tolist() == [1, 4, 7, 10]


def test_a_copy_is_taken_before_an_assign_overwrites_it(interpreter):
    a = leaf(interpreter, np.arange(4, dtype=np.float32))
    node = g.copy(g.slice_(a, ((1, 2, 1),)), "AMD:1")
    interpreter.run(schedule([node], [(a, full(9.0, (4,)))]))
    assert contents(interpreter, node).tolist() == [1, 2]


@pytest.mark.refusal
def test_a_kernel_reads_one_device(interpreter):
    a = leaf(interpreter, np.ones(3, np.float32))
    b = leaf(interpreter, np.ones(3, np.float32), device="AMD:1")
    with pytest.raises(BufferUseError, match=r"on CPU reads .* on AMD:1\nhint: copy it"):
        schedule([add(a, b)])


# When a decision turns out not to fit, the node gets memory after all


def test_a_reduction_left_inside_another_is_stored_instead(interpreter, monkeypatch):
    monkeypatch.setattr(Fusion, "_finish_reduction", lambda self, i, node: None)
    a = leaf(interpreter, np.arange(6, dtype=np.float32).reshape(2, 3))
    centred = g.elementwise(Op.SUB, a, spread(g.reduce(a, "max", (1,)), (2, 3), 1))
    with Context(SCACHE=0):
        value = compute(interpreter, g.reduce(centred, "sum", (1,)))
    assert value.tolist() == [-3, -3]


def test_a_shifted_read_inside_one_kernel_becomes_two_kernels(interpreter, monkeypatch):
    monkeypatch.setattr(order, "_step", lambda node, position: order._SAME)
    a = leaf(interpreter, np.arange(3, dtype=np.float32))
    first = g.contiguous(add(a, a))
    second = g.slice_(first, ((2, 3, -1),))
    second = g.elementwise(Op.NEG, second)
    with Context(SCACHE=0):
        interpreter.run(schedule([first, second]))
    assert contents(interpreter, second).tolist() == [-4, -2, 0]


# Random graphs


@pytest.mark.row("EXE-11")
@pytest.mark.parametrize("seed", range(150))
def test_random_graphs_agree_with_numpy(interpreter, seed):
    grown = Random(interpreter, seed)
    pool = grown.grow(20)
    picks = np.random.default_rng(seed).integers(0, len(pool), 3)
    wanted = [pool[i] for i in picks] + [pool[-1]]
    interpreter.run(schedule([node for node, _ in wanted]))
    for node, value in wanted:
        assert np.array_equal(contents(interpreter, node), value), node


@pytest.mark.row("EXE-11")
@pytest.mark.parametrize("seed", range(150))
def test_random_assigns_agree_with_numpy(interpreter, seed):
    grown = Random(interpreter, seed)
    arrays = [grown.rng.integers(-3, 4, s).astype(np.float32) for s in ((4, 3), (4, 3), (12,))]
    leaves = [leaf(interpreter, array) for array in arrays]
    known = list(zip(leaves, arrays, strict=True))
    known.append(
        (g.buffer(leaves[0].realized.view(6, f32, 12), (6,), f32), arrays[0].reshape(-1)[3:9])
    )
    assigns, expected = [], []
    for _ in range(grown.rng.integers(1, 4)):
        target, view = grown.view(*known[grown.rng.integers(len(known))])
        value, result = grown.value_for(target, view, known)
        assigns.append((target, value))
        expected.append((view, np.array(result, np.float32)))
    source, before = known[grown.rng.integers(len(known))]
    output = g.elementwise(Op.NEG, source), -before
    interpreter.run(schedule([output[0]], assigns))
    for view, result in expected:
        view[...] = result
    assert np.array_equal(contents(interpreter, output[0]), output[1])
    for node, array in zip(leaves, arrays, strict=True):
        assert np.array_equal(contents(interpreter, node), array)
