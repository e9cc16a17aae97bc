"""Codec chains of Zarr v2, from filters, compressor, order and byte order.

Specification
-------------
https://zarr-specs.readthedocs.io/en/latest/v2/v2.0.html , "Chunks", "Filters" and "Compressor":
configurations of NumCodecs with an ``id``; ``order`` and the byte order of ``dtype`` decide the rest.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

import numpy as np

from chunkwise.core.base.binding import JSON
from chunkwise.core.codec.bytes import Bytes, has_byte_order
from chunkwise.core.codec.chain import parse_codec, prepare_chain
from chunkwise.core.codec.protocol import ArrayToArray, ArrayToBytes, BytesToBytes, ChunkSpec, Codec
from chunkwise.core.codec.reshape import Transpose
from chunkwise.errors import UnknownExtensionError, prefixed

__all__ = ["parse_zarr2", "parse_zarr2_codecs", "parse_zarr2_step"]


def parse_zarr2_codecs(
    compressor: Mapping[str, JSON] | None,
    filters: Sequence[Mapping[str, JSON]] | None,
    stored_dtype: np.dtype[Any],
    order: Literal["C", "F"],
    item: ChunkSpec,
) -> tuple[Codec, ...]:
    """Return the codecs of `parse_zarr2`, bound to chunks described by `item`."""
    return prepare_chain(parse_zarr2(compressor, filters, stored_dtype, order), item).codecs


def parse_zarr2(
    compressor: Mapping[str, JSON] | None,
    filters: Sequence[Mapping[str, JSON]] | None,
    dtype: np.dtype[Any],
    order: Literal["C", "F"],
) -> list[Codec]:
    """Return the storage of a chunk in Zarr v2 as a list of codecs."""
    # Source: Zarr v2, "Chunks": a chunk is laid out in `order`, each filter encodes the result of the one
    # before, and the compressor comes last.  The ``bytes`` codec precedes a filter that works on bytes, in
    # the array's byte order at that point.
    codecs: list[Codec] = [] if order == "C" else [Transpose("F")]
    stored, serialized = dtype, False
    steps: list[tuple[str, JSON]] = [(f"filters/{i}", f) for i, f in enumerate(filters or ())]
    if compressor is not None:
        steps.append(("compressor", compressor))
    for n, (where, step) in enumerate(steps, 1):
        with prefixed(f'Error parsing object member "{where}"'):
            codec = parse_zarr2_step(step, is_last=n == len(steps), serialized=serialized, stored=stored)
        if isinstance(codec, BytesToBytes) and not serialized:
            codecs.append(_bytes_of(stored))
            serialized = True
        elif isinstance(codec, ArrayToBytes):
            serialized = True
            if codec.keeps_logical_order:
                codecs = [c for c in codecs if not isinstance(c, Transpose)]
        elif isinstance(codec, ArrayToArray):
            stored = codec.next_stored(stored)
        codecs.append(codec)
    if not serialized:
        codecs.append(_bytes_of(stored))
    return codecs


def parse_zarr2_step(
    value: JSON, *, is_last: bool, serialized: bool, stored: np.dtype[Any] | None = None
) -> Codec:
    """Return the codec of a filter or compressor; `serialized` if an earlier codec returned bytes."""
    # The last codec may turn an array into bytes itself, such as the codecs of pictures and of GRIB.
    try:
        return parse_codec(value, "zarr2")
    except UnknownExtensionError as unknown:
        # NumCodecs has its own registry, for example of image codecs.
        from chunkwise.core.codec.numcodecs_generic import find_numcodecs

        found = find_numcodecs(value, is_last=is_last, serialized=serialized, stored=stored)
        if found is None:
            raise unknown
        return found


def _bytes_of(stored: np.dtype[Any]) -> Bytes:
    """Return the ``bytes`` codec for elements that are stored exactly as `stored`."""
    if stored.fields is not None or stored.subdtype is not None:
        return Bytes(stored=stored)
    if not has_byte_order(stored):
        return Bytes()
    return Bytes("big" if stored.newbyteorder(">") == stored else "little")
