"""Stores of other libraries given to chunkwise as they are, with values that those libraries read too."""

from __future__ import annotations

import pickle
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import fsspec
import numpy as np
import obstore
import pytest
import tifffile
import zarr
from zarr.storage import FsspecStore, LocalStore, MemoryStore, ObjectStore, WrapperStore, ZipStore

import chunkwise as ts
from chunkwise.errors import FailedPreconditionError, InvalidArgumentError, UnsupportedError

VALUES = np.arange(64, dtype="int32").reshape(8, 8)

STORES: dict[str, tuple[Callable[[Path], Any], bool]] = {
    "zarr.storage.LocalStore": (lambda path: LocalStore(path / "a"), True),
    "zarr.storage.MemoryStore": (lambda _: MemoryStore(), True),
    "zarr.storage.ZipStore": (lambda path: ZipStore(path / "a.zip", mode="w"), True),
    "zarr.storage.ObjectStore": (lambda _: ObjectStore(obstore.store.MemoryStore()), True),
    "zarr.storage.FsspecStore": (lambda path: FsspecStore.from_url(f"memory://{path}"), False),
    "zarr.storage.WrapperStore": (lambda _: WrapperStore(MemoryStore()), False),
    "obstore.store.MemoryStore": (lambda _: obstore.store.MemoryStore(), True),
    "fsspec.FSMap": (lambda path: fsspec.filesystem("memory").get_mapper(str(path)), False),
}
"""Each store, and if chunkwise promises that partial writes lose nothing."""


