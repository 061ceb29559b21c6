"""What kernels have in common on all GPUs: grid and block, addresses, local memory.

One work-group per tile. Kernels use the work-group's x number and the work-item's
x number only. Parameters are the buffers' addresses, then the variables.
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping

from hcq.errors import CompileError, nearest
from jit.codegen.cpu import code_arguments
from jit.codegen.llvm import Builder
from jit.codegen.machine import Rendered, intrinsics, module_text
from jit.codegen.number import from_memory, to_memory
from jit.codegen.operation import Operations
from jit.codegen.text import Value, literal, memory_type, value_type
from jit.kernel import Expr, Kernel
from jit.tile import Machine, Plan, Split, tile_count
from jit.tile_gpu import make_plan
from runtime.backend import Code

GLOBAL, LOCAL = "ptr addrspace(1)", "ptr addrspace(3)"


class GpuRenderer(ABC):
    """Kernels to code of one architecture. Also the target that the builder asks."""

    # What a vendor's renderer sets.
    triple: str
    format: str  # of the Code
    convention: str  # calling convention of a kernel
    stack_space: str
    group: str  # intrinsic that gives the work-group's number
    item: str  # and the work-item's in it
    machines: Mapping[str, Machine]  # by architecture

    pointer = GLOBAL
    has_fma = has_half = True
    has_fences = has_mixed_products = False

    def __init__(self, name: str, arch: str) -> None:
        if arch not in self.machines:
            raise CompileError(
                f"no code generator for {name}{nearest(arch, self.machines)}",
                facts={"renderer": name},
                hint=f"architectures: {', '.join(self.machines)}",
            )
        self.name = name
        self.arch = arch
        self.machine = self.machines[arch]

    @abstractmethod
    def image(self, kernel: Kernel, text: str) -> bytes:
        """The code object of LLVM IR."""

    @abstractmethod
    def barrier(self, b: Builder) -> None:
        """All work-items of the group see each other's stores to local memory."""

    def uniform(self, b: Builder, value: Value) -> Value:
        """A number that is the same in all work-items of a wave, such that the compiler knows."""
        return value

    @abstractmethod
    def attributes(self, plan: Plan) -> str:
        """Attributes of the kernel's function."""

    def render(self, kernel: Kernel) -> Rendered:
        """The kernel as LLVM IR text."""
        plan = make_plan(kernel, self.machine)
        builder = Builder(kernel, plan, self)
        self._arguments(builder)
        self._threads(builder)
        if all(axis.size for axis in kernel.axes if not axis.reduce):
            builder.place(Value("i32", "%group"))
            builder.write()
        builder.function.open().append("  ret void")
        parameters = [f"{GLOBAL} noundef %a{i}" for i, _ in enumerate(kernel.arguments)]
        element = value_type(kernel.index_dtype)
        parameters += [f"{element} noundef %s{i}" for i, _ in enumerate(kernel.variables)]
        signature = f"{self.convention} void @{kernel.name}({', '.join(parameters)})"
        text = module_text(self.triple, builder.function, signature, self.attributes(plan))
        return Rendered(
            text=text,
            intrinsics=intrinsics(builder.function),
            finish=lambda: self._code(kernel, text, plan),
            triple=self.triple,
            arch=self.arch,
            plan=plan,
        )

    def _code(self, kernel: Kernel, text: str, plan: Plan) -> Code:
        return Code(
            target=self.name,
            format=self.format,
            image=self.image(kernel, text),
            entry=kernel.name,
            arguments=code_arguments(kernel),
            grid=(max(tile_count(kernel, plan), 1), 1, 1),
            block=(plan.threads, 1, 1),
            key=kernel.key,
            facts={"name": kernel.name},
        )

    def address(self, b: Builder, out: Operations, argument: int, index: Value) -> str:
        """A pointer to an element: a base that all threads share, plus 32 bits where enough."""
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
        name = self._local(b)
        size = e.dtype.itemsize

        def at(index: Value) -> str:
            code = f"getelementptr {element}, {LOCAL} {name}, {index}"
            return str(f.add(region, LOCAL, 1, code))

        region.append(
            f"  store {to_memory(out, value, e.dtype)}, {at(Value('i32', '%item'))}, align {size}"
        )
        self.barrier(b)
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

    def _local(self, b: Builder) -> str:
        """Local memory for a value of each thread: new memory while there is any."""
        places, threads = b.function.globals, b.plan.threads
        # Each holds the widest element: it may be used again for another type.
        if len(places) >= self.machine.local_bytes // (8 * threads):
            self.barrier(b)  # everyone has read what lies there
            return "@local0"
        name = f"@local{len(places)}"
        places.append(f"{name} = internal addrspace(3) global [{threads} x i64] poison, align 16")
        return name

    def _row(self, b: Builder, out: Operations) -> tuple[Value, int]:
        """Where the partial results of this thread's point begin, and how far apart they are."""
        assert b.plan.inner is not None
        threads = b.plan.splits[b.plan.inner].threads
        outer = Value("i32", "%outer")
        if b.plan.loops_first:
            return outer, b.plan.threads // threads
        return out.binary("mul nuw nsw", outer, literal("i32", threads)), 1

    def _arguments(self, b: Builder) -> None:
        region = b.function.open()
        region.append("start:")
        b.levels = [(region, {})]
        b.pointers = [f"{GLOBAL} %a{i}" for i, _ in enumerate(b.kernel.arguments)]
        element = value_type(b.kernel.index_dtype)
        b.variables = {n: Value(element, f"%s{i}") for i, n in enumerate(b.kernel.variables)}

    def _number(self, b: Builder, name: str, intrinsic: str, count: int) -> None:
        """%name = the number of this work-group or work-item, of so many."""
        b.function.declared[name] = f"declare i32 @{intrinsic}()"
        b.region.append(f"  %{name} = call range(i32 0, {max(count, 1)}) i32 @{intrinsic}()")

    def _threads(self, b: Builder) -> None:
        """Work-item number to a thread number per axis: the last loop axis fastest, before it
        the inner reduce axis unless the plan puts loops first."""
        plan, out = b.plan, b.out()
        self._number(b, "group", self.group, tile_count(b.kernel, plan))
        self._number(b, "item", self.item, plan.threads)
        inner, rest, done = plan.inner, Value("i32", "%item"), 1
        if inner is not None and plan.splits[inner].threads > 1:
            shared = plan.splits[inner].threads
            points = literal("i32", plan.threads // shared if plan.loops_first else shared)
            near, far = (out.binary(opcode, rest, points) for opcode in ("urem", "udiv"))
            rest, thread = (near, far) if plan.loops_first else (far, near)
            self._set_thread(b, inner, thread)
            b.region.append(f"  %outer = add i32 {rest.name}, 0")
            done = 1 if plan.loops_first else shared
        for a in reversed([a for a, axis in enumerate(b.kernel.axes) if not axis.reduce]):
            threads = literal("i32", plan.splits[a].threads)
            if plan.splits[a].threads > 1:
                if done % self.machine.wave == 0:
                    rest = self.uniform(b, rest)
                self._set_thread(b, a, out.binary("urem", rest, threads))
                rest = out.binary("udiv", rest, threads)
                done *= plan.splits[a].threads

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
