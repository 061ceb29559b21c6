"""Kernels of the corpus that compute."""

from corpus_kernel import MANGLED, Kernel

INTEGER_OPS = ("add", "sub", "mul", "udiv", "sdiv", "urem", "srem", "and", "or", "xor")
SHIFT_OPS = ("shl", "lshr", "ashr")
INTEGER_CALLS = ("smin", "smax", "umin", "umax", "uadd.sat", "usub.sat", "sadd.sat", "ssub.sat")
BIT_CALLS = ("ctpop", "bitreverse")
INTEGER_COMPARES = ("eq", "ne", "ult", "ule", "ugt", "uge", "slt", "sle", "sgt", "sge")
FLOAT_OPS = ("fadd", "fsub", "fmul", "fdiv")
FLOAT_UNARY = ("sqrt", "floor", "ceil", "trunc", "rint", "fabs", "canonicalize")
FLOAT_BINARY = ("minnum", "maxnum", "copysign")
TRANSCENDENTAL = ("exp2", "log2", "exp", "log", "sin", "cos")
FLOAT_COMPARES = (
    "oeq",
    "one",
    "olt",
    "ole",
    "ogt",
    "oge",
    "ord",
    "uno",
    "ueq",
    "une",
    "ult",
    "uge",
)


def integers(kind, scalar):
    """Arithmetic of one integer type, in lanes or on the scalar unit."""
    kernel = Kernel(f"{'scalar' if scalar else 'vector'} {kind}", scalar)
    bits = int(kind[1:])
    a, b, c = (kernel.load(kind, p) for p in ("%a", "%b", "%c"))
    for op in INTEGER_OPS if bits < 64 else (*INTEGER_OPS[:3], *INTEGER_OPS[7:]):
        kernel.store(kind, kernel.emit(f"{op} {kind} {a}, {b}"))
    count = kernel.emit(f"and {kind} {b}, {bits - 1}")
    for op in SHIFT_OPS:
        kernel.store(kind, kernel.emit(f"{op} {kind} {a}, {count}"))
        kernel.store(kind, kernel.emit(f"{op} {kind} {a}, 5"))
    for name in INTEGER_CALLS:
        kernel.store(kind, kernel.call(kind, f"llvm.{name}.{kind}", [f"{kind} {a}", f"{kind} {b}"]))
    for name in BIT_CALLS:
        kernel.store(kind, kernel.call(kind, f"llvm.{name}.{kind}", [f"{kind} {a}"]))
    for name in ("ctlz", "cttz", "abs"):
        arguments = [f"{kind} {a}", "i1 false"]
        kernel.store(kind, kernel.call(kind, f"llvm.{name}.{kind}", arguments))
    if bits > 8:
        kernel.store(kind, kernel.call(kind, f"llvm.bswap.{kind}", [f"{kind} {a}"]))
    three = [f"{kind} {v}" for v in (a, b, c)]
    kernel.store(kind, kernel.call(kind, f"llvm.fshl.{kind}", three))
    kernel.store(kind, kernel.call(kind, f"llvm.fshr.{kind}", three))
    for predicate in INTEGER_COMPARES:
        flag = kernel.emit(f"icmp {predicate} {kind} {a}, {b}")
        kernel.store(kind, kernel.emit(f"select i1 {flag}, {kind} {b}, {kind} {c}"))
    combined = [
        ("and", "or"), ("or", "or"), ("xor", "xor"), ("shl", "add"), ("add", "shl"), ("add", "add"),
        ("mul", "add"), ("xor", "add"), ("shl", "or"),
    ]  # fmt: skip
    for first, second in combined:
        part = kernel.emit(f"{first} {kind} {a}, {count if first == 'shl' else b}")
        kernel.store(
            kind, kernel.emit(f"{second} {kind} {part}, {count if second == 'shl' else c}")
        )
    inverse = kernel.emit(f"xor {kind} {b}, -1")
    for op in ("and", "or", "xor"):
        kernel.store(kind, kernel.emit(f"{op} {kind} {a}, {inverse}"))
        part = kernel.emit(f"{op} {kind} {a}, {c}")
        kernel.store(kind, kernel.emit(f"xor {kind} {part}, -1"))
    field = kernel.emit(f"lshr {kind} {a}, 3")
    kernel.store(kind, kernel.emit(f"and {kind} {field}, 15"))
    return kernel


