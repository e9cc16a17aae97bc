"""``TensorStore``: a view of an open array, in its own index space."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, TypeVar

import numpy as np
import numpy.typing as npt

from chunkwise.core.api.array_view import not_writable
from chunkwise.core.api.numpy_protocols import NumpyProtocols, unlike_numpy, writable_view
from chunkwise.core.api.storage_view import StorageStatistics, StorageView
from chunkwise.core.api.transaction import (
    Transaction,
    check_open,
    check_rebind,
    check_transaction,
    in_transaction,
    wrap_of,
)
from chunkwise.core.arrays.base_array import Base
from chunkwise.core.arrays.protocol import OpenArray
from chunkwise.core.base import catalogue
from chunkwise.core.base.arguments import as_flag
from chunkwise.core.base.extras import load
from chunkwise.core.base.public_names import explains_foreign_names
from chunkwise.core.base.threads import Counter
from chunkwise.core.dtypes.as_array import as_array
from chunkwise.core.dtypes.data_type import DataType, DTypeLike
from chunkwise.core.engine.batch import Batch, check_batch
from chunkwise.core.engine.derived_futures import WriteFutures, map_future
from chunkwise.core.engine.future import Future
from chunkwise.core.engine.memory import check_result, empty_result
from chunkwise.core.engine.pool import give_up_since, n_changes
from chunkwise.core.engine.unasked import watches
from chunkwise.core.index_space import Indexable, IndexDomain, IndexTransform, align, inf
from chunkwise.core.specs.open_mode import OpenMode
from chunkwise.core.specs.pretty import pretty_repr
from chunkwise.core.specs.spec import Spec
from chunkwise.core.specs.unit import DimensionUnits
from chunkwise.errors import ChunkwiseError, InvalidArgumentError, OutOfBoundsError, noted

if TYPE_CHECKING:
    from chunkwise.core.trees.node_attributes import ArrayNode

__all__ = ["TensorStore"]

T = TypeVar("T")

_count_read = Counter("/tensorstore/cache/chunk_cache/reads").add
_count_write = Counter("/tensorstore/cache/chunk_cache/writes").add


@explains_foreign_names("TensorStore")
class TensorStore(StorageView, NumpyProtocols):
    """An open array, or a lazy view of one.

    Indexing composes index transforms and reads nothing; coordinates are absolute, so ``store[2:5][2]``
    is the element at 2 and negative numbers don't count from the end.  `read` and `write`
    move data.

    Examples
    --------
    >>> import chunkwise
    >>> spec = {"driver": "zarr3", "kvstore": "memory://a/"}
    >>> array = chunkwise.open(spec, create=True, dtype=chunkwise.int32, shape=[4, 6]).result()
    >>> array[1:3, 2] = 5
    >>> view = array[:, 2]
    >>> view.domain, view.read().result()
    ({ [0, 4*) }, array([0, 5, 5, 0], dtype=int32))
    """

    StorageStatistics: TypeAlias = StorageStatistics

    __slots__ = ()

    def __init__(self) -> None:
        raise TypeError("cannot create 'TensorStore' instances; use chunkwise.open")

    @classmethod
    def _make(
        cls,
        array: OpenArray,
        transform: IndexTransform,
        transaction: Transaction | None = None,
        node: ArrayNode | None = None,
    ) -> TensorStore:
        self = cls.__new__(cls)
        self._array = array
        self._transform = transform
        self._transaction = transaction
        self._node = node
        return self

    # -- base and transaction -----------------------------------------------------------------------

    @property
    def base(self) -> TensorStore | None:
        """The array that this one adapts, if any."""
        based = getattr(self._array, "base", None)
        if based is None:
            return None
        array, transform = based(self._transform)
        return TensorStore._make(array, transform, self._transaction)

    @property
    def transaction(self) -> Transaction | None:
        """The transaction of reads and writes."""
        return self._transaction

    def with_transaction(self, transaction: Transaction | None) -> TensorStore:
        """Return the same view with reads and writes in `transaction`, or in none.

        Parameters
        ----------
        transaction : Transaction, optional
            None for a view without one.

        Returns
        -------
        TensorStore

        Raises
        ------
        ValueError
            If its current transaction has not been committed.
        NotImplementedError
            If the array can't take part in transactions.
        """
        check_transaction(transaction)
        check_rebind(self._transaction)
        array = in_transaction(self._array, transaction)
        return TensorStore._make(array, self._transform, transaction, self._node)

    # -- views ----------------------------------------------------------------------------------

    def __getitem__(self, key: Any) -> TensorStore:
        """Index by a NumPy-style expression, a domain, a transform, a dimension expression or a field's name.

        Raises
        ------
        OutOfBoundsError
            If the key does not fit the domain, or the elements have no such field.
        NotImplementedError
            If the driver opens whole records only.
        """
        if isinstance(key, str) and self._array.numpy_dtype().names:
            from chunkwise.core.api.field import open_field  # few arrays have fields

            wrap = None if self._transaction is None else wrap_of(self._transaction)
            array, transform = open_field(self._array, self._transform, key, wrap)
            return TensorStore._make(array, transform, self._transaction)
        try:
            return self._apply_transform_fn(lambda t: t[key])
        except OutOfBoundsError as e:
            raise noted(e, unlike_numpy(key, self._transform)) from None

    def __setitem__(self, key: Any, value: Any) -> None:
        if isinstance(key, str):
            self[key].write(value).result()
            return
        try:
            transform = self._transform[key]
        except OutOfBoundsError as e:
            raise noted(e, unlike_numpy(key, self._transform)) from None
        self._write_at(transform, value)

    def _apply_transform_fn(self, fn: Callable[[IndexTransform], IndexTransform]) -> TensorStore:
        return TensorStore._make(self._array, fn(self._transform), self._transaction, self._node)

    def _with_units(self, units: DimensionUnits) -> TensorStore:
        """Return the same view of a chunked array, whose own dimensions get `units`."""
        array: Any = self._array
        return TensorStore._make(array.with_units(units), self._transform, self._transaction, self._node)

    def _write_at(self, transform: IndexTransform, value: Any) -> None:
        TensorStore._make(self._array, transform, self._transaction).write(value).result()

    __iter__ = NumpyProtocols.__iter__  # type: ignore[assignment]  # other things that are indexed have none

    # -- data -----------------------------------------------------------------------------------

    @watches
    def read(
        self,
        *,
        order: Literal["C", "F"] = "C",
        batch: Batch | None = None,
        out: Any = None,
    ) -> Future[npt.NDArray[Any]]:
        """Read the whole view.

        Parameters
        ----------
        order : {"C", "F"}
            Memory layout of the result.
        batch : Batch, optional
            Reads of one batch start together; there is no result before it is submitted.  Arrays in memory,
            and arrays computed from them, are read at once.
        out : ndarray, or an array of another library with DLPack, such as a tensor of PyTorch; optional
            Array to read into, in any memory layout, which becomes the result.  It must not be used before
            the future is done.  After a failure, some of its elements may have been set.

        Returns
        -------
        Future of ndarray
            With the view's shape; ``()`` for rank 0.

        Raises
        ------
        ValueError
            If the domain is not finite, the array can't be read, or `out` has another shape or data type or
            is read-only.
        """
        if out is not None and not isinstance(out, np.ndarray):
            return map_future(lambda _: out, self.read(order=order, batch=batch, out=writable_view(out)))
        if order not in ("C", "F"):
            raise TypeError(f"`order` must be specified as 'C' or 'F', got {order!r}")
        if batch is not None:
            check_batch(batch)
        if not self._array.readable:
            return Future.failed(InvalidArgumentError("Source does not support reading."))
        try:
            check_open(self._transaction)
            transform = self._array.bounded(self._transform)
            if not _is_finite(transform):
                raise InvalidArgumentError(f"Read requires a finite domain, got {_explicit(transform)}")
            if out is not None:
                check_result(out, transform.input_shape, self._array.numpy_dtype(), order)
        except ChunkwiseError as e:
            return Future.failed(e)
        _count_read()
        if out is None:
            out = empty_result(transform.input_shape, self._array.numpy_dtype(), order)
        if batch is not None:
            at_once = transform.domain.size == 0 or getattr(self._array, "in_memory", False)
            return batch.defer(lambda: self._array.read_into(transform, out), at_once=at_once)
        return self._array.read_into(transform, out)

    def __array__(
        self, dtype: npt.DTypeLike | None = None, copy: bool | None = None, context: Any = None
    ) -> npt.NDArray[Any]:
        """Read the whole view for NumPy; the result is always a copy.

        Parameters
        ----------
        dtype : dtype, optional
            Type to which the result is converted.
        copy : bool, optional
            Of no effect.
        context : object, optional
            No effect; some callers of the array protocol pass it.
        """
        out = self.read().result()
        return out if dtype is None else out.astype(dtype, copy=False)

    def astype(self, dtype: DTypeLike) -> TensorStore:
        """Return a view that converts elements in reads and writes.

        Parameters
        ----------
        dtype : DTypeLike
            Data type of the elements that the view gives and takes.

        Raises
        ------
        ValueError
            If elements can't be converted in either direction.
        """
        from chunkwise.core.arrays.cast import cast_view  # few reads convert

        array = cast_view(self._array, DataType(dtype), readable=self.readable, writable=self.writable)
        return TensorStore._make(array, self._transform, self._transaction, self._node or self._find_node())

    @watches
    def write(
        self,
        source: Any,
        *,
        batch: Batch | None = None,
        can_reference_source_data_indefinitely: bool | None = None,
    ) -> WriteFutures:
        """Write `source` to the whole view, repeating it along dimensions that it lacks.

        Parameters
        ----------
        source : TensorStore or array_like
        batch : Batch, optional
            Only for a TensorStore source: its reads start with the batch.
        can_reference_source_data_indefinitely : bool, optional
            A promise that the source will not change: ``memory://`` then references it instead of copying raw
            chunks that are contiguous in it.

        Returns
        -------
        WriteFutures
            ``copy`` is done when `source` may be changed, ``commit`` when everything is stored.
        """
        if batch is not None:
            check_batch(batch)
        if can_reference_source_data_indefinitely is not None:
            as_flag(can_reference_source_data_indefinitely, "can_reference_source_data_indefinitely")
        if isinstance(source, TensorStore):
            from chunkwise.core.api.copy import copy_into  # loaded by `open`

            return copy_into(self, source, batch)
        if batch is not None:
            raise InvalidArgumentError(
                "Invalid batch: batch can only be specified when copying from a TensorStore source"
            )
        values = as_array(source, self._array.dtype, self.rank)
        if not self._array.writable:
            return WriteFutures.failed(not_writable(self))
        try:
            check_open(self._transaction)
            transform = self._array.bounded(self._transform)
        except ChunkwiseError as e:
            return WriteFutures.failed(e)
        if values.shape != transform.input_shape:
            try:
                values = _broadcast(values, transform)
            except InvalidArgumentError as e:
                return WriteFutures.failed(e)
        _count_write()
        write = self._array.write_from
        if can_reference_source_data_indefinitely:
            write = getattr(self._array, "write_referenced", write)
        n = n_changes()
        try:
            return write(transform, values)
        except BaseException:  # Ctrl-C, and the caller has no future to cancel
            give_up_since(n)
            raise

    def view(self) -> Any:
        """Return a widget for notebooks: a slice of the array, and a slider for each other dimension.

        It communicates through the kernel and needs no port.

        Raises
        ------
        ImportError
            If anywidget isn't installed; the extra ``notebook`` installs it.
        InvalidArgumentError
            If there are fewer than two dimensions, or one is empty.
        """
        load("anywidget", "view()")
        return catalogue.hooks["notebook widget"](self)

    # -- description ----------------------------------------------------------------------------

    def spec(
        self,
        *,
        open_mode: OpenMode | None = None,
        open: bool | None = None,
        create: bool | None = None,
        delete_existing: bool | None = None,
        assume_metadata: bool | None = None,
        assume_cached_metadata: bool | None = None,
        minimal_spec: bool | None = None,
        retain_context: bool | None = None,
        unbind_context: bool | None = None,
        recheck_cached_metadata: bool | float | Literal["open"] | None = None,
        recheck_cached_data: bool | float | Literal["open"] | None = None,
        recheck_cached: bool | float | Literal["open"] | None = None,
    ) -> Spec:
        """Return a spec that opens this view again, with the array's current bounds.

        Parameters
        ----------
        open_mode, open, create, delete_existing, assume_metadata, assume_cached_metadata
            Open mode; see `OpenMode`.
        minimal_spec : bool, optional
            Leave out the metadata.
        retain_context : bool, optional
            Keep the live context resources.
        unbind_context : bool, optional
            Describe them in the member ``context``.  Without either option they are left out.
        recheck_cached_metadata, recheck_cached_data, recheck_cached : bool, "open" or float, optional
            See `Spec.update`.
        """
        retain = as_flag(retain_context, "retain_context") or as_flag(unbind_context, "unbind_context")
        check_open(self._transaction)
        spec = Base(self._array, self._transform).spec()
        spec.update(
            open_mode=open_mode,
            open=open,
            create=create,
            delete_existing=delete_existing,
            assume_metadata=assume_metadata,
            assume_cached_metadata=assume_cached_metadata,
            minimal_spec=minimal_spec,
            unbind_context=unbind_context,
            strip_context=not retain,
            recheck_cached_metadata=recheck_cached_metadata,
            recheck_cached_data=recheck_cached_data,
            recheck_cached=recheck_cached,
        )
        return spec

    def __repr__(self) -> str:
        try:
            spec = self.spec(retain_context=True)
            return pretty_repr(
                "TensorStore", Spec._of(spec._driver.shown().abbreviated(), spec.transform).to_json()
            )
        except ChunkwiseError:  # functions have no JSON, a transaction may be over
            return "TensorStore(...)"

    def __copy__(self) -> TensorStore:
        return self


Indexable.register(TensorStore)


def _is_finite(transform: IndexTransform) -> bool:
    lower, upper = transform.input_inclusive_min, transform.input_exclusive_max
    return min(lower, default=0) > -inf and max(upper, default=0) <= inf


def _explicit(transform: IndexTransform) -> IndexDomain:
    return transform.mark_bounds_implicit[False].domain


def _broadcast(values: npt.NDArray[Any], transform: IndexTransform) -> npt.NDArray[Any]:
    """Return `values` broadcast to the shape of the domain of `transform`, aligned at the last dimension."""
    if not _is_finite(transform):
        raise InvalidArgumentError(f"Write requires a finite domain, got {_explicit(transform)}")
    try:
        return np.broadcast_to(values, transform.input_shape)
    except ValueError:
        align(IndexDomain(shape=values.shape), _explicit(transform))  # raises, with the dimension
        raise
