"""Compiles kernels for NVIDIA chips and prints their machine code as JSON.

A program of its own, because LLVM ends the process when it cannot select something:
`python tests/sim/nv/corpus.py sm_90 [sm_86 ...]` prints {chip: {section: code as hex}}.
LLVM turns the kernels into PTX, nvJitLink turns that into machine code.
"""

import json
import sys
from io import BytesIO

from corpus_control import control_flow_kernels
from corpus_convert import conversion_kernels
from corpus_float import float_kernels
from corpus_integer import integer_kernels
from corpus_kernel import KERNELS
from corpus_lanes import lane_kernels
from corpus_memory import memory_kernels
from elftools.elf.elffile import ELFFile

from jit.codegen.nvjitlink import link

WORDS = ", ".join(f"i32 {i * i + 1}" for i in range(64))
BYTES = ", ".join(f"i8 {i + 1}" for i in range(64))
LONGS = ", ".join(f"i64 {i * 3 + 1}" for i in range(32))
NUMBERS = ", ".join(f"float {i}.5" for i in range(32))

GLOBALS = f"""
@shared = internal addrspace(3) global [4096 x i32] undef, align 16
@shared2 = internal addrspace(3) global [1024 x i32] undef, align 16
@dynamic = external addrspace(3) global [0 x i8], align 16
@words = internal addrspace(4) constant [64 x i32] [{WORDS}]
@bytes = internal addrspace(4) constant [64 x i8] [{BYTES}]
@longs = internal addrspace(4) constant [32 x i64] [{LONGS}]
@numbers = internal addrspace(4) constant [32 x float] [{NUMBERS}]
@counters = addrspace(1) global [64 x i32] zeroinitializer
@functions = addrspace(1) global [2 x ptr] [ptr @callee, ptr @callee2]
declare i32 @llvm.nvvm.read.ptx.sreg.tid.x()
declare i32 @llvm.nvvm.read.ptx.sreg.ctaid.x()
declare i32 @llvm.nvvm.read.ptx.sreg.ntid.x()
define float @callee(float %p, float %q) #1 {{
  %r = fdiv float %p, %q
  %s = fadd float %r, %p
  ret float %s
}}
define float @callee2(float %p, float %q) #1 {{
  %r = fmul float %p, %q
  ret float %r
}}
define i32 @recursive(i32 %k) #1 {{
  %zero = icmp slt i32 %k, 1
  br i1 %zero, label %stop, label %go
go:
  %less = sub i32 %k, 1
  %inner = call i32 @recursive(i32 %less)
  %r = mul i32 %inner, %k
  %more = add i32 %less, 5
  %second = call i32 @recursive(i32 %less)
  %t = xor i32 %r, %second
  ret i32 %t
stop:
  ret i32 1
}}
define i64 @memory_callee(ptr %p, i64 %q) #1 {{
  %room = alloca [16 x i64]
  %low = and i64 %q, 15
  %at = getelementptr i64, ptr %room, i64 %low
  store volatile i64 %q, ptr %at
  %first = load volatile i64, ptr %room
  %other = load i64, ptr %p
  %old = atomicrmw add ptr %p, i64 %q monotonic
  %pair = cmpxchg ptr %p, i64 %q, i64 %old monotonic monotonic
  %seen = extractvalue {{ i64, i1 }} %pair, 0
  store i64 %seen, ptr %p
  %sum = add i64 %first, %other
  ret i64 %sum
}}
"""
TAIL = """
attributes #0 = { "nvvm.maxntid"="256,1,1" }
attributes #1 = { noinline }
!0 = !{i32 1}
!1 = !{}
"""


def make():
    """Fill KERNELS."""
    integer_kernels()
    float_kernels()
    conversion_kernels()
    memory_kernels()
    lane_kernels()
    control_flow_kernels()


def module(chip):
    """The LLVM module of every kernel that exists on the chip."""
    kernels = [kernel for kernel in KERNELS if chip in kernel.chips]
    declared = set().union(*(kernel.declared for kernel in kernels))
    declared = {d for d in declared if d not in GLOBALS}
    parts = [GLOBALS, *sorted(declared), *(kernel.text() for kernel in kernels), TAIL]
    return "\n".join(parts)


def assembly(chip):
    """PTX of the kernels for one chip."""
    import llvmlite.binding as llvm

    llvm.initialize_all_targets()
    llvm.initialize_all_asmprinters()
    parsed = llvm.parse_assembly(module(chip))
    target = llvm.Target.from_triple("nvptx64-nvidia-cuda")
    machine = target.create_target_machine(cpu=chip, features="+ptx87", opt=3)
    return machine.emit_assembly(parsed)


def sections(cubin):
    """Name -> bytes of the code sections of a cubin."""
    found = ELFFile(BytesIO(cubin)).iter_sections()
    return {s.name[6:]: s.data() for s in found if s.name.startswith(".text.")}


if __name__ == "__main__":
    make()
    code = {chip: sections(link(assembly(chip), chip, "corpus")) for chip in sys.argv[1:]}
    json.dump(
        {chip: {n: c.hex() for n, c in named.items()} for chip, named in code.items()}, sys.stdout
    )
