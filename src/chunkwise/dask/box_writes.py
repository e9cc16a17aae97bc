"""``BoxWrites``: the tasks that write one dask array, a box of its blocks each.

A box is made of whole chunks (or shards) of the target if possible.

Graphs in which no two blocks depend on the same block, so that one task can compute many of them.

dask needs some milliseconds for a task, most of them in its scheduler.  The layers of such a graph are sent
to the workers, which materialise one box of blocks after the other, so the scheduler doesn't see these tasks.
"""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import product
from math import prod
from typing import Any

import numpy as np
import numpy.typing as npt

from chunkwise.dask.convert import block_sizes, to_dask
from chunkwise.dask.edges import aligned_sizes
from chunkwise.dask.indexable import Indexable
from chunkwise.errors import InvalidArgumentError
from chunkwise.extension.inside import BLOCK_NBYTES, load, plain_array

__all__ = ["BoxWrites", "Boxes", "LocalGraph", "local_graph"]


@dataclass(frozen=True)
class LocalGraph:
    """The layers of an array, and the keys of other layers that all its blocks refer to."""

    name: str
    layers: dict[str, Any]  # those that use a layer come before it
    constants: tuple[Any, ...]

    def blocks(self, indices: Sequence[tuple[int, ...]], constants: Sequence[Any]) -> list[Any]:
        """Return the values of some blocks; `constants` are the values of the keys of that name."""
        graph: dict[Any, Any] = {
            key: (partial(_same, value),) for key, value in zip(self.constants, constants, strict=True)
        }
        keys = [(self.name, *index) for index in indices]
        wanted: dict[str, set[Any]] = defaultdict(set, {self.name: set(keys)})
        for name, layer in self.layers.items():
            culled, dependencies = layer.cull(wanted[name], ())
            graph.update(culled)
            for key in set().union(*dependencies.values()):
                if isinstance(key, tuple) and key[0] in self.layers:
                    wanted[key[0]].add(key)
        return list(load("dask", "store").get(graph, keys))


def _same(value: Any) -> Any:
    return value


def local_graph(array: Any) -> tuple[LocalGraph, Any] | None:
    """Return the graph of a dask array, and the part of it that computes its constants.

    None if two blocks need the same block, as after a reduction or a rechunk, or if layers say where they
    must be computed.
    """
    blockwise = load("dask.blockwise", "store")
    graph = array.__dask_graph__()
    if not isinstance(graph, load("dask.highlevelgraph", "store").HighLevelGraph):
        return None
    if any(layer.annotations for layer in graph.layers.values()):
        return None
    graph = blockwise.optimize_blockwise(graph, keys=[array.name])
    order: list[str] = []
    constants: list[Any] = []
    axes: dict[str, tuple[int, ...]] = {}
    if not _collect(graph.layers, array.name, tuple(range(array.ndim)), axes, order, constants):
        return None
    layers = {name: graph.layers[name] for name in reversed(order)}
    if any(key not in graph.layers for key in constants):
        return None
    return LocalGraph(array.name, layers, tuple(constants)), graph.cull_layers(constants)


def _collect(
    layers: Mapping[str, Any],
    name: str,
    along: tuple[int, ...],  # for each dimension of the layer, that of the array
    axes: dict[str, tuple[int, ...]],
    order: list[str],
    constants: list[Any],
) -> bool:
    """Collect what a layer needs; return False if it isn't local."""
    if name in axes:
        return axes[name] == along  # otherwise two blocks would need the same one
    axes[name] = along
    layer = layers.get(name)
    if not isinstance(layer, load("dask.blockwise", "store").Blockwise) or layer.output != name:
        return False
    out = layer.output_indices
    for dependency, indices in layer.indices:
        if indices is None:
            key = getattr(dependency, "key", dependency)  # a constant, or a reference to one
            if isinstance(key, str) and key in layers:
                if key not in constants:
                    constants.append(key)
            elif key is not dependency:
                return False
            continue
        if dependency in layer.io_deps:
            if layer.io_deps[dependency].produces_keys:
                return False
            continue
        if sorted(indices) != sorted(out) or len(set(out)) != len(out):
            return False
        if any(n != layer.dims[i] for n, i in zip(layer.numblocks[dependency], indices, strict=True)):
            return False
        inner = tuple(along[out.index(i)] for i in indices)
        if not _collect(layers, dependency, inner, axes, order, constants):
            return False
    order.append(name)
    return True


