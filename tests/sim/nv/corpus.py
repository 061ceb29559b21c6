"""Compiles kernels for NVIDIA chips and prints their machine code as JSON.

A program of its own, because LLVM ends the process when it cannot select something:
`python tests/sim/nv/corpus.py sm_90 [sm_86 ...]` prints {chip: {section: code as hex}}.
LLVM turns the kernels into PTX, nvJitLink turns that into machine code.
"""

import json
import re
import struct
import sys
from importlib.util import find_spec
from pathlib import Path

G = "ptr addrspace(1)"
S = "ptr addrspace(3)"
CHIPS = ("sm_80", "sm_86", "sm_89", "sm_90", "sm_100", "sm_120")
INTEGERS = ("i8", "i16", "i32", "i64")
FLOATS = ("half", "bfloat", "float", "double")
MANGLED = {"half": "f16", "float": "f32", "double": "f64", "bfloat": "bf16"}
LETTERS = {"i16": "h", "i32": "r", "i64": "l", "float": "f", "double": "d", "half": "h"}
FLOAT_COMPARES = "oeq one olt ole ogt oge ord uno ueq une ult uge ugt ule".split()
INTEGER_COMPARES = "eq ne ult ule ugt uge slt sle sgt sge".split()

KERNELS = []


class Kernel:
    """The text of one kernel: values are loaded from %a, %b, %c, results stored one by one."""

    def __init__(self, name, chips=CHIPS, attributes=""):
        self.name = re.sub(r"\W", "_", name)
        self.chips = chips
        self.attributes = attributes
        self.lines = []
        self.declared = set()
        self.outputs = 0
        KERNELS.append(self)

    def emit(self, text):
        """Add an instruction that makes a value; gives its name."""
        name = f"%v{len(self.lines)}"
        self.lines.append(f"{name} = {text}")
        return name

    def run(self, text):
        """Add an instruction without a value."""
        self.lines.append(text)
        return self

    def load(self, kind, letter, tail=""):
        """Load this thread's element of an argument."""
        at = self.emit(f"getelementptr {kind}, {G} %{letter}, i64 %i")
        return self.emit(f"load {kind}, {G} {at}{tail}")

    def loads(self, kind, letters="abc"):
        return [self.load(kind, letter) for letter in letters]

    def store(self, kind, value):
        """Store a result where nothing else is."""
        self.outputs += 1
        at = self.emit(f"getelementptr i8, {G} %mine, i64 {4096 * self.outputs}")
        self.run(f"store {kind} {value}, {G} {at}")

    def keep(self, kind, text):
        """Compute and store."""
        self.store(kind, self.emit(text))

    def call(self, result, function, arguments, metadata=""):
        """Call an intrinsic, declaring it: arguments are 'type value' texts."""
        types = ", ".join(a.rsplit(" ", 1)[0] for a in arguments)
        self.declared.add(f"declare {result} @{function}({types})")
        text = f"call {result} @{function}({', '.join(arguments)}){metadata}"
        return self.run(text) if result == "void" else self.emit(text)

    def asm(self, result, text, *arguments):
        """Inline PTX; arguments are 'type value' texts. Stores the result, if there is one."""
        inputs = [LETTERS.get(a.split(" ")[0], "l") for a in arguments]
        outputs = ["=" + LETTERS[result]] if result else []
        constraints = ",".join(outputs + inputs + ["~{memory}"])
        body = f'call {result or "void"} asm sideeffect "{text}", "{constraints}"'
        body += f"({', '.join(arguments)})"
        if result:
            self.keep(result, body)
        else:
            self.run(body)

    def text(self):
        """The definition."""
        body = "\n  ".join(self.lines)
        pointers = ", ".join(f"{G} noalias %{x}" for x in ("a", "b", "c"))
        return f"""
define ptx_kernel void @{self.name}({G} noalias %out, {pointers},
    i32 %n, i64 %wide, float %x, double %y, ptr %generic) #0 {self.attributes} {{
entry:
  %tid = call i32 @llvm.nvvm.read.ptx.sreg.tid.x()
  %ctaid = call i32 @llvm.nvvm.read.ptx.sreg.ctaid.x()
  %ntid = call i32 @llvm.nvvm.read.ptx.sreg.ntid.x()
  %base = mul i32 %ctaid, %ntid
  %sum = add i32 %base, %tid
  %i = zext i32 %sum to i64
  %mine = getelementptr i128, {G} %out, i64 %i
  {body}
  ret void
}}
"""


