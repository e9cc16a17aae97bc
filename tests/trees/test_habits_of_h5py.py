"""Groups take the calls of h5py: what both make has the same values."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
import xarray as xr

import chunkwise as ts
from chunkwise.errors import InvalidArgumentError


@pytest.mark.parametrize("format", ["zarr2", "zarr3", "n5"])
def test_calls_of_h5py(format: Any, tmp_path: Path) -> None:
    """One program, with a file of h5py and a group of ours."""
    seen = []
    with h5py.File(tmp_path / "a.h5", "w") as file:
        for tree in (file, ts.open_group(tmp_path / "a", mode="w", format=format)):
            tree.create_dataset("a/b", (6, 4), "f4", chunks=(3, 4), compression="gzip", compression_opts=4)
            tree["a/b"][2:4] = 1.5
            tree.create_dataset("c", data=np.arange(5), chunks=True)
            tree.require_dataset("c", (5,), "i8")[1] = 7
            tree.require_dataset("d", (2,), "u1")[0] = 3
            names: list[str] = []
            tree.visititems(lambda name, _, names=names: names.append(name))
            assert "a/b" in tree and "x" not in tree
            seen.append(
                (sorted(names), *(np.asarray(tree[name][...]).tolist() for name in ("a/b", "c", "d")))
            )
            with pytest.raises((InvalidArgumentError, TypeError)):
                tree.require_dataset("c", (6,), "i8")
    assert seen[0] == seen[1]


def test_a_wrong_parameter_is_told(tmp_path: Path) -> None:
    group = ts.open_group(tmp_path / "a", mode="w", format="zarr3")
    with pytest.raises(InvalidArgumentError, match="chunks: expected a size"):
        group.create_dataset("a", (4,), "i4", chunks="x")
    with pytest.raises(InvalidArgumentError, match="compression_opts: expected a compression"):
        group.create_dataset("a", (4,), "i4", compression_opts=4)
    assert list(group) == []


GZIP = {"name": "gzip", "configuration": {"level": 4}}
OPTIONS: list[tuple[dict[str, Any], dict[str, Any]]] = [
    ({"compression": "gzip", "compression_opts": 4}, {"codecs": GZIP}),
    ({"compression": 4}, {"codecs": GZIP}),
    ({"compression": True}, {"codecs": {"name": "gzip", "configuration": {"level": 6}}}),
    ({"compression": None}, {"codecs": {"name": "zstd", "configuration": {"level": 3}}}),
    ({"fillvalue": 7}, {"fill_value": 7}),
    (
        {"fillvalue": 7, "dtype": "f4", "data": None, "shape": (2,)},
        {"fill_value": 7.0, "data_type": "float32"},
    ),
    ({"chunks": True}, {"shape": [4]}),
]


@pytest.mark.parametrize(("options", "members"), OPTIONS, ids=str)
def test_options_by_the_names_of_h5py(
    tmp_path: Path, options: dict[str, Any], members: dict[str, Any]
) -> None:
    ts.create_group(tmp_path).create_dataset("a", **{"data": np.arange(4), **options})
    document = json.loads((tmp_path / "a/zarr.json").read_text())
    assert {name: document[name][-1] if name == "codecs" else document[name] for name in members} == members


@pytest.mark.parametrize(
    ("compression", "error"),
    [
        (False, "compression: .* not False"),
        (99, "codec.* 99"),
        ("lzf", 'codec "lzf"'),
        ("gzip:x", "integer level"),
    ],
)
def test_a_compression_that_is_none_is_refused(tmp_path: Path, compression: Any, error: str) -> None:
    group = ts.create_group(tmp_path)
    with pytest.raises(InvalidArgumentError, match=error):
        group.create_dataset("a", data=np.arange(4), compression=compression)
    assert list(group) == []


@pytest.mark.parametrize("format", ["zarr3", "zarr2", "n5"])
@pytest.mark.parametrize("by", ["schema", "domain"])
def test_an_array_that_a_schema_describes(tmp_path: Path, format: str, by: str) -> None:
    """It has the names and the fill value that are said there, too."""
    group = ts.create_group(tmp_path, format=format)
    domain = ts.IndexDomain(shape=[3], labels=["t"])
    fill = {} if format == "n5" else {"fill_value": np.int16(5)}
    options: dict[str, Any] = {"domain": domain, "dtype": "int16", **fill}
    made = group.create_array("a", **({"schema": ts.Schema(**options)} if by == "schema" else options))
    assert (made.shape, made.dtype.name) == ((3,), "int16")
    assert made[...].read().result().tolist() == [5 if fill else 0] * 3
    key = {"zarr3": "zarr.json", "zarr2": ".zattrs", "n5": "attributes.json"}[format]
    document = json.loads((tmp_path / "a" / key).read_text())
    names = {"zarr3": "dimension_names", "zarr2": "_ARRAY_DIMENSIONS", "n5": "axes"}[format]
    assert document[names] == ["t"]


def test_an_array_of_xarray_has_its_names(tmp_path: Path) -> None:
    group = ts.create_group(tmp_path)
    values = xr.DataArray(np.zeros((2, 3)), dims=("y", "x"))
    assert group.create_array("a", values).domain.labels == ("y", "x")
    assert group.create_array("b", values, dimension_names=["u", "v"]).domain.labels == ("u", "v")
    old = ts.create_group(tmp_path / "old", format="zarr2").create_array("a", values)
    assert old.attrs["_ARRAY_DIMENSIONS"] == ["y", "x"]
