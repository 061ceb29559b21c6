"""AMDGCN: the AMD GPU part of the kernel builder, and a code object at the end.

One work-group per tile. Kernels use the work-group's x number and the work-item's
x number only, and no hidden argument.
"""

from math import prod

from hcq.errors import CompileError
from jit.codegen.cpu import code_arguments
from jit.codegen.llvm import Builder
from jit.codegen.machine import Rendered, emit_object, intrinsics, module_text
from jit.codegen.number import from_memory, to_memory
from jit.codegen.operation import Operations
from jit.codegen.text import Value, literal, memory_type, value_type
from jit.kernel import Expr, Kernel
from jit.tile import Machine, Plan, Split
from jit.tile_gpu import make_plan
from runtime.backend import Code

TRIPLE = "amdgcn-amd-amdhsa"
GLOBAL, LOCAL = "ptr addrspace(1)", "ptr addrspace(3)"

ARCHES = {
    "gfx1100": Machine(wave=32, vector_bytes=4, registers=64),
}

# What a kernel does not read; with these no launch has to provide it.
_UNUSED = (
    "dispatch-ptr",
    "queue-ptr",
    "dispatch-id",
    "implicitarg-ptr",
    "workitem-id-y",
    "workitem-id-z",
    "workgroup-id-y",
    "workgroup-id-z",
    "hostcall-ptr",
    "heap-ptr",
    "default-queue",
    "completion-action",
    "multigrid-sync-arg",
    "lds-kernel-id",
    "flat-scratch-init",
    "cluster-id-x",
    "cluster-id-y",
    "cluster-id-z",
)