def integer_kernels():
    for kind in INTEGERS:
        bits = int(kind[1:])
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
            kernel.store(kind, kernel.call(kind, f"llvm.{name}.{kind}", [f"{kind} {v}" for v in (a, b, c)]))
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
        for signed in "us":
            kernel = Kernel(f"{kind} {signed} divide")
            a, b = kernel.loads(kind, "ab")
            for op in ("div", "rem"):
                kernel.keep(kind, f"{signed}{op} {kind} {a}, {b}")
                kernel.keep(kind, f"{signed}{op} {kind} {a}, 7")
                kernel.keep(kind, f"{signed}{op} {kind} {a}, 16")
        kernel = Kernel(f"{kind} uniform")
        wide = kernel.emit("add i64 %wide, 3") if bits == 64 else kernel.emit(f"trunc i64 %wide to {kind}")
        number = kernel.emit(f"{'sext' if bits == 64 else 'trunc'} i32 %n to {kind}" if bits != 32 else "add i32 %n, 1")
        a = kernel.load(kind, "a")
        for op in ("add", "sub", "mul", "and", "or", "xor", "shl", "lshr", "ashr", "udiv", "srem"):
            value = kernel.emit(f"{op} {kind} {wide}, {number}")
            kernel.store(kind, value)
            kernel.keep(kind, f"add {kind} {value}, {a}")
            kernel.keep(kind, f"mul {kind} {number}, {a}")
        for p in INTEGER_COMPARES:
            flag = kernel.emit(f"icmp {p} {kind} {wide}, {number}")
            kernel.keep(kind, f"select i1 {flag}, {kind} {a}, {kind} {number}")
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


def float_kernels():
    for kind in FLOATS:
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
        kernel = Kernel(f"{kind} unary")
        a, b = kernel.loads(kind, "ab")
        for name in ("floor", "ceil", "trunc", "rint", "roundeven", "round", "fabs", "sqrt", "nearbyint"):
            if kind == "bfloat" and name == "sqrt":
                continue
            kernel.store(kind, kernel.call(kind, f"llvm.{name}.{t}", [f"{kind} {a}"]))
        for name in ("minnum", "maxnum", "minimum", "maximum", "copysign"):
            if kind == "double" and name in ("minimum", "maximum"):
                continue
            kernel.store(kind, kernel.call(kind, f"llvm.{name}.{t}", [f"{kind} {a}", f"{kind} {b}"]))
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
        kernel = Kernel(f"{kind} divide")
        a, b = kernel.loads(kind, "ab")
        kernel.keep(kind, f"fdiv {kind} {a}, {b}")
        kernel.keep(kind, f"fdiv {kind} 1.0, {b}")
        kernel.keep(kind, f"fdiv {kind} {a}, 3.0")
        if kind == "float":
            kernel.keep(kind, f"fdiv arcp afn {kind} {a}, {b}")
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
    kernel = Kernel("float flush", attributes='"denormal-fp-math-f32"="preserve-sign,preserve-sign"')
    a, b, c = kernel.loads("float")
    for op in ("fadd", "fmul", "fdiv"):
        kernel.keep("float", f"{op} float {a}, {b}")
    kernel.store("float", kernel.call("float", "llvm.fma.f32", [f"float {v}" for v in (a, b, c)]))
    for name in ("sqrt", "floor", "exp2"):
        kernel.store("float", kernel.call("float", f"llvm.{name}.f32", [f"float {a}"]))
    for name in ("minnum", "maxnum"):
        kernel.store("float", kernel.call("float", f"llvm.{name}.f32", [f"float {a}", f"float {b}"]))
    flag = kernel.emit(f"fcmp olt float {a}, {b}")
    kernel.keep("i32", f"select i1 {flag}, i32 4, i32 5")
    kernel.keep("i32", f"fptosi float {a} to i32")
    kernel.keep("half", f"fptrunc float {a} to half")
    kernel.keep("double", f"fpext float {a} to double")
    kernel = Kernel("float rounding")
    a, b, c = kernel.loads("float")
    for mode in ("rn", "rz", "rm", "rp"):
        for flags in ("", ".ftz", ".sat", ".ftz.sat"):
            kernel.asm("float", f"add.{mode}{flags}.f32 $0, $1, $2;", f"float {a}", f"float {b}")
            kernel.asm("float", f"mul.{mode}{flags}.f32 $0, $1, $2;", f"float {a}", f"float {b}")
            kernel.asm("float", f"fma.{mode}{flags}.f32 $0, $1, $2, $3;", *(f"float {v}" for v in (a, b, c)))
    kernel = Kernel("double rounding")
    a, b, c = kernel.loads("double")
    for mode in ("rn", "rz", "rm", "rp"):
        kernel.asm("double", f"add.{mode}.f64 $0, $1, $2;", f"double {a}", f"double {b}")
        kernel.asm("double", f"mul.{mode}.f64 $0, $1, $2;", f"double {a}", f"double {b}")
        kernel.asm("double", f"fma.{mode}.f64 $0, $1, $2, $3;", *(f"double {v}" for v in (a, b, c)))
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
    kernel.asm("i32", "{.reg .pred p; testp.subnormal.f32 p, $1; selp.u32 $0, 1, 0, p;}", f"float {a}")
    kernel = Kernel("float sign of both", chips=CHIPS[1:])
    a, b = kernel.loads("float", "ab")
    for name in ("max.ftz.NaN.xorsign.abs.f32", "min.xorsign.abs.f32"):
        kernel.asm("float", f"{name} $0, $1, $2;", f"float {a}", f"float {b}")
    kernel = Kernel("double approximations")
    a, b = kernel.loads("double", "ab")
    for name in ("rcp", "rsqrt"):
        kernel.asm("double", f"{name}.approx.ftz.f64 $0, $1;", f"double {a}")
    for name in ("rcp.rn", "sqrt.rn", "rcp.rz"):
        kernel.asm("double", f"{name}.f64 $0, $1;", f"double {a}")
    kernel.asm("double", "min.f64 $0, $1, $2;", f"double {a}", f"double {b}")


