"""Kernels of RDNA code: their control flow, and the functions they are translated to."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from sim.amd.rdna.cfg import CodeReader, Program, discover, mark_denormals
from sim.amd.rdna.mode import KEEP_DENORMALS
from sim.amd.rdna.translate import Translator
from sim.isa.kernels import BaseKernel, BaseKernels, Variant


@dataclass
class Kernel(BaseKernel[Program]):
    """One kernel."""

    @property
    def wave_size(self) -> int:
        """32 or 64."""
        return int(self.variant[0])

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


class Kernels(BaseKernels[Kernel]):
    """Finds or makes the kernel at an address. A variant is (wave size, MODE.denorm)."""

    family = "rdna"
    sources = Path(__file__).parent

    def at(self, entry: int, wave_size: int, denormals: int = KEEP_DENORMALS) -> Kernel:
        """The kernel whose first instruction is at `entry`, decoded anew if its bytes changed.

        denormals is MODE.denorm as the launch sets it.
        """
        return self.find(entry, (wave_size, denormals))

    def decoded(self, entry: int, variant: Variant, targets: set[int]) -> Kernel:
        """The kernel at an address."""
        wave_size, denormals = variant
        program = discover(CodeReader(self.fetch, entry), wave_size, targets)
        mark_denormals(program, denormals)
        return Kernel(entry, variant, program, self.pieces(entry, program), set(targets))

    def text(self, kernel: Kernel, name: str, *, full: bool) -> str:
        """The module with its function."""
        return Translator(kernel.program, kernel.wave_size, full=full).text(name)


def explain(kernel: Kernel, offset: int) -> str:
    """Why a wave cannot go on at `offset`: asked of the translator, which met it first."""
    translator = Translator(kernel.program, kernel.wave_size, full=False)
    translator.text("explained")
    return str(translator.problems.get(offset, "the instruction is not simulated"))
