"""Properties of a view of an open array: domain, type, storage."""

from __future__ import annotations

from abc import abstractmethod
from math import prod
from typing import Any

import numpy.typing as npt

from chunkwise.core.api.kvstore import KvStore
from chunkwise.core.api.transaction import Transaction, check_open
from chunkwise.core.arrays.protocol import OpenArray
from chunkwise.core.base import catalogue
from chunkwise.core.base.html import chunk_drawing, panel, table
from chunkwise.core.dtypes.data_type import DataType
from chunkwise.core.engine.batch import Batch
from chunkwise.core.engine.combine import WriteFutures
from chunkwise.core.engine.future import Future
from chunkwise.core.index_space import IndexDomain, IndexTransform, WritableIndexingMixin
from chunkwise.core.kvstore.byte_range import open_size, stored_nbytes
from chunkwise.core.kvstore.file import FileStore
from chunkwise.core.kvstore.memory import MemoryStore
from chunkwise.core.specs.chunk_layout import ChunkLayout
from chunkwise.core.specs.codec_spec import CodecSpec
from chunkwise.core.specs.schema import Schema
from chunkwise.core.specs.unit import Unit, unit_text
from chunkwise.core.trees.node_attributes import ArrayNode, Attributes, array_node
from chunkwise.errors import ChunkwiseError, FailedPreconditionError, InvalidArgumentError

__all__ = ["ArrayInfo", "ArrayView", "not_writable"]


_MOST_LISTED = 1000  # most chunks whose stored size is looked up for display


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
        return stored_nbytes(node.location.store, node.location.path)

    @property
    def chunks(self) -> tuple[int, ...] | None:
        """Shape of read chunks, which are inner chunks in shards; None if shapes vary."""
        shape = self.chunk_layout.read_chunk.shape or ()
        known = tuple(n for n in shape if n is not None)
        return known if len(known) == self.rank else None

    def __dask_tokenize__(self) -> str:
        return str(catalogue.hooks["dask token"](self))

    def info(self) -> ArrayInfo:
        """Return the properties of the array as a mapping, whose text is a table.  Nothing is read."""
        return array_info(self)

    def _repr_html_(self) -> str | None:
        try:
            return array_html(self)
        except ChunkwiseError:  # the array is gone, or a transaction is over: the text says so
            return None

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
            writable = self.writable and self._transaction is None
            self._node = array_node(self._array, writable=writable)
        return self._node


class ArrayInfo(dict[str, Any]):
    """Properties of an array by name; its text is a table."""

    def __repr__(self) -> str:
        return "\n".join(f"{name:<10} {_text(value)}" for name, value in self.items())

    __str__ = __repr__


def not_writable(view: ArrayView) -> InvalidArgumentError:
    """Return the error of writing to an array that was opened for reading, or can't be written at all."""
    stored = view._array.spec().kvstore is not None
    hint = (
        ' It is open for reading; chunkwise.open_array(path, "r+") opens it for writing too.'
        if stored
        else ""
    )
    return InvalidArgumentError(f"Destination does not support writing.{hint}")


def array_info(view: ArrayView) -> ArrayInfo:
    """Return the properties of an array or a view of one; nothing is read."""
    spec = view._array.spec()
    out = ArrayInfo(driver=spec.driver)
    if spec.kvstore is not None:
        out["url"] = view.url
    out |= {"shape": view.shape, "dtype": view.dtype.name, "chunks": view.chunks}
    write = view.chunk_layout.write_chunk.shape
    if write is not None and tuple(write) != view.chunks:
        out["shards"] = tuple(write)
    if view.codec is not None:
        out["codec"] = view.codec.to_json()
    fill_value = view.fill_value
    if fill_value is not None:
        out["fill_value"] = fill_value[()]
    if any(view.domain.labels):
        out["labels"] = view.domain.labels
    if any(unit is not None for unit in view.dimension_units):
        out["units"] = tuple(None if unit is None else str(unit) for unit in view.dimension_units)
    return ArrayInfo({**out, "nbytes": view.nbytes})


def array_html(view: ArrayView) -> str:
    """Return HTML of an array for notebooks: its properties, and a drawing of its chunks."""
    info = array_info(view)
    if "units" in info:
        info["units"] = tuple(unit and unit_text(unit) for unit in info["units"])
    rows: list[tuple[str, object]] = [(name, _text(value)) for name, value in info.items()]
    rows[-1] = ("size", f"{_size(view.nbytes)} in memory")
    chunks = view.chunks
    is_finite = all(dim.finite for dim in view.domain)
    met = _met(view) if is_finite and view.domain != view._array.domain else None
    if met is not None:
        rows.append(("number", f"{met[0]:,} chunks are met"))
        if met[2] is not None:
            rows.append(("stored", f"{_size(met[2])} under the {met[1]:,} keys of these"))
    elif chunks is not None and is_finite:
        n = prod(-(-size // chunk) if chunk else 0 for size, chunk in zip(view.shape, chunks, strict=True))
        rows.append(("number", f"{n:,} chunks"))
        if n <= _MOST_LISTED and _is_near(view) and view.domain == view._array.domain:
            stored = view.nbytes_stored()
            ratio = f", 1:{view.nbytes / stored:.3g}" if stored else ""
            rows.append(("stored", f"{_size(stored)}{ratio}"))
    title = "TensorStore" if view.path in (None, "") else f"TensorStore {view.name}"
    drawing = ""
    if is_finite:
        drawing = chunk_drawing(view.shape, chunks, info.get("shards"), view.domain.labels)
    return panel(title, table(rows), drawing)


def _size(nbytes: int) -> str:
    """Return a number of bytes with three digits and the unit that fits."""
    size = float(nbytes)
    for unit in ("B", "kB", "MB", "GB", "TB"):
        if size < 999.5:
            return f"{size:.3g} {unit}"
        size /= 1000
    return f"{size:,.0f} PB"


def _met(view: ArrayView) -> tuple[int, int, int | None] | None:
    """Return the numbers of chunks and keys that a view meets, and the keys' stored size if storage is near.

    None for arrays without their own chunks.
    """
    from chunkwise.core.arrays.chunked import ChunkedArray  # only notebooks ask
    from chunkwise.core.engine.estimate import estimate_requests
    from chunkwise.core.plan.plan import plan_read

    array = view._array
    if not isinstance(array, ChunkedArray):
        return None
    transform, stored = array.in_grid(array.bounded(view._transform)), array.stored
    told = estimate_requests(stored, array.store, transform)
    if told.n_objects > _MOST_LISTED or not _is_near(view):
        return told.n_chunks, told.n_objects, None
    keys = plan_read(transform, stored.grid).keys(stored.keys)
    return told.n_chunks, told.n_objects, sum(map(open_size(array.store), keys))


def _is_near(view: ArrayView) -> bool:
    """Return True if listing the stored keys costs next to nothing."""
    node = view._find_node().node
    return node is not None and isinstance(node.location.store, FileStore | MemoryStore)


def _text(value: Any) -> str:
    return f"{value:,}" if type(value) is int else str(value)
