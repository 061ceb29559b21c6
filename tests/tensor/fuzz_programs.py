"""Random graphs over all dtypes, with the value of each node worked out by numpy.

Values are chosen so that every step is exact: floats stay multiples of 1/2 below 2^7 and
integers wrap. What a device computes must therefore equal numpy's bits.
"""

import numpy as np

from jit import graph as g
from jit.dtype import dtypes, to_dtype
from jit.graph import Op
from tensor import Tensor
from tensor.creation import upload

INTEGERS = [to_dtype(f"{sign}int{bits}") for sign in ("", "u") for bits in (8, 16, 32, 64)]
FLOATS = [dtypes.float16, dtypes.bfloat16, dtypes.float32, dtypes.float64]
ALL = [dtypes.bool, *INTEGERS, *FLOATS, dtypes.float32, dtypes.float32]
LIMIT = 4000  # elements of a value
BOUND = 16  # of float values


def stored(dtype):
    """numpy's type for values of a dtype; bfloat16 is float32 here."""
    return np.dtype("float32") if dtype is dtypes.bfloat16 else dtype.numpy


def to_bits(array, dtype):
    """The array as memory has it."""
    if dtype is dtypes.bfloat16:
        return (np.asarray(array, np.float32).view(np.uint32) >> 16).astype(np.uint16)
    return np.asarray(array)


def from_bits(array, dtype):
    """What to_bits turned around."""
    if dtype is dtypes.bfloat16:
        return (array.astype(np.uint32) << 16).view(np.float32)
    return array


def leaf(array, dtype, device):
    """A node over new memory on the device."""
    array = to_bits(array, dtype)
    return g.reshape(upload(array, dtype, device), array.shape)


def value_of(node):
    """What memory holds for a realised node."""
    raw = np.frombuffer(Tensor.of(node).data(), node.dtype.numpy)
    return from_bits(raw, node.dtype).reshape(node.shape)


def full(value, shape, dtype, device):
    return g.const(value, dtype, shape, device)


def wrapped(values, dtype):
    """Whole numbers modulo 2^bits."""
    with np.errstate(all="ignore"):
        return values.astype(dtype.numpy)


