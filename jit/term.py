"""Expressions with operators, so that formulas read as formulas.

A term is an expression and the pool it is made in. A python number beside a term
becomes a constant of the term's type.
"""

from dataclasses import dataclass

from jit.dtype import DType, dtypes
from jit.kernel import Expr, Pool

Operand = "Term | int | float"


@dataclass(frozen=True, eq=False)
class Term:
    """One expression; operators make new ones."""

    pool: Pool
    expr: Expr

    @property
    def dtype(self) -> DType:
        return self.expr.dtype

    def like(self, value: "Term | int | float") -> "Term":
        """A constant of this term's type; a term as it is."""
        if isinstance(value, Term):
            return value
        arg = float(value) if self.dtype.is_float else value
        if self.dtype.kind == "i":
            # Hexadecimal constants name bits; the value is the signed one.
            bits = int(value) % (1 << self.dtype.bits)
            arg = bits - (bits >> self.dtype.bits - 1 << self.dtype.bits)
        return Term(self.pool, self.pool.make("const", self.dtype, (), arg))

    def of(self, op: str, *others: "Term | int | float", dtype: DType | None = None) -> "Term":
        """An operation on this term and others."""
        src = (self.expr, *(self.like(o).expr for o in others))
        return Term(self.pool, self.pool.make(op, dtype or self.dtype, src))

    def __add__(self, other: "Term | int | float") -> "Term":
        return self.of("add", other)

    def __radd__(self, other: int | float) -> "Term":
        return self.like(other).of("add", self)

    def __sub__(self, other: "Term | int | float") -> "Term":
        return self.of("sub", other)

    def __rsub__(self, other: int | float) -> "Term":
        return self.like(other).of("sub", self)

    def __mul__(self, other: "Term | int | float") -> "Term":
        return self.of("mul", other)

    def __rmul__(self, other: int | float) -> "Term":
        return self.like(other).of("mul", self)

    def __truediv__(self, other: "Term | int | float") -> "Term":
        return self.of("div", other)

    def __rtruediv__(self, other: int | float) -> "Term":
        return self.like(other).of("div", self)

    def __neg__(self) -> "Term":
        return self.of("neg")

    def __and__(self, other: "Term | int") -> "Term":
        return self.of("and", other)

    def __or__(self, other: "Term | int") -> "Term":
        return self.of("or", other)

    def __xor__(self, other: "Term | int") -> "Term":
        return self.of("xor", other)

    def __invert__(self) -> "Term":
        return self.of("not")

    def __lshift__(self, other: "Term | int") -> "Term":
        return self.of("shl", other)

    def __rshift__(self, other: "Term | int") -> "Term":
        return self.of("shr", other)

    def __lt__(self, other: "Term | int | float") -> "Term":
        return self.of("lt", other, dtype=dtypes.bool)

    def __gt__(self, other: "Term | int | float") -> "Term":
        return self.like(other).of("lt", self, dtype=dtypes.bool)

    def equals(self, other: "Term | int | float") -> "Term":
        return self.of("eq", other, dtype=dtypes.bool)

    def differs(self, other: "Term | int | float") -> "Term":
        return self.of("ne", other, dtype=dtypes.bool)

    def clip(self, least: float, most: float) -> "Term":
        """Between two bounds; NaN stays."""
        return self.of("max", least).of("min", most)

    def to(self, dtype: DType) -> "Term":
        """Converted to a type."""
        return self if dtype is self.dtype else self.of("cast", dtype=dtype)

    def bits(self, dtype: DType) -> "Term":
        """The same bits as another type."""
        return self.of("bitcast", dtype=dtype)

    def where(self, yes: "Term | int | float", no: "Term | int | float") -> "Term":
        """Of a bool: one value or the other. At least one is a term."""
        model = yes if isinstance(yes, Term) else no
        assert isinstance(model, Term)
        a, b = model.like(yes), model.like(no)
        made = self.pool.make("where", a.dtype, (self.expr, a.expr, b.expr))
        return Term(self.pool, made)


def polynomial(x: Term, coefficients: tuple[float, ...]) -> Term:
    """c0 + c1 x + c2 x^2 + ..., by Horner's rule."""
    found = x.like(coefficients[-1])
    for c in reversed(coefficients[:-1]):
        found = found * x + c
    return found


SIGN = 1 << 63


def with_sign(magnitude: Term, sign: Term) -> Term:
    """A float64 with the sign bit of another."""
    bits = magnitude.bits(dtypes.int64) & (SIGN - 1)
    return (bits | (sign.bits(dtypes.int64) & SIGN)).bits(dtypes.float64)
