"""Kernels with branches, loops and calls, and small tensor operations."""

from corpus_kernel import G, Kernel, S


def control_kernels():
    kernel = Kernel("switch")
    value = kernel.load("i32", "a")
    cases = "\n".join(f"    i32 {i}, label %case{i}" for i in range(24))
    kernel.run(f"switch i32 {value}, label %done [\n{cases}\n  ]")
    bodies = (
        "add i32 {v}, 11",
        "mul i32 {v}, {v}",
        "xor i32 {v}, 77",
        "shl i32 {v}, 3",
        "sub i32 9, {v}",
        "udiv i32 {v}, 7",
    )
    names = ["[ 0, %entry ]"]
    for i in range(24):
        kernel.run(f"br label %done\ncase{i}:" if i else "case0:")
        result = kernel.emit(bodies[i % 6].format(v=value))
        kernel.run(f"store volatile i32 {result}, {G} %mine")
        other = kernel.load("i32", "bc"[i % 2])
        names.append(f"[ {other}, %case{i} ]")
    kernel.run("br label %done\ndone:")
    kernel.keep("i32", f"phi i32 {', '.join(names)}")
    for name, body, step in (
        ("sum loop", "fadd float %total, %value", "float"),
        ("max loop", "call float @llvm.maxnum.f32(float %total, float %value)", "float"),
        ("double loop", "fadd double %total, %value", "double"),
        ("integer loop", "add i64 %total, %value", "i64"),
        ("half loop", "fadd half %total, %value", "half"),
        ("byte loop", "xor i8 %total, %value", "i8"),
    ):
        kernel = Kernel(name)
        zero = "0" if step.startswith("i") else "0.0"
        if "maxnum" in body:
            kernel.declared.add("declare float @llvm.maxnum.f32(float, float)")
        kernel.run(f"""br label %loop
loop:
  %j = phi i32 [ 0, %entry ], [ %next, %loop ]
  %total = phi {step} [ {zero}, %entry ], [ %added, %loop ]
  %j64 = sext i32 %j to i64
  %index = add i64 %i, %j64
  %at = getelementptr {step}, {G} %a, i64 %index
  %value = load {step}, {G} %at
  %added = {body}
  %next = add i32 %j, 1
  %more = icmp slt i32 %next, %n
  br i1 %more, label %loop, label %done
done:""")
        kernel.store(step, "%added")
    kernel = Kernel("divergent loop")
    kernel.run(f"""br label %loop
loop:
  %j = phi i32 [ %tid, %entry ], [ %next, %latch ]
  %total = phi i32 [ 0, %entry ], [ %merged, %latch ]
  %odd = and i32 %j, 1
  %isodd = icmp eq i32 %odd, 1
  br i1 %isodd, label %left, label %right
left:
  %l = mul i32 %j, 3
  %l1 = add i32 %l, 1
  store volatile i32 %l1, {G} %mine
  br label %latch
right:
  %r = lshr i32 %j, 1
  %stop = icmp eq i32 %total, %n
  br i1 %stop, label %done, label %latch
latch:
  %next = phi i32 [ %l1, %left ], [ %r, %right ]
  %merged = add i32 %total, %next
  %again = icmp ugt i32 %next, 1
  br i1 %again, label %loop, label %done
done:
  %result = phi i32 [ %total, %right ], [ %merged, %latch ]""")
    kernel.store("i32", "%result")
    kernel = Kernel("spin lock")
    kernel.run(f"""br label %try
try:
  %pair = cmpxchg {G} %a, i32 0, i32 1 acq_rel monotonic
  %won = extractvalue {{ i32, i1 }} %pair, 1
  br i1 %won, label %inside, label %try
inside:
  %seen = load volatile i32, {G} %b
  %more = add i32 %seen, 1
  store volatile i32 %more, {G} %b
  fence seq_cst
  store atomic i32 0, {G} %a release, align 4""")
    kernel = Kernel("calls")
    a, b = kernel.loads("float", "ab")
    kernel.keep("float", f"call float @callee(float {a}, float {b})")
    kernel.keep("float", f"call float @callee(float {b}, float %x)")
    kernel.keep("i32", "call i32 @recursive(i32 %n)")
    kernel.keep("i64", "call i64 @memory_callee(ptr %generic, i64 %wide)")
    kernel = Kernel("indirect calls")
    index = kernel.emit("and i32 %n, 1")
    at = kernel.emit(f"getelementptr ptr, {G} @functions, i32 {index}")
    function = kernel.emit(f"load ptr, {G} {at}")
    kernel.keep("float", f"call float {function}(float %x, float 2.0)")
    kernel = Kernel("nested loops")
    kernel.run(f"""br label %outer
outer:
  %j = phi i32 [ 0, %entry ], [ %jn, %outer_latch ]
  %to = phi float [ 0.0, %entry ], [ %ti, %outer_latch ]
  br label %inner
inner:
  %k = phi i32 [ 0, %outer ], [ %kn, %inner ]
  %tin = phi float [ %to, %outer ], [ %ti, %inner ]
  %row = mul i32 %j, %n
  %spot = add i32 %row, %k
  %at = getelementptr float, {G} %a, i32 %spot
  %value = load float, {G} %at
  %bt = getelementptr float, {G} %b, i32 %k
  %other = load float, {G} %bt
  %product = fmul contract float %value, %other
  %ti = fadd contract float %tin, %product
  %kn = add i32 %k, 1
  %ik = icmp slt i32 %kn, %tid
  br i1 %ik, label %inner, label %outer_latch
outer_latch:
  %jn = add i32 %j, 1
  %ij = icmp slt i32 %jn, %n
  br i1 %ij, label %outer, label %done
done:""")
    kernel.store("float", "%ti")


