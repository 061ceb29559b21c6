"""Values as numpy arrays: the interpreter's half of the Value protocol.

A uniform value is an array of one element, so that numpy's broadcasting mixes it
with lanes and integer overflow never becomes a warning of scalar arithmetic.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import Any

import numpy as np

from sim.isa.value import BOOL, QUIET_NAN, U32, U64, Type, Value, refuse_operation

Array = np.ndarray[Any, np.dtype[Any]]

DTYPES: dict[tuple[str, int], np.dtype[Any]] = {
    ("u", 8): np.dtype(np.uint8), ("u", 16): np.dtype(np.uint16),
    ("u", 32): np.dtype(np.uint32), ("u", 64): np.dtype(np.uint64),
    ("i", 8): np.dtype(np.int8), ("i", 16): np.dtype(np.int16),
    ("i", 32): np.dtype(np.int32), ("i", 64): np.dtype(np.int64),
    ("f", 16): np.dtype(np.float16), ("f", 32): np.dtype(np.float32),
    ("f", 64): np.dtype(np.float64), ("b", 1): np.dtype(np.bool_),
}  # fmt: skip

BINARY: dict[str, Callable[[Array, Array], Array]] = {
    "add": np.add, "sub": np.subtract, "mul": np.multiply, "div": np.true_divide,
    "and": np.bitwise_and, "or": np.bitwise_or, "xor": np.bitwise_xor,
    "shl": np.left_shift, "shr": np.right_shift,
}  # fmt: skip
COMPARE: dict[str, Callable[[Array, Array], Array]] = {
    "eq": np.equal, "ne": np.not_equal, "lt": np.less, "le": np.less_equal,
    "gt": np.greater, "ge": np.greater_equal,
}  # fmt: skip
FLOAT_UNARY: dict[str, Callable[[Array], Array]] = {
    "sqrt": np.sqrt, "floor": np.floor, "ceil": np.ceil, "truncate": np.trunc,
    "round_even": np.rint,
}  # fmt: skip
BITS_IN_BYTE = np.array([byte.bit_count() for byte in range(256)], dtype=np.uint8)
FLOAT_BINARY = ("add", "sub", "mul", "div")


class NumpyValue(Value):
    """A Value over a numpy array of shape (width,) or (1,)."""

    NANS: Mapping[int, int] = QUIET_NAN  # what arithmetic makes of NaNs

    def __init__(self, kind: Type, data: Array, width: int) -> None:
        self.type = kind
        self.data = data
        self.width = width

    @classmethod
    def lanes(cls, type_: Type, elements: Sequence[float] | Array, width: int = 32) -> NumpyValue:
        """One element per lane from a sequence; ints wrap into the type."""
        data = np.asarray(elements)
        if data.dtype != dtype_of(type_):
            data = _cast(data, type_)
        return cls(type_, data, width)

    @classmethod
    def uniform(cls, type_: Type, number: float, width: int = 32) -> NumpyValue:
        """One element for the wave."""
        return cls(type_, _scalar(type_, number), width)

    def __repr__(self) -> str:
        return f"NumpyValue({self.type}, {self.data.tolist()})"

    @property
    def is_uniform(self) -> bool:
        return bool(self.data.shape[0] == 1)

    def element(self) -> Any:
        """The single element of a uniform value as a Python number."""
        if not self.is_uniform:
            raise TypeError("a value of one element per lane is used where one is needed")
        return self.data[0].item()

    def spread(self) -> Array:
        """The data with one element per lane."""
        return np.repeat(self.data, self.width) if self.is_uniform else self.data

    def binary(self, operation: str, other: Value) -> NumpyValue:
        if self.type.kind == "f" and operation not in FLOAT_BINARY:
            raise refuse_operation(self, operation)
        if self.type.kind != "f" and operation == "div":
            raise refuse_operation(self, operation)
        with np.errstate(all="ignore"):
            result = BINARY[operation](self.data, _data(other))
        return self._made(self.type, result)

    def compare(self, operation: str, other: Value) -> NumpyValue:
        with np.errstate(all="ignore"):
            return self._made(BOOL, COMPARE[operation](self.data, _data(other)))

    def unary(self, operation: str) -> NumpyValue:
        if operation == "is_nan":
            return self._made(BOOL, np.isnan(self.data))
        if self.type.kind == "f":
            if operation not in FLOAT_UNARY:
                raise refuse_operation(self, operation)
            with np.errstate(all="ignore"):
                return self._made(self.type, FLOAT_UNARY[operation](self.data))
        if operation not in INTEGER_UNARY:
            raise refuse_operation(self, operation)
        unsigned = self.data if self.type == BOOL else self.data.view(dtype_of(self.type.unsigned))
        result = INTEGER_UNARY[operation](unsigned)
        return self._made(self.type, result.view(self.data.dtype))

    def bits(self, target: Type) -> NumpyValue:
        if target.bits != self.type.bits:
            raise TypeError(f"{self.type} and {target} differ in width")
        return type(self)(target, self.data.view(dtype_of(target)), self.width)

    def to(self, target: Type) -> NumpyValue:
        if target == self.type:
            return self
        if target == BOOL:
            return self._made(BOOL, self.data != 0)
        if self.type.kind == "f" and target.kind in "ui":
            with np.errstate(all="ignore"):
                return self._made(target, _float_to_int(self.data, target))
        with np.errstate(all="ignore"):
            return self._made(target, self.data.astype(dtype_of(target)))

    def select(self, yes: Value, no: Value) -> NumpyValue:
        if self.type != BOOL:
            raise TypeError(f"a mask of type {self.type}")
        data = np.where(self.data, _data(yes), _data(no))
        return type(self)(yes.type, data, self.width)

    def multiply_add(self, factor: Value, addend: Value) -> NumpyValue:
        a, b, c = np.broadcast_arrays(self.data, _data(factor), _data(addend))
        fused = _fma_double if self.type.bits == 64 else _fma_narrow
        with np.errstate(all="ignore"):
            return self._made(self.type, fused(a, b, c))

    def constant(self, target: Type, number: float) -> NumpyValue:
        return type(self)(target, _scalar(target, number), self.width)

    def lane_id(self) -> NumpyValue:
        return type(self)(U32, np.arange(self.width, dtype=np.uint32), self.width)

    def take(self, index: Value | Sequence[int]) -> NumpyValue:
        source = index.data if isinstance(index, NumpyValue) else np.asarray(index)
        chosen = np.broadcast_to(source.astype(np.int64) % self.width, (self.width,))
        return type(self)(self.type, self.spread()[chosen], self.width)

    def lane(self, index: Value | int) -> NumpyValue:
        number: Any = index.element() if isinstance(index, NumpyValue) else index
        at = number % self.width
        return type(self)(self.type, self.spread()[at : at + 1].copy(), self.width)

    def ballot(self) -> NumpyValue:
        packed = np.packbits(self.spread(), bitorder="little").tobytes()
        target = U32 if self.width == 32 else U64
        return type(self)(target, np.frombuffer(packed, dtype_of(target)), self.width)

    def unballot(self) -> NumpyValue:
        if self.type.bits != self.width:
            raise TypeError(f"a mask of {self.type.bits} bits for {self.width} lanes")
        raw = np.ascontiguousarray(self.data[:1]).view(np.uint8)
        return type(self)(BOOL, np.unpackbits(raw, bitorder="little").view(np.bool_), self.width)

    def _made(self, target: Type, data: Array) -> NumpyValue:
        if target.kind == "f":
            nan = np.isnan(data)
            if nan.any():
                data = np.where(nan, quiet_nan(target, self.NANS), data)
        return type(self)(target, data, self.width)


def dtype_of(target: Type) -> np.dtype[Any]:
    """The numpy element type of a Type."""
    return DTYPES[target.kind, target.bits]


def quiet_nan(target: Type, nans: Mapping[int, int] = QUIET_NAN) -> Array:
    """The default NaN of a float type, as an array of one element."""
    raw = np.array([nans[target.bits]], dtype=dtype_of(target.unsigned))
    return raw.view(dtype_of(target))


def _data(value: Value) -> Array:
    if not isinstance(value, NumpyValue):
        raise TypeError("values of two engines are mixed")
    return value.data


def _scalar(target: Type, number: float) -> Array:
    if target.kind in "ui":
        wrapped = int(number) & ((1 << target.bits) - 1)
        raw = np.array([wrapped], dtype=dtype_of(target.unsigned))
        return raw.view(dtype_of(target))
    with np.errstate(all="ignore"):
        return np.array([number], dtype=np.float64 if target.kind == "f" else bool).astype(
            dtype_of(target)
        )


def _cast(data: Array, target: Type) -> Array:
    if target.kind in "ui":
        wrapped = [int(item) & ((1 << target.bits) - 1) for item in data.tolist()]
        return np.array(wrapped, dtype=dtype_of(target.unsigned)).view(dtype_of(target))
    with np.errstate(all="ignore"):
        return data.astype(dtype_of(target))


def _float_to_int(data: Array, target: Type) -> Array:
    wide = np.trunc(data.astype(np.float64))
    low = 0 if target.kind == "u" else -(1 << (target.bits - 1))
    high = (1 << target.bits) - 1 if target.kind == "u" else (1 << (target.bits - 1)) - 1
    # 2**bits is exact in a double while the largest 64-bit integer is not: compare with >=.
    above = wide >= float(high + 1)
    below = wide <= float(low)
    inside = ~(above | below | np.isnan(wide))
    result = np.where(inside, wide, 0.0).astype(dtype_of(target))
    result = np.where(above, _scalar(target, high), result)
    return np.where(below, _scalar(target, low), result)


def _fma_narrow(a: Array, b: Array, c: Array) -> Array:
    """Half and single precision: exact product, sum rounded to odd, then rounded once.

    Rounding to odd with 53 bits and then to 24 or 11 is the same as rounding once
    (Boldo and Melquiond, "Emulation of a FMA and correctly rounded sums", 2008).
    """
    product = a.astype(np.float64) * b.astype(np.float64)
    addend = c.astype(np.float64)
    total = product + addend
    back = total - product
    error = (product - (total - back)) + (addend - back)
    raw = total.view(np.int64)
    inexact = np.isfinite(total) & (error != 0) & ((raw & 1) == 0)
    away = (error > 0) == (total > 0)
    odd = np.where(inexact, np.where(away, raw + 1, raw - 1), raw)
    return odd.view(np.float64).astype(a.dtype)


def _fma_double(a: Array, b: Array, c: Array) -> Array:
    fused = _library().fma
    triples = zip(a.tolist(), b.tolist(), c.tolist(), strict=True)
    return np.array([fused(x, y, z) for x, y, z in triples], dtype=np.float64)


@cache
def _library() -> Any:
    """The C math library: its fma rounds once, and Python has none before 3.13."""
    from cffi import FFI

    ffi = FFI()
    ffi.cdef("double fma(double, double, double);")
    return ffi.dlopen(None)


def _popcount(data: Array) -> Array:
    per_byte: Array = BITS_IN_BYTE[np.ascontiguousarray(data).view(np.uint8)]
    counts: Array = per_byte.reshape(data.shape[0], -1).sum(axis=1)
    return counts.astype(data.dtype)


def _leading_zeros(data: Array) -> Array:
    bits = data.dtype.itemsize * 8
    shift = 1
    while shift < bits:
        data = data | (data >> data.dtype.type(shift))
        shift *= 2
    return (bits - _popcount(data)).astype(data.dtype)


def _trailing_zeros(data: Array) -> Array:
    below = ~data & (data - data.dtype.type(1))
    return _popcount(below)


def _reverse_bits(data: Array) -> Array:
    result = np.zeros_like(data)
    for bit in range(data.dtype.itemsize * 8):
        top = data.dtype.itemsize * 8 - 1 - bit
        one = (data >> data.dtype.type(bit)) & data.dtype.type(1)
        result = result | (one << data.dtype.type(top))
    return result


INTEGER_UNARY: dict[str, Callable[[Array], Array]] = {
    "not": np.invert, "neg": np.negative, "popcount": _popcount,
    "leading_zeros": _leading_zeros, "trailing_zeros": _trailing_zeros,
    "reverse_bits": _reverse_bits,
}  # fmt: skip
