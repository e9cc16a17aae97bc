"""The chunks and codecs of a new array, from ``metadata`` and schema, at each level of its shards.

After a ``transpose``, the sizes of inner chunks are in another order than the array's dimensions.  After a
codec that changes the shape, an inner chunk need not be a box of the array, so shards there tell nothing
about the array's chunks.

A chain in ``metadata`` determines the order of elements, and is put into shards only if read and write chunks
of different sizes are required.  If the chain is left open, codecs are put into shards if read chunks turn
out smaller than write chunks, and an inner order other than C order becomes a ``transpose``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from chunkwise.core.base.binding import JSON, dump
from chunkwise.core.base.catalogue import codecs
from chunkwise.core.driver.zarr3.codec_constraints import SHARDING, sharding_levels, split_chain
from chunkwise.core.driver.zarr3.constraints import Zarr3CodecSpec, Zarr3Constraints
from chunkwise.core.driver.zarr3.metadata import first_chunk_shape
from chunkwise.core.grid import ChunkGrid, RectilinearGrid, Sizes
from chunkwise.core.index_space import IndexDomain
from chunkwise.core.specs.chunk_layout import ChunkLayout
from chunkwise.core.specs.chunk_shape import choose_chunk_shape, choose_read_write_chunk_shapes
from chunkwise.core.specs.codec_spec import CodecSpec
from chunkwise.core.specs.constraint import braces, hard_part
from chunkwise.errors import InvalidArgumentError, prefixed

__all__ = ["chain_layout", "choose_chunks"]


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


def _chain_axes(chain: Sequence[dict[str, JSON]] | None, rank: int) -> ChainAxes:
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
    found = _chain_axes(chain, rank)
    if found.axes is not None and found.is_complete:
        layout._set("inner_order", [*found.axes, *range(rank, n_all)], hard=True)
    read_shape = None if chain is None else chunk_shape
    if found.shards:
        read_shape = found.shards[-1].chunk_shape
    if read_shape is not None:
        layout.update(read_chunk_shape=(*read_shape, *inside))
    return layout


class _NewChunks(NamedTuple):
    """Chunks and codecs of a new array."""

    grid: dict[str, JSON]  # the member ``chunk_grid``
    shape: tuple[int, ...]  # shape of a cell, the first one in a grid of unequal cells
    inner: tuple[int, ...]  # shape of a chunk that is read alone
    chain: list[dict[str, JSON]]  # the codecs; some options may still be open


def choose_chunks(
    constraints: Zarr3Constraints, layout: ChunkLayout, codec: CodecSpec | None, domain: IndexDomain
) -> _NewChunks:
    """Choose the chunks of an array of the given `domain`."""
    chain = list(Zarr3CodecSpec.of(constraints.codecs)._merged(codec).codecs or [])
    grid, outer, inner = _choose_shapes(constraints, layout, chain, domain)
    chain = _with_shards(chain, outer, inner)
    if _chain_axes(constraints.codecs, domain.rank).is_open:
        chain = _with_order(chain, layout, domain.rank)
    _check_order(chain, layout, domain.rank)
    return _NewChunks(grid, outer, inner, chain)


def _choose_shapes(
    constraints: Zarr3Constraints, layout: ChunkLayout, chain: list[dict[str, JSON]], domain: IndexDomain
) -> tuple[dict[str, JSON], tuple[int, ...], tuple[int, ...]]:
    """Return the grid's JSON, the shape of its (first) cell, and the shape of read chunks."""
    shards = _chain_axes(chain, domain.rank).shards
    own = chain_layout(None if shards else constraints.codecs, constraints.grid, domain.rank)
    layout.become(layout.merged(own))
    if shards and (shape := shards[-1].chunk_shape) is not None:
        layout._set_of_grid("read_chunk", "shape", shape, hard=True)
    if layout.chunk_shapes is not None:
        grid = _rectilinear_grid(layout.chunk_shapes)
        json = {"name": "rectilinear", "configuration": grid.to_json()}
        json = constraints.members.get("chunk_grid", json)
        if json["name"] != "rectilinear":
            raise InvalidArgumentError(
                f"chunk_shapes are not compatible with a {dump(json['name'])} chunk grid"
            )
        inner = hard_part(layout.read_chunk._vector("shape"), domain.rank)
        if any(inner) and not shards:
            raise InvalidArgumentError(
                f"read_chunk shape {braces(inner)} needs shards in the codecs of a rectilinear chunk grid"
            )
        outer = first_chunk_shape(grid)
        return json, outer, tuple(n or size for n, size in zip(inner, outer, strict=True))
    given = constraints.codecs is not None or sharding_levels(chain) > 0
    if given and not shards and not _asks_for_both(layout):
        layout._merge_grid("write_chunk", layout.read_chunk)
        read = write = choose_chunk_shape(ChunkLayout(write_chunk=layout.write_chunk), domain.shape)
    else:
        read, write = choose_read_write_chunk_shapes(layout, domain.shape)
    return {"name": "regular", "configuration": {"chunk_shape": list(write)}}, write, read


