"""Values that instruction semantics compute with: one element per lane, or one for the wave.

The meaning of an instruction is a Python function over `Value`. Handed
`NumpyValue` it is the interpreter; handed a Value that emits LLVM IR it is the
translation. Both must agree bit for bit, so the rules are spelled out here:

- integers wrap; `>>` is arithmetic for kind "i", logical for "u"; the caller masks shift counts;
- floats round to nearest even and keep denormals; every NaN that arithmetic or a conversion
  makes is the positive quiet NaN of its type; sign-bit operations keep NaNs as they are;
- comparisons of floats are ordered, except `!=`, which holds when unordered;
- float to integer goes toward zero, saturates, and makes 0 of NaN.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from hcq.errors import SimFault

if TYPE_CHECKING:
    from collections.abc import Sequence


@dataclass(frozen=True)
class Type:
    """An element type: kind "u", "i", "f" or "b" (a lane mask), and its width in bits."""

    kind: str
    bits: int

    def __str__(self) -> str:
        return f"{self.kind}{self.bits}"

    @property
    def unsigned(self) -> Type:
        """The unsigned integer of the same width."""
        return Type("u", self.bits)


U8 = Type("u", 8)
U16 = Type("u", 16)
U32 = Type("u", 32)
U64 = Type("u", 64)
I8 = Type("i", 8)
I16 = Type("i", 16)
I32 = Type("i", 32)
I64 = Type("i", 64)
F16 = Type("f", 16)
F32 = Type("f", 32)
F64 = Type("f", 64)
BOOL = Type("b", 1)

QUIET_NAN = {16: 0x7E00, 32: 0x7FC0_0000, 64: 0x7FF8 << 48}


class Value(ABC):
    """One element per lane, or one for the whole wave (uniform); immutable.

    An engine implements the abstract methods. Operators take another Value of the
    same type (shift counts: any integer type) or a Python number, which becomes a
    uniform constant of the same type. Lane and uniform operands mix freely.
    """

    type: Type
    width: int  # lanes of a wave, 32 or 64

    # --- what an engine implements

    @property
    @abstractmethod
    def is_uniform(self) -> bool:
        """Whether there is one element for the wave."""

    @abstractmethod
    def binary(self, operation: str, other: Value) -> Value:
        """add sub mul div and or xor shl shr; other has the same type."""

    @abstractmethod
    def compare(self, operation: str, other: Value) -> Value:
        """eq ne lt le gt ge -> BOOL; other has the same type."""

    @abstractmethod
    def unary(self, operation: str) -> Value:
        """not neg sqrt floor ceil truncate round_even popcount leading_zeros ... is_nan."""

    @abstractmethod
    def bits(self, target: Type) -> Value:
        """The same bits read as another type of equal width."""

    @abstractmethod
    def to(self, target: Type) -> Value:
        """The value converted; integers extend by their own signedness; BOOL gives 0 or 1."""

    @abstractmethod
    def select(self, yes: Value, no: Value) -> Value:
        """self is BOOL: yes where it holds, else no."""

    @abstractmethod
    def multiply_add(self, factor: Value, addend: Value) -> Value:
        """self * factor + addend, rounded once."""

    @abstractmethod
    def constant(self, target: Type, number: float) -> Value:
        """A uniform value; integers are taken modulo their width."""

    @abstractmethod
    def lane_id(self) -> Value:
        """0, 1, ... width - 1 as U32."""

    @abstractmethod
    def take(self, index: Value | Sequence[int]) -> Value:
        """Lane i of the result is lane index[i] of self; indices are taken modulo the width."""

    @abstractmethod
    def lane(self, index: Value | int) -> Value:
        """One lane as a uniform value; the index is taken modulo the width."""

    @abstractmethod
    def ballot(self) -> Value:
        """BOOL lanes -> uniform U32 or U64 (by width), lane 0 in bit 0."""

    @abstractmethod
    def unballot(self) -> Value:
        """Uniform U32 or U64 -> BOOL lanes."""

    # --- what follows from it

    def matched(self, other: object) -> Value:
        """other as a Value of this type; TypeError for any other type."""
        if isinstance(other, Value):
            if other.type != self.type:
                raise TypeError(f"operands of types {self.type} and {other.type}")
            return other
        if isinstance(other, (int, float)):
            return self.constant(self.type, other)
        raise TypeError(f"{other!r} is not a value")

    def _count(self, other: object) -> Value:
        if isinstance(other, Value) and other.type != self.type:
            return other.to(self.type.unsigned).bits(self.type)
        return self.matched(other)

    def __add__(self, other: object) -> Value:
        return self.binary("add", self.matched(other))

    def __radd__(self, other: object) -> Value:
        return self.matched(other).binary("add", self)

    def __sub__(self, other: object) -> Value:
        return self.binary("sub", self.matched(other))

    def __rsub__(self, other: object) -> Value:
        return self.matched(other).binary("sub", self)

    def __mul__(self, other: object) -> Value:
        return self.binary("mul", self.matched(other))

    def __rmul__(self, other: object) -> Value:
        return self.matched(other).binary("mul", self)

    def __truediv__(self, other: object) -> Value:
        return self.binary("div", self.matched(other))

    def __rtruediv__(self, other: object) -> Value:
        return self.matched(other).binary("div", self)

    def __and__(self, other: object) -> Value:
        return self.binary("and", self.matched(other))

    def __or__(self, other: object) -> Value:
        return self.binary("or", self.matched(other))

    def __xor__(self, other: object) -> Value:
        return self.binary("xor", self.matched(other))

    def __lshift__(self, other: object) -> Value:
        return self.binary("shl", self._count(other))

    def __rlshift__(self, other: object) -> Value:
        return self.matched(other).binary("shl", self)

    def __rshift__(self, other: object) -> Value:
        return self.binary("shr", self._count(other))

    def __rrshift__(self, other: object) -> Value:
        return self.matched(other).binary("shr", self)

    def __invert__(self) -> Value:
        return self.unary("not")

    def __neg__(self) -> Value:
        if self.type.kind == "f":
            raise TypeError("negate a float with negate(): only its sign bit changes")
        return self.unary("neg")

    def __eq__(self, other: object) -> Any:
        return self.compare("eq", self.matched(other))

    def __ne__(self, other: object) -> Any:
        return self.compare("ne", self.matched(other))

    def __lt__(self, other: object) -> Value:
        return self.compare("lt", self.matched(other))

    def __le__(self, other: object) -> Value:
        return self.compare("le", self.matched(other))

    def __gt__(self, other: object) -> Value:
        return self.compare("gt", self.matched(other))

    def __ge__(self, other: object) -> Value:
        return self.compare("ge", self.matched(other))

    __hash__ = None  # type: ignore[assignment]

    def __bool__(self) -> bool:
        raise TypeError("a Value has no truth of its own: use where()")

    def negate(self) -> Value:
        """A float with its sign bit flipped."""
        raw = self.bits(self.type.unsigned)
        return (raw ^ (1 << (self.type.bits - 1))).bits(self.type)

    def absolute(self) -> Value:
        """A float with its sign bit cleared."""
        raw = self.bits(self.type.unsigned)
        return (raw & ((1 << (self.type.bits - 1)) - 1)).bits(self.type)

    def is_nan(self) -> Value:
        """BOOL: where a float is any NaN."""
        return self.unary("is_nan")

    def sqrt(self) -> Value:
        """Square root, correctly rounded."""
        return self.unary("sqrt")

    def floor(self) -> Value:
        """Nearest integer below."""
        return self.unary("floor")

    def ceil(self) -> Value:
        """Nearest integer above."""
        return self.unary("ceil")

    def truncate(self) -> Value:
        """Nearest integer toward zero."""
        return self.unary("truncate")

    def round_even(self) -> Value:
        """Nearest integer, ties to even."""
        return self.unary("round_even")

    def popcount(self) -> Value:
        """Number of set bits."""
        return self.unary("popcount")

    def leading_zeros(self) -> Value:
        """Zero bits above the highest set bit; the width for 0."""
        return self.unary("leading_zeros")

    def trailing_zeros(self) -> Value:
        """Zero bits below the lowest set bit; the width for 0."""
        return self.unary("trailing_zeros")

    def reverse_bits(self) -> Value:
        """Bit 0 becomes the highest bit."""
        return self.unary("reverse_bits")


def where(mask: Value, yes: Value | float, no: Value | float) -> Value:
    """yes where mask (BOOL) holds, else no; one of them may be a Python number."""
    like = yes if isinstance(yes, Value) else no
    if not isinstance(like, Value):
        raise TypeError("where() needs a Value on one side to know the type")
    return mask.select(like.matched(yes), like.matched(no))


def fma(a: Value, b: Value | float, c: Value | float) -> Value:
    """a * b + c with one rounding."""
    return a.multiply_add(a.matched(b), a.matched(c))


def constant(like: Value, target: Type, number: float) -> Value:
    """A uniform value of the engine that like belongs to."""
    return like.constant(target, number)


def lane_id(like: Value) -> Value:
    """The lane number in each lane, U32."""
    return like.lane_id()


def unballot(mask: Value) -> Value:
    """A uniform integer as BOOL lanes."""
    return mask.unballot()


def refuse_operation(value: Value, operation: str) -> SimFault:
    """The error for an operation that a type does not have."""
    return SimFault(f"{operation} is not defined for {value.type} values")
