"""Compiles kernels for NVIDIA chips and prints their machine code as JSON.

A program of its own, because LLVM ends the process when it cannot select something:
`python tests/sim/nv/corpus.py sm_90 [sm_86 ...]` prints {chip: {section: code as hex}}.
LLVM turns the kernels into PTX, nvJitLink turns that into machine code.
"""

import json
import struct
import sys
from importlib.util import find_spec
from pathlib import Path

from corpus_control import control_flow_kernels
from corpus_convert import conversion_kernels
from corpus_float import float_kernels
from corpus_integer import integer_kernels
from corpus_kernel import KERNELS
from corpus_lanes import lane_kernels
from corpus_memory import memory_kernels

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
CDEF = """
typedef struct nvJitLink *handle;
int nvJitLinkCreate(handle *, uint32_t, const char **);
int nvJitLinkDestroy(handle *);
int nvJitLinkAddData(handle, int, const void *, size_t, const char *);
int nvJitLinkComplete(handle);
int nvJitLinkGetLinkedCubinSize(handle, size_t *);
int nvJitLinkGetLinkedCubin(handle, void *);
int nvJitLinkGetErrorLogSize(handle, size_t *);
int nvJitLinkGetErrorLog(handle, char *);
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


def library():
    """The path of nvJitLink, or None."""
    spec = find_spec("nvidia")
    for root in spec.submodule_search_locations if spec else ():
        for path in sorted(Path(root).glob("*/lib/libnvJitLink.so.*")):
            return path
    return None


def cubin(chip, ptx):
    """Machine code of a PTX text, as an ELF file."""
    from cffi import FFI

    ffi = FFI()
    ffi.cdef(CDEF)
    lib = ffi.dlopen(str(library()))
    handle, size = ffi.new("handle *"), ffi.new("size_t *")
    option = ffi.new("char[]", f"-arch={chip}".encode())
    lib.nvJitLinkCreate(handle, 1, ffi.new("const char *[]", [option]))
    data = ptx.encode()
    failed = lib.nvJitLinkAddData(handle[0], 2, data, len(data), b"corpus")
    failed = failed or lib.nvJitLinkComplete(handle[0])
    if failed:
        lib.nvJitLinkGetErrorLogSize(handle[0], size)
        log = ffi.new("char[]", size[0] + 1)
        lib.nvJitLinkGetErrorLog(handle[0], log)
        sys.exit(f"nvJitLink for {chip}: {ffi.string(log).decode()}")
    lib.nvJitLinkGetLinkedCubinSize(handle[0], size)
    result = ffi.new("char[]", size[0])
    lib.nvJitLinkGetLinkedCubin(handle[0], result)
    lib.nvJitLinkDestroy(handle)
    return bytes(ffi.buffer(result, size[0]))


def sections(elf):
    """Name -> bytes of the code sections of an ELF file."""
    (offset,) = struct.unpack_from("<Q", elf, 40)
    size, count, names = struct.unpack_from("<HHH", elf, 58)
    headers = [struct.unpack_from("<IIQQQQ", elf, offset + i * size) for i in range(count)]
    strings = headers[names][4]
    found = {}
    for name, _, _, _, at, length in headers:
        end = elf.index(b"\0", strings + name)
        text = elf[strings + name : end].decode()
        if text.startswith(".text."):
            found[text[6:]] = elf[at : at + length]
    return found


if __name__ == "__main__":
    make()
    code = {chip: sections(cubin(chip, assembly(chip))) for chip in sys.argv[1:]}
    json.dump(
        {chip: {n: c.hex() for n, c in named.items()} for chip, named in code.items()}, sys.stdout
    )
