"""Kernels of float arithmetic."""

from corpus_kernel import CHIPS, FLOAT_COMPARES, FLOATS, MANGLED, Kernel


def float_arithmetic(kind):
    """Arithmetic of one type."""
    t = MANGLED[kind]
    kernel = Kernel(f"{kind} arithmetic")
    a, b, c = kernel.loads(kind)
    for op in ("fadd", "fsub", "fmul"):
        kernel.keep(kind, f"{op} {kind} {a}, {b}")
        kernel.keep(kind, f"{op} {kind} {a}, 3.0")
        negative = kernel.emit(f"fneg {kind} {b}")
        kernel.keep(kind, f"{op} {kind} {negative}, {c}")
        part = kernel.emit(f"{op} {kind} {a}, {c}")
        kernel.keep(kind, f"fneg {kind} {part}")
    product = kernel.emit(f"fmul contract {kind} {a}, {b}")
    kernel.keep(kind, f"fadd contract {kind} {product}, {c}")
    kernel.keep(kind, f"fsub contract {kind} {c}, {product}")
    fma = [f"{kind} {v}" for v in (a, b, c)]
    kernel.store(kind, kernel.call(kind, f"llvm.fma.{t}", fma))
    kernel.store(kind, kernel.call(kind, f"llvm.fma.{t}", [fma[0], f"{kind} 2.5", fma[2]]))
    kernel.store(kind, kernel.call(kind, f"llvm.fma.{t}", [fma[0], fma[1], f"{kind} -1.0"]))
    absolute = kernel.call(kind, f"llvm.fabs.{t}", [f"{kind} {a}"])
    kernel.keep(kind, f"fadd {kind} {absolute}, {b}")
    kernel.keep(kind, f"fmul {kind} {absolute}, {c}")
    kernel.keep(kind, f"fneg {kind} {absolute}")


def float_unary(kind):
    """Unary of one type."""
    t = MANGLED[kind]
    kernel = Kernel(f"{kind} unary")
    a, b = kernel.loads(kind, "ab")
    for name in (
        "floor",
        "ceil",
        "trunc",
        "rint",
        "roundeven",
        "round",
        "fabs",
        "sqrt",
        "nearbyint",
    ):
        if kind == "bfloat" and name == "sqrt":
            continue
        kernel.store(kind, kernel.call(kind, f"llvm.{name}.{t}", [f"{kind} {a}"]))
    for name in ("minnum", "maxnum", "minimum", "maximum", "copysign"):
        if kind == "double" and name in ("minimum", "maximum"):
            continue
        kernel.store(kind, kernel.call(kind, f"llvm.{name}.{t}", [f"{kind} {a}", f"{kind} {b}"]))


def float_compare(kind):
    """Compare of one type."""
    kernel = Kernel(f"{kind} compare")
    a, b, c = kernel.loads(kind)
    flags = [kernel.emit(f"fcmp {p} {kind} {a}, {b}") for p in FLOAT_COMPARES]
    for flag in flags:
        kernel.keep(kind, f"select i1 {flag}, {kind} {b}, {kind} {c}")
    for op, one, two in (("and", 0, 3), ("or", 2, 4), ("xor", 5, 9)):
        other = kernel.emit(f"fcmp {FLOAT_COMPARES[two]} {kind} {b}, {c}")
        flag = kernel.emit(f"{op} i1 {flags[one]}, {other}")
        kernel.keep("i32", f"zext i1 {flag} to i32")
        kernel.keep(kind, f"uitofp i1 {flag} to {kind}")
    flag = kernel.emit(f"fcmp ogt {kind} {a}, 1.0")
    kernel.keep(kind, f"select i1 {flag}, {kind} {a}, {kind} 0.5")


def float_divide(kind):
    """Divide of one type."""
    kernel = Kernel(f"{kind} divide")
    a, b = kernel.loads(kind, "ab")
    kernel.keep(kind, f"fdiv {kind} {a}, {b}")
    kernel.keep(kind, f"fdiv {kind} 1.0, {b}")
    kernel.keep(kind, f"fdiv {kind} {a}, 3.0")
    if kind == "float":
        kernel.keep(kind, f"fdiv arcp afn {kind} {a}, {b}")


def float_uniform(kind):
    """Uniform of one type."""
    kernel = Kernel(f"{kind} uniform")
    number = kernel.emit(f"sitofp i32 %n to {kind}")
    a = kernel.load(kind, "a")
    for op in ("fadd", "fmul"):
        kernel.keep(kind, f"{op} {kind} {number}, {a}")
    kernel.keep(kind, f"fmul {kind} {number}, {number}")
    if kind in ("float", "double"):
        argument = "%x" if kind == "float" else "%y"
        kernel.keep(kind, f"fadd {kind} {argument}, {a}")
        product = kernel.emit(f"fmul contract {kind} {argument}, {a}")
        kernel.keep(kind, f"fadd contract {kind} {product}, {argument}")
        flag = kernel.emit(f"fcmp olt {kind} {argument}, {a}")
        kernel.keep(kind, f"select i1 {flag}, {kind} {argument}, {kind} {a}")


