"""The contract of hierarchies, unchanged, on S3 and Azure."""

from __future__ import annotations

from typing import Any

import pytest
from servers import ACCOUNT, new_azure_container, new_s3_bucket

from chunkwise.testing.hierarchy_contract import HierarchyContract


class OnS3(HierarchyContract):
    @pytest.fixture
    def place(self, moto: str) -> Any:
        return {"driver": "s3", "bucket": new_s3_bucket(moto), "endpoint": moto, "path": "a tree/"}


class OnAzure(HierarchyContract):
    @pytest.fixture
    def place(self, azurite: str) -> Any:
        container = new_azure_container(azurite)
        return {"driver": "azure", "container": container, "account_name": ACCOUNT, "endpoint": azurite}


class TestZarr3OnS3(OnS3):
    format = "zarr3"


class TestZarr2OnAzure(OnAzure):
    format = "zarr2"


@pytest.mark.slow
class TestN5OnS3(OnS3):
    format = "n5"


@pytest.mark.slow
class TestZarr3OnAzure(OnAzure):
    format = "zarr3"


@pytest.mark.slow
class TestZarr2OnS3(OnS3):
    format = "zarr2"


@pytest.mark.slow
class TestN5OnAzure(OnAzure):
    format = "n5"