def floats(kind):
    """Arithmetic of one float type."""
    kernel = Kernel(f"vector {kind}")
    suffix = MANGLED[kind]
    a, b, c = (kernel.load(kind, p) for p in ("%a", "%b", "%c"))
    for op in FLOAT_OPS:
        kernel.store(kind, kernel.emit(f"{op} {kind} {a}, {b}"))
        kernel.store(kind, kernel.emit(f"{op} contract {kind} {a}, {b}"))
    for name in FLOAT_UNARY:
        kernel.store(kind, kernel.call(kind, f"llvm.{name}.{suffix}", [f"{kind} {a}"]))
    for name in FLOAT_BINARY:
        arguments = [f"{kind} {a}", f"{kind} {b}"]
        kernel.store(kind, kernel.call(kind, f"llvm.{name}.{suffix}", arguments))
    if kind in ("half", "float"):
        for name in TRANSCENDENTAL:
            kernel.store(kind, kernel.call(kind, f"llvm.{name}.{suffix}", [f"{kind} {a}"]))
    three = [f"{kind} {v}" for v in (a, b, c)]
    kernel.store(kind, kernel.call(kind, f"llvm.fma.{suffix}", three))
    negative = kernel.emit(f"fneg {kind} {a}")
    kernel.store(kind, kernel.call(kind, f"llvm.fma.{suffix}", [f"{kind} {negative}", *three[1:]]))
    kernel.store(kind, kernel.emit(f"fmul {kind} {a}, 4.0"))
    kernel.store(kind, kernel.emit(f"fadd {kind} {negative}, -0.5"))
    double = kernel.emit(f"fadd {kind} {a}, {b}")
    kernel.store(kind, kernel.emit(f"fmul {kind} {double}, 2.0"))
    for predicate in FLOAT_COMPARES:
        flag = kernel.emit(f"fcmp {predicate} {kind} {a}, {b}")
        kernel.store(kind, kernel.emit(f"select i1 {flag}, {kind} {b}, {kind} {c}"))
    if kind != "bfloat":
        low = kernel.call(kind, f"llvm.maxnum.{suffix}", [f"{kind} {a}", f"{kind} 0.0"])
        kernel.store(
            kind, kernel.call(kind, f"llvm.minnum.{suffix}", [f"{kind} {low}", f"{kind} 1.0"])
        )
        least = kernel.call(kind, f"llvm.minnum.{suffix}", three[:2])
        kernel.store(
            kind, kernel.call(kind, f"llvm.minnum.{suffix}", [f"{kind} {least}", three[2]])
        )
        kernel.store(
            kind, kernel.call(kind, f"llvm.maxnum.{suffix}", [f"{kind} {least}", three[2]])
        )
        exponent = kernel.load("i32", "%b")
        kernel.store(
            kind, kernel.call(kind, f"llvm.ldexp.{suffix}.i32", [three[0], f"i32 {exponent}"])
        )
        pair = kernel.call(f"{{{kind}, i32}}", f"llvm.frexp.{suffix}.i32", three[:1])
        kernel.store(kind, kernel.emit(f"extractvalue {{{kind}, i32}} {pair}, 0"))
        kernel.store("i32", kernel.emit(f"extractvalue {{{kind}, i32}} {pair}, 1"))
    return kernel


