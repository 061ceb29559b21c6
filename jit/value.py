"""What a kernel computes, before its axes and arguments are settled.

A `Value` is a scalar expression whose leaves still hold index sums. It becomes
`jit.kernel.Expr` in jit/emit.py, once axes are merged, arguments numbered and the
width of indexes known. Equal values are one object within one `Values`.

float16 and bfloat16 are computed in float32: a value of such a node is float32 here,
rounded where it is stored and where a cast starts or ends.
"""

from collections.abc import Sequence
from math import copysign, frexp, inf, ldexp
from struct import pack, unpack
from typing import Any

from jit.dtype import DType, dtypes
from jit.simplify import Algebra, Sum

HALVES = (dtypes.float16, dtypes.bfloat16)
# Of these a result is zero when every operand is.
_KEEPS_ZERO = frozenset(
    {"abs", "sqrt", "trunc", "floor", "ceil", "round", "sin", "tan", "asin", "atan", "sinh"}
    | {"tanh", "asinh", "atanh", "erf", "cast", "bitcast", "add", "sub", "mul", "max", "min"}
    | {"and", "or", "xor", "shl", "shr"}
)
_DEPTH = 4  # how far keeps_zero looks


class Value:
    """One scalar. `op` as in jit.kernel.Expr, except for three leaves:

    load   arg: (slot, index Sum, conditions); zero where a condition fails
    index  arg: Sum, converted to dtype
    test   arg: conditions; bool, true where all hold

    A condition is a Sum (holds where below zero) or a bool Value. `src` of a leaf are
    the values its sums and conditions read.
    """

    __slots__ = ("arg", "dtype", "op", "serial", "src")

    def __init__(
        self, op: str, dtype: DType, src: tuple["Value", ...], arg: Any, serial: int
    ) -> None:
        self.op = op
        self.dtype = dtype
        self.src = src
        self.arg = arg
        self.serial = serial


Condition = Sum | Value


def compute_dtype(dtype: DType) -> DType:
    """The type arithmetic on dtype is done in."""
    return dtypes.float32 if dtype in HALVES else dtype


class Values:
    """Makes values, each distinct one once."""

    def __init__(self, algebra: Algebra) -> None:
        self.algebra = algebra
        self._known: dict[tuple[Any, ...], Value] = {}

    def make(self, op: str, dtype: DType, src: tuple[Value, ...] = (), arg: Any = None) -> Value:
        """The value; src and arg decide which."""
        key = (op, dtype, src, arg)
        found = self._known.get(key)
        if found is None:
            found = self._known[key] = Value(op, dtype, src, arg, len(self._known))
        return found

    def const(self, value: Any, dtype: DType) -> Value:
        """A constant; nan, -0.0 and the like are told apart by their text."""
        if dtype.is_float:
            value = float(value)
        return self.make("const", dtype, (), _Scalar(value))

    def load(self, slot: int, dtype: DType, index: Sum, conditions: tuple[Condition, ...]) -> Value:
        """An element of memory, in the type it is computed in."""
        read = dict.fromkeys(index.values)
        for condition in conditions:
            read.update(dict.fromkeys(_read_by(condition)))
        return self.widen(self.make("load", dtype, tuple(read), (slot, index, conditions)))

    def test(self, conditions: tuple[Condition, ...]) -> Value:
        """Whether all conditions hold."""
        read: dict[Value, None] = {}
        for condition in conditions:
            read.update(dict.fromkeys(_read_by(condition)))
        return self.make("test", dtypes.bool, tuple(read), conditions)

    def index(self, value: Sum, dtype: DType) -> Value:
        """A sum as a number of type dtype."""
        if not value.terms:
            return self.const(value.const, dtype)
        return self.make("index", dtype, tuple(value.values), value)

    def widen(self, value: Value) -> Value:
        """A half as float32; anything else as it is."""
        return self.cast(value, compute_dtype(value.dtype))

    def round(self, value: Value, dtype: DType) -> Value:
        """A computed value as its own type `dtype` has it in memory."""
        if value.op == "cast" and value.src[0].dtype is dtype and dtype in HALVES:
            return value.src[0]
        return self.cast(value, dtype)

    def cast(self, value: Value, dtype: DType) -> Value:
        """The value converted."""
        if value.dtype is dtype:
            return value
        if value.op == "const":
            folded = _fold_cast(value.arg.value, value.dtype, dtype)
            if folded is not None:
                return self.const(folded, dtype)
        if value.op == "index" and _fits(value.arg, value.dtype) and dtype.kind != "b":
            return self.index(value.arg, dtype)
        return self.make("cast", dtype, (value,))

    def elementwise(self, op: str, dtype: DType, src: tuple[Value, ...]) -> Value:
        """An operation, folded where that changes no bit."""
        if dtype.is_int and all(v.op in ("index", "const") for v in src):
            found = self._whole(op, dtype, src)
            if found is not None:
                return found
        if op == "mul" and _is_const(src[1], 1):
            return src[0]
        if op == "mul" and _is_const(src[0], 1):
            return src[1]
        if op in ("add", "sub") and dtype.is_int and _is_const(src[1], 0):
            return src[0]
        if op == "where" and (src[0].op == "const" or src[1] is src[2]):
            return src[1] if src[1] is src[2] or src[0].arg.value else src[2]
        return self.make(op, dtype, src)

    def _whole(self, op: str, dtype: DType, src: tuple[Value, ...]) -> Value | None:
        """Index arithmetic stays a sum while it cannot overflow."""
        if op not in ("add", "sub", "mul", "neg"):
            return None
        parts = [v.arg if v.op == "index" else self.algebra.number(v.arg.value) for v in src]
        if any(not _fits(part, dtype) for part in parts):
            return None
        if op == "mul":
            factors = sorted(parts, key=lambda part: len(part.terms))
            if factors[0].terms:
                return None
            result = self.algebra.scale(factors[1], factors[0].const)
        elif op == "neg":
            result = self.algebra.scale(parts[0], -1)
        else:
            other = parts[1] if op == "add" else self.algebra.scale(parts[1], -1)
            result = self.algebra.add(parts[0], other)
        return self.index(result, dtype) if _fits(result, dtype) else None

    def as_sum(self, value: Value) -> Sum | None:
        """The sum an integer value is, if it is one."""
        if value.op == "index" and _fits(value.arg, value.dtype):
            found: Sum = value.arg
            return found
        return self.algebra.number(value.arg.value) if value.op == "const" else None


