"""Opened decoders: one closure for each kind of chain, chosen once.

A fast path skips work whose result is known; it is never a different algorithm:

1. leading transpositions are a view of the output;
2. raw bytes are copied straight from the encoded buffer, byte swap included;
3. a single last decompressor writes directly into an output with the layout of the encoded bytes; otherwise
   into scratch memory that the decoder keeps, which is then copied (byte swap included);
4. everything else is the general chain, one codec after the other.

`open_general_decoder` is the general chain alone; tests compare every fast path with it.
"""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from chunkwise.core.base.limits import SizeBound, chunk_bound, text_bound
from chunkwise.core.codec.bytes import Bytes, Layout
from chunkwise.core.codec.copying import copy_rows
from chunkwise.core.codec.protocol import (
    ArrayToArray,
    ArrayToBytes,
    BatchDecoder,
    Buffer,
    BytesToBytes,
    ChunkSpec,
    DecodeInto,
    byte_view,
    open_decoders,
    size_error,
)
from chunkwise.errors import DataCorruptionError

__all__ = [
    "Stages",
    "chunks_in_memory",
    "is_raw",
    "leading_axes",
    "open_batch_decoder",
    "open_decoder",
    "open_general_decoder",
    "open_raw_view",
]

_U1 = np.dtype(np.uint8)


class Stages(NamedTuple):
    """The bound codecs of a chain."""

    filters: tuple[ArrayToArray, ...]  # the codecs by kind, in the order of encoding
    serializer: ArrayToBytes
    compressors: tuple[BytesToBytes, ...]
    items: tuple[ChunkSpec, ...]  # the input of each filter, and last the input of the serializer
    # Output size of the serializer and of each compressor, in bytes; None if it depends on the content.
    sizes: tuple[int | None, ...]


def bound_of(stages: Stages) -> SizeBound | None:
    """Return the bound of an encoded chunk, and of what its compressors decode to; None without one."""
    most = stages.serializer.most_encoded(stages.items[-1])
    return chunk_bound(None if most is None else max(most, *(n or 0 for n in stages.sizes)))


def leading_axes(stages: Stages) -> tuple[tuple[int, ...] | None, int]:
    """Return the product of the leading transpositions (None for the identity) and their number."""
    axes = tuple(range(len(stages.items[0].shape)))
    identity, n = axes, 0
    for codec in stages.filters:
        from chunkwise.core.codec.reshape import Transpose

        if not isinstance(codec, Transpose):
            break
        axes = tuple(axes[i] for i in codec.axes())
        n += 1
    return (None if axes == identity else axes), n


def open_decoder(stages: Stages) -> DecodeInto:
    """Return the fastest decoder for `stages`."""
    axes, n = leading_axes(stages)
    serializer, item = stages.serializer, stages.items[-1]
    if type(serializer) is not Bytes or n < len(stages.filters) or stages.sizes[0] == 0:
        return open_general_decoder(stages)
    layout, nbytes = serializer.layout(item), serializer.encoded_nbytes(item)
    if not stages.compressors:
        return _raw(layout, item, nbytes, axes)
    outer = _open_decompressors(stages, 1)
    inner = stages.compressors[0]
    decode_into = inner.open_decoder_into(nbytes)
    if decode_into is not None:
        return _through(outer, _into(decode_into, layout, item, nbytes, axes))
    return _through([*outer, inner.open_decoder(nbytes)], _raw(layout, item, nbytes, axes))


def _open_decompressors(stages: Stages, first: int) -> list[Callable[[Buffer], Buffer]]:
    """Return decoders of the compressors from number `first` on, the last one first."""
    known = bound_of(stages) if None in stages.sizes[first : len(stages.compressors)] else None
    n_elements = prod(stages.items[-1].shape)
    return open_decoders(
        stages.compressors[first:],
        stages.sizes[first:],
        lambda nbytes: known or text_bound(nbytes, n_elements),
    )


def open_raw_view(stages: Stages) -> Callable[[Buffer], npt.NDArray[Any]] | None:
    """Return a function that returns a chunk as an array over its bytes; None if codecs prevent it."""
    # The bytes are the encoded ones, or a decompressor's output if that is new memory.  The array is valid as
    # long as they are; its elements may be in the other byte order.
    axes, n = leading_axes(stages)
    serializer, item = stages.serializer, stages.items[-1]
    if axes is not None or n < len(stages.filters) or type(serializer) is not Bytes:
        return None
    if stages.compressors and stages.compressors[0].open_decoder_into(stages.sizes[0] or 0) is not None:
        return None
    layout, nbytes = serializer.layout(item), serializer.encoded_nbytes(item)
    if layout.mask != 255 or layout.memory != item.dtype or nbytes == 0:
        return None
    shape, stored, ndarray = item.shape, layout.stored, np.ndarray

    def view(encoded: Buffer) -> npt.NDArray[Any]:
        if len(encoded) != nbytes:
            encoded = byte_view(encoded)
            if len(encoded) != nbytes:
                raise size_error("bytes", len(encoded), nbytes)
        return ndarray(shape, stored, encoded)

    decompress = _open_decompressors(stages, 0)
    if not decompress:
        return view

    def decompressed_view(encoded: Buffer) -> npt.NDArray[Any]:
        for step in decompress:
            encoded = step(encoded)
        return view(encoded)

    return decompressed_view


