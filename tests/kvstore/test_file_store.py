"""The file store keeps the contract with every way of locking, reading and syncing."""

import os

import pytest

from chunkwise.core.kvstore.file import FileStore
from chunkwise.testing.kvstore_contract import KvStoreContract


class FileContract(KvStoreContract):
    options = {}

    @pytest.fixture
    def store(self, tmp_path):
        store = FileStore(tmp_path / "root", **({"sync": False} | self.options))
        yield store
        left = [name for _, _, names in os.walk(tmp_path) for name in names if "__lock" in name]
        assert left == []


class TestDefault(FileContract):
    options = {"sync": True}


class TestLockfile(FileContract):
    options = {"locking": "lockfile"}


class TestNoLocking(FileContract):
    options = {"locking": "none"}
    conditional_writes_race = True


class TestNonAtomic(FileContract):
    options = {"locking": "non_atomic"}
    conditional_writes_race = True
    writes_in_place = True


class TestMemmap(FileContract):
    options = {"io_mode": "memmap"}


class TestDirect(FileContract):
    options = {"io_mode": "direct"}
