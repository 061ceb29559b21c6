"""Kernels that compute one result per thread, each with its numpy meaning."""

import numpy as np

INTEGERS = {"i8": (np.int8, np.uint8), "i16": (np.int16, np.uint16), "i32": (np.int32, np.uint32),
            "i64": (np.int64, np.uint64)}  # fmt: skip
FLOATS = {"half": np.float16, "float": np.float32, "double": np.float64}
MANGLED = {"half": "f16", "float": "f32", "double": "f64", "bfloat": "bf16"}
COUNT = 96
G = "ptr addrspace(1)"


class Case:
    """A kernel: LLVM body over %a, %b, %c (of type `kind`) making %r (of type `result`)."""

    def __init__(self, name, kind, result, body, meaning, inputs, declares=()):
        self.name = name.replace(".", "_")
        self.kind, self.result, self.body = kind, result, body
        self.meaning, self.inputs, self.declares = meaning, inputs, declares

    def text(self):
        loads = "\n".join(
            f"  %p{x} = getelementptr {self.kind}, {G} %g{x}, i64 %i\n"
            f"  %{x} = load {self.kind}, {G} %p{x}"
            for x in "abc"
        )
        return f"""
define ptx_kernel void @{self.name}(
    {G} noalias %o, {G} noalias %ga, {G} noalias %gb, {G} noalias %gc) #0 {{
  %t = call i32 @llvm.nvvm.read.ptx.sreg.tid.x()
  %i = zext i32 %t to i64
{loads}
{self.body}
  %po = getelementptr {self.result}, {G} %o, i64 %i
  store {self.result} %r, {G} %po
  ret void
}}"""

    def expected(self):
        with np.errstate(all="ignore"):
            return self.meaning(*self.inputs)


def module(cases):
    declared = {d for case in cases for d in case.declares}
    return "\n".join([
        "declare i32 @llvm.nvvm.read.ptx.sreg.tid.x()", *sorted(declared),
        *(case.text() for case in cases), 'attributes #0 = { "nvvm.maxntid"="96,1,1" }',
    ])  # fmt: skip


def whole_numbers(rng, dtype):
    """Random bits with small numbers and edges among them."""
    info = np.iinfo(dtype)
    values = rng.integers(info.min, info.max, COUNT, dtype=dtype, endpoint=True)
    values[:8] = [0, 1, 2, 7, info.max, info.min, info.max - 1, 3]
    values[8:32] = rng.integers(0, 20, 24)
    rng.shuffle(values)
    return values


def reals(rng, dtype):
    """Numbers of many sizes, zeros, infinities, NaN and denormals."""
    values = (rng.standard_normal(COUNT) * 2.0 ** rng.integers(-6, 7, COUNT)).astype(dtype)
    tiny = np.finfo(dtype).smallest_subnormal
    special = [0.0, -0.0, np.inf, -np.inf, np.nan, 1.0, -1.0, 0.5, -2.5, 3.5, tiny, -tiny * 3]
    values[: len(special)] = special
    rng.shuffle(values)
    return values


def _inputs(seed, make, dtype):
    rng = np.random.default_rng(seed)
    return [make(rng, dtype) for _ in range(3)]


