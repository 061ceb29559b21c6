"""Layers. A layer is any object that holds tensors and can be called; no base class is needed."""

import math

from tensor.errors import TensorError
from tensor.nn import optim, state
from tensor.spatial import Sizes, per_axis
from tensor.tensor import Tensor, update_later

__all__ = [
    "BatchNorm",
    "BatchNorm2d",
    "BatchNorm3d",
    "Conv1d",
    "Conv2d",
    "Embedding",
    "LayerNorm",
    "Linear",
    "optim",
    "state",
]


class Linear:
    """x @ weight.T + bias; weight is (out_features, in_features)."""

    def __init__(self, in_features: int, out_features: int, bias: bool = True) -> None:
        bound = 1 / math.sqrt(in_features)
        self.weight = Tensor.uniform(out_features, in_features, low=-bound, high=bound)
        self.bias = Tensor.uniform(out_features, low=-bound, high=bound) if bias else None

    def __call__(self, x: Tensor) -> Tensor:
        return x.linear(self.weight.transpose(), self.bias)


class Conv2d:
    """Convolution over the last axes; weight is (out_channels, in_channels/groups, *kernel)."""

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: Sizes,
        stride: Sizes = 1,
        padding: Sizes | str = 0,
        dilation: Sizes = 1,
        groups: int = 1,
        bias: bool = True,
    ) -> None:
        kernel = self._kernel(kernel_size)
        if isinstance(padding, str):
            padding = _same_padding(padding, kernel, per_axis(dilation, len(kernel)), stride)
        self.stride, self.dilation, self.groups, self.padding = stride, dilation, groups, padding
        bound = 1 / math.sqrt(in_channels // groups * math.prod(kernel))
        shape = (out_channels, in_channels // groups, *kernel)
        self.weight = Tensor.uniform(*shape, low=-bound, high=bound)
        self.bias = Tensor.uniform(out_channels, low=-bound, high=bound) if bias else None

    def _kernel(self, size: Sizes) -> tuple[int, ...]:
        return per_axis(size, 2)

    def __call__(self, x: Tensor) -> Tensor:
        return x.conv2d(
            self.weight, self.bias, self.groups, self.stride, self.dilation, self.padding
        )


class Conv1d(Conv2d):
    """Convolution over one axis."""

    def _kernel(self, size: Sizes) -> tuple[int, ...]:
        return per_axis(size, 1)


def _same_padding(
    mode: str, kernel: tuple[int, ...], dilation: tuple[int, ...], stride: Sizes
) -> Sizes:
    if mode != "same":
        raise TensorError(f"padding {mode!r} is neither a number nor 'same'")
    if any(s != 1 for s in per_axis(stride, len(kernel))):
        raise TensorError("padding 'same' needs a stride of 1")
    whole = [d * (k - 1) for d, k in zip(dilation, kernel, strict=True)][::-1]
    return [side for p in whole for side in (p // 2, p - p // 2)]


class BatchNorm:
    """Normalise each channel (axis 1) over the batch and space.

    In training the batch's own statistics are used and the running ones updated
    in place; otherwise the running ones are used.
    """

    def __init__(
        self,
        sz: int,
        eps: float = 1e-5,
        affine: bool = True,
        track_running_stats: bool = True,
        momentum: float = 0.1,
    ) -> None:
        self.channels, self.eps, self.momentum = sz, eps, momentum
        self.track_running_stats = track_running_stats
        self.weight = Tensor.ones(sz).contiguous() if affine else None
        self.bias = Tensor.zeros(sz).contiguous() if affine else None
        # requires_grad=False: they follow the data, no optimiser touches them.
        tracked = track_running_stats
        self.num_batches_tracked = Tensor([0], requires_grad=False) if tracked else None
        self.running_mean = _statistic(Tensor.zeros(sz)) if tracked else None
        self.running_var = _statistic(Tensor.ones(sz)) if tracked else None

    def calc_stats(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """(mean, variance) per channel: of the batch in training, else the running ones."""
        if self.running_mean is not None and self.running_var is not None and not Tensor.training:
            return self.running_mean, self.running_var
        axes = tuple(a for a in range(x.ndim) if a != 1)
        shape = (1, x.shape[1], *(1 for _ in x.shape[2:]))
        mean = x.mean(axes)
        away = x - mean.reshape(shape)
        return mean, (away * away).mean(axes)

    def __call__(self, x: Tensor) -> Tensor:
        if x.ndim < 2 or x.shape[1] != self.channels:
            raise TensorError(f"BatchNorm of {self.channels} channels, input {list(x.shape)}")
        mean, var = self.calc_stats(x)
        if Tensor.training and self.track_running_stats:
            self._update(x, mean.detach(), var.detach())
        return x.batchnorm(self.weight, self.bias, mean, (var + self.eps).rsqrt())

    def _update(self, x: Tensor, mean: Tensor, var: Tensor) -> None:
        count = x.numel() // x.shape[1]
        unbiased = var * (count / max(count - 1, 1))
        self._follow(self.running_mean, mean)
        self._follow(self.running_var, unbiased)
        if self.num_batches_tracked is not None:
            update_later(self.num_batches_tracked, lambda old: old + 1)

    def _follow(self, running: Tensor | None, found: Tensor) -> None:
        new = found * self.momentum
        if running is not None:
            update_later(running, lambda old: old * (1 - self.momentum) + new)


def _statistic(start: Tensor) -> Tensor:
    return start.contiguous().requires_grad_(False)


BatchNorm2d = BatchNorm3d = BatchNorm


class LayerNorm:
    """Normalise over the last axes."""

    def __init__(
        self,
        normalized_shape: int | tuple[int, ...],
        eps: float = 1e-5,
        elementwise_affine: bool = True,
    ) -> None:
        sizes = (normalized_shape,) if isinstance(normalized_shape, int) else normalized_shape
        self.normalized_shape = tuple(sizes)
        self.axis, self.eps = tuple(-1 - i for i in range(len(sizes))), eps
        self.weight = Tensor.ones(*sizes).contiguous() if elementwise_affine else None
        self.bias = Tensor.zeros(*sizes).contiguous() if elementwise_affine else None

    def __call__(self, x: Tensor) -> Tensor:
        if x.shape[-len(self.normalized_shape) :] != self.normalized_shape:
            raise TensorError(f"LayerNorm over {self.normalized_shape}, input {list(x.shape)}")
        x = x.layernorm(self.axis, self.eps)
        x = x if self.weight is None else x * self.weight
        return x if self.bias is None else x + self.bias


class Embedding:
    """Rows of a table by number."""

    def __init__(self, vocab_size: int, embed_size: int) -> None:
        self.vocab_sz, self.embed_sz = vocab_size, embed_size
        self.weight = Tensor.glorot_uniform(vocab_size, embed_size)

    def __call__(self, idx: Tensor) -> Tensor:
        return self.weight[idx]
