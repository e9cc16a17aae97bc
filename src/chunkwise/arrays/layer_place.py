"""Where a layer of a stack lies in the array that it is a part of, if that is told by integers alone."""

from __future__ import annotations

from collections.abc import Sequence
from operator import add, le
from typing import Any, NamedTuple

import numpy.typing as npt

from chunkwise.index_space import IndexDomain, IndexTransform, OutputIndexMap
from chunkwise.index_space.output_map import single_map

__all__ = ["LayerPlace"]

Array = npt.NDArray[Any]


class LayerPlace(NamedTuple):
    """Each dimension of the array is one of the stack, moved, or a constant; their order is the same.

    Attributes
    ----------
    offsets : tuple of int
        From the stack to the array, or the constant.
    dims : tuple of (int or None)
        For each dimension of the array, that of the stack; None for a constant.
    stops : tuple of int
        Upper bounds of the layer in the array; the lower ones are not negative.
    plain : bool
        Whether there are no constants, and no dimensions of the stack that the array doesn't have.
    """

    offsets: tuple[int, ...]
    dims: tuple[int | None, ...]
    stops: tuple[int, ...]
    plain: bool

    @classmethod
    def of(cls, transform: IndexTransform | None, domain: IndexDomain) -> LayerPlace | None:
        """Return the place of a layer of that domain; None if integers don't tell it."""
        lower, upper = domain._lo, domain._hi
        rank = len(lower)
        if transform is None:
            place = cls((0,) * rank, tuple(range(rank)), upper, True)
            return place if not rank or min(lower) >= 0 else None
        offsets, stops = [], []
        dims: list[int | None] = []
        last = -1
        for m in transform._output:
            dim, offset = m._dim, m._offset
            if m._array is not None or (dim is not None and (dim <= last or m._stride != 1)):
                return None
            start, stop = (0, 1) if dim is None else (lower[dim], upper[dim])
            if start + offset < 0:
                return None
            last = last if dim is None else dim
            offsets.append(offset)
            dims.append(dim)
            stops.append(stop + offset)
        plain = len(dims) == rank and None not in dims
        return cls(tuple(offsets), tuple(dims), tuple(stops), plain)

    def lies_in(self, shape: Sequence[int]) -> bool:
        """Whether the layer does not lead out of an array of that shape."""
        return len(shape) == len(self.stops) and all(map(le, self.stops, shape))

    def onto(self, request: IndexTransform) -> IndexTransform | None:
        """Return a request to the stack as one to the array; None if there are index arrays in it."""
        output = []
        for offset, dim in zip(self.offsets, self.dims, strict=True):
            if dim is None:
                output.append(OutputIndexMap(offset))
                continue
            m = request._output[dim]
            if m._array is not None:
                return None
            moved = m._offset + offset
            output.append(OutputIndexMap(moved) if m._dim is None else single_map(moved, m._stride, m._dim))
        return IndexTransform._make(request._domain, tuple(output))

    def box(self, first: list[int], out: Array) -> tuple[list[int], Array] | None:
        """Return a box of the stack as one of the array; None if elements of the array are repeated.

        Parameters
        ----------
        first : list of int
            Where it begins in the stack.
        out : ndarray
            With an axis for each dimension of the stack.
        """
        if self.plain:
            return list(map(add, first, self.offsets)), out
        index: list[Any] = [0] * out.ndim
        for dim in self.dims:
            if dim is not None:
                index[dim] = slice(None)
        if any(n != 1 and i == 0 for n, i in zip(out.shape, index, strict=True)):
            return None
        out = out[(*index, ...)]
        out = out[(*[None if dim is None else slice(None) for dim in self.dims], ...)]
        starts = [
            offset if dim is None else first[dim] + offset
            for dim, offset in zip(self.dims, self.offsets, strict=True)
        ]
        return starts, out
