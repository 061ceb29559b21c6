"""Random elementwise programs over the edges of every type, worked out by numpy to the bit.

Zeros of both signs, NaN, infinities, denormals, the least and the most of integers, shift
counts far too large. Only the payload and the sign of NaN are left out.
"""

import numpy as np
from fuzz_programs import divided, leaf, remainder, shifted_left, shifted_right, value_of
from test_casts import rounded, to_integer

from jit import graph as g
from jit.dtype import dtypes, to_dtype
from jit.graph import Op
from jit.realize import realize

INTEGERS = [to_dtype(f"{sign}int{bits}") for sign in ("", "u") for bits in (8, 16, 32, 64)]
FLOATS = [dtypes.float32, dtypes.float64]
HALVES = [dtypes.float16, dtypes.bfloat16]
COUNT = 37
COMPARE = {Op.LT: np.less, Op.EQ: np.equal, Op.NE: np.not_equal}
BITS = {Op.AND: np.bitwise_and, Op.OR: np.bitwise_or, Op.XOR: np.bitwise_xor}


def greater(a, b):
    """maximum as the compiler defines it for equal zeros: the second."""
    return np.where(np.isnan(b) | (a <= b), b, a)


def lesser(a, b):
    return np.where(np.isnan(b) | (a >= b), b, a)


FLOAT_UNARY = {
    Op.NEG: np.negative, Op.ABS: np.abs, Op.SQRT: np.sqrt, Op.FLOOR: np.floor, Op.CEIL: np.ceil,
    Op.TRUNC: np.trunc, Op.ROUND: np.rint,
}  # fmt: skip
FLOAT_BINARY = {
    Op.ADD: np.add, Op.SUB: np.subtract, Op.MUL: np.multiply, Op.DIV: np.divide,
    Op.MAX: greater, Op.MIN: lesser,
}  # fmt: skip
INTEGER_UNARY = {Op.NEG: np.negative, Op.ABS: np.abs, Op.NOT: np.invert}
INTEGER_BINARY = {
    Op.ADD: np.add, Op.SUB: np.subtract, Op.MUL: np.multiply, Op.MAX: np.maximum,
    Op.MIN: np.minimum, Op.IDIV: divided, Op.MOD: remainder, Op.SHL: shifted_left,
    Op.SHR: shifted_right, **BITS,
}  # fmt: skip


