"""``Growing``: an array that gets more rows, by its document and its chunks; and the rows that it gets."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

import numpy as np

from chunkwise.core.arrays.open_chunked import open_chunked
from chunkwise.core.base.binding import JSON, expect_int
from chunkwise.core.driver.chunked.spec import ChunkedSpec
from chunkwise.core.driver.stored_array import StoredArray
from chunkwise.core.driver.tree_format import FormatName
from chunkwise.core.driver.tree_formats import DRIVERS, tree_format
from chunkwise.core.engine.concurrent_requests import map_requests
from chunkwise.core.engine.pool import Pool
from chunkwise.core.engine.write import write_from
from chunkwise.core.index_space import IndexDomain, IndexTransform
from chunkwise.core.kvstore.adapter.guarded import GuardedStore
from chunkwise.core.kvstore.places.lease import check_owner
from chunkwise.core.kvstore.protocol import KvStoreDriver
from chunkwise.core.plan.plan import plan_read
from chunkwise.core.specs.context import Context
from chunkwise.core.specs.spec import Spec
from chunkwise.core.trees.document import change_document, read_document
from chunkwise.core.trees.location import Location
from chunkwise.errors import NotFoundError, ResizedError

__all__ = ["Growing", "NewRows"]

Opener: TypeAlias = Callable[[], "tuple[StoredArray, KvStoreDriver, Pool]"]


@dataclass(frozen=True)
class Growing:
    """An array that gets `n_rows` more along `axis`, which counts as in its metadata document."""

    location: Location
    format: FormatName
    axis: int
    n_rows: int
    open: Opener | None = None  # how its chunks are written, if not by the general drivers
    updates_copies: bool = True

    @property
    def document_key(self) -> str:
        """Key of the document with the shape."""
        return self.location.path + tree_format(self.format).array_key

    def shape(self) -> tuple[int, ...]:
        """Return the stored shape."""
        return _shape_in(read_document(self.location.store, self.document_key), self)

    def resize(self, before: int, after: int, check: Callable[[], None]) -> None:
        """Change the size along the axis; raise ResizedError if it is neither `before` nor `after`."""
        member = tree_format(self.format).shape_member

        def change(document: Any) -> Any:
            shape = _shape_in(document, self)
            if shape[self.axis] == after:
                return document
            _check_size(self, shape[self.axis], before)
            check()
            return {**document, member: [*shape[: self.axis], after, *shape[self.axis + 1 :]]}

        change_document(self.location.store, self.document_key, change, load=tree_format(self.format).load)

    def clear(self, check: Callable[[], None]) -> None:
        """Remove rows beyond the end of the array."""
        stored, base, pool = _open(self) if self.open is None else self.open()
        store = _guarded(base, check)
        size = stored.shape[self.axis]
        long = stored._replace(shape=_with(stored.shape, self.axis, size + self.n_rows))
        edge = min(stored.grid.cell(self.axis, size - 1)[2] if size else 0, size + self.n_rows)
        if edge > size:  # the last chunk has room
            rows = _rows(long, self.axis, size, edge)
            values = np.broadcast_to(np.asarray(stored.fill_value, stored.numpy_dtype), rows.input_shape)
            write_from(long, store, rows, values, pool=pool).result()
        beyond = plan_read(_rows(long, self.axis, max(edge, size), size + self.n_rows), stored.grid)
        map_requests(store, store.delete, list(beyond.keys(stored.keys)))


@dataclass(frozen=True)
class NewRows:
    """Rows beyond the end of an array; a function from its store to the one that they are written with."""

    array: Growing
    start: int
    record_key: str
    owner: str

    @property
    def stop(self) -> int:
        """Size of the array with the rows."""
        return self.start + self.array.n_rows

    def __call__(self, base: KvStoreDriver, atomic: bool) -> KvStoreDriver:
        return _guarded(base, self._check)

    def _check(self) -> None:
        check_owner(self.array.location.store, self.record_key, self.owner)
        _check_size(self.array, self.array.shape()[self.array.axis], self.start)


def _shape_in(document: JSON, array: Growing) -> tuple[int, ...]:
    format = tree_format(array.format)
    shape = format.usual_form(document).get(format.shape_member) if isinstance(document, dict) else None
    if not isinstance(shape, list) or not array.axis < len(shape):
        raise NotFoundError(f"there is no longer an array at {array.location.text}")
    return tuple(map(expect_int, shape))


def _check_size(array: Growing, size: int, before: int) -> None:
    if size != before:
        raise ResizedError(
            f"{array.location.text}: axis {array.axis} has size {size}, no longer {before}: another writer "
            "resized the array, without an append"
        )


def _guarded(base: KvStoreDriver, check: Callable[[], None]) -> GuardedStore:
    return GuardedStore(base, check, lambda written: None, check_new=True)


def _rows(stored: StoredArray, axis: int, start: int, stop: int) -> IndexTransform:
    """Return the transform of a range along an axis."""
    index = (*(slice(None),) * axis, slice(start, stop))
    return IndexTransform.identity(IndexDomain(shape=stored.shape))[index]


def _with(shape: tuple[int, ...], axis: int, size: int) -> tuple[int, ...]:
    return (*shape[:axis], size, *shape[axis + 1 :])


def _open(array: Growing) -> tuple[StoredArray, KvStoreDriver, Pool]:
    # Blocks at the end of N5 may be cropped, which all of its readers take.
    crop = {"crop_end_blocks": True} if tree_format(array.format).reversed_axes else {}
    spec = Spec({"driver": DRIVERS[array.format], "open": True, **crop})._driver.bind(Context())
    assert isinstance(spec, ChunkedSpec)
    opened = open_chunked(replace(spec, kvstore=array.location.kvstore()), readable=True, writable=True)
    return opened.stored, opened.store, opened.pool
