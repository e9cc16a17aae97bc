"""The stored array of a view: its current bounds, resizing, stored chunks, and requests of a read."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable
from typing import TYPE_CHECKING, Any, Self, TypeVar

from chunkwise.core.api.array_view import ArrayView, not_writable
from chunkwise.core.api.resize_bounds import as_bounds, resize_request
from chunkwise.core.api.transaction import check_open, not_open
from chunkwise.core.arrays import protocol
from chunkwise.core.arrays.protocol import ResizeRequest
from chunkwise.core.base.arguments import as_flag, check_same_type
from chunkwise.core.base.foreign_names import instead_of
from chunkwise.core.base.public_names import checks_arguments
from chunkwise.core.engine.abandoned_changes import EVERYWHERE
from chunkwise.core.engine.batch import Batch, check_batch
from chunkwise.core.engine.derived_futures import map_future
from chunkwise.core.engine.future import Future
from chunkwise.core.engine.unasked import in_background, watches
from chunkwise.core.index_space import IndexDomain, IndexTransform
from chunkwise.errors import (
    ChunkwiseError,
    InvalidArgumentError,
    OutOfBoundsError,
    UnsupportedError,
    as_value_error,
    noted,
)

if TYPE_CHECKING:
    from chunkwise.core.api.array_info import ArrayInfo, Explanation

__all__ = ["StorageStatistics", "StorageView"]


class StorageStatistics:
    """Storage of the chunks of a region; None for a query that was not requested.

    Parameters
    ----------
    not_stored : bool, optional
        True if no chunk that meets the region is stored.
    fully_stored : bool, optional
        True if every chunk that meets the region is stored.

    Examples
    --------
    >>> import chunkwise
    >>> spec = {"driver": "zarr3", "kvstore": "memory://a/"}
    >>> array = chunkwise.open(spec, create=True, dtype="int32", shape=[4]).result()
    >>> array.storage_statistics(query_not_stored=True).result().not_stored
    True
    """

    __slots__ = ("__weakref__", "_fully_stored", "_not_stored")

    def __init__(self, *, not_stored: bool | None = None, fully_stored: bool | None = None) -> None:
        self.not_stored = not_stored
        self.fully_stored = fully_stored

    @property
    def not_stored(self) -> bool | None:
        """True if no chunk that meets the region is stored; can be set."""
        return self._not_stored

    @not_stored.setter
    def not_stored(self, value: bool | None) -> None:
        self._not_stored = None if value is None else as_flag(value, "not_stored")

    @property
    def fully_stored(self) -> bool | None:
        """True if every chunk that meets the region is stored; can be set."""
        return self._fully_stored

    @fully_stored.setter
    def fully_stored(self, value: bool | None) -> None:
        self._fully_stored = None if value is None else as_flag(value, "fully_stored")

    def __eq__(self, other: object) -> bool:
        check_same_type(self, other)
        assert isinstance(other, StorageStatistics)
        return (self._not_stored, self._fully_stored) == (other._not_stored, other._fully_stored)

    __hash__ = None  # type: ignore[assignment]

    def __reduce__(self) -> tuple[Any, ...]:
        return _make, (self._not_stored, self._fully_stored)

    def __repr__(self) -> str:
        return (
            f"TensorStore.StorageStatistics(not_stored={self._not_stored}, fully_stored={self._fully_stored})"
        )


def _make(not_stored: bool | None, fully_stored: bool | None) -> StorageStatistics:
    return StorageStatistics(not_stored=not_stored, fully_stored=fully_stored)


T = TypeVar("T")


class StorageView(ArrayView):
    """The methods of a view that query or change the stored array."""

    __slots__ = ()

    def info(self) -> ArrayInfo:
        """Return the properties of the array as a mapping, whose text is a table.  Nothing is read."""
        from chunkwise.core.api.array_info import array_info

        return array_info(self)

    def _repr_html_(self) -> str | None:
        from chunkwise.core.api.array_info import array_html

        try:
            return array_html(self)
        except ChunkwiseError:  # the array is gone, or a transaction is over: the text says so
            return None

    @watches
    def resolve(self, fix_resizable_bounds: bool = False, batch: Batch | None = None) -> Future[Self]:
        """Return the view with its current implicit bounds.

        Parameters
        ----------
        fix_resizable_bounds : bool
            Make all bounds of the result explicit.
        batch : Batch, optional
            No effect, since there is only one request.
        """

        check_batch(batch)
        fixed = as_flag(fix_resizable_bounds, "fix_resizable_bounds")

        def start() -> Future[Self]:
            error = not_open(self._transaction)
            if error is not None:
                return Future.failed(error)
            found = self._without_waiting(self._array.resolve)
            return map_future(lambda domain: self._with_domain(domain, fixed=fixed), found)

        return start() if batch is None else batch.defer(start, at_once=True)

    def _without_waiting(self, work: Callable[[], Future[T]], *, writes: Hashable = None) -> Future[T]:
        """Start `work`, which waits for metadata, in another thread if it waits for a network."""
        remote = getattr(self._array, "is_remote", None)  # making a spec takes long
        if remote is None:
            remote = self._array.spec().is_remote
        return in_background(lambda: work().result(), writes=writes) if remote else work()

    @checks_arguments("resize")
    @watches
    def resize(
        self,
        inclusive_min: Iterable[int | None] | None = None,
        exclusive_max: Iterable[int | None] | None = None,
        resize_metadata_only: bool = False,
        resize_tied_bounds: bool = False,
        expand_only: bool = False,
        shrink_only: bool = False,
    ) -> Future[Self]:
        """Change the bounds of the stored array.

        Parameters
        ----------
        inclusive_min, exclusive_max : sequence of (int or None), optional
            New bounds in the view's index space; None leaves a bound unchanged.
        resize_metadata_only : bool
            Don't delete chunks outside the new bounds.
        resize_tied_bounds : bool
            Allow resizing even if it affects parts of the array outside the view.
        expand_only, shrink_only : bool
            Refuse to shrink, or to grow, the array.

        Returns
        -------
        Future of TensorStore
            The view with its new domain; this view is unchanged.
        """
        lows, highs = as_bounds(inclusive_min), as_bounds(exclusive_max)
        metadata_only = as_flag(resize_metadata_only, "resize_metadata_only")
        tied = as_flag(resize_tied_bounds, "resize_tied_bounds")
        expand_only, shrink_only = as_flag(expand_only, "expand_only"), as_flag(shrink_only, "shrink_only")
        rank = self._transform.input_rank
        try:
            if any(bounds is not None and len(bounds) != rank for bounds in (lows, highs)):
                raise InvalidArgumentError(f"inclusive_min and exclusive_max must have rank {rank}")
            self._check_resizable()
            request = resize_request(
                self._transform,
                self._array.domain,
                lows,
                highs,
                metadata_only=metadata_only,
                tied=tied,
                expand_only=expand_only,
                shrink_only=shrink_only,
            )
        except ChunkwiseError as e:
            if lows is not None and highs is None:  # a shape, of a user who will hardly look at the future
                raise noted(e, instead_of("resize", "shape")[2:]) from None
            return Future.failed(e)
        return self._resize(request)

    def append(self, data: Any, axis: int = 0) -> tuple[int, ...]:
        """Add rows at the end of the stored array: all of them, or none.

        Any number of processes may append at the same time: the rows of each call have a place of their own,
        in the order in which the calls end.  Readers see them all at once, when they are stored.  A process
        that is killed leaves the array as it was, or with all rows of the call.

        Parameters
        ----------
        data : array_like or TensorStore
            The rows to add, in the shape of the view except along `axis`.
        axis : int
            Dimension that grows; a negative one counts from the last.

        Returns
        -------
        tuple of int
            The new shape, which this view has then, too.

        Raises
        ------
        UnsafeWriteError
            If the store has no conditional writes, and so can't exclude another append.
        InvalidArgumentError
            If the shape of `data` doesn't fit, or an element has a type or value that can't be stored.
        FailedPreconditionError
            If the view is a part of the array.
        UnsupportedError
            If the array isn't stored in chunks, or the view is in a transaction.
        AbortedError
            If this process was stopped for so long that another one gave it up; nothing was appended.

        Examples
        --------
        >>> import chunkwise
        >>> array = chunkwise.create_array("memory://appended/", [[1, 2]])
        >>> array.append([[3, 4], [5, 6]])
        (3, 2)
        >>> array.append([[7], [8], [9]], axis=1)
        (3, 3)
        """
        from chunkwise.core.api.append import append_rows  # few programs append

        return append_rows(self, data, axis)

    def _check_resizable(self) -> None:
        if not self._array.writable:
            raise not_writable(self)
        check_open(self._transaction)
        if not self._array.resizable:
            raise UnsupportedError("Resize not supported")

    def _resize(self, request: ResizeRequest) -> Future[Self]:
        resized = self._without_waiting(lambda: self._array.resize(request), writes=EVERYWHERE)
        return map_future(self._with_domain, resized)

    @watches
    def storage_statistics(
        self, *, query_not_stored: bool = False, query_fully_stored: bool = False
    ) -> Future[StorageStatistics]:
        """Query whether the chunks that the view meets are stored.

        Parameters
        ----------
        query_not_stored : bool
            Ask whether no chunk is stored.
        query_fully_stored : bool
            Ask whether all chunks are stored.

        Returns
        -------
        Future of StorageStatistics
            What wasn't asked is None.
        """
        as_flag(query_not_stored, "query_not_stored")
        as_flag(query_fully_stored, "query_fully_stored")

        def answer(counted: protocol.StorageStatistics) -> StorageStatistics:
            return StorageStatistics(
                not_stored=counted.n_stored == 0 if query_not_stored else None,
                fully_stored=counted.n_stored == counted.n_chunks if query_fully_stored else None,
            )

        most = None if query_fully_stored else 1  # one stored chunk is enough
        count = lambda: self._array.count_stored(self._transform, most)  # noqa: E731
        return map_future(answer, self._without_waiting(count))

    def explain(self) -> Explanation:
        """Return the requests of a read of the view: their number, bytes, shards, cache hits.

        Nothing is read for this.  The result can be printed, or its numbers used; ``chunkwise plan`` shows
        the same.

        Returns
        -------
        Explanation

        Raises
        ------
        NotImplementedError
            If the array is not stored in chunks in one kvstore.
        """
        from chunkwise.core.api.array_info import explain

        return explain(self._array, self._transform)

    def _with_domain(self, domain: IndexDomain, *, fixed: bool = False) -> Self:
        view = self._apply_transform_fn(lambda _: self._resolved(domain))
        return view.mark_bounds_implicit[False] if fixed else view

    def _resolved(self, domain: IndexDomain) -> IndexTransform:
        """Return the transform with implicit bounds from `domain`, which is the array's."""
        try:
            return IndexTransform.identity(domain).compose(self._transform)
        except OutOfBoundsError as e:
            raise as_value_error(e) from None
