"""Channels whose names alone are known get the colour and the window that OME-Zarr demands of each."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tifffile
import zarr

import chunkwise as cw

VALUES = np.arange(2 * 16 * 16, dtype="u2").reshape(2, 16, 16)
NAMES = ["DAPI", "GFP"]


def _tiff(folder: Path) -> Path:
    path = folder / "source.ome.tif"
    tifffile.imwrite(
        path, VALUES, photometric="minisblack", metadata={"axes": "CYX", "Channel": {"Name": NAMES}}
    )
    return path


def _ngff(folder: Path) -> Path:
    path = folder / "source.zarr"
    cw.downsample_pyramid(VALUES, path, axes="cyx", levels=1, convention="ome-ngff-0.4").result()
    channels = [{"label": name, "color": color} for name, color in zip(NAMES, ("", None), strict=True)]
    cw.open_group(path, "r+").attrs["omero"] = {"channels": channels}
    return path


def _pyramid(source: Path, path: Path) -> None:
    cw.downsample_pyramid(source, path, levels=1).result()


def _copy(source: Path, path: Path) -> None:
    cw.copy_tree(source, path, format="zarr3", layout="ome-zarr")


@pytest.mark.filterwarnings("ignore::chunkwise.errors.LossWarning")
@pytest.mark.parametrize("write", [_pyramid, _copy])
@pytest.mark.parametrize("source", [_tiff, _ngff])
def test_colors_and_windows(
    source: Callable[[Path], Path], write: Callable[[Path, Path], None], tmp_path: Path
) -> None:
    write(source(tmp_path), tmp_path / "image.zarr")
    written: Any = zarr.open_group(tmp_path / "image.zarr", mode="r").attrs.asdict()
    channels = written.get("ome", written)["omero"]["channels"]
    assert [channel["label"] for channel in channels] == NAMES
    assert [channel["color"] for channel in channels] == ["FF00FF", "00FF00"]
    assert all(set(channel["window"]) == {"min", "max", "start", "end"} for channel in channels)


def test_labels_without_an_image_are_a_collection(tmp_path: Path) -> None:
    group = cw.create_group(tmp_path / "a.zarr")
    for name in ("cells", "nuclei"):
        labels = (VALUES[0] % 5).astype("u4")
        cw.downsample_pyramid(
            labels, tmp_path / f"a.zarr/labels/{name}", axes="yx", levels=1, labels=True
        ).result()
    found = cw.open_multiscale(group)
    assert sorted(found) == ["cells", "nuclei"] and found["cells"].is_labels
