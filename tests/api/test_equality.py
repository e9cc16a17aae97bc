"""Arrays compare by identity with each other; a comparison of elements is refused until they are read."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import numpy as np
import pytest

import chunkwise as cw


@dataclass
class Sample:
    data: cw.TensorStore


def test_arrays_compare_by_identity(tmp_path: Path) -> None:
    group = cw.create_group(tmp_path / "g")
    made = group.create_array("a", np.arange(3))
    arrays: list[Any] = [
        cw.array([1, 2]),
        cw.array([1, 2]),
        made,
        group["a"],
        made[:2],
        cw.cast(made, "float32"),
    ]
    for i, one in enumerate(arrays):
        assert arrays.index(one) == i
        assert one in arrays[i:] and one not in arrays[i + 1 :]
        assert [one == other for other in arrays] == [i == k for k in range(len(arrays))]
        assert [one != other for other in arrays] == [i != k for k in range(len(arrays))]
        assert Sample(one) == Sample(one)
        assert Sample(one) != Sample(arrays[i - 1])
        mock = Mock()
        mock(one)
        mock.assert_called_once_with(one)
        assert {one: 1}[one] == 1
        assert one != None  # noqa: E711
        assert one != "x"
        for other in (5, 2.5, [1, 2], (1, 2)):
            with pytest.raises(TypeError, match=r"read\(\)"):
                one == other  # noqa: B015
            with pytest.raises(TypeError, match=r"read\(\)"):
                other == one  # noqa: B015