def conversions(source):
    """One float type to and from everything."""
    kernel = Kernel(f"conversions {source}")
    order = ["half", "float", "double"]
    a = kernel.load(source, "%a")
    for target in ("i1", "i8", "i16", "i32", "i64"):
        if target != "i1":
            for op in ("fptosi", "fptoui"):
                kernel.store(target, kernel.emit(f"{op} {source} {a} to {target}"))
            number = kernel.load(target, "%b")
            for op in ("sitofp", "uitofp"):
                kernel.store(source, kernel.emit(f"{op} {target} {number} to {source}"))
    for target in order:
        if source == "bfloat" or order.index(target) > order.index(source):
            if target != "half":
                kernel.store(target, kernel.emit(f"fpext {source} {a} to {target}"))
        elif target != source:
            kernel.store(target, kernel.emit(f"fptrunc {source} {a} to {target}"))
    if source in ("float", "double"):
        kernel.store("bfloat", kernel.emit(f"fptrunc {source} {a} to bfloat"))
    return kernel


def packed():
    """Two 16-bit numbers at a time, and the dot products."""
    kernel = Kernel("packed")
    kind = "<2 x half>"
    a, b, c = (kernel.load(kind, p) for p in ("%a", "%b", "%c"))
    for op in ("fadd", "fmul", "fsub"):
        kernel.store(kind, kernel.emit(f"{op} {kind} {a}, {b}"))
    for name in ("minnum", "maxnum"):
        kernel.store(kind, kernel.call(kind, f"llvm.{name}.v2f16", [f"{kind} {a}", f"{kind} {b}"]))
    three = [f"{kind} {v}" for v in (a, b, c)]
    kernel.store(kind, kernel.call(kind, "llvm.fma.v2f16", three))
    swapped = kernel.emit(f"shufflevector {kind} {b}, {kind} poison, <2 x i32> <i32 1, i32 0>")
    kernel.store(kind, kernel.emit(f"fadd {kind} {a}, {swapped}"))
    x = kernel.load("float", "%c")
    dot = kernel.call("float", "llvm.amdgcn.fdot2", [*three[:2], f"float {x}", "i1 false"])
    kernel.store("float", dot)
    wide = [kernel.emit(f"extractelement {kind} {v}, i32 1") for v in (a, b)]
    wide = [kernel.emit(f"fpext half {v} to float") for v in wide]
    mixed = [f"float {v}" for v in (*wide, x)]
    mixed = kernel.call("float", "llvm.fma.f32", mixed)
    kernel.store("float", mixed)
    kernel.store("half", kernel.emit(f"fptrunc float {mixed} to half"))
    kind = "<2 x i16>"
    a, b, c = (kernel.load(kind, p) for p in ("%a", "%b", "%c"))
    for op in ("add", "sub", "mul", "shl", "lshr", "ashr"):
        kernel.store(kind, kernel.emit(f"{op} {kind} {a}, {b}"))
    for name in ("smin", "smax", "umin", "umax"):
        kernel.store(kind, kernel.call(kind, f"llvm.{name}.v2i16", [f"{kind} {a}", f"{kind} {b}"]))
    product = kernel.emit(f"mul {kind} {a}, {b}")
    kernel.store(kind, kernel.emit(f"add {kind} {product}, {c}"))
    words = [f"i32 {kernel.load('i32', p)}" for p in ("%a", "%b", "%c")]
    kernel.store("i32", kernel.call("i32", "llvm.amdgcn.udot4", [*words, "i1 false"]))
    kernel.store("i32", kernel.call("i32", "llvm.amdgcn.udot8", [*words, "i1 false"]))
    signed = ["i1 true", words[0], "i1 true", words[1], words[2], "i1 false"]
    kernel.store("i32", kernel.call("i32", "llvm.amdgcn.sudot4", signed))
    kernel.store("i32", kernel.call("i32", "llvm.amdgcn.sudot8", signed))
    return kernel


