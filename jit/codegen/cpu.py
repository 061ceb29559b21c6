"""x86-64: the CPU part of the kernel builder, and a relocatable object at the end.

The entry runs tiles one after the other; independent ranges of tiles may run on
different threads. The object needs no symbol from outside.
"""

from math import prod
from typing import Any

from hcq.errors import CompileError, nearest
from jit.codegen.llvm import Builder
from jit.codegen.machine import Rendered, emit_object, intrinsics, module_text
from jit.codegen.operation import Operations
from jit.codegen.text import Value, literal, memory_type, value_type
from jit.kernel import Expr, Kernel
from jit.tile import Machine, Plan
from jit.tile_cpu import make_plan
from runtime.backend import Code, CodeArgument

TRIPLE = "x86_64-unknown-linux-gnu"
ENTRY = "entry"

# Levels of the x86-64 psABI: vector registers of 16, 32 and 64 bytes; 16, 16 and 32 of them.
LEVELS = {
    "x86-64-v2": Machine(wave=0, vector_bytes=16, registers=12, most_body=256),
    "x86-64-v3": Machine(wave=0, vector_bytes=32, registers=12, most_body=256),
    "x86-64-v4": Machine(wave=0, vector_bytes=64, registers=24, most_body=256),
}


class CpuRenderer:
    """Kernels to x86-64 code of one level. Also the target that the builder asks."""

    pointer = "ptr"
    stack_space = ""
    has_mixed_products = False

    def __init__(self, name: str, arch: str) -> None:
        if arch not in LEVELS:
            raise CompileError(
                f"no code generator for {name}{nearest(arch, LEVELS)}",
                facts={"renderer": name},
                hint=f"levels: {', '.join(LEVELS)}",
            )
        self.name = name
        self.arch = arch
        self.machine = LEVELS[arch]
        self.has_fma = self.has_half = self.has_fences = arch != "x86-64-v2"

    def render(self, kernel: Kernel) -> Rendered:
        """The kernel as LLVM IR text."""
        plan = make_plan(kernel, self.machine)
        builder = Builder(kernel, plan, self)
        self._arguments(builder)
        if all(axis.size for axis in kernel.axes if not axis.reduce):
            self._tiles(builder)
        builder.function.open().append("  ret void")
        width = self.machine.vector_bytes * 8
        attributes = (
            f'nounwind "target-cpu"="{self.arch}" "no-builtins" '
            f'"prefer-vector-width"="{width}" "min-legal-vector-width"="{width}"'
        )
        signature = f"void @{ENTRY}(ptr %buffers, ptr %scalars, i64 %begin, i64 %end)"
        text = module_text(TRIPLE, builder.function, signature, attributes)
        return Rendered(
            text=text,
            intrinsics=intrinsics(builder.function),
            finish=lambda: self._code(kernel, text, plan),
            triple=TRIPLE,
            arch=self.arch,
            plan=plan,
        )

    def _code(self, kernel: Kernel, text: str, plan: Plan) -> Code:
        loops = [s for s, axis in zip(plan.splits, kernel.axes, strict=True) if not axis.reduce]
        tiles = prod(s.tiles if s.size else 0 for s in loops)
        return Code(
            target=self.name,
            format="elf-x86_64",
            image=emit_object(TRIPLE, self.arch, text),
            entry=ENTRY,
            arguments=code_arguments(kernel),
            grid=(-(-tiles // plan.chunk), 1, 1),
            key=kernel.key,
            facts={"name": kernel.name},
        )

    def address(self, b: Builder, out: Operations, argument: int, index: Value) -> str:
        """A pointer to an element."""
        element = memory_type(b.kernel.arguments[argument].dtype)
        wide = out.convert("sext", index, "i64")
        pointer = b.pointers[argument]
        found = b.function.add(out.region, "ptr", 1, f"getelementptr {element}, {pointer}, {wide}")
        return str(found)

    def share(self, b: Builder, e: Expr, value: Value) -> Value:
        raise CompileError("a CPU plan has no threads", facts={"kernel": b.kernel.name})

    def barrier(self, b: Builder) -> None:
        raise CompileError("a CPU plan has no threads", facts={"kernel": b.kernel.name})

    def _arguments(self, b: Builder) -> None:
        f = b.function
        region = f.open()
        region.append("start:")
        b.levels = [(region, {})]
        for i, _ in enumerate(b.kernel.arguments):
            slot = f.add(region, "ptr", 1, f"getelementptr ptr, ptr %buffers, i64 {i}")
            b.pointers.append(str(f.add(region, "ptr", 1, f"load ptr, {slot}, !invariant.load !0")))
        element = value_type(b.kernel.index_dtype)
        for i, name in enumerate(b.kernel.variables):
            slot = f.add(region, "ptr", 1, f"getelementptr i64, ptr %scalars, i64 {i}")
            wide = f.add(region, "i64", 1, f"load i64, {slot}, !invariant.load !0")
            b.variables[name] = Operations(f, region).convert("trunc", wide, element)

    def _tiles(self, b: Builder) -> None:
        """The loop over the tiles of the groups begin..end."""
        loops = [a for a, axis in enumerate(b.kernel.axes) if not axis.reduce]
        total = prod(b.plan.splits[a].tiles for a in loops)
        out = b.out()
        chunk = literal("i64", b.plan.chunk)
        first = out.binary("mul nuw nsw", Value("i64", "%begin"), chunk)
        past = out.binary("mul nuw nsw", Value("i64", "%end"), chunk)
        limit = literal("i64", total)
        end = out.select(out.compare("icmp ult", past, limit), past, limit)
        any_tile = out.compare("icmp ult", first, end)
        b.function.open().append(f"  br {any_tile}, label %tile, label %done")
        region = b.function.open()
        region.append("tile:")
        region.append(f"  %t = phi i64 [ {first.name}, %start ], [ %tn, %next ]")
        b.levels = [(region, {})]
        b.place(Value("i64", "%t"))
        b.write()
        b.function.open().extend(
            [
                "  br label %next",
                "next:",
                "  %tn = add nuw nsw i64 %t, 1",
                f"  %more = icmp ult i64 %tn, {end.name}",
                "  br i1 %more, label %tile, label %done",
                "done:",
            ]
        )


def code_arguments(kernel: Kernel) -> tuple[CodeArgument, ...]:
    """Buffers in the kernel's order, then its variables as integers of its index type."""
    buffers: list[Any] = [
        CodeArgument("buffer", a.dtype.name, 8, a.written) for a in kernel.arguments
    ]
    dtype = kernel.index_dtype
    return (
        *buffers,
        *(CodeArgument("scalar", dtype.name, dtype.itemsize) for _ in kernel.variables),
    )
