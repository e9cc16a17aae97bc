"""Each status that a server may answer with, to each kind of request, in each remote store.

An answer is what it means, or an error of this library that names the URL and the status; never a fill value,
an empty value, a written value that isn't there, and never an exception of another library.
"""

from __future__ import annotations

import itertools
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import obstore.store
import pytest

sys.path.insert(0, str(Path(__file__).parent))

from test_web_servers import answer, web

import chunkwise as ts
from chunkwise import errors
from chunkwise.core.kvstore.objects.azure import AzureContainer
from chunkwise.core.kvstore.objects.gcs import GcsBucket
from chunkwise.core.kvstore.objects.object_store import ObjectStore
from chunkwise.core.kvstore.objects.obstore import ForeignBucket
from chunkwise.core.kvstore.objects.s3 import S3Bucket
from chunkwise.core.kvstore.protocol import MISSING_GENERATION, ByteRange, Stamped
from chunkwise.core.kvstore.request_limits import Limits, Retries, Slots
from chunkwise.core.kvstore.web.http import HttpStore

ONCE = Limits(Slots(), Retries(0, 0.001, 0.001))
KNOWN = b'\0"known"'
STATUSES = [
    *(201, 202, 203, 204, 205, 206, 207, 226, 300, 301, 302, 303, 304, 305, 307, 308),
    *(400, 401, 402, 403, 404, 405, 406, 407, 408, 409, 410, 411, 412, 413, 414, 415, 416, 417, 418, 421),
    *(422, 423, 424, 425, 426, 428, 429, 431, 451, 499, 500, 501, 502, 503, 504, 505, 507, 508, 511, 599),
]
READS: dict[str, Callable[[Any], object]] = {
    "whole": lambda store: store.read("a/k"),
    "reader": lambda store: store.open_reader()("a/k"),
    "range": lambda store: store.read("a/k", byte_range=ByteRange(2, 5)),
    "to the end": lambda store: store.read("a/k", byte_range=ByteRange(2, None)),
    "suffix": lambda store: store.read("a/k", byte_range=ByteRange(-3, None)),
    "empty range": lambda store: store.read("a/k", byte_range=ByteRange(2, 2)),
    "conditional": lambda store: store.read("a/k", if_not_equal=KNOWN),
    "conditional range": lambda store: store.read("a/k", byte_range=ByteRange(2, 5), if_not_equal=KNOWN),
}
OTHERS: dict[str, Callable[[Any], object]] = {
    "ranges": lambda store: store.read_ranges("a/k", [2, 7], [5, 9]),
    "list": lambda store: list(store.list("a/", "a0")),
    "children": lambda store: store.list_children("a/"),
    "write": lambda store: store.write("a/k", b"value"),
    "create": lambda store: store.write("a/k", b"value", if_equal=MISSING_GENERATION),
    "replace": lambda store: store.write("a/k", b"value", if_equal=KNOWN),
    "delete": lambda store: store.delete("a/k"),
    "conditional delete": lambda store: store.delete("a/k", if_equal=KNOWN),
}


def _foreign(url: str) -> ObjectStore:
    store = obstore.store.S3Store(
        "bucket",
        config={"aws_endpoint_url_s3": url, "region": "us-east-1", "skip_signature": True},
        client_options={"allow_http": True},
        retry_config={"max_retries": 0},
    )
    return ObjectStore(ForeignBucket(store), ONCE)


STORES: dict[str, Callable[[str], Any]] = {
    "s3": lambda url: ObjectStore(S3Bucket("bucket", endpoint=url, region="us-east-1"), ONCE),
    "gcs": lambda url: ObjectStore(GcsBucket("bucket"), ONCE),
    "azure": lambda url: ObjectStore(AzureContainer("bucket", account="acc", endpoint=f"{url}/acc"), ONCE),
    "http": lambda url: HttpStore(url, (), ONCE),
    "object": _foreign,
}
BODIES = [b"<html>Something else</html>", b""]


def _ask(store: Any, act: Callable[[Any], object]) -> object:
    try:
        return act(store)
    except errors.ChunkwiseError as e:
        return e


USUAL = [206, 304, 404, 412]


@pytest.mark.parametrize(
    "statuses", [pytest.param(STATUSES, marks=pytest.mark.slow, id="all"), pytest.param(USUAL, id="usual")]
)
@pytest.mark.parametrize("name", STORES)
def test_statuses(name: str, statuses: list[int], monkeypatch: pytest.MonkeyPatch) -> None:
    now: list[Any] = [0, b""]

    def answers(target: str, head: str) -> Iterator[bytes]:
        body = b"" if head.startswith("HEAD") else now[1]
        yield answer(body, now[0], ETag='"e"', Last_Modified="Mon, 01 Jan 2024 00:00:00 GMT")

    requests = READS if name == "http" else {**READS, **OTHERS}
    wrong = []
    with web(answers) as server:
        monkeypatch.setenv("STORAGE_EMULATOR_HOST", server.url)
        for status, body, request in itertools.product(
            statuses, BODIES if statuses is STATUSES else BODIES[:1], requests
        ):
            if status in (204, 205, 304):
                body = b""
            now[:] = status, body
            store = STORES[name](server.url)
            try:
                found = _ask(store, requests[request])
            except BaseException as e:
                wrong.append((status, body, request, repr(e)))
                continue
            if status < 300 and name != "http":  # obstore does not tell one success from another
                if not isinstance(found, errors.ChunkwiseError) and _is_missing(found):
                    wrong.append((status, body, request, repr(found)))
                continue
            expected = _expected(name, status, request)
            if isinstance(found, errors.ChunkwiseError):
                text = str(found)
                told = str(status) in text or (300 <= status < 400 and "redirect" in text.lower())
                told = told or isinstance(found, errors.UnsafeWriteError)  # after trials of several requests
                if expected is not None or not told or store_url(store) not in text:
                    wrong.append((status, body, request, f"{type(found).__name__}: {text}"))
            elif expected is None or not expected(found):
                wrong.append((status, body, request, repr(found)))
    assert not wrong, "\n".join(map(str, wrong))


def _is_missing(found: object) -> bool:
    return isinstance(found, Stamped) and found.value is None


def store_url(store: Any) -> str:
    return store.url("") if isinstance(store, HttpStore) else store.bucket.url("").rstrip("/")


def _expected(name: str, status: int, request: str) -> Callable[[Any], bool] | None:
    """Return a test of the meaning of an answer; None if it has none."""
    if status == 304 and request.startswith("conditional") and request != "conditional delete":
        return lambda found: found == Stamped(None, KNOWN, found.time)
    if name == "http" and status in (404, 410):
        return lambda found: found is None or found.generation == MISSING_GENERATION
    return None


def test_an_unasked_304_under_an_array_is_no_fill_value() -> None:
    """Chunks that the server says are unchanged, although nobody knew them, are an error."""
    context = ts.Context()
    ts.open(
        {"driver": "zarr3", "kvstore": "memory://m/"}, context=context, create=True, dtype="int8", shape=[4]
    ).result()
    document = ts.KvStore.open("memory://m/", context=context).result()["zarr.json"]

    def answers(target: str, head: str) -> Iterator[bytes]:
        yield answer(document, ETag='"m"') if "zarr.json" in target else answer(b"", 304)

    with web(answers) as server:
        url = {"driver": "s3", "bucket": "bucket", "endpoint": server.url, "aws_region": "us-east-1"}
        array = ts.open({"driver": "zarr3", "kvstore": {**url, "path": "a/"}}).result()
        with pytest.raises(errors.StorageError, match=f"{server.url}/bucket/a/c/0: HTTP status 304"):
            array.read().result()