def conversion_kernels():
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
    for text in ("cvt.rn.f16x2.f32", "cvt.rz.f16x2.f32", "cvt.rn.relu.f16x2.f32", "cvt.rn.bf16x2.f32", "cvt.rz.relu.bf16x2.f32"):
        kernel.asm("i32", f"{text} $0, $1, $2;", f"float {a}", f"float {b}")
    kernel.asm("i32", "cvt.rna.tf32.f32 $0, $1;", f"float {a}")
    kernel.asm("float", "cvt.sat.f32.f32 $0, $1;", f"float {a}")
    for text in ("s8.s32", "u8.s32", "s16.s32", "u16.s32", "u8.u32"):
        kernel.asm("i32", f"{{.reg .b16 t; cvt.sat.{text} t, $1; cvt.u32.u16 $0, t;}}" if "8" not in text
                   else f"{{.reg .b16 t; cvt.sat.{text} t, $1; cvt.u32.u16 $0, t;}}", "i32 %tid")
    modern = Kernel("convert narrow floats", chips=CHIPS[2:])
    a, b = modern.loads("float", "ab")
    for form in ("e4m3x2", "e5m2x2"):
        modern.asm("i16", f"cvt.rn.satfinite.{form}.f32 $0, $1, $2;", f"float {a}", f"float {b}")
        modern.asm("i16", f"cvt.rn.satfinite.relu.{form}.f32 $0, $1, $2;", f"float {a}", f"float {b}")
        modern.asm("i32", f"{{.reg .b16 t; cvt.u16.u32 t, $1; cvt.rn.f16x2.{form} $0, t;}}", "i32 %tid")
        modern.asm("i16", f"cvt.rn.satfinite.{form}.f16x2 $0, $1;", "i32 %tid")


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
            kernel.store(kind, kernel.call(kind, f"llvm.{name}.{t}", [f"{kind} {a}", f"{kind} {b}"]))
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
        kernel.asm("i32", f"{name} $0, $1, $2, $3;", a, b, c) if name not in ("vabsdiff.s32.s32.s32", "vadd.s32.u32.u32.sat", "vset4.u32.u32.lt") else None
    for lut in (0x1E, 0x96, 0xE8, 0xCA, 0xFE, 0x80):
        kernel.asm("i32", f"lop3.b32 $0, $1, $2, $3, {lut};", a, b, c)
    for name in ("mul.hi.u32", "mul.hi.s32", "mul24.lo.u32", "bmsk.clamp.b32", "bmsk.wrap.b32", "szext.wrap.s32", "szext.clamp.u32", "shl.b32", "shr.s32", "shr.u32", "sub.sat.s32", "add.sat.s32"):
        kernel.asm("i32", f"{name} $0, $1, $2;", a, b)
    for name in ("bfind.u32", "bfind.s32", "bfind.shiftamt.u32", "bfind.shiftamt.s32", "clz.b32", "popc.b32", "brev.b32", "cnot.b32", "not.b32", "abs.s32"):
        kernel.asm("i32", f"{name} $0, $1;", a)
    for name in ("bfind.u64", "clz.b64", "popc.b64"):
        kernel.asm("i32", f"{name} $0, $1;", w)
    kernel.asm("i32", "fns.b32 $0, $1, $2, $3;", a, b, c)
    kernel.asm("i32", "bfi.b32 $0, $1, $2, 5, 9;", a, b)
    kernel.asm("i32", "bfi.b32 $0, $1, $2, $3, 9;", a, b, c)
    kernel.asm("i32", "{.reg .u32 t; add.cc.u32 t, $1, $2; addc.u32 $0, t, $3;}", a, b, c)
    kernel.asm("i32", "{.reg .u32 t; sub.cc.u32 t, $1, $2; subc.cc.u32 t, t, $3; subc.u32 $0, t, 0;}", a, b, c)
    kernel.asm("i32", "{.reg .u32 t; mad.lo.cc.u32 t, $1, $2, $3; madc.hi.u32 $0, t, $2, $3;}", a, b, c)
    kernel.asm("i64", "mad.wide.u32 $0, $1, $2, $3;", a, b, w)
    kernel.asm("i64", "mul.hi.u64 $0, $1, $2;", w, w)
    kernel.asm("i64", "{.reg .pred p; setp.lt.and.s32 p, $1, $2, 1; selp.b64 $0, $3, 3, p;}", a, b, w)
    kernel = Kernel("predicates")
    values = kernel.loads("i32") + [kernel.load("i32", "a", ", !nontemporal !0")]
    flags = [kernel.emit(f"icmp sgt i32 {v}, {7 * i}") for i, v in enumerate(values)]
    total = flags[0]
    for op, flag in zip(("xor", "or", "and"), flags[1:], strict=True):
        total = kernel.emit(f"{op} i1 {total}, {flag}")
    kernel.keep("i32", f"zext i1 {total} to i32")
    majority = kernel.emit(f"select i1 {flags[0]}, i1 {flags[1]}, i1 {flags[2]}")
    kernel.keep("i32", f"select i1 {majority}, i32 {values[0]}, i32 {values[1]}")
    for name in ("uadd", "usub", "sadd", "ssub", "umul", "smul"):
        pair = kernel.call("{ i32, i1 }", f"llvm.{name}.with.overflow.i32", [f"i32 {values[0]}", f"i32 {values[1]}"])
        carry = kernel.emit(f"extractvalue {{ i32, i1 }} {pair}, 1")
        result = kernel.emit(f"extractvalue {{ i32, i1 }} {pair}, 0")
        kernel.keep("i32", f"select i1 {carry}, i32 -1, i32 {result}")


