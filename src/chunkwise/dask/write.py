"""Storing dask arrays: a task writes a box of blocks, and no lock is held.

1. Blocks are put together to boxes that cover whole chunks (or shards) of the target.
2. If no two blocks depend on the same block, the task of a box computes its blocks: the scheduler sees one
   task for hundreds of small chunks.  Otherwise the task is given the blocks.
3. Whole chunks are replaced.  A partly covered chunk is written by compare-and-swap, and retried if another
   writer was faster (`chunkwise.core.engine.write`).  So boxes may be written in any order, at the same time,
   by threads, processes and machines.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, overload

from chunkwise import ChunkLayout, Spec, TensorStore
from chunkwise import open as open_array
from chunkwise.copying.array_options import OPTIONS, data_type, is_of_dask
from chunkwise.copying.codec_option import CODEC_PARTS
from chunkwise.copying.overlap import places
from chunkwise.dask.box_writes import BoxWrites
from chunkwise.dask.convert import Indexable
from chunkwise.dask.in_place import Written, check_sources, ranges_of
from chunkwise.dask.new_target import block_shape, create_and_write, described_array, is_array_option
from chunkwise.errors import InvalidArgumentError
from chunkwise.extension.inside import SpecLike, load, not_writable, options_of, url_with_storage_options
from chunkwise.extension.trees import DRIVERS, format_of, locate

if TYPE_CHECKING:
    from dask.array import Array
    from dask.delayed import Delayed

__all__ = ["from_dask", "store", "store_apart"]


@overload
def store(
    source: Array | Sequence[Array],
    target: TensorStore | Sequence[TensorStore],
    *,
    rechunk: bool = ...,
    compute: Literal[True] = ...,
    return_stored: Literal[False] = ...,
    **options: Any,
) -> None: ...
@overload
def store(
    source: Array | Sequence[Array],
    target: TensorStore | Sequence[TensorStore],
    *,
    rechunk: bool = ...,
    compute: Literal[False],
    return_stored: Literal[False] = ...,
    **options: Any,
) -> Delayed: ...
@overload
def store(
    source: Array,
    target: TensorStore,
    *,
    rechunk: bool = ...,
    compute: bool = ...,
    return_stored: Literal[True],
    **options: Any,
) -> Array: ...
@overload
def store(
    source: Sequence[Array],
    target: Sequence[TensorStore],
    *,
    rechunk: bool = ...,
    compute: bool = ...,
    return_stored: Literal[True],
    **options: Any,
) -> tuple[Array, ...]: ...
@overload
def store(
    source: Array | Sequence[Array],
    target: TensorStore | Sequence[TensorStore],
    *,
    rechunk: bool = ...,
    compute: bool = ...,
    return_stored: bool = ...,
    **options: Any,
) -> Array | tuple[Array, ...] | Delayed | None: ...


def store(
    source: Array | Sequence[Array],
    target: TensorStore | Sequence[TensorStore],
    *,
    rechunk: bool = False,
    compute: bool = True,
    return_stored: bool = False,
    **options: Any,
) -> Array | tuple[Array, ...] | Delayed | None:
    """Write a dask array, or several, to chunkwise arrays.

    Parameters
    ----------
    source : dask.array.Array or sequence of them
    target : TensorStore or sequence of TensorStore
        One for each source, with its shape: a whole array, or the view of the region to write.
    rechunk : bool
        Divide each source at the chunks of its target first, so that each chunk is written once.  By default
        that is done only if it just joins blocks, to 256 MiB at most.
    compute : bool
        Whether to write now; otherwise nothing is written before the result is computed.
    return_stored : bool
        Whether to return dask arrays of the stored values.
    **options
        For dask's ``compute``, such as ``scheduler``.

    Returns
    -------
    None, dask.delayed.Delayed, dask.array.Array or tuple of them
        The stored arrays, if `return_stored`, as a tuple for a sequence.  Otherwise, unless `compute`, an
        object that writes them when it is computed.

    Raises
    ------
    ImportError
        If dask isn't installed.
    InvalidArgumentError
        If a shape differs, a target can't be written, or a source reads a target, unless each block of
        the source depends only on the block at its own position there.

    Examples
    --------
    >>> import tempfile
    >>> import numpy as np
    >>> import chunkwise
    >>> import dask.array
    >>> path = tempfile.mkdtemp() + "/a.zarr"
    >>> array = chunkwise.from_dask(dask.array.arange(6, chunks=3), path)
    >>> chunkwise.open(path).result().read().result()
    array([0, 1, 2, 3, 4, 5])
    """
    sources: list[Any] = list(source) if isinstance(source, list | tuple) else [source]
    targets: list[Any] = list(target) if isinstance(target, list | tuple) else [target]
    indexables = _indexables(sources, targets)
    views = [indexable.view for indexable in indexables]
    # Rechunked blocks go to more than one position.
    written = [
        Written(places(view), ranges_of(view), number, None if rechunk else view)
        for number, view in enumerate(views)
    ]
    check_sources([("The dask array", values) for values in sources], written)
    writes = _writes(sources, indexables, rechunk=rechunk)
    delayed = _delayed([each.written for each in writes])
    if compute:
        delayed.compute(**options)
    if return_stored:
        stored = tuple(each.stored(computed=compute) for each in writes)
        return stored if isinstance(source, list | tuple) else stored[0]
    return None if compute else delayed


def store_apart(sources: Sequence[Any], targets: Sequence[TensorStore], *, rechunk: bool = False) -> Delayed:
    """Return the object that stores dask arrays in targets that they are known not to read."""
    writes = _writes(sources, _indexables(sources, targets), rechunk=rechunk)
    return _delayed([each.written for each in writes])


def _indexables(sources: Sequence[Any], targets: Sequence[Any]) -> list[Indexable]:
    if len(sources) != len(targets):
        raise InvalidArgumentError(f"{len(sources)} sources can't be stored in {len(targets)} targets")
    indexables = []
    for values, view in zip(sources, targets, strict=True):
        _check_array(values, "store")
        if not isinstance(view, TensorStore):
            raise TypeError(f"expected a TensorStore, got {type(view).__name__}")
        if not view.writable:
            raise not_writable(view)
        indexable = Indexable(view)
        if values.shape != indexable.shape:
            raise InvalidArgumentError(
                f"An array of shape {list(values.shape)} can't be stored in one of {list(indexable.shape)}"
            )
        indexables.append(indexable)
    return indexables


def _check_array(values: Any, what: str) -> None:
    load("dask.array", what)
    if not is_of_dask(values):
        raise TypeError(
            f"expected a dask array, got {type(values).__name__}; others are written by "
            "create_array(path, values), and to an array that is there by array[...] = values"
        )


def _writes(sources: Sequence[Any], targets: Sequence[Indexable], *, rechunk: bool) -> list[BoxWrites]:
    shared = _shared_layers(sources)
    return [
        BoxWrites(values, indexable, rechunk=rechunk, shared=shared)
        for values, indexable in zip(sources, targets, strict=True)
    ]


def _shared_layers(sources: Sequence[Array]) -> set[str]:
    """Return the layers that more than one array uses, which should be computed once."""
    counts = Counter(name for values in sources for name in getattr(values.dask, "layers", ()))
    return {name for name, n in counts.items() if n > 1}


def _delayed(arrays: Sequence[Array]) -> Delayed:
    """Return an object that computes arrays and drops their values."""
    graph, delayed = load("dask.highlevelgraph", "store").HighLevelGraph, load("dask.delayed", "store")
    keys = [key for array in arrays for key in load("dask.core", "store").flatten(array.__dask_keys__())]
    whole = graph.merge(*(array.__dask_graph__() for array in arrays))
    # Together: optimized separately, arrays would compute shared layers again.
    whole = load("dask.array.optimization", "store").optimize(whole, keys)
    name = f"chunkwise-stored-{os.urandom(16).hex()}"
    return delayed.Delayed(name, {**whole, name: (_forget, keys)})


def _forget(values: Any) -> None:
    """Do nothing."""


@overload
def from_dask(
    source: Array,
    spec: SpecLike,
    *,
    compute: Literal[True] = ...,
    chunk_layout: ChunkLayout | None = ...,
    delete_existing: bool = ...,
    scheduler: Any = ...,
    **options: Any,
) -> TensorStore: ...
@overload
def from_dask(
    source: Array,
    spec: SpecLike,
    *,
    compute: Literal[False],
    chunk_layout: ChunkLayout | None = ...,
    delete_existing: bool = ...,
    scheduler: Any = ...,
    **options: Any,
) -> tuple[TensorStore, Delayed]: ...
@overload
def from_dask(
    source: Array,
    spec: SpecLike,
    *,
    compute: bool = ...,
    chunk_layout: ChunkLayout | None = ...,
    delete_existing: bool = ...,
    scheduler: Any = ...,
    **options: Any,
) -> TensorStore | tuple[TensorStore, Delayed]: ...


@options_of(open_array, OPTIONS, CODEC_PARTS)
def from_dask(
    source: Array,
    spec: SpecLike,
    *,
    compute: bool = True,
    chunk_layout: ChunkLayout | None = None,
    delete_existing: bool = False,
    scheduler: Any = None,
    storage_options: Mapping[str, Any] | None = None,
    **options: Any,
) -> TensorStore | tuple[TensorStore, Delayed]:
    """Create an array like a dask array, and store the dask array in it.

    Parameters
    ----------
    source : dask.array.Array
        Of known shape.
    spec : Spec, JSON, str or path-like
        Location and format, as for `chunkwise.open`.  A plain path whose name ends in ``.n5`` becomes an N5
        dataset, any other a Zarr v3 array.
    compute : bool
        Whether to write now.
    chunk_layout : ChunkLayout, optional
        By default one chunk for each block.  If the blocks of `source` don't fit the chunks, it is rechunked
        first.
    delete_existing : bool
        Replace an existing array once the new one is complete; `source` may read the old one.  Unless
        `compute`, the new array replaces it at once, and a source that reads the old one is refused.
    scheduler : str or callable, optional
        For dask's ``compute``.
    storage_options : mapping, optional
        As for `chunkwise.open`.
    **options
        ``dtype``, ``chunks``, ``shards``, ``codec``, ``checksum``, ``fill_value``, ``dimension_names``,
        ``dimension_units``, as for `create_array`; and those of `chunkwise.open`.

    Returns
    -------
    TensorStore, or (TensorStore, dask.delayed.Delayed) if not `compute`

    Raises
    ------
    ImportError
        If dask isn't installed.
    InvalidArgumentError
        If the shape is unknown, or there is something that must not be deleted.

    Examples
    --------
    >>> import tempfile
    >>> import numpy as np
    >>> import chunkwise
    >>> import dask.array
    >>> path = tempfile.mkdtemp() + "/a.zarr"
    >>> array = chunkwise.from_dask(dask.array.arange(6, chunks=3), path)
    >>> chunkwise.open(path).result().read().result()
    array([0, 1, 2, 3, 4, 5])
    """
    _check_array(source, "from_dask")
    place, attributes = described_array(source, _with_format(spec, storage_options), options)
    if chunk_layout is None and source.ndim and not {"chunks", "shards"} & options.keys():
        chunk_layout = ChunkLayout(chunk_shape=block_shape(source))
    options = {name: value for name, value in options.items() if not is_array_option(name, value)}
    dtype = data_type(options.pop("dtype", None) or source.dtype)
    how = {} if scheduler is None else {"scheduler": scheduler}

    def write(target: TensorStore) -> None:
        store_apart([source], [target], rechunk=True).compute(**how)

    target = create_and_write(
        source,
        place,
        write if compute else None,
        delete_existing=delete_existing,
        attributes=attributes,
        dtype=dtype,
        shape=source.shape,
        chunk_layout=chunk_layout,
        **options,
    )
    return target if compute else (target, store_apart([source], [target], rechunk=True))


def _with_format(spec: SpecLike, storage_options: Mapping[str, Any] | None) -> Any:
    url = url_with_storage_options(spec, storage_options)
    if url is not None:
        return url
    if isinstance(spec, Spec) or (isinstance(spec, Mapping) and not hasattr(spec, "fs")):
        return spec  # a mapper of fsspec is a place
    location = locate(spec)
    format = format_of(location, "array")
    return {"driver": DRIVERS[format], "kvstore": location.kvstore_json()}
