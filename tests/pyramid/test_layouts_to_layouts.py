"""Images in the layout of one viewer of N5 are copied to that of any other, and to OME-Zarr, and back."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import chunkwise
from chunkwise.cli.main import main

LAYOUTS = ("n5-viewer", "paintera", "bdv", "ome-zarr")
DATA = np.arange(20 * 24 * 28, dtype=np.uint16).reshape(20, 24, 28)


@pytest.fixture(scope="module")
def images(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """One image of two levels in each layout."""
    path = tmp_path_factory.mktemp("images")
    chunkwise.create_array(
        path / "a",
        DATA,
        chunks=(8, 8, 8),
        dimension_names=("z", "y", "x"),
        dimension_units=["40 nm", "4 nm", "4 nm"],
    )
    first = path / "ome-zarr.zarr"
    chunkwise.downsample_pyramid(path / "a", first, levels=1, name="em").result()
    out = {"ome-zarr": first}
    for layout in LAYOUTS[:3]:
        out[layout] = path / f"{layout}.n5"
        assert main(["cp", "-r", str(first), str(out[layout]), "--layout", layout]) == 0
    return out


def described(path: Path) -> tuple[object, ...]:
    """Return axes, scales, places and elements of an image, x last."""
    found = chunkwise.open_multiscale(path)
    image = found if isinstance(found, chunkwise.MultiscaleImage) else next(iter(found.values()))
    order = [[axis.name for axis in image.axes].index(name) for name in ("z", "y", "x")]
    others = [dim for dim in range(len(image.axes)) if dim not in order]
    levels = [
        level.read().result().transpose(others + order).reshape([level.shape[dim] for dim in order])
        for level in image.levels
    ]
    return (
        [(image.axes[dim].name, image.axes[dim].unit) for dim in order],
        [[scale[dim] for dim in order] for scale in image.scales],
        [[place[dim] for dim in order] for place in image.translations],
        [level.tobytes() for level in levels],
    )


@pytest.mark.each_once
@pytest.mark.parametrize("to", LAYOUTS)
@pytest.mark.parametrize("of", LAYOUTS[:3])
def test_every_layout_becomes_every_other(
    images: dict[str, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str], of: str, to: str
) -> None:
    """Axes, units, sizes and places of voxels, and all elements, are those of the source."""
    made = tmp_path / ("b.zarr" if to == "ome-zarr" else "b.n5")
    assert main(["cp", "-r", str(images[of]), str(made), "--layout", to, "--verify"]) == 0
    assert described(made) == described(images[of])
    assert described(made)[3] == described(images["ome-zarr"])[3]


@pytest.mark.parametrize("how", ["python", "command"])
def test_sizes_of_pyramids_by_name(tmp_path: Path, capsys: pytest.CaptureFixture[str], how: str) -> None:
    """Those of the other axes stay; an axis that isn't there is an error before anything is written."""
    named = {"dimension_names": ("z", "y", "x")}
    chunkwise.create_array(tmp_path / "a", DATA, chunks=(5, 8, 7), **named)
    place = str(tmp_path / "p.zarr")
    if how == "python":
        chunkwise.downsample_pyramid(
            tmp_path / "a", place, levels=1, chunks={"z": 4}, shards={"x": 14, "z": 8}
        ).result()
    else:
        sizes = ["--chunk", "z=4", "--shard", "x=14,z=8"]
        assert main(["pyramid", str(tmp_path / "a"), place, "--levels", "1", *sizes]) == 0
    layout = chunkwise.open_group(place)["0"].chunk_layout
    assert (layout.read_chunk.shape, layout.write_chunk.shape) == ((4, 8, 7), (8, 8, 14))
    with pytest.raises(ValueError, match='chunks: the image has no dimension "t"'):
        chunkwise.downsample_pyramid(tmp_path / "a", tmp_path / "q.zarr", chunks={"t": 4})
    assert not (tmp_path / "q.zarr").exists()
