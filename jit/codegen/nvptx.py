"""NVPTX: the NVIDIA GPU part of the kernel builder: PTX text, then nvJitLink's cubin.

Adds and multiplications carry an explicit rounding in the text, so that neither
compiler contracts them; divisions and square roots are the correctly rounded ones, and
denormals stay. The size of the block is always told: without it a kernel may take more
registers than a full block has.
"""

import re

from hcq.errors import CompileError
from jit.codegen import nvjitlink
from jit.codegen.gpu import GpuRenderer
from jit.codegen.llvm import Builder
from jit.codegen.machine import emit_assembly
from jit.kernel import Kernel
from jit.tile import Machine, Plan

# 64 accumulators leave room for operands below the 255 registers of a thread. 48 KiB of
# shared memory is what a kernel may ask for without opting in, on every chip. A
# multiprocessor has places for 16 to 32 blocks, so blocks of one warp would not fill it;
# there are about 128 of them.
_MACHINE = Machine(
    wave=32, vector_bytes=4, registers=64, local_bytes=48 << 10, group=128, least_tiles=128
)
_BARRIER = "llvm.nvvm.barrier.cta.sync.aligned.all"
_ABS = re.compile(r"\babs\.f32 (\s*%r\d+, %r\d+);")


class NvRenderer(GpuRenderer):
    """Kernels to cubins of one NVIDIA architecture."""

    triple = "nvptx64-nvidia-cuda"
    format = "cubin"
    convention = "ptx_kernel"
    stack_space = ""
    group = "llvm.nvvm.read.ptx.sreg.ctaid.x"
    item = "llvm.nvvm.read.ptx.sreg.tid.x"
    machines = dict.fromkeys(("sm_80", "sm_86", "sm_89", "sm_90", "sm_100", "sm_120"), _MACHINE)

    def __init__(self, name: str, arch: str) -> None:
        super().__init__(name, arch)
        nvjitlink.find()

    def ptx(self, text: str) -> str:
        """PTX of LLVM IR."""
        return _ABS.sub(_absolute, emit_assembly(self.triple, self.arch, text))

    def image(self, kernel: Kernel, text: str) -> bytes:
        """An ELF cubin."""
        try:
            return nvjitlink.link(self.ptx(text), self.arch, kernel.name)
        except CompileError as error:
            error.facts.setdefault("kernel", kernel.name)
            raise

    def barrier(self, b: Builder) -> None:
        """bar.sync 0, which also orders what it waits for."""
        b.function.declared[_BARRIER] = f"declare void @{_BARRIER}(i32) convergent"
        b.region.append(f"  call void @{_BARRIER}(i32 0)")

    def attributes(self, plan: Plan) -> str:
        """The size of a block."""
        return f'nounwind "nvvm.maxntid"="{plan.threads},1,1"'


def _absolute(found: re.Match[str]) -> str:
    # nvJitLink 13.5 takes what abs.f32 gives for a number that is not negative, and folds
    # comparisons with it to true, NaN or not. Observed: not of abs.f64, nor of bits cleared.
    return f"and.b32 {found[1]}, 0x7FFFFFFF;"
