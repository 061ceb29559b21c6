"""Kernels in which lanes work together: shuffles, votes, barriers, matrix products."""

from corpus_kernel import CHIPS, LETTERS, G, Kernel, S


def warp_kernels():
    kernel = Kernel("shuffles")
    a, b = (f"i32 {v}" for v in kernel.loads("i32", "ab"))
    for mode in ("up", "down", "bfly", "idx"):
        clamp = "0" if mode == "up" else "31"
        kernel.asm("i32", f"shfl.sync.{mode}.b32 $0, $1, 3, {clamp}, -1;", a)
        kernel.asm("i32", f"shfl.sync.{mode}.b32 $0, $1, $2, {clamp}, -1;", a, b)
        kernel.asm("i32", f"shfl.sync.{mode}.b32 $0, $1, 1, $2, -1;", a, b)
        kernel.asm("i32", f"shfl.sync.{mode}.b32 $0, $1, $2, $2, -1;", a, b)
        kernel.asm(
            "i32",
            f"{{.reg .pred p; .reg .u32 t; shfl.sync.{mode}.b32 t|p, $1, 4, {clamp}, -1; "
            "selp.b32 $0, t, 0, p;}",
            a,
        )
    kernel.asm("i32", "shfl.sync.idx.b32 $0, $1, 0, 31, $2;", a, b)
    kernel = Kernel("votes")
    a, b = (f"i32 {v}" for v in kernel.loads("i32", "ab"))
    for mode in ("all", "any", "uni"):
        kernel.asm(
            "i32",
            f"{{.reg .pred p, q; setp.lt.s32 p, $1, $2; vote.sync.{mode}.pred q, p, -1; "
            "selp.b32 $0, 1, 0, q;}",
            a,
            b,
        )
        kernel.asm(
            "i32",
            f"{{.reg .pred p, q; setp.lt.s32 p, $1, $2; vote.sync.{mode}.pred q, !p, 0xffff; "
            "selp.b32 $0, 1, 0, q;}",
            a,
            b,
        )
    kernel.asm(
        "i32", "{.reg .pred p; setp.lt.s32 p, $1, $2; vote.sync.ballot.b32 $0, p, -1;}", a, b
    )
    kernel.asm(
        "i32", "{.reg .pred p; setp.lt.s32 p, $1, $2; vote.sync.ballot.b32 $0, p, $2;}", a, b
    )
    kernel.asm("i32", "activemask.b32 $0;")
    kernel = Kernel("matches")
    a, b = (f"i32 {v}" for v in kernel.loads("i32", "ab"))
    w = f"i64 {kernel.load('i64', 'c')}"
    kernel.asm("i32", "match.any.sync.b32 $0, $1, -1;", a)
    kernel.asm("i32", "match.any.sync.b64 $0, $1, -1;", w)
    for kind, value in (("b32", a), ("b64", w)):
        kernel.asm(
            "i32",
            f"{{.reg .pred p; .reg .b32 t; match.all.sync.{kind} t|p, $1, -1; "
            "selp.b32 $0, t, 0, p;}",
            value,
        )
    kernel = Kernel("warp reductions")
    a, b = (f"i32 {v}" for v in kernel.loads("i32", "ab"))
    for name in (
        "add.s32",
        "add.u32",
        "min.s32",
        "min.u32",
        "max.s32",
        "max.u32",
        "and.b32",
        "or.b32",
        "xor.b32",
    ):
        kernel.asm("i32", f"redux.sync.{name} $0, $1, -1;", a)
    kernel.asm("i32", "redux.sync.add.s32 $0, $1, 0xff;", b)
    kernel = Kernel("warp sum")
    value = kernel.load("float", "a")
    for step in (16, 8, 4, 2, 1):
        other = kernel.call(
            "float",
            "llvm.nvvm.shfl.sync.bfly.f32",
            ["i32 -1", f"float {value}", f"i32 {step}", "i32 31"],
        )
        value = kernel.emit(f"fadd float {value}, {other}")
    kernel.store("float", value)
    kernel = Kernel("elect", chips=CHIPS[3:])
    kernel.asm("i32", "{.reg .pred p; .reg .b32 t; elect.sync t|p, -1; selp.b32 $0, t, 0, p;}")
    kernel = Kernel("barriers")
    a, b = (f"i32 {v}" for v in kernel.loads("i32", "ab"))
    for text in (
        "bar.sync 0",
        "bar.sync 1",
        "bar.sync 2, 64",
        "bar.arrive 3, 64",
        "bar.warp.sync -1",
        "bar.warp.sync 0xff",
        "membar.cta",
        "membar.gl",
        "membar.sys",
        "fence.acq_rel.gpu",
        "fence.sc.gpu",
        "fence.sc.cta",
        "fence.acq_rel.sys",
        "barrier.sync 4",
        "barrier.sync 5, 96",
    ):
        kernel.asm("", f"{text};")
    kernel.asm("", "bar.sync $0, $1;", a, "i32 64")
    kernel.asm("", "bar.sync $0;", b)
    kernel.asm("", "bar.warp.sync $0;", b)
    for op in ("and", "or"):
        kernel.asm(
            "i32",
            f"{{.reg .pred p, q; setp.ne.s32 p, $1, 0; bar.red.{op}.pred q, 0, p; "
            "selp.b32 $0, 1, 0, q;}",
            a,
        )
    kernel.asm("i32", "{.reg .pred p; setp.ne.s32 p, $1, 0; bar.red.popc.u32 $0, 0, p;}", a)
    kernel.asm("i32", "{.reg .pred p; setp.ne.s32 p, $1, 0; bar.red.popc.u32 $0, 1, 64, p;}", a)


