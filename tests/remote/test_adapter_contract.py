"""The contract of kvstores, on archives, stacks and caches."""

from __future__ import annotations

from pathlib import Path

import pytest

from chunkwise.core.kvstore.adapter.kvstack import Layer, StackStore
from chunkwise.core.kvstore.adapter.read_through import DiskEntries, MemoryEntries, ReadThroughStore
from chunkwise.core.kvstore.adapter.zip import ZipStore
from chunkwise.core.kvstore.files.file_store import FileStore
from chunkwise.core.kvstore.key_range import KeyRange
from chunkwise.core.kvstore.memory import MemoryStore
from chunkwise.core.kvstore.protocol import KvStoreDriver
from chunkwise.testing.kvstore_contract import KvStoreContract


class TestZip(KvStoreContract):
    """An archive that is a file; every write is a new archive."""

    refused_keys = ("z\udcff",)

    @pytest.fixture
    def store(self, tmp_path: Path) -> KvStoreDriver:
        return ZipStore(FileStore(tmp_path, sync=False), "a.zip")


class TestStack(KvStoreContract):
    """Three layers with different ways of naming keys."""

    @pytest.fixture
    def store(self) -> KvStoreDriver:
        one, two = MemoryStore(), MemoryStore()
        return StackStore(
            [
                Layer(KeyRange(), 0, one, "base/"),
                Layer(KeyRange.of_prefix("a/"), 2, two, "sub/"),
                Layer(KeyRange.of_key("b"), 1, two, "exact"),
            ]
        )


class TestMemoryCache(KvStoreContract):
    """A cache in memory that asks the base each time."""

    @pytest.fixture
    def store(self) -> KvStoreDriver:
        return ReadThroughStore(MemoryStore(), MemoryEntries(1 << 20))


class TestDiskCache(KvStoreContract):
    """A cache in a directory that asks the base each time."""

    @pytest.fixture
    def store(self, tmp_path: Path) -> KvStoreDriver:
        base = FileStore(tmp_path / "base", sync=False)
        return ReadThroughStore(base, DiskEntries(str(tmp_path / "cache"), 1 << 20, "test"))
