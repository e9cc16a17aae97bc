"""Channels, colours, sizes and labels of an image: a command keeps them, or names them with exit status 3."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tifffile

import chunkwise as cw
from chunkwise.cli.main import main
from chunkwise.errors import LossWarning

VALUES = (np.arange(2 * 4 * 6 * 8) % 251).astype("u1").reshape(2, 4, 6, 8)
UNITS = {"nm": 1.0, "um": 1000.0, "s": 1.0, "": 1.0}
COLORS = {1: (255, 0, 0, 255), 7: (0, 0, 255, 128)}


def _described(place: Path) -> dict[str, Any]:
    """Return what an image says of itself; of a container, what it says as an image of OME-Zarr."""
    image = cw.open_multiscale(place)
    if not isinstance(image, cw.MultiscaleImage):
        made = place.with_name(f"{place.name} described.zarr")
        assert main(["cp", "-r", str(place), str(made), "--layout", "ome-zarr", "--quiet"]) in (0, 3)
        image = cw.open_multiscale(made)
    assert isinstance(image, cw.MultiscaleImage)
    axes = zip(image.axes, image.scales[0], strict=True)
    return {
        "channels": [channel.label for channel in image.channels],
        "colours of channels": [channel.color for channel in image.channels],
        "sizes": {a.name: pytest.approx(n * UNITS[a.unit]) for a, n in axes if a.type != "channel"},
        "labels": image.is_labels,
        "colours of labels": dict(image.label_colors),
    }


def _holds(sizes: dict[str, Any], wanted: dict[str, Any]) -> bool:
    """Return True if axes have the sizes that are wanted; others may be new."""
    return all(name in sizes and sizes[name].expected == n for name, n in wanted.items())


def _channels(at: Path) -> Path:
    units = {"z": "40 nm", "y": "4 nm", "x": "4 nm"}
    array, place = cw.array(VALUES), at / "channels.zarr"
    cw.downsample_pyramid(array, place, axes=list("czyx"), units=units, levels=1, sync=False).result()
    cw.edit_image(place, channels=["dapi", "gfp"], colors=["00A0FF", "FF8000"])
    return place


def _times(at: Path) -> Path:
    place, units = at / "times.zarr", ["3 s", "40 nm", "4 um", "4 um"]
    array = cw.array(VALUES)
    cw.downsample_pyramid(array, place, axes=list("tzyx"), units=units, levels=1, sync=False).result()
    return place


def _labels(at: Path) -> Path:
    place, array = at / "labels.zarr", cw.array(VALUES[0].astype("u4"))
    cw.downsample_pyramid(array, place, units=["4 nm"] * 3, levels=1, labels=True, sync=False).result()
    colors = [{"label-value": label, "rgba": list(rgba)} for label, rgba in COLORS.items()]
    ome = cw.open_group(place, "r+").attrs
    ome["ome"] = {**ome["ome"], "image-label": {"colors": colors}}
    return place


def _copied(make: Callable[[Path], Path], name: str, *words: str) -> Callable[[Path], Path]:
    def source(at: Path) -> Path:
        assert main(["cp", "-r", str(make(at)), str(at / name), *words, "--quiet"]) in (0, 3)
        return at / name

    return source


def _tiff(at: Path) -> Path:
    metadata = {"axes": "CZYX", "PhysicalSizeX": 4.0, "PhysicalSizeXUnit": "nm"}
    metadata["Channel"] = {"Name": ["dapi", "gfp"], "Color": [0x00A0FFFF, -8388353]}
    tifffile.imwrite(at / "i.ome.tif", VALUES, metadata=metadata, photometric="minisblack")
    return at / "i.ome.tif"


SOURCES = {
    "channels": _channels,
    "times": _times,
    "labels": _labels,
    "channels 0.4": _copied(_channels, "four.zarr", "--format", "zarr2"),
    "labels 0.4": _copied(_labels, "four labels.zarr", "--format", "zarr2"),
    "OME-TIFF": _tiff,
    **{
        f"{name} of {layout}": _copied(make, f"{name} {layout}.n5", "--layout", layout)
        for name, make in (("channels", _channels), ("labels", _labels))
        for layout in ("n5-viewer", "bdv")
    },
    "channels of paintera": _copied(_channels, "paintera.n5", "--layout", "paintera"),
    "precomputed labels": _copied(_labels, "volume", "--format", "neuroglancer_precomputed"),
}

LEVELS = ("--levels", "1", "--no-sync")
COMMANDS: dict[str, tuple[str, tuple[str, ...]]] = {
    "stack": (".json", ("stack",)),
    "pyramid": (".zarr", ("pyramid", *LEVELS)),
    "pyramid 0.4": (".zarr", ("pyramid", "--convention", "ome-ngff-0.4", *LEVELS)),
    "pyramid n5-viewer": (".n5", ("pyramid", *LEVELS)),
    "pyramid cosem": (".n5", ("pyramid", "--convention", "cosem", *LEVELS)),
    "pyramid precomputed": ("", ("pyramid", "--convention", "neuroglancer_precomputed", *LEVELS)),
    "cp 0.5": (".zarr", ("cp", "-r", "--format", "zarr3")),
    "cp 0.4": (".zarr", ("cp", "-r", "--format", "zarr2")),
    "cp n5-viewer": (".n5", ("cp", "-r", "--layout", "n5-viewer")),
    "cp paintera": (".n5", ("cp", "-r", "--layout", "paintera")),
    "cp bdv": (".n5", ("cp", "-r", "--layout", "bdv")),
    "cp precomputed": ("", ("cp", "-r", "--format", "neuroglancer_precomputed")),
}


@pytest.mark.each_once
@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize("source", SOURCES)
def test_what_an_image_says_is_kept_or_named(
    tmp_path: Path, source: str, command: str, capsys: pytest.CaptureFixture[str]
) -> None:
    place, (suffix, words) = SOURCES[source](tmp_path), COMMANDS[command]
    before, out = _described(place), tmp_path / f"out{suffix}"
    capsys.readouterr()
    ends = [str(out), str(place)] if command == "stack" else [str(place), str(out), "--quiet"]
    status = main([*words, *ends])
    told = capsys.readouterr().err
    if status not in (0, 3):
        assert told.startswith("chunkwise: ") and not out.exists()  # it is refused
        return
    is_alone = command == "cp paintera" and before["labels"]  # whose tables aren't made, as is said
    assert not is_alone or 'open "data"' in told
    after = _described(next(out.rglob("data")) if is_alone else out)
    told = told.replace("names and colours of channels", "channels, colours of channels")
    for what, value in before.items():
        if after[what] != value and not (what == "sizes" and _holds(after[what], value)):
            assert status == 3 and what in told, (what, value, after[what], told)
    if status == 0:
        assert "left out" not in told


@pytest.mark.parametrize(
    "omero", [{"channels": "ab", "k": 1}, {"channels": {"a": 1}}, {"channels": 3, "k": 1}]
)
def test_damaged_channels_are_not_copied_into_another_format(tmp_path: Path, omero: dict[str, Any]) -> None:
    """Text has elements, too, and each letter became a channel."""
    place = _channels(tmp_path)
    ome = cw.open_group(place, "r+").attrs
    ome["ome"] = {**ome["ome"], "omero": omero}
    with pytest.warns(LossWarning, match="channels: expected a list of channels"):
        cw.copy_tree(place, tmp_path / "copy.zarr", format="zarr2")
    copy = cw.open_group(tmp_path / "copy.zarr").attrs
    assert copy.get("omero") == ({"k": 1, "channels": []} if "k" in omero else None)
