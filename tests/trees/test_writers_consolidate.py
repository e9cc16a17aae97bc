"""Every writer keeps the consolidated metadata above what it writes true."""

from __future__ import annotations

import json
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


def bare(to: Path, format: str) -> cw.TensorStore:
    """Make an array, but no groups above it, as TensorStore's programs do."""
    return cw.open(spec_of(to, format), create=True, dtype=cw.uint16, shape=[8]).result()


def in_transaction(to: Path, format: str) -> None:
    """Make an array in a transaction."""
    with cw.Transaction() as transaction:
        cw.open(
            spec_of(to, format), create=True, dtype=cw.uint16, shape=[8], transaction=transaction
        ).result()


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
    **{
        f"open, {depth} directories deeper": lambda to, _, format, depth=depth: bare(
            to / "/".join("abc"[:depth]) / "x", format
        )
        for depth in (1, 3)
    },
    "attrs below directories": lambda to, _, format: (
        bare(to / "a/b/x", format),
        main(["attrs", str(to / "a/b/x"), "set", "new", "1"]),
    ),
    "attrs of a directory": lambda to, _, format: (
        bare(to / "a/b/x", format),
        cw.open_group(to / "a", "r+", format=format).attrs.update({"new": 1}),
    ),
    "copy_tree of directories": lambda to, sources, format: cw.copy_tree(
        sources / "bare.zarr", to, format=format
    ),
    "Group.copy of directories": lambda to, sources, format: cw.open_group(to.parents[1], "r+").copy(
        cw.open_group(sources / "bare.zarr"), "above/new"
    ),
    "mv of directories": lambda to, _, format: (
        bare(to.parent / "old/a/b/x", format),
        main(["mv", str(to.parent / "old"), str(to)]),
    ),
    "rm below directories": lambda to, _, format: (
        bare(to / "a/b/x", format),
        bare(to / "a/c/x", format),
        main(["rm", "-r", str(to / "a/b")]),
    ),
    "over directories": lambda to, sources, format: (
        bare(to / "a/b/x", format),
        cw.copy_tree(sources / "bare.zarr", to / "a", format=format, overwrite=True),
    ),
    "commit of a transaction": lambda to, _, format: in_transaction(to / "a/b/x", format),
}


def check(root: Path, format: str) -> zarr.Group:
    """Compare consolidated metadata with the documents, as chunkwise and zarr-python read them."""
    node = require_node(cw.open_group(root).location)
    assert check_consolidated(node, below=True) == []
    found = zarr.open_consolidated(str(root), zarr_format=FORMATS[format], mode="r")
    plain = zarr.open_group(str(root), zarr_format=FORMATS[format], mode="r", use_consolidated=False)
    members = [{name for name, _ in group.members(max_depth=None)} for group in (found, plain)]
    assert members[0] == members[1] == {name for name, _ in cw.open_group(root).walk()}
    return found


@pytest.mark.each_once
@pytest.mark.parametrize("format", FORMATS)
@pytest.mark.parametrize("writer", WRITERS)
def test_consolidated_metadata_is_true(writer: str, format: str, sources: Path, tmp_path: Path) -> None:
    root = tmp_path / "root.zarr"
    group = cw.create_group(root, format=format, attributes={"top": 1})
    group.create_group("above")
    group.consolidate()
    WRITERS[writer](root / "above/new", sources, format)
    assert ("above/new" in check(root, format)) == (writer != "rm")


def migrated(at: Path) -> None:
    """Convert a tree of Zarr v2 to v3, which has consolidated metadata."""
    (at / ".zmetadata").write_text(
        '{"metadata": {".zgroup": {"zarr_format": 2}}, "zarr_consolidated_format": 1}'
    )
    cw.migrate(at, apply=True)


CONSOLIDATING: dict[str, Callable[[Path], object]] = {
    "consolidate": lambda at: cw.open_group(at, "r+").consolidate(),
    "chunkwise consolidate": lambda at: main(["consolidate", str(at)]),
    "a dataset beside": lambda at: write_dataset(DATASET, at, mode="a", consolidated=True),
    "an array of stale metadata": lambda at: main(["attrs", str(at / "other/x"), "set", "a", "1"]),
    "migrate": migrated,
}
V3_MIGRATED = ("migrate", "zarr3")


@pytest.mark.each_once
@pytest.mark.parametrize("depth", [1, 2, 4])
@pytest.mark.parametrize(
    ("way", "format"),
    [(way, format) for way in CONSOLIDATING for format in FORMATS if (way, format) != V3_MIGRATED],
)
def test_directories_above_nodes_become_groups(way: str, format: str, depth: int, tmp_path: Path) -> None:
    root = tmp_path / "root.zarr"
    cw.create_group(root, format=format, attributes={"top": 1})
    bare(root / "/".join("abcd"[:depth]) / "x", format)
    bare(root / "other/x", format)
    if "stale" in way:
        stale(root, format)
    (root / "empty/below").mkdir(parents=True)
    CONSOLIDATING[way](root)
    found = check(root, "zarr3" if way == "migrate" else format)
    assert {"/".join([*"abcd"[:depth], "x"]), "other/x"} < {name for name, _ in found.members(max_depth=None)}
    assert "empty" not in found


def stale(root: Path, format: str) -> None:
    """Write consolidated metadata that lack the groups above nodes, as earlier versions did."""
    cw.open_group(root, "r+").consolidate()
    file = root / {"zarr3": "zarr.json", "zarr2": ".zmetadata"}[format]
    document = json.loads(file.read_text())
    copies = document["consolidated_metadata" if format == "zarr3" else "metadata"]
    copies = copies["metadata"] if format == "zarr3" else copies
    for group in [path for path, node in cw.open_group(root).walk() if isinstance(node, cw.Group)]:
        for key in ("zarr.json", ".zgroup"):
            (root / group / key).unlink(missing_ok=True)
        for key in (group, f"{group}/.zgroup", f"{group}/.zattrs"):
            copies.pop(key, None)
    file.write_text(json.dumps(document))
    assert check_consolidated(require_node(cw.open_group(root).location))


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
    cw.create_group(at / "bare.zarr", format="zarr3", attributes={"a": 1}).consolidate()
    bare(at / "bare.zarr/q/r/x", "zarr3")
    for directory in ("q", "q/r"):
        (at / "bare.zarr" / directory / "zarr.json").unlink(missing_ok=True)
    return at
