"""Summaries of arrays from their documents, and of layers of stacks: how much is stored; no values read."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import islice
from math import prod
from typing import NamedTuple, TypeAlias

from chunkwise.copying.quantities import format_chunks
from chunkwise.core.api.tensorstore import TensorStore
from chunkwise.core.base.binding import JSON, Members
from chunkwise.core.base.catalogue import drivers, grids
from chunkwise.core.driver.chunked.format import Format
from chunkwise.core.driver.stored_array import StoredArray
from chunkwise.core.driver.tree_formats import DRIVERS
from chunkwise.core.engine.count_stored import StoredCount, count_stored
from chunkwise.core.grid import n_array_cells
from chunkwise.core.index_space import IndexDomain, IndexTransform
from chunkwise.core.kvstore.key_range import KeyRange
from chunkwise.core.kvstore.protocol import EntryListable, offers
from chunkwise.core.kvstore.value import open_size
from chunkwise.core.plan.layers import Box, Overlap, overlaps, uncovered
from chunkwise.core.specs.driver_spec import SpecMembers
from chunkwise.core.specs.schema import Schema
from chunkwise.core.trees.node import DOCUMENTS, Node
from chunkwise.errors import ChunkwiseError, InvalidArgumentError, prefix
from chunkwise.extension.inside import codec_text

__all__ = [
    "ArraySummary",
    "Box",
    "Occupancy",
    "StackReport",
    "array_nbytes",
    "chunked_format",
    "codec_text",
    "describe_node",
    "file_format",
    "is_stack",
    "occupancy",
    "report_stack",
    "shape_text",
    "stored_array",
    "summarize",
]


def chunked_format(name: str) -> Format:
    """Return a format, whose modules are loaded when it is met."""
    spec = drivers.find(DRIVERS[name])(Members({}), SpecMembers(Schema(), None))
    format: Format = spec.format
    return format


def stored_array(node: Node) -> StoredArray:
    """Return the array of a node, with keys in the node's own store."""
    assert node.format is not None
    format = chunked_format(node.format)
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
    n_others: int  # keys that are neither chunks nor documents

    @property
    def ratio(self) -> float | None:
        """Size in memory divided by stored size; None if nothing is stored."""
        return self.nbytes / self.stored_nbytes if self.stored_nbytes else None


def occupancy(node: Node, array: StoredArray, *, inside: bool = True) -> Occupancy:
    """Count the stored chunks of an array and their bytes; `inside` shards, too."""
    kv = node.location.store
    size: Callable[[str], int]
    below = _below(node)
    keys: Sequence[str]
    if offers(kv, EntryListable):
        sizes = {entry.key: entry.size for entry in kv.list_entries(below.start, below.stop)}
        keys, size = list(sizes), sizes.__getitem__
    else:
        keys, size = list(kv.list(below.start, below.stop)), open_size(kv)
    chunks = _chunks(array, keys)
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
        n_others=sum(key[len(node.location.path) :] not in DOCUMENTS for key in keys) - len(chunks),
    )


# -- summaries ----------------------------------------------------------------------------------------

Sizes: TypeAlias = "int | tuple[int | tuple[int, int], ...]"
"""Sizes of the chunks along a dimension: one for all, or a list of sizes and ``(size, count)`` runs."""


class ArraySummary(NamedTuple):
    """Properties of an array; None for those that are missing in the document, or not understood."""

    shape: tuple[int, ...] | None
    dtype: str | None
    chunks: tuple[Sizes, ...] | None  # inner ones where there are shards; sizes where they differ
    shards: tuple[Sizes, ...] | None
    codecs: tuple[str, ...]  # without those that every array of the format has
    fill_value: JSON
    dimension_names: tuple[str | None, ...] | None
    dimension_units: tuple[str | None, ...] | None


_FILES = {"hdf5": "HDF5", "tiff_images": "TIFF"}


def file_format(node: Node) -> str | None:
    """Return the format of the file that the node is in, where that is read as Zarr; else None."""
    return _FILES.get(node.location.kvstore().driver)


def summarize(node: Node) -> ArraySummary:
    """Return the summary of an array node."""
    document = node.document
    if node.format == "zarr3":
        return _zarr3(document)
    if node.format == "n5":
        return _n5(document)
    return _zarr2(document)


