"""Calls as plain data: what a schedule hands to the executor."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from runtime.backend import Kernel

if TYPE_CHECKING:
    from runtime.batch import LaunchBatch
    from runtime.buffer import Buffer


@dataclass(frozen=True)
class Estimate:
    """What a call costs by its own account: arithmetic operations and bytes moved."""

    operations: int = 0
    bytes: int = 0


@dataclass(frozen=True)
class ProgramCall:
    """Run a kernel on `device`; buffers in the kernel's argument order, outputs first."""

    kernel: Kernel
    buffers: tuple["Buffer", ...]
    device: str
    outputs: int = 1  # how many of the buffers, from the front, are written
    variables: Mapping[str, int] = field(default_factory=dict)
    estimate: Estimate = Estimate()


@dataclass(frozen=True)
class CopyCall:
    """Copy all bytes of source to target; equal sizes, any two devices."""

    target: "Buffer"
    source: "Buffer"


@dataclass(frozen=True)
class BatchCall:
    """Run a list of launches that was built before, by one call; `device` runs it."""

    batch: "LaunchBatch"
    device: str


Call = ProgramCall | CopyCall | BatchCall
