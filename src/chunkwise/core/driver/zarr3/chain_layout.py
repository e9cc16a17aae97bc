"""The dimensions of an array, as a codec chain sees them at each level of its shards.

After a ``transpose``, the sizes of inner chunks are in another order than the array's dimensions.  After a
codec that changes the shape, an inner chunk need not be a box of the array, so shards there tell nothing
about the array's chunks.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from chunkwise.core.base.binding import JSON
from chunkwise.core.base.catalogue import codecs
from chunkwise.core.driver.zarr3.codec_constraints import SHARDING, split_chain
from chunkwise.core.grid import ChunkGrid, RectilinearGrid
from chunkwise.core.specs.chunk_layout import ChunkLayout
from chunkwise.core.specs.constraint import braces
from chunkwise.errors import InvalidArgumentError

__all__ = ["ChainAxes", "Shard", "chain_axes", "chain_layout"]


class Shard(NamedTuple):
    """A ``sharding_indexed`` codec whose inner chunks are boxes of the array."""

    axes: tuple[int, ...]  # the array's dimension for each dimension of the codec
    # Shape of inner chunks, in the order of the array's dimensions; None if open.
    chunk_shape: tuple[int, ...] | None


class ChainAxes(NamedTuple):
    """The array's dimensions, as seen by a chain, which may be partial."""

    shards: tuple[Shard, ...]  # outermost first
    # The array's dimension for each dimension of the innermost array -> bytes codec; None after a codec that
    # changes the shape.
    axes: tuple[int, ...] | None
    is_complete: bool  # True if the innermost array -> bytes codec is known
    is_open: bool  # True if the codecs of the innermost chunks are completely open


def chain_axes(chain: Sequence[dict[str, JSON]] | None, rank: int) -> ChainAxes:
    """Follow the dimensions of an array of `rank` through a parsed chain; None is an open chain."""
    axes: tuple[int, ...] | None = tuple(range(rank))
    shards: list[Shard] = []
    while chain is not None:
        split = split_chain(chain)
        for entry in split.array_to_array:
            axes = _through(entry, axes)
        codec = split.array_to_bytes
        if codec is None or codec["name"] != SHARDING:
            return ChainAxes(tuple(shards), axes, is_complete=codec is not None, is_open=False)
        options = codec.get("configuration", {})
        if axes is not None:
            shards.append(Shard(axes, _in_array_order(options.get("chunk_shape"), axes)))
        chain = options.get("codecs")
    return ChainAxes(tuple(shards), axes, is_complete=False, is_open=True)


def _through(entry: dict[str, JSON], axes: tuple[int, ...] | None) -> tuple[int, ...] | None:
    if axes is None or codecs.find(entry["name"], "zarr3").reshapes:
        return None
    if entry["name"] != "transpose":
        return axes
    order = entry["configuration"]["order"]
    if isinstance(order, str):
        return axes if order == "C" else axes[::-1]
    if len(order) != len(axes):
        raise InvalidArgumentError(
            f"{braces(order)} is not a valid dimension permutation for a rank {len(axes)} array"
        )
    return tuple(axes[i] for i in order)


def _in_array_order(shape: Sequence[int] | None, axes: tuple[int, ...]) -> tuple[int, ...] | None:
    if shape is None:
        return None
    if len(shape) != len(axes):
        raise InvalidArgumentError(
            f"sharding_indexed sub-chunk shape of {braces(shape)} is not compatible with "
            f"array of rank {len(axes)}"
        )
    return tuple(shape[axes.index(dim)] for dim in range(len(axes)))


def chain_layout(
    chain: list[dict[str, JSON]] | None,
    grid: ChunkGrid | None,
    rank: int,
    inside: tuple[int, ...] = (),
) -> ChunkLayout:
    """Return the chunk layout of a codec chain and a chunk grid, as far as they are known."""
    # `inside` are the dimensions inside each element.
    n_all = rank + len(inside)
    layout = ChunkLayout(rank=n_all)
    layout._set("grid_origin", [0] * n_all, hard=True)
    chunk_shape = None if grid is None else grid.chunk_shape
    if isinstance(grid, RectilinearGrid):
        layout._set("chunk_shapes", (*grid.chunk_shapes, *inside), hard=True)
    elif chunk_shape is not None:
        layout.update(write_chunk_shape=(*chunk_shape, *inside))
    found = chain_axes(chain, rank)
    if found.axes is not None and found.is_complete:
        layout._set("inner_order", [*found.axes, *range(rank, n_all)], hard=True)
    read_shape = None if chain is None else chunk_shape
    if found.shards:
        read_shape = found.shards[-1].chunk_shape
    if read_shape is not None:
        layout.update(read_chunk_shape=(*read_shape, *inside))
    return layout
