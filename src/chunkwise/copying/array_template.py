"""``ArrayTemplate``: the properties of an array, in the words that all formats share."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from chunkwise.copying.codec_option import compressor_from_json
from chunkwise.core.api.tensorstore import TensorStore
from chunkwise.core.base.binding import JSON
from chunkwise.core.codec.chain import parse_codec
from chunkwise.core.codec.protocol import BytesToBytes
from chunkwise.core.driver.tree_formats import tree_format
from chunkwise.core.driver.zarr3.tree import inner_chain
from chunkwise.core.dtypes.data_type import DataType
from chunkwise.core.specs.unit import Unit
from chunkwise.core.trees.missing_marker import FILL_VALUE, marker_from_json, marker_to_json
from chunkwise.core.trees.node import Node
from chunkwise.errors import InvalidArgumentError

__all__ = [
    "FINGERPRINT",
    "NAMES",
    "UNITS",
    "ArrayTemplate",
    "compressor_of",
    "inner_chain",
    "marker_as",
    "marker_attribute",
    "regular_grid",
    "sharded",
    "take_marker",
    "template_of",
]

# -- missing values -----------------------------------------------------------------------------------

# xarray treats the fill value of Zarr v2 as this mark.  So an array without a mark gets a null fill value
# there: with a fill value of zero, every zero would be missing.

# Attributes that make an array of Zarr v2 a variable of a dataset, in which the fill value is a marker.
_OF_DATASETS = ("_ARRAY_DIMENSIONS", "_nczarr_array", "_NCZARR_ARRAY", "_nczarr_attrs", FILL_VALUE)


def take_marker(
    format: str | None,
    document: Mapping[str, JSON],
    fill_value: npt.NDArray[Any] | None,
    dtype: DataType,
    attributes: dict[str, JSON],
) -> npt.NDArray[Any] | None:
    """Return the mark of missing values, or None, and take it out of the attributes."""
    element = dtype.memory_dtype
    if element.hasobject or element.names or element.kind not in "iufcbSU":
        return None
    own = document.get("fill_value") if tree_format(format).fill_value_can_be_null else None
    if own is not None and fill_value is not None:
        if not any(name in attributes or name in document for name in _OF_DATASETS):
            return None
        attributes.pop(FILL_VALUE, None)
        return fill_value
    if FILL_VALUE not in attributes:
        return None
    try:
        value = np.asarray(marker_from_json(attributes[FILL_VALUE], element))
        marker = _exactly(value, element)
    except (InvalidArgumentError, TypeError, ValueError, OverflowError):
        return None
    if marker is not None:
        del attributes[FILL_VALUE]
    return marker


def marker_as(marker: npt.NDArray[Any] | None, dtype: DataType, notes: list[str]) -> npt.NDArray[Any] | None:
    """Return a marker in the type of the copy; None, with a note, if the type can't hold it."""
    if marker is None:
        return None
    found = _exactly(marker, dtype.memory_dtype)
    if found is None:
        notes.append(f'attribute "{FILL_VALUE}" is left out: {marker.item()!r} is no {dtype.name}')
    return found


def marker_attribute(marker: npt.NDArray[Any] | None, format: str) -> dict[str, JSON]:
    """Return the attribute that holds a marker in a format, if there is one."""
    return {} if marker is None else {FILL_VALUE: marker_to_json(marker, marker.dtype, format)}


def _exactly(value: npt.NDArray[Any], dtype: np.dtype[Any]) -> npt.NDArray[Any] | None:
    if value.dtype == dtype:
        return value
    if dtype.hasobject or dtype.names:
        return None
    with np.errstate(all="ignore"):
        out = value.astype(dtype)
        return out if bool(out == value) or bool((value != value) & (out != out)) else None


# -- templates ----------------------------------------------------------------------------------------

NAMES = "_ARRAY_DIMENSIONS"
"""Attribute in which xarray keeps the dimension names of a Zarr v2 array."""

FINGERPRINT = "chunkwise_fingerprint"
"""Attribute with the fingerprint of the elements, which a copy doesn't take over."""

UNITS = "dimension_units"
"""Attribute in which TensorStore keeps the units of a Zarr v3 array."""


