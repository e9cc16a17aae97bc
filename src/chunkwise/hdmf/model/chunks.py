"""Chunk shapes for datasets whose writer leaves the choice to the store."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from chunkwise.errors import InvalidArgumentError

__all__ = ["checked_chunks", "choose_chunks", "choose_shards"]

TARGET_NBYTES = 1 << 20
"""Size of a chunk, uncompressed."""

SHARD_NBYTES = 1 << 26
"""Size of a shard, uncompressed."""


def choose_chunks(shape: Sequence[int], itemsize: int) -> tuple[int, ...]:
    """Return chunks of about 1 MiB: all of a small dataset, whole rows of a larger one where they fit."""
    chunks = [max(1, int(n)) for n in shape]
    # Halving the longest axis keeps pieces compact; the first goes first, as data grows along it.
    while chunks:
        nbytes = itemsize
        for n in chunks:
            nbytes *= n
        if nbytes <= TARGET_NBYTES or max(chunks) == 1:
            break
        axis = max(range(len(chunks)), key=lambda i: (chunks[i], -i))
        chunks[axis] = -(-chunks[axis] // 2)
    return tuple(chunks)


def checked_chunks(chunks: Sequence[int] | int, shape: Sequence[int]) -> tuple[int, ...]:
    """Return the chunk shape that a user asks for."""
    listed = [chunks] * len(shape) if isinstance(chunks, int) else list(chunks)
    if len(listed) != len(shape) or not all(map(_fits, listed, shape)):
        raise InvalidArgumentError(f"chunks {chunks} for a dataset of shape {tuple(shape)}")
    return tuple(max(1, int(n)) for n in listed)


def _fits(chunk: Any, extent: int) -> bool:
    # Writers that copy the extents of an empty dataset have chunks of no elements along them.
    whole = isinstance(chunk, int | float | np.number) and int(chunk) == chunk
    return whole and (chunk > 0 or (chunk == 0 and extent == 0))


def choose_shards(shape: Sequence[int], chunks: Sequence[int], itemsize: int) -> tuple[int, ...]:
    """Return shards of whole chunks, of at most 64 MiB, and no larger than the dataset needs."""
    shards = list(chunks)
    for axis, (extent, chunk) in enumerate(zip(shape, chunks, strict=True)):
        others = itemsize
        for n in (*shards[:axis], *shards[axis + 1 :]):
            others *= n
        n_wanted = max(1, -(-extent // chunk))
        n_fitting = max(1, SHARD_NBYTES // max(1, others * chunk))
        shards[axis] = chunk * min(n_wanted, n_fitting)
    return tuple(shards)
