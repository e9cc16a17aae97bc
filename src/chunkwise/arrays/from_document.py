"""Opening of an array whose metadata document has been read already, as part of a tree for example."""

from __future__ import annotations

from typing import Any

from chunkwise.arrays.based import pool_under
from chunkwise.arrays.cache_pool import cached
from chunkwise.arrays.chunked import ChunkedArray
from chunkwise.arrays.shared_metadata import SharedMetadata
from chunkwise.driver.chunked.metadata_cache import cached_metadata
from chunkwise.driver.chunked.open_flow import Opened
from chunkwise.driver.chunked.spec import ChunkedSpec
from chunkwise.errors import ChunkwiseError, FailedPreconditionError
from chunkwise.kvstore.protocol import KvStoreDriver

__all__ = ["open_from_document"]


def open_from_document(
    spec: ChunkedSpec,
    store: KvStoreDriver,
    path: str,
    document: Any,
    *,
    generation: bytes,
    time: float,
    readable: bool,
    writable: bool,
) -> ChunkedArray:
    """Open an array without asking the store."""
    # `generation` and `time` are those of the key that `document` was read from; the former is empty if
    # unknown.  The spec is bound and demands nothing of the metadata.
    request = spec.open_request(path, store.describe)
    try:
        metadata = cached_metadata(request.format, document)
    except ChunkwiseError as e:
        raise FailedPreconditionError(f"Error reading {request.name}: {e.message}") from e
    return ChunkedArray(
        spec,
        request,
        SharedMetadata(Opened(metadata, generation, time)),
        cached(spec, store, request.path),
        pool_under(spec),
        readable=readable,
        writable=writable,
    )
