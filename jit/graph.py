"""The lazy graph: immutable nodes, one per operation on whole tensors.

A node is a fact, not a computation: building one runs nothing. Shapes are tuples
of ints, row-major. What a node's value is, is said once, in the table of `Op`.
Constructors here check shapes of movement and reduction; dtype rules of the
front end (promotion, broadcasting) are the front end's.
"""

from collections.abc import Iterator, Sequence
from enum import StrEnum
from math import prod
from typing import TYPE_CHECKING, Any

from jit.dtype import DType, dtypes

if TYPE_CHECKING:
    from runtime.buffer import Buffer

Shape = tuple[int, ...]


class Op(StrEnum):
    """What a node computes. i, j: multi-indexes into the result."""

    # Leaves
    BUFFER = "buffer"  # arg: runtime Buffer, row-major contiguous in the node's shape
    CONST = "const"  # arg: the scalar, everywhere in shape
    IOTA = "iota"  # arg: axis; value[i] = i[axis]
    VARIABLE = "variable"  # arg: (name, least, most, bound value); shape ()
    # Unary, same shape
    NEG = "neg"
    NOT = "not"  # logical for bool, bitwise for integers
    ABS = "abs"
    SQRT = "sqrt"
    TRUNC = "trunc"
    FLOOR = "floor"
    CEIL = "ceil"
    ROUND = "round"  # half to even
    EXP = "exp"
    EXP2 = "exp2"
    LOG = "log"
    LOG2 = "log2"
    SIN = "sin"
    COS = "cos"
    TAN = "tan"
    ASIN = "asin"
    ACOS = "acos"
    ATAN = "atan"
    SINH = "sinh"
    COSH = "cosh"
    TANH = "tanh"
    ASINH = "asinh"
    ACOSH = "acosh"
    ATANH = "atanh"
    ERF = "erf"
    CAST = "cast"  # to node.dtype; float to integer: toward zero, then modulo 2^n
    BITCAST = "bitcast"  # equal widths
    # Binary, equal shapes and dtypes (comparisons give bool)
    ADD = "add"
    SUB = "sub"
    MUL = "mul"
    DIV = "div"  # floats
    IDIV = "idiv"  # integers, toward zero; by zero gives 0
    MOD = "mod"  # integers, sign of the dividend; by zero gives 0
    MAX = "max"  # NaN if either is
    MIN = "min"
    POW = "pow"  # floats
    ATAN2 = "atan2"
    LT = "lt"
    EQ = "eq"
    NE = "ne"
    AND = "and"
    OR = "or"
    XOR = "xor"
    SHL = "shl"  # a count of the width or more gives 0
    SHR = "shr"  # arithmetic for signed; a count of the width or more gives 0 or the sign
    # Ternary
    WHERE = "where"  # src: bool condition, a, b
    FMA = "fma"  # a * b + c rounded once
    # Movement: value[i] = src[...]
    RESHAPE = "reshape"  # same element order
    PERMUTE = "permute"  # arg: axes; result axis k is source axis axes[k]
    EXPAND = "expand"  # source sizes of 1 repeat
    SLICE = (
        "slice"  # arg: per axis (start, count, step); source index start + i*step, step may be < 0
    )
    PAD = "pad"  # arg: per axis (low, high, interior) zeros before, after, between
    WINDOW = "window"  # arg: (axis, size, stride, dilation); see window()
    # Others
    INDEX = "index"  # src: data, then one integer node per axis of data, all of the result's shape
    REDUCE = "reduce"  # arg: (kind, axes); kind sum, prod, max or min; the axes vanish
    CONTIGUOUS = "contiguous"  # same value, in memory of its own
    COPY = "copy"  # same value on another device; arg: device name


LEAVES = frozenset({Op.BUFFER, Op.CONST, Op.IOTA, Op.VARIABLE})
MOVEMENT = frozenset({Op.RESHAPE, Op.PERMUTE, Op.EXPAND, Op.SLICE, Op.PAD, Op.WINDOW})
REDUCE_KINDS = ("sum", "prod", "max", "min")
_ORDER = list(Op)
UNARY = frozenset(_ORDER[_ORDER.index(Op.NEG) : _ORDER.index(Op.ADD)])
BINARY = frozenset(_ORDER[_ORDER.index(Op.ADD) : _ORDER.index(Op.WHERE)])
COMPARISONS = frozenset({Op.LT, Op.EQ, Op.NE})
ELEMENTWISE = UNARY | BINARY | {Op.WHERE, Op.FMA}


