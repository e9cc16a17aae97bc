"""The contracts of kvstores and drivers, unchanged, on OCDBT databases."""

from __future__ import annotations

from pathlib import Path

import pytest

import chunkwise as ts
from chunkwise.core.kvstore.adapter.ocdbt import OcdbtStore, Options
from chunkwise.core.kvstore.adapter.ocdbt_database import Folder
from chunkwise.core.kvstore.files.file_store import FileStore
from chunkwise.core.kvstore.memory import MemoryStore
from chunkwise.core.kvstore.ocdbt.manifest import ConfigMembers
from chunkwise.core.kvstore.protocol import KvStoreDriver
from chunkwise.testing.driver_contract import DriverContract, Place
from chunkwise.testing.kvstore_contract import KvStoreContract


class TestStore(KvStoreContract):
    """A database in a directory."""

    generations_of_content = True  # of values that are small enough to be in a node

    @pytest.fixture
    def store(self, tmp_path: Path) -> KvStoreDriver:
        folder = Folder(FileStore(tmp_path, sync=False), "db/")
        return OcdbtStore(folder, folder)


class TestNumbered(KvStoreContract):
    """Numbered manifests in another store than the data, small nodes, all values outside of them."""

    @pytest.fixture
    def store(self) -> KvStoreDriver:
        config = {
            "manifest_kind": "numbered",
            "max_inline_value_bytes": 0,
            "max_decoded_node_bytes": 100,
            "version_tree_arity_log2": 1,
            "level": None,
        }
        return OcdbtStore(
            Folder(MemoryStore(), ""), Folder(MemoryStore(), "m/"), Options(ConfigMembers(config))
        )


class InOcdbt(DriverContract):
    """A suite whose arrays are in one database."""

    test_processes_that_share_a_chunk = None  # which are files, wherever the others are

    @pytest.fixture
    def place(self, tmp_path: Path) -> Place:
        return Place(f"file://{tmp_path}/db/|ocdbt:", ts.Context({"file_io_sync": False}))


class TestZarr3Sharded(InOcdbt):
    driver = "zarr3"
    metadata_name = "zarr.json"
    shard = 2


class TestN5(InOcdbt):
    driver = "n5"
    metadata_name = "attributes.json"
    fill_value = None