def warp_kernels():
    kernel = Kernel("shuffles")
    a, b = (f"i32 {v}" for v in kernel.loads("i32", "ab"))
    for mode in ("up", "down", "bfly", "idx"):
        clamp = "0" if mode == "up" else "31"
        kernel.asm("i32", f"shfl.sync.{mode}.b32 $0, $1, 3, {clamp}, -1;", a)
        kernel.asm("i32", f"shfl.sync.{mode}.b32 $0, $1, $2, {clamp}, -1;", a, b)
        kernel.asm("i32", f"shfl.sync.{mode}.b32 $0, $1, 1, $2, -1;", a, b)
        kernel.asm("i32", f"shfl.sync.{mode}.b32 $0, $1, $2, $2, -1;", a, b)
        kernel.asm("i32", f"{{.reg .pred p; .reg .u32 t; shfl.sync.{mode}.b32 t|p, $1, 4, {clamp}, -1; selp.b32 $0, t, 0, p;}}", a)
    kernel.asm("i32", "shfl.sync.idx.b32 $0, $1, 0, 31, $2;", a, b)
    kernel = Kernel("votes")
    a, b = (f"i32 {v}" for v in kernel.loads("i32", "ab"))
    for mode in ("all", "any", "uni"):
        kernel.asm("i32", f"{{.reg .pred p, q; setp.lt.s32 p, $1, $2; vote.sync.{mode}.pred q, p, -1; selp.b32 $0, 1, 0, q;}}", a, b)
        kernel.asm("i32", f"{{.reg .pred p, q; setp.lt.s32 p, $1, $2; vote.sync.{mode}.pred q, !p, 0xffff; selp.b32 $0, 1, 0, q;}}", a, b)
    kernel.asm("i32", "{.reg .pred p; setp.lt.s32 p, $1, $2; vote.sync.ballot.b32 $0, p, -1;}", a, b)
    kernel.asm("i32", "{.reg .pred p; setp.lt.s32 p, $1, $2; vote.sync.ballot.b32 $0, p, $2;}", a, b)
    kernel.asm("i32", "activemask.b32 $0;")
    kernel = Kernel("matches")
    a, b = (f"i32 {v}" for v in kernel.loads("i32", "ab"))
    w = f"i64 {kernel.load('i64', 'c')}"
    kernel.asm("i32", "match.any.sync.b32 $0, $1, -1;", a)
    kernel.asm("i32", "match.any.sync.b64 $0, $1, -1;", w)
    for kind, value in (("b32", a), ("b64", w)):
        kernel.asm("i32", f"{{.reg .pred p; .reg .b32 t; match.all.sync.{kind} t|p, $1, -1; selp.b32 $0, t, 0, p;}}", value)
    kernel = Kernel("warp reductions")
    a, b = (f"i32 {v}" for v in kernel.loads("i32", "ab"))
    for name in ("add.s32", "add.u32", "min.s32", "min.u32", "max.s32", "max.u32", "and.b32", "or.b32", "xor.b32"):
        kernel.asm("i32", f"redux.sync.{name} $0, $1, -1;", a)
    kernel.asm("i32", "redux.sync.add.s32 $0, $1, 0xff;", b)
    kernel = Kernel("warp sum")
    value = kernel.load("float", "a")
    for step in (16, 8, 4, 2, 1):
        other = kernel.call("float", "llvm.nvvm.shfl.sync.bfly.f32", ["i32 -1", f"float {value}", f"i32 {step}", "i32 31"])
        value = kernel.emit(f"fadd float {value}, {other}")
    kernel.store("float", value)
    kernel = Kernel("elect", chips=CHIPS[3:])
    kernel.asm("i32", "{.reg .pred p; .reg .b32 t; elect.sync t|p, -1; selp.b32 $0, t, 0, p;}")
    kernel = Kernel("barriers")
    a, b = (f"i32 {v}" for v in kernel.loads("i32", "ab"))
    for text in ("bar.sync 0", "bar.sync 1", "bar.sync 2, 64", "bar.arrive 3, 64", "bar.warp.sync -1", "bar.warp.sync 0xff",
                 "membar.cta", "membar.gl", "membar.sys", "fence.acq_rel.gpu", "fence.sc.gpu", "fence.sc.cta", "fence.acq_rel.sys",
                 "barrier.sync 4", "barrier.sync 5, 96"):
        kernel.asm("", f"{text};")
    kernel.asm("", "bar.sync $0, $1;", a, "i32 64")
    kernel.asm("", "bar.sync $0;", b)
    kernel.asm("", "bar.warp.sync $0;", b)
    for op in ("and", "or"):
        kernel.asm("i32", f"{{.reg .pred p, q; setp.ne.s32 p, $1, 0; bar.red.{op}.pred q, 0, p; selp.b32 $0, 1, 0, q;}}", a)
    kernel.asm("i32", "{.reg .pred p; setp.ne.s32 p, $1, 0; bar.red.popc.u32 $0, 0, p;}", a)
    kernel.asm("i32", "{.reg .pred p; setp.ne.s32 p, $1, 0; bar.red.popc.u32 $0, 1, 64, p;}", a)


