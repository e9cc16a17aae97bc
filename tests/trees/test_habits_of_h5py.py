"""Groups take the calls of h5py: what both make has the same values."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest

import chunkwise as ts
from chunkwise.errors import InvalidArgumentError


@pytest.mark.parametrize("format", ["zarr2", "zarr3", "n5"])
def test_calls_of_h5py(format: Any, tmp_path: Path) -> None:
    """One program, with a file of h5py and a group of ours."""
    seen = []
    with h5py.File(tmp_path / "a.h5", "w") as file:
        for tree in (file, ts.open_group(tmp_path / "a", mode="w", format=format)):
            tree.create_dataset("a/b", (6, 4), "f4", chunks=(3, 4), compression="gzip", compression_opts=4)
            tree["a/b"][2:4] = 1.5
            tree.create_dataset("c", data=np.arange(5), chunks=True)
            tree.require_dataset("c", (5,), "i8")[1] = 7
            tree.require_dataset("d", (2,), "u1")[0] = 3
            names: list[str] = []
            tree.visititems(lambda name, _, names=names: names.append(name))
            assert "a/b" in tree and "x" not in tree
            seen.append(
                (sorted(names), *(np.asarray(tree[name][...]).tolist() for name in ("a/b", "c", "d")))
            )
            with pytest.raises((InvalidArgumentError, TypeError)):
                tree.require_dataset("c", (6,), "i8")
    assert seen[0] == seen[1]


def test_a_wrong_parameter_is_told(tmp_path: Path) -> None:
    group = ts.open_group(tmp_path / "a", mode="w", format="zarr3")
    with pytest.raises(InvalidArgumentError, match="chunks: expected a size"):
        group.create_dataset("a", (4,), "i4", chunks="x")
    with pytest.raises(InvalidArgumentError, match="compression_opts: expected a compression"):
        group.create_dataset("a", (4,), "i4", compression_opts=4)
    assert list(group) == []
