"""Reverse-mode gradients: one table, operation -> gradients of its sources.

Works on graph nodes. A node that has no entry stops the gradient, as do integer
and bool values. Where the incoming gradient is 0 the result is 0, also where the
derivative is infinite: a branch that where() did not take never gives NaN.
"""

import math
from collections.abc import Callable, Sequence

from jit import graph
from jit.dtype import dtypes
from jit.graph import Node, Op
from tensor.errors import TensorError

Rule = Callable[[Node, Node], tuple[Node | None, ...]]
RULES: dict[Op, Rule] = {}


def gradients(order: Sequence[Node], seed: Node, targets: Sequence[Node]) -> list[Node | None]:
    """d(output)/d(target) for each target; None if unreached.

    order: below(output), output last. seed: the gradient of output.
    """
    output = order[-1]
    wanted = {id(t) for t in targets}
    leads: set[int] = set()
    for node in order:  # sources first: does a target lie below?
        if id(node) in wanted or any(id(s) in leads for s in node.src):
            leads.add(id(node))
    found: dict[int, Node] = {id(output): seed}
    kept: dict[int, Node] = {}
    for node in reversed(order):
        grad = found.pop(id(node), None)
        if grad is None or id(node) not in leads:
            continue
        if id(node) in wanted:
            kept[id(node)] = grad
        _spread(node, grad, leads, found)
    return [kept.get(id(t)) for t in targets]


def _spread(node: Node, grad: Node, leads: set[int], found: dict[int, Node]) -> None:
    rule = RULES.get(node.op)
    if rule is None or not node.dtype.is_float or not node.src:  # no src: history forgotten
        return
    for source, part in zip(node.src, rule(node, grad), strict=True):
        if part is None or id(source) not in leads or not source.dtype.is_float:
            continue
        before = found.get(id(source))
        found[id(source)] = part if before is None else graph.elementwise(Op.ADD, before, part)


def below(*outputs: Node) -> list[Node]:
    """Every node at or below the outputs, sources first, realised ones included; no recursion."""
    seen: set[Node] = set()
    result: list[Node] = []
    stack: list[tuple[Node, bool]] = [(node, False) for node in outputs]
    while stack:
        node, is_after = stack.pop()
        if is_after:
            result.append(node)
        elif node not in seen:
            seen.add(node)
            stack.append((node, True))
            for source in node.src:
                if source not in seen:
                    stack.append((source, False))
    return result


def dependent(outputs: Sequence[Node], targets: set[int]) -> set[int]:
    """The ids of the nodes at or below outputs that reach a node with an id in targets."""
    found: set[int] = set()
    for node in below(*outputs) if targets else ():
        if id(node) in targets or any(id(s) in found for s in node.src):
            found.add(id(node))
    return found


# Shorthands


def _const(like: Node, value: float) -> Node:
    return graph.const(value, like.dtype, like.shape, like.device)


def _mul(a: Node, b: Node | float) -> Node:
    return graph.elementwise(Op.MUL, a, b if isinstance(b, Node) else _const(a, b))


def _add(a: Node, b: Node | float) -> Node:
    return graph.elementwise(Op.ADD, a, b if isinstance(b, Node) else _const(a, b))


def _sub(a: Node | float, b: Node) -> Node:
    return graph.elementwise(Op.SUB, a if isinstance(a, Node) else _const(b, a), b)


def _div(a: Node, b: Node | float) -> Node:
    return graph.elementwise(Op.DIV, a, b if isinstance(b, Node) else _const(a, b))


def _un(op: Op, a: Node) -> Node:
    return graph.elementwise(op, a)


def _where(condition: Node, a: Node, b: Node | float) -> Node:
    return graph.elementwise(Op.WHERE, condition, a, b if isinstance(b, Node) else _const(a, b))


def _is(op: Op, a: Node, b: Node | float) -> Node:
    return graph.elementwise(op, a, b if isinstance(b, Node) else _const(a, b))


def _guarded(grad: Node, result: Node) -> Node:
    """result, but 0 where nothing arrives."""
    return _where(_is(Op.EQ, grad, 0.0), _const(grad, 0.0), result)


