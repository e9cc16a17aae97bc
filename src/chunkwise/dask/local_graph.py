"""Graphs in which no two blocks depend on the same block, so that one task can compute many of them.

dask needs some milliseconds for a task, most of them in its scheduler.  The layers of such a graph are sent
to the workers, which materialise one box of blocks after the other, so the scheduler doesn't see these tasks.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from chunkwise.extension.inside import load

__all__ = ["LocalGraph", "local_graph"]


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
