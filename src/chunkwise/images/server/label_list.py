"""The labels of an image as a list: how large each one is, and a place in it."""

from __future__ import annotations

from collections.abc import Sequence
from math import ceil, prod
from typing import NamedTuple

import numpy as np

from chunkwise.errors import InvalidArgumentError, UnsupportedError
from chunkwise.extension import JSON
from chunkwise.images.multiscale.sampling import Bounds, box_nbytes, read_box
from chunkwise.images.server.image import ServedImage, shown_dims

__all__ = ["LabelList", "find_labels"]

_MOST_READ = 1 << 22  # elements
_MOST_LISTED = 1000


class LabelList(NamedTuple):
    """The labels at a position of dimensions that aren't space, before they are read."""

    image: ServedImage
    level: int
    bounds: Bounds
    steps: tuple[int, ...]
    wanted: str  # the only label that is looked for; "" for all

    @property
    def nbytes(self) -> int:
        """Memory that it takes."""
        size = prod(ceil((hi - lo) / step) for (lo, hi), step in zip(self.bounds, self.steps, strict=True))
        return box_nbytes(self.image.levels[self.level].view, self.bounds, self.steps) + 40 * size

    def read(self) -> dict[str, JSON]:
        """Return labels as texts, the largest first, each with its part of the elements and a place in it."""
        values, _ = read_box(self.image.levels[self.level].view, self.bounds, self.steps)
        flat = values.reshape(-1)
        order = np.argsort(flat, kind="stable")
        labels, starts, counts = np.unique(flat[order], return_index=True, return_counts=True)
        middles = order[starts + counts // 2]  # an element of the label itself, about in its middle
        rows: list[JSON] = []
        by_size = [n for n in np.argsort(-counts, kind="stable").tolist() if labels[n] != 0]
        chosen = [n for n in by_size if not self.wanted or str(int(labels[n])) == self.wanted]
        for n in chosen[:_MOST_LISTED]:
            place = np.unravel_index(int(middles[n]), values.shape)
            row: list[JSON] = [
                str(int(labels[n])),
                counts[n] / flat.size,
                [self._full(*one) for one in enumerate(place)],
            ]
            rows.append(row)
        return {"labels": rows, "count": len(by_size), "sampled": self.level > 0 or max(self.steps) > 1}

    def _full(self, dim: int, index: np.intp) -> int:
        """Return the element of full resolution in the middle of one that was read."""
        image, at = self.image, self.bounds[dim][0] + int(index) * self.steps[dim]
        place = image.translations[self.level][dim] + at * image.scales[self.level][dim]
        full = round((place - image.translations[0][dim]) / image.scales[0][dim])
        return min(max(full, 0), image.levels[0].view.shape[dim] - 1)


def find_labels(image: ServedImage, at: Sequence[int], wanted: str = "") -> LabelList:
    """Return how the labels of an image are listed: from the finest level that is read quickly.

    Raises
    ------
    InvalidArgumentError
        If `at` isn't an index into full resolution, or `wanted` isn't a whole number.
    UnsupportedError
        If the elements aren't integers.
    """
    full = image.levels[0].view
    if full.dtype.memory_dtype.kind not in "iub":
        raise UnsupportedError(f"a list of labels needs integers, not {full.dtype.name}")
    if len(at) != full.rank or any(not 0 <= i < n for i, n in zip(at, full.shape, strict=True)):
        raise InvalidArgumentError(f"at: {tuple(at)} is outside of {tuple(full.shape)}")
    if wanted and not wanted.removeprefix("-").isdecimal():
        raise InvalidArgumentError(f"find: expected the number of a label, not {wanted!r}")
    dims = [dim for dim in shown_dims(image)[0] if dim is not None]
    sizes = [prod(level.view.shape[dim] for dim in dims) for level in image.levels]
    level = next((n for n, size in enumerate(sizes) if size <= _MOST_READ), len(sizes) - 1)
    shape = image.levels[level].view.shape
    step = max(1, ceil((sizes[level] / _MOST_READ) ** (1 / max(len(dims), 1))))
    bounds = tuple(
        (0, n) if dim in dims else (i := min(at[dim] * n // full.shape[dim], n - 1), i + 1)
        for dim, n in enumerate(shape)
    )
    return LabelList(
        image, level, bounds, tuple(step if dim in dims else 1 for dim in range(full.rank)), wanted
    )
