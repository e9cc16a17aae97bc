"""Opening a scale of a volume, or adding one to it, in the order that makes concurrent creators safe.

Like `chunkwise.core.driver.chunked.open_flow`, but the document belongs to the volume: a new scale is added
to its scales, on condition that the document is unchanged.
"""

from __future__ import annotations

import time

from chunkwise.core.driver.chunked.open_flow import Opened, OpenRequest, replaced
from chunkwise.core.driver.flow import Flow, Get, Put
from chunkwise.core.driver.neuroglancer_precomputed.format import PrecomputedFormat
from chunkwise.core.driver.neuroglancer_precomputed.members import Info, parse_info
from chunkwise.core.driver.neuroglancer_precomputed.schema import with_new_scale
from chunkwise.core.kvstore.protocol import MISSING_GENERATION, UNKNOWN_GENERATION
from chunkwise.errors import (
    ChunkwiseError,
    FailedPreconditionError,
    NotFoundError,
    prefix,
)

__all__ = ["open_scale"]


def open_scale(request: OpenRequest, format: PrecomputedFormat) -> Flow[Opened]:
    """Open or create the scale described by `request`; `format` belongs to it."""
    mode = request.mode
    if mode.assume_metadata or mode.assume_cached_metadata:
        metadata = format.create(request.constraints, request.options, request.schema)
        return Opened(metadata, UNKNOWN_GENERATION, float("-inf"))
    if mode.delete_existing:
        return (yield from _replaced(request, format))
    while True:
        stamped = yield Get(request.key)
        info = None if stamped.value is None else _read(request, format, bytes(stamped.value))
        if info is not None and mode.open:
            try:
                metadata = format.metadata(info)
            except NotFoundError:
                if not mode.create:
                    raise
            else:
                format.check(metadata, request.constraints, request.options, request.schema)
                return Opened(metadata, stamped.generation, stamped.time)
        if not mode.create:
            raise NotFoundError(f"Metadata at {request.name} does not exist")
        try:
            after = with_new_scale(info, request.constraints, request.schema)
            metadata = format.last_scale(after)
        except ChunkwiseError as e:
            raise prefix(e, f"Error writing {request.name}") from None
        if_equal = MISSING_GENERATION if info is None else stamped.generation
        if info is None:
            request.check_place()
        written = yield Put(request.key, format.encode(metadata), if_equal)
        if written is not None:
            return Opened(metadata, written, stamped.time, written=True)


def _replaced(request: OpenRequest, format: PrecomputedFormat) -> Flow[Opened]:
    """Replace everything by a new volume of one scale."""
    now = time.time()
    try:
        metadata = format.last_scale(with_new_scale(None, request.constraints, request.schema))
        format.of_scale(metadata).stored_array(metadata, request.path, None)  # raises if its codecs fail
    except ChunkwiseError as e:
        raise prefix(e, f"Error writing {request.name}") from None
    request.check_place()
    generation = yield from replaced(request, {format.metadata_key(None): format.encode(metadata)})
    return Opened(metadata, generation, now, written=True)


def _read(request: OpenRequest, format: PrecomputedFormat, raw: bytes) -> Info:
    try:
        return parse_info(format.parse_document(raw))
    except (ChunkwiseError, ValueError, RecursionError) as e:
        text = e.message if isinstance(e, ChunkwiseError) else str(e)
        raise FailedPreconditionError(f"Error reading {request.name}: {text}") from e
