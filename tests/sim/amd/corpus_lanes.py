"""Kernels of the corpus in which lanes work together or part."""

from corpus_kernel import Kernel

CONTROL = """br label %loop
loop:
  %i = phi i32 [ 0, %0 ], [ %next, %latch ]
  %sum = phi float [ 0.0, %0 ], [ %added, %latch ]
  %stop = icmp sgt i32 %i, %n
  br i1 %stop, label %done, label %work
work:
  %odd = trunc i32 %lane to i1
  br i1 %odd, label %left, label %right
left:
  %pa = getelementptr float, ptr addrspace(1) %a, i32 %i
  %va = load float, ptr addrspace(1) %pa
  %ma = fmul float %va, %x
  br label %latch
right:
  %pb = getelementptr float, ptr addrspace(1) %b, i32 %lane
  %vb = load float, ptr addrspace(1) %pb
  br label %latch
latch:
  %part = phi float [ %ma, %left ], [ %vb, %right ]
  %added = fadd float %sum, %part
  %at = getelementptr float, ptr addrspace(3) @lds, i32 %lane
  store float %added, ptr addrspace(3) %at
  fence syncscope("workgroup") release
  call void @llvm.amdgcn.s.barrier()
  fence syncscope("workgroup") acquire
  %other = xor i32 %lane, 1
  %to = getelementptr float, ptr addrspace(3) @lds, i32 %other
  %seen = load float, ptr addrspace(3) %to
  %next = add i32 %i, 1
  %again = fcmp olt float %seen, %x
  br i1 %again, label %loop, label %done
done:
  %result = phi float [ %sum, %loop ], [ %added, %latch ]
  %end = getelementptr float, ptr addrspace(1) %out, i32 %lane
  store float %result, ptr addrspace(1) %end"""


def lanes(wave_size):
    """Shuffles, votes and the per-lane counters."""
    kernel = Kernel("lanes")
    a, b = (kernel.load("i32", p) for p in ("%a", "%b"))
    mask = f"i{wave_size}"
    kernel.store("i32", kernel.call("i32", "llvm.amdgcn.ds.bpermute", [f"i32 {b}", f"i32 {a}"]))
    kernel.store("i32", kernel.call("i32", "llvm.amdgcn.ds.permute", [f"i32 {b}", f"i32 {a}"]))
    for pattern in (0x041F, 0x8055, 0x401F, 0x0018):
        value = kernel.call("i32", "llvm.amdgcn.ds.swizzle", [f"i32 {a}", f"i32 {pattern}"])
        kernel.store("i32", value)
    for control in (0x1B, 0x101, 0x111, 0x121, 0x140, 0x141, 0x150, 0x161):
        arguments = [f"i32 {b}", f"i32 {a}", f"i32 {control}", "i32 15", "i32 15", "i1 true"]
        value = kernel.call("i32", "llvm.amdgcn.update.dpp.i32", arguments)
        kernel.store("i32", kernel.emit(f"add i32 {value}, {b}"))
        arguments = [f"i32 {b}", f"i32 {a}", f"i32 {control}", "i32 10", "i32 3", "i1 false"]
        kernel.store("i32", kernel.call("i32", "llvm.amdgcn.update.dpp.i32", arguments))
    value = kernel.call("i32", "llvm.amdgcn.mov.dpp8.i32", [f"i32 {a}", "i32 342391"])
    kernel.store("i32", kernel.emit(f"xor i32 {value}, {b}"))
    for name in ("permlane16", "permlanex16"):
        arguments = [
            f"i32 {a}",
            f"i32 {b}",
            "i32 1985229328",
            "i32 -19088744",
            "i1 true",
            "i1 false",
        ]
        kernel.store("i32", kernel.call("i32", f"llvm.amdgcn.{name}.i32", arguments))
    kernel.store("i32", kernel.call("i32", "llvm.amdgcn.permlane64.i32", [f"i32 {a}"]))
    first = kernel.call("i32", "llvm.amdgcn.readfirstlane.i32", [f"i32 {a}"])
    kernel.store("i32", first)
    kernel.store(
        "i32", kernel.call("i32", "llvm.amdgcn.readlane.i32", [f"i32 {a}", f"i32 {first}"])
    )
    arguments = ["i32 %n", f"i32 {first}", f"i32 {a}"]
    kernel.store("i32", kernel.call("i32", "llvm.amdgcn.writelane.i32", arguments))
    flag = kernel.emit(f"icmp sgt i32 {a}, {b}")
    ballot = kernel.call(mask, f"llvm.amdgcn.ballot.{mask}", [f"i1 {flag}"])
    kernel.store(mask, ballot)
    kernel.store(mask, kernel.call(mask, f"llvm.ctpop.{mask}", [f"{mask} {ballot}"]))
    low = kernel.call("i32", "llvm.amdgcn.mbcnt.lo", ["i32 -1", f"i32 {b}"])
    kernel.store("i32", kernel.call("i32", "llvm.amdgcn.mbcnt.hi", ["i32 -1", f"i32 {low}"]))
    kernel.store("i32", kernel.call("i32", "llvm.amdgcn.s.getreg", ["i32 63489"]))
    kernel.run("call void @llvm.amdgcn.s.sleep(i32 3)")
    kernel.run("call void @llvm.amdgcn.s.setprio(i16 2)")
    kernel.declared |= {
        "declare void @llvm.amdgcn.s.sleep(i32)", "declare void @llvm.amdgcn.s.setprio(i16)",
    }  # fmt: skip
    kernel.store("i64", kernel.call("i64", "llvm.amdgcn.s.sendmsg.rtn.i64", ["i32 131"]))
    return kernel


