"""Random sequences of views, computations and writes, mirrored by numpy arrays.

A handle is what numpy would have: storage, and which element of it each position shows.
"""

from dataclasses import dataclass

import numpy as np
from fuzz_programs import Random, leaf

from jit import graph as g
from jit.dtype import dtypes
from tensor import Tensor
from tensor.tensor import assign_all

TYPES = [dtypes.int32, dtypes.int32, dtypes.uint8, dtypes.int64, dtypes.float32, dtypes.float64]


@dataclass
class Handle:
    """A tensor, and where numpy keeps the same values."""

    tensor: Tensor
    storage: np.ndarray  # flat
    places: np.ndarray  # in the storage
    plain: bool = True  # each element of the storage at most once

    @property
    def value(self):
        return self.storage[self.places]


class Session:
    """Handles and what happens to them; equal seeds do the same on every device."""

    def __init__(self, seed, device):
        self.rng = np.random.default_rng(seed)
        self.random = Random(seed, device)
        self.device = device
        self.dtype = TYPES[int(self.rng.integers(len(TYPES)))]
        self.handles = []
        self.log = []
        for _ in range(2):
            self.fresh()

    def one_of(self, items):
        return items[int(self.rng.integers(len(items)))]

    def chance(self, p):
        return self.rng.random() < p

    def pick(self, test=lambda h: True):
        fits = [h for h in self.handles[-9:] if test(h)]
        return self.one_of(fits) if fits else None

    def array(self, shape):
        return self.rng.integers(0, 50, shape).astype(self.dtype.numpy)

    def own(self, tensor, value):
        """A handle on new storage."""
        value = np.asarray(value, self.dtype.numpy)
        places = np.arange(value.size).reshape(value.shape)
        self.handles.append(Handle(tensor, value.flatten().copy(), places))

    def fresh(self):
        shape = self.one_of([(12,), (3, 4), (4, 6), (24,), (2, 3, 4), (5, 5), (130,), (17, 9)])
        value = self.array(shape)
        self.own(Tensor.of(leaf(value, self.dtype, self.device)), value)

    def run(self, steps):
        """Do something, steps times; then every handle shows what numpy has."""
        kinds = [
            self.view, self.view, self.compute, self.compute, self.assign, self.assign,
            self.assign, self.augment, self.set_items, self.several, self.realize, self.look,
            self.overlap, self.overlap, self.fresh, self.reduce, self.drop,
        ]  # fmt: skip
        for _ in range(steps):
            kind = self.one_of(kinds)
            self.log.append(kind.__name__)
            with np.errstate(all="ignore"):
                kind()
        for handle in self.handles:
            self.check(handle)

    def check(self, handle):
        np.testing.assert_array_equal(handle.tensor.numpy(), handle.value, str(self.log))

    def look(self):
        self.check(self.pick())

    def realize(self):
        self.pick().tensor.realize()

    def drop(self):
        if len(self.handles) > 6:
            self.handles.pop(int(self.rng.integers(len(self.handles))))

    def view(self):
        handle = self.pick(lambda h: h.places.ndim)
        if handle is None:
            return
        made = self.viewed(handle)
        self.handles.append(made)

    def viewed(self, handle):
        """The same storage seen otherwise."""
        node, places = handle.tensor.node, handle.places
        kind = self.one_of(["slice", "slice", "permute", "flat", "flip"])
        plain = handle.plain
        if kind == "permute":
            axes = tuple(int(a) for a in self.rng.permutation(places.ndim))
            node, places = g.permute(node, axes), places.transpose(axes)
        elif kind == "flat":
            node, places = g.reshape(node, (places.size,)), places.reshape(-1)
        elif kind == "flip" and places.ndim and places.size:
            made = handle.tensor.flip(0)
            node, places = made.node, places[::-1]
        else:
            parts = self.random.slice_parts(places.shape)
            node = g.slice_(node, parts)
            for axis, (start, count, step) in enumerate(parts):
                places = np.take(places, start + step * np.arange(count), axis=axis)
        return Handle(Tensor.of(node), handle.storage, places, plain)

    def value_like(self, shape):
        """A tensor of a shape, lazily computed of handles, and its value now."""
        handle = self.pick(lambda h: h.places.shape == shape)
        if handle is None or self.chance(0.2):
            number = int(self.rng.integers(1, 9))
            value = np.full(shape, number, self.dtype.numpy)
            return Tensor.full(shape, number, dtype=self.dtype, device=self.device), value
        t, value = handle.tensor, handle.value
        if self.chance(0.4) and value.ndim and value.size:
            t, value = t.flip(0), value[::-1]
        if self.chance(0.4) and value.ndim == 2 and value.shape[0] == value.shape[1]:
            t, value = t.permute(1, 0), value.T
        if self.chance(0.5):
            t, value = t + 1, value + value.dtype.type(1)
        if self.chance(0.3) and value.ndim and value.size > 1:
            t, value = t.roll(1, 0), np.roll(value, 1, 0)
        return t, value.astype(self.dtype.numpy)

    def compute(self):
        handle = self.pick()
        other, value = self.value_like(handle.places.shape)
        self.own(handle.tensor + other, handle.value + value)

    def reduce(self):
        handle = self.pick(lambda h: h.places.ndim and h.places.size)
        if handle is None:
            return
        value = np.sum(handle.value, axis=0, dtype=self.dtype.numpy)
        node = g.reduce(handle.tensor.node, "sum", (0,))
        value = np.broadcast_to(value, handle.places.shape)
        self.own(Tensor.of(node).unsqueeze(0).expand(*value.shape), value)
        last = self.handles[-1]
        if last.places.shape[0] > 1:  # an expanded value is written nowhere
            last.plain = False

    def target(self):
        return self.pick(lambda h: h.plain)

    def assign(self):
        handle = self.target()
        t, value = self.value_like(handle.places.shape)
        self.write(handle, t, value)

    def write(self, handle, t, value):
        value = np.array(value)
        if self.chance(0.5):
            handle.tensor.assign(t)
        else:
            handle.tensor[...] = t
        handle.storage[handle.places] = value

    def augment(self):
        handle = self.target()
        t, value = self.value_like(handle.places.shape)
        value = handle.value + value
        handle.tensor += t
        handle.storage[handle.places] = value

    def set_items(self):
        handle = self.pick(lambda h: h.plain and h.places.ndim and h.places.size)
        if handle is None:
            return
        n = handle.places.shape[0]
        if self.chance(0.5):
            a, b = sorted(int(x) for x in self.rng.integers(0, n + 1, 2))
            handle.tensor[a:b] = 7
            handle.storage[handle.places[a:b]] = 7
            return
        rows = self.rng.integers(0, n, 3)
        handle.tensor[Tensor(rows.astype(np.int32), device=self.device)] = 3
        handle.storage[handle.places[rows]] = 3

    def overlap(self):
        """A part of a storage becomes another part of it."""
        handle = self.pick(lambda h: h.plain and h.places.ndim and h.places.shape[0] > 2)
        if handle is None:
            return
        n = handle.places.shape[0]
        count = int(self.rng.integers(1, n))
        a, b = (int(x) for x in self.rng.integers(0, n - count + 1, 2))
        source, target = handle.tensor[a : a + count], handle.tensor[b : b + count]
        value = handle.value[a : a + count]
        if self.chance(0.3):
            source, value = source * 2, value * value.dtype.type(2)
        if not source.numel():
            return
        target.assign(source)
        handle.storage[handle.places[b : b + count]] = value

    def several(self):
        """Writes of one update: all values are from before."""
        chosen, values = [], []
        for _ in range(int(self.rng.integers(2, 5))):
            handle = self.target()
            if any(handle.storage is c.storage for c in chosen):
                continue
            chosen.append(handle)
            values.append(self.value_like(handle.places.shape))
        assign_all([(c.tensor, t) for c, (t, _) in zip(chosen, values, strict=True)])
        now = [np.array(value) for _, value in values]
        for handle, value in zip(chosen, now, strict=True):
            handle.storage[handle.places] = value
