"""Loop IR on numpy: every expression an array over all axes. The oracle of compiler tests.

Slow and plain on purpose. A load outside its argument is an error, not a zero.
"""

import math

import numpy as np

from jit.dtype import dtypes
from jit.kernel import Kernel, expressions
from runtime.call import CopyCall

UNARY = {
    "neg": np.negative, "abs": np.abs, "sqrt": np.sqrt, "trunc": np.trunc, "floor": np.floor,
    "ceil": np.ceil, "round": np.rint, "exp": np.exp, "exp2": np.exp2, "log": np.log,
    "log2": np.log2, "sin": np.sin, "cos": np.cos, "tan": np.tan, "asin": np.arcsin,
    "acos": np.arccos, "atan": np.arctan, "sinh": np.sinh, "cosh": np.cosh, "tanh": np.tanh,
    "asinh": np.arcsinh, "acosh": np.arccosh, "atanh": np.arctanh,
    "erf": np.vectorize(math.erf, otypes=[np.float64]),
}  # fmt: skip
BINARY = {
    "add": np.add, "sub": np.subtract, "mul": np.multiply, "div": np.divide, "max": np.maximum,
    "min": np.minimum, "pow": np.power, "atan2": np.arctan2, "lt": np.less, "eq": np.equal,
    "ne": np.not_equal, "and": np.bitwise_and, "or": np.bitwise_or, "xor": np.bitwise_xor,
}  # fmt: skip
REDUCE = {"sum": np.add, "prod": np.multiply, "max": np.maximum, "min": np.minimum}


def bfloat16_round(values):
    """float32 values rounded to bfloat16 precision, as float32."""
    bits = np.asarray(values, np.float32).view(np.uint32)
    rounded = (bits + 0x7FFF + (bits >> 16 & 1)) & np.uint32(0xFFFF0000)
    return np.where(np.isnan(values), np.float32(np.nan), rounded.view(np.float32))


def from_storage(values, dtype):
    if dtype is dtypes.bfloat16:
        return (values.astype(np.uint32) << 16).view(np.float32)
    return values


def to_storage(values, dtype):
    if dtype is dtypes.bfloat16:
        return (bfloat16_round(values).view(np.uint32) >> 16).astype(np.uint16)
    return values


def cast(values, old, new):
    """Float to integer: toward zero, then modulo 2^n."""
    if new is dtypes.bfloat16:
        return bfloat16_round(values.astype(np.float32))
    if old is not None and old.is_float and new.is_int:
        return np.trunc(values.astype(np.float64)).astype(np.int64).astype(new.numpy)
    return values.astype(new.numpy)


def idiv(a, b):
    safe = np.where(b == 0, 1, b)
    quotient = np.abs(a) // np.abs(safe) * np.sign(a) * np.sign(safe)
    return np.where(b == 0, 0, quotient).astype(a.dtype)


def shift(a, b, left):
    count = np.clip(b, 0, a.dtype.itemsize * 8 - 1)
    inside = b < a.dtype.itemsize * 8
    if left:
        return np.where(inside, a << count, 0).astype(a.dtype)
    return np.where(inside | (a.dtype.kind == "i"), a >> count, 0).astype(a.dtype)


