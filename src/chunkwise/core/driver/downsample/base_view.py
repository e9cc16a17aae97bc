"""Views of a downsampled array as views of its base.

A dimension of cells in order becomes the dimension of their elements.  Otherwise the view has a further
dimension for the elements of each cell; at the bounds of the base these are repeated, so that all cells have
the same size.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import numpy.typing as npt

from chunkwise.core.index_space import IndexDomain, IndexTransform, OutputIndexMap, inf

__all__ = ["base_view", "first_elements"]


def base_view(
    transform: IndexTransform, factors: Sequence[int], base: IndexDomain, method: str
) -> IndexTransform:
    """Return the transform to `base` from the elements of the cells that `transform` selects."""
    if method == "stride":
        return first_elements(transform, factors)
    rank = transform.input_rank
    used = [d for m in transform.output for d in _inputs(m)]
    in_place = [
        f == 1 or (m.input_dimension is not None and m.stride == 1 and used.count(m.input_dimension) == 1)
        for m, f in zip(transform.output, factors, strict=True)
    ]
    lower, upper = list(transform.input_inclusive_min), list(transform.input_exclusive_max)
    total = rank + in_place.count(False)
    output = []
    for o, (m, f) in enumerate(zip(transform.output, factors, strict=True)):
        lo, hi, d = base.inclusive_min[o], base.exclusive_max[o], m.input_dimension
        if f == 1:
            output.append(m if m.index_array is None else OutputIndexMap(_indices(m, transform, total)))
        elif in_place[o]:
            assert d is not None
            first = m.offset * f
            lower[d] = lower[d] if lower[d] == -inf else max(lo, first + lower[d] * f) - first
            upper[d] = upper[d] if upper[d] == inf + 1 else min(hi, first + upper[d] * f) - first
            upper[d] = max(lower[d], upper[d])
            output.append(OutputIndexMap(input_dimension=d, offset=first))
        else:
            axis, first_of = len(lower), _indices(m, transform, total) * f
            if first_of.size == 1:
                first = int(first_of.item())
                lower.append(max(0, lo - first))
                upper.append(min(f, hi - first))
                output.append(OutputIndexMap(input_dimension=axis, offset=first))
                continue
            lower.append(0)
            upper.append(f)
            within = np.arange(f).reshape([-1 if i == axis else 1 for i in range(total)])
            output.append(OutputIndexMap((first_of + within).clip(lo, hi - 1)))
    labels = (*transform.input_labels, *[""] * (total - rank))
    return IndexTransform(IndexDomain(inclusive_min=lower, exclusive_max=upper, labels=labels), output)


def _inputs(m: OutputIndexMap) -> Iterator[int]:
    """Yield the input dimensions that a map depends on."""
    if m.input_dimension is not None:
        yield m.input_dimension
    elif m.index_array is not None:
        yield from (d for d, n in enumerate(m.index_array.shape) if n != 1)


def _indices(m: OutputIndexMap, transform: IndexTransform, rank: int) -> npt.NDArray[np.int64]:
    """Return the output indices of a map, as an array of `rank` with the input dimensions first."""
    if m.index_array is not None:
        assert m.stride is not None
        values, shape = m.offset + m.stride * m.index_array, list(m.index_array.shape)
    elif m.input_dimension is not None:
        assert m.stride is not None
        d = m.input_dimension
        along = np.arange(transform.input_inclusive_min[d], transform.input_exclusive_max[d])
        values, shape = m.offset + m.stride * along, [-1 if i == d else 1 for i in range(rank)]
    else:
        values, shape = np.array(m.offset), []
    return values.reshape(shape + [1] * (rank - len(shape)))


def first_elements(transform: IndexTransform, factors: Sequence[int]) -> IndexTransform:
    """Return the transform to the first element of each cell."""
    output = []
    for m, f in zip(transform.output, factors, strict=True):
        offset = m.offset * f
        if m.stride is None:
            output.append(OutputIndexMap(offset))
        elif m.index_array is not None:
            output.append(OutputIndexMap(m.index_array, offset=offset, stride=m.stride * f))
        else:
            assert m.input_dimension is not None
            output.append(
                OutputIndexMap(input_dimension=m.input_dimension, offset=offset, stride=m.stride * f)
            )
    return IndexTransform(transform.domain, output)
