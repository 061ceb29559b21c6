"""Movement operations as arithmetic: which source element a result element is.

Nothing is moved and no strides are kept: an operation turns the index of a result
element into the index of a source element, and a condition where it reads zeros.
"""

from collections.abc import Callable

from jit.graph import Node, Op, Shape
from jit.simplify import Algebra, Sum

Index = tuple[Sum, ...]
Conditions = tuple[Sum, ...]  # each is below zero where the element exists
NEVER = None  # no element exists


def source_index(node: Node, index: Index, algebra: Algebra) -> tuple[Index, Conditions] | None:
    """Index into node.src[0] of the result element `index`, and when it exists.

    None if it exists nowhere (a pad seen only in its zeros).
    """
    if node.op is Op.PAD:
        return _pad(node, index, algebra)
    return _INDEXES[node.op](node, index, algebra), ()


def row_major(index: Index, shape: Shape, algebra: Algebra) -> Sum:
    """Position of the element in row-major order."""
    stride = 1
    parts = []
    for part, size in zip(reversed(index), reversed(shape), strict=True):
        parts.append((part, stride))
        stride *= size
    return algebra.total(reversed(parts))


def reshaped(index: Index, shape: Shape, other: Shape, algebra: Algebra) -> Index:
    """The index, in `other`, of the element at the same row-major position as index in shape.

    Axes are matched in groups of equal size, so that only real splits divide.
    """
    result: list[Sum] = []
    i = j = 0
    while i < len(other) or j < len(shape):
        first_other, first = i, j
        size_other = other[i] if i < len(other) else 1
        size = shape[j] if j < len(shape) else 1
        i, j = min(i + 1, len(other)), min(j + 1, len(shape))
        while size_other != size:
            if size_other < size:
                size_other *= other[i]
                i += 1
            else:
                size *= shape[j]
                j += 1
        flat = row_major(index[first:j], shape[first:j], algebra)
        result += _unravel(flat, other[first_other:i], algebra)
    return tuple(result)


def contiguous_base(node: Node) -> tuple[Node, int]:
    """The node that this one is a row-major run of, and the run's first element.

    Its bytes may be read as another type of the same width.
    """
    offset = 0
    while node.realized is None:
        start = 0
        if node.op is Op.SLICE:
            found = _run_start(node)
            if found is None:
                break
            start = found
        elif node.op not in (Op.RESHAPE, Op.BITCAST):
            break
        offset += start
        node = node.src[0]
    return node, offset


def _run_start(node: Node) -> int | None:
    """The first element of a slice that is one run of its source."""
    start, stride, whole = 0, 1, True
    for (first, count, step), size in zip(
        reversed(node.arg), reversed(node.src[0].shape), strict=True
    ):
        if count == 0 or (count > 1 and (step != 1 or not whole)):
            return None
        start += first * stride
        stride *= size
        whole = whole and count == size
    return start


def _reshape(node: Node, index: Index, algebra: Algebra) -> Index:
    return reshaped(index, node.shape, node.src[0].shape, algebra)


def _unravel(flat: Sum, shape: Shape, algebra: Algebra) -> list[Sum]:
    """The multi-index at a row-major position."""
    result = []
    for size in reversed(shape[1:]):
        flat, rest = algebra.divide(flat, size)
        result.append(rest)
    return [*([flat] if shape else []), *reversed(result)]


def _permute(node: Node, index: Index, algebra: Algebra) -> Index:
    result = [algebra.zero] * len(index)
    for axis, part in zip(node.arg, index, strict=True):
        result[axis] = part
    return tuple(result)


def _expand(node: Node, index: Index, algebra: Algebra) -> Index:
    sizes = zip(node.src[0].shape, index, strict=True)
    return tuple(algebra.zero if size == 1 else part for size, part in sizes)


def _slice(node: Node, index: Index, algebra: Algebra) -> Index:
    return tuple(
        algebra.shift(algebra.scale(part, step), start)
        for (start, _, step), part in zip(node.arg, index, strict=True)
    )


def _window(node: Node, index: Index, algebra: Algebra) -> Index:
    axis, _, stride, dilation = node.arg
    place = algebra.total([(index[axis], stride), (index[axis + 1], dilation)])
    return (*index[:axis], place, *index[axis + 2 :])


def _pad(node: Node, index: Index, algebra: Algebra) -> tuple[Index, Conditions] | None:
    result, conditions = [], []
    for (low, _, inner), size, part in zip(node.arg, node.src[0].shape, index, strict=True):
        place = algebra.shift(part, -low)
        reach = (size - 1) * (inner + 1) if size else -1
        conditions += [
            algebra.shift(algebra.scale(place, -1), -1),  # place >= 0
            algebra.shift(place, -reach - 1),  # place <= reach
        ]
        place = algebra.within(place, 0, max(reach, 0))
        place, between = algebra.divide(place, inner + 1)
        conditions.append(algebra.shift(between, -1))
        result.append(place)
    kept = [algebra.below_zero(condition) for condition in conditions]
    if any(condition is False for condition in kept):
        return NEVER
    return tuple(result), tuple(c for c in kept if isinstance(c, Sum))


_INDEXES: dict[Op, Callable[[Node, Index, Algebra], Index]] = {
    Op.RESHAPE: _reshape,
    Op.PERMUTE: _permute,
    Op.EXPAND: _expand,
    Op.SLICE: _slice,
    Op.WINDOW: _window,
}
