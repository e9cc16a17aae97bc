"""What an operand reads at or below a location, whatever holds it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import fsspec
import numpy as np
import pytest
import xarray as xr
import zarr

import chunkwise
from chunkwise.copying.overlap import overlap
from chunkwise.core.trees.consolidated_tree import consolidate
from chunkwise.core.trees.location import locate
from chunkwise.core.trees.replacement import replacing
from chunkwise.xarray.write import write_dataset


@pytest.fixture
def group(tmp_path: Path) -> chunkwise.Group:
    group = chunkwise.create_group(tmp_path / "a.zarr")
    group.create_array("in/x", np.arange(6), chunks=(4,))
    group.create_array("other", np.arange(6))
    return group


def _zarr_array(group: chunkwise.Group) -> Any:
    return zarr.open_group(group.location.text, mode="r")["in/x"]


READS_X: dict[str, Callable[[chunkwise.Group], Any]] = {
    "array": lambda group: group["in/x"],
    "view": lambda group: group["in/x"][::-2],
    "cast": lambda group: chunkwise.cast(group["in/x"], "float32"),
    "downsampled": lambda group: chunkwise.downsample(group["in/x"], [2], "mean"),
    "stack": lambda group: chunkwise.stack([group["other"], group["in/x"]]),
    "group": lambda group: group["in"],
    "group above": lambda group: group,
    "zarr": _zarr_array,
    "function": lambda group: chunkwise.virtual_chunked(
        lambda out, parameters: None, dtype="int64", shape=[6]
    ),
}


@pytest.mark.parametrize("name", READS_X)
def test_what_reads_an_array_is_found(name: str, group: chunkwise.Group) -> None:
    operand = READS_X[name](group)
    for path in ("in/x", "in"):
        assert overlap(operand, group.location.child(path))
    if name not in ("stack", "group above", "function"):
        assert overlap(operand, group.location.child("other")) is None


@pytest.mark.parametrize("value", [np.arange(3), [1, 2], 5, "text", None, chunkwise.array([1, 2])])
def test_what_is_in_memory_reads_nothing(value: Any, group: chunkwise.Group) -> None:
    assert overlap(value, group.location) is None


def test_a_link_to_a_directory_is_that_directory(tmp_path: Path, group: chunkwise.Group) -> None:
    (tmp_path / "link").symlink_to(tmp_path / "a.zarr")
    assert overlap(group["in/x"], locate(tmp_path / "link" / "in"))
    assert overlap(chunkwise.open_group(tmp_path / "link")["in/x"], group.location.child("in"))


def test_variables_of_xarray_are_looked_into_and_not_loaded(tmp_path: Path) -> None:
    place = locate(tmp_path / "d.zarr")
    write_dataset(xr.Dataset({"v": ("t", np.arange(5.0))}), place)
    for dataset in (
        xr.open_dataset(tmp_path / "d.zarr", engine="chunkwise"),
        xr.open_zarr(tmp_path / "d.zarr", consolidated=False, chunks=None),
    ):
        assert overlap(dataset["v"].variable, place.child("v"))
        assert overlap(dataset["v"], place)
        assert overlap(dataset["v"][1:3], place)
        assert not dataset["v"].variable._in_memory


@pytest.mark.parametrize("n", [5, 8])
def test_edge_chunks_of_a_new_array_need_no_conditions(n: int) -> None:
    store = fsspec.get_mapper(f"memory://overlap-{n}")
    values = np.arange(n)
    assert chunkwise.create_array(store, values, chunks=(4,)).read().result().tolist() == values.tolist()
    made = chunkwise.create_array(store, values[::-1], chunks=(3,), overwrite=True)
    assert made.read().result().tolist() == values[::-1].tolist()
    with pytest.raises(chunkwise.errors.UnsafeWriteError):  # what others may write to is as ever
        made[1:2] = 7


def test_a_tree_in_a_store_without_conditions_is_replaced_and_consolidated() -> None:
    place = locate(fsspec.get_mapper("memory://replaced-tree"))
    with replacing(place) as staging:
        group = chunkwise.create_group(staging, attributes={"a": 1})
        group.attrs["b"] = 2
        group.create_array("x", np.arange(5), chunks=(4,))
        consolidate(staging, alone=True)
    assert chunkwise.open_group(place, consolidated=True)["x"].read().result().tolist() == [0, 1, 2, 3, 4]
    with pytest.raises(chunkwise.errors.UnsafeWriteError):
        chunkwise.open_group(place, "r+").attrs["b"] = 3
