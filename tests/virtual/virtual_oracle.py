"""Random index transforms into a box, and what NumPy says that they select."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from hypothesis import strategies as st

from chunkwise.core.index_space import IndexDomain, IndexTransform, OutputIndexMap


@st.composite
def transforms(
    draw: st.DrawFn, lo: Sequence[int], hi: Sequence[int], *, max_rank: int = 3, max_extent: int = 6
) -> IndexTransform:
    """A transform of which every output is inside ``[lo, hi)``, which is not empty; nor is its domain."""
    rank = draw(st.integers(0, max_rank))
    origin = [draw(st.integers(-4, 4)) for _ in range(rank)]
    shape = [draw(st.integers(1, max_extent)) for _ in range(rank)]
    kinds = []
    for a, b in zip(lo, hi, strict=True):
        kind = draw(st.sampled_from(["constant", "single", "single", "array"]))
        if rank == 0:
            kind = "constant"
        dim = draw(st.integers(0, rank - 1)) if rank else 0
        stride = draw(st.sampled_from([1, 1, 1, -1, 2, -3]))
        if kind == "single":
            # Shrink the input so that it fits.
            room = (b - a - 1) // abs(stride) + 1
            shape[dim] = min(shape[dim], max(1, room))
        kinds.append((kind, dim, stride))
    outputs = []
    for (kind, dim, stride), a, b in zip(kinds, lo, hi, strict=True):
        if kind == "single":
            span = abs(stride) * (shape[dim] - 1)
            first = draw(st.integers(a, b - 1 - span))
            at_origin = first if stride > 0 else first + span
            outputs.append(
                OutputIndexMap(input_dimension=dim, offset=at_origin - stride * origin[dim], stride=stride)
            )
        elif kind == "array":
            extents = [n if draw(st.booleans()) else 1 for n in shape]
            values = draw(
                st.lists(
                    st.integers(a, b - 1), min_size=int(np.prod(extents)), max_size=int(np.prod(extents))
                )
            )
            array = np.array(values, np.int64).reshape(extents)
            outputs.append(OutputIndexMap((array - 5) * -1, offset=5, stride=-1))
        else:
            outputs.append(OutputIndexMap(draw(st.integers(a, b - 1))))
    return IndexTransform(IndexDomain(inclusive_min=origin, shape=shape), outputs)


def coordinates(transform: IndexTransform) -> list[np.ndarray[Any, Any]]:
    """For each output its value at every input position, in the shape of the domain."""
    shape, origin = transform.input_shape, transform.input_inclusive_min
    grid = np.indices(shape) + np.array(origin, np.int64).reshape(-1, *[1] * len(shape))
    out = []
    for m in transform.output:
        if m.index_array is not None:
            values = m.offset + m.stride * m.index_array
        elif m.input_dimension is not None:
            values = m.offset + m.stride * grid[m.input_dimension]
        else:
            values = np.array(m.offset)
        out.append(np.broadcast_to(values, shape))
    return out


def gather(array: np.ndarray[Any, Any], origin: Sequence[int], transform: IndexTransform) -> np.ndarray:
    """Return the selection of `transform` in an array that starts at `origin`."""
    index = tuple(c - o for c, o in zip(coordinates(transform), origin, strict=True))
    return np.broadcast_to(array[index], transform.input_shape)


def scatter(
    array: np.ndarray[Any, Any], origin: Sequence[int], transform: IndexTransform, values: np.ndarray
) -> None:
    """Write one value after the other, in C order."""
    index = [c - o for c, o in zip(coordinates(transform), origin, strict=True)]
    for position in np.ndindex(*transform.input_shape):
        array[tuple(int(c[position]) for c in index)] = values[position]
