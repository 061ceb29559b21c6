"""Tensor methods named after dtypes. Apart, since their names are Python's types."""

from typing import Self

from jit.dtype import dtypes
from tensor.core import Core


class Conversion(Core):
    """Casts by name."""

    __slots__ = ()

    def float(self) -> Self:
        return self.cast(dtypes.float32)

    def double(self) -> Self:
        return self.cast(dtypes.float64)

    def half(self) -> Self:
        return self.cast(dtypes.float16)

    def bfloat16(self) -> Self:
        return self.cast(dtypes.bfloat16)

    def int(self) -> Self:
        return self.cast(dtypes.int32)

    def long(self) -> Self:
        return self.cast(dtypes.int64)

    def short(self) -> Self:
        return self.cast(dtypes.int16)

    def bool(self) -> Self:
        return self.cast(dtypes.bool)
