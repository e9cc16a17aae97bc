"""`copy_tree` and `cp -r` make the same of an image: all conventions, to all formats and layouts."""

from __future__ import annotations

import shutil
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tifffile

import chunkwise as cw
from chunkwise.cli.main import main
from chunkwise.errors import InvalidArgumentError, LossWarning, NotFoundError, UnsupportedError

VALUES = np.arange(4 * 6 * 8, dtype="uint16").reshape(4, 6, 8)
VOLUME = "neuroglancer_precomputed"
SOURCES = (
    "ome-ngff-0.5",
    "ome-ngff-0.4",
    "labels",
    "n5-viewer",
    "cosem",
    "paintera",
    "bdv",
    "tiff",
    "volume",
)
OF_N5 = ("n5-viewer", "cosem", "paintera", "bdv")
VIEWERS = ("n5-viewer", "paintera", "bdv")
WAYS = [
    *({"format": format} for format in ("zarr3", "zarr2", "n5", VOLUME)),
    *({"layout": layout} for layout in VIEWERS),
    *({"layout": "ome-zarr", "format": format} for format in ("zarr3", "zarr2")),
]


@pytest.fixture(scope="module")
def sources(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """An image of two levels in each convention; of one in TIFF."""
    at = tmp_path_factory.mktemp("sources")
    out = {name: at / f"{name}{'.n5' if name in OF_N5 else '.zarr'}" for name in SOURCES}
    out |= {"tiff": at / "a.ome.tif", "volume": at / "volume"}
    options = {"levels": 1, "axes": list("zyx"), "units": ["40 nm", "4 nm", "4 nm"], "sync": False}
    array = cw.array(VALUES)
    for convention in ("ome-ngff-0.5", "ome-ngff-0.4", "n5-viewer", "cosem"):
        cw.downsample_pyramid(array, out[convention], convention=convention, **options).result()
    cw.downsample_pyramid(array, out["labels"], labels=True, **options).result()
    for layout in ("paintera", "bdv"):
        cw.copy_tree(out["ome-ngff-0.5"], out[layout], layout=layout, sync=False)
    sizes = {
        f"PhysicalSize{name}{unit}": value for name in "ZYX" for unit, value in (("", 4), ("Unit", "nm"))
    }
    tifffile.imwrite(out["tiff"], VALUES, metadata={"axes": "ZYX", **sizes, "PhysicalSizeZ": 40})
    cw.copy_tree(out["ome-ngff-0.5"], out["volume"], format=VOLUME, sync=False)
    return out


def _described(path: Path) -> Any:
    """Return convention, axes of space, sizes and elements of the image at a path; None if there is none."""
    try:
        found = cw.open_multiscale(path)
    except (InvalidArgumentError, NotFoundError):
        return None
    if isinstance(found, cw.ImageCollection):
        (found,) = found.values()
    assert isinstance(found, cw.MultiscaleImage)
    dims = [[axis.name for axis in found.axes].index(name) for name in "zyx"]
    others = [dim for dim in range(len(found.axes)) if dim not in dims]
    levels = [np.asarray(level).transpose(others + dims) for level in found.levels]
    assert all(level.shape[: len(others)] == (1,) * len(others) for level in levels)
    scales = [[scale[dim] for dim in dims] for scale in found.scales]
    values = [level.reshape(level.shape[-3:]).tolist() for level in levels]
    return found.convention, scales, values, found.is_labels


def _expected(of: str, way: dict[str, str]) -> str | None:
    """Return the convention of the copy; None if it is no image."""
    layout, format = way.get("layout"), way.get("format")
    if layout in VIEWERS:
        return layout
    if format == VOLUME:
        return "neuroglancer precomputed"
    if format == "n5":
        return of if of in OF_N5 else None
    return {"zarr3": "ome-ngff-0.5", "zarr2": "ome-ngff-0.4"}[str(format)]


@pytest.mark.each_once
@pytest.mark.parametrize("way", WAYS, ids=lambda way: "-".join(way.values()))
@pytest.mark.parametrize("of", SOURCES)
def test_both_doors_make_the_same(
    sources: dict[str, Path], tmp_path: Path, of: str, way: dict[str, str]
) -> None:
    """What the copy lacks is warned of in Python, and exit status 3 on the command line."""
    _, scales, levels, is_labels = _described(sources[of])
    assert is_labels == (of == "labels")
    suffix = "" if way.get("format") == VOLUME else ".n5" if way.get("layout") in VIEWERS else ".out"
    ours, theirs = (tmp_path / f"{door}{suffix}" for door in ("python", "command"))
    command = ["cp", "-r", "--quiet", "--no-sync", str(sources[of]), str(theirs)]
    command += [text for name, value in way.items() for text in (f"--{name}", value)]
    if of == "volume" and way == {"format": "n5"}:
        with pytest.raises(InvalidArgumentError, match="layout"):
            cw.copy_tree(sources[of], ours, **way)
        assert main(command) == 1 and not ours.exists() and not theirs.exists()
        return
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", LossWarning)
        report = cw.copy_tree(sources[of], ours, sync=False, **way)
    assert main(command) == (3 if report.losses else 0)
    found, expected = _described(ours), _expected(of, way)
    assert _described(theirs) == found
    if expected is None:
        assert found is None and "what makes it an image is left out" in report.losses[0][1]
        assert report.n_arrays == len(levels)
    elif of == "labels" and expected == "paintera":  # without its tables, as a report says
        assert _described(ours / "data") == _described(theirs / "data") == (expected, scales, levels, True)
    else:
        assert found == (expected, scales, levels, is_labels)


@pytest.mark.each_once
@pytest.mark.parametrize("door", ["copy_tree", "Group.copy", "command"])
@pytest.mark.parametrize("format", ["zarr3", "zarr2", "n5"])
@pytest.mark.parametrize("of", [*SOURCES[:7], "0.4-dev", "0.5-dev"])
def test_images_in_a_tree_stay_images_or_are_named(
    sources: dict[str, Path], tmp_path: Path, of: str, format: str, door: str
) -> None:
    """One by one; not what lies in an image, such as its labels."""
    tree, out = tmp_path / "tree", tmp_path / "out"
    own = "n5" if of in OF_N5 else "zarr2" if "0.4" in of else "zarr3"
    cw.create_group(tree, format=own).create_array("other", np.arange(3))
    image = tree / "in/em"
    cw.copy_tree(sources[of.replace("0.4-dev", "ome-ngff-0.4").replace("0.5-dev", "ome-ngff-0.5")], image)
    if own != "n5" and of != "labels":
        cw.downsample_pyramid(VALUES, image / "labels/a", labels=True, levels=0, sync=False).result()
    if "dev" in of:
        attrs = cw.open_group(image, "r+").attrs
        attrs.set_path("multiscales[0]/version" if "0.4" in of else "ome/version", f"{of}-spatialdata")
    before = cw.open_multiscale(image)
    if door == "command":
        status = main(["cp", "-r", "--quiet", "--no-sync", str(tree), str(out), "--format", format])
    else:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", LossWarning)
            if door == "copy_tree":
                report, at = cw.copy_tree(tree, out, format=format, sync=False), "in/em"
            else:
                report = cw.create_group(out, format=format).copy(cw.open_group(tree)["in"], "in")
                at = "em"
        named = [path for path, note in report.losses if "what makes it an image is left out" in note]
        status = 3 if named else 0
        assert len(named) <= 1 and all(path in (at, f"{at}/setup0") for path in named)
    is_kept = format == own or (own != "n5" != format and "dev" not in of)
    assert status == (0 if is_kept else 3)
    if is_kept and of != "bdv":
        after = cw.open_multiscale(out / "in/em")
        assert type(after) is type(before) and _described(out / "in/em")[1:] == _described(image)[1:]


@pytest.mark.parametrize("door", ["python", "command"])
def test_what_lies_beside_an_image(
    sources: dict[str, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str], door: str
) -> None:
    """A tree has it, and is no image; an image lacks it: both are said."""

    def copy(to: str, **options: str) -> str:
        if door == "python":
            with pytest.warns(LossWarning) as caught:
                cw.copy_tree(tmp_path / "a.n5", tmp_path / to, **options)
            return str(caught[0].message)
        words = [text for name, value in options.items() for text in (f"--{name}", value)]
        assert main(["cp", "-r", str(tmp_path / "a.n5"), str(tmp_path / to), *words]) == 3
        return capsys.readouterr().err

    shutil.copytree(sources["n5-viewer"], tmp_path / "a.n5")
    cw.create_array(tmp_path / "a.n5/notes", np.arange(3), format="n5")
    assert "notes is no level of it" in copy("tree", format="zarr3")
    assert sorted(cw.open_group(tmp_path / "tree")) == ["notes", "s0", "s1"]
    assert "notes: is left out" in copy("image", format="zarr3", layout="ome-zarr")
    assert sorted(cw.open_group(tmp_path / "image")) == ["0", "1"]
    with pytest.raises(UnsupportedError, match="notes: it is no level"):
        cw.copy_tree(tmp_path / "a.n5", tmp_path / "b", format="zarr3", layout="ome-zarr", strict=True)
    assert not (tmp_path / "b").exists()


def test_parts_of_an_image(sources: dict[str, Path], tmp_path: Path) -> None:
    for part in ("1/2", "2/2"):
        cw.copy_tree(sources["n5-viewer"], tmp_path / "b.zarr", format="zarr3", part=part, sync=False)
    assert _described(tmp_path / "b.zarr")[1:] == _described(sources["n5-viewer"])[1:]


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"layout": "bdv", "format": "zarr3"}, "layout: bdv is N5"),
        ({"layout": "ome-zarr", "format": "n5"}, "layout: ome-zarr is Zarr"),
        ({"layout": "ome-zarr", "format": VOLUME}, "layout: ome-zarr is of"),
        ({"layout": "imaris"}, "layout: expected"),
        ({"format": "zarr3", "fill_value": 1}, "fill_value: it is for arrays"),
        ({"format": "zarr3", "dimension_names": ["a", "b", "c"]}, "dimension_names: it is for arrays"),
        ({"format": "zarr3", "dtype": "uint8", "cast": "scale"}, "cast: scale"),
    ],
)
def test_what_an_image_cant_have(
    sources: dict[str, Path], tmp_path: Path, options: dict[str, Any], says: str
) -> None:
    with pytest.raises(InvalidArgumentError, match=says):
        cw.copy_tree(sources["n5-viewer"], tmp_path / "b", **options)
    assert not (tmp_path / "b").exists()


