"""Writes that lie inside one chunk, which take a way of their own, against NumPy."""

from __future__ import annotations

import threading
from pathlib import Path

import numpy as np
import pytest
from examples import examples
from hypothesis import given, settings
from hypothesis import strategies as st

import chunkwise as ts

SHAPE, CHUNK = (7, 10), (3, 4)
METADATA = {"chunk_grid": {"name": "regular", "configuration": {"chunk_shape": list(CHUNK)}}}


def _open(kvstore: object, shape: tuple[int, ...] = SHAPE, **options: object) -> ts.TensorStore:
    spec = {"driver": "zarr3", "kvstore": kvstore, "metadata": METADATA, **options}
    return ts.open(spec, create=True, open=True, dtype=ts.uint16, shape=shape).result()


@st.composite
def _parts(draw: st.DrawFn) -> tuple[int | slice, ...]:
    out: list[int | slice] = []
    for size in SHAPE:
        start = draw(st.integers(0, size - 1))
        stop = draw(st.integers(start + 1, min(size, start + 4)))
        out.append(start if draw(st.booleans()) and stop == start + 1 else slice(start, stop))
    return tuple(out)


@settings(max_examples=examples(60), deadline=None)
@given(st.lists(st.tuples(_parts(), st.integers(0, 3)), min_size=1, max_size=8))
def test_as_numpy(writes: list[tuple[tuple[int | slice, ...], int]]) -> None:
    array = _open("memory://")
    expected = np.zeros(SHAPE, np.uint16)
    for part, value in writes:
        expected[part] = values = np.full(expected[part].shape, value, np.uint16)
        array[part].write(values).result()
    np.testing.assert_array_equal(array.read().result(), expected)
    cells = {(i // 3, j // 4) for i, j in zip(*np.nonzero(expected), strict=True)}
    keys = {key.decode() for key in array.kvstore.list().result()}
    assert keys == {"zarr.json"} | {f"c/{i}/{j}" for i, j in cells}


@pytest.mark.parametrize("sync", [False, True])
def test_only_a_whole_chunk_replaces_a_corrupt_one(tmp_path: Path, sync: bool) -> None:
    array = _open({"driver": "file", "path": str(tmp_path)}, context={"file_io_sync": sync})
    array[:3, :4] = 1
    (tmp_path / "c/0/0").write_bytes(b"?")
    with pytest.raises(ValueError, match=r"Error reading .*c/0/0"):
        array[:3, :3] = 2
    array[:3, :4] = 3
    np.testing.assert_array_equal(array[:3, :4].read().result(), np.full(CHUNK, 3))


def test_a_row_that_is_a_whole_chunk_replaces_a_corrupt_one(tmp_path: Path) -> None:
    grid = {"chunk_grid": {"name": "regular", "configuration": {"chunk_shape": [1, 4]}}}
    array = _open({"driver": "file", "path": str(tmp_path)}, metadata=grid)
    array[2, 4:8] = 1
    (tmp_path / "c/2/1").write_bytes(b"?")
    array[2, 4:8] = [1, 2, 3, 4]
    np.testing.assert_array_equal(array[2, 4:8].read().result(), [1, 2, 3, 4])


@pytest.mark.parametrize("sync", [False, True])
def test_threads_lose_nothing_of_one_chunk(tmp_path: Path, sync: bool) -> None:
    kvstore = {"driver": "file", "path": str(tmp_path)}
    handles = [_open(kvstore, context={"file_io_sync": sync}) for _ in range(3)]

    def write(row: int) -> None:
        for column in range(4):
            handles[row][row, column] = 1 + row * 4 + column

    threads = [threading.Thread(target=write, args=(row,)) for row in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    np.testing.assert_array_equal(handles[0][:3, :4].read().result(), np.arange(1, 13).reshape(3, 4))


def test_what_is_written_after_a_resize_follows_it(tmp_path: Path) -> None:
    array = _open({"driver": "file", "path": str(tmp_path)}, (3, 4))
    array[0, 0] = 1
    for n in (6, 9):
        array = array.resize(exclusive_max=[n, 4]).result()
        array[n - 3 : n] = np.full(CHUNK, n, np.uint16)
    np.testing.assert_array_equal(array[3:, 0].read().result(), [6, 6, 6, 9, 9, 9])
