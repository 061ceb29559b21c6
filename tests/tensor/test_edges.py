"""Edges of every type on every kind of chip: shift counts, signs of zero, NaN in comparisons."""

import operator

import numpy as np
import pytest
from fuzz_edges import FLOATS, HALVES, INTEGERS, Edges, edges, halves, same
from fuzz_programs import from_bits, stored, to_bits

from hcq import host
from jit.dtype import dtypes
from runtime.device import KINDS, Device
from sim.machine import Machine
from tensor import Tensor

CHIPS = {"AMD": ["gfx1100"], "NV": ["sm_86", "sm_90", "sm_120"]}
GPUS = {
    chip: f"{kind}:{number}" if number else kind
    for kind in CHIPS
    if kind in KINDS
    for number, chip in enumerate(CHIPS[kind])
}
# Methods of one argument that every float type has.
UNARY = [
    "neg", "abs", "sign", "square", "reciprocal", "trunc", "floor", "ceil", "round", "sqrt",
    "rsqrt", "exp", "exp2", "expm1", "log", "log2", "log10", "log1p", "sin", "cos", "tan", "asin",
    "acos", "atan", "sinh", "cosh", "tanh", "asinh", "acosh", "atanh", "erf", "relu", "relu6",
    "sigmoid", "logsigmoid", "hardsigmoid", "elu", "celu", "selu", "silu", "swish", "hardswish",
    "hardtanh", "gelu", "quick_gelu", "leaky_relu", "softplus", "mish", "softsign", "isnan",
    "isinf", "isfinite", "logical_not", "bool", "int", "long", "short", "half", "bfloat16",
    "float", "double",
]  # fmt: skip


@pytest.fixture(scope="module")
def machine():
    """One machine with a GPU of each kind."""
    Device.close_all()
    made = Machine([*GPUS])
    before = host.use(made)
    yield made
    Device.close_all()
    host.use(before)
    made.shut_down()


@pytest.fixture(params=["CPU", *GPUS])
def device(request):
    """The name of a device of each chip."""
    if request.param == "CPU":
        return "CPU"
    request.getfixturevalue("machine")
    return GPUS[request.param]


def tensor(array, dtype, device):
    """A float tensor in memory; bfloat16 is given as float32."""
    bits = Tensor(to_bits(array, dtype), device=device)
    return bits.bitcast(dtype) if dtype is dtypes.bfloat16 else bits


def found(t):
    """A tensor's numbers; those of bfloat16 as float32."""
    return from_bits(np.frombuffer(t.data(), t.dtype.numpy), t.dtype)


@pytest.mark.row("TEN-12")
@pytest.mark.parametrize("dtype", INTEGERS, ids=repr)
def test_a_shift_by_the_width_or_more_leaves_zero_or_the_sign(device, dtype):
    bits, ends = dtype.bits, np.unique(edges(dtype))
    values, counts = (a.ravel() for a in np.meshgrid(ends, ends))
    # Loaded, added to and then shifted: the count's high bits are in a register.
    x, n = (Tensor(a, device=device) for a in (values, counts))
    left, right = (x + 0).lshift(n), (x + 0).rshift(n)
    pairs = list(zip(values.tolist(), counts.tolist(), strict=True))
    lefts = [(v << c) % (1 << bits) if 0 <= c < bits else 0 for v, c in pairs]
    rights = [v >> (c if 0 <= c < bits else bits) for v, c in pairs]
    assert [v % (1 << bits) for v in left.tolist()] == lefts
    assert right.tolist() == rights


@pytest.mark.row("TEN-10")
@pytest.mark.parametrize("zero", [0.0, -0.0])
@pytest.mark.parametrize("dtype", [*FLOATS, *HALVES], ids=repr)
def test_a_choice_between_a_number_and_zero_keeps_the_sign_of_zero(device, dtype, zero):
    array = np.array([0.0, -0.0, 1, -1, np.nan, np.inf, -np.inf, 0.25] * 5, stored(dtype))
    t = tensor(array, dtype, device)
    made, wanted, other = [], [], dtypes.float32 if dtype is dtypes.float64 else dtypes.float64
    for compare in (operator.lt, operator.le, operator.gt, operator.ge):
        for limit in (0.0, -0.0):
            test, truth = compare(t, limit), compare(array, limit)
            made += [test.where(t, zero), test.where(zero, t)]
            wanted += [np.where(truth, array, zero), np.where(truth, zero, array)]
            made += [test.where(t.cast(other), zero), test.where(zero, t.cast(other))]
            wanted += wanted[-2:]
    Tensor.realize(*made)
    right = [same(found(t), w).all() for t, w in zip(made, wanted, strict=True)]
    assert [n for n, fine in enumerate(right) if not fine] == []


@pytest.mark.row("TEN-10")
@pytest.mark.parametrize("dtype", [*FLOATS, *HALVES], ids=repr)
def test_no_comparison_with_nan_is_true(device, dtype):
    t = tensor(np.full(3, np.nan, stored(dtype)), dtype, device)
    size = t.abs()
    asked = [
        size >= 0, size > -1, -size < 1, -size <= 0, size.sqrt() >= 0, (-size).sign() < 1,
        size.sign() > -1, size.minimum(2.0) < 3, size.maximum(0.0) >= 0, size + 1 >= 1,
        (t > 0).where(size, size * 2) >= 0, size.cast("float32") >= 0, t == t, t * t >= 0,
    ]  # fmt: skip
    Tensor.realize(*asked)
    assert [n for n, a in enumerate(asked) if a.numpy().any()] == []


@pytest.mark.row("TEN-10")
@pytest.mark.parametrize("dtype", [*FLOATS, *HALVES], ids=repr)
def test_a_product_that_is_used_further_keeps_the_sign_of_zero(device, dtype):
    t = tensor(np.array([0.0, -0.0, 2, -2], stored(dtype)), dtype, device)
    asked = [t * 0.5, t * (t + 1), t.silu(), t.hardswish(), (t + t) * 3]
    Tensor.realize(*asked)
    assert [np.signbit(found(a)).tolist() for a in asked] == [
        [False, True, False, True],
        [False, True, False, False],
        [False, True, False, True],
        [False, True, False, True],
        [False, True, False, True],
    ]


@pytest.mark.row("TEN-10")
@pytest.mark.parametrize("dtype", HALVES, ids=repr)
def test_one_operation_on_halves_is_rounded_from_float32(device, dtype):
    assert halves(dtype, device) == []


@pytest.mark.row("TEN-10")
@pytest.mark.parametrize("seed", range(6))
def test_a_random_program_over_edges_is_what_numpy_says(device, seed):
    assert Edges(seed, device).run(8) == []


@pytest.mark.long
@pytest.mark.parametrize("part", range(5))
def test_many_random_programs_over_edges_are_what_numpy_says(device, part):
    for seed in range(1000 + part * 60, 1060 + part * 60):
        assert Edges(seed, device).run(9) == [], seed


@pytest.mark.row("TEN-10")
@pytest.mark.parametrize("name", UNARY)
def test_every_function_of_every_float_type_runs_on_the_cpu(name):
    for dtype in (*FLOATS, *HALVES):
        for count in (1, 40):
            t = tensor(np.full(count, 0.5, stored(dtype)), dtype, "CPU")
            results = [getattr(t, name)(), getattr(t * 0.5, name)().cast("float16")]
            results += [r.cast("float64").cast("float32").cast("float16") for r in results]
            Tensor.realize(*results)  # acosh of them is NaN
            assert all(np.isfinite(found(r)).all() for r in results) != (name == "acosh"), dtype