@pytest.mark.parametrize("way", ["n5-viewer", "paintera", "bdv", "pyramid", "cosem pyramid"])
def test_labels_in_n5_come_back(tmp_path: Path, way: str) -> None:
    """With their colours; pyramids of what is in N5 don't average them."""
    options: dict[str, Any] = {"levels": 1, "axes": list("zyx"), "sync": False}
    cw.downsample_pyramid(cw.array(VALUES), tmp_path / "a.zarr", labels=True, **options).result()
    attributes = cw.open_group(tmp_path / "a.zarr", "r+").attrs
    colors = [{"label-value": 3, "rgba": [1, 2, 3, 4]}]
    attributes["ome"] = {**attributes["ome"], "image-label": {"colors": colors}}
    n5 = tmp_path / "b.n5"
    if way.endswith("pyramid"):
        convention = "cosem" if "cosem" in way else "n5-viewer"
        made = cw.downsample_pyramid(tmp_path / "a.zarr", n5, convention=convention, levels=1).result()
        assert made.left_out == ()
    else:
        cw.copy_tree(tmp_path / "a.zarr", n5, layout=way)
    n5 = n5 / "data" if way == "paintera" else n5
    cw.copy_tree(n5, tmp_path / "c.zarr", format="zarr3", layout="ome-zarr")
    image, source = (cw.open_multiscale(tmp_path / name) for name in ("c.zarr", "a.zarr"))
    assert isinstance(image, cw.MultiscaleImage) and isinstance(source, cw.MultiscaleImage)
    assert image.is_labels and image.label_colors == source.label_colors == {3: (1, 2, 3, 4)}
    level = n5 / "setup0/timepoint0/s0" if way == "bdv" else n5 / "s0"
    cw.downsample_pyramid(level, tmp_path / "d.zarr", levels=1).result()
    again = cw.open_multiscale(tmp_path / "d.zarr")
    assert isinstance(again, cw.MultiscaleImage) and again.is_labels
    assert set(np.unique(again.levels[1])) <= set(VALUES.ravel().tolist())


def test_attributes_of_levels_of_ome_zarr_stay(tmp_path):
    values = np.zeros((8, 8), "u1")
    cw.downsample_pyramid(cw.array(values), tmp_path / "a.zarr", axes=["y", "x"], levels=1).result()
    own = {"offset": 3, "transform": "log", "note": "mine"}
    cw.open_group(tmp_path / "a.zarr", "r+")["0"].attrs.update(own)
    cw.copy_tree(tmp_path / "a.zarr", tmp_path / "b.zarr", format="zarr2")
    assert own.items() <= cw.open_array(tmp_path / "b.zarr/0").attrs.asdict().items()
    with pytest.warns(LossWarning, match="transform of levels is left out"):  # it would be COSEM's
        cw.copy_tree(tmp_path / "a.zarr", tmp_path / "b.n5", layout="n5-viewer")
    image = cw.open_multiscale(tmp_path / "b.n5")
    assert image.convention == "n5-viewer" and image.scales[1] == (2.0, 2.0)
    assert cw.open_array(tmp_path / "b.n5/s0").attrs["note"] == "mine"