def special_kernels():
    kernel = Kernel("special registers")
    names = [f"{r}.{d}" for r in ("tid", "ntid", "ctaid", "nctaid") for d in "xyz"]
    names += "laneid warpid nwarpid smid nsmid lanemask_eq lanemask_le lanemask_lt lanemask_ge lanemask_gt clock clock_hi globaltimer_lo globaltimer_hi dynamic_smem_size total_smem_size envreg0 pm0".split()
    for name in names:
        kernel.asm("i32", f"mov.u32 $0, %{name};")
    for name in ("gridid", "clock64", "globaltimer"):
        kernel.asm("i64", f"mov.u64 $0, %{name};")
    cluster = Kernel("cluster registers", chips=CHIPS[3:])
    for name in ("clusterid.x", "nclusterid.x", "cluster_ctaid.x", "cluster_nctaid.x", "cluster_ctarank", "cluster_nctarank"):
        cluster.asm("i32", f"mov.u32 $0, %{name};")
    for text in ("barrier.cluster.arrive", "barrier.cluster.wait", "barrier.cluster.arrive.relaxed"):
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
    kernel.asm("", "{.reg .pred p; setp.eq.s32 p, $0, 3; @p exit;}", f"i32 {kernel.load('i32', 'a')}")
    kernel.keep("float", "fadd float %x, 1.0")


