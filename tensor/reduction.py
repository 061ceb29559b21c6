"""Tensor methods that reduce axes, and what is built of them."""

import math
from collections.abc import Sequence
from typing import Any, Self

from jit import graph
from jit.dtype import DType, Kind, dtypes, sum_dtype
from tensor.core import broadcast_shape
from tensor.elementwise import Elementwise
from tensor.errors import TensorError
from tensor.movement import Movement

Axis = int | Sequence[int] | None


class Reduction(Elementwise, Movement):
    """Sums, extremes, means, normalisation and losses."""

    __slots__ = ()

    def _reduce(self, kind: str, axis: Axis, keepdim: bool) -> Self:
        axes = self.axes(axis)
        if kind in ("max", "min") and any(self.shape[a] == 0 for a in axes):
            raise TensorError(f"{kind} over an axis of size 0", facts={"shape": list(self.shape)})
        result = self.of(graph.reduce(self.node, kind, axes))
        if not keepdim:
            return result
        return result.reshape(tuple(1 if a in axes else n for a, n in enumerate(self.shape)))

    def sum(self, axis: Axis = None, keepdim: bool = False, dtype: Kind | None = None) -> Self:
        """Halves accumulate in float32 and come back as halves; small integers widen."""
        wide = sum_dtype(self.dtype) if dtype is None else dtype
        total = self.cast(wide)._reduce("sum", axis, keepdim)
        return total.cast(self.dtype) if dtype is None and self.dtype.is_float else total

    def prod(self, axis: Axis = None, keepdim: bool = False, dtype: Kind | None = None) -> Self:
        wide = sum_dtype(self.dtype) if dtype is None else dtype
        total = self.cast(wide)._reduce("prod", axis, keepdim)
        return total.cast(self.dtype) if dtype is None and self.dtype.is_float else total

    def max(self, axis: Axis = None, keepdim: bool = False) -> Self:
        return self._reduce("max", axis, keepdim)

    def min(self, axis: Axis = None, keepdim: bool = False) -> Self:
        return self._reduce("min", axis, keepdim)

    def any(self, axis: Axis = None, keepdim: bool = False) -> Self:
        return self.cast(dtypes.bool).cast(dtypes.int32)._reduce("sum", axis, keepdim).ne(0)

    def all(self, axis: Axis = None, keepdim: bool = False) -> Self:
        return self.cast(dtypes.bool).logical_not().any(axis, keepdim).logical_not()

    def _count(self, axis: Axis) -> int:
        return math.prod(self.shape[a] for a in self.axes(axis))

    def mean(self, axis: Axis = None, keepdim: bool = False) -> Self:
        x = self.floating()
        wide = x.cast(sum_dtype(x.dtype))
        total = (
            wide._reduce("sum", axis, keepdim) / x._count(axis)
            if x._count(axis)
            else (wide._reduce("sum", axis, keepdim) * math.nan)
        )
        return total.cast(x.dtype)

    def var(self, axis: Axis = None, keepdim: bool = False, correction: int = 1) -> Self:
        x = self.floating()
        away = x - x.mean(axis, keepdim=True)
        return (away * away).sum(axis, keepdim) / max(0, x._count(axis) - correction)

    def std(self, axis: Axis = None, keepdim: bool = False, correction: int = 1) -> Self:
        return self.var(axis, keepdim, correction).sqrt()

    def var_mean(
        self, axis: Axis = None, keepdim: bool = False, correction: int = 1
    ) -> tuple[Self, Self]:
        return self.var(axis, keepdim, correction), self.mean(axis, keepdim)

    def std_mean(
        self, axis: Axis = None, keepdim: bool = False, correction: int = 1
    ) -> tuple[Self, Self]:
        return self.std(axis, keepdim, correction), self.mean(axis, keepdim)

    def argmax(self, axis: int | None = None, keepdim: bool = False) -> Self:
        """The index of the first largest element; of the flattened tensor when axis is None.

        NaN counts as larger than anything, as in numpy.
        """
        if axis is None:
            return self.flatten().argmax(0)
        at = self.axis(axis)
        size = self.shape[at] if self.ndim else 1
        best = self.eq(self.max(at, keepdim=True))
        if self.dtype.is_float:  # NaN equals nothing, but where there is one it is the largest
            best = best | self.ne(self)
        places = self.of(graph.iota(self.shape, at, dtypes.int32, self.device))
        # The first place is the largest distance from the end.
        distance = best.where(places.constant(size) - places, 0).max(at, keepdim)
        return distance.constant(size) - distance

    def argmin(self, axis: int | None = None, keepdim: bool = False) -> Self:
        # Minus the least integer is itself, therefore the complement.
        flipped = -self if self.dtype.is_float else self.bitwise_not()
        return flipped.argmax(axis, keepdim)

    # Normalisation

    def softmax(self, axis: int = -1, dtype: Kind | None = None) -> Self:
        shifted = self._shifted(axis, dtype).exp()
        return shifted / shifted.sum(axis, keepdim=True)

    def softmin(self, axis: int = -1, dtype: Kind | None = None) -> Self:
        return (-self).softmax(axis, dtype)

    def log_softmax(self, axis: int = -1, dtype: Kind | None = None) -> Self:
        shifted = self._shifted(axis, dtype)
        return shifted - shifted.exp().sum(axis, keepdim=True).log()

    def _shifted(self, axis: int, dtype: DType | None) -> Self:
        x = self.floating() if dtype is None else self.cast(dtype)
        return x - x.max(axis, keepdim=True).detach()

    def detach(self) -> Self:
        """The same value; gradients stop here."""
        return self.of(graph.detach(self.node), False)

    def logsumexp(self, axis: Axis = None, keepdim: bool = False) -> Self:
        top = self.max(axis, keepdim=True).detach()
        top = top.isfinite().where(top, 0)
        total = (self - top).exp().sum(axis, keepdim=True).log() + top
        return total if keepdim else total.reshape(self.max(axis).shape)

    def norm(self, p: float = 2.0, axis: Axis = None, keepdim: bool = False) -> Self:
        """The p-th root of the sum of the p-th powers of the magnitudes; p may be infinite."""
        if p == math.inf:
            return self.floating().abs().max(axis, keepdim)
        if not p > 0:
            raise TensorError(f"norm: p is a number above 0, not {p}")
        return self.floating().abs().pow(p).sum(axis, keepdim).pow(1 / p)

    def normalize(self, p: float = 2.0, dim: int = 1, eps: float = 1e-12) -> Self:
        return self / self.norm(p, dim, keepdim=True).maximum(eps)

    def layernorm(self, axis: Axis = -1, eps: float = 1e-5) -> Self:
        away = self - self.mean(axis, keepdim=True)
        return away * ((away * away).mean(axis, keepdim=True) + eps).rsqrt()

    def batchnorm(
        self, weight: Self | None, bias: Self | None, mean: Self, invstd: Self, axis: int = 1
    ) -> Self:
        at = self.axis(axis)
        shape = tuple(n if i == at else 1 for i, n in enumerate(self.shape))
        x = (self - mean.reshape(shape)) * invstd.reshape(shape)
        x = x if weight is None else x * weight.reshape(shape)
        return x if bias is None else x + bias.reshape(shape)

    # Products

    def dot(self, w: Self, dtype: Kind | None = None) -> Self:
        """Matrix product by numpy's rule: last axis of self with the last but one of w."""
        if not self.ndim or not w.ndim:
            raise TensorError(f"dot of shapes {list(self.shape)} and {list(w.shape)}: no axes")
        inner = w.shape[-2] if w.ndim > 1 else w.shape[0]
        if self.shape[-1] != inner:
            raise TensorError(
                f"dot: shapes {list(self.shape)} and {list(w.shape)} do not match",
                facts={"left": list(self.shape), "right": list(w.shape)},
            )
        broadcast_shape("dot", self.shape[:-2], w.shape[:-2], shown=(self.shape, w.shape))
        left, right = self, w.transpose(-1, -2) if w.ndim > 1 else w
        if self.ndim > 1 and w.ndim > 1:
            left = left.reshape((*left.shape[:-1], 1, left.shape[-1]))
            right = right.reshape((*right.shape[:-2], 1, *right.shape[-2:]))
        return (left * right).sum(-1, dtype=dtype)

    def matmul(self, x: Self, reverse: bool = False, dtype: Kind | None = None) -> Self:
        return x.dot(self, dtype) if reverse else self.dot(x, dtype)

    def __matmul__(self, x: Self) -> Self:
        return self.matmul(x)

    def linear(self, weight: Self, bias: Self | None = None) -> Self:
        """self @ weight + bias; weight is (in, out), or a vector that scales."""
        x = self * weight if weight.ndim == 1 else self.dot(weight)
        return x if bias is None else x + bias

    # Losses

    def one_hot(self, num_classes: int = -1) -> Self:
        if num_classes < 0:
            raise TensorError("one_hot: give num_classes")
        shape = (*self.shape, num_classes)
        places = self.of(graph.iota(shape, self.ndim, self._whole().dtype, self.device))
        return self._whole().unsqueeze(-1).expand_to(shape).eq(places).cast(dtypes.int32)

    def _whole(self) -> Self:
        if self.dtype.is_float:
            raise TensorError(f"class numbers are integers, not {self.dtype.name}")
        return self if self.dtype.is_int else self.cast(dtypes.int32)

    def _finish(self, reduction: str) -> Self:
        if reduction not in ("mean", "sum", "none"):
            raise TensorError(f"reduction {reduction!r} is none of mean, sum, none")
        return {"mean": self.mean, "sum": self.sum, "none": lambda: self}[reduction]()

    def binary_crossentropy(self, Y: Self, reduction: str = "mean") -> Self:
        return (-Y * self.log() - (1 - Y) * (1 - self).log())._finish(reduction)

    def binary_crossentropy_logits(self, Y: Self, reduction: str = "mean") -> Self:
        return (self.maximum(0) - Y * self + (-self.abs()).exp().log1p())._finish(reduction)

    def sparse_categorical_crossentropy(
        self,
        Y: Self,
        ignore_index: int = -1,
        label_smoothing: float = 0.0,
        reduction: str = "mean",
    ) -> Self:
        """Cross entropy of logits over the last axis with class numbers.

        A class number outside of the axis counts as a loss of no class, not as an error.
        """
        if Y.shape != self.shape[:-1] or not self.ndim:
            raise TensorError(
                f"class numbers of shape {list(Y.shape)} for logits of shape {list(self.shape)}",
                hint="the logits have one axis more, the last",
            )
        logs = self.log_softmax()
        chosen = (logs * Y.one_hot(self.shape[-1]).cast(logs.dtype)).sum(-1)
        smooth = logs.mean(-1)
        kept = Y.ne(ignore_index).cast(logs.dtype)
        losses = -(chosen * (1 - label_smoothing) + smooth * label_smoothing) * kept
        if reduction == "mean":
            return losses.sum() / kept.sum()
        return losses._finish(reduction)

    def cross_entropy(self, Y: Self, reduction: str = "mean", label_smoothing: float = 0.0) -> Self:
        """Cross entropy of logits over axis 1 with class numbers or class probabilities."""
        classes = 1 if self.ndim > 1 else 0
        if Y.ndim != self.ndim:
            order = [i for i in range(self.ndim) if i != classes]
            hot = Y.one_hot(self.shape[classes])
            places = [*range(classes), self.ndim - 1, *range(classes, self.ndim - 1)]
            Y = hot.permute(*places) if order else hot
        Y = Y.cast(self.floating().dtype)
        Y = Y * (1 - label_smoothing) + label_smoothing / self.shape[classes]
        return (-(self.log_softmax(classes) * Y).sum(classes))._finish(reduction)

    def nll_loss(self, Y: Self, reduction: str = "mean") -> Self:
        """Negative log likelihood of log probabilities over axis 1 with class numbers."""
        hot = Y.one_hot(self.shape[1]).cast(self.dtype)
        places = [0, self.ndim - 1, *range(1, self.ndim - 1)]
        return (-(self * hot.permute(*places)).sum(1))._finish(reduction)

    def isclose(self, other: Any, rtol: float = 1e-5, atol: float = 1e-8) -> Self:
        near = self.sub(other).abs() <= (self.operand(other).abs() * rtol + atol)
        return self.eq(other) | (self.isfinite() & near)

    def allclose(self, other: Any, rtol: float = 1e-5, atol: float = 1e-8) -> bool:
        return bool(self.isclose(other, rtol, atol).all().item())  # type: ignore[attr-defined]
