"""An index transform over an array in memory: a view if there are no index arrays, else a view and points.

1. Dimensions that an index array depends on are *points*. An output that depends on one of them, or on
   nothing, is given by coordinates.
2. Every other output is a slice, reversed for a negative stride.  The rest is therefore a view, whose strides
   are added up if several outputs follow one input (a diagonal).
3. Inputs that nothing depends on are repeated.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from numpy.lib.stride_tricks import as_strided

from chunkwise.core.plan.partition import OutputMap, Transform
from chunkwise.errors import OutOfRangeError

__all__ = ["PointView", "point_view", "strided_view", "with_strides"]

_REGISTERED = 2  # `numpy.dtype.isbuiltin` of types from other libraries


class PointView(NamedTuple):
    """Points in some dimensions of an array, and all indices of the others."""

    view: npt.NDArray[Any]  # first the dimensions that `points` index, then one for each of `rest`
    # index arrays for the first dimensions of `view`; they broadcast to the shape of `inputs`
    points: tuple[npt.NDArray[np.int64], ...]
    inputs: tuple[int, ...]  # input dimensions that the points run over, ascending
    rest: tuple[int, ...]  # input dimensions that the other dimensions of `view` are, ascending
    unused: tuple[int, ...]  # input dimensions that nothing depends on


def strided_view(array: npt.NDArray[Any], transform: Transform) -> npt.NDArray[Any] | None:
    """Return the elements of `array` that `transform` selects, as a view; None if there are index arrays."""
    # The first element has index 0 in every dimension.  Elements repeat, with a stride of 0, along unused
    # dimensions.
    shape, origin = tuple(transform.input_shape), transform.input_inclusive_min
    index: list[slice | int] = []
    dims: list[int] = []
    for m in transform.output:
        if m.index_array is not None:
            return None
        if m.input_dimension is None:
            index.append(m.offset)
            continue
        index.append(_along(m, origin, shape))
        dims.append(m.input_dimension)
    if 0 in shape:  # empty slices have no position
        return np.empty(shape, array.dtype)
    return _arranged(array[(*index, ...)], dims, range(len(shape)), shape)


def point_view(array: npt.NDArray[Any], transform: Transform) -> PointView:
    """Return what a `transform` with index arrays selects from `array`; see `strided_view`."""
    shape, origin = tuple(transform.input_shape), transform.input_inclusive_min
    maps = list(transform.output)
    over = {d for m in maps if m.index_array is not None for d in _varies(m.index_array)}
    inputs = tuple(sorted(over))
    points: list[npt.NDArray[np.int64]] = []
    index: list[Any] = []
    front: list[int] = []
    dims: list[int] = []
    for m in maps:
        if m.index_array is not None or m.input_dimension in over:
            front.append(len(index) - sum(isinstance(i, int) for i in index))
            index.append(slice(None))
            points.append(_points(m, inputs, origin, shape))
        elif m.input_dimension is None:
            index.append(m.offset)
        else:
            index.append(_along(m, origin, shape))
            dims.append(m.input_dimension)
    rest = tuple(sorted(set(dims)))
    unused = tuple(d for d in range(len(shape)) if d not in over and d not in rest)
    view = array[(*index, ...)]
    view = np.moveaxis(view, front, range(len(front)))
    extents = (*view.shape[: len(front)], *[shape[d] for d in rest])
    axes = [*range(-len(front), 0), *rest]
    view = _arranged(view, [*range(-len(front), 0), *dims], axes, extents)
    return PointView(view, tuple(points), inputs, rest, unused)


def _along(m: OutputMap, origin: Sequence[int], shape: Sequence[int]) -> slice:
    """Return the slice that an output map of one input dimension selects; never empty."""
    dim, stride = m.input_dimension, m.stride
    assert dim is not None and stride
    first = m.offset + stride * origin[dim]
    stop = first + stride * (shape[dim] - 1) + (1 if stride > 0 else -1)
    return slice(first, None if stop < 0 else stop, stride)


def _arranged(
    view: npt.NDArray[Any], dims: Sequence[int], axes: Sequence[int], shape: tuple[int, ...]
) -> npt.NDArray[Any]:
    """Return `view`, whose axes follow the input dimensions `dims`, with one axis for each of `axes`."""
    if tuple(dims) == tuple(axes):
        _check(view.shape == shape)
        return view
    strides = dict.fromkeys(axes, 0)
    extents = dict(zip(axes, shape, strict=True))
    for axis, dim in enumerate(dims):
        _check(view.shape[axis] == extents[dim])
        strides[dim] += view.strides[axis]
    return with_strides(view, shape, [strides[d] for d in axes])


def with_strides(array: npt.NDArray[Any], shape: Sequence[int], strides: Sequence[int]) -> npt.NDArray[Any]:
    """Return a view of the memory of `array` with another shape, without checking bounds."""
    # Types of ml_dtypes are viewed as bytes, since as_strided fails for some of them.
    raw = array.view(f"V{array.itemsize}") if array.dtype.isbuiltin == _REGISTERED else array
    return as_strided(raw, shape, strides, writeable=array.flags.writeable).view(array.dtype)


def _check(fits: bool) -> None:
    # Not an assertion: as_strided doesn't check that a view stays inside the array.
    if not fits:
        raise OutOfRangeError("index transform leads out of the array")


def _varies(array: npt.NDArray[Any]) -> list[int]:
    return [d for d, n in enumerate(array.shape) if n != 1]


def _points(
    m: OutputMap, inputs: tuple[int, ...], origin: Sequence[int], shape: Sequence[int]
) -> npt.NDArray[np.int64]:
    """Return the coordinates of an output map, with an axis for each of `inputs`."""
    assert m.stride is not None
    if m.index_array is not None:
        array = m.index_array.reshape([m.index_array.shape[d] for d in inputs])
    else:
        dim = m.input_dimension
        assert dim is not None
        array = np.arange(origin[dim], origin[dim] + shape[dim], dtype=np.int64)
        array = array.reshape([-1 if d == dim else 1 for d in inputs])
    if m.stride == 1 and m.offset == 0:
        return array
    return array * m.stride + m.offset