class Node:
    """One operation. Identity is identity: equal nodes built twice stay two nodes.

    `realized` is set once the value lies in memory (contiguous, row-major); the
    scheduler then treats the node as a leaf.
    """

    __slots__ = ("__weakref__", "arg", "device", "dtype", "op", "realized", "shape", "src")

    def __init__(
        self,
        op: Op,
        dtype: DType,
        shape: Shape,
        src: tuple["Node", ...] = (),
        arg: Any = None,
        device: str | None = None,
    ) -> None:
        self.op = op
        self.dtype = dtype
        self.shape = shape
        self.src = src
        self.arg = arg
        self.device: str = device if device is not None else src[0].device
        self.realized: Buffer | None = arg if op is Op.BUFFER else None

    @property
    def size(self) -> int:
        """Number of elements."""
        return prod(self.shape)

    def settle(self, buffer: "Buffer") -> None:
        """The value now lies in buffer."""
        self.realized = buffer

    def forget(self) -> None:
        """Drop how a realised value came about, and with it the memory it kept alive."""
        if self.realized is not None:
            self.src = ()

    def __repr__(self) -> str:
        arg = "" if self.arg is None or self.op is Op.BUFFER else f" {self.arg}"
        return f"<{self.op}{arg} {self.dtype.name}{list(self.shape)}>"


def walk(roots: Sequence[Node]) -> Iterator[Node]:
    """Every node the roots reach, sources before users, without recursion.

    Does not look behind realised nodes.
    """
    seen: set[int] = set()
    stack = [(root, False) for root in reversed(roots)]
    while stack:
        node, expanded = stack.pop()
        if expanded:
            yield node
        elif id(node) not in seen:
            seen.add(id(node))
            stack.append((node, True))
            if node.realized is None:
                stack.extend((source, False) for source in reversed(node.src))


# Constructors


def buffer(storage: "Buffer", shape: Shape, dtype: DType) -> Node:
    """A leaf over memory; storage holds exactly the elements of shape."""
    return Node(Op.BUFFER, dtype, shape, (), storage, storage.device)


def const(value: int | float | bool, dtype: DType, shape: Shape, device: str) -> Node:
    """One scalar everywhere. Integers are taken modulo 2^bits."""
    if dtype.is_int:
        value = int(value) % (1 << dtype.bits)
        value -= (value >> dtype.bits - 1 << dtype.bits) if dtype.kind == "i" else 0
    elif dtype.kind == "b":
        value = bool(value)
    return Node(Op.CONST, dtype, shape, (), value if dtype.kind != "f" else float(value), device)


def iota(shape: Shape, axis: int, dtype: DType, device: str) -> Node:
    """value[i] = i[axis]."""
    return Node(Op.IOTA, dtype, shape, (), axis, device)


def elementwise(op: Op, *src: Node) -> Node:
    """An operation per element; shapes equal, dtypes equal (but WHERE's condition)."""
    last = src[-1]
    dtype = dtypes.bool if op in COMPARISONS else last.dtype
    same = src[1:] if op is Op.WHERE else src
    if op not in ELEMENTWISE or any(s.shape != last.shape for s in src):
        raise ValueError(f"{op}: shapes {[s.shape for s in src]}")
    if any(s.dtype is not last.dtype for s in same):
        raise ValueError(f"{op}: dtypes {[s.dtype.name for s in src]}")
    return Node(op, dtype, last.shape, src)


def cast(src: Node, dtype: DType) -> Node:
    """The values converted; the node itself when nothing changes."""
    return src if src.dtype is dtype else Node(Op.CAST, dtype, src.shape, (src,))


def bitcast(src: Node, dtype: DType) -> Node:
    """The same bits as another type of equal width."""
    if src.dtype.itemsize != dtype.itemsize:
        raise ValueError(f"bitcast from {src.dtype.name} to {dtype.name}: widths differ")
    return src if src.dtype is dtype else Node(Op.BITCAST, dtype, src.shape, (src,))


def detach(src: Node) -> Node:
    """The same value as a node of its own, at which gradients stop: a bitcast to its own type."""
    return Node(Op.BITCAST, src.dtype, src.shape, (src,), "detach")


