"""The protocol of open arrays, used by the public ``TensorStore``."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Sequence
from typing import Any, ClassVar, NamedTuple, Protocol, TypeAlias

import numpy as np
import numpy.typing as npt

from chunkwise.core.dtypes.data_type import DataType
from chunkwise.core.engine.derived_futures import WriteFutures
from chunkwise.core.engine.future import Future
from chunkwise.core.engine.pool import Pool
from chunkwise.core.index_space import IndexDomain, IndexTransform, resolve_bounds
from chunkwise.core.kvstore.protocol import KvStoreDriver
from chunkwise.core.specs.driver_spec import DriverSpec
from chunkwise.core.specs.schema import Schema
from chunkwise.errors import UnsupportedError

__all__ = ["FixedArray", "OpenArray", "ResizeRequest", "StorageStatistics", "Transactional", "WrapStore"]

WrapStore: TypeAlias = Callable[[KvStoreDriver, bool], KvStoreDriver]
"""``wrap(store, atomic)``: the store as a transaction sees it; if `atomic`, several keys change at once."""


class ResizeRequest(NamedTuple):
    """New bounds in the array's own index space; None leaves a bound as it is."""

    inclusive_min: Sequence[int | None]
    exclusive_max: Sequence[int | None]
    metadata_only: bool = False  # don't delete chunks outside the new bounds
    expand_only: bool = False
    shrink_only: bool = False
    tied: bool = False  # True if data outside the array, other fields of its records, may be affected


class StorageStatistics(NamedTuple):
    """Number of chunks that meet a region, and of the stored ones.

    Attributes
    ----------
    n_chunks, n_stored : int
    """

    n_chunks: int
    n_stored: int


class OpenArray(Protocol):
    """An array that can be read, written, or both, in its own index space."""

    # Every transform argument maps a request to that space.

    @property
    def dtype(self) -> DataType: ...
    @property
    def readable(self) -> bool: ...
    @property
    def writable(self) -> bool: ...
    @property
    def domain(self) -> IndexDomain:
        """Domain, as far as it is known without reading the storage."""
        ...

    @property
    def pool(self) -> Pool:
        """The threads that read and write the array."""
        ...

    def bounded(self, transform: IndexTransform) -> IndexTransform:
        """Return `transform` with current implicit bounds; raise if it leads outside the array."""
        ...

    def read_into(self, transform: IndexTransform, out: npt.NDArray[Any]) -> Future[npt.NDArray[Any]]:
        """Fill `out`, which has the input shape of a bounded transform; return a future of `out`."""
        ...

    def write_from(self, transform: IndexTransform, source: npt.NDArray[Any]) -> WriteFutures:
        """Write `source`, which has the transform's input shape and the array's NumPy type."""
        ...

    def resolve(self) -> Future[IndexDomain]:
        """Return the current domain, checking the storage according to the recheck option."""
        ...

    @property
    def resizable(self) -> bool:
        """True if `resize` could change anything."""
        ...

    def resize(self, request: ResizeRequest) -> Future[IndexDomain]: ...

    def schema(self) -> Schema:
        """Everything known about the array, in its own index space."""
        ...

    def spec(self) -> DriverSpec:
        """Return a spec that opens this array again, with its context resources bound."""
        ...

    def count_stored(
        self, transform: IndexTransform, most: int | None = None
    ) -> Future[StorageStatistics]: ...

    def numpy_dtype(self) -> np.dtype[Any]:
        """The NumPy type of the elements in memory."""
        ...


class FixedArray:
    """Base of arrays with a fixed domain, whose chunks, if any, can't be counted."""

    __slots__ = ("_domain", "readable", "writable")

    resizable: ClassVar[bool] = False
    _domain: IndexDomain
    readable: bool
    writable: bool

    @property
    @abstractmethod
    def dtype(self) -> DataType:
        """Type of the elements."""

    def numpy_dtype(self) -> np.dtype[Any]:
        """The NumPy type of the elements in memory."""
        return self.dtype.memory_dtype

    @property
    def in_memory(self) -> bool:
        """True if reading uses no store and no function."""
        return False

    @property
    def domain(self) -> IndexDomain:
        """Domain, which does not change."""
        return self._domain

    def bounded(self, transform: IndexTransform) -> IndexTransform:
        """Return `transform` with implicit bounds resolved; raise if it leads outside the array."""
        return resolve_bounds(transform, self._domain)

    def resolve(self) -> Future[IndexDomain]:
        """Return the domain."""
        return Future.ready(self._domain)

    def resize(self, request: ResizeRequest) -> Future[IndexDomain]:
        """Fail: the bounds are fixed."""
        return Future.failed(UnsupportedError("Resize not supported"))

    def count_stored(self, transform: IndexTransform, most: int | None = None) -> Future[StorageStatistics]:
        """Fail: nothing is stored here, or not in chunks."""
        return Future.failed(UnsupportedError("Storage statistics not supported"))


class Transactional(Protocol):
    """An array that can be read and changed in a transaction."""

    def in_transaction(self, wrap: WrapStore | None) -> OpenArray:
        """Return the same array over the stores that `wrap` returns; None means outside any transaction."""
        ...
