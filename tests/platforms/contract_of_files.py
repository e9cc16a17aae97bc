"""The contract of kvstores on files, for test_windows to run on a simulated platform."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, ClassVar

import pytest

from chunkwise.core.kvstore.files import platform
from chunkwise.core.kvstore.files.file_store import FileStore
from chunkwise.core.kvstore.files.platform import FOLDS_NAMES, WINDOWS
from chunkwise.testing.kvstore_contract import KvStoreContract

assert FOLDS_NAMES, "no platform is simulated"


class FileContract(KvStoreContract):
    options: ClassVar[dict[str, Any]] = {}
    refused_keys = ("...", "a\\b", "q\n") if WINDOWS else ("z\udcff",)

    @pytest.fixture
    def store(self, tmp_path: Path) -> Iterator[FileStore]:
        store = FileStore(tmp_path / "root", **({"sync": False} | self.options))
        yield store
        assert list(tmp_path.rglob("*__lock")) == []

    def test_open_value(self, store: FileStore, monkeypatch: pytest.MonkeyPatch) -> None:  # type: ignore[override]
        """Windows can't replace an open file; the test that holds it open doesn't close it meanwhile."""
        monkeypatch.setattr(platform, "_PATIENCE", 0.1)
        super().test_open_value(store)


class TestDefault(FileContract):
    options: ClassVar[dict[str, Any]] = {"sync": True}


class TestLockfile(FileContract):
    options: ClassVar[dict[str, Any]] = {"locking": "lockfile"}


class TestNoLocking(FileContract):
    options: ClassVar[dict[str, Any]] = {"locking": "none"}
    conditional_writes_race = True


class TestNonAtomic(FileContract):
    options: ClassVar[dict[str, Any]] = {"locking": "non_atomic"}
    conditional_writes_race = True
    writes_in_place = True


class TestDirect(FileContract):
    options: ClassVar[dict[str, Any]] = {"io_mode": "direct"}