class _Scalar:
    """A constant that compares by its text."""

    __slots__ = ("text", "value")

    def __init__(self, value: Any) -> None:
        self.value = value
        self.text = f"{type(value).__name__} {value!r}"

    def __hash__(self) -> int:
        return hash(self.text)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Scalar) and self.text == other.text


def keeps_zero(value: Value, conditions: Sequence[Condition], depth: int = _DEPTH) -> bool:
    """Whether the value is +0 wherever one of the conditions fails."""
    if value.op == "load":
        return set(conditions) <= set(value.arg[2])
    if value.op == "const":
        return value.arg.text in ("float 0.0", "int 0", "bool False")
    if value.op not in _KEEPS_ZERO or depth == 0:
        return False
    return all(keeps_zero(v, conditions, depth - 1) for v in value.src)


def each_value(roots: Sequence[Value]) -> list[Value]:
    """Every value the roots reach once, sources before users."""
    seen: set[Value] = set()
    order: list[Value] = []
    stack = [(root, False) for root in reversed(roots)]
    while stack:
        value, expanded = stack.pop()
        if expanded:
            order.append(value)
        elif value not in seen:
            seen.add(value)
            stack.append((value, True))
            stack.extend((v, False) for v in reversed(value.src))
    return order


def round_half(value: float, dtype: DType) -> float:
    """The nearest float16 or bfloat16, ties to even; too large gives infinity."""
    if dtype is dtypes.float16:
        try:
            return float(unpack("e", pack("e", value))[0])
        except OverflowError:
            return copysign(inf, value)
    if not abs(value) < 2.0**128:
        return value if value != value else copysign(inf, value)
    exponent = max(frexp(value)[1] - 8, -133)  # of the last place
    nearest = ldexp(round(ldexp(abs(value), -exponent)), exponent)
    return copysign(nearest if nearest < 2.0**128 else inf, value)


def _read_by(condition: Condition) -> tuple[Value, ...]:
    return condition.values if isinstance(condition, Sum) else (condition,)


def _is_const(value: Value, number: int) -> bool:
    return value.op == "const" and value.dtype.kind != "b" and bool(value.arg.value == number)


def _fits(value: Sum, dtype: DType) -> bool:
    return dtype.is_int and dtype.least <= value.low and value.high <= dtype.most


def _fold_cast(value: Any, old: DType, new: DType) -> Any:
    """The converted constant, where Python has it exactly."""
    if old in HALVES:
        return value if new.is_float and new not in HALVES else None
    if new in HALVES:
        exact = old.is_float or abs(int(value)) <= 1 << 53
        return round_half(float(value), new) if exact else None
    if old.kind in "iub" and new.is_int and new.least <= value <= new.most:
        return int(value)
    if old.kind in "iub" and new.is_float and abs(int(value)) <= 1 << 24:
        return float(value)
    if old.is_float and new is dtypes.float64:
        return value
    return None