@pytest.fixture(params=STORES)
def given(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[Any, bool]:
    make, excludes = STORES[request.param]
    return make(tmp_path), excludes


def _new(store: Any, **options: Any) -> Any:
    spec = {"driver": "zarr3", "kvstore": {"driver": "object", "object": store, **options}}
    layout = ts.ChunkLayout(chunk_shape=[4, 4])
    return ts.open(spec, create=True, dtype=ts.int32, shape=[8, 8], chunk_layout=layout).result()


def test_an_array_is_written_and_opened_by_the_store_alone(given: tuple[Any, bool]) -> None:
    """`open` finds the array at the root; partial writes are done, or refused by name."""
    store, excludes = given
    array = _new(store)
    array[...] = VALUES
    expected = VALUES.copy()
    if excludes and not isinstance(store, ZipStore):
        array[1:3, 1] = expected[1:3, 1] = -1
    elif not excludes:
        with pytest.raises(ts.errors.UnsafeWriteError, match="single_writer"):
            array[1:3, 1] = -1
        alone = ts.open(
            {"driver": "zarr3", "kvstore": {"driver": "object", "object": store, "single_writer": True}}
        ).result()
        alone[1:3, 1] = expected[1:3, 1] = -1
    np.testing.assert_array_equal(ts.open(store).result().read().result(), expected)
    assert ts.open(store).result()[5, 3:6].read().result().tolist() == expected[5, 3:6].tolist()
    if isinstance(store, zarr.abc.store.Store):
        np.testing.assert_array_equal(zarr.open_array(store, mode="r+")[...], expected)


def test_a_tree_is_made_and_listed(given: tuple[Any, bool]) -> None:
    """`open_group`, `KvStore.open` and the engine of xarray take the store too."""
    store, _ = given
    group = ts.open_group(store, "a", attributes={"title": "t"})
    group.create_group("inner")
    assert list(ts.open_group(store, "r")) == ["inner"]
    assert ts.open_group(store, "r").attrs["title"] == "t"
    keys = ts.KvStore.open(store).result().list().result()
    assert sorted(keys) == [b"inner/zarr.json", b"zarr.json"]


def test_a_dataset_of_xarray_in_a_store(tmp_path: Path) -> None:
    """What xarray writes by zarr-python, its engine "chunkwise" opens by the same store object."""
    import xarray

    store = MemoryStore()
    written = xarray.Dataset({"v": (("y", "x"), VALUES)}, attrs={"a": 1})
    written.to_zarr(store, zarr_format=3)
    xarray.testing.assert_identical(xarray.open_dataset(store, engine="chunkwise").load(), written)


@pytest.mark.parametrize("kind", ["zarr.storage.LocalStore", "zarr.storage.MemoryStore"])
def test_a_read_only_store_is_not_written_to(kind: str, tmp_path: Path) -> None:
    """zarr-python's mark holds here too, and what is there can be read."""
    store = STORES[kind][0](tmp_path)
    _new(store)[...] = VALUES
    opened = ts.open(store.with_read_only(True)).result()
    np.testing.assert_array_equal(opened.read().result(), VALUES)
    with pytest.raises(UnsupportedError, match="the store is read-only"):
        opened[...] = 0
    np.testing.assert_array_equal(ts.open(store).result().read().result(), VALUES)


ELSEWHERE = """
import pickle, sys

array, kv = pickle.load(open(sys.argv[1], "rb"))
for use in sys.argv[2:]:
    try:
        exec(use)
    except Exception as e:
        print(e)
"""


@pytest.mark.parametrize(
    "make",
    [
        MemoryStore,
        lambda: WrapperStore(MemoryStore()),
        obstore.store.MemoryStore,
        lambda: ObjectStore(obstore.store.MemoryStore()),
        lambda: fsspec.filesystem("memory").get_mapper("/pickled"),
        dict,
    ],
)
def test_a_pickled_memory_store_is_the_same_here_and_an_error_elsewhere(make: Any, tmp_path: Path) -> None:
    """Writes through a copy would be lost, so there is none."""
    array = _new(make(), single_writer=True)
    array[...] = VALUES
    pickled = pickle.dumps(array)
    pickle.loads(pickled)[0, 0] = 100
    assert int(array[0, 0].read().result()) == 100
    assert "zarr.json" in map(bytes.decode, pickle.loads(pickle.dumps(array.kvstore)).list().result())
    (tmp_path / "p").write_bytes(pickle.dumps((array, array.kvstore)))
    uses = ("array.read().result()", "array[0, 0] = 1", "kv.list().result()")
    other = subprocess.run(
        [sys.executable, "-c", ELSEWHERE, str(tmp_path / "p"), *uses], capture_output=True, text=True
    )
    assert other.returncode == 0, other.stderr
    said = other.stdout.splitlines()
    assert len(said) == len(uses)
    assert all("is in the memory of process" in line for line in said), said


@pytest.mark.parametrize("bad", [object(), MemoryStore, 3])
def test_what_is_no_store_is_told(bad: Any) -> None:
    """A class, or anything else, is no store."""
    with pytest.raises((TypeError, ValueError)):
        ts.open_group(bad)
    with pytest.raises((TypeError, ValueError)):
        ts.KvStore.open(bad).result()


def test_a_path_of_universal_pathlib(tmp_path: Path) -> None:
    """A local one is a directory, any other a place in its file system."""
    import upath

    for place in (upath.UPath(tmp_path / "a"), upath.UPath(f"memory://{tmp_path}/a")):
        ts.open_group(place, "w").create_group("inner")
        assert list(ts.open_group(place)) == ["inner"]
        assert (place / "inner" / "zarr.json").exists()


def test_a_session_of_icechunk() -> None:
    """Arrays are written, changed in part, committed by the caller, and read from the snapshot."""
    import icechunk

    repository = icechunk.Repository.create(icechunk.in_memory_storage())
    session = repository.writable_session("main")
    group = ts.open_group(session.store, "a")
    group.create_group("inner")
    spec = {"driver": "zarr3", "kvstore": {"driver": "object", "object": session.store, "path": "x/"}}
    codecs = [{"name": "sharding_indexed", "configuration": {"chunk_shape": [2, 2]}}]
    array = ts.open(
        {**spec, "metadata": {"codecs": codecs}},
        create=True, dtype=ts.int32, shape=[8, 8], chunk_layout=ts.ChunkLayout(write_chunk_shape=[4, 4]),
    ).result()  # fmt: skip
    array[...] = VALUES
    array[1:3, 1] = -1
    session.commit("written")
    store = repository.readonly_session("main").store
    assert sorted(ts.open_group(store)) == ["inner", "x"]
    expected = VALUES.copy()
    expected[1:3, 1] = -1
    read = ts.open_group(store)["x"]
    np.testing.assert_array_equal(read[1, 0:3].read().result(), expected[1, 0:3])
    np.testing.assert_array_equal(read.read().result(), expected)
    np.testing.assert_array_equal(zarr.open_array(store, path="x", mode="r")[...], expected)
    with pytest.raises(UnsupportedError, match="read-only"):
        ts.open_group(store, "r+")["x"][0, 0] = 1


def test_tiles_of_a_tiff(tmp_path: Path) -> None:
    """tifffile's `aszarr` gives a store of Zarr v2 that has no byte ranges."""
    import tifffile

    values = np.arange(64 * 48, dtype="u2").reshape(64, 48)
    tifffile.imwrite(tmp_path / "a.tif", values, tile=(16, 16), compression="zlib")
    with tifffile.imread(tmp_path / "a.tif", aszarr=True) as store:
        np.testing.assert_array_equal(ts.open(store).result().read().result(), values)
        np.testing.assert_array_equal(ts.open(store).result()[17, 3:40].read().result(), values[17, 3:40])


def test_manifests_of_virtualizarr(tmp_path: Path) -> None:
    """A manifest store gives byte ranges of other files as chunks."""
    import virtualizarr.manifests as manifests
    from obspec_utils.registry import ObjectStoreRegistry
    from zarr.core.metadata import ArrayV3Metadata

    made = zarr.create_array(tmp_path / "a", shape=(8, 8), chunks=(4, 4), dtype="int32", compressors=None)
    made[...] = VALUES
    chunks = {
        f"{i}.{j}": {"path": f"file://{tmp_path}/a/c/{i}/{j}", "offset": 0, "length": 64}
        for i in range(2)
        for j in range(2)
    }
    metadata = made.metadata
    assert isinstance(metadata, ArrayV3Metadata)
    array = manifests.ManifestArray(metadata=metadata, chunkmanifest=manifests.ChunkManifest(chunks))
    registry = ObjectStoreRegistry({"file://": obstore.store.LocalStore()})
    store = manifests.ManifestStore(manifests.ManifestGroup(arrays={"v": array}), registry=registry)
    np.testing.assert_array_equal(ts.open_group(store)["v"].read().result(), VALUES)


def test_the_table_of_the_page_has_every_store() -> None:
    """docs/bridges.md says of each store that is tried here if partial writes are promised."""
    page = (Path(__file__).parents[2] / "docs" / "bridges.md").read_text()
    rows = re.findall(r"^\| `([\w.]+)` \| yes \| yes \| (\w+)", page, flags=re.MULTILINE)
    assert dict(rows) == {name: "yes" if promised else "only" for name, (_, promised) in STORES.items()}


def test_stores_of_tifffile_with_an_array_and_with_a_pyramid(tmp_path: Path) -> None:
    """`aszarr=True` gives a store of one or the other; the error of the wrong call names the right one."""
    values = np.arange(2 * 32 * 48, dtype="u2").reshape(2, 32, 48)
    with tifffile.TiffWriter(tmp_path / "a.tif") as file:
        file.write(values, tile=(16, 16), subifds=1, photometric="minisblack")
        file.write(values[:, ::2, ::2], tile=(16, 16), subfiletype=1, photometric="minisblack")
    with tifffile.imread(tmp_path / "a.tif", aszarr=True) as store:
        assert [level.shape for level in ts.open_multiscale(store).levels] == [(2, 32, 48), (2, 16, 24)]
        np.testing.assert_array_equal(ts.open_group(store)["1"], values[:, ::2, ::2])
        for function in (ts.open_array, lambda store: ts.open(store).result()):
            with pytest.raises(FailedPreconditionError, match=r'is a group.*open_group\(\.\.\.\)\["0"\]'):
                function(store)
        with pytest.raises(InvalidArgumentError, match=r"is a group.*chunkwise\.open_group"):
            ts.read(store)
    with tifffile.imread(tmp_path / "a.tif", aszarr=True, level=0) as store:
        np.testing.assert_array_equal(ts.open_array(store), values)
        np.testing.assert_array_equal(ts.read(store), values)
        with pytest.raises(InvalidArgumentError, match=r"is an array.*chunkwise\.open_array"):
            ts.open_group(store)


@pytest.mark.parametrize("format", ["zarr2", "zarr3", "n5"])
def test_a_group_opened_as_an_array_is_told(format: Any, tmp_path: Path) -> None:
    ts.create_group(tmp_path / "g", format=format).create_array("a", [1])
    with pytest.raises(FailedPreconditionError, match=r"is a group, which open_group opens; .*g/a"):
        ts.open_array(tmp_path / "g")
