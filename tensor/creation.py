"""Making tensors: from python data, numpy arrays, constants and counters."""

import math
from typing import Any, Self

from jit import graph
from jit.dtype import DType, Kind, default_float, default_int, dtypes, to_dtype
from jit.graph import Node
from runtime.buffer import Buffer
from runtime.device import Device
from tensor.core import Core, Shape
from tensor.errors import TensorError
from tensor.movement import shape_of
from tensor.spatial import Spatial


def device_name(device: str | None) -> str:
    """The full name of a device; the default one for None."""
    return Device.canonicalize(device)


def upload(array: Any, dtype: DType, device: str) -> Node:
    """A buffer on the device with the elements of a numpy array of the dtype's storage type."""
    import numpy

    shape = array.shape
    array = numpy.ascontiguousarray(array)
    storage = Buffer(device, array.size, dtype)
    storage.ensure_allocated()
    if array.size:
        storage.copy_in(memoryview(array).cast("B"))
    return graph.buffer(storage, shape, dtype)


def from_data(data: Any, dtype: DType | None, device: str) -> Node:
    """The node for whatever a Tensor is made of; TensorError naming the place of bad data."""
    if isinstance(data, bool | int | float):
        return _scalar(data, dtype, device)
    if data is None:
        return graph.const(0, dtype or default_float(), (0,), device)
    if isinstance(data, bytes | bytearray | memoryview):
        return _from_bytes(data, dtype or dtypes.uint8, device)
    import numpy

    if isinstance(data, list | tuple | range):
        return _from_nested(list(data), dtype, device)
    if isinstance(data, numpy.ndarray | numpy.generic):
        return _from_array(numpy.asarray(data), dtype, device)
    raise TensorError(f"cannot make a tensor of {type(data).__name__}")


def _scalar(value: int | float | bool, dtype: DType | None, device: str) -> Node:
    if dtype is None:
        dtype = (
            dtypes.bool
            if isinstance(value, bool)
            else (default_int() if isinstance(value, int) else default_float())
        )
        if dtype.is_int and not dtype.least <= value <= dtype.most:
            dtype = dtypes.int64
            if not dtype.least <= value <= dtype.most:
                raise TensorError(f"{value} does not fit in 64 bits")
    return graph.const(value, dtype, (), device)


def _from_bytes(data: Any, dtype: DType, device: str) -> Node:
    import numpy

    view = memoryview(data).cast("B")
    if len(view) % dtype.itemsize:
        raise TensorError(f"{len(view)} bytes are no whole number of {dtype.name}")
    return upload(numpy.frombuffer(view, dtype.numpy), dtype, device)


def _from_nested(data: Any, dtype: DType | None, device: str) -> Node:
    import numpy

    shape = _nested_shape(data, "data")
    flat = [x.item() if hasattr(x, "item") else x for x in _leaves(data, len(shape))]
    if dtype is None:
        kinds = {type(x) for x in flat}
        bools, ints = kinds == {bool}, kinds <= {bool, int, numpy.int64, numpy.int32}
        dtype = dtypes.bool if bools else default_int() if ints and flat else default_float()
        if dtype.is_int and any(not dtype.least <= x <= dtype.most for x in flat):
            dtype = dtypes.int64
    try:
        whole = numpy.array(flat, numpy.float64 if dtype.is_float else None).reshape(shape)
    except (OverflowError, ValueError, TypeError) as error:
        raise TensorError(f"cannot make a {dtype.name} tensor: {error}") from None
    if whole.dtype == object or whole.dtype.kind in "US":
        raise TensorError(f"cannot make a {dtype.name} tensor: values do not fit in 64 bits")
    return upload(convert(whole, dtype), dtype, device)


def _nested_shape(data: Any, place: str) -> Shape:
    """The shape of nested lists; TensorError at the first ragged or foreign part."""
    if isinstance(data, Core):
        return data.shape
    if type(data).__module__ == "numpy":
        return tuple(data.shape)
    if not isinstance(data, list | tuple):
        if not isinstance(data, bool | int | float) and not hasattr(data, "__float__"):
            raise TensorError(f"{place} is {type(data).__name__}, not a number")
        return ()
    shapes = [_nested_shape(x, f"{place}[{i}]") for i, x in enumerate(data)]
    for i, s in enumerate(shapes):
        if s != shapes[0]:
            raise TensorError(
                f"ragged data: {place}[0] has shape {list(shapes[0])}, {place}[{i}] {list(s)}"
            )
    return (len(data), *(shapes[0] if shapes else ()))


def _leaves(data: Any, depth: int) -> list[Any]:
    for _ in range(depth - 1 if depth else 0):
        data = [x for part in data for x in (part.tolist() if hasattr(part, "tolist") else part)]
    return list(data) if depth else [data]


def convert(array: Any, dtype: DType) -> Any:
    """A numpy array in the dtype's storage type, converted as cast() does."""
    import numpy

    if dtype is dtypes.bfloat16:
        return to_bfloat16(array.astype(numpy.float32))
    if dtype.is_int and array.dtype.kind == "f":
        return array.astype(numpy.int64).astype(dtype.numpy)
    with numpy.errstate(over="ignore"):
        return array.astype(dtype.numpy)


