"""Dask arrays of chunkwise arrays: every block is a region of the array, read when it is needed.

A block that begins and ends at boundaries of chunks is read without decoding a chunk twice, and written
without reading stored chunks.  A shard counts as one chunk, since it is written as one.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from chunkwise import TensorStore
from chunkwise.copying.resolve import Place, whole_array
from chunkwise.copying.worker_view import Home, check_arrived, home_of
from chunkwise.errors import ChunkwiseError, InvalidArgumentError
from chunkwise.extension.inside import ChunkGrid, DimensionLink, as_key, load, one_to_one, positions

if TYPE_CHECKING:
    from dask.array import Array

__all__ = ["Indexable", "aligned_sizes", "block_sizes", "to_dask", "token_of"]

LARGEST_N_BLOCKS = 10_000_000
"""Number of blocks along one dimension that are listed; an array may have far more."""


def aligned_sizes(view: TensorStore) -> tuple[tuple[int, ...] | None, ...]:
    """Return the sizes that the chunks cut each dimension of `view` into, None for one without boundaries."""
    array: Any = view._array
    transform = array.bounded(view._transform).mark_bounds_implicit[False]
    domain = transform.domain
    if not all(dim.finite for dim in domain):
        raise InvalidArgumentError(f"Blocks require a finite domain, got {domain}")
    stored = getattr(array, "stored", None)
    links = one_to_one(transform if stored is None else array.in_grid(transform))
    layout = view.chunk_layout
    sizes = layout.write_chunk.shape or (None,) * view.rank
    origin = layout.grid_origin or (None,) * view.rank
    out: list[tuple[int, ...] | None] = []
    for dim, (lo, hi) in enumerate(zip(domain.inclusive_min, domain.exclusive_max, strict=True)):
        link = links[dim]
        if lo == hi:
            out.append((0,))
        elif link is not None and stored is not None and link.dim < stored.grid.rank:
            out.append(_cut_by_grid(stored.grid, link, lo, hi))
        elif size := sizes[dim]:
            out.append(_cut_regularly(size, origin[dim] or 0, lo, hi))
        else:
            out.append(None)
    return tuple(out)


def _cut_by_grid(grid: ChunkGrid, link: DimensionLink, lo: int, hi: int) -> tuple[int, ...]:
    if grid.chunk_shape is not None:
        _check_count((hi - lo) * abs(link.stride) // grid.chunk_shape[link.dim])
    out = []
    at = lo
    while at < hi:
        _, start, stop = grid.cell(link.dim, link.offset + link.stride * at)
        # The first index of the view whose element is in another cell.
        if link.stride > 0:
            following = -((link.offset - stop) // link.stride)
        else:
            following = (link.offset - start) // -link.stride + 1
        following = min(max(following, at + 1), hi)
        out.append(following - at)
        at = following
        _check_count(len(out))
    return tuple(out)


def _cut_regularly(size: int, origin: int, lo: int, hi: int) -> tuple[int, ...]:
    first = min(hi, origin + ((lo - origin) // size + 1) * size) - lo
    n, rest = divmod(hi - lo - first, size)
    _check_count(n)
    return (first, *(size,) * n, *((rest,) if rest else ()))


def _check_count(n: int) -> None:
    if n > LARGEST_N_BLOCKS:
        raise InvalidArgumentError(
            f"The chunks make more than {LARGEST_N_BLOCKS:,} blocks along one dimension; "
            "choose their size with `chunks`"
        )


class Indexable:
    """TensorStore with indices from 0, or from the end if negative; pickles don't contain its elements."""

    __slots__ = ("_home", "dtype", "shape", "view")

    _home: Home | None  # of an unpickled array that was not used yet, or only read

    def __init__(self, view: TensorStore) -> None:
        array: Any = view._array
        # The current bounds: those of a graph don't change when the array grows.
        transform = array.bounded(view._transform)
        if any((*transform.domain.implicit_lower_bounds, *transform.domain.implicit_upper_bounds)):
            transform = transform.mark_bounds_implicit[False]
        if not all(dim.finite for dim in transform.domain):
            raise InvalidArgumentError(f"Blocks require a finite domain, got {transform.domain}")
        self.view = TensorStore._make(array, transform, view.transaction, view._node)
        self._home = None
        self.shape: tuple[int, ...] = self.view.shape
        self.dtype: np.dtype[Any] = array.numpy_dtype()

    @property
    def ndim(self) -> int:
        """Number of dimensions."""
        return len(self.shape)

    def __getitem__(self, index: Any) -> npt.NDArray[Any]:
        self._check_arrived(writes=False)
        return self._at(index).read().result()[()]

    def __setitem__(self, index: Any, values: Any) -> None:
        self._check_arrived(writes=True)
        self._at(index).write(values).result()

    def _at(self, index: Any) -> TensorStore:
        return self.view[as_key(positions(index, self.shape), self.view.origin, joint=True)]

    def __getstate__(self) -> tuple[Any, ...]:
        return self.view, self.shape, self.dtype, self._home or home_of(self.view)

    def __setstate__(self, state: tuple[Any, ...]) -> None:
        self.view, self.shape, self.dtype, self._home = state

    def _check_arrived(self, *, writes: bool) -> None:
        if self._home is not None:
            check_arrived(self.view, self._home, writes=writes)

    def __dask_tokenize__(self) -> str:
        return self.view.__dask_tokenize__()


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
