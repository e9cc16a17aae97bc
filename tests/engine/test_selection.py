"""Selections of chunks, in each way of copying: NumPy's outcome."""

from __future__ import annotations

import tracemalloc
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import chunkwise
from chunkwise.core.engine import targets
from chunkwise.core.engine.targets import selected_runs
from chunkwise.core.grid import RegularGrid
from chunkwise.core.index_space import IndexDomain, IndexTransform, OutputIndexMap
from chunkwise.core.plan.plan import cells, plan_read


def request_for(along: list[Any]) -> IndexTransform:
    """The transform that selects by an integer, a range or indices along each dimension."""
    shape = [len(item) for item in along if not isinstance(item, int)]
    maps, dim = [], 0
    for item in along:
        if isinstance(item, int):
            maps.append(OutputIndexMap(offset=item))
            continue
        if isinstance(item, range):
            maps.append(OutputIndexMap(input_dimension=dim, offset=item.start, stride=item.step))
        else:
            across = [-1 if i == dim else 1 for i in range(len(shape))]
            maps.append(OutputIndexMap(index_array=np.array(item).reshape(across)))
        dim += 1
    return IndexTransform(IndexDomain(shape=shape), maps)


def copied(
    array: np.ndarray, chunk: tuple[int, ...], request: IndexTransform, out: np.ndarray, most: int, order: str
) -> None:
    """Fill `out` by way of runs of up to `most` chunks that lie in memory in the given order."""
    plan = plan_read(request, RegularGrid(chunk))
    every = cells(plan.axes)
    for n, copy in selected_runs(plan.axes, plan.layout.view(out), most):
        assert 1 <= n <= most
        run = np.zeros((n, *(chunk if order == "C" else chunk[::-1])), array.dtype)
        if order == "F":
            run = run.transpose(0, *range(len(chunk), 0, -1))
        for place, cell in zip(run, islice(every, n), strict=True):
            part = array[tuple(slice(c * size, (c + 1) * size) for c, size in zip(cell, chunk, strict=True))]
            place[tuple(map(slice, part.shape))] = part
        copy(run)
    assert next(every, None) is None
    plan.layout.broadcast(out)


@st.composite
def indices(draw: st.DrawFn, size: int) -> Any:
    kind = draw(st.sampled_from(["int", "range", "range", "any", "ascending", "dense", "repeated"]))
    if kind == "int":
        return draw(st.integers(0, size - 1))
    if kind == "range":
        start, stop = sorted((draw(st.integers(0, size - 1)), draw(st.integers(1, size))))
        some = range(start, max(stop, start + 1), draw(st.integers(1, 5)))
        return some[::-1] if draw(st.booleans()) else some
    if kind == "dense":
        kept = draw(st.lists(st.integers(0, 9), min_size=size, max_size=size))
        return [i for i, die in enumerate(kept) if die] or [0]
    some = draw(st.lists(st.integers(0, size - 1), min_size=1, max_size=40 if kind == "repeated" else 8))
    return sorted(some) if kind == "ascending" else some


@st.composite
def cases(draw: st.DrawFn) -> tuple[Any, ...]:
    rank = draw(st.integers(1, 4))
    shape = draw(st.lists(st.integers(1, 14), min_size=rank, max_size=rank))
    chunk = tuple(draw(st.integers(1, size + 3)) for size in shape)
    return shape, chunk, [draw(indices(size)) for size in shape]


@pytest.mark.parametrize("copying", ["plenty", "little", "measured"])
@given(case=cases(), most=st.sampled_from([1, 2, 3, 100]), order=st.sampled_from("CF"), data=st.data())
def test_along_each_dimension(copying: str, case: Any, most: int, order: str, data: Any) -> None:
    shape, chunk, along = case
    array = np.arange(1, 1 + np.prod(shape)).reshape(shape)
    expected = array
    for dim in reversed(range(len(shape))):
        item = along[dim]
        expected = expected.take(item if isinstance(item, int) else list(item), dim)
    axes = data.draw(st.permutations(range(expected.ndim)))
    out = np.full([expected.shape[i] for i in axes], -1).transpose(np.argsort(axes))
    with pytest.MonkeyPatch.context() as patch:
        if copying != "measured":
            patch.setattr(targets, "_MOST_COPIED", 10**9 if copying == "plenty" else 0)
        copied(array, chunk, request_for(along), out, most, order)
    np.testing.assert_array_equal(out, expected)


