"""The backend: lazy indexing, names of dimensions, requests, and what xarray asks of an engine."""

from __future__ import annotations

import json
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import xarray as xr
import zarr
from datasets import read_with_chunkwise, write_with_xarray
from examples import examples
from hypothesis import given, settings
from hypothesis import strategies as st

import chunkwise as cw
from chunkwise.core.kvstore.files.file_store import FileStore
from chunkwise.xarray import write_dataset
from chunkwise.xarray.backend import ChunkwiseBackendEntrypoint

SHAPE = (5, 4, 6)
VALUES = np.arange(120, dtype="i4").reshape(SHAPE)


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path: Path = tmp_path_factory.mktemp("lazy") / "a.zarr"
    dataset = xr.Dataset({"a": (("x", "y", "z"), VALUES, {"_FillValue": 7})})
    write_dataset(dataset.drop_attrs(), path, encoding={"a": {"chunks": (2, 3, 4)}})
    return path


def indices(n: int) -> st.SearchStrategy[Any]:
    lists = st.lists(st.integers(-n, n - 1), max_size=4)
    return st.one_of(st.slices(n), st.integers(-n, n - 1), lists)


@settings(max_examples=examples(50), deadline=None)
@given(indexers=st.tuples(*map(indices, SHAPE)), again=st.slices(3))
def test_orthogonal_indexing(path: Path, indexers: Any, again: slice) -> None:
    with xr.open_dataset(path, engine="chunkwise") as lazy:
        memory = xr.Dataset({"a": (("x", "y", "z"), VALUES)})
        selected = lazy.isel(dict(zip("xyz", indexers, strict=True)))
        expected = memory.isel(dict(zip("xyz", indexers, strict=True)))
        if "x" in selected.dims:
            selected, expected = selected.isel(x=again), expected.isel(x=again)
        xr.testing.assert_identical(selected.load(), expected)


@settings(max_examples=examples(50), deadline=None)
@given(data=st.data(), dims=st.permutations("xyz"), n=st.integers(1, 3), other=st.slices(3))
def test_pointwise_indexing(path: Path, data: st.DataObject, dims: list[str], n: int, other: slice) -> None:
    with xr.open_dataset(path, engine="chunkwise") as lazy:
        memory = xr.Dataset({"a": (("x", "y", "z"), VALUES)})
        sizes = dict(zip("xyz", SHAPE, strict=True))
        n_points = data.draw(st.integers(0, 4))
        indexers: dict[str, Any] = {
            dim: xr.DataArray(
                data.draw(
                    st.lists(st.integers(-sizes[dim], sizes[dim] - 1), min_size=n_points, max_size=n_points)
                ),
                dims="points",
            ).astype(int)
            for dim in dims[:n]
        }
        if n < 3:
            indexers[dims[2]] = other
        xr.testing.assert_identical(lazy.isel(indexers).load(), memory.isel(indexers))


