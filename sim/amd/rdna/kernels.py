"""Translated kernels, found by the address of their code and checked against its bytes.

Every dispatch compares the code in memory with the code that was translated, so
a program that changes its kernels gets what it wrote.
"""

from __future__ import annotations

import ctypes
import hashlib
import threading
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

from hcq.errors import SimFault
from sim.amd.rdna.cfg import CodeReader, Program, discover, mark_denormals
from sim.amd.rdna.mode import KEEP_DENORMALS
from sim.amd.rdna.translate import Translator
from sim.isa.jit import Jit, digest_of
from sim.memory import GpuMemory


@dataclass
class Kernel:
    """One kernel: its control flow, its bytes, and native functions made so far."""

    entry: int
    wave_size: int
    program: Program
    code: bytes
    low: int  # of the code, bytes from the entry
    denormals: int = KEEP_DENORMALS  # MODE.denorm at the entry
    functions: dict[bool, int] = field(default_factory=dict)  # full waves, others
    targets: set[int] = field(default_factory=set)  # computed branch targets seen so far

    @cached_property
    def problems(self) -> dict[int, SimFault]:
        """Where control flow ends in nothing that can be executed, and why."""
        blocks = self.program.blocks.values()
        return {block.end: block.problem for block in blocks if block.problem is not None}

    @cached_property
    def vector_count(self) -> int:
        """One more than the highest VGPR named."""
        highest = 0
        for block in self.program.blocks.values():
            for instruction in block.instructions:
                for operand in (*instruction.sources, *instruction.destinations):
                    if operand.kind == "vgpr":
                        highest = max(highest, operand.index + operand.count)
        return highest


class Kernels:
    """Finds or makes the kernel at an address."""

    def __init__(self, memory: GpuMemory, jit: Jit) -> None:
        self._memory = memory
        self._jit = jit
        self._lock = threading.Lock()
        self._known: dict[tuple[int, int, int], Kernel] = {}

    def at(self, entry: int, wave_size: int, denormals: int = KEEP_DENORMALS) -> Kernel:
        """The kernel whose first instruction is at `entry`, decoded anew if its bytes changed.

        denormals is MODE.denorm as the launch sets it.
        """
        kernel = self._known.get((entry, wave_size, denormals))
        if kernel is not None and self._is_current(kernel):
            return kernel
        kernel = self._decoded(entry, wave_size, denormals, set())
        self._known[entry, wave_size, denormals] = kernel
        return kernel

    def function(self, kernel: Kernel, *, full: bool) -> int:
        """The address of its native function for waves with all lanes active, or any."""
        with self._lock:
            found = kernel.functions.get(full)
            if found is None:
                found = kernel.functions[full] = self._translated(kernel, full)
            return found

    def add_target(self, kernel: Kernel, address: int) -> Kernel:
        """A kernel decoded again with one more target of computed branches."""
        with self._lock:
            kernel.targets.add(address - kernel.entry)
            fresh = self._decoded(
                kernel.entry, kernel.wave_size, kernel.denormals, kernel.targets
            )
            fresh.targets = kernel.targets
            self._known[kernel.entry, kernel.wave_size, kernel.denormals] = fresh
            return fresh

    def _is_current(self, kernel: Kernel) -> bool:
        if kernel.problems:
            return False  # what could not be decoded may have been written since
        self._memory.check(kernel.entry + kernel.low, len(kernel.code), "execute")
        return ctypes.string_at(kernel.entry + kernel.low, len(kernel.code)) == kernel.code

    def _decoded(
        self, entry: int, wave_size: int, denormals: int, targets: set[int]
    ) -> Kernel:
        def fetch(address: int, size: int) -> bytes:
            self._memory.check(address, size, "execute")
            return ctypes.string_at(address, size)

        program = discover(CodeReader(fetch, entry), wave_size, targets)
        mark_denormals(program, denormals)
        low, high = program.span()
        code = ctypes.string_at(entry + low, high - low)
        return Kernel(
            entry, wave_size, program, code, low, denormals=denormals, targets=set(targets)
        )  # fmt: skip

    def _translated(self, kernel: Kernel, full: bool) -> int:
        problems = [(at, str(problem)) for at, problem in sorted(kernel.problems.items())]
        translator = digest_of(Path(__file__).parent)
        targets = sorted(kernel.targets)
        identity = (
            translator, kernel.wave_size, kernel.denormals, full, kernel.low, targets, problems,
            kernel.code,
        )  # fmt: skip
        key = hashlib.sha256(repr(identity).encode()).hexdigest()
        name = f"rdna_{key[:32]}"

        def text() -> str:
            return Translator(kernel.program, kernel.wave_size, full=full).text(name)

        return self._jit.load(key, text, [name])[0]


def explain(kernel: Kernel, offset: int) -> str:
    """Why a wave cannot go on at `offset`: asked of the translator, which met it first."""
    translator = Translator(kernel.program, kernel.wave_size, full=False)
    translator.text("explained")
    return str(translator.problems.get(offset, "the instruction is not simulated"))
