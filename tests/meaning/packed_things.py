"""Things inside others, things that lack a part, and rarer conventions; see `things`."""

from __future__ import annotations

import json
import shutil
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import tifffile
from PIL import Image
from things import THINGS, VALUES, Thing

import chunkwise as cw

__all__ = ["PACKED_THINGS"]

Make = Callable[[Path], Thing]


def _zip(folder: Path, to: Path, top: str = "") -> None:
    with zipfile.ZipFile(to, "w") as archive:
        for path in sorted(folder.rglob("*")):
            if path.is_file():
                archive.write(path, f"{top}{path.relative_to(folder)}")


def _packed(title: str, kind: str, top: str = "") -> Make:
    """Return the maker of an archive of another thing, as a folder in it that may have a name."""

    def make(at: Path) -> Thing:
        _zip(at / THINGS[title](at).path, at / "packed.zip", top)
        return Thing("packed.zip", kind, "zip")

    return make


def _in_archive(title: str, kind: str) -> Make:
    def make(at: Path) -> Thing:
        _packed(title, kind, "folder/")(at)
        return Thing("packed.zip|zip:folder", kind)

    return make


def _linked(title: str) -> Make:
    def make(at: Path) -> Thing:
        thing = THINGS[title](at)
        (at / "link").symlink_to(at / thing.path)
        return thing._replace(path="link")

    return make


def _among_notes(at: Path) -> Thing:
    """An archive with an array in one folder and text in another."""
    cw.create_array(at / "all/a.zarr", VALUES)
    (at / "all/notes").mkdir()
    (at / "all/notes/read.me").write_text("none")
    _zip(at / "all", at / "packed.zip")
    return Thing("packed.zip", "packed", "zip")


def _two_folders(at: Path) -> Thing:
    for name in "ab":
        cw.create_array(at / f"all/{name}.zarr", VALUES)
    _zip(at / "all", at / "packed.zip")
    return Thing("packed.zip", "directory", "zip")


def _deep(path: str, kind: str) -> Make:
    def make(at: Path) -> Thing:
        cw.create_array(f"{at}/deep.zip|zip:q/r", VALUES, format="n5")
        return Thing(path, kind, "" if "|" in path else "zip")

    return make


def _without_level(title: str, level: str) -> Make:
    def make(at: Path) -> Thing:
        thing = THINGS[title](at)
        shutil.rmtree(at / thing.path / level)
        return Thing(thing.path, "coarse")

    return make


def _coarse_channels(at: Path) -> Thing:
    thing = _without_level("OME 0.5", "0")(at)
    group = cw.open_group(at / thing.path, "a")
    omero = {"channels": [{"label": "GFP"}]}
    group.attrs["ome"] = {**group.attrs["ome"], "omero": omero}
    return thing


def _plate_of(*paths: str, wells: int = 1, lost: int = 0, kind: str = "images") -> Make:
    def make(at: Path) -> Thing:
        plate = cw.create_group(at / "plate.zarr")
        names = [str(n + 1) for n in range(wells)]
        plate.attrs["ome"] = {
            "version": "0.5",
            "plate": {
                "rows": [{"name": "A"}],
                "columns": [{"name": name} for name in names],
                "wells": [{"path": f"A/{n}", "rowIndex": 0, "columnIndex": int(n) - 1} for n in names],
            },
        }
        for name in names[: wells - lost]:
            well = plate.create_group(f"A/{name}")
            well.attrs["ome"] = {"version": "0.5", "well": {"images": [{"path": path} for path in paths]}}
            for path in paths:
                to = at / f"plate.zarr/A/{name}/{path}"
                cw.downsample_pyramid(cw.array(VALUES), to, levels=0, sync=False).result()
        return Thing("plate.zarr", kind)

    return make


def _field_lost(at: Path) -> Thing:
    _plate_of("0", "1", "2")(at)
    shutil.rmtree(at / "plate.zarr/A/1/1")
    return Thing("plate.zarr", "images")


def _packed_plate(at: Path) -> Thing:
    _plate_of("0")(at)
    _zip(at / "plate.zarr", at / "plate.zip")
    return Thing("plate.zip", "packed image", "zip")


def _cosem(format: str) -> Make:
    def make(at: Path) -> Thing:
        group = cw.create_group(at / "cosem.zarr", format=format)
        datasets = []
        for n in range(2):
            group.create_array(f"s{n}", VALUES[:: 2**n, :: 2**n, :: 2**n])
            place = {"scale": [40.0 * 2**n, 4.0 * 2**n, 4.0 * 2**n], "translate": [0.0, 2.0 * n, 2.0 * n]}
            place |= {"axes": ["z", "y", "x"], "units": ["nm"] * 3}
            datasets.append({"path": f"s{n}", "transform": place})
        group.attrs["multiscales"] = [{"name": "em", "datasets": datasets}]
        return Thing("cosem.zarr", "image")

    return make


def _several(at: Path) -> Thing:
    with tifffile.TiffWriter(at / "several.tif") as file:
        file.write(VALUES, photometric="minisblack")
        file.write(VALUES[0, :3].astype("uint8"), photometric="minisblack")
    return Thing("several.tif", "file", "tiff-images")


