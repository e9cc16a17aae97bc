"""The file store keeps the contract with every way of locking, reading and syncing."""

import os
import time

import pytest

from chunkwise.core.kvstore.files.file_store import FileStore
from chunkwise.core.kvstore.files.read import OpenFile
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


@pytest.mark.parametrize("age", [0, 1, 3])
def test_only_settled_files_have_a_stamp(tmp_path, monkeypatch, age):
    """A later write could get the times of one that was just made."""
    (tmp_path / "a").write_bytes(b"1")
    written = (tmp_path / "a").stat().st_ctime_ns
    monkeypatch.setattr(time, "time_ns", lambda: written + age * 10**9)
    file = OpenFile(str(tmp_path / "a"), "default")
    try:
        assert (file.stamp is not None) == (age > 2)
    finally:
        file.close()
