"""A node deep in a new tree, whose name says what it is, is found from the top: by all writers."""

import json
from pathlib import Path

import dask.array as da
import numpy as np
import pytest
import xarray as xr
import z5py
import zarr
from hdmf.build import DatasetBuilder, GroupBuilder

import chunkwise as cw
import chunkwise.z5py
from chunkwise.cli.main import main
from chunkwise.hdmf import ZarrIO

VALUES = np.arange(48, dtype="u2").reshape(6, 8)
NAMES = {"zarr3": "s.zarr", "zarr2": "s.zarr", "n5": "s.n5"}
CONVENTIONS = {"zarr3": "ome-ngff-0.5", "zarr2": "ome-ngff-0.4", "n5": "n5-viewer"}


def _source(at):
    source = at.parents[2] / "source.zarr"
    if not source.exists():
        cw.create_group(source, format="zarr3").create_array("a", VALUES, dimension_names=["y", "x"])
    return source


def _command(*words):
    assert main([*map(str, words)]) == 0


def _hdmf(at, format):
    at.parent.mkdir(parents=True)
    with ZarrIO(at, mode="w", format=format) as io:
        io.write_builder(GroupBuilder("root", datasets=[DatasetBuilder("a", VALUES, dtype="uint16")]))


def _z5py(at, format):
    kind = {"use_zarr_format": format != "n5", **({"zarr_format": 3} if format == "zarr3" else {})}
    cw.z5py.File(at, "a", **kind).create_dataset("a", data=VALUES)


def _moved(at, format):
    cw.create_array(at.parents[2] / "alone", VALUES, format=format)
    _command("mv", at.parents[2] / "alone", at)


def _pyramid(at, format, *, labels=False):
    cw.downsample_pyramid(
        VALUES, at, axes="yx", levels=0, labels=labels, convention=CONVENTIONS[format]
    ).result()


def _from_dask(at, format):
    driver = {"zarr2": "zarr"}.get(format, format)
    spec = {"driver": driver, "kvstore": f"file://{at}/"}
    cw.from_dask(da.from_array(VALUES, chunks=6), spec, scheduler="synchronous")


WRITERS = {
    "create_array": lambda at, format: cw.create_array(at, VALUES, format=format),
    "create_group": lambda at, format: cw.create_group(at, format=format).create_array("a", VALUES),
    "open_group": lambda at, format: cw.open_group(at, "a", format=format).create_array("b/a", VALUES),
    "create": lambda at, format: _command(
        "create", at, "--shape", "6,8", "--dtype", "uint16", "--format", format
    ),
    "copy": lambda at, format: cw.copy(_source(at) / "a", at, format=format),
    "copy_tree": lambda at, format: cw.copy_tree(_source(at), at, format=format),
    "cp": lambda at, format: _command("cp", _source(at) / "a", at, "--format", format, "--quiet"),
    "cp -r": lambda at, format: _command("cp", "-r", _source(at), at, "--format", format, "--quiet"),
    "mv": _moved,
    "downsample_pyramid": _pyramid,
    "labels": lambda at, format: _pyramid(at, format, labels=True),
    "from_dask": _from_dask,
    "write_dataset": lambda at, format: cw.xarray.write_dataset(
        xr.Dataset({"a": (("y", "x"), VALUES)}), at, format=format
    ),
    "write_dataset(w)": lambda at, format: cw.xarray.write_dataset(
        xr.Dataset({"a": (("y", "x"), VALUES)}), at, mode="w", format=format
    ),
    "write_dataset(group)": lambda at, format: cw.xarray.write_dataset(
        xr.Dataset({"a": (("y", "x"), VALUES)}),
        at.parents[1],
        group=f"{at.parent.name}/{at.name}",
        format=format,
    ),
    "write_datatree": lambda at, format: cw.xarray.write_datatree(
        xr.DataTree.from_dict({"/": xr.Dataset({"a": (("y", "x"), VALUES)})}), at, format=format
    ),
    "z5py": _z5py,
    "ZarrIO": _hdmf,
}


def _documents(root):
    names = ("zarr.json", ".zgroup", ".zarray", "attributes.json")
    return {
        path.relative_to(root).as_posix(): json.loads(path.read_bytes())
        for name in names
        for path in root.rglob(name)
    }


@pytest.mark.each_once
@pytest.mark.parametrize("format", NAMES)
@pytest.mark.parametrize("writer", WRITERS)
def test_all_groups_above_are_there(writer, format, tmp_path):
    root = tmp_path / NAMES[format]
    at = root / "images" / "raw"
    WRITERS[writer](at, format)
    if format == "n5":
        assert "n5" in json.loads((root / "attributes.json").read_bytes())
        assert "raw" in z5py.File(str(root), "r")["images"]
        return
    found = zarr.open_group(root, mode="r", use_consolidated=False)
    assert list(found.group_keys()) == ["images"]
    node = found["images"]["raw"]
    while isinstance(node, zarr.Group):
        node = node[next(iter(sorted(node.keys())))]
    assert node.shape == VALUES.shape
    assert "images/raw" in cw.open_group(root)


