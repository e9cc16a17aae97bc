"""Changing the shape of a stored array.

The metadata is read, changed and written on condition that it is unchanged, so that simultaneous resizes and
changes of attributes are not lost.  Chunks that are then wholly outside are deleted afterwards: a reader that
opens the array in between sees the new shape, and all its chunks exist.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from contextlib import suppress
from functools import partial

from chunkwise.core.base.binding import dump
from chunkwise.core.driver.chunked.format import Metadata
from chunkwise.core.driver.chunked.open_flow import Opened, OpenRequest, read_metadata
from chunkwise.core.driver.flow import Flow, Put
from chunkwise.core.kvstore.compare_and_swap import Losses
from chunkwise.core.kvstore.protocol import UNKNOWN_GENERATION
from chunkwise.errors import ChunkwiseError, FailedPreconditionError, InvalidArgumentError, prefixed

__all__ = ["new_shape", "replaced", "resize_array"]


def replaced(request: OpenRequest, known: Metadata, found: Metadata) -> FailedPreconditionError:
    """Return the error for metadata that no longer belongs to the array that was opened."""
    name = request.format.driver
    return FailedPreconditionError(
        f"Updated {name.upper() if name == 'n5' else name} metadata {dump(found.document)} "
        f"is incompatible with existing metadata {dump(known.document)} at {request.name}"
    )


def new_shape(
    shape: tuple[int, ...],
    inclusive_min: Sequence[int | None],
    exclusive_max: Sequence[int | None],
    *,
    expand_only: bool,
    shrink_only: bool,
) -> tuple[int, ...]:
    """Return the shape after a resize of an array whose origin is 0."""
    out = []
    for dim, (size, lower, upper) in enumerate(zip(shape, inclusive_min, exclusive_max, strict=True)):
        if lower not in (None, 0):
            raise FailedPreconditionError(
                f"Cannot change inclusive lower bound of output dimension {dim}, "
                f"which is fixed at 0, to {lower}"
            )
        wanted = size if upper is None else upper
        if wanted < 0:
            raise InvalidArgumentError(
                f"Invalid resize request for output dimension {dim}: "
                f"expected an upper bound of at least 0, got {wanted}"
            )
        for change, limit, forbidden in (
            ("expand", "shrink_only", shrink_only and wanted > size),
            ("shrink", "expand_only", expand_only and wanted < size),
        ):
            if forbidden:
                raise FailedPreconditionError(
                    f"Resize operation would {change} output dimension {dim} "
                    f"from [0, {size}) to [0, {wanted}) but `{limit}` was specified"
                )
        out.append(wanted)
    return tuple(out)


def resize_array(
    request: OpenRequest,
    known: Opened,
    inclusive_min: Sequence[int | None],
    exclusive_max: Sequence[int | None],
    *,
    expand_only: bool = False,
    shrink_only: bool = False,
    at_once: bool = False,
) -> Flow[tuple[Opened, tuple[int, ...]]]:
    """Write metadata with a new shape; return it, and the shape before.

    With `at_once`, it is written on condition of the known generation, and read only if that fails.  The
    store must compare generations when it writes, not later as in a transaction.
    """
    wanted = partial(
        new_shape,
        inclusive_min=inclusive_min,
        exclusive_max=exclusive_max,
        expand_only=expand_only,
        shrink_only=shrink_only,
    )
    if at_once and known.generation != UNKNOWN_GENERATION:
        now = time.time()
        shape = before = known.metadata.shape
        with suppress(ChunkwiseError):  # the stored shape may cause no error
            shape = wanted(before)
        if shape != before:
            written = yield from _write(request, known._replace(time=now), shape)
            if written is not None:
                return written, before
    losses = Losses(lambda: request.name)
    while True:
        current = yield from read_metadata(request, known)
        if not request.format.same_but_resized(known.metadata, current.metadata):
            raise replaced(request, known.metadata, current.metadata)
        before = current.metadata.shape
        with prefixed(f"Error writing {request.name}", ChunkwiseError):
            shape = wanted(before)
        if shape == before:
            return current, before
        written = yield from _write(request, current, shape)
        if written is not None:
            return written, before
        losses.add(current.generation)


def _write(request: OpenRequest, current: Opened, shape: tuple[int, ...]) -> Flow[Opened | None]:
    """Write the metadata with another shape; None if it is no longer current."""
    metadata = current.metadata.resized(shape)
    written = yield Put(request.key, request.format.encode(metadata), current.generation)
    return None if written is None else Opened(metadata, written, current.time, written=True)
