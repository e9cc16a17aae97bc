"""A listing is whole or an error, for every store that lists by HTTP and everything that uses a listing."""

from __future__ import annotations

import sys
from bisect import bisect
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).parent))

from test_web_servers import Web, answer, web

import chunkwise as ts
from chunkwise import errors
from chunkwise.cli.main import main
from chunkwise.core.kvstore.objects.azure import AzureContainer
from chunkwise.core.kvstore.objects.gcs import GcsBucket
from chunkwise.core.kvstore.objects.object_store import ObjectStore
from chunkwise.core.kvstore.objects.s3 import S3Bucket
from chunkwise.core.kvstore.request_limits import Limits, Retries, Slots

QUICK = Limits(Slots(), Retries(1, 0.001, 0.001))
KEYS = [f"a/{i:03d}" for i in range(100)]
PAGE = 30
HTML = b"<!DOCTYPE html><html><head><title>Sign in</title></head><body>Hello</body></html>"


def of_s3(keys: list[str], token: str, prefixes: tuple[str, ...] = ()) -> bytes:
    items = "".join(
        f"<Contents><Key>{key}</Key><Size>1</Size><ETag>e</ETag>"
        "<LastModified>2026-01-01T00:00:00.000Z</LastModified></Contents>"
        for key in keys
    ) + "".join(f"<CommonPrefixes><Prefix>{prefix}</Prefix></CommonPrefixes>" for prefix in prefixes)
    more = f"<NextContinuationToken>{token}</NextContinuationToken>" if token else ""
    told = f"<IsTruncated>{str(bool(token)).lower()}</IsTruncated>{more}"
    return f"<?xml version='1.0'?><ListBucketResult>{told}{items}</ListBucketResult>".encode()


def of_azure(keys: list[str], token: str, prefixes: tuple[str, ...] = ()) -> bytes:
    items = "".join(
        f"<Blob><Name>{key}</Name><Properties><Content-Length>1</Content-Length><Etag>e</Etag>"
        "<Last-Modified>Thu, 01 Jan 2026 00:00:00 GMT</Last-Modified></Properties></Blob>"
        for key in keys
    ) + "".join(f"<BlobPrefix><Name>{prefix}</Name></BlobPrefix>" for prefix in prefixes)
    told = f"<Blobs>{items}</Blobs><NextMarker>{token}</NextMarker>"
    return f"<?xml version='1.0'?><EnumerationResults>{told}</EnumerationResults>".encode()


Pages = Callable[..., bytes]
KINDS: dict[str, tuple[Pages, Callable[[str], Any]]] = {
    "s3": (of_s3, lambda url: S3Bucket("bucket", "us-east-1", url)),
    "gcs": (of_s3, lambda url: GcsBucket("bucket")),
    "azure": (of_azure, lambda url: AzureContainer("c", "acc", f"{url}/acc")),
}
FAULTS: dict[str, Callable[[Pages, list[str], str], bytes]] = {
    "html": lambda page, keys, token: answer(HTML, Content_Type="text/html"),
    "html without a type": lambda page, keys, token: answer(HTML),
    "nothing": lambda page, keys, token: answer(b""),
    "an error": lambda page, keys, token: answer(b"<Error><Code>InternalError</Code></Error>"),
    "a refusal": lambda page, keys, token: answer(b"<Error><Code>AccessDenied</Code></Error>"),
    "other xml": lambda page, keys, token: answer(b"<ListAllMyBucketsResult/>"),
    "json": lambda page, keys, token: answer(b'{"items": []}'),
    "cut short": lambda page, keys, token: answer(page(keys, token)[:-40]),
    "cut in an entry": lambda page, keys, token: answer(page(keys, token)[:400]),
    "the same token again": lambda page, keys, token: answer(page(keys, "30")),
    "other keys": lambda page, keys, token: answer(page([*keys[:2], "b/other"], token)),
    "an entry without a key": lambda page, keys, token: answer(page([""], token)),
    "a redirect": lambda page, keys, token: answer(b"", 307, Location="/elsewhere"),
}
OF_S3: dict[str, Callable[[Pages, list[str], str], bytes]] = {
    "no token": lambda page, keys, token: answer(
        page(keys, "t").replace(b"<NextContinuationToken>t</NextContinuationToken>", b"")
    ),
    "the first keys again": lambda page, keys, token: answer(page(KEYS[:PAGE], token)),
    "a token, not truncated": lambda page, keys, token: answer(page(keys, "77").replace(b"true", b"false")),
}
USES: dict[str, Callable[[ObjectStore], object]] = {
    "list": lambda store: list(store.list("a/", "a0")),
    "entries": lambda store: list(store.list_entries("a/", "a0")),
    "delete": lambda store: store.delete_range("a/", "a0"),
    "children": lambda store: store.list_children("a/"),
}


