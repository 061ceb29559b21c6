"""x86-64 code against numpy: every operation, every plan, shapes that do not divide."""

import subprocess
import sys

import numpy as np
import pytest
from kernel_maker import (
    Maker,
    elementwise,
    host_levels,
    matmul,
    reduction,
    run_native,
    run_oracle,
)

from hcq.errors import CompileError
from jit.codegen.cpu import LEVELS
from jit.compile import renderer
from jit.dtype import ALL, dtypes
from jit.kernel import Pool
from runtime.fallback.cpu_object import check_object

RANDOM = np.random.default_rng(7)
INTEGERS = [t for t in ALL.values() if t.is_int]
FLOATS = [dtypes.float32, dtypes.float64]


def levels():
    known = host_levels()
    return [
        pytest.param(level, marks=[] if level in known else pytest.mark.skip("not executed here"))
        for level in LEVELS
    ]


def floats(count, dtype=np.float32):
    return RANDOM.uniform(-2, 2, count).astype(dtype)


def integers(dtype, count):
    info = np.iinfo(dtype.numpy)
    edges = [info.min, info.max, 0, 1, 2, 3, info.max - 1]
    if info.min < 0:
        edges += [-1, -2, info.min + 1]
    some = RANDOM.integers(info.min, info.max, count, dtype=dtype.numpy, endpoint=True)
    some[: len(edges)] = edges
    return RANDOM.permutation(some)


@pytest.mark.parametrize("level", levels())
@pytest.mark.parametrize("count", [1, 3, 16, 67, 1031])
def test_an_elementwise_kernel_of_any_size(level, count):
    a, b = floats(count), floats(count)
    kernel = elementwise("add", dtypes.float32, dtypes.float32, count, 2)
    out, *_ = run_native(kernel, [np.zeros(count, np.float32), a, b], level)
    assert np.array_equal(out, a + b)


@pytest.mark.parametrize("level", levels())
@pytest.mark.parametrize("count", [5, 64, 1031, 50021])
def test_an_update_in_place_reads_every_element_before_it_is_written(level, count):
    m = Maker()
    i = m.axis(0)
    value = m.load(0, dtypes.float32, i) * 2.0 + m.load(1, dtypes.float32, i)
    kernel = m.kernel([(dtypes.float32, count)] * 2, [count], [(0, i, value)])
    a, b = floats(count), floats(count)
    assert np.array_equal(run_native(kernel, [a, b], level)[0], a * 2 + b)


def test_both_values_of_two_updates_are_from_before():
    count = 1031
    m = Maker()
    i = m.axis(0)
    a, b = m.load(0, dtypes.float32, i), m.load(1, dtypes.float32, i)
    kernel = m.kernel([(dtypes.float32, count)] * 2, [count], [(0, i, a + b), (1, i, a - b)])
    x, y = floats(count), floats(count)
    first, second = run_native(kernel, [x, y])
    assert np.array_equal(first, x + y)
    assert np.array_equal(second, x - y)


@pytest.mark.parametrize("level", levels())
def test_a_value_beside_an_update_is_from_before_too(level):
    # Tiles overlap at the ragged end; the second value must not see what the first one stored.
    count = 50021
    m = Maker()
    i = m.axis(0)
    a = m.load(0, dtypes.float32, i)
    kernel = m.kernel([(dtypes.float32, count)] * 2, [count], [(0, i, a * 2.0), (1, i, a + 1.0)])
    x = floats(count)
    first, second = run_native(kernel, [x, np.zeros_like(x)], level)
    assert np.array_equal(first, x * 2)
    assert np.array_equal(second, x + 1)


BINARY = ["add", "sub", "mul", "idiv", "mod", "max", "min", "and", "or", "xor", "lt", "eq", "ne"]


@pytest.mark.parametrize("dtype", INTEGERS, ids=lambda t: t.name)
@pytest.mark.parametrize("op", BINARY)
def test_integer_operations_wrap_and_division_never_traps(op, dtype):
    # The edges hold 0 as divisor and the least number by -1.
    a, b = integers(dtype, 300), integers(dtype, 300)
    a[:2], b[:2] = np.iinfo(dtype.numpy).min, [0, np.array(-1).astype(dtype.numpy)]
    result = dtypes.bool if op in ("lt", "eq", "ne") else dtype
    kernel = elementwise(op, dtype, result, 300, 2)
    out, *_ = run_native(kernel, [np.zeros(300, result.numpy), a, b])
    with np.errstate(all="ignore"):
        want = {
            "add": lambda: a + b, "sub": lambda: a - b, "mul": lambda: a * b,
            "idiv": lambda: each(truncated, a, b), "mod": lambda: each(remainder, a, b),
            "max": lambda: np.maximum(a, b), "min": lambda: np.minimum(a, b),
            "and": lambda: a & b, "or": lambda: a | b, "xor": lambda: a ^ b,
            "lt": lambda: a < b, "eq": lambda: a == b, "ne": lambda: a != b,
        }[op]()  # fmt: skip
    if want.dtype == object:
        want = (want % (1 << dtype.bits)).astype(np.uint64).astype(dtype.numpy)
    assert np.array_equal(out, want)