def memory_kernels():
    kernel = Kernel("global widths")
    for kind in ("i8", "i16", "i32", "i64", "<2 x i32>", "<4 x i32>", "<4 x float>", "<2 x double>", "<2 x i64>", "<8 x half>", "i128"):
        kernel.store(kind, kernel.load(kind, "a", ", align 16" if "x" in kind or kind == "i128" else ""))
        if "x" not in kind and kind not in ("i64", "i128"):
            kernel.keep("i64", f"sext {kind} {kernel.load(kind, 'b')} to i64")
            kernel.keep("i64", f"zext {kind} {kernel.load(kind, 'c')} to i64")
    for kind in ("i32", "i64"):
        kernel.store(kind, kernel.load(kind, "a", ", !invariant.load !1"))
    kernel = Kernel("global hints")
    pointer = f"{G} %mine"
    cast = kernel.emit(f"ptrtoint {pointer} to i64")
    kernel.lines.append("; hints")
    for hint in ("ca", "cg", "cs", "lu", "cv", "L1::no_allocate", "L1::evict_last", "L1::evict_first", "L1::evict_unchanged", "nc", "nc.L1::no_allocate", "L2::64B", "L2::128B", "L2::256B", "nc.L2::128B",
                 "volatile", "relaxed.gpu", "relaxed.sys", "relaxed.cta", "acquire.gpu", "acquire.sys", "acquire.cta", "mmio.relaxed.sys"):
        text = f"ld.{hint}.global" if hint == "volatile" else f"ld.global.{hint}"
        text = f"ld.{hint}.global" if hint.startswith(("relaxed", "acquire", "mmio")) else text
        kernel.asm("i32", f"{text}.b32 $0, [$1];", f"i64 {cast}")
        kernel.asm("i64", f"{text}.b64 $0, [$1+8];", f"i64 {cast}")
    for hint in ("wb", "cg", "cs", "wt", "L1::no_allocate", "L1::evict_last", "volatile", "relaxed.gpu", "relaxed.sys", "release.gpu", "release.sys", "release.cta"):
        text = f"st.{hint}.global" if hint.startswith(("volatile", "relaxed", "release")) else f"st.global.{hint}"
        kernel.asm("", f"{text}.b32 [$0], $1;", f"i64 {cast}", "i32 %n")
    for text in ("prefetch.global.L1", "prefetch.global.L2", "prefetch.global.L2::evict_last", "prefetchu.L1", "applypriority.global.L2::evict_normal"):
        kernel.asm("", f"{text} [$0]{', 128' if 'apply' in text else ''};", f"i64 {cast}")
    kernel.asm("", "discard.global.L2 [$0], 128;", f"i64 {cast}")
    kernel.asm("i32", "{.reg .b64 p; createpolicy.fractional.L2::evict_last.b64 p, 0.5; ld.global.L2::cache_hint.b32 $0, [$1], p;}", f"i64 {cast}")
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
        kernel.asm("i32", f"{{.reg .pred p; isspacep.{space} p, $1; selp.b32 $0, 1, 0, p;}}", f"ptr {at}")
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
    kernel = Kernel("dynamic shared memory")
    for scale, kind in ((1, "i8"), (4, "i32"), (8, "i64"), (16, "<4 x i32>")):
        at = kernel.emit(f"getelementptr {kind}, {S} @dynamic, i32 %tid")
        kernel.run(f"store {kind} {kernel.load(kind, 'a', ', align 16')}, {S} {at}, align {scale}")
        kernel.call("void", "llvm.nvvm.barrier.cta.sync.aligned.all", ["i32 0"])
        at = kernel.emit(f"getelementptr {kind}, {S} @dynamic, i32 %n")
        kernel.keep(kind, f"load {kind}, {S} {at}, align {scale}")
    kernel = Kernel("local memory")
    for kind, count in (("i8", 64), ("i16", 32), ("i32", 32), ("i64", 16), ("<4 x i32>", 8)):
        room = kernel.emit(f"alloca [{count} x {kind}], align 16")
        for i in range(4):
            at = kernel.emit(f"getelementptr {kind}, ptr {room}, i32 {i}")
            kernel.run(f"store {kind} {kernel.load(kind, 'a', ', align 16' if '<' in kind else '')}, ptr {at}")
        index = kernel.emit(f"and i32 %n, {count - 1}")
        at = kernel.emit(f"getelementptr {kind}, ptr {room}, i32 {index}")
        kernel.run(f"store volatile {kind} {kernel.load(kind, 'b')}, ptr {at}")
        index = kernel.emit(f"and i32 %tid, {count - 1}")
        at = kernel.emit(f"getelementptr {kind}, ptr {room}, i32 {index}")
        kernel.store(kind, kernel.emit(f"load {kind}, ptr {at}"))
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
            at = base if space == "global" else kernel.emit(f"getelementptr i64, {S} @shared, i32 %tid")
            value = kernel.load(kind, "a")
            for op in ("add", "sub", "and", "or", "xor", "min", "max", "umin", "umax", "xchg"):
                kernel.keep(kind, f"atomicrmw {op} {pointer} {at}, {kind} {value} monotonic")
                kernel.emit(f"atomicrmw {op} {pointer} {at}, {kind} {value} monotonic")
            old = kernel.emit(f"cmpxchg {pointer} {at}, {kind} {value}, {kind} 5 acq_rel monotonic")
            kernel.keep(kind, f"extractvalue {{ {kind}, i1 }} {old}, 0")
            suffix = "u32" if kind == "i32" else "u64"
            if kind == "i32":
                for op in ("inc", "dec"):
                    kernel.asm(kind, f"atom.{space}.{op}.{suffix} $0, [$1], $2;", f"{'i64' if space == 'global' else 'i32'} {kernel.emit(f'ptrtoint {pointer} {at} to ' + ('i64' if space == 'global' else 'i32'))}", f"{kind} {value}")
            kernel.emit(f"atomicrmw add {pointer} {at}, {kind} 1 monotonic")
        for kind in FLOATS:
            kernel = Kernel(f"{space} atomics {kind}")
            at = base if space == "global" else kernel.emit(f"getelementptr i64, {S} @shared, i32 %tid")
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
    kernel.asm("i32", "{.reg .b16 s, t; cvt.u16.u32 s, $2; atom.global.cas.b16 t, [$1], s, s; cvt.u32.u16 $0, t;}", at, value)
    kernel.asm("", "red.global.add.u64 [$0+32], $0;", at)
    kernel.asm("", "red.global.max.s64 [$0+32], $0;", at)
    kernel.asm("", "red.global.inc.u32 [$0], 7;", at)
    modern = Kernel("vector atomics", chips=CHIPS[3:])
    number = modern.emit(f"ptrtoint {G} %mine to i64")
    a, b = modern.loads("float", "ab")
    modern.asm("", "red.global.add.v2.f32 [$0], {$1, $2};", f"i64 {number}", f"float {a}", f"float {b}")
    modern.asm("", "red.global.add.v4.f32 [$0], {$1, $2, $1, $2};", f"i64 {number}", f"float {a}", f"float {b}")
    modern.asm("i32", "atom.global.add.noftz.bf16x2 $0, [$1], $2;", f"i64 {number}", "i32 %n")
    modern.asm("i32", "atom.global.max.noftz.f16x2 $0, [$1], $2;", f"i64 {number}", "i32 %n") if False else None


