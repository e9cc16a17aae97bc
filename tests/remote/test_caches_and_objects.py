"""Caches that remember what was read, and stores that the caller made."""

from __future__ import annotations

import os
import pickle
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import fsspec
import numpy as np
import obstore.store
import pytest
import zarr.storage
from tests.trace_store import TraceStore

import chunkwise as ts
from chunkwise import errors
from chunkwise.core.kvstore.adapter.read_through import DiskEntries, MemoryEntries, ReadThroughStore
from chunkwise.core.kvstore.files.file_store import FileStore
from chunkwise.core.kvstore.libraries.mapping import MappingStore
from chunkwise.core.kvstore.libraries.zarr_python import ZarrPythonStore
from chunkwise.core.kvstore.memory import MemoryStore
from chunkwise.core.kvstore.objects.object_store import ObjectStore
from chunkwise.core.kvstore.objects.obstore import ForeignBucket
from chunkwise.core.kvstore.protocol import ByteRange, Stamped
from chunkwise.core.kvstore.request_limits import Limits, Slots


@pytest.fixture(params=["memory", "disk"])
def entries(request: pytest.FixtureRequest, tmp_path: Path) -> Any:
    if request.param == "memory":
        return MemoryEntries(100_000)
    return DiskEntries(str(tmp_path / "cache"), 100_000, "test")


def test_values_are_asked_for_once(entries: Any) -> None:
    """Within its age a value is not asked for again, whole or in parts; a write from here is seen."""
    base = TraceStore(MemoryStore())
    base.write("k", b"hello")
    base.requests.clear()
    cache = ReadThroughStore(base, entries, max_age=1000)
    for _ in range(3):
        assert cache.read("k").value == b"hello"
        assert cache.open_reader()("k", 1, 3) == b"el"
        assert cache.read_ranges("k", [1], [3]) == [b"el"]
    assert len(base.requests) == 2
    assert cache.n_misses == 2 and cache.n_hits == 7
    cache.write("k", b"other")
    assert cache.read("k").value == b"other"
    base.write("k", b"unseen")
    assert cache.read("k").value == b"other"
    assert cache.read("none").value is None and cache.read("none").value is None


class _ChangingStore(MemoryStore):
    """A store of which values are read for so long that something else is done meanwhile."""

    def __init__(self) -> None:
        super().__init__()
        self.meanwhile: list[Callable[[], object]] = []

    def read(self, key: str, **options: Any) -> Stamped:
        found = super().read(key, **options)
        if self.meanwhile:
            self.meanwhile.pop()()
        return found


@pytest.mark.parametrize("change", ["write", "delete", "delete_range"])
def test_a_change_while_the_value_is_read(entries: Any, change: str) -> None:
    """What was there before is not kept: the change has been made from here."""
    base = _ChangingStore()
    base.write("k", b"old")
    cache = ReadThroughStore(base, entries, max_age=1000)
    changes: dict[str, Callable[[], object]] = {
        "write": lambda: cache.write("k", b"new"),
        "delete": lambda: cache.delete("k"),
        "delete_range": cache.delete_range,
    }
    base.meanwhile.append(changes[change])
    assert cache.read("k").value == b"old"
    assert cache.read("k").value == (b"new" if change == "write" else None)


def test_old_values_are_confirmed(entries: Any) -> None:
    """Without an age each value is asked about, and sent only if it is another."""
    base = TraceStore(MemoryStore())
    base.write("k", b"hello")
    cache = ReadThroughStore(base, entries)
    cache.read("k")
    base.requests.clear()
    assert cache.read("k").value == b"hello"
    assert [r.n_bytes for r in base.requests] == [0] and cache.n_confirmed == 1
    base.write("k", b"other")
    assert cache.read("k").value == b"other"
    base.delete("k")
    assert cache.read("k").value is None
    known = cache.base.write("k", b"v")
    assert cache.read("k", if_not_equal=known)[:2] == (None, known)


def test_the_limit_holds(entries: Any, tmp_path: Path) -> None:
    """The least recently used values go when there is no more room."""
    base = TraceStore(MemoryStore())
    cache = ReadThroughStore(base, entries, max_age=1000)
    for i in range(50):
        base.write(f"k{i}", bytes(5000))
        cache.read(f"k{i}")
        cache.read("k0")
    if isinstance(entries, MemoryEntries):
        assert entries.n_bytes <= 100_000
    else:
        sizes = [f.stat().st_size for f in Path(entries.directory).rglob("*") if f.is_file()]
        assert 0 < sum(sizes) <= 115_000
    base.requests.clear()
    cache.read("k0")
    cache.read("k49")
    assert base.requests == []
    cache.read("k5")
    assert len(base.requests) == 1
    base.write("large", bytes(200_000))
    assert len(cache.read("large").value or b"") == 200_000