def edges(dtype):
    """Numbers at the ends of a type."""
    if dtype.kind == "b":
        return np.array([False, True])
    if dtype.is_float:
        kind = np.finfo(dtype.numpy)
        ends = [0, 1, 1.5, 2.5, 0.75, kind.max, kind.tiny, kind.smallest_subnormal, kind.eps]
        ends += [kind.tiny * 0.75, np.inf, 2.0**31, 2.0**32, 2.0**63, 65520, 1e9]
        return np.array([*ends, *(-x for x in ends), np.nan], dtype.numpy)
    bits = dtype.bits
    near = [0, 1, 2, 3, 7, bits - 1, bits, bits + 1, 1 << bits - 1, 1 << bits // 2]
    near += [(1 << 32) + k for k in (0, 1, 31, 63)] if bits == 64 else []
    near += [(1 << bits - 1) - 1, *(-n for n in near)]
    least = dtype.least
    return np.array([(n - least) % (1 << bits) + least for n in near], dtype.numpy)


class Edges:
    """A program and numpy's answers; equal seeds give equal programs on every device."""

    def __init__(self, seed, device):
        self.rng = np.random.default_rng(seed)
        self.device = device
        self.pool = []
        for _ in range(4):
            dtype = self.one_of([dtypes.bool, *INTEGERS, *FLOATS, *FLOATS, *FLOATS])
            self.add(*self.fresh(dtype))

    def one_of(self, items):
        items = list(items)
        return items[int(self.rng.integers(len(items)))]

    def add(self, node, array):
        self.pool.append((node, np.asarray(array)))

    def fresh(self, dtype):
        """New memory, or a constant."""
        ends = edges(dtype)
        if self.rng.random() < 0.4:
            value = self.one_of(ends)
            node = g.const(value.item(), dtype, (COUNT,), self.device)
            return node, np.full(COUNT, value)
        array = self.rng.choice(ends, COUNT)
        return leaf(array, dtype, self.device), array

    def like(self, node):
        """Another value of the type."""
        same = [p for p in self.pool if p[0].dtype is node.dtype]
        return self.one_of(same) if self.rng.random() < 0.5 else self.fresh(node.dtype)

    def run(self, steps):
        """Numpy's answer and the program's where they differ: (operation, expected, found)."""
        with np.errstate(all="ignore"):
            for _ in range(steps):
                self.step(*self.one_of(self.pool[-4:]))
        asked = self.pool[4:]
        realize([node for node, _ in asked])
        return [
            (node.op, node.dtype, want[bad], found[bad])
            for node, want in asked
            for found in [value_of(node)]
            for bad in [~same(found, want)]
            if bad.any()
        ]

    def step(self, node, array):
        kind = self.rng.random()
        if kind < 0.2:
            self.select(node, array)
        elif kind < 0.35:
            self.cast(node, array)
        elif kind < 0.5:
            op, f = self.one_of(COMPARE.items())
            other, values = self.like(node)
            self.add(g.elementwise(op, node, other), f(array, values))
        else:
            self.operate(node, array)

    def operate(self, node, array):
        if node.dtype.kind == "b":
            unary, binary = {Op.NOT: np.logical_not}, BITS
        elif node.dtype.is_float:
            unary, binary = FLOAT_UNARY, FLOAT_BINARY
        else:
            unary, binary = INTEGER_UNARY, INTEGER_BINARY
        if self.rng.random() < 0.3:
            op, f = self.one_of(unary.items())
            self.add(g.elementwise(op, node), f(array))
            return
        op, f = self.one_of(binary.items())
        (a, x), (b, y) = (node, array), self.like(node)
        if self.rng.random() < 0.5:
            (a, x), (b, y) = (b, y), (a, x)
        self.add(g.elementwise(op, a, b), f(x, y))

    def select(self, node, array):
        """A choice, often between what was just compared."""
        other, values = self.like(node)
        third, more = (other, values) if self.rng.random() < 0.7 else self.like(node)
        test, truth = g.elementwise(Op.LT, node, other), array < values
        if self.rng.random() < 0.5:
            test, truth = g.elementwise(Op.LT, other, node), values < array
        if self.rng.random() < 0.4:
            equal = g.elementwise(Op.EQ, node, other)
            test, truth = g.elementwise(Op.OR, test, equal), truth | (array == values)
        if self.rng.random() < 0.3:
            test, truth = g.elementwise(Op.NOT, test), ~truth
        arms = [(node, array), (third, more)]
        (a, x), (b, y) = arms if self.rng.random() < 0.5 else arms[::-1]
        self.add(g.elementwise(Op.WHERE, test, a, b), np.where(truth, x, y))

    def cast(self, node, array):
        if node.dtype.is_float and self.rng.random() < 0.3:
            half = self.one_of(HALVES)
            near = np.array([rounded(x, half) for x in array.tolist()], node.dtype.numpy)
            self.add(g.cast(g.cast(node, half), node.dtype), near)
            return
        if node.dtype.is_int and node.dtype.bits >= 32 and self.rng.random() < 0.3:
            to = to_dtype(f"float{node.dtype.bits}")
            self.add(g.bitcast(node, to), array.view(to.numpy))
            return
        target = self.one_of([dtypes.bool, *INTEGERS, *FLOATS, *FLOATS])
        if target is node.dtype:
            return
        self.add(g.cast(node, target), converted(array, node.dtype, target))


def converted(array, source, target):
    """numpy's answer where it has one, else the rule of docs/tensors.md."""
    if target.kind == "b":
        return array != 0
    if source.is_float and target.is_int:
        return np.array([to_integer(x, target) for x in array.tolist()], target.numpy)
    return array.astype(target.numpy)


def same(found, want):
    """Equal to the bit, but for NaN."""
    equal = (found == want) | ((found != found) & (want != want))
    if want.dtype.kind == "f":
        equal &= (np.signbit(found) == np.signbit(want)) | (want != want)
    return equal


def halves(dtype, device):
    """What differs of each operation on two float16 or bfloat16, every pair of edges."""
    ends = np.unique([rounded(float(x), dtype) for x in edges(dtypes.float32)])
    ends = np.array([*ends, -0.0], np.float32)
    x, y = (a.ravel() for a in np.meshgrid(ends, ends))
    a, b = (
        leaf(v.astype(dtype.numpy) if dtype is dtypes.float16 else v, dtype, device) for v in (x, y)
    )
    with np.errstate(all="ignore"):
        asked = [(g.elementwise(op, a), f(x)) for op, f in FLOAT_UNARY.items()]
        asked += [(g.elementwise(op, a, b), f(x, y)) for op, f in FLOAT_BINARY.items()]
        asked += [(g.elementwise(op, a, b), f(x, y)) for op, f in COMPARE.items()]
        asked += [(g.cast(a, d), converted(x, dtype, d)) for d in (*INTEGERS, *FLOATS)]
        test, truth = g.elementwise(Op.LT, a, b), x < y
        asked += [(g.elementwise(Op.WHERE, test, a, b), np.where(truth, x, y))]
        asked += [(g.elementwise(Op.WHERE, test, b, a), np.where(truth, y, x))]
    realize([node for node, _ in asked])
    bad = []
    for node, want in asked:
        if node.dtype is dtype:
            want = np.array([rounded(v, dtype) for v in want.tolist()], np.float32)
        if not same(value_of(node).astype(want.dtype), want).all():
            bad.append((node.op, node.dtype))
    return bad
