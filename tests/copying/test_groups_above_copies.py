"""A copy in a group has groups on its way there, and in N5 a container, whatever was in its place."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import chunkwise as cw

VALUES = np.arange(100).reshape(10, 10)
WORK: dict[str, Any] = {
    "array": lambda a, b, **how: cw.copy(a / "in", b, chunks=(5, 5), **how),
    "two passes": lambda a, b, **how: cw.copy(a / "in", b, chunks=(10, 2), memory=1000, **how),
    "tree": lambda a, b, **how: cw.copy_tree(a, b, **how),
}


@pytest.mark.parametrize("before", ["nothing", "array", "array without groups"])
@pytest.mark.parametrize("format", ["zarr3", "zarr2", "n5"])
@pytest.mark.parametrize("kind", WORK)
def test_groups_above_a_copy(kind: str, format: str, before: str, tmp_path: Path) -> None:
    source = tmp_path / "a.zarr"
    cw.create_group(source).create_array("in", VALUES, chunks=(2, 5))
    root = cw.create_group(tmp_path / "root", format=format)
    document = {"zarr3": "zarr.json", "zarr2": ".zgroup", "n5": "attributes.json"}[format]
    groups = [tmp_path / "root" / above / document for above in ("x", "x/y")]
    if before != "nothing":
        root.create_array("x/y/z", VALUES[:3], chunks=(3, 3))
    if before == "array without groups":
        for group in groups:
            group.unlink(missing_ok=True)
    WORK[kind](source, tmp_path / "root/x/y/z", format=format, overwrite=before != "nothing")
    copied = "x/y/z/in" if kind == "tree" else "x/y/z"
    found = [path for path, _ in cw.open_group(tmp_path / "root", format=format).walk()]
    assert sorted(found) == sorted(
        copied[:at] for at in range(len(copied) + 1) if copied[at:][:1] in ("", "/")
    )
    assert (cw.open(str(tmp_path / "root" / copied)).result().read().result() == VALUES).all()
    if format != "n5":  # where each directory is a group
        assert all(group.exists() for group in groups)


@pytest.mark.parametrize("before", ["nothing", "container", "array"])
@pytest.mark.parametrize("kind", WORK)
def test_a_copy_to_n5_makes_a_container(kind: str, before: str, tmp_path: Path) -> None:
    source, target = tmp_path / "a.zarr", tmp_path / "b.n5"
    cw.create_group(source).create_array("in", VALUES, chunks=(2, 5))
    if before == "container":
        cw.create_group(target)
    elif before == "array":
        cw.create_array(target, VALUES[:3], chunks=(3, 3))
    WORK[kind](source, target, overwrite=before != "nothing")
    assert '"n5"' in (target / "attributes.json").read_text()
