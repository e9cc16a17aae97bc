"""The contract of drivers, unchanged, in a bucket of S3."""

from __future__ import annotations

import pytest
from servers import new_s3_bucket

import chunkwise as ts
from chunkwise.testing.driver_contract import DriverContract, Place


class OnS3(DriverContract):
    """A suite whose arrays are in a new bucket."""

    conditional_deletes = False

    test_processes_that_share_a_chunk = None  # which are files, wherever the others are

    @pytest.fixture
    def place(self, moto: str, monkeypatch: pytest.MonkeyPatch) -> Place:
        monkeypatch.setenv("AWS_ENDPOINT_URL_S3", moto)
        return Place(f"s3://{new_s3_bucket(moto)}/a b/", ts.Context())


class TestZarr3Sharded(OnS3):
    driver = "zarr3"
    metadata_name = "zarr.json"
    shard = 2


@pytest.mark.slow
class TestZarr3(OnS3):
    driver = "zarr3"
    metadata_name = "zarr.json"


@pytest.mark.slow
class TestZarr2(OnS3):
    driver = "zarr"
    metadata_name = ".zarray"


@pytest.mark.slow
class TestN5(OnS3):
    driver = "n5"
    metadata_name = "attributes.json"
    fill_value = None


@pytest.mark.slow
class TestZarr1(OnS3):
    driver = "zarr1"
    metadata_name = "meta"
    companions = ("attrs",)