def _rectilinear_grid(shapes: Sequence[Sizes | None]) -> RectilinearGrid:
    known = [sizes for sizes in shapes if sizes is not None]
    if len(known) < len(shapes):
        raise InvalidArgumentError(
            f"chunk_shapes of a rectilinear grid must be known for each dimension, not unknown for dimension "
            f"{shapes.index(None)}"
        )
    return RectilinearGrid.of(known)


def _asks_for_both(layout: ChunkLayout) -> bool:
    """Return True if different sizes of read and write chunks are required."""
    sizes = zip(layout.read_chunk._vector("shape"), layout.write_chunk._vector("shape"), strict=False)
    return any(r and w and r.hard and w.hard and r.value != w.value for r, w in sizes)


def _with_shards(
    chain: list[dict[str, JSON]], outer: tuple[int, ...], inner: tuple[int, ...]
) -> list[dict[str, JSON]]:
    """Add shards around the chain, or the inner chunk shape that its shards leave open."""
    shards = _chain_axes(chain, len(outer)).shards
    if shards:
        shape = [inner[dim] for dim in shards[-1].axes]
        return _changed(chain, len(shards) - 1, lambda c: _with_inner_shape(c, shape))
    if inner == outer:
        return chain
    return [{"name": SHARDING, "configuration": {"chunk_shape": list(inner), "codecs": chain}}]


def _with_inner_shape(chain: list[dict[str, JSON]], shape: list[int]) -> list[dict[str, JSON]]:
    return [
        {**e, "configuration": {"chunk_shape": shape, **e.get("configuration", {})}}
        if e["name"] == SHARDING
        else e
        for e in chain
    ]


def _changed(
    chain: list[dict[str, JSON]], depth: int, change: Callable[[list[dict[str, JSON]]], list[dict[str, JSON]]]
) -> list[dict[str, JSON]]:
    """Return the chain with a changed chain of the inner chunks `depth` shards down."""
    if depth == 0:
        return change(chain)
    before, shard, after = split_chain(chain)
    assert shard is not None
    options = dict(shard.get("configuration", {}))
    options["codecs"] = _changed(options.get("codecs", []), depth - 1, change)
    return [*before, {"name": SHARDING, "configuration": options}, *after]


def _with_order(chain: list[dict[str, JSON]], layout: ChunkLayout, rank: int) -> list[dict[str, JSON]]:
    """Add a transpose that puts elements in the order of the layout."""
    axes = _chain_axes(chain, rank).axes
    order = layout._scalar("inner_order")
    if order is None or axes is None or axes == order.value:
        return chain
    entry = {
        "name": "transpose",
        "configuration": {"order": [axes.index(dim) for dim in order.value]},
    }

    def change(inner: list[dict[str, JSON]]) -> list[dict[str, JSON]]:
        n = len(split_chain(inner).array_to_array)
        return [*inner[:n], entry, *inner[n:]]

    return _changed(chain, sharding_levels(chain), change)


def _check_order(chain: list[dict[str, JSON]], layout: ChunkLayout, rank: int) -> None:
    """Raise unless elements are in the order that the layout requires."""
    if layout.inner_order is None:
        return
    axes = _chain_axes(chain, rank).axes
    if axes is None:
        raise InvalidArgumentError(
            f"inner_order {braces(layout.inner_order)} can't be met by codecs that change the shape of chunks"
        )
    with prefixed("Error setting inner_order"):
        layout._set("inner_order", axes, hard=True)
