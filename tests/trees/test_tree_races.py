"""Several threads that change one tree at the same time, and stores that fail in the middle."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from tests.fault_store import Fault, FaultStore

import chunkwise as cw
from chunkwise.core.kvstore.memory import MemoryStore
from chunkwise.errors import AlreadyExistsError, StorageError

WRITES = {"zarr3": "zarr.json", "zarr2": ".zarray", "n5": "attributes.json"}


def together(n, work):
    with ThreadPoolExecutor(n) as pool:
        return list(pool.map(work, range(n)))


def test_one_of_many_makes_a_group(tmp_path, format):
    path = tmp_path / "x"
    cw.create_group(path, format=format)

    def make(i):
        group = cw.open_group(path, "r+", context=cw.Context({"file_io_sync": False}))
        try:
            group.create_group("a/b", attributes={"who": i})
        except AlreadyExistsError:
            return None
        return i

    (winner,) = [who for who in together(8, make) if who is not None]
    assert cw.open_group(path)["a/b"].attrs == {"who": winner}


def test_all_may_require_it(tmp_path, format):
    path = tmp_path / "x"
    cw.create_group(path, format=format)

    def require(i):
        group = cw.open_group(path, "r+", context=cw.Context({"file_io_sync": False}))
        group.require_group("a/b").attrs[f"n{'' if i != 5 else '_'}{i}"] = i
        return group.require_group("a/b").path

    assert together(8, require) == ["a/b"] * 8
    assert sorted(cw.open_group(path)["a/b"].attrs.values()) == list(range(8))


def test_links_of_many_are_all_kept(tmp_path, format):
    path = tmp_path / "x"
    cw.create_group(path, format=format).create_group("a")

    def link(i):
        cw.open_group(path, "r+", context=cw.Context({"file_io_sync": False})).create_link(f"l{i}", "/a")

    together(8, link)
    assert sorted(cw.open_group(path).links()) == [f"l{i}" for i in range(8)]


@pytest.mark.parametrize("skip", range(6))
def test_an_array_is_made_whole_or_not_at_all(format, skip):
    store = FaultStore(MemoryStore(), Fault("fail", "write", skip=skip))
    try:
        group = cw.create_group(store, format=format)
        group.create_array("g/a", shape=(4,), dtype="int16", attributes={"k": 1})
    except StorageError:
        pass
    group = cw.open_group(store, "a", format=format)
    if "g/a" in group:
        assert group["g/a"].attrs == {"k": 1}
    else:
        group.create_array("g/a", shape=(4,), dtype="int16", attributes={"k": 1})
    assert group["g/a"].attrs == {"k": 1} and group["g/a"].shape == (4,)


@pytest.mark.parametrize("operation", ["read", "write", "delete", "delete_range", "list"])
@pytest.mark.parametrize("skip", [0, 3])
def test_a_move_that_fails_can_be_done_again(format, operation, skip):
    base = MemoryStore()
    group = cw.create_group(base, format=format)
    group.create_array("a/b", data=np.arange(6), chunks=(2,), attributes={"k": 1})
    store = FaultStore(base, Fault("fail", operation, skip=skip))
    try:
        cw.open_group(store, "r+", format=format).move("a", "c")
    except StorageError:
        group = cw.open_group(base, "r+", format=format)
        if "c/b" in group:  # it has been copied, and is to be deleted where it was
            assert group["c/b"].read().result().tolist() == list(range(6))
            if "a" in group:
                del group["a"]
        else:
            assert group["a/b"].read().result().tolist() == list(range(6)), "nothing is lost"
            if "c" in group:
                del group["c"]
            group.move("a", "c")
    group = cw.open_group(base, format=format)
    assert [path for path, _ in group.walk()] == ["c", "c/b"]
    assert group["c/b"].read().result().tolist() == list(range(6)) and group["c/b"].attrs == {"k": 1}


def test_attributes_are_written_again_after_a_conflict(format):
    base = MemoryStore()
    cw.create_group(base, format=format)
    group = cw.open_group(FaultStore(base, Fault("conflict", "write", times=3)), "r+", format=format)
    calls = []
    group.attrs.change(lambda attrs: calls.append(1) or {**attrs, "a": len(calls)})
    assert len(calls) == 4 and cw.open_group(base).attrs == {"a": 4}
    group = cw.open_group(FaultStore(base, Fault("conflict", "write", times=None)), "r+", format=format)
    with pytest.raises(ValueError, match="refused each time to replace"):
        group.attrs["b"] = 1
    assert cw.open_group(base).attrs == {"a": 4}
