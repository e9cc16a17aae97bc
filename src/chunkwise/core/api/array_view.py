"""Properties of a view of an open array: domain, type, storage."""

from __future__ import annotations

from abc import abstractmethod
from typing import TYPE_CHECKING, Any

import numpy.typing as npt

from chunkwise.core.api.transaction import Transaction, check_open
from chunkwise.core.arrays.protocol import OpenArray
from chunkwise.core.base import catalogue
from chunkwise.core.dtypes.data_type import DataType
from chunkwise.core.engine.batch import Batch
from chunkwise.core.engine.derived_futures import WriteFutures
from chunkwise.core.engine.future import Future
from chunkwise.core.index_space import IndexDomain, IndexTransform, WritableIndexingMixin
from chunkwise.core.specs.chunk_layout import ChunkLayout
from chunkwise.core.specs.codec_spec import CodecSpec
from chunkwise.core.specs.schema import Schema
from chunkwise.core.specs.unit import Unit
from chunkwise.errors import FailedPreconditionError, InvalidArgumentError, noted

if TYPE_CHECKING:
    from chunkwise.core.api.kvstore import KvStore
    from chunkwise.core.trees.node import Node
    from chunkwise.core.trees.node_attributes import ArrayNode, Attributes

__all__ = ["ArrayView", "not_writable"]


class ArrayView(WritableIndexingMixin):
    """The properties of an open array viewed through an index transform, perhaps in a transaction."""

    __slots__ = ("__weakref__", "_array", "_node", "_transaction", "_transform")

    _array: OpenArray
    _transform: IndexTransform
    _transaction: Transaction | None
    _node: ArrayNode | None

    @abstractmethod
    def read(self, *, batch: Batch | None = None) -> Future[npt.NDArray[Any]]:
        """Read the whole view."""

    @abstractmethod
    def write(self, source: Any) -> WriteFutures:
        """Write `source` to the whole view."""

    @property
    def rank(self) -> int:
        """Number of dimensions."""
        return self._transform.input_rank

    ndim = rank

    @property
    def domain(self) -> IndexDomain:
        """Domain of the view, as known when it was made."""
        return self._transform.domain

    @property
    def shape(self) -> tuple[int, ...]:
        """Extent of each dimension."""
        return self._transform.input_shape

    @property
    def origin(self) -> tuple[int, ...]:
        """First index of each dimension."""
        return self._transform.input_inclusive_min

    @property
    def size(self) -> int:
        """Number of elements."""
        return self._transform.domain.size

    @property
    def nbytes(self) -> int:
        """Size of all elements in memory, in bytes; for objects, the size of references to them."""
        return self.size * self._array.dtype.memory_dtype.itemsize

    def nbytes_stored(self) -> int:
        """Return the stored size of the whole array in bytes, its documents included.

        The keys of the store are listed, which takes a while for a million chunks.

        Raises
        ------
        FailedPreconditionError
            If it is not stored anywhere.
        UnsupportedError
            If the store can't list its keys.
        """
        node = self._find_node().node
        if node is None:
            raise FailedPreconditionError("this array is stored nowhere, so it has no stored size")
        from chunkwise.core.kvstore.value import stored_nbytes

        return stored_nbytes(node.location.store, node.location.path)

    @property
    def chunks(self) -> tuple[int, ...] | None:
        """Shape of read chunks, which are inner chunks in shards; None if shapes vary."""
        shape = self.chunk_layout.read_chunk.shape or ()
        known = tuple(n for n in shape if n is not None)
        return known if len(known) == self.rank else None

    def __dask_tokenize__(self) -> str:
        return str(catalogue.hooks["dask token"](self))

    @property
    def dtype(self) -> DataType:
        """Type of the elements."""
        return self._array.dtype

    @property
    def readable(self) -> bool:
        """True if it can be read."""
        return self._array.readable

    @property
    def writable(self) -> bool:
        """True if it can be written."""
        return self._array.writable

    @property
    def mode(self) -> str:
        """``"r"``, ``"w"`` or ``"rw"``."""
        return "r" * self.readable + "w" * self.writable

    @property
    def schema(self) -> Schema:
        """Everything known about the array, in the index space of the view."""
        schema = self._array.schema().transformed(self._transform)
        return schema

    @property
    def chunk_layout(self) -> ChunkLayout:
        """Division of the array into chunks."""
        return self.schema.chunk_layout

    @property
    def codec(self) -> CodecSpec | None:
        """Encoding of chunks, if there are any."""
        return self.schema.codec

    @property
    def fill_value(self) -> npt.NDArray[Any] | None:
        """Value of missing elements; None if the format has no such value."""
        return self.schema.fill_value

    @property
    def dimension_units(self) -> tuple[Unit | None, ...]:
        """Physical unit of one step along each dimension."""
        units = self.schema.dimension_units
        return (None,) * self.rank if units is None else tuple(units)

    @property
    def kvstore(self) -> KvStore | None:
        """The key-value store of the array."""
        return self._kvstore()

    def _kvstore(self) -> KvStore | None:
        from chunkwise.core.api.kvstore import KvStore

        spec = self._array.spec().key_value_store
        return None if spec is None else KvStore._make(spec, self._transaction)

    @property
    def url(self) -> str:
        """URL of the array, which can't include the transform of the view."""
        check_open(self._transaction)
        return self._array.spec().url()

    # -- as a node of a hierarchy -----------------------------------------------------------------

    @property
    def attrs(self) -> Attributes:
        """The user attributes of the stored array; empty and fixed if it is not stored anywhere."""
        return self._find_node().attributes

    @property
    def path(self) -> str | None:
        """Path from the root of the tree in which it was opened, empty for the root itself."""
        return self._find_node().path

    @property
    def name(self) -> str | None:
        """The path with a "/" in front; None if the array is not stored anywhere."""
        return self._find_node().name

    def _find_node(self) -> ArrayNode:
        if self._node is None:
            from chunkwise.core.trees.node_attributes import array_node

            writable = self.writable and self._transaction is None
            self._node = array_node(self._array, writable=writable)
        return self._node

    def _whole_node(self, *, placed: bool = False) -> Node | None:
        """Return the stored array that this shows whole and in its order, None for anything else.

        Other labels, and another origin, are taken only if `placed`.
        """
        from chunkwise.core.arrays.chunked import ChunkedArray  # with the first array that is opened

        whole = self._array.domain
        if not isinstance(self._array, ChunkedArray) or self._transaction is not None:
            return None
        if self.shape != whole.shape if placed else self.domain != whole:
            return None
        is_in_order = all(
            one.input_dimension == dim and one.stride == 1 for dim, one in enumerate(self._transform.output)
        )
        return self._find_node().node if is_in_order else None


def not_writable(view: ArrayView) -> InvalidArgumentError:
    """Return the error of writing to an array that was opened for reading, or can't be written at all."""
    stored = view._array.spec().kvstore is not None
    hint = (
        'it is open for reading; chunkwise.open_array(path, "r+") opens it for writing too' if stored else ""
    )
    return noted(InvalidArgumentError("Destination does not support writing."), hint)