def _rule(*ops: Op) -> Callable[[Rule], Rule]:
    def register(function: Rule) -> Rule:
        for op in ops:
            if op in RULES:
                raise TensorError(f"{op} has two gradient rules")
            RULES[op] = function
        return function

    return register


# Unary: derivative from the source x and the result y

_DERIVATIVES: dict[Op, Callable[[Node, Node], Node]] = {
    Op.EXP: lambda x, y: y,
    Op.EXP2: lambda x, y: _mul(y, math.log(2)),
    Op.LOG: lambda x, y: _div(_const(x, 1.0), x),
    Op.LOG2: lambda x, y: _div(_const(x, 1 / math.log(2)), x),
    Op.SQRT: lambda x, y: _div(_const(y, 0.5), y),
    Op.SIN: lambda x, y: _un(Op.COS, x),
    Op.COS: lambda x, y: _un(Op.NEG, _un(Op.SIN, x)),
    Op.TAN: lambda x, y: _add(_mul(y, y), 1.0),
    Op.ASIN: lambda x, y: _div(_const(x, 1.0), _un(Op.SQRT, _sub(1.0, _mul(x, x)))),
    Op.ACOS: lambda x, y: _div(_const(x, -1.0), _un(Op.SQRT, _sub(1.0, _mul(x, x)))),
    Op.ATAN: lambda x, y: _div(_const(x, 1.0), _add(_mul(x, x), 1.0)),
    Op.SINH: lambda x, y: _un(Op.COSH, x),
    Op.COSH: lambda x, y: _un(Op.SINH, x),
    Op.TANH: lambda x, y: _sub(1.0, _mul(y, y)),
    Op.ASINH: lambda x, y: _div(_const(x, 1.0), _un(Op.SQRT, _add(_mul(x, x), 1.0))),
    Op.ACOSH: lambda x, y: _div(_const(x, 1.0), _un(Op.SQRT, _add(_mul(x, x), -1.0))),
    Op.ATANH: lambda x, y: _div(_const(x, 1.0), _sub(1.0, _mul(x, x))),
    Op.ERF: lambda x, y: _mul(_un(Op.EXP, _un(Op.NEG, _mul(x, x))), 2 / math.sqrt(math.pi)),
}


@_rule(*_DERIVATIVES)
def _unary(node: Node, grad: Node) -> tuple[Node | None, ...]:
    return (_guarded(grad, _mul(grad, _DERIVATIVES[node.op](node.src[0], node))),)


@_rule(Op.NEG)
def _neg(node: Node, grad: Node) -> tuple[Node | None, ...]:
    return (_un(Op.NEG, grad),)


@_rule(Op.ABS)
def _abs(node: Node, grad: Node) -> tuple[Node | None, ...]:
    (x,) = node.src
    return (
        _where(
            _is(Op.LT, x, 0.0),
            _un(Op.NEG, grad),
            _where(_is(Op.EQ, x, 0.0), _const(grad, 0.0), grad),
        ),
    )


@_rule(Op.CAST)
def _cast(node: Node, grad: Node) -> tuple[Node | None, ...]:
    source = node.src[0]
    return (graph.cast(grad, source.dtype) if source.dtype.is_float else None,)


# Binary and ternary


@_rule(Op.ADD)
def _add_rule(node: Node, grad: Node) -> tuple[Node | None, ...]:
    return grad, grad


@_rule(Op.SUB)
def _sub_rule(node: Node, grad: Node) -> tuple[Node | None, ...]:
    return grad, _un(Op.NEG, grad)


@_rule(Op.MUL)
def _mul_rule(node: Node, grad: Node) -> tuple[Node | None, ...]:
    a, b = node.src
    return _mul(grad, b), _mul(grad, a)


@_rule(Op.DIV)
def _div_rule(node: Node, grad: Node) -> tuple[Node | None, ...]:
    _, b = node.src
    above = _guarded(grad, _div(grad, b))
    return above, _guarded(grad, _un(Op.NEG, _div(_mul(grad, node), b)))


@_rule(Op.MAX, Op.MIN)
def _extreme(node: Node, grad: Node) -> tuple[Node | None, ...]:
    a, b = node.src
    low, high = (a, b) if node.op is Op.MIN else (b, a)
    half = _where(_is(Op.EQ, a, b), _mul(grad, 0.5), 0.0)
    chosen = _is(Op.LT, low, high)
    return _where(chosen, grad, half), _where(_is(Op.LT, high, low), grad, half)


