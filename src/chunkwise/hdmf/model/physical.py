"""One stored array: its document, and its chunks through the engine, without HDMF's meaning."""

# An array is opened when it is first used.  Everything that follows from its document is in the metadata
# cache.

from __future__ import annotations

import math
from typing import Any

import numpy as np
import numpy.typing as npt

from chunkwise import Future, IndexTransform
from chunkwise.core.codec.protocol import DecodeInto, PreparedChain
from chunkwise.core.engine.read import read_into
from chunkwise.core.engine.write import write_from
from chunkwise.core.kvstore.protocol import Readable
from chunkwise.errors import (
    ChunkwiseError,
    FailedPreconditionError,
    NotFoundError,
    ResizedError,
    UnsupportedError,
    prefix,
)
from chunkwise.extension import KvStoreDriver, Members
from chunkwise.extension.formats import Zarr2Format, Zarr3Format, cached_metadata, layout_of
from chunkwise.extension.inside import Growing, Pool, StoredArray, appending, hold, put_bounded, release
from chunkwise.extension.n5 import N5Format
from chunkwise.extension.trees import Location, change_document, read_document, tree_format
from chunkwise.hdmf.model.selection import Selection, parse_selection
from chunkwise.hdmf.model.tree import Format, HdmfNode
from chunkwise.hdmf.pickles.codec import SafePickle
from chunkwise.hdmf.pickles.safe_pickle import UnsafePickleError

__all__ = ["PhysicalArray", "object_filter"]

_LARGEST = 1 << 24
"""Elements of a chunk that is read at once."""

_HDMF_MEMBERS = ("hdmf_attributes", "hdmf_n5")
"""Members of N5 documents that the format doesn't define."""


def object_filter(document: dict[str, Any]) -> str | None:
    """Return the id of the filter that makes the objects of a Zarr v2 array; None if it has no objects."""
    dtype, filters = document.get("dtype"), document.get("filters")
    holds_objects = dtype == "|O" or (isinstance(dtype, list) and _has_object(dtype))
    if not holds_objects or not isinstance(filters, list) or not filters or not isinstance(filters[0], dict):
        return None
    name = filters[0].get("id")
    return name if isinstance(name, str) else None


def _has_object(fields: list[Any], depth: int = 0) -> bool:
    return depth < 16 and any(
        isinstance(f, list)
        and len(f) > 1
        and (f[1] == "|O" or (isinstance(f[1], list) and _has_object(f[1], depth + 1)))
        for f in fields
    )


