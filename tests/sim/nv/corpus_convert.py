"""Kernels that convert between types."""

from corpus_kernel import CHIPS, FLOATS, INTEGERS, Kernel


def convert_from_integers():
    """Kernel: convert from source."""
    for source in INTEGERS:
        kernel = Kernel(f"convert from {source}")
        a = kernel.load(source, "a")
        bits = int(source[1:])
        for other in INTEGERS:
            if int(other[1:]) > bits:
                kernel.keep(other, f"sext {source} {a} to {other}")
                kernel.keep(other, f"zext {source} {a} to {other}")
            elif other != source:
                kernel.keep(other, f"trunc {source} {a} to {other}")
        for other in FLOATS:
            kernel.keep(other, f"sitofp {source} {a} to {other}")
            kernel.keep(other, f"uitofp {source} {a} to {other}")


def convert_from_floats():
    """Kernel: convert from source."""
    for source in FLOATS:
        kernel = Kernel(f"convert from {source}")
        a = kernel.load(source, "a")
        for other in INTEGERS:
            kernel.keep(other, f"fptosi {source} {a} to {other}")
            kernel.keep(other, f"fptoui {source} {a} to {other}")
        order = {"half": 0, "bfloat": 0, "float": 1, "double": 2}
        for other in FLOATS:
            if order[other] > order[source]:
                kernel.keep(other, f"fpext {source} {a} to {other}")
            elif order[other] < order[source]:
                kernel.keep(other, f"fptrunc {source} {a} to {other}")


def convert_rounding_kernel():
    """Kernel: convert rounding."""
    kernel = Kernel("convert rounding")
    a, b = kernel.loads("float", "ab")
    d = kernel.load("double", "c")
    for mode in ("rni", "rzi", "rmi", "rpi"):
        for kind, letter in (("i32", "s32"), ("i32", "u32"), ("i64", "s64"), ("i64", "u64")):
            kernel.asm(kind, f"cvt.{mode}.{letter}.f32 $0, $1;", f"float {a}")
            kernel.asm(kind, f"cvt.{mode}.{letter}.f64 $0, $1;", f"double {d}")
            kernel.asm(kind, f"cvt.{mode}.ftz.{letter}.f32 $0, $1;", f"float {b}")
        kernel.asm("float", f"cvt.{mode}.f32.f32 $0, $1;", f"float {a}")
        kernel.asm("double", f"cvt.{mode}.f64.f64 $0, $1;", f"double {d}")
    for mode in ("rn", "rz", "rm", "rp"):
        kernel.asm("float", f"cvt.{mode}.f32.f64 $0, $1;", f"double {d}")
        kernel.asm("float", f"cvt.{mode}.f32.s32 $0, $1;", "i32 %tid")
        kernel.asm("float", f"cvt.{mode}.f32.u64 $0, $1;", "i64 %i")
        kernel.asm("double", f"cvt.{mode}.f64.s64 $0, $1;", "i64 %i")
    for text in (
        "cvt.rn.f16x2.f32",
        "cvt.rz.f16x2.f32",
        "cvt.rn.relu.f16x2.f32",
        "cvt.rn.bf16x2.f32",
        "cvt.rz.relu.bf16x2.f32",
    ):
        kernel.asm("i32", f"{text} $0, $1, $2;", f"float {a}", f"float {b}")
    kernel.asm("i32", "cvt.rna.tf32.f32 $0, $1;", f"float {a}")
    kernel.asm("float", "cvt.sat.f32.f32 $0, $1;", f"float {a}")
    for text in ("s8.s32", "u8.s32", "s16.s32", "u16.s32", "u8.u32"):
        kernel.asm(
            "i32",
            f"{{.reg .b16 t; cvt.sat.{text} t, $1; cvt.u32.u16 $0, t;}}",
            "i32 %tid",
        )


def convert_narrow_floats_kernel():
    """Kernel: convert narrow floats."""
    modern = Kernel("convert narrow floats", chips=CHIPS[2:])
    a, b = modern.loads("float", "ab")
    for form in ("e4m3x2", "e5m2x2"):
        modern.asm("i16", f"cvt.rn.satfinite.{form}.f32 $0, $1, $2;", f"float {a}", f"float {b}")
        modern.asm(
            "i16", f"cvt.rn.satfinite.relu.{form}.f32 $0, $1, $2;", f"float {a}", f"float {b}"
        )
        modern.asm(
            "i32", f"{{.reg .b16 t; cvt.u16.u32 t, $1; cvt.rn.f16x2.{form} $0, t;}}", "i32 %tid"
        )
        modern.asm("i16", f"cvt.rn.satfinite.{form}.f16x2 $0, $1;", "i32 %tid")


def conversion_kernels():
    """Every kernel of this file."""
    convert_from_integers()
    convert_from_floats()
    convert_rounding_kernel()
    convert_narrow_floats_kernel()
