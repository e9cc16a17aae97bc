"""A file of each kind, by the library that is known for it, and what chunkwise opens it with.

The rows that come of it are those of the table in docs/bridges.md.
"""

from __future__ import annotations

import json
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import h5py
import icechunk
import numpy as np
import pytest
import tensorstore
import tifffile
import xarray
import z5py
import zarr
from kerchunk_references import kerchunk_references
from PIL import Image

import chunkwise as ts
from chunkwise.errors import ChunkwiseError

PAGE = Path(__file__).parents[2] / "docs" / "bridges.md"
VALUES = np.arange(48, dtype="u1").reshape(6, 8)


def _zarr(path: Path, version: Any) -> Any:
    zarr.create_array(path / "x", name="a", data=VALUES, chunks=(3, 4), zarr_format=version)
    return path / "x", "a"


def _zarr1(path: Path) -> Any:
    ts.create_array(path / "x", VALUES, format="zarr1")
    return path / "x", ""


def _n5(path: Path) -> Any:
    z5py.File(str(path / "x.n5"), "a").create_dataset("a", data=VALUES.T, chunks=(4, 3))
    return path / "x.n5", "a"


def _zip(path: Path) -> Any:
    with zarr.storage.ZipStore(path / "x.zip", mode="w") as store:
        zarr.create_array(store, name="a", data=VALUES, chunks=(3, 4))
    return f"{path / 'x.zip'}|zip:", "a"


def _ome_zarr(path: Path) -> Any:
    group = zarr.create_group(path / "x", zarr_format=3)
    group.create_array("0", data=VALUES, chunks=(3, 4))
    axes = [{"name": name, "type": "space"} for name in "yx"]
    scale = [{"type": "scale", "scale": [1.0, 1.0]}]
    levels = [{"path": "0", "coordinateTransformations": scale}]
    group.attrs["ome"] = {"version": "0.5", "multiscales": [{"axes": axes, "datasets": levels}]}
    return path / "x", "0"


def _precomputed(path: Path) -> Any:
    spec = {"driver": "neuroglancer_precomputed", "kvstore": f"file://{path}/x/"}
    scale = {"resolution": [4, 4, 40], "encoding": "raw", "chunk_size": [8, 6, 1]}
    options = {"multiscale_metadata": {"type": "image"}, "scale_metadata": scale}
    made = tensorstore.open({**spec, **options}, create=True, dtype="uint8", shape=[8, 6, 1, 1]).result()
    made[:, :, 0, 0] = VALUES.T
    return path / "x", ""


def _ocdbt(path: Path) -> Any:
    kvstore = {"driver": "ocdbt", "base": f"file://{path}/x/"}
    tree = tensorstore.KvStore.open(kvstore).result()
    tree["zarr.json"] = b'{"zarr_format": 3, "node_type": "group"}'
    spec = {"driver": "zarr3", "kvstore": {**kvstore, "path": "a/"}}
    tensorstore.open(spec, create=True, dtype="uint8", shape=[6, 8]).result()[...] = VALUES
    return f"{path / 'x'}|ocdbt:", "a"


def _hdf5(path: Path) -> Any:
    with h5py.File(path / "x.h5", "w") as file:
        file.create_dataset("a", data=VALUES, chunks=(3, 4), compression="gzip")
    return path / "x.h5", "a"


def _netcdf(path: Path) -> Any:
    xarray.Dataset({"a": (("y", "x"), VALUES)}).to_netcdf(path / "x.nc", engine="netcdf4")
    return path / "x.nc", "a"


def _tiff(path: Path) -> Any:
    tifffile.imwrite(path / "x.tif", VALUES)
    return path / "x.tif", "0"


def _ome_tiff(path: Path) -> Any:
    tifffile.imwrite(path / "x.ome.tif", VALUES, metadata={"axes": "YX"})
    return path / "x.ome.tif", "0"


def _references(path: Path) -> dict[str, Any]:
    return kerchunk_references(_hdf5(path)[0])


def _json_references(path: Path) -> Any:
    (path / "x.json").write_text(json.dumps(_references(path)))
    return f"{path / 'x.json'}|reference:", "a"


