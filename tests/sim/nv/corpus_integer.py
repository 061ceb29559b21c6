"""Kernels of integer arithmetic."""

from corpus_kernel import INTEGER_COMPARES, INTEGERS, Kernel


def integer_arithmetic(kind):
    """Arithmetic of one type."""
    kernel = Kernel(f"{kind} arithmetic")
    a, b, c = kernel.loads(kind)
    for op in ("add", "sub", "mul", "and", "or", "xor"):
        kernel.keep(kind, f"{op} {kind} {a}, {b}")
        part = kernel.emit(f"{op} {kind} {b}, {c}")
        for second in ("add", "sub", "mul", "and", "or", "xor"):
            kernel.keep(kind, f"{second} {kind} {part}, {a}")
        kernel.keep(kind, f"{op} {kind} {a}, 37")
    kernel.keep(kind, f"sub {kind} 0, {a}")
    kernel.keep(kind, f"xor {kind} -1, {a}")


def integer_shift(kind):
    """Shift of one type."""
    bits = int(kind[1:])
    kernel = Kernel(f"{kind} shift")
    a, b, c = kernel.loads(kind)
    count = kernel.emit(f"and {kind} {b}, {bits - 1}")
    for op in ("shl", "lshr", "ashr"):
        shifted = kernel.emit(f"{op} {kind} {a}, {count}")
        kernel.store(kind, shifted)
        kernel.keep(kind, f"{op} {kind} {a}, 3")
        kernel.keep(kind, f"add {kind} {shifted}, {c}")
        small = kernel.emit(f"{op} {kind} {c}, 2")
        kernel.keep(kind, f"add {kind} {small}, {a}")
        kernel.keep(kind, f"and {kind} {small}, 31")
    for name in ("fshl", "fshr"):
        kernel.store(
            kind, kernel.call(kind, f"llvm.{name}.{kind}", [f"{kind} {v}" for v in (a, b, c)])
        )


def integer_bits(kind):
    """Bits of one type."""
    bits = int(kind[1:])
    kernel = Kernel(f"{kind} bits")
    a, b = kernel.loads(kind, "ab")
    names = ("ctpop", "bitreverse") + (("bswap",) if bits > 8 else ())
    for name in names:
        kernel.store(kind, kernel.call(kind, f"llvm.{name}.{kind}", [f"{kind} {a}"]))
    for name in ("ctlz", "cttz", "abs"):
        kernel.store(kind, kernel.call(kind, f"llvm.{name}.{kind}", [f"{kind} {a}", "i1 false"]))
    for name in ("smin", "smax", "umin", "umax"):
        both = [f"{kind} {a}", f"{kind} {b}"]
        kernel.store(kind, kernel.call(kind, f"llvm.{name}.{kind}", both))
        kernel.store(kind, kernel.call(kind, f"llvm.{name}.{kind}", [f"{kind} {a}", f"{kind} 9"]))
    for name in ("uadd.sat", "usub.sat", "sadd.sat", "ssub.sat"):
        both = [f"{kind} {a}", f"{kind} {b}"]
        kernel.store(kind, kernel.call(kind, f"llvm.{name}.{kind}", both))


def integer_compare(kind):
    """Compare of one type."""
    kernel = Kernel(f"{kind} compare")
    a, b, c = kernel.loads(kind)
    flags = [kernel.emit(f"icmp {p} {kind} {a}, {b}") for p in INTEGER_COMPARES]
    for flag in flags:
        kernel.keep(kind, f"select i1 {flag}, {kind} {b}, {kind} {c}")
    for op, one, two in (("and", 0, 3), ("or", 1, 4), ("xor", 2, 8), ("and", 5, 9)):
        other = kernel.emit(f"icmp {INTEGER_COMPARES[two]} {kind} {b}, {c}")
        flag = kernel.emit(f"{op} i1 {flags[one]}, {other}")
        kernel.keep(kind, f"zext i1 {flag} to {kind}")
        third = kernel.emit(f"icmp {INTEGER_COMPARES[one]} {kind} {a}, 12")
        flag = kernel.emit(f"{op} i1 {flag}, {third}")
        kernel.keep(kind, f"select i1 {flag}, {kind} {a}, {kind} 77")


