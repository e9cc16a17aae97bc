"""Boxes that a domain is cut into."""

from __future__ import annotations

from itertools import chain, product
from math import prod

from hypothesis import example, given
from hypothesis import strategies as st

from chunkwise.core.plan.blocks import boxes

BOUNDS = st.lists(st.tuples(st.integers(-5, 9), st.integers(0, 7)), max_size=4)


def _indices(lower, upper, unit, n_elements):
    """Return the indices of each box."""
    cut = boxes(lower, upper, unit, n_elements)
    return [list(product(*[range(s.start, s.stop) for s in box])) for box in cut]


@given(BOUNDS, st.integers(1, 60))
@example([(0, 6), (1, 4)], 10)
def test_with_units_of_1_they_are_runs_of_the_c_order(bounds, n_elements):
    lower, upper = [lo for lo, _ in bounds], [lo + n for lo, n in bounds]
    found = _indices(lower, upper, [1] * len(bounds), n_elements)
    assert list(chain.from_iterable(found)) == list(product(*map(range, lower, upper)))
    assert all(0 < len(box) <= n_elements for box in found)


@given(BOUNDS, st.lists(st.integers(1, 5), min_size=4, max_size=4), st.integers(1, 60))
def test_together_they_are_all_of_the_domain_once(bounds, units, n_elements):
    lower, upper, unit = [lo for lo, _ in bounds], [lo + n for lo, n in bounds], units[: len(bounds)]
    found = _indices(lower, upper, unit, n_elements)
    assert sorted(chain.from_iterable(found)) == sorted(product(*map(range, lower, upper)))
    assert all(0 < len(box) <= max(n_elements, prod(unit)) for box in found)