def special_kernels():
    kernel = Kernel("special registers")
    names = [f"{r}.{d}" for r in ("tid", "ntid", "ctaid", "nctaid") for d in "xyz"]
    names += [
        "laneid",
        "warpid",
        "nwarpid",
        "smid",
        "nsmid",
        "lanemask_eq",
        "lanemask_le",
        "lanemask_lt",
        "lanemask_ge",
        "lanemask_gt",
        "clock",
        "clock_hi",
        "globaltimer_lo",
        "globaltimer_hi",
        "dynamic_smem_size",
        "total_smem_size",
        "envreg0",
        "pm0",
    ]
    for name in names:
        kernel.asm("i32", f"mov.u32 $0, %{name};")
    for name in ("gridid", "clock64", "globaltimer"):
        kernel.asm("i64", f"mov.u64 $0, %{name};")
    cluster = Kernel("cluster registers", chips=CHIPS[3:])
    for name in (
        "clusterid.x",
        "nclusterid.x",
        "cluster_ctaid.x",
        "cluster_nctaid.x",
        "cluster_ctarank",
        "cluster_nctarank",
    ):
        cluster.asm("i32", f"mov.u32 $0, %{name};")
    for text in (
        "barrier.cluster.arrive",
        "barrier.cluster.wait",
        "barrier.cluster.arrive.relaxed",
    ):
        cluster.asm("", f"{text};")
    kernel = Kernel("sleep")
    kernel.asm("", "nanosleep.u32 20;")
    kernel.asm("", "nanosleep.u32 $0;", f"i32 {kernel.load('i32', 'a')}")
    kernel = Kernel("trap")
    flag = kernel.emit("icmp eq i32 %n, 99")
    kernel.run(f"br i1 {flag}, label %bad, label %good\nbad:")
    kernel.asm("", "trap;")
    kernel.run("br label %good\ngood:")
    kernel.asm("", "brkpt;")
    kernel.asm("", "pmevent 3;")
    kernel.run("store i32 1, ptr addrspace(1) %mine")
    kernel = Kernel("early exit")
    flag = kernel.emit("icmp sge i32 %sum, %n")
    kernel.run(f"br i1 {flag}, label %over, label %work\nover:\nret void\nwork:")
    kernel.asm(
        "", "{.reg .pred p; setp.eq.s32 p, $0, 3; @p exit;}", f"i32 {kernel.load('i32', 'a')}"
    )
    kernel.keep("float", "fadd float %x, 1.0")


