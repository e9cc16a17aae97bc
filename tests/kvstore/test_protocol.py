"""Abilities of a store, be its methods its own or those of a store that it hands requests on to."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import chunkwise as ts
from chunkwise.core.kvstore.adapter.prefix import PrefixStore
from chunkwise.core.kvstore.atomic import AtomicWritable, Directories, Modifiable
from chunkwise.core.kvstore.files.file_store import FileStore
from chunkwise.core.kvstore.memory import MemoryStore
from chunkwise.core.kvstore.protocol import (
    EntryListable,
    KvStoreDriver,
    RangeReadable,
    Readable,
    ValueOpenable,
    is_store,
    offers,
)
from chunkwise.core.kvstore.web.http import HttpStore

OFFERED: dict[Any, set[str]] = {
    Readable: {"file", "http", "memory", "prefix"},
    KvStoreDriver: {"file", "http", "memory", "prefix"},
    RangeReadable: {"file", "memory", "prefix"},
    ValueOpenable: {"file"},
    EntryListable: set(),
    AtomicWritable: {"memory"},
    Directories: {"file", "memory"},
    Modifiable: set(),
}


class HandedOn:
    """A store that has no method of its own."""

    def __init__(self, store: Any) -> None:
        self._store = store

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)


@pytest.fixture
def stores(tmp_path: Path) -> dict[str, Any]:
    memory = MemoryStore()
    return {
        "memory": memory,
        "prefix": PrefixStore(memory, "a/"),
        "file": FileStore(tmp_path),
        "http": HttpStore("http://127.0.0.1:1"),
    }


@pytest.mark.parametrize("protocol", OFFERED, ids=lambda protocol: protocol.__name__)
def test_who_offers_what(stores: dict[str, Any], protocol: Any) -> None:
    assert {name for name, store in stores.items() if offers(store, protocol)} == OFFERED[protocol]
    handed_on = {name: HandedOn(store) for name, store in stores.items()}
    assert {name for name, store in handed_on.items() if offers(store, protocol)} == OFFERED[protocol]


def test_classes_are_no_stores() -> None:
    assert is_store(HandedOn(MemoryStore())) and not is_store(MemoryStore) and not is_store(HandedOn({}))


def test_a_transaction_over_a_store_that_hands_on() -> None:
    """All keys at once, which the store must be known to be able to do."""
    below = MemoryStore()
    kvstore = ts.KvStore.open({"driver": "object", "object": HandedOn(below)}).result()
    with ts.Transaction(atomic=True) as transaction:
        inside = kvstore.with_transaction(transaction)
        inside["a"], inside["b"] = b"1", b"2"
        assert sorted(below.list()) == []
    assert sorted(below.list()) == ["a", "b"]
