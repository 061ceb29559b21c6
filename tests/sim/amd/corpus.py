"""Compiles small kernels for gfx1100 and prints their machine code as JSON.

A program of its own, because LLVM ends the process when it cannot select something:
`python tests/sim/amd/corpus.py [features]` prints {kernel name: code as hex}.
"""

import json
import sys

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
ATOMIC_OPS = ("add", "sub", "and", "or", "xor", "min", "max", "umin", "umax", "xchg")
MANGLED = {"half": "f16", "float": "f32", "double": "f64", "bfloat": "bf16"}
G = "ptr addrspace(1)"
L = "ptr addrspace(3)"


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


class Kernel:
    """The text of one kernel: values are pushed into a body, results stored one by one."""

    def __init__(self, name, scalar=False, attributes=""):
        self.name = name
        self.attributes = attributes
        self.scalar = scalar
        self.lines = []
        self.declared = set()
        self.outputs = 0

    def emit(self, text):
        """Add an instruction that makes a value; gives its name."""
        name = f"%v{len(self.lines)}"
        self.lines.append(f"{name} = {text}")
        return name

    def run(self, text):
        """Add an instruction without a value."""
        self.lines.append(text)

    def call(self, result, function, arguments, metadata=""):
        """Call an intrinsic, declaring it: arguments are 'type value' texts."""
        types = ", ".join(a.rsplit(" ", 1)[0] for a in arguments)
        self.declared.add(f"declare {result} @{function}({types.replace('immarg', '')})")
        text = f"call {result} @{function}({', '.join(arguments)}){metadata}"
        return self.run(text) if result == "void" else self.emit(text)

    def load(self, kind, pointer):
        """Load element number `lane` (or 0 in scalar kernels) of an argument."""
        index = "0" if self.scalar else "%lane"
        space = 4 if self.scalar else 1
        step = self.emit(f"getelementptr {kind}, ptr addrspace({space}) {pointer}, i32 {index}")
        return self.emit(f"load {kind}, ptr addrspace({space}) {step}")

    def store(self, kind, value):
        """Store a result where nothing else is."""
        self.outputs += 1
        at = self.emit(f"getelementptr i8, {G} %out, i32 %byte")
        at = self.emit(f"getelementptr i8, {G} {at}, i64 {4096 * self.outputs}")
        self.run(f"store {kind} {value}, {G} {at}")

    def text(self):
        """The module."""
        calls = "\n".join(sorted(self.declared))
        body = "\n  ".join(self.lines)
        space = 4 if self.scalar else 1
        pointer = f"ptr addrspace({space}) noalias readonly"
        return f"""
declare i32 @llvm.amdgcn.workitem.id.x()
{calls}
@lds = internal addrspace(3) global [1024 x i32] poison, align 16
define amdgpu_kernel void @k({G} noalias %out, {pointer} %a, {pointer} %b, {pointer} %c,
    i32 %n, i64 %wide, float %x) #0 {{
  %lane = call i32 @llvm.amdgcn.workitem.id.x()
  %byte = shl i32 %lane, 4
  {body}
  ret void
}}
attributes #0 = {{ "amdgpu-flat-work-group-size"="1,256" "amdgpu-no-dispatch-ptr"
  "amdgpu-no-queue-ptr" "amdgpu-no-dispatch-id" "amdgpu-no-implicitarg-ptr"
  "amdgpu-no-workitem-id-y" "amdgpu-no-workitem-id-z" {self.attributes} }}
!0 = !{{}}
"""


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


def indexed():
    """Registers chosen by a number that is known only when the kernel runs."""
    kernel = Kernel("indexed")
    kind = "<16 x i32>"
    vector = kernel.load(kind, "%a")
    kernel.store("i32", kernel.emit(f"extractelement {kind} {vector}, i32 %n"))
    kernel.store(kind, kernel.emit(f"insertelement {kind} {vector}, i32 %lane, i32 %n"))
    return kernel


def flushed():
    """Arithmetic without denormals; a division keeps them for a while."""
    flush = '"denormal-fp-math-f32"="preserve-sign,preserve-sign"'
    kernel = Kernel("flushed", attributes=flush)
    a, b = (kernel.load("float", p) for p in ("%a", "%b"))
    for op in FLOAT_OPS:
        kernel.store("float", kernel.emit(f"{op} float {a}, {b}"))
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


def control():
    """Divergent and uniform loops, branches and barriers; ends with a call-free reduction."""
    kernel = Kernel("control")
    kernel.lines = CONTROL.splitlines()
    kernel.declared.add("declare void @llvm.amdgcn.s.barrier()")
    return kernel


def kernels(wave_size):
    """Every kernel of the corpus."""
    yield from (integers(kind, False) for kind in ("i8", "i16", "i32", "i64"))
    yield from (integers(kind, True) for kind in ("i16", "i32", "i64"))
    yield from (floats(kind) for kind in ("half", "float", "double", "bfloat"))
    yield from (conversions(kind) for kind in ("half", "float", "double"))
    spaces = ((0, "flat"), (1, "global"), (3, "lds"), (5, "scratch"))
    yield from (memory(space, label) for space, label in spaces)
    yield from (packed(), special(), lanes(wave_size), buffers(), control())
    yield from (matrix(wave_size), indexed(), flushed(), counters())


def compile_text(text, machine):
    """The .text section of one module."""
    import io

    from elftools.elf.elffile import ELFFile
    from llvmlite import binding

    module = binding.parse_assembly(text)
    module.triple = "amdgcn-amd-amdhsa"
    module.data_layout = str(machine.target_data)
    module.verify()
    return ELFFile(io.BytesIO(machine.emit_object(module))).get_section_by_name(".text").data()


def main(features=""):
    """Compile everything and print it."""
    from llvmlite import binding

    binding.initialize_all_targets()
    binding.initialize_all_asmprinters()
    target = binding.Target.from_triple("amdgcn-amd-amdhsa")
    machine = target.create_target_machine(
        cpu="gfx1100", features=features, opt=3, reloc="pic", codemodel="small"
    )
    found = {}
    for kernel in kernels(64 if "wavefrontsize64" in features else 32):
        sys.stderr.write(f"{kernel.name}\n")  # the last one is what LLVM died of
        found[kernel.name] = compile_text(kernel.text(), machine).hex()
    json.dump(found, sys.stdout)


if __name__ == "__main__":
    main(*sys.argv[1:])
