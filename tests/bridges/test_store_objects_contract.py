"""The contract of kvstores, on stores of zarr-python and paths of fsspec."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import fsspec
import pytest
from zarr.storage import LocalStore, MemoryStore, WrapperStore

import chunkwise as ts
from chunkwise.core.kvstore.libraries.zarr_python import ZarrPythonStore
from chunkwise.core.kvstore.protocol import KvStoreDriver
from chunkwise.testing.kvstore_contract import KvStoreContract


class TestMemoryOfZarrPython(KvStoreContract):
    """Its store in memory, whose methods need no event loop."""

    generations_of_content = True

    @pytest.fixture
    def store(self) -> KvStoreDriver:
        return ZarrPythonStore(MemoryStore())


class TestCoroutinesOfZarrPython(KvStoreContract):
    """A store all of whose methods are coroutines, by a writer that nobody else competes with."""

    generations_of_content = True

    @pytest.fixture
    def store(self) -> KvStoreDriver:
        return ZarrPythonStore(WrapperStore(MemoryStore()), single_writer=True)

    def test_pickle_and_identity(self, store: KvStoreDriver) -> None:
        """The pickle is zarr-python's own: a copy of what is in memory."""
        store.write("k", b"v")
        copy = pickle.loads(pickle.dumps(store))
        assert bytes(copy.read("k").value) == b"v"
        assert hash(copy.identity) == hash(store.identity)


class TestDirectoryOfZarrPython(KvStoreContract):
    """Its store of files, written to as chunkwise writes files."""

    @pytest.fixture
    def store(self, tmp_path: Path) -> KvStoreDriver:
        return ts.KvStore.open(LocalStore(tmp_path / "a")).result()._driver


class TestFileSystemOfFsspec(KvStoreContract):
    """A file system in memory, which has no conditional writes."""

    conditional_writes_race = True
    generations_of_content = True
    refused_keys = ("q\n", "z\udcff")

    @pytest.fixture
    def store(self, tmp_path: Path) -> Any:
        mapper = fsspec.filesystem("memory").get_mapper(f"/{tmp_path}")
        kvstore = {"driver": "object", "object": mapper, "single_writer": True}
        return ts.KvStore.open(kvstore).result()._driver