def test_only_the_chunks_that_are_needed_are_read(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lazy = xr.open_dataset(path, engine="chunkwise")
    for place in path.glob("a/c/**/*"):
        if place.is_file() and place.parts[-3:] != ("0", "1", "1"):
            place.rename(place.with_suffix(".away"))
    try:
        np.testing.assert_array_equal(lazy["a"][:2, 3:, 4:], VALUES[:2, 3:, 4:])
        assert (lazy["a"][2:].values == 0).all()
    finally:
        for place in path.glob("a/c/**/*.away"):
            place.rename(place.with_suffix(""))


def test_dask_blocks_are_chunks(path: Path) -> None:
    lazy = xr.open_dataset(path, engine="chunkwise", chunks={})
    assert lazy["a"].chunks == ((2, 2, 1), (3, 1), (4, 2))
    np.testing.assert_array_equal(lazy["a"].sum("x"), VALUES.sum(axis=0))
    again = xr.open_dataset(path, engine="chunkwise", chunks={})
    assert again["a"].data.name == lazy["a"].data.name
    assert xr.open_dataset(path, engine="chunkwise", chunks="auto")["a"].chunks == ((5,), (4,), (6,))


def test_a_dataset_can_be_pickled(path: Path) -> None:
    for chunks in (None, {}):
        lazy = xr.open_dataset(path, engine="chunkwise", chunks=chunks)
        again = pickle.loads(pickle.dumps(lazy))
        np.testing.assert_array_equal(again["a"], VALUES)


def count_reads(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    keys: list[str] = []
    for name in ("read", "list_children", "list"):
        before = getattr(FileStore, name)

        def counted(self: FileStore, key: str = "", *args: Any, _before: Any = before, **options: Any) -> Any:
            keys.append(key)
            return _before(self, key, *args, **options)

        monkeypatch.setattr(FileStore, name, counted)
    return keys


@pytest.mark.parametrize("format", ["zarr3", "zarr2"])
def test_consolidated_metadata_take_one_request(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, format: str
) -> None:
    dataset = xr.Dataset({f"v{n}": ("x", [n, 2, 3], {"n": n}) for n in range(20)}, attrs={"k": 1})
    tree = xr.DataTree.from_dict({"/": dataset, "/below": dataset})
    cw.xarray.write_datatree(tree, tmp_path / "a", format=format)
    keys = count_reads(monkeypatch)
    opened = xr.open_dataset(tmp_path / "a", engine="chunkwise", format=format)
    assert len(keys) == 1
    assert opened.sizes == {"x": 3} and opened["v7"].attrs == {"n": 7}
    keys.clear()
    below = xr.open_dataset(tmp_path / "a", engine="chunkwise", group="below", format=format)
    assert len(keys) == 1 and len(below) == 20
    keys.clear()
    xr.open_datatree(tmp_path / "a", engine="chunkwise", format=format)
    assert len(keys) == 1
    keys.clear()
    assert len(xr.open_dataset(tmp_path / "a", engine="chunkwise", consolidated=False)) == 20
    assert len(keys) > 20
    monkeypatch.undo()
    xr.testing.assert_identical(opened.load(), dataset)


def test_consolidated_metadata_can_be_demanded(tmp_path: Path) -> None:
    write_dataset(xr.Dataset({"a": ("x", [1])}), tmp_path / "a", consolidated=False)
    assert len(xr.open_dataset(tmp_path / "a", engine="chunkwise")) == 1
    with pytest.raises(FileNotFoundError, match="consolidated"):
        xr.open_dataset(tmp_path / "a", engine="chunkwise", consolidated=True)


def test_names_of_dimensions(tmp_path: Path) -> None:
    group = zarr.open_group(str(tmp_path / "v3"), mode="w", zarr_format=3)
    group.create_array("named", shape=(2, 3), dtype="i4", dimension_names=["y", None])
    group.create_array("bare", shape=(2, 3), dtype="i4")
    opened = read_with_chunkwise(tmp_path / "v3", consolidated=False)
    assert opened["named"].dims == ("y", "named_dim_1")
    assert opened["bare"].dims == ("bare_dim_0", "bare_dim_1")
    (tmp_path / "v2").mkdir()
    group = zarr.open_group(str(tmp_path / "v2"), mode="w", zarr_format=2)
    group.create_array("a", shape=(2, 3), dtype="i4").attrs["_ARRAY_DIMENSIONS"] = ["p", "q"]
    nczarr = group.create_array("b", shape=(2,), dtype="i4")
    document = json.loads((tmp_path / "v2/b/.zarray").read_text())
    document["_NCZARR_ARRAY"] = {"dimrefs": ["/p"], "storage": "chunked"}
    (tmp_path / "v2/b/.zattrs").write_text(json.dumps({"_NCZARR_ARRAY": document["_NCZARR_ARRAY"], "k": 1}))
    del nczarr
    group.create_array("c", shape=(2,), dtype="i4")
    newer = {"_nczarr_array": {"dimension_references": ["/p"]}, "_nczarr_attr": {"types": {}}}
    (tmp_path / "v2/c/.zattrs").write_text(json.dumps(newer))
    opened = read_with_chunkwise(tmp_path / "v2", format="zarr2", mask_and_scale=False)
    assert opened["a"].dims == ("p", "q") and opened["a"].attrs == {"_FillValue": 0}
    assert opened["b"].dims == ("p",) and opened["b"].attrs == {"k": 1, "_FillValue": 0}
    assert opened["c"].dims == ("p",) and opened["c"].attrs == {"_FillValue": 0}


def test_an_n5_container_of_others(tmp_path: Path) -> None:
    import z5py

    with z5py.File(str(tmp_path / "a.n5"), "w") as file:
        file.attrs["k"] = 1
        dataset = file.create_dataset(
            "volume", data=np.arange(24, dtype="u2").reshape(2, 3, 4), chunks=(1, 2, 3)
        )
        dataset.attrs["resolution"] = [4, 4, 40]
        file.create_group("more").create_dataset("seg", data=np.zeros((2, 2), "u8"), chunks=(2, 2))
    opened = xr.open_dataset(tmp_path / "a.n5", engine="chunkwise")
    assert opened["volume"].dims == ("volume_dim_0", "volume_dim_1", "volume_dim_2")
    assert opened["volume"].attrs == {"resolution": [4, 4, 40]} and opened.attrs == {"k": 1}
    np.testing.assert_array_equal(opened["volume"].T, np.arange(24).reshape(2, 3, 4))
    named = json.loads((tmp_path / "a.n5/volume/attributes.json").read_text())
    (tmp_path / "a.n5/volume/attributes.json").write_text(json.dumps({**named, "axes": ["x", "y", "z"]}))
    assert xr.open_dataset(tmp_path / "a.n5", engine="chunkwise")["volume"].dims == ("x", "y", "z")
    assert xr.open_dataset(tmp_path / "a.n5")["volume"].dims == ("x", "y", "z")  # nobody else opens it
    assert list(xr.open_datatree(tmp_path / "a.n5")["more"].data_vars) == ["seg"]


def test_fill_values(tmp_path: Path) -> None:
    for version in (2, 3):
        group = zarr.open_group(str(tmp_path / str(version)), mode="w", zarr_format=version)
        options: Any = {"dimension_names": ["x"]} if version == 3 else {}
        array = group.create_array("a", shape=(3,), dtype="f8", fill_value=5.0, **options)
        array.attrs.update({"_ARRAY_DIMENSIONS": ["x"]} if version == 2 else {})
        array[1] = 1.0
    two, three = tmp_path / "2", tmp_path / "3"
    np.testing.assert_array_equal(read_with_chunkwise(two)["a"], [np.nan, 1, np.nan])
    np.testing.assert_array_equal(read_with_chunkwise(three)["a"], [5, 1, 5])
    as_mask = read_with_chunkwise(three, use_zarr_fill_value_as_mask=True)
    np.testing.assert_array_equal(as_mask["a"], [np.nan, 1, np.nan])
    plain = read_with_chunkwise(two, use_zarr_fill_value_as_mask=False)
    np.testing.assert_array_equal(plain["a"], [5, 1, 5])
    for value in (1.0, "AAAAAAAA8D8="):  # as netCDF's writers have it, and as xarray has it
        zarr.open_group(str(three))["a"].attrs["_FillValue"] = value
        np.testing.assert_array_equal(read_with_chunkwise(three)["a"], [5, np.nan, 5])
    zarr.open_group(str(three))["a"].attrs["_FillValue"] = "?"
    with pytest.raises(ValueError, match="_FillValue"):
        read_with_chunkwise(three)


def test_variables_that_are_dropped_are_not_opened(tmp_path: Path) -> None:
    write_dataset(xr.Dataset({"a": ("x", [1]), "b": ("x", [2])}), tmp_path / "a", consolidated=False)
    (tmp_path / "a/b/zarr.json").write_text("{")
    with pytest.warns(UserWarning, match=r"'b' is left out: .*b/zarr\.json"):
        assert list(xr.open_dataset(tmp_path / "a", engine="chunkwise")) == ["a"]
    for dropped in ("b", ["b"]):
        assert list(xr.open_dataset(tmp_path / "a", engine="chunkwise", drop_variables=dropped)) == ["a"]


def test_places(tmp_path: Path) -> None:
    dataset = xr.Dataset({"a": ("x", [1, 2])})
    write_with_xarray(dataset, tmp_path / "a.zarr", 3, group="g/h")
    for place in (tmp_path / "a.zarr", str(tmp_path / "a.zarr"), f"file://{tmp_path}/a.zarr"):
        xr.testing.assert_identical(read_with_chunkwise(place, group="g/h"), dataset)
    group = cw.open_group(tmp_path / "a.zarr")
    xr.testing.assert_identical(read_with_chunkwise(group, group="g/h"), dataset)
    xr.testing.assert_identical(read_with_chunkwise(group["g/h"]), dataset)
    with pytest.raises(FileNotFoundError):
        read_with_chunkwise(tmp_path / "a.zarr", group="g/missing")
    with pytest.raises(ValueError, match="array"):
        read_with_chunkwise(tmp_path / "a.zarr", group="g/h/a")
    with pytest.raises(ValueError, match="array"):
        read_with_chunkwise(group, group="g/h/a")


def test_the_engine_is_registered_and_takes_only_what_is_its_own() -> None:
    assert isinstance(xr.backends.list_engines()["chunkwise"], ChunkwiseBackendEntrypoint)
    engine = ChunkwiseBackendEntrypoint()
    assert engine.guess_can_open("x/a.n5") and engine.guess_can_open(Path("a.n5"))
    assert not engine.guess_can_open("a.zarr") and not engine.guess_can_open("a.nc")
    assert not engine.guess_can_open(5)
