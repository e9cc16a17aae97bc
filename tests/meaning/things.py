"""Things that a place can be, made in a directory: the name of each, and of which kind it is."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

import h5py
import numpy as np
import tifffile
from PIL import Image

import chunkwise as cw
from chunkwise.cli.main import main

VALUES = np.arange(4 * 6 * 8, dtype="uint16").reshape(4, 6, 8)
"""Elements of every array; z, y, x."""


class Thing(NamedTuple):
    """Something at a path: an array, a file with one, an image that is a group, a group, or nothing."""

    path: str
    kind: str
    format: str = ""  # scheme with which what is in a file or database is written out


def _array(format: str) -> Callable[[Path], Thing]:
    def make(at: Path) -> Thing:
        cw.create_array(at / f"a.{format}", VALUES, format=format, chunks=(4, 4, 4))
        return Thing(f"a.{format}", "array")

    return make


def _group(format: str) -> Callable[[Path], Thing]:
    def make(at: Path) -> Thing:
        group = cw.create_group(at / f"g.{format}", format=format)
        group.create_array("one", VALUES)
        group.create_array("two", VALUES)
        return Thing(f"g.{format}", "group")

    return make


def _pyramid(convention: str, name: str) -> Callable[[Path], Thing]:
    def make(at: Path) -> Thing:
        cw.downsample_pyramid(
            cw.array(VALUES), at / name, convention=convention, levels=1, units=["4 nm"] * 3, sync=False
        ).result()
        return Thing(name, "image")

    return make


def _level(at: Path) -> Thing:
    _pyramid("ome-ngff-0.5", "level.zarr")(at)
    return Thing("level.zarr/0", "array")


def _labels(at: Path) -> Thing:
    cw.downsample_pyramid(
        cw.array(VALUES), at / "seg.zarr/labels/cells", labels=True, levels=1, sync=False
    ).result()
    return Thing("seg.zarr/labels/cells", "image")


def _label_level(at: Path) -> Thing:
    _labels(at)
    return Thing("seg.zarr/labels/cells/0", "array")


def _label_copy(at: Path) -> Thing:
    _labels(at)
    cw.copy(at / "seg.zarr/labels/cells/0", at / "cells.n5", format="n5")
    return Thing("cells.n5", "array")


def _listed_labels(at: Path) -> Thing:
    """Labels that only the list of the group above makes labels."""
    _labels(at)
    group = cw.open_group(at / "seg.zarr/labels/cells", "a")
    group.attrs["ome"] = {name: value for name, value in group.attrs["ome"].items() if name != "image-label"}
    return Thing("seg.zarr/labels/cells", "image")


def _directory(at: Path) -> Thing:
    """Levels of an image in a directory that no document makes a group."""
    for number in range(2):
        cw.create_array(at / f"plain/s{number}", VALUES, format="n5")
    return Thing("plain", "directory")


def _named_directory(at: Path) -> Thing:
    """The same, of which the name says what it is."""
    return Thing(f"{_directory(at).path}|n5:", "image")


def _paintera(at: Path) -> Thing:
    group = cw.open_group(at / "paintera.n5", "a", format="n5")
    group.create_array("v/data/s0", VALUES.T)
    group["v"].attrs["painteraData"] = {"type": "label"}
    group["v/data"].attrs.update({"multiScale": True, "resolution": [4.0, 4.0, 40.0]})
    return Thing("paintera.n5/v", "image")


def _bdv(at: Path) -> Thing:
    group = cw.open_group(at / "bdv.n5", "a", format="n5")
    group.create_array("setup0/timepoint0/s0", VALUES.T)
    group["setup0"].attrs["downsamplingFactors"] = [[1, 1, 1]]
    return Thing("bdv.n5/setup0", "image")


_XML = """<SpimData version="0.2"><SequenceDescription><ImageLoader format="bdv.{0}">
<{0} type="relative">{1}</{0}></ImageLoader><ViewSetups><ViewSetup><id>0</id><name>GFP</name><voxelSize>
<unit>um</unit><size>0.5 0.5 2</size></voxelSize></ViewSetup></ViewSetups></SequenceDescription></SpimData>"""


def _bdv_file(at: Path) -> Thing:
    _bdv(at)
    (at / "described.xml").write_text(_XML.format("n5", "bdv.n5"))
    return Thing("described.xml", "image")


def _bdv_hdf5(at: Path) -> Thing:
    with h5py.File(at / "bdv.h5", "w") as file:
        file["s00/resolutions"] = np.ones((1, 3))
        file.create_dataset("t00000/s00/0/cells", data=VALUES.astype("int16"), chunks=True)
    (at / "cells.xml").write_text(_XML.format("hdf5", "bdv.h5"))
    return Thing("cells.xml", "image")


def _bdv_zarr(at: Path) -> Thing:
    """Views that are parts of OME-Zarr images, whose own sizes the XML file overrides."""
    cw.create_group(at / "bdv.zarr", format="zarr2")
    cw.downsample_pyramid(
        cw.array(VALUES[None, None] + np.arange(2, dtype="uint16").reshape(1, 2, 1, 1, 1)),
        at / "bdv.zarr/s0-t0.zarr", axes=["t", "c", "z", "y", "x"], levels=1, sync=False,
    ).result()  # fmt: skip
    views = '<zgroups><zgroup setup="0" tp="0" path="s0-t0.zarr" indicies="0 0"/></zgroups></ImageLoader>'
    text = _XML.format("zarr", "bdv.zarr").replace("bdv.zarr", "bdv.multimg.zarr", 1)
    (at / "views.xml").write_text(text.replace("</ImageLoader>", views))
    return Thing("views.xml", "image")


def _volume(kind: str) -> Callable[[Path], Thing]:
    def make(at: Path) -> Thing:
        spec = {
            "driver": "neuroglancer_precomputed",
            "kvstore": f"file://{at}/{kind}/",
            "multiscale_metadata": {"type": kind, "data_type": "uint16", "num_channels": 1},
            "scale_metadata": {
                "size": [8, 6, 4], "resolution": [4, 4, 40], "encoding": "raw", "voxel_offset": [3, 0, -2],
            },
        }  # fmt: skip
        cw.open(spec, create=True).result()[..., 0] = VALUES.T
        return Thing(kind, "volume")

    return make


def _hdf5(name: str) -> Callable[[Path], Thing]:
    def make(at: Path) -> Thing:
        with h5py.File(at / f"{name}.h5", "w") as file:
            file[name] = VALUES
        return Thing(f"{name}.h5", "archive", "hdf5")

    return make


def _tiff(at: Path) -> Thing:
    tifffile.imwrite(at / "a.tif", VALUES, photometric="minisblack", metadata={"axes": "ZYX"})
    return Thing("a.tif", "file", "tiff-images")


def _ome_tiff(at: Path) -> Thing:
    tifffile.imwrite(at / "b.ome.tif", VALUES, metadata={"axes": "ZYX", "PhysicalSizeX": 0.5})
    return Thing("b.ome.tif", "file", "tiff-images")


def _imagej(at: Path) -> Thing:
    tifffile.imwrite(at / "ij.tif", VALUES, imagej=True, metadata={"axes": "ZYX"})
    return Thing("ij.tif", "file", "tiff-images")


def _zip(at: Path) -> Thing:
    cw.create_group(at / "z.zarr").create_array("v", VALUES)
    assert main(["zip", str(at / "z.zarr"), str(at / "z.zip"), "--quiet"]) == 0
    return Thing("z.zip", "archive", "zip")


def _database(at: Path) -> Thing:
    spec = {"driver": "zarr3", "kvstore": f"file://{at}/db/|ocdbt:"}
    cw.open(spec, create=True, dtype="uint16", shape=VALUES.shape).result().write(VALUES).result()
    return Thing("db", "database", "ocdbt")


def _pictures(suffix: str) -> Callable[[Path], Thing]:
    def make(at: Path) -> Thing:
        folder = at / f"planes.{suffix.replace('.', '')}"
        folder.mkdir()
        for z, plane in enumerate(VALUES):
            if suffix == "png":
                Image.fromarray(plane.astype("uint8")).save(folder / f"z{z + 8}.{suffix}")
            else:
                tifffile.imwrite(folder / f"z{z + 8}.{suffix}", plane.astype("uint8"))
        return Thing(folder.name, "pictures")

    return make


def _spec(at: Path) -> Thing:
    cw.create_array(at / "base.zarr", VALUES)
    (at / "view.json").write_text(json.dumps({"driver": "zarr3", "kvstore": f"file://{at}/base.zarr/"}))
    return Thing("view.json", "array")


def _stack(at: Path) -> Thing:
    for n in range(2):
        cw.create_array(at / f"part{n}.zarr", VALUES[2 * n : 2 * n + 2])
    parts = [str(at / f"part{n}.zarr") for n in range(2)]
    assert main(["stack", str(at / "stack.json"), *parts, "--concat", "0", "--json"]) == 0
    return Thing("stack.json", "view")


def _zarr1(at: Path) -> Thing:
    cw.create_array(at / "one.zarr", VALUES, format="zarr1", chunks=(4, 4, 4))
    return Thing("one.zarr", "array")


def _plate(at: Path) -> Thing:
    plate = cw.create_group(at / "plate.zarr")
    plate.attrs["ome"] = {
        "version": "0.5",
        "plate": {
            "rows": [{"name": "A"}],
            "columns": [{"name": "1"}],
            "wells": [{"path": "A/1", "rowIndex": 0, "columnIndex": 0}],
        },
    }
    well = plate.create_group("A/1")
    # A plate of one field would stand for its image.
    well.attrs["ome"] = {"version": "0.5", "well": {"images": [{"path": "0"}, {"path": "1"}]}}
    for field in "01":
        cw.downsample_pyramid(cw.array(VALUES), at / f"plate.zarr/A/1/{field}", levels=0, sync=False).result()
    return Thing("plate.zarr", "images")


def _references(at: Path) -> Thing:
    cw.create_array(at / "base.zarr", VALUES, format="zarr2", chunks=(4, 6, 8))
    keys = {
        "v/.zarray": (at / "base.zarr/.zarray").read_text(),
        "v/0.0.0": [str(at / "base.zarr/0.0.0")],
        ".zgroup": '{"zarr_format": 2}',
    }
    (at / "refs.json").write_text(json.dumps({"version": 1, "refs": keys}))
    return Thing("refs.json", "references", "reference")


def _nwb(at: Path) -> Thing:
    with h5py.File(at / "file.nwb", "w") as file:
        file.attrs["namespace"] = "core"
        file.attrs["neurodata_type"] = "NWBFile"
        file.create_group("acquisition")["data"] = VALUES
        file["session"] = np.arange(3)
    return Thing("file.nwb", "group", "hdf5")


def _unfinished(at: Path) -> Thing:
    def stop(nbytes: int) -> None:
        raise KeyboardInterrupt

    cw.create_array(at / "whole.zarr", VALUES)
    with suppress(KeyboardInterrupt):
        cw.copy(at / "whole.zarr", at / "part.zarr", progress=stop)
    return Thing("part.zarr", "unfinished")


def _nothing(at: Path) -> Thing:
    return Thing("nothing.zarr", "nothing")


def _chunks(at: Path) -> Thing:
    _array("zarr3")(at)
    return Thing("a.zarr3/c", "nothing")


def _chunks_n5(at: Path) -> Thing:
    cw.create_group(at / "c.n5", format="n5").create_array("a", VALUES, chunks=(2, 2, 2))
    return Thing("c.n5/a/0", "nothing")


def _two(at: Path) -> Thing:
    with h5py.File(at / "two.h5", "w") as file:
        file["a"], file["b"] = VALUES, VALUES
    return Thing("two.h5", "group", "hdf5")


def _archive(at: Path) -> Thing:
    _pyramid("ome-ngff-0.5", "whole.zarr")(at)
    assert main(["zip", str(at / "whole.zarr"), str(at / "whole.ozx"), "--quiet"]) == 0
    return Thing("whole.ozx", "image", "zip")


def _image_in_database(at: Path) -> Thing:
    cw.downsample_pyramid(cw.array(VALUES), f"file://{at}/dbi/|ocdbt:", levels=1, sync=False).result()
    return Thing("dbi", "image", "ocdbt")


def _channels(at: Path) -> Thing:
    container = cw.create_group(at / "channels.n5", format="n5")
    for n in range(2):
        container.create_array(f"c{n}/s0", VALUES.T)
    return Thing("channels.n5", "images")


def _picture(mode: str, suffix: str) -> Callable[[Path], Thing]:
    def make(at: Path) -> Thing:
        values = VALUES[:3].T if mode == "RGB" else VALUES[0]
        Image.fromarray(np.ascontiguousarray(values).astype("uint8")).save(at / f"one.{suffix}")
        return Thing(f"one.{suffix}", "picture")

    return make


def _empty(at: Path) -> Thing:
    (at / "empty").mkdir()
    return Thing("empty", "nothing")


def _text(at: Path) -> Thing:
    (at / "text").mkdir()
    (at / "text/notes.txt").write_text("none")
    return Thing("text", "nothing")


THINGS: dict[str, Callable[[Path], Thing]] = {
    **{f"array {format}": _array(format) for format in ("zarr3", "zarr2", "n5")},
    **{f"group {format}": _group(format) for format in ("zarr3", "zarr2", "n5")},
    "OME 0.5": _pyramid("ome-ngff-0.5", "i5.zarr"),
    "OME 0.4": _pyramid("ome-ngff-0.4", "i4.zarr"),
    "n5-viewer": _pyramid("n5-viewer", "viewer.n5"),
    "COSEM": _pyramid("cosem", "cosem.n5"),
    "level": _level,
    "labels": _labels,
    "level of labels": _label_level,
    "copy of a level of labels": _label_copy,
    "labels in a list": _listed_labels,
    "directory of levels": _directory,
    "directory of levels by its format": _named_directory,
    "Paintera": _paintera,
    "BigDataViewer": _bdv,
    "BigDataViewer file": _bdv_file,
    "BigDataViewer file of HDF5": _bdv_hdf5,
    "BigDataViewer file of OME-Zarr": _bdv_zarr,
    "precomputed image": _volume("image"),
    "precomputed segmentation": _volume("segmentation"),
    "HDF5 data": _hdf5("data"),
    "HDF5 volume": _hdf5("volume"),
    "TIFF": _tiff,
    "OME-TIFF": _ome_tiff,
    "ImageJ": _imagej,
    "ZIP": _zip,
    "HDF5 with two arrays": _two,
    "OME-Zarr in an archive": _archive,
    "OME-Zarr in OCDBT": _image_in_database,
    "channels of n5-viewer": _channels,
    "PNG": _picture("L", "png"),
    "RGB PNG": _picture("RGB", "png"),
    "RGB TIFF": _picture("RGB", "tif"),
    "OCDBT": _database,
    "PNG folder": _pictures("png"),
    "TIFF folder": _pictures("tif"),
    "OME-TIFF folder": _pictures("ome.tif"),
    "Zarr v1": _zarr1,
    "plate": _plate,
    "kerchunk": _references,
    "NWB": _nwb,
    "unfinished copy": _unfinished,
    "spec file": _spec,
    "stack": _stack,
    "nothing": _nothing,
    "chunks": _chunks,
    "chunks of N5": _chunks_n5,
    "empty directory": _empty,
    "directory of text": _text,
}


def names_of(thing: Thing, at: Path, url: str = "") -> dict[str, Any]:
    """Return the ways to name a thing, by how; `url` is of a server of the directory that it is in."""
    path = f"{at}/{thing.path}"
    out: dict[str, Any] = {"path": path, "URL": f"file://{path}"}
    if "|" in path:
        return out
    if thing.kind not in ("view",) and not path.endswith((".json", ".xml")):
        out |= {"slash": f"{path}/", "URL with slash": f"file://{path}/"}
    if not path.endswith(".json"):
        kvstore = {"driver": "file", "path": f"{path}/" if os.path.isdir(path) else path}
        out |= {"kvstore": kvstore, "auto spec": {"driver": "auto", "kvstore": kvstore}}
        out |= {"KvStore": cw.KvStore.open(kvstore).result(), "relative path": Path(os.path.relpath(path))}
    if thing.format:
        out |= {"written out": f"{path}|{thing.format}:", "URL written out": f"file://{path}|{thing.format}:"}
    if url and thing.kind not in ("pictures", "directory"):  # which are found by listing
        out["web"] = f"{url}/{thing.path}"
    return out
