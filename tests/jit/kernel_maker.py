"""Kernels by hand, and ways to run them: as x86-64 code here, and on numpy."""

import ctypes
import functools
from dataclasses import replace

import numpy as np
from loop_oracle import Run

from jit.compile import renderer
from jit.dtype import dtypes
from jit.kernel import Argument, Axis, Kernel, Pool, Store
from jit.term import Term

NEEDED = {
    "x86-64-v2": {"sse4_2"},
    "x86-64-v3": {"avx2", "fma", "f16c", "bmi2"},
    "x86-64-v4": {"avx512f", "avx512bw", "avx512dq", "avx512vl", "avx512cd"},
}


@functools.cache
def host_levels():
    """The levels that this machine executes, best first."""
    with open("/proc/cpuinfo") as file:
        flags = next(line for line in file if line.startswith("flags")).split()
    return [level for level, needed in reversed(NEEDED.items()) if needed <= set(flags)]


class Maker:
    """Expressions over axes of an int32 index."""

    def __init__(self, index=dtypes.int32):
        self.pool = Pool()
        self.index = index
        self.variables = []

    def axis(self, number):
        return Term(self.pool, self.pool.make("axis", self.index, (), number))

    def variable(self, name):
        self.variables.append(name)
        return Term(self.pool, self.pool.make("variable", self.index, (), name))

    def const(self, value, dtype):
        return Term(self.pool, self.pool.make("const", dtype, (), value))

    def load(self, argument, dtype, index, valid=None):
        src = (index.expr,) if valid is None else (index.expr, valid.expr)
        return Term(self.pool, self.pool.make("load", dtype, src, argument))

    def reduce(self, kind, value):
        return Term(self.pool, self.pool.make("reduce", value.dtype, (value.expr,), kind))

    def kernel(self, arguments, axes, stores, **options):
        """arguments: (dtype, count), stores: (argument, index, value[, valid]); reduce axes < 0."""
        written = {s[0] for s in stores}
        return Kernel(
            "made",
            tuple(Argument(d, n, a in written) for a, (d, n) in enumerate(arguments)),
            tuple(Axis(abs(n) if n != "none" else 0, n == "none" or n < 0) for n in axes),
            tuple(
                Store(s[0], s[1].expr, s[2].expr, s[3].expr if len(s) > 3 else None) for s in stores
            ),
            self.index,
            variables=tuple(self.variables),
            options=tuple(options.items()),
        )


def elementwise(op, source, result, count, arity=1):
    """out[i] = op(in1[i], ...)."""
    m = Maker()
    i = m.axis(0)
    values = [m.load(1 + a, source, i) for a in range(arity)]
    value = values[0].of(op, *values[1:], dtype=result)
    arguments = [(result, count)] + [(source, count)] * arity
    return m.kernel(arguments, [count], [(0, i, value)])


def matmul(rows, columns, depth, *, transposed=False, dtype=dtypes.float32, **options):
    """out = a @ b, or a @ b.T."""
    m = Maker()
    i, j, k = (m.axis(a) for a in range(3))
    a = m.load(1, dtype, i * depth + k)
    b = m.load(2, dtype, j * depth + k if transposed else k * columns + j)
    counts = [rows * columns, rows * depth, depth * columns]
    total = m.reduce("sum", a * b)
    return m.kernel(
        [(dtype, n) for n in counts],
        [rows, columns, -depth],
        [(0, i * columns + j, total)],
        **options,
    )


def reduction(kind, rows, depth, *, last=True, dtype=dtypes.float32, **options):
    """out[i] = reduce over k of in[i, k] (last) or in[k, i]."""
    m = Maker()
    i, k = m.axis(0), m.axis(1)
    index = i * depth + k if last else k * rows + i
    total = m.reduce(kind, m.load(1, dtype, index))
    axes = [rows, -depth or "none"]
    return m.kernel([(dtype, rows), (dtype, rows * depth)], axes, [(0, i, total)], **options)


def convolution(images=4, channels=32, outputs=64, side=33, size=3, padding=0):
    """out[b, o, y, x] = sum over c, p, q of in[b, c, y+p, x+q] w[o, c, p, q], zeros around."""
    m = Maker()
    b, o, y, x, c, p, q = (m.axis(a) for a in range(7))
    row, column, end = y + p, x + q, side + padding
    valid = None
    if padding:
        valid = ~(row < padding) & (row < end) & ~(column < padding) & (column < end)
    index = ((b * channels + c) * side + row - padding) * side + column - padding
    weight = m.load(2, dtypes.float32, ((o * channels + c) * size + p) * size + q)
    total = m.reduce("sum", m.load(1, dtypes.float32, index, valid) * weight)
    over = side + 2 * padding - size + 1
    counts = (images * outputs * over**2, images * channels * side**2, outputs * channels * size**2)
    return m.kernel(
        [(dtypes.float32, n) for n in counts],
        [images, outputs, over, over, -channels, -size, -size],
        [(0, ((b * outputs + o) * over + y) * over + x, total)],
    )


def relabelled(kernel, label):
    """The kernel with another key, so that nothing that was loaded before stands for it."""
    return replace(kernel, options=(*kernel.options, ("LABEL", label)), _key=[])


def run_native(kernel, arrays, level=None, groups=None, variables=()):
    """Run x86-64 code on copies of flat arrays; the arrays afterwards."""
    import llvmlite.binding as llvm

    level = level or host_levels()[0]
    code = renderer(f"LLVM:{level}").render(kernel).finish()
    triple = "x86_64-unknown-linux-gnu"
    target = llvm.Target.from_triple(triple).create_target_machine(reloc="pic", codemodel="small")
    engine = llvm.create_mcjit_compiler(llvm.parse_assembly(f'target triple = "{triple}"'), target)
    engine.add_object_file(llvm.ObjectFileRef.from_data(code.image))
    engine.finalize_object()
    kind = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64)
    entry = kind(engine.get_function_address(code.entry))
    found = [np.array(a) for a in arrays]
    pointers = (ctypes.c_void_p * len(found))(*(a.ctypes.data for a in found))
    scalars = (ctypes.c_int64 * max(len(variables), 1))(*variables)
    for begin, end in groups or [(0, code.grid[0])]:
        entry(pointers, scalars, begin, end)
    return found


def run_oracle(kernel, arrays):
    """The same on numpy, one array operation per expression."""
    found = [np.array(a) for a in arrays]
    Run(kernel, found).run()
    return found