@dataclass(frozen=True)
class ArrayTemplate:
    """Properties of an existing or a new array."""

    shape: tuple[int, ...]
    dtype: DataType
    chunks: tuple[int, ...] | None = None  # inner ones where there are shards; None for the format's default
    shards: tuple[int, ...] | None = None
    codec: Any = None  # a Compressor, or JSON in the words of the target's format; None for its default
    checksum: bool = False  # of each chunk
    fill_value: npt.NDArray[Any] | None = None  # of shape (); None for zero
    marker: npt.NDArray[Any] | None = None  # of shape (): the mark of missing values; None without one
    names: tuple[str | None, ...] = ()
    lists_names: bool = False  # whether a scalar is said to have no names, without which xarray can't read it
    units: tuple[Unit | None, ...] = ()
    attributes: Mapping[str, JSON] = field(default_factory=dict)
    format: str | None = None  # of the array that this was read off; None if `is_foreign`
    is_foreign: bool = False  # whether that is in a file of another format, read by reference
    document: Mapping[str, JSON] = field(default_factory=dict)  # its metadata

    def subset(self, shape: Sequence[int], dims: Sequence[int], steps: Sequence[int]) -> ArrayTemplate:
        """Return the template of a part: its `shape`, the dimensions that are left, and their steps."""
        units = tuple(self.units[d] for d in dims) if self.units else ()
        chunks, shards = (
            None if sizes is None else tuple(sizes[d] for d in dims) for sizes in (self.chunks, self.shards)
        )
        part = replace(
            self,
            shape=tuple(shape),
            chunks=chunks,
            shards=shards,
            names=tuple(self.names[d] for d in dims) if self.names else (),
            units=tuple(
                None if unit is None else unit * abs(n) for unit, n in zip(units, steps, strict=bool(units))
            ),
        )
        return replace(part, document=_part_document(part, len(self.shape)))

    def arranged(self, dims: Sequence[int], n_new: int) -> ArrayTemplate:
        """Return the template with the dimensions in another order and `n_new` of size 1 behind them."""

        def order(values: Any, new: Any) -> Any:
            return tuple(values[dim] for dim in dims) + (new,) * n_new if values else values

        return replace(
            self,
            shape=tuple(self.shape[dim] for dim in dims) + (1,) * n_new,
            chunks=order(self.chunks, 1),
            shards=order(self.shards, 1),
            names=order(self.names, None),
            units=order(self.units, None),
            document={},  # which is of the order that was
        )

    def replaced(self, options: Mapping[str, Any]) -> ArrayTemplate:
        """Return the template with some fields replaced."""
        return replace(self, **options)

    def document_for(self, given: Sequence[str]) -> Mapping[str, JSON]:
        """Return the document, which is of Zarr v3, with codecs for the elements if their type was given."""
        if "dtype" not in given or not self.document:
            return self.document
        return {**self.document, "codecs": _of_elements(self.document["codecs"], self.dtype)}


def template_of(store: TensorStore, node: Node, attributes: Mapping[str, JSON]) -> ArrayTemplate:
    """Return the template of an open array, given its node and attributes."""
    layout = store.chunk_layout
    chunks, shards = _known(layout.read_chunk.shape), _known(layout.write_chunk.shape)
    names: tuple[str | None, ...] = tuple(label or None for label in store.domain.labels)
    units = store.dimension_units
    kept = {name: value for name, value in attributes.items() if name != FINGERPRINT}
    marker = take_marker(node.format, node.document, store.fill_value, store.dtype, kept)
    rules, rank = node.rules, store.rank
    lists_names = rules.has_null_names  # where a scalar has no place for them
    if lists_names and isinstance(node.document.get(rules.names_member), list):
        names = tuple(node.document[rules.names_member])
    if not rules.names_member:
        if (found := _dimension_names(kept.get(NAMES), rank)) is not None:
            names, lists_names = found, True
            del kept[NAMES]
        if (found_units := _dimension_units(kept.get(UNITS), rank)) is not None:
            units = found_units
            del kept[UNITS]
    for name in rules.dimension_attributes:
        if any(names if name == rules.names_member else units):
            kept.pop(name, None)
    for name in rules.own_members("array"):
        kept.pop(name, None)
    document, codec = ({}, None) if node.own_format is None else (node.document, compressor_of(node))
    may_be_filter = rules.codecs.has_filters and not rules.codecs.is_chain
    if may_be_filter and document.get("compressor") is None and document.get("filters"):
        document, codec = _without_byte_filters(document, codec)
    return ArrayTemplate(
        shape=store.shape,
        dtype=store.dtype,
        chunks=chunks,
        shards=None if shards == chunks else shards,
        codec=codec,
        fill_value=store.fill_value,
        marker=marker,
        names=names,
        lists_names=lists_names,
        units=units,
        attributes=kept,
        format=node.own_format,
        is_foreign=node.own_format is None,
        document=document,
    )


