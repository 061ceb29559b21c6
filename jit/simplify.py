"""Integer arithmetic of indexes, simplified as it is written down.

An index is a `Sum`: a constant plus whole multiples of atoms (a loop axis, a
quotient, a remainder, an integer read from memory), with the range it can take.
Movement operations become sums of sums; quotients and remainders vanish where
the ranges allow. One `Algebra` per kernel: equal sums are one object there.

A range may be narrower than the terms say. It then holds only where the
surrounding condition does, and so does every simplification that used it.
"""

from collections.abc import Iterable, Mapping
from itertools import pairwise
from math import gcd
from typing import Any


class Atom:
    """What a sum counts multiples of.

    kind: "axis" (arg: its number), "div" or "mod" (arg: (Sum, divisor); the sum is
    never negative), or "value" (arg: the expression that is read).
    """

    __slots__ = ("arg", "high", "kind", "low", "serial", "values")

    def __init__(self, kind: str, arg: Any, span: tuple[int, int], serial: int) -> None:
        self.kind = kind
        self.arg = arg
        self.low, self.high = span
        self.serial = serial
        self.values: tuple[Any, ...] = (arg,) if kind == "value" else ()
        if kind in ("div", "mod"):
            self.values = arg[0].values

    def __repr__(self) -> str:
        if self.kind in ("div", "mod"):
            return f"({self.arg[0]} {'/' if self.kind == 'div' else '%'} {self.arg[1]})"
        return f"{self.kind}{self.arg}"


class Sum:
    """const + sum of coefficient * atom, known to lie in low..high (inclusive).

    `values` are the expressions it depends on, through any depth.
    """

    __slots__ = ("const", "high", "low", "serial", "terms", "values")

    def __init__(
        self, terms: tuple[tuple[Atom, int], ...], const: int, span: tuple[int, int], serial: int
    ) -> None:
        self.terms = terms
        self.const = const
        self.low, self.high = span
        self.serial = serial
        self.values: tuple[Any, ...] = ()
        if any(atom.values for atom, _ in terms):
            self.values = tuple(dict.fromkeys(v for atom, _ in terms for v in atom.values))

    @property
    def single(self) -> Atom | None:
        """The atom, if the sum is just that."""
        if len(self.terms) == 1 and self.const == 0 and self.terms[0][1] == 1:
            return self.terms[0][0]
        return None

    def coefficient(self, atom: Atom) -> int:
        """How many times the atom is counted, not looking into quotients."""
        return next((count for other, count in self.terms if other is atom), 0)

    def __repr__(self) -> str:
        parts = [f"{c}*{a}" if c != 1 else f"{a}" for a, c in self.terms]
        return " + ".join(parts + ([str(self.const)] if self.const or not parts else []))


