"""The contract of hierarchies: each format in memory, on disk and in an archive."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from chunkwise.core.kvstore.memory import MemoryStore
from chunkwise.testing.hierarchy_contract import HierarchyContract


class Local(HierarchyContract):
    @pytest.fixture(params=["memory", "file", "zip"])
    def place(self, request: pytest.FixtureRequest, tmp_path: Path) -> Any:
        if request.param == "memory":
            return MemoryStore()
        return str(tmp_path / "tree") if request.param == "file" else f"file://{tmp_path}/x.zip|zip:t/"


class TestZarr3(Local):
    format = "zarr3"


class TestZarr2(Local):
    format = "zarr2"


class TestN5(Local):
    format = "n5"
