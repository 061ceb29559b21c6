"""Emitted code computes what numpy computes, bit for bit: every operation of every type."""

import ctypes

import numpy as np
import pytest

from hcq.errors import SimFault
from sim.isa.emitter import Emitter
from sim.isa.jit import Jit
from sim.isa.llvm_value import LlvmValue, llvm_type
from sim.isa.numpy_value import NumpyValue, dtype_of
from sim.isa.value import (
    BOOL,
    F16,
    F32,
    F64,
    I8,
    I16,
    I32,
    I64,
    U8,
    U16,
    U32,
    U64,
    constant,
    fma,
    lane_id,
    unballot,
    where,
)

INTEGERS = (U8, U16, U32, U64, I8, I16, I32, I64)
FLOATS = (F16, F32, F64)
WIDTH = 32
ROUNDS = 64  # vectors of random data per case

ARITHMETIC = {
    "add": lambda a, b: a + b,
    "subtract": lambda a, b: a - b,
    "multiply": lambda a, b: a * b,
}
INTEGER = {
    **ARITHMETIC,
    "and": lambda a, b: a & b,
    "or": lambda a, b: a | b,
    "xor": lambda a, b: a ^ b,
    "left": lambda a, b: a << (b & (a.type.bits - 1)),
    "right": lambda a, b: a >> (b & (a.type.bits - 1)),
    "invert": lambda a, _: ~a,
    "minus": lambda a, _: -a,
    "popcount": lambda a, _: a.popcount(),
    "leading": lambda a, _: a.leading_zeros(),
    "trailing": lambda a, _: a.trailing_zeros(),
    "reverse": lambda a, _: a.reverse_bits(),
    "uniform": lambda a, b: a + b.lane(5) * 3,
    "rotate": lambda a, _: a.take([(lane + 1) % WIDTH for lane in range(WIDTH)]),
}
FLOAT = {
    **ARITHMETIC,
    "divide": lambda a, b: a / b,
    "fused": lambda a, b: fma(a, b, a),
    "fused_small": lambda a, b: fma(a, b, b.negate()),
    "negate": lambda a, _: a.negate(),
    "absolute": lambda a, _: a.absolute(),
    "sqrt": lambda a, _: a.sqrt(),
    "floor": lambda a, _: a.floor(),
    "ceil": lambda a, _: a.ceil(),
    "truncate": lambda a, _: a.truncate(),
    "even": lambda a, _: a.round_even(),
    "constant": lambda a, _: a * 1.5 + constant(a, a.type, 65536.0),
}
COMPARE = {
    "equal": lambda a, b: a == b,
    "unequal": lambda a, b: a != b,
    "less": lambda a, b: a < b,
    "at_most": lambda a, b: a <= b,
    "more": lambda a, b: a > b,
    "at_least": lambda a, b: a >= b,
}
LANES = {
    "lane_id": lambda a, _: lane_id(a),
    "gather": lambda a, b: a.take(b),
    "lane": lambda a, b: a + a.lane(b.lane(0)),
    "ballot": lambda a, b: (a < b).ballot() + lane_id(a),
    "unballot": lambda a, b: where(unballot(a.lane(0)), a, b),
    "pair": lambda a, b: (a.to(U64) | (b.to(U64) << 32)) << 7,
    "pair_high": lambda a, b: ((a.to(U64) | (b.to(U64) << 32)) << 3 >> 32).to(U32),
}


def cases():
    for kind in INTEGERS:
        for name, function in INTEGER.items():
            yield f"{name}_{kind}", kind, function
    for kind in FLOATS:
        for name, function in FLOAT.items():
            yield f"{name}_{kind}", kind, function
        yield f"is_nan_{kind}", kind, lambda a, b: where(a.is_nan(), b, a)
    for kind in (*INTEGERS, *FLOATS):
        for name, function in COMPARE.items():
            yield f"{name}_{kind}", kind, lambda a, b, f=function: where(f(a, b), a, b)
        for target in (*INTEGERS, *FLOATS):
            yield f"{kind}_to_{target}", kind, lambda a, _, t=target: a.to(t)
        yield f"{kind}_to_mask", kind, lambda a, b: where(a.to(BOOL), a, b)
        yield f"mask_to_{kind}", kind, lambda a, b: (a < b).to(a.type)
    for name, function in LANES.items():
        yield name, U32, function


