"""Tensor methods that rearrange elements without computing."""

from collections.abc import Sequence
from math import prod
from typing import Any, Self

from jit import graph
from jit.dtype import dtypes
from tensor.core import Core, whole
from tensor.errors import TensorError

Sizes = int | Sequence[int]


def sizes_of(args: tuple[Any, ...]) -> tuple[int, ...]:
    """The sizes of f(2, 3) and f((2, 3)) alike: whole numbers, or None; else TensorError."""
    if len(args) == 1 and isinstance(args[0], list | tuple):
        args = tuple(args[0])
    return tuple(None if n is None else whole(n, "a size or dimension") for n in args)  # type: ignore[misc]


def shape_of(args: tuple[Any, ...]) -> tuple[int, ...]:
    """The sizes of a new tensor; TensorError for a negative one."""
    sizes = sizes_of(args)
    if any(n is None or n < 0 for n in sizes):
        raise TensorError(f"a tensor of shape {list(sizes)}: no size can be negative")
    return sizes


def _joined(op: str, first: Any, rest: tuple[Any, ...]) -> list[Any]:
    """The tensors of f(a, b) and f([a, b]) alike."""
    parts = [*first, *rest] if isinstance(first, list | tuple) else [first, *rest]
    strange = [p for p in parts if not isinstance(p, Core)]
    if strange or not parts:
        found = type(strange[0]).__name__ if strange else "nothing"
        raise TensorError(f"{op} joins tensors, not {found}")
    return parts


