"""Opening and creating N5 datasets with blocks of any length."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any, get_args

from chunkwise.errors import AlreadyExistsError, ChunkwiseError, FailedPreconditionError, NotFoundError
from chunkwise.extension.inside import MISSING_GENERATION, check_choice
from chunkwise.extension.n5 import (
    ATTRIBUTES_KEY,
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
from chunkwise.n5.block_values import Kind
from chunkwise.n5.blocks import N5Blocks

__all__ = ["create_n5_blocks", "open_n5_blocks"]

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
            if location.store.write(key, whole, if_equal=generation) is not None:
                break
        mark_container(location, text=data_type == "string")  # it may be the container itself
    return found
