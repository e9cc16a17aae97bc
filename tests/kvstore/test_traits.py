"""Every store and adapter states its traits; an adapter hands on those of its base."""

from __future__ import annotations

import pkgutil
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

import fsspec
import numpy as np
import obstore.store
import pytest
import zarr
from tests.fault_store import FaultStore
from tests.trace_store import TraceStore

import chunkwise as ts
import chunkwise.core.kvstore
from chunkwise.core.kvstore.adapter.cache import CacheStore
from chunkwise.core.kvstore.adapter.guarded import GuardedStore
from chunkwise.core.kvstore.adapter.kvstack import Layer, StackStore
from chunkwise.core.kvstore.adapter.ocdbt import OcdbtStore
from chunkwise.core.kvstore.adapter.ocdbt_database import Folder
from chunkwise.core.kvstore.adapter.pending import PendingPart, PendingStore
from chunkwise.core.kvstore.adapter.prefix import PrefixStore, whole_store
from chunkwise.core.kvstore.adapter.read_through import MemoryEntries, ReadThroughStore
from chunkwise.core.kvstore.adapter.sharded import ShardedStore
from chunkwise.core.kvstore.adapter.uint64_shards import Sharding, Uint64Shards
from chunkwise.core.kvstore.adapter.zip import ZipStore
from chunkwise.core.kvstore.caches import ShardIndexCache, ValueCache
from chunkwise.core.kvstore.files.file_store import FileStore
from chunkwise.core.kvstore.key_range import KeyRange
from chunkwise.core.kvstore.libraries.fsspec import FsspecStore
from chunkwise.core.kvstore.libraries.mapping import MappingStore
from chunkwise.core.kvstore.libraries.plugin_store import PluginStore
from chunkwise.core.kvstore.libraries.zarr_python import ZarrPythonStore
from chunkwise.core.kvstore.memory import MemoryStore
from chunkwise.core.kvstore.objects.object_store import ObjectStore
from chunkwise.core.kvstore.objects.obstore import ForeignBucket
from chunkwise.core.kvstore.protocol import KvStoreDriver, is_store, offers
from chunkwise.core.kvstore.reference.store import ReferenceStore
from chunkwise.core.kvstore.request_limits import Coalescing
from chunkwise.core.kvstore.traits import DEFAULT_TRAITS, StoreTraits, traits_of
from chunkwise.core.kvstore.web.http import HttpStore
from chunkwise.core.specs.context import Context
from chunkwise.core.specs.kvstore_spec import KvStoreSpec
from chunkwise.core.specs.kvstores.reference import ReferenceTargets

COALESCING = Coalescing(gap=1, largest=2)


class Peculiar(MemoryStore):
    """A store that is peculiar in every trait, and knows the key ``p/k`` best."""

    def __init__(self) -> None:
        super().__init__()
        self.indexes = ShardIndexCache()
        self.wrote: list[str] = []

    @property
    def traits(self) -> StoreTraits:  # type: ignore[override]
        return StoreTraits(
            request_concurrency=3,
            write_concurrency=5,
            io_limit=7,
            coalescing=COALESCING,
            suffix_ranges=False,
            conditional_deletes=False,
            conditional_writes=lambda key: key == "p/k",
            is_cached=lambda key, start=0, stop=None: (key, start, stop) == ("p/k", 1, 2),
            shard_indexes=self.indexes,
            open_writer=lambda: _Writer(self),
            open_into_reader=lambda: lambda key, out: None,
        )


class _Writer:
    def __init__(self, store: Peculiar) -> None:
        self.store = store
        self.delete = store.delete

    def write(self, key: str, value: Any) -> None:
        self.store.wrote.append(key)
        self.store.write(key, value)

    def flush(self) -> None: ...


def _stack(base: Any) -> StackStore:
    return StackStore([Layer(KeyRange(), 0, base, "p/"), Layer(KeyRange.of_prefix("m"), 0, MemoryStore())])


def _no_table(*_: Any) -> Any:
    raise AssertionError("traits are known without a look at the table")