def matrix_kernels():
    def registers(letter, first, count):
        return "{" + ", ".join(f"${first + i}" for i in range(count)) + "}"

    def mma(shape, types, a, b, c, kind="i32", accumulate="float", chips=CHIPS):
        kernel = Kernel(f"mma {shape} {types}", chips)
        operands = [f"i32 {kernel.load('i32', x)}" if kind == "i32" else f"{kind} {kernel.load(kind, x)}" for x in "ab"]
        start = f"{accumulate} {kernel.load(accumulate, 'c')}"
        text = f"mma.sync.aligned.{shape}.row.col.{types} "
        text += ", ".join((registers("d", 0, c), registers("a", c, a), registers("b", c + a, b), registers("c", c + a + b, c))) + ";"
        arguments = [operands[0]] * a + [operands[1]] * b + [start] * c
        result = "{ " + ", ".join([accumulate] * c) + " }"
        constraints = ",".join(["=" + LETTERS[accumulate]] * c + [LETTERS[x.split(" ")[0]] for x in arguments])
        value = kernel.emit(f'call {result} asm sideeffect "{text}", "{constraints}"({", ".join(arguments)})')
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
            text = f"ldmatrix.sync.aligned.m8n8.x{count}{transposed}.shared.b16 {{{outputs}}}, [${count}+16];"
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
    modern.asm("", "stmatrix.sync.aligned.m8n8.x4.trans.shared.b16 [$0], {$1, $1, $1, $1};", number, "i32 %n")
    modern.keep("i32", f"load i32, {S} {at}")
    kernel = Kernel("asynchronous copies")
    at = kernel.emit(f"getelementptr i128, {S} @shared, i32 %tid")
    number = f"i32 {kernel.emit(f'ptrtoint {S} {at} to i32')}"
    source = f"i64 {kernel.emit(f'ptrtoint {G} %mine to i64')}"
    for cache, size in (("ca", 4), ("ca", 8), ("ca", 16), ("cg", 16), ("cg", 16)):
        kernel.asm("", f"cp.async.{cache}.shared.global [$0+{size}], [$1+{size}], {size};", number, source)
    kernel.asm("", "cp.async.ca.shared.global.L2::128B [$0], [$1], 16;", number, source)
    kernel.asm("", "cp.async.cg.shared.global [$0], [$1], 16, $2;", number, source, "i32 %n")
    for text in ("cp.async.commit_group", "cp.async.wait_group 1", "cp.async.commit_group", "cp.async.wait_group 0", "cp.async.wait_all"):
        kernel.asm("", f"{text};")
    kernel.call("void", "llvm.nvvm.barrier.cta.sync.aligned.all", ["i32 0"])
    kernel.keep("<4 x i32>", f"load <4 x i32>, {S} {at}, align 16")


