"""Reference files to web servers and buckets: ranges that share requests, and what is refused."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import chunkwise as ts
from chunkwise.core.kvstore.objects.object_store import ObjectStore
from chunkwise.core.kvstore.objects.s3 import S3Bucket
from chunkwise.errors import PermissionDeniedError

VALUES = np.arange(400 * 100, dtype="<i4").reshape(400, 100)


def _references(url: str) -> dict[str, Any]:
    """Return the references of an array of 400 chunks that lie one behind the other, 7 bytes apart."""
    document = {
        "zarr_format": 2, "shape": [400, 100], "chunks": [1, 100], "dtype": "<i4", "compressor": None,
        "fill_value": None, "order": "C", "filters": None,
    }  # fmt: skip
    return {".zarray": json.dumps(document), **{f"{i}.0": [url, i * 407, 400] for i in range(400)}}


def _data() -> bytes:
    return b"".join(row.tobytes() + b"-" * 7 for row in VALUES)


def test_chunks_on_a_web_server_share_requests(
    run_server: Callable[..., str], proxy: Any, tmp_path: Path
) -> None:
    """Relative and absolute URLs of the same server; far fewer requests than chunks."""
    (tmp_path / "d").mkdir()
    (tmp_path / "d" / "data.bin").write_bytes(_data())
    server = run_server("http_server.py", str(tmp_path))
    between = proxy(server)
    for name, url in (("a", "d/data.bin"), ("b", f"{between.url}/d/data.bin")):
        (tmp_path / f"{name}.json").write_text(json.dumps(_references(url)))
        between.set()
        array = ts.open(f"{between.url}/{name}.json|reference:").result()
        np.testing.assert_array_equal(array.read().result(), VALUES)
        requests = [line for line in between.log() if "data.bin" in line]
        assert 0 < len(requests) <= 140


def test_a_remote_file_leads_to_nothing_local(run_server: Callable[..., str], tmp_path: Path) -> None:
    """Not even if the caller allows it; nor to link-local addresses or other servers."""
    (tmp_path / "secret").write_bytes(b"secret")
    urls = {
        "a": f"file://{tmp_path}/secret",
        "b": f"{tmp_path}/secret",
        "c": "http://169.254.169.254/latest/meta-data",
        "d": "http://2852039166/latest",
        "e": "http://[::ffff:169.254.169.254]/latest",
        "f": "https://example.invalid/x",
        "g": "../../secret",
    }
    (tmp_path / "refs.json").write_text(json.dumps({key: [url] for key, url in urls.items()}))
    base = run_server("http_server.py", str(tmp_path)) + "/refs.json"
    everything = [
        "file:///",
        "http://169.254.169.254/",
        "http://2852039166/",
        "http://[::ffff:169.254.169.254]/",
    ]
    for allow in ([], everything):
        kv = ts.KvStore.open({"driver": "reference", "base": base, "allow": allow}).result()
        for key in urls:
            with pytest.raises(PermissionDeniedError, match="is refused"):
                kv[key]


def test_references_in_a_bucket(s3: ObjectStore, s3_bucket: S3Bucket, moto: str, tmp_path: Path) -> None:
    """Those of the same bucket are read with its settings; a local file needs the caller's word."""
    s3.write("d/data.bin", _data())
    url = f"s3://{s3_bucket.bucket}/d/data.bin"
    s3.write("refs/a.json", json.dumps(_references(url)).encode())
    s3.write("refs/b.json", json.dumps(_references("../d/data.bin")).encode())
    bucket = {"driver": "s3", "bucket": s3_bucket.bucket, "endpoint": moto}
    for name in ("a", "b"):
        base = {**bucket, "path": f"refs/{name}.json"}
        array = ts.open({"driver": "auto", "kvstore": {"driver": "reference", "base": base}}).result()
        np.testing.assert_array_equal(array.read().result(), VALUES)
    (tmp_path / "refs.json").write_text(json.dumps(_references(url)))
    local = {"driver": "reference", "base": f"file://{tmp_path}/refs.json"}
    with pytest.raises(PermissionDeniedError, match="is refused"):
        ts.open({"driver": "auto", "kvstore": local}).result().read().result()
    local["allow"] = [{"url": f"s3://{s3_bucket.bucket}/d/", "kvstore": {**bucket, "path": "d/"}}]
    array = ts.open({"driver": "auto", "kvstore": local}).result()
    np.testing.assert_array_equal(array.read().result(), VALUES)
