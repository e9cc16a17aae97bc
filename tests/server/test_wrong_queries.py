"""Queries that the page doesn't send: each is refused with its reason, and the server goes on."""

from __future__ import annotations

import json
from collections.abc import Iterator
from http.client import HTTPConnection
from pathlib import Path
from urllib.parse import urlencode, urlsplit

import numpy as np
import pytest

import chunkwise as cw

CALLS = (
    "tree", "search", "image", "tile", "thumbnail", "contrast", "labels", "value", "cells", "extremes",
    "first", "chunks", "volume", "line",
)  # fmt: skip
NAMES = (
    "level", "dims", "box", "at", "step", "size", "channels", "labels", "over", "percentiles", "find",
    "range", "n", "line",
)  # fmt: skip
GOOD = {"dims": "0,1", "box": "0,4,0,4", "at": "0,0", "range": "0,4", "n": "4", "line": "0,0,3,3"}
VALUES = ("x", "--5", "1e400", ",,,", "2,1,0", "-1,3,0,2", "9" * 400)
ARRAYS = {
    "plane": np.arange(60, dtype="u1").reshape(10, 6),
    "scalar": np.float32(3),
    "empty": np.zeros((0, 4), "u1"),
}


@pytest.fixture
def served(tmp_path: Path) -> Iterator[HTTPConnection]:
    group = cw.create_group(tmp_path / "g")
    for name, values in ARRAYS.items():
        group.create_array(name, values)
    with cw.serve(tmp_path / "g", token=False) as server:
        parts = urlsplit(server.url)
        assert parts.hostname is not None
        connection = HTTPConnection(parts.hostname, parts.port, timeout=30)
        yield connection
        connection.close()


def answer(connection: HTTPConnection, call: str, query: dict[str, str]) -> tuple[int, bytes]:
    connection.request("GET", f"/api/{call}?{urlencode(query)}")
    response = connection.getresponse()
    return response.status, response.read()


@pytest.mark.parametrize("array", ARRAYS)
def test_every_wrong_query_is_refused(served: HTTPConnection, array: str) -> None:
    path = {"path": f"g/{array}"}
    for call in CALLS:
        queries = [{**GOOD, **path, name: value} for name in NAMES for value in VALUES]
        for query in [*queries, *({**path, name: value} for name, value in GOOD.items()), path, {}]:
            status, body = answer(served, call, query)
            assert status in (200, 400, 404, 501), (call, query, body)
    assert answer(served, "tree", path)[0] == 200


@pytest.mark.parametrize(
    ("call", "change", "text"),
    [
        ("tile", {"box": ",,,"}, "box: expected 4 values, but received ',,,'"),
        ("tile", {"at": "--5"}, "at: expected integers, but received '--5'"),
        ("extremes", {"range": ","}, "range: expected 2 values"),
        ("contrast", {"at": "1,2,3"}, "at: '1,2,3' is outside of (10, 6)"),
        ("contrast", {"over": "a,b"}, "over: expected two numbers, but received 'a,b'"),
        ("contrast", {"percentiles": "5,1"}, "percentiles: expected two numbers from 0 to 100"),
        ("value", {"level": "3"}, "level: there are 1, not 3"),
        ("search", {"text": " "}, "text: expected a text to look for"),
        ("cells", {"field": "z"}, "field: expected one of"),
    ],
)
def test_the_reason_is_told(served: HTTPConnection, call: str, change: dict[str, str], text: str) -> None:
    status, body = answer(served, call, {**GOOD, "path": "g/plane"} | change)
    assert status == 400 and text in body.decode()


def test_what_is_asked_for_is_still_answered(served: HTTPConnection) -> None:
    assert json.loads(answer(served, "value", {"path": "g/plane", "at": "3,2"})[1]) == {"value": "20"}
    assert json.loads(answer(served, "value", {"path": "g/scalar", "at": ""})[1]) == {"value": "3.0"}
    assert answer(served, "contrast", {"path": "g/scalar", "at": ""})[0] == 200
