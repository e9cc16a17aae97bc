"""The short way through index arrays gives what the general way does."""

from __future__ import annotations

from typing import Any

import numpy as np
from examples import examples
from hypothesis import assume, given, settings
from hypothesis import strategies as st

import chunkwise
from chunkwise.core.index_space.fast_indexing import fast_arrays
from chunkwise.core.index_space.indexing import _index
from chunkwise.core.index_space.subscript import as_index_error


def _within(dim: chunkwise.Dim) -> st.SearchStrategy[int]:
    return st.integers(dim.inclusive_min, max(dim.inclusive_min, dim.inclusive_max))


def arrays(shape: tuple[int, ...], numbers: st.SearchStrategy[int]) -> st.SearchStrategy[Any]:
    """Return arrays of indices, also as lists."""
    array = st.lists(numbers, min_size=6, max_size=6).map(
        lambda values: np.resize(values, shape) if np.prod(shape) else np.zeros(shape, int)
    )
    return st.one_of(array, array.map(lambda a: a.astype(np.int16)), array.map(lambda a: a.tolist()))


def terms(
    shape: tuple[int, ...], numbers: st.SearchStrategy[int], dim: chunkwise.Dim | None = None
) -> st.SearchStrategy[Any]:
    """Return terms of keys; slices go to the end of a dimension that is given."""
    some = st.one_of(st.none(), numbers)
    wild = st.builds(slice, some, some, st.sampled_from([None, None, 1, 2]))
    tame = wild if dim is None else st.builds(slice, some, st.sampled_from([None, dim.exclusive_max]))
    return st.one_of(
        arrays(shape, numbers),
        tame,
        st.just(slice(None)),
        numbers,
    )


@st.composite
def cases(draw: st.DrawFn) -> tuple[chunkwise.IndexTransform, Any, Any]:
    rank = draw(st.integers(1, 4))
    dims = [
        chunkwise.Dim(
            low := draw(st.integers(-3, 3)),
            low + draw(st.sampled_from([0, 1, 2, 2, 3, 3, 4, 4, 5, 6])),
            label=draw(st.sampled_from(["", f"x{i}"])),
            implicit_lower=draw(st.booleans()),
            implicit_upper=draw(st.booleans()),
        )
        for i in range(rank)
    ]
    transform = chunkwise.IndexTransform(dims)
    if draw(st.booleans()):
        transform = draw(
            st.sampled_from(
                [
                    transform.T,
                    transform[chunkwise.d[0].stride[-2]],
                    transform[..., None],
                    transform[chunkwise.d[:].translate_by[3]],
                ]
            )
        )
    shape = draw(st.sampled_from([(2,), (3,), (2, 2), (1,), (0,)]))
    if draw(st.sampled_from([True, True, True, False])):
        dims = transform.domain[: draw(st.integers(1, rank))]
        key = [draw(terms(shape, _within(dim), dim)) for dim in dims]
        at = draw(st.integers(0, len(dims) - 1))
        key[at] = draw(arrays(shape, _within(dims[at])))
    else:
        others = st.one_of(
            terms(shape, st.integers(-4, 8)),
            st.lists(st.booleans(), max_size=7).map(lambda flags: np.array(flags, bool)),
            st.just(Ellipsis),
            st.none(),
        )
        key = draw(st.lists(others, min_size=1, max_size=rank + 1))
    return transform, tuple(key), draw(st.sampled_from(["default", "oindex", "vindex"]))


@settings(max_examples=examples(600), deadline=None)
@given(cases())
def test_the_short_way_is_the_general_way(case: tuple[chunkwise.IndexTransform, Any, Any]) -> None:
    transform, key, mode = case
    found = fast_arrays(transform._domain, transform._output, key, mode)
    assume(found is not None)  # otherwise the general way decides
    general = as_index_error(_index, transform, key, mode)
    assert chunkwise.IndexTransform._make(*found) == general


def test_it_is_taken_and_copies_the_indices() -> None:
    transform = chunkwise.IndexTransform(input_shape=[10, 20, 30])
    indices = np.array([3, 1, 4])
    for key in (indices, (slice(None), indices), (2, indices), (indices, ..., indices), [3, 1, 4]):
        assert fast_arrays(transform._domain, transform._output, key, "default") is not None
    view = transform[indices]
    indices[0] = 7
    assert view.output[0].index_array.ravel().tolist() == [3, 1, 4]
