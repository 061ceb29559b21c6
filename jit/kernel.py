"""Loop IR: what one kernel computes, before it is decided how.

A kernel is a set of loop axes and reduce axes, and stores whose index and value
are expressions over them. For every point of the loop axes, each store happens
once; a `reduce` expression inside a value runs over the reduce axes. How axes
map to grid, block, lanes and registers is a plan (jit/tile.py); machine code is
jit/codegen's.
"""

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from jit.dtype import DType

if TYPE_CHECKING:
    from runtime.backend import Code

# Expression operations: the elementwise names of jit.graph.Op, and these.
#   const     arg: python scalar
#   axis      arg: axis number; an integer of the kernel's index dtype
#   variable  arg: name; an integer of the kernel's index dtype
#   load      arg: argument number; src: (element index,) or (element index, bool valid);
#             where valid is false nothing is read and the value is zero
#   reduce    arg: kind (sum, prod, max, min); src: (value,); over all reduce axes of the kernel
#   cast, bitcast: to dtype


class Expr:
    """One scalar expression. Equal expressions are one object (see `expr`)."""

    __slots__ = ("__weakref__", "arg", "dtype", "op", "src")

    def __init__(self, op: str, dtype: DType, src: tuple["Expr", ...], arg: Any) -> None:
        self.op = op
        self.dtype = dtype
        self.src = src
        self.arg = arg

    def __repr__(self) -> str:
        inner = ", ".join(map(repr, self.src))
        arg = "" if self.arg is None else f"[{self.arg}]"
        return f"{self.op}{arg}({inner})" if inner or not arg else f"{self.op}{arg}"


class Pool:
    """Makes expressions, each distinct one once. One pool per kernel being built."""

    def __init__(self) -> None:
        self._known: dict[tuple[Any, ...], Expr] = {}

    def make(self, op: str, dtype: DType, src: tuple[Expr, ...] = (), arg: Any = None) -> Expr:
        """The expression; the same object for the same parts. -0.0 and 0.0 differ."""
        key = (op, dtype.name, tuple(map(id, src)), type(arg).__name__, repr(arg))
        found = self._known.get(key)
        if found is None:
            found = self._known[key] = Expr(op, dtype, src, arg)
        return found


@dataclass(frozen=True)
class Axis:
    """One loop. `reduce`: the loop accumulates instead of storing."""

    size: int
    reduce: bool = False


@dataclass(frozen=True)
class Argument:
    """One buffer a kernel is given: element type, number of elements, whether it is written."""

    dtype: DType
    count: int
    written: bool


@dataclass(frozen=True)
class Store:
    """out[index] = value, for every point of the loop axes where valid (None: all).

    What a point loads is what memory held before that point's first store: a kernel with
    several stores may read what one of them overwrites, at the same index.
    """

    argument: int
    index: Expr
    value: Expr
    valid: Expr | None = None


@dataclass(frozen=True)
class Kernel:
    """One kernel. Arguments: outputs first. Variables: integer arguments after the buffers."""

    name: str
    arguments: tuple[Argument, ...]
    axes: tuple[Axis, ...]
    stores: tuple[Store, ...]
    index_dtype: DType
    variables: tuple[str, ...] = ()
    options: tuple[tuple[str, Any], ...] = ()  # what changes code: FASTMATH, NOOPT, CHECK_OOB
    _key: list[str] = field(default_factory=list, compare=False, repr=False)

    @property
    def key(self) -> str:
        """SHA-256 of everything that code generation may look at."""
        if not self._key:
            self._key.append(hashlib.sha256(self.text().encode()).hexdigest())
        return self._key[0]

    def compile(self, target: str) -> "Code":
        """Machine code for a renderer name such as "LLVM:gfx1100"; CompileError if it fails."""
        from jit.compile import compile_kernel

        return compile_kernel(self, target)

    @staticmethod
    def prepare(kernels: "Sequence[Kernel]", target: str) -> None:
        """Have the code of several kernels made at once, in parallel where that pays."""
        from jit.compile import compile_many

        compile_many(kernels, target)

    def text(self) -> str:
        """The kernel as lines: one per argument, axis, expression and store; stable."""
        numbers: dict[int, int] = {}
        lines = [
            f"arg {a.dtype.name} {a.count} {'out' if a.written else 'in'}" for a in self.arguments
        ]
        lines += [f"axis {a.size} {'reduce' if a.reduce else 'loop'}" for a in self.axes]
        lines += [f"index {self.index_dtype.name} {self.variables} {self.options}"]
        for e in expressions(self):
            numbers[id(e)] = len(numbers)
            src = " ".join(f"%{numbers[id(s)]}" for s in e.src)
            arg = "" if e.arg is None else f" {e.arg!r}"
            lines.append(f"%{numbers[id(e)]} = {e.dtype.name} {e.op}{arg} {src}".rstrip())
        for s in self.stores:
            valid = "" if s.valid is None else f" if %{numbers[id(s.valid)]}"
            lines.append(
                f"store {s.argument}[%{numbers[id(s.index)]}] = %{numbers[id(s.value)]}{valid}"
            )
        return "\n".join([f"kernel {self.name}", *lines])


def expressions(kernel: Kernel) -> Iterator[Expr]:
    """Every expression of a kernel once, sources before users."""
    roots = [e for s in kernel.stores for e in (s.index, s.value, s.valid) if e is not None]
    return each(roots)


def each(roots: list[Expr]) -> Iterator[Expr]:
    """Every expression the roots reach once, sources before users, without recursion."""
    seen: set[int] = set()
    stack = [(root, False) for root in reversed(roots)]
    while stack:
        e, expanded = stack.pop()
        if expanded:
            yield e
        elif id(e) not in seen:
            seen.add(id(e))
            stack.append((e, True))
            stack.extend((s, False) for s in reversed(e.src))
