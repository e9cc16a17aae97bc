"""Arrays with the interface that dask needs: shape, data type, and elements by NumPy's rules for slices."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from chunkwise import TensorStore
from chunkwise.errors import InvalidArgumentError, OutOfBoundsError

__all__ = ["Indexable", "forward_slice"]


def forward_slice(term: slice, size: int, origin: int) -> tuple[slice, slice]:
    """Return the slice of absolute indices with a positive step, and the slice that restores the order.

    >>> forward_slice(slice(None, None, -2), 4, 10)
    (slice(11, 14, 2), slice(None, None, -1))
    """
    steps = range(*term.indices(size))
    flip = slice(None, None, -1) if steps.step < 0 else slice(None)
    steps = steps[::-1] if steps.step < 0 else steps
    if not steps:
        return slice(origin, origin), flip
    return slice(origin + steps[0], origin + steps[-1] + 1, steps.step), flip


class Indexable:
    """TensorStore with indices from 0, or from the end if negative; pickles don't contain its elements."""

    __slots__ = ("dtype", "shape", "view")

    def __init__(self, view: TensorStore) -> None:
        array: Any = view._array
        # The current bounds: those of a graph don't change when the array grows.
        transform = array.bounded(view._transform)
        if any((*transform.domain.implicit_lower_bounds, *transform.domain.implicit_upper_bounds)):
            transform = transform.mark_bounds_implicit[False]
        if not all(dim.finite for dim in transform.domain):
            raise InvalidArgumentError(f"Blocks require a finite domain, got {transform.domain}")
        self.view = TensorStore._make(array, transform, view.transaction, view._node)
        self.shape: tuple[int, ...] = self.view.shape
        self.dtype: np.dtype[Any] = array.numpy_dtype()

    @property
    def ndim(self) -> int:
        """Number of dimensions."""
        return len(self.shape)

    def __getitem__(self, index: Any) -> npt.NDArray[Any]:
        view, flips = self._at(index)
        return view.read().result()[flips]

    def __setitem__(self, index: Any, values: Any) -> None:
        view, flips = self._at(index)
        view.write(np.asarray(values)[flips] if flips else values).result()

    def _at(self, index: Any) -> tuple[TensorStore, tuple[slice, ...]]:
        """Return the values that `index` selects, and the index that puts them in its order."""
        index = index if isinstance(index, tuple) else (index,)
        terms: list[Any] = []
        flips: list[slice] = []
        for term, size, origin in zip(self._filled(index), self.shape, self.view.origin, strict=True):
            if isinstance(term, slice):
                forward, flip = forward_slice(term, size, origin)
                terms.append(forward)
                flips.append(flip)
            else:
                at = int(term) + (size if term < 0 else 0)
                if not 0 <= at < size:
                    raise OutOfBoundsError(f"Index {term} is outside a dimension of size {size}")
                terms.append(origin + at)
        if not any(flip.step for flip in flips):
            flips = []
        return self.view[tuple(terms)], tuple(flips)

    def _filled(self, index: tuple[Any, ...]) -> tuple[Any, ...]:
        missing = (slice(None),) * (self.ndim - sum(term is not ... for term in index))
        if ... in index:
            at = index.index(...)
            return (*index[:at], *missing, *index[at + 1 :])
        return (*index, *missing)

    def __getstate__(self) -> tuple[Any, ...]:
        return self.view, self.shape, self.dtype

    def __setstate__(self, state: tuple[Any, ...]) -> None:
        self.view, self.shape, self.dtype = state

    def __dask_tokenize__(self) -> str:
        return self.view.__dask_tokenize__()
