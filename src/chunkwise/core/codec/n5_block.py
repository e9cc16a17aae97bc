"""N5 blocks: a header, then the elements, big-endian, first dimension fastest, compressed.

``n5_default`` has such blocks as chunks of a Zarr v3 array.  A directory can then have both
``attributes.json`` and ``zarr.json``, for the same blocks.

Specification
-------------
N5 README, "File-system specification", item 9; zarr-extensions, ``codecs/n5_default``.

Names
-----
zarr3: ``n5_default``.  N5 itself has no name: the driver makes the codec from ``blockSize``, ``dataType`` and
``compression``.

Configuration
-------------
>>> N5Block.parse("n5", "n5_block", {"compression": {"type": "raw"}}).to_json("n5")
{'compression': {'type': 'raw'}}
>>> codecs = [{"name": "transpose", "configuration": {"order": [1, 0]}},
...           {"name": "bytes", "configuration": {"endian": "big"}}]
>>> N5Default.parse("zarr3", "n5_default", {"codecs": codecs}).to_json("zarr3") == {"codecs": codecs}
True

In ``n5_default``, ``transpose`` must reverse all dimensions (it may be left out below rank 2), ``bytes`` must
be big-endian (``endian`` may be left out for one-byte types), and at most one compressor may follow.

Compatibility
-------------
* The header, not ``blockSize``, tells the shape of a block.  The block is placed at the origin of its grid
  cell; the rest of the cell is 0, elements outside the cell are dropped.  So cropped end blocks (n5-java,
  z5py), padded ones (TensorStore, zarr-python 2) and oversized ones can all be read.
* Mode 1 is read if its element count equals the block's, as in n5-java; only
  `chunkwise.core.codec.n5_varlength` reads other counts.
* Blocks are written in full size, padded, as TensorStore does.
* Memory: raw blocks are read in place.  The decoder of a compressed block may allocate the size in the header
  if the grid cell is as large; an oversized block may have up to 4 times the bytes of its cell, or 64 KiB if
  that is more.
* With ``n5_default``, blocks are read in mode 0 only.  Cropped blocks are padded with the fill value of the
  array, which in N5 itself is 0.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np

from chunkwise.core.base.binding import JSON, Members
from chunkwise.core.codec.bytes import Bytes
from chunkwise.core.codec.chain import codecs_to_json, parse_codecs
from chunkwise.core.codec.copying import copy_tiled
from chunkwise.core.codec.n5_parts import (
    DEFAULT,
    OBJECT,
    VARLENGTH,
    CompressedBlock,
    N5Header,
    check_payload_size,
    open_compress,
    open_decompress,
    open_decompress_into,
    parse_header,
    write_header,
)
from chunkwise.core.codec.protocol import (
    Buffer,
    BytesToBytes,
    ChunkSpec,
    Codec,
    DecodeInto,
    Encode,
    byte_view,
)
from chunkwise.core.codec.reshape import Transpose
from chunkwise.errors import CodecError, DataCorruptionError, SpecError, braced

__all__ = ["N5Block", "N5Default"]

_OVERSIZE = 4
_OVERSIZE_NBYTES = 1 << 16
_MAX_LAYOUTS = 256

_Decode = Callable[[memoryview, np.ndarray], None]


@dataclass(frozen=True, slots=True)
class N5Block(CompressedBlock):
    """Array to bytes: N5 blocks of numbers."""

    varlength: bool = True  # True if blocks of mode 1 are read too, given a matching number of elements

    name: ClassVar[str] = "n5_block"

    def bind(self, item: ChunkSpec) -> Self:
        """Bind the compressors; raise for element types without a fixed big-endian form."""
        if item.dtype.kind not in "biufcmM":
            raise CodecError(f"N5 blocks of data type {item.dtype} can't be read or written as an array")
        return self.bind_compression(item)

    def most_encoded(self, item: ChunkSpec) -> int | None:
        """Return the size of the largest block that is read."""
        return _most(item)

    def open_decoder(self, item: ChunkSpec) -> DecodeInto:
        """Return a decoder, which remembers the layout for each header."""
        header_nbytes = 4 + 4 * len(item.shape)
        layouts: dict[bytes, _Decode] = {}

        def decode(buffer: Buffer, out: np.ndarray) -> None:
            view = byte_view(buffer)
            head = bytes(view[:header_nbytes])
            layout = layouts.get(head)
            if layout is None:
                header = _check_header(view, item, limited=bool(self.compression))
                if header.mode == VARLENGTH and not self.varlength:
                    raise DataCorruptionError(f"Unexpected N5 chunk mode: {VARLENGTH}")
                layout = self._open_layout(header, item)
                if len(layouts) < _MAX_LAYOUTS:
                    layouts[head] = layout
            layout(view, out)

        return decode

    def _open_layout(self, header: N5Header, item: ChunkSpec) -> _Decode:
        """Return a decoder for blocks of this mode and these dimensions."""
        dims, start = header.dims, header.nbytes
        dtype = item.dtype.newbyteorder(">")
        n_elements = N5Header(DEFAULT, dims, None, 0).n_elements
        nbytes = n_elements * dtype.itemsize
        inside = tuple(slice(0, min(n, size)) for n, size in zip(dims, item.shape, strict=True))
        whole = dims == item.shape
        partial = any(n < size for n, size in zip(dims, item.shape, strict=True))
        varlength = header.mode == VARLENGTH

        if self.compression:
            decompress = open_decompress(self.compression, nbytes)
            into = open_decompress_into(self.compression, nbytes) if whole else None
        else:
            decompress, into = (lambda payload: payload), None
        scratch = np.empty(nbytes if into is not None else 0, "u1")
        in_place = dtype.itemsize == 1

        def decode(view: memoryview, out: np.ndarray) -> None:
            if varlength:
                _check_count(parse_header(view), n_elements)
            payload = view[start:]
            if into is not None:
                if in_place and out.flags.f_contiguous:
                    into(payload, out.reshape(-1, order="F").view("u1").data)
                    return
                into(payload, scratch.data)
                data: Buffer | np.ndarray = scratch
            else:
                data = decompress(payload)
                if len(data) != nbytes:
                    check_payload_size(len(data), nbytes)
            block = np.frombuffer(data, dtype, n_elements).reshape(dims[::-1]).T
            if whole:
                copy_tiled(out, block)
                return
            if partial:
                out[...] = item.fill_value
            out[inside] = block[inside]

        return decode

    def open_encoder(self, item: ChunkSpec) -> Encode:
        """Return an encoder for whole blocks; each result is new memory."""
        header = write_header(DEFAULT, item.shape)
        dtype = item.dtype.newbyteorder(">")
        shape = item.shape[::-1]
        if not self.compression:
            # The payload starts at a multiple of 8 bytes, so that it is aligned for every element type.
            gap = -len(header) % 8
            start = gap + len(header)
            size = start + item.nbytes

            def encode_raw(array: np.ndarray) -> Buffer:
                block = np.empty(size, "u1")
                block[gap:start] = np.frombuffer(header, "u1")
                copy_tiled(block[start:].view(dtype).reshape(shape), array.T)
                return block[gap:].data

            return encode_raw

        compress = open_compress(self.compression)
        payload = np.empty(item.nbytes, "u1")
        elements = payload.view(dtype).reshape(shape)

        def encode(array: np.ndarray) -> Buffer:
            copy_tiled(elements, array.T)
            return b"".join((header, compress(payload.data)))

        return encode


def _check_header(view: memoryview, item: ChunkSpec, *, limited: bool) -> N5Header:
    """Read the header of a block of `item`; nothing has been allocated for its payload yet."""
    # With `limited`, memory must be allocated for the block, so it must not be much larger than its cell.
    rank = len(item.shape)
    header_nbytes = 4 + 4 * rank
    if bytes(view[:2]) == b"\0\2":
        raise DataCorruptionError(f"Unexpected N5 chunk mode: {OBJECT}")
    if len(view) < header_nbytes:
        raise DataCorruptionError(
            f"Expected header of length {header_nbytes}, but chunk has size {len(view)}"
        )
    header = parse_header(view)
    if len(header.dims) != rank:
        raise DataCorruptionError(f"Received chunk with {len(header.dims)} dimensions but expected {rank}")
    n_elements = N5Header(DEFAULT, header.dims, None, 0).n_elements
    _check_count(header, n_elements)
    nbytes = n_elements * item.dtype.itemsize
    if limited and nbytes > _most(item):
        raise DataCorruptionError(
            f"Received chunk of size {braced(header.dims)} which exceeds blockSize of {braced(item.shape)} "
            f"by too much to be read: {nbytes} bytes instead of {item.nbytes}"
        )
    return header


def _most(item: ChunkSpec) -> int:
    return max(item.nbytes * _OVERSIZE, _OVERSIZE_NBYTES)


def _check_count(header: N5Header, n_elements: int) -> None:
    if header.mode == VARLENGTH and header.element_count != n_elements:
        raise DataCorruptionError(
            f"varlength chunks not supported: "
            f"block of size {braced(header.dims)} has {header.element_count} elements"
        )


def _parse_inner(value: JSON) -> tuple[Codec, ...]:
    """Read the inner codecs and check what can be checked without knowing the array."""
    codecs = parse_codecs(value)
    rest = codecs[1:] if codecs and isinstance(codecs[0], Transpose) else codecs
    if not rest or not isinstance(rest[0], Bytes):
        raise SpecError(
            'n5_default requires the inner codecs "transpose", "bytes" and at most one compressor'
        )
    if rest[0].endian not in (None, "big"):
        raise SpecError('n5_default requires the inner codec "bytes" to have "endian" of "big"')
    if len(rest) > 2 or any(codec.kind != "bytes->bytes" for codec in rest[1:]):
        raise SpecError('n5_default allows at most one compressor after the inner codec "bytes"')
    return tuple(codecs)


@dataclass(frozen=True, slots=True)
class N5Default(N5Block):
    """An N5 block as a Zarr v3 array->bytes codec."""

    varlength: bool = False
    codecs: tuple[Codec, ...] = ()  # ``transpose``, ``bytes`` and perhaps one compressor

    name: ClassVar[str] = "n5_default"

    @classmethod
    def parse(cls, format: str, name: str, configuration: Mapping[str, Any]) -> Self:
        """Read the member ``codecs``."""
        members = Members(configuration)
        codecs = members.take("codecs", _parse_inner)
        members.finish()
        return cls._of(codecs)

    def to_json(self, format: str) -> dict[str, Any]:
        """Return the member ``codecs``."""
        return {"codecs": codecs_to_json(self.codecs)}

    def bind(self, item: ChunkSpec) -> Self:
        """Bind the inner codecs; raise if the transposition or byte order is not that of N5."""
        rank = len(item.shape)
        reverse = tuple(reversed(range(rank)))
        inner: list[Any] = []
        transposed = False
        for codec in self.codecs:
            bound = codec.bind(item)
            if isinstance(bound, Transpose):
                transposed = True
                if bound.order not in (reverse, "F"):
                    raise CodecError(
                        f'n5_default requires the inner codec "transpose" to have "order" of {list(reverse)}'
                    )
            elif isinstance(bound, Bytes):
                endian = codec.to_json("zarr3").get("endian")
                if endian != "big" and item.dtype.itemsize > 1:
                    raise CodecError('n5_default requires the inner codec "bytes" to have "endian" of "big"')
            inner.append(bound)
        if rank > 1 and not transposed:
            raise CodecError('n5_default requires the inner codec "transpose"')
        N5Block().bind(item)
        return self._of(tuple(inner))

    @classmethod
    def _of(cls, codecs: tuple[Codec, ...]) -> Self:
        return cls(tuple(codec for codec in codecs if isinstance(codec, BytesToBytes)), codecs=codecs)
