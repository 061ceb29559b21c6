"""One operation of the loop IR on LLVM values: the only meaning each has, on every target.

Nothing here is approximate and nothing is contracted: equal bits everywhere.
"""

from collections.abc import Callable

from hcq.errors import CompileError
from jit.codegen.text import Function, Value, literal, suffix, typed
from jit.dtype import DType


class Operations:
    """Writes operations into one region. All operands of a call have equal lanes."""

    def __init__(self, function: Function, region: list[str]) -> None:
        self.function = function
        self.region = region

    def add(self, like: Value, code: str) -> Value:
        return self.function.add(self.region, like.element, like.lanes, code)

    def binary(self, opcode: str, a: Value, b: Value) -> Value:
        return self.add(a, f"{opcode} {a.type} {a.name}, {b.name}")

    def compare(self, opcode: str, a: Value, b: Value) -> Value:
        code = f"{opcode} {a.type} {a.name}, {b.name}"
        return self.function.add(self.region, "i1", a.lanes, code)

    def select(self, condition: Value, a: Value, b: Value) -> Value:
        return self.add(a, f"select {condition}, {a}, {b}")

    def intrinsic(self, name: str, *values: Value) -> Value:
        """llvm.<name>.<type> of values of one type."""
        full = f"llvm.{name}.{suffix(values[0])}"
        return self.function.call(self.region, full, values[0], *values)

    def constant(self, like: Value, value: int | float) -> Value:
        """A constant of another value's type and lanes."""
        return self.splat(literal(like.element, value), like.lanes)

    def convert(self, opcode: str, value: Value, element: str) -> Value:
        """A conversion instruction; the value itself where the type is the same."""
        if value.element == element:
            return value
        code = f"{opcode} {value} to {typed(element, value.lanes)}"
        return self.function.add(self.region, element, value.lanes, code)

    def splat(self, value: Value, lanes: int) -> Value:
        """A scalar in every lane."""
        if value.lanes == lanes:
            return value
        if value.is_literal:
            return Value(value.element, f"splat ({value})", lanes)
        whole = typed(value.element, lanes)
        one = self.function.add(
            self.region, value.element, lanes, f"insertelement {whole} poison, {value}, i32 0"
        )
        zeros = f"<{lanes} x i32> zeroinitializer"
        return self.add(one, f"shufflevector {one}, {whole} poison, {zeros}")


FLOAT = {"add": "fadd", "sub": "fsub", "mul": "fmul", "div": "fdiv"}
INTEGER = {"add": "add", "sub": "sub", "mul": "mul", "and": "and", "or": "or", "xor": "xor"}
ROUNDING = {
    "abs": "fabs",
    "sqrt": "sqrt",
    "trunc": "trunc",
    "floor": "floor",
    "ceil": "ceil",
    "round": "roundeven",
}
COMPARE = {
    "f": {"lt": "fcmp olt", "eq": "fcmp oeq", "ne": "fcmp une"},
    "i": {"lt": "icmp slt", "eq": "icmp eq", "ne": "icmp ne"},
    "u": {"lt": "icmp ult", "eq": "icmp eq", "ne": "icmp ne"},
    "b": {"lt": "icmp ult", "eq": "icmp eq", "ne": "icmp ne"},
}


def apply(op: str, dtype: DType, out: Operations, values: list[Value]) -> Value:
    """The value of an elementwise operation whose operands are of `dtype`."""
    if op in COMPARE["f"]:
        return out.compare(COMPARE[dtype.kind][op], *values)
    is_float = dtype.kind == "f"
    found = _float(op, out, values) if is_float else _integer(op, dtype, out, values)
    if found is None:
        raise CompileError(f"no code for {op} of {dtype.name}", facts={"operation": op})
    return found


