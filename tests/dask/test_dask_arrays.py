"""Dask arrays of chunkwise arrays and the reverse: blocks, names, other processes, and nothing lost."""

from __future__ import annotations

import pickle
import subprocess
import sys
from pathlib import Path
from typing import Any

import dask
import dask.array as da
import numpy as np
import pytest
from dask.delayed import Delayed
from examples import examples
from hypothesis import given, settings
from hypothesis import strategies as st

import chunkwise as cw

FORMATS = {"zarr3": "zarr3", "zarr2": "zarr", "n5": "n5"}


def make(shape: tuple[int, ...], chunks: tuple[int, ...], **options: Any) -> tuple[Any, np.ndarray]:
    """Return an array in memory with distinct values, and the values."""
    options = {"context": cw.Context(), **options}
    layout = options.pop("chunk_layout", None) or cw.ChunkLayout(chunk_shape=list(chunks))
    array = cw.open(
        options.pop("spec", "memory://|zarr3"),
        create=True,
        dtype=options.pop("dtype", "int32"),
        shape=shape,
        chunk_layout=layout,
        **options,
    ).result()
    values = np.arange(array.size, dtype=array.dtype.numpy_dtype).reshape(shape)
    array.write(values).result()
    return array, values


@st.composite
def views(draw: st.DrawFn) -> tuple[tuple[int, ...], tuple[int, ...], tuple[slice, ...]]:
    rank = draw(st.integers(0, 3))
    shape = tuple(draw(st.integers(0, 12)) for _ in range(rank))
    chunks = tuple(draw(st.integers(1, 6)) for _ in range(rank))
    region = []
    for n in shape:
        start = draw(st.integers(0, n))
        stop = draw(st.integers(start, n))
        region.append(slice(start, stop, draw(st.integers(1, 3))))
    return shape, chunks, tuple(region)


@settings(max_examples=examples(60), deadline=None)
@given(views(), st.data())
def test_a_view_as_dask_array_has_its_values(view: Any, data: st.DataObject) -> None:
    shape, chunks, region = view
    array, values = make(shape, chunks)
    lazy = cw.to_dask(array[region]) if region else cw.to_dask(array)
    expected = values[region]
    assert lazy.shape == expected.shape and lazy.dtype == expected.dtype
    np.testing.assert_array_equal(lazy.compute(scheduler="sync"), expected)
    # dask puts indices of several steps together before they reach the array
    index = tuple(
        data.draw(st.one_of(st.slices(n), st.integers(0, n - 1) if n else st.slices(n)))
        for n in expected.shape
    )
    np.testing.assert_array_equal(lazy[index].compute(scheduler="sync"), expected[index])


