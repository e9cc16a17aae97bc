"""Dask arrays of chunkwise arrays: every block is a region of the array, read when it is needed."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from chunkwise import TensorStore
from chunkwise.copying.resolve import Place, whole_array
from chunkwise.dask.edges import aligned_sizes
from chunkwise.dask.indexable import Indexable
from chunkwise.errors import ChunkwiseError, InvalidArgumentError
from chunkwise.extension.inside import load

if TYPE_CHECKING:
    from dask.array import Array

__all__ = ["block_sizes", "to_dask", "token_of"]


def to_dask(
    array: Place, chunks: Any = None, *, name: str | None = None, inline_array: bool = False
) -> Array:
    """Return a dask array of `array`, an array or a view of one.

    Nothing is read yet.  Computing a block reads only the part that the graph needs.

    Parameters
    ----------
    array : TensorStore, str, path-like, Spec or JSON
        An array, or anything that `chunkwise.read` takes.
    chunks : int, tuple, dict, str or None
        Size of blocks, as for dask; by default one block for each chunk or shard that the view shows.
        ``"auto"`` makes blocks of several whole chunks, of the size that dask prefers.
    name : str, optional
        Name of the dask array.  By default it is made from the location, the metadata and the view, so that
        the same array has the same name in all processes.  It doesn't depend on the values.
    inline_array : bool
        Whether each task of the graph contains the array, instead of referring to it.

    Returns
    -------
    dask.array.Array
        With the shape and data type of `array`.  It can be sent to other processes if the array can be opened
        there.

    Raises
    ------
    ImportError
        If dask isn't installed.
    InvalidArgumentError
        If the domain is not finite, or the array can't be read.

    Examples
    --------
    >>> import chunkwise
    >>> array = chunkwise.open(
    ...     "memory://|zarr3",
    ...     create=True,
    ...     dtype=chunkwise.uint16,
    ...     shape=[4, 6],
    ...     chunk_layout=chunkwise.ChunkLayout(chunk_shape=[2, 4]),
    ... ).result()
    >>> chunkwise.to_dask(array).chunks
    ((2, 2), (4, 2))
    """
    da = load("dask.array", "to_dask")
    array = whole_array(array)
    if not array.readable:
        raise InvalidArgumentError("Source does not support reading.")
    source = Indexable(array)
    sizes = block_sizes(source, chunks)
    lazy: Array = da.from_array(
        source,
        chunks=sizes,
        name=name or f"chunkwise-read-{da.core.tokenize(token_of(source.view), sizes)}",
        lock=False,
        asarray=True,
        fancy=False,
        meta=np.empty((0,) * source.ndim, source.dtype),
        inline_array=inline_array,
    )
    return lazy


def block_sizes(source: Indexable, chunks: Any) -> tuple[tuple[int, ...], ...]:
    """Return the sizes of blocks along each dimension; `chunks` as for `to_dask`."""
    da = load("dask.array", "to_dask")
    if chunks is None:
        aligned = aligned_sizes(source.view)
        if None not in aligned:
            return tuple(sizes for sizes in aligned if sizes is not None)
        chunks = tuple("auto" if sizes is None else sizes for sizes in aligned)
    previous = None
    if isinstance(chunks, str) or (isinstance(chunks, tuple | dict) and "auto" in _values(chunks)):
        known = aligned_sizes(source.view)
        previous = tuple(
            (n,) if sizes is None else sizes for sizes, n in zip(known, source.shape, strict=True)
        )
    dtype = source.dtype if source.dtype.itemsize and source.dtype != object else np.dtype("f8")
    sizes: tuple[tuple[int, ...], ...] = da.core.normalize_chunks(
        chunks, source.shape, dtype=dtype, previous_chunks=previous
    )
    return sizes


def _values(chunks: Any) -> list[Any]:
    return [v for v in (chunks.values() if isinstance(chunks, dict) else chunks) if isinstance(v, str)]


def token_of(view: TensorStore) -> str:
    """Return a token that is equal for views of the same elements of the same stored array."""
    from dask.base import tokenize

    array: Any = view._array
    # Location, metadata and transform make the token; an array without them gets a new one each time.
    store = getattr(array, "store", None)
    try:
        json = view.spec().to_json()
    except (ChunkwiseError, ValueError, TypeError, NotImplementedError):
        return os.urandom(16).hex()
    if store is not None and view.transaction is None:
        return str(tokenize(_plain(store.identity), json))
    if view.transaction is not None or _only_here(json):
        return os.urandom(16).hex()
    return str(tokenize(json))


def _plain(identity: Any) -> Any:
    if isinstance(identity, tuple | list):
        return [_plain(item) for item in identity]
    if identity is None or isinstance(identity, str | bytes | int | float):
        return identity
    # The graph keeps the array alive, so no other storage can get its address.
    return type(identity).__qualname__, os.getpid(), id(identity)


def _only_here(json: Any) -> bool:
    """Return True if a spec names objects of this process, or contains the elements."""
    if isinstance(json, Mapping):
        return json.get("driver") in ("memory", "array") or any(map(_only_here, json.values()))
    if isinstance(json, list):
        return any(map(_only_here, json))
    return isinstance(json, str) and json.startswith("memory:")
