"""Tensor: a lazy array on a device.

Nothing runs until a value is asked for. Construction, realisation, writing in
place, data access and gradients are here; the operations are in the files of
their kinds.
"""

import weakref
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from math import prod
from typing import Any, Self

from hcq import settings
from jit import graph
from jit.dtype import Kind, dtypes, to_dtype
from jit.graph import MOVEMENT, Node, walk
from tensor import autograd, core
from tensor.conversion import Conversion
from tensor.creation import device_name, from_data, upload
from tensor.errors import TensorError
from tensor.random import Random

# Operations that show elements of their source, each at most once: they can be written through.
_SHOWS = frozenset({graph.Op.RESHAPE, graph.Op.PERMUTE, graph.Op.SLICE, graph.Op.BITCAST})
_VIEWS = MOVEMENT | _SHOWS
_KINDS = {"b": 0, "u": 1, "i": 1, "f": 2}  # of types, in the order in which they widen
_SHORT = 8  # elements that a repr shows

# Nodes whose contents were overwritten.
_stale: "weakref.WeakSet[Node]" = weakref.WeakSet()


class _TrainingMode(type):
    """Tensor.training reads and sets the TRAINING setting of this process."""

    @property
    def training(cls) -> bool:
        return bool(settings.get("TRAINING"))

    @training.setter
    def training(cls, value: bool) -> None:
        import os

        os.environ["TRAINING"] = str(int(value))


class train(settings.Context):
    """`with Tensor.train():` sets training mode for a block."""

    def __init__(self, mode: bool = True) -> None:
        super().__init__(TRAINING=int(mode))


