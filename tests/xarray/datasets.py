"""Random datasets, and the engines that they are written and read with."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import numpy as np
import xarray as xr
from hypothesis import strategies as st

from chunkwise.xarray import write_dataset
from chunkwise.xarray.backend import ChunkwiseBackendEntrypoint

NUMBERS = ("i1", "u1", "i2", "u4", "i8", "f4", "f8")
OTHERS = ("bool", "U5", "S3", "c16", "M8[ns]", "m8[s]", "text", "f2")


def values_of(draw: st.DrawFn, dtype: str, shape: tuple[int, ...]) -> np.ndarray:
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    if dtype == "bool":
        return rng.random(shape) < 0.5
    numbers = rng.integers(0, 100, shape)
    if dtype == "text":
        return np.array([f"text {n}" for n in numbers.ravel()], object).reshape(shape)
    if dtype[0] in "US":
        return np.array([f"{n:x}" for n in numbers.ravel()], dtype).reshape(shape)
    if dtype == "M8[ns]":
        return (np.datetime64("2001-02-03", "ns") + numbers.astype("m8[h]")).astype(dtype)
    if dtype[0] in "fc":
        floats = rng.normal(size=shape).astype(dtype)
        return np.where(rng.random(shape) < 0.1, np.array(np.nan, dtype), floats)
    return numbers.astype(dtype)


def attributes_of(draw: st.DrawFn) -> dict[str, Any]:
    values = st.one_of(st.integers(-100, 100), st.text(max_size=5), st.lists(st.integers(0, 9), max_size=3))
    names = st.sampled_from(["long_name", "history", "valid range", "größe", "resolution", "n"])
    return draw(st.dictionaries(names, values, max_size=3))


@st.composite
def datasets(draw: st.DrawFn, dtypes: tuple[str, ...] = NUMBERS + OTHERS) -> xr.Dataset:
    """Variables of all types, ranks 0 to 3, sometimes with coordinates, attributes and encodings."""
    sizes = {dim: draw(st.integers(1, 5)) for dim in ("x", "y", "t")}
    variables: dict[str, Any] = {}
    for number in range(draw(st.integers(0, 4))):
        dims = tuple(draw(st.permutations(list(sizes)))[: draw(st.integers(0, 3))])
        dtype = draw(st.sampled_from(dtypes))
        values = values_of(draw, dtype, tuple(sizes[dim] for dim in dims))
        variables[f"v{number}"] = xr.Variable(dims, values, attributes_of(draw), _encoding(draw, dtype))
    coords: dict[str, Any] = {}
    if draw(st.booleans()):
        coords["x"] = ("x", np.arange(sizes["x"]) * 10, {"units": "m"})
    if draw(st.booleans()) and "M8[ns]" in dtypes:
        coords["t"] = values_of(draw, "M8[ns]", (1,))[0] + np.arange(sizes["t"]).astype("m8[h]").astype(
            "m8[ns]"
        )
    if draw(st.booleans()):
        coords["lat"] = (("y", "x"), np.ones((sizes["y"], sizes["x"])))
    return xr.Dataset(variables, coords, attributes_of(draw))


def _encoding(draw: st.DrawFn, dtype: str) -> dict[str, Any]:
    if dtype in ("i2", "u4") and draw(st.booleans()):
        return {"_FillValue": 7}
    if dtype == "f8" and draw(st.booleans()):
        return {"dtype": "i2", "scale_factor": 0.5, "add_offset": 2.0, "_FillValue": -999}
    if dtype == "f4" and draw(st.booleans()):
        return {"_FillValue": np.float32(-1)}
    return {}


def write_with_xarray(dataset: xr.Dataset, path: Path, zarr_format: int, **options: Any) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        dataset.to_zarr(path, zarr_format=zarr_format, mode="w", **options)


def read_with_xarray(path: Path, **options: Any) -> xr.Dataset:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return xr.open_dataset(path, engine="zarr", **options).load()


def write_with_chunkwise(dataset: xr.Dataset, path: Any, **options: Any) -> Any:
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", category=UserWarning, module="xarray")
        return write_dataset(dataset, path, **options)


def read_with_chunkwise(path: Any, **options: Any) -> xr.Dataset:
    return xr.open_dataset(path, engine=ChunkwiseBackendEntrypoint, **options).load()
