"""The contract of drivers, unchanged, in a ZIP archive."""

from __future__ import annotations

from pathlib import Path

import pytest

import chunkwise as ts
from chunkwise.testing.driver_contract import DriverContract, Place

pytestmark = pytest.mark.each_once("class")


class InZip(DriverContract):
    """A suite whose arrays are in one archive, written anew for each change."""

    test_processes_that_share_a_chunk = None  # which are files, wherever the others are

    @pytest.fixture
    def place(self, tmp_path: Path) -> Place:
        return Place(f"file://{tmp_path}/x.zip|zip:", ts.Context({"file_io_sync": False}))


class TestZarr2(InZip):
    driver = "zarr"
    metadata_name = ".zarray"


class TestZarr3Sharded(InZip):
    driver = "zarr3"
    metadata_name = "zarr.json"
    shard = 2


class TestN5(InZip):
    driver = "n5"
    metadata_name = "attributes.json"
    fill_value = None


class TestZarr3(InZip):
    driver = "zarr3"
    metadata_name = "zarr.json"


class TestZarr1(InZip):
    driver = "zarr1"
    metadata_name = "meta"
    companions = ("attrs",)
