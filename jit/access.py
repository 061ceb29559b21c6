"""How the expressions of a kernel depend on its axes: which, by what stride, in what range.

Planning and code generation both ask; all answers are remembered.
"""

from collections.abc import Callable

from jit.kernel import Expr, Kernel, each, expressions

Range = tuple[int, int]  # least and most, both inclusive


class Strides:
    """How load and store indexes depend on axes. All answers are remembered."""

    def __init__(self, kernel: Kernel) -> None:
        self.kernel = kernel
        self._masks: dict[int, int] = {}
        self._strides: dict[tuple[int, int], int | None] = {}
        self._bounds: dict[int, Range | None] = {}
        self.reduce_mask = sum(1 << a for a, axis in enumerate(kernel.axes) if axis.reduce)
        for e in expressions(kernel):
            self.mask(e)

    def learn(self, root: Expr) -> None:
        """Look at an expression that is not part of the kernel, sources first."""
        for e in each([root]):
            self.mask(e)

    def mask(self, e: Expr) -> int:
        """Bit a is set if the expression depends on axis a; a reduce frees its reduce axes."""
        found = self._masks.get(id(e))
        if found is None:
            found = 1 << e.arg if e.op == "axis" else 0
            for source in e.src:
                found |= self.mask(source)
            if e.op == "reduce":
                found &= ~self.reduce_mask
            self._masks[id(e)] = found
        return found

    def depends(self, e: Expr, axis: int) -> bool:
        return bool(self.mask(e) >> axis & 1)

    def stride(self, e: Expr, axis: int) -> int | None:
        """By how much e grows as the axis grows by one; None if that is not constant."""
        key = (id(e), axis)
        if key not in self._strides:
            self._strides[key] = self._stride(e, axis)
        return self._strides[key]

    def _stride(self, e: Expr, axis: int) -> int | None:
        if not self.depends(e, axis):
            return 0
        if e.op == "axis":
            return 1
        if e.op in ("add", "sub"):
            a, b = (self.stride(s, axis) for s in e.src)
            if a is None or b is None:
                return None
            return a + b if e.op == "add" else a - b
        if e.op == "mul":
            return self._scaled(e, axis)
        return None

    def _scaled(self, e: Expr, axis: int) -> int | None:
        for a, b in (e.src, e.src[::-1]):
            if b.op == "const":
                inner = self.stride(a, axis)
                return None if inner is None else inner * int(b.arg)
        return None

    def bounds(self, e: Expr) -> Range | None:
        """Between which values an integer expression lies; None if unknown or if it may wrap."""
        key = id(e)
        if key not in self._bounds:
            found = self._find_bounds(e)
            if found is not None and not e.dtype.least <= found[0] <= found[1] <= e.dtype.most:
                found = None
            self._bounds[key] = found
        return self._bounds[key]

    def _find_bounds(self, e: Expr) -> Range | None:
        if not e.dtype.is_int:
            return None
        if e.op == "const":
            return (int(e.arg), int(e.arg))
        if e.op == "axis":
            return (0, max(self.kernel.axes[e.arg].size - 1, 0))
        if e.op == "cast" and e.src[0].dtype.is_int:
            return self.bounds(e.src[0])
        if e.op not in _BOUNDS:
            return None
        ranges = [self.bounds(s) for s in e.src[-2:]]
        known = [r for r in ranges if r is not None]
        return _BOUNDS[e.op](*known) if len(known) == 2 else None


def _corners(a: Range, b: Range) -> Range:
    products = [x * y for x in a for y in b]
    return (min(products), max(products))


def _quotient(a: Range, b: Range) -> Range | None:
    return (a[0] // b[1], a[1] // b[0]) if a[0] >= 0 and b[0] > 0 else None


def _remainder(a: Range, b: Range) -> Range | None:
    return (0, min(a[1], b[1] - 1)) if a[0] >= 0 and b[0] > 0 else None


_BOUNDS: dict[str, Callable[[Range, Range], Range | None]] = {
    "add": lambda a, b: (a[0] + b[0], a[1] + b[1]),
    "sub": lambda a, b: (a[0] - b[1], a[1] - b[0]),
    "mul": _corners,
    "idiv": _quotient,
    "mod": _remainder,
    "min": lambda a, b: (min(a[0], b[0]), min(a[1], b[1])),
    "max": lambda a, b: (max(a[0], b[0]), max(a[1], b[1])),
    "where": lambda a, b: (min(a[0], b[0]), max(a[1], b[1])),
}
