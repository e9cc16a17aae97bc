"""A set of integers in runs is a set of integers."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from chunkwise.copying.journal_document import Ranges

RUNS = st.lists(st.tuples(st.integers(0, 40), st.integers(0, 8)), max_size=15)


@given(runs=RUNS, start=st.integers(0, 50), n=st.integers(0, 30))
def test_ranges_are_a_set(runs: list[tuple[int, int]], start: int, n: int) -> None:
    ranges, expected = Ranges(), set()
    for low, length in runs:
        ranges.add(low, low + length)
        expected |= set(range(low, low + length))
    assert {number for number in range(60) if number in ranges} == expected
    assert len(ranges) == len(expected)
    left = [number for low, high in ranges.missing(start, start + n) for number in range(low, high)]
    assert left == sorted(set(range(start, start + n)) - expected)
    found = list(ranges)
    assert all(before[1] < after[0] for before, after in pairwise(found))
    assert list(Ranges(found)) == found
