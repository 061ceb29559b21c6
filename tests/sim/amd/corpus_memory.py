"""Kernels of the corpus that load, store and count."""

from corpus_kernel import G, Kernel

ATOMIC_OPS = ("add", "sub", "and", "or", "xor", "min", "max", "umin", "umax", "xchg")


def memory(space, label):
    """Loads, stores and atomics of one address space."""
    kernel = Kernel(f"memory {label}")
    pointer = f"ptr addrspace({space})" if space else "ptr"
    base = {0: "%flat", 1: "%a", 3: "@lds", 5: "%stack"}[space]
    if space == 0:
        kernel.run("%flat = addrspacecast ptr addrspace(1) %a to ptr")
    if space == 5:
        kernel.run("%stack = alloca [512 x i8], align 16, addrspace(5)")
        kernel.run(f"store volatile i32 7, {pointer} %stack")
    index = kernel.emit("and i32 %lane, 15")
    index = kernel.emit(f"shl i32 {index}, 4")
    for number, kind in enumerate(("i8", "i16", "i32", "i64", "<3 x i32>", "<4 x i32>")):
        at = kernel.emit(f"getelementptr i8, {pointer} {base}, i32 {index}")
        at = kernel.emit(f"getelementptr i8, {pointer} {at}, i32 {16 * number}")
        value = kernel.emit(f"load volatile {kind}, {pointer} {at}, align 16")
        kernel.run(f"store volatile {kind} {value}, {pointer} {at}, align 16")
        kernel.store(kind, value)
        if kind in ("i8", "i16"):
            wide = kernel.emit(f"load volatile {kind}, {pointer} {at}, align 16")
            kernel.store("i32", kernel.emit(f"sext {kind} {wide} to i32"))
            upper = kernel.emit(f"load volatile {kind}, {pointer} {at}, align 16")
            upper = kernel.emit(f"zext {kind} {upper} to i32")
            upper = kernel.emit(f"shl i32 {upper}, 16")
            low = kernel.emit("and i32 %n, 65535")
            kernel.store("i32", kernel.emit(f"or i32 {upper}, {low}"))
            high = kernel.emit("lshr i32 %n, 16")
            high = kernel.emit(f"trunc i32 {high} to {kind}")
            kernel.run(f"store volatile {kind} {high}, {pointer} {at}")
    if space != 5:
        atomics(kernel, pointer, base, index)
    return kernel


def atomics(kernel, pointer, base, index):
    """Read-modify-write with and without the old value used."""
    for kind in ("i32", "i64"):
        size = 4 if kind == "i32" else 8
        at = kernel.emit(f"getelementptr i8, {pointer} {base}, i32 {index}")
        value = kernel.load(kind, "%b")
        for op in ATOMIC_OPS:
            order = 'syncscope("agent") monotonic'
            text = f"atomicrmw {op} {pointer} {at}, {kind} {value} {order}, align {size}"
            kernel.emit(text)
            kernel.store(kind, kernel.emit(text))
        pair = kernel.emit(f"cmpxchg {pointer} {at}, {kind} {value}, {kind} 5 acq_rel monotonic")
        kernel.store(kind, kernel.emit(f"extractvalue {{{kind}, i1}} {pair}, 0"))
    at = kernel.emit(f"getelementptr i8, {pointer} {base}, i32 {index}")
    value = kernel.load("float", "%b")
    for op in ("fadd", "fmin", "fmax"):
        text = f'atomicrmw {op} {pointer} {at}, float {value} syncscope("agent") monotonic'
        text += ", !amdgpu.no.fine.grained.memory !0, !amdgpu.ignore.denormal.mode !0"
        kernel.emit(text)
        kernel.store("float", kernel.emit(text))
    word = kernel.load("i32", "%b")
    for op in ("uinc_wrap", "udec_wrap"):
        text = f'atomicrmw {op} {pointer} {at}, i32 {word} syncscope("agent") monotonic'
        kernel.store("i32", kernel.emit(text))


def buffers():
    """Buffer descriptors: typed by intrinsics, vector and scalar."""
    kernel = Kernel("buffers")
    kernel.run(f"%words = load <4 x i32>, {G} %c")
    for i in range(4):
        element = kernel.emit(f"extractelement <4 x i32> %words, i32 {i}")
        name = kernel.call("i32", "llvm.amdgcn.readfirstlane.i32", [f"i32 {element}"])
        previous = "poison" if i == 0 else f"%d{i - 1}"
        kernel.run(f"%d{i} = insertelement <4 x i32> {previous}, i32 {name}, i32 {i}")
    descriptor = "<4 x i32> %d3"
    for kind, name in (
        ("i8", "i8"),
        ("i16", "i16"),
        ("i32", "i32"),
        ("<2 x i32>", "v2i32"),
        ("<4 x i32>", "v4i32"),
    ):
        arguments = [descriptor, "i32 %lane", "i32 %n", "i32 0"]
        value = kernel.call(kind, f"llvm.amdgcn.raw.buffer.load.{name}", arguments)
        kernel.store(kind, value)
        arguments = [f"{kind} {value}", descriptor, "i32 %lane", "i32 16", "i32 1"]
        kernel.call("void", f"llvm.amdgcn.raw.buffer.store.{name}", arguments)
    arguments = [descriptor, "i32 %lane", "i32 %byte", "i32 0", "i32 0"]
    kernel.store("float", kernel.call("float", "llvm.amdgcn.struct.buffer.load.f32", arguments))
    arguments = ["i32 %n", descriptor, "i32 %lane", "i32 0", "i32 0"]
    kernel.store("i32", kernel.call("i32", "llvm.amdgcn.raw.buffer.atomic.add.i32", arguments))
    for kind, name in (("i32", "i32"), ("<2 x i32>", "v2i32"), ("<4 x i32>", "v4i32")):
        arguments = [descriptor, "i32 %n", "i32 0"]
        kernel.store(kind, kernel.call(kind, f"llvm.amdgcn.s.buffer.load.{name}", arguments))
    return kernel


def indexed():
    """Registers chosen by a number that is known only when the kernel runs."""
    kernel = Kernel("indexed")
    kind = "<16 x i32>"
    vector = kernel.load(kind, "%a")
    kernel.store("i32", kernel.emit(f"extractelement {kind} {vector}, i32 %n"))
    kernel.store(kind, kernel.emit(f"insertelement {kind} {vector}, i32 %lane, i32 %n"))
    return kernel


def counters():
    """Counters in local memory; thread numbers as addresses; bits of 2/pi."""
    kernel = Kernel("counters")
    for name in ("append", "consume"):
        arguments = ["ptr addrspace(3) @lds", "i1 false"]
        kernel.store("i32", kernel.call("i32", f"llvm.amdgcn.ds.{name}.p3", arguments))
    a = kernel.load("double", "%a")
    arguments = [f"double {a}", "i32 %n"]
    kernel.store("double", kernel.call("double", "llvm.amdgcn.trig.preop.f64", arguments))
    kernel.store("i64", kernel.call("i64", "llvm.readsteadycounter", []))
    kernel.store("i64", kernel.call("i64", "llvm.readcyclecounter", []))
    return kernel
