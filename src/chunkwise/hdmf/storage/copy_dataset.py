"""Copying a dataset from one store to another, whatever their formats."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from typing import Any

import numpy.typing as npt

from chunkwise.errors import ChunkwiseError
from chunkwise.extension.trees import tree_format
from chunkwise.hdmf.conventions.base import NewDataset
from chunkwise.hdmf.model.codecs import Settings, codec_document
from chunkwise.hdmf.model.element import Element
from chunkwise.hdmf.model.logical import map_objects
from chunkwise.hdmf.model.reference import Reference
from chunkwise.hdmf.model.tree import Format
from chunkwise.hdmf.storage.dataset_copies import DatasetCopies
from chunkwise.hdmf.storage.node_writer import NodeWriter
from chunkwise.hdmf.storage.store import Dataset
from chunkwise.hdmf.storage.stored_form import stored_codecs
from chunkwise.hdmf.storage.stream import ArrayStream, RowPieces, StreamOptions

__all__ = ["copy_dataset", "stored_settings"]


def stored_settings(source: Dataset, format: Format) -> Settings:
    """Return the storage settings of a dataset, as far as `format` has the same."""
    if not source.is_array or source.scalar:
        return Settings()
    plain = source.element.is_plain
    chunks = source.physical.inner_chunk_shape if plain else None
    filters, compressors = stored_codecs(source)
    return Settings(
        chunks=chunks,
        shards=source.physical.chunk_shape
        if plain and source.physical.stored.shard and tree_format(format).has_shards
        else None,
        compressor=_translated([*filters, *compressors], format),
        fill_value=source.physical.stored.fill_value[()]
        if source.element.kind == "number"
        and tree_format(format).has_fill_value
        and source.physical.dtype == source.element.dtype
        else None,
    )


def _translated(listed: list[Any], format: Format) -> Any:
    if not listed:
        return None
    if not tree_format(format).codecs.has_filters:
        listed = listed[-1:]
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return [codec_document(codec, format) for codec in listed]
    except ChunkwiseError:
        return True


def copy_dataset(
    source: Dataset,
    writer: NodeWriter,
    path: str,
    settings: Settings,
    attributes: dict[str, Any],
    convert: Callable[[Reference], Reference],
    options: StreamOptions,
    copies: DatasetCopies | None,
) -> None:
    """Make a copy of a dataset; a large one is left to `copies`, if there are any."""
    element = source.element
    if (
        source.scalar
        or not writer.store.convention.can_stream(element)
        or 0 in source.shape
        or source.nbytes <= 1 << 16
    ):
        values = source.read()
        if element.has_references:
            values = _converted(values, element, convert)
        writer.dataset(path, element, values, settings, attributes, scalar=source.scalar)
        return
    array = writer.create(NewDataset(path, element, source.shape, settings, attributes))
    at = source.store.location.child(source.path[1:])
    if copies is not None and copies.take(array, element, at, source.store.format):
        return
    nbytes = max(1, options.buffer_nbytes // 4)
    height = stored = (source.physical.chunk_shape or (1,))[0]
    common = math.lcm((array.chunk_shape or (1,))[0], stored)
    if common * (source.nbytes // source.shape[0]) <= nbytes:
        height = common
    pieces = RowPieces(source.read, source.shape, element.memory_dtype.itemsize, height, nbytes)
    ArrayStream(array, element, writer.store.convention, pieces, options).run()


def _converted(
    values: npt.NDArray[Any], element: Element, convert: Callable[[Reference], Reference]
) -> npt.NDArray[Any]:
    if element.kind == "compound":
        out = values.copy()
        for m in element.members:
            if m.element.has_references:
                out[m.name] = _converted(values[m.name], m.element, convert)
        return out
    return map_objects(values, lambda value: convert(value) if isinstance(value, Reference) else value)
