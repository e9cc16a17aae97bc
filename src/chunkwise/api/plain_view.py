"""The elements of a view of a stored array, read the plain way (:mod:`chunkwise.engine.plain_read`)."""

from __future__ import annotations

from typing import Any

import numpy.typing as npt

from chunkwise.api.tensorstore import TensorStore
from chunkwise.arrays.chunked import ChunkedArray
from chunkwise.engine.plain_read import PlainReader
from chunkwise.index_space import IndexTransform, OutputIndexMap, OutputIndexMethod
from chunkwise.plan.ndarray_view import strided_view

__all__ = ["read_plainly"]


def read_plainly(view: TensorStore) -> npt.NDArray[Any]:
    """Return the elements of `view`, which is of slices.

    Of an array that is made of others there are no chunks to be read one by one; it is read as ever.
    """
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
