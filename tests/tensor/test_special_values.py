"""Random chains over infinities, NaN, signed zeros, denormals and the largest numbers."""

import numpy as np
import pytest
from fuzz_programs import leaf, value_of

from jit import graph as g
from jit.dtype import dtypes
from jit.graph import Op
from jit.realize import realize
from tensor import Tensor

UNARY = [
    (Op.NEG, np.negative), (Op.ABS, np.abs), (Op.SQRT, np.sqrt), (Op.FLOOR, np.floor),
    (Op.CEIL, np.ceil), (Op.TRUNC, np.trunc), (Op.ROUND, np.rint),
]  # fmt: skip
BINARY = [
    (Op.ADD, np.add), (Op.SUB, np.subtract), (Op.MUL, np.multiply), (Op.DIV, np.divide),
    (Op.MAX, np.maximum), (Op.MIN, np.minimum),
]  # fmt: skip
COMPARE = [(Op.LT, np.less), (Op.EQ, np.equal), (Op.NE, np.not_equal)]
SHAPES = [(37,), (5, 9), (130,), (3, 64), (16, 40)]


def special(rng, shape, dtype):
    """Mostly the ends of the type's range."""
    limits = np.finfo(dtype.numpy)
    ends = [limits.max, limits.tiny, limits.smallest_subnormal, limits.tiny * 0.75, 1e9, 2.5, 1]
    ends = np.array([0, np.inf, *ends], dtype.numpy)
    drawn = rng.choice([*ends, *-ends, np.nan], shape).astype(dtype.numpy)
    return np.where(rng.random(shape) < 0.6, drawn, rng.standard_normal(shape)).astype(dtype.numpy)


def chain(rng, pool):
    """One more value of values."""
    x, y, z = (pool[int(i)] for i in rng.integers(0, len(pool), 3))
    kind = int(rng.integers(10))
    if kind < 3:
        op, f = UNARY[int(rng.integers(len(UNARY)))]
        return g.elementwise(op, x[0]), f(x[1])
    if kind < 8:
        op, f = BINARY[int(rng.integers(len(BINARY)))]
        return g.elementwise(op, x[0], y[0]), f(x[1], y[1])
    op, f = COMPARE[int(rng.integers(3))]
    test = g.elementwise(op, x[0], y[0])
    return g.elementwise(Op.WHERE, test, z[0], x[0]), np.where(f(x[1], y[1]), z[1], x[1])


def questions(node, array, axis):
    """What is asked of the last value, with numpy's answers."""
    t = Tensor.of(node)
    return [
        (g.reduce(node, "max", (axis,)), array.max(axis)),
        (g.reduce(node, "min", (axis,)), array.min(axis)),
        (g.cast(node, dtypes.bool), array != 0),
        (t.argmax(axis).node, array.argmax(axis)),
        (t.argmin(axis).node, array.argmin(axis)),
        (t.isnan().node, np.isnan(array)),
        (t.isinf().node, np.isinf(array)),
        (t.isfinite().node, np.isfinite(array)),
        (t.sign().node, np.sign(array)),
        (t.relu().node, np.maximum(array, 0)),
        (t.clamp(-1, 2).node, np.clip(array, -1, 2)),
    ]


@pytest.mark.row("TEN-10")
@pytest.mark.parametrize("dtype", [dtypes.float32, dtypes.float64], ids=repr)
@pytest.mark.parametrize("seed", range(6))
def test_a_chain_over_special_values_is_what_numpy_says(device, seed, dtype):
    rng = np.random.default_rng(seed)
    shape = SHAPES[seed % len(SHAPES)]
    with np.errstate(all="ignore"):
        leaves = [special(rng, shape, dtype) for _ in range(3)]
        pool = [(leaf(array, dtype, device), array) for array in leaves]
        for _ in range(6):
            pool.append(chain(rng, pool))
        asked = [*pool[3:], *questions(*pool[-1], int(rng.integers(len(shape))))]
    realize([node for node, _ in asked])
    for node, want in asked:
        np.testing.assert_array_equal(value_of(node), want, str(node))
