"""Graph nodes become the loops, indexes and conditions written here."""

import numpy as np
import pytest
from graph_cases import DEVICE, full, leaf, matmul, row

from hcq.settings import Context
from jit import graph as g
from jit.dtype import dtypes
from jit.graph import Op
from jit.kernel import expressions
from jit.schedule import schedule
from jit.value import round_half


def kernels(*outputs):
    return [call.kernel for call in schedule(outputs)]


def body(kernel):
    """The text after the head: axes, expressions, stores."""
    return [line for line in kernel.text().splitlines() if line.split()[0] not in ("kernel", "arg")]


def load_indexes(kernel):
    return [repr(e.src[0]) for e in expressions(kernel) if e.op == "load"]


def compute(interpreter, node):
    interpreter.run(schedule([node]))
    return interpreter.read(node.realized, node.dtype).reshape(node.shape)


def test_an_elementwise_chain_is_one_loop(interpreter):
    a = leaf(interpreter, np.zeros((4, 5, 6), np.float32))
    (kernel,) = kernels(g.elementwise(Op.NEG, g.elementwise(Op.EXP, a)))
    assert body(kernel) == [
        "axis 120 loop",
        "index int32 () ()",
        "%0 = int32 axis 0",
        "%1 = float32 load 1 %0",
        "%2 = float32 exp %1",
        "%3 = float32 neg %2",
        "store 0[%0] = %3",
    ]


def test_matmul_reads_at_clean_indexes(interpreter):
    a = leaf(interpreter, np.zeros((8, 16), np.float32))
    b = leaf(interpreter, np.zeros((16, 12), np.float32))
    (kernel,) = kernels(matmul(a, b))
    assert [(axis.size, axis.reduce) for axis in kernel.axes] == [
        (8, False),
        (12, False),
        (16, True),
    ]
    assert load_indexes(kernel) == [
        "add(mul(axis[0], const[16]), axis[2])",
        "add(axis[1], mul(axis[2], const[12]))",
    ]


def test_a_bias_and_activation_join_the_product(interpreter):
    a, b = (leaf(interpreter, np.ones(s, np.float32)) for s in ((3, 4), (4, 5)))
    bias = leaf(interpreter, np.arange(5, dtype=np.float32))
    summed = g.elementwise(Op.ADD, matmul(a, b), row(bias, (3, 5)))
    node = g.elementwise(Op.MAX, summed, full(5.0, (3, 5)))
    assert len(kernels(node)) == 1


def test_convolution_is_one_kernel_over_channels_and_window(interpreter):
    image = leaf(interpreter, np.zeros((2, 3, 6, 6), np.float32))
    weight = leaf(interpreter, np.zeros((4, 3, 3, 3), np.float32))
    padded = g.pad(image, ((0, 0, 0), (0, 0, 0), (1, 1, 0), (1, 1, 0)))
    seen = g.window(g.window(padded, 2, 3, 2), 4, 3, 2)
    seen = g.permute(seen, (0, 2, 4, 1, 3, 5))
    shape = (2, 4, 3, 3, 3, 3, 3)
    left = g.expand(g.reshape(seen, (2, 1, 3, 3, 3, 3, 3)), shape)
    right = g.expand(g.reshape(weight, (1, 4, 1, 1, 3, 3, 3)), shape)
    (kernel,) = kernels(g.reduce(g.elementwise(Op.MUL, left, right), "sum", (4, 5, 6)))
    assert [axis.size for axis in kernel.axes] == [2, 4, 3, 3, 3, 3, 3]
    image_load = next(e for e in expressions(kernel) if e.op == "load" and e.arg == 1)
    assert repr(image_load.src[1]) == (
        "and(lt(const[0], add(mul(axis[2], const[2]), axis[5])), "
        "lt(const[0], add(mul(axis[3], const[2]), axis[6])))"
    )


def test_a_padded_value_is_zero_outside(interpreter):
    a = leaf(interpreter, np.zeros(3, np.float32))
    # cos(0) is 1, so a masked load alone would be wrong.
    value = compute(interpreter, g.pad(g.elementwise(Op.COS, a), ((1, 1, 1),)))
    assert value.tolist() == [0, 1, 0, 1, 0, 1, 0]


