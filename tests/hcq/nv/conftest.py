"""Kernels compiled for NVIDIA chips while testing, and programs without a device."""

import functools

import pytest

HEAD = """
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
# out[i] = a[i] + b[i] + k with i = 64 * group + item
ADD = """
define ptx_kernel void @add(ptr addrspace(1) %out, ptr addrspace(1) %a, ptr addrspace(1) %b,
                            i32 %k) #0 {
  %t = call i32 @llvm.nvvm.read.ptx.sreg.tid.x()
  %g = call i32 @llvm.nvvm.read.ptx.sreg.ctaid.x()
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
# *cell = *cell + 1, by one thread
BUMP = """
define ptx_kernel void @bump(ptr addrspace(1) %cell) #0 {
  %x = load i32, ptr addrspace(1) %cell
  %y = add i32 %x, 1
  store i32 %y, ptr addrspace(1) %cell
  ret void
}
"""
# Runs until *flag is not 0.
SPIN = """
define ptx_kernel void @spin(ptr addrspace(1) %flag) #0 {
  br label %loop
loop:
  %x = load atomic volatile i32, ptr addrspace(1) %flag monotonic, align 4
  %c = icmp eq i32 %x, 0
  br i1 %c, label %loop, label %done
done:
  ret void
}
"""
# out[0..5] = block sizes, grid sizes, as the chip's bank 0 holds them
SIZES = """
define ptx_kernel void @sizes(ptr addrspace(1) %out) #0 {
  %a = call i32 @llvm.nvvm.read.ptx.sreg.ntid.x()
  %b = call i32 @llvm.nvvm.read.ptx.sreg.ntid.y()
  %c = call i32 @llvm.nvvm.read.ptx.sreg.ntid.z()
  %d = call i32 @llvm.nvvm.read.ptx.sreg.nctaid.x()
  %e = call i32 @llvm.nvvm.read.ptx.sreg.nctaid.y()
  %f = call i32 @llvm.nvvm.read.ptx.sreg.nctaid.z()
  %p1 = getelementptr i32, ptr addrspace(1) %out, i32 1
  %p2 = getelementptr i32, ptr addrspace(1) %out, i32 2
  %p3 = getelementptr i32, ptr addrspace(1) %out, i32 3
  %p4 = getelementptr i32, ptr addrspace(1) %out, i32 4
  %p5 = getelementptr i32, ptr addrspace(1) %out, i32 5
  store i32 %a, ptr addrspace(1) %out
  store i32 %b, ptr addrspace(1) %p1
  store i32 %c, ptr addrspace(1) %p2
  store i32 %d, ptr addrspace(1) %p3
  store i32 %e, ptr addrspace(1) %p4
  store i32 %f, ptr addrspace(1) %p5
  ret void
}
"""
# A private array that cannot be kept in registers: {words} words per thread.
SPILL = """
define ptx_kernel void @{name}(ptr addrspace(1) %out, i32 %k) #0 {{
  %t = call i32 @llvm.nvvm.read.ptx.sreg.tid.x()
  %a = alloca [{words} x i32], align 4
  br label %fill
fill:
  %i = phi i32 [ 0, %0 ], [ %i1, %fill ]
  %p = getelementptr i32, ptr %a, i32 %i
  %v = mul i32 %i, %t
  store volatile i32 %v, ptr %p
  %i1 = add i32 %i, 1
  %c = icmp ult i32 %i1, {words}
  br i1 %c, label %fill, label %done
done:
  %q = getelementptr i32, ptr %a, i32 %k
  %r = load volatile i32, ptr %q
  %o = getelementptr i32, ptr addrspace(1) %out, i32 %t
  store i32 %r, ptr addrspace(1) %o
  ret void
}}
"""
# out[t] = what thread t ^ 1 put into shared memory
SHARED = """
@pad = internal addrspace(3) global [{words} x i32] undef, align 4
define ptx_kernel void @{name}(ptr addrspace(1) %out) #0 {{
  %t = call i32 @llvm.nvvm.read.ptx.sreg.tid.x()
  %p = getelementptr i32, ptr addrspace(3) @pad, i32 %t
  %v = mul i32 %t, 3
  store i32 %v, ptr addrspace(3) %p
  call void @llvm.nvvm.barrier.cta.sync.aligned.all(i32 0)
  %x = xor i32 %t, 1
  %q = getelementptr i32, ptr addrspace(3) @pad, i32 %x
  %r = load i32, ptr addrspace(3) %q
  %o = getelementptr i32, ptr addrspace(1) %out, i32 %t
  store i32 %r, ptr addrspace(1) %o
  ret void
}}
"""
# Data of the module: a counter and a table, reached through relocations.
DATA = """
@table = internal addrspace(1) constant [4 x i32] [i32 10, i32 20, i32 30, i32 50]
@count = internal addrspace(1) global i32 7
define ptx_kernel void @data(ptr addrspace(1) %out, i32 %k) #0 {
  %i = and i32 %k, 3
  %p = getelementptr i32, ptr addrspace(1) @table, i32 %i
  %v = load i32, ptr addrspace(1) %p
  %n = atomicrmw add ptr addrspace(1) @count, i32 1 monotonic
  %w = add i32 %v, %n
  store i32 %w, ptr addrspace(1) %out
  ret void
}
"""
LIMITED = """
define ptx_kernel void @limited(ptr addrspace(1) %out) "nvvm.maxntid"="128,1,1" {
  store i32 1, ptr addrspace(1) %out
  ret void
}
define ptx_kernel void @fixed(ptr addrspace(1) %out) "nvvm.reqntid"="32,2,1" {
  store i32 1, ptr addrspace(1) %out
  ret void
}
"""
SOURCES = {
    "add": ADD,
    "bump": BUMP,
    "spin": SPIN,
    "sizes": SIZES,
    "spill": SPILL.format(name="spill", words=400),
    "spill_huge": SPILL.format(name="spill_huge", words=4000),
    "shared": SHARED.format(name="shared", words=256),
    "shared_most": SHARED.format(name="shared_most", words=12288),
    "data": DATA,
    "limited": LIMITED,
    "fixed": LIMITED,
}
TAIL = """
attributes #0 = { "nvvm.maxntid"="1024,1,1" }
"""