def test_disk_cache_is_shared_and_checked(tmp_path: Path) -> None:
    """Another store with the same directory uses what is there; a damaged file is read again."""
    base = TraceStore(FileStore(tmp_path / "base", sync=False))
    base.write("k", b"hello")
    first = ReadThroughStore(base, DiskEntries(str(tmp_path / "c"), 10**6, "n"), max_age=1000)
    first.read("k", byte_range=ByteRange(1, 3))
    base.requests.clear()
    second: Any = pickle.loads(pickle.dumps(first))
    assert second.read("k", byte_range=ByteRange(1, 3)).value == b"el" and second.n_hits == 1
    (file,) = [f for f in (tmp_path / "c").rglob("*") if f.is_file()]
    file.write_bytes(file.read_bytes()[:-1] + b"X")
    assert first.read("k", byte_range=ByteRange(1, 3)).value == b"el" and len(base.requests) == 1
    other = ReadThroughStore(base, DiskEntries(str(tmp_path / "c"), 10**6, "other"), max_age=1000)
    other.read("k", byte_range=ByteRange(1, 3))
    assert other.n_misses == 1


def test_a_cache_leaves_the_files_of_others(tmp_path: Path) -> None:
    """A directory that holds more than the cache, even the base itself, loses only what was kept."""
    others = ["thesis.txt", "ab/x", "0_", "ab/" + "c" * 62 + "/notes", "ab/" + "c" * 62 + "/0_/x", "d/0_"]
    for name in others:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_bytes(bytes(10_000))
    base = ts.KvStore.open(f"file://{tmp_path}/base/").result()
    spec = {"driver": "cache", "base": base.url, "directory": str(tmp_path), "total_bytes_limit": 10_000}
    for i in range(9):
        base[f"k{i}"] = bytes(3000)
    cache = ts.KvStore.open(spec).result()
    assert [len(cache[f"k{i}"]) for i in range(9)] == [3000] * 9
    kept = {*tmp_path.glob("??/*/0_")} - {tmp_path / name for name in others}
    assert 0 < len(kept) < 9
    cache.delete_range(ts.KvStore.KeyRange("k8")).result()
    assert not any(path.is_file() for path in kept)
    assert len(base.list().result()) == 8 and all((tmp_path / name).exists() for name in others)


@pytest.mark.parametrize("kind", ["memory", "dict", "obstore", "zarr", "kvstack"])
@pytest.mark.parametrize("max_age", ["0s", "1h"])
def test_a_cache_on_disk_knows_stores_in_memory_apart(kind: str, max_age: str, tmp_path: Path) -> None:
    """A store in memory that has the address of an earlier one does not get its values."""
    makers: dict[str, Callable[[], Any]] = {
        "dict": dict,
        "obstore": obstore.store.MemoryStore,
        "zarr": zarr.storage.MemoryStore,
    }
    for i in range(4):
        context = ts.Context()
        base: Any = "memory://"
        if kind in makers:
            base = {"driver": "object", "object": makers[kind](), "single_writer": True}
        if kind == "kvstack":
            base = {"driver": "kvstack", "layers": [{"base": "memory://"}]}
        ts.KvStore.open(base, context=context).result()["k"] = b"%d" % i
        spec = {"driver": "cache", "base": base, "directory": str(tmp_path), "max_age": max_age}
        assert ts.KvStore.open(spec, context=context).result()["k"] == b"%d" % i
        del base, spec, context


STORES: dict[str, tuple[Callable[[], Any], Callable[[Any], Any]]] = {
    "mapping": (dict, MappingStore),
    "obstore": (obstore.store.MemoryStore, lambda held: ObjectStore(ForeignBucket(held), Limits(Slots()))),
    "zarr": (zarr.storage.MemoryStore, ZarrPythonStore),
}


@pytest.mark.parametrize("kind", STORES)
def test_what_names_a_store_in_memory_is_never_used_again(kind: str) -> None:
    """A store that is gone has another identity than later ones, so no cache and no task mixes them up."""
    make, opened = STORES[kind]
    held = make()
    assert opened(held).identity == opened(held).identity
    assert len({opened(make()).identity for _ in range(50)}) == 50


def test_a_mapping_does_not_get_the_cached_values_of_an_earlier_one() -> None:
    """Not even if it has the address of that one."""
    context, address = ts.Context({"cache_pool": {"total_bytes_limit": 1 << 20}}), 0
    for value in range(6):
        there: list[dict[str, bytes]] = [{} for _ in range(20_000)]
        held = next((one for one in there if id(one) == address), there[0])
        del there
        spec = {"driver": "zarr3", "kvstore": {"driver": "object", "object": held, "path": "a/"}}
        ts.open(spec, create=True, dtype="u1", shape=[2], fill_value=value).result()[0] = value
        cached = {**spec, "recheck_cached_data": False, "recheck_cached_metadata": False}
        assert ts.open(cached, context=context).result().read().result().tolist() == [value] * 2
        address = id(held)
        del held, spec, cached


