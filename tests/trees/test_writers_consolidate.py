"""Every writer keeps the consolidated metadata above what it writes true."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import xarray as xr
import zarr

import chunkwise as cw
from chunkwise.cli.main import main
from chunkwise.core.trees.consolidated_tree import check_consolidated
from chunkwise.core.trees.node import require_node
from chunkwise.xarray import write_dataset, write_datatree

FORMATS = {"zarr3": 3, "zarr2": 2}
VALUES = np.arange(64 * 64, dtype="u2").reshape(64, 64)
DATASET = xr.Dataset({"t": ("x", np.arange(6.0), {"units": "m"})}, coords={"x": np.arange(6)})

Writer = Callable[[Path, Path, str], object]
"""Writes to a path in a consolidated tree, or nothing; gets a folder with sources, and a format."""


def cp(*arguments: object) -> None:
    """Run ``chunkwise cp``."""
    assert main(["cp", *map(str, arguments), "--quiet"]) in (0, 3)


def in_parts(*arguments: object) -> None:
    """Run ``chunkwise cp`` in two parts."""
    for part in ("1/2", "2/2"):
        cp(*arguments, "--part", part)


def replaced(write: Writer) -> Writer:
    """Return a writer that copies over what another has written."""

    def over(to: Path, sources: Path, format: str) -> None:
        write(to, sources, format)
        cp("-r", sources / "tree.zarr", to, "--format", format, "--overwrite", "--codec", "zstd:1")

    return over


def spec_of(to: Path, format: str) -> dict[str, Any]:
    """Return the spec of a new array, as TensorStore's programs give it."""
    store = {"driver": "file", "path": str(to)}
    return {"driver": {"zarr3": "zarr3", "zarr2": "zarr"}[format], "kvstore": store}


WRITERS: dict[str, Writer] = {
    "create_array": lambda to, _, format: cw.create_array(to, VALUES, format=format, attributes={"a": 1}),
    "create_array over an array": lambda to, _, format: [
        cw.create_array(to, VALUES[:n], format=format, overwrite=True) for n in (8, 16)
    ],
    "create_group": lambda to, _, format: cw.create_group(to, format=format, attributes={"a": 1}),
    "open_group": lambda to, _, format: cw.open_group(to, "a", format=format).attrs.update({"b": 1}),
    "open": lambda to, _, format: (
        cw.open(spec_of(to, format), create=True, dtype=cw.uint16, shape=[8])
        .result()
        .resize(exclusive_max=[9])
        .result()
    ),
    "copy": lambda to, sources, format: cw.copy(sources / "array.n5", to, format=format),
    "copy over a copy": lambda to, sources, format: [
        cw.copy(sources / name, to, format=format, overwrite=True) for name in ("array.n5", "image.zarr/0")
    ],
    "cp of an array in parts": lambda to, sources, format: in_parts(
        sources / "array.n5", to, "--format", format
    ),
    "copy_tree": lambda to, sources, format: cw.copy_tree(sources / "tree.zarr", to, format=format),
    "copy_tree over an array": lambda to, sources, format: (
        cw.create_array(to, VALUES, format=format),
        cw.copy_tree(sources / "tree.zarr", to, format=format, overwrite=True),
    ),
    "copy_tree of what is there": lambda to, sources, format: [
        cw.copy_tree(sources / "tree.zarr", to, format=format, resume=True) for _ in range(2)
    ],
    "cp -r in parts": lambda to, sources, format: in_parts(
        "-r", sources / "tree.zarr", to, "--format", format
    ),
    "cp -r of an image": lambda to, sources, format: cp("-r", sources / "image.n5", to, "--format", format),
    "cp -r over an image": replaced(
        lambda to, sources, format: cp("-r", sources / "image.n5", to, "--format", format)
    ),
    "cp -r over a tree": replaced(
        lambda to, sources, format: cp("-r", sources / "tree.zarr", to, "--format", format)
    ),
    "downsample_pyramid": lambda to, sources, format: cw.downsample_pyramid(
        sources / "image.zarr/0",
        to,
        levels=1,
        convention={"zarr3": "ome-ngff-0.5", "zarr2": "ome-ngff-0.4"}[format],
    ).result(),
    "write_dataset": lambda to, _, format: write_dataset(DATASET, to, format=format),
    "write_dataset, appended": lambda to, _, format: (
        write_dataset(DATASET, to, format=format),
        write_dataset(DATASET, to, mode="a", append_dim="x"),
    ),
    "write_datatree": lambda to, _, format: write_datatree(
        xr.DataTree.from_dict({"/": DATASET, "/below": DATASET}), to, format=format
    ),
    "mv": lambda to, _, format: (
        cw.create_array(to.parent / "old", VALUES, format=format),
        main(["mv", str(to.parent / "old"), str(to)]),
    ),
    "rm": lambda to, _, format: (
        cw.create_array(to, VALUES, format=format),
        main(["rm", str(to)]),
    ),
    "attrs": lambda to, _, format: (
        cw.create_group(to, format=format),
        main(["attrs", str(to), "set", "new", "1"]),
    ),
}


@pytest.mark.parametrize("format", FORMATS)
@pytest.mark.parametrize("writer", WRITERS)
def test_consolidated_metadata_is_true(writer: str, format: str, sources: Path, tmp_path: Path) -> None:
    root = tmp_path / "root.zarr"
    group = cw.create_group(root, format=format, attributes={"top": 1})
    group.create_group("above")
    group.consolidate()
    WRITERS[writer](root / "above/new", sources, format)
    node = require_node(cw.open_group(root).location)
    assert check_consolidated(node, below=True) == []
    found = zarr.open_consolidated(str(root), zarr_format=FORMATS[format], mode="r")
    assert ("above/new" in found) == (writer != "rm")


@pytest.fixture(scope="module")
def sources(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with an array, a tree and an image."""
    at = tmp_path_factory.mktemp("sources")
    array = cw.create_array(at / "array.n5", VALUES, chunks=(16, 16), format="n5", dimension_names=["x", "y"])
    tree = cw.create_group(at / "tree.zarr", format="zarr3", attributes={"a": 1})
    tree.create_array("deep/er/x", VALUES, attributes={"b": 2})
    tree.create_group("g")
    for name, how in (("image.zarr", {}), ("image.n5", {"convention": "n5-viewer"})):
        cw.downsample_pyramid(array, at / name, levels=1, units=["1 um"] * 2, **how).result()
    return at
