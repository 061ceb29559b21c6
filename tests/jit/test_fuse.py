"""What follows a product of matrices in its kernel."""

import numpy as np
import pytest
from graph_cases import leaf, matmul

from jit import graph as g
from jit.dtype import dtypes
from jit.effort import effort
from jit.graph import Op
from jit.kernel import expressions
from jit.schedule import schedule


def product(interpreter, size):
    """A product of two square matrices, at most `size` rows."""
    a, b = (leaf(interpreter, np.ones((size, size), np.float32)) for _ in range(2))
    return matmul(a, b)


def chain(node, *ops):
    for op in ops:
        node = g.elementwise(op, node)
    return node


@pytest.mark.parametrize("ops", [[Op.ABS], [Op.ABS, Op.NEG, Op.FLOOR] * 3])
def test_a_few_operations_run_in_the_kernel_of_a_big_product(interpreter, ops):
    assert len(schedule([chain(product(interpreter, 192), *ops)])) == 1


@pytest.mark.parametrize("ops", [[Op.TANH], [Op.ABS, Op.NEG, Op.FLOOR] * 4])
def test_many_operations_after_a_big_product_are_a_kernel_of_their_own(interpreter, ops):
    """They would be repeated in the code for every point of a tile, and make tiles small."""
    assert len(schedule([chain(product(interpreter, 192), *ops)])) == 2


def test_a_small_product_is_one_kernel_with_what_follows(interpreter):
    assert len(schedule([chain(product(interpreter, 32), Op.TANH, Op.EXP)])) == 1


def functions_per_kernel(calls, op):
    return [sum(e.op == op for e in expressions(call.kernel)) for call in calls]


@pytest.mark.parametrize(("op", "most"), [(Op.SIN, 9), (Op.EXP, 23), (Op.ABS, 256)])
def test_a_chain_of_functions_is_cut_by_what_they_expand_to(interpreter, op, most):
    """A compiler takes longer over a kernel of a hundred sines than over ten of ten."""
    calls = schedule([chain(leaf(interpreter, np.ones(64, np.float32)), *[op] * 300)])
    assert max(functions_per_kernel(calls, op)) == most
    assert sum(functions_per_kernel(calls, op)) == 300


def test_a_chain_after_a_reduction_is_cut_too(interpreter):
    total = g.reduce(leaf(interpreter, np.ones((64, 64), np.float32)), "sum", (1,))
    calls = schedule([chain(total, *[Op.SIN] * 40)])
    assert max(functions_per_kernel(calls, "sin")) == 9


def test_the_pieces_of_a_long_chain_are_equal_kernels(interpreter):
    calls = schedule([chain(leaf(interpreter, np.ones(64, np.float32)), *[Op.SIN] * 90)])
    assert len({call.kernel.key for call in calls}) == 1


def test_a_function_of_float64_counts_twice():
    x = g.const(1.0, dtypes.float64, (2,), "CPU")
    single = g.const(1.0, dtypes.float32, (2,), "CPU")
    assert effort(g.elementwise(Op.SIN, x)) == 2 * effort(g.elementwise(Op.SIN, single))


def test_a_cast_to_an_integer_counts_more_than_one_back():
    x = g.const(1.0, dtypes.float32, (2,), "CPU")
    whole = g.cast(x, dtypes.int32)
    assert effort(whole) == 5 * effort(g.cast(whole, dtypes.float32))
