"""The ``blosc`` codec: the Blosc 1 container, with its shuffles and inner compressors.

Specification
-------------
https://zarr-specs.readthedocs.io/en/latest/v3/codecs/blosc/ ;
https://github.com/Blosc/c-blosc/blob/main/README_CHUNK_FORMAT.rst .

Names
-----
zarr3: ``blosc`` (``numcodecs.blosc`` is read); zarr2: ``blosc``; N5: ``blosc``.

Configuration
-------------
>>> Blosc.parse("zarr2", "blosc", {"cname": "zstd", "shuffle": 2}).to_json("zarr2")
{'cname': 'zstd', 'clevel': 5, 'shuffle': 2, 'blocksize': 0}

Compatibility
-------------
``shuffle`` is a number in Zarr v2 and N5, -1 meaning bit-shuffle for items of one byte and byte-shuffle
for others; it is a word in Zarr v3.  GDAL writes its own words in Zarr v2: "NONE", "BYTE", "BIT".  The type
size is the item size in N5, as in N5 readers other than n5-java; TensorStore refuses members beyond the four
written here.  Snappy, which few builds of c-blosc include and NumCodecs' does not, needs the package
``imagecodecs``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from struct import Struct
from typing import Any, ClassVar, Self

import numpy as np

from chunkwise.core.base.binding import JSON, Members, dump, expect_int
from chunkwise.core.base.limits import largest_value
from chunkwise.core.codec.notation import notation_of
from chunkwise.core.codec.protocol import Buffer, BytesToBytes, ChunkSpec, size_error
from chunkwise.core.libraries import blosc
from chunkwise.core.libraries.c_blosc import imagecodecs_library
from chunkwise.errors import CodecError, DataCorruptionError, SpecError, UnsupportedError

__all__ = ["Blosc"]

_CNAMES = ("blosclz", "lz4", "lz4hc", "snappy", "zlib", "zstd")
_SHUFFLES = ("noshuffle", "shuffle", "bitshuffle")
_GDAL_SHUFFLES = ("NONE", "BYTE", "BIT")
_AUTO = -1
# The inner compressor by bits 5 to 7 of the header's flags.
_FORMATS = {0: "blosclz", 1: "lz4", 2: "snappy", 3: "zlib", 4: "zstd"}
_INT_MAX = 2**31 - 1
_MAX_NBYTES = _INT_MAX - 16
# No inner compressor expands a byte to more: Zstandard stores 128 KiB of one value in four bytes.
_MAX_RATIO = 1 << 15
_sizes = Struct("<4xI4xI").unpack_from


def _parse_cname(value: JSON) -> str:
    if value not in _CNAMES:
        raise SpecError(f"Expected one of {','.join(_CNAMES)} but received: {dump(value)}")
    return value  # type: ignore[no-any-return]


def _parse_shuffle(value: JSON, *, numcodecs: bool, words: bool) -> int:
    if not (numcodecs or words):  # n5-blosc writes -1 for automatic, which TensorStore could not read
        return expect_int(value, 0, 2)
    for names in (_SHUFFLES, _GDAL_SHUFFLES) if numcodecs else (_SHUFFLES,):
        if value in names:
            return names.index(value)
    if numcodecs:
        return expect_int(value, _AUTO, 2)
    raise SpecError(f'Expected one of "noshuffle", "shuffle", "bitshuffle", but received: {dump(value)}')


@dataclass(frozen=True)
class Blosc(BytesToBytes):
    """Bytes to bytes: Blosc."""

    cname: str | None = None  # inner compressor; None until bound, then "lz4"
    clevel: int | None = None  # 0 to 9; None until bound, then 5
    shuffle: int | None = None  # 0 none, 1 bytes, 2 bits, -1 chosen by type size; None until bound
    # Stride of the shuffle, in bytes; None until bound, then the item size.  Above 255, c-blosc doesn't
    # shuffle.
    typesize: int | None = None
    blocksize: int | None = None  # bytes in a block; 0 is automatic

    name: ClassVar[str] = "blosc"
    n5_defaults: ClassVar[Mapping[str, Any]] = {"cname": "blosclz", "clevel": 6, "shuffle": 0, "blocksize": 0}
    n5_required: ClassVar[Mapping[str, str]] = {
        "cname": 'one of "blosclz", "lz4", "lz4hc", "snappy", "zlib", "zstd"',
        "clevel": "integer in the range [0, 9]",
        "shuffle": "integer in the range [0, 2]",
    }
    decode_rate, encode_rate = 0.25, 1.0

    @classmethod
    def parse(cls, format: str, name: str, configuration: Mapping[str, Any]) -> Self:
        members = Members(configuration)
        notation = notation_of(format)
        numcodecs, words = notation.is_of_numcodecs(name), notation.has_words
        defaults: tuple[Any, ...] = {
            "zarr3": (None, None, None, None),
            "zarr2": ("lz4", 5, _AUTO, 0),
            "n5": tuple(cls.n5_defaults.values()),
        }[format]
        cname = members.take("cname", _parse_cname, defaults[0])
        clevel = members.take("clevel", lambda v: expect_int(v, 0, 9), defaults[1])
        shuffle = members.take(
            "shuffle", lambda v: _parse_shuffle(v, numcodecs=numcodecs, words=words), defaults[2]
        )
        typesize = None
        # n5-blosc stores a type size that it does not use; Zarr v3 ignores it without a shuffle.
        if notation.ignores_unknown or (words and shuffle == 0):
            members.take("typesize", lambda v: v, None)
        else:
            typesize = members.take(
                "typesize", lambda v: v if v is None else expect_int(v, 1, _INT_MAX), None
            )
        codec = cls(
            cname,
            clevel,
            shuffle,
            typesize,
            members.take("blocksize", lambda v: expect_int(v, 0, _INT_MAX), defaults[3]),
        )
        if notation.ignores_unknown:
            members.rest()
        members.finish()
        return codec

    def to_json(self, format: str) -> dict[str, Any]:
        words = notation_of(format).has_words
        shuffle: int | str | None = self.shuffle
        if words and self.shuffle is not None:
            if self.shuffle == _AUTO:
                raise UnsupportedError('"blosc" codec of Zarr v3 has no automatic "shuffle"')
            shuffle = _SHUFFLES[self.shuffle]
        members = {"cname": self.cname, "clevel": self.clevel, "shuffle": shuffle}
        # TensorStore leaves out the type size without a shuffle; Zarr v2 and N5 have no such member.
        if words and self.shuffle != 0:
            members["typesize"] = self.typesize
        members["blocksize"] = self.blocksize
        return {key: value for key, value in members.items() if value is not None}

    def bind(self, item: ChunkSpec) -> Self:
        """Settle open options: the type size is the item size, 1 for variable-length values."""
        typesize = self.typesize
        if typesize is None:
            itemsize = 1 if item.dtype.hasobject else item.dtype.itemsize
            typesize = itemsize if 1 <= itemsize <= 255 else 1  # c-blosc's own rule, which every peer follows
        shuffle = self.shuffle
        if shuffle is None:
            shuffle = 2 if typesize == 1 else 1
        return replace(
            self,
            cname=self.cname or "lz4",
            clevel=5 if self.clevel is None else self.clevel,
            shuffle=shuffle,
            typesize=typesize,
            blocksize=self.blocksize or 0,
        )

    def open_decoder(self, decoded_nbytes: int | None) -> Callable[[Buffer], Buffer]:
        decompress = blosc().decompress

        def decode(encoded: Buffer) -> Buffer:
            nbytes, encoded = _checked(encoded, decoded_nbytes)
            if nbytes == 0:
                return b""
            out = np.empty(nbytes, np.uint8).data
            if decompress(encoded, out) != nbytes:
                _decompress_elsewhere(encoded, out)
            return out

        return decode

    def open_decoder_into(self, decoded_nbytes: int) -> Callable[[Buffer, memoryview], None] | None:
        if decoded_nbytes == 0:
            return None
        decompress = blosc().decompress

        def decode(encoded: Buffer, out: memoryview) -> None:
            _, encoded = _checked(encoded, decoded_nbytes)
            if decompress(encoded, out) != decoded_nbytes:
                _decompress_elsewhere(encoded, out)

        return decode

    def open_encoder(self) -> Callable[[Buffer], Buffer]:
        cname, clevel = self.cname or "lz4", 5 if self.clevel is None else self.clevel
        typesize, blocksize = self.typesize or 1, self.blocksize or 0
        shuffle = self.shuffle
        if shuffle is None or shuffle == _AUTO:
            shuffle = 2 if typesize == 1 else 1
        library = blosc() if cname in blosc().cnames else imagecodecs_library(cname)
        compress = library.open_compressor(cname, clevel, shuffle, blocksize, typesize)

        def encode(decoded: Buffer) -> Buffer:
            n = decoded.nbytes if type(decoded) is memoryview else len(decoded)
            if n > _MAX_NBYTES:
                raise CodecError(
                    f'"blosc" codec: a chunk of {n} bytes is larger than the limit of {_MAX_NBYTES}'
                )
            encoded = compress(decoded)
            if encoded is None:
                raise CodecError(f'"blosc" codec: c-blosc can\'t compress {n} bytes with {cname!r}')
            return encoded

        return encode


def _checked(encoded: Buffer, expected: int | None) -> tuple[int, Buffer]:
    """Return the decoded size in the header, which is checked against the data, and the frame."""
    # Header: version, inner version, flags, type size (a byte each), then decoded size, block size and
    # encoded size (4 bytes each, little-endian).
    if len(encoded) < 16:
        raise DataCorruptionError(f'"blosc" codec: {len(encoded)} bytes can\'t hold the header of 16 bytes')
    nbytes: int
    nbytes, cbytes = _sizes(encoded)
    if cbytes != len(encoded):
        if not 16 <= cbytes < len(encoded):
            raise DataCorruptionError(
                f'"blosc" codec: header claims {cbytes} encoded bytes, but there are {len(encoded)}'
            )
        encoded = memoryview(encoded)[:cbytes]  # old versions of z5py left the rest of a buffer after it
    if nbytes != expected:
        limit = min(_MAX_NBYTES, _MAX_RATIO * cbytes, largest_value()) if expected is None else expected
        if expected is not None or nbytes > limit:
            raise size_error("blosc", nbytes, limit)
    return nbytes, encoded


def _decompress_elsewhere(encoded: Buffer, out: memoryview) -> None:
    """Decode a chunk by another library, if c-blosc refused it for lack of the inner compressor."""
    flags = encoded[2]
    cname = _FORMATS.get(flags >> 5)
    # If bit 1 is set, the content is stored uncompressed and the inner compressor does not matter.
    missing = cname is not None and not flags & 2 and cname not in blosc().cnames
    if not missing or imagecodecs_library(cname or "").decompress(encoded, out) != len(out):
        raise DataCorruptionError("Invalid blosc-compressed data")