@_rule(Op.POW)
def _pow(node: Node, grad: Node) -> tuple[Node | None, ...]:
    a, b = node.src
    base = _mul(b, graph.elementwise(Op.POW, a, _add(b, -1.0)))
    base = _where(_is(Op.EQ, b, 0.0), _const(b, 0.0), base)
    power = _where(_is(Op.EQ, a, 0.0), _const(a, 0.0), _mul(node, _un(Op.LOG, a)))
    return _guarded(grad, _mul(grad, base)), _guarded(grad, _mul(grad, power))


@_rule(Op.ATAN2)
def _atan2(node: Node, grad: Node) -> tuple[Node | None, ...]:
    y, x = node.src
    length = _add(_mul(x, x), _mul(y, y))
    return (
        _guarded(grad, _div(_mul(grad, x), length)),
        _guarded(grad, _un(Op.NEG, _div(_mul(grad, y), length))),
    )


@_rule(Op.WHERE)
def _where_rule(node: Node, grad: Node) -> tuple[Node | None, ...]:
    condition = node.src[0]
    zero = _const(grad, 0.0)
    return None, _where(condition, grad, zero), _where(condition, zero, grad)


@_rule(Op.FMA)
def _fma(node: Node, grad: Node) -> tuple[Node | None, ...]:
    a, b, _ = node.src
    return _mul(grad, b), _mul(grad, a), grad


# Movement


@_rule(Op.RESHAPE)
def _reshape(node: Node, grad: Node) -> tuple[Node | None, ...]:
    return (graph.reshape(grad, node.src[0].shape),)


@_rule(Op.PERMUTE)
def _permute(node: Node, grad: Node) -> tuple[Node | None, ...]:
    axes = node.arg
    return (graph.permute(grad, tuple(axes.index(i) for i in range(len(axes)))),)


@_rule(Op.EXPAND)
def _expand(node: Node, grad: Node) -> tuple[Node | None, ...]:
    source = node.src[0]
    axes = tuple(i for i, (a, b) in enumerate(zip(source.shape, node.shape, strict=True)) if a != b)
    return (graph.reshape(graph.reduce(grad, "sum", axes), source.shape),)


@_rule(Op.SLICE)
def _slice(node: Node, grad: Node) -> tuple[Node | None, ...]:
    source = node.src[0]
    if not node.size:
        return (_zeros_like(source),)
    upward, spread = [], []
    for (start, count, step), size in zip(node.arg, source.shape, strict=True):
        upward.append((count - 1, count, -1) if step < 0 else (0, count, 1))
        low = start if step > 0 else start + (count - 1) * step
        reach = (count - 1) * abs(step) + 1
        spread.append((low, size - low - reach, abs(step) - 1))
    return (graph.pad(graph.slice_(grad, tuple(upward)), tuple(spread)),)


def _zeros_like(node: Node) -> Node:
    return graph.const(0.0, node.dtype, node.shape, node.device)


@_rule(Op.PAD)
def _pad(node: Node, grad: Node) -> tuple[Node | None, ...]:
    source = node.src[0]
    if not source.size:
        return (_zeros_like(source),)
    parts = zip(node.arg, source.shape, strict=True)
    return (graph.slice_(grad, tuple((low, n, inner + 1) for (low, _, inner), n in parts)),)


@_rule(Op.WINDOW)
def _window(node: Node, grad: Node) -> tuple[Node | None, ...]:
    _, size, stride, dilation = node.arg
    return (_side_by_side if dilation == 1 and stride >= size else _overlapping)(node, grad)


def _side_by_side(node: Node, grad: Node) -> tuple[Node | None, ...]:
    """Windows that share no element: lay them next to each other."""
    source = node.src[0]
    axis, size, stride, _ = node.arg
    gaps = [(0, 0, 0)] * len(node.shape)
    gaps[axis + 1] = (0, stride - size, 0)
    length = node.shape[axis] * stride
    row = graph.reshape(
        graph.pad(grad, tuple(gaps)), (*source.shape[:axis], length, *source.shape[axis + 1 :])
    )
    # The last gap may reach past the source, or windows may end before it.
    keep = [(0, n, 1) for n in row.shape]
    keep[axis] = (0, min(length, source.shape[axis]), 1)
    ends = [(0, 0, 0)] * len(source.shape)
    ends[axis] = (0, max(source.shape[axis] - length, 0), 0)
    return (graph.pad(graph.slice_(row, tuple(keep)), tuple(ends)),)


