"""Copies of arrays in object stores: by processes, with few requests, while the server fails for a time."""

from __future__ import annotations

import multiprocessing
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from typing import Any

import numpy as np
import pytest
from servers import new_s3_bucket

import chunkwise as cw

SHAPE = (32, 40, 36)
VALUES = np.random.default_rng(0).integers(1, 1 << 16, SHAPE, "u2")


Place = dict[str, Any]
Bucket = Callable[[str], Place]


@pytest.fixture
def bucket(moto: str, between: Any) -> Bucket:
    """Return places in a new bucket behind the proxy."""
    name = new_s3_bucket(moto)
    return lambda path: {
        "driver": "s3",
        "bucket": name,
        "endpoint": between.url,
        "aws_region": "us-east-1",
        "s3_request_retries": {"initial_delay": "50ms"},
        "path": f"{path}/",
    }


@pytest.fixture
def planes(bucket: Bucket) -> Place:
    cw.create_array(bucket("planes.zarr"), VALUES, chunks=(1, 40, 36), codec="zstd:1")
    return bucket("planes.zarr")


def test_processes_copy_between_object_stores(planes: Place, bucket: Bucket) -> None:
    with ProcessPoolExecutor(2, mp_context=multiprocessing.get_context("spawn")) as executor:
        report = cw.copy(
            planes, bucket("b.zarr"), chunks=(32, 4, 4), memory=40_000, executor=executor, verify=True
        )
    assert len(report.plan.passes) == 2
    assert np.array_equal(report.array.read().result(), VALUES)
    store = report.array.kvstore
    assert store is not None
    assert not [key for key in store.list().result() if b"chunkwise" in key]


def test_a_chunk_takes_one_get_and_one_put(planes: Place, bucket: Bucket, between: Any) -> None:
    between.set()
    cw.copy(planes, bucket("b.zarr"), codec="zstd:3")
    counts = Counter(line.split()[0] for line in between.log() if "/c/" in line)
    assert counts == {"GET": 32, "PUT": 32}


def test_a_server_that_is_busy_for_a_while(planes: Place, bucket: Bucket, between: Any) -> None:
    faults = [{"method": method, "path": "b.zarr", "action": "503", "times": 3} for method in ("GET", "PUT")]
    between.set(*faults)
    report = cw.copy(planes, bucket("b.zarr"), chunks=(32, 4, 4), memory=40_000, verify=True)
    assert np.array_equal(report.array.read().result(), VALUES)


def test_missing_chunks_are_not_written(bucket: Bucket, between: Any) -> None:
    source = cw.create_array(bucket("a.zarr"), shape=(8, 10), dtype="f4", chunks=(1, 10), fill_value=2.5)
    source[3] = 1.0
    between.set()
    report = cw.copy(bucket("a.zarr"), bucket("b.zarr"), memory=200)
    assert Counter(line.split()[0] for line in between.log() if "b.zarr/c/" in line)["PUT"] == 1
    assert np.array_equal(report.array.read().result(), source.read().result())


def test_ranges_of_keys_are_verified(bucket: Bucket) -> None:
    values = np.arange(120 * 30, dtype="u2").reshape(120, 30)
    array = cw.create_array(bucket("a.zarr"), values, chunks=(1, 10))
    assert array.rank == 2
    (report,) = cw.verify(bucket("a.zarr"))
    assert (report.n_chunks, report.bad, report.notes) == (360, [], [])
    kv = cw.KvStore.open(bucket("a.zarr")).result()
    kv["c/99/1"] = b"x"
    kv["c/120/0"] = b"x"
    (report,) = cw.verify(bucket("a.zarr"))
    assert report.n_chunks == 360
    assert [bad.key.rpartition("a.zarr/")[2] for bad in report.bad] == ["c/99/1"]
    assert report.notes == ["chunk outside the shape of the array: c/120/0"]
