"""Attributes, metadata and specs are handed out and taken as copies: a change of one reaches nobody.

A value that is a part of a cached document would change what every handle of the process sees.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import chunkwise as cw
import chunkwise.z5py
from chunkwise.core.trees.node_attributes import Attributes

NESTED = {"a": {"b": [1, {"c": [2, 3]}]}, "list": [[1, 2], [3, [4]]], "empty": {}}
FORMATS = ["zarr3", "zarr2", "n5"]


def _containers(value: Any) -> Iterator[Any]:
    if isinstance(value, Mapping):
        yield value
        for member in value.values():
            yield from _containers(member)
    elif isinstance(value, list | tuple):
        if isinstance(value, list):
            yield value
        for member in value:
            yield from _containers(member)


def _handed_out(value: Any, depth: int = 3) -> Iterator[tuple[str, Any]]:
    """Yield what the attributes and methods of an object give, as plain data, with their names."""
    if isinstance(value, Attributes):
        yield ".asdict()", value.asdict()
        yield ".get_path()", value.get_path("a/b")
        yield ".values()", list(value.values())
        yield ".get()", value.get("list")
    elif isinstance(value, Mapping | list | tuple):
        yield "", value
    if not type(value).__module__.startswith("chunkwise") or depth == 0:
        return
    names = ["to_json"] if isinstance(value, cw.CodecSpec) else dir(value)
    for name in names:
        if name.startswith("_") or name in ("T", "base", "parent", "root", "info", "location"):
            continue
        member = getattr(type(value), name, None)
        try:
            if callable(member):
                if name not in ("to_json", "spec", "schema", "asdict", "links"):
                    continue
                found = getattr(value, name)()
            else:
                found = getattr(value, name)
        except (ValueError, NotImplementedError, AttributeError, KeyError):
            continue
        yield from ((f".{name}{rest}", data) for rest, data in _handed_out(found, depth - 1))


def _check_apart(made: Any, again: Any) -> None:
    first, second = list(_handed_out(made)), list(_handed_out(again))
    assert {name for name, _ in first} >= {".attrs.asdict()"} or not hasattr(made, "attrs")
    known = {id(each): name for name, data in first for each in _containers(data)}
    shared = {known[id(each)] for _, data in second for each in _containers(data) if id(each) in known}
    assert not shared


@pytest.mark.each_once
@pytest.mark.parametrize("format", FORMATS)
@pytest.mark.parametrize("consolidated", [False, True])
def test_nothing_is_shared(format: str, consolidated: bool, tmp_path: Path) -> None:
    """Two looks at anything give no common object, whether by one handle or by two."""
    path = tmp_path / ("g.n5" if format == "n5" else "g.zarr")
    group = cw.create_group(path, format=format, attributes=NESTED)
    how: dict[str, Any] = {"attributes": NESTED, "chunks": [2, 2], "codec": "gzip:3"}
    if format == "zarr3":
        how["shards"] = [4, 4]
    group.create_array("x", np.ones((4, 4), "f4"), **how)
    group.create_group("below", attributes=NESTED).create_array("y", np.ones(3))
    if consolidated and format in ("zarr2", "zarr3"):
        group.consolidate()
    group, other = cw.open_group(path, mode="r+"), cw.open_group(path)
    for made, again in (
        (group, group),
        (group, other),
        (group["x"], group["x"]),
        (group["x"], other["x"]),
        (group["x"], cw.open_array(path / "x")),
        (group["x"][1:], cw.open(path / "x").result()),
        (group["below"], other["below"]),
        (group["x"].spec(), group["x"].spec()),
        (group["x"].schema, other["x"].schema),
    ):
        _check_apart(made, made)
        _check_apart(made, again)


def test_what_is_given_is_not_kept(tmp_path: Path) -> None:
    """A later change of a value that was set, or of the JSON of a spec, changes neither."""
    value: dict[str, Any] = {"b": [1, {"c": 2}]}
    group = cw.create_group(tmp_path / "g.zarr", attributes={"made": value})
    group.attrs["set"] = value
    group.attrs.update({"updated": value})
    group.attrs.change(lambda attributes: {**attributes, "changed": value})
    array = group.create_array("x", np.zeros(2), attributes={"made": value})
    json = {
        "driver": "zarr3",
        "kvstore": {"driver": "memory", "path": "a/"},
        "metadata": {"shape": [4], "data_type": "uint8", "attributes": value},
    }
    spec = cw.Spec(json)
    before = spec.to_json()
    value["b"][1]["c"] = value["b"].append(5)
    assert spec.to_json() == before
    expected = {"b": [1, {"c": 2}]}
    assert len(group.attrs) and all(found == expected for found in group.attrs.values())
    assert array.attrs["made"] == expected
    group.attrs["set"]["b"] = 42
    assert group.attrs["set"] == group.attrs.refresh()["set"] == expected


def test_z5py_and_xarray(tmp_path: Path) -> None:
    """They get their own copies, too."""
    import xarray as xr

    path = tmp_path / "g.zarr"
    group = cw.create_group(path, attributes=NESTED)
    group.create_array("v", np.zeros(2), attributes=NESTED, dimension_names=["x"])
    for _ in range(2):
        dataset = xr.open_dataset(path, engine="chunkwise")
        for attributes in (dataset.attrs, dataset.v.attrs, chunkwise.z5py.File(path).attrs):
            assert {name: attributes[name] for name in NESTED} == NESTED
            attributes["a"]["b"].append(1)
            attributes["list"][0].clear()