def _pyramid_tiff(at: Path) -> Thing:
    plane = np.arange(64 * 64, dtype="uint16").reshape(64, 64)
    with tifffile.TiffWriter(at / "p.ome.tif") as file:
        options: dict[str, Any] = {"photometric": "minisblack", "tile": (16, 16)}
        file.write(plane, subifds=1, metadata={"axes": "YX", "PhysicalSizeX": 0.5}, **options)
        file.write(plane[::2, ::2], subfiletype=1, **options)
    return Thing("p.ome.tif", "file", "tiff-images")


def _rgb_tiff(at: Path) -> Thing:
    values = np.ascontiguousarray(VALUES[:3].T).astype("uint8")
    tifffile.imwrite(at / "rgb.ome.tif", values, photometric="rgb", metadata={"axes": "YXS"})
    return Thing("rgb.ome.tif", "file", "tiff-images")


def _time_series(at: Path) -> Thing:
    (at / "series").mkdir()
    for t in range(2):
        for c in range(2):
            tifffile.imwrite(at / f"series/img_t{t:02}_c{c}.tif", VALUES[2 * t + c].astype("uint8"))
    return Thing("series", "pictures")


def _one_picture(at: Path) -> Thing:
    (at / "single").mkdir()
    Image.fromarray(VALUES[0].astype("uint8")).save(at / "single/z0.png")
    return Thing("single", "pictures")


def _in_hdf5(name: str, kind: str) -> Make:
    def make(at: Path) -> Thing:
        with h5py.File(at / "in.h5", "w") as file:
            file["entry/data"] = VALUES
            file["entry/other"] = VALUES
        return Thing(f"in.h5|hdf5:{name}", kind)

    return make


def _group_in_database(at: Path) -> Thing:
    group = cw.create_group(f"file://{at}/dbg/|ocdbt:")
    group.create_array("one", VALUES)
    group.create_array("two", VALUES)
    return Thing("dbg", "group", "ocdbt")


def _volume_in(root: str, path: str, kind: str, format: str = "") -> Make:
    """Return the maker of a precomputed volume in an archive or a database."""

    def make(at: Path) -> Thing:
        spec = {
            "driver": "neuroglancer_precomputed",
            "kvstore": f"file://{at}/{root}",
            "multiscale_metadata": {"type": "image", "data_type": "uint16", "num_channels": 1},
            "scale_metadata": {"size": [8, 6, 4], "resolution": [4, 4, 40], "encoding": "raw"},
        }
        cw.open(spec, create=True).result()[..., 0] = VALUES.T
        return Thing(path, kind, format)

    return make


def _beside_skeletons(at: Path) -> Thing:
    thing = THINGS["precomputed segmentation"](at)
    info = json.loads((at / thing.path / "info").read_text())
    (at / thing.path / "info").write_text(json.dumps({**info, "skeletons": "skeletons", "mesh": "mesh"}))
    for name in ("skeletons", "mesh"):
        (at / thing.path / name).mkdir()
        (at / thing.path / name / "info").write_text(json.dumps({"@type": f"neuroglancer_{name}"}))
    return thing


def _relative_references(at: Path) -> Thing:
    thing = THINGS["kerchunk"](at)
    document = json.loads((at / thing.path).read_text())
    document["refs"]["v/0.0.0"] = ["base.zarr/0.0.0"]
    (at / thing.path).write_text(json.dumps(document))
    return thing


def _spec_of(title: str, driver: str) -> Make:
    def make(at: Path) -> Thing:
        thing = THINGS[title](at)
        (at / "named.json").write_text(
            json.dumps({"driver": driver, "kvstore": f"file://{at}/{thing.path}/"})
        )
        return Thing("named.json", "array")

    return make


def _spec_of_part(at: Path) -> Thing:
    """A spec of every other plane of an array in an archive."""
    cw.create_array(f"{at}/a.zip|zip:v", VALUES)
    part = cw.open(f"{at}/a.zip|zip:v", read=True).result()[::2]
    (at / "part.json").write_text(json.dumps(part.spec().to_json()))
    return Thing("part.json", "view")


def _listed_but_lost(at: Path) -> Thing:
    """An image whose list of labels names some that aren't stored."""
    THINGS["labels"](at)
    cw.downsample_pyramid(cw.array(VALUES), at / "seg.zarr", levels=1, sync=False, overwrite=True).result()
    labels = cw.open_group(at / "seg.zarr/labels", "a")
    labels.attrs["ome"] = {**labels.attrs["ome"], "labels": [*labels.attrs["ome"]["labels"], "gone"]}
    return Thing("seg.zarr", "image")


def _labels_group(at: Path) -> Thing:
    THINGS["labels"](at)
    return Thing("seg.zarr/labels", "packed image")


def _series(n: int) -> Make:
    def make(at: Path) -> Thing:
        group = cw.create_group(at / "raw.zarr", format="zarr2")
        group.attrs["bioformats2raw.layout"] = 3
        for number in range(n):
            to = at / f"raw.zarr/{number}"
            cw.downsample_pyramid(
                cw.array(VALUES), to, convention="ome-ngff-0.4", levels=1, sync=False
            ).result()
        return Thing("raw.zarr", "images" if n > 1 else "packed image")

    return make