_LARGEST_NBYTES = 256 << 20
"""Larger chunks of the target are written in parts, one block at a time."""

_MOST_BLOCKS = 1 << 12


class Boxes:
    """Division of an array into boxes of whole blocks, numbered in C order; they grow to `wanted_nbytes`."""

    def __init__(
        self,
        chunks: Sequence[Sequence[int]],
        aligned: Sequence[Sequence[int] | None],
        itemsize: int,
        wanted_nbytes: int,
    ) -> None:
        # `aligned`: sizes of the target's chunks by dimension; None where any cut will do.
        self._starts = [_edges(sizes) for sizes in chunks]
        every = [np.arange(len(edges)) for edges in self._starts]
        self._cuts = [
            cuts if sizes is None else np.flatnonzero(np.isin(edges, _edges(sizes)))
            for cuts, edges, sizes in zip(every, self._starts, aligned, strict=True)
        ]
        self.aligned = self._nbytes(self._cuts, itemsize) <= _LARGEST_NBYTES
        if not self.aligned:
            self._cuts = every
        growing = True
        while growing:
            growing = False
            for dim in reversed(range(len(self._cuts))):
                cuts = list(self._cuts)
                cuts[dim] = _every_other(cuts[dim])
                if len(cuts[dim]) == len(self._cuts[dim]):
                    continue
                n_blocks = prod(int(np.diff(c).max(initial=1)) for c in cuts)
                if n_blocks <= _MOST_BLOCKS and self._nbytes(cuts, itemsize) <= wanted_nbytes:
                    self._cuts, growing = cuts, True

    @property
    def n_boxes(self) -> int:
        """Number of boxes."""
        return prod(len(cuts) - 1 for cuts in self._cuts)

    def blocks(self, number: int) -> list[range]:
        """Return the blocks of a box along each dimension."""
        out = []
        for cuts in reversed(self._cuts):
            number, at = divmod(number, len(cuts) - 1)
            out.append(range(int(cuts[at]), int(cuts[at + 1])))
        return out[::-1]

    def slices(self, first: Sequence[int], last: Sequence[int]) -> tuple[slice, ...]:
        """Return where the blocks from `first` up to, but without, `last` are in the array."""
        return tuple(
            slice(int(edges[a]), int(edges[b])) for edges, a, b in zip(self._starts, first, last, strict=True)
        )

    def number_of(self, block: Sequence[int]) -> int:
        """Return the number of the box that a block is in."""
        number = 0
        for cuts, at in zip(self._cuts, block, strict=True):
            number = number * (len(cuts) - 1) + int(np.searchsorted(cuts, at, side="right")) - 1
        return number

    def _nbytes(self, cuts: list[npt.NDArray[Any]], itemsize: int) -> int:
        longest = (int(np.diff(e[c]).max(initial=0)) for e, c in zip(self._starts, cuts, strict=True))
        return prod(longest) * itemsize


def _edges(sizes: Sequence[int]) -> npt.NDArray[np.int64]:
    return np.concatenate([[0], np.cumsum(sizes, dtype=np.int64)])


def _every_other(cuts: npt.NDArray[Any]) -> npt.NDArray[Any]:
    return np.unique(np.append(cuts[:-1:2], cuts[-1]))


_N_BOXES = 256
_SMALLEST_NBYTES = 4 << 20