def control_kernels():
    kernel = Kernel("switch")
    value = kernel.load("i32", "a")
    cases = "\n".join(f"    i32 {i}, label %case{i}" for i in range(24))
    kernel.run(f"switch i32 {value}, label %done [\n{cases}\n  ]")
    bodies = ("add i32 {v}, 11", "mul i32 {v}, {v}", "xor i32 {v}, 77", "shl i32 {v}, 3", "sub i32 9, {v}", "udiv i32 {v}, 7")
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
    kernel.declared |= {"declare i32 @llvm.nvvm.read.ptx.sreg.tid.y()", "declare void @llvm.nvvm.barrier.cta.sync.aligned.all(i32)"}
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


GLOBALS = f"""
@shared = internal addrspace(3) global [4096 x i32] undef, align 16
@shared2 = internal addrspace(3) global [1024 x i32] undef, align 16
@dynamic = external addrspace(3) global [0 x i8], align 16
@words = internal addrspace(4) constant [64 x i32] [{", ".join(f"i32 {i * i + 1}" for i in range(64))}]
@bytes = internal addrspace(4) constant [64 x i8] [{", ".join(f"i8 {i + 1}" for i in range(64))}]
@longs = internal addrspace(4) constant [32 x i64] [{", ".join(f"i64 {i * 3 + 1}" for i in range(32))}]
@numbers = internal addrspace(4) constant [32 x float] [{", ".join(f"float {i}.5" for i in range(32))}]
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


def make():
    """Fill KERNELS."""
    for group in (integer_kernels, float_kernels, conversion_kernels, packed_kernels, bit_trick_kernels, warp_kernels, special_kernels, memory_kernels, atomic_kernels, matrix_kernels, control_kernels, tensor_kernels):
        group()


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
    offset, = struct.unpack_from("<Q", elf, 40)
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
    if sys.argv[1] == "--ptx":
        print(assembly(sys.argv[2]))
    elif sys.argv[1] == "--ir":
        print(module(sys.argv[2]))
    else:
        print(json.dumps({
            chip: {n: code.hex() for n, code in sections(cubin(chip, assembly(chip))).items()}
            for chip in sys.argv[1:]
        }))