def each(function, a, b):
    return np.array([function(int(x), int(y)) for x, y in zip(a, b, strict=True)], object)


def truncated(a, b):
    return 0 if b == 0 else abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)


def remainder(a, b):
    return 0 if b == 0 else a - truncated(a, b) * b


@pytest.mark.parametrize("dtype", [dtypes.int32, dtypes.uint32, dtypes.int8], ids=lambda t: t.name)
@pytest.mark.parametrize("op", ["shl", "shr"])
def test_shifts_by_the_width_or_more_give_zero_or_the_sign(op, dtype):
    counts = np.array([0, 1, dtype.bits - 1, dtype.bits, dtype.bits + 1, 100], dtype.numpy)
    values = np.array([-5 % (1 << dtype.bits)] * 6, np.uint64).astype(dtype.numpy)
    out, *_ = run_native(
        elementwise(op, dtype, dtype, 6, 2), [np.zeros_like(values), values, counts]
    )
    if op == "shl":
        want = [int(v) << int(c) for v, c in zip(values, counts, strict=True)]
    else:
        want = [int(v) >> min(int(c), 64) for v, c in zip(values, counts, strict=True)]
    assert [int(v) % (1 << dtype.bits) for v in out] == [w % (1 << dtype.bits) for w in want]


@pytest.mark.parametrize("dtype", FLOATS, ids=lambda t: t.name)
@pytest.mark.parametrize("op", ["max", "min"])
def test_max_and_min_of_floats_keep_a_nan_from_either_side(op, dtype):
    nan = np.nan
    a = np.array([1, nan, 2, nan, -np.inf, 5], dtype.numpy)
    b = np.array([nan, 1, 3, nan, 0, -5], dtype.numpy)
    out, *_ = run_native(elementwise(op, dtype, dtype, 6, 2), [np.zeros_like(a), a, b])
    want = np.maximum(a, b) if op == "max" else np.minimum(a, b)
    assert np.array_equal(out, want, equal_nan=True)


@pytest.mark.parametrize("op", ["lt", "eq", "ne"])
def test_comparisons_with_nan_are_false_but_for_ne(op):
    a = np.array([1, np.nan, 2, np.nan], np.float32)
    b = np.array([np.nan, 1, 2, np.nan], np.float32)
    kernel = elementwise(op, dtypes.float32, dtypes.bool, 4, 2)
    out, *_ = run_native(kernel, [np.zeros(4, bool), a, b])
    want = {"lt": [0, 0, 0, 0], "eq": [0, 0, 1, 0], "ne": [1, 1, 0, 1]}[op]
    assert out.tolist() == [bool(w) for w in want]


@pytest.mark.parametrize("level", levels())
@pytest.mark.parametrize("dtype", FLOATS, ids=lambda t: t.name)
@pytest.mark.parametrize("op", ["trunc", "floor", "ceil", "round", "abs", "neg", "sqrt"])
def test_rounding_operations_are_exact(op, dtype, level):
    edges = [0.5, -0.5, 1.5, 2.5, -2.5, 1e30, -0.0, 8388607.5, np.inf]
    x = np.concatenate([edges, floats(40)]).astype(dtype.numpy)
    x = np.abs(x) if op == "sqrt" else x
    numpy = {"neg": np.negative, "round": np.rint}.get(op) or getattr(np, op)
    out, *_ = run_native(elementwise(op, dtype, dtype, len(x)), [np.zeros_like(x), x], level)
    assert np.array_equal(out.view(np.uint8), numpy(x).view(np.uint8))


