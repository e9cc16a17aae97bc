"""Consolidated metadata of groups inside a tree that is consolidated as a whole."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import chunkwise
from chunkwise.core.trees.consolidated_tree import check_consolidated
from chunkwise.core.trees.node import require_node


def _outdate(path: Path, format: str) -> None:
    """Make a tree in which a group deep inside has copies of attributes that are no more."""
    group = chunkwise.create_group(path, format=format)
    group.create_array("a/b/x", [1, 2])
    chunkwise.open_group(path / "a", "r+").consolidate()
    key = "a/b/x/zarr.json" if format == "zarr3" else "a/b/x/.zattrs"
    file = path / key
    document: dict[str, Any] = json.loads(file.read_text()) if file.exists() else {}
    changed = {"new": True}
    file.write_text(json.dumps({**document, "attributes": changed} if format == "zarr3" else changed))


@pytest.mark.parametrize("format", ["zarr3", "zarr2"])
def test_consolidating_the_root_renews_the_copies_of_groups_below(format: str, tmp_path: Path) -> None:
    _outdate(tmp_path / "t.zarr", format)
    group = chunkwise.open_group(tmp_path / "t.zarr", "r+")
    inside = chunkwise.open_group(tmp_path / "t.zarr" / "a", consolidated=True)
    assert not dict(inside["b/x"].attrs)
    problems = check_consolidated(require_node(group.location), below=True)
    assert problems and all(problem.startswith("a: ") for problem in problems)
    group.consolidate()
    assert check_consolidated(require_node(group.location), below=True) == []
    for path, name in (("t.zarr", "a/b/x"), ("t.zarr/a", "b/x")):
        found = chunkwise.open_group(tmp_path / path, consolidated=True)
        assert dict(found[name].attrs) == {"new": True}
    with pytest.raises(chunkwise.errors.NotFoundError):  # a group that had none gets none
        chunkwise.open_group(tmp_path / "t.zarr/a/b", consolidated=True)
