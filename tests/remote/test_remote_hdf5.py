"""HDF5 files on a web server and in a bucket: metadata by blocks, chunks by ranges."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest

import chunkwise as ts
from chunkwise.core.kvstore.objects.object_store import ObjectStore
from chunkwise.core.kvstore.objects.s3 import S3Bucket

VALUES = np.random.default_rng(0).integers(0, 1000, (200, 300)).astype("<i4")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A file of 60 compressed chunks and text."""
    out = tmp_path / "x.h5"
    with h5py.File(out, "w") as file:
        file.create_dataset("g/a", data=VALUES, chunks=(20, 50), compression="gzip")
        file["g/text"] = ["a", "b"]
    return out


def test_on_a_web_server(run_server: Callable[..., str], proxy: Any, path: Path) -> None:
    """The tree, the values, and not the whole file for a part of it."""
    between = proxy(run_server("http_server.py", str(path.parent)))
    between.set()
    group = ts.open_group(f"{between.url}/x.h5")
    assert sorted(group["g"]) == ["a", "text"]
    np.testing.assert_array_equal(group["g/a"].read().result(), VALUES)
    assert group["g/text"].read().result().tolist() == ["a", "b"]
    assert len(between.log()) < 100
    array = ts.open(f"{between.url}/x.h5|hdf5:g/a").result()
    between.set()
    np.testing.assert_array_equal(array[30:50, 60:70].read().result(), VALUES[30:50, 60:70])
    assert len(between.log()) <= 4


def test_in_a_bucket(s3: ObjectStore, s3_bucket: S3Bucket, moto: str, path: Path) -> None:
    """By the kvstore's own requests."""
    s3.write("d/x.h5", path.read_bytes())
    base = {"driver": "s3", "bucket": s3_bucket.bucket, "endpoint": moto, "path": "d/x.h5"}
    array = ts.open({"driver": "hdf5", "base": base, "path": "g/a"}).result()
    np.testing.assert_array_equal(array.read().result(), VALUES)
