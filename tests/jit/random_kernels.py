"""Kernels drawn at random: loops, reduce loops, strides, guards, updates in place."""

import random

import numpy as np
from kernel_maker import Maker

from jit.dtype import dtypes

SIZES = [1, 2, 3, 5, 8, 16, 17, 33, 40, 64, 65, 70]
DEPTHS = [1, 2, 3, 7, 16, 33, 64, 100, 257]
TYPES = [dtypes.float32] * 5 + [dtypes.float64, dtypes.int32, dtypes.uint8, dtypes.int64]


class Draw:
    """One random kernel: `kernel`; `plain`, the same without a guarded store; `arrays`."""

    def __init__(self, seed):
        self.random = random.Random(seed)
        self.maker = Maker()
        self.loops, self.depths = self.sizes()
        self.axes = [self.maker.axis(a) for a in range(len(self.loops) + len(self.depths))]
        self.count = int(np.prod(self.loops or [1]))
        self.dtype = self.random.choice(TYPES)
        self.arguments = [(self.dtype, self.count)]
        where = self.output_index()
        value = self.value(where)
        axes = self.loops + [-d for d in self.depths]
        store, old = (0, where, value), self.maker.load(0, self.dtype, where)
        self.plain = self.kernel = self.maker.kernel(self.arguments, axes, [store])
        if self.loops and self.random.random() < 0.15:
            valid = (self.axes[0] & 1).equals(0)
            self.kernel = self.maker.kernel(self.arguments, axes, [(*store, valid)])
            plain = (0, where, valid.where(value, old))
            self.plain = self.maker.kernel(self.arguments, axes, [plain])
        numbers = np.random.default_rng(seed)
        # Small whole numbers: sums are exact in any order.
        self.arrays = [
            numbers.integers(0 if d.is_int else -4, 7, n).astype(d.numpy) for d, n in self.arguments
        ]

    def sizes(self):
        loops = [self.random.choice(SIZES) for _ in range(self.random.randint(0, 3))]
        while np.prod(loops or [1]) > 20000:
            loops[self.random.randrange(len(loops))] = 2
        depths = [self.random.choice(DEPTHS) for _ in range(self.random.randint(0, 2))]
        while np.prod(loops + depths or [1]) > 100000:
            depths[self.random.randrange(len(depths))] = 1
            loops = loops if max(depths) > 1 else [min(n, 8) for n in loops]
        return loops, depths

    def row_major(self, axes):
        """An index over axes, the last fastest, and how many elements it spans."""
        sizes = self.loops + self.depths
        index, stride = self.maker.const(0, dtypes.int32), 1
        for n, a in enumerate(reversed(axes)):
            term = self.axes[a] * stride if stride > 1 else self.axes[a]
            index, stride = (term if n == 0 else index + term), stride * sizes[a]
        return index, stride

    def output_index(self):
        order = list(range(len(self.loops)))
        if self.random.random() < 0.3:
            self.random.shuffle(order)
        return self.row_major(order)[0]

    def load(self):
        axes = [a for a in range(len(self.axes)) if self.random.random() < 0.7]
        if self.random.random() < 0.5:
            self.random.shuffle(axes)
        index, count = self.row_major(axes)
        valid, kind = None, self.random.random()
        if kind < 0.2 and axes:  # padded
            low, count = self.random.randint(0, 2), max(count - 3, 1)
            valid = ~(index < low) & (index < low + count)
            index = index - low
        elif kind < 0.35 and axes:  # rows cut in pieces
            by = self.random.choice([2, 3, 4, 8])
            whole = index.of("idiv", by)
            index = whole if self.random.random() < 0.5 else whole * by + index.of("mod", by)
        elif kind < 0.45:  # backwards
            index = self.maker.const(count - 1, dtypes.int32) - index
        elif kind < 0.55:  # with gaps
            index, count = index * 2 + 1, 2 * count + 1
        self.arguments.append((self.dtype, count))
        return self.maker.load(len(self.arguments) - 1, self.dtype, index, valid)

    def value(self, where):
        value = self.load()
        for _ in range(self.random.randint(0, 2)):
            value = value.of(self.random.choice(["add", "mul", "sub"]), self.load())
        if self.depths:
            value = self.maker.reduce(self.random.choice(["sum", "sum", "max", "min"]), value)
            if self.random.random() < 0.4:
                value = value + value.like(1)
        if self.random.random() < 0.25:
            value = value + self.maker.load(0, self.dtype, where)
        return value
