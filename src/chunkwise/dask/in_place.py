"""Writes into existing arrays, from sources that may read them.

An object that is sent to other processes contains everything that it needs there.  So it is pickled without
an output, and the pickler notes the arrays that it meets in tasks, closures and wrappers of any library.

Tasks run in any order, so one could read what another has already written.  That can't happen if each task
reads only what it writes itself: each block of the source depends only on the block at its own position in
the written array.  All other sources that read a written array are refused.
"""

from __future__ import annotations

import os
import pickle
from collections.abc import Collection, Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np

from chunkwise import TensorStore, inf
from chunkwise.copying.overlap import overlap, places, store_and_path
from chunkwise.dask.convert import Indexable
from chunkwise.errors import InvalidArgumentError
from chunkwise.extension.inside import FileStore, is_of, load, one_to_one
from chunkwise.extension.trees import Location

__all__ = ["Written", "check_sources", "ranges_of", "reads_of"]

try:
    from cloudpickle import Pickler as _Pickler
except ImportError:  # then there is no dask, only wrappers
    from pickle import Pickler as _Pickler


class Reads:
    """Arrays and groups that something reads, and the paths of files that it mentions."""

    def __init__(self) -> None:
        self.operands: list[Any] = []
        self.texts: set[str] = set()

    def of(self, locations: Iterable[Location]) -> Iterable[tuple[Any, str]]:
        """Yield each operand at one of the locations, or None for a path, and its name."""
        for location in locations:
            for operand in self.operands:
                name = overlap(operand, location)
                if name is not None:
                    yield operand, name
            if isinstance(location.store, FileStore):
                _, top = store_and_path(location.store, location.path)
                for text in self.texts:
                    path = os.path.realpath(text.removeprefix("file://"))
                    if location.name in text and os.path.join(path, "").startswith(top):
                        yield None, text


def reads_of(data: Any, without: Collection[str] = ()) -> Reads:
    """Return what the data of a variable, or a dask array, reads; some layers of its graph can be left
    out."""
    found = Reads()
    if data is None or isinstance(data, np.ndarray):
        return found
    graph = data.__dask_graph__() if hasattr(data, "__dask_graph__") else data
    layers = getattr(graph, "layers", None)
    parts = [graph] if layers is None else [layer for name, layer in layers.items() if name not in without]
    for part in parts:
        try:
            _Finder(found).dump(part)
        except Exception:  # what comes before it is found
            continue
    return found


_PLAIN = frozenset({tuple, list, dict, set, int, float, bool, type(None), slice, type})


class _Nowhere:
    def write(self, data: Any) -> int:
        return len(data)


class _Finder(_Pickler):  # type: ignore[misc]
    def __init__(self, found: Reads) -> None:
        super().__init__(_Nowhere(), protocol=5)
        self._found = found
        self._seen: dict[int, Any] = {}
        self._usual: set[type] = set()  # types of objects that could be pickled

    def persistent_id(self, obj: Any) -> str | None:
        """Record an object that is read, without looking into it."""
        if type(obj) in _PLAIN:
            return None
        if isinstance(obj, np.ndarray):
            return "values"
        if isinstance(obj, str | os.PathLike):
            text = os.fspath(obj)
            if isinstance(text, str) and "/" in text.replace(os.sep, "/"):
                self._found.texts.add(text)
            return None
        is_of_zarr = is_of(obj, "zarr") and hasattr(obj, "store") and hasattr(obj, "path")
        is_group = is_of(obj, "chunkwise") and isinstance(getattr(obj, "location", None), Location)
        if isinstance(obj, TensorStore) or is_of_zarr or is_group:
            if id(obj) not in self._seen:
                self._seen[id(obj)] = obj
                self._found.operands.append(obj)
            return "array"
        return None

    def reducer_override(self, obj: Any) -> Any:
        """Leave out what can't be pickled, such as locks."""
        above = getattr(super(), "reducer_override", None)
        try:
            reduced = NotImplemented if above is None else above(obj)
            if reduced is not NotImplemented or isinstance(obj, type):
                return reduced
            if type(obj) in self._usual or type(obj) in getattr(self, "dispatch_table", {}):
                return NotImplemented
            reduced = obj.__reduce_ex__(pickle.HIGHEST_PROTOCOL)
            self._usual.add(type(obj))
            return reduced
        except Exception:  # the code of any class may have run
            return int, ()


