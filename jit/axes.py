"""Which loops a kernel has: split where indexes divide, joined where nothing tells them apart.

Splitting an axis of 320 that is read as i / 10 and i % 10 into 32 and 10 removes the
division; joining rows and columns that every access walks in row-major order leaves
one loop.
"""

from collections.abc import Iterable
from itertools import pairwise

from jit.simplify import Algebra, Atom, Sum

_ROUNDS = 4  # a split may uncover another division
_FIRST_NEW = 1 << 21  # numbers of axes made here


class Axes:
    """The axes of a kernel under construction, and every sum rewritten to them."""

    def __init__(self, algebra: Algebra, loops: Iterable[Sum], reduces: Iterable[Sum]) -> None:
        self.algebra = algebra
        self.groups = [
            [axis.terms[0][0] for axis in loops],
            [axis.terms[0][0] for axis in reduces],
        ]
        self._next = _FIRST_NEW

    def settle(self, sums: Iterable[Sum]) -> dict[Sum, Sum]:
        """Choose axes for these sums; returns each in terms of the chosen axes."""
        current = {s: s for s in sums}
        for _ in range(_ROUNDS):
            splits = self._splits(current.values())
            if not splits:
                break
            self._rewrite(current, self._split(splits))
        joined = True
        while joined:
            joined = self._join(current)
        return current

    def _rewrite(self, current: dict[Sum, Sum], axes: dict[Atom, Sum]) -> None:
        done: dict[int, Sum] = {}
        for original, now in current.items():
            current[original] = self.algebra.replace(now, axes, done)

    def _new(self, size: int) -> Sum:
        self._next += 1
        return self.algebra.axis(self._next, size)

    def _splits(self, sums: Iterable[Sum]) -> dict[Atom, list[int]]:
        """Per axis the divisors it should be split at, each a multiple of the one before."""
        wanted: dict[Atom, set[int]] = {}
        for inner in nested(sums):
            for atom, _ in inner.terms:
                axis = atom.arg[0].single if atom.kind in ("div", "mod") else None
                if axis is not None and axis.kind == "axis":
                    wanted.setdefault(axis, set()).add(atom.arg[1])
        chains: dict[Atom, list[int]] = {}
        for axis, divisors in wanted.items():
            chain = [1]
            for divisor in sorted(divisors):
                if divisor % chain[-1] == 0 and (axis.high + 1) % divisor == 0:
                    chain.append(divisor)
            if len(chain) > 1:
                chains[axis] = chain[1:]
        return chains

    def _split(self, chains: dict[Atom, list[int]]) -> dict[Atom, Sum]:
        replaced: dict[Atom, Sum] = {}
        for group in self.groups:
            for axis in list(group):
                if axis not in chains:
                    continue
                bounds = [1, *chains[axis], axis.high + 1]
                sizes = [high // low for low, high in pairwise(bounds)]
                parts = [self._new(size) for size in reversed(sizes)]
                strides = reversed(bounds[:-1])
                replaced[axis] = self.algebra.total(zip(parts, strides, strict=True))
                at = group.index(axis)
                group[at : at + 1] = [part.terms[0][0] for part in parts if part.terms]
        return replaced

    def _join(self, current: dict[Sum, Sum]) -> bool:
        """Join runs of neighbours that every sum walks as one. Whether any were."""
        everything = list(nested(current.values()))
        replaced: dict[Atom, Sum] = {}
        for group in self.groups:
            at = 0
            while at + 1 < len(group):
                outer, inner = group[at], group[at + 1]
                taken = inner in replaced or outer in replaced
                if taken or not _joinable(outer, inner, everything):
                    at += 1
                    continue
                whole = self._new((outer.high + 1) * (inner.high + 1))
                replaced[outer] = self.algebra.zero
                replaced[inner] = whole
                group[at : at + 2] = [whole.terms[0][0]]
                at += 1
        if replaced:
            self._rewrite(current, replaced)
        return bool(replaced)


def nested(sums: Iterable[Sum]) -> list[Sum]:
    """The sums and those inside their quotients and remainders, each once."""
    seen: set[Sum] = set()
    stack = list(sums)
    while stack:
        found = stack.pop()
        if found not in seen:
            seen.add(found)
            stack.extend(a.arg[0] for a, _ in found.terms if a.kind in ("div", "mod"))
    return sorted(seen, key=_serial)


def _serial(s: Sum) -> int:
    return s.serial


def _joinable(outer: Atom, inner: Atom, sums: list[Sum]) -> bool:
    size = inner.high + 1
    return all(s.coefficient(outer) == size * s.coefficient(inner) for s in sums)