class Run:
    """One kernel over flat arrays in storage form, one per argument."""

    def __init__(self, kernel: Kernel, arrays, variables=None):
        self.kernel = kernel
        self.arrays = arrays
        self.variables = variables or {}
        self.shape = tuple(a.size for a in kernel.axes)
        self.values = {}

    def run(self):
        with np.errstate(all="ignore"):
            for e in expressions(self.kernel):
                self.values[e] = self.evaluate(e, [self.values[s] for s in e.src])
            writes = [self.place(s) for s in self.kernel.stores]
        for argument, index, value in writes:
            self.arrays[argument][index] = value

    def place(self, store):
        loops = tuple(1 if a.reduce else a.size for a in self.kernel.axes)
        index = np.broadcast_to(self.values[store.index], loops).reshape(-1)
        dtype = self.kernel.arguments[store.argument].dtype
        assert store.value.dtype is dtype
        value = np.broadcast_to(self.values[store.value], loops).reshape(-1)
        count = self.kernel.arguments[store.argument].count
        assert index.size == 0 or (index.min() >= 0 and index.max() < count)
        assert np.unique(index).size == index.size, "two points store to one element"
        return store.argument, index, to_storage(value, dtype)

    def evaluate(self, e, src):
        dtype = e.dtype.numpy if e.dtype is not dtypes.bfloat16 else np.dtype(np.float32)
        if e.op == "const":
            return np.full((1,) * len(self.shape), e.arg, dtype)
        if e.op == "axis":
            shape = [1] * len(self.shape)
            shape[e.arg] = self.shape[e.arg]
            return np.arange(self.shape[e.arg], dtype=dtype).reshape(shape)
        if e.op == "variable":
            return np.full((1,) * len(self.shape), self.variables[e.arg], dtype)
        if e.op == "load":
            return self.load(e, src)
        if e.op == "reduce":
            axes = tuple(n for n, a in enumerate(self.kernel.axes) if a.reduce)
            full = tuple(
                a.size if a.reduce else n
                for a, n in zip(self.kernel.axes, src[0].shape, strict=True)
            )
            spread = np.broadcast_to(src[0], full)
            return REDUCE[e.arg].reduce(spread, axis=axes, keepdims=True).astype(dtype)
        if e.op == "cast":
            return cast(src[0], e.src[0].dtype, e.dtype)
        if e.op == "bitcast":
            return from_storage(to_storage(src[0], e.src[0].dtype).view(e.dtype.numpy), e.dtype)
        for s in e.src[1:] if e.op == "where" else e.src:
            assert e.op in ("lt", "eq", "ne") or s.dtype is e.dtype, e
        return self.arithmetic(e, src, dtype)

    def arithmetic(self, e, src, dtype):
        assert e.dtype not in (dtypes.float16, dtypes.bfloat16), "halves are computed in float32"
        if e.op == "where":
            return np.where(*src)
        if e.op == "not":
            return ~src[0]
        if e.op == "idiv":
            return idiv(*src)
        if e.op == "mod":
            return (src[0] - idiv(*src) * src[1]).astype(dtype)
        if e.op in ("shl", "shr"):
            return shift(*src, left=e.op == "shl")
        if e.op == "fma":
            wide = [s.astype(np.float64) for s in src]
            return (wide[0] * wide[1] + wide[2]).astype(dtype)
        return (UNARY | BINARY)[e.op](*src).astype(dtype)

    def load(self, e, src):
        argument = self.kernel.arguments[e.arg]
        array = self.arrays[e.arg]
        valid = src[1] if len(src) > 1 else np.array(True)
        index = np.broadcast_arrays(src[0], valid)[0]
        outside = (index < 0) | (index >= argument.count)
        assert not (outside & valid).any(), f"{e} leaves its {argument.count} elements"
        if argument.count == 0:
            return np.zeros(index.shape, argument.dtype.numpy)
        value = from_storage(array[np.where(valid, index, 0)], argument.dtype)
        return np.where(valid, value, np.zeros((), value.dtype))


class Machine:
    """Runs calls; remembers each buffer's contents by its root."""

    def __init__(self):
        self.memory = {}
        self.launches = 0

    def bytes_of(self, buffer):
        root = buffer.base
        key = id(root)
        if key not in self.memory:
            # The root is kept, or its id could come again.
            self.memory[key] = (root, np.zeros(root.size, np.uint8))
        return self.memory[key][1][buffer.offset : buffer.offset + buffer.size]

    def write(self, buffer, array):
        self.bytes_of(buffer)[:] = np.ascontiguousarray(array).reshape(-1).view(np.uint8)

    def read(self, buffer, dtype):
        return self.bytes_of(buffer).view(dtype.numpy)

    def run(self, calls):
        for call in calls:
            if isinstance(call, CopyCall):
                self.bytes_of(call.target)[:] = self.bytes_of(call.source)
                continue
            self.launches += 1
            arguments = call.kernel.arguments
            assert len(arguments) == len(call.buffers)
            for a, b in zip(arguments, call.buffers, strict=True):
                assert a.count == b.count
                assert a.dtype.itemsize == b.dtype.itemsize
                assert b.device == call.device
            arrays = [self.read(b, a.dtype) for a, b in zip(arguments, call.buffers, strict=True)]
            Run(call.kernel, arrays, call.variables).run()
