"""Boxes that a domain is cut into."""

from __future__ import annotations

from itertools import chain, product
from math import prod

import numpy as np
from examples import examples
from hypothesis import example, given, settings
from hypothesis import strategies as st

from chunkwise.core.index_space import IndexTransform, OutputIndexMap
from chunkwise.core.plan.blocks import boxes
from chunkwise.core.plan.downsample import plan_downsample
from chunkwise.core.plan.layers import LayerBoxes
from chunkwise.core.plan.stack import divide_stack

BOUND = st.tuples(st.integers(-5, 9), st.integers(0, 7))
BOUNDS = st.lists(BOUND, max_size=4)


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


@settings(max_examples=examples(60), deadline=None)
@given(
    st.integers(1, 3).flatmap(
        lambda rank: st.lists(st.lists(BOUND, min_size=rank, max_size=rank), min_size=2)
    )
)
def test_layers_that_meet_a_box(several):
    lower = np.array([[low for low, _ in box] for box in several])
    upper = lower + [[size for _, size in box] for box in several]
    first, last = lower[0], np.maximum(upper[0], lower[0] + 1)
    found = LayerBoxes(lower[1:], upper[1:], lower.shape[1]).meeting(first.tolist(), last.tolist())
    # An empty layer has no index in common, wherever it lies.
    common = np.minimum(upper[1:], last) - np.maximum(lower[1:], first)
    assert found.tolist() == np.flatnonzero((common > 0).all(axis=1)).tolist()


def test_layers_that_touch_a_box_do_not_meet_it():
    intervals = [(low, high) for high in range(5) for low in range(high)]
    for beside in (0, 1):  # the dimension along which the layers lie beside each other
        for *layers, (low, high) in product(intervals, repeat=3):
            bounds = np.array([[(n, n + 1), along] for n, along in enumerate(layers)])
            bounds = bounds[:, [beside, 1 - beside]]
            found = LayerBoxes(bounds[..., 0], bounds[..., 1], 2)
            box = [(0, 2), (low, high)] if beside == 0 else [(low, high), (0, 2)]
            meets = [n for n, along in enumerate(layers) if along[0] < high and low < along[1]]
            assert found.meeting(*zip(*box, strict=True)).tolist() == meets


def test_only_parts_that_index_arrays_scatter_are_read_one_after_the_other() -> None:
    layers = LayerBoxes([[0], [2]], [[3], [4]], 1)
    array = OutputIndexMap(index_array=np.array([3, 0, 2, 1]))
    for output, scattered in (([OutputIndexMap(input_dimension=0)], False), ([array], True)):
        transform = IndexTransform(input_shape=[4], output=output)
        parts = list(divide_stack(transform, layers, [0], 2))
        assert parts
        assert {part.region.indexed for part in parts} == {scattered}


@settings(max_examples=examples(200), deadline=None)
@given(
    st.lists(
        st.tuples(st.integers(0, 9), st.integers(1, 30), st.integers(1, 5), st.integers(1, 8)),
        min_size=1,
        max_size=3,
    ),
    st.integers(1, 200),
)
def test_pieces_of_a_downsampled_array_are_all_of_it_and_of_limited_size(dims, n_elements) -> None:
    lower, factors, chunk = ([dim[at] for dim in dims] for at in (0, 2, 3))
    upper = [dim[0] + dim[1] for dim in dims]
    first = [lo // f for lo, f in zip(lower, factors, strict=True)]
    shape = [-(-hi // f) - a for hi, f, a in zip(upper, factors, first, strict=True)]
    whole = IndexTransform(
        input_inclusive_min=first,
        input_shape=shape,
        output=[OutputIndexMap(input_dimension=dim) for dim in range(len(dims))],
    )
    plan = plan_downsample(whole, factors, lower, upper, chunk=chunk, n_elements=n_elements)
    sizes = [piece.request().size for piece in plan.pieces]
    assert sum(sizes) == plan.n_elements == prod(dim[1] for dim in dims)
    least = prod(max(1, n // f) * f for n, f in zip(chunk, factors, strict=True))
    assert max(sizes) <= max(n_elements, least)