def _overlapping(node: Node, grad: Node) -> tuple[Node | None, ...]:
    """The sum over the places in a window, each spread to where it was read."""
    source = node.src[0]
    axis, size, stride, dilation = node.arg
    out = node.shape[axis]
    total: Node | None = None
    for k in range(size):
        at = [(0, n, 1) for n in node.shape]
        at[axis + 1] = (k, 1, 1)
        part = graph.slice_(grad, tuple(at))
        part = graph.reshape(part, (*node.shape[: axis + 1], *node.shape[axis + 2 :]))
        low = k * dilation
        high = source.shape[axis] - low - ((out - 1) * stride + 1)
        ends = [(0, 0, 0)] * len(source.shape)
        ends[axis] = (low, high, stride - 1)
        part = graph.pad(part, tuple(ends))
        total = part if total is None else _add(total, part)
    return (total,)


# Others


@_rule(Op.INDEX)
def _index(node: Node, grad: Node) -> tuple[Node | None, ...]:
    data, *indexes = node.src
    return (scatter_add(grad, indexes, data.shape), *(None for _ in indexes))


def scatter_add(values: Node, indexes: Sequence[Node], shape: tuple[int, ...]) -> Node:
    """result[d] = sum of values[i] over all i whose indexes are d: by comparison, no atomics.

    An index that merely counts along an axis of values stays that axis.
    """
    own: dict[int, int] = {}  # axis of the result -> axis of values it counts along
    for axis, node in enumerate(indexes):
        if (
            node.op is Op.IOTA
            and values.shape[node.arg] == shape[axis]
            and node.arg not in own.values()
        ):
            own[axis] = node.arg
    compared = [axis for axis in range(len(shape)) if axis not in own]
    summed = [i for i in range(len(values.shape)) if i not in own.values()]
    # Axes: the compared result axes, then those of values.
    lead = tuple(shape[a] for a in compared)
    full = (*lead, *values.shape)

    def spread(node: Node) -> Node:
        return graph.expand(graph.reshape(node, (1,) * len(lead) + node.shape), full)

    total = spread(values)
    for place, axis in enumerate(compared):
        index = spread(indexes[axis])
        hit = graph.elementwise(Op.EQ, index, graph.iota(full, place, index.dtype, values.device))
        total = _where(hit, total, 0.0)
    total = graph.reduce(total, "sum", tuple(len(lead) + i for i in summed))
    kept = [i for i in range(len(values.shape)) if i not in summed]
    places = [
        len(lead) + kept.index(own[a]) if a in own else compared.index(a) for a in range(len(shape))
    ]
    return graph.permute(total, tuple(places))


@_rule(Op.REDUCE)
def _reduce(node: Node, grad: Node) -> tuple[Node | None, ...]:
    source = node.src[0]
    kind, axes = node.arg
    ones = tuple(1 if a in axes else n for a, n in enumerate(source.shape))

    def wide(n: Node) -> Node:
        return graph.expand(graph.reshape(n, ones), source.shape)

    if kind == "sum":
        return (wide(grad),)
    if kind == "prod":
        return (_guarded(wide(grad), _div(_mul(wide(grad), wide(node)), source)),)
    # Ties share evenly; counted in float32 so that a half does not lose count.
    best = _is(Op.EQ, source, wide(node))
    count = graph.reduce(graph.cast(best, dtypes.float32), "sum", axes)
    share = graph.cast(_div(graph.cast(grad, dtypes.float32), count), grad.dtype)
    return (_where(best, wide(share), 0.0),)


@_rule(Op.CONTIGUOUS)
def _contiguous(node: Node, grad: Node) -> tuple[Node | None, ...]:
    return (grad,)


@_rule(Op.COPY)
def _copy(node: Node, grad: Node) -> tuple[Node | None, ...]:
    return (graph.copy(grad, node.src[0].device),)
