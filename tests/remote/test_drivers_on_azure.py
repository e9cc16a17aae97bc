"""The contract of drivers, unchanged, in a container of Azure."""

from __future__ import annotations

import pytest
from servers import ACCOUNT, ACCOUNT_KEY, new_azure_container

import chunkwise as ts
from chunkwise.testing.driver_contract import DriverContract, Place


class OnAzure(DriverContract):
    """A suite whose arrays are in a new container."""

    conditional_deletes = False

    test_processes_that_share_a_chunk = None  # which are files, wherever the others are

    @pytest.fixture
    def place(self, azurite: str, monkeypatch: pytest.MonkeyPatch) -> Place:
        where = f"AccountName={ACCOUNT};AccountKey={ACCOUNT_KEY};BlobEndpoint={azurite}"
        monkeypatch.setenv("AZURE_STORAGE_CONNECTION_STRING", where)
        return Place(f"abfs://{new_azure_container(azurite)}@{ACCOUNT}.dfs.core.windows.net/", ts.Context())


class TestZarr2(OnAzure):
    driver = "zarr"
    metadata_name = ".zarray"


@pytest.mark.slow
class TestZarr3Sharded(OnAzure):
    driver = "zarr3"
    metadata_name = "zarr.json"
    shard = 2


@pytest.mark.slow
class TestN5(OnAzure):
    driver = "n5"
    metadata_name = "attributes.json"
    fill_value = None


@pytest.mark.slow
class TestZarr3(OnAzure):
    driver = "zarr3"
    metadata_name = "zarr.json"


@pytest.mark.slow
class TestZarr1(OnAzure):
    driver = "zarr1"
    metadata_name = "meta"
    companions = ("attrs",)