# The adapter, and its own name for the key ``p/k`` of the base.
ADAPTERS: dict[type, tuple[Callable[[Any], Any], str]] = {
    CacheStore: (lambda base: CacheStore(base, ValueCache(1000), lambda: 0.0), "p/k"),
    FaultStore: (FaultStore, "p/k"),
    GuardedStore: (lambda base: GuardedStore(base, lambda: None, lambda written: None), "p/k"),
    PendingStore: (lambda base: PendingStore(base, lambda *_: None), "p/k"),
    PendingPart: (lambda base: PendingPart(PendingStore(base, lambda *_: None), "p/"), "k"),
    PrefixStore: (lambda base: PrefixStore(base, "p/"), "k"),
    ReadThroughStore: (lambda base: ReadThroughStore(base, MemoryEntries(1000)), "p/k"),
    StackStore: (_stack, "k"),
    TraceStore: (TraceStore, "p/k"),
    ZipStore: (lambda base: ZipStore(base, "p/k"), "any"),
}
STORES: dict[type, Callable[[Path], Any]] = {
    FileStore: FileStore,
    FsspecStore: lambda _: FsspecStore(fsspec.filesystem("memory")),
    HttpStore: lambda _: HttpStore("http://127.0.0.1:1"),
    MappingStore: lambda _: MappingStore({}),
    MemoryStore: lambda _: MemoryStore(),
    ObjectStore: lambda _: ObjectStore(ForeignBucket(obstore.store.MemoryStore())),
    ReferenceStore: lambda _: ReferenceStore(
        "reference", _no_table, MemoryStore(), "k", ReferenceTargets(KvStoreSpec(), (), Context())
    ),
    # Adapters whose keys are in other ones of their bases.
    OcdbtStore: lambda _: OcdbtStore(Folder(MemoryStore(), "p/"), Folder(MemoryStore(), "p/")),
    ShardedStore: lambda _: ShardedStore(MemoryStore(), "p/", Uint64Shards(Sharding(0, "identity", 1, 1))),
    ZarrPythonStore: lambda _: ZarrPythonStore(zarr.storage.MemoryStore()),
}
# Where an adapter differs from its base, because of what it does itself.
OWN: dict[type, dict[str, Any]] = {
    ZipStore: {
        "write_concurrency": None,
        "coalescing": None,
        "suffix_ranges": True,
        "conditional_deletes": True,
        "is_cached": None,
        "shard_indexes": None,
    },
    StackStore: {"coalescing": None, "shard_indexes": None},
    PendingStore: {"shard_indexes": None},
    PendingPart: {"shard_indexes": None},
}


def test_every_class_of_stores_is_looked_at() -> None:
    found = set()
    for module in pkgutil.walk_packages(chunkwise.core.kvstore.__path__, "chunkwise.core.kvstore."):
        for value in vars(import_module(module.name)).values():
            if isinstance(value, type) and offers(value, KvStoreDriver):
                found.add(value)
    found -= {KvStoreDriver, PluginStore}
    found -= {cls for cls in found if cls not in STORES and issubclass(cls, tuple(STORES))}  # the same store
    assert found == {*ADAPTERS, *STORES} - {FaultStore, TraceStore}  # of the tests
    assert all("traits" in dir(cls) for cls in found)


@pytest.mark.parametrize("cls", STORES, ids=lambda cls: cls.__name__)
def test_stores_state_their_traits(cls: type, tmp_path: Path) -> None:
    assert isinstance(STORES[cls](tmp_path).traits, StoreTraits)


@pytest.mark.parametrize("cls", ADAPTERS, ids=lambda cls: cls.__name__)
def test_adapters_hand_on_the_traits_of_their_base(cls: type) -> None:
    base = Peculiar()
    make, key = ADAPTERS[cls]
    adapter = make(base)
    assert type(adapter) is cls
    traits, own = traits_of(adapter), OWN.get(cls, {})
    for field in ("request_concurrency", "write_concurrency", "io_limit", "coalescing", "suffix_ranges"):
        assert getattr(traits, field) == own.get(field, getattr(base.traits, field)), field
    assert traits.conditional_deletes == own.get("conditional_deletes", False)
    assert traits.conditional_writes(key)
    assert cls is ZipStore or not traits.conditional_writes("x" + key)
    if "is_cached" in own:
        assert traits.is_cached is None
    else:
        assert traits.is_cached is not None
        assert traits.is_cached(key, 1, 2) and not traits.is_cached(key) and not traits.is_cached("x" + key)
    if "shard_indexes" in own:
        assert traits.shard_indexes is None
    else:
        assert traits.shard_indexes is not None
        traits.shard_indexes.put(key, "index", 5)
        assert base.indexes.get("p/k") == traits.shard_indexes.get(key) == "index"
        traits.shard_indexes.evict(key)
        assert base.indexes.get("p/k") is None
    assert traits.open_into_reader is None
    assert (traits.open_writer is not None) == (cls is CacheStore)


