"""Makes examples/data/vector_add.<arch>.o: c[i] = a[i] + b[i] for float32.

Run without arguments; rewrites the files. One work-item per element, the grid
covers the arrays exactly. Needs llvmlite with the AMDGPU and NVPTX targets, and
nvidia-nvjitlink for the NVIDIA chips.
"""

import sys
from pathlib import Path

import llvmlite.binding as llvm

from jit.codegen.nvjitlink import link

ARCHES = ("gfx1100", "sm_80", "sm_86", "sm_89", "sm_90", "sm_100", "sm_120")
BLOCK = 256
FOLDER = Path(__file__).parents[1] / "examples" / "data"

AMD_TEXT = """
target triple = "amdgcn-amd-amdhsa"
declare i32 @llvm.amdgcn.workitem.id.x()
declare i32 @llvm.amdgcn.workgroup.id.x()

define amdgpu_kernel void @vector_add(ptr addrspace(1) noalias %c, ptr addrspace(1) %a,
                                      ptr addrspace(1) %b) #0 {
  %item = call i32 @llvm.amdgcn.workitem.id.x()
  %group = call i32 @llvm.amdgcn.workgroup.id.x()
  %first = mul i32 %group, 256
  %i = add i32 %first, %item
  %a.at = getelementptr float, ptr addrspace(1) %a, i32 %i
  %b.at = getelementptr float, ptr addrspace(1) %b, i32 %i
  %c.at = getelementptr float, ptr addrspace(1) %c, i32 %i
  %x = load float, ptr addrspace(1) %a.at
  %y = load float, ptr addrspace(1) %b.at
  %z = fadd float %x, %y
  store float %z, ptr addrspace(1) %c.at
  ret void
}
attributes #0 = { "amdgpu-flat-work-group-size"="256,256" "uniform-work-group-size"="true"
                  "amdgpu-no-implicitarg-ptr" "amdgpu-no-dispatch-ptr" }
"""

NV_TEXT = """
target triple = "nvptx64-nvidia-cuda"
declare i32 @llvm.nvvm.read.ptx.sreg.tid.x()
declare i32 @llvm.nvvm.read.ptx.sreg.ctaid.x()

define ptx_kernel void @vector_add(ptr addrspace(1) noalias %c, ptr addrspace(1) %a,
                                   ptr addrspace(1) %b) #0 {
  %item = call i32 @llvm.nvvm.read.ptx.sreg.tid.x()
  %group = call i32 @llvm.nvvm.read.ptx.sreg.ctaid.x()
  %first = mul i32 %group, 256
  %i = add i32 %first, %item
  %a.at = getelementptr float, ptr addrspace(1) %a, i32 %i
  %b.at = getelementptr float, ptr addrspace(1) %b, i32 %i
  %c.at = getelementptr float, ptr addrspace(1) %c, i32 %i
  %x = load float, ptr addrspace(1) %a.at
  %y = load float, ptr addrspace(1) %b.at
  %z = fadd float %x, %y
  store float %z, ptr addrspace(1) %c.at
  ret void
}
attributes #0 = { "nvvm.maxntid"="256,1,1" }
"""


def make(arch: str) -> bytes:
    """The code object for one chip."""
    llvm.initialize_all_targets()
    llvm.initialize_all_asmprinters()
    if arch.startswith("sm_"):
        target = llvm.Target.from_triple("nvptx64-nvidia-cuda")
        machine = target.create_target_machine(cpu=arch, opt=3)
        return link(machine.emit_assembly(_optimised(machine, NV_TEXT)), arch, "vector_add")
    target = llvm.Target.from_triple("amdgcn-amd-amdhsa")
    machine = target.create_target_machine(cpu=arch, opt=3, reloc="pic", codemodel="small")
    return machine.emit_object(_optimised(machine, AMD_TEXT))


def _optimised(machine: llvm.TargetMachine, text: str) -> llvm.ModuleRef:
    module = llvm.parse_assembly(text)
    module.data_layout = str(machine.target_data)
    tuning = llvm.create_pipeline_tuning_options(speed_level=3)
    builder = llvm.create_pass_builder(machine, tuning)
    builder.getModulePassManager().run(module, builder)
    return module


def main() -> int:
    for arch in ARCHES:
        (FOLDER / f"vector_add.{arch}.o").write_bytes(make(arch))
    return 0


if __name__ == "__main__":
    sys.exit(main())
