"""A downsampled array is reduced from what was read: never from memory that happens to hold the same."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import chunkwise as cw
from chunkwise.core.engine import downsample


class Poisoned:
    """NumPy, with new arrays that hold what is in no array of these tests."""

    def __getattr__(self, name: str) -> Any:
        return getattr(np, name)

    @staticmethod
    def empty(shape: Any, dtype: Any) -> Any:
        return np.full(shape, 201, dtype)


@pytest.mark.parametrize("method", ["mean", "min", "max", "median", "mode", "stride"])
@pytest.mark.parametrize(
    ("shape", "factors"),
    [((40, 60), (4, 6)), ((2100, 1100), (2100, 1100))],
    ids=["cells of a piece", "a large cell"],
)
def test_every_piece_is_read(monkeypatch: Any, method: str, shape: Any, factors: Any) -> None:
    monkeypatch.setattr(downsample, "np", Poisoned())
    values = (np.arange(np.prod(shape)) % 100).astype("u2").reshape(shape)
    found = cw.downsample(cw.array(values), list(factors), method).read().result()
    cells = values.reshape([n for whole, f in zip(shape, factors, strict=True) for n in (whole // f, f)])
    expected = {
        "mean": cells.mean((1, 3)), "min": cells.min((1, 3)), "max": cells.max((1, 3)),
        "stride": cells[:, 0, :, 0],
    }.get(method)  # fmt: skip
    if expected is None:
        assert found.max() < 100
    else:
        assert np.abs(found - expected).max() <= 0.5