def test_a_padded_load_needs_no_selection(interpreter):
    a = leaf(interpreter, np.zeros(3, np.float32))
    (kernel,) = kernels(g.pad(a, ((1, 1, 0),)))
    assert "where" not in [e.op for e in expressions(kernel)]


def test_a_permuted_flatten_splits_its_axis(interpreter):
    a = leaf(interpreter, np.arange(12, dtype=np.float32).reshape(3, 4))
    node = g.reshape(g.permute(a, (1, 0)), (12,))
    (kernel,) = kernels(node)
    assert [axis.size for axis in kernel.axes] == [4, 3]
    assert not {"idiv", "mod"} & {e.op for e in expressions(kernel)}


def test_negative_steps_read_backwards(interpreter):
    a = leaf(interpreter, np.arange(6, dtype=np.float32))
    assert compute(interpreter, g.slice_(a, ((5, 3, -2),))).tolist() == [5, 3, 1]


def test_a_scalar_result_has_no_loop(interpreter):
    a = leaf(interpreter, np.ones((4, 5), np.float32))
    (kernel,) = kernels(g.reduce(a, "sum", (0, 1)))
    assert [(axis.size, axis.reduce) for axis in kernel.axes] == [(20, True)]


def test_a_sum_of_a_sum_is_one_reduction(interpreter):
    a = leaf(interpreter, np.arange(24, dtype=np.float32).reshape(2, 3, 4))
    node = g.reduce(g.reduce(a, "sum", (2,)), "sum", (0,))
    assert len(kernels(node)) == 1
    node.realized = None
    assert compute(interpreter, node).tolist() == [60, 92, 124]


def test_a_maximum_of_a_sum_is_two(interpreter):
    a = leaf(interpreter, np.arange(24, dtype=np.float32).reshape(2, 3, 4))
    assert len(kernels(g.reduce(g.reduce(a, "sum", (2,)), "max", (0,)))) == 2


def test_a_sum_of_nothing_is_zero(interpreter):
    a = leaf(interpreter, np.zeros((2, 0), np.float32))
    assert compute(interpreter, g.reduce(a, "sum", (1,))).tolist() == [0, 0]


def test_an_index_outside_reads_zero(interpreter):
    data = leaf(interpreter, np.array([5, 6, 7], np.float32))
    picks = leaf(interpreter, np.array([-1, 0, 2, 3, 2**40], np.int64))
    assert compute(interpreter, g.index(data, picks)).tolist() == [0, 5, 7, 0, 0]


def test_an_index_of_a_computed_value_outside_reads_zero(interpreter):
    data = g.elementwise(Op.COS, leaf(interpreter, np.zeros(3, np.float32)))
    picks = leaf(interpreter, np.array([0, 3], np.uint8))
    assert compute(interpreter, g.index(data, picks)).tolist() == [1, 0]


def test_an_index_counted_out_is_a_plain_read(interpreter):
    data = leaf(interpreter, np.arange(10, dtype=np.float32))
    count = g.iota((4,), 0, dtypes.int32, DEVICE)
    twice = g.elementwise(Op.MUL, count, full(2, (4,), dtypes.int32))
    (kernel,) = kernels(g.index(data, twice))
    assert load_indexes(kernel) == ["mul(axis[0], const[2])"]


@pytest.mark.row("TEN-33")
def test_indexes_widen_at_2_to_the_31(interpreter):
    def width(count):
        node = g.elementwise(Op.NEG, g.buffer(_Huge(count), (count,), dtypes.int8))
        return kernels(node)[0].index_dtype.name

    assert width(2**31 - 1) == "int32"
    assert width(2**31) == "int64"


class _Huge:
    """Metadata of a buffer; nothing is allocated."""

    device = DEVICE
    offset = 0

    def __init__(self, count):
        self.base = self
        self.size = count


