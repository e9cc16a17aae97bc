"""What every creator writes, in every format: one line a key, so that a change of layout shows as a diff."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

import chunkwise
import chunkwise.dask
import chunkwise.xarray
import chunkwise.z5py
from chunkwise.cli.main import main

FORMATS = ("zarr3", "zarr2", "n5")
_DRIVERS = {"zarr3": "zarr3", "zarr2": "zarr", "n5": "n5"}
_UNCOMPRESSED = {
    "zarr3": {"codecs": [{"name": "bytes", "configuration": {"endian": "little"}}]},
    "zarr2": {"compressor": None},
    "n5": {"compression": {"type": "raw"}},
}


def _data() -> Any:
    return np.arange(6 * 8, dtype=np.uint16).reshape(6, 8)


def _open(place: Path, format: str) -> None:
    spec = {
        "driver": _DRIVERS[format],
        "kvstore": {"driver": "file", "path": f"{place}/"},
        "metadata": _UNCOMPRESSED[format],
        "schema": {
            "dtype": "uint16",
            "domain": {"shape": [6, 8], "labels": ["y", "x"]} if format != "zarr2" else {"shape": [6, 8]},
            "chunk_layout": {"chunk": {"shape": [4, 4]}},
        },
    }
    chunkwise.open(spec, create=True).result().write(_data()).result()


def _create_array(place: Path, format: str) -> None:
    chunkwise.create_array(
        place, _data(), chunks=(4, 4), codec="none", format=format, dimension_names=("y", "x"),
        dimension_units=("4 nm", None), attributes={"who": "me", "list": [1, 2.5]},
    )  # fmt: skip


def _defaults(place: Path, format: str) -> None:
    group = chunkwise.create_group(place, format=format, attributes={"title": "defaults"})
    group.create_array("deep/below", shape=(5,), dtype="float32", attributes={"a": 1})
    group.create_array("text", np.array(["a", "bcd"], object), dtype="ustring", codec="none")


def _open_group(place: Path, format: str) -> None:
    group = chunkwise.open_group(place, "w", format=format, attributes={"n": 1})
    group.create_group("inner", attributes={"m": [None]} if format != "n5" else {"m": [1]})
    group.create_link("other", "inner")
    group.attrs["later"] = "x"
    array = group.create_array("inner/a", _data(), chunks=(3, 8), codec="none", checksum=False)
    array.attrs["unit"] = "um"


def _dataset() -> Any:
    import xarray

    return xarray.Dataset(
        {
            "t": (("time", "y"), np.arange(12, dtype="float32").reshape(3, 4), {"units": "K"}),
            "n": (("y",), np.arange(4, dtype="int16"), {"_FillValue": np.int16(-1)}),
            "name": (("y",), np.array(["a", "bb", "", "d"])),
        },
        coords={"time": np.array(["2001-01-01", "2001-01-02", "2001-01-05"], "datetime64[ns]"), "z": 3.5},
        attrs={"title": "dataset"},
    )


def _write_dataset(place: Path, format: str) -> None:
    encoding = {name: {"codec": "none"} for name in ("t", "n", "name", "time", "z")}
    chunkwise.xarray.write_dataset(_dataset(), place, mode="w", format=format, encoding=encoding)


def _write_datatree(place: Path, format: str) -> None:
    import xarray

    tree = xarray.DataTree.from_dict({"/": _dataset(), "/below": _dataset()[["n"]]})
    chunkwise.xarray.write_datatree(tree, place, mode="w", format=format)


def _from_dask(place: Path, format: str) -> None:
    import dask.array

    spec = {"driver": _DRIVERS[format], "kvstore": f"file://{place}/", "metadata": _UNCOMPRESSED[format]}
    chunkwise.dask.from_dask(dask.array.from_array(_data(), chunks=(4, 4)), spec, scheduler="synchronous")


def _source(place: Path) -> Path:
    source = place.with_name(place.name + "-source")
    if not source.exists():
        group = chunkwise.create_group(source, format="zarr3", attributes={"title": "source"})
        group.create_array(
            "v", _data(), chunks=(2, 4), shards=(4, 8), codec="none", fill_value=7, attributes={"a": 1},
            dimension_names=("y", "x"), dimension_units=("4 nm", "1 um"),
        )  # fmt: skip
        group.create_array("empty/one", shape=(4,), dtype="int8", fill_value=3, codec="none")
    return source


def _copy(place: Path, format: str) -> None:
    chunkwise.copy(_source(place) / "v", place, format=format)


def _copy_tree(place: Path, format: str) -> None:
    chunkwise.copy_tree(_source(place), place, format=format)


def _command(*words: object) -> None:
    status = main([str(word) for word in words])
    assert status in (0, 3, None), (words, status)


def _cp(place: Path, format: str) -> None:
    _command("cp", _source(place) / "v", place, "--format", format, "--chunk", "2,8", "--codec", "none")


def _cp_tree(place: Path, format: str) -> None:
    _command("cp", "-r", _source(place), place, "--format", format, "--chunk", "y=2")


def _create_command(place: Path, format: str) -> None:
    _command("create", place, "--shape", "6,8", "--dtype", "uint8", "--chunk", "2,8", "--format", format)


def _pyramid(place: Path, format: str) -> None:
    convention = {"zarr3": "ome-ngff-0.5", "zarr2": "ome-ngff-0.4", "n5": "n5-viewer"}[format]
    chunkwise.downsample_pyramid(
        _source(place) / "v", place, convention=convention, levels=2, codec="none", name="p"
    ).result()


def _cosem(place: Path, format: str) -> None:
    if format == "n5":
        chunkwise.downsample_pyramid(_source(place) / "v", place, convention="cosem", levels=2).result()


def _migrate(place: Path, format: str) -> None:
    if format == "zarr2":
        _create_array(place, format)
        chunkwise.migrate(place, apply=True)


def _z5py(place: Path, format: str) -> None:
    if format == "zarr3":
        return
    path = place.with_name(place.name + (".n5" if format == "n5" else ".zr"))
    with chunkwise.z5py.File(path, "w", use_zarr_format=format == "zarr2") as file:
        file.attrs["a"] = 1
        file.create_group("g").create_dataset("d", data=_data(), chunks=(4, 4), compression="raw")
    path.rename(place)


CREATORS: dict[str, Callable[[Path, str], None]] = {
    "open": _open,
    "create_array": _create_array,
    "defaults": _defaults,
    "open_group": _open_group,
    "write_dataset": _write_dataset,
    "write_datatree": _write_datatree,
    "from_dask": _from_dask,
    "copy": _copy,
    "copy_tree": _copy_tree,
    "cp": _cp,
    "cp -r": _cp_tree,
    "create": _create_command,
    "pyramid": _pyramid,
    "cosem": _cosem,
    "migrate": _migrate,
    "z5py": _z5py,
}


_COMPRESSED = ("write_datatree", "cosem")  # chunks whose bytes depend on a library's version


def lines(creator: str, place: Path, format: str) -> Iterator[str]:
    """Run a creator; yield a line for each key, with its document or the digest of its bytes."""
    CREATORS[creator](place, format)
    for path in sorted(p for p in place.rglob("*") if p.is_file()):
        key, raw = path.relative_to(place).as_posix(), path.read_bytes()
        text = "compressed" if creator in _COMPRESSED else hashlib.sha256(raw).hexdigest()[:16]
        if raw[:1] == b"{":
            text = json.dumps(raw.decode().replace(str(place), "PLACE"), ensure_ascii=False)
        yield f"{creator} | {format} | {key} | {text}"
