"""``chunkwise.zarr.Store`` and ``chunkwise.z5py.S3File`` in a bucket."""

from __future__ import annotations

import pickle
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import zarr
from zarr.core.sync import sync
from zarr_store_contract import ZarrStoreContract

import chunkwise as ts
from chunkwise import z5py
from chunkwise.core.kvstore.objects.s3 import S3Bucket
from chunkwise.zarr import CodecPipeline, Store

VALUES = np.arange(4096, dtype="int32").reshape(64, 64)


def spec(bucket: S3Bucket, endpoint: str, path: str) -> dict[str, Any]:
    return {"driver": "s3", "bucket": bucket.bucket, "endpoint": endpoint, "path": path}


class TestStoreOnS3(ZarrStoreContract):
    @pytest.fixture
    def kv(self, tmp_path: Path, s3_bucket: S3Bucket, moto: str) -> ts.KvStore:
        return ts.KvStore.open(spec(s3_bucket, moto, "a/")).result()

    def test_store_repr(self, store: Store) -> None:
        assert "/a/" in str(store)
        assert str(store) in repr(store)


def test_parts_of_shards_are_ranges(s3_bucket: S3Bucket, moto: str, proxy: Any) -> None:
    """An element of a shard is its index and one inner chunk, by zarr-python's pipeline and ours."""
    zarr.create_array(
        Store(spec(s3_bucket, moto, "a/")), data=VALUES, chunks=(4, 4), shards=(64, 64), compressors=None
    )
    between = proxy(moto)
    for pipeline in ("zarr.core.codec_pipeline.BatchedCodecPipeline", "chunkwise.zarr.CodecPipeline"):
        with zarr.config.set({"codec_pipeline.path": pipeline}):
            array = zarr.open_array(Store(spec(s3_bucket, between.url, "a/")), mode="r")
            is_ours = isinstance(array._async_array.codec_pipeline, CodecPipeline)
            assert is_ours == pipeline.startswith("chunkwise")
            between.set()
            assert array[9, 9] == VALUES[9, 9]
        assert [line for line in between.log() if "c/0/0" in line] and len(between.log()) <= 4
        assert 0 < sum(between.sizes()) < 5000  # an index is 4100 bytes, a chunk 64, the shard 20484


def test_a_pickle_has_the_place_and_no_credentials(s3_bucket: S3Bucket, moto: str, tmp_path: Path) -> None:
    store = Store(spec(s3_bucket, moto, "a/"))
    zarr.create_array(store, name="x", data=VALUES, chunks=(16, 16))
    data = pickle.dumps(store)
    assert b"cwtestsecret" not in data
    (tmp_path / "store").write_bytes(data)
    program = (
        "import pickle, zarr\n"
        f"store = pickle.load(open({str(tmp_path / 'store')!r}, 'rb'))\n"
        "array = zarr.open_array(store, path='x')\n"
        "array[3] = 5\n"
        "print(int(array[2:4].sum()))\n"
    )
    other = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert other.stdout.split() == [str(int(VALUES[2].sum()) + 5 * 64)], other.stderr
    assert zarr.open_array(store, path="x", mode="r")[3, 3] == 5
    assert sync(store.exists("x/zarr.json"))


@pytest.mark.parametrize(
    ("name", "is_zarr", "zarr_format"), [("a", None, 2), ("a", True, 3), ("a", False, 2)]
)
def test_z5py_in_a_bucket(
    name: str, is_zarr: bool | None, zarr_format: int, s3_bucket: S3Bucket, moto: str
) -> None:
    options: dict[str, Any] = {"endpoint_url": moto, "use_zarr_format": is_zarr}
    with pytest.raises(OSError, match=r"Read-only file system|EROFS"):
        z5py.S3File(s3_bucket.bucket, name, **options)
    f = z5py.S3File(s3_bucket.bucket, name, "a", zarr_format=zarr_format, **options)
    ds = f.create_dataset("g/d", data=VALUES, chunks=(16, 16))
    ds.attrs["x"] = 1
    ds[3:5, 7] = 9
    again = pickle.loads(pickle.dumps(z5py.S3File(s3_bucket.bucket, name, **options)))["g/d"]
    assert (again[3:5, 7].tolist(), again[5, 7], dict(again.attrs)) == ([9, 9], VALUES[5, 7], {"x": 1})
    assert again.is_zarr is (is_zarr is not False)
