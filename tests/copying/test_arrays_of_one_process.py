"""What lives in the memory of one process, given to everything that sends work to others.

Each case is an error that says so and leaves no array, or the values are where the caller looks for them.
"""

from __future__ import annotations

import multiprocessing
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any
from uuid import uuid4

import dask
import dask.array as da
import fsspec
import numpy as np
import obstore.store
import pytest
import xarray as xr
import zarr
from fsspec.implementations.dirfs import DirFileSystem
from fsspec.implementations.memory import MemoryFileSystem

import chunkwise as cw
from chunkwise.errors import ChunkwiseError
from chunkwise.extension import PluginStore

VALUES = np.arange(1, 9, dtype="int64")


class Dictionary(PluginStore):
    """Values in a dictionary, which a pickle copies."""

    single_writer = True

    def __init__(self) -> None:
        self.values: dict[str, bytes] = {}

    @property
    def identity(self) -> Any:
        return "dictionary", id(self.values)

    def get(self, key: str) -> bytes | None:
        return self.values.get(key)

    def put(self, key: str, value: bytes) -> None:
        self.values[key] = value

    def remove(self, key: str) -> None:
        self.values.pop(key, None)

    def keys(self, prefix: str) -> list[str]:
        return [key for key in list(self.values) if key.startswith(prefix)]


def _in(holder: Any) -> dict[str, Any]:
    return {"driver": "object", "object": holder}


def _directory() -> Any:
    return fsspec.FSMap("inner", DirFileSystem(f"/{uuid4().hex}", MemoryFileSystem()))


STORES: dict[str, Callable[[], Any]] = {
    "memory": lambda: cw.KvStore.open("memory://").result(),
    "dict": lambda: _in({}),
    "fsspec": lambda: _in(fsspec.get_mapper(f"memory://{uuid4().hex}")),
    "fsspec in fsspec": lambda: _in(_directory()),
    "zarr": lambda: _in(zarr.storage.MemoryStore()),
    "zarr in zarr": lambda: _in(zarr.storage.WrapperStore(zarr.storage.MemoryStore())),
    "obstore": lambda: _in(obstore.store.MemoryStore()),
    "plugin": lambda: _in(Dictionary()),
    "kvstack": lambda: {"driver": "kvstack", "layers": [{"base": _in(Dictionary())}]},
}


def _stored(kvstore: Any) -> cw.TensorStore:
    layout = cw.ChunkLayout(chunk_shape=[2])
    spec = {"driver": "zarr3", "kvstore": kvstore}
    return cw.open(
        spec, create=True, delete_existing=True, dtype="int64", shape=[8], chunk_layout=layout
    ).result()


def _zeros(n: int = 8) -> cw.TensorStore:
    return cw.array(np.zeros(n, "int64"))


def _functions() -> cw.TensorStore:
    held = np.zeros(8, "int64")

    def read(domain: Any, chunk: Any, parameters: Any) -> None:
        chunk[...] = held[domain.origin[0] :][: chunk.shape[0]]

    def write(domain: Any, chunk: Any, parameters: Any) -> None:
        held[domain.origin[0] :][: chunk.shape[0]] = chunk

    return cw.virtual_chunked(read, write, dtype="int64", shape=[8])


ARRAYS: dict[str, Callable[[], cw.TensorStore]] = {
    **{name: lambda make=make: _stored(make()) for name, make in STORES.items()},
    "array": _zeros,
    "cast": lambda: cw.cast(_zeros(), "int32"),
    "view": lambda: cw.array(np.zeros((8, 2), "int64"))[:, 1],
    "concat": lambda: cw.concat([_zeros(4), _zeros(4)], axis=0),
    "concat of stored": lambda: cw.concat([_stored(_in({}))[:4], _zeros(4)], axis=0),
    "cast of a stack": lambda: cw.cast(cw.stack([_zeros(), _zeros()], axis=1), "int32")[:, 0],
    "functions": _functions,
}
COPIED = {"array", "cast", "view", "concat", "cast of a stack", "functions"}
"""Arrays whose pickles hold what is needed to read them."""