def float_flush_kernel():
    """Kernel: float flush."""
    kernel = Kernel(
        "float flush", attributes='"denormal-fp-math-f32"="preserve-sign,preserve-sign"'
    )
    a, b, c = kernel.loads("float")
    for op in ("fadd", "fmul", "fdiv"):
        kernel.keep("float", f"{op} float {a}, {b}")
    kernel.store("float", kernel.call("float", "llvm.fma.f32", [f"float {v}" for v in (a, b, c)]))
    for name in ("sqrt", "floor", "exp2"):
        kernel.store("float", kernel.call("float", f"llvm.{name}.f32", [f"float {a}"]))
    for name in ("minnum", "maxnum"):
        kernel.store(
            "float", kernel.call("float", f"llvm.{name}.f32", [f"float {a}", f"float {b}"])
        )
    flag = kernel.emit(f"fcmp olt float {a}, {b}")
    kernel.keep("i32", f"select i1 {flag}, i32 4, i32 5")
    kernel.keep("i32", f"fptosi float {a} to i32")
    kernel.keep("half", f"fptrunc float {a} to half")
    kernel.keep("double", f"fpext float {a} to double")


def float_rounding_kernel():
    """Kernel: float rounding."""
    kernel = Kernel("float rounding")
    a, b, c = kernel.loads("float")
    for mode in ("rn", "rz", "rm", "rp"):
        for flags in ("", ".ftz", ".sat", ".ftz.sat"):
            kernel.asm("float", f"add.{mode}{flags}.f32 $0, $1, $2;", f"float {a}", f"float {b}")
            kernel.asm("float", f"mul.{mode}{flags}.f32 $0, $1, $2;", f"float {a}", f"float {b}")
            kernel.asm(
                "float",
                f"fma.{mode}{flags}.f32 $0, $1, $2, $3;",
                *(f"float {v}" for v in (a, b, c)),
            )


def double_rounding_kernel():
    """Kernel: double rounding."""
    kernel = Kernel("double rounding")
    a, b, c = kernel.loads("double")
    for mode in ("rn", "rz", "rm", "rp"):
        kernel.asm("double", f"add.{mode}.f64 $0, $1, $2;", f"double {a}", f"double {b}")
        kernel.asm("double", f"mul.{mode}.f64 $0, $1, $2;", f"double {a}", f"double {b}")
        kernel.asm("double", f"fma.{mode}.f64 $0, $1, $2, $3;", *(f"double {v}" for v in (a, b, c)))


def float_approximations_kernel():
    """Kernel: float approximations."""
    kernel = Kernel("float approximations")
    a, b = kernel.loads("float", "ab")
    for name in ("sin", "cos", "tanh", "ex2", "lg2", "rsqrt", "rcp", "sqrt"):
        kernel.asm("float", f"{name}.approx.f32 $0, $1;", f"float {a}")
        if name != "tanh":
            kernel.asm("float", f"{name}.approx.ftz.f32 $0, $1;", f"float {b}")
    kernel.asm("float", "div.full.f32 $0, $1, $2;", f"float {a}", f"float {b}")
    for name in ("sqrt", "rcp"):
        for mode in ("rn", "rz"):
            kernel.asm("float", f"{name}.{mode}.f32 $0, $1;", f"float {a}")
    kernel.asm("float", "min.NaN.f32 $0, $1, $2;", f"float {a}", f"float {b}")
    kernel.asm("float", "copysign.f32 $0, $1, $2;", f"float {a}", f"float {b}")
    kernel.asm("i32", "set.lt.u32.f32 $0, $1, $2;", f"float {a}", f"float {b}")
    kernel.asm("float", "set.ge.f32.f32 $0, $1, $2;", f"float {a}", f"float {b}")
    kernel.asm("float", "set.ge.f32.s32 $0, $1, $2;", "i32 %n", "i32 %tid")
    kernel.asm(
        "i32", "{.reg .pred p; testp.subnormal.f32 p, $1; selp.u32 $0, 1, 0, p;}", f"float {a}"
    )


def float_sign_of_both_kernel():
    """Kernel: float sign of both."""
    kernel = Kernel("float sign of both", chips=CHIPS[1:])
    a, b = kernel.loads("float", "ab")
    for name in ("max.ftz.NaN.xorsign.abs.f32", "min.xorsign.abs.f32"):
        kernel.asm("float", f"{name} $0, $1, $2;", f"float {a}", f"float {b}")


