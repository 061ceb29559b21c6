"""AMDGCN: the AMD GPU part of the kernel builder, and a code object at the end.

Kernels use no hidden argument.
"""

from jit.codegen.gpu import GpuRenderer
from jit.codegen.llvm import Builder
from jit.codegen.machine import emit_object
from jit.codegen.text import Value
from jit.kernel import Kernel
from jit.tile import Machine, Plan

# What a kernel does not read; with these no launch has to provide it.
_UNUSED = (
    "dispatch-ptr",
    "queue-ptr",
    "dispatch-id",
    "implicitarg-ptr",
    "workitem-id-y",
    "workitem-id-z",
    "workgroup-id-y",
    "workgroup-id-z",
    "hostcall-ptr",
    "heap-ptr",
    "default-queue",
    "completion-action",
    "multigrid-sync-arg",
    "lds-kernel-id",
    "flat-scratch-init",
    "cluster-id-x",
    "cluster-id-y",
    "cluster-id-z",
)


class AmdRenderer(GpuRenderer):
    """Kernels to code objects of one AMD architecture."""

    triple = "amdgcn-amd-amdhsa"
    format = "hsaco"
    convention = "amdgpu_kernel"
    stack_space = ", addrspace(5)"
    has_mixed_products = True
    group = "llvm.amdgcn.workgroup.id.x"
    item = "llvm.amdgcn.workitem.id.x"
    machines = {
        "gfx1100": Machine(
            wave=32, vector_bytes=4, registers=64, local_bytes=64 << 10, uniform_loads=True
        )
    }

    def image(self, kernel: Kernel, text: str) -> bytes:
        """An ELF code object."""
        return emit_object(self.triple, self.arch, text)

    def barrier(self, b: Builder) -> None:
        """s_barrier, where the group has more than one wave."""
        b.function.declared["llvm.amdgcn.s.barrier"] = "declare void @llvm.amdgcn.s.barrier()"
        local = '!mmra !{!"amdgpu-as", !"local"}'  # global memory need not be waited for
        b.region.extend(
            [
                f'  fence syncscope("workgroup") release, {local}',
                "  call void @llvm.amdgcn.s.barrier()",
                f'  fence syncscope("workgroup") acquire, {local}',
            ]
        )

    def uniform(self, b: Builder, value: Value) -> Value:
        """A scalar register, as the first lane has it."""
        return b.function.call(b.region, "llvm.amdgcn.readfirstlane.i32", value, value)

    def attributes(self, plan: Plan) -> str:
        """The size of a work-group, and what a launch need not provide."""
        threads = plan.threads
        words = [
            "nounwind",
            f'"amdgpu-flat-work-group-size"="{threads},{threads}"',
            '"uniform-work-group-size"="true"',
            *(f'"amdgpu-no-{name}"' for name in _UNUSED),
        ]
        return " ".join(words)
