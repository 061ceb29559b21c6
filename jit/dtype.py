"""Element types: their widths, limits and promotion.

Names are numpy's. bfloat16 has no numpy type; its storage is uint16.
"""

from dataclasses import dataclass
from functools import cache
from typing import Any

from hcq.errors import ConfigError, nearest
from hcq.settings import get

Scalar = int | float | bool


@dataclass(frozen=True)
class DType:
    """One element type. `kind`: "b" bool, "i" signed, "u" unsigned, "f" float."""

    name: str
    kind: str
    bits: int
    rank: int  # place in the promotion order

    @property
    def itemsize(self) -> int:
        """Bytes of one element in memory."""
        return max(self.bits // 8, 1)

    @property
    def is_float(self) -> bool:
        return self.kind == "f"

    @property
    def is_int(self) -> bool:
        return self.kind in "iu"

    @property
    def least(self) -> Scalar:
        """The smallest value; -inf for floats, False for bool."""
        if self.is_float:
            return float("-inf")
        return -(1 << self.bits - 1) if self.kind == "i" else 0

    @property
    def most(self) -> Scalar:
        """The largest value; inf for floats, True for bool."""
        if self.is_float:
            return float("inf")
        return (1 << self.bits - (self.kind == "i")) - 1 if self.kind in "iu" else 1

    @property
    def numpy(self) -> Any:
        """The numpy dtype with the same storage (uint16 for bfloat16)."""
        import numpy

        return numpy.dtype("uint16" if self.name == "bfloat16" else self.name)

    def __repr__(self) -> str:
        return f"dtypes.{self.name}"


class dtypes:
    """The element types by name, and questions about them."""

    bool = DType("bool", "b", 8, 0)
    int8 = DType("int8", "i", 8, 1)
    uint8 = DType("uint8", "u", 8, 2)
    int16 = DType("int16", "i", 16, 3)
    uint16 = DType("uint16", "u", 16, 4)
    int32 = DType("int32", "i", 32, 5)
    uint32 = DType("uint32", "u", 32, 6)
    int64 = DType("int64", "i", 64, 7)
    uint64 = DType("uint64", "u", 64, 8)
    float16 = DType("float16", "f", 16, 11)
    bfloat16 = DType("bfloat16", "f", 16, 12)
    float32 = DType("float32", "f", 32, 13)
    float64 = DType("float64", "f", 64, 14)
    half, float, double = float16, float32, float64
    uchar, short, int, long = uint8, int16, int32, int64


ALL = {t.name: t for t in vars(dtypes).values() if isinstance(t, DType)}


# What names a type: itself, a name, one of Python's types, or numpy's dtypes and scalar types.
Kind = Any


def to_dtype(name: Kind) -> DType:
    """A type by name ("float32", "half"), Python type or numpy type; ConfigError for others.

    Python's int and float stand for the default types.
    """
    if isinstance(name, DType):
        return name
    if name in (int, float):
        return default_int() if name is int else default_float()
    # numpy's scalar types are classes, its dtypes have a name.
    text = name if isinstance(name, str) else getattr(name, "name", getattr(name, "__name__", ""))
    found = getattr(dtypes, str(text).lower().rstrip("_"), None)
    if not isinstance(found, DType):
        raise ConfigError(
            f"unknown dtype {name!r}{nearest(text, ALL) if isinstance(name, str) else ''}",
            facts={"known": ",".join(ALL)},
        )
    return found


def default_float() -> DType:
    """The dtype of new float tensors (DEFAULT_FLOAT)."""
    return to_dtype(get("DEFAULT_FLOAT"))


def default_int() -> DType:
    """The dtype of new integer tensors (DEFAULT_INT)."""
    return to_dtype(get("DEFAULT_INT"))


# Each type's direct superiors, as in the documented promotion of JAX and tinygrad.
_ABOVE = {
    "bool": ("int8", "uint8"),
    "int8": ("int16",),
    "uint8": ("int16", "uint16"),
    "int16": ("int32",),
    "uint16": ("int32", "uint32"),
    "int32": ("int64",),
    "uint32": ("int64", "uint64"),
    "int64": ("float16", "bfloat16"),
    "uint64": ("float16", "bfloat16"),
    "float16": ("float32",),
    "bfloat16": ("float32",),
    "float32": ("float64",),
    "float64": (),
}


@cache
def _superiors(name: str) -> frozenset[str]:
    return frozenset({name}).union(*(_superiors(above) for above in _ABOVE[name]))


@cache
def promote(*types: DType) -> DType:
    """The least type that all the given ones widen to: int8 and uint8 give int16."""
    shared = frozenset.intersection(*(_superiors(t.name) for t in types))
    return min((ALL[name] for name in shared), key=lambda t: t.rank)


def sum_dtype(dtype: DType) -> DType:
    """The type a sum accumulates and returns in: int32 or wider for integers, at least float32."""
    if dtype.is_float:
        return promote(dtype, dtypes.float32)
    if dtype.kind == "u":
        return promote(dtype, dtypes.uint32)
    return promote(dtype, dtypes.int32)