def matrix(wave_size):
    """The six matrix products."""
    kernel = Kernel("matrix")
    count = 256 // wave_size  # registers of a result
    for result, factor, name in (
        (f"<{count} x float>", "<16 x half>", f"f32.16x16x16.f16.v{count}f32.v16f16"),
        (f"<{count} x float>", "<16 x i16>", f"f32.16x16x16.bf16.v{count}f32.v16i16"),
    ):
        a, b = (f"{factor} {kernel.load(factor, p)}" for p in ("%a", "%b"))
        c = f"{result} {kernel.load(result, '%c')}"
        value = kernel.call(result, f"llvm.amdgcn.wmma.{name}", [a, b, c])
        kernel.store(result, value)
    for name, factor in (("f16", "half"), ("bf16", "i16")):
        element = "f16" if factor == "half" else "i16"
        both, kind = f"<16 x {factor}>", f"<{2 * count} x {factor}>"
        a, b = (f"{both} {kernel.load(both, p)}" for p in ("%a", "%b"))
        c = f"{kind} {kernel.load(kind, '%c')}"
        suffix = f"{name}.16x16x16.{name}.v{2 * count}{element}.v16{element}"
        kernel.store(kind, kernel.call(kind, f"llvm.amdgcn.wmma.{suffix}", [a, b, c, "i1 false"]))
    for name, words in (("iu8", 4), ("iu4", 2)):
        kind, result = f"<{words} x i32>", f"<{count} x i32>"
        a, b = (f"{kind} {kernel.load(kind, p)}" for p in ("%a", "%b"))
        c = f"{result} {kernel.load(result, '%c')}"
        arguments = ["i1 true", a, "i1 false", b, c, "i1 true"]
        function = f"llvm.amdgcn.wmma.i32.16x16x16.{name}.v{count}i32.v{words}i32"
        kernel.store(result, kernel.call(result, function, arguments))
    return kernel


def control():
    """Divergent and uniform loops, branches and barriers; ends with a call-free reduction."""
    kernel = Kernel("control")
    kernel.lines = CONTROL.splitlines()
    kernel.declared.add("declare void @llvm.amdgcn.s.barrier()")
    return kernel