class Tensor(Random, Conversion, metaclass=_TrainingMode):
    """Tensor(data, device=None, dtype=None, requires_grad=None).

    data: a number, nested lists, bytes, a numpy array, a Tensor or None.
    """

    __slots__ = ()
    train = train

    def __init__(
        self,
        data: Any,
        device: str | None = None,
        dtype: Kind | None = None,
        requires_grad: bool | None = None,
    ) -> None:
        kind = None if dtype is None else to_dtype(dtype)
        if isinstance(data, Tensor):
            moved = data if device is None else data.to(device)
            self.node = moved.node if kind is None else graph.cast(moved.node, kind)
        elif isinstance(data, Node):
            self.node = data
        else:
            self.node = from_data(data, kind, device_name(device))
        self.grad = None
        self.requires_grad = None
        core.register(self)
        if requires_grad is not None:
            self.requires_grad_(requires_grad)

    def requires_grad_(self, requires_grad: bool = True) -> Self:
        """Whether backward() fills in this tensor's gradient."""
        if requires_grad and not self.dtype.is_float:
            raise TensorError(f"a tensor of {self.dtype.name} has no gradient")
        self.requires_grad = requires_grad
        return self

    def is_param_(self, is_param: bool = True) -> Self:
        return self.requires_grad_(is_param)

    # Realisation

    def realize(self, *others: "Tensor") -> Self:
        """Compute now. A mere view of storage, or of what other tensors show too, stays one."""
        handles: list[Tensor] = [self, *others]
        wanted = [t.node for t in handles if t.node.realized is None and not _is_view(t.node)]
        if wanted:
            assign_all([], also=_shared(wanted))
        return self

    def contiguous(self) -> Self:
        """The value in memory of its own once computed."""
        return self.of(graph.contiguous(self.node))

    def contiguous_backward(self) -> Self:
        return self

    def clone(self) -> Self:
        """A copy that shares nothing."""
        return self.contiguous()

    def to(self, device: str | None) -> Self:
        """The value on another device."""
        moved = graph.copy(self.node, device_name(device))
        return self if moved is self.node else self.of(moved, self.requires_grad)

    def to_(self, device: str | None) -> Self:
        return self.replace(self.to(device))

    def replace(self, x: "Tensor") -> Self:
        """Let this handle stand for the value of x."""
        self.node = x.node
        return self

    # Writing in place

    def assign(self, x: Any) -> Self:
        """Overwrite the storage with x, broadcast and cast; every handle on it sees it."""
        assign_all([(self, x)])
        return self

    def __setitem__(self, key: Any, value: Any) -> None:
        _give_storage([self])
        target = self[key]
        if _is_view(target.node) or target.node.realized is not None:
            if not (isinstance(value, Tensor) and value.node is target.node):
                assign_all([(target, value)])
            return
        self.assign(self._with_items(key, value))

    def _with_items(self, key: Any, value: Any) -> "Tensor":
        """This tensor with value at positions given by tensors."""
        # Counted from 1: a position outside reads 0, and is then put where nothing is written.
        kind = dtypes.int32 if self.numel() < 1 << 31 else dtypes.int64
        place = Tensor.arange(1, self.numel() + 1, dtype=kind, device=self.device)
        found = place.reshape(self.shape)[key].flatten()
        places = found.eq(0).where(self.numel(), found - 1)
        given = _of_kind(self, self.operand(value))
        source = given.expand_to(self[key].shape).flatten()
        return self.flatten().scatter(0, places, source).reshape(self.shape)

    def __iadd__(self, x: Any) -> Self:
        return self.assign(self.add(x))

    def __isub__(self, x: Any) -> Self:
        return self.assign(self.sub(x))

    def __imul__(self, x: Any) -> Self:
        return self.assign(self.mul(x))

    def __itruediv__(self, x: Any) -> Self:
        return self.assign(self.div(x))

    # Data access

    def data(self) -> memoryview:
        """The elements as bytes in row-major order."""
        # What stays a view has its storage's memory, in another order.
        x = self.realize()
        if x.node.realized is None:
            x = self.of(graph.contiguous(self.node)).realize()
        storage = x.node.realized
        if storage is None or not self.numel():
            return memoryview(bytearray())
        return memoryview(storage.copy_out())

    def numpy(self) -> Any:
        """A writable numpy copy; bfloat16 comes as float32."""
        import numpy

        if self.dtype is dtypes.bfloat16:
            return self.cast(dtypes.float32).numpy()
        return numpy.frombuffer(self.data(), self.dtype.numpy).reshape(self.shape)

    def __array__(self, dtype: Any = None, copy: Any = None) -> Any:
        array = self.numpy()
        return array if dtype is None else array.astype(dtype)

    def tolist(self) -> Any:
        """Nested lists of Python numbers."""
        return self.numpy().tolist()

    def item(self) -> Any:
        """The one element as a Python number."""
        if self.numel() != 1:
            raise TensorError(
                f"item() of {self.numel()} elements", facts={"shape": list(self.shape)}
            )
        return self.numpy().reshape(()).item()

    def __float__(self) -> float:
        return float(self.item())

    def __int__(self) -> int:
        return int(self.item())

    def sequential(self, layers: Sequence[Callable[[Any], Any]]) -> Any:
        """What the layers make of this tensor, one after the other."""
        x: Any = self
        for layer in layers:
            x = layer(x)
        return x

    def __iter__(self) -> Iterator[Self]:
        return (self[i] for i in range(len(self)))

    def __format__(self, spec: str) -> str:
        """As the one element is formatted; without a spec as str()."""
        return format(self.item(), spec) if spec else str(self)

    def __repr__(self) -> str:
        """Dtype, shape and device; of a few values that the processor has at hand those too."""
        return f"<Tensor {self.dtype.name}{list(self.shape)} on {self.device}{self._shown()}>"

    def _shown(self) -> str:
        storage = self.node.realized
        at_hand = storage is not None and self.device.partition(":")[0] == "CPU"
        is_few = 0 < self.numel() <= _SHORT and self.dtype is not dtypes.bfloat16
        if storage is None or not (at_hand and is_few and storage.is_initialized):
            return ""
        import numpy

        array = numpy.frombuffer(storage.host_view(), self.dtype.numpy).reshape(self.shape)
        text: str = numpy.array2string(array, precision=4, separator=", ")
        return " " + text.replace("\n", "")

    # Copies

    def __copy__(self) -> Self:
        """Another handle on the same value."""
        return self.of(self.node, self.requires_grad)

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        """A copy that shares nothing, computed now; gradients end at it."""
        from copy import deepcopy

        made = self.of(graph.contiguous(graph.detach(self.node))).realize()
        storage = made.node.realized
        if storage is not None:  # without how it came about
            made.node = graph.buffer(storage, self.shape, self.dtype)
        made.requires_grad = self.requires_grad
        memo[id(self)] = made
        made.grad = deepcopy(self.grad, memo)
        return made

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickled are contents, shape, dtype, device and requires_grad, not the gradient."""
        parts = (bytes(self.data()), self.shape, self.dtype.name, self.device, self.requires_grad)
        return _unpickled, (type(self), *parts)

    # Gradients

    def gradient(self, *targets: "Tensor", gradient: "Tensor | None" = None) -> list["Tensor"]:
        """d(self)/d(target) for each target; self has one element unless gradient is given."""
        seed = self._seed(gradient)
        found = autograd.gradients(autograd.below(self.node), seed, [t.node for t in targets])
        for target, grad in zip(targets, found, strict=True):
            if grad is None:
                raise TensorError(f"{self!r} does not depend on {target!r}")
        return [Tensor(g) for g in found if g is not None]

    def _seed(self, gradient: "Tensor | None") -> Node:
        if not self.dtype.is_float:
            raise TensorError(f"gradient of a {self.dtype.name} tensor: only floats have one")
        if gradient is None and prod(self.shape) != 1:
            raise TensorError(
                f"gradient of shape {list(self.shape)}: reduce it to one element, "
                "or give the gradient"
            )
        if gradient is None:
            return self.constant(1.0).node
        return gradient.cast(self.dtype).expand_to(self.shape).node

    def backward(self, gradient: "Tensor | None" = None) -> Self:
        """Add the gradient of self to `.grad` of every tensor that requires one."""
        seed = self._seed(gradient)
        below = autograd.below(self.node)
        if any(n in _stale for n in below):
            raise TensorError(
                "a value this depends on was overwritten since",
                hint="call backward() before assign() or the optimizer's step()",
            )
        ids = {id(n) for n in below}
        targets = [t for t in core.live() if t.requires_grad and id(t.node) in ids]
        found = autograd.gradients(below, seed, [t.node for t in targets])
        for target, grad in zip(targets, found, strict=True):
            if grad is not None:
                part = Tensor(graph.cast(grad, target.dtype))
                target.grad = part if target.grad is None else target.grad + part
        return self


def _unpickled(
    kind: type[Tensor],
    data: bytes,
    shape: tuple[int, ...],
    dtype: str,
    device: str,
    requires_grad: bool | None,
) -> Tensor:
    """The tensor that __reduce__ took apart."""
    import numpy

    element = to_dtype(dtype)
    array = numpy.frombuffer(data, element.numpy).reshape(shape)
    return kind.of(upload(array, element, device_name(device)), requires_grad)


def _is_view(node: Node) -> bool:
    """Whether a node only shows storage, rearranged or as another type: it follows the storage."""
    if node.op not in _VIEWS:
        return False
    while node.realized is None and node.op in _VIEWS:
        node = node.src[0]
    return node.realized is not None


# Writes that go along with the next thing computed: (target, new value).
_later: "list[tuple[Tensor, Node]]" = []


def update_later(target: Tensor, change: Callable[[Tensor], Tensor]) -> None:
    """Overwrite target with change(target) together with the next values computed.

    For statistics that a layer keeps on the side: one schedule computes both.
    """
    if any(t.node is target.node for t, _ in _later):
        assign_all([])
    _later.append((target, change(target).node))


def assign_all(pairs: "Sequence[tuple[Tensor, Any]]", also: Sequence[Node] = ()) -> None:
    """Overwrite several tensors at once; every new value is computed from the old contents.

    Live tensors that still wait for old contents, and the nodes of `also`, are
    computed in the same schedule. A value given as a node is nobody's to read
    afterwards, so it is written once, where it belongs.
    """
    pairs = [*_later, *pairs]
    _later.clear()
    _give_storage([target for target, _ in pairs])
    values = [(target, _fitting(target, value)) for target, value in pairs]
    writes = [_as_stored(t.node, value) for t, value in values if value is not t.node and t.numel()]
    roots = list({id(_storage(node)): _storage(node) for node, _ in writes}.values())
    _run([*also, *_waiting(roots)], writes)
    for root in roots:
        _renew(root)


def _run(nodes: Sequence[Node], writes: Sequence[tuple[Node, Node]]) -> None:
    """Compute nodes and carry out writes; history that no gradient needs is forgotten."""
    from jit.realize import realize

    unique = list({id(n): n for n in nodes}.values())
    realize(unique, writes)
    wanted = {id(t.node) for t in core.live() if t.requires_grad}
    needed = autograd.dependent(unique, wanted)
    for node in unique:
        if id(node) not in needed:
            node.forget()


def _fitting(target: Tensor, value: Any) -> Node:
    given = Tensor(value) if isinstance(value, Node) else target.operand(value)
    source = given.to(target.device)
    return _of_kind(target, source).expand_to(target.shape).node


def _of_kind(target: Tensor, value: Tensor) -> Tensor:
    """The value in the target's dtype; TensorError where that is of a lesser kind."""
    if _KINDS[value.dtype.kind] > _KINDS[target.dtype.kind]:
        raise TensorError(
            f"{value.dtype.name} cannot be written into a tensor of {target.dtype.name}",
            facts={"value": value.dtype.name, "target": target.dtype.name},
            hint=f"cast the value to {target.dtype.name}, or make a new tensor: x = x + y",
        )
    return value.cast(target.dtype)