def double_approximations_kernel():
    """Kernel: double approximations."""
    kernel = Kernel("double approximations")
    a, b = kernel.loads("double", "ab")
    for name in ("rcp", "rsqrt"):
        kernel.asm("double", f"{name}.approx.ftz.f64 $0, $1;", f"double {a}")
    for name in ("rcp.rn", "sqrt.rn", "rcp.rz"):
        kernel.asm("double", f"{name}.f64 $0, $1;", f"double {a}")
    kernel.asm("double", "min.f64 $0, $1, $2;", f"double {a}", f"double {b}")


def packed_kernels():
    for kind, t, ptx in (("<2 x half>", "v2f16", "f16x2"), ("<2 x bfloat>", "v2bf16", "bf16x2")):
        kernel = Kernel(f"packed {ptx}")
        a, b, c = kernel.loads(kind)
        for op in ("fadd", "fsub", "fmul"):
            kernel.keep(kind, f"{op} {kind} {a}, {b}")
        kernel.keep(kind, f"fneg {kind} {a}")
        kernel.store(kind, kernel.call(kind, f"llvm.fma.{t}", [f"{kind} {v}" for v in (a, b, c)]))
        for name in ("fabs",):
            kernel.store(kind, kernel.call(kind, f"llvm.{name}.{t}", [f"{kind} {a}"]))
        for name in ("minnum", "maxnum", "minimum", "maximum"):
            kernel.store(
                kind, kernel.call(kind, f"llvm.{name}.{t}", [f"{kind} {a}", f"{kind} {b}"])
            )
        swapped = kernel.emit(f"shufflevector {kind} {b}, {kind} {b}, <2 x i32> <i32 1, i32 0>")
        kernel.keep(kind, f"fadd {kind} {a}, {swapped}")
        same = kernel.emit(f"shufflevector {kind} {b}, {kind} {b}, <2 x i32> <i32 1, i32 1>")
        kernel.keep(kind, f"fmul {kind} {a}, {same}")
        low = kernel.emit(f"extractelement {kind} {a}, i32 0")
        high = kernel.emit(f"extractelement {kind} {b}, i32 1")
        scalar = kind.split()[2][:-1]
        kernel.keep(scalar, f"fadd {scalar} {low}, {high}")
        kernel.keep("float", f"fpext {scalar} {high} to float")
        x, y = (kernel.emit(f"bitcast {kind} {v} to i32") for v in (a, b))
        z = kernel.emit(f"bitcast {kind} {c} to i32")
        kernel.asm("i32", f"fma.rn.relu.{ptx} $0, $1, $2, $3;", *(f"i32 {v}" for v in (x, y, z)))
        kernel.asm("i32", f"min.NaN.{ptx} $0, $1, $2;", f"i32 {x}", f"i32 {y}")
        if ptx == "f16x2":
            for op in ("add", "mul"):
                kernel.asm("i32", f"{op}.ftz.sat.f16x2 $0, $1, $2;", f"i32 {x}", f"i32 {y}")
            kernel.asm("i32", "ex2.approx.f16x2 $0, $1;", f"i32 {x}")
            kernel.asm("i32", "set.lt.f16x2.f16x2 $0, $1, $2;", f"i32 {x}", f"i32 {y}")
        kernel.asm("i32", f"tanh.approx.{ptx} $0, $1;", f"i32 {x}") if ptx == "f16x2" else None
        flags = kernel.emit(f"fcmp olt {kind} {a}, {b}")
        kernel.keep(kind, f"select <2 x i1> {flags}, {kind} {a}, {kind} {c}")
        flags = kernel.emit(f"fcmp une {kind} {a}, {b}")
        kernel.keep("<2 x i16>", f"sext <2 x i1> {flags} to <2 x i16>")
    kernel = Kernel("packed i16x2", chips=CHIPS[3:])
    a, b, c = kernel.loads("i32")
    for op in ("add.u16x2", "add.s16x2", "min.s16x2", "max.u16x2", "max.relu.s16x2"):
        kernel.asm("i32", f"{op} $0, $1, $2;", f"i32 {a}", f"i32 {b}")
    kernel = Kernel("packed f32x2", chips=CHIPS[4:])
    a, b, c = kernel.loads("i64")
    kernel.asm("i64", "add.rn.f32x2 $0, $1, $2;", f"i64 {a}", f"i64 {b}")
    kernel.asm("i64", "mul.rn.ftz.f32x2 $0, $1, $2;", f"i64 {a}", f"i64 {b}")
    kernel.asm("i64", "fma.rn.f32x2 $0, $1, $2, $3;", f"i64 {a}", f"i64 {b}", f"i64 {c}")


def float_kernels():
    """Every kernel of this file."""
    for kind in FLOATS:
        float_arithmetic(kind)
        float_unary(kind)
        float_compare(kind)
        float_divide(kind)
        float_uniform(kind)
    float_flush_kernel()
    float_rounding_kernel()
    double_rounding_kernel()
    float_approximations_kernel()
    float_sign_of_both_kernel()
    double_approximations_kernel()
    packed_kernels()