@pytest.mark.each_once
@pytest.mark.parametrize("format", ["zarr3", "zarr2"])
@pytest.mark.parametrize("writer", WRITERS)
def test_another_one_beside_it(writer, format, tmp_path):
    """An array in a directory that no document declares: the directory becomes a group."""
    at = tmp_path / "s.zarr" / "images" / "raw"
    zarr.create_array(tmp_path / "s.zarr/old", data=VALUES, zarr_format=int(format[-1]))
    WRITERS[writer](at, format)
    found = zarr.open_group(tmp_path / "s.zarr", mode="r", use_consolidated=False)
    assert sorted(found.keys()) == ["images", "old"]


@pytest.mark.parametrize("writer", WRITERS)
@pytest.mark.parametrize("others", ["file", "node of another format"])
def test_nothing_is_made_of_the_directory_of_something_else(writer, others, tmp_path):
    at = tmp_path / "s.zarr" / "images" / "raw"
    if others == "file":
        (tmp_path / "s.zarr").mkdir()
        (tmp_path / "s.zarr/notes.txt").write_text("mine")
    else:
        zarr.create_array(tmp_path / "s.zarr/old", data=VALUES, zarr_format=2)
    WRITERS[writer](at, "zarr3")
    assert not (tmp_path / "s.zarr/zarr.json").exists() and (at / "zarr.json").exists()


@pytest.mark.parametrize("writer", WRITERS)
def test_a_directory_whose_name_says_nothing_stays_one(writer, tmp_path):
    at = tmp_path / "plain" / "images" / "raw"
    WRITERS[writer](at, "zarr3")
    names = _documents(tmp_path / "plain")
    assert names and all(name.startswith("images/raw/") for name in names)


@pytest.mark.parametrize(
    "call", ["create_array", "copy", "downsample_pyramid", "create_group", "write_dataset"]
)
def test_what_was_made_above_goes_if_the_rest_fails(call, tmp_path, monkeypatch):
    at = tmp_path / "s.zarr" / "images" / "raw"
    source = _source(at)
    fails = {
        "create_array": lambda: cw.create_array(at, VALUES, chunks=(1, 2, 3)),
        "copy": lambda: cw.copy(source / "a", at, chunks=(1, 2, 3)),
        "downsample_pyramid": lambda: cw.downsample_pyramid(VALUES, at, axes="yx", chunks=(1, 2, 3)),
        "create_group": lambda: cw.create_group(at, attributes={"bad": object()}),
        "write_dataset": lambda: cw.xarray.write_dataset(
            xr.Dataset({"a": ("x", [1]), "b": ("x", [2])}), at, encoding={"b": {"chunks": (1, 2)}}
        ),
    }
    with pytest.raises((ValueError, TypeError)):
        fails[call]()
    assert not _documents(tmp_path / "s.zarr") if (tmp_path / "s.zarr").exists() else True


def test_many_at_once(tmp_path):
    """Processes that each write an array of their own into a new tree."""
    from concurrent.futures import ProcessPoolExecutor
    from multiprocessing import get_context

    with ProcessPoolExecutor(4, mp_context=get_context("fork")) as pool:
        list(pool.map(_write_one, [tmp_path / "s.zarr" / "runs" / str(n) for n in range(8)]))
    assert sorted(zarr.open_group(tmp_path / "s.zarr", mode="r")["runs"].keys()) == [str(n) for n in range(8)]


def _write_one(at: Path):
    cw.create_array(at, VALUES)


@pytest.mark.each_once
@pytest.mark.parametrize("format", ["zarr3", "zarr2"])
@pytest.mark.parametrize("has_root", [True, False])
@pytest.mark.parametrize(
    "writer", ["create_array", "create_group", "copy", "copy_tree", "pyramid", "dataset"]
)
def test_a_store_of_another_library_is_a_tree(writer, has_root, format, tmp_path):
    """Also where only its root is a group, and what lies between is new."""
    store = zarr.storage.MemoryStore()
    if has_root:
        cw.create_group(store, format=format)
    at = {"driver": "object", "object": store, "path": "images/raw/"}
    source = _source(tmp_path / "1/2/3")
    {
        "create_array": lambda: cw.create_array(at, VALUES, format=format),
        "create_group": lambda: cw.create_group(at, format=format),
        "copy": lambda: cw.copy(source / "a", at, format=format),
        "copy_tree": lambda: cw.copy_tree(source, at, format=format),
        "pyramid": lambda: _pyramid(at, format),
        "dataset": lambda: cw.xarray.write_dataset(xr.Dataset({"a": ("x", [1])}), at, format=format),
    }[writer]()
    found = zarr.open_group(store, mode="r", use_consolidated=False)
    assert list(found.keys()) == ["images"] and list(found["images"].keys()) == ["raw"]
