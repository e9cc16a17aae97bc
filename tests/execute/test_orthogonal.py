"""Index arrays along axes of their own: whatever way is taken, NumPy's outcome."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import chunkwise
from chunkwise.execute import orthogonal
from chunkwise.execute.orthogonal import copy_selected


@pytest.fixture(params=[0, None], ids=["always", "large"])
def least(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if request.param is not None:
        monkeypatch.setattr(orthogonal, "_SEVERAL", request.param)
        monkeypatch.setattr(orthogonal, "_CONTIGUOUS", request.param)


@st.composite
def selections(draw: st.DrawFn) -> tuple[Any, ...]:
    """Return a target, a source, their axes perhaps in another order, and what is selected of each."""
    rank = draw(st.integers(1, 4))
    n_arrays = draw(st.integers(0, rank))
    order = draw(st.permutations(range(rank)))
    shape = draw(st.lists(st.integers(1, 12), min_size=rank, max_size=rank))
    inside: list[Any] = []
    at: list[Any] = []
    outer = []
    for axis in range(rank):
        extent = shape[axis]
        if axis < n_arrays:
            picks = draw(st.lists(st.integers(0, extent - 1), min_size=1, max_size=14))
            n = len(picks)
            gaps = draw(st.lists(st.sampled_from([0, 0, 0, 1, 3]), min_size=n, max_size=n))
            places = np.arange(n) + np.cumsum(gaps)
            along = [1] * n_arrays
            along[axis] = n
            inside.append(np.array(picks).reshape(along))
            at.append(places.reshape(along))
            outer.append(int(places[-1]) + 1 + draw(st.integers(0, 2)))
        else:
            start = draw(st.integers(0, extent - 1))
            stop = draw(st.integers(start + 1, extent))
            step = draw(st.integers(1, 3))
            n = len(range(start, stop, step))
            backwards = draw(st.booleans()) and start > 0
            inside.append(slice(stop - 1, start - 1, -1) if backwards else slice(start, stop, step))
            n = stop - start if backwards else n
            first = draw(st.integers(0, 2))
            at.append(slice(first, first + n))
            outer.append(first + n + draw(st.integers(0, 2)))
    back = np.argsort(order)
    source = np.arange(np.prod(shape)).reshape([shape[i] for i in order]).transpose(back)
    target = np.full([outer[i] for i in order], -1).transpose(back)
    return target, tuple(at), source, tuple(inside)


@pytest.mark.usefixtures("least")
@given(selection=selections())
def test_is_what_numpy_does(selection: Any) -> None:
    target, at, source, inside = selection
    expected = target.copy()
    expected[at] = source[inside]
    copy_selected(target, at, source, inside)
    np.testing.assert_array_equal(target, expected)


def test_index_arrays_that_belong_together() -> None:
    source = np.arange(64 * 64 * 8).reshape(64, 64, 8)
    points = np.arange(64)[::-1], np.arange(64)
    target = np.zeros((64, 8), int)
    copy_selected(target, (np.arange(64), slice(0, 8)), source, (*points, slice(0, 8)))
    np.testing.assert_array_equal(target, source[points])


def test_nothing_grows_beyond_the_chunk(monkeypatch: pytest.MonkeyPatch) -> None:
    """Indices that are repeated come to more in between than they select."""
    monkeypatch.setattr(orthogonal, "_SEVERAL", 0)
    source = np.arange(64 * 64).reshape(64, 64)
    inside = np.zeros((1 << 16, 1), int), np.array([[5]])
    target = np.zeros((1 << 16, 1), int)

    class Watched(np.ndarray):
        def take(self, *_: Any, **__: Any) -> Any:
            raise AssertionError("64 times what is selected")

    copy_selected(target, (np.arange(1 << 16)[:, None], np.array([[0]])), source.view(Watched), inside)
    assert (target == 5).all()


@pytest.mark.parametrize("form", ["chunks", "shards", "kept"])
def test_reads_of_arrays(form: str, tmp_path: Path) -> None:
    rng = np.random.default_rng(1)
    data = rng.integers(0, 1 << 16, (60, 70, 90)).astype("uint16")
    layout = {"read_chunk": {"shape": [16, 32, 32]}, "write_chunk": {"shape": [32, 32, 64]}}
    store = chunkwise.open(
        {
            "driver": "zarr3",
            "kvstore": f"file://{tmp_path}/",
            "schema": {"chunk_layout": layout if form == "shards" else {"chunk": {"shape": [32, 32, 64]}}},
            "context": {"cache_pool": {"total_bytes_limit": 1 << 28 if form == "kept" else 0}},
            "recheck_cached_data": False,
        },
        create=True,
        dtype="uint16",
        shape=data.shape,
    ).result()
    store.write(data).result()
    dense = [np.flatnonzero(rng.random(n) < 0.8) for n in data.shape]
    mixed = rng.permutation(dense[1])
    for index in (
        tuple(dense),
        (dense[0], mixed, dense[2]),
        (mixed[mixed < 60], slice(None), mixed),
        (slice(None), slice(5, 66), dense[2]),
        (slice(None, None, -1), mixed, slice(3, 80)),
        (mixed[mixed < 60], mixed, mixed),
    ):
        expected = data
        for axis, along in enumerate(index):
            expected = expected[(slice(None),) * axis + (along,)]
        np.testing.assert_array_equal(store.oindex[index].read().result(), expected)
        np.testing.assert_array_equal(store.oindex[index].read(order="F").result(), expected)