def integer_divide(kind):
    """Divide of one type."""
    for signed in "us":
        kernel = Kernel(f"{kind} {signed} divide")
        a, b = kernel.loads(kind, "ab")
        for op in ("div", "rem"):
            kernel.keep(kind, f"{signed}{op} {kind} {a}, {b}")
            kernel.keep(kind, f"{signed}{op} {kind} {a}, 7")
            kernel.keep(kind, f"{signed}{op} {kind} {a}, 16")


def integer_uniform(kind):
    """Uniform of one type."""
    bits = int(kind[1:])
    kernel = Kernel(f"{kind} uniform")
    wide = (
        kernel.emit("add i64 %wide, 3") if bits == 64 else kernel.emit(f"trunc i64 %wide to {kind}")
    )
    number = kernel.emit(
        f"{'sext' if bits == 64 else 'trunc'} i32 %n to {kind}" if bits != 32 else "add i32 %n, 1"
    )
    a = kernel.load(kind, "a")
    for op in ("add", "sub", "mul", "and", "or", "xor", "shl", "lshr", "ashr", "udiv", "srem"):
        value = kernel.emit(f"{op} {kind} {wide}, {number}")
        kernel.store(kind, value)
        kernel.keep(kind, f"add {kind} {value}, {a}")
        kernel.keep(kind, f"mul {kind} {number}, {a}")
    for p in INTEGER_COMPARES:
        flag = kernel.emit(f"icmp {p} {kind} {wide}, {number}")
        kernel.keep(kind, f"select i1 {flag}, {kind} {a}, {kind} {number}")


def i128_arithmetic_kernel():
    """Kernel: i128 arithmetic."""
    kernel = Kernel("i128 arithmetic")
    a, b = kernel.loads("i128", "ab")
    for op in ("add", "sub", "mul", "xor"):
        kernel.keep("i128", f"{op} i128 {a}, {b}")
    kernel.keep("i128", f"shl i128 {a}, 70")
    count = kernel.emit(f"and i128 {b}, 127")
    kernel.keep("i128", f"lshr i128 {a}, {count}")
    for p in ("ult", "sge", "eq"):
        flag = kernel.emit(f"icmp {p} i128 {a}, {b}")
        kernel.keep("i128", f"select i1 {flag}, i128 {a}, i128 {b}")


def wide_multiply_kernel():
    """Kernel: wide multiply."""
    kernel = Kernel("wide multiply")
    a, b = kernel.loads("i32", "ab")
    c = kernel.load("i64", "c")
    for extend in ("sext", "zext"):
        wide = [kernel.emit(f"{extend} i32 {v} to i64") for v in (a, b)]
        product = kernel.emit(f"mul i64 {wide[0]}, {wide[1]}")
        kernel.store("i64", product)
        kernel.keep("i64", f"add i64 {product}, {c}")
        kernel.keep("i64", f"sub i64 {c}, {product}")
        high = kernel.emit(f"lshr i64 {product}, 32")
        kernel.keep("i32", f"trunc i64 {high} to i32")
        kernel.keep("i64", f"mul i64 {wide[0]}, 1000")


