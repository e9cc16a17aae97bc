"""A small hierarchy with everything in it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

import chunkwise as cw

FORMATS = ("zarr3", "zarr2", "n5")
RAW = np.arange(35 * 20, dtype="u2").reshape(35, 20)


def make_tree(path: Path, format: str) -> cw.Group:
    """Groups, arrays, attributes, links; nothing that another format can't hold."""
    group = cw.open_group(path, "w", format=format, attributes={"title": "tree", "list": [1, {"a": 2}]})
    group.create_array("raw/s0", RAW, chunks=(10, 10), codec="gzip:3", dimension_names=["y", "x"])
    group["raw/s0"].attrs["unit"] = "nm"
    group.create_array("raw/s1", RAW[::2, ::2], chunks=(10, 10), dimension_units=["4 nm", "8 nm"])
    group.create_array("float", np.array([1.5, np.nan, -np.inf]), chunks=(2,))
    group.create_group("empty", attributes={"k": "v"})
    group.create_link("latest", "/raw/s0")
    return group


def files(path: Path) -> dict[str, Any]:
    """Return the bytes of all files below `path`."""
    return {str(f.relative_to(path)): f.read_bytes() for f in sorted(path.rglob("*")) if f.is_file()}
