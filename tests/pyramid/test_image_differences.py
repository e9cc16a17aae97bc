"""`diff` of an image and its copy in another format: by what the metadata mean."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import chunkwise
from chunkwise.cli.main import main

VALUES = np.random.default_rng(0).integers(0, 999, (24, 20, 16)).astype("u2")


@pytest.fixture(scope="module")
def images(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Return one image in N5 and its copies in OME-Zarr 0.5 and 0.4."""
    top = tmp_path_factory.mktemp("images")
    found = {name: top / name for name in ("a.n5", "b.zarr", "c.zarr")}
    units = ["4 nm", "4 nm", "40 nm"]
    array = chunkwise.array(VALUES)
    chunkwise.downsample_pyramid(
        array, found["a.n5"], units=units, axes=["x", "y", "z"], levels=2, chunks=(8, 8, 8)
    ).result()
    chunkwise.open_group(found["a.n5"], "r+").attrs["subject"] = "m7"
    assert main(["cp", "-r", str(found["a.n5"]), str(found["b.zarr"]), "--shard", "16,16,16", "--quiet"]) == 0
    copied = ["cp", "-r", str(found["b.zarr"]), str(found["c.zarr"]), "--format", "zarr2", "--quiet"]
    assert main(copied) == 0
    return found


@pytest.mark.parametrize(("left", "right"), [("a.n5", "b.zarr"), ("b.zarr", "a.n5"), ("b.zarr", "c.zarr")])
def test_a_copy_has_no_differences(images: dict[str, Path], left: str, right: str) -> None:
    assert chunkwise.diff(images[left], images[right]) == []
    found = chunkwise.diff(images[left], images[right], layout=True)
    assert {difference.what for difference in found} >= {"format"}


def test_what_differs_in_an_image(images: dict[str, Path], tmp_path: Path) -> None:
    copy = tmp_path / "b.zarr"
    chunkwise.copy_tree(images["b.zarr"], copy)
    group = chunkwise.open_group(copy, "r+")
    group["1"][2, 3, 4] = int(group["1"][2, 3, 4]) + 1
    ome = group.attrs["ome"]
    place = ome["multiscales"][0]["datasets"][2]["coordinateTransformations"]
    place[0]["scale"][0] *= 2
    ome["multiscales"][0]["axes"][1]["unit"] = "micrometer"
    group.attrs.update({"ome": ome, "subject": "m8"})
    found = chunkwise.diff(images["a.n5"], copy)
    assert [(each.name, each.what) for each in found] == [
        ("", "units of axes"),
        ("", "attribute"),
        ("s1", "values"),
        ("s2", "scale"),
    ]
    assert "1 of 1,920 differ; the first at [4, 3, 2]" in found[2].detail  # in the order of the left side
    assert chunkwise.diff(images["a.n5"], copy, attributes=False, values=False) == []


def test_levels_that_one_side_lacks(images: dict[str, Path], tmp_path: Path) -> None:
    chunkwise.copy_tree(images["b.zarr"], tmp_path / "b.zarr")
    group = chunkwise.open_group(tmp_path / "b.zarr", "r+")
    ome = group.attrs["ome"]
    del group["2"], ome["multiscales"][0]["datasets"][2]
    group.attrs["ome"] = ome
    (found,) = chunkwise.diff(images["a.n5"], tmp_path / "b.zarr")
    assert str(found) == "s2: array | nothing"


def test_a_tiff_file_and_its_copy(tmp_path: Path) -> None:
    import tifffile

    tifffile.imwrite(tmp_path / "a.ome.tif", VALUES, metadata={"axes": "ZYX", "PhysicalSizeX": 0.5})
    assert main(["cp", "-r", str(tmp_path / "a.ome.tif"), str(tmp_path / "b.zarr"), "--quiet"]) == 0
    assert chunkwise.open_group(tmp_path / "b.zarr").attrs["ome"]["version"] == "0.5"
    assert chunkwise.diff(tmp_path / "a.ome.tif", tmp_path / "b.zarr") == []
