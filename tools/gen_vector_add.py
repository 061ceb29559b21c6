"""Makes examples/data/vector_add.<arch>.o: c[i] = a[i] + b[i] for float32.

Run without arguments; rewrites the files. One work-item per element, the grid
covers the arrays exactly. Needs llvmlite with the AMDGPU target.
"""

import sys
from pathlib import Path

import llvmlite.binding as llvm

ARCHES = ("gfx1100",)
BLOCK = 256
FOLDER = Path(__file__).parents[1] / "examples" / "data"

TEXT = """
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


def make(arch: str) -> bytes:
    """The relocatable code object for one chip."""
    llvm.initialize_all_targets()
    llvm.initialize_all_asmprinters()
    target = llvm.Target.from_triple("amdgcn-amd-amdhsa")
    machine = target.create_target_machine(cpu=arch, opt=3, reloc="pic", codemodel="small")
    module = llvm.parse_assembly(TEXT)
    module.data_layout = str(machine.target_data)
    tuning = llvm.create_pipeline_tuning_options(speed_level=3)
    builder = llvm.create_pass_builder(machine, tuning)
    builder.getModulePassManager().run(module, builder)
    return machine.emit_object(module)


def main() -> int:
    for arch in ARCHES:
        (FOLDER / f"vector_add.{arch}.o").write_bytes(make(arch))
    return 0


if __name__ == "__main__":
    sys.exit(main())
