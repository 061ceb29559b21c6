"""Random and hand-written graphs with what numpy says they are, and nodes to build them of."""

import numpy as np

from jit import graph as g
from jit.dtype import dtypes, to_dtype
from jit.graph import Op
from jit.schedule import schedule
from runtime.buffer import Buffer

DEVICE = "CPU"


def storage(array):
    """numpy's array as jit stores it; bool stays bool."""
    return np.asarray(array, order="C")


def leaf(machine, array, dtype=None, device=DEVICE):
    """A node over a new buffer with the array's contents."""
    array = storage(array)
    dtype = dtype or to_dtype(str(array.dtype))
    buffer = Buffer(device, array.size, dtype)
    machine.write(buffer, array)
    return g.buffer(buffer, array.shape, dtype)


def full(value, shape, dtype=dtypes.float32, device=DEVICE):
    return g.expand(g.reshape(g.const(value, dtype, (), device), (1,) * len(shape)), shape)


def matmul(a, b):
    """REDUCE over MUL of two EXPANDs, as the front end writes it."""
    (m, k), (_, n) = a.shape, b.shape
    left = g.expand(g.reshape(a, (m, 1, k)), (m, n, k))
    right = g.expand(g.reshape(g.permute(b, (1, 0)), (1, n, k)), (m, n, k))
    return g.reduce(g.elementwise(Op.MUL, left, right), "sum", (2,))


def row(a, shape):
    """Broadcast by leading axes."""
    return g.expand(g.reshape(a, (1,) * (len(shape) - len(a.shape)) + a.shape), shape)