def _float(op: str, out: Operations, values: list[Value]) -> Value | None:
    if op in FLOAT:
        return out.binary(FLOAT[op], *values)
    if op in ROUNDING:
        return out.intrinsic(ROUNDING[op], *values)
    if op == "fma":
        return out.intrinsic("fma", *values)
    if op == "neg":
        return out.add(values[0], f"fneg {values[0]}")
    if op in ("max", "min"):
        a, b = values
        better = out.compare("fcmp ugt" if op == "max" else "fcmp ult", a, b)
        bad = out.compare("fcmp uno", b, b)  # a's NaN is covered: the comparison is unordered
        return out.select(bad, b, out.select(better, a, b))
    return None


def _integer(op: str, dtype: DType, out: Operations, values: list[Value]) -> Value | None:
    a = values[0]
    if op in INTEGER:
        return _wrapping(op, dtype, out, values)
    if op in ("max", "min"):
        sign = "s" if dtype.kind == "i" else "u"
        better = out.compare(f"icmp {sign}{'gt' if op == 'max' else 'lt'}", *values)
        return out.select(better, *values)
    special: dict[str, Callable[[], Value]] = {
        "neg": lambda: out.binary("sub", out.constant(a, 0), a),
        "not": lambda: out.binary("xor", a, out.constant(a, -1)),
        "abs": lambda: _absolute(dtype, out, a),
        "idiv": lambda: divide(dtype, out, *values)[0],
        "mod": lambda: divide(dtype, out, *values)[1],
        "shl": lambda: _shift("shl", dtype, out, *values),
        "shr": lambda: _shift("ashr" if dtype.kind == "i" else "lshr", dtype, out, *values),
    }
    if op in ("trunc", "floor", "ceil", "round"):
        return a
    return special[op]() if op in special else None


def _wrapping(op: str, dtype: DType, out: Operations, values: list[Value]) -> Value:
    # Of bool, sum is or and product is and.
    opcode = {"add": "or", "mul": "and"}.get(op, op) if dtype.kind == "b" else op
    return out.binary(INTEGER[opcode], *values)


def _absolute(dtype: DType, out: Operations, a: Value) -> Value:
    if dtype.kind != "i":
        return a
    negative = out.compare("icmp slt", a, out.constant(a, 0))
    return out.select(negative, out.binary("sub", out.constant(a, 0), a), a)


def divide(dtype: DType, out: Operations, a: Value, b: Value) -> tuple[Value, Value]:
    """Quotient toward zero and remainder; by 0 both are 0, and least / -1 wraps.

    The instructions are undefined there, so they get a divisor of 1 instead.
    """
    sign = "s" if dtype.kind == "i" else "u"
    zero, one = out.constant(a, 0), out.constant(a, 1)
    by_zero = out.compare("icmp eq", b, zero)
    safe = out.select(by_zero, one, b)
    negated = None
    if sign == "s":
        negated = out.compare("icmp eq", b, out.constant(a, -1))
        safe = out.select(negated, one, safe)
    quotient = out.binary(f"{sign}div", a, safe)
    rest = out.binary(f"{sign}rem", a, safe)
    if negated is not None:
        quotient = out.select(negated, out.binary("sub", zero, a), quotient)
    return out.select(by_zero, zero, quotient), out.select(by_zero, zero, rest)


def _shift(opcode: str, dtype: DType, out: Operations, a: Value, count: Value) -> Value:
    """Counts of the width or more give 0, or the sign."""
    last = out.constant(a, dtype.bits - 1)
    if opcode == "ashr":
        big = out.compare("icmp ugt", count, last)
        return out.binary(opcode, a, out.select(big, last, count))
    big = out.compare("icmp ugt", count, last)
    if dtype.bits == 64 and a.lanes == 1:
        # Not the select below: the NVPTX of LLVM 22 makes one shift of it, by the count's
        # low 32 bits. Other processors ignore the bits that this clears.
        count = out.binary("and", count, last)
    else:
        count = out.select(big, out.constant(a, 0), count)
    return out.select(big, out.constant(a, 0), out.binary(opcode, a, count))
