"""Kernels that only tests of AMD GPUs need."""

import pytest
from gpu_kernels import SPILL

# Every work-item adds its number to *sum.
SUM = """
define KERNEL void @sum(GLOBAL %sum) #0 {
  %t = call ITEM
  %old = atomicrmw add GLOBAL %sum, i32 %t monotonic
  ret void
}
"""
# out[0..] = block count x, group size x, read from the hidden arguments
HIDDEN = """
define KERNEL void @hidden(GLOBAL %out) #0 {
  %h = call ptr addrspace(4) @llvm.amdgcn.implicitarg.ptr()
  %n = load i32, ptr addrspace(4) %h
  %q = getelementptr i8, ptr addrspace(4) %h, i32 12
  %s = load i16, ptr addrspace(4) %q
  %z = zext i16 %s to i32
  store i32 %n, GLOBAL %out
  %o = getelementptr i32, GLOBAL %out, i32 1
  store i32 %z, GLOBAL %o
  ret void
}
"""
LDS = """
@shared = internal addrspace(3) global [8192 x i32] undef, align 4
define KERNEL void @lds(GLOBAL %out) #0 {
  %t = call ITEM
  %p = getelementptr i32, ptr addrspace(3) @shared, i32 %t
  store volatile i32 %t, ptr addrspace(3) %p
  %v = load volatile i32, ptr addrspace(3) %p
  %o = getelementptr i32, GLOBAL %out, i32 %t
  store i32 %v, GLOBAL %o
  ret void
}
"""
SOURCES = {
    "sum": SUM,
    "hidden": HIDDEN,
    "spill": SPILL.format(name="spill", words=64),
    "spill_huge": SPILL.format(name="spill_huge", words=4000),
    "lds": LDS,
}


@pytest.fixture
def sources():
    """name -> text of the kernels beside the shared ones."""
    return SOURCES
