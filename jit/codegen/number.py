"""Conversions between element types on LLVM values.

float16 and bfloat16 are held as their bits (i16): only conversions look inside.
"""

from jit.codegen.operation import Operations
from jit.codegen.text import Value, suffix, typed, value_type
from jit.dtype import DType, dtypes


def cast(out: Operations, value: Value, source: DType, target: DType) -> Value:
    """The value converted: floats to nearest even, floats to integers toward zero and
    then modulo 2^n (through a 64-bit integer that saturates; NaN gives 0)."""
    if source is target:
        return value
    if source.is_float and source.bits == 16:
        return cast(out, widen(out, value, source), dtypes.float32, target)
    if target.is_float and target.bits == 16:
        return _to_small(out, value, source, target)
    if source.is_float and target.is_int:
        return _to_integer(out, value, target)
    if target.kind == "b":
        opcode = "fcmp une" if source.is_float else "icmp ne"
        return out.compare(opcode, value, out.constant(value, 0))
    return _converted(out, value, source, target)


def _converted(out: Operations, value: Value, source: DType, target: DType) -> Value:
    """By the one instruction there is for it."""
    found = out.convert(_opcode(source, target), value, value_type(target))
    if (source, target) == (dtypes.float64, dtypes.float32) and _may_merge(out, found):
        return out.intrinsic("arithmetic.fence", found)
    return found


def _may_merge(out: Operations, value: Value) -> bool:
    # LLVM 22 moves roundings into copysign: one to float32, then one to float16, leave a sign
    # to round from double to half at once, for which x86-64 has no instruction and calls a
    # function that is not there. Of vectors it does not. The fence costs nothing; AMDGCN has none.
    return out.function.has_fences and value.lanes == 1


def _opcode(source: DType, target: DType) -> str:
    """The instruction that converts where one is enough."""
    if target.is_float:
        if source.is_float:
            return "fpext" if target.bits > source.bits else "fptrunc"
        return "sitofp" if source.kind == "i" else "uitofp"
    if source.kind != "b" and target.bits < source.bits:
        return "trunc"
    return "sext" if source.kind == "i" else "zext"


def _to_integer(out: Operations, value: Value, target: DType) -> Value:
    # Only uint64 has values a signed 64-bit integer lacks.
    sign = "u" if target is dtypes.uint64 else "s"
    wide = Value("i64", "", value.lanes)
    name = f"llvm.fpto{sign}i.sat.{suffix(wide)}.{suffix(value)}"
    found = out.function.call(out.region, name, wide, value)
    if sign == "u":
        # Negative values are taken modulo 2^64, not clamped at 0.
        signed = out.function.call(out.region, name.replace("fptoui", "fptosi"), wide, value)
        negative = out.compare("fcmp olt", value, out.constant(value, 0.0))
        found = out.select(negative, signed, found)
    return out.convert("trunc", found, value_type(target))


def widen(out: Operations, value: Value, source: DType) -> Value:
    """A 16-bit float, given as bits, as float32. Exact."""
    if source is dtypes.float16 and not out.function.has_half:
        return _half_to_float(out, value)
    if source is dtypes.float16:
        half = out.convert("bitcast", value, "half")
        return out.convert("fpext", half, "float")
    bits = out.convert("zext", value, "i32")
    return out.convert("bitcast", out.binary("shl", bits, out.constant(bits, 16)), "float")


def _to_small(out: Operations, value: Value, source: DType, target: DType) -> Value:
    if source.is_float and source.bits == 64:
        value = _round_to_odd(out, value)
    elif source.is_int and source.bits > 16:
        value = _to_53_bits(out, value, source) if source.bits == 64 else value
        value = _round_to_odd(out, cast(out, value, source, dtypes.float64))
    else:
        value = cast(out, value, source, dtypes.float32)
    if target is dtypes.float16 and not out.function.has_half:
        return _float_to_half(out, value)
    if target is dtypes.float16:
        return out.convert("bitcast", _rounded_to_half(out, value), "i16")
    return _to_bfloat16(out, value)


def _rounded_to_half(out: Operations, value: Value) -> Value:
    if not out.function.has_mixed_products:
        return out.convert("fptrunc", value, "half")
    # LLVM 22 makes of a product and this one mixed instruction that adds +0: -0 becomes +0.
    # Not so of a rounding that says its mode.
    half = typed("half", value.lanes)
    kinds = f"{suffix(value).replace('f32', 'f16')}.{suffix(value)}"
    name = f"llvm.experimental.constrained.fptrunc.{kinds}"
    out.function.declared[name] = f"declare {half} @{name}({value.type}, metadata, metadata)"
    mode = 'metadata !"round.tonearest", metadata !"fpexcept.ignore"'
    code = f"call {half} @{name}({value}, {mode})"
    return out.function.add(out.region, "half", value.lanes, code)


def _to_53_bits(out: Operations, value: Value, source: DType) -> Value:
    """A 64-bit integer as one that float64 has exactly and that rounds to 16 bits alike.

    Of large numbers the low 11 bits become one that says whether any was set.
    """
    low = out.binary("and", value, out.constant(value, 0x7FF))
    lost = out.compare("icmp ne", low, out.constant(value, 0))
    kept = out.binary("and", value, out.constant(value, -0x800))
    marked = out.select(lost, out.binary("or", kept, out.constant(value, 0x800)), kept)
    bias = 1 << 53 if source.kind == "i" else 0
    distance = out.binary("add", value, out.constant(value, bias))
    large = out.compare("icmp ugt", distance, out.constant(value, bias + (1 << 53)))
    return out.select(large, marked, value)


