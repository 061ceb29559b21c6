"""Kernels that load, store and update memory."""

from corpus_kernel import CHIPS, FLOATS, G, Kernel, S


def global_widths_kernel():
    """Kernel: global widths."""
    kernel = Kernel("global widths")
    for kind in (
        "i8",
        "i16",
        "i32",
        "i64",
        "<2 x i32>",
        "<4 x i32>",
        "<4 x float>",
        "<2 x double>",
        "<2 x i64>",
        "<8 x half>",
        "i128",
    ):
        kernel.store(
            kind, kernel.load(kind, "a", ", align 16" if "x" in kind or kind == "i128" else "")
        )
        if "x" not in kind and kind not in ("i64", "i128"):
            kernel.keep("i64", f"sext {kind} {kernel.load(kind, 'b')} to i64")
            kernel.keep("i64", f"zext {kind} {kernel.load(kind, 'c')} to i64")
    for kind in ("i32", "i64"):
        kernel.store(kind, kernel.load(kind, "a", ", !invariant.load !1"))


def global_hints_kernel():
    """Kernel: global hints."""
    kernel = Kernel("global hints")
    pointer = f"{G} %mine"
    cast = kernel.emit(f"ptrtoint {pointer} to i64")
    kernel.lines.append("; hints")
    for hint in (
        "ca",
        "cg",
        "cs",
        "lu",
        "cv",
        "L1::no_allocate",
        "L1::evict_last",
        "L1::evict_first",
        "L1::evict_unchanged",
        "nc",
        "nc.L1::no_allocate",
        "L2::64B",
        "L2::128B",
        "L2::256B",
        "nc.L2::128B",
        "volatile",
        "relaxed.gpu",
        "relaxed.sys",
        "relaxed.cta",
        "acquire.gpu",
        "acquire.sys",
        "acquire.cta",
        "mmio.relaxed.sys",
    ):
        text = f"ld.{hint}.global" if hint == "volatile" else f"ld.global.{hint}"
        text = f"ld.{hint}.global" if hint.startswith(("relaxed", "acquire", "mmio")) else text
        kernel.asm("i32", f"{text}.b32 $0, [$1];", f"i64 {cast}")
        kernel.asm("i64", f"{text}.b64 $0, [$1+8];", f"i64 {cast}")
    for hint in (
        "wb",
        "cg",
        "cs",
        "wt",
        "L1::no_allocate",
        "L1::evict_last",
        "volatile",
        "relaxed.gpu",
        "relaxed.sys",
        "release.gpu",
        "release.sys",
        "release.cta",
    ):
        text = (
            f"st.{hint}.global"
            if hint.startswith(("volatile", "relaxed", "release"))
            else f"st.global.{hint}"
        )
        kernel.asm("", f"{text}.b32 [$0], $1;", f"i64 {cast}", "i32 %n")
    for text in (
        "prefetch.global.L1",
        "prefetch.global.L2",
        "prefetch.global.L2::evict_last",
        "prefetchu.L1",
        "applypriority.global.L2::evict_normal",
    ):
        kernel.asm("", f"{text} [$0]{', 128' if 'apply' in text else ''};", f"i64 {cast}")
    kernel.asm("", "discard.global.L2 [$0], 128;", f"i64 {cast}")
    kernel.asm(
        "i32",
        "{.reg .b64 p; createpolicy.fractional.L2::evict_last.b64 p, 0.5; "
        "ld.global.L2::cache_hint.b32 $0, [$1], p;}",
        f"i64 {cast}",
    )


def generic_memory_kernel():
    """Kernel: generic memory."""
    kernel = Kernel("generic memory")
    for kind in ("i8", "i32", "i64", "<4 x i32>"):
        at = kernel.emit(f"getelementptr {kind}, ptr %generic, i64 %i")
        value = kernel.emit(f"load {kind}, ptr {at}, align 16")
        kernel.store(kind, value)
        kernel.run(f"store {kind} {value}, ptr {at}, align 16")
    at = kernel.emit("getelementptr i32, ptr %generic, i64 %i")
    kernel.keep("i32", f"atomicrmw add ptr {at}, i32 %n monotonic")
    kernel.keep("i32", f"atomicrmw xchg ptr {at}, i32 %n monotonic")
    kernel.run(f"%dead = atomicrmw add ptr {at}, i32 5 monotonic")
    pair = kernel.emit(f"cmpxchg ptr {at}, i32 %n, i32 %tid monotonic monotonic")
    kernel.keep("i32", f"extractvalue {{ i32, i1 }} {pair}, 0")
    for space in ("global", "shared", "local", "const"):
        kernel.asm(
            "i32", f"{{.reg .pred p; isspacep.{space} p, $1; selp.b32 $0, 1, 0, p;}}", f"ptr {at}"
        )


