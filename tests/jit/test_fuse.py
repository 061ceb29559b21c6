"""What follows a product of matrices in its kernel."""

import numpy as np
import pytest
from graph_cases import leaf, matmul

from jit import graph as g
from jit.graph import Op
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
