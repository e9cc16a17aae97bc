"""A pyramid of an image of any convention in a volume loses nothing of it but what it names."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import chunkwise as cw

VALUES = np.arange(8 * 8 * 8, dtype="uint8").reshape(8, 8, 8) // 64


@pytest.mark.parametrize("convention", ["ome-ngff-0.5", "ome-ngff-0.4", "n5-viewer", "cosem", "precomputed"])
def test_no_member_of_a_convention_counts_as_lost(tmp_path: Path, convention: str) -> None:
    source = tmp_path / ("i.n5" if convention in ("n5-viewer", "cosem") else "i")
    made = "ome-ngff-0.5" if convention == "precomputed" else convention
    given = {"axes": ["z", "y", "x"], "units": ["4 nm"] * 3, "levels": 1, "labels": True, "sync": False}
    cw.downsample_pyramid(cw.array(VALUES), source, convention=made, **given).result()  # type: ignore[arg-type]
    if convention == "precomputed":
        source = f"{tmp_path}/v|neuroglancer-precomputed:"  # type: ignore[assignment]
        cw.copy_tree(tmp_path / "i", source)
        source = tmp_path / "v"
    made_of = cw.downsample_pyramid(source, f"{tmp_path}/o|neuroglancer-precomputed:", levels=1).result()
    assert made_of.left_out == ()
    image = cw.open_multiscale(tmp_path / "o")
    assert isinstance(image, cw.MultiscaleImage) and image.is_labels
    assert image.scales[0][:3] == (4, 4, 4)