def _truncated(a, b):
    """Integer division toward zero; the quotient of the two extremes wraps."""
    wide = [np.array(x, dtype=object) for x in (a, b)]
    signs = [1 if (x < 0) == (y < 0) else -1 for x, y in zip(*wide, strict=True)]
    return np.array([s * (abs(x) // abs(y)) for s, x, y in zip(signs, *wide, strict=True)], object)


def _wrapped(values, dtype):
    mask = (1 << 8 * np.dtype(dtype).itemsize) - 1
    raw = np.array([int(v) & mask for v in values], np.uint64)
    return raw.astype(np.dtype(dtype).str.replace("i", "u")).view(dtype)


def integer_cases():
    for at, (kind, (signed, unsigned)) in enumerate(INTEGERS.items()):
        bits = int(kind[1:])
        a, b, c = _inputs(at, whole_numbers, unsigned)
        counts = b & unsigned(bits - 1)
        low = f"  %n = and {kind} %b, {bits - 1}\n"

        def case(name, body, meaning, inputs, result=kind, declares=(), kind=kind):
            return Case(f"{kind}_{name}", kind, result, body, meaning, inputs, declares)

        plain = {"add": np.add, "sub": np.subtract, "mul": np.multiply, "and": np.bitwise_and,
                 "or": np.bitwise_or, "xor": np.bitwise_xor}  # fmt: skip
        for name, function in plain.items():
            yield case(name, f"  %r = {name} {kind} %a, %b", lambda a, b, c, f=function: f(a, b),
                       (a, b, c))  # fmt: skip
        yield case("shl", f"{low}  %r = shl {kind} %a, %n", lambda a, n, c: a << n, (a, counts, c))
        yield case("lshr", f"{low}  %r = lshr {kind} %a, %n", lambda a, n, c: a >> n,
                   (a, counts, c))  # fmt: skip
        yield case("ashr", f"{low}  %r = ashr {kind} %a, %n",
                   lambda a, n, c, s=signed: a.view(s) >> n.view(s), (a, counts, c))  # fmt: skip
        safe = np.where(b == 0, unsigned(3), b)
        for name in ("udiv", "urem"):
            function = np.floor_divide if name == "udiv" else np.remainder
            yield case(name, f"  %r = {name} {kind} %a, %b",
                       lambda a, b, c, f=function: f(a, b), (a, safe, c))  # fmt: skip
        yield case("sdiv", f"  %r = sdiv {kind} %a, %b",
                   lambda a, b, c, s=signed: _wrapped(_truncated(a.view(s), b.view(s)), s),
                   (a, np.where(safe.view(signed) == -1, unsigned(5), safe), c))  # fmt: skip
        yield case("srem", f"  %r = srem {kind} %a, %b",
                   lambda a, b, c, s=signed: np.fmod(a.view(s), b.view(s)),
                   (a, np.where(safe.view(signed) == -1, unsigned(5), safe), c))  # fmt: skip
        yield case("by7", f"  %r = sdiv {kind} %a, 7",
                   lambda a, b, c, s=signed: _wrapped(
                       _truncated(a.view(s), np.full_like(a, 7)), s),
                   (a, b, c))  # fmt: skip
        for name, function in (("smin", np.minimum), ("smax", np.maximum), ("umin", np.minimum),
                               ("umax", np.maximum)):  # fmt: skip
            view = signed if name[0] == "s" else unsigned
            yield case(
                name, f"  %r = call {kind} @llvm.{name}.{kind}({kind} %a, {kind} %b)",
                lambda a, b, c, f=function, v=view: f(a.view(v), b.view(v)), (a, b, c),
                declares=(f"declare {kind} @llvm.{name}.{kind}({kind}, {kind})",),
            )  # fmt: skip
        for name, function, view in (("slt", np.less, signed), ("ult", np.less, unsigned),
                                     ("sge", np.greater_equal, signed),
                                     ("eq", np.equal, unsigned)):  # fmt: skip
            yield case(
                f"select_{name}",
                f"  %f = icmp {name} {kind} %a, %b\n  %r = select i1 %f, {kind} %b, {kind} %c",
                lambda a, b, c, f=function, v=view: np.where(f(a.view(v), b.view(v)), b, c),
                (a, np.where(np.arange(COUNT) % 5 == 0, a, b), c),
            )  # fmt: skip
        for name, function in (("ctpop", lambda n, w: n.bit_count()),
                               ("ctlz", lambda n, w: w - n.bit_length()),
                               ("bitreverse", lambda n, w: int(f"{n:0{w}b}"[::-1], 2)),
                               ):  # fmt: skip
            extra = (", i1 false", ", i1") if name == "ctlz" else ("", "")
            yield case(
                name, f"  %r = call {kind} @llvm.{name}.{kind}({kind} %a{extra[0]})",
                lambda a, b, c, f=function, w=bits, u=unsigned: np.array(
                    [f(int(n), w) for n in a], u),
                (a, b, c), declares=(f"declare {kind} @llvm.{name}.{kind}({kind}{extra[1]})",),
            )  # fmt: skip


def _fma(a, b, c):
    wide = np.longdouble
    return (a.astype(wide) * b.astype(wide) + c.astype(wide)).astype(a.dtype)


def _signed_zeros(function, a, b):
    """fmin or fmax with -0 below +0."""
    result = function(a, b)
    zeros = (a == 0) & (b == 0)
    signs = [np.signbit(a), np.signbit(b)]
    minus = signs[0] | signs[1] if function is np.fmin else signs[0] & signs[1]
    return np.where(zeros, np.where(minus, -0.0, 0.0).astype(a.dtype), result)


def float_cases():
    for at, (kind, dtype) in enumerate(FLOATS.items()):
        a, b, c = _inputs(10 + at, reals, dtype)
        t = MANGLED[kind]

        def case(name, body, meaning, declares=(), result=kind, kind=kind, abc=(a, b, c)):
            return Case(f"{kind}_{name}", kind, result, body, meaning, abc, declares)

        binary = {"fadd": np.add, "fsub": np.subtract, "fmul": np.multiply, "fdiv": np.divide}
        for name, function in binary.items():
            yield case(name, f"  %r = {name} {kind} %a, %b",
                       lambda a, b, c, f=function: f(a, b))  # fmt: skip
        yield case("fneg", f"  %r = fneg {kind} %a", lambda a, b, c: -a)
        unary = {"floor": np.floor, "ceil": np.ceil, "trunc": np.trunc, "rint": np.rint,
                 "fabs": np.abs, "sqrt": np.sqrt}  # fmt: skip
        for name, function in unary.items():
            yield case(name, f"  %r = call {kind} @llvm.{name}.{t}({kind} %a)",
                       lambda a, b, c, f=function: f(a),
                       (f"declare {kind} @llvm.{name}.{t}({kind})",))  # fmt: skip
        for name, function in (("minnum", np.fmin), ("maxnum", np.fmax)):
            yield case(name, f"  %r = call {kind} @llvm.{name}.{t}({kind} %a, {kind} %b)",
                       lambda a, b, c, f=function: _signed_zeros(f, a, b),
                       (f"declare {kind} @llvm.{name}.{t}({kind}, {kind})",))  # fmt: skip
        yield case("fma", f"  %r = call {kind} @llvm.fma.{t}({kind} %a, {kind} %b, {kind} %c)",
                   lambda a, b, c: _fma(a, b, c),
                   (f"declare {kind} @llvm.fma.{t}({kind}, {kind}, {kind})",))  # fmt: skip
        for name, function in (("olt", lambda a, b: a < b), ("une", lambda a, b: a != b),
                               ("ueq", lambda a, b: ~((a < b) | (a > b))),
                               ("oge", lambda a, b: a >= b)):  # fmt: skip
            yield case(
                f"select_{name}",
                f"  %f = fcmp {name} {kind} %a, %b\n  %r = select i1 %f, i32 7, i32 9",
                lambda a, b, c, f=function: np.where(f(a, b), 7, 9).astype(np.uint32),
                result="i32",
            )  # fmt: skip


def _to_integer(values, dtype):
    info = np.iinfo(dtype)
    wide = np.trunc(values.astype(np.float64))
    out = []
    for value in wide:
        if np.isnan(value):
            out.append(0)
        else:
            out.append(min(max(int(value) if np.isfinite(value) else (
                info.max if value > 0 else info.min), info.min), info.max))  # fmt: skip
    return np.array(out, dtype)


def conversion_cases():
    for at, (kind, (signed, unsigned)) in enumerate(INTEGERS.items()):
        a, b, c = _inputs(20 + at, whole_numbers, unsigned)
        for target, dtype in FLOATS.items():
            for name, view in (("sitofp", signed), ("uitofp", unsigned)):
                yield Case(
                    f"{kind}_{name}_{target}", kind, target, f"  %r = {name} {kind} %a to {target}",
                    lambda a, b, c, v=view, d=dtype: a.view(v).astype(d), (a, b, c),
                )  # fmt: skip
        for target, (wide, _) in INTEGERS.items():
            if int(target[1:]) > int(kind[1:]):
                yield Case(
                    f"{kind}_sext_{target}", kind, target, f"  %r = sext {kind} %a to {target}",
                    lambda a, b, c, v=signed, d=wide: a.view(v).astype(d), (a, b, c),
                )  # fmt: skip
    for at, (kind, dtype) in enumerate(FLOATS.items()):
        rng = np.random.default_rng(30 + at)
        a = reals(rng, dtype)
        tame = np.where(np.isfinite(a), np.clip(a, -100, 100), dtype(3))
        for target, (signed, _) in INTEGERS.items():
            values = tame if target in ("i8", "i16") else np.where(np.isnan(a), dtype(1), a)
            yield Case(
                f"{kind}_fptosi_{target}", kind, target, f"  %r = fptosi {kind} %a to {target}",
                lambda a, b, c, d=signed: _to_integer(a, d), (values, values, values),
            )  # fmt: skip
        for target, other in FLOATS.items():
            if other != dtype:
                word = "fpext" if np.dtype(other).itemsize > np.dtype(dtype).itemsize else "fptrunc"
                yield Case(
                    f"{kind}_{word}_{target}", kind, target, f"  %r = {word} {kind} %a to {target}",
                    lambda a, b, c, d=other: a.astype(d), (a, a, a),
                )  # fmt: skip


def brain(values):
    """Singles rounded to bfloat16, as bits."""
    raw = np.asarray(values, np.float32).view(np.uint32).astype(np.uint64)
    rounded = ((raw + 0x7FFF + (raw >> 16 & 1)) >> 16).astype(np.uint16)
    return np.where(np.isnan(values), 0x7FFF, rounded).astype(np.uint16)


def brain_cases():
    rng = np.random.default_rng(40)
    a, b, c = (brain(reals(rng, np.float32)) for _ in range(3))

    def wide(x):
        return (x.astype(np.uint32) << 16).view(np.float32)

    for name, function in (("fadd", np.add), ("fmul", np.multiply), ("fsub", np.subtract)):
        yield Case(
            f"bfloat_{name}", "bfloat", "bfloat", f"  %r = {name} bfloat %a, %b",
            lambda a, b, c, f=function: brain(f(wide(a), wide(b))), (a, b, c),
        )  # fmt: skip
    yield Case(
        "bfloat_to_float", "bfloat", "float", "  %r = fpext bfloat %a to float",
        lambda a, b, c: wide(a), (a, b, c),
    )  # fmt: skip
    x = reals(rng, np.float32)
    yield Case(
        "float_to_bfloat", "float", "bfloat", "  %r = fptrunc float %a to bfloat",
        lambda a, b, c: brain(a), (x, x, x),
    )  # fmt: skip


def cases():
    """Every case."""
    return [*integer_cases(), *float_cases(), *conversion_cases(), *brain_cases()]