@pytest.mark.parametrize("directory", ["", "kept"])
def test_a_file_that_is_read_in_parts_may_be_replaced(directory: str, tmp_path: Path) -> None:
    """Archives and shards are read on: a part of the new file ends the use of those of the old one."""
    cached: dict[str, Any] = {"driver": "cache", "base": f"file://{tmp_path}/", "max_age": "1h"}
    if directory:
        cached["directory"] = str(tmp_path / directory)
    spec = {"driver": "zarr3", "kvstore": f"file://{tmp_path}/s/"}
    layout = ts.ChunkLayout(write_chunk_shape=[4000], read_chunk_shape=[1000])
    written = ts.open(spec, create=True, dtype="u1", shape=[4000], chunk_layout=layout).result()

    def write(value: int) -> None:
        written[...] = np.full(4000, value, "u1")
        with zipfile.ZipFile(tmp_path / "new.zip", "w") as archive:
            archive.writestr("large", os.urandom(200_000))
            archive.writestr("a", bytes([value]) * 100_000)
            archive.writestr("b", bytes([value]) * 100_000)
        os.replace(tmp_path / "new.zip", tmp_path / "x.zip")

    write(1)
    array = ts.open({"driver": "zarr3", "kvstore": {**cached, "path": "s/"}}).result()
    members = ts.KvStore.open({"driver": "zip", "base": {**cached, "path": "x.zip"}}).result()
    assert array[5].read().result() == members["a"][0] == 1
    write(2)
    assert array[1005].read().result() == members["b"][0] == 2
    assert array[5].read().result() == members["a"][0] == 2


def test_cache_in_a_spec(tmp_path: Path) -> None:
    """An array over a cache reads its chunks once, and says where they come from."""
    base = f"file://{tmp_path}/a/"
    data = np.arange(64, dtype="i4").reshape(8, 8)
    ts.open({"driver": "zarr3", "kvstore": base}, create=True, dtype=ts.int32, shape=[8, 8]).result()[
        ...
    ].write(data).result()
    kvstore = {"driver": "cache", "base": base, "directory": str(tmp_path / "cache"), "max_age": "1h"}
    array = ts.open({"driver": "zarr3", "kvstore": kvstore}).result()
    np.testing.assert_array_equal(array.read().result(), data)
    os.rename(tmp_path / "a", tmp_path / "moved")
    np.testing.assert_array_equal(array.read().result(), data)
    assert ts.KvStore.Spec(kvstore).to_json()["max_age"] == "1h"
    with pytest.raises(ValueError, match="non-negative"):
        ts.KvStore.Spec({**kvstore, "max_age": "-1s"})


def objects(tmp_path: Path) -> dict[str, Any]:
    fsspec.filesystem("memory").store.clear()  # all of a process are one, which other tests write to
    return {
        "obstore memory": obstore.store.MemoryStore(),
        "obstore local": obstore.store.LocalStore(str(tmp_path)),
        "fsspec memory": fsspec.filesystem("memory"),
        "fsspec mapper": fsspec.get_mapper(f"file://{tmp_path}/m"),
        "own": MemoryStore(),
    }


@pytest.mark.parametrize("name", ["obstore memory", "obstore local", "fsspec memory", "fsspec mapper", "own"])
def test_objects_are_stores(tmp_path: Path, name: str) -> None:
    """What the caller made is used as it is; parts of chunks can be written where that is safe."""
    found = objects(tmp_path)[name]
    kvstore: Any = {"driver": "object", "object": found, "path": f"{tmp_path.name}/a/"}
    data = np.arange(64, dtype="i4").reshape(8, 8)
    array = ts.open(
        {"driver": "zarr3", "kvstore": kvstore},
        create=True,
        dtype=ts.int32,
        shape=[8, 8],
        chunk_layout=ts.ChunkLayout(chunk_shape=[4, 4]),
    ).result()
    array[...].write(data).result()
    array[:4, :4].write(data[:4, :4] + 1).result()
    data[:4, :4] += 1
    if name in ("obstore memory", "own"):
        array[0, 0].write(7).result()
    else:
        with pytest.raises(errors.UnsafeWriteError, match=r"single_writer.*align them to shape \(4, 4\)"):
            array[0, 0].write(7).result()
        alone = ts.open({"driver": "zarr3", "kvstore": {**kvstore, "single_writer": True}}).result()
        alone[0, 0].write(7).result()
    data[0, 0] = 7
    np.testing.assert_array_equal(array.read().result(), data)
    store = ts.KvStore.open(found).result()
    keys = sorted(store.list().result())
    assert keys == sorted(f"{tmp_path.name}/a/{k}".encode() for k in ("zarr.json", *CHUNKS))
    assert store.read(keys[0], byte_range=slice(1, 3)).result().value == store[keys[0]][1:3]
    below = ts.KvStore.open(kvstore).result()
    assert below.read("none").result().state == "missing"
    del below["c/0/0"]
    assert (array[:4, :4].read().result() == 0).all()


CHUNKS = [f"c/{i}/{j}" for i in range(2) for j in range(2)]


def test_what_is_no_store() -> None:
    """Anything else is refused, with what was expected."""
    for wrong in (object(), print, 3):
        with pytest.raises((TypeError, ValueError), match=r"Expected object|conversion to JSON"):
            ts.KvStore.open(wrong).result()
    with pytest.raises(ValueError, match="member is missing"):
        ts.KvStore.open({"driver": "object"}).result()
