"""``chunkwise.zarr.CodecPipeline``: arrays of zarr-python by chunkwise, and others by its own pipeline."""

from __future__ import annotations

import pickle
import subprocess
import sys
import textwrap
import threading
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import zarr
import zarr.api.asynchronous
from zarr.core.sync import sync
from zarr.storage import LocalStore, MemoryStore, WrapperStore

from chunkwise.zarr import CodecPipeline, Store

PATH = {"codec_pipeline.path": "chunkwise.zarr.CodecPipeline"}

STORES: dict[str, Callable[[Path], Any]] = {
    "LocalStore": lambda path: LocalStore(path),
    "MemoryStore": lambda path: MemoryStore(),
    "Store": lambda path: Store({"driver": "file", "path": f"{path}/", "file_io_sync": False}),
}
STORED: list[tuple[Any, dict[str, Any]]] = [
    (2, {"dtype": ">f8", "filters": None}),
    (2, {"dtype": "i4", "order": "F"}),
    (3, {"dtype": "c8", "compressors": None}),
    (3, {"dtype": "u2", "shards": (8, 6)}),
]


@pytest.fixture(autouse=True)
def pipeline() -> Iterator[None]:
    """The pipeline is on, as a user switches it on; it is found by its entry point."""
    with zarr.config.set(PATH):
        yield


def is_known(array: Any) -> bool:
    """Return True if chunkwise reads and writes `array` itself."""
    assert isinstance(array._async_array.codec_pipeline, CodecPipeline)
    return array._async_array.codec_pipeline._known is not None


def test_a_store_in_memory_that_is_not_open_yet() -> None:
    """zarr-python makes a pipeline in its event loop, where nothing can be waited for."""

    async def make() -> Any:
        store = MemoryStore()
        metadata = (await zarr.api.asynchronous.create_array({}, shape=(4,), dtype="i4")).metadata
        assert not store._is_open
        return CodecPipeline.from_array_metadata_and_store(metadata, store)

    assert sync(make())._known is not None


@pytest.mark.each_once
@pytest.mark.parametrize("store", STORES)
@pytest.mark.parametrize(("zarr_format", "stored"), STORED)
def test_selections_as_numpy_has_them(store: str, zarr_format: Any, stored: Any, tmp_path: Path) -> None:
    """Slices, integers, index arrays and masks give and set what NumPy does, before and after a resize."""
    made = STORES[store](tmp_path)
    options = {"shape": (20, 13), "chunks": (4, 3), "zarr_format": zarr_format, "fill_value": 0, **stored}
    array = zarr.create_array(made, name="a/b", **options)
    assert is_known(array)
    expected = np.zeros((20, 13), stored["dtype"])
    rng = np.random.default_rng(1)
    selections: list[Any] = [
        (slice(3, 18, 2), slice(1, 13, 5)), (7, slice(2, 9)), (slice(19, 20), 3), (5, 5),
        (slice(4, 8), slice(3, 6)), ..., (slice(None), slice(2, 2)),
    ]  # fmt: skip
    for selection in selections:
        values = rng.integers(1, 100, np.shape(expected[selection])).astype(stored["dtype"])
        array[selection] = expected[selection] = values
        np.testing.assert_array_equal(array[selection], expected[selection])
    array[2:9] = expected[2:9] = 7
    rows, columns = np.array([1, 5, 6, 17]), np.array([0, 2, 12, 7])
    array.oindex[rows, np.sort(columns)] = expected[np.ix_(rows, np.sort(columns))] = np.arange(16).reshape(
        4, 4
    )
    array.oindex[rows, 4] = expected[rows, 4] = [1, 2, 3, 4]
    array.vindex[rows, columns] = expected[rows, columns] = [5, 6, 7, 8]
    mask = rng.integers(0, 2, expected.shape).astype(bool)
    array.vindex[mask] = expected[mask] = 9
    np.testing.assert_array_equal(
        array.oindex[rows, np.sort(columns)], expected[np.ix_(rows, np.sort(columns))]
    )
    np.testing.assert_array_equal(array[...], expected)
    with zarr.config.set({"codec_pipeline.path": "zarr.core.codec_pipeline.BatchedCodecPipeline"}):
        np.testing.assert_array_equal(zarr.open_array(made, path="a/b", mode="r")[...], expected)
    array.resize((30, 13))
    array[25:, 2:] = 1
    assert array[...][20:25].any() == 0 and (array[25:, 2:] == 1).all() and not array[25:, :2].any()


