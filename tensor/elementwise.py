"""Tensor methods that work element by element."""

import math
from typing import Any, Self

from jit import graph
from jit.dtype import Kind, dtypes, promote, to_dtype
from jit.graph import Op
from tensor.core import Core, Scalar, broadcast_shape
from tensor.errors import TensorError


class Elementwise(Core):
    """Arithmetic, comparison, math functions, activations."""

    __slots__ = ()
    __hash__ = object.__hash__

    # Binary arithmetic

    def add(self, x: Any, reverse: bool = False) -> Self:
        return self.binary(Op.OR if self._both_bool(x) else Op.ADD, x, reverse)

    def sub(self, x: Any, reverse: bool = False) -> Self:
        return self.binary(Op.XOR if self._both_bool(x) else Op.SUB, x, reverse)

    def mul(self, x: Any, reverse: bool = False) -> Self:
        return self.binary(Op.AND if self._both_bool(x) else Op.MUL, x, reverse)

    def _both_bool(self, x: Any) -> bool:
        other = getattr(x, "dtype", dtypes.bool if isinstance(x, bool) else None)
        return self.dtype is dtypes.bool and other is dtypes.bool

    def div(self, x: Any, reverse: bool = False, rounding_mode: str | None = None) -> Self:
        """True division in floating point; "trunc" and "floor" keep integers integers."""
        left, right = self.matched(x, "div")
        if reverse:
            left, right = right, left
        if rounding_mode is None:
            return left.floating().binary(Op.DIV, right.floating())
        if rounding_mode not in ("trunc", "floor"):
            raise TensorError(
                f"div: rounding_mode {rounding_mode!r} is neither 'trunc' nor 'floor'"
            )
        if left.dtype.is_float:
            quotient = left.binary(Op.DIV, right)
            return quotient.trunc() if rounding_mode == "trunc" else quotient.floor()
        left, right = left._integral(), right._integral()
        quotient = left.binary(Op.IDIV, right)
        if rounding_mode == "trunc" or left.dtype.kind == "u":
            return quotient
        # Toward minus infinity: one less where the remainder's sign is not the divisor's.
        inexact = left.binary(Op.MOD, right).ne(0)
        return quotient - (inexact & (left.lt(0) ^ right.lt(0))).cast(quotient.dtype)

    def _integral(self) -> Self:
        return self.cast(dtypes.int32) if self.dtype is dtypes.bool else self

    def mod(self, x: Any, reverse: bool = False) -> Self:
        """The remainder with the sign of the divisor, as Python's %."""
        left, right = self.matched(x, "mod")
        if reverse:
            left, right = right, left
        if left.dtype.is_float:
            return left - left.div(right, rounding_mode="floor") * right
        left, right = left._integral(), right._integral()
        rest = left.binary(Op.MOD, right)
        wrong = rest.ne(0) & (rest.lt(0) ^ right.lt(0))
        return wrong.where(rest + right, rest)

    def fmod(self, x: Any) -> Self:
        """The remainder with the sign of the dividend, as C's fmod."""
        left, right = self.matched(x, "fmod")
        if left.dtype.is_float:
            return left - left.div(right, rounding_mode="trunc") * right
        return left._integral().binary(Op.MOD, right._integral())

    def pow(self, x: Any, reverse: bool = False) -> Self:
        """self to the power x. Small integer powers are products."""
        if not reverse and isinstance(x, int | float) and x in (0, 0.5, 1, 2, 3, -1):
            return self._small_power(x)
        left, right = self.matched(x, "pow")
        if left.dtype.is_float:
            return left.binary(Op.POW, right, reverse)
        wide = left.cast(dtypes.float64).binary(Op.POW, right.cast(dtypes.float64), reverse)
        return wide.round().cast(left.dtype)

    def _small_power(self, x: float) -> Self:
        if x == 0:
            return self.constant(1)
        if x == 0.5:
            return self.sqrt()
        if x == -1:
            return self.reciprocal()
        return self if x == 1 else self * self if x == 2 else self * self * self

    def maximum(self, x: Any) -> Self:
        return self.binary(Op.OR if self._both_bool(x) else Op.MAX, x)

    def minimum(self, x: Any) -> Self:
        return self.binary(Op.AND if self._both_bool(x) else Op.MIN, x)

    def where(self, x: Any, y: Any) -> Self:
        """x where self is true, y elsewhere."""
        condition = self if self.dtype is dtypes.bool else self.ne(0)
        if not isinstance(x, Core) and not isinstance(y, Core):
            x = self._where_scalar(x, y)
        first: Self = x if isinstance(x, Core) else y.operand(x)  # type: ignore[assignment]
        second: Self = first.operand(y)
        dtype = promote(first.dtype, second.dtype)
        shape = broadcast_shape("where", condition.shape, first.shape, second.shape)
        parts = (condition, first.cast(dtype), second.cast(dtype))
        return self.of(graph.elementwise(Op.WHERE, *(p.expand_to(shape).node for p in parts)))

    def _where_scalar(self, x: Any, y: Any) -> Self:
        if isinstance(x, float) or isinstance(y, float):
            return self.floating().constant(x)
        kind = dtypes.bool if isinstance(x, bool) and isinstance(y, bool) else dtypes.int32
        return self.constant(x, kind)

    def masked_fill(self, mask: Any, value: Any) -> Self:
        """value where mask is true, self elsewhere."""
        return self.operand(mask).cast(dtypes.bool).where(value, self)

    def copysign(self, other: Any) -> Self:
        """The magnitude of self with the sign of other, -0.0 counted as negative."""
        left, right = self.floating().matched(other, "copysign")
        negative = right.lt(0) | (right.eq(0) & right.reciprocal().lt(0))
        return negative.where(-left.abs(), left.abs())

    def logaddexp(self, other: Any) -> Self:
        """log(exp(self) + exp(other)), with all digits however far apart they are."""
        left, right = self.floating().matched(other, "logaddexp")
        apart = left.eq(right).where(0, (left - right).abs())  # infinity less itself is NaN
        return left.maximum(right) + (-apart).exp().log1p()

    def lerp(self, end: Any, weight: Any) -> Self:
        return self.add(self.operand(end).sub(self).mul(weight))

    def atan2(self, x: Any) -> Self:
        return self.floating().binary(Op.ATAN2, x)

    # Bits

    def bitwise_and(self, x: Any, reverse: bool = False) -> Self:
        return self._integers("and").binary(Op.AND, x, reverse)

    def bitwise_or(self, x: Any, reverse: bool = False) -> Self:
        return self._integers("or").binary(Op.OR, x, reverse)

    def bitwise_xor(self, x: Any, reverse: bool = False) -> Self:
        return self._integers("xor").binary(Op.XOR, x, reverse)

    def lshift(self, x: Any, reverse: bool = False) -> Self:
        return self._integers("shift").binary(Op.SHL, x, reverse)

    def rshift(self, x: Any, reverse: bool = False) -> Self:
        return self._integers("shift").binary(Op.SHR, x, reverse)

    def bitwise_not(self) -> Self:
        return self._integers("not").unary(Op.NOT)

    def logical_not(self) -> Self:
        return self.cast(dtypes.bool).unary(Op.NOT)

    def _integers(self, op: str) -> Self:
        if self.dtype.is_float:
            raise TensorError(f"{op} of {self.dtype.name}: only integers and bool have bits")
        return self

    # Comparison

    def lt(self, x: Any) -> Self:
        return self.binary(Op.LT, x)

    def gt(self, x: Any) -> Self:
        return self.binary(Op.LT, x, reverse=True)

    def eq(self, x: Any) -> Self:
        return self.binary(Op.EQ, x)

    def ne(self, x: Any) -> Self:
        return self.binary(Op.NE, x)

    def le(self, x: Any) -> Self:
        return self.lt(x) | self.eq(x)

    def ge(self, x: Any) -> Self:
        return self.gt(x) | self.eq(x)

    def isnan(self) -> Self:
        return self.ne(self)

    def isinf(self) -> Self:
        return self.abs().eq(math.inf)

    def isfinite(self) -> Self:
        return self.abs().lt(math.inf)

    # Unary math

    def neg(self) -> Self:
        return self.logical_not() if self.dtype is dtypes.bool else self.unary(Op.NEG)

    def abs(self) -> Self:
        return self if self.dtype.kind in "bu" else self.unary(Op.ABS)

    def sign(self) -> Self:
        """-1, 0 or 1; NaN stays."""
        positive = self.gt(0).cast(self.dtype)
        signs = positive - self.lt(0).cast(self.dtype) if self.dtype.kind in "if" else positive
        return self.isnan().where(self, signs) if self.dtype.is_float else signs

    def square(self) -> Self:
        return self * self

    def reciprocal(self) -> Self:
        x = self.floating()
        return x.constant(1).binary(Op.DIV, x)

    def sqrt(self) -> Self:
        return self.floating().unary(Op.SQRT)

    def rsqrt(self) -> Self:
        return self.sqrt().reciprocal()

    def exp(self) -> Self:
        return self.floating().unary(Op.EXP)

    def exp2(self) -> Self:
        return self.floating().unary(Op.EXP2)

    def log(self) -> Self:
        return self.floating().unary(Op.LOG)

    def log2(self) -> Self:
        return self.floating().unary(Op.LOG2)

    def log10(self) -> Self:
        x = self.floating()
        wide = x.cast(dtypes.float64) if x.dtype is not dtypes.float64 else x
        return (wide.unary(Op.LOG) * (1 / math.log(10))).cast(x.dtype)

    def log1p(self) -> Self:
        """log(1 + x), with all digits where x is small."""
        x = self.floating()
        near = x.abs().lt(0.5)
        small = near.where(x, 0)  # elsewhere gradients would be infinite
        return near.where((small / (small + 2)).atanh() * 2, (x + 1).log())

    def expm1(self) -> Self:
        """exp(x) - 1, with all digits where x is small."""
        x = self.floating()
        near = x.abs().lt(1)
        half = near.where(x, 0) * 0.5
        return near.where(half.sinh() * half.exp() * 2, x.exp() - 1)

    def sin(self) -> Self:
        return self.floating().unary(Op.SIN)

    def cos(self) -> Self:
        return self.floating().unary(Op.COS)

    def tan(self) -> Self:
        return self.floating().unary(Op.TAN)

    def asin(self) -> Self:
        return self.floating().unary(Op.ASIN)

    def acos(self) -> Self:
        return self.floating().unary(Op.ACOS)

    def atan(self) -> Self:
        return self.floating().unary(Op.ATAN)

    def sinh(self) -> Self:
        return self.floating().unary(Op.SINH)

    def cosh(self) -> Self:
        return self.floating().unary(Op.COSH)

    def tanh(self) -> Self:
        return self.floating().unary(Op.TANH)

    def asinh(self) -> Self:
        return self.floating().unary(Op.ASINH)

    def acosh(self) -> Self:
        return self.floating().unary(Op.ACOSH)

    def atanh(self) -> Self:
        return self.floating().unary(Op.ATANH)

    def erf(self) -> Self:
        return self.floating().unary(Op.ERF)

    def trunc(self) -> Self:
        return self.unary(Op.TRUNC) if self.dtype.is_float else self

    def floor(self) -> Self:
        return self.unary(Op.FLOOR) if self.dtype.is_float else self

    def ceil(self) -> Self:
        return self.unary(Op.CEIL) if self.dtype.is_float else self

    def round(self) -> Self:
        """To the nearest whole number, halves to even."""
        return self.unary(Op.ROUND) if self.dtype.is_float else self

    def clamp(self, min_: Any = None, max_: Any = None) -> Self:
        """Limit to [min_, max_]; either may be left out."""
        if min_ is None and max_ is None:
            raise TensorError("clamp: give a lower or an upper limit")
        low = self if min_ is None else self.maximum(min_)
        return low if max_ is None else low.minimum(max_)

    clip = clamp

    def bitcast(self, dtype: Kind) -> Self:
        """The same bits as another dtype of equal width."""
        dtype = to_dtype(dtype)
        if dtype.itemsize != self.dtype.itemsize:
            raise TensorError(f"bitcast: {self.dtype.name} and {dtype.name} differ in width")
        return self.of(graph.bitcast(self.node, dtype))

    # Activations

    def relu(self) -> Self:
        """max(x, 0); NaN stays, and the gradient at 0 is 0."""
        return self.le(0).where(0, self)

    def relu6(self) -> Self:
        return self.ge(6).where(6, self.relu())

    def sigmoid(self) -> Self:
        return ((-self.floating()).exp() + 1).reciprocal()

    def logsigmoid(self) -> Self:
        return -((-self).softplus())

    def hardsigmoid(self, alpha: Scalar = 1 / 6, beta: Scalar = 0.5) -> Self:
        return (self * alpha + beta).clamp(0, 1)

    def elu(self, alpha: Scalar = 1.0) -> Self:
        return self.gt(0).where(self, self.expm1() * alpha)

    def celu(self, alpha: Scalar = 1.0) -> Self:
        return self.maximum(0) + ((self / alpha).expm1() * alpha).minimum(0)

    def selu(self, alpha: Scalar = 1.67326, gamma: Scalar = 1.0507) -> Self:
        return self.gt(0).where(self, self.expm1() * alpha) * gamma

    def silu(self) -> Self:
        return self * self.sigmoid()

    swish = silu

    def hardswish(self) -> Self:
        return self * (self + 3).relu6() * (1 / 6)

    def hardtanh(self, min_val: Scalar = -1, max_val: Scalar = 1) -> Self:
        return self.clamp(min_val, max_val)

    def gelu(self) -> Self:
        """The tanh form."""
        inner = (self * self * self * 0.044715 + self) * math.sqrt(2 / math.pi)
        return self * 0.5 * (inner.tanh() + 1)

    def quick_gelu(self) -> Self:
        return self * (self * 1.702).sigmoid()

    def leaky_relu(self, neg_slope: Scalar = 0.01) -> Self:
        return self.lt(0).where(self * neg_slope, self)

    def softplus(self, beta: Scalar = 1.0) -> Self:
        scaled = self * beta
        return (scaled.logaddexp(0.0)) * (1 / beta)

    def mish(self) -> Self:
        return self * self.softplus().tanh()

    def softsign(self) -> Self:
        return self / (self.abs() + 1)

    # Operators

    def __add__(self, x: Any) -> Self:
        return self.add(x)

    def __radd__(self, x: Any) -> Self:
        return self.add(x, reverse=True)

    def __sub__(self, x: Any) -> Self:
        return self.sub(x)

    def __rsub__(self, x: Any) -> Self:
        return self.sub(x, reverse=True)

    def __mul__(self, x: Any) -> Self:
        return self.mul(x)

    def __rmul__(self, x: Any) -> Self:
        return self.mul(x, reverse=True)

    def __truediv__(self, x: Any) -> Self:
        return self.div(x)

    def __rtruediv__(self, x: Any) -> Self:
        return self.div(x, reverse=True)

    def __floordiv__(self, x: Any) -> Self:
        return self.div(x, rounding_mode="floor")

    def __rfloordiv__(self, x: Any) -> Self:
        return self.div(x, reverse=True, rounding_mode="floor")

    def __mod__(self, x: Any) -> Self:
        return self.mod(x)

    def __rmod__(self, x: Any) -> Self:
        return self.mod(x, reverse=True)

    def __pow__(self, x: Any) -> Self:
        return self.pow(x)

    def __rpow__(self, x: Any) -> Self:
        return self.pow(x, reverse=True)

    def __and__(self, x: Any) -> Self:
        return self.bitwise_and(x)

    def __rand__(self, x: Any) -> Self:
        return self.bitwise_and(x, reverse=True)

    def __or__(self, x: Any) -> Self:
        return self.bitwise_or(x)

    def __ror__(self, x: Any) -> Self:
        return self.bitwise_or(x, reverse=True)

    def __xor__(self, x: Any) -> Self:
        return self.bitwise_xor(x)

    def __rxor__(self, x: Any) -> Self:
        return self.bitwise_xor(x, reverse=True)

    def __lshift__(self, x: Any) -> Self:
        return self.lshift(x)

    def __rshift__(self, x: Any) -> Self:
        return self.rshift(x)

    def __neg__(self) -> Self:
        return self.neg()

    def __abs__(self) -> Self:
        return self.abs()

    def __invert__(self) -> Self:
        return self.bitwise_not()

    def __lt__(self, x: Any) -> Self:
        return self.lt(x)

    def __gt__(self, x: Any) -> Self:
        return self.gt(x)

    def __le__(self, x: Any) -> Self:
        return self.le(x)

    def __ge__(self, x: Any) -> Self:
        return self.ge(x)

    def __eq__(self, x: object) -> Self:  # type: ignore[override]
        return self.eq(x)

    def __ne__(self, x: object) -> Self:  # type: ignore[override]
        return self.ne(x)
