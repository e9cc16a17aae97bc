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
        assert document.name in str(e) and ("nested" in str(e) or "recursion" in str(e))


@pytest.mark.parametrize("n", [1, 140, 149, 150, 151, 190, 197, 198, 199, 200, 201, 330, 900])
@pytest.mark.parametrize("format", ["zarr3", "zarr2", "n5"])
def test_what_is_accepted_is_read_back(tmp_path: Path, format: Any, n: int) -> None:
    group = ts.open_group(str(tmp_path / "g"), mode="w", format=format)
    array = group.create_array("x", shape=[1], dtype="int8")
    if format != "n5":
        group.consolidate()
    accepted = 0
    for attrs in (array.attrs, group.attrs):
        try:
            attrs["deep"] = _value(n)
            accepted += 1
        except ChunkwiseError as e:
            assert n > 140 and "nested more " in str(e)
    again = ts.open_group(str(tmp_path / "g"))
    found = [again["x"].attrs.get("deep"), again.attrs.get("deep")]
    assert found == [_value(n)] * accepted + [None] * (2 - accepted)


@pytest.mark.parametrize("n", [140, 195, 196, 197, 198, 199, 200, 300, 2000])
def test_paths_of_attributes(tmp_path: Path, n: int) -> None:
    """N5 has attributes in attributes, by paths; the document stays readable."""
    group = ts.open_group(str(tmp_path / "g"), mode="w", format="n5")
    try:
        group.attrs.set_path("/".join("a" * n), 1)
    except ChunkwiseError as e:
        assert n > 140 and "nested more " in str(e)
    repr(ts.open_group(str(tmp_path / "g")).attrs)


def test_lists_that_contain_themselves(tmp_path: Path) -> None:
    cyclic: list[Any] = []
    cyclic.append(cyclic)
    group = ts.open_group(str(tmp_path / "g"), mode="w")
    for act in (
        lambda: group.attrs.update(a=cyclic),
        lambda: group.create_array("x", shape=[1], dtype="int8", attributes={"a": cyclic}),
        lambda: ts.Spec({**MEMORY, "metadata": {"attributes": {"a": cyclic}}}),
    ):
        with pytest.raises(ChunkwiseError, match="nested more "):
            act()


DOCUMENTS: dict[str, tuple[str, Callable[[str], object]]] = {
    "zarr3": ("zarr.json", lambda p: ts.open(p).result()),
    "zarr2": (".zarray", lambda p: ts.open(p).result()),
    "group": ("zarr.json", lambda p: ts.open_group(p, mode="r")),
    "n5": ("attributes.json", lambda p: ts.open({"driver": "n5", "kvstore": p}).result()),
    "precomputed": ("info", lambda p: ts.open({"driver": "neuroglancer_precomputed", "kvstore": p}).result()),
    "json": (
        "a.json",
        lambda p: ts.open({"driver": "json", "kvstore": f"{p}a.json"}).result().read().result(),
    ),
    "references": ("r.json", lambda p: ts.KvStore.open(f"{p}r.json|reference:").result().list().result()),
    "spec": ("s.json", lambda p: ts.open(f"{p}s.json").result()),
}


@pytest.mark.parametrize("n", [201, 500, 990, 100_000])
@pytest.mark.parametrize("what", DOCUMENTS)
def test_errors_name_the_document(tmp_path: Path, what: str, n: int) -> None:
    name, act = DOCUMENTS[what]
    (tmp_path / name).write_text(_text(n))
    with pytest.raises(ChunkwiseError, match=name.replace(".", r"\.")) as e:
        act(f"file://{tmp_path}/")
    assert "nested more deeply" in str(e.value) or what in ("n5", "json")
