"""A broad list of tensor programs, for what is to be shown of the code of any target.

Nothing runs here, but for the networks of examples/train.py: two steps on the processor tell
which kernels they take.
"""

import importlib.util
from pathlib import Path

import jit.realize
from jit import graph as g
from jit.dtype import dtypes
from jit.graph import Op
from jit.schedule import schedule
from runtime.call import ProgramCall
from tensor import Tensor

ROOT = Path(__file__).parents[2]
INTEGERS = ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64")
FLOATS = ("float16", "bfloat16", "float32", "float64")
NAMES = ("bool", *INTEGERS, *FLOATS)
UNARY = (
    Op.NEG, Op.ABS, Op.SQRT, Op.TRUNC, Op.FLOOR, Op.CEIL, Op.ROUND, Op.EXP, Op.EXP2, Op.LOG,
    Op.LOG2, Op.SIN, Op.COS, Op.TAN, Op.ASIN, Op.ACOS, Op.ATAN, Op.SINH, Op.COSH, Op.TANH,
    Op.ASINH, Op.ACOSH, Op.ATANH, Op.ERF,
)  # fmt: skip
ANY_BINARY = (Op.ADD, Op.SUB, Op.MUL, Op.MAX, Op.MIN, Op.LT, Op.EQ, Op.NE)
FLOAT_BINARY = (*ANY_BINARY, Op.DIV, Op.POW)
INTEGER_BINARY = (*ANY_BINARY, Op.IDIV, Op.MOD, Op.AND, Op.OR, Op.XOR, Op.SHL, Op.SHR)


def empty(*shape, dtype="float32"):
    return Tensor.empty(*shape, dtype=getattr(dtypes, dtype), device="CPU")


def nodes(*tensors):
    return [tensor.node for tensor in tensors]


def kernels_of(outputs):
    """The kernels that compute graph nodes, nothing run."""
    calls = schedule(outputs)
    return [call.kernel for call in calls if isinstance(call, ProgramCall)]


def arithmetic(name):
    """Every operation that a type has."""
    x, y = nodes(empty(70, dtype=name), empty(70, dtype=name))
    binary = FLOAT_BINARY if name in FLOATS else INTEGER_BINARY
    if name == "bool":
        binary = (Op.AND, Op.OR, Op.XOR, Op.EQ, Op.NE)
    made = [g.elementwise(op, x, y) for op in binary]
    if name in FLOATS:
        made += [g.elementwise(op, x) for op in UNARY]
        made.append(g.elementwise(Op.FMA, x, y, x))
    elif name == "bool":
        made.append(g.elementwise(Op.NOT, x))
    else:
        made += [g.elementwise(op, x) for op in (Op.NEG, Op.NOT, Op.ABS)]
    condition = g.elementwise(Op.NE, x, y)
    return [*made, g.elementwise(Op.WHERE, condition, x, y)]


def casts(name):
    """From one type to every other."""
    x = empty(70, dtype=name)
    return nodes(*(x.cast(getattr(dtypes, other)) for other in NAMES if other != name))


def reductions(name):
    """Sums and extremes of rows, of columns and of everything."""
    x = empty(33, 65, dtype=name)
    made = [x.max(axis) for axis in (None, 0, 1)]
    if name != "bool":
        made += [f(axis) for f in (x.sum, x.prod, x.min) for axis in (None, 0, 1)]
    return nodes(*made, x.argmax(1))


def products(name):
    """Matrices and convolutions."""
    a, b = empty(64, 64, dtype=name), empty(64, 64, dtype=name)
    batch, other = empty(3, 5, 7, dtype=name), empty(3, 7, 9, dtype=name)
    image, weight = empty(2, 3, 9, 9, dtype=name), empty(4, 3, 3, 3, dtype=name)
    return nodes(
        a @ b, batch @ other, empty(1, 9, dtype=name) @ empty(9, 1, dtype=name),
        image.conv2d(weight, padding=1), image.conv2d(weight, stride=2),
    )  # fmt: skip


def signs(name):
    """Operations on the sign, and what may take their result as its operand."""
    x, y = empty(33, 65, dtype=name), empty(33, 65, dtype=name)
    made = []
    for signed in (x.abs(), -x, -x.abs(), x.copysign(y), x.sign(), (-x).maximum(y.abs())):
        made += [signed.cast(other) for other in FLOATS if other != name]
        made += [signed.cast("int32"), signed + y, signed * y, signed * 2 - y, signed < y]
        made += [signed.exp(), signed.sqrt(), signed.floor(), signed.square(), signed.tanh()]
        made += [f() for f in (signed.sum, signed.max, signed.min)]
        made += [signed.sum(0), signed.cast("float32").sum(1)]
    return nodes(*made)


def shapes(name):
    """Data moved without arithmetic."""
    x, i = empty(5, 7, dtype=name), empty(5, 7, dtype="int32")
    return nodes(
        x.transpose().contiguous(), x[::-2, 1::2].contiguous(),
        x.pad(((1, 2), (0, 3))).contiguous(),
        x.cat(x, dim=1).contiguous(), x.gather(1, i), x.roll(2, 1).contiguous(), x[i[:, 0]],
    )  # fmt: skip


def networks(_):
    """What layers of networks are made of."""
    x, y = empty(33, 65), empty(33, dtype="int32")
    image = empty(2, 3, 8, 8)
    return nodes(
        x.softmax(), x.log_softmax(), x.layernorm(), x.var(1), x.std(0), x.gelu(), x.sigmoid(),
        x.sparse_categorical_crossentropy(y), y.one_hot(10), image.max_pool2d(),
        image.avg_pool2d(), Tensor.rand(99, device="CPU"), Tensor.randn(99, device="CPU"),
        Tensor.randint(99, high=1000, device="CPU"), Tensor.randperm(64, device="CPU"),
        Tensor.eye(9, device="CPU").contiguous(), Tensor.arange(9, device="CPU").contiguous(),
    )  # fmt: skip


PROGRAMS = [
    *((make, name) for name in NAMES for make in (arithmetic, casts, reductions, shapes)),
    *((products, name) for name in (*FLOATS, "int8", "int32", "int64")),
    *((signs, name) for name in FLOATS),
    (networks, ""),
]


def spelled(part):
    """How pytest names a part of PROGRAMS."""
    return part if isinstance(part, str) else part.__name__


def example():
    """The module examples/train.py."""
    spec = importlib.util.spec_from_file_location("train", ROOT / "examples" / "train.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def training_kernels(model, monkeypatch):
    """The distinct kernels of two steps of examples/train.py with "Mlp" or "Conv"."""
    found = []

    def collect(outputs, assigns=()):
        calls = schedule(outputs, assigns)
        found.extend(call.kernel for call in calls if isinstance(call, ProgramCall))
        return calls

    train = example()
    monkeypatch.setenv("DEVICE", "CPU")
    monkeypatch.setattr(jit.realize, "schedule", collect)
    train.train(getattr(train, model)(), 2, None)
    return list({kernel.key: kernel for kernel in found}.values())
