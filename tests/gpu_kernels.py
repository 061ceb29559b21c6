"""Kernels in LLVM text that tests compile for the GPUs of both vendors.

In a text stand KERNEL for the calling convention, ITEM and GROUP for the calls that give
their numbers, GLOBAL and PRIVATE for pointers, and STACK behind what an alloca makes.
"""

import functools

import pytest

AMD = {
    "KERNEL": "amdgpu_kernel",
    "ITEM": "i32 @llvm.amdgcn.workitem.id.x()",
    "GROUP": "i32 @llvm.amdgcn.workgroup.id.x()",
    "GLOBAL": "ptr addrspace(1)",
    "PRIVATE": "ptr addrspace(5)",
    "STACK": ", addrspace(5)",
}
AMD_HEAD = """
target triple = "amdgcn-amd-amdhsa"
declare i32 @llvm.amdgcn.workitem.id.x()
declare i32 @llvm.amdgcn.workgroup.id.x()
declare void @llvm.amdgcn.s.barrier()
declare void @llvm.amdgcn.s.sleep(i32)
declare ptr addrspace(4) @llvm.amdgcn.implicitarg.ptr()
"""
AMD_TAIL = """
attributes #0 = {{ "amdgpu-flat-work-group-size"="1,{threads}"
  "uniform-work-group-size"="true" }}
"""
NV = {
    "KERNEL": "ptx_kernel",
    "ITEM": "i32 @llvm.nvvm.read.ptx.sreg.tid.x()",
    "GROUP": "i32 @llvm.nvvm.read.ptx.sreg.ctaid.x()",
    "GLOBAL": "ptr addrspace(1)",
    "PRIVATE": "ptr",
    "STACK": "",
}
NV_HEAD = """
target triple = "nvptx64-nvidia-cuda"
declare i32 @llvm.nvvm.read.ptx.sreg.tid.x()
declare i32 @llvm.nvvm.read.ptx.sreg.ctaid.x()
declare i32 @llvm.nvvm.read.ptx.sreg.ntid.x()
declare i32 @llvm.nvvm.read.ptx.sreg.ntid.y()
declare i32 @llvm.nvvm.read.ptx.sreg.ntid.z()
declare i32 @llvm.nvvm.read.ptx.sreg.nctaid.x()
declare i32 @llvm.nvvm.read.ptx.sreg.nctaid.y()
declare i32 @llvm.nvvm.read.ptx.sreg.nctaid.z()
declare void @llvm.nvvm.barrier.cta.sync.aligned.all(i32)
"""
NV_TAIL = """
attributes #0 = {{ "nvvm.maxntid"="{threads},1,1" }}
"""

# out[i] = a[i] + b[i] + k with i = 64 * group + item
ADD = """
define KERNEL void @add(GLOBAL %out, GLOBAL %a, GLOBAL %b, i32 %k) #0 {
  %t = call ITEM
  %g = call GROUP
  %m = mul i32 %g, 64
  %i = add i32 %m, %t
  %pa = getelementptr i32, GLOBAL %a, i32 %i
  %pb = getelementptr i32, GLOBAL %b, i32 %i
  %po = getelementptr i32, GLOBAL %out, i32 %i
  %x = load i32, GLOBAL %pa
  %y = load i32, GLOBAL %pb
  %z = add i32 %x, %y
  %w = add i32 %z, %k
  store i32 %w, GLOBAL %po
  ret void
}
"""
# *cell = *cell + 1, by one thread
BUMP = """
define KERNEL void @bump(GLOBAL %cell) #0 {
  %x = load i32, GLOBAL %cell
  %y = add i32 %x, 1
  store i32 %y, GLOBAL %cell
  ret void
}
"""
# Runs until *flag is not 0.
SPIN = """
define KERNEL void @spin(GLOBAL %flag) #0 {
  br label %loop
loop:
  %x = load atomic volatile i32, GLOBAL %flag monotonic, align 4
  %c = icmp eq i32 %x, 0
  br i1 %c, label %loop, label %done
done:
  ret void
}
"""
# A private array that cannot be kept in registers: {words} words per thread.
SPILL = """
define KERNEL void @{name}(GLOBAL %out, i32 %k) #0 {{
  %t = call ITEM
  %a = alloca [{words} x i32], align 4STACK
  br label %fill
fill:
  %i = phi i32 [ 0, %0 ], [ %i1, %fill ]
  %p = getelementptr i32, PRIVATE %a, i32 %i
  %v = mul i32 %i, %t
  store volatile i32 %v, PRIVATE %p
  %i1 = add i32 %i, 1
  %c = icmp ult i32 %i1, {words}
  br i1 %c, label %fill, label %done
done:
  %q = getelementptr i32, PRIVATE %a, i32 %k
  %r = load volatile i32, PRIVATE %q
  %o = getelementptr i32, GLOBAL %out, i32 %t
  store i32 %r, GLOBAL %o
  ret void
}}
"""
SHARED = {"add": ADD, "bump": BUMP, "spin": SPIN}


@functools.cache
def compiled(chip, name, text, *, features="", threads=1024):
    """The code object of kernel `name` of a text, for blocks of up to so many threads."""
    for word, meaning in (NV if chip.startswith("sm_") else AMD).items():
        text = text.replace(word, meaning)
    if chip.startswith("sm_"):
        return _cubin(chip, name, NV_HEAD + text + NV_TAIL.format(threads=threads))
    return _hsaco(chip, features, AMD_HEAD + text + AMD_TAIL.format(threads=threads))


def _hsaco(chip, features, text):
    target, module = _optimised("amdgcn-amd-amdhsa", text, 3, cpu=chip, features=features, opt=3,
                                reloc="pic", codemodel="small")  # fmt: skip
    return target.emit_object(module)


def _cubin(chip, name, text):
    pytest.importorskip("nvidia", reason="nvidia-nvjitlink (extra nv) is not installed")
    from jit.codegen.nvjitlink import link

    target, module = _optimised("nvptx64-nvidia-cuda", text, 1, cpu=chip, opt=3)
    return link(target.emit_assembly(module), chip, name)


def _optimised(triple, text, level, **options):
    import llvmlite.binding as llvm

    llvm.initialize_all_targets()
    llvm.initialize_all_asmprinters()
    target = llvm.Target.from_triple(triple).create_target_machine(**options)
    module = llvm.parse_assembly(text)
    tuning = llvm.create_pipeline_tuning_options(speed_level=level)
    builder = llvm.create_pass_builder(target, tuning)
    builder.getModulePassManager().run(module, builder)
    return target, module