@contextmanager
def listing(kind: str, fault: Any) -> Iterator[tuple[Web, list[str]]]:
    """Run a server whose second page has a fault; yield it and the keys that were deleted."""
    page, deleted = KINDS[kind][0], []

    def answers(target: str, head: str) -> Iterator[bytes]:
        query = parse_qs(urlsplit(target).query, keep_blank_values=True)
        if not head.startswith(("GET", "HEAD")):
            deleted.append(target)
            yield answer(b"", 500)
            return
        begin = int(query.get("continuation-token", query.get("marker", ["0"]))[0] or 0)
        if "start-after" in query and not begin:
            begin = bisect(KEYS, query["start-after"][0])
        keys, token = KEYS[begin : begin + PAGE], str(begin + PAGE) if begin + PAGE < len(KEYS) else ""
        yield fault(page, keys, token) if begin == PAGE and fault else answer(page(keys, token))

    with web(answers) as server:
        yield server, deleted


CASES = [(kind, fault) for kind in KINDS for fault in [*FAULTS, *(OF_S3 if kind != "azure" else ())]]


@pytest.mark.parametrize(("kind", "name"), CASES)
def test_a_page_that_is_none(kind: str, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with listing(kind, {**FAULTS, **OF_S3}[name]) as (server, deleted):
        monkeypatch.setenv("STORAGE_EMULATOR_HOST", server.url)
        for use in USES.values():
            with pytest.raises(errors.ChunkwiseError) as caught:
                use(ObjectStore(KINDS[kind][1](server.url), QUICK))
            assert server.url in str(caught.value) or "gs://" in str(caught.value)
        assert not deleted


@pytest.mark.parametrize("kind", KINDS)
def test_whole_listings(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with listing(kind, None) as (server, _):
        monkeypatch.setenv("STORAGE_EMULATOR_HOST", server.url)
        store = ObjectStore(KINDS[kind][1](server.url), QUICK)
        assert list(store.list("a/", "a0")) == KEYS and list(store.list("a/04", "a/06")) == KEYS[40:60]
        assert list(store.list_children("a/").keys) == KEYS


BODIES = {
    "html": HTML.decode(),
    "an error": "<Error><Code>InternalError</Code></Error>",
    "no token": "<ListBucketResult><IsTruncated>true</IsTruncated></ListBucketResult>",
    "cut short": "<ListBucketResult><IsTruncated>false</IsTruncated><Contents><Key>g.zarr/x/zarr.j",
}


@pytest.mark.parametrize("fault", BODIES)
def test_what_uses_a_listing_fails_with_it(
    fault: str, s3: ObjectStore, between: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Verifying, deleting, copying and shrinking: each is an error, and nothing is lost."""
    assert isinstance(s3.bucket, S3Bucket)
    monkeypatch.setenv("AWS_ENDPOINT_URL_S3", between.url)
    place = f"s3://{s3.bucket.bucket}/g.zarr"
    ts.create_group(place).create_array("x", np.ones((40, 2), np.uint8), chunks=(10, 2))
    once = ts.Context({"s3_request_retries": {"max_retries": 0}})
    array = ts.open_array(f"{place}/x", context=once)
    before = sorted(s3.list())
    page = {"method": "GET", "path": "list-type", "action": "200", "body": BODIES[fault], "times": 10**6}
    between.set(page)
    for command in (
        ["verify", place],
        ["rm", "-r", place],
        ["cp", "-r", place, str(tmp_path / "o.zarr")],
        ["cp", "-r", place, f"s3://{s3.bucket.bucket}/copy.zarr"],
        ["cp", "-r", "--overwrite", place, str(tmp_path / "o.zarr")],
        ["mv", place, f"s3://{s3.bucket.bucket}/moved.zarr"],
        ["zip", place, str(tmp_path / "o.zip")],
        ["diff", place, place],
        ["consolidate", place],
        ["tree", place],
    ):
        assert main([*command, "--retries=0"]) == (2 if command[0] == "diff" else 1), command
    uses: list[Callable[[], object]] = [
        lambda: list(ts.open_group(place, context=once).walk()),
        lambda: list(ts.open_group(place, context=once)),
        lambda: ts.create_array(f"{place}/x", shape=[1], dtype="int8", overwrite=True, context=once),
        lambda: ts.create_group(place, overwrite=True, context=once),
        lambda: ts.open_group(place, "r+", context=once).move("x", "y"),
        lambda: ts.open_group(place, "r+", context=once).__delitem__("x"),
        lambda: ts.copy_tree(ts.open_group(place, context=once), tmp_path / "p.zarr"),
        lambda: array.resize(exclusive_max=[10, 2]).result(),
    ]
    for use in uses:
        with pytest.raises(errors.ChunkwiseError):
            use()
    between.set()
    assert sorted(s3.list()) == before