@pytest.fixture(scope="module")
def pool() -> Iterator[ProcessPoolExecutor]:
    spawned = multiprocessing.get_context("spawn")
    with (
        ProcessPoolExecutor(1, mp_context=spawned) as executor,
        dask.config.set(pool=executor, scheduler="processes"),
    ):
        yield executor


def _refuses(work: Callable[[], Any]) -> None:
    with pytest.raises((ChunkwiseError, RuntimeError)) as caught:
        work()
    text = str(caught.value) or str(caught.value.__cause__)
    assert any(words in text for words in ("in the memory", "would be lost", "conditional writes")), text


@pytest.mark.parametrize("kind", ARRAYS)
def test_storing_a_dask_array(kind: str, pool: ProcessPoolExecutor) -> None:
    """Nothing that tasks of another process write is lost silently."""
    target = ARRAYS[kind]()
    source = da.from_array(VALUES.astype(target.dtype.numpy_dtype), chunks=2)
    _refuses(lambda: cw.store(source, target))
    assert not target.read().result().any()
    with dask.config.set(pool=None):
        cw.store(source, target, scheduler="threads")
    np.testing.assert_array_equal(target.read().result(), VALUES)


@pytest.mark.parametrize("kind", ARRAYS)
def test_reading_by_dask(kind: str, pool: ProcessPoolExecutor) -> None:
    """Tasks of another process read what the caller sees, or fail."""
    source = ARRAYS[kind]()
    source.write(VALUES.astype(source.dtype.numpy_dtype)).result()
    if kind in COPIED:
        np.testing.assert_array_equal(cw.to_dask(source).compute(), VALUES)
    else:
        _refuses(lambda: cw.to_dask(source).compute())


@pytest.mark.parametrize("kind", STORES)
def test_places_of_one_process(kind: str, tmp_path: Path, pool: ProcessPoolExecutor) -> None:
    """Copies, pyramids, checks and datasets refuse them as source and as destination."""
    how: Any = {"executor": pool, "factors": [1, 2], "levels": 1, "axes": ["y", "x"]}
    here, there = STORES[kind](), STORES[kind]()
    plain, tree, picture = (tmp_path / name for name in ("a.zarr", "g.zarr", "i.zarr"))
    cw.create_array(plain, VALUES, chunks=[2])
    cw.create_array(picture, VALUES.reshape(4, 2), chunks=[2, 2])
    cw.create_group(tree).create_array("a", VALUES, chunks=[2])
    lazy = da.from_array(VALUES, chunks=2)
    _refuses(lambda: cw.copy(plain, here, executor=pool))
    _refuses(lambda: cw.copy_tree(tree, here, executor=pool))
    _refuses(lambda: cw.downsample_pyramid(picture, here, **how).result())
    _refuses(lambda: cw.from_dask(lazy, {"driver": "zarr3", "kvstore": here}))
    _refuses(lambda: cw.xarray.write_dataset(xr.Dataset({"v": ("x", lazy)}), here))
    stored = _stored(there)
    stored.write(VALUES).result()
    _refuses(lambda: cw.verify(there, executor=pool))
    _refuses(lambda: cw.diff(there, plain, executor=pool))
    _refuses(lambda: cw.copy(there, tmp_path / "b.zarr", executor=pool))
    image = cw.stack([stored, stored], axis=0)
    _refuses(lambda: cw.downsample_pyramid(image, tmp_path / "p.zarr", **how).result())
    assert {path.name for path in tmp_path.iterdir()} <= {"a.zarr", "g.zarr", "i.zarr"}


@pytest.mark.parametrize("name", ["a.zarr", "a.n5"])
def test_an_array_that_a_task_does_not_see(name: str, tmp_path: Path, pool: ProcessPoolExecutor) -> None:
    """It isn't full of fill values, and isn't written without its metadata."""
    array = cw.create_array(tmp_path / name, VALUES, chunks=[2])
    lazy = cw.to_dask(array)
    (tmp_path / name).rename(tmp_path / "elsewhere")
    for work in (lazy.compute, lambda: cw.store(da.ones(8, chunks=2, dtype="int64"), array)):
        with pytest.raises(ChunkwiseError, match="doesn't see the array"):
            work()
    assert not (tmp_path / name).exists()
