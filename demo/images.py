"""Images to look at: a volume with labels, an N5 pyramid, an OME-Zarr plate."""

from __future__ import annotations

from pathlib import Path

import numpy as np

import chunkwise as cw

UNITS = ["0.4 um", "0.4 um", "1 um"]


def write_volume(place: Path, volume: np.ndarray) -> None:
    """Write a volume (x, y, z) as OME-Zarr, z first, with a label image of the bright parts."""
    image = volume.transpose(2, 1, 0)
    group = cw.open_group(place, "w")
    group.attrs["ome"] = {"version": "0.5"}
    _pyramid(image, place / "nuclei", "zyx", UNITS[::-1])
    _write_labels(image, place / "nuclei", "zyx", UNITS[::-1])


def write_n5_pyramid(place: Path, volume: np.ndarray) -> None:
    """Write a volume (x, y, z) in the layout of n5-viewer."""
    cw.create_container(place)
    source = cw.array(volume)
    cw.downsample_pyramid(
        source, place / "c0", convention="n5-viewer", axes=list("xyz"), units=UNITS, chunks=(64, 64, 32)
    ).result()


def write_plate(place: Path, volume: np.ndarray) -> None:
    """Write a plate of 3 by 4 wells, one of them empty, 2 fields of 2 channels each; A/2 has labels."""
    rows, columns = "ABC", "1234"
    plate = cw.open_group(place, "w")
    wells = [
        {"path": f"{row}/{column}", "rowIndex": i, "columnIndex": j}
        for i, row in enumerate(rows)
        for j, column in enumerate(columns)
        if row + column != "B3"
    ]
    plate.attrs["ome"] = {
        "version": "0.5",
        "plate": {
            "name": "screen",
            "rows": [{"name": row} for row in rows],
            "columns": [{"name": column} for column in columns],
            "wells": wells,
            "field_count": 2,
        },
    }
    for number, well in enumerate(wells):
        group = plate.create_group(str(well["path"]))
        group.attrs["ome"] = {"version": "0.5", "well": {"images": [{"path": "0"}, {"path": "1"}]}}
        for at, name in enumerate("01"):
            z = 20 + 9 * number + 4 * at
            image = np.stack([volume[:, :, z].T, volume[::-1, :, z + 4].T])
            _write_field(place / str(well["path"]) / name, image)
            if well["path"] == "A/2":
                _write_labels(image[0], place / "A/2" / name, "yx", UNITS[:2])


def _write_field(place: Path, image: np.ndarray) -> None:
    _pyramid(image, place, "cyx", [None, "0.4 um", "0.4 um"])
    channels = [
        {
            "label": label,
            "color": color,
            "active": True,
            "window": {"min": 0, "max": 900, "start": 10, "end": 500},
        }
        for label, color in (("DNA", "3080FF"), ("actin", "FF8000"))
    ]
    field = cw.open_group(place, "r+")
    field.attrs["ome"] = {**field.attrs["ome"], "omero": {"channels": channels}}


def _pyramid(image: np.ndarray, place: Path, axes: str, units: list[str | None]) -> None:
    source = cw.array(np.ascontiguousarray(image))
    cw.downsample_pyramid(source, place, axes=list(axes), units=units).result()


def _write_labels(image: np.ndarray, place: Path, axes: str, units: list[str]) -> None:
    """Write labels of the bright parts of an image, a different one for each block."""
    indices = np.indices(image.shape, sparse=True)[::-1]  # x first
    sizes = ((24, 1), (24, 10), (16, 100))[: image.ndim]
    number = 1 + sum(at // size * factor for at, (size, factor) in zip(indices, sizes, strict=True))
    labels = cw.array(((image > 60) * number).astype("uint32"))
    cw.downsample_pyramid(
        labels, place / "labels" / "cells", axes=list(axes), units=units, labels=True
    ).result()
