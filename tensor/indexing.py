"""Reading parts of a tensor: numbers, slices, masks of positions, other tensors."""

from typing import Any, Self

from jit import graph
from jit.dtype import dtypes
from tensor.core import Core, broadcast_shape
from tensor.errors import TensorError
from tensor.reduction import Reduction


class Indexing(Reduction):
    """`t[...]`, gather, and what reads by position."""

    __slots__ = ()

    def __getitem__(self, key: Any) -> Self:
        parts = self._parts(key)
        sliced, squeezed, added, tensors = self._basic(parts)
        x = self.of(graph.slice_(self.node, tuple(sliced)))
        kept = [n for a, n in enumerate(x.shape) if a not in squeezed]
        for at in added:
            kept.insert(at, 1)
        x = x.reshape(kept)
        return x._take(tensors) if tensors else x

    def _parts(self, key: Any) -> list[Any]:
        """The key with its ellipsis spelt out: one entry per axis, plus None entries."""
        parts = [_plain(p) for p in (key if isinstance(key, tuple) else (key,))]
        used = sum(1 for p in parts if p is not None and p is not Ellipsis)
        if used > self.ndim:
            raise TensorError(
                f"{used} indexes for {self.ndim} dimensions", facts={"shape": list(self.shape)}
            )
        gaps = [i for i, p in enumerate(parts) if p is Ellipsis]
        if len(gaps) > 1:
            raise TensorError("an index can have one ellipsis only")
        at = gaps[0] if gaps else len(parts)
        parts[at : at + len(gaps)] = [slice(None)] * (self.ndim - used)
        return parts

    def _basic(self, parts: list[Any]) -> tuple[list[Any], set[int], list[int], dict[int, Any]]:
        """Split a key: slices per axis, dropped axes, places of new axes, tensors by axis."""
        sliced: list[tuple[int, int, int]] = []
        squeezed: set[int] = set()
        added: list[int] = []
        tensors: dict[int, Any] = {}
        place = 0  # axis of the result
        for part in parts:
            if part is None:
                added.append(place)
                place += 1
                continue
            axis = len(sliced)
            size = self.shape[axis]
            sliced.append(_axis_slice(part, size, axis))
            if isinstance(part, int) and not isinstance(part, bool):
                squeezed.add(axis)
                continue
            if not isinstance(part, slice):
                tensors[place] = self._index_tensor(part, size, axis)
            place += 1
        return sliced, squeezed, added, tensors

    def _index_tensor(self, part: Any, size: int, axis: int = 0) -> Self:
        x: Self
        if isinstance(part, Core):
            x = part  # type: ignore[assignment]
        else:
            _check_known(part, size, axis)
            x = type(self)(part, device=self.device)  # type: ignore[call-arg]
        if x.dtype is dtypes.bool:
            raise TensorError(
                "a mask as index has a shape that depends on values",
                hint="use where(mask, x, y) or masked_fill",
            )
        if not x.dtype.is_int:
            raise TensorError(f"an index is an integer tensor, not {x.dtype.name}")
        # A 64-bit index keeps its width: cut to 32 bits, one from far outside might lie inside.
        wide = x.cast(dtypes.int64 if x.dtype.bits == 64 or size >= 1 << 31 else dtypes.int32)
        return wide.lt(0).where(wide + size, wide) if x.dtype.kind == "i" else wide

    def _take(self, tensors: dict[int, Self]) -> Self:
        """Read by one integer tensor per listed axis; numpy's placement of the result axes."""
        picked = broadcast_shape("index", *(t.shape for t in tensors.values()))
        listed = sorted(tensors)
        together = listed[-1] - listed[0] + 1 == len(listed)
        first = listed[0] if together else 0
        rest = [n for a, n in enumerate(self.shape) if a not in tensors]
        shape = (*rest[:first], *picked, *rest[first:])
        nodes = []
        free = [i for i in range(len(shape)) if not first <= i < first + len(picked)]
        for axis in range(self.ndim):
            if axis in tensors:
                t = tensors[axis].expand_to(picked)
                spread = (1,) * first + picked + (1,) * (len(rest) - first)
                nodes.append(t.reshape(spread).expand_to(shape).node)
            else:
                nodes.append(graph.iota(shape, free.pop(0), dtypes.int32, self.device))
        return self.of(graph.index(self.node, *nodes))

    def gather(self, dim: int, index: Self) -> Self:
        """result[i] = self[i with i[dim] replaced by index[i]]."""
        at = self.axis(dim)
        if index.ndim != self.ndim or any(
            a > b for i, (a, b) in enumerate(zip(index.shape, self.shape, strict=True)) if i != at
        ):
            raise TensorError(
                f"gather: index {list(index.shape)} does not fit {list(self.shape)}",
                facts={"dim": dim},
            )
        whole = self._index_tensor(index, self.shape[at])
        nodes = [
            whole.node if a == at else graph.iota(index.shape, a, whole.dtype, self.device)
            for a in range(self.ndim)
        ]
        return self.of(graph.index(self.node, *nodes))

    def triu(self, diagonal: int = 0) -> Self:
        """Zero below the given diagonal."""
        return self._beyond(diagonal).where(self, 0)

    def tril(self, diagonal: int = 0) -> Self:
        """Zero above the given diagonal."""
        return self._beyond(diagonal + 1).where(0, self)

    def _beyond(self, diagonal: int) -> Self:
        if self.ndim < 2:
            raise TensorError(f"a triangle of shape {list(self.shape)}: two dimensions are needed")
        row = self.of(graph.iota(self.shape, self.ndim - 2, dtypes.int32, self.device))
        column = self.of(graph.iota(self.shape, self.ndim - 1, dtypes.int32, self.device))
        return (column - row) >= diagonal

    def scatter(self, dim: int, index: Self, src: Any) -> Self:
        """self with src[i] put at i[dim] = index[i]; of several for one place the last wins."""
        at = self.axis(dim)
        source = self.operand(src).cast(self.dtype).expand_to(index.shape)
        if not index.numel():
            return self.reshape(self.shape)
        hit, _ = self._scattered(at, index, source)
        order = self.of(graph.iota(hit.shape, at + 1, dtypes.int32, self.device))
        last = hit.where(order + 1, 0).max(at + 1)
        rows = [(0, 0 if a == at else n - index.shape[a]) for a, n in enumerate(self.shape)]
        return last.gt(0).where(source.pad(rows).gather(at, last - 1), self)

    def scatter_reduce(self, dim: int, index: Self, src: Self, reduce: str) -> Self:
        """self combined with all src[i] that fall on a place; reduce is "sum"."""
        if reduce != "sum":
            raise TensorError(f"scatter_reduce: {reduce!r} is not available, 'sum' is")
        at = self.axis(dim)
        hit, values = self._scattered(at, index, src.cast(self.dtype))
        return self + hit.where(values, 0).sum(at + 1).cast(self.dtype)

    def _scattered(self, at: int, index: Self, source: Self) -> tuple[Self, Self]:
        """Per place of self along `at`, which entries of source fall there: a new axis at + 1."""
        bounds = [n if a != at else index.shape[at] for a, n in enumerate(self.shape)]
        ends = [(0, n - m) for n, m in zip(bounds, index.shape, strict=True)]
        full = self._index_tensor(index, self.shape[at]).pad(ends, value=-1).unsqueeze(at)
        shape = (*self.shape[: at + 1], *full.shape[at + 1 :])
        places = self.of(graph.iota(shape, at, full.dtype, self.device))
        values = source.pad(ends).unsqueeze(at).expand_to(shape)
        return full.expand_to(shape).eq(places), values