class Random:
    """Grows a graph from random operations, with the value of each node beside it."""

    def __init__(self, machine, seed):
        self.rng = np.random.default_rng(seed)
        self.machine = machine
        self.pool = []
        for _ in range(self.rng.integers(1, 4)):
            rank = self.rng.integers(0, 4)
            shape = tuple(int(n) for n in self.rng.integers(1, 5, rank))
            if self.rng.random() < 0.05 and shape:
                shape = (0, *shape[1:])
            self.add_leaf(shape)

    def add_leaf(self, shape):
        array = self.rng.integers(-3, 4, shape).astype(np.float32)
        self.pool.append((leaf(self.machine, array), array))
        return self.pool[-1]

    def pick(self):
        return self.pool[self.rng.integers(max(0, len(self.pool) - 5), len(self.pool))]

    def grow(self, steps):
        kinds = [
            self.binary, self.binary, self.unary, self.reshape, self.permute, self.expand,
            self.slice, self.pad, self.window, self.reduce, self.reduce, self.index, self.where,
            self.contiguous, self.iota,
        ]  # fmt: skip
        for _ in range(steps):
            node, array = self.pick()
            made = kinds[self.rng.integers(len(kinds))](node, array)
            if made is not None:
                assert made[0].shape == np.shape(made[1]), made[0]
            if made is not None and made[1].size <= 4000:
                value = made[1]
                # Small whole numbers keep float32 exact in every order of summing.
                if value.size and np.abs(value).max() > 1000:
                    node = g.elementwise(Op.MIN, made[0], full(9.0, value.shape))
                    node = g.elementwise(Op.MAX, node, full(-9.0, value.shape))
                    made = node, np.clip(value, -9, 9)
                self.pool.append((made[0], made[1].astype(np.float32)))
        return self.pool

    def binary(self, node, array):
        same = [p for p in self.pool if p[1].shape == array.shape]
        other = same[self.rng.integers(len(same))]
        ops = [(Op.ADD, np.add), (Op.MUL, np.multiply), (Op.SUB, np.subtract)]
        op, f = [*ops, (Op.MAX, np.maximum)][self.rng.integers(4)]
        return g.elementwise(op, node, other[0]), f(array, other[1])

    def unary(self, node, array):
        if self.rng.random() < 0.5:
            return g.elementwise(Op.NEG, node), -array
        half = g.elementwise(Op.MUL, node, full(0.5, array.shape))
        return g.elementwise(Op.FLOOR, half), np.floor(array * np.float32(0.5))

    def where(self, node, array):
        test = g.elementwise(Op.LT, node, full(1.0, array.shape))
        result = g.elementwise(Op.WHERE, test, node, full(2.0, array.shape))
        return result, np.where(array < 1, array, 2)

    def contiguous(self, node, array):
        return (g.contiguous(node), array) if self.rng.random() < 0.4 else None

    def iota(self, node, array):
        if not array.ndim:
            return None
        axis = int(self.rng.integers(array.ndim))
        counted = g.cast(g.iota(array.shape, axis, dtypes.int32, DEVICE), dtypes.float32)
        shape = [1] * array.ndim
        shape[axis] = array.shape[axis]
        return g.elementwise(Op.ADD, node, counted), array + np.arange(
            array.shape[axis], dtype=np.float32
        ).reshape(shape)

    def reshape(self, node, array):
        sizes, left = [], array.size
        if left == 0:
            return None
        while left > 1 and len(sizes) < 4:
            choices = [d for d in range(1, left + 1) if left % d == 0]
            sizes.append(int(self.rng.choice(choices)))
            left //= sizes[-1]
        shape = (*sizes, left)
        return g.reshape(node, shape), array.reshape(shape)

    def permute(self, node, array):
        axes = tuple(int(a) for a in self.rng.permutation(array.ndim))
        return g.permute(node, axes), array.transpose(axes)

    def expand(self, node, array):
        shape = (*array.shape, 1)
        wide = (*array.shape, int(self.rng.integers(1, 5)))
        move = tuple(int(a) for a in self.rng.permutation(len(shape)))
        grown = g.permute(g.expand(g.reshape(node, shape), wide), move)
        return grown, np.broadcast_to(array.reshape(shape), wide).transpose(move)

    def slice(self, node, array):
        parts, taken = [], array
        for axis, size in enumerate(array.shape):
            if size == 0 or self.rng.random() < 0.05:
                parts.append((0, 0, 1))
                taken = np.take(taken, [], axis=axis)
                continue
            start = int(self.rng.integers(size))
            step = int(self.rng.choice([1, 1, 2, -1, -2]))
            room = (size - 1 - start) // step if step > 0 else start // -step
            count = int(self.rng.integers(1, room + 2))
            parts.append((start, count, step))
            taken = np.take(taken, [start + i * step for i in range(count)], axis=axis)
        return g.slice_(node, tuple(parts)), taken

    def pad(self, node, array):
        drawn = [self.rng.integers(0, (3, 3, 2)) for _ in array.shape]
        parts = tuple((int(low), int(high), int(inner)) for low, high, inner in drawn)
        made = g.pad(node, parts)
        value = np.zeros(made.shape, np.float32)
        where = tuple(
            slice(low, low + max((n - 1) * (inner + 1) + 1, 0) if n else low, inner + 1)
            for (low, _, inner), n in zip(parts, array.shape, strict=True)
        )
        value[where] = array
        return made, value

    def window(self, node, array):
        fits = [a for a in range(array.ndim) if array.shape[a] >= 2]
        if not fits or array.ndim > 4:
            return None
        axis = int(self.rng.choice(fits))
        dilation = int(self.rng.integers(1, 3)) if array.shape[axis] >= 3 else 1
        stride = int(self.rng.integers(1, 3))
        made = g.window(node, axis, 2, stride, dilation)
        count = made.shape[axis]
        parts = [
            np.take(array, [o * stride + k * dilation for o in range(count)], axis=axis)
            for k in range(2)
        ]
        return made, np.stack(parts, axis=axis + 1)

    def reduce(self, node, array):
        axes = tuple(a for a in range(array.ndim) if self.rng.random() < 0.5)
        if not axes:
            return None
        if self.rng.random() < 0.5 or array.size == 0:
            return g.reduce(node, "sum", axes), array.sum(axis=axes, dtype=np.float32)
        return g.reduce(node, "max", axes), array.max(axis=axes)

    def index(self, node, array):
        if not array.ndim or array.ndim > 3:
            return None
        shape = tuple(int(n) for n in self.rng.integers(1, 4, 2))
        picks = [self.rng.integers(-1, n + 1, shape) for n in array.shape]
        inside = np.ones(shape, bool)
        for pick, n in zip(picks, array.shape, strict=True):
            inside &= (pick >= 0) & (pick < n)
        nodes = [leaf(self.machine, p.astype(np.int32)) for p in picks]
        value = np.zeros(shape, np.float32)
        if array.size:
            clipped = tuple(np.clip(p, 0, n - 1) for p, n in zip(picks, array.shape, strict=True))
            value = np.where(inside, array[clipped], 0)
        return g.index(node, *nodes), value

    def view(self, node, array):
        """A random view that numpy has without copying."""
        for _ in range(self.rng.integers(0, 3)):
            kind = [self.permute, self.slice, self.reshape][self.rng.integers(3)]
            made = kind(node, array)
            if made is None or made[0] is node or not made[1].size:
                continue
            value = made[1]
            if made[0].op is Op.SLICE:
                value = array[tuple(_numpy_slice(*part) for part in made[0].arg)]
            if np.shares_memory(value, array):
                node, array = made[0], value
        return node, array

    def value_for(self, target, view, known):
        """A value for an assign: of the target, flipped, of other memory, or of a sum."""
        other, array = known[self.rng.integers(len(known))]
        kind = self.rng.integers(4)
        if kind == 0:
            return g.elementwise(Op.ADD, target, full(1.0, target.shape)), view + 1
        if kind == 1:
            flipped = g.slice_(target, tuple((n - 1, n, -1) for n in target.shape))
            backwards = view[tuple(slice(None, None, -1) for _ in target.shape)]
            return g.elementwise(Op.MUL, flipped, full(2.0, target.shape)), backwards * 2
        if kind == 2 and other.size == target.size:
            taken = g.reshape(other, target.shape)
            return g.elementwise(Op.SUB, taken, target), array.reshape(view.shape) - view
        total = g.reduce(other, "sum", tuple(range(len(other.shape))))
        wide = g.expand(g.reshape(total, (1,) * len(target.shape)), target.shape)
        return g.elementwise(Op.ADD, wide, target), array.sum() + view


def _numpy_slice(start, count, step):
    end = start + count * step
    return slice(start, end if end >= 0 else None, step)


def compute(interpreter, node):
    """Schedule a node, run it, and read its value."""
    interpreter.run(schedule([node]))
    return interpreter.read(node.realized, node.dtype).reshape(node.shape)


def contents(interpreter, node):
    """The value of a node that was run."""
    return interpreter.read(node.realized, node.dtype).reshape(node.shape)


def ones(interpreter, *shape):
    """A node over a buffer of ones."""
    return leaf(interpreter, np.ones(shape, np.float32))


def add(a, b):
    """a + b."""
    return g.elementwise(Op.ADD, a, b)


def mul(a, b):
    """a * b."""
    return g.elementwise(Op.MUL, a, b)


def spread(a, shape, axis):
    """A reduced axis put back."""
    return g.expand(g.reshape(a, (*shape[:axis], 1, *shape[axis + 1 :])), shape)
