"""Sums simplify to what is written here, and never change their value."""

import itertools

import numpy as np
import pytest

from jit.axes import Axes
from jit.simplify import Algebra


@pytest.fixture
def algebra():
    return Algebra()


def evaluate(s, axes):
    """The sum's value at a point: axis number to integer."""
    total = s.const
    for atom, count in s.terms:
        if atom.kind == "axis":
            total += count * axes[atom.arg]
        else:
            inner, by = atom.arg
            found = evaluate(inner, axes)
            total += count * (found // by if atom.kind == "div" else found % by)
    return total


def text(s):
    return repr(s)


def test_equal_sums_are_one_object(algebra):
    i, j = algebra.axis(0, 4), algebra.axis(1, 5)
    assert algebra.add(i, j) is algebra.add(j, i)


def test_terms_cancel(algebra):
    i = algebra.axis(0, 4)
    assert algebra.add(i, algebra.scale(i, -1)) is algebra.zero


def test_an_axis_of_one_is_zero(algebra):
    assert algebra.axis(0, 1) is algebra.zero


def test_quotient_and_remainder_of_row_major_vanish(algebra):
    i, j = algebra.axis(0, 4), algebra.axis(1, 10)
    assert algebra.divide(algebra.total([(i, 10), (j, 1)]), 10) == (i, j)


def test_quotient_and_remainder_rejoin(algebra):
    i = algebra.axis(0, 320)
    quotient, rest = algebra.divide(i, 10)
    assert algebra.total([(quotient, 10), (rest, 1)]) is i


def test_two_levels_rejoin(algebra):
    i = algebra.axis(0, 60)
    outer, rest = algebra.divide(i, 20)
    middle, inner = algebra.divide(rest, 5)
    assert text(middle) == "((axis0 / 5) % 4)"
    assert text(inner) == "(axis0 % 5)"
    assert algebra.total([(outer, 20), (middle, 5), (inner, 1)]) is i


def test_division_of_divisions_is_one(algebra):
    i = algebra.axis(0, 100)
    assert text(algebra.divide(algebra.divide(i, 5)[0], 4)[0]) == "(axis0 / 20)"


def test_coarse_steps_and_fine_ones_part(algebra):
    i, j = algebra.axis(0, 8), algebra.axis(1, 4)
    quotient, rest = algebra.divide(algebra.total([(i, 4), (j, 1)]), 8)
    assert text(quotient) == "(axis0 / 2)"
    assert text(rest) == "axis1 + 4*(axis0 % 2)"


def test_a_flipped_axis_divides(algebra):
    i = algebra.axis(0, 10)
    flipped = algebra.shift(algebra.scale(i, -1), 9)
    assert algebra.divide(flipped, 10) == (algebra.zero, flipped)


def test_a_narrower_range_removes_a_division(algebra):
    i = algebra.shift(algebra.axis(0, 6), -1)  # -1 .. 4
    assert algebra.divide(algebra.within(i, 0, 4), 5)[0] is algebra.zero


def test_narrower_ranges_are_kept_apart(algebra):
    i = algebra.shift(algebra.axis(0, 6), -1)
    assert algebra.within(i, 0, 4) is not i


@pytest.mark.parametrize(
    ("shift", "expected"), [(-4, True), (0, False), (-5, True), (-1, None), (-3, None)]
)
def test_a_condition_is_decided_by_its_range(algebra, shift, expected):
    found = algebra.below_zero(algebra.shift(algebra.axis(0, 4), shift))
    assert (found if isinstance(found, bool) else None) is expected


def test_a_condition_loses_its_common_factor(algebra):
    i = algebra.axis(0, 10)
    assert (
        text(algebra.below_zero(algebra.total([(i, 4), (algebra.number(-7), 1)]))) == "axis0 + -2"
    )


def test_an_axis_splits_where_it_is_divided(algebra):
    i = algebra.axis(0, 320)
    quotient, rest = algebra.divide(i, 10)
    read = algebra.total([(rest, 32), (quotient, 1)])
    axes = Axes(algebra, [i], [])
    settled = axes.settle([read, i])
    assert [a.high + 1 for a in axes.groups[0]] == [32, 10]
    outer, inner = axes.groups[0]
    assert (settled[read].coefficient(outer), settled[read].coefficient(inner)) == (1, 32)
    assert settled[i].coefficient(outer) == 10


def test_axes_walked_in_row_major_order_join(algebra):
    i, j, k = algebra.axis(0, 4), algebra.axis(1, 5), algebra.axis(2, 6)
    flat = algebra.total([(i, 30), (j, 6), (k, 1)])
    axes = Axes(algebra, [i, j, k], [])
    settled = axes.settle([flat])
    assert [a.high + 1 for a in axes.groups[0]] == [120]
    assert settled[flat].single is axes.groups[0][0]


def test_axes_told_apart_by_one_sum_stay(algebra):
    i, j = algebra.axis(0, 4), algebra.axis(1, 5)
    axes = Axes(algebra, [i, j], [])
    axes.settle([algebra.total([(i, 5), (j, 1)]), j])
    assert len(axes.groups[0]) == 2


def test_loop_and_reduce_axes_never_join(algebra):
    i, j = algebra.axis(0, 4), algebra.axis(1, 5)
    axes = Axes(algebra, [i], [j])
    axes.settle([algebra.total([(i, 5), (j, 1)])])
    assert [len(group) for group in axes.groups] == [1, 1]


@pytest.mark.parametrize("seed", range(40))
def test_random_sums_keep_their_value_and_range(algebra, seed):
    rng = np.random.default_rng(seed)
    sizes = [int(n) for n in rng.integers(1, 7, 3)]
    known = [(algebra.axis(n, size), None) for n, size in enumerate(sizes)]
    points = list(itertools.product(*map(range, sizes)))
    values = [[point[n] for point in points] for n in range(3)]
    for _ in range(25):
        a, b = rng.integers(len(known), size=2)
        kind, by = rng.integers(4), int(rng.integers(1, 9))
        left, mine = known[a][0], values[a]
        if kind == 0:
            made = [(algebra.add(left, known[b][0]), np.add(mine, values[b]))]
        elif kind == 1:
            factor = int(rng.integers(-3, 7))
            made = [(algebra.scale(left, factor), np.multiply(mine, factor))]
        else:
            lifted = algebra.shift(left, max(0, -left.low))
            quotient, rest = algebra.divide(lifted, by)
            whole = np.add(mine, max(0, -left.low))
            made = [(quotient, whole // by), (rest, whole % by)]
        for s, expected in made:
            got = [evaluate(s, dict(enumerate(point))) for point in points]
            assert got == list(expected)
            assert s.low <= min(got)
            assert max(got) <= s.high
            if max(map(abs, got)) < 10**6:
                known.append((s, None))
                values.append(list(expected))


@pytest.mark.parametrize("seed", range(20))
def test_choosing_axes_keeps_every_value(algebra, seed):
    rng = np.random.default_rng(seed)
    sizes = [int(n) for n in rng.choice([2, 3, 4, 6, 12], 2)]
    axes_before = [algebra.axis(n, size) for n, size in enumerate(sizes)]
    flat = algebra.total([(axes_before[0], sizes[1]), (axes_before[1], 1)])
    sums = [flat]
    for _ in range(3):
        quotient, rest = algebra.divide(sums[-1], int(rng.choice([2, 3, 4, 6])))
        sums += [quotient, algebra.total([(rest, 5), (axes_before[rng.integers(2)], 1)])]
    axes = Axes(algebra, axes_before, [])
    settled = axes.settle(sums)
    before = sorted(
        tuple(evaluate(s, dict(enumerate(p))) for s in sums)
        for p in itertools.product(*map(range, sizes))
    )
    chosen = axes.groups[0]
    after = sorted(
        tuple(
            evaluate(settled[s], {a.arg: x for a, x in zip(chosen, p, strict=True)}) for s in sums
        )
        for p in itertools.product(*(range(a.high + 1) for a in chosen))
    )
    assert before == after


def test_a_quotient_along_a_short_axis_becomes_a_line(algebra):
    i = algebra.axis(0, 2)
    quotient, rest = algebra.divide(algebra.shift(i, 1), 2)
    assert quotient is i
    assert text(rest) == "-1*axis0 + 1"