def _old_ome(at: Path) -> Thing:
    group = cw.create_group(at / "old.zarr", format="zarr2")
    for n in range(2):
        group.create_array(str(n), VALUES[None, None, :, :: 2**n, :: 2**n])
    datasets = [{"path": str(n)} for n in range(2)]
    group.attrs["multiscales"] = [{"version": "0.1", "datasets": datasets}]
    return Thing("old.zarr", "image")


def _well(at: Path) -> Thing:
    _plate_of("0", "1")(at)
    return Thing("plate.zarr/A/1", "images")


def _below(title: str, path: str, kind: str = "image") -> Make:
    def make(at: Path) -> Thing:
        return Thing(f"{THINGS[title](at).path}/{path}", kind)

    return make


def _consolidated(at: Path) -> Thing:
    group = cw.create_group(at / "c.zarr", format="zarr2")
    group.create_array("one", VALUES)
    group.create_array("two", VALUES)
    group.consolidate()
    return Thing("c.zarr", "group")


def _sharded(at: Path) -> Thing:
    cw.create_array(at / "s.zarr", VALUES, chunks=(2, 3, 4), shards=(4, 6, 8))
    return Thing("s.zarr", "array")


PACKED_THINGS: dict[str, Make] = {
    "ZIP of a folder with an array": _packed("array zarr3", "packed", "a.zarr/"),
    "ZIP of a folder with a group": _packed("group zarr2", "group", "g.zarr/"),
    "ZIP of a folder with an image": _packed("OME 0.5", "image", "i.zarr/"),
    "ZIP of a folder with N5": _packed("n5-viewer", "image", "v.n5/"),
    "ZIP of n5-viewer": _packed("n5-viewer", "image"),
    "ZIP of Paintera": _packed("Paintera", "packed image"),
    "ZIP of pictures": _packed("PNG folder", "pictures"),
    "ZIP of a folder of pictures": _packed("TIFF folder", "pictures", "planes/"),
    "ZIP of a precomputed volume": _packed("precomputed image", "packed volume"),
    "ZIP of text": _packed("directory of text", "directory", "folder/"),
    "ZIP of an array among notes": _among_notes,
    "ZIP of two folders": _two_folders,
    "folder of pictures in a ZIP": _in_archive("PNG folder", "pictures"),
    "image in a ZIP": _in_archive("OME 0.4", "image"),
    "precomputed volume in a ZIP": _in_archive("precomputed image", "volume"),
    "ZIP of N5 far down": _deep("deep.zip", "packed"),
    "N5 far down in a ZIP": _deep("deep.zip|zip:q/r", "array"),
    "link to an array": _linked("array n5"),
    "link to an image": _linked("OME 0.5"),
    "link to a TIFF": _linked("TIFF"),
    "n5-viewer without s0": _without_level("n5-viewer", "s0"),
    "COSEM without s0": _without_level("COSEM", "s0"),
    "OME 0.5 without level 0": _without_level("OME 0.5", "0"),
    "OME 0.5 with channels without level 0": _coarse_channels,
    "plate of two fields": _plate_of("0", "1"),
    "plate of two wells": _plate_of("0", wells=2),
    "plate without one of two wells": _plate_of("0", wells=2, lost=1, kind="packed image"),
    "plate without one of three fields": _field_lost,
    "ZIP of a plate of one field": _packed_plate,
    "well": _well,
    "COSEM in Zarr v2": _cosem("zarr2"),
    "COSEM in Zarr v3": _cosem("zarr3"),
    "TIFF of several images": _several,
    "OME-TIFF of levels": _pyramid_tiff,
    "RGB OME-TIFF": _rgb_tiff,
    "folder of a time series": _time_series,
    "folder of one picture": _one_picture,
    "array in HDF5": _in_hdf5("entry/data", "array"),
    "group in HDF5": _in_hdf5("entry", "group"),
    "OCDBT with a group": _group_in_database,
    "OCDBT with a volume": _volume_in("dbv/|ocdbt:", "dbv", "packed volume", "ocdbt"),
    "precomputed volume beside skeletons": _beside_skeletons,
    "kerchunk, relative": _relative_references,
    "spec file of N5": _spec_of("array n5", "n5"),
    "spec file of a level": _spec_of("level", "zarr3"),
    "spec file of a part in a ZIP": _spec_of_part,
    "labels listed but not stored": _listed_but_lost,
    "group of labels": _labels_group,
    "series of bioformats2raw": _series(2),
    "one image of bioformats2raw": _series(1),
    "OME 0.1": _old_ome,
    "levels of Paintera": _below("Paintera", "data"),
    "level of Paintera": _below("Paintera", "data/s0", "array"),
    "time of BigDataViewer": _below("BigDataViewer", "timepoint0"),
    "level of BigDataViewer": _below("BigDataViewer", "timepoint0/s0", "array"),
    "consolidated group": _consolidated,
    "sharded array": _sharded,
}
