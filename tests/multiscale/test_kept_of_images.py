"""What the metadata of an image say is the same at every door: colours, names of channels, units."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import h5py
import numpy as np
import pytest
import tifffile
import zarr

import chunkwise as cw
from chunkwise.cli.main import main
from chunkwise.errors import LossWarning
from chunkwise.images.multiscale.metadata import unit_in
from chunkwise.images.server.forms import first_shown
from chunkwise.images.server.neuroglancer import PrecomputedVolume
from chunkwise.images.server.sources import sources_of
from chunkwise.napari.reader import get_reader

PLANES = np.zeros((2, 16, 12, 3), "u1")
PLANES[..., :6, 0], PLANES[..., 6:, 2] = 255, 255
CHANNELS_FIRST = PLANES[0].transpose(2, 0, 1).copy()
RED_FIRST = ["FF0000", "00FF00", "0000FF"]


def _colour_tiff(name: str, data: np.ndarray, **options: object) -> Callable[[Path], Path]:
    def make(at: Path) -> Path:
        tifffile.imwrite(at / name, data, photometric="rgb", **options)
        return at / name

    return make


def _ome_zarr(version: str) -> Callable[[Path], Path]:
    def make(at: Path) -> Path:
        path = at / "i.zarr"
        group = zarr.open_group(path, mode="w", zarr_format=3 if version == "0.5" else 2)
        group.create_array("0", data=CHANNELS_FIRST, chunks=(3, 8, 8))
        steps = [{"type": "scale", "scale": [1.0, 2.0, 2.0]}]
        axes = [{"name": "c", "type": "channel"}, *({"name": n, "type": "space"} for n in "yx")]
        members = {
            "multiscales": [
                {
                    "version": version,
                    "axes": axes,
                    "datasets": [{"path": "0", "coordinateTransformations": steps}],
                }
            ],
            "omero": {"channels": [{"label": color, "color": color} for color in RED_FIRST]},
        }
        group.attrs.update({"ome": {"version": version, **members}} if version == "0.5" else members)
        return path

    return make


COLOURED = {
    "TIFF": _colour_tiff("a.tif", PLANES[0]),
    "TIFF of planes": _colour_tiff("a.tif", CHANNELS_FIRST, planarconfig="separate"),
    "OME-TIFF": _colour_tiff("a.ome.tif", PLANES, metadata={"axes": "ZYXS"}),
    "OME-TIFF of planes": _colour_tiff(
        "a.ome.tif",
        PLANES.transpose(0, 3, 1, 2).copy(),
        planarconfig="separate",
        metadata={"axes": "ZCYX"},
    ),
    "ImageJ": _colour_tiff("a.tif", PLANES, imagej=True, metadata={"axes": "ZYXS"}),
    "OME-Zarr 0.4": _ome_zarr("0.4"),
    "OME-Zarr 0.5": _ome_zarr("0.5"),
}


def _opened(path: Path, at: Path) -> cw.MultiscaleImage:
    return cw.open_multiscale(path)


def _pyramid(path: Path, at: Path) -> cw.MultiscaleImage:
    return cw.open_multiscale(cw.downsample_pyramid(path, at / "p.zarr", levels=1, sync=False).result().path)


def _copied(path: Path, at: Path) -> cw.MultiscaleImage:
    assert main(["cp", "-r", str(path), str(at / "c.zarr"), "--format", "zarr3", "--quiet"]) == 0
    return cw.open_multiscale(at / "c.zarr")


def _stacked(path: Path, at: Path) -> cw.MultiscaleImage:
    assert main(["stack", str(at / "s.json"), str(path), "--json"]) == 0
    return cw.open_multiscale(at / "s.json")


def _pyramid_of_stack(path: Path, at: Path) -> cw.MultiscaleImage:
    _stacked(path, at)
    return _pyramid(at / "s.json", at)


DOORS = {
    "open_multiscale": _opened,
    "pyramid": _pyramid,
    "cp -r": _copied,
    "stack": _stacked,
    "pyramid of a stack": _pyramid_of_stack,
}


@pytest.mark.each_once
@pytest.mark.parametrize("door", DOORS)
@pytest.mark.parametrize("kind", COLOURED)
def test_red_is_red(tmp_path: Path, kind: str, door: str) -> None:
    image = DOORS[door](COLOURED[kind](tmp_path), tmp_path)
    assert [channel.color for channel in image.channels] == RED_FIRST
    channel = [axis.type for axis in image.axes].index("channel")
    values = image.levels[0].read().result()
    corner = values[(0,) * channel + (slice(None),) + (0,) * (values.ndim - channel - 1)]
    assert corner.tolist() == [255, 0, 0]


def test_channels_of_layers_that_differ_are_named_as_lost(tmp_path: Path) -> None:
    first, second = (cw.array(np.zeros((1, 4, 4), "u1")) for _ in range(2))
    for number, (layer, color) in enumerate(((first, "FF0000"), (second, "00FF00"))):
        path = tmp_path / f"{number}.zarr"
        cw.downsample_pyramid(
            layer, path, axes=["c", "y", "x"], units=["", "2 nm", "2 nm"], levels=0, sync=False
        ).result()
        cw.edit_image(path, colors=[color], channels=[color])
    levels = [str(tmp_path / f"{number}.zarr" / "0") for number in range(2)]
    assert main(["stack", str(tmp_path / "c.json"), *levels, "--concat", "c", "--json"]) == 0
    together = cw.open_multiscale(tmp_path / "c.json")
    assert [channel.color for channel in together.channels] == ["FF0000", "00FF00"]
    assert main(["stack", str(tmp_path / "y.json"), *levels, "--concat", "y", "--json"]) == 3
    with pytest.warns(LossWarning, match=r"channels are left out: layers differ.*FF0000, 00FF00"):
        cw.downsample_pyramid(tmp_path / "y.json", tmp_path / "p.zarr", levels=1, sync=False).result()
    assert main(["pyramid", str(tmp_path / "y.json"), str(tmp_path / "q.zarr"), "--quiet"]) == 3


@pytest.mark.parametrize(
    ("unit", "symbol", "nanometres"),
    [
        ("angstrom", "angstrom", 0.1),
        (" ", "", 1),
        ("Å", "angstrom", 0.1),
        ("inch", "inch", 25.4e6),
        ("micrometer ", "um", 1e3),
    ],
)
def test_units_of_every_name(tmp_path: Path, unit: str, symbol: str, nanometres: float) -> None:
    path = _ome_zarr("0.4")(tmp_path)
    document = json.loads((path / ".zattrs").read_text())
    for axis in document["multiscales"][0]["axes"][1:]:
        axis["unit"] = unit
    (path / ".zattrs").write_text(json.dumps(document))
    for door in DOORS.values():
        at = tmp_path / door.__name__
        at.mkdir()
        image = door(path, at)
        assert [axis.unit for axis in image.axes[1:]] == [symbol] * 2, door.__name__
        assert image.scales[0][1:] == (2, 2)
    reader = get_reader(str(path))
    assert reader is not None and reader(str(path))[0][1]["scale"] == [2, 2]
    _, served = first_shown(sources_of(path))
    info = json.loads(PrecomputedVolume(served).document)
    assert info["scales"][0]["resolution"][:2] == pytest.approx([2 * nanometres] * 2)


def test_lengths_and_times_in_other_units() -> None:
    assert unit_in(cw.Unit("1 inch"), "mm") == pytest.approx(25.4)
    assert unit_in(cw.Unit("90 s"), "minute") == 1.5
    assert unit_in(cw.Unit("13.48 Å"), "nm") == pytest.approx(1.348)
    for text, base in (("1 nm", "s"), ("1 nm", ""), ("1 furlong", "m"), ("1 minute", "mm")):
        with pytest.raises(ValueError, match="can't be given in"):
            unit_in(cw.Unit(text), base)


XML = """<SpimData version="0.2"><BasePath type="relative">.</BasePath><SequenceDescription>
<ImageLoader format="{format}"><{member} type="relative">{name}</{member}></ImageLoader><ViewSetups>
<ViewSetup><id>3</id><name>GFP</name><size>8 6 4</size><voxelSize><unit>um</unit><size>0.5 0.5 2</size>
</voxelSize></ViewSetup></ViewSetups><Timepoints type="range"><first>0</first><last>{last}</last>
</Timepoints></SequenceDescription><ViewRegistrations><ViewRegistration timepoint="0" setup="3">
<ViewTransform type="affine"><affine>0.5 0 0 1 0 0.5 0 2 0 0 2 7</affine></ViewTransform>
</ViewRegistration></ViewRegistrations></SpimData>"""


@pytest.mark.parametrize("last", [0, 2])
def test_bigdataviewer_in_hdf5(tmp_path: Path, last: int) -> None:
    """Sizes are of the XML file, whose name need not be that of the container; a missing time is zeros."""
    values = np.arange(4 * 6 * 8, dtype="u2").reshape(4, 6, 8)
    values[0, 0, 0] = 65535
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file["s03/resolutions"] = np.array([[1.0, 1, 1], [2, 2, 1]])
        for time in (0, 2):
            for level, step in enumerate((1, 2)):
                cells = (values + time)[:, ::step, ::step].astype("i2")
                file.create_dataset(f"t{time:05}/s03/{level}/cells", data=cells, chunks=True)
    (tmp_path / "b.xml").write_text(XML.format(format="bdv.hdf5", member="hdf5", name="a.h5", last=last))
    image = cw.open_multiscale(tmp_path / "b.xml")["setup3"]
    assert image.name == "GFP" and image.levels[0].dtype == cw.uint16
    assert [axis.unit for axis in image.axes[:3]] == ["um"] * 3
    assert image.scales[1][:3] == (2, 1, 1) and image.translations[1][:3] == (7, 2.25, 1.25)
    found = image.levels[0].read().result()
    if last == 0:
        np.testing.assert_array_equal(found, values)
    else:
        assert "time 1 is missing" in image.problems[0]
        for time, expected in enumerate((values, 0 * values, values + 2)):
            np.testing.assert_array_equal(found[..., time], expected)
    other = (tmp_path / "b.xml").read_text().replace("bdv.hdf5", "spimreconstruction")
    (tmp_path / "b.xml").write_text(other)
    with pytest.raises(NotImplementedError, match=r'"bdv.n5" or "bdv.hdf5".*spimreconstruction'):
        cw.open_multiscale(tmp_path / "b.xml")


def test_the_xml_file_of_another_name_says_sizes_of_n5_too(tmp_path: Path) -> None:
    group = cw.open_group(tmp_path / "a.n5", "a", format="n5")
    group.create_array("setup3/timepoint0/s0", np.zeros((8, 6, 4), "u2"))
    group["setup3"].attrs["downsamplingFactors"] = [[1, 1, 1]]
    (tmp_path / "b.xml").write_text(XML.format(format="bdv.n5", member="n5", name="a.n5", last=0))
    image = cw.open_multiscale(tmp_path / "b.xml")["setup3"]
    assert image.scales[0] == (0.5, 0.5, 2) and image.name == "GFP"