def _axis_slice(part: Any, size: int, axis: int) -> tuple[int, int, int]:
    """(start, count, step) that a key entry takes of an axis; TensorError outside of it."""
    if isinstance(part, slice):
        start, stop, step = _bounds(part, size)
        count = max(0, -(-(stop - start) // step))
        return (start, count, step) if count else (0, 0, 1)
    if isinstance(part, int) and not isinstance(part, bool):
        if not -size <= part < size:
            raise TensorError(
                f"index {part} is outside dimension {axis} of size {size}",
                facts={"index": part, "size": size},
            )
        return part % size, 1, 1
    if isinstance(part, Core | list | tuple) or _is_array(part):
        return 0, size, 1
    raise TensorError(f"cannot index with {type(part).__name__}", facts={"dimension": axis})


def _is_array(part: Any) -> bool:
    return type(part).__module__ == "numpy" and hasattr(part, "ndim")


def _plain(part: Any) -> Any:
    """A numpy number as Python's; anything else as it is."""
    is_number = _is_array(part) and part.ndim == 0 and part.dtype.kind in "iu"
    return int(part) if is_number else part


def _check_known(part: Any, size: int, axis: int) -> None:
    """TensorError for an index in Python's or numpy's hands that lies outside of its axis."""
    import numpy

    try:
        known = numpy.asarray(part)
    except ValueError:  # ragged, or of tensors: Tensor() names the place
        return
    if known.dtype.kind in "iu" and known.size:
        outside = known[(known < -size) | (known >= size)]
        if outside.size:
            raise TensorError(
                f"index {outside[0]} is outside dimension {axis} of size {size}",
                facts={"index": int(outside[0]), "size": size},
            )


def _bounds(part: slice, size: int) -> tuple[int, int, int]:
    if any(
        v is not None and not hasattr(v, "__index__") for v in (part.start, part.stop, part.step)
    ):
        raise TensorError(f"a slice has whole-number bounds, not {part}")
    if part.step == 0:
        raise TensorError("a slice step of 0")
    return part.indices(size)
