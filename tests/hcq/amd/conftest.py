"""Kernels compiled for gfx1100 while testing, and an open device."""

import functools

import pytest

HEAD = """
target triple = "amdgcn-amd-amdhsa"
declare i32 @llvm.amdgcn.workitem.id.x()
declare i32 @llvm.amdgcn.workgroup.id.x()
declare void @llvm.amdgcn.s.barrier()
declare void @llvm.amdgcn.s.sleep(i32)
declare ptr addrspace(4) @llvm.amdgcn.implicitarg.ptr()
"""
TAIL = """
attributes #0 = { "amdgpu-flat-work-group-size"="1,1024" "uniform-work-group-size"="true" }
"""
# out[i] = a[i] + b[i] + k with i = 64 * group + item
ADD = """
define amdgpu_kernel void @add(ptr addrspace(1) %out, ptr addrspace(1) %a, ptr addrspace(1) %b,
                               i32 %k) #0 {
  %t = call i32 @llvm.amdgcn.workitem.id.x()
  %g = call i32 @llvm.amdgcn.workgroup.id.x()
  %m = mul i32 %g, 64
  %i = add i32 %m, %t
  %pa = getelementptr i32, ptr addrspace(1) %a, i32 %i
  %pb = getelementptr i32, ptr addrspace(1) %b, i32 %i
  %po = getelementptr i32, ptr addrspace(1) %out, i32 %i
  %x = load i32, ptr addrspace(1) %pa
  %y = load i32, ptr addrspace(1) %pb
  %z = add i32 %x, %y
  %w = add i32 %z, %k
  store i32 %w, ptr addrspace(1) %po
  ret void
}
"""
# *cell = *cell + 1, by one work-item
BUMP = """
define amdgpu_kernel void @bump(ptr addrspace(1) %cell) #0 {
  %x = load i32, ptr addrspace(1) %cell
  %y = add i32 %x, 1
  store i32 %y, ptr addrspace(1) %cell
  ret void
}
"""
# Runs until *flag is not 0.
SPIN = """
define amdgpu_kernel void @spin(ptr addrspace(1) %flag) #0 {
  br label %loop
loop:
  %x = load atomic volatile i32, ptr addrspace(1) %flag monotonic, align 4
  %c = icmp eq i32 %x, 0
  br i1 %c, label %loop, label %done
done:
  ret void
}
"""
# Every work-item adds its number to *sum.
SUM = """
define amdgpu_kernel void @sum(ptr addrspace(1) %sum) #0 {
  %t = call i32 @llvm.amdgcn.workitem.id.x()
  %old = atomicrmw add ptr addrspace(1) %sum, i32 %t monotonic
  ret void
}
"""
# A private array indexed by data that LLVM cannot keep in registers: {words} words per thread.
SPILL = """
define amdgpu_kernel void @spill(ptr addrspace(1) %out, i32 %k) #0 {{
  %t = call i32 @llvm.amdgcn.workitem.id.x()
  %a = alloca [{words} x i32], align 4, addrspace(5)
  br label %fill
fill:
  %i = phi i32 [ 0, %0 ], [ %i1, %fill ]
  %p = getelementptr i32, ptr addrspace(5) %a, i32 %i
  %v = mul i32 %i, %t
  store volatile i32 %v, ptr addrspace(5) %p
  %i1 = add i32 %i, 1
  %c = icmp ult i32 %i1, {words}
  br i1 %c, label %fill, label %done
done:
  %q = getelementptr i32, ptr addrspace(5) %a, i32 %k
  %r = load volatile i32, ptr addrspace(5) %q
  %o = getelementptr i32, ptr addrspace(1) %out, i32 %t
  store i32 %r, ptr addrspace(1) %o
  ret void
}}
"""
# out[0..] = block count x, group size x, read from the hidden arguments
HIDDEN = """
define amdgpu_kernel void @hidden(ptr addrspace(1) %out) #0 {
  %h = call ptr addrspace(4) @llvm.amdgcn.implicitarg.ptr()
  %n = load i32, ptr addrspace(4) %h
  %q = getelementptr i8, ptr addrspace(4) %h, i32 12
  %s = load i16, ptr addrspace(4) %q
  %z = zext i16 %s to i32
  store i32 %n, ptr addrspace(1) %out
  %o = getelementptr i32, ptr addrspace(1) %out, i32 1
  store i32 %z, ptr addrspace(1) %o
  ret void
}
"""
SOURCES = {
    "add": ADD,
    "bump": BUMP,
    "spin": SPIN,
    "sum": SUM,
    "hidden": HIDDEN,
    "spill": SPILL.format(words=64),
    "spill_huge": SPILL.format(words=4000).replace("@spill", "@spill_huge"),
    "lds": """
@shared = internal addrspace(3) global [8192 x i32] undef, align 4
define amdgpu_kernel void @lds(ptr addrspace(1) %out) #0 {
  %t = call i32 @llvm.amdgcn.workitem.id.x()
  %p = getelementptr i32, ptr addrspace(3) @shared, i32 %t
  store volatile i32 %t, ptr addrspace(3) %p
  %v = load volatile i32, ptr addrspace(3) %p
  %o = getelementptr i32, ptr addrspace(1) %out, i32 %t
  store i32 %v, ptr addrspace(1) %o
  ret void
}
""",
}


@functools.cache
def compiled(name, cpu="gfx1100", features=""):
    """The object file of a kernel of SOURCES."""
    import llvmlite.binding as llvm

    llvm.initialize_all_targets()
    llvm.initialize_all_asmprinters()
    target = llvm.Target.from_triple("amdgcn-amd-amdhsa").create_target_machine(
        cpu=cpu, features=features, opt=3, reloc="pic", codemodel="small"
    )
    module = llvm.parse_assembly(HEAD + SOURCES[name] + TAIL)
    builder = llvm.create_pass_builder(target, llvm.create_pipeline_tuning_options(speed_level=3))
    builder.getModulePassManager().run(module, builder)
    return target.emit_object(module)


@pytest.fixture(name="compiled")
def compiled_fixture():
    """compiled(name, cpu="gfx1100", features=""): object bytes."""
    return compiled


@pytest.fixture
def device(machine):
    """The only GPU of a simulated machine."""
    from hcq import amd

    machine()
    found = amd.open(0)
    yield found
    found.close()


@pytest.fixture
def add(device):
    """The add kernel, three buffers of 64 words (a counts up, b is 5 each)."""
    program = device.load(compiled("add"), "add")
    out, a, b = (device.allocate(256, name=name) for name in ("out", "a", "b"))
    device.copy_in(a, 0, b"".join(i.to_bytes(4, "little") for i in range(64)))
    device.copy_in(b, 0, (5).to_bytes(4, "little") * 64)
    return program, out, a, b


@pytest.fixture
def words():
    """words(device, buffer, count): the first 32-bit words of a buffer."""

    def read(device, buffer, count):
        data = bytearray(count * 4)
        device.copy_out(buffer, 0, data)
        return list(memoryview(data).cast("I"))

    return read
