"""Translated kernels, found by the address of their code and checked against its bytes.

Every launch compares the code in memory with the code that was translated, so a program
that changes its kernels gets what it wrote.
"""

from __future__ import annotations

import ctypes
import hashlib
import threading
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

from hcq.errors import SimFault
from sim.isa.jit import Jit, digest_of
from sim.memory import GpuMemory
from sim.nv.sass.access import is_indexed
from sim.nv.sass.cfg import CodeReader, Program, discover
from sim.nv.sass.decode import chip_number
from sim.nv.sass.instruction import ZERO_REGISTER, Instruction, Operand
from sim.nv.sass.translate import Translator


@dataclass
class Kernel:
    """One kernel: its control flow, its bytes, and native functions made so far."""

    entry: int
    target: str  # "sm_90"
    program: Program
    code: tuple[tuple[int, bytes], ...]  # pieces: bytes from the entry, and what lies there
    functions: dict[bool, int] = field(default_factory=dict)  # full, part
    targets: set[int] = field(default_factory=set)  # computed branch targets seen so far

    @cached_property
    def instructions(self) -> list[Instruction]:
        """Every instruction."""
        return [i for block in self.program.blocks.values() for i in block.instructions]

    @cached_property
    def problems(self) -> dict[int, SimFault]:
        """Where control flow ends in nothing that can be executed, and why."""
        blocks = self.program.blocks.values()
        return {block.end: block.problem for block in blocks if block.problem is not None}

    @cached_property
    def register_count(self) -> int:
        """One more than the highest register named."""
        highest = 0
        for instruction in self.instructions:
            for operand in _registers(instruction):
                if operand.index != ZERO_REGISTER:
                    highest = max(highest, operand.index + operand.count)
        return highest

    @cached_property
    def constant_ends(self) -> dict[int, tuple[int, int]]:
        """Bank -> (bytes read at fixed offsets, place of the instruction that reads furthest)."""
        ends: dict[int, tuple[int, int]] = {}
        for instruction in self.instructions:
            for operand in instruction.sources:
                if operand.kind == "const" and not is_indexed(operand):
                    end = operand.value + 4 * operand.count
                    if end > ends.get(operand.bank, (0, 0))[0]:
                        ends[operand.bank] = end, instruction.address
        return ends

    @cached_property
    def is_placed(self) -> bool:
        """Whether the code names absolute addresses of code."""
        return any("ABS" in i.modifiers for i in self.instructions)


def _registers(instruction: Instruction) -> list[Operand]:
    found = []
    for operand in (*instruction.destinations, *instruction.sources):
        if operand.kind == "reg":
            found.append(operand)
        elif operand.base is not None and operand.base.kind == "reg":
            found.append(operand.base)
    return found


class Kernels:
    """Finds or makes the kernel at an address."""

    def __init__(self, memory: GpuMemory, jit: Jit) -> None:
        self._memory = memory
        self._jit = jit
        self._lock = threading.Lock()
        self._known: dict[tuple[int, str], Kernel] = {}

    def at(self, entry: int, target: str) -> Kernel:
        """The kernel whose first instruction is at `entry`, decoded anew if its bytes changed."""
        kernel = self._known.get((entry, target))
        if kernel is not None and self._is_current(kernel):
            return kernel
        kernel = self._known[entry, target] = self._decoded(entry, target, set())
        return kernel

    def function(self, kernel: Kernel, *, full: bool) -> int:
        """The address of its native function for warps with all lanes together, or any."""
        with self._lock:
            found = kernel.functions.get(full)
            if found is None:
                found = kernel.functions[full] = self._translated(kernel, full)
            return found

    def add_targets(self, kernel: Kernel, targets: set[int]) -> Kernel:
        """A kernel decoded again with more targets of computed branches (bytes from the entry)."""
        with self._lock:
            kernel.targets |= targets
            fresh = self._decoded(kernel.entry, kernel.target, kernel.targets)
            self._known[kernel.entry, kernel.target] = fresh
            return fresh

    def _is_current(self, kernel: Kernel) -> bool:
        if kernel.problems:
            return False  # what could not be decoded may have been written since
        for low, code in kernel.code:
            start = kernel.entry + low
            self._memory.check(start, len(code), "execute")
            if ctypes.string_at(start, len(code)) != code:
                return False
        return True

    def _decoded(self, entry: int, target: str, targets: set[int]) -> Kernel:
        def fetch(address: int, size: int) -> bytes:
            self._memory.check(address, size, "execute")
            return ctypes.string_at(address, size)

        program = discover(CodeReader(fetch, entry, target), targets)
        code = tuple(
            (low, ctypes.string_at(entry + low, high - low)) for low, high in program.ranges()
        )
        return Kernel(entry, target, program, code, targets=set(targets))

    def _translated(self, kernel: Kernel, full: bool) -> int:
        problems = [(at, str(problem)) for at, problem in sorted(kernel.problems.items())]
        identity = (
            digest_of(Path(__file__).parent), kernel.target, full,
            sorted(kernel.targets), problems, kernel.entry if kernel.is_placed else 0, kernel.code,
        )  # fmt: skip
        key = hashlib.sha256(repr(identity).encode()).hexdigest()
        name = f"sass_{key[:32]}"
        chip = chip_number(kernel.target)

        def text() -> str:
            return Translator(kernel.program, chip, full=full).text(name)

        return self._jit.load(key, text, [name])[0]


def explain(kernel: Kernel, offset: int) -> str:
    """Why a warp cannot go on at `offset`: asked of the translator, which met it first."""
    translator = Translator(kernel.program, chip_number(kernel.target), full=False)
    translator.text("explained")
    return str(translator.problems.get(offset, "the instruction is not simulated"))