def _without_byte_filters(document: Mapping[str, JSON], codec: object) -> tuple[Mapping[str, JSON], JSON]:
    """Return a document of Zarr v2 without filters of bytes, and the compressor that was among them."""
    # HDF5 files, and references to them, have their own pipeline of filters.
    kept: list[Any] = []
    out = {name: value for name, value in document.items() if name != "compressor"}
    found_any = False
    for entry in document["filters"]:
        try:
            is_of_bytes = isinstance(parse_codec(entry, "zarr2"), BytesToBytes)
        except InvalidArgumentError:
            is_of_bytes = True
        if not is_of_bytes:
            kept.append(entry)
            continue
        if entry.get("id", "") not in _NO_COMPRESSORS:
            codec, found_any = compressor_from_json(entry, "zarr2"), True
            if codec is not None:
                out["compressor"] = entry
    return ({**out, "filters": kept or None}, codec) if found_any else (document, codec)


_NO_COMPRESSORS = ("shuffle", "fletcher32", "crc32", "crc32c", "adler32", "jenkins_lookup3")


def _part_document(part: ArrayTemplate, rank: int) -> Mapping[str, JSON]:
    """Return the metadata of an array of `rank` dimensions that is also valid for a part of it."""
    document, outer = part.document, part.shards or part.chunks
    if not tree_format(part.format).has_shards:
        return document
    if outer is None:  # for chunks whose sizes differ
        return {}
    codecs = document["codecs"]
    if len(part.shape) != rank:
        codecs, shard = inner_chain(codecs)
        codecs = [e for e in codecs if isinstance(e, str) or e.get("name") not in ("transpose", "reshape")]
        if part.shards is not None:
            codecs = sharded(shard, part.chunks or (), codecs)
    return {**document, "chunk_grid": regular_grid(outer), "codecs": codecs}


def regular_grid(chunks: Sequence[int]) -> dict[str, JSON]:
    """Return the ``chunk_grid`` of Zarr v3 for chunks of one shape."""
    return {"name": "regular", "configuration": {"chunk_shape": list(chunks)}}


def sharded(options: Mapping[str, Any], chunks: Sequence[int], codecs: list[JSON]) -> list[dict[str, JSON]]:
    """Return the chain of shards with `options` around inner chunks of a shape and a chain."""
    configuration = {**options, "chunk_shape": list(chunks), "codecs": codecs}
    return [{"name": "sharding_indexed", "configuration": configuration}]


def _of_elements(codecs: Any, dtype: DataType) -> list[JSON]:
    """Return a chain without the codec that makes bytes of elements of another kind; the default is added."""
    from chunkwise.core.driver.zarr3.metadata import ARRAY_TO_BYTES, array_to_bytes_name  # with all metadata

    other = {"bytes", *ARRAY_TO_BYTES.values()} - {array_to_bytes_name(dtype)}
    kept: list[JSON] = []
    for entry in codecs:
        name = entry if isinstance(entry, str) else entry["name"]
        if name == "sharding_indexed":
            options = entry["configuration"]
            inner = _of_elements(options["codecs"], dtype)
            entry = {**entry, "configuration": {**options, "codecs": inner}}
        if name not in other:
            kept.append(entry)
    return kept


def compressor_of(node: Node) -> Any:
    """Return the compressor as a Compressor, or as the format's own JSON if that says more."""
    value = node.rules.compression(node.document)
    return compressor_from_json(value, str(node.format)) or value


def _known(shape: Any) -> tuple[int, ...] | None:
    return None if shape is None or not all(shape) else tuple(shape)


def _dimension_names(value: object, rank: int) -> tuple[str | None, ...] | None:
    if isinstance(value, list) and len(value) == rank and all(v is None or isinstance(v, str) for v in value):
        return tuple(value)
    return None


def _dimension_units(value: object, rank: int) -> tuple[Unit | None, ...] | None:
    texts = _dimension_names(value, rank)
    try:
        return None if texts is None else tuple(None if text is None else Unit(text) for text in texts)
    except ValueError:
        return None
