"""JSON that is nested more deeply than Python can go through: an error of this library, or what it says."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import chunkwise as ts
from chunkwise.errors import ChunkwiseError

DEPTHS = [400, 900, 985, 990, 2000, 100_000]


def _text(n: int) -> str:
    return '{"a":' * n + "1" + "}" * n


def _value(n: int) -> Any:
    out: Any = {}
    for _ in range(n):
        out = {"a": out}
    return out


def _nested(n: int, member: str, last: Any, **others: Any) -> Any:
    for _ in range(n):
        last = {**others, member: last}
    return last


ARRAY = {"driver": "array", "array": [1], "dtype": "int8"}
MEMORY = {"driver": "zarr3", "kvstore": "memory://"}
SPECS: dict[str, Callable[[int], object]] = {
    "attributes": lambda n: ts.Spec({**MEMORY, "metadata": {"attributes": _value(n)}}),
    "text": lambda n: repr(ts.Spec({**MEMORY, "metadata": {"attributes": _value(n)}})),
    "metadata": lambda n: ts.open({**MEMORY, "metadata": _value(n)}).result(),
    "casts": lambda n: ts.open(_nested(n, "base", ARRAY, driver="cast", dtype="int16")).result(),
    "stores": lambda n: ts.KvStore.open(_nested(n, "base", "memory://", driver="cache")).result(),
    "pipeline": lambda n: ts.KvStore.open("memory://" + "|zip:" * n).result(),
    "fill value": lambda n: ts.Schema(dtype="json", fill_value=_value(n)),
    "schema": lambda n: ts.Schema({"fill_value": _value(n)}),
    "context": lambda n: ts.Context({"cache_pool": _value(n)}),
    "codec": lambda n: ts.open(
        {**MEMORY, "metadata": {"codecs": [{"name": "bytes", "configuration": _value(n)}]}},
        create=True,
        dtype="int8",
        shape=[1],
    ).result(),
}


@pytest.mark.parametrize("n", DEPTHS[:-1])
@pytest.mark.parametrize("what", SPECS)
def test_specs(what: str, n: int) -> None:
    try:
        SPECS[what](n)
    except (ChunkwiseError, TypeError) as e:
        assert not isinstance(e, RecursionError)


@pytest.mark.parametrize("n", DEPTHS)
@pytest.mark.parametrize("format", ["zarr3", "zarr2", "n5"])
def test_stored_attributes(tmp_path: Path, format: Any, n: int) -> None:
    group = ts.open_group(str(tmp_path / "g"), mode="w", format=format)
    group.create_array("x", shape=[1], dtype="int8")
    name = {"zarr3": "zarr.json", "zarr2": ".zattrs", "n5": "attributes.json"}[format]
    document = tmp_path / "g/x" / name
    members = json.loads(document.read_text()) if document.exists() else {}
    members["attributes" if format == "zarr3" else "z"] = "HERE"
    document.write_text(json.dumps(members).replace('"HERE"', _text(n)))
    acts: list[Callable[[], object]] = [
        lambda: repr(ts.open_group(str(tmp_path / "g"))["x"]),
        lambda: repr(ts.open_group(str(tmp_path / "g"))["x"].spec()),
        lambda: repr(ts.open_group(str(tmp_path / "g"))["x"].attrs),
        lambda: ts.open_group(str(tmp_path / "g"))["x"].attrs.__setitem__("b", 1),
        lambda: ts.open_group(str(tmp_path / "g")).consolidate(),
        lambda: repr(ts.open_group(str(tmp_path / "g"), mode="r")["x"].attrs),
    ]
    for act in acts:
        try:
            act()
        except (ChunkwiseError, NotImplementedError, AttributeError) as e:
            assert not isinstance(e, RecursionError)


@pytest.mark.parametrize("n", DEPTHS)
@pytest.mark.parametrize("format", ["zarr3", "zarr2"])
def test_consolidated_metadata(tmp_path: Path, format: Any, n: int) -> None:
    group = ts.open_group(str(tmp_path / "g"), mode="w", format=format)
    group.create_array("x", shape=[1], dtype="int8", attributes={"z": "HERE"})
    group.consolidate()
    document = tmp_path / "g" / ("zarr.json" if format == "zarr3" else ".zmetadata")
    text = document.read_text()
    assert '"HERE"' in text
    document.write_text(text.replace('"HERE"', _text(n)))
    try:
        group = ts.open_group(str(tmp_path / "g"), mode="r")
        assert list(group) == ["x"]
        repr(group), repr(group["x"]), repr(group["x"].attrs)
    except ChunkwiseError as e:
        assert "nested" in str(e) or "recursion" in str(e)