@pytest.mark.parametrize("store", ["LocalStore", "Store"])
def test_threads_lose_nothing_in_a_shard(store: str, tmp_path: Path) -> None:
    """Each row of one shard is written by one of four threads."""
    made = STORES[store](tmp_path)
    array = zarr.create_array(made, shape=(32, 32), chunks=(4, 4), shards=(32, 32), dtype="i4")

    def write(first: int) -> None:
        for row in range(first, 32, 4):
            array[row] = row + 1

    threads = [threading.Thread(target=write, args=(first,)) for first in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    np.testing.assert_array_equal(array[:, 0], np.arange(32) + 1)


def test_processes_lose_nothing_in_a_shard(tmp_path: Path) -> None:
    """Programs of zarr-python, in which only the pipeline is selected, write to one shard."""
    zarr.create_array(LocalStore(tmp_path), shape=(32, 32), chunks=(4, 4), shards=(32, 32), dtype="i4")
    program = textwrap.dedent(f"""
        import sys, zarr
        zarr.config.set({PATH!r})
        array = zarr.open_array({str(tmp_path)!r}, mode="r+")
        for row in range(int(sys.argv[1]), 32, 2):
            array[row] = row + 1
    """)
    writers = [subprocess.Popen([sys.executable, "-c", program, str(first)]) for first in range(2)]
    assert [writer.wait(120) for writer in writers] == [0, 0]
    array = zarr.open_array(LocalStore(tmp_path), mode="r")
    np.testing.assert_array_equal(array[:, 0], np.arange(32) + 1)


def test_what_is_not_known_goes_through_the_pipeline_of_zarr_python(tmp_path: Path) -> None:
    """A store, a codec or a data type that chunkwise can't be sure of."""

    class OwnStore(LocalStore):
        """A store of the user's, which may do anything."""

    for store in (WrapperStore(MemoryStore()), OwnStore(tmp_path / "a")):
        array = zarr.create_array(store, data=np.arange(6), chunks=(2,))
        assert not is_known(array)
        array[1:4] = 7
        assert array[...].tolist() == [0, 7, 7, 7, 4, 5]
    for values in (np.array(["a", "bc"]), np.array(["2020-01-01"], "M8[D]")):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # before 3.4, zarr-python says that it's no standard's
            array = zarr.create_array(MemoryStore(), data=values)
            assert not is_known(array)
            np.testing.assert_array_equal(array[...], values)


def test_a_codec_of_the_users_own_is_used(tmp_path: Path) -> None:
    """A class that goes by the name of a codec is not taken for zarr-python's."""
    from zarr.codecs import GzipCodec

    class OwnGzip(GzipCodec):
        used = 0

        async def _encode_single(self, chunk_bytes: Any, chunk_spec: Any) -> Any:
            type(self).used += 1
            return await super()._encode_single(chunk_bytes, chunk_spec)

    array = zarr.create_array(MemoryStore(), shape=(4,), dtype="i4", compressors=OwnGzip())
    assert not is_known(array)
    array[...] = 1
    assert OwnGzip.used


def test_a_read_only_store_refuses_writes(tmp_path: Path) -> None:
    """The error is that of zarr-python."""
    zarr.create_array(LocalStore(tmp_path), data=np.arange(6))
    array = zarr.open_array(LocalStore(tmp_path, read_only=True), mode="r")
    assert is_known(array) and array[2:4].tolist() == [2, 3]
    with pytest.raises(ValueError, match="read-only mode"):
        array[0] = 1


def test_a_pickled_array_is_still_known(tmp_path: Path) -> None:
    """Tasks of dask and other processes write as safely."""
    array = pickle.loads(pickle.dumps(zarr.create_array(LocalStore(tmp_path), data=np.arange(6))))
    assert is_known(array)
    array[1] = 7
    assert array[...].tolist() == [0, 7, 2, 3, 4, 5]


@pytest.mark.parametrize("write_empty_chunks", [False, True])
def test_chunks_of_the_fill_value(write_empty_chunks: bool, tmp_path: Path) -> None:
    """They are stored if the array's configuration says so."""
    config = {"write_empty_chunks": write_empty_chunks}
    array = zarr.create_array(LocalStore(tmp_path), shape=(8,), chunks=(4,), dtype="i4", config=config)
    assert is_known(array)
    array[...] = 0
    assert (tmp_path / "c" / "1").exists() == write_empty_chunks