def to_bfloat16(array: Any) -> Any:
    """float32 values as bfloat16 bits in uint16, rounded to nearest even, NaN kept."""
    import numpy

    bits = numpy.ascontiguousarray(array).view(numpy.uint32)
    rounded = (bits + 0x7FFF + ((bits >> 16) & 1)) >> 16
    return numpy.where(numpy.isnan(array), (bits >> 16) | 0x40, rounded).astype(numpy.uint16)


def _from_array(array: Any, dtype: DType | None, device: str) -> Node:
    native = array.dtype.newbyteorder("=")
    try:
        own = to_dtype(native.name)
    except ValueError:
        raise TensorError(f"numpy dtype {array.dtype} has no tensor dtype") from None
    array = array.astype(native, copy=False)
    wanted = dtype or own
    return upload(array if wanted is own else convert(array, wanted), wanted, device)


class Creation(Spatial):
    """Constructors."""

    __slots__ = ()

    @classmethod
    def full(
        cls,
        shape: Any,
        fill_value: Any,
        *,
        dtype: Kind | None = None,
        device: str | None = None,
        requires_grad: bool | None = None,
    ) -> Self:
        """fill_value everywhere."""
        sizes = shape_of((shape,))
        where = device_name(device)
        one = _scalar(fill_value, dtype and to_dtype(dtype), where)
        return cls.of(graph.const(one.arg, one.dtype, sizes, where), requires_grad)

    @classmethod
    def zeros(cls, *shape: Any, dtype: Kind | None = None, **options: Any) -> Self:
        return cls.full(shape_of(shape), 0, dtype=dtype or default_float(), **options)

    @classmethod
    def ones(cls, *shape: Any, dtype: Kind | None = None, **options: Any) -> Self:
        return cls.full(shape_of(shape), 1, dtype=dtype or default_float(), **options)

    @classmethod
    def empty(cls, *shape: Any, dtype: Kind | None = None, **options: Any) -> Self:
        """Memory with unspecified contents."""
        device = device_name(options.pop("device", None))
        kind = to_dtype(dtype or default_float())
        sizes = shape_of(shape)
        storage = Buffer(device, math.prod(sizes), kind)
        return cls.of(graph.buffer(storage, sizes, kind), options.pop("requires_grad", None))

    def full_like(self, fill_value: Any, dtype: Kind | None = None, **options: Any) -> Self:
        options.setdefault("device", self.device)
        return self.full(self.shape, fill_value, dtype=dtype or self.dtype, **options)

    def zeros_like(self, **options: Any) -> Self:
        return self.full_like(0, **options)

    def ones_like(self, **options: Any) -> Self:
        return self.full_like(1, **options)

    def empty_like(self, dtype: Kind | None = None, **options: Any) -> Self:
        options.setdefault("device", self.device)
        return self.empty(self.shape, dtype=dtype or self.dtype, **options)

    @classmethod
    def arange(
        cls, start: Any, stop: Any = None, step: Any = 1, dtype: Kind | None = None, **options: Any
    ) -> Self:
        """start, start+step, ... below stop (above it for a negative step)."""
        if stop is None:
            start, stop = 0, start
        if step == 0:
            raise TensorError("arange: step is 0")
        floating = any(isinstance(v, float) for v in (start, stop, step))
        kind = to_dtype(dtype) if dtype else default_float() if floating else default_int()
        count = max(0, math.ceil((stop - start) / step))
        device = device_name(options.pop("device", None))
        exact = dtypes.float64 if kind.is_float else dtypes.int64
        counter = graph.iota((count,), 0, exact if kind.is_float else kind, device)
        line = cls.of(counter if count else graph.const(0, counter.dtype, (0,), device))
        made = line.mul(step).add(start).cast(kind)
        made.requires_grad = options.pop("requires_grad", None)
        return made

    @classmethod
    def linspace(
        cls, start: Any, stop: Any, steps: int, dtype: Kind | None = None, **options: Any
    ) -> Self:
        """steps values from start to stop, both included."""
        if steps < 0:
            raise TensorError(f"linspace: {steps} steps")
        kind = to_dtype(dtype or default_float())
        if steps == 1:
            return cls.full((1,), start, dtype=kind, **options)
        line = cls.arange(steps, dtype=dtypes.float64, **options)
        return line.mul((stop - start) / max(steps - 1, 1)).add(start).cast(kind)

    @classmethod
    def eye(cls, n: int, m: int | None = None, dtype: Kind | None = None, **options: Any) -> Self:
        """Ones on the diagonal of an n by m matrix."""
        shape = (n, n if m is None else m)
        device = device_name(options.pop("device", None))
        rows, columns = (cls.of(graph.iota(shape, a, dtypes.int32, device)) for a in (0, 1))
        return rows.eq(columns).cast(to_dtype(dtype or default_float()))