def shared_memory_kernel():
    """Kernel: shared memory."""
    kernel = Kernel("shared memory")
    at = kernel.emit(f"getelementptr i128, {S} @shared, i32 %tid")
    for kind in ("i8", "i16", "i32", "i64", "<2 x i32>", "<4 x i32>", "i128"):
        value = kernel.load(kind, "a", ", align 16" if "x" in kind else "")
        kernel.run(f"store {kind} {value}, {S} {at}, align 16")
        kernel.call("void", "llvm.nvvm.barrier.cta.sync.aligned.all", ["i32 0"])
        other = kernel.emit(f"getelementptr {kind}, {S} @shared, i32 %n")
        value = kernel.emit(f"load {kind}, {S} {other}, align 16")
        kernel.store(kind, value)
        near = kernel.emit(f"getelementptr i8, {S} {at}, i32 64")
        kernel.keep(kind, f"load {kind}, {S} {near}, align 16")
    kernel.keep("i64", f"sext i8 {kernel.emit(f'load i8, {S} {at}')} to i64")
    kernel.keep("i64", f"sext i16 {kernel.emit(f'load i16, {S} {at}')} to i64")
    cast = kernel.emit(f"addrspacecast {S} {at} to ptr")
    number = kernel.emit(f"ptrtoint ptr {cast} to i64")
    kernel.store("i64", number)


def dynamic_shared_memory_kernel():
    """Kernel: dynamic shared memory."""
    kernel = Kernel("dynamic shared memory")
    for scale, kind in ((1, "i8"), (4, "i32"), (8, "i64"), (16, "<4 x i32>")):
        at = kernel.emit(f"getelementptr {kind}, {S} @dynamic, i32 %tid")
        kernel.run(f"store {kind} {kernel.load(kind, 'a', ', align 16')}, {S} {at}, align {scale}")
        kernel.call("void", "llvm.nvvm.barrier.cta.sync.aligned.all", ["i32 0"])
        at = kernel.emit(f"getelementptr {kind}, {S} @dynamic, i32 %n")
        kernel.keep(kind, f"load {kind}, {S} {at}, align {scale}")


def local_memory_kernel():
    """Kernel: local memory."""
    kernel = Kernel("local memory")
    for kind, count in (("i8", 64), ("i16", 32), ("i32", 32), ("i64", 16), ("<4 x i32>", 8)):
        room = kernel.emit(f"alloca [{count} x {kind}], align 16")
        for i in range(4):
            at = kernel.emit(f"getelementptr {kind}, ptr {room}, i32 {i}")
            value = kernel.load(kind, "a", ", align 16" if "<" in kind else "")
            kernel.run(f"store {kind} {value}, ptr {at}")
        index = kernel.emit(f"and i32 %n, {count - 1}")
        at = kernel.emit(f"getelementptr {kind}, ptr {room}, i32 {index}")
        kernel.run(f"store volatile {kind} {kernel.load(kind, 'b')}, ptr {at}")
        index = kernel.emit(f"and i32 %tid, {count - 1}")
        at = kernel.emit(f"getelementptr {kind}, ptr {room}, i32 {index}")
        kernel.store(kind, kernel.emit(f"load {kind}, ptr {at}"))


def constant_tables_kernel():
    """Kernel: constant tables."""
    kernel = Kernel("constant tables")
    for kind, name in (("i32", "words"), ("i8", "bytes"), ("i64", "longs"), ("float", "numbers")):
        at = kernel.emit(f"getelementptr {kind}, ptr addrspace(4) @{name}, i32 %tid")
        kernel.keep(kind, f"load {kind}, ptr addrspace(4) {at}")
        at = kernel.emit(f"getelementptr {kind}, ptr addrspace(4) @{name}, i32 %n")
        kernel.keep(kind, f"load {kind}, ptr addrspace(4) {at}")
    at = kernel.emit(f"getelementptr i32, {G} @counters, i32 %tid")
    kernel.keep("i32", f"load i32, {G} {at}")
    for kind in ("i16", "<2 x i32>", "<4 x i32>"):
        at = kernel.emit(f"getelementptr {kind}, ptr addrspace(4) @words, i32 %tid")
        kernel.keep(kind, f"load {kind}, ptr addrspace(4) {at}, align 4")


