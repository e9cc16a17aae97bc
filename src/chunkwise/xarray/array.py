"""Arrays as xarray's lazy data: each kind of index becomes a view, which is read at once."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
from xarray.backends import BackendArray
from xarray.core import indexing

from chunkwise import TensorStore
from chunkwise.dask.indexable import Indexable
from chunkwise.extension.inside import as_key, positions

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
            return self.store.vindex[self._key(key.tuple)].read().result()
        if isinstance(key, indexing.OuterIndexer):
            return self.store.oindex[self._key(key.tuple, outer=True)].read().result()
        return self._basic(key.tuple)

    def _basic(self, key: tuple[Any, ...]) -> npt.NDArray[Any]:
        read: Any = self._indexable[key]
        if self.dtype.kind == "O" and not any(isinstance(term, slice) for term in key):
            out = np.empty((), object)  # xarray would turn a list into an array
            out[()] = read
            return out
        return read  # type: ignore[no-any-return]

    def _key(self, key: tuple[Any, ...], *, outer: bool = False) -> tuple[Any, ...]:
        return as_key(positions(key, self.shape, outer=outer), self.store.origin)

    def __dask_tokenize__(self) -> str:
        return self.store.__dask_tokenize__()


def _marked(dtype: np.dtype[Any], name: str) -> np.dtype[Any]:
    """Return `dtype` with the mark by which xarray knows text without looking at the elements."""
    if dtype.kind == "O" and name == "ustring":
        return np.dtype("O", metadata={"element_type": str})
    return dtype