def _zarr3(document: Mapping[str, JSON]) -> ArraySummary:
    chunks = _cells(_configuration(document.get("chunk_grid")))
    shards = None
    codecs: list[str] = []
    chain = _objects(document.get("codecs"))
    while chain:
        inner: list[Mapping[str, JSON]] = []
        for codec in chain:
            name, options = str(codec.get("name")), _configuration(codec)
            if name == "sharding_indexed":
                shards = shards or chunks
                chunks = _shape(options.get("chunk_shape"))
                inner = _objects(options.get("codecs"))
            elif name != "bytes":
                codecs.append(codec_text(name, options))
        chain = inner
    units = document.get("attributes", {})
    units = units.get("dimension_units") if isinstance(units, Mapping) else None
    return ArraySummary(
        _shape(document.get("shape")),
        _name(document.get("data_type")),
        chunks,
        shards,
        tuple(codecs),
        document.get("fill_value"),
        _names(document.get("dimension_names")),
        _names(units),
    )


def _zarr2(document: Mapping[str, JSON]) -> ArraySummary:
    if document.get("zarr_format") == 1:
        options = document.get("compression_opts")
        members = options if isinstance(options, Mapping) else {} if options is None else {"level": options}
        compressor = None
        if document.get("compression") not in (None, "none", ""):
            compressor = {"id": document["compression"], **members}
    else:
        compressor = document.get("compressor")
    entries = [*_objects(document.get("filters")), *_objects([compressor])]
    dtype = document.get("dtype")
    return ArraySummary(
        _shape(document.get("shape")),
        dtype if isinstance(dtype, str) else None if dtype is None else str(dtype),
        _shape(document.get("chunks")),
        None,
        tuple(codec_text(str(e.get("id")), {k: v for k, v in e.items() if k != "id"}) for e in entries),
        document.get("fill_value"),
        None,
        None,
    )


def _n5(document: Mapping[str, JSON]) -> ArraySummary:
    compression = document.get("compression")
    if not isinstance(compression, Mapping):
        compression = {"type": document.get("compressionType")} if "compressionType" in document else {}
    options = {k: v for k, v in compression.items() if k != "type"}
    name = compression.get("type")
    shape = _shape(document.get("dimensions"))
    units, resolution = _names(document.get("units")), document.get("resolution")
    if units is not None and isinstance(resolution, list) and len(resolution) == len(units):
        texts = (f"{'' if r == 1 else _number(r)} {u or ''}" for r, u in zip(resolution, units, strict=True))
        units = tuple(text.strip() or None for text in texts)
    return ArraySummary(
        shape,
        _name(document.get("dataType")),
        _shape(document.get("blockSize")),
        None,
        () if name in (None, "raw") else (codec_text(str(name), options),),
        None,
        _names(document.get("axes")),
        units,
    )


def _configuration(value: object) -> Mapping[str, JSON]:
    options = value.get("configuration", {}) if isinstance(value, Mapping) else {}
    return options if isinstance(options, Mapping) else {}


def _objects(value: object) -> list[Mapping[str, JSON]]:
    out: list[Mapping[str, JSON]] = []
    for item in value if isinstance(value, list) else []:
        if isinstance(item, str):
            out.append({"name": item, "id": item})
        elif isinstance(item, Mapping):
            out.append(item)
    return out


def _shape(value: object) -> tuple[int, ...] | None:
    if not isinstance(value, list) or not all(isinstance(n, int | float) and n % 1 == 0 for n in value):
        return None
    return tuple(int(n) for n in value)


def _cells(grid: Mapping[str, JSON]) -> tuple[Sizes, ...] | None:
    if "chunk_shapes" not in grid:
        return _shape(grid.get("chunk_shape"))
    try:
        shapes: tuple[Sizes, ...] = grids.find("rectilinear", "zarr3").parse(grid).canonical_shapes
    except ChunkwiseError:
        return None
    return shapes


def _name(value: object) -> str | None:
    if isinstance(value, Mapping):
        options = ",".join(f"{k}={v}" for k, v in _configuration(value).items())
        return f"{value.get('name')}({options})" if options else str(value.get("name"))
    return value if isinstance(value, str) else None


