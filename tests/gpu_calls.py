"""Kernels as the runtime takes them, for the GPUs of both vendors."""

import array

from gpu_kernels import compiled

from runtime.backend import Code, CodeArgument

BUFFER = CodeArgument("buffer", "int32", 8)
SCALAR = CodeArgument("scalar", "int64", 8)
THREADS = 256  # most of a block

# out[i] = a[i] + b[i] with i = 4 * group + item
ADD = """
define KERNEL void @add(GLOBAL %out, GLOBAL %a, GLOBAL %b) #0 {
  %item = call ITEM
  %group = call GROUP
  %start = mul i32 %group, 4
  %i = add i32 %start, %item
  %a.i = getelementptr i32, GLOBAL %a, i32 %i
  %b.i = getelementptr i32, GLOBAL %b, i32 %i
  %out.i = getelementptr i32, GLOBAL %out, i32 %i
  %x = load i32, GLOBAL %a.i
  %y = load i32, GLOBAL %b.i
  %sum = add i32 %x, %y
  store i32 %sum, GLOBAL %out.i
  ret void
}
"""
# Runs until flag[0] is not 0.
HOLD = """
define KERNEL void @hold(GLOBAL %flag) #0 {
  br label %loop
loop:
  %value = load volatile i32, GLOBAL %flag
  %more = icmp eq i32 %value, 0
  br i1 %more, label %loop, label %done
done:
  ret void
}
"""
# Writes 256 GiB from where it may.
BAD = """
define KERNEL void @bad(GLOBAL %out) #0 {
  %far = getelementptr i8, GLOBAL %out, i64 274877906944
  store i32 1, GLOBAL %far
  ret void
}
"""
# out[group] = value
FILL = """
define KERNEL void @fill(GLOBAL %out, i64 %value) #0 {
  %group = call GROUP
  %out.i = getelementptr i32, GLOBAL %out, i32 %group
  %short = trunc i64 %value to i32
  store i32 %short, GLOBAL %out.i
  ret void
}
"""
TEXTS = {"add": ADD, "hold": HOLD, "bad": BAD, "fill": FILL}


class GpuKernel:
    """A kernel of TEXTS."""

    def __init__(self, name, arguments, grid=(1, 1, 1), block=(1, 1, 1), **rest):
        self.name = self.key = name
        self.variables = rest.pop("variables", ())
        self.parts = (arguments, grid, block, rest)

    def compile(self, target):
        arguments, grid, block, rest = self.parts
        kind, _, chip = target.partition(":")
        image = compiled(chip, self.name, TEXTS[self.name], threads=THREADS)
        form = "cubin" if kind == "PTX" else "hsaco"
        return Code(target, form, image, self.name, arguments, grid, block, **rest)


def adder(block=(4, 1, 1)):
    """out = a + b over 4 elements."""
    return GpuKernel("add", (BUFFER,) * 3, block=block)


def words(*values):
    """The bytes of 32-bit numbers."""
    return array.array("I", values).tobytes()
