"""Arrays as xarray's lazy data: each kind of index becomes a view, which is read at once."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
from xarray.backends import BackendArray
from xarray.core import indexing

from chunkwise import TensorStore
from chunkwise.dask.indexable import Indexable, forward_slice

__all__ = ["LazyArray"]


class LazyArray(BackendArray):
    """A TensorStore as the data of a lazy variable."""

    __slots__ = ("_indexable", "dtype", "shape")

    def __init__(self, store: TensorStore) -> None:
        self._indexable = Indexable(store)
        self.shape = self._indexable.shape
        self.dtype = _marked(self._indexable.dtype, store.dtype.name)

    @property
    def store(self) -> TensorStore:
        """The array that is read."""
        return self._indexable.view

    def __getitem__(self, key: Any) -> Any:
        # xarray's adapter isn't needed: it is for backends that can't read backwards.
        if isinstance(key, indexing.VectorizedIndexer):
            return self._vectorized(key.tuple)
        if isinstance(key, indexing.OuterIndexer):
            return self._outer(key.tuple)
        return self._basic(key.tuple)

    def _basic(self, key: tuple[Any, ...]) -> npt.NDArray[Any]:
        read: Any = self._indexable[key]
        if self.dtype.kind == "O" and not any(isinstance(term, slice) for term in key):
            out = np.empty((), object)  # xarray would turn a list into an array
            out[()] = read
            return out
        return read  # type: ignore[no-any-return]

    def _outer(self, key: tuple[Any, ...]) -> npt.NDArray[Any]:
        terms, turned = self._terms(key)
        read: npt.NDArray[Any] = self.store.oindex[terms].read().result()
        return read[tuple(turn for turn in turned if turn is not None)]

    def _vectorized(self, key: tuple[Any, ...]) -> npt.NDArray[Any]:
        terms, turned = self._terms(key)
        n_joint = max((term.ndim for term in terms if isinstance(term, np.ndarray)), default=0)
        sliced = [turn for term, turn in zip(terms, turned, strict=True) if isinstance(term, slice)]
        read: npt.NDArray[Any] = self.store.vindex[terms].read().result()
        return read[(slice(None),) * n_joint + tuple(sliced)]

    def _terms(self, key: tuple[Any, ...]) -> tuple[tuple[Any, ...], list[slice | None]]:
        """Return `key` with absolute indices, and the slice that restores the order of each dimension, or
        None if it is dropped."""
        terms: list[Any] = []
        turned: list[slice | None] = []
        for term, size, origin in zip(key, self.shape, self.store.origin, strict=True):
            turn: slice | None = slice(None)
            if isinstance(term, slice):
                forward, turn = forward_slice(term, size, origin)
                terms.append(forward)
            else:
                index = np.asarray(term)
                index = np.where(index < 0, index + size, index) + origin
                terms.append(index if index.ndim else int(index))
                turn = turn if index.ndim else None
            turned.append(turn)
        return tuple(terms), turned

    def __dask_tokenize__(self) -> str:
        return self.store.__dask_tokenize__()


def _marked(dtype: np.dtype[Any], name: str) -> np.dtype[Any]:
    """Return `dtype` with the mark by which xarray knows text without looking at the elements."""
    if dtype.kind == "O" and name == "ustring":
        return np.dtype("O", metadata={"element_type": str})
    return dtype