def open_batch_decoder(stages: Stages) -> BatchDecoder | None:
    """Return a decoder of several chunks to C-contiguous memory; None if each takes its own call."""
    axes, n = leading_axes(stages)
    serializer, item = stages.serializer, stages.items[-1]
    if axes is not None or n < len(stages.filters) or type(serializer) is not Bytes:
        return None
    layout, nbytes = serializer.layout(item), serializer.encoded_nbytes(item)
    if len(stages.compressors) != 1 or not layout.same or layout.mask != 255 or nbytes == 0:
        return None
    return stages.compressors[0].open_batch_decoder(nbytes)


def chunks_in_memory(stages: Stages) -> int:
    """Return the most memory for reading part of a chunk, in chunk sizes, including the stored value."""
    # A checksum, whose size is known, is cut off without a copy; any other codec makes new bytes.
    made = sum(not (c.always_checked and c.encoded_nbytes(1) is not None) for c in stages.compressors)
    others = len(stages.filters) - leading_axes(stages)[1]
    is_last = others == 0 and made > 0 and type(stages.serializer) is Bytes
    in_place = is_last or open_raw_view(stages) is not None
    return 1 + made + others + (not in_place)


def is_raw(stages: Stages) -> bool:
    """Return True if encoded chunks are just their elements as in memory, in C order."""
    axes, n = leading_axes(stages)
    serializer, item = stages.serializer, stages.items[-1]
    if stages.compressors or axes is not None or n < len(stages.filters) or type(serializer) is not Bytes:
        return False
    layout = serializer.layout(item)
    return layout.same and layout.mask == 255 and serializer.encoded_nbytes(item) > 0


def _through(decoders: list[Callable[[Buffer], Buffer]], last: DecodeInto) -> DecodeInto:
    """Return `last`, preceded by the given bytes to bytes decoders."""
    if not decoders:
        return last
    if len(decoders) == 1:
        only = decoders[0]
        return lambda encoded, out: last(only(encoded), out)

    def decode(encoded: Buffer, out: npt.NDArray[Any]) -> None:
        for step in decoders:
            encoded = step(encoded)
        last(encoded, out)

    return decode


def _raw(layout: Layout, item: ChunkSpec, nbytes: int, axes: tuple[int, ...] | None) -> DecodeInto:
    """Return a decoder that copies elements from the encoded bytes."""
    shape, stored, memory, tidy = item.shape, layout.stored, layout.memory, layout.mask != 255
    reinterpret = memory != item.dtype
    ndarray = np.ndarray

    def decode(encoded: Buffer, out: npt.NDArray[Any]) -> None:
        if len(encoded) != nbytes:
            encoded = byte_view(encoded)
            if len(encoded) != nbytes:
                raise size_error("bytes", len(encoded), nbytes)
        if axes is not None:
            out = out.transpose(axes)
        if tidy:
            raw = np.array(np.frombuffer(encoded, _U1))
            layout.tidy(raw, strict=True)
            encoded = raw.data
        copy_rows(out.view(memory) if reinterpret else out, ndarray(shape, stored, encoded))

    return decode


def _into(
    decode_into: Callable[[Buffer, memoryview], None],
    layout: Layout,
    item: ChunkSpec,
    nbytes: int,
    axes: tuple[int, ...] | None,
) -> DecodeInto:
    """Return a decoder whose decompressor fills the output, or scratch memory that is then copied."""
    memory, tidy = layout.memory, layout.mask != 255
    reinterpret = memory != item.dtype
    scratch: list[Any] = []

    def to_scratch(encoded: Buffer, out: npt.NDArray[Any]) -> None:
        if not scratch:
            raw = np.empty(nbytes, _U1)
            scratch.extend((raw, raw.data, np.ndarray(item.shape, layout.stored, raw)))
        raw, view, array = scratch
        decode_into(encoded, view)
        if tidy:
            layout.tidy(raw, strict=True)
        copy_rows(out.view(memory) if reinterpret else out, array)

    def decode(encoded: Buffer, out: npt.NDArray[Any]) -> None:
        if axes is not None:
            out = out.transpose(axes)
        if not out.flags.c_contiguous:
            return to_scratch(encoded, out)
        raw = out.reshape(-1).view(_U1)
        decode_into(encoded, raw.data)
        if tidy:
            layout.tidy(raw, strict=True)
        return None

    if layout.same:
        return decode
    if axes is None:
        return to_scratch
    return lambda encoded, out: to_scratch(encoded, out.transpose(axes))


def open_general_decoder(stages: Stages) -> DecodeInto:
    """Return a decoder that applies every codec in turn."""
    decompress = _open_decompressors(stages, 0)
    axes, n = leading_axes(stages)
    item = stages.items[-1]
    deserialize = stages.serializer.open_decoder(item)
    unfilter = [c.open_decoder(i) for c, i in zip(stages.filters[n:], stages.items[n:], strict=False)]
    unfilter.reverse()
    scratch: list[npt.NDArray[Any]] = []

    def decode(encoded: Buffer, out: npt.NDArray[Any]) -> None:
        for step in decompress:
            encoded = step(encoded)
        if axes is not None:
            out = out.transpose(axes)
        if not unfilter:
            return deserialize(encoded, out)
        if not scratch:
            scratch.append(np.empty(item.shape, item.dtype))
        array = scratch[0]
        deserialize(encoded, array)
        encoded = b""  # filters make new arrays, so the decompressed bytes can be freed
        for undo in unfilter:
            array = undo(array)
        if array.shape != out.shape:
            raise DataCorruptionError(
                f"filters decode a chunk to shape {list(array.shape)}, but expected {list(out.shape)}"
            )
        np.copyto(out, array)
        return None

    return decode