@settings(max_examples=examples(80), deadline=None)
@given(views(), st.booleans())
def test_no_block_shares_a_chunk_with_another_block_along_its_dimension(view: Any, flip: bool) -> None:
    shape, chunks, region = view
    array, _ = make(shape, chunks)
    seen = array[region] if region else array
    if flip and region:
        seen = seen[tuple(slice(None, None, -1) for _ in region)]
    sizes = cw.to_dask(seen).chunks
    for dim, along in enumerate(sizes):
        index = np.arange(shape[dim])[region[dim]]
        index = index[::-1] if flip else index
        cells = np.split(index // chunks[dim], np.cumsum(along)[:-1])
        assert sum(along) == len(index)
        assert all(len(set(cell)) <= 1 for cell in cells)
        firsts = [cell[0] for cell in cells if len(cell)]
        assert len(set(firsts)) == len(firsts)


def test_blocks_of_shards_and_of_unequal_chunks() -> None:
    layout = cw.ChunkLayout(write_chunk_shape=[8, 6], read_chunk_shape=[2, 3])
    array, _ = make((20, 12), (), chunk_layout=layout)
    assert cw.to_dask(array).chunks == ((8, 8, 4), (6, 6))
    assert cw.to_dask(array, chunks=(2, 3)).chunks == ((2,) * 10, (3,) * 4)
    grid = {"name": "rectilinear", "configuration": {"kind": "inline", "chunk_shapes": [[3, 7, 4], 5]}}
    spec = {"driver": "zarr3", "kvstore": "memory://", "metadata": {"chunk_grid": grid}}
    array = cw.open(spec, create=True, dtype="uint8", shape=[14, 11]).result()
    array.write(np.arange(154, dtype="u1").reshape(14, 11)).result()
    lazy = cw.to_dask(array)
    assert lazy.chunks == ((3, 7, 4), (5, 5, 1))
    np.testing.assert_array_equal(lazy, np.arange(154, dtype="u1").reshape(14, 11))


def test_automatic_blocks_are_of_whole_chunks() -> None:
    array, values = make((4000, 30), (7, 30))
    with dask.config.set({"array.chunk-size": "64 KiB"}):
        lazy = cw.to_dask(array, chunks="auto")
    assert len(lazy.chunks[0]) < 50 and all(n % 7 == 0 for n in lazy.chunks[0][:-1])
    np.testing.assert_array_equal(lazy, values)


def test_blocks_of_views_with_index_arrays() -> None:
    array, values = make((20, 30), (4, 5))
    lazy = cw.to_dask(array[[19, 3, 3, 7]])
    assert lazy.chunks == ((4,), (5,) * 6)
    np.testing.assert_array_equal(lazy, values[[19, 3, 3, 7]])
    diagonal = cw.to_dask(array[cw.d[0, 1].diagonal])
    np.testing.assert_array_equal(diagonal, np.diagonal(values))


def test_a_virtual_array_as_dask_array() -> None:
    array, values = make((20, 30), (4, 5))
    both = cw.concat([array, array], axis=0)
    lazy = cw.to_dask(both)
    np.testing.assert_array_equal(lazy, np.concatenate([values, values]))
    as_float = cw.to_dask(cw.cast(array, "float64"))
    assert as_float.dtype == np.float64 and as_float.chunks == ((4,) * 5, (5,) * 6)
    np.testing.assert_array_equal(as_float, values.astype("f8"))


def test_names_tell_the_array_and_the_view(tmp_path: Path) -> None:
    path = str(tmp_path / "a.zarr")
    array, _ = make((20, 30), (4, 5), spec={"driver": "zarr3", "kvstore": {"driver": "file", "path": path}})
    other, _ = make((20, 30), (4, 5), spec={"driver": "zarr3", "kvstore": f"file://{tmp_path}/b.zarr"})
    name = cw.to_dask(array).name
    assert name == cw.to_dask(cw.open(path).result()).name
    assert name == cw.to_dask(pickle.loads(pickle.dumps(array))).name
    different = [array[:10], array[:10][5:], other, cw.cast(array, "int64")]
    names = {name, *(cw.to_dask(view).name for view in different), cw.to_dask(array, chunks=(10, 10)).name}
    assert len(names) == 6
    assert cw.to_dask(array, name="mine").name == "mine"
    token = dask.base.tokenize(array)
    assert token == dask.base.tokenize(cw.open(path).result()) != dask.base.tokenize(array[1:])


def test_arrays_in_memory_are_told_apart() -> None:
    one, values = make((6,), (2,))
    two, _ = make((6,), (2,))
    two.write(values * 2).result()
    assert cw.to_dask(one).name == cw.to_dask(one).name != cw.to_dask(two).name
    np.testing.assert_array_equal(cw.to_dask(one) + cw.to_dask(two), values * 3)
    three, four = cw.array(values), cw.array(values * 2)
    np.testing.assert_array_equal(cw.to_dask(three) + cw.to_dask(four), values * 3)


@pytest.mark.parametrize("format", list(FORMATS))
def test_other_processes_open_the_array_themselves(tmp_path: Path, format: str) -> None:
    source = str(tmp_path / "a")
    spec = {"driver": FORMATS[format], "kvstore": {"driver": "file", "path": source}}
    array, values = make((40, 30), (9, 8), spec=spec)
    lazy = cw.to_dask(array)
    again = pickle.loads(pickle.dumps(lazy))
    np.testing.assert_array_equal(again.compute(scheduler="sync"), values)
    assert len(pickle.dumps(lazy)) < 20_000  # what opens it, not its elements


def test_a_graph_runs_in_another_process(tmp_path: Path) -> None:
    spec = {"driver": "zarr3", "kvstore": {"driver": "file", "path": str(tmp_path / "a")}}
    array, values = make((40, 30), (9, 8), spec=spec)
    target, _ = make(
        (40, 30), (25, 30), spec={**spec, "kvstore": {"driver": "file", "path": str(tmp_path / "b")}}
    )
    graph = cw.store(cw.to_dask(array) + 1, target, compute=False)
    (tmp_path / "graph").write_bytes(pickle.dumps(graph))
    code = "import pickle, sys; pickle.load(open(sys.argv[1], 'rb')).compute(scheduler='threads')"
    subprocess.run([sys.executable, "-c", code, str(tmp_path / "graph")], check=True)
    np.testing.assert_array_equal(target, values + 1)


@pytest.mark.slow
def test_blocks_are_read_and_written_by_processes(tmp_path: Path) -> None:
    """Blocks that share chunks are written by two processes: nothing of either is lost."""
    spec = {"driver": "zarr3", "kvstore": {"driver": "file", "path": str(tmp_path / "a")}}
    array, values = make((40, 30), (9, 8), spec=spec)
    target, _ = make(
        (40, 30), (25, 30), spec={**spec, "kvstore": {"driver": "file", "path": str(tmp_path / "b")}}
    )
    cw.store(cw.to_dask(array) + 1, target, scheduler="processes", num_workers=2)
    np.testing.assert_array_equal(target, values + 1)


@settings(max_examples=examples(60), deadline=None)
@given(views(), st.lists(st.integers(1, 12), min_size=3, max_size=3))
def test_blocks_of_any_size_are_stored_without_a_lock(view: Any, blocks: list[int]) -> None:
    shape, chunks, region = view
    array, values = make(shape, chunks)
    expected = values.copy()
    new = -np.arange(1, values[region].size + 1, dtype="i4").reshape(values[region].shape)
    expected[region] = new
    source = da.from_array(new, chunks=tuple(blocks[: new.ndim]))
    cw.store(source, array[region] if region else array, scheduler="threads")
    np.testing.assert_array_equal(array, expected)


def test_many_threads_write_parts_of_one_chunk() -> None:
    array, _ = make((64, 64), (64, 64))
    new = np.arange(64 * 64, dtype="i4").reshape(64, 64)[::-1]
    for _ in range(3):
        array.write(0).result()
        da.store(da.from_array(new, chunks=(8, 16)), array, lock=False, scheduler="threads", num_workers=16)
        np.testing.assert_array_equal(array, new)


@pytest.mark.parametrize("lock", [True, False])
def test_dask_stores_into_a_chunkwise_array_by_itself(lock: bool) -> None:
    array, values = make((20, 30), (6, 7))
    new = da.from_array(-values, chunks=(5, 11))
    da.store(new, array, lock=lock)
    np.testing.assert_array_equal(array, -values)
    da.store(new[:5, :10], array, regions=(slice(5, 10), slice(3, 13)), lock=lock)
    expected = -values
    expected[5:10, 3:13] = -values[:5, :10]
    np.testing.assert_array_equal(array, expected)


def test_what_is_stored_can_be_computed_on() -> None:
    array, values = make((20, 30), (6, 7))
    source = da.from_array(values * 2, chunks=(5, 11))
    stored = cw.store(source, array, return_stored=True, compute=False)
    np.testing.assert_array_equal(array, values)
    np.testing.assert_array_equal(stored.sum(axis=0), (values * 2).sum(axis=0))
    later = cw.store(source + 1, array, compute=False)
    np.testing.assert_array_equal(array, values * 2)
    assert isinstance(later, Delayed) and later.compute() is None
    np.testing.assert_array_equal(array, values * 2 + 1)
    other, _ = make((20, 30), (6, 7))
    both = cw.store([source, source + 3], [array, other], compute=False)
    assert isinstance(both, Delayed) and both.compute() is None
    np.testing.assert_array_equal(array, values * 2)
    np.testing.assert_array_equal(other, values * 2 + 3)


def test_several_arrays_are_stored_at_once() -> None:
    one, values = make((12,), (5,))
    two, _ = make((12,), (3,))
    source = da.from_array(values, chunks=4)
    cw.store([source + 1, source + 2], [one, two], rechunk=True)
    np.testing.assert_array_equal(one, values + 1)
    np.testing.assert_array_equal(two, values + 2)
    (stored,) = cw.store([source], [one], return_stored=True)
    np.testing.assert_array_equal(stored, values)


@pytest.mark.parametrize("format", list(FORMATS))
def test_from_dask_makes_an_array_with_a_chunk_for_each_block(tmp_path: Path, format: str) -> None:
    values = np.arange(600, dtype="u2").reshape(20, 30)
    spec = {"driver": FORMATS[format], "kvstore": {"driver": "file", "path": str(tmp_path / "a")}}
    array = cw.from_dask(da.from_array(values, chunks=(7, 30)), spec)
    assert array.chunk_layout.write_chunk.shape == (7, 30)
    np.testing.assert_array_equal(array, values)
    with pytest.raises(ValueError, match="ALREADY_EXISTS"):
        cw.from_dask(da.from_array(values, chunks=(7, 30)), spec)
    uneven = da.from_array(values, chunks=((3, 10, 7), 30))
    array = cw.from_dask(uneven, spec, delete_existing=True, scheduler="sync")
    assert array.chunk_layout.write_chunk.shape == (10, 30)
    np.testing.assert_array_equal(array, values)


def test_from_dask_to_a_path(tmp_path: Path) -> None:
    values = np.arange(20, dtype="f4")
    array, delayed = cw.from_dask(da.from_array(values, chunks=6), tmp_path / "a.n5", compute=False)
    np.testing.assert_array_equal(array, np.zeros(20))
    delayed.compute()
    assert cw.open(str(tmp_path / "a.n5")).result().spec().to_json()["driver"] == "n5"
    np.testing.assert_array_equal(cw.open(str(tmp_path / "a.n5")).result(), values)
    cw.from_dask(da.from_array(values, chunks=6), str(tmp_path / "b"), fill_value=3)
    assert (tmp_path / "b/zarr.json").exists()
    cw.from_dask(da.zeros((), dtype="i1") + 7, f"file://{tmp_path}/c|zarr2")
    assert cw.open(str(tmp_path / "c")).result().read().result() == 7


@pytest.mark.parametrize("blocks", [(10, 10), (10, 7), (3, 30)])
def test_blocks_are_put_together_so_that_chunks_are_written_without_a_read(
    tmp_path: Path, blocks: tuple[int, int]
) -> None:
    assert chunk_reads(tmp_path / "a", blocks) == 0


def chunk_reads(path: Path, blocks: tuple[int, int]) -> int:
    from chunkwise.core.kvstore.files.file_store import FileStore

    spec = {"driver": "zarr3", "kvstore": {"driver": "file", "path": str(path)}}
    array, values = make((40, 30), (10, 10), spec=spec)
    count = [0]
    before = FileStore.read

    def read(self: FileStore, key: str, **options: Any) -> Any:
        count[0] += "/c/" in key or key.startswith("c/")
        return before(self, key, **options)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(FileStore, "read", read)
        cw.store(da.from_array(-values, chunks=blocks), array)
    np.testing.assert_array_equal(array, -values)
    return count[0]


def test_failures_of_a_block_are_raised(tmp_path: Path) -> None:
    array, values = make((20,), (5,), spec={"driver": "zarr3", "kvstore": f"file://{tmp_path}/a/"})
    lazy = cw.to_dask(array)
    (tmp_path / "a/c/2").write_bytes(b"too short")
    with pytest.raises(ValueError, match="c/2"):
        lazy.compute()
    np.testing.assert_array_equal(lazy[:10], values[:10])


def test_what_cannot_be_is_refused() -> None:
    array, values = make((20,), (5,))
    source = da.from_array(values, chunks=5)
    with pytest.raises(TypeError, match=r"expected a path, .*, got int"):
        cw.to_dask(5)
    with pytest.raises(TypeError, match="expected a dask array"):
        cw.store(values, array)
    with pytest.raises(TypeError, match="expected a TensorStore"):
        cw.store(source, values)
    with pytest.raises(TypeError, match=r"expected a dask array, got ndarray; .*array\(path, values\)"):
        cw.from_dask(values, "memory://|zarr3")
    with pytest.raises(ValueError, match=r"\[20\] can't be stored in one of \[19\]"):
        cw.store(source, array[1:])
    with pytest.raises(ValueError, match="1 sources"):
        cw.store([source], [array, array])
    unknown = source[source > 3]
    for write in (
        lambda: cw.from_dask(unknown, "memory://|zarr3"),
        lambda: cw.store(unknown, array),
        lambda: cw.create_array("memory://a", unknown),
    ):
        with pytest.raises(ValueError, match=r"not known: write array\.compute_chunk_sizes\(\)"):
            write()
    with pytest.raises(ValueError, match="does not support writing"):
        cw.store(source, cw.downsample(array, [1], "stride"))
    huge = {"driver": "zarr3", "kvstore": "memory://", "metadata": {"shape": [2**50]}}
    huge_array = cw.open(
        huge, create=True, dtype="uint8", chunk_layout=cw.ChunkLayout(chunk_shape=[1])
    ).result()
    with pytest.raises(ValueError, match="more than 10,000,000 blocks"):
        cw.to_dask(huge_array)
    assert cw.to_dask(huge_array, chunks=2**45).numblocks == (32,)


def test_without_dask_the_message_says_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    array, _ = make((20,), (5,))
    monkeypatch.setitem(sys.modules, "dask.array", None)
    for call in (lambda: cw.to_dask(array), lambda: cw.from_dask(0, "memory://"), lambda: cw.store(0, array)):
        with pytest.raises(ImportError, match=r'pip install "chunkwise\[dask\]"'):
            call()
