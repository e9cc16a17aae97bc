"""Comparison of a copy with its source, bit for bit, reading both one plain chunk after the other."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from chunkwise.api.tensorstore import TensorStore
from chunkwise.arrays.chunked import ChunkedArray
from chunkwise.dtypes.fill_value import same_object
from chunkwise.errors import DataCorruptionError
from chunkwise.index_space import IndexDomain, IndexTransform, OutputIndexMap, OutputIndexMethod
from chunkwise.plan.ndarray_view import strided_view
from chunkwise.tools.plain_read import PlainReader

__all__ = ["compare", "read_plainly"]


def compare(wanted: npt.NDArray[Any], found: npt.NDArray[Any], block: IndexDomain) -> None:
    """Raise DataCorruptionError unless two arrays over the domain `block` are the same bits."""
    different = _different(wanted, found)
    if not different.any():
        return
    first = np.unravel_index(int(np.argmax(different)), different.shape)
    at = [int(i) + lo for i, lo in zip(first, block.inclusive_min, strict=True)]
    raise DataCorruptionError(
        f"the copy differs from the source at {at}: {found[first]!r} instead of {wanted[first]!r} "
        f"({int(different.sum())} of {different.size} elements of the block {block} differ)"
    )


def _different(a: npt.NDArray[Any], b: npt.NDArray[Any]) -> npt.NDArray[np.bool_]:
    if a.dtype.hasobject:
        pairs = zip(a.ravel().tolist(), b.ravel().tolist(), strict=True)
        return np.array([not same_object(x, y) for x, y in pairs], bool).reshape(a.shape)
    if a.dtype.itemsize == 0:
        return np.asarray(a != b, bool).reshape(a.shape)
    bits = [np.ascontiguousarray(x).reshape(-1).view(np.uint8).reshape(a.size, -1) for x in (a, b)]
    return np.asarray((bits[0] != bits[1]).any(axis=1)).reshape(a.shape)


def read_plainly(view: TensorStore) -> npt.NDArray[Any]:
    """Return the elements of `view`, which is of slices."""
    # An array that is made of others has no chunks that could be read one by one.
    array = view._array
    if not isinstance(array, ChunkedArray):
        return view.read().result()
    transform = array.bounded(view._transform)
    low, shape = transform.input_inclusive_min, transform.input_shape
    start, stop, shifted = [], [], []
    for m in transform.output:
        assert m.method != OutputIndexMethod.array, "a view of slices"
        first = last = m.offset
        if m.input_dimension is not None and m.stride is not None:
            lowest, n = low[m.input_dimension], shape[m.input_dimension]
            first, last = sorted(m.offset + m.stride * i for i in (lowest, lowest + n - 1))
        start.append(first)
        stop.append(max(first, last + 1))
        shifted.append(_shifted(m, first))
    box = PlainReader(array.stored, array.store).read(start, stop, fill_missing=array.fill_missing)
    inside = IndexTransform(input_inclusive_min=low, input_shape=shape, output=shifted)
    found = strided_view(box, inside)
    assert found is not None, "there are no index arrays"
    return found


def _shifted(m: OutputIndexMap, by: int) -> OutputIndexMap:
    """Return `m` for an array that begins at `by`."""
    if m.stride is None or m.input_dimension is None:
        return OutputIndexMap(offset=m.offset - by)
    return OutputIndexMap(offset=m.offset - by, stride=m.stride, input_dimension=m.input_dimension)