def test_what_is_written_past_a_cache_is_not_kept() -> None:
    base = Peculiar()
    store = CacheStore(base, ValueCache(1000), lambda: 0.0)
    store.write("a", b"old")
    assert store.open_reader()("a") == b"old"
    opener = traits_of(store).open_writer
    assert opener is not None
    opener().write("a", b"new")
    assert base.wrote == ["a"]
    assert store.open_reader()("a") == b"new"


def test_a_transaction_uses_files_as_they_are_used_outside(tmp_path: Path) -> None:
    store = FileStore(
        tmp_path, sync=True, io_limit=3, locking="lockfile", acquire_timeout=7, io_mode="memmap"
    )
    whole, prefix = whole_store(store)
    assert isinstance(whole, FileStore)
    assert whole.root + prefix == str(tmp_path.resolve()) + "/"
    assert repr(whole).replace(repr(whole.root), "") == repr(store).replace(repr(store.root), "")
    assert traits_of(whole)[:7] == traits_of(store)[:7]


class Plain:
    """A store of a third party, without traits."""

    def __init__(self) -> None:
        self._store = MemoryStore()
        for name in ("read", "open_reader", "write", "delete", "delete_range", "list", "list_children"):
            setattr(self, name, getattr(self._store, name))
        self.identity, self.describe = self._store.identity, self._store.describe


def test_stores_without_traits_have_the_default_ones() -> None:
    store = Plain()
    assert is_store(store) and traits_of(store) is DEFAULT_TRAITS
    spec = {"driver": "zarr3", "kvstore": {"driver": "object", "object": store, "path": "a/"}}
    layout = {"chunk": {"shape": [4]}}
    array = ts.open(spec, create=True, dtype="uint8", shape=[9], chunk_layout=ts.ChunkLayout(layout)).result()
    array[1:7] = 3
    assert np.asarray(array).sum() == 18
    with ts.Transaction() as transaction:
        array.with_transaction(transaction)[5:9] = 4
    assert np.asarray(array).sum() == 4 * 3 + 4 * 4


def test_traits_of_another_kind_are_an_error() -> None:
    class Wrong(MemoryStore):
        traits = {"request_concurrency": 8}  # type: ignore[assignment]

    with pytest.raises(TypeError, match=r"Wrong\.traits must be a StoreTraits, got dict"):
        traits_of(Wrong())


class NoConditionalDeletes(MemoryStore):
    """A store that others write to between the look at a generation and the deletion."""

    traits = DEFAULT_TRAITS._replace(conditional_deletes=False)

    def delete(self, key: str, *, if_equal: bytes | None = None) -> bytes | None:
        assert not if_equal, "what others have written since would be lost"
        return super().delete(key)


@pytest.mark.parametrize("shards", [False, True], ids=["chunks", "shards"])
@pytest.mark.parametrize("inside", [False, True], ids=["outside", "in a transaction"])
def test_no_update_is_lost_by_a_deletion(shards: bool, inside: bool) -> None:
    """A chunk that becomes the fill value is deleted only where that can depend on what others write."""
    store = NoConditionalDeletes()
    layout = {"read_chunk": {"shape": [4]}, "write_chunk": {"shape": [8 if shards else 4]}}
    spec = {"driver": "zarr3", "kvstore": {"driver": "object", "object": store, "path": "a/"}}
    array = ts.open(spec, create=True, dtype="uint8", shape=[8], chunk_layout=ts.ChunkLayout(layout)).result()
    array[:2] = 1
    if inside:
        with ts.Transaction() as transaction:
            array.with_transaction(transaction)[:3] = 0
    else:
        array[:3] = 0
    assert np.asarray(array).tolist() == [0] * 8
    assert store.read("a/c/0").value is not None
