"""N5 label multisets as labels: each element is the label that most of its voxels have."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from chunkwise import ChunkLayout, IndexDomain, TensorStore

__all__ = ["most_voted"]


def most_voted(store: TensorStore) -> TensorStore:
    """Return an array of lists of ``[label, count]`` as one of labels; others as they are.

    If several labels have the same count, the smallest wins.
    """
    if store.dtype.name != "json":
        return store
    from chunkwise import virtual_chunked  # which few images need

    def read(domain: IndexDomain, out: npt.NDArray[Any], _: Any) -> None:
        values = store[domain].read().result()
        for at in np.ndindex(out.shape):
            out[at] = _winner(values[at])

    chunks = store.chunk_layout.read_chunk.shape
    shape = tuple(n or size for n, size in zip(chunks or (None,) * store.rank, store.shape, strict=True))
    return virtual_chunked(
        read,
        dtype=np.dtype(np.uint64),
        domain=store.domain,
        chunk_layout=ChunkLayout(chunk_shape=shape, grid_origin=store.origin),
        dimension_units=store.dimension_units,
    )


def _winner(entry: Any) -> int:
    return min(entry, key=lambda pair: (-pair[1], pair[0]))[0] if entry else 0
