"""Content of the page beside slices: a volume small enough to be projected, and values along a line."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from chunkwise import TensorStore
from chunkwise.errors import ChunkwiseError, InvalidArgumentError, UnsupportedError
from chunkwise.extension import JSON
from chunkwise.images.multiscale.grey import to_real
from chunkwise.images.multiscale.sampling import read_box
from chunkwise.images.server.image import ServedImage, shown_dims
from chunkwise.images.server.tiles import for_browsers

__all__ = ["Line", "Volume", "find_line", "find_series", "find_volume"]

_MOST_VOXELS = 1 << 21  # that a browser draws
_MOST_READ = 1 << 24  # elements, for a projection
_MOST_POINTS = 2048
_MOST_LINES = 16


class Volume(NamedTuple):
    """A volume through an image, before it is read."""

    view: TensorStore  # of three dimensions
    order: tuple[int, ...]  # z, y, x
    factors: tuple[int, ...]  # elements for a voxel, along z, y, x
    level: int
    is_labels: bool

    def read(self) -> npt.NDArray[Any]:
        """Return voxels (z, y, x): the largest of their elements that are numbers; of labels the first.

        Voxels that can't be read are 0.
        """
        values = read_box(self.view, tuple((0, n) for n in self.view.shape), [1] * 3)[0].transpose(self.order)
        if self.is_labels:
            return for_browsers(values[tuple(slice(None, None, f) for f in self.factors)])
        values = to_real(values)
        for dim, factor in enumerate(self.factors):
            if factor > 1:
                values = np.fmax.reduceat(values, np.arange(0, values.shape[dim], factor), dim)
        return for_browsers(values)


def find_volume(image: ServedImage, at: Sequence[int]) -> Volume:
    """Return the finest level that is small enough to be drawn whole, or else the coarsest, made smaller.

    Raises
    ------
    UnsupportedError
        If the image is no volume, or all of its levels are so large that reading one takes long.
    InvalidArgumentError
        If `at` isn't an index into full resolution.
    """
    (x, y, z), _, _ = shown_dims(image)
    if x is None or y is None or z is None:
        raise UnsupportedError("a projection needs three dimensions of space")
    shape = image.levels[0].view.shape
    if len(at) != len(shape) or any(not 0 <= i < n for i, n in zip(at, shape, strict=True)):
        raise InvalidArgumentError(f"at: {tuple(at)} is outside of {tuple(shape)}")
    sizes = [prod(level.view.shape[dim] for dim in (x, y, z)) for level in image.levels]
    last = len(sizes) - 1
    number = next((n for n, size in enumerate(sizes) if size <= _MOST_VOXELS), last)
    if sizes[number] > _MOST_READ:
        raise UnsupportedError(
            f"no level is small enough to be projected: the smallest has {sizes[number]:,} elements, "
            f"of at most {_MOST_READ:,}; `chunkwise pyramid` makes smaller ones"
        )
    view = image.levels[number].view
    region: list[int | slice] = []
    for dim, (index, n) in enumerate(zip(at, view.shape, strict=True)):
        region.append(slice(None) if dim in (x, y, z) else min(index * n // shape[dim], n - 1))
    order = tuple(sorted((x, y, z)).index(dim) for dim in (z, y, x))
    lengths = [view.shape[dim] for dim in (z, y, x)]
    factors = [1, 1, 1]
    while prod(small := [-(-n // f) for n, f in zip(lengths, factors, strict=True)]) > _MOST_VOXELS:
        factors[small.index(max(small))] += 1
    return Volume(view[tuple(region)], order, tuple(factors), number, image.is_labels)


class Line(NamedTuple):
    """Elements on a line through a plane, before they are read."""

    view: TensorStore  # of one dimension

    def read(self) -> list[JSON]:
        """Return the values; None where a value isn't a number, or can't be read."""
        try:
            values = to_real(self.view.read().result())
        except UnsupportedError:
            raise
        except ChunkwiseError:
            if self.view.size == 1:
                return [None]
            view, middle = self.view.translate_to[0], self.view.size // 2
            return Line(view[:middle]).read() + Line(view[middle:]).read()
        return [n if np.isfinite(n) else None for n in values.tolist()]


def find_line(
    view: TensorStore, dims: tuple[int | None, int | None], at: Sequence[int], ends: Sequence[int]
) -> Line:
    """Return the elements nearest to a line from one row and column to another, both included.

    Raises
    ------
    InvalidArgumentError
        If there is no such line in the array.
    """
    (r0, c0, r1, c1), (down, across) = ends, dims
    n = min(max(abs(r1 - r0), abs(c1 - c0)) + 1, _MOST_POINTS)
    index: list[Any] = list(at)
    bounds: list[tuple[int, int]] = [(i, i) for i in at]
    if len(index) != view.rank or down == across:
        raise InvalidArgumentError(f"at, dims: expected {view.rank} numbers and two dimensions")
    for dim, first, last in ((down, r0, r1), (across, c0, c1)):
        if dim is not None and not 0 <= dim < view.rank:
            raise InvalidArgumentError(f"dims: there is no dimension {dim}")
        if dim is not None:
            index[dim] = np.rint(np.linspace(first, last, n)).astype(np.int64)
            bounds[dim] = (min(first, last), max(first, last))
    if any(low < 0 or high >= size for (low, high), size in zip(bounds, view.shape, strict=True)):
        raise InvalidArgumentError(f"line: {tuple(ends)} at {tuple(at)} is outside of {tuple(view.shape)}")
    return Line(view.vindex[tuple(index)])


def find_series(
    view: TensorStore,
    along: int | None,
    lines: int | None,
    at: Sequence[int],
    bounds: tuple[int, int],
    n: int,
) -> TensorStore:
    """Return a range along a dimension as rows, with the lines along another as columns.

    Raises
    ------
    InvalidArgumentError
        If there is no such range, or it has fewer than `n` elements.
    """
    if (
        along is None
        or along == lines
        or any(dim is not None and not 0 <= dim < view.rank for dim in (along, lines))
    ):
        raise InvalidArgumentError(f"dims: expected one or two dimensions of {view.rank}")
    if len(at) != view.rank or any(not 0 <= i < size for i, size in zip(at, view.shape, strict=True)):
        raise InvalidArgumentError(f"at: {tuple(at)} is outside of {tuple(view.shape)}")
    start, stop = bounds
    if not 0 <= start < stop <= view.shape[along] or not 1 <= n <= min(stop - start, _MOST_POINTS * 4):
        raise InvalidArgumentError(
            f"range: expected a part of {view.shape[along]} in {n} parts, not {start} to {stop}"
        )
    index = [
        slice(None) if dim == lines else slice(start, stop) if dim == along else i for dim, i in enumerate(at)
    ]
    part = view[tuple(index)]
    if lines is None:
        return part.translate_to[0][:, None]
    return (part if along < lines else part.transpose([1, 0])).translate_to[0, 0][
        :, : min(_MOST_LINES, view.shape[lines])
    ]