def _to_bfloat16(out: Operations, value: Value) -> Value:
    bits = out.convert("bitcast", value, "i32")
    sixteen = out.constant(bits, 16)
    high = out.binary("lshr", bits, sixteen)
    odd = out.binary("and", high, out.constant(bits, 1))
    bias = out.binary("add", odd, out.constant(bits, 0x7FFF))
    rounded = out.binary("lshr", out.binary("add", bits, bias), sixteen)
    quiet = out.binary("or", high, out.constant(bits, 0x40))
    nan = out.compare("fcmp uno", value, value)
    return out.convert("trunc", out.select(nan, quiet, rounded), "i16")


def _round_to_odd(out: Operations, value: Value) -> Value:
    """float64 to float32 so that a second rounding to 16 bits is as if it were the only one.

    Truncated, with the last bit set if anything was lost.
    """
    narrow = out.convert("fptrunc", value, "float")
    back = out.convert("fpext", narrow, "double")
    inexact = out.compare("fcmp one", back, value)
    larger = out.compare("fcmp ogt", out.intrinsic("fabs", back), out.intrinsic("fabs", value))
    bits = out.convert("bitcast", narrow, "i32")
    down = out.binary("sub", bits, out.convert("zext", larger, "i32"))
    last = out.convert("zext", inexact, "i32")
    return out.convert("bitcast", out.binary("or", down, last), "float")


def _half_to_float(out: Operations, value: Value) -> Value:
    """float16 bits to float32 with integers: exponents moved by a multiplication."""
    bits = out.convert("zext", value, "i32")
    magnitude = out.binary("and", bits, out.constant(bits, 0x7FFF))
    sign = out.binary("shl", out.binary("xor", bits, magnitude), out.constant(bits, 16))
    moved = out.binary("shl", magnitude, out.constant(bits, 13))
    number = out.convert("bitcast", moved, "float")
    number = out.binary("fmul", number, out.constant(number, 2.0**112))
    special = out.binary("or", moved, out.constant(bits, 0x7F800000))
    finite = out.compare("icmp ult", magnitude, out.constant(bits, 0x7C00))
    found = out.select(finite, out.convert("bitcast", number, "i32"), special)
    return out.convert("bitcast", out.binary("or", found, sign), "float")


def _float_to_half(out: Operations, value: Value) -> Value:
    """float32 to float16 bits with integers, to nearest even."""
    bits = out.convert("bitcast", value, "i32")
    magnitude = out.binary("and", bits, out.constant(bits, 0x7FFFFFFF))
    sign = out.binary("lshr", out.binary("xor", bits, magnitude), out.constant(bits, 16))
    odd = out.binary("lshr", magnitude, out.constant(bits, 13))
    odd = out.binary("and", odd, out.constant(bits, 1))
    # Normal: round at bit 13 and move the exponent by 112.
    bias = out.binary("add", odd, out.constant(bits, 0xFFF - (112 << 23)))
    normal = out.binary("add", magnitude, bias)
    normal = out.binary("lshr", normal, out.constant(bits, 13))
    # Subnormal: beside 0.5 the last bit is worth 2^-24, as a float16's is.
    small = out.convert("bitcast", magnitude, "float")
    small = out.binary("fadd", small, out.constant(small, 0.5))
    tiny = out.convert("bitcast", small, "i32")
    tiny = out.binary("sub", tiny, out.constant(bits, 0x3F000000))
    is_tiny = out.compare("icmp ult", magnitude, out.constant(bits, 0x38800000))
    found = out.select(is_tiny, tiny, normal)
    is_large = out.compare("icmp uge", magnitude, out.constant(bits, 0x47800000))
    found = out.select(is_large, out.constant(bits, 0x7C00), found)
    is_nan = out.compare("icmp ugt", magnitude, out.constant(bits, 0x7F800000))
    found = out.select(is_nan, out.constant(bits, 0x7E00), found)
    return out.convert("trunc", out.binary("or", found, sign), "i16")


def to_memory(out: Operations, value: Value, dtype: DType) -> Value:
    """A register value as it is stored: bool as a byte."""
    return out.convert("zext", value, "i8") if dtype.kind == "b" else value


def from_memory(out: Operations, value: Value, dtype: DType) -> Value:
    """A loaded value as it is used: any byte but 0 is true."""
    if dtype.kind != "b":
        return value
    return out.compare("icmp ne", value, out.constant(value, 0))


def bitcast(out: Operations, value: Value, source: DType, target: DType) -> Value:
    """The same bits as another type."""
    if target.kind == "b":
        return out.compare("icmp ne", value, out.constant(value, 0))
    if source.kind == "b":
        value = out.convert("zext", value, "i8")
    if value.element == value_type(target):
        return value
    code = f"bitcast {value} to {typed(value_type(target), value.lanes)}"
    return out.function.add(out.region, value_type(target), value.lanes, code)
