"""A reference to a part of a dataset, among hdmf's builders."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import hdmf.build
import numpy as np
from hdmf.build import DatasetBuilder, ReferenceBuilder

from chunkwise.hdmf.model.region import normalize_region, select_region
from chunkwise.hdmf.model.values import shape_of

__all__ = ["RegionReference"]

# hdmf had such builders until release 4; specs with regions work with those only.
_Base: Any = getattr(hdmf.build, "RegionBuilder", None)


class RegionReference(_Base or ReferenceBuilder):  # type: ignore[misc, unused-ignore]
    """A reference to a region of the dataset of a builder.

    Parameters
    ----------
    region : slice, tuple, list, mask, or mapping
        The selected part; see `chunkwise.hdmf.model.region.normalize_region`.
    builder : DatasetBuilder
        The dataset.

    Raises
    ------
    IndexError
        If the region reaches out of the dataset.
    """

    def __init__(self, region: Any, builder: DatasetBuilder) -> None:
        if _Base is None:
            super().__init__(builder)
        else:
            super().__init__(region if isinstance(region, slice | tuple | list) else slice(None), builder)
        given = isinstance(region, Mapping) and "shape" in region
        self["region"] = dict(region) if given else normalize_region(region, shape_of(builder.data))

    @property
    def region(self) -> dict[str, Any]:
        """Canonical form of the region."""
        return self["region"]  # type: ignore[no-any-return]

    @property
    def selection(self) -> Any:
        """NumPy index of the region; for boxes that are no single index, a list of such."""
        region = self.region
        kind = region["type"]
        if kind == "slices":
            return tuple(slice(*s) for s in region["slices"])
        if kind == "points":
            return (
                tuple(list(axis) for axis in zip(*region["points"], strict=True)) if region["points"] else []
            )
        if kind == "blocks":
            boxes = [tuple(slice(f, t + 1) for f, t in zip(*box, strict=True)) for box in region["blocks"]]
            return boxes[0] if len(boxes) == 1 else boxes
        if kind == "hyperslab" and all(b == 1 for b in region["block"]):
            terms = zip(region["start"], region["stride"], region["count"], strict=True)
            return tuple(slice(a, a + s * (n - 1) + 1 if n else a, s) for a, s, n in terms)
        return Ellipsis if kind == "all" else []

    def data(self) -> Any:
        """Return the selected elements, which are read now.

        Raises
        ------
        IndexError
            If the dataset is too small by now.
        """
        data = self.builder.data
        if not hasattr(data, "shape"):
            data = np.asarray(data)
        return select_region(data, self.region)