@functools.cache
def compiled(name, chip="sm_90"):
    """The cubin of a kernel of SOURCES."""
    pytest.importorskip("nvidia", reason="nvidia-nvjitlink (extra nv) is not installed")
    import llvmlite.binding as llvm

    from jit.codegen.nvjitlink import link

    llvm.initialize_all_targets()
    llvm.initialize_all_asmprinters()
    target = llvm.Target.from_triple("nvptx64-nvidia-cuda").create_target_machine(cpu=chip, opt=3)
    module = llvm.parse_assembly(HEAD + SOURCES[name] + TAIL)
    builder = llvm.create_pass_builder(target, llvm.create_pipeline_tuning_options(speed_level=1))
    builder.getModulePassManager().run(module, builder)
    return link(target.emit_assembly(module), chip, name)


@pytest.fixture(name="compiled")
def compiled_fixture():
    """compiled(name, chip="sm_90"): a cubin."""
    return compiled


@functools.cache
def placed(name, chip="sm_90", address=0x10_0000_0000):
    """A program as it would be loaded at an address, without a device."""
    from hcq.nv.arch import ARCHES
    from hcq.nv.cubin import Cubin
    from hcq.nv.driver import Windows
    from hcq.nv.program import Program

    arch = next(arch for arch in ARCHES if arch.name == chip)
    windows = Windows(0x2F_0000_0000, 0x2E_0000_0000)
    return Program(
        Cubin(compiled(name, chip), name, arch), arch, address, windows, {}, lambda p: None
    )


@pytest.fixture(name="placed")
def placed_fixture():
    """placed(name, chip="sm_90", address=...): a Program without a device."""
    return placed


@pytest.fixture
def device(machine):
    """The only GPU of a simulated machine."""
    from hcq import nv

    machine("sm_90")
    found = nv.open(0)
    yield found
    found.close()


@pytest.fixture
def words():
    """words(device, buffer, count): the first 32-bit words of a buffer."""

    def read(device, buffer, count):
        data = bytearray(count * 4)
        device.copy_out(buffer, 0, data)
        return list(memoryview(data).cast("I"))

    return read
