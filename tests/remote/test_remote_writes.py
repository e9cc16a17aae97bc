"""Writes of whole arrays to S3: a request for each chunk, of which none is lost or left under way."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import chunkwise as ts
from chunkwise import errors
from chunkwise.core.kvstore.objects.object_store import ObjectStore
from chunkwise.core.kvstore.objects.s3 import S3Bucket

DATA = np.random.default_rng(0).integers(1, 200, (64, 128)).astype("u2")
N_CHUNKS = 128


def _open(s3: ObjectStore, url: str, codecs: Any = ("bytes",)) -> ts.TensorStore:
    assert isinstance(s3.bucket, S3Bucket)
    kvstore = {
        "driver": "s3",
        "bucket": s3.bucket.bucket,
        "endpoint": url,
        "path": "a/",
        "s3_request_retries": {"max_retries": 8, "initial_delay": "5ms", "max_delay": "20ms"},
    }
    return ts.open(
        {
            "driver": "zarr3",
            "kvstore": kvstore,
            "metadata": {"codecs": list(codecs)},
            "context": {"data_copy_concurrency": {"limit": 2}},
        },
        open=True,
        create=True,
        dtype="uint16",
        shape=DATA.shape,
        chunk_layout=ts.ChunkLayout(chunk_shape=[8, 8]),
    ).result()


@pytest.mark.each_once
@pytest.mark.parametrize("codec", [None, {"name": "zstd", "configuration": {"level": 1}}])
@pytest.mark.parametrize("order", ["chunks", "reversed", "transposed"])
def test_each_chunk_takes_one_request(s3: ObjectStore, between: Any, codec: Any, order: str) -> None:
    """Chunks with nothing but the fill value are deleted."""
    array = _open(s3, between.url, ["bytes", *([codec] if codec else [])])
    array.write(DATA).result()
    data = DATA.copy()
    data[:8, :64] = 0
    between.set()
    view = {"chunks": np.s_[:, :], "reversed": np.s_[::-1, ::-1]}.get(order)
    if view is None:
        array.T.write(data.T).result()
    else:
        array[view].write(data[view]).result()
    log = between.log()
    assert len(log) == N_CHUNKS and sum(line.startswith("PUT") for line in log) == N_CHUNKS - 8
    np.testing.assert_array_equal(array.read().result(), data)
    assert len(list(s3.list("a/c/", "a/c0"))) == N_CHUNKS - 8


def test_failures_that_pass(s3: ObjectStore, between: Any) -> None:
    """What goes wrong with a request is made good by the retries."""
    array = _open(s3, between.url)
    actions = ["reset", "reset_after", "truncate", "500", "503", "429", "etag", "slow"]
    between.set(*[{"method": "PUT", "path": "/a/c", "action": a, "times": 3} for a in actions])
    data = DATA.copy()
    array.write(data).result()
    between.set()
    np.testing.assert_array_equal(array.read().result(), data)
    data[:32] = 0
    between.set(*[{"method": "POST", "path": "?delete", "action": a, "times": 2} for a in actions[:5]])
    array.write(data).result()
    between.set()
    np.testing.assert_array_equal(array.read().result(), data)
    assert len(list(s3.list("a/c/", "a/c0"))) == N_CHUNKS // 2


@pytest.mark.parametrize("key", ["/a/c/3/1", "/a/c"])
def test_lasting_failures_name_the_chunk(s3: ObjectStore, between: Any, key: str) -> None:
    """The failure of one chunk, or of all, is the failure of the write, and says which chunk and why."""
    array = _open(s3, between.url)
    array.write(DATA).result()
    between.set({"method": "PUT", "path": key, "action": "403", "times": 10**6})
    with pytest.raises(errors.PermissionDeniedError, match=rf"Error writing .*{key}") as caught:
        array.write(DATA[::-1]).result()
    assert "while writing chunk {" in "".join(caught.value.__notes__)
    n = len(between.log())
    assert n < N_CHUNKS + 20 if key == "/a/c/3/1" else n < 100  # nobody goes on for long
    between.set()
    array.write(DATA).result()
    np.testing.assert_array_equal(array.read().result(), DATA)