class BoxWrites:
    """Tasks that write a dask array; `written` has one element for each box, computed when the box is
    written."""

    def __init__(self, source: Any, target: Indexable, *, rechunk: bool, shared: set[str]) -> None:
        # `rechunk`: divide the source at the target's chunks where its blocks can't be put together;
        # `shared`: layers of the source that others need too, so that dask should compute them.
        self._source, self._target = source, target
        found = None if shared.intersection(getattr(source.dask, "layers", ())) else local_graph(source)
        wanted = 0
        if found is not None:
            wanted = min(max(source.nbytes // _N_BOXES, _SMALLEST_NBYTES), BLOCK_NBYTES)
        self._boxes = self._divide(wanted)
        if rechunk and not self._boxes.aligned:
            self._source, found = source.rechunk(block_sizes(target, None)), None
            self._boxes = self._divide(0)
        self._make_graph(found)

    def _divide(self, wanted_nbytes: int) -> Boxes:
        source = self._source
        sizes = aligned_sizes(self._target.view)
        return Boxes(source.chunks, sizes, max(1, source.dtype.itemsize), wanted_nbytes)

    def _make_graph(self, found: tuple[LocalGraph, Any] | None) -> None:
        token = os.urandom(16).hex()
        name, target, boxes = (f"chunkwise-{what}-{token}" for what in ("store", "target", "boxes"))
        graph: dict[Any, Any] = {target: self._target, boxes: self._boxes}
        layers = load("dask.highlevelgraph", "store").HighLevelGraph
        numbers = range(self._boxes.n_boxes)
        if found is None:
            for number in numbers:
                blocks = [(self._source.name, *at) for at in product(*self._boxes.blocks(number))]
                graph[name, number] = (_write, target, boxes, number, blocks)
            whole = layers.from_collections(name, graph, dependencies=[self._source])
        else:
            local, rest = found
            key = f"chunkwise-graph-{token}"
            graph[key] = local
            for number in numbers:
                graph[name, number] = (_compute, target, boxes, number, key, list(local.constants))
            below = {**rest.dependencies, name: set(local.constants)}
            whole = layers({**rest.layers, name: graph}, below)
        da = load("dask.array", "store")
        self._target_key = target
        self.written = da.Array(whole, name, chunks=((1,) * len(numbers),), dtype=bool)

    def stored(self, *, computed: bool) -> Any:
        """Return a dask array of the stored values, which is read after the write unless that is
        `computed`."""
        chunks, name = self._source.chunks, f"chunkwise-stored-{os.urandom(16).hex()}"
        if computed:
            return to_dask(self._target.view, chunks, name=name)
        graph: dict[Any, Any] = {}
        for at in product(*(range(len(sizes)) for sizes in chunks)):
            place = self._boxes.slices(at, [n + 1 for n in at])
            written = (self.written.name, self._boxes.number_of(at))
            graph[name, *at] = (_read, self._target_key, place, written)
        layers = load("dask.highlevelgraph", "store").HighLevelGraph
        whole = layers.from_collections(name, graph, dependencies=[self.written])
        return load("dask.array", "store").Array(whole, name, chunks=chunks, dtype=self._target.dtype)


def _write(target: Indexable, boxes: Boxes, number: int, blocks: Sequence[Any]) -> npt.NDArray[np.bool_]:
    """Write a box of blocks."""
    along = boxes.blocks(number)
    first, last = [n.start for n in along], [n.stop for n in along]
    arrays = [plain_array(values) for values in blocks]
    place = boxes.slices(first, last)
    values = arrays[0]
    if len(arrays) > 1:
        shape = [n.stop - n.start for n in place]
        values = np.empty(shape, np.result_type(*{each.dtype for each in arrays}))
    for at, each in zip(product(*along), arrays, strict=True):
        part = boxes.slices(at, [n + 1 for n in at])
        inside = tuple(slice(a.start - b.start, a.stop - b.start) for a, b in zip(part, place, strict=True))
        expected = tuple(n.stop - n.start for n in inside)
        if each.shape != expected:
            raise InvalidArgumentError(
                f"Block {list(at)} of the dask array is of shape {list(each.shape)}, not {list(expected)}"
            )
        if values is not each:
            values[inside] = each
    target[place] = values
    return np.ones(1, bool)


def _compute(
    target: Indexable, boxes: Boxes, number: int, graph: LocalGraph, constants: Sequence[Any]
) -> npt.NDArray[np.bool_]:
    """Compute the blocks of a box and write them."""
    blocks = graph.blocks(list(product(*boxes.blocks(number))), constants)
    return _write(target, boxes, number, blocks)


def _read(target: Indexable, place: tuple[slice, ...], written: Any) -> npt.NDArray[Any]:
    """Read the stored values after they are written."""
    return target[place]
