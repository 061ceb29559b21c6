"""The kernels of the first contact: one text for both vendors, in LLVM IR."""

from dataclasses import dataclass

THREADS = 64  # of a group
# What a launch here does not provide and these kernels do not read.
_UNUSED = (
    *("dispatch-ptr", "queue-ptr", "dispatch-id", "implicitarg-ptr", "lds-kernel-id"),
    *("workitem-id-y", "workitem-id-z", "workgroup-id-y", "workgroup-id-z"),
    *("completion-action", "default-queue", "heap-ptr", "hostcall-ptr", "multigrid-sync-arg"),
)


@dataclass(frozen=True)
class Dialect:
    """How a vendor spells what differs. `stack`: the address space of private memory."""

    triple: str
    convention: str
    item: str
    group: str
    barrier: str
    barrier_argument: str
    stack: str
    attributes: str


AMD = Dialect(
    triple="amdgcn-amd-amdhsa",
    convention="amdgpu_kernel",
    item="llvm.amdgcn.workitem.id.x",
    group="llvm.amdgcn.workgroup.id.x",
    barrier="llvm.amdgcn.s.barrier",
    barrier_argument="",
    stack="addrspace(5)",
    attributes=" ".join(
        [
            f'"amdgpu-flat-work-group-size"="1,{THREADS}"',
            '"uniform-work-group-size"="true"',
            *(f'"amdgpu-no-{name}"' for name in _UNUSED),
        ]
    ),
)
NV = Dialect(
    triple="nvptx64-nvidia-cuda",
    convention="ptx_kernel",
    item="llvm.nvvm.read.ptx.sreg.tid.x",
    group="llvm.nvvm.read.ptx.sreg.ctaid.x",
    barrier="llvm.nvvm.barrier.cta.sync.aligned.all",
    barrier_argument="i32 0",
    stack="",
    attributes=f'"nvvm.maxntid"="{THREADS},1,1"',
)

BODIES = {
    # Nothing.
    "empty": ("ptr addrspace(1) %out", "  ret void"),
    # out[item] = 3 * item + 1
    "store": (
        "ptr addrspace(1) %out",
        """
  %t = call i32 @{item}()
  %m = mul i32 %t, 3
  %v = add i32 %m, 1
  %p = getelementptr i32, ptr addrspace(1) %out, i32 %t
  store i32 %v, ptr addrspace(1) %p
  ret void""",
    ),
    # *cell = 2 * *cell + 1: wrong in any other order, or where the last value is not seen
    "link": (
        "ptr addrspace(1) %cell",
        """
  %x = load i32, ptr addrspace(1) %cell
  %y = mul i32 %x, 2
  %z = add i32 %y, 1
  store i32 %z, ptr addrspace(1) %cell
  ret void""",
    ),
    # out[item] = 63 - item, through shared memory
    "shared": (
        "ptr addrspace(1) %out",
        """
  %t = call i32 @{item}()
  %p = getelementptr i32, ptr addrspace(3) @words, i32 %t
  store volatile i32 %t, ptr addrspace(3) %p
  fence syncscope("{scope}") release
  call void @{barrier}({barrier_argument})
  fence syncscope("{scope}") acquire
  %u = sub i32 63, %t
  %q = getelementptr i32, ptr addrspace(3) @words, i32 %u
  %v = load volatile i32, ptr addrspace(3) %q
  %o = getelementptr i32, ptr addrspace(1) %out, i32 %t
  store i32 %v, ptr addrspace(1) %o
  ret void""",
    ),
    # out[item] = item * (item & 31), through an array in private memory
    "local": (
        "ptr addrspace(1) %out",
        """
  %t = call i32 @{item}()
  %a = alloca [32 x i32], align 4{stack}
  br label %fill
fill:
  %i = phi i32 [ 0, %0 ], [ %i1, %fill ]
  %p = getelementptr i32, ptr {space}%a, i32 %i
  %v = mul i32 %i, %t
  store volatile i32 %v, ptr {space}%p
  %i1 = add i32 %i, 1
  %c = icmp ult i32 %i1, 32
  br i1 %c, label %fill, label %done
done:
  %k = and i32 %t, 31
  %q = getelementptr i32, ptr {space}%a, i32 %k
  %r = load volatile i32, ptr {space}%q
  %o = getelementptr i32, ptr addrspace(1) %out, i32 %t
  store i32 %r, ptr addrspace(1) %o
  ret void""",
    ),
    # out[i] = a[i] + b[i], float32
    "add": (
        "ptr addrspace(1) %out, ptr addrspace(1) %a, ptr addrspace(1) %b",
        """
  %t = call i32 @{item}()
  %g = call i32 @{group}()
  %m = mul i32 %g, 64
  %i = add i32 %m, %t
  %pa = getelementptr float, ptr addrspace(1) %a, i32 %i
  %pb = getelementptr float, ptr addrspace(1) %b, i32 %i
  %po = getelementptr float, ptr addrspace(1) %out, i32 %i
  %x = load float, ptr addrspace(1) %pa
  %y = load float, ptr addrspace(1) %pb
  %z = fadd float %x, %y
  store float %z, ptr addrspace(1) %po
  ret void""",
    ),
}


def text(name: str, dialect: Dialect) -> str:
    """LLVM IR of a kernel."""
    parameters, body = BODIES[name]
    space = f"{dialect.stack} " if dialect.stack else ""
    spelled = body.format(
        item=dialect.item,
        group=dialect.group,
        barrier=dialect.barrier,
        barrier_argument=dialect.barrier_argument,
        stack=f", {dialect.stack}" if dialect.stack else "",
        space=space,
        scope="workgroup" if dialect is AMD else "block",
    )
    of_barrier = dialect.barrier_argument.partition(" ")[0]
    return f"""
target triple = "{dialect.triple}"
declare i32 @{dialect.item}()
declare i32 @{dialect.group}()
declare void @{dialect.barrier}({of_barrier}) #1
@words = internal addrspace(3) global [{THREADS} x i32] undef, align 4
define {dialect.convention} void @{name}({parameters}) #0 {{
{spelled}
}}
attributes #0 = {{ {dialect.attributes} }}
attributes #1 = {{ convergent }}
"""
