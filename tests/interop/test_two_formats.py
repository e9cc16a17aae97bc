"""Documents of two formats side by side."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

import chunkwise as ts


def _both(path: Path) -> None:
    ts.create_array(path, np.array([2]), format="zarr2")
    document = (path / ".zarray").read_bytes()
    (path / ".zarray").unlink()
    ts.create_array(path, np.array([3]), format="zarr3")
    (path / ".zarray").write_bytes(document)


def test_zarr3_is_read_with_a_note(tmp_path: Path) -> None:
    """By `open` as by everything else, and by name the other."""
    _both(tmp_path / "a")
    with pytest.warns(UserWarning, match="of Zarr v2 and of Zarr v3"):
        assert ts.open(str(tmp_path / "a")).result().read().result() == [3]
    assert ts.open(f"{tmp_path}/a|zarr2:").result().read().result() == [2]
    assert [report.format for report in ts.verify(tmp_path / "a")] == ["zarr3"]


def test_others_are_ambiguous(tmp_path: Path) -> None:
    """The error says how to name one."""
    _both(tmp_path / "a")
    document = {"dimensions": [1], "blockSize": [1], "dataType": "uint8", "compression": {"type": "raw"}}
    (tmp_path / "a/attributes.json").write_text(json.dumps(document))
    with pytest.raises(ValueError, match=r'Multiple possible formats.*"\|n5:"'):
        ts.open(str(tmp_path / "a")).result()