Ranges = list[tuple[int, int, int]]
"""For each dimension of a stored array the first and the last index, and the step, which is 0 if unknown."""


class Written(NamedTuple):
    """A part of stored arrays that is written to."""

    locations: Sequence[Location]
    ranges: Ranges | None = None  # None: all of it
    number: int = -1  # of the source
    view: TensorStore | None = None  # the part, if blocks of this source go to their own positions in it


def check_sources(sources: Sequence[tuple[str, Any]], written: Sequence[Written]) -> None:
    """Raise InvalidArgumentError if a source reads a written array, unless each block reads only its own
    place.

    `sources` are names, for messages, and dask arrays or other data of variables.
    """
    if not written:
        return
    for number, (name, data) in enumerate(sources):
        blocks = _block_reads(data)
        reads = reads_of(data, {read.key for read in blocks.values()})
        others = list(reads.operands)
        for part in written:
            own: set[str] = set()
            if part.number == number and part.view is not None and blocks:
                own = _own_blocks(data, blocks, part.view)
            reads.operands = [*others, *(read.needed for layer, read in blocks.items() if layer not in own)]
            for operand, text in reads.of(part.locations):
                if not _apart(operand, part.ranges):
                    raise InvalidArgumentError(
                        f"{name} is read from {text}, which is written to at the same time; load it first, "
                        "or write to another place"
                    )


def ranges_of(view: TensorStore) -> Ranges | None:
    """Return the part of a stored array that a view shows; None for a virtual array."""
    array: Any = view._array
    if getattr(array, "stored", None) is None:
        return None
    transform = view._transform
    ranges = [(0, inf, 0) for _ in range(transform.output_rank)]
    for dim, output in enumerate(transform.output):
        if output.input_dimension is None and output.index_array is None:
            ranges[dim] = (output.offset, output.offset, 0)
    implicit = transform.domain.implicit_upper_bounds
    for dim, link in enumerate(one_to_one(transform)):
        if link is None:
            continue
        lo, hi = transform.domain.inclusive_min[dim], transform.domain.exclusive_max[dim]
        ends = sorted((link.offset + link.stride * lo, link.offset + link.stride * max(lo, hi - 1)))
        # A view that follows the array also sees rows that are appended.
        ranges[link.dim] = (ends[0], inf if implicit[dim] else ends[1], 0 if implicit[dim] else link.stride)
    return ranges


def _apart(operand: Any, ranges: Ranges | None) -> bool:
    """Return True if an operand that reads the array reads no element that is written."""
    if not isinstance(operand, TensorStore) or ranges is None:
        return False
    read = ranges_of(operand)
    if read is None or len(read) != len(ranges):
        return False
    return any(a[1] < b[0] or b[1] < a[0] for a, b in zip(read, ranges, strict=True))


# -- blocks that follow from the blocks at their places ----------------------------------------------------


class _BlockRead(NamedTuple):
    """A layer of a graph that reads an array block by block."""

    key: str  # of the layer that holds the array; the layer itself if it is that
    view: TensorStore
    needed: TensorStore  # the part of the view that the graph asks for
    chunks: Any


