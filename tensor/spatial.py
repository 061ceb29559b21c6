"""Convolution and pooling."""

import math
from collections.abc import Sequence
from operator import gt
from typing import Self

from jit import graph
from jit.dtype import Kind
from tensor.errors import TensorError
from tensor.indexing import Indexing

Sizes = int | Sequence[int]


def per_axis(value: Sizes, count: int) -> tuple[int, ...]:
    """One number for every spatial axis."""
    return (value,) * count if isinstance(value, int) else tuple(value)


class Spatial(Indexing):
    """Sliding windows over the last axes."""

    __slots__ = ()

    def _windows(
        self, kernel: Sequence[int], stride: Sequence[int], dilation: Sequence[int]
    ) -> Self:
        """(..., H, W) -> (..., outH, outW, kH, kW)."""
        count = len(kernel)
        lead = self.ndim - count
        reach = [(k - 1) * d + 1 for k, d in zip(kernel, dilation, strict=True)]
        numbers = (*kernel, *stride, *dilation)
        if lead < 0 or min(numbers) < 1 or any(map(gt, reach, self.shape[lead:])):
            raise TensorError(
                f"windows of {list(kernel)} do not fit {list(self.shape)}",
                facts={"stride": list(stride), "dilation": list(dilation)},
                hint="the sizes of the input are those with padding",
            )
        node = self.node
        for i in range(count):
            node = graph.window(node, lead + 2 * i, kernel[i], stride[i], dilation[i])
        order = [*range(lead), *(lead + 2 * i for i in range(count))]
        return self.of(node).permute(*order, *(lead + 2 * i + 1 for i in range(count)))

    def _padded(self, padding: Sizes, count: int, value: float = 0.0) -> Self:
        """Spatial axes padded; 4 numbers for 2 axes are (left, right, top, bottom)."""
        if isinstance(padding, int) or len(padding) == count:
            sides = [p for n in reversed(per_axis(padding, count)) for p in (n, n)]
        elif len(padding) == 2 * count:
            sides = list(padding)
        else:
            raise TensorError(f"padding {padding} for {count} spatial dimensions")
        return self.pad(sides, value=value) if any(sides) else self

    def conv2d(
        self,
        weight: Self,
        bias: Self | None = None,
        groups: int = 1,
        stride: Sizes = 1,
        dilation: Sizes = 1,
        padding: Sizes = 0,
        dtype: Kind | None = None,
    ) -> Self:
        """(N, Cin, ...) with weight (Cout, Cin/groups, ...) -> (N, Cout, ...); any rank."""
        if self.ndim != weight.ndim or self.ndim < 3:
            raise TensorError(f"conv2d: input {list(self.shape)}, weight {list(weight.shape)}")
        batch, channels = self.shape[:2]
        out_channels, per_group, *kernel = weight.shape
        if groups * per_group != channels or out_channels % groups:
            raise TensorError(
                f"conv2d: input {list(self.shape)}, weight {list(weight.shape)}, {groups} groups",
                facts={"channels": channels, "expected": groups * per_group},
            )
        count = len(kernel)
        x = self._padded(padding, count)
        x = x._windows(kernel, per_axis(stride, count), per_axis(dilation, count))
        space = x.shape[2 : 2 + count]
        ones = (1,) * count
        x = x.reshape((batch, groups, 1, per_group, *space, *kernel))
        w = weight.reshape((1, groups, out_channels // groups, per_group, *ones, *kernel))
        axes = (3, *range(4 + count, 4 + 2 * count))
        y = (x * w).sum(axes, dtype=dtype).reshape((batch, out_channels, *space))
        return y if bias is None else y + bias.reshape((1, out_channels, *ones))

    def avg_pool2d(
        self,
        kernel_size: Sizes = (2, 2),
        stride: Sizes | None = None,
        dilation: Sizes = 1,
        padding: Sizes = 0,
        count_include_pad: bool = True,
    ) -> Self:
        kernel = per_axis(kernel_size, 2)
        steps = per_axis(kernel if stride is None else stride, 2)
        spread = per_axis(dilation, 2)
        total = self._padded(padding, 2)._windows(kernel, steps, spread).sum((-1, -2))
        if count_include_pad:
            return total / math.prod(kernel)
        ones = self.constant(1)._padded(padding, 2)
        return total / ones._windows(kernel, steps, spread).sum((-1, -2))

    def max_pool2d(
        self,
        kernel_size: Sizes = (2, 2),
        stride: Sizes | None = None,
        dilation: Sizes = 1,
        padding: Sizes = 0,
    ) -> Self:
        kernel = per_axis(kernel_size, 2)
        steps = per_axis(kernel if stride is None else stride, 2)
        x = self._padded(padding, 2, value=self.dtype.least)
        return x._windows(kernel, steps, per_axis(dilation, 2)).max((-1, -2))