def test_a_variable_is_a_kernel_argument(interpreter):
    a = leaf(interpreter, np.arange(4, dtype=np.float32))
    variable = g.Node(Op.VARIABLE, dtypes.int32, (), (), ("i", 0, 9, 7), DEVICE)
    wide = g.cast(g.expand(g.reshape(variable, (1,)), (4,)), dtypes.float32)
    node = g.elementwise(Op.ADD, a, wide)
    (call,) = schedule([node])
    assert call.kernel.variables == ("i",)
    assert call.variables == {"i": 7}
    interpreter.run([call])
    assert interpreter.read(node.realized, node.dtype).tolist() == [7, 8, 9, 10]


@pytest.mark.parametrize("dtype", [dtypes.float16, dtypes.bfloat16])
def test_halves_are_computed_in_float32_and_rounded_when_stored(interpreter, dtype):
    a = g.cast(leaf(interpreter, np.array([1, 3], np.float32)), dtype)
    third = g.elementwise(Op.DIV, a, full(3.0, (2,), dtype))
    back = g.elementwise(Op.MUL, third, full(3.0, (2,), dtype))
    (kernel,) = kernels(back)
    arithmetic = [
        e.dtype for e in expressions(kernel) if e.op in ("div", "mul") and e.dtype.is_float
    ]
    assert arithmetic == [dtypes.float32, dtypes.float32]
    assert kernel.stores[0].value.dtype is dtype
    back.realized = None
    interpreter.run(schedule([g.contiguous(back)]))


def test_a_cast_from_half_rounds_first(interpreter):
    a = leaf(interpreter, np.array([2049], np.float32))
    node = g.cast(g.cast(a, dtypes.float16), dtypes.int32)
    assert compute(interpreter, node).tolist() == [2048]


@pytest.mark.parametrize(
    ("value", "dtype", "expected"),
    [
        (2049.0, dtypes.float16, 2048.0),
        (2051.0, dtypes.float16, 2052.0),
        (65520.0, dtypes.float16, float("inf")),
        (-1e30, dtypes.float16, float("-inf")),
        (6e-8, dtypes.float16, 2.0**-24),
        (257.0, dtypes.bfloat16, 256.0),
        (259.0, dtypes.bfloat16, 260.0),
        (3.4e38, dtypes.bfloat16, float("inf")),
        (1e39, dtypes.bfloat16, float("inf")),
    ],
)
def test_constants_round_to_nearest_even(value, dtype, expected):
    assert round_half(value, dtype) == expected


def test_a_padded_boolean_is_false(interpreter):
    a = leaf(interpreter, np.array([True]))
    value = compute(interpreter, g.pad(g.elementwise(Op.NOT, a), ((1, 1, 0),)))
    assert value.tolist() == [False, False, False]


def test_minus_zero_and_zero_are_two_constants(interpreter):
    a = leaf(interpreter, np.array([1.0], np.float32))
    plus = kernels(g.elementwise(Op.MUL, a, full(0.0, (1,))))[0]
    minus = kernels(g.elementwise(Op.MUL, a, full(-0.0, (1,))))[0]
    assert plus.key != minus.key


def test_a_kernel_is_named_by_its_sizes(interpreter):
    a = leaf(interpreter, np.zeros((6, 7), np.float32))
    (kernel,) = kernels(g.reduce(a, "sum", (1,)))
    assert kernel.name[:6] == "r_6_7_"
    assert kernel.name == f"r_6_7_{kernel.key[:4]}"


@pytest.mark.row("CMP-05")
@pytest.mark.parametrize("option", ["FASTMATH", "NOOPT", "CHECK_OOB"])
def test_options_that_change_code_are_part_of_the_key(interpreter, option):
    a = leaf(interpreter, np.zeros(6, np.float32))
    plain = kernels(g.elementwise(Op.SIN, a))[0]
    with Context(**{option: 1}):
        other = kernels(g.elementwise(Op.SIN, a))[0]
    assert other.options == ((option, 1),)
    assert plain.key != other.key


def test_an_estimate_counts_operations_and_bytes(interpreter):
    a = leaf(interpreter, np.zeros((8, 16), np.float32))
    b = leaf(interpreter, np.zeros((16, 12), np.float32))
    (call,) = schedule([matmul(a, b)])
    assert call.estimate.operations == 2 * 8 * 12 * 16
    assert call.estimate.bytes == 4 * (8 * 12 + 8 * 16 + 16 * 12)