def reshape(src: Node, shape: Shape) -> Node:
    """The same elements in another shape."""
    if prod(shape) != src.size:
        raise ValueError(f"reshape {src.shape} to {shape}")
    return src if shape == src.shape else Node(Op.RESHAPE, src.dtype, shape, (src,))


def permute(src: Node, axes: tuple[int, ...]) -> Node:
    """Axes in another order: result axis k is source axis axes[k]."""
    if sorted(axes) != list(range(len(src.shape))):
        raise ValueError(f"permute {src.shape} by {axes}")
    if axes == tuple(range(len(axes))):
        return src
    return Node(Op.PERMUTE, src.dtype, tuple(src.shape[a] for a in axes), (src,), axes)


def expand(src: Node, shape: Shape) -> Node:
    """Sizes of 1 repeated; ranks are equal."""
    pairs = list(zip(src.shape, shape, strict=True))
    if any(old not in (new, 1) for old, new in pairs):
        raise ValueError(f"expand {src.shape} to {shape}")
    return src if shape == src.shape else Node(Op.EXPAND, src.dtype, shape, (src,))


def slice_(src: Node, parts: tuple[tuple[int, int, int], ...]) -> Node:
    """Per axis (start, count, step); every touched index lies inside."""
    for (start, count, step), size in zip(parts, src.shape, strict=True):
        end = start + (count - 1) * step
        if count < 0 or (count and not (0 <= start < size and 0 <= end < size)):
            raise ValueError(f"slice {src.shape} by {parts}")
    if all(p == (0, n, 1) for p, n in zip(parts, src.shape, strict=True)):
        return src
    return Node(Op.SLICE, src.dtype, tuple(count for _, count, _ in parts), (src,), parts)


def pad(src: Node, parts: tuple[tuple[int, int, int], ...]) -> Node:
    """Per axis (low, high, interior) zeros: before, after, between neighbours."""
    if any(p < 0 for part in parts for p in part):
        raise ValueError(f"pad {src.shape} by {parts}")
    shape = tuple(
        low + n + max(n - 1, 0) * inner + high
        for (low, high, inner), n in zip(parts, src.shape, strict=True)
    )
    return src if shape == src.shape else Node(Op.PAD, src.dtype, shape, (src,), parts)


def window(src: Node, axis: int, size: int, stride: int = 1, dilation: int = 1) -> Node:
    """Axis becomes (out, size): result[.., o, k, ..] = src[.., o*stride + k*dilation, ..]."""
    reach = (size - 1) * dilation + 1
    if size < 1 or stride < 1 or dilation < 1 or reach > src.shape[axis]:
        raise ValueError(f"window of {size} (dilation {dilation}) on axis {axis} of {src.shape}")
    out = (src.shape[axis] - reach) // stride + 1
    shape = (*src.shape[:axis], out, size, *src.shape[axis + 1 :])
    return Node(Op.WINDOW, src.dtype, shape, (src,), (axis, size, stride, dilation))


def index(data: Node, *indexes: Node) -> Node:
    """result[i] = data[indexes[0][i], indexes[1][i], ...]; one index per axis of data.

    An index outside its axis reads as zero.
    """
    shape = indexes[0].shape
    if len(indexes) != len(data.shape) or any(n.shape != shape for n in indexes):
        raise ValueError(f"index {data.shape} by {[n.shape for n in indexes]}")
    return Node(Op.INDEX, data.dtype, shape, (data, *indexes))


def reduce(src: Node, kind: str, axes: tuple[int, ...]) -> Node:
    """Reduce axes away, accumulating in the node's own dtype. Empty axes: the source."""
    if kind not in REDUCE_KINDS or any(not 0 <= a < len(src.shape) for a in axes):
        raise ValueError(f"reduce {kind} of {src.shape} over {axes}")
    if not axes:
        return src
    shape = tuple(n for a, n in enumerate(src.shape) if a not in axes)
    return Node(Op.REDUCE, src.dtype, shape, (src,), (kind, tuple(sorted(axes))))


def contiguous(src: Node) -> Node:
    """The value in memory of its own."""
    return Node(Op.CONTIGUOUS, src.dtype, src.shape, (src,))


def copy(src: Node, device: str) -> Node:
    """The value on another device."""
    return (
        src if src.device == device else Node(Op.COPY, src.dtype, src.shape, (src,), device, device)
    )
