"""Kernels that only tests of NVIDIA GPUs need, and programs without a device."""

import functools

import pytest
from gpu_kernels import SHARED, SPILL, compiled

# out[0..5] = block sizes, grid sizes, as the chip's bank 0 holds them
SIZES = """
define KERNEL void @sizes(GLOBAL %out) #0 {
  %a = call i32 @llvm.nvvm.read.ptx.sreg.ntid.x()
  %b = call i32 @llvm.nvvm.read.ptx.sreg.ntid.y()
  %c = call i32 @llvm.nvvm.read.ptx.sreg.ntid.z()
  %d = call i32 @llvm.nvvm.read.ptx.sreg.nctaid.x()
  %e = call i32 @llvm.nvvm.read.ptx.sreg.nctaid.y()
  %f = call i32 @llvm.nvvm.read.ptx.sreg.nctaid.z()
  %p1 = getelementptr i32, GLOBAL %out, i32 1
  %p2 = getelementptr i32, GLOBAL %out, i32 2
  %p3 = getelementptr i32, GLOBAL %out, i32 3
  %p4 = getelementptr i32, GLOBAL %out, i32 4
  %p5 = getelementptr i32, GLOBAL %out, i32 5
  store i32 %a, GLOBAL %out
  store i32 %b, GLOBAL %p1
  store i32 %c, GLOBAL %p2
  store i32 %d, GLOBAL %p3
  store i32 %e, GLOBAL %p4
  store i32 %f, GLOBAL %p5
  ret void
}
"""
# out[t] = what thread t ^ 1 put into shared memory
BLOCK = """
@pad = internal addrspace(3) global [{words} x i32] undef, align 4
define KERNEL void @{name}(GLOBAL %out) #0 {{
  %t = call ITEM
  %p = getelementptr i32, ptr addrspace(3) @pad, i32 %t
  %v = mul i32 %t, 3
  store i32 %v, ptr addrspace(3) %p
  call void @llvm.nvvm.barrier.cta.sync.aligned.all(i32 0)
  %x = xor i32 %t, 1
  %q = getelementptr i32, ptr addrspace(3) @pad, i32 %x
  %r = load i32, ptr addrspace(3) %q
  %o = getelementptr i32, GLOBAL %out, i32 %t
  store i32 %r, GLOBAL %o
  ret void
}}
"""
# Data of the module: a counter and a table, reached through relocations.
DATA = """
@table = internal addrspace(1) constant [4 x i32] [i32 10, i32 20, i32 30, i32 50]
@count = internal addrspace(1) global i32 7
define KERNEL void @data(GLOBAL %out, i32 %k) #0 {
  %i = and i32 %k, 3
  %p = getelementptr i32, GLOBAL @table, i32 %i
  %v = load i32, GLOBAL %p
  %n = atomicrmw add GLOBAL @count, i32 1 monotonic
  %w = add i32 %v, %n
  store i32 %w, GLOBAL %out
  ret void
}
"""
LIMITED = """
define KERNEL void @limited(GLOBAL %out) "nvvm.maxntid"="128,1,1" {
  store i32 1, GLOBAL %out
  ret void
}
define KERNEL void @fixed(GLOBAL %out) "nvvm.reqntid"="32,2,1" {
  store i32 1, GLOBAL %out
  ret void
}
"""
SOURCES = {
    "sizes": SIZES,
    "spill": SPILL.format(name="spill", words=400),
    "spill_huge": SPILL.format(name="spill_huge", words=4000),
    "shared": BLOCK.format(name="shared", words=256),
    "shared_most": BLOCK.format(name="shared_most", words=12288),
    "data": DATA,
    "limited": LIMITED,
    "fixed": LIMITED,
}


@pytest.fixture
def chip():
    """The chip's name."""
    return "sm_90"


@pytest.fixture
def sources():
    """name -> text of the kernels beside the shared ones."""
    return SOURCES


@pytest.fixture
def asked(monkeypatch):
    """asked(sim): a list of the calls from now on: (name, number, bytes of the parameters).

    The number is the class, control or object that the call is about.
    """
    from hcq.ioctl_defs import nv_escape

    def parameters(address, size):
        return bytes(nv_escape.ffi.buffer(nv_escape.ffi.cast("uint8_t *", address), size))

    def listen(sim):
        calls = []
        ioctl = sim.ioctl

        def noted(fd, call, args):
            number, data = getattr(args, "hChannel", 0), b""
            if call is nv_escape.RM_ALLOC:
                number = args.hClass
                data = parameters(args.pAllocParms, args.paramsSize) if args.paramsSize else b""
            elif call is nv_escape.RM_CONTROL:
                number, data = args.cmd, parameters(args.params, args.paramsSize)
            elif call is nv_escape.RM_FREE:
                number = args.hObjectOld
            calls.append((call.name, number, data))
            return ioctl(fd, call, args)

        monkeypatch.setattr(sim, "ioctl", noted)
        return calls

    return listen


@functools.cache
def placed(name, chip="sm_90", address=0x10_0000_0000):
    """A program as it would be loaded at an address, without a device."""
    from hcq.nv.arch import ARCHES
    from hcq.nv.cubin import Cubin
    from hcq.nv.driver import Windows
    from hcq.nv.program import Program

    arch = next(arch for arch in ARCHES if arch.name == chip)
    windows = Windows(0x2F_0000_0000, 0x2E_0000_0000)
    cubin = Cubin(compiled(chip, name, {**SHARED, **SOURCES}[name]), name, arch)
    return Program(cubin, arch, address, windows, {}, lambda program: None)


@pytest.fixture(name="placed")
def placed_fixture():
    """placed(name, chip="sm_90", address=...): a Program without a device."""
    return placed
