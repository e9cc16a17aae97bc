"""Stored arrays of nodes: how much of them is there, and if a worker sees them as they were opened.

An array that a worker doesn't see would be full of fill values.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from math import prod
from typing import NamedTuple

from chunkwise.core.api.tensorstore import TensorStore
from chunkwise.core.base.binding import Members
from chunkwise.core.base.catalogue import drivers
from chunkwise.core.driver.chunked.format import Format
from chunkwise.core.driver.stored_array import StoredArray
from chunkwise.core.driver.tree_formats import DRIVERS, FORMATS
from chunkwise.core.engine.count_stored import StoredCount, count_stored
from chunkwise.core.grid import n_array_cells
from chunkwise.core.index_space import IndexDomain, IndexTransform
from chunkwise.core.kvstore.key_range import KeyRange
from chunkwise.core.kvstore.protocol import EntryListable, offers
from chunkwise.core.kvstore.value import open_size
from chunkwise.core.specs.driver_spec import DriverSpec, SpecMembers
from chunkwise.core.specs.schema import Schema
from chunkwise.core.trees.location import location_of
from chunkwise.core.trees.node import Node, find_documented
from chunkwise.core.trees.node_attributes import array_node
from chunkwise.errors import ChunkwiseError, FailedPreconditionError, prefix

__all__ = [
    "Occupancy",
    "array_nbytes",
    "check_array_visible",
    "check_node_visible",
    "occupancy",
    "stored_array",
]

_MOST_LOOKED_AT = 8  # of the arrays that a source is made of


def _format(name: str) -> Format:
    """Return a format, whose modules are loaded when it is met."""
    spec = drivers.find(DRIVERS[name])(Members({}), SpecMembers(Schema(), None))
    format: Format = spec.format
    return format


def stored_array(node: Node) -> StoredArray:
    """Return the array of a node, with keys in the node's own store."""
    assert node.format is not None
    format = _format(node.format)
    options = format.parse_options(Members({}))
    try:
        return format.stored_array(format.parse_metadata(node.document), node.location.path, options)
    except Exception as e:
        raise prefix(e, f"Error reading {node.location.describe(node.key)}") from None


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
    inner: StoredCount | None  # inner chunks, if there are shards and these were looked into
    stored_nbytes: int
    nbytes: int  # of all elements in memory

    @property
    def ratio(self) -> float | None:
        """Size in memory divided by stored size; None if nothing is stored."""
        return self.nbytes / self.stored_nbytes if self.stored_nbytes else None


def occupancy(node: Node, array: StoredArray, *, inside: bool = True) -> Occupancy:
    """Count the stored chunks of an array and their bytes; `inside` shards, too."""
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
    if inside and array.shard is not None:
        inner = count_stored(array, kv, IndexTransform.identity(domain))
    return Occupancy(
        n_stored=len(chunks),
        n_possible=n_array_cells(array.grid, array.shape),
        inner=inner,
        stored_nbytes=sum(map(size, chunks)),
        nbytes=domain.size * array.dtype.memory_dtype.itemsize,
    )


def check_node_visible(node: Node, what: str) -> None:
    """Raise FailedPreconditionError unless the document of a node is here as it is in `node`."""
    found = find_documented(node.location, node.format)
    if found is None or not _is_same_array(node, found):
        raise FailedPreconditionError(
            f"a worker doesn't see {what}: {node.location.describe(node.key)} isn't there, or is another; it "
            "has to be on storage that all workers see under the same name"
        )


def _is_same_array(a: Node, b: Node) -> bool:
    """Return True if the documents of two nodes mean the same array, whatever its attributes."""
    # One may come from consolidated metadata, or be made of what was sent: defaults are written out there.
    if a.format is None or a.format != b.format:
        return False
    format = _format(a.format)
    try:
        known, found = (format.parse_metadata(node.document) for node in (a, b))
        constraints = format.parse_constraints(format.metadata_to_json(format.without_attributes(known)))
        format.check(found, constraints, format.parse_options(Members({})), Schema())
    except ChunkwiseError:
        return False
    return True


def check_array_visible(store: TensorStore, what: str) -> None:
    """Raise FailedPreconditionError unless an array, or what it is made of, is here as it was opened."""
    array = store._array
    node = array_node(array).node
    if node is not None:
        check_node_visible(node, what)
        return
    for spec in islice(_stored_specs(array.spec()), _MOST_LOOKED_AT):
        assert spec.kvstore is not None, "it is stored"
        location = location_of(spec.kvstore)
        if find_documented(location, FORMATS[spec.driver]) is None:
            raise FailedPreconditionError(
                f"a worker doesn't see {what}: there is no array at {location.text}"
            )


def _stored_specs(spec: DriverSpec) -> Iterator[DriverSpec]:
    """Yield the specs of the stored arrays that an array is made of."""
    if spec.kvstore is not None and spec.driver in FORMATS:
        yield spec
    for part in spec.parts():
        if isinstance(part, DriverSpec):
            yield from _stored_specs(part)