def _names(value: object) -> tuple[str | None, ...] | None:
    if not isinstance(value, list) or not all(v is None or isinstance(v, str) for v in value):
        return None
    return tuple(value)


def _number(value: object) -> str:
    return f"{value:g}" if isinstance(value, int | float) else str(value)


def shape_text(shape: Sequence[object] | None) -> str:
    """Return ``(3, 4)``, or ``?`` for an unknown shape."""
    return "?" if shape is None else f"({', '.join(map(str, shape))})"


def describe_node(node: Node) -> str:
    """Return the description of a node, in a few words."""
    format = file_format(node) or node.format or "directory"
    if node.error:
        return f"{format} {node.kind}: {node.error}"
    if node.kind == "group":
        return f"{format} group{' (implicit)' if node.implicit else ''}"
    summary = summarize(node)
    words = [summary.dtype or "?", shape_text(summary.shape)]
    words.append("chunks " + ("?" if summary.chunks is None else format_chunks(summary.chunks)))
    if summary.shards is not None:
        words.append("shards " + format_chunks(summary.shards))
    words.append(", ".join(summary.codecs) or "uncompressed")
    return f"{format} array  " + "  ".join(words)


# -- stacks -------------------------------------------------------------------------------------------

_MOST_SHOWN = 1000


class StackReport(NamedTuple):
    """Gaps and overlaps of the layers of a stack."""

    n_layers: int
    domain: IndexDomain
    gaps: tuple[Box, ...]  # the first thousand at most, as are overlaps
    n_missing: int  # elements without a layer
    overlaps: tuple[Overlap, ...]  # pairs of layers with elements in common
    n_overlaps: int
    n_hidden: int  # elements of layers that others lie over, counted for each that is hidden

    def to_json(self) -> dict[str, JSON]:
        """Return the report as JSON."""
        return {
            "layers": self.n_layers,
            "domain": self.domain.to_json(),
            "missing_elements": self.n_missing,
            "gaps": [[list(box.lower), list(box.upper)] for box in self.gaps],
            "overlapping_pairs": self.n_overlaps,
            "hidden_elements": self.n_hidden,
            "overlaps": [
                {"layers": [o.below, o.above], "region": [list(o.box.lower), list(o.box.upper)]}
                for o in self.overlaps
            ],
        }


def is_stack(store: TensorStore) -> bool:
    """Return True if an open array is a stack of layers, and no view of a part of it or in another order."""
    from chunkwise.core.arrays.stack import StackArray  # with the driver, which few arrays need

    domain = store._array.domain
    is_whole = store._transform.output == IndexTransform.identity(domain).output
    return isinstance(store._array, StackArray) and is_whole and store.domain.shape == domain.shape


def report_stack(store: TensorStore) -> StackReport:
    """Return the report on an open stack; no layer is opened."""
    from chunkwise.core.arrays.stack import StackArray

    array = store._array
    if not isinstance(array, StackArray):
        raise InvalidArgumentError("this array is not a stack")
    domain, boxes = array.domain, array.boxes
    gaps: list[Box] = []
    n_missing = 0
    for box in uncovered(domain.inclusive_min, domain.exclusive_max, boxes):
        n_missing += box.size
        if len(gaps) < _MOST_SHOWN:
            gaps.append(box)
    pairs = overlaps(boxes)
    shown = tuple(islice(pairs, _MOST_SHOWN))
    inside = [
        Box(
            tuple(map(max, low, domain.inclusive_min)),
            tuple(map(max, map(max, low, domain.inclusive_min), map(min, high, domain.exclusive_max))),
        ).size
        for low, high in zip(boxes.lower.tolist(), boxes.upper.tolist(), strict=True)
    ]
    return StackReport(
        n_layers=len(boxes.lower),
        domain=domain,
        gaps=tuple(sorted(gaps)),
        n_missing=n_missing,
        overlaps=shown,
        n_overlaps=len(shown) + sum(1 for _ in pairs),
        n_hidden=sum(inside) - (int(domain.size) - n_missing),
    )