class Movement(Core):
    """Shape, order, padding, joining and splitting."""

    __slots__ = ()

    def reshape(self, *shape: Any) -> Self:
        """The same elements in another shape; one size may be -1, None keeps a size."""
        wanted = sizes_of(shape)
        sizes = [self.shape[i] if n is None else n for i, n in enumerate(wanted)]
        if sizes.count(-1) > 1:
            raise TensorError(f"reshape: more than one -1 in {list(wanted)}")
        if -1 in sizes:
            rest = prod(n for n in sizes if n != -1)
            sizes[sizes.index(-1)] = self.numel() // rest if rest else 0
        if prod(sizes) != self.numel() or any(n < 0 for n in sizes):
            raise TensorError(
                f"reshape: {list(self.shape)} has {self.numel()} elements, "
                f"{list(wanted)} does not fit",
                facts={"from": list(self.shape), "to": list(wanted)},
            )
        return self.of(graph.reshape(self.node, tuple(sizes)))

    view = reshape

    def expand(self, *shape: Any) -> Self:
        """Repeat axes of size 1; -1 keeps a size."""
        wanted = sizes_of(shape)
        padded = (1,) * (len(wanted) - self.ndim) + self.shape
        return self.expand_to(
            tuple(o if n in (-1, None) else n for o, n in zip(padded, wanted, strict=False))
        )

    def permute(self, *order: Any) -> Self:
        axes = tuple(self.axis(a) for a in sizes_of(order))
        if sorted(axes) != list(range(self.ndim)):
            raise TensorError(f"permute: {axes} is not an order of {self.ndim} dimensions")
        return self.of(graph.permute(self.node, axes))

    def transpose(self, dim0: int = 1, dim1: int = 0) -> Self:
        order = list(range(self.ndim))
        first, second = self.axis(dim0), self.axis(dim1)
        order[first], order[second] = order[second], order[first]
        return self.permute(*order)

    @property
    def T(self) -> Self:  # matrices only, as documented
        return self.transpose()

    def flip(self, *axis: Any) -> Self:
        chosen = {self.axis(a) for a in sizes_of(axis)}
        parts = tuple(
            (n - 1, n, -1) if a in chosen and n else (0, n, 1) for a, n in enumerate(self.shape)
        )
        return self.of(graph.slice_(self.node, parts))

    def shrink(self, arg: Sequence[tuple[int, int] | None]) -> Self:
        """Keep [start, end) of each axis; None keeps all."""
        bounds = [(0, n) if b is None else b for b, n in zip(arg, self.shape, strict=True)]
        for (low, high), n in zip(bounds, self.shape, strict=True):
            if not 0 <= low <= high <= n:
                raise TensorError(f"shrink: {bounds} lies outside {list(self.shape)}")
        return self.of(graph.slice_(self.node, tuple((low, high - low, 1) for low, high in bounds)))

    def shrink_to(self, *shape: Any) -> Self:
        wanted = sizes_of(shape)
        return self.shrink([None if n is None else (0, n) for n in wanted])

    def pad(self, padding: Sequence[Any], mode: str = "constant", value: float = 0.0) -> Self:
        """Pad with value. Either ((before, after), ...) per axis, or flat, last axis first."""
        if mode != "constant":
            raise TensorError(f"pad: mode {mode!r} is not available")
        bounds = self._pad_bounds(padding)
        if any(b < 0 for pair in bounds for b in pair):
            keep = [
                (max(-lo, 0), n - max(-hi, 0))
                for (lo, hi), n in zip(bounds, self.shape, strict=True)
            ]
            cut = self.shrink(keep)
            return cut.pad([(max(lo, 0), max(hi, 0)) for lo, hi in bounds], mode, value)
        parts = tuple((low, high, 0) for low, high in bounds)
        padded = self.of(graph.pad(self.node, parts))
        if value == 0:
            return padded
        inside = self.of(graph.pad(self.constant(True, dtypes.bool).node, parts))
        chosen = graph.elementwise(
            graph.Op.WHERE, inside.node, padded.node, padded.constant(value).node
        )
        return self.of(chosen)

    def _pad_bounds(self, padding: Sequence[Any]) -> list[tuple[int, int]]:
        if all(p is None or isinstance(p, tuple | list) for p in padding):
            if len(padding) != self.ndim:
                raise TensorError(f"pad: {padding} for a tensor of shape {list(self.shape)}")
            return [(0, 0) if p is None else (p[0], p[1]) for p in padding]
        pairs = [(padding[i], padding[i + 1]) for i in range(0, len(padding), 2)]
        return [(0, 0)] * (self.ndim - len(pairs)) + pairs[::-1]

    def pad_to(self, *shape: Any) -> Self:
        wanted = sizes_of(shape)
        return self.pad(
            [(0, 0 if n is None else n - o) for n, o in zip(wanted, self.shape, strict=True)]
        )

    def squeeze(self, dim: int | None = None) -> Self:
        if dim is None:
            return self.reshape(tuple(n for n in self.shape if n != 1))
        at = self.axis(dim)
        if not self.ndim or self.shape[at] != 1:
            return self.reshape(self.shape)
        return self.reshape(self.shape[:at] + self.shape[at + 1 :])

    def unsqueeze(self, dim: int) -> Self:
        at = self.axis(dim, extra=1)
        return self.reshape((*self.shape[:at], 1, *self.shape[at:]))

    def flatten(self, start_dim: int = 0, end_dim: int = -1) -> Self:
        if not self.ndim:
            return self.reshape(1)
        start, end = self.axis(start_dim), self.axis(end_dim)
        joined = prod(self.shape[start : end + 1])
        return self.reshape((*self.shape[:start], joined, *self.shape[end + 1 :]))

    def unflatten(self, dim: int, sizes: Sequence[int]) -> Self:
        at = self.axis(dim)
        return self.reshape((*self.shape[:at], *sizes, *self.shape[at + 1 :]))

    def repeat(self, *repeats: Any) -> Self:
        times = sizes_of(repeats)
        base = (1,) * (len(times) - self.ndim) + self.shape
        split = [n for size in base for n in (1, size)]
        spread = [n for t, size in zip(times, base, strict=True) for n in (t, size)]
        final = [t * size for t, size in zip(times, base, strict=True)]
        return self.reshape(split).expand(spread).reshape(final)

    def repeat_interleave(self, repeats: int, dim: int | None = None) -> Self:
        x, at = (self.flatten(), 0) if dim is None else (self, self.axis(dim))
        shape = x.shape
        spread = (*shape[: at + 1], repeats, *shape[at + 1 :])
        final = (*shape[:at], shape[at] * repeats, *shape[at + 1 :])
        return x.unsqueeze(at + 1).expand(spread).reshape(final)

    def cat(self, *args: Self, dim: int = 0) -> Self:
        """Join along an existing axis: of a.cat(b), Tensor.cat(a, b) or Tensor.cat([a, b])."""
        parts = _joined("cat", self, args)
        first = parts[0]
        at = first.axis(dim)
        for p in parts:
            if p.ndim != first.ndim or any(
                a != b for i, (a, b) in enumerate(zip(p.shape, first.shape, strict=True)) if i != at
            ):
                raise TensorError(
                    f"cat: shapes {[list(q.shape) for q in parts]} on dimension {dim}"
                )
        total = sum(p.shape[at] for p in parts)
        result: Any = None
        before = 0
        for p in parts:
            ends = (before, total - before - p.shape[at])
            piece = p.pad([ends if i == at else (0, 0) for i in range(first.ndim)])
            result = piece if result is None else result._until(before, at).where(result, piece)
            before += p.shape[at]
        return result  # type: ignore[no-any-return]

    def _until(self, place: int, axis: int) -> Any:
        """True where the index along an axis is below place."""
        kind = dtypes.int32 if self.shape[axis] < 1 << 31 else dtypes.int64
        count = self.of(graph.iota(self.shape, axis, kind, self.device))
        limit = graph.const(place, kind, self.shape, self.device)
        return self.of(graph.elementwise(graph.Op.LT, count.node, limit))

    def stack(self, *args: Self, dim: int = 0) -> Self:
        """Join along a new axis: of a.stack(b), Tensor.stack(a, b) or Tensor.stack([a, b])."""
        parts = _joined("stack", self, args)
        at = parts[0].axis(dim, extra=1)
        first, *rest = (p.unsqueeze(at) for p in parts)
        return first.cat(*rest, dim=at)  # type: ignore[no-any-return]

    def split(self, sizes: int | Sequence[int], dim: int = 0) -> tuple[Self, ...]:
        at = self.axis(dim)
        total = self.shape[at]
        if isinstance(sizes, int):
            sizes = [min(sizes, total - i) for i in range(0, max(total, 1), max(sizes, 1))]
        if sum(sizes) != total:
            raise TensorError(f"split: sizes {list(sizes)} do not add up to {total}")
        ends = [sum(sizes[: i + 1]) for i in range(len(sizes))]
        return tuple(
            self.shrink([(end - n, end) if i == at else None for i in range(self.ndim)])
            for n, end in zip(sizes, ends, strict=True)
        )

    def chunk(self, chunks: int, dim: int = 0) -> list[Self]:
        size = -(-self.shape[self.axis(dim)] // chunks)
        return list(self.split(size, dim))

    def roll(self, shifts: int, dims: int) -> Self:
        at = self.axis(dims)
        size = self.shape[at]
        first = -shifts % size if size else 0
        if not first:
            return self.reshape(self.shape)
        head, tail = self.split([first, size - first], at)
        return tail.cat(head, dim=at)

    def unfold(self, dim: int, size: int, step: int) -> Self:
        """Sliding windows of an axis, as a new last axis."""
        at = self.axis(dim)
        if not 1 <= size <= self.shape[at] or step < 1:
            raise TensorError(
                f"unfold: windows of {size} every {step} of dimension {dim}",
                facts={"shape": list(self.shape)},
            )
        made = self.of(graph.window(self.node, at, size, step))
        order = [i for i in range(self.ndim + 1) if i != at + 1]
        return made.permute(*order, at + 1)

    def diagonal(self) -> Self:
        if self.ndim != 2 or self.shape[0] != self.shape[1]:
            raise TensorError(f"diagonal of shape {list(self.shape)}: only square matrices")
        n = self.shape[0]
        return self.flatten().pad([(0, n)]).reshape(n, n + 1).shrink([None, (0, 1)]).reshape(n)

    def diag(self) -> Self:
        if self.ndim != 1:
            raise TensorError(f"diag of shape {list(self.shape)}: only vectors")
        n = self.shape[0]
        return self.unsqueeze(1).pad([(0, 0), (0, n)]).flatten().shrink([(0, n * n)]).reshape(n, n)