class Random:
    """Grows a graph on a device; equal seeds give equal graphs on every device."""

    def __init__(self, seed, device, large=False):
        self.rng = np.random.default_rng(seed)
        self.device = device
        self.large = large
        self.pool = []
        for _ in range(self.rng.integers(1, 4)):
            self.add_leaf()

    def one_of(self, items):
        return items[int(self.rng.integers(len(items)))]

    def chance(self, p):
        return self.rng.random() < p

    def shape(self):
        rank = int(self.rng.integers(0, 5))
        most = {0: 1, 1: 3000, 2: 70, 3: 18, 4: 8}[rank] if self.large else 7
        if self.chance(0.03) and rank:
            return (0, *(int(n) for n in self.rng.integers(1, 4, rank - 1)))
        return tuple(int(n) for n in self.rng.integers(1, most + 1, rank))

    def values(self, shape, dtype):
        if dtype.kind == "b":
            return self.rng.random(shape) < 0.5
        if dtype.is_float:
            return (self.rng.integers(-BOUND, BOUND + 1, shape) / 2).astype(stored(dtype))
        if self.chance(0.5):
            return wrapped(self.rng.integers(-9, 10, shape), dtype)
        return wrapped(self.rng.integers(-(2**63), 2**63 - 1, shape, endpoint=True), dtype)

    def add_leaf(self, shape=None, dtype=None):
        shape = self.shape() if shape is None else shape
        dtype = dtype or self.one_of(ALL)
        array = np.asarray(self.values(shape, dtype))
        self.pool.append((leaf(array, dtype, self.device), array))
        return self.pool[-1]

    def pick(self):
        return self.one_of(self.pool[-6:])

    def like(self, node, array):
        """Something of the same shape and dtype."""
        same = [p for p in self.pool if p[0].shape == node.shape and p[0].dtype is node.dtype]
        if len(same) > 1 and self.chance(0.7):
            return self.one_of(same)
        if self.chance(0.3):
            value = np.asarray(self.values((), node.dtype)).item()
            return self.full(value, node.shape, node.dtype)
        keep = [n if self.chance(0.6) else 1 for n in node.shape]
        small, values = self.add_leaf(tuple(keep), node.dtype)
        return g.expand(small, node.shape), np.broadcast_to(values, node.shape)

    def full(self, value, shape, dtype):
        node = full(value, shape, dtype, self.device)
        return node, np.full(shape, value, stored(dtype))

    def grow(self, steps):
        """Add values until there were that many tries."""
        kinds = [
            self.binary, self.binary, self.binary, self.unary, self.compare, self.where,
            self.cast, self.cast, self.bitcast, self.reshape, self.reshape, self.permute,
            self.permute, self.expand, self.expand, self.slice, self.slice, self.pad, self.pad,
            self.window, self.window, self.reduce, self.reduce, self.reduce, self.index,
            self.iota, self.contiguous, self.argmax, self.product, self.join, self.halve,
        ]  # fmt: skip
        for _ in range(steps):
            node, array = self.pick()
            with np.errstate(all="ignore"):
                made = self.one_of(kinds)(node, array)
            if made is None or made[0].size > LIMIT * (4 if self.large else 1):
                continue
            assert made[0].shape == made[1].shape, made
            self.pool.append(self.bounded(*made))
        return self.pool

    def bounded(self, node, array):
        """Floats pulled back to where everything is exact."""
        array = np.asarray(array).astype(stored(node.dtype))
        if not node.dtype.is_float:
            return node, array
        if array.size and np.abs(array).max() > BOUND:
            high, low = (full(v, node.shape, node.dtype, self.device) for v in (9.0, -9.0))
            node = g.elementwise(Op.MAX, g.elementwise(Op.MIN, node, high), low)
            array = np.clip(array, -9, 9)
        if array.size and (array * 2 != np.rint(array * 2)).any():
            node, array = g.elementwise(Op.FLOOR, node), np.floor(array)
        return node, array

    # Elementwise

    def binary(self, node, array):
        dtype = node.dtype
        other, values = self.like(node, array)
        if dtype.kind == "b":
            table = [(Op.AND, np.logical_and), (Op.OR, np.logical_or), (Op.XOR, np.not_equal)]
        else:
            table = [(Op.ADD, np.add), (Op.SUB, np.subtract), (Op.MUL, np.multiply)]
            table += [(Op.MAX, np.maximum), (Op.MIN, np.minimum)]
        if dtype.is_int:
            table += [(Op.AND, np.bitwise_and), (Op.OR, np.bitwise_or), (Op.XOR, np.bitwise_xor)]
            table += [(Op.IDIV, divided), (Op.MOD, remainder)]
            table += [(Op.SHL, shifted_left), (Op.SHR, shifted_right)]
        op, f = self.one_of(table)
        if op in (Op.SHL, Op.SHR) and self.chance(0.7):
            other, values = self.full(int(self.rng.integers(0, dtype.bits + 2)), node.shape, dtype)
        elif op in (Op.SHL, Op.SHR) and dtype.bits == 64:
            # Counts whose low words alone would be in range.
            high, low = self.rng.integers(0, 3, node.shape), self.rng.integers(0, 64, node.shape)
            values = np.asarray((high << 32) + low, dtype.numpy)
            other = leaf(values, dtype, self.device)
        if self.chance(0.5):
            return g.elementwise(op, node, other), f(array, values)
        return g.elementwise(op, other, node), f(values, array)

    def unary(self, node, array):
        if node.dtype.kind == "b":
            return g.elementwise(Op.NOT, node), ~array
        table = [(Op.NEG, np.negative), (Op.ABS, np.abs)]
        if node.dtype.is_int:
            table.append((Op.NOT, np.invert))
        else:
            table += [(Op.FLOOR, np.floor), (Op.CEIL, np.ceil), (Op.TRUNC, np.trunc)]
            table += [(Op.ROUND, np.rint)]
        op, f = self.one_of(table)
        return g.elementwise(op, node), f(array)

    def compare(self, node, array):
        other, values = self.like(node, array)
        op, f = self.one_of([(Op.LT, np.less), (Op.EQ, np.equal), (Op.NE, np.not_equal)])
        return g.elementwise(op, node, other), f(array, values)

    def where(self, node, array):
        other, values = self.like(node, array)
        third, more = self.like(node, array)
        test = g.elementwise(Op.LT, node, third)
        return g.elementwise(Op.WHERE, test, node, other), np.where(array < more, array, values)

    def cast(self, node, array):
        dtype = self.one_of(ALL)
        if dtype is node.dtype:
            return None
        if dtype.is_float and node.dtype.is_int:
            seven = full(7, node.shape, node.dtype, self.device)
            node, array = g.elementwise(Op.MOD, node, seven), remainder(array, array.dtype.type(7))
        if dtype.is_int and node.dtype.is_float:
            return g.cast(node, dtype), np.trunc(array).astype(np.int64).astype(dtype.numpy)
        if dtype.kind == "b":
            return g.cast(node, dtype), array != 0
        return g.cast(node, dtype), array.astype(stored(dtype))

    def bitcast(self, node, array):
        if node.dtype.kind == "b":
            return None
        if node.dtype.is_float and (array == 0).any():
            return None  # the greater and the lesser of +0 and -0 are either: numpy's differ too
        fits = [d for d in INTEGERS if d.itemsize == node.dtype.itemsize]
        dtype = self.one_of(fits)
        if dtype is node.dtype:
            return None
        bits = to_bits(array, node.dtype)
        return g.bitcast(node, dtype), np.ascontiguousarray(bits).view(dtype.numpy).reshape(
            node.shape
        )

    def halve(self, node, array):
        """A power of two divides exactly."""
        if not node.dtype.is_float or (node.dtype is dtypes.bfloat16):
            return None
        half = full(2.0, node.shape, node.dtype, self.device)
        return g.elementwise(Op.DIV, node, half), array / array.dtype.type(2)

    # Movement

    def reshape(self, node, array):
        left, sizes = array.size, []
        if not left:
            return None
        while left > 1 and len(sizes) < 4:
            sizes.append(int(self.one_of([d for d in range(1, left + 1) if left % d == 0])))
            left //= sizes[-1]
        sizes.append(left)
        return g.reshape(node, tuple(sizes)), array.reshape(sizes)

    def permute(self, node, array):
        axes = tuple(int(a) for a in self.rng.permutation(array.ndim))
        return g.permute(node, axes), array.transpose(axes)

    def expand(self, node, array):
        if array.ndim > 4:
            return None
        at = int(self.rng.integers(array.ndim + 1))
        shape = (*array.shape[:at], 1, *array.shape[at:])
        wide = (*array.shape[:at], int(self.rng.integers(1, 6)), *array.shape[at:])
        made = g.expand(g.reshape(node, shape), wide)
        return made, np.broadcast_to(array.reshape(shape), wide)

    def slice_parts(self, shape):
        parts = []
        for size in shape:
            if size == 0 or self.chance(0.03):
                parts.append((0, 0, 1))
                continue
            start = int(self.rng.integers(size))
            step = int(self.one_of([1, 1, 1, 2, 3, -1, -1, -2, 5]))
            start = 0 if step > 0 and self.chance(0.4) else start
            start = size - 1 if step < 0 and self.chance(0.4) else start
            room = (size - 1 - start) // step if step > 0 else start // -step
            count = room + 1 if self.chance(0.6) else int(self.rng.integers(1, room + 2))
            parts.append((start, count, step))
        return tuple(parts)

    def slice(self, node, array):
        parts = self.slice_parts(array.shape)
        return g.slice_(node, parts), array[as_slices(parts)]

    def pad(self, node, array):
        if array.ndim > 4:
            return None
        drawn = [
            (int(a), int(b), int(c) if self.chance(0.4) else 0)
            for a, b, c in self.rng.integers(0, (4, 4, 3), (array.ndim, 3))
        ]
        made = g.pad(node, tuple(drawn))
        value = np.zeros(made.shape, array.dtype)
        at = tuple(
            slice(low, low + (n - 1) * (inner + 1) + 1 if n else low, inner + 1)
            for (low, _, inner), n in zip(drawn, array.shape, strict=True)
        )
        value[at] = array
        return made, value

    def window(self, node, array):
        fits = [a for a in range(array.ndim) if array.shape[a] >= 2]
        if not fits or array.ndim > 5:
            return None
        axis = self.one_of(fits)
        n = array.shape[axis]
        size = int(self.rng.integers(1, min(n, 5) + 1))
        dilation = int(self.rng.integers(1, max((n - 1) // max(size - 1, 1), 1) + 1))
        dilation = min(dilation, 3)
        stride = int(self.rng.integers(1, 4))
        made = g.window(node, axis, size, stride, dilation)
        count = made.shape[axis]
        parts = [
            np.take(array, [o * stride + k * dilation for o in range(count)], axis=axis)
            for k in range(size)
        ]
        return made, np.stack(parts, axis=axis + 1)

    def join(self, node, array):
        other, values = self.like(node, array)
        if not array.ndim:
            return None
        axis = int(self.rng.integers(array.ndim))
        joined = Tensor.of(node).cat(Tensor.of(other), dim=axis).node
        return joined, np.concatenate([array, values], axis)

    # The rest

    def reduce(self, node, array):
        axes = tuple(a for a in range(array.ndim) if self.chance(0.5))
        if not axes:
            return None
        kinds = ["sum", "sum", "sum", "max", "min", "prod"]
        kind = self.one_of(kinds)
        if kind in ("max", "min"):
            if any(array.shape[a] == 0 for a in axes):
                return None
            f = np.max if kind == "max" else np.min
            return g.reduce(node, kind, axes), f(array, axis=axes)
        if node.dtype.kind == "b" or (kind == "prod" and node.dtype.is_float):
            return None
        if node.dtype.is_float and BOUND * array.size > 2**10 and node.dtype.bits == 16:
            return None
        f = np.sum if kind == "sum" else np.prod
        return g.reduce(node, kind, axes), f(array, axis=axes, dtype=array.dtype)

    def argmax(self, node, array):
        if not array.ndim or node.dtype.kind == "b" or not array.size:
            return None
        axis = int(self.rng.integers(array.ndim))
        t = Tensor.of(node)
        if self.chance(0.5):
            return t.argmax(axis).node, np.argmax(array, axis)
        return t.argmin(axis).node, np.argmin(array, axis)

    def index(self, node, array):
        if not array.ndim or array.ndim > 3:
            return None
        shape = tuple(int(n) for n in self.rng.integers(1, 7, self.rng.integers(1, 4)))
        inside = np.ones(shape, bool)
        nodes, picks = [], []
        for axis, n in enumerate(array.shape):
            dtype = self.one_of(INTEGERS)
            if self.chance(0.25) and axis < len(shape):
                nodes.append(g.iota(shape, axis, dtypes.int32, self.device))
                line = [-1 if i == axis else 1 for i in range(len(shape))]
                pick = np.broadcast_to(np.arange(shape[axis]).reshape(line), shape)
            else:
                pick = self.rng.integers(-2, n + 3, shape)
                made = wrapped(pick, dtype)
                nodes.append(leaf(made, dtype, self.device))
                pick = made.astype(object)
            inside &= ((pick >= 0) & (pick < n)).astype(bool)
            picks.append(pick)
        value = np.zeros(shape, array.dtype)
        at = tuple(np.asarray(p)[inside].astype(np.int64) for p in picks)
        value[inside] = array[at]
        return g.index(node, *nodes), value

    def iota(self, node, array):
        if not array.ndim or not array.size:
            return None
        dtype = self.one_of(INTEGERS)
        axis = int(self.rng.integers(array.ndim))
        line = [-1 if i == axis else 1 for i in range(array.ndim)]
        value = wrapped(np.arange(array.shape[axis]), dtype).reshape(line)
        made = g.iota(array.shape, axis, dtype, self.device)
        return made, np.broadcast_to(value, array.shape)

    def contiguous(self, node, array):
        return (g.contiguous(node), array) if self.chance(0.5) else None

    def product(self, node, array):
        """A matrix product with something that fits."""
        if array.ndim < 2 or node.dtype.kind == "b" or not array.size:
            return None
        columns = int(self.rng.integers(1, 71 if self.large else 9))
        if array.shape[-1] * BOUND * BOUND > 1 << 20:
            return None
        shape = (array.shape[-1], columns)
        other, values = self.add_leaf(shape if self.chance(0.5) else shape[::-1], node.dtype)
        if values.shape != shape:
            other, values = g.permute(other, (1, 0)), values.T
        t = Tensor.of(node).dot(Tensor.of(other), dtype=node.dtype).node
        wide = np.float64 if node.dtype.is_float else array.dtype
        return t, np.matmul(array.astype(wide), values.astype(wide))


def as_slices(parts):
    """numpy's slices for (start, count, step) per axis."""
    made = []
    for start, count, step in parts:
        end = start + count * step
        made.append(slice(start, None if end < 0 else end, step) if count else slice(0, 0))
    return tuple(made)


def divided(a, b):
    """Toward zero; by zero gives 0; the least by -1 wraps."""
    safe = np.where(b == 0, b.dtype.type(1), b)
    if a.dtype.kind == "u":
        return np.where(b == 0, 0, a // safe).astype(a.dtype)
    floor = a // safe
    inexact = (floor * safe != a) & ((a < 0) != (safe < 0))
    quotient = np.where(safe == -1, np.negative(a), floor + inexact)
    return np.where(b == 0, 0, quotient).astype(a.dtype)


def remainder(a, b):
    """The sign of the dividend; by zero gives 0."""
    safe = np.where(b == 0, b.dtype.type(1), b)
    return np.where(b == 0, 0, a - divided(a, safe) * safe).astype(a.dtype)


def counted(b, bits):
    """A shift count; everything outside of 0..bits is bits."""
    inside = (b >= 0) & (b < bits)
    return np.where(inside, b, bits).astype(np.int64)


def shifted_left(a, b):
    bits = a.dtype.itemsize * 8
    count = counted(b, bits)
    moved = a << np.minimum(count, bits - 1).astype(a.dtype)
    return np.where(count < bits, moved, 0).astype(a.dtype)


def shifted_right(a, b):
    bits = a.dtype.itemsize * 8
    count = counted(b, bits)
    moved = a >> np.minimum(count, bits - 1).astype(a.dtype)
    gone = 0 if a.dtype.kind == "u" else np.where(a < 0, -1, 0)
    return np.where(count < bits, moved, gone).astype(a.dtype)