def _as_stored(target: Node, value: Node) -> tuple[Node, Node]:
    """A write to a view as another type is one of the same bits in the type of the storage."""
    path = []
    node = target
    while node.realized is None and node.op in _SHOWS:
        path.append(node)
        node = node.src[0]
    if all(step.op is not graph.Op.BITCAST for step in path):
        return target, value
    for step in reversed(path):
        if step.op is not graph.Op.BITCAST:
            node = Node(step.op, node.dtype, step.shape, (node,), step.arg)
    return node, graph.bitcast(value, node.dtype)


def _give_storage(targets: Sequence[Tensor]) -> None:
    """What targets are, or are views of, is computed if it is not in memory yet."""
    bare = [_viewed(t.node) for t in targets if t.node.realized is None and not _is_view(t.node)]
    if bare:
        _run(bare, [])


def _viewed(node: Node) -> Node:
    """The node whose elements a node shows, each at most once."""
    while node.realized is None and node.op in _SHOWS:
        node = node.src[0]
    return node


def _storage(node: Node) -> Node:
    while node.realized is None:
        node = node.src[0]
    return node


def _waiting(roots: Sequence[Node]) -> list[Node]:
    """Nodes of live tensors that are not computed yet and read the storage of a root."""
    if not roots:
        return []
    owners = {id(root.realized.base) for root in roots if root.realized is not None}
    handles = [t.node for t in core.live() if t.node.realized is None]
    reading: set[int] = set()
    for node in walk(handles):
        direct = node.realized is not None and id(node.realized.base) in owners
        if direct or any(id(s) in reading for s in node.src if node.realized is None):
            reading.add(id(node))
    return _shared([n for n in handles if id(n) in reading and not _is_view(n)])


def _shared(nodes: Sequence[Node]) -> list[Node]:
    """The nodes; instead of a view of what more tensors show, that itself: it is their storage."""
    waiting = {id(t.node): t.node for t in core.live() if t.node.realized is None}
    shown = Counter(id(_viewed(node)) for node in waiting.values())
    return [base if shown[id(base := _viewed(node))] > 1 else node for node in nodes]


def _renew(root: Node) -> None:
    """The storage has new contents: handles get a node without history, the old one is stale."""
    storage = root.realized
    if storage is None:
        return
    fresh = graph.buffer(storage, root.shape, root.dtype)
    replaced = False
    for t in core.live():
        if t.node is root:
            t.node = fresh
            replaced = True
    if replaced:
        _stale.add(root)
