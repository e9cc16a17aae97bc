"""The stored array of a view: its current bounds, resizing, stored chunks, and requests of a read."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Sequence
from operator import index
from typing import Self, TypeVar

from chunkwise.core.api.array_view import ArrayView
from chunkwise.core.api.explain import Explanation, explain
from chunkwise.core.api.storage_statistics import StorageStatistics
from chunkwise.core.api.transaction import check_open, not_open
from chunkwise.core.arrays import protocol
from chunkwise.core.arrays.protocol import ResizeRequest
from chunkwise.core.base.arguments import as_flag
from chunkwise.core.base.habits import instead_of
from chunkwise.core.base.unknown_names import checks_arguments
from chunkwise.core.engine.background import in_background
from chunkwise.core.engine.batch import Batch, check_batch
from chunkwise.core.engine.combine import map_future
from chunkwise.core.engine.future import Future
from chunkwise.core.engine.unfinished import EVERYWHERE
from chunkwise.core.index_space import IndexDomain, IndexTransform
from chunkwise.errors import (
    ChunkwiseError,
    FailedPreconditionError,
    InvalidArgumentError,
    OutOfBoundsError,
    UnsupportedError,
    as_value_error,
    noted,
)

__all__ = ["StoredView"]

T = TypeVar("T")

Bounds = Sequence[int | None]


class StoredView(ArrayView):
    """The methods of a view that query or change the stored array."""

    __slots__ = ()

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
            is_shape = lows is not None and highs is None
            return Future.failed(noted(e, instead_of("resize", "shape")[2:] if is_shape else ""))
        return self._resize(request)

    def _resize_from(self, dim: int, before: int, after: int) -> Future[Self]:
        """Move the upper bound of a dimension; fail with `ResizedError` unless it still is `before`."""
        try:
            self._check_resizable()
            was, request = (
                resize_request(
                    self._transform,
                    self._array.domain,
                    None,
                    [bound if d == dim else None for d in range(self._transform.input_rank)],
                    metadata_only=False,
                    tied=False,
                    expand_only=False,
                    shrink_only=False,
                )
                for bound in (before, after)
            )
        except ChunkwiseError as e:
            return Future.failed(e)
        return self._resize(request._replace(expected=was.exclusive_max))

    def _check_resizable(self) -> None:
        if not self._array.writable:
            raise InvalidArgumentError("Destination does not support writing.")
        check_open(self._transaction)
        if not self._array.resizable:
            raise UnsupportedError("Resize not supported")

    def _resize(self, request: ResizeRequest) -> Future[Self]:
        resized = self._without_waiting(lambda: self._array.resize(request), writes=EVERYWHERE)
        return map_future(self._with_domain, resized)

    def storage_statistics(
        self, *, query_not_stored: bool = False, query_fully_stored: bool = False
    ) -> Future[StorageStatistics]:
        """Query whether the chunks that the view meets are stored."""
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


def as_bounds(values: Iterable[int | None] | None) -> list[int | None] | None:
    """Return a user's bounds as a list; raise TypeError for anything but integers and None."""
    return None if values is None else [None if v is None else index(v) for v in values]


def resize_request(
    transform: IndexTransform,
    domain: IndexDomain,
    inclusive_min: Bounds | None,
    exclusive_max: Bounds | None,
    *,
    metadata_only: bool,
    tied: bool,
    expand_only: bool,
    shrink_only: bool,
) -> ResizeRequest:
    """Map new bounds of a view to bounds of the array; None leaves a bound unchanged."""
    rank = transform.input_rank
    lows = inclusive_min if inclusive_min is not None else [None] * rank
    highs = exclusive_max if exclusive_max is not None else [None] * rank
    out_low: list[int | None] = [None] * transform.output_rank
    out_high: list[int | None] = [None] * transform.output_rank
    for d, (low, high) in enumerate(zip(lows, highs, strict=True)):
        _check_requested(transform, d, low, high)
        if low is None and high is None:
            continue
        for o, m in enumerate(transform.output):
            if m.input_dimension != d:
                continue
            if m.stride not in (1, -1):
                raise InvalidArgumentError(
                    f"Output dimension {o} depends on resized input dimension {d} "
                    f"with non-unit stride of {m.stride}"
                )
            start = None if low is None else m.offset + m.stride * low
            stop = None if high is None else m.offset + m.stride * high
            if m.stride < 0:
                start, stop = (None if stop is None else stop + 1), (None if start is None else start + 1)
            out_low[o], out_high[o] = start, stop
    if not tied and any(bound is not None for bound in (*out_low, *out_high)):
        _check_covers(transform, domain)
    return ResizeRequest(out_low, out_high, metadata_only, expand_only, shrink_only, tied)


def _check_requested(transform: IndexTransform, d: int, low: int | None, high: int | None) -> None:
    problem = f"Invalid resize request for input dimension {d}"
    if low is not None and high is not None and low > high:
        raise InvalidArgumentError(f"{problem}: Invalid requested bounds [{low}, {high})")
    if low is not None and not transform.implicit_lower_bounds[d]:
        raise InvalidArgumentError(f"{problem}: Cannot change explicit lower bound")
    if high is not None and not transform.implicit_upper_bounds[d]:
        raise InvalidArgumentError(f"{problem}: Cannot change explicit upper bound")
    # The other bound is unchanged.
    first, last = transform.input_inclusive_min[d], transform.input_exclusive_max[d]
    if high is not None and low is None and not transform.implicit_lower_bounds[d] and high < first:
        raise InvalidArgumentError(f"{problem}: Invalid requested bounds [{first}, {high})")
    if low is not None and high is None and not transform.implicit_upper_bounds[d] and low > last:
        raise InvalidArgumentError(f"{problem}: Invalid requested bounds [{low}, {last})")


def _check_covers(transform: IndexTransform, domain: IndexDomain) -> None:
    """Raise unless the view covers the whole array, apart from open implicit bounds."""
    unless = "but `resize_tied_bounds` was not specified"
    used: set[int] = set()
    for o, m in enumerate(transform.output):
        if m.index_array is not None:
            raise InvalidArgumentError(f"Output dimension {o} has index array map {unless}")
        d = m.input_dimension
        low, high = m.offset, m.offset + 1
        if d is not None:
            if d in used:
                raise InvalidArgumentError(f"Input dimension {d} corresponds to a diagonal {unless}")
            used.add(d)
            if m.stride not in (1, -1):
                raise InvalidArgumentError(
                    f"Output dimension {o} depends on input dimension {d} "
                    f"with non-unit stride of {m.stride} {unless}"
                )
            low, high = _covered(transform, domain, o)
        for start, stop in ((domain.inclusive_min[o], low), (high, domain.exclusive_max[o])):
            if start < stop:
                raise FailedPreconditionError(
                    f"Resize operation would also affect output dimension {o} "
                    f"over the interval [{start}, {stop}) {unless}"
                )


def _covered(transform: IndexTransform, domain: IndexDomain, o: int) -> tuple[int, int]:
    """Return the interval of output dimension `o` that the view covers; an implicit end covers everything."""
    m = transform.output[o]
    d = m.input_dimension
    assert d is not None and m.stride is not None
    ends = (m.offset + m.stride * transform.input_inclusive_min[d], transform.implicit_lower_bounds[d])
    other = (m.offset + m.stride * transform.input_exclusive_max[d], transform.implicit_upper_bounds[d])
    if m.stride < 0:
        ends, other = (other[0] + 1, other[1]), (ends[0] + 1, ends[1])
    low = domain.inclusive_min[o] if ends[1] else ends[0]
    return low, domain.exclusive_max[o] if other[1] else other[0]
