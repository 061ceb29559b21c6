"""What every group of tensor methods stands on: a node, and how to make the next one."""

import weakref
from collections.abc import Sequence
from itertools import count
from operator import index
from typing import Any, Self

from jit import graph
from jit.dtype import DType, Kind, default_float, default_int, dtypes, promote, to_dtype
from jit.graph import Node, Op
from tensor.errors import TensorError

Scalar = int | float | bool
Shape = tuple[int, ...]

# Every live tensor by age: what still waits for old contents when storage is overwritten.
# In order of making, so that equal programs give equal schedules.
_live: "weakref.WeakValueDictionary[int, Core]" = weakref.WeakValueDictionary()
_serial = count()


def register(tensor: "Core") -> None:
    """Count a tensor among the live ones."""
    _live[next(_serial)] = tensor


def live() -> "list[Core]":
    """Every live tensor, oldest first."""
    return list(_live.values())


class Core:
    """A handle on a lazy value. Two handles may share one node."""

    __slots__ = ("__weakref__", "grad", "node", "requires_grad")

    node: Node
    requires_grad: bool | None
    grad: "Self | None"

    @classmethod
    def of(cls, node: Node, requires_grad: bool | None = None) -> Self:
        """A tensor over a graph node."""
        made = object.__new__(cls)
        made.node = node
        made.requires_grad = requires_grad
        made.grad = None
        register(made)
        return made

    # Properties

    @property
    def shape(self) -> Shape:
        return self.node.shape

    @property
    def dtype(self) -> DType:
        return self.node.dtype

    @property
    def device(self) -> str:
        return self.node.device

    @property
    def ndim(self) -> int:
        return len(self.node.shape)

    def numel(self) -> int:
        """Number of elements."""
        return self.node.size

    def element_size(self) -> int:
        """Bytes of one element."""
        return self.dtype.itemsize

    def nbytes(self) -> int:
        """Bytes of all elements."""
        return self.numel() * self.element_size()

    def size(self, dim: int | None = None) -> int | Shape:
        """The shape, or one size of it."""
        return self.shape if dim is None else self.shape[self.axis(dim)]

    def is_floating_point(self) -> bool:
        return self.dtype.is_float

    def __len__(self) -> int:
        if not self.shape:
            raise TypeError("len() of a 0-d tensor")
        return self.shape[0]

    def __bool__(self) -> bool:
        raise TypeError("the truth of a tensor is not defined; use .item() on a 0-d comparison")

    # Building blocks

    def constant(self, value: Scalar, dtype: Kind | None = None) -> Self:
        """The scalar in this tensor's shape, device and (unless given) dtype."""
        return self.of(graph.const(value, dtype or self.dtype, self.shape, self.device))

    def axis(self, dim: int, extra: int = 0) -> int:
        """A dimension as a non-negative number; TensorError if there is none such."""
        rank, dim = self.ndim + extra, whole(dim, "a dimension")
        if not -max(rank, 1) <= dim < max(rank, 1):
            raise TensorError(
                f"dimension {dim} of a tensor with {rank}", facts={"shape": list(self.shape)}
            )
        return dim % rank if rank else 0

    def axes(self, axis: int | Sequence[int] | None) -> tuple[int, ...]:
        """Dimensions as sorted non-negative numbers; None means all."""
        if axis is None:
            return tuple(range(self.ndim))
        chosen = list(axis) if isinstance(axis, Sequence) else [axis]
        found = sorted(self.axis(a) for a in chosen) if self.ndim else []
        if len(set(found)) != len(found):
            raise TensorError(f"dimension given twice in {axis}")
        return tuple(found)

    def cast(self, dtype: Kind) -> Self:
        """Convert each element: float to integer goes toward zero, then modulo 2^n."""
        return self.of(graph.cast(self.node, to_dtype(dtype)))

    def unary(self, op: Op) -> Self:
        """One elementwise operation."""
        return self.of(graph.elementwise(op, self.node))

    def floating(self) -> Self:
        """This tensor if it is floating point, else as the default float."""
        return self if self.dtype.is_float else self.cast(default_float())

    def expand_to(self, shape: Shape) -> Self:
        """Broadcast to shape by numpy's rule."""
        if self.shape == shape:
            return self
        padded = (1,) * (len(shape) - self.ndim) + self.shape
        if len(padded) != len(shape) or any(
            old not in (1, new) for old, new in zip(padded, shape, strict=True)
        ):
            raise TensorError(
                f"cannot broadcast {list(self.shape)} to {list(shape)}",
                facts={"from": list(self.shape), "to": list(shape)},
            )
        return self.of(graph.expand(graph.reshape(self.node, padded), shape))

    def operand(self, other: Any) -> Self:
        """The other side of a binary operation: a tensor, or a scalar of a fitting dtype."""
        if isinstance(other, Core):
            return other  # type: ignore[return-value]
        if isinstance(other, bool | int | float):
            return self.of(graph.const(other, self._scalar_dtype(other), (), self.device))
        import numpy

        if isinstance(other, numpy.ndarray | numpy.generic | list | tuple):
            return type(self)(other, device=self.device)  # type: ignore[call-arg]
        raise TensorError(f"cannot combine a tensor with {type(other).__name__}")

    def _scalar_dtype(self, value: Scalar) -> DType:
        # A python scalar does not widen a tensor: only its kind counts.
        if isinstance(value, bool):
            return self.dtype
        if isinstance(value, int):
            return default_int() if self.dtype is dtypes.bool else self.dtype
        return self.dtype if self.dtype.is_float else default_float()

    def matched(self, other: Any, op: str) -> tuple[Self, Self]:
        """Both sides broadcast to one shape and promoted to one dtype."""
        right = self.operand(other)
        if right.device != self.device:
            raise TensorError(
                f"{op}: operands on {self.device} and {right.device}",
                hint="move one with .to(device)",
            )
        shape = broadcast_shape(op, self.shape, right.shape)
        dtype = promote(self.dtype, right.dtype)
        return self.cast(dtype).expand_to(shape), right.cast(dtype).expand_to(shape)

    def binary(self, op: Op, other: Any, reverse: bool = False) -> Self:
        """One elementwise operation on matched operands."""
        left, right = self.matched(other, op.value)
        pair = (right.node, left.node) if reverse else (left.node, right.node)
        return self.of(graph.elementwise(op, *pair))


def whole(value: Any, what: str) -> int:
    """A whole number, of Python or numpy; TensorError for anything else."""
    if isinstance(value, bool) or not hasattr(value, "__index__"):
        raise TensorError(f"{what} is a whole number, not {value!r}")
    return index(value)


def broadcast_shape(op: str, *shapes: Shape, shown: Sequence[Shape] = ()) -> Shape:
    """The shape all the given ones broadcast to; TensorError naming them if there is none.

    shown: what the error names in their place, where they are only parts of shapes.
    """
    rank = max(map(len, shapes), default=0)
    padded = [(1,) * (rank - len(s)) + s for s in shapes]
    result = []
    for sizes in zip(*padded, strict=True):
        wanted = {n for n in sizes if n != 1}
        if len(wanted) > 1:
            named = [list(s) for s in shown or shapes]
            raise TensorError(
                f"{op}: shapes {' and '.join(map(str, named))} do not broadcast",
                facts={"shapes": named},
            )
        result.append(wanted.pop() if wanted else 1)
    return tuple(result)
