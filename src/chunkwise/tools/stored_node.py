"""Stored arrays by their keys: chunks, strays, and how large they are."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from math import prod
from typing import NamedTuple

from chunkwise.binding import Members
from chunkwise.driver.chunked.format import Format
from chunkwise.driver.n5.format import N5Format
from chunkwise.driver.stored_array import StoredArray
from chunkwise.driver.zarr1.format import Zarr1Format
from chunkwise.driver.zarr2.format import Zarr2Format
from chunkwise.driver.zarr3.format import Zarr3Format
from chunkwise.engine.count_stored import StoredCount, count_stored
from chunkwise.errors import ChunkwiseError, prefix
from chunkwise.grid.protocol import n_array_cells
from chunkwise.hierarchy.node import Node
from chunkwise.index_space import IndexDomain, IndexTransform
from chunkwise.kvstore.byte_range import open_size
from chunkwise.kvstore.key_range import KeyRange
from chunkwise.kvstore.protocol import EntryListable, offers
from chunkwise.spec.schema import Schema

__all__ = ["Occupancy", "array_nbytes", "is_same_array", "occupancy", "stored_array"]

_FORMATS: dict[str, type[Format]] = {
    "zarr3": Zarr3Format,
    "zarr2": Zarr2Format,
    "zarr1": Zarr1Format,
    "n5": N5Format,
}


def stored_array(node: Node) -> StoredArray:
    """Return the array of a node, with keys in the node's own store."""
    assert node.format is not None
    format = _FORMATS[node.format]()
    options = format.parse_options(Members({}))
    try:
        return format.stored_array(format.parse_metadata(node.document), node.location.path, options)
    except Exception as e:
        raise prefix(e, f"Error reading {node.location.describe(node.key)}") from None


def is_same_array(a: Node, b: Node) -> bool:
    """Return whether the documents of two nodes mean the same array, whatever its attributes."""
    # One may come from consolidated metadata, or be made of what was sent: defaults are written out there.
    if a.format is None or a.format != b.format:
        return False
    format = _FORMATS[a.format]()
    try:
        known, found = (format.parse_metadata(node.document) for node in (a, b))
        constraints = format.parse_constraints(format.metadata_to_json(format.without_attributes(known)))
        format.check(found, constraints, format.parse_options(Members({})), Schema())
    except ChunkwiseError:
        return False
    return True


def array_nbytes(node: Node) -> int | None:
    """Return the size of all elements in memory; None if the array isn't understood."""
    try:
        array = stored_array(node)
    except (ChunkwiseError, ValueError, NotImplementedError):
        return None
    return prod(array.shape) * array.dtype.memory_dtype.itemsize


def _below(node: Node) -> KeyRange:
    path = node.location.path
    return KeyRange.of_prefix(path) if path else KeyRange()


def _chunks(array: StoredArray, keys: Iterable[str]) -> list[str]:
    """Return the keys of chunks, or shards, that the shape of the array reaches."""
    limits = [array.grid.n_cells(dim, size) for dim, size in enumerate(array.shape)]
    out = []
    for key in keys:
        cell = array.keys.cell(key, array.grid.rank)
        if cell is not None and all(number < limit for number, limit in zip(cell, limits, strict=True)):
            out.append(key)
    return out


class Occupancy(NamedTuple):
    """Numbers of stored and possible chunks, and their bytes."""

    n_stored: int  # chunks, or shards
    n_possible: int
    inner: StoredCount | None  # inner chunks, if there are shards
    stored_nbytes: int
    nbytes: int  # of all elements in memory

    @property
    def ratio(self) -> float | None:
        """Size in memory divided by stored size; None if nothing is stored."""
        return self.nbytes / self.stored_nbytes if self.stored_nbytes else None


def occupancy(node: Node, array: StoredArray) -> Occupancy:
    """Count the stored chunks of an array and their bytes."""
    kv = node.location.store
    size: Callable[[str], int]
    below = _below(node)
    if offers(kv, EntryListable):
        sizes = {entry.key: entry.size for entry in kv.list_entries(below.start, below.stop)}
        chunks, size = _chunks(array, sizes), sizes.__getitem__
    else:
        chunks, size = _chunks(array, kv.list(below.start, below.stop)), open_size(kv)
    domain = IndexDomain(shape=array.shape)
    inner = None
    if array.shard is not None:
        inner = count_stored(array, kv, IndexTransform.identity(domain))
    return Occupancy(
        n_stored=len(chunks),
        n_possible=n_array_cells(array.grid, array.shape),
        inner=inner,
        stored_nbytes=sum(map(size, chunks)),
        nbytes=domain.size * array.dtype.memory_dtype.itemsize,
    )
