"""Translated kernels, found by the address of their code and checked against its bytes.

Every launch compares the code in memory with the code that was translated, so a program
that changes its kernels gets what it wrote.
"""

from __future__ import annotations

import ctypes
import hashlib
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Set
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar, Generic, Protocol, TypeVar

from hcq.errors import SimFault
from sim.isa.jit import Jit, digest_of
from sim.memory import GpuMemory

MOST_TRANSLATED = 256 << 10  # bytes: LLVM takes seconds for them, and cannot be stopped
Variant = tuple[Any, ...]  # what decides how the same bytes are read, besides the address


class Stopped(Exception):
    """Whoever wanted the launch does not want it any more."""


class EndedBlock(Protocol):
    """A basic block."""

    @property
    def end(self) -> int: ...

    problem: SimFault | None


class CodeOf(Protocol):
    """A kernel's control flow."""

    @property
    def blocks(self) -> dict[int, Any]: ...

    def ranges(self) -> list[tuple[int, int]]:
        """Where code lies: (first byte, one past the last), from the entry."""


ProgramT = TypeVar("ProgramT", bound=CodeOf)


@dataclass
class BaseKernel(Generic[ProgramT]):
    """One kernel: its control flow, its bytes, and native functions made so far."""

    entry: int
    variant: Variant
    program: ProgramT
    code: tuple[tuple[int, bytes], ...]  # pieces: bytes from the entry, and what lies there
    targets: set[int]  # computed branch targets seen so far
    functions: dict[bool, int] = field(default_factory=dict)  # full waves, others

    @cached_property
    def problems(self) -> dict[int, SimFault]:
        """Where control flow ends in nothing that can be executed, and why."""
        blocks: list[EndedBlock] = list(self.program.blocks.values())
        return {block.end: block.problem for block in blocks if block.problem is not None}

    @property
    def is_large(self) -> bool:
        """Whether translating it would take too long: it is interpreted."""
        return sum(len(code) for _, code in self.code) > MOST_TRANSLATED

    @property
    def is_placed(self) -> bool:
        """Whether the code is another one at another address."""
        return False


KernelT = TypeVar("KernelT", bound=BaseKernel[Any])


class BaseKernels(ABC, Generic[KernelT]):
    """Finds or makes the kernel at an address."""

    family: ClassVar[str]  # what its functions' names begin with
    sources: ClassVar[Path]  # of the translator

    def __init__(self, memory: GpuMemory, jit: Jit) -> None:
        self._memory = memory
        self._jit = jit
        self._lock = threading.Lock()
        self._known: dict[tuple[int, Variant], KernelT] = {}
        self.stop: Callable[[], bool] = lambda: False  # of the launch at hand

    # --- what differs

    @abstractmethod
    def decoded(self, entry: int, variant: Variant, targets: set[int]) -> KernelT:
        """The kernel at an address."""

    @abstractmethod
    def text(self, kernel: KernelT, name: str, *, full: bool) -> str:
        """The module with its function."""

    # --- common

    def find(self, entry: int, variant: Variant) -> KernelT:
        """The kernel whose first instruction is at `entry`, decoded anew if its bytes changed."""
        kernel = self._known.get((entry, variant))
        if kernel is not None and self._is_current(kernel):
            return kernel
        kernel = self._known[entry, variant] = self.decoded(entry, variant, set())
        return kernel

    def function(self, kernel: KernelT, *, full: bool) -> int:
        """The address of its native function for waves with all lanes active, or any."""
        with self._lock:
            found = kernel.functions.get(full)
            if found is None:
                found = kernel.functions[full] = self._translated(kernel, full)
            return found

    def add_targets(self, kernel: KernelT, targets: Set[int]) -> KernelT:
        """A kernel decoded again with more targets of computed branches (bytes from the entry)."""
        with self._lock:
            kernel.targets |= targets
            fresh = self.decoded(kernel.entry, kernel.variant, kernel.targets)
            self._known[kernel.entry, kernel.variant] = fresh
            return fresh

    def fetch(self, address: int, size: int) -> bytes:
        """Code bytes, as decoding asks for them page by page; PageFault, Stopped."""
        if self.stop():
            raise Stopped
        self._memory.check(address, size, "execute")
        return ctypes.string_at(address, size)

    def pieces(self, entry: int, program: CodeOf) -> tuple[tuple[int, bytes], ...]:
        """The bytes of a program."""
        return tuple(
            (low, ctypes.string_at(entry + low, high - low)) for low, high in program.ranges()
        )

    def _is_current(self, kernel: KernelT) -> bool:
        if kernel.problems:
            return False  # what could not be decoded may have been written since
        return all(self.fetch(kernel.entry + low, len(code)) == code for low, code in kernel.code)

    def _translated(self, kernel: KernelT, full: bool) -> int:
        problems = [(at, str(problem)) for at, problem in sorted(kernel.problems.items())]
        identity = (
            digest_of(self.sources), kernel.variant, full, sorted(kernel.targets), problems,
            kernel.entry if kernel.is_placed else 0, kernel.code,
        )  # fmt: skip
        key = hashlib.sha256(repr(identity).encode()).hexdigest()
        name = f"{self.family}_{key[:32]}"
        return self._jit.load(key, lambda: self.text(kernel, name, full=full), [name])[0]