CASES = {name: (kind, function) for name, kind, function in cases()}


def emitted(name, kind, function):
    """A function (a, b, result) over vectors, and the type of its result."""
    emitter = Emitter(WIDTH)
    vector = llvm_type(kind, WIDTH)
    result = function(
        LlvmValue(emitter, kind, "%a", True), LlvmValue(emitter, kind, "%b", True)
    ).spread()
    body = "\n".join([*emitter.slots, *emitter.lines])
    text = f"""
define void @{name}(ptr %pa, ptr %pb, ptr %pr) {{
  %a = load {vector}, ptr %pa, align 1
  %b = load {vector}, ptr %pb, align 1
{body}
  store {result.kind} {result.text}, ptr %pr, align 1
  ret void
}}"""
    return text, emitter.declarations


@pytest.fixture(scope="module")
def functions(tmp_path_factory):
    texts, declarations = [], set()
    for name, (kind, function) in CASES.items():
        text, needed = emitted(f"value_{name}", kind, function)
        texts.append(text)
        declarations |= needed
    jit = Jit(str(tmp_path_factory.mktemp("values")))
    names = [f"value_{name}" for name in CASES]
    addresses = jit.load("values", lambda: "\n".join([*texts, *sorted(declarations)]), names)
    prototype = ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * 3)
    return {name: prototype(address) for name, address in zip(CASES, addresses, strict=True)}


def operands(kind, seed):
    """Random bits, with the values that are special for the type mixed in."""
    rng = np.random.default_rng(seed)
    raw = rng.integers(0, 256, WIDTH * kind.bits // 8, dtype=np.uint8)
    data = raw.view(dtype_of(kind.unsigned)).copy()
    special = [0, 1, (1 << kind.bits) - 1, 1 << (kind.bits - 1), (1 << (kind.bits - 1)) - 1]
    if kind.kind == "f":
        with np.errstate(all="ignore"):
            numbers = np.array(
                [0.5, 1.5, 2.5, -0.5, 1e9, -1e9, 65519.0, 65520.0, 3e38, np.inf, -np.inf, np.nan,
                 2.0**31, 2.0**63, -(2.0**63), 1e-41, 6e-8, 2.98e-8, 1.0 + 2.0**-11]
            ).astype(dtype_of(kind))  # fmt: skip
        special += numbers.view(dtype_of(kind.unsigned)).tolist()
    chosen = rng.random(WIDTH) < 0.5
    data[chosen] = rng.choice(np.array(special, dtype=data.dtype), int(chosen.sum()))
    return data.view(dtype_of(kind))


@pytest.mark.parametrize("name", CASES)
def test_emitted_code_agrees_with_numpy(functions, name):
    kind, function = CASES[name]
    for seed in range(ROUNDS):
        a, b = operands(kind, 2 * seed), operands(kind, 2 * seed + 1)
        expected = function(NumpyValue(kind, a, WIDTH), NumpyValue(kind, b, WIDTH)).spread()
        found = np.empty(WIDTH, dtype=expected.dtype)
        functions[name](a.ctypes.data, b.ctypes.data, found.ctypes.data)
        assert found.tobytes() == np.ascontiguousarray(expected).tobytes(), (a, b, found, expected)


@pytest.mark.refusal
def test_bits_of_a_float_are_not_added_with_or():
    value = LlvmValue(Emitter(WIDTH), F32, "%a", True)
    with pytest.raises(SimFault, match="or is not defined for f32 values"):
        value | value


@pytest.mark.refusal
def test_values_of_two_engines_do_not_mix():
    value = LlvmValue(Emitter(WIDTH), U32, "%a", True)
    with pytest.raises(TypeError, match="two engines"):
        value + NumpyValue.uniform(U32, 1)


def test_constants_are_folded():
    emitter = Emitter(WIDTH)
    value = LlvmValue(emitter, U32, "6", False)
    assert (((value & 3) << 4) + 1).text == "33"
    assert emitter.lines == []


def test_the_same_instruction_is_emitted_once():
    emitter = Emitter(WIDTH)
    value = LlvmValue(emitter, U32, "%a", True)
    assert (value + value).text == (value + value).text
    assert len(emitter.lines) == 1
