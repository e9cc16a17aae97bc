"""All writers on sessions of Icechunk: done as in other stores, or refused before anything is changed."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import icechunk
import numpy as np
import pytest
import xarray
import zarr

import chunkwise as cw
import chunkwise.dask
import chunkwise.xarray
from chunkwise.errors import ChunkwiseError

VALUES = np.arange(64, dtype="int32").reshape(8, 8)
NEW = -VALUES[:6, :6].astype("int64")


def _dataset(values: Any) -> Any:
    return xarray.Dataset({"v": (("y", "x"), values)}, coords={"x": np.arange(values.shape[1])})


def _place(session: Any, path: str) -> dict[str, Any]:
    return {"driver": "object", "object": session.store, "path": f"{path}/"}


def _zarr3(session: Any, path: str) -> dict[str, Any]:
    return {"driver": "zarr3", "kvstore": _place(session, path)}


def _dask(values: Any) -> Any:
    import dask.array

    return dask.array.from_array(values, chunks=(4, 4))


def _opened(session: Any, path: str, **options: Any) -> Any:
    spec = {"driver": "zarr3", "kvstore": _place(session, path)}
    return cw.open(spec, dtype="int64", shape=NEW.shape, create=True, **options).result()


def _pyramid(session: Any) -> Any:
    source = cw.array(np.kron(NEW, np.ones((2, 2), int)))
    cw.downsample_pyramid(source, _place(session, "g"), levels=1, axes="yx", overwrite=True).result()
    return zarr.open_array(session.store, path="g/1", mode="r")[...]


def _replaced_by_open(session: Any) -> Any:
    _opened(session, "a", delete_existing=True)[...] = NEW


def _replaced_group(session: Any) -> Any:
    cw.open_group(session.store, "r+").create_group("g", overwrite=True).create_array("a", NEW)
    assert sorted(zarr.open_group(session.store, path="g", mode="r")) == ["a"]
    return zarr.open_array(session.store, path="g/a", mode="r")[...]


def _replaced_root(session: Any) -> Any:
    cw.open_group(session.store, "w").create_array("a", NEW)
    assert sorted(zarr.open_group(session.store, mode="r")) == ["a"]


def _dataset_w(session: Any) -> Any:
    cw.xarray.write_dataset(_dataset(NEW), session.store, mode="w")
    assert sorted(zarr.open_group(session.store, mode="r")) == ["v", "x"]
    return zarr.open_array(session.store, path="v", mode="r")[...]


def _dataset_a(session: Any) -> Any:
    cw.xarray.write_dataset(_dataset(NEW), _place(session, "d"), mode="a")
    return zarr.open_array(session.store, path="d/v", mode="r")[...]


def _variable_replaced(session: Any) -> Any:
    cw.xarray.write_dataset(_dataset(VALUES), _place(session, "d"), mode="w")
    cw.xarray.write_dataset(
        _dataset(NEW.astype("float32")[:6, :6]).drop_vars("x"), _place(session, "d"), mode="w"
    )
    return zarr.open_array(session.store, path="d/v", mode="r")[...]


def _moved(session: Any) -> Any:
    group = cw.open_group(session.store, "r+")
    group.create_array("b", NEW)
    group.move("b", "h/c")
    assert "b" not in zarr.open_group(session.store, mode="r")
    return zarr.open_array(session.store, path="h/c", mode="r")[...]


def _moved_group(session: Any) -> Any:
    group = cw.open_group(session.store, "r+")
    group.create_array("k/b", NEW)
    group.move("k", "h")
    assert "k" not in zarr.open_group(session.store, mode="r")
    return zarr.open_array(session.store, path="h/b", mode="r")[...]


def _deleted(session: Any) -> Any:
    group = cw.open_group(session.store, "r+")
    del group["a"], group["g"]
    assert sorted(zarr.open_group(session.store, mode="r")) == []
    group.create_array("a", NEW)


def _shrunk(session: Any) -> Any:
    array = cw.open_group(session.store, "r+")["a"]
    array.resize(exclusive_max=(3, 8)).result()
    array.resize(exclusive_max=(8, 8)).result()
    found = zarr.open_array(session.store, path="a", mode="r")[...]
    assert (found[:3] == VALUES[:3]).all() and not found[4:].any()
    cw.open_group(session.store, "r+").create_array("a", NEW, overwrite=True)


def _grown(session: Any) -> Any:
    group = cw.open_group(session.store, "r+")
    array = group.create_array("a", NEW[:2], overwrite=True, chunks=(4, 3))
    ends = [threading.Thread(target=array.append, args=(NEW[i : i + 1],)) for i in (2, 3, 4, 5)]
    for end in ends:
        end.start()
    for end in ends:
        end.join()
    found = zarr.open_array(session.store, path="a", mode="r")[...]
    return found[np.argsort(-found[:, 0])]


def _transaction(session: Any) -> Any:
    with cw.Transaction() as transaction:
        _opened(session, "n", transaction=transaction)[...] = NEW
        cw.open_group(session.store, "r+")["a"].with_transaction(transaction)[0, 0] = 77
    assert cw.open_group(session.store, "r+")["a"][0, 0].read().result() == 77
    return zarr.open_array(session.store, path="n", mode="r")[...]


def _sharded(session: Any) -> Any:
    cw.open_group(session.store, "r+").create_array("a", NEW, overwrite=True, chunks=(2, 2), shards=(4, 4))[
        0, 0
    ] = 5
    assert zarr.open_array(session.store, path="a", mode="r")[0, 0] == 5
    cw.open_group(session.store, "r+")["a"][0, 0] = NEW[0, 0]


def _root_array(session: Any) -> Any:
    spec = {"driver": "zarr3", "kvstore": {"driver": "object", "object": session.store}}
    cw.open(spec, dtype="int64", shape=NEW.shape, create=True, delete_existing=True).result()[...] = 5
    cw.create_array(session.store, NEW, overwrite=True, chunks=(3, 3))
    np.testing.assert_array_equal(zarr.open_array(session.store, mode="r")[...], NEW)
    cw.open_group(session.store, "w").create_array("a", NEW)
    assert list(zarr.open_group(session.store, mode="r")) == ["a"]


def _scalar(session: Any) -> Any:
    group = cw.open_group(session.store, "r+")
    group.create_array("a", 3, overwrite=True)
    assert zarr.open_array(session.store, path="a", mode="r")[...] == 3
    group.create_array("a", NEW, overwrite=True)


WRITERS: dict[str, Callable[[Any], Any]] = {
    "create_array": lambda s: cw.create_array(_place(s, "a"), NEW, overwrite=True) and None,
    "Group.create_array": lambda s: (
        cw.open_group(s.store, "r+").create_array("a", NEW, overwrite=True) and None
    ),
    "Group.create_group": _replaced_group,
    "open_group w": _replaced_root,
    "create_group": lambda s: cw.create_group(s.store, overwrite=True).create_array("a", NEW) and None,
    "open delete_existing": _replaced_by_open,
    "from_dask": lambda s: cw.dask.from_dask(_dask(NEW), _zarr3(s, "a"), delete_existing=True) and None,
    "copy": lambda s: cw.copy(s.tree / "a", _place(s, "a"), overwrite=True) and None,
    "copy_tree": lambda s: cw.copy_tree(s.tree, s.store, overwrite=True) and None,
    "pyramid": _pyramid,
    "write_dataset w": _dataset_w,
    "write_dataset a": _dataset_a,
    "write_dataset of another variable": _variable_replaced,
    "move": _moved,
    "move of a group": _moved_group,
    "delete": _deleted,
    "shrink": _shrunk,
    "append": _grown,
    "transaction": _transaction,
    "shards": _sharded,
    "scalar": _scalar,
    "root": _root_array,
}


class _Session:
    """A session with an array and a group, and a tree beside it."""

    def __init__(self, path: Path) -> None:
        self.repository = icechunk.Repository.create(icechunk.in_memory_storage())
        self.session = self.repository.writable_session("main")
        self.tree = path / "tree"
        cw.create_group(self.tree).create_array("a", NEW)
        zarr.create_group(self.store)
        zarr.create_array(self.store, name="a", data=VALUES, chunks=(2, 4))
        zarr.create_array(self.store, name="g/old", data=VALUES, chunks=(2, 4))
        self.commit()

    @property
    def store(self) -> Any:
        return self.session.store

    def commit(self) -> None:
        self.session.commit("written")
        self.session = self.repository.writable_session("main")

    def names(self) -> Iterator[str]:
        store = self.repository.readonly_session("main").store
        return zarr.core.sync.sync(_all(store))


async def _all(store: Any) -> Any:
    return [key async for key in store.list()]


@pytest.fixture
def session(tmp_path: Path) -> _Session:
    return _Session(tmp_path)


@pytest.mark.filterwarnings("ignore::UserWarning", "ignore::DeprecationWarning")
@pytest.mark.parametrize("writer", WRITERS)
def test_all_writers(session: _Session, writer: str) -> None:
    """The result is committed, read by zarr-python, and nothing else is left."""
    found = WRITERS[writer](session)
    if found is None:
        found = zarr.open_array(session.store, path="a", mode="r")[...]
    np.testing.assert_array_equal(found, NEW)
    session.commit()
    assert not [key for key in session.names() if ".chunkwise" in key]


def _failing(session: Any) -> None:
    import dask.array

    cw.create_array(
        _place(session, "a"),
        dask.array.concatenate(
            [_dask(NEW)[:4], _dask(NEW)[4:].map_blocks(_fail, dtype="int64", meta=NEW[:0])]
        ),
        overwrite=True,
    )


def _fail(block: Any) -> Any:
    if block.size:
        raise ZeroDivisionError
    return block


REFUSED: dict[str, Callable[[Any], Any]] = {
    "array of zarr2": lambda s: cw.create_array(_place(s, "a"), NEW, format="zarr2", overwrite=True),
    "array of n5": lambda s: cw.create_array(_place(s, "b"), NEW, format="n5"),
    "group of n5": lambda s: cw.create_group(_place(s, "b"), format="n5"),
    "copy to zarr2": lambda s: cw.copy(s.tree / "a", _place(s, "a"), format="zarr2", overwrite=True),
    "copy_tree to n5": lambda s: cw.copy_tree(s.tree, _place(s, "g"), format="n5", overwrite=True),
    "write_dataset to n5": lambda s: cw.xarray.write_dataset(_dataset(NEW), _place(s, "b"), format="n5"),
    "pyramid in zarr2": lambda s: cw.downsample_pyramid(
        cw.array(NEW), _place(s, "b"), axes="yx", convention="ome-ngff-0.4"
    ).result(),
    "keys of other chunks": lambda s: cw.open(
        _zarr3(s, "a") | {"metadata": {"chunk_key_encoding": {"name": "v2"}}},
        dtype="uint8", shape=[3], create=True, delete_existing=True,
    ).result(),
    "separator": lambda s: cw.open(
        _zarr3(s, "a")
        | {"metadata": {"chunk_key_encoding": {"name": "default", "configuration": {"separator": "."}}}},
        dtype="uint8", shape=[3], create=True, delete_existing=True,
    ).result(),
    "failing blocks": _failing,
}  # fmt: skip


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("writer", REFUSED)
def test_what_a_session_does_not_hold_changes_nothing(session: _Session, writer: str) -> None:
    before = sorted(zarr.core.sync.sync(_all(session.store)))
    with pytest.raises((ChunkwiseError, ZeroDivisionError)) as caught:
        REFUSED[writer](session)
    assert "Zarr v3" in str(caught.value) or caught.type is ZeroDivisionError
    assert sorted(zarr.core.sync.sync(_all(session.store))) == before
    np.testing.assert_array_equal(zarr.open_array(session.store, path="a", mode="r")[...], VALUES)


@pytest.mark.filterwarnings("ignore::UserWarning", "ignore::DeprecationWarning")
@pytest.mark.parametrize(
    "writer", ["create_array", "move", "delete", "shrink", "write_dataset w", "copy_tree", "pyramid"]
)
def test_a_snapshot_is_not_written_to(session: _Session, writer: str) -> None:
    snapshot = session.repository.readonly_session("main")
    snapshot_with_tree = type("", (), {"store": snapshot.store, "tree": session.tree})
    before = sorted(session.names())
    with pytest.raises(cw.errors.UnsupportedError, match="read-only"):
        WRITERS[writer](snapshot_with_tree)
    assert sorted(session.names()) == before


def test_two_store_objects_of_a_session_are_one_store(session: _Session) -> None:
    """A session gives another object at each request."""
    one, other = (cw.open_group(session.session.store, "r+")["a"] for _ in range(2))
    assert one.kvstore._driver.identity == other.kvstore._driver.identity
    one.append(VALUES[:1])
    other.append(VALUES[:1])
    assert zarr.open_array(session.store, path="a", mode="r").shape == (10, 8)