def bit_trick_kernels():
    kernel = Kernel("integer instructions")
    a, b, c = (f"i32 {v}" for v in kernel.loads("i32"))
    w = f"i64 {kernel.load('i64', 'a')}"
    three = (
        "prmt.b32", "prmt.b32.f4e", "prmt.b32.b4e", "prmt.b32.rc8", "prmt.b32.ecl", "prmt.b32.ecr",
        "prmt.b32.rc16", "bfe.u32", "bfe.s32", "sad.u32", "sad.s32", "mad24.lo.u32", "mad24.hi.s32",
        "mad.hi.u32", "mad.hi.s32", "mad.lo.s32", "dp4a.u32.u32", "dp4a.s32.s32", "dp4a.u32.s32",
        "dp2a.lo.s32.s32", "dp2a.hi.u32.s32", "shf.l.wrap.b32", "shf.l.clamp.b32", "shf.r.wrap.b32",
        "shf.r.clamp.b32", "slct.u32.s32", "vadd.s32.u32.u32.sat", "vabsdiff4.u32.u32.u32.add",
        "vabsdiff.s32.s32.s32", "vmin4.s32.s32.s32", "vset4.u32.u32.lt",
    )  # fmt: skip
    for name in three:
        kernel.asm("i32", f"{name} $0, $1, $2, $3;", a, b, c) if name not in (
            "vabsdiff.s32.s32.s32",
            "vadd.s32.u32.u32.sat",
            "vset4.u32.u32.lt",
        ) else None
    for lut in (0x1E, 0x96, 0xE8, 0xCA, 0xFE, 0x80):
        kernel.asm("i32", f"lop3.b32 $0, $1, $2, $3, {lut};", a, b, c)
    for name in (
        "mul.hi.u32",
        "mul.hi.s32",
        "mul24.lo.u32",
        "bmsk.clamp.b32",
        "bmsk.wrap.b32",
        "szext.wrap.s32",
        "szext.clamp.u32",
        "shl.b32",
        "shr.s32",
        "shr.u32",
        "sub.sat.s32",
        "add.sat.s32",
    ):
        kernel.asm("i32", f"{name} $0, $1, $2;", a, b)
    for name in (
        "bfind.u32",
        "bfind.s32",
        "bfind.shiftamt.u32",
        "bfind.shiftamt.s32",
        "clz.b32",
        "popc.b32",
        "brev.b32",
        "cnot.b32",
        "not.b32",
        "abs.s32",
    ):
        kernel.asm("i32", f"{name} $0, $1;", a)
    for name in ("bfind.u64", "clz.b64", "popc.b64"):
        kernel.asm("i32", f"{name} $0, $1;", w)
    kernel.asm("i32", "fns.b32 $0, $1, $2, $3;", a, b, c)
    kernel.asm("i32", "bfi.b32 $0, $1, $2, 5, 9;", a, b)
    kernel.asm("i32", "bfi.b32 $0, $1, $2, $3, 9;", a, b, c)
    kernel.asm("i32", "{.reg .u32 t; add.cc.u32 t, $1, $2; addc.u32 $0, t, $3;}", a, b, c)
    kernel.asm(
        "i32",
        "{.reg .u32 t; sub.cc.u32 t, $1, $2; subc.cc.u32 t, t, $3; subc.u32 $0, t, 0;}",
        a,
        b,
        c,
    )
    kernel.asm(
        "i32", "{.reg .u32 t; mad.lo.cc.u32 t, $1, $2, $3; madc.hi.u32 $0, t, $2, $3;}", a, b, c
    )
    kernel.asm("i64", "mad.wide.u32 $0, $1, $2, $3;", a, b, w)
    kernel.asm("i64", "mul.hi.u64 $0, $1, $2;", w, w)
    kernel.asm(
        "i64", "{.reg .pred p; setp.lt.and.s32 p, $1, $2, 1; selp.b64 $0, $3, 3, p;}", a, b, w
    )
    kernel = Kernel("predicates")
    values = [*kernel.loads("i32"), kernel.load("i32", "a", ", !nontemporal !0")]
    flags = [kernel.emit(f"icmp sgt i32 {v}, {7 * i}") for i, v in enumerate(values)]
    total = flags[0]
    for op, flag in zip(("xor", "or", "and"), flags[1:], strict=True):
        total = kernel.emit(f"{op} i1 {total}, {flag}")
    kernel.keep("i32", f"zext i1 {total} to i32")
    majority = kernel.emit(f"select i1 {flags[0]}, i1 {flags[1]}, i1 {flags[2]}")
    kernel.keep("i32", f"select i1 {majority}, i32 {values[0]}, i32 {values[1]}")
    for name in ("uadd", "usub", "sadd", "ssub", "umul", "smul"):
        pair = kernel.call(
            "{ i32, i1 }",
            f"llvm.{name}.with.overflow.i32",
            [f"i32 {values[0]}", f"i32 {values[1]}"],
        )
        carry = kernel.emit(f"extractvalue {{ i32, i1 }} {pair}, 1")
        result = kernel.emit(f"extractvalue {{ i32, i1 }} {pair}, 0")
        kernel.keep("i32", f"select i1 {carry}, i32 -1, i32 {result}")


def integer_kernels():
    """Every kernel of this file."""
    for kind in INTEGERS:
        integer_arithmetic(kind)
        integer_shift(kind)
        integer_bits(kind)
        integer_compare(kind)
        integer_divide(kind)
        integer_uniform(kind)
    i128_arithmetic_kernel()
    wide_multiply_kernel()
    bit_trick_kernels()
