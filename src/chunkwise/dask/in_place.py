"""Writes into existing arrays, from sources that may read them.

Tasks run in any order, so one could read what another has already written.  That can't happen if each task
reads only what it writes itself: each block of the source depends only on the block at its own position in
the written array.  All other sources that read a written array are refused.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from chunkwise import TensorStore, inf
from chunkwise.copying.overlap import places
from chunkwise.dask.indexable import Indexable
from chunkwise.dask.reads import reads_of
from chunkwise.errors import InvalidArgumentError
from chunkwise.extension.inside import load, one_to_one
from chunkwise.extension.trees import Location

__all__ = ["Written", "check_sources", "ranges_of"]

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