def tensor_kernels():
    kernel = Kernel("tiled matmul")
    kernel.run(f"""%ty = call i32 @llvm.nvvm.read.ptx.sreg.tid.y()
  %row = mul i32 %ctaid, 16
  %r = add i32 %row, %ty
  br label %loop
loop:
  %t = phi i32 [ 0, %entry ], [ %tn, %latch ]
  %acc = phi float [ 0.0, %entry ], [ %an, %latch ]
  %ra = mul i32 %r, %n
  %ca = add i32 %t, %tid
  %ia = add i32 %ra, %ca
  %pa = getelementptr float, {G} %a, i32 %ia
  %va = load float, {G} %pa
  %sa = mul i32 %ty, 16
  %sb = add i32 %sa, %tid
  %spa = getelementptr float, {S} @shared, i32 %sb
  store float %va, {S} %spa
  %rb = add i32 %t, %ty
  %rbn = mul i32 %rb, %n
  %ib = add i32 %rbn, %tid
  %pb = getelementptr float, {G} %b, i32 %ib
  %vb = load float, {G} %pb
  %spb = getelementptr float, {S} @shared2, i32 %sb
  store float %vb, {S} %spb
  call void @llvm.nvvm.barrier.cta.sync.aligned.all(i32 0)
  br label %inner
inner:
  %k = phi i32 [ 0, %loop ], [ %kn, %inner ]
  %ai = phi float [ %acc, %loop ], [ %an, %inner ]
  %ka = add i32 %sa, %k
  %p1 = getelementptr float, {S} @shared, i32 %ka
  %x1 = load float, {S} %p1
  %kb = mul i32 %k, 16
  %kc = add i32 %kb, %tid
  %p2 = getelementptr float, {S} @shared2, i32 %kc
  %x2 = load float, {S} %p2
  %product = fmul contract float %x1, %x2
  %an = fadd contract float %ai, %product
  %kn = add i32 %k, 1
  %kk = icmp slt i32 %kn, 16
  br i1 %kk, label %inner, label %latch
latch:
  call void @llvm.nvvm.barrier.cta.sync.aligned.all(i32 0)
  %tn = add i32 %t, 16
  %more = icmp slt i32 %tn, %n
  br i1 %more, label %loop, label %done
done:""")
    kernel.store("float", "%an")
    kernel.declared |= {
        "declare i32 @llvm.nvvm.read.ptx.sreg.tid.y()",
        "declare void @llvm.nvvm.barrier.cta.sync.aligned.all(i32)",
    }
    kernel = Kernel("block reduction")
    value = kernel.load("float", "a")
    kernel.declared.add("declare void @llvm.nvvm.barrier.cta.sync.aligned.all(i32)")
    mine = kernel.emit(f"getelementptr float, {S} @shared, i32 %tid")
    kernel.run(f"store float {value}, {S} {mine}")
    for step in (128, 64, 32, 16, 8, 4, 2, 1):
        kernel.run("call void @llvm.nvvm.barrier.cta.sync.aligned.all(i32 0)")
        flag = kernel.emit(f"icmp ult i32 %tid, {step}")
        kernel.run(f"br i1 {flag}, label %add{step}, label %skip{step}\nadd{step}:")
        far = kernel.emit(f"getelementptr float, {S} {mine}, i32 {step}")
        one, two = kernel.emit(f"load float, {S} {mine}"), kernel.emit(f"load float, {S} {far}")
        kernel.run(f"store float {kernel.emit(f'fadd float {one}, {two}')}, {S} {mine}")
        kernel.run(f"br label %skip{step}\nskip{step}:")
    kernel.keep("float", f"load float, {S} @shared")
    kernel = Kernel("exponential")
    value = kernel.load("float", "a")
    scaled = kernel.emit(f"fmul float {value}, 0x3FF7154760000000")
    power = kernel.call("float", "llvm.exp2.f32", [f"float {scaled}"])
    kernel.store("float", power)
    one = kernel.emit(f"fadd float {power}, 1.0")
    kernel.keep("float", f"fdiv float 1.0, {one}")
    log = kernel.call("float", "llvm.nvvm.lg2.approx.f", [f"float {one}"])
    kernel.keep("float", f"fmul float {log}, 0x3FE62E4300000000")
    kernel = Kernel("threefry")
    x, y = kernel.loads("i32", "ab")
    for count in (13, 15, 26, 6, 17, 29, 16, 24):
        x = kernel.emit(f"add i32 {x}, {y}")
        turned = kernel.call("i32", "llvm.fshl.i32", [f"i32 {y}", f"i32 {y}", f"i32 {count}"])
        y = kernel.emit(f"xor i32 {turned}, {x}")
    kernel.store("i32", x)
    kernel.store("i32", y)
    kernel = Kernel("philox")
    x, y = kernel.loads("i32", "ab")
    for _ in range(4):
        wide = kernel.emit(f"zext i32 {x} to i64")
        product = kernel.emit(f"mul i64 {wide}, 3528531795")
        high = kernel.emit(f"lshr i64 {product}, 32")
        low = kernel.emit(f"trunc i64 {product} to i32")
        top = kernel.emit(f"trunc i64 {high} to i32")
        x, y = kernel.emit(f"xor i32 {top}, {y}"), low
    kernel.store("i32", x)
    kernel.store("i32", y)
    kernel = Kernel("transpose")
    row = kernel.emit("mul i32 %tid, 33")
    at = kernel.emit(f"getelementptr float, {S} @shared, i32 {row}")
    kernel.run(f"store float {kernel.load('float', 'a')}, {S} {at}")
    kernel.call("void", "llvm.nvvm.barrier.cta.sync.aligned.all", ["i32 0"])
    at = kernel.emit(f"getelementptr float, {S} @shared, i32 %tid")
    kernel.keep("float", f"load float, {S} {at}")
    kernel = Kernel("argmax step")
    a, b = kernel.loads("float", "ab")
    i, j = kernel.loads("i32", "ab")
    flag = kernel.emit(f"fcmp ogt float {a}, {b}")
    kernel.keep("float", f"select i1 {flag}, float {a}, float {b}")
    kernel.keep("i32", f"select i1 {flag}, i32 {i}, i32 {j}")
    kernel = Kernel("gather")
    index = kernel.load("i32", "a")
    at = kernel.emit(f"getelementptr float, {G} %b, i32 {index}")
    kernel.keep("float", f"load float, {G} {at}")
    wide = kernel.load("i64", "c")
    at = kernel.emit(f"getelementptr <4 x float>, {G} %b, i64 {wide}")
    kernel.keep("<4 x float>", f"load <4 x float>, {G} {at}")
    kernel = Kernel("histogram")
    index = kernel.load("i8", "a")
    wide = kernel.emit(f"zext i8 {index} to i32")
    at = kernel.emit(f"getelementptr i32, {S} @shared, i32 {wide}")
    kernel.emit(f"atomicrmw add {S} {at}, i32 1 monotonic")
    kernel.call("void", "llvm.nvvm.barrier.cta.sync.aligned.all", ["i32 0"])
    at = kernel.emit(f"getelementptr i32, {S} @shared, i32 %tid")
    value = kernel.emit(f"load i32, {S} {at}")
    at = kernel.emit(f"getelementptr i32, {G} %b, i32 %tid")
    kernel.emit(f"atomicrmw add {G} {at}, i32 {value} monotonic")
    for count in (4, 8, 16):
        kernel = Kernel(f"unrolled {count}")
        total = None
        for i in range(count):
            at = kernel.emit(f"getelementptr float, {G} %a, i64 %i")
            at = kernel.emit(f"getelementptr float, {G} {at}, i32 {i * count}")
            value = kernel.emit(f"load float, {G} {at}")
            value = kernel.emit(f"fmul float {value}, %x")
            total = value if total is None else kernel.emit(f"fadd float {total}, {value}")
        kernel.store("float", total)


def control_flow_kernels():
    """Every kernel of this file."""
    control_kernels()
    tensor_kernels()
