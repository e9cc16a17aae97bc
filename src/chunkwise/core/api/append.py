"""Appending to open arrays: where the rows of a view go, and the view that they are written to."""

from __future__ import annotations

from operator import index
from typing import Any

from chunkwise.core.api.resize_bounds import resize_request
from chunkwise.core.arrays.chunked import ChunkedArray
from chunkwise.core.driver.tree_formats import FORMATS
from chunkwise.core.dtypes.as_array import as_array
from chunkwise.core.index_space import IndexTransform
from chunkwise.core.trees.append import Append, Growing, appending
from chunkwise.core.trees.location import location_of
from chunkwise.errors import FailedPreconditionError, InvalidArgumentError, ResizedError, UnsupportedError

__all__ = ["Room", "append_rows", "stored_axis"]


class Room:
    """Room for rows after the end of an array, invisible before `Append.commit`."""

    def __init__(self, view: Any, axis: int, n_rows: int) -> None:
        self._view, self._axis = view, axis
        array = view._array
        if view.transaction is not None:
            raise UnsupportedError("append can't be part of a transaction")
        view._check_resizable()
        format = FORMATS.get(array.spec().driver)
        if not isinstance(array, ChunkedArray) or format is None:
            raise UnsupportedError(f'"{array.spec().driver}" arrays take no append')
        if array.stored.field is not None:
            raise FailedPreconditionError(
                "append would affect other fields of the records: append whole records"
            )
        transform = view._transform
        highs = [(d == axis and n + n_rows) or None for d, n in enumerate(transform.input_exclusive_max)]
        resize_request(
            transform,
            array.domain,
            None,
            highs,
            metadata_only=False,
            tied=False,
            expand_only=True,
            shrink_only=False,
        )
        self._array = array
        self._out, self._offset = stored_axis(view, axis)
        kvstore = array.spec().kvstore
        assert kvstore is not None, "it is stored"
        self.growing = Growing(location_of(kvstore), format, self._out, n_rows)

    def open(self, append: Append) -> Any:
        """Return the view to write the rows to."""
        array, rows = self._array, append.new_rows(self.growing)
        array.refresh()
        longer = array.longer(self._out, rows.stop, rows)
        whole = IndexTransform.identity(longer.domain).compose(self._view._transform)
        index = (*(slice(None),) * self._axis, slice(rows.start - self._offset, rows.stop - self._offset))
        return type(self._view)._make(longer, whole[index])

    def close(self) -> None:
        """Make the view show the new rows."""
        self._array.refresh()
        self._view._transform = self._view._resolved(self._array.domain)


def stored_axis(view: Any, axis: int) -> tuple[int, int]:
    """Return the dimension of the stored array that an axis of a view is, and its index at 0 of the view."""
    outputs = enumerate(view._transform.output)
    return next((o, m.offset) for o, m in outputs if m.input_dimension == axis)


def append_rows(view: Any, data: Any, axis: int) -> tuple[int, ...]:
    """Append to the array of a view; return the new shape."""
    shape: tuple[int, ...] = view.shape
    rank = len(shape)
    at = index(axis)
    if not -rank <= at < rank:
        raise InvalidArgumentError(f"axis {at} is out of bounds for an array of {rank} dimensions")
    at %= rank
    if not isinstance(data, type(view)):
        data = as_array(data, view.dtype, rank)
    given = tuple(data.shape)
    if len(given) != rank or any(
        a != b for d, (a, b) in enumerate(zip(given, shape, strict=True)) if d != at
    ):
        raise InvalidArgumentError(
            f"data of shape {list(given)} can't be appended along axis {at} to an array of "
            f"shape {list(shape)}: the other sizes must be equal"
        )
    room = Room(view, at, given[at])
    while given[at]:
        try:
            with appending([room.growing]) as append:
                room.open(append).write(data).result()
                append.commit()
            break
        except ResizedError:  # by others, without an append: after their rows
            continue
    room.close()
    shape = view.shape
    return shape
