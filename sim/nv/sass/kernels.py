"""Kernels of SASS: their control flow, and the functions they are translated to."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from sim.isa.kernels import BaseKernel, BaseKernels, Variant
from sim.nv.sass.access import fixed_offset, is_indexed
from sim.nv.sass.cfg import CodeReader, Program, discover
from sim.nv.sass.decode import chip_number
from sim.nv.sass.instruction import ZERO_REGISTER, Instruction, Operand
from sim.nv.sass.translate import Translator


@dataclass
class Kernel(BaseKernel[Program]):
    """One kernel."""

    @property
    def target(self) -> str:
        """As "sm_90"."""
        return str(self.variant[0])

    @cached_property
    def instructions(self) -> list[Instruction]:
        """Every instruction."""
        return [i for block in self.program.blocks.values() for i in block.instructions]

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
                    end = fixed_offset(operand) + 4 * operand.count
                    if end > ends.get(operand.bank, (0, 0))[0]:
                        ends[operand.bank] = end, instruction.address
        return ends

    @property
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


class Kernels(BaseKernels[Kernel]):
    """Finds or makes the kernel at an address. A variant is (target,)."""

    family = "sass"
    sources = Path(__file__).parent

    def at(self, entry: int, target: str) -> Kernel:
        """The kernel whose first instruction is at `entry`, decoded anew if its bytes changed."""
        return self.find(entry, (target,))

    def decoded(self, entry: int, variant: Variant, targets: set[int]) -> Kernel:
        """The kernel at an address."""
        (target,) = variant
        program = discover(CodeReader(self.fetch, entry, target), targets)
        return Kernel(entry, variant, program, self.pieces(entry, program), set(targets))

    def text(self, kernel: Kernel, name: str, *, full: bool) -> str:
        """The module with its function."""
        return Translator(kernel.program, chip_number(kernel.target), full=full).text(name)


def explain(kernel: Kernel, offset: int) -> str:
    """Why a warp cannot go on at `offset`: asked of the translator, which met it first."""
    translator = Translator(kernel.program, chip_number(kernel.target), full=False)
    translator.text("explained")
    return str(translator.problems.get(offset, "the instruction is not simulated"))
