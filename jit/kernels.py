"""Kernels that were lowered before, found again by the shape of the graph they came from.

Equal layers of a network are lowered once. The key holds operations, shapes, types and
how nodes are connected, and for memory only which of it is the same; so buffers and
variables never mix.
"""

from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from jit.emit import Emitted, Memory, emit, options
from jit.graph import Node, Op
from jit.lower import Lowering, Root

_LIMIT = 4096  # kernels remembered


@dataclass
class Counters:
    """How much work scheduling was; for tests and for the curious."""

    scheduled: int = 0  # graphs scheduled from scratch
    found: int = 0  # graphs whose schedule was known
    lowered: int = 0  # kernels lowered
    reused: int = 0  # kernels found lowered


counters = Counters()
_known: OrderedDict[tuple[Any, ...], Emitted] = OrderedDict()


def node_key(node: Node) -> tuple[Any, ...]:
    """What distinguishes a node besides its sources. Floats by their text: 0.0 is not -0.0."""
    arg = node.arg
    if node.op is Op.CONST:
        arg = repr(arg)
    elif node.op is Op.VARIABLE:
        arg = arg[:3]
    return node.op, node.dtype.name, node.shape, arg


def lower_kernel(
    roots: Sequence[Root],
    slots: Mapping[int, int],
    memory: Mapping[int, Memory],
    absorbed: Mapping[int, tuple[Node, ...]],
) -> Emitted:
    """The kernel that computes roots. slots: where nodes with memory lie, by id of the node."""
    key, local = _signature(roots, slots, memory, absorbed)
    numbers = {slot: n for n, slot in enumerate(local)}
    found = _known.get(key)
    if found is None:
        mine = [Root(r.node, numbers[r.slot], r.view) for r in roots]

        def slot_of(node: Node) -> int | None:
            slot = slots.get(id(node))
            return None if slot is None else numbers[slot]

        body = Lowering(slot_of, absorbed).run(mine)
        found = emit(body, {n: memory[slot] for slot, n in numbers.items()})
        counters.lowered += 1
        _known[key] = found
        if len(_known) > _LIMIT:
            _known.popitem(last=False)
    else:
        counters.reused += 1
    return replace(
        found,
        slots=tuple(local[n] for n in found.slots),
        misread=frozenset(local[n] for n in found.misread),
    )


def _signature(
    roots: Sequence[Root],
    slots: Mapping[int, int],
    memory: Mapping[int, Memory],
    absorbed: Mapping[int, tuple[Node, ...]],
) -> tuple[tuple[Any, ...], list[int]]:
    """The key of a kernel's graph, and its slots in the order they are met."""
    computed = {id(root.node) for root in roots}
    numbers: dict[int, int] = {}
    local: dict[int, int] = {}
    rows: list[tuple[Any, ...]] = []
    starts = [n for root in roots for n in (root.node, root.view) if n is not None]
    stack = [(node, False) for node in reversed(starts)]
    while stack:
        node, expanded = stack.pop()
        if id(node) in numbers:
            continue
        slot = None if id(node) in computed else slots.get(id(node))
        if slot is not None:
            numbers[id(node)] = len(rows)
            rows.append(("memory", node.shape, node.dtype.name, local.setdefault(slot, len(local))))
        elif expanded or not node.src:
            numbers[id(node)] = len(rows)
            sources = tuple(numbers[id(s)] for s in node.src)
            rows.append((*node_key(node), sources, len(absorbed.get(id(node), ()))))
        else:
            stack.append((node, True))
            stack.extend((s, False) for s in reversed(node.src) if id(s) not in numbers)
    ends = tuple(
        (
            numbers[id(root.node)],
            local.setdefault(root.slot, len(local)),
            None if root.view is None else numbers[id(root.view)],
        )
        for root in roots
    )
    kinds = tuple((memory[slot].dtype.name, memory[slot].count) for slot in local)
    return (tuple(rows), ends, kinds, options()), list(local)