@pytest.mark.parametrize("level", levels())
@pytest.mark.parametrize("dtype", FLOATS, ids=lambda t: t.name)
def test_fma_rounds_once(dtype, level):
    # (1 + e)(1 - e) - 1 is -e^2 exactly; with two roundings it is 0.
    e = np.finfo(dtype.numpy).eps
    a, b, c = (np.full(20, v, dtype.numpy) for v in (1 + e, 1 - e, -1))
    out, *_ = run_native(
        elementwise("fma", dtype, dtype, 20, 3), [np.zeros_like(a), a, b, c], level
    )
    assert np.array_equal(out, np.full(20, -e * e, dtype.numpy))


@pytest.mark.parametrize("level", levels())
@pytest.mark.parametrize("kind", ["sum", "prod", "max", "min"])
@pytest.mark.parametrize("last", [True, False])
@pytest.mark.parametrize(("rows", "depth"), [(1, 1), (5, 7), (3, 1003), (67, 33)])
def test_reductions_of_any_shape(kind, last, rows, depth, level):
    x = RANDOM.uniform(0.9, 1.1, rows * depth).astype(np.float32)
    kernel = reduction(kind, rows, depth, last=last)
    out, _ = run_native(kernel, [np.zeros(rows, np.float32), x], level)
    shaped = x.reshape((rows, depth) if last else (depth, rows)).astype(np.float64)
    numpy = {"sum": np.sum, "prod": np.prod, "max": np.max, "min": np.min}[kind]
    assert np.allclose(out, numpy(shaped, axis=1 if last else 0), rtol=1e-5)


@pytest.mark.parametrize(
    ("kind", "identity"), [("sum", 0), ("prod", 1), ("max", -np.inf), ("min", np.inf)]
)
def test_a_reduction_of_nothing_is_its_identity(kind, identity):
    out, _ = run_native(reduction(kind, 5, 0), [np.ones(5, np.float32), np.ones(1, np.float32)])
    assert out.tolist() == [identity] * 5


@pytest.mark.parametrize("kind", ["max", "min"])
@pytest.mark.parametrize("dtype", [dtypes.float16, dtypes.bfloat16, dtypes.uint8, dtypes.int64])
def test_reductions_of_other_types(kind, dtype):
    x = np.arange(1, 78).astype(dtype.numpy)
    if dtype.is_float:
        x = (np.arange(1, 78, dtype=np.float32).view(np.uint32) >> 16).astype(np.uint16)
    if dtype is dtypes.float16:
        x = np.arange(1, 78).astype(np.float16)
    out, _ = run_native(reduction(kind, 1, 77, dtype=dtype), [x[:1] * 0, x])
    assert out[0] == (x[-1] if kind == "max" else x[0])


@pytest.mark.parametrize("level", levels())
@pytest.mark.parametrize("transposed", [False, True])
@pytest.mark.parametrize("shape", [(1, 1, 1), (3, 5, 7), (33, 65, 129), (128, 10, 64)])
def test_matrix_products_of_odd_sizes(shape, transposed, level):
    rows, columns, depth = shape
    a, b = floats((rows, depth)), floats((columns, depth) if transposed else (depth, columns))
    kernel = matmul(*shape, transposed=transposed)
    out, *_ = run_native(kernel, [np.zeros(rows * columns, np.float32), a, b], level)
    want = a.astype(np.float64) @ (b.T if transposed else b)
    assert np.allclose(out.reshape(rows, columns), want, rtol=1e-4, atol=1e-4)


