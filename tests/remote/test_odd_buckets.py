"""Markers of directories, values that were compressed on the way, and pages in place of values."""

from __future__ import annotations

import gzip
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import boto3
import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).parent))

from test_web_servers import answer, web

import chunkwise as ts
from chunkwise import errors
from chunkwise.cli.main import main
from chunkwise.core.kvstore.objects.object_store import ObjectStore
from chunkwise.core.kvstore.objects.s3 import S3Bucket
from chunkwise.core.kvstore.request_limits import Limits, Retries, Slots

DATE = "Mon, 01 Jan 2024 00:00:00 GMT"
ONCE = Limits(Slots(), Retries(0))


@pytest.mark.parametrize("format", ["zarr3", "zarr2", "n5"])
def test_markers_go_with_what_they_mark(
    format: str, s3: ObjectStore, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """They are neither nodes nor chunks, and whoever deletes a tree deletes them too."""
    assert isinstance(s3.bucket, S3Bucket)
    monkeypatch.setenv("AWS_ENDPOINT_URL_S3", s3.bucket.endpoint)
    client = boto3.client("s3", endpoint_url=s3.bucket.endpoint, region_name="us-east-1")
    place = f"s3://{s3.bucket.bucket}/g"
    group = ts.create_group(place, format=format)
    group.create_array("sub/x", np.ones((4, 4), np.uint8), chunks=(2, 2))
    s3.write("other", b"kept")
    for marker in ("g/", "g/sub/", "g/sub/x/", "g/sub/x/c/", "g/empty/"):
        client.put_object(Bucket=s3.bucket.bucket, Key=marker, Body=b"")
    assert not [key for key in s3.list() if key.endswith("/")]
    assert main(["verify", place]) == 0
    assert main(["cp", "-r", place, str(tmp_path / "copy")]) == 0
    assert ts.diff(place, tmp_path / "copy") == []
    assert main(["rm", "-r", place]) == 0
    left = client.list_objects_v2(Bucket=s3.bucket.bucket)["Contents"]
    assert [entry["Key"] for entry in left] == ["other"]


def test_values_that_are_compressed_on_the_way() -> None:
    def answers(target: str, head: str) -> Iterator[bytes]:
        coding = "br" if target.endswith("br") else "gzip"
        yield answer(gzip.compress(b"value"), ETag='"e"', Last_Modified=DATE, Content_Encoding=coding)

    with web(answers) as server:
        store = ObjectStore(S3Bucket("bucket", "us-east-1", server.url), ONCE)
        assert store.read("k").value == b"value"
        with pytest.raises(errors.StorageError, match='Content-Encoding "br"'):
            store.read("br")


@pytest.mark.parametrize("act", ["read", "write", "list"])
def test_pages_in_place_of_values(act: str) -> None:
    page = b"<!DOCTYPE html><html><head><title>Sign in</title></head></html>"
    acts: dict[str, Any] = {
        "read": lambda store: store.read("k"),
        "write": lambda store: store.write("k", b"v"),
        "list": lambda store: list(store.list()),
    }
    with web(lambda *_: iter([answer(page, ETag='"e"', Content_Type="text/html")])) as server:
        store = ObjectStore(S3Bucket("bucket", "us-east-1", server.url), ONCE)
        with pytest.raises(errors.StorageError, match='HTML page "Sign in"'):
            acts[act](store)


def test_some_of_many_deletions_are_refused(s3: ObjectStore, between: Any) -> None:
    """An answer that names fewer keys than were asked for, and a refusal, are errors."""
    assert isinstance(s3.bucket, S3Bucket)
    for i in range(3):
        s3.write(f"d/{i}", b"")
    store = ObjectStore(S3Bucket(s3.bucket.bucket, "us-east-1", between.url), ONCE)
    for body, kind in (
        ("<DeleteResult><Deleted><Key>d/0</Key></Deleted></DeleteResult>", errors.StorageError),
        (
            "<DeleteResult><Deleted><Key>d/0</Key></Deleted><Error><Key>d/1</Key><Code>AccessDenied</Code>"
            "<Message>m</Message></Error></DeleteResult>",
            errors.PermissionDeniedError,
        ),
    ):
        between.set({"method": "POST", "path": "delete", "action": "200", "body": body, "times": 9})
        with pytest.raises(kind, match="d/1"):
            store.delete_range("d/", "d0")