def _parquet_references(path: Path) -> Any:
    from kerchunk.df import refs_to_dataframe

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        refs_to_dataframe(_references(path), str(path / "x.parq"))
    return f"{path / 'x.parq'}|reference:", "a"


def _picture(path: Path, name: str) -> Any:
    Image.fromarray(VALUES).save(path / f"x.{name}", **({"lossless": True} if name == "webp" else {}))
    return path / f"x.{name}", ""


def _icechunk(path: Path) -> Any:
    session = icechunk.Repository.create(icechunk.in_memory_storage()).writable_session("main")
    zarr.create_array(session.store, name="a", data=VALUES, chunks=(3, 4))
    return session.store, "a"


def _zarr_store(path: Path) -> Any:
    store = zarr.storage.MemoryStore()
    zarr.create_array(store, name="a", data=VALUES, chunks=(3, 4))
    return store, "a"


KINDS: dict[str, Callable[[Path], Any]] = {
    "Zarr v3": lambda path: _zarr(path, 3),
    "Zarr v2": lambda path: _zarr(path, 2),
    "Zarr v1": _zarr1,
    "N5": _n5,
    "Zarr in a ZIP archive": _zip,
    "OME-Zarr": _ome_zarr,
    "neuroglancer precomputed": _precomputed,
    "Zarr in OCDBT": _ocdbt,
    "HDF5": _hdf5,
    "NetCDF-4": _netcdf,
    "TIFF": _tiff,
    "OME-TIFF": _ome_tiff,
    "kerchunk, VirtualiZarr: JSON": _json_references,
    "kerchunk, VirtualiZarr: Parquet": _parquet_references,
    "PNG": lambda path: _picture(path, "png"),
    "BMP": lambda path: _picture(path, "bmp"),
    "WebP": lambda path: _picture(path, "webp"),
    "a store of zarr-python": _zarr_store,
    "a session of Icechunk": _icechunk,
}


def _below(place: Any, name: str) -> Any:
    """Return what names the array called `name` in a tree."""
    if not name:
        return place
    if isinstance(place, str):
        return f"{place}{name}"
    if isinstance(place, Path) and place.is_file():
        return f"{place}|{'hdf5' if place.suffix in ('.h5', '.nc') else 'tiff-images'}:{name}"
    if isinstance(place, Path):
        return place / name
    return {"driver": "auto", "kvstore": {"driver": "object", "object": place, "path": f"{name}/"}}


def _seen(array: Any) -> bool:
    """Return whether an array has the values, whatever the order of its dimensions, and of pixels more."""
    values = np.squeeze(array.read().result())
    if values.ndim == 3:  # grey as three channels
        values = values[..., 0]
    return bool(np.array_equal(values if values.shape == VALUES.shape else values.T, VALUES))


def tried(call: Callable[[], bool]) -> str:
    try:
        return "yes" if call() else "other values"
    except ChunkwiseError as e:
        assert str(e)
        return ""


def _written(place: Any) -> bool:
    array = ts.open(place).result()
    old = array.read().result()
    array[...] = old + 1
    changed = ts.open(place).result().read().result()
    array[...] = old
    return bool(np.array_equal(changed, old + 1))


def table() -> dict[str, list[str]]:
    """Return the cells of the page's table by kind, without the names of extras."""
    rows = PAGE.read_text().partition("| kind | ")[2].partition("\n\n")[0].splitlines()[2:]
    cells = [[cell.strip() for cell in row.strip("|").split("|")] for row in rows]
    return {kind: found[:4] for kind, *found in cells}


@pytest.mark.filterwarnings("ignore:The .fastparquet. engine:DeprecationWarning")
@pytest.mark.parametrize("kind", KINDS)
def test_row_of_the_table(kind: str, tmp_path: Path) -> None:
    place, name = KINDS[kind](tmp_path)
    array = _below(place, name)
    found = [
        tried(lambda: _seen(ts.open(array).result())),
        tried(lambda: _seen(ts.open_group(place)[name])),
        tried(lambda: _seen(ts.open_multiscale(place).levels[0])),
        tried(lambda: _written(array)),
    ]
    assert table().get(kind) == found


def test_the_table_has_no_other_rows() -> None:
    assert list(table()) == list(KINDS)