def special():
    """Instructions that only intrinsics reach."""
    kernel = Kernel("special")
    words = [f"i32 {kernel.load('i32', p)}" for p in ("%a", "%b", "%c")]
    reals = [f"float {kernel.load('float', p)}" for p in ("%a", "%b", "%c")]
    doubles = [f"double {kernel.load('double', p)}" for p in ("%a", "%b", "%c")]
    for name in (
        "ubfe.i32",
        "sbfe.i32",
        "sad.u8",
        "sad.u16",
        "sad.hi.u8",
        "msad.u8",
        "lerp",
        "perm",
        "alignbyte",
    ):
        kernel.store("i32", kernel.call("i32", f"llvm.amdgcn.{name}", words))
    for name in ("mul.i24", "mul.u24", "mulhi.i24", "mulhi.u24"):
        suffix = "" if name.startswith("mulhi") else ".i32"
        kernel.store("i32", kernel.call("i32", f"llvm.amdgcn.{name}{suffix}", words[:2]))
    for name in ("rcp", "rsq", "fract", "sin", "cos", "exp2", "log", "sqrt", "frexp.mant"):
        kernel.store("float", kernel.call("float", f"llvm.amdgcn.{name}.f32", reals[:1]))
    for name in ("rcp", "rsq", "fract", "sqrt"):
        kernel.store("double", kernel.call("double", f"llvm.amdgcn.{name}.f64", doubles[:1]))
    for name in ("fmed3.f32", "cubeid", "cubesc", "cubetc", "cubema", "fma.legacy"):
        kernel.store("float", kernel.call("float", f"llvm.amdgcn.{name}", reals))
    kernel.store("float", kernel.call("float", "llvm.amdgcn.fmul.legacy", reals[:2]))
    for name, kind in (("pkrtz", "half"), ("pknorm.i16", "i16"), ("pknorm.u16", "i16")):
        packed_kind = f"<2 x {kind}>"
        value = kernel.call(packed_kind, f"llvm.amdgcn.cvt.{name}", reals[:2])
        kernel.store(packed_kind, value)
    for name in ("pk.i16", "pk.u16"):
        kernel.store("<2 x i16>", kernel.call("<2 x i16>", f"llvm.amdgcn.cvt.{name}", words[:2]))
    kernel.store("i32", kernel.call("i32", "llvm.amdgcn.cvt.pk.u8.f32", [reals[0], *words[:2]]))
    flag = kernel.call("i1", "llvm.amdgcn.class.f32", [reals[0], words[0]])
    kernel.store("i32", kernel.emit(f"zext i1 {flag} to i32"))
    flag = kernel.call("i1", "llvm.amdgcn.class.f64", [doubles[0], "i32 96"])
    kernel.store("i32", kernel.emit(f"zext i1 {flag} to i32"))
    kernel.store(
        "double", kernel.call("double", "llvm.amdgcn.trig.preop.f64", [doubles[0], words[0]])
    )
    wide = f"i64 {kernel.load('i64', '%a')}"
    kernel.store("i64", kernel.call("i64", "llvm.amdgcn.qsad.pk.u16.u8", [wide, words[0], wide]))
    kernel.store("i64", kernel.call("i64", "llvm.amdgcn.mqsad.pk.u16.u8", [wide, words[0], wide]))
    a, b = (kernel.emit(f"zext {word} to i64") for word in words[:2])
    product = kernel.emit(f"mul i64 {a}, {b}")
    kernel.store("i64", kernel.emit(f"add {wide}, {product}"))
    high = kernel.emit(f"lshr i64 {product}, 32")
    kernel.store("i64", high)
    a, b = (kernel.emit(f"sext {word} to i64") for word in words[:2])
    product = kernel.emit(f"mul i64 {a}, {b}")
    kernel.store("i64", kernel.emit(f"ashr i64 {product}, 32"))
    for byte in range(4):
        part = kernel.emit(f"lshr {words[0]}, {8 * byte}")
        part = kernel.emit(f"and i32 {part}, 255")
        kernel.store("float", kernel.emit(f"uitofp i32 {part} to float"))
    return kernel


def flushed():
    """Arithmetic without denormals; a division keeps them for a while."""
    flush = '"denormal-fp-math-f32"="preserve-sign,preserve-sign"'
    kernel = Kernel("flushed", attributes=flush)
    a, b = (kernel.load("float", p) for p in ("%a", "%b"))
    for op in FLOAT_OPS:
        kernel.store("float", kernel.emit(f"{op} float {a}, {b}"))
    return kernel