def matrix_kernels():
    def registers(letter, first, count):
        return "{" + ", ".join(f"${first + i}" for i in range(count)) + "}"

    def mma(shape, types, a, b, c, kind="i32", accumulate="float", chips=CHIPS):
        kernel = Kernel(f"mma {shape} {types}", chips)
        operands = [
            f"i32 {kernel.load('i32', x)}" if kind == "i32" else f"{kind} {kernel.load(kind, x)}"
            for x in "ab"
        ]
        start = f"{accumulate} {kernel.load(accumulate, 'c')}"
        text = f"mma.sync.aligned.{shape}.row.col.{types} "
        text += (
            ", ".join(
                (
                    registers("d", 0, c),
                    registers("a", c, a),
                    registers("b", c + a, b),
                    registers("c", c + a + b, c),
                )
            )
            + ";"
        )
        arguments = [operands[0]] * a + [operands[1]] * b + [start] * c
        result = "{ " + ", ".join([accumulate] * c) + " }"
        constraints = ",".join(
            ["=" + LETTERS[accumulate]] * c + [LETTERS[x.split(" ")[0]] for x in arguments]
        )
        value = kernel.emit(
            f'call {result} asm sideeffect "{text}", "{constraints}"({", ".join(arguments)})'
        )
        for i in range(c):
            kernel.keep(accumulate, f"extractvalue {result} {value}, {i}")

    mma("m16n8k16", "f32.f16.f16.f32", 4, 2, 4)
    mma("m16n8k16", "f32.bf16.bf16.f32", 4, 2, 4)
    mma("m16n8k16", "f16.f16.f16.f16", 4, 2, 2, accumulate="i32")
    mma("m16n8k8", "f32.f16.f16.f32", 2, 1, 4)
    mma("m16n8k8", "f32.bf16.bf16.f32", 2, 1, 4)
    mma("m16n8k8", "f32.tf32.tf32.f32", 4, 2, 4)
    mma("m16n8k4", "f32.tf32.tf32.f32", 2, 1, 4)
    mma("m16n8k32", "s32.s8.s8.s32", 4, 2, 4, accumulate="i32")
    mma("m16n8k32", "s32.u8.s8.s32", 4, 2, 4, accumulate="i32")
    mma("m16n8k16", "s32.s8.s8.s32", 2, 1, 4, accumulate="i32")
    mma("m8n8k16", "s32.u8.u8.s32", 1, 1, 2, accumulate="i32")
    mma("m8n8k4", "f64.f64.f64.f64", 1, 1, 2, kind="double", accumulate="double")
    mma("m16n8k32", "f32.e4m3.e4m3.f32", 4, 2, 4, chips=CHIPS[2:])
    kernel = Kernel("matrix loads")
    at = kernel.emit(f"getelementptr i128, {S} @shared, i32 %tid")
    number = f"i32 {kernel.emit(f'ptrtoint {S} {at} to i32')}"
    kernel.run(f"store i32 %n, {S} {at}")
    for count in (1, 2, 4):
        for transposed in ("", ".trans"):
            outputs = ", ".join(f"${i}" for i in range(count))
            text = f"ldmatrix.sync.aligned.m8n8.x{count}{transposed}.shared.b16 "
            text += f"{{{outputs}}}, [${count}+16];"
            if count == 1:
                kernel.asm("i32", text, number)
                continue
            result = "{ " + ", ".join(["i32"] * count) + " }"
            constraints = ",".join(["=r"] * count + ["r"])
            value = kernel.emit(f'call {result} asm sideeffect "{text}", "{constraints}"({number})')
            for i in range(count):
                kernel.keep("i32", f"extractvalue {result} {value}, {i}")
    kernel.asm("i32", "movmatrix.sync.aligned.m8n8.trans.b16 $0, $1;", "i32 %n")
    modern = Kernel("matrix stores", chips=CHIPS[3:])
    at = modern.emit(f"getelementptr i128, {S} @shared, i32 %tid")
    number = f"i32 {modern.emit(f'ptrtoint {S} {at} to i32')}"
    modern.asm("", "stmatrix.sync.aligned.m8n8.x1.shared.b16 [$0], {$1};", number, "i32 %n")
    modern.asm(
        "",
        "stmatrix.sync.aligned.m8n8.x4.trans.shared.b16 [$0], {$1, $1, $1, $1};",
        number,
        "i32 %n",
    )
    modern.keep("i32", f"load i32, {S} {at}")
    kernel = Kernel("asynchronous copies")
    at = kernel.emit(f"getelementptr i128, {S} @shared, i32 %tid")
    number = f"i32 {kernel.emit(f'ptrtoint {S} {at} to i32')}"
    source = f"i64 {kernel.emit(f'ptrtoint {G} %mine to i64')}"
    for cache, size in (("ca", 4), ("ca", 8), ("ca", 16), ("cg", 16), ("cg", 16)):
        kernel.asm(
            "", f"cp.async.{cache}.shared.global [$0+{size}], [$1+{size}], {size};", number, source
        )
    kernel.asm("", "cp.async.ca.shared.global.L2::128B [$0], [$1], 16;", number, source)
    kernel.asm("", "cp.async.cg.shared.global [$0], [$1], 16, $2;", number, source, "i32 %n")
    for text in (
        "cp.async.commit_group",
        "cp.async.wait_group 1",
        "cp.async.commit_group",
        "cp.async.wait_group 0",
        "cp.async.wait_all",
    ):
        kernel.asm("", f"{text};")
    kernel.call("void", "llvm.nvvm.barrier.cta.sync.aligned.all", ["i32 0"])
    kernel.keep("<4 x i32>", f"load <4 x i32>, {S} {at}, align 16")


def lane_kernels():
    """Every kernel of this file."""
    warp_kernels()
    special_kernels()
    matrix_kernels()