def atomic_kernels():
    spaces = (("global", G, "%mine"), ("shared", S, "@shared"))
    for space, pointer, base in spaces:
        for kind in ("i32", "i64"):
            kernel = Kernel(f"{space} atomics {kind}")
            at = (
                base
                if space == "global"
                else kernel.emit(f"getelementptr i64, {S} @shared, i32 %tid")
            )
            value = kernel.load(kind, "a")
            for op in ("add", "sub", "and", "or", "xor", "min", "max", "umin", "umax", "xchg"):
                kernel.keep(kind, f"atomicrmw {op} {pointer} {at}, {kind} {value} monotonic")
                kernel.emit(f"atomicrmw {op} {pointer} {at}, {kind} {value} monotonic")
            old = kernel.emit(f"cmpxchg {pointer} {at}, {kind} {value}, {kind} 5 acq_rel monotonic")
            kernel.keep(kind, f"extractvalue {{ {kind}, i1 }} {old}, 0")
            if kind == "i32":
                width = "i64" if space == "global" else "i32"
                number = kernel.emit(f"ptrtoint {pointer} {at} to {width}")
                for op in ("inc", "dec"):
                    text = f"atom.{space}.{op}.u32 $0, [$1], $2;"
                    kernel.asm(kind, text, f"{width} {number}", f"{kind} {value}")
            kernel.emit(f"atomicrmw add {pointer} {at}, {kind} 1 monotonic")
        for kind in FLOATS:
            kernel = Kernel(f"{space} atomics {kind}")
            at = (
                base
                if space == "global"
                else kernel.emit(f"getelementptr i64, {S} @shared, i32 %tid")
            )
            value = kernel.load(kind, "a")
            kernel.keep(kind, f"atomicrmw fadd {pointer} {at}, {kind} {value} monotonic")
            kernel.emit(f"atomicrmw fadd {pointer} {at}, {kind} {value} monotonic")
    kernel = Kernel("atomic orders")
    number = kernel.emit(f"ptrtoint {G} %mine to i64")
    at, value = f"i64 {number}", f"i32 {kernel.load('i32', 'a')}"
    for scope in ("cta", "gpu", "sys"):
        for order in ("relaxed", "acquire", "release", "acq_rel"):
            kernel.asm("i32", f"atom.{order}.{scope}.global.add.u32 $0, [$1], $2;", at, value)
            kernel.asm("i32", f"atom.{order}.{scope}.global.cas.b32 $0, [$1], $2, 7;", at, value)
        for order in ("relaxed", "release"):
            kernel.asm("", f"red.{order}.{scope}.global.add.u32 [$0], $1;", at, value)
    kernel.asm("i32", "atom.global.add.noftz.f16x2 $0, [$1], $2;", at, value)
    kernel.asm("", "red.global.add.noftz.f16x2 [$0], $1;", at, value)
    kernel.asm("i32", "atom.global.cas.b32 $0, [$1+16], $2, $2;", at, value)
    kernel.asm(
        "i32",
        "{.reg .b16 s, t; cvt.u16.u32 s, $2; atom.global.cas.b16 t, [$1], s, s; "
        "cvt.u32.u16 $0, t;}",
        at,
        value,
    )
    kernel.asm("", "red.global.add.u64 [$0+32], $0;", at)
    kernel.asm("", "red.global.max.s64 [$0+32], $0;", at)
    kernel.asm("", "red.global.inc.u32 [$0], 7;", at)
    modern = Kernel("vector atomics", chips=CHIPS[3:])
    number = modern.emit(f"ptrtoint {G} %mine to i64")
    a, b = modern.loads("float", "ab")
    modern.asm(
        "", "red.global.add.v2.f32 [$0], {$1, $2};", f"i64 {number}", f"float {a}", f"float {b}"
    )
    modern.asm(
        "",
        "red.global.add.v4.f32 [$0], {$1, $2, $1, $2};",
        f"i64 {number}",
        f"float {a}",
        f"float {b}",
    )
    modern.asm("i32", "atom.global.add.noftz.bf16x2 $0, [$1], $2;", f"i64 {number}", "i32 %n")


def memory_kernels():
    """Every kernel of this file."""
    global_widths_kernel()
    global_hints_kernel()
    generic_memory_kernel()
    shared_memory_kernel()
    dynamic_shared_memory_kernel()
    local_memory_kernel()
    constant_tables_kernel()
    atomic_kernels()
