"""N5 label multisets as an array whose elements are lists of ``[id, count]``."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from chunkwise import ChunkLayout, Context, IndexDomain, KvStore, TensorStore, virtual_chunked
from chunkwise.extension.n5 import BACKGROUND
from chunkwise.extension.trees import Location
from chunkwise.n5.blocks import N5Blocks
from chunkwise.n5.open_blocks import open_n5_blocks

__all__ = ["open_label_multisets"]

_Stamp = KvStore.TimestampedStorageGeneration


def open_label_multisets(
    place: str | os.PathLike[str] | Location,
    *,
    default: Sequence[Sequence[int]] = ((BACKGROUND, 1),),
    context: Context | None = None,
    storage_options: Mapping[str, Any] | None = None,
) -> TensorStore:
    """Open a dataset of label multisets as an array of data type ``json``.

    Parameters
    ----------
    place : str, path or Location
        The dataset, as Paintera writes it.
    default : sequence of (id, count)
        Value of the elements of a block that is not stored; by default one voxel of background, as in
        Paintera.
    context : Context, optional
        Source of threads and the cache pool.
    storage_options : mapping, optional
        As for `open_group`.

    Returns
    -------
    TensorStore
        Each element is a list of ``[id, count]``.  It can be indexed, read and written like any other array;
        partial writes of a block keep what others write.

    Raises
    ------
    NotFoundError, FailedPreconditionError, UnsupportedError
        As `chunkwise.open_n5_blocks`.

    Examples
    --------
    >>> import tempfile
    >>> import chunkwise
    >>> place = tempfile.mkdtemp()
    >>> _ = chunkwise.create_n5_blocks(
    ...     place, dimensions=[4], block_size=[2], data_type="uint8", attributes={"isLabelMultiset": True}
    ... )
    >>> labels = chunkwise.open_label_multisets(place)
    >>> labels[1] = [[7, 3], [8, 5]]
    >>> labels[0:3].read().result().tolist()
    [[[0, 1]], [[7, 3], [8, 5]], [[0, 1]]]
    """
    blocks = open_n5_blocks(place, kind="label_multiset", storage_options=storage_options)
    missing = [list(map(int, entry)) for entry in default]

    def read(domain: IndexDomain, array: npt.NDArray[Any], params: Any) -> _Stamp:
        now = time.time()
        value, generation = blocks._read(_cell(blocks, domain))
        for at in np.ndindex(array.shape):
            array[at] = missing if value is None else [list(entry) for entry in value[at]]
        return _Stamp(generation, now)

    def write(domain: IndexDomain, array: npt.NDArray[Any], params: Any) -> _Stamp:
        now = time.time()
        cell = _cell(blocks, domain)
        kv, key = blocks._location.store, blocks._keys.key(cell)
        raw = blocks._encode(cell, array)
        done = kv.write(key, raw, if_equal=params.if_equal or None)
        return _Stamp(done or b"", now)

    return virtual_chunked(
        read,
        write,
        dtype="json",
        shape=blocks.dimensions,
        chunk_layout=ChunkLayout(chunk_shape=blocks.block_size),
        context=context,
    )


def _cell(blocks: N5Blocks, domain: IndexDomain) -> tuple[int, ...]:
    return tuple(at // size for at, size in zip(domain.origin, blocks.block_size, strict=True))
