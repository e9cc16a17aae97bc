"""Indices as z5py takes them: integers, slices without steps, and one ellipsis."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from chunkwise.errors import OutOfBoundsError
from chunkwise.extension.inside import positions

__all__ = ["IndexOutOfRangeError", "Region", "check_region", "fit", "parse_index", "parse_slices"]


class IndexOutOfRangeError(ValueError, IndexError):
    """An integer outside of the dataset: ValueError for z5py's users, IndexError for loops over a dataset."""


class Region(NamedTuple):
    """A box of elements."""

    start: tuple[int, ...]
    shape: tuple[int, ...]
    squeezed: tuple[int, ...] = ()  # dimensions that an integer selects from

    @property
    def slices(self) -> tuple[slice, ...]:
        """The box as an index."""
        return tuple(slice(a, a + n) for a, n in zip(self.start, self.shape, strict=True))

    @property
    def result_shape(self) -> tuple[int, ...]:
        """Shape without the dimensions that an integer selects from."""
        return tuple(n for dim, n in enumerate(self.shape) if dim not in self.squeezed)


def parse_index(index: Any, shape: Sequence[int]) -> Region:
    """Return the region that an index selects.

    >>> parse_index((2, slice(-3, None)), (4, 10))
    Region(start=(2, 7), shape=(1, 3), squeezed=(0,))
    """
    terms = index if isinstance(index, tuple) else (index,)
    n_ellipses = sum(term is Ellipsis for term in terms)
    if n_ellipses > 1:
        raise ValueError("only one ellipsis may be used")
    if len(terms) - n_ellipses > len(shape):
        raise TypeError(f"{len(terms) - n_ellipses} indices for {len(shape)} dimensions")
    # z5py knows fewer kinds of terms than NumPy, and has its own exceptions; those it knows mean the same.
    for term in terms:
        if isinstance(term, slice):
            if term.step not in (None, 1):
                raise ValueError(f"slices with steps are not supported, got {term}")
        elif term is not Ellipsis and (isinstance(term, bool) or not isinstance(term, int | np.integer)):
            raise TypeError(
                "only integers, slices (`:`) and an ellipsis (`...`) are valid indices, "
                f"not {type(term).__name__}"
            )
    try:
        found: Sequence[Any] = positions(terms, shape)
    except OutOfBoundsError as e:
        raise IndexOutOfRangeError(str(e)) from None
    starts = tuple(part.start if isinstance(part, range) else part for part in found)
    sizes = tuple(len(part) if isinstance(part, range) else 1 for part in found)
    return Region(starts, sizes, tuple(dim for dim, part in enumerate(found) if not isinstance(part, range)))


def parse_slices(selection: Any, shape: Sequence[int]) -> Region:
    """Return the region that slices, one for each dimension, select; by default all."""
    if selection is None:
        return Region((0,) * len(shape), tuple(shape))
    slices = (selection,) if isinstance(selection, slice) else tuple(selection)
    if len(slices) != len(shape) or not all(isinstance(part, slice) for part in slices):
        raise TypeError(f"expected a slice for each of {len(shape)} dimensions, got {selection!r}")
    for dim, (part, size) in enumerate(zip(slices, shape, strict=True)):
        if part.stop is not None and part.stop > size:
            raise RuntimeError(f"{part} is out of range: dimension {dim} has {size} elements")
    return parse_index(slices, shape)


def check_region(start: Sequence[int], shape: Sequence[int], bounds: Sequence[int]) -> Region:
    """Return a region; raise RuntimeError if it is empty or outside of `bounds`."""
    region = Region(tuple(map(operator.index, start)), tuple(map(operator.index, shape)))
    if not len(region.start) == len(region.shape) == len(bounds):
        raise RuntimeError(f"the region doesn't have the {len(bounds)} dimensions of the dataset")
    if any(n < 0 for n in region.shape):
        raise ValueError(f"the region begins after its end: its shape would be {region.shape}")
    if 0 in region.shape:
        raise RuntimeError(f"the region is empty: its shape is {region.shape}")
    for dim, (a, n, bound) in enumerate(zip(region.start, region.shape, bounds, strict=True)):
        if a < 0 or a + n > bound:
            raise RuntimeError(f"the region {a}:{a + n} is out of range (0:{bound}) in dimension {dim}")
    return region


def fit(values: npt.NDArray[Any], region: Region) -> npt.NDArray[Any]:
    """Return `values` in the shape of the region; leading dimensions of size 1 don't count."""
    if values.ndim == 0:
        return np.broadcast_to(values, region.shape)
    shapes = (region.shape, region.result_shape)
    if values.shape in shapes or _trimmed(values.shape) in map(_trimmed, shapes):
        return values.reshape(region.shape)
    raise ValueError(f"values of shape {values.shape} don't fit a region of shape {region.result_shape}")


def _trimmed(shape: tuple[int, ...]) -> tuple[int, ...]:
    first = next((dim for dim, n in enumerate(shape) if n != 1), len(shape))
    return shape[first:]
