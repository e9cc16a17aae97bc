"""Views of arrays in memory share their elements; a spec has elements of its own."""

import tracemalloc

import numpy as np
import pytest

import chunkwise as ts

VIEWS = {
    "array": lambda a: a,
    "index": lambda a: a[10:],
    "cast": lambda a: ts.cast(a, ts.float32),
    "downsample": lambda a: ts.downsample(a, [2], "mean"),
    "downsample of cast": lambda a: ts.downsample(ts.cast(a, ts.float32), [2], "mean"),
    "stack": lambda a: ts.stack([a, a]),
    "concat": lambda a: ts.concat([a, a], axis=0),
    "overlay": lambda a: ts.overlay([a, a.translate_by[5]]),
    "cast of stack": lambda a: ts.cast(ts.stack([a, a]), ts.float64),
}
N = 1 << 20


def taken(work):
    """Return what `work` gives and the most memory that it took, in bytes."""
    work()  # the first time may load modules
    tracemalloc.start()
    try:
        return work(), tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("name", VIEWS)
def test_no_view_copies_what_is_below(name):
    below = ts.array(np.zeros(N, np.uint16))
    view, nbytes = taken(lambda: VIEWS[name](below))
    assert nbytes < N // 8
    before = view[..., 13].read().result().sum()
    below[...] = 7
    assert view[..., 13].read().result().sum() > before


@pytest.mark.parametrize("name", VIEWS)
def test_a_spec_stays_what_it_was(name):
    below = ts.array(np.zeros(40, np.uint16))
    spec = VIEWS[name](below).spec()
    below[...] = 7
    assert not ts.open(spec).result().read().result().any()


@pytest.mark.parametrize("name", VIEWS)
def test_the_repr_of_many_elements_is_short(name):
    view = VIEWS[name](ts.array(np.zeros(N, np.uint16)))
    assert len(repr(view)) < 3000 and f"{N}" in repr(view)
    assert len(repr(view.spec())) < 3000
    few = VIEWS[name](ts.array(np.arange(40, dtype=np.uint16)))
    assert repr(few).count("39") >= 1 or name == "downsample"
    assert "elements of shape" not in repr(few)


def test_json_has_all_elements():
    assert len(ts.array(np.zeros(30_000, np.uint16)).spec().to_json()["array"]) == 30_000
