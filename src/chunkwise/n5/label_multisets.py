"""N5 label multisets as an array of lists of ``[id, count]``, and datasets with blocks of any length."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any, get_args

import numpy as np
import numpy.typing as npt

from chunkwise import ChunkLayout, Context, IndexDomain, KvStore, TensorStore, virtual_chunked
from chunkwise.errors import AlreadyExistsError, ChunkwiseError, FailedPreconditionError, NotFoundError
from chunkwise.extension.inside import MISSING_GENERATION, check_choice
from chunkwise.extension.n5 import (
    ATTRIBUTES_KEY,
    BACKGROUND,
    dump_document,
    is_dataset,
    is_marker,
    load_document,
    mark_container,
    parse_compression,
)
from chunkwise.extension.trees import (
    Location,
    check_container,
    check_outside_arrays,
    check_place,
    locate,
    located,
    parents_made,
)
from chunkwise.n5.blocks import Kind, N5Blocks

__all__ = ["create_n5_blocks", "open_label_multisets", "open_n5_blocks"]


_KINDS = get_args(Kind)


def open_n5_blocks(
    place: str | os.PathLike[str] | Location,
    *,
    kind: Kind | None = None,
    storage_options: Mapping[str, Any] | None = None,
) -> N5Blocks:
    """Open the blocks of an N5 dataset.

    Parameters
    ----------
    place : str, path or Location
        The dataset: a path or a URL.
    kind : {"numbers", "strings", "object", "label_multiset"}, optional
        Kind of values; by default from its data type and the attribute ``isLabelMultiset``.
    storage_options : mapping, optional
        As for `open_group`.

    Returns
    -------
    N5Blocks

    Raises
    ------
    NotFoundError
        If there is no dataset.
    FailedPreconditionError
        If its document can't be read.
    UnsupportedError
        If it is in a container of a version above 4.

    Examples
    --------
    >>> import tempfile
    >>> import numpy as np
    >>> import chunkwise
    >>> path = tempfile.mkdtemp() + "/a.n5/d"
    >>> options = {"dimensions": [4, 4], "block_size": [2, 2], "data_type": "uint8"}
    >>> blocks = chunkwise.create_n5_blocks(path, **options)
    >>> blocks[0, 1] = np.array([7, 8, 9], "uint8")
    >>> chunkwise.open_n5_blocks(path)[0, 1].tolist()
    [7, 8, 9]
    """
    if kind is not None:
        check_choice(kind, "kind", _KINDS)
    location = locate(*located(storage_options, place))
    key = location.path + ATTRIBUTES_KEY
    raw = location.store.read(key).value
    where = location.store.describe(key)
    if raw is None:
        raise NotFoundError(f"Metadata at {where} does not exist")
    try:
        document = load_document(raw)
        if not is_dataset(document):
            raise FailedPreconditionError("it is the document of a group")
        found = N5Blocks(location, document, kind)
    except ChunkwiseError as e:
        raise FailedPreconditionError(f"Error reading {where}: {e.message}") from None
    check_container(location)
    return found


def create_n5_blocks(
    place: str | os.PathLike[str] | Location,
    *,
    dimensions: Sequence[int],
    block_size: Sequence[int],
    data_type: str,
    compression: Mapping[str, Any] | None = None,
    attributes: Mapping[str, Any] | None = None,
    storage_options: Mapping[str, Any] | None = None,
) -> N5Blocks:
    """Create a dataset for blocks of any length.

    Parameters
    ----------
    place : str, path or Location
        The new dataset; only the root of a container may exist already.
    dimensions, block_size : sequence of int
        In elements.
    data_type : str
        One of the ten number types, ``string`` or ``object``; ``uint8`` for label multisets.
    compression : mapping, optional
        The ``compression`` member; by default ``{"type": "gzip"}``.
    attributes : mapping, optional
        Further members of the document; for label multisets ``{"isLabelMultiset": True}``.
    storage_options : mapping, optional
        As for `open_group`.

    Returns
    -------
    N5Blocks
        Without any blocks yet.

    Raises
    ------
    AlreadyExistsError
        If there is already a dataset or a group, or a dataset above.
    SpecError
        For a member that the format doesn't allow.

    Examples
    --------
    >>> import tempfile
    >>> import numpy as np
    >>> import chunkwise
    >>> path = tempfile.mkdtemp() + "/a.n5/d"
    >>> options = {"dimensions": [4, 4], "block_size": [2, 2], "data_type": "uint8"}
    >>> blocks = chunkwise.create_n5_blocks(path, **options)
    >>> blocks[0, 1] = np.array([7, 8, 9], "uint8")
    >>> chunkwise.open_n5_blocks(path)[0, 1].tolist()
    [7, 8, 9]
    """
    location = locate(*located(storage_options, place))
    document: dict[str, Any] = {
        **(attributes or {}),
        "dimensions": list(dimensions),
        "blockSize": list(block_size),
        "dataType": data_type,
        "compression": parse_compression(dict(compression or {"type": "gzip"}))[0],
    }
    found = N5Blocks(location, document)
    check_outside_arrays(location)
    check_place(location, "array", "n5")
    key = location.path + ATTRIBUTES_KEY
    with parents_made(location, "n5", text=data_type == "string"):
        while True:
            stored = location.store.read(key)
            existing: Any = {} if stored.value is None else load_document(stored.value)
            if not is_marker(existing):
                raise AlreadyExistsError(f"{location.store.describe(key)} is there already")
            generation = MISSING_GENERATION if stored.value is None else stored.generation
            whole = dump_document({**existing, **document})
            written = location.store.write(key, whole, if_equal=generation)
            if written is not None:
                break
        try:
            check_outside_arrays(location)  # others look after they have written, too
            mark_container(location, text=data_type == "string")  # it may be the container itself
        except BaseException:  # an interrupt too
            with suppress(ChunkwiseError):  # the store may have failed permanently
                if stored.value is None:
                    location.store.delete(key, if_equal=written)
                else:
                    location.store.write(key, bytes(stored.value), if_equal=written)
            raise
    return found


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
