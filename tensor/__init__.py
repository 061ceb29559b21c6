"""The lazy tensor front end: `from tensor import Tensor, nn, Device, dtypes, Context`.

Names and argument orders follow tinygrad's documented public API.
"""

from typing import Any

from hcq.settings import Context, getenv
from jit.dtype import dtypes
from runtime.counters import GlobalCounters
from runtime.device import Device
from tensor import nn
from tensor.errors import TensorError
from tensor.tensor import Tensor

__all__ = [
    "Context",
    "Device",
    "GlobalCounters",
    "Tensor",
    "TensorError",
    "dtypes",
    "getenv",
    "nn",
]


def __getattr__(name: str) -> Any:
    """Names of the documented interface that this version does not have say so."""
    if name in ("TinyJit", "function"):
        raise AttributeError(
            f"tensor.{name} is not part of this version: recording is not built yet"
        )
    raise AttributeError(f"module 'tensor' has no attribute {name!r}")