@given(
    n=st.integers(1, 30),
    chunk=st.tuples(*[st.integers(1, 9)] * 3),
    most=st.sampled_from([1, 4, 100]),
    order=st.sampled_from("CF"),
    rest=st.sampled_from([range(8), range(7, 1, -2), [3, 3, 0]]),
    seed=st.integers(0, 99),
)
def test_dimensions_that_belong_together(
    n: int, chunk: tuple[int, ...], most: int, order: str, rest: Any, seed: int
) -> None:
    array = np.arange(7 * 8 * 9).reshape(7, 8, 9)
    rng = np.random.default_rng(seed)
    first, last = rng.integers(0, 7, (n, 1)), rng.integers(0, 9, (n, 1))
    if isinstance(rest, range):
        middle = OutputIndexMap(input_dimension=1, offset=rest.start, stride=rest.step)
    else:
        middle = OutputIndexMap(index_array=np.array(rest)[None])
    maps = [OutputIndexMap(index_array=first), middle, OutputIndexMap(index_array=last)]
    request = IndexTransform(IndexDomain(shape=[n, len(rest)]), maps)
    out = np.full((n, len(rest)), -1)
    copied(array, chunk, request, out, most, order)
    np.testing.assert_array_equal(out, array[first, np.array(list(rest)), last])


@pytest.mark.parametrize("most", [1, 100])
@pytest.mark.parametrize("dim", [0, 1, 2])
def test_indices_that_are_repeated_take_no_more_than_the_result(dim: int, most: int) -> None:
    """Taken along one dimension of two chunks, before the others, they would come to 32 times as much."""
    shape, chunk = (64, 64, 64), (64, 64, 32)
    array = np.arange(64**3).reshape(shape)
    along: list[Any] = [[1], [2], [3, 60]]
    along[dim] = [3, 60] * 32768
    out = np.empty([len(item) for item in along], array.dtype)
    tracemalloc.start()
    copied(array, chunk, request_for(along), out, most, "C")
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    np.testing.assert_array_equal(out, array[np.ix_(*along)])
    assert peak < 8 * out.nbytes + 2 * array.nbytes


@pytest.mark.parametrize("form", ["files", "raw files", "memory", "shards", "kept", "kept, F"])
def test_reads_of_arrays(form: str, tmp_path: Path) -> None:
    rng = np.random.default_rng(1)
    data = rng.integers(0, 1 << 16, (60, 70, 90)).astype("uint16")
    read, write = [16, 32, 32], [32, 32, 64]
    layout: dict[str, Any] = {"chunk": {"shape": read if "files" in form else write}}
    if form == "shards":
        layout = {"read_chunk": {"shape": read}, "write_chunk": {"shape": write}}
    codecs: list[Any] = [{"name": "bytes", "configuration": {"endian": "little"}}]
    if form != "raw files":
        codecs.append("zstd")
    if form == "kept, F":
        codecs.insert(0, {"name": "transpose", "configuration": {"order": [2, 1, 0]}})
    spec: dict[str, Any] = {
        "driver": "zarr3",
        "kvstore": "memory://" if form == "memory" else f"file://{tmp_path}/",
        "schema": {"chunk_layout": layout},
        "context": {"cache_pool": {"total_bytes_limit": 1 << 28 if "kept" in form else 0}},
        "recheck_cached_data": False,
    }
    if form != "shards":
        spec["metadata"] = {"codecs": codecs}
    store = chunkwise.open(spec, create=True, dtype="uint16", shape=data.shape).result()
    data[32:, :32, 64:] = 0  # a chunk that isn't stored
    store.write(data).result()
    dense = [np.flatnonzero(rng.random(n) < 0.8) for n in data.shape]
    mixed = rng.permutation(dense[1])
    for index in (
        tuple(dense),
        (dense[0], mixed, dense[2]),
        (mixed[mixed < 60], slice(None), mixed),
        (slice(None), slice(5, 66), dense[2]),
        (slice(None), dense[1], slice(7, 83)),
        (slice(None, None, -1), mixed, slice(3, 80)),
        (mixed[mixed < 60], mixed, mixed),
        (slice(3, 57), slice(5, 66), slice(7, 83)),
        (slice(1, None, 2), slice(None, None, -3), slice(None, None, 5)),
    ):
        expected = data
        for axis, along in enumerate(index):
            expected = expected[(slice(None),) * axis + (along,)]
        np.testing.assert_array_equal(store.oindex[index].read().result(), expected)
        np.testing.assert_array_equal(store.oindex[index].read(order="F").result(), expected)
