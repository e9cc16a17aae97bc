"""Errors of places and types that other libraries take: they say what to give here."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas
import pytest
import xarray
import zarr

import chunkwise as ts
from chunkwise.xarray import write_dataset

OBJECTS = [["x", "yy"], [b"\1\0", b""]]


@pytest.mark.parametrize("values", OBJECTS)
def test_objects_need_a_dtype(tmp_path: Path, values: list[Any]) -> None:
    """As pandas gives them; the one that is named works."""
    array = pandas.Series(values, dtype=object).to_numpy()
    with pytest.raises(ValueError, match='give the dtype: "ustring" for text, "string" for bytes'):
        ts.create_array(tmp_path / "a", array)
    dtype = "ustring" if isinstance(values[0], str) else "string"
    made = ts.create_array(tmp_path / "a", array, dtype=dtype)
    assert made.read().result().tolist() == values


def test_text_is_not_bytes(tmp_path: Path) -> None:
    """The dtype "string" is TensorStore's, of bytes."""
    with pytest.raises(TypeError, match='the dtype of text is "ustring"'):
        ts.create_array(tmp_path / "a", np.array(["x"]), dtype="string")


@pytest.mark.parametrize("call", [ts.open_group, lambda place: ts.create_array(place, np.arange(3))])
def test_a_dict_is_a_spec(call: Any) -> None:
    """One without a driver is none; where data is to be in memory has a URL."""
    with pytest.raises(ValueError, match="memory://"):
        call({"a": 1})


@pytest.mark.parametrize("call", [ts.open, ts.open_group, lambda place: ts.copy(place, "x")])
def test_an_array_of_zarr_python_is_no_place(tmp_path: Path, call: Any) -> None:
    """Its store is, with its path."""
    array: Any = zarr.open(str(tmp_path / "z"), mode="w", shape=(3,), dtype="i4")
    with pytest.raises(TypeError, match=r'"driver": "object"'):
        call(array)


def test_a_multi_index_is_named(tmp_path: Path) -> None:
    """With what makes variables of it; nothing is written."""
    index = pandas.MultiIndex.from_tuples([(1, 2), (3, 4)], names=["p", "q"])
    coordinates = xarray.Coordinates.from_pandas_multiindex(index, "i")
    dataset = xarray.Dataset({"v": ("i", [1, 2])}, coords=coordinates)
    with pytest.raises(ValueError, match=r'"(i|p|q)" is of a MultiIndex.*reset_index'):
        write_dataset(dataset, tmp_path / "a")
    assert not (tmp_path / "a").exists()
    write_dataset(dataset.reset_index("i"), tmp_path / "a")
