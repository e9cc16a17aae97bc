"""Arrays as the chunks of another format, in data types that it has; read and encoded as they are wanted."""

from __future__ import annotations

from collections.abc import Collection
from math import prod
from typing import Any

import numpy as np

from chunkwise import Schema, TensorStore, cast
from chunkwise.copying.array_template import ArrayTemplate
from chunkwise.copying.codec_option import Compressor
from chunkwise.copying.new_array import target_spec
from chunkwise.core.engine.chunk_codec import open_fill_test
from chunkwise.errors import UnsupportedError
from chunkwise.extension import Members
from chunkwise.extension.formats import Format
from chunkwise.extension.inside import StoredArray
from chunkwise.extension.n5 import ITEM_NBYTES
from chunkwise.images.server.answer import Computed

__all__ = ["EncodedArray", "for_browsers", "for_n5", "served_chunk_shape", "template_for"]

_MOST_NBYTES = 1 << 24  # of a chunk as it is sent
_LARGEST_READ = 1 << 18  # elements of a chunk of an array that has none
_OBJECT_NBYTES = 64  # of an element of variable length, about
_BROWSER_TYPES = ("uint8", "int8", "uint16", "int16", "uint32", "int32", "uint64", "float32")
_WIDER = {"bool": "uint8", "uint2": "uint8", "uint4": "uint8", "int2": "int8", "int4": "int8"}


class EncodedArray:
    """The keys and values of an array as another format has them.

    Parameters
    ----------
    view : TensorStore
        Of origin 0.
    template : ArrayTemplate
        Its properties in the other format.
    """

    def __init__(self, view: TensorStore, template: ArrayTemplate, name: str, format: Format) -> None:
        target = target_spec(template, name, ("codec", "chunks", "fill_value", "dtype"))
        options = format.parse_options(Members({}))
        constraints = format.parse_constraints(target.spec["metadata"])
        metadata = format.create(constraints, options, Schema())
        self.view = view
        self.document = format.encode(metadata)
        self.array: StoredArray = format.stored_array(metadata, "", options)
        self._is_fill = open_fill_test(self.array.fill_value)

    def content(self, key: str) -> Computed | None:
        """Return the content of the chunk `key`, to be computed; None if there is no such key."""
        array = self.array
        rank = array.grid.rank
        cell = array.keys.cell(key, rank)
        if cell is None:
            return None
        bounds = [array.grid.bounds(dim, n) for dim, n in enumerate(cell)]
        if any(start >= size for (start, _), size in zip(bounds, array.shape, strict=True)):
            return None
        shape = [stop - start for start, stop in bounds]
        nbytes = prod(shape) * _itemsize(array.fill_value.dtype)
        return Computed(lambda: self._encode(bounds, shape), 3 * nbytes)

    def _encode(self, bounds: list[tuple[int, int]], shape: list[int]) -> bytes | None:
        array = self.array
        part = tuple(slice(lo, min(hi, n)) for (lo, hi), n in zip(bounds, array.shape, strict=True))
        values = self.view[part].read().result() if part else self.view.read().result()
        if values.dtype != array.fill_value.dtype:
            values = values.astype(array.fill_value.dtype)
        if self._is_fill(values):
            return None
        if values.shape != tuple(shape):
            padded = np.full(shape, array.fill_value, array.fill_value.dtype)
            padded[tuple(slice(0, n) for n in values.shape)] = values
            values = padded
        return bytes(array.chain.open_encoder()(values))


def for_browsers(view: TensorStore) -> TensorStore:
    """Return the array in a data type that neuroglancer has; raise UnsupportedError if there is none.

    Floats become ``float32``, and ``int64`` becomes ``uint64``, where negative numbers are the
    largest.
    """
    return _converted(view, _BROWSER_TYPES, "neuroglancer", {**_WIDER, "int64": "uint64"})


def for_n5(view: TensorStore) -> TensorStore:
    """Return the array in a data type that N5 has; raise UnsupportedError if there is none."""
    return _converted(view, (*ITEM_NBYTES, "ustring"), "N5", _WIDER)


def _converted(view: TensorStore, known: Collection[str], who: str, stand_ins: dict[str, str]) -> TensorStore:
    name = view.dtype.name
    if name in known:
        return view
    target = "float32" if name.startswith(("float", "bfloat")) else stand_ins.get(name)
    if target is None:
        fields = view.dtype.memory_dtype.names
        hint = f": serve a field, .fields/{fields[0]}" if fields else ""
        raise UnsupportedError(f'{who} has no data type for elements of type "{name}"{hint}')
    return cast(view, target)


def served_chunk_shape(view: TensorStore, most: int = _MOST_NBYTES) -> tuple[int, ...]:
    """Return the shape of chunks: those that are read as one, halved until they have at most `most` bytes."""
    itemsize = _itemsize(view.dtype.memory_dtype)
    stored = view.chunks
    if stored is not None and all(stored):
        chunk = [min(c, max(n, 1)) for c, n in zip(stored, view.shape, strict=True)]
        limit = most
    else:
        chunk = [max(n, 1) for n in view.shape]
        limit = min(most, _LARGEST_READ * itemsize)
    while prod(chunk) * itemsize > limit and max(chunk) > 1:
        longest = chunk.index(max(chunk))
        chunk[longest] = -(-chunk[longest] // 2)
    return tuple(chunk)


def template_for(
    view: TensorStore, attributes: Any, codec: Compressor, chunks: tuple[int, ...] | None = None
) -> ArrayTemplate:
    """Return the properties of a served array, in the words that all formats share."""
    return ArrayTemplate(
        shape=view.shape,
        dtype=view.dtype,
        chunks=chunks or served_chunk_shape(view),
        codec=codec,
        fill_value=view.fill_value,
        names=tuple(label or None for label in view.domain.labels),
        units=view.dimension_units,
        attributes=attributes,
    )


def _itemsize(dtype: np.dtype[Any]) -> int:
    return _OBJECT_NBYTES if dtype.hasobject else dtype.itemsize
