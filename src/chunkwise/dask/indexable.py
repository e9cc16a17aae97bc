"""Arrays with the interface that dask needs: shape, data type, and elements by NumPy's rules."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from chunkwise import TensorStore
from chunkwise.copying.overlap import Home, check_arrived, home_of
from chunkwise.errors import InvalidArgumentError
from chunkwise.extension.inside import as_key, positions

__all__ = ["Indexable"]


class Indexable:
    """TensorStore with indices from 0, or from the end if negative; pickles don't contain its elements."""

    __slots__ = ("_home", "dtype", "shape", "view")

    _home: Home | None  # of an unpickled array that was not used yet, or only read

    def __init__(self, view: TensorStore) -> None:
        array: Any = view._array
        # The current bounds: those of a graph don't change when the array grows.
        transform = array.bounded(view._transform)
        if any((*transform.domain.implicit_lower_bounds, *transform.domain.implicit_upper_bounds)):
            transform = transform.mark_bounds_implicit[False]
        if not all(dim.finite for dim in transform.domain):
            raise InvalidArgumentError(f"Blocks require a finite domain, got {transform.domain}")
        self.view = TensorStore._make(array, transform, view.transaction, view._node)
        self._home = None
        self.shape: tuple[int, ...] = self.view.shape
        self.dtype: np.dtype[Any] = array.numpy_dtype()

    @property
    def ndim(self) -> int:
        """Number of dimensions."""
        return len(self.shape)

    def __getitem__(self, index: Any) -> npt.NDArray[Any]:
        self._check_arrived(writes=False)
        return self._at(index).read().result()[()]

    def __setitem__(self, index: Any, values: Any) -> None:
        self._check_arrived(writes=True)
        self._at(index).write(values).result()

    def _at(self, index: Any) -> TensorStore:
        return self.view[as_key(positions(index, self.shape), self.view.origin, joint=True)]

    def __getstate__(self) -> tuple[Any, ...]:
        return self.view, self.shape, self.dtype, self._home or home_of(self.view)

    def __setstate__(self, state: tuple[Any, ...]) -> None:
        self.view, self.shape, self.dtype, self._home = state

    def _check_arrived(self, *, writes: bool) -> None:
        if self._home is not None:
            check_arrived(self.view, self._home, writes=writes)

    def __dask_tokenize__(self) -> str:
        return self.view.__dask_tokenize__()
