"""N5 blocks of data type ``string`` as chunks of an array of text.

Specification
-------------
n5-java 4 (not in the N5 README): every string in UTF-8, followed by one NUL, first dimension fastest;
block mode 1 with the number of bytes.  See `chunkwise.core.codec.n5_varlength.decode_strings`.

Names
-----
Not written in any metadata document.

Configuration
-------------
>>> N5StringBlock.parse("n5", "n5_string_block", {"compression": {"type": "raw"}}).to_json("n5")
{'compression': {'type': 'raw'}}

Compatibility
-------------
n5-java loses trailing empty strings of a block in reading; they are kept here.  Strings with NUL can't be
stored.  The number of bytes in the header must be right, and at most 32768 times the stored size, or 64 MiB
if that is more; other blocks are not written.  A block may be up to 4 times as large as its grid cell, or
have 4096 strings.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import ClassVar, Self

import numpy as np

from chunkwise.core.codec.n5_parts import CompressedBlock, parse_header
from chunkwise.core.codec.n5_varlength import decode_strings, encode_strings, parse_block, write_block
from chunkwise.core.codec.protocol import Buffer, ChunkSpec, DecodeInto, Encode
from chunkwise.errors import CodecError, DataCorruptionError

__all__ = ["N5StringBlock"]

_OVERSIZE = 4
_UNSUSPICIOUS_CELLS = 1 << 12


@dataclass(frozen=True, slots=True)
class N5StringBlock(CompressedBlock):
    """Array to bytes: N5 blocks of strings."""

    name: ClassVar[str] = "n5_string_block"

    def bind(self, item: ChunkSpec) -> Self:
        """Bind the compressors; raise for elements other than text."""
        if item.dtype != np.dtype(object):
            raise CodecError(f"N5 string blocks hold text, not elements of data type {item.dtype}")
        return self.bind_compression(item)

    def open_decoder(self, item: ChunkSpec) -> DecodeInto:
        """Return a decoder; a block of another size is cut to its cell, as with numbers."""
        shape = item.shape

        def decode(buffer: Buffer, out: np.ndarray) -> None:
            dims = parse_header(buffer).dims
            if len(dims) != len(shape):
                raise DataCorruptionError(
                    f"Received chunk with {len(dims)} dimensions but expected {len(shape)}"
                )
            if prod(dims) > max(_OVERSIZE * prod(shape), _UNSUSPICIOUS_CELLS):
                raise DataCorruptionError(
                    f"Received chunk of size {list(dims)} larger than blockSize {list(shape)} by too much"
                )
            data = parse_block(buffer, self.compression, itemsize=1)
            strings = decode_strings(data)
            line = np.empty(len(strings), object)
            line[:] = strings
            block = line.reshape(data.dims[::-1]).T
            inside = tuple(slice(0, min(n, size)) for n, size in zip(data.dims, shape, strict=True))
            out[...] = ""
            out[inside] = block[inside]

        return decode

    def open_encoder(self, item: ChunkSpec) -> Encode:
        """Return an encoder for whole blocks."""

        def encode(array: np.ndarray) -> Buffer:
            strings = array.T.ravel().tolist()
            for text in strings:
                if not isinstance(text, str):
                    raise CodecError(f"N5 string blocks hold text, not {type(text).__name__}")
            return write_block(encode_strings(strings, item.shape), self.compression)

        return encode