def _block_reads(source: Any) -> dict[str, _BlockRead]:
    """Return the layers of a graph that read arrays of chunkwise block by block."""
    graph: Any = getattr(source, "dask", None)
    if getattr(graph, "layers", None) is None:
        return {}
    layers, found = graph.layers, {}
    culled = graph.cull(set(load("dask.core", "store").flatten(source.__dask_keys__())))
    wanted = {getattr(layer, "output", None): layer for layer in culled.layers.values()}
    for name, layer in layers.items():
        chunks: Any = _chunks_of(layer) if name in wanted else None
        arrays = [] if chunks is None else [of for of, indices in layer.indices if indices is None]
        key = getattr(arrays[0], "key", None) if arrays else None
        held = layers[key].get(key) if key in layers else arrays[0] if arrays else None
        view = _plain_view(getattr(held, "value", held))
        if view is None or (key in layers and graph.dependents[key] != {name}):
            continue
        box = []
        for dim, along in enumerate(chunks):
            numbers = [block[dim] for block in wanted[name].output_blocks or ()] or [0, len(along) - 1]
            start = sum(along[: min(numbers)])
            box.append(slice(start, start + sum(along[min(numbers) : max(numbers) + 1])))
        origin = view.origin
        inside = tuple(slice(at + b.start, at + b.stop) for at, b in zip(origin, box, strict=True))
        found[name] = _BlockRead(str(key) if key in layers else name, view, view[inside], chunks)
    return found


def _chunks_of(layer: Any) -> Any:
    """Return the chunks of a layer that reads an array block by block; None for any other."""
    if not isinstance(layer, load("dask.blockwise", "store").Blockwise) or len(layer.io_deps) != 1:
        return None
    if any(indices is not None and of not in layer.io_deps for of, indices in layer.indices):
        return None
    return getattr(next(iter(layer.io_deps.values())), "chunks", None)


def _own_blocks(source: Any, blocks: dict[str, _BlockRead], target: TensorStore) -> set[str]:
    """Return the layers of a graph that read `target`, where each block of the source reads only its own
    part."""
    graph = source.dask
    found: dict[str, tuple[int, ...]] = {}
    followed: set[str] = set()
    _follow(graph.layers, source.name, tuple(range(source.ndim)), found, followed)
    # Layers that others need too, as for a sum, are read for other blocks as well.
    shared = [name for name in graph.layers if name not in followed]
    for name in shared:
        shared.extend(graph.dependencies[name] - set(shared))
    own: set[str] = set()
    for name, axes in found.items():
        in_order = name not in shared and axes == tuple(range(source.ndim))
        read = blocks.get(name)
        if in_order and read is not None and read.chunks == source.chunks and _same_part(read.view, target):
            own.add(name)
    return own


def _follow(
    layers: Any, name: str, along: tuple[int, ...], found: dict[str, tuple[int, ...]], followed: set[str]
) -> None:
    """Collect the layers that read arrays block by block, with the dimensions that theirs are."""
    layer = layers.get(name)
    blockwise = load("dask.blockwise", "store").Blockwise
    if not isinstance(layer, blockwise) or layer.output != name:
        return
    followed.add(name)
    if _chunks_of(layer) is not None:
        # Needed at two positions, for example by transposed blocks, so not only at its own.
        found[name] = along if found.get(name, along) == along else (-1,)
        return
    out = layer.output_indices
    for dependency, indices in layer.indices:
        if indices is None or dependency in layer.io_deps:
            continue
        inner = tuple(along[out.index(i)] if i in out and len(out) == len(along) else -1 for i in indices)
        _follow(layers, dependency, inner, found, followed)


def _plain_view(held: Any) -> TensorStore | None:
    """Return the view whose blocks are those of an object, be it in the wrappers of xarray."""
    if isinstance(held, Indexable):
        return held.view
    while held is not None:
        key = getattr(getattr(held, "key", None), "tuple", ())
        if any(not isinstance(term, slice) or term != slice(None) for term in key):
            return None
        indexable = getattr(held, "_indexable", None)
        if isinstance(indexable, Indexable):
            return indexable.view
        held = getattr(held, "array", None)
    return None


def _same_part(view: TensorStore, target: TensorStore) -> bool:
    one, other = ranges_of(view), ranges_of(Indexable(target).view)
    if one is None or one != other or view.shape != target.shape:
        return False
    if any(step == 0 and first != last for first, last, step in one):
        return False
    dims = [[link and link.dim for link in one_to_one(v._transform)] for v in (view, target)]
    return dims[0] == dims[1] and _at(places(view)) == _at(places(target))


def _at(locations: Sequence[Location]) -> list[tuple[Any, str]]:
    return [(location.store.identity, location.path) for location in locations]