def test_noopt_gives_the_same_within_rounding():
    a, b, zero = floats((33, 129)), floats((129, 65)), np.zeros(33 * 65, np.float32)
    tiled, *_ = run_native(matmul(33, 65, 129), [zero, a, b])
    plain, *_ = run_native(matmul(33, 65, 129, NOOPT=1), [zero, a, b])
    assert not np.array_equal(plain, zero)
    assert np.allclose(tiled, plain, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("level", levels())
def test_ranges_of_groups_are_independent(level):
    count = 100003
    a, b = floats(count), floats(count)
    kernel = elementwise("mul", dtypes.float32, dtypes.float32, count, 2)
    groups = renderer(f"LLVM:{level}").render(kernel).finish().grid[0]
    assert groups > 2
    order = [(g, g + 1) for g in range(groups)][::-1]
    out, *_ = run_native(kernel, [np.zeros_like(a), a, b], level, groups=order)
    assert np.array_equal(out, a * b)


@pytest.mark.parametrize("level", levels())
@pytest.mark.parametrize(("low", "high"), [(0, 0), (1, 2), (20, 0), (0, 50)])
def test_a_load_that_is_not_valid_gives_zero_and_touches_nothing(low, high, level):
    # A padded copy: the index is out of bounds wherever valid is false.
    count = 45
    m = Maker()
    i = m.axis(0)
    size = low + count + high
    valid = ~(i < low) & (i < low + count)
    value = m.load(1, dtypes.float32, i - low, valid)
    kernel = m.kernel([(dtypes.float32, size), (dtypes.float32, count)], [size], [(0, i, value)])
    x = floats(count)
    out, _ = run_native(kernel, [np.ones(size, np.float32), x], level)
    assert np.array_equal(out, np.pad(x, (low, high)))


def test_a_gather_reads_by_a_loaded_index():
    m = Maker()
    i = m.axis(0)
    at = m.load(2, dtypes.int32, i)
    inside = ~(at < 0) & (at < 50)
    value = m.load(1, dtypes.float32, at, inside)
    arguments = [(dtypes.float32, 77), (dtypes.float32, 50), (dtypes.int32, 77)]
    x, index = floats(50), RANDOM.integers(-20, 70, 77).astype(np.int32)
    out, *_ = run_native(m.kernel(arguments, [77], [(0, i, value)]), [floats(77), x, index])
    ok = (index >= 0) & (index < 50)
    assert np.array_equal(out, np.where(ok, x[np.clip(index, 0, 49)], 0))


def test_an_empty_argument_is_never_read():
    m = Maker()
    i = m.axis(0)
    value = m.load(1, dtypes.float32, i, i < 0)
    kernel = m.kernel([(dtypes.float32, 9), (dtypes.float32, 0)], [9], [(0, i, value)])
    out, _ = run_native(kernel, [np.ones(9, np.float32), np.zeros(0, np.float32)])
    assert out.tolist() == [0] * 9


@pytest.mark.parametrize("level", levels())
def test_a_store_goes_only_where_it_is_valid(level):
    m = Maker()
    i = m.axis(0)
    one = m.const(1.0, dtypes.float32)
    store = (0, i, one, (i & 3).equals(0))
    out, *_ = run_native(
        m.kernel([(dtypes.float32, 77)], [77], [store]), [np.zeros(77, np.float32)], level
    )
    assert out.tolist() == [float(n % 4 == 0) for n in range(77)]


@pytest.mark.parametrize("level", levels())
def test_a_transposed_store(level):
    m = Maker()
    i, j = m.axis(0), m.axis(1)
    kernel = m.kernel(
        [(dtypes.float32, 33 * 21)] * 2,
        [33, 21],
        [(0, j * 33 + i, m.load(1, dtypes.float32, i * 21 + j))],
    )
    x = floats(33 * 21)
    out, _ = run_native(kernel, [np.zeros_like(x), x], level)
    assert np.array_equal(out.reshape(21, 33), x.reshape(33, 21).T)


def test_three_loops_and_two_reduce_loops_with_an_epilogue():
    m = Maker()
    b, y, x, c, k = (m.axis(a) for a in range(5))
    data = m.load(1, dtypes.float32, ((b * 3 + c) * 7 + y) * 13 + x + k)
    weight = m.load(2, dtypes.float32, c * 3 + k)
    total = m.reduce("sum", data * weight) + m.load(3, dtypes.float32, y)
    kernel = m.kernel(
        [(dtypes.float32, n) for n in (2 * 7 * 11, 2 * 3 * 7 * 13, 9, 7)],
        [2, 7, 11, -3, -3],
        [(0, (b * 7 + y) * 11 + x, total.of("max", 0.0))],
    )
    arrays = [floats(a.count) for a in kernel.arguments]
    assert np.allclose(run_native(kernel, arrays)[0], run_oracle(kernel, arrays)[0], atol=1e-5)


def test_two_kinds_of_reduction_in_one_kernel():
    m = Maker()
    i, k = m.axis(0), m.axis(1)
    value = m.load(1, dtypes.float32, i * 100 + k)
    both = m.reduce("sum", value) / m.reduce("max", value)
    kernel = m.kernel([(dtypes.float32, 9), (dtypes.float32, 900)], [9, -100], [(0, i, both)])
    x = RANDOM.uniform(1, 2, 900).astype(np.float32)
    out, _ = run_native(kernel, [np.zeros(9, np.float32), x])
    rows = x.reshape(9, 100)
    assert np.allclose(out, rows.sum(1) / rows.max(1), rtol=1e-5)


@pytest.mark.parametrize("index", [dtypes.int32, dtypes.int64], ids=lambda t: t.name)
def test_a_variable_is_an_argument_of_the_index_type(index):
    m = Maker(index)
    kernel = m.kernel([(index, 20)], [20], [(0, m.axis(0), m.axis(0) + m.variable("n"))])
    out, *_ = run_native(kernel, [np.zeros(20, index.numpy)], variables=[-7])
    assert out.tolist() == [i - 7 for i in range(20)]
    code = renderer(f"LLVM:{host_levels()[0]}").render(kernel).finish()
    assert [(a.kind, a.dtype, a.size) for a in code.arguments] == [
        ("buffer", index.name, 8),
        ("scalar", index.name, index.itemsize),
    ]


def test_indexes_of_64_bits():
    m = Maker(dtypes.int64)
    i, j, k = (m.axis(a) for a in range(3))
    value = m.reduce("sum", m.load(1, dtypes.float32, (i * 9 + j) * 33 + k))
    arguments = [(dtypes.float32, 63), (dtypes.float32, 63 * 33)]
    kernel = m.kernel(arguments, [7, 9, -33], [(0, j * 7 + i, value)])
    x = floats(63 * 33)
    out, _ = run_native(kernel, [np.zeros(63, np.float32), x])
    assert np.allclose(out.reshape(9, 7), x.reshape(7, 9, 33).sum(2).T, atol=1e-5)


def test_a_chain_of_three_thousand_operations_compiles():
    m = Maker()
    i = m.axis(0)
    value = m.load(1, dtypes.int32, i)
    for step in range(3000):
        value = value ^ step if step % 2 else value + step
    kernel = m.kernel([(dtypes.int32, 8)] * 2, [8], [(0, i, value)])
    x = np.arange(8, dtype=np.int32)
    assert np.array_equal(run_native(kernel, [x, x])[0], run_oracle(kernel, [x, x])[0])


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("kind", ["matmul", "pow", "half", "fma"])
def test_an_object_needs_nothing_from_outside(kind, level):
    kernel = {
        "matmul": matmul(33, 65, 129),
        "pow": elementwise("pow", dtypes.float64, dtypes.float64, 50, 2),
        "half": elementwise("cast", dtypes.float64, dtypes.float16, 50),
        "fma": elementwise("fma", dtypes.float64, dtypes.float64, 50, 3),
    }[kind]
    check_object(renderer(f"LLVM:{level}").render(kernel).finish().image, "entry", "CPU")


@pytest.mark.refusal
def test_an_operation_without_code_is_refused_by_name():
    kernel = elementwise("frobnicate", dtypes.float32, dtypes.float32, 4)
    with pytest.raises(CompileError, match="no code for frobnicate of float32"):
        renderer("LLVM:x86-64-v3").render(kernel)


def test_expressions_that_are_equal_are_written_once():
    pool = Pool()
    a = pool.make("const", dtypes.int32, (), 3)
    assert pool.make("const", dtypes.int32, (), 3) is a


SELECTABLE = """
import sys
sys.path.insert(0, sys.argv[1])
from kernel_maker import elementwise
from jit.compile import is_allowed, renderer
from jit.dtype import ALL, dtypes
made = renderer(sys.argv[2])
floats = "add sub mul div max min lt eq ne neg abs sqrt trunc floor ceil round fma".split()
integers = "add sub mul idiv mod max min lt eq ne and or xor shl shr neg not abs".split()
arity = dict(neg=1, not_=1, abs=1, sqrt=1, trunc=1, floor=1, ceil=1, round=1, fma=3)
arity["not"] = 1
for dtype in ALL.values():
    ops = floats if dtype.is_float else integers if dtype.is_int else ["and", "or", "xor", "not"]
    for op in ops:
        result = dtypes.bool if op in ("lt", "eq", "ne") else dtype
        rendered = made.render(elementwise(op, dtype, result, 40, arity.get(op, 2)))
        assert is_allowed(rendered), (op, dtype, rendered.intrinsics)
        rendered.finish()
    for other in ALL.values():
        rendered = made.render(elementwise("cast", dtype, other, 40))
        assert is_allowed(rendered), (dtype, other, rendered.intrinsics)
        rendered.finish()
print("all")
"""


@pytest.mark.parametrize("target", ["LLVM:gfx1100", *(f"LLVM:{level}" for level in LEVELS)])
def test_everything_on_the_allow_list_can_be_selected(target):
    # In a process of its own: LLVM ends it where it cannot select.
    from pathlib import Path

    here = str(Path(__file__).parent)
    done = subprocess.run(
        [sys.executable, "-c", SELECTABLE, here, target], capture_output=True, text=True
    )
    assert done.stdout == "all\n", done.stderr[-2000:]