class PhysicalArray:
    """An array of a store."""

    __slots__ = (
        "_copies",
        "_decoders",
        "_stored",
        "format",
        "location",
        "node",
        "pool",
        "rules",
    )

    def __init__(
        self,
        location: Location,
        format: Format,
        node: HdmfNode,
        pool: Pool,
        decoders: dict[int, tuple[PreparedChain, list[DecodeInto]]],
        copies: Readable | None,
    ) -> None:
        self.location = location
        self.format = format
        self.rules = tree_format(format)
        self.node = node
        self.pool = pool
        self._decoders = decoders
        self._copies = copies
        self._stored: StoredArray | None = None

    @property
    def prefix(self) -> str:
        """Prefix of the keys of the array."""
        return self.location.path + self.node.prefix

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape in the order of axes that users see."""
        return self._ordered(self.stored.shape)

    @property
    def size(self) -> int:
        """Number of elements."""
        return math.prod(self.stored.shape)

    def _ordered(self, extents: tuple[int, ...]) -> tuple[int, ...]:
        # The dimensions of N5 begin with the one that changes fastest.
        return extents[::-1] if self.rules.reversed_axes else extents

    @property
    def chunk_shape(self) -> tuple[int, ...] | None:
        """Shape of a chunk or shard; None if there are several."""
        shape = self.stored.grid.chunk_shape
        return None if shape is None else self._ordered(shape)

    @property
    def inner_chunk_shape(self) -> tuple[int, ...] | None:
        """Shape of the smallest piece that is decoded by itself."""
        shard = self.stored.shard
        inner = None if shard is None else shard.grid.chunk_shape
        return self.chunk_shape if inner is None else inner

    @property
    def dtype(self) -> np.dtype[Any]:
        """Type of the values in memory."""
        return self.stored.numpy_dtype

    @property
    def stored(self) -> StoredArray:
        """The array as the engine sees it."""
        if self._stored is None:
            try:
                self._open()
            except ChunkwiseError as e:
                raise prefix(e, f'dataset "{self.node.path}"') from None
        assert self._stored is not None
        return self._stored

    def _open(self) -> None:
        format, options = _FORMATS[self.format]
        document = self.node.document
        if self.rules.has_containers:
            document = {k: v for k, v in document.items() if k not in _HDMF_MEMBERS}
        self._stored = layout_of(format, cached_metadata(format, document), self.prefix, options).stored

    # -- data -------------------------------------------------------------------------------------

    def read(self, key: Any = Ellipsis) -> npt.NDArray[Any]:
        """Return the selection of an index; see `parse_selection`."""
        single = self.single_key if self._is_simple(key) else None
        if single is not None:
            values = self._read_single(single)
            if type(key) is int:  # an element of objects may be a list, and NumPy would make an array of it
                return values[key : key + 1 or None].reshape(())
            return values if key is Ellipsis else np.asarray(values[key])
        return self.read_selection(parse_selection(key, self.shape))

    def _is_simple(self, key: Any) -> bool:
        """Return True for an index that means the same as in NumPy."""
        if key is Ellipsis:
            return True
        shape = self.stored.shape
        if len(shape) != 1:
            return False
        if isinstance(key, slice):
            return key.step is None
        return type(key) is int and -shape[0] <= key < shape[0]

    @property
    def single_key(self) -> str | None:
        """Key of the only chunk, a small one, which scalars and most columns have; None for other arrays."""
        stored = self.stored
        chunk = stored.grid.chunk_shape
        if stored.shard is not None or stored.field is not None or chunk is None:
            return None
        if math.prod(chunk) > _LARGEST:  # which may be far more than there is
            return None
        if any(n > c or n == 0 for n, c in zip(stored.shape, chunk, strict=True)):
            return None
        return stored.keys.key((0,) * len(chunk))

    def _read_single(self, key: str) -> npt.NDArray[Any]:
        """Return all values of an array of one chunk."""
        stored = self.stored
        chunk = stored.grid.chunk_shape
        assert chunk is not None
        out = np.empty(chunk, stored.numpy_dtype)
        [before] = map(hold, (stored.chain.bound,))
        try:
            raw = (self._copies or self.location.store).read(key).value
            if raw is None:
                out[...] = stored.fill_value
            else:
                spare = self._spare_decoders()
                decode = spare.pop() if spare else stored.chain.open_decoder()
                decode(raw, out)
                spare.append(decode)
        except ChunkwiseError as e:
            where = f"Error reading {self.location.store.describe(key)}"
            raise prefix(prefix(e, where), f'dataset "{self.node.path}"') from None
        finally:
            release(before)
        if stored.shape != chunk:
            out = out[tuple(slice(0, n) for n in stored.shape)]
        return out.T if self.rules.reversed_axes else out

    def _spare_decoders(self) -> list[DecodeInto]:
        """Return unused decoders of arrays of this store with the same codecs."""
        chain = self.stored.chain
        known = self._decoders.get(id(chain))
        if known is None:
            known = chain, []  # with the chain, so that its identity is not given to another
            put_bounded(self._decoders, id(chain), known)
        return known[1]

    def read_selection(self, selection: Selection) -> npt.NDArray[Any]:
        """Return the elements of a selection."""
        stored = self.stored
        transform = self._transform(selection)
        out = np.empty(transform.input_shape, stored.numpy_dtype)
        try:
            read_into(stored, self.location.store, transform, out, pool=self.pool).result()
        except ChunkwiseError as e:
            raise prefix(e, f'dataset "{self.node.path}"') from None
        if self.rules.reversed_axes and not selection.is_paired:
            out = out.T
        return out if selection.mask is None else out[selection.mask]

    def _transform(self, selection: Selection) -> IndexTransform:
        """Return the transform to the stored array, from the result or from its transpose."""
        if not self.rules.reversed_axes:
            return selection.transform(self.stored.shape)
        if selection.is_paired:  # where the dimension of the points goes depends on the order
            found = selection.transform(self.shape)
            return IndexTransform(found.domain, found.output[::-1])
        return Selection(selection.terms[::-1]).transform(self.stored.shape)

    def write(self, key: Any, values: npt.NDArray[Any]) -> Future[None]:
        """Store values where an index says; they must not change before the future is done."""
        selection = parse_selection(key, self.shape)
        if selection.mask is not None:
            raise UnsupportedError("writing takes integers, slices and lists of indices")
        transform = self._transform(selection)
        shape = tuple(transform.input_shape)
        source = np.broadcast_to(values, shape if selection.is_paired else self._ordered(shape))
        # Other software reads a missing chunk of objects as the number 0.
        store_fill = self.format == "zarr2" and source.dtype == object
        if not selection.is_paired:
            source = self._in_stored_order(source)
        return self._write(self.stored, self.location.store, transform, source, store_fill=store_fill)

    def _in_stored_order(self, values: npt.NDArray[Any]) -> npt.NDArray[Any]:
        return values.T if self.rules.reversed_axes else values

    def _write(
        self,
        stored: StoredArray,
        store: KvStoreDriver,
        transform: IndexTransform,
        source: npt.NDArray[Any],
        *,
        store_fill: bool,
    ) -> Future[None]:
        if source.dtype != stored.numpy_dtype:
            source = source.astype(stored.numpy_dtype)
        return write_from(
            stored, store, transform, source, pool=self.pool, store_data_equal_to_fill_value=store_fill
        )

    def append(self, values: npt.NDArray[Any]) -> None:
        """Store rows after the end of the first axis, all of them or none."""
        axis = len(self.shape) - 1 if self.rules.reversed_axes else 0
        growing = Growing(
            self.location.at(self.prefix),
            self.format,
            axis,
            len(values),
            open=self._reopened,
            updates_copies=False,  # once, when the store is closed
        )
        while True:
            try:
                with appending([growing]) as append:
                    stored, store, _ = self._reopened()
                    rows = append.new_rows(growing)
                    shape = (*stored.shape[:axis], rows.stop, *stored.shape[axis + 1 :])
                    added = tuple(
                        slice(rows.start, None) if d == axis else slice(None) for d in range(len(shape))
                    )
                    self._write(
                        stored._replace(shape=shape),
                        rows(store, True),
                        parse_selection(added, shape).transform(shape),
                        self._in_stored_order(values),
                        store_fill=True,
                    ).result()
                    append.commit()
                break
            except ResizedError:  # by others, without an append
                continue
        self._reopened()

    def _reopened(self) -> tuple[StoredArray, KvStoreDriver, Pool]:
        """Read the document again."""
        key = self.prefix + self.rules.array_key
        document = read_document(self.location.store, key, self.rules.load)
        if not isinstance(document, dict):
            raise NotFoundError(f'dataset "{self.node.path}" was deleted')
        self.node.document = document
        self._stored = None
        return self.stored, self.location.store, self.pool

    def grow(self, shape: tuple[int, ...]) -> None:
        """Change the shape, in the store too, to one that is nowhere smaller."""
        member, listed = self.rules.shape_member, list(self._ordered(shape))

        def change(document: Any) -> Any:
            if not isinstance(document, dict):
                raise FailedPreconditionError(f'dataset "{self.node.path}" was deleted')
            return {**document, member: listed}

        key = self.prefix + self.rules.array_key
        self.node.document = change_document(self.location.store, key, change, load=self.rules.load)
        self._stored = None


class _HdmfZarr2Format(Zarr2Format):
    """Zarr v2 with objects as HDMF stores them."""

    driver = "zarr with HDMF's objects"  # in the metadata cache these are other documents

    def parse_metadata(self, document: Any) -> Any:
        """Read a ``.zarray``, with pickles and structures with objects as JSON objects; no pickle is run."""
        codec = object_filter(document)
        _refuse_pickles(document, codec)
        if codec not in ("pickle", "json2", "json", "msgpack2", "msgpack"):
            return super().parse_metadata(document)
        filters = list(document["filters"])
        if codec == "pickle":
            filters[0] = {"id": "json2"}
        # The fill value may be a pickle itself; it is never looked at.
        metadata = super().parse_metadata({**document, "dtype": "|O", "fill_value": None, "filters": filters})
        if codec != "pickle":
            return metadata
        record = _record(document["dtype"]) if isinstance(document["dtype"], list) else None
        codecs = tuple(SafePickle(record) if c.name == "json2" else c for c in metadata.codecs)
        return metadata._replace(codecs=codecs)


def _refuse_pickles(document: dict[str, Any], codec: str | None) -> None:
    """Raise UnsafePickleError for a pickle anywhere but in the place of the filter that makes objects."""
    filters = document.get("filters")
    listed = enumerate(filters if isinstance(filters, list) else ())
    steps = [("compressor", document.get("compressor")), *((f"filter {i}", step) for i, step in listed)]
    for where, step in steps:
        if isinstance(step, dict) and step.get("id") == "pickle" and (where != "filter 0" or codec is None):
            of = " of an array without objects" if where == "filter 0" else ""
            raise UnsafePickleError(f'refused pickle: "pickle" as {where}{of}')


def _record(fields: list[Any]) -> np.dtype[Any]:
    """Return the type of records with objects; `_has_object` has limited how deep they are nested."""
    try:
        return np.dtype([(f[0], _record(f[1]) if isinstance(f[1], list) else f[1]) for f in fields])
    except (TypeError, ValueError, IndexError, KeyError, RecursionError) as e:
        raise FailedPreconditionError(f"Unsupported zarr dtype: {fields!r:.100}: {e}") from None


_FORMATS: dict[str, tuple[Any, Any]] = {
    name: (format, format.parse_options(Members({})))
    for name, format in (("zarr2", _HdmfZarr2Format()), ("zarr3", Zarr3Format()), ("n5", N5Format()))
}
"""The format of each storage format, and its options, which are at their defaults."""
