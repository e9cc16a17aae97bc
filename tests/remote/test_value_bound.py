"""Servers whose values have no end, or say that they are larger than any memory: an error names the URL."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).parent))

from test_statuses import STORES
from test_web_servers import web

import chunkwise as ts
from chunkwise import errors
from chunkwise.core.base.limits import DOCUMENT
from chunkwise.core.kvstore import value
from chunkwise.core.kvstore.web.http import HttpStore

HUGE = 100_000_000_000


def _said(target: str, head: str) -> Iterator[bytes]:
    yield f"HTTP/1.1 200 OK\r\nContent-Length: {HUGE}\r\nETag: x\r\n".encode()
    yield b"Last-Modified: Mon, 01 Jan 2024 00:00:00 GMT\r\n\r\n"
    if not head.startswith("HEAD"):
        while True:
            yield b"[" * 1000


def _endless(target: str, head: str) -> Iterator[bytes]:
    yield b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nETag: x\r\n\r\n"
    while True:
        yield b"10000\r\n" + bytes(1 << 16) + b"\r\n"


def _spec(name: str, url: str) -> Any:
    if name == "http":
        return {"driver": "http", "base_url": url, "path": "a/"}
    return {"driver": "s3", "bucket": "bucket", "endpoint": url, "aws_region": "us-east-1", "path": "a/"}


@pytest.mark.parametrize("name", STORES)
def test_a_value_larger_than_memory(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with web(_said) as server:
        monkeypatch.setenv("STORAGE_EMULATOR_HOST", server.url)
        store = STORES[name](server.url)
        for read in (store.read, store.open_reader()):
            with pytest.raises(errors.StorageError, match=f"a/k: it is said to have {HUGE} bytes"):
                read("a/k")


OPENED: dict[str, Callable[[Any], object]] = {
    "zarr3": lambda kvstore: ts.open({"driver": "zarr3", "kvstore": kvstore}).result(),
    "zarr": lambda kvstore: ts.open({"driver": "zarr", "kvstore": kvstore}).result(),
    "n5": lambda kvstore: ts.open({"driver": "n5", "kvstore": kvstore}).result(),
    "precomputed": lambda kvstore: ts.open(
        {"driver": "neuroglancer_precomputed", "kvstore": kvstore}
    ).result(),
    "json": lambda kvstore: (
        ts.open({"driver": "json", "kvstore": {**kvstore, "path": "a/x.json"}}).result().read().result()
    ),
    "group": lambda kvstore: ts.open_group(kvstore, mode="r"),
}


@pytest.mark.each_once
@pytest.mark.parametrize("answers", [_said, _endless])
@pytest.mark.parametrize("name", ["http", "s3"])
@pytest.mark.parametrize("document", OPENED)
def test_a_document_without_end(
    document: str, name: str, answers: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(value, "DOCUMENT", DOCUMENT._replace(nbytes=1 << 20))
    with web(answers) as server:
        told = f"{server.url}/.*a/.* (bytes|server sends more than|Content-Length Header missing)"
        with pytest.raises(errors.ChunkwiseError, match=told):
            OPENED[document](_spec(name, server.url))
        assert len(server.requests) < 10


def test_a_table_of_references_may_be_larger(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is bounded by memory, as values are."""
    monkeypatch.setattr(value, "DOCUMENT", DOCUMENT._replace(nbytes=1 << 10))
    table = b'{"a": "' + b"x" * 5000 + b'"}'

    def answers(target: str, head: str) -> Iterator[bytes]:
        yield f"HTTP/1.1 200 OK\r\nContent-Length: {len(table)}\r\nETag: x\r\n\r\n".encode() + table

    with web(answers) as server:
        store = ts.KvStore.open(f"{server.url}/refs.json|reference:").result()
        assert store["a"] == b"x" * 5000
        assert len(HttpStore(server.url).read("refs.json").value or b"") == len(table)