class Algebra:
    """Makes sums, each distinct one once."""

    def __init__(self) -> None:
        self._sums: dict[tuple[Any, ...], Sum] = {}
        self._atoms: dict[tuple[Any, ...], Atom] = {}
        self._quotients: dict[tuple[int, int], tuple[Sum, Sum]] = {}
        self.zero = self.number(0)

    def number(self, value: int) -> Sum:
        """A constant."""
        return self._intern((), value, (value, value))

    def axis(self, number: int, size: int) -> Sum:
        """A loop axis: 0 .. size-1."""
        return self._of_atom("axis", number, (0, size - 1))

    def value(self, expression: Any, low: int, high: int) -> Sum:
        """An integer known only when it runs, where it lies in low..high."""
        return self._of_atom("value", expression, (low, high))

    def add(self, a: Sum, b: Sum) -> Sum:
        """a + b."""
        if not a.terms:
            return self.shift(b, a.const)
        if not b.terms:
            return self.shift(a, b.const)
        counts = dict(a.terms)
        for atom, count in b.terms:
            counts[atom] = counts.get(atom, 0) + count
        span = (a.low + b.low, a.high + b.high)
        return self._collect(counts, a.const + b.const, span)

    def total(self, parts: Iterable[tuple[Sum, int]]) -> Sum:
        """The sum of part * factor."""
        result = self.zero
        for part, factor in parts:
            result = self.add(result, self.scale(part, factor))
        return result

    def shift(self, a: Sum, by: int) -> Sum:
        """a + constant."""
        if by == 0:
            return a
        return self._intern(a.terms, a.const + by, (a.low + by, a.high + by))

    def scale(self, a: Sum, factor: int) -> Sum:
        """a * constant."""
        if factor == 1:
            return a
        if factor == 0:
            return self.zero
        ends = (a.low * factor, a.high * factor)
        terms = tuple((atom, count * factor) for atom, count in a.terms)
        return self._intern(terms, a.const * factor, (min(ends), max(ends)))

    def within(self, a: Sum, low: int, high: int) -> Sum:
        """a, where the surrounding condition says it lies in low..high."""
        if low <= a.low and a.high <= high:
            return a
        low, high = max(a.low, low), min(a.high, high)
        return self._intern(a.terms, a.const, (low, max(low, high)))

    def divide(self, a: Sum, by: int) -> tuple[Sum, Sum]:
        """Quotient (floor) and remainder; by > 0."""
        if by == 1:
            return a, self.zero
        key = (a.serial, by)
        found = self._quotients.get(key)
        if found is None:
            found = self._quotients[key] = self._divide(a, by)
        return found

    def below_zero(self, a: Sum) -> Sum | bool:
        """The condition a < 0: True, False, or a sum with the same sign and smaller numbers."""
        if a.high < 0:
            return True
        if a.low >= 0:
            return False
        common = gcd(*(count for _, count in a.terms))
        if common == 1:
            return a
        terms = tuple((atom, count // common) for atom, count in a.terms)
        return self._intern(
            terms, a.const // common, (a.low // common, max(a.high // common, a.low // common))
        )

    def replace(self, a: Sum, axes: Mapping[Atom, Sum], done: dict[int, Sum]) -> Sum:
        """The sum with axes replaced; `done` remembers across calls with the same axes."""
        found = done.get(a.serial)
        if found is None:
            parts = [(self._replaced(atom, axes, done), count) for atom, count in a.terms]
            found = self.within(self.shift(self.total(parts), a.const), a.low, a.high)
            done[a.serial] = found
        return found

    def _replaced(self, atom: Atom, axes: Mapping[Atom, Sum], done: dict[int, Sum]) -> Sum:
        if atom in axes:
            return axes[atom]
        if atom.kind in ("div", "mod"):
            inner, by = atom.arg
            return self.divide(self.replace(inner, axes, done), by)[atom.kind == "mod"]
        return self._of_atom(atom.kind, atom.arg, (atom.low, atom.high))

    def _intern(
        self, terms: tuple[tuple[Atom, int], ...], const: int, span: tuple[int, int]
    ) -> Sum:
        if span[0] == span[1] and terms:
            terms, const = (), span[0]
        key = (terms, const, span)
        found = self._sums.get(key)
        if found is None:
            found = self._sums[key] = Sum(terms, const, span, len(self._sums))
        return found

    def _of_atom(self, kind: str, arg: Any, span: tuple[int, int]) -> Sum:
        key = (kind, arg, span)
        atom = self._atoms.get(key)
        if atom is None:
            atom = self._atoms[key] = Atom(kind, arg, span, len(self._atoms))
        return self._intern(((atom, 1),), 0, span)

    def _collect(self, counts: dict[Atom, int], const: int, span: tuple[int, int]) -> Sum:
        """A sum of counted atoms; span holds as well as what the terms say."""
        if any(atom.kind == "mod" for atom in counts):
            const += self._rejoin(counts)
        low = high = const
        for atom, count in counts.items():
            low += count * (atom.low if count > 0 else atom.high)
            high += count * (atom.high if count > 0 else atom.low)
        terms = sorted(((a, c) for a, c in counts.items() if c), key=_serial)
        low, high = max(low, span[0]), min(high, span[1])
        return self._intern(tuple(terms), const, (low, max(low, high)))

    def _rejoin(self, counts: dict[Atom, int]) -> int:
        """Where c * (s % k) meets c*k * (s / k), write c * s. Returns a constant to add."""
        for atom in [a for a in counts if a.kind == "mod"]:
            count = counts[atom]
            inner, by = atom.arg
            quotient, rest = self.divide(inner, by)
            factor = count * by
            if rest.single is not atom or not count or not quotient.terms:
                continue
            if any(counts.get(other, 0) != c * factor for other, c in quotient.terms):
                continue
            del counts[atom]
            for other, _ in quotient.terms:
                del counts[other]
            for other, c in inner.terms:
                counts[other] = counts.get(other, 0) + c * count
            moved: int = inner.const * count - quotient.const * factor
            return moved + self._rejoin(counts)
        return 0

    def _divide(self, a: Sum, by: int) -> tuple[Sum, Sum]:
        low = a.low // by
        if low == a.high // by:
            return self.number(low), self.shift(a, -low * by)
        whole: dict[Atom, int] = {}
        rest: dict[Atom, int] = {}
        for atom, count in a.terms:
            fits = abs(count) // by * (1 if count > 0 else -1)
            if fits:
                whole[atom] = fits
            if count - fits * by:
                rest[atom] = count - fits * by
        times, left = divmod(a.const, by)
        known = _ANY if whole else (a.low - times * by, a.high - times * by)
        part = self._collect(rest, left, known)
        # A remainder that can be negative is lifted, so that what is divided never is.
        lift = part.low // by
        part = self.shift(part, -lift * by)
        quotient = self._collect(whole, times + lift, _ANY)
        if part.high >= by:
            more, part = self._divide_rest(part, by)
            quotient = self.add(quotient, more)
        return self.within(quotient, low, a.high // by), part

    def _divide_rest(self, a: Sum, by: int) -> tuple[Sum, Sum]:
        split = self._coarse_and_fine(a, by)
        if split is not None:
            coarse, fine, grain = split
            quotient, rest = self.divide(coarse, by // grain)
            return quotient, self.add(self.scale(rest, grain), fine)
        line = self._straight(a, by)
        if line is not None:
            return line, self.add(a, self.scale(line, -by))
        inner = a.single
        if inner is not None and inner.kind == "mod" and inner.arg[1] % by == 0:
            quotient, rest = self.divide(inner.arg[0], by)
            return self.divide(quotient, inner.arg[1] // by)[1], rest
        rest = self._of_atom("mod", (a, by), (0, min(by - 1, a.high)))
        if inner is not None and inner.kind == "div":
            return self.divide(inner.arg[0], inner.arg[1] * by)[0], rest
        return self._of_atom("div", (a, by), (a.low // by, a.high // by)), rest

    def _straight(self, a: Sum, by: int) -> Sum | None:
        """The quotient, where it grows evenly along the one short axis that a depends on."""
        if len(a.terms) != 1 or a.terms[0][0].kind != "axis":
            return None
        (atom, count), low = a.terms[0], a.terms[0][0].low
        if atom.high - low >= _SHORT:
            return None
        at = [(count * i + a.const) // by for i in range(low, atom.high + 1)]
        step = at[1] - at[0]
        if any(later - earlier != step for earlier, later in pairwise(at)):
            return None
        return self._collect({atom: step}, at[0] - step * low, _ANY)

    def _coarse_and_fine(self, a: Sum, by: int) -> tuple[Sum, Sum, int] | None:
        """a as grain * coarse + fine with 0 <= fine < grain and grain dividing `by`."""
        terms = sorted(a.terms, key=_magnitude)
        for taken in range(len(terms), 0, -1):
            grain = gcd(by, *(count for _, count in terms[:taken]))
            if grain == 1:
                continue
            times, left = divmod(a.const, grain)
            fine = self._collect(dict(terms[taken:]), left, _ANY)
            if fine.low >= 0 and fine.high < grain:
                coarse = {atom: count // grain for atom, count in terms[:taken]}
                # fine lies in 0..grain-1, so coarse is floor(a / grain) and has its range.
                span = (a.low // grain, a.high // grain)
                return self._collect(coarse, times, span), fine, grain
        return None


_SHORT = 16  # axes up to this size are tried out
_ANY = (-(1 << 200), 1 << 200)


def _serial(term: tuple[Atom, int]) -> int:
    return term[0].serial


def _magnitude(term: tuple[Atom, int]) -> int:
    return -abs(term[1])
