"""Stores and maps of other libraries are places in every function that takes one: a table of both."""

from __future__ import annotations

import pickle
from collections import UserDict
from collections.abc import Callable
from pathlib import Path
from typing import Any

import fsspec
import numpy as np
import obstore
import obstore.store
import pytest
import xarray as xr
import zarr
from zarr.storage import FsspecStore, LocalStore, MemoryStore, ObjectStore, ZipStore

import chunkwise as cw
from chunkwise.cli.main import main
from chunkwise.errors import UnsafeWriteError
from chunkwise.images.server.forms import first_shown
from chunkwise.images.server.sources import sources_of

VALUES = np.arange(600, dtype="uint16").reshape(20, 30)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("stores")
    zarr.create_array(path / "a", data=VALUES, chunks=(10, 10), dimension_names=["y", "x"])
    made = zarr.create_group(path / "g", zarr_format=2).create_array(
        "v", shape=VALUES.shape, dtype=VALUES.dtype, chunks=(10, 10), fill_value=None
    )
    made[...] = VALUES
    made.attrs["_ARRAY_DIMENSIONS"] = ["y", "x"]
    for name in "ag":
        assert main(["zip", str(path / name), str(path / f"{name}.zip"), "--quiet"]) == 0
    return path


def _loaded(path: Path) -> dict[str, bytes]:
    return {str(found.relative_to(path)): found.read_bytes() for found in path.rglob("*") if found.is_file()}


def _in_memory(path: Path) -> obstore.store.MemoryStore:
    store = obstore.store.MemoryStore()
    for key, value in _loaded(path).items():
        obstore.put(store, key, value)
    return store


def _of_zarr(path: Path) -> MemoryStore:
    buffers = {key: zarr.core.buffer.cpu.Buffer.from_bytes(value) for key, value in _loaded(path).items()}
    return MemoryStore(dict(buffers))


KINDS: dict[str, Callable[[Path], Any]] = {
    "zarr local": LocalStore,
    "zarr memory": _of_zarr,
    "zarr fsspec": lambda path: FsspecStore.from_url(f"file://{path}"),
    "zarr object": lambda path: ObjectStore(obstore.store.LocalStore(path)),
    "zarr zip": lambda path: ZipStore(f"{path}.zip", mode="r"),
    "fsspec map": lambda path: fsspec.get_mapper(f"file://{path}"),
    "obstore local": lambda path: obstore.store.LocalStore(path),
    "obstore memory": _in_memory,
    "dict": _loaded,
    "mapping": lambda path: UserDict(_loaded(path)),
    "kvstore": lambda path: cw.KvStore.open(f"file://{path}/").result(),
    "spec": lambda path: {"driver": "auto", "kvstore": f"file://{path}/"},
    "spec of dict": lambda path: {"driver": "auto", "kvstore": _loaded(path)},
}


def _pyramid(array: Any, out: Path) -> Any:
    cw.downsample_pyramid(array, out, levels=1, axes=["y", "x"]).result()
    return zarr.open_array(out / "0", mode="r")[...]


def _copied(array: Any, out: Path) -> Any:
    cw.copy(array, out, format="zarr3")
    return zarr.open_array(out, mode="r")[...]


def _copied_tree(group: Any, out: Path) -> Any:
    cw.copy_tree(group, out, format="zarr3", verify=True)
    return zarr.open_array(out / "v", mode="r")[...]


ARRAY_ENTRIES: dict[str, Callable[[Any, Path], Any]] = {
    "open": lambda array, _: cw.open(array).result(),
    "open_multiscale": lambda array, _: cw.open_multiscale(array).levels[0],
    "serve": lambda array, _: first_shown(sources_of(array))[1].levels[0].view,
    "copy": _copied,
    "pyramid": _pyramid,
}
GROUP_ENTRIES: dict[str, Callable[[Any, Path], Any]] = {
    "open_group": lambda group, _: cw.open_group(group)["v"],
    "open_dataset": lambda group, _: xr.open_dataset(group, engine="chunkwise").v,
    "open_datatree": lambda group, _: xr.open_datatree(group, engine="chunkwise").v,
    "copy_tree": _copied_tree,
}


@pytest.mark.filterwarnings("ignore::FutureWarning", "ignore::UserWarning")
@pytest.mark.parametrize("kind", KINDS)
def test_all_entries_take_all_stores(folder: Path, tmp_path: Path, kind: str) -> None:
    make = KINDS[kind]
    for entry, read in ARRAY_ENTRIES.items():
        np.testing.assert_array_equal(read(make(folder / "a"), tmp_path / entry), VALUES, entry)
    for entry, read in GROUP_ENTRIES.items():
        np.testing.assert_array_equal(read(make(folder / "g"), tmp_path / entry), VALUES, entry)
    assert not list(cw.diff(make(folder / "a"), folder / "a"))
    assert not list(cw.diff(folder / "g", make(folder / "g")))
    for name in "ag":
        found = list(cw.verify(make(folder / name)))
        assert found and not any(one.bad for one in found)


def test_mappings_are_written() -> None:
    """Empty ones too, where they are named as stores."""
    there: dict[str, bytes] = {}
    kvstore = {"driver": "object", "object": there, "path": "a/"}
    array = cw.open({"driver": "zarr3", "kvstore": kvstore}, create=True, dtype="u2", shape=[4]).result()
    array[...] = 7
    assert "a/zarr.json" in there and all(isinstance(value, bytes) for value in there.values())
    assert cw.open({"driver": "zarr3", "kvstore": there, "path": "a/"}).result()[2].read().result() == 7
    pickle.loads(pickle.dumps(array))[2] = 8  # of this process, so of the same mapping
    assert array[2].read().result() == 8


def test_copies_of_stores_go_on(folder: Path, tmp_path: Path) -> None:
    """The journal has the name of the store, not the object."""

    def stop(*_: object) -> None:
        raise KeyboardInterrupt

    for number, kind in enumerate(("obstore local", "fsspec map", "zarr local", "zarr zip")):
        out = tmp_path / str(number)
        with pytest.raises(KeyboardInterrupt):
            cw.copy_tree(KINDS[kind](folder / "g"), out, format="zarr3", progress=stop)
        cw.copy_tree(KINDS[kind](folder / "g"), out, format="zarr3", resume=True, verify=True)
        np.testing.assert_array_equal(zarr.open_array(out / "v", mode="r")[...], VALUES)


def test_work_that_needs_a_journal_is_refused_before_it_begins(folder: Path) -> None:
    """By stores without conditional writes; a promised single writer is enough."""
    files = fsspec.filesystem("memory")
    calls: list[Callable[[Any], Any]] = [
        lambda place: cw.copy(folder / "a", place),
        lambda place: cw.copy_tree(folder / "g", place),
        lambda place: cw.downsample_pyramid(folder / "a", place, levels=1, axes="yx").result(),
    ]
    for number, call in enumerate(calls):
        place = {"driver": "object", "object": files, "path": f"journals/{number}/"}
        with pytest.raises(UnsafeWriteError, match=r"conditional writes.*single_writer"):
            call(place)
        assert files.find(f"/journals/{number}") == []
        call({**place, "single_writer": True})
        assert files.find(f"/journals/{number}")