class AmdRenderer:
    """Kernels to code objects of one architecture. Also the target that the builder asks."""

    pointer = GLOBAL
    stack_space = ", addrspace(5)"
    has_fma = has_half = True

    def __init__(self, name: str, arch: str) -> None:
        if arch not in ARCHES:
            raise CompileError(
                f"no code generator for {name}",
                facts={"renderer": name},
                hint=f"architectures: {', '.join(ARCHES)}",
            )
        self.name = name
        self.arch = arch
        self.machine = ARCHES[arch]

    def render(self, kernel: Kernel) -> Rendered:
        """The kernel as LLVM IR text."""
        plan = make_plan(kernel, self.machine)
        builder = Builder(kernel, plan, self)
        self._arguments(builder)
        self._threads(builder)
        if all(axis.size for axis in kernel.axes if not axis.reduce):
            tile = Value("i32", "%group")
            builder.place(tile)
            builder.write()
        builder.function.open().append("  ret void")
        parameters = [f"{GLOBAL} noundef %a{i}" for i, _ in enumerate(kernel.arguments)]
        element = value_type(kernel.index_dtype)
        parameters += [f"{element} noundef %s{i}" for i, _ in enumerate(kernel.variables)]
        signature = f"amdgpu_kernel void @{kernel.name}({', '.join(parameters)})"
        text = module_text(TRIPLE, builder.function, signature, self._attributes(plan))
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
        return Code(
            target=self.name,
            format="hsaco",
            image=emit_object(TRIPLE, self.arch, text),
            entry=kernel.name,
            arguments=code_arguments(kernel),
            grid=(max(prod(s.tiles if s.size else 0 for s in loops), 1), 1, 1),
            block=(plan.threads, 1, 1),
            key=kernel.key,
            facts={"name": kernel.name},
        )

    def address(self, b: Builder, out: Operations, argument: int, index: Value) -> str:
        """A pointer to an element: a base in scalar registers plus a 32-bit byte offset."""
        a = b.kernel.arguments[argument]
        size = a.dtype.itemsize
        if a.count * size < 1 << 31:
            narrow = out.convert("trunc", index, "i32")
            offset = out.binary("mul nuw nsw", narrow, literal("i32", size))
            offset = out.convert("zext", offset, "i64")
        else:
            wide = out.convert("sext", index, "i64")
            offset = out.binary("mul nsw", wide, literal("i64", size))
        code = f"getelementptr inbounds i8, {b.pointers[argument]}, {offset}"
        return str(b.function.add(out.region, GLOBAL, 1, code))

    def share(self, b: Builder, e: Expr, value: Value) -> Value:
        """Partial results of the threads along the inner reduce axis, through local memory.

        Every thread reads all partial results of its group of threads, so all have the result.
        """
        assert b.plan.inner is not None
        threads = b.plan.splits[b.plan.inner].threads
        thread = b.threads[b.plan.inner]
        assert thread is not None
        first = Operations(b.function, b.region).convert("trunc", thread, "i32")
        while threads > 32:
            # Two steps: 32 threads' worth of partial sums, then those.
            lane = Operations(b.function, b.region).binary("and", first, literal("i32", 31))
            value = self._exchange(b, e, value, lane, range(0, threads, 32))
            threads = 32
        return self._exchange(b, e, value, literal("i32", 0), range(threads))

    def _exchange(self, b: Builder, e: Expr, value: Value, base: Value, offsets: range) -> Value:
        """Write this thread's value, then combine those at base + each offset in its row."""
        f, region = b.function, b.region
        out = Operations(f, region)
        element = memory_type(e.dtype)
        name = f"@local{len(f.globals)}"
        count = b.plan.threads
        f.globals.append(
            f"{name} = internal addrspace(3) global [{count} x {element}] poison, align 16"
        )
        size = e.dtype.itemsize

        def at(index: Value) -> str:
            code = f"getelementptr {element}, {LOCAL} {name}, {index}"
            return str(f.add(region, LOCAL, 1, code))

        region.append(
            f"  store {to_memory(out, value, e.dtype)}, {at(Value('i32', '%item'))}, align {size}"
        )
        self._barrier(b)
        first, stride = self._row(b, out)
        step = literal("i32", stride)
        row = out.binary("add nuw nsw", first, out.binary("mul nuw nsw", base, step))
        parts = []
        for offset in offsets:
            place = at(out.binary("add nuw nsw", row, literal("i32", offset * stride)))
            loaded = f.add(region, element, 1, f"load {element}, {place}, align {size}")
            parts.append(from_memory(out, loaded, e.dtype))
        while len(parts) > 1:
            rest = parts[-1:] if len(parts) % 2 else []
            pairs = zip(parts[::2], parts[1::2], strict=False)
            parts = [b.combine(e.arg, e.dtype, out, *pair) for pair in pairs] + rest
        return parts[0]

    def _row(self, b: Builder, out: Operations) -> tuple[Value, int]:
        """Where the partial results of this thread's point begin, and how far apart they are."""
        assert b.plan.inner is not None
        threads = b.plan.splits[b.plan.inner].threads
        outer = Value("i32", "%outer")
        if b.plan.loops_first:
            return outer, b.plan.threads // threads
        return out.binary("mul nuw nsw", outer, literal("i32", threads)), 1

    def _barrier(self, b: Builder) -> None:
        b.function.declared["llvm.amdgcn.s.barrier"] = "declare void @llvm.amdgcn.s.barrier()"
        b.region.extend(
            [
                '  fence syncscope("workgroup") release',
                "  call void @llvm.amdgcn.s.barrier()",
                '  fence syncscope("workgroup") acquire',
            ]
        )

    def _arguments(self, b: Builder) -> None:
        region = b.function.open()
        region.append("start:")
        b.levels = [(region, {})]
        b.pointers = [f"{GLOBAL} %a{i}" for i, _ in enumerate(b.kernel.arguments)]
        element = value_type(b.kernel.index_dtype)
        b.variables = {n: Value(element, f"%s{i}") for i, n in enumerate(b.kernel.variables)}

    def _threads(self, b: Builder) -> None:
        """Work-item number to a thread number per axis: the last loop axis fastest, before it
        the inner reduce axis unless the plan puts loops first."""
        f, plan = b.function, b.plan
        f.declared["group"] = "declare i32 @llvm.amdgcn.workgroup.id.x()"
        f.declared["item"] = "declare i32 @llvm.amdgcn.workitem.id.x()"
        out = b.out()
        tiles = prod(
            s.tiles
            for s, a in zip(plan.splits, b.kernel.axes, strict=True)
            if not a.reduce and s.size
        )
        b.region.append(
            f"  %group = call range(i32 0, {tiles + 1}) i32 @llvm.amdgcn.workgroup.id.x()"
        )
        b.region.append(
            f"  %item = call range(i32 0, {plan.threads + 1}) i32 @llvm.amdgcn.workitem.id.x()"
        )
        inner, rest = plan.inner, Value("i32", "%item")
        if inner is not None and plan.splits[inner].threads > 1:
            shared = plan.splits[inner].threads
            points = literal("i32", plan.threads // shared if plan.loops_first else shared)
            near, far = (out.binary(opcode, rest, points) for opcode in ("urem", "udiv"))
            rest, thread = (near, far) if plan.loops_first else (far, near)
            self._set_thread(b, inner, thread)
            b.region.append(f"  %outer = add i32 {rest.name}, 0")
        for a in reversed([a for a, axis in enumerate(b.kernel.axes) if not axis.reduce]):
            threads = literal("i32", plan.splits[a].threads)
            if plan.splits[a].threads > 1:
                self._set_thread(b, a, out.binary("urem", rest, threads))
                rest = out.binary("udiv", rest, threads)

    def _set_thread(self, b: Builder, a: int, thread: Value) -> None:
        """This thread's number along an axis, and its first point in a tile."""
        out = b.out()
        element = value_type(b.kernel.index_dtype)
        b.threads[a] = out.convert("zext", thread, element)
        b.offsets[a] = out.convert("zext", self._offset(out, thread, b.plan.splits[a]), element)

    def _offset(self, out: Operations, thread: Value, split: Split) -> Value:
        """The first point of a thread in its tile: see Split.run."""
        if split.run == split.threads:
            return thread
        run = literal("i32", split.run)
        within = out.binary("urem", thread, run)
        stride = literal("i32", split.run * split.unroll)
        whole = out.binary("mul nuw nsw", out.binary("udiv", thread, run), stride)
        return out.binary("add nuw nsw", whole, within)

    def _attributes(self, plan: Plan) -> str:
        threads = plan.threads
        words = [
            "nounwind",
            f'"amdgpu-flat-work-group-size"="{threads},{threads}"',
            '"uniform-work-group-size"="true"',
            *(f'"amdgpu-no-{name}"' for name in _UNUSED),
        ]
        return " ".join(words)
