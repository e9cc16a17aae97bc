"""Which encoded chunks carry a checksum that decoding compares."""

from __future__ import annotations

from collections.abc import Sequence

from chunkwise.codec.decode import Stages
from chunkwise.codec.n5_header import parse_header
from chunkwise.codec.protocol import Buffer, BytesToBytes
from chunkwise.codec.size import byte_view

__all__ = ["has_checksum"]

# Codecs of which each encoded value has one.
_ALWAYS = frozenset(
    (
        "crc32c",
        "gzip",  # CRC-32; N5's other framing of it has Adler-32
        "numcodecs.zlib",
        "numcodecs.bz2",
        "bzip2",
        "lz4_java",
        "numcodecs.crc32",
        "numcodecs.adler32",
        "numcodecs.fletcher32",
        "numcodecs.jenkins_lookup3",
    )
)
_XZ = b"\xfd7zXZ\0"
_ZSTD = 0xFD2FB528
_SKIPPABLE = range(0x184D2A50, 0x184D2A60)


def has_checksum(stages: Stages, encoded: Buffer) -> bool:
    """Whether a checksum in `encoded` covers all values of the chunk.

    Zstandard and xz have one or not, whatever the metadata say, so the first frame is looked at.
    """
    view = byte_view(encoded)
    if _any(stages.compressors, view):
        return True
    serializer = stages.serializer
    block = getattr(serializer, "block", serializer)  # of the Zarr v3 codec n5_default
    compression = getattr(block, "compression", ())
    return (
        bool(compression) and not stages.compressors and _any(compression, view[parse_header(view).nbytes :])
    )


def _any(compressors: Sequence[BytesToBytes], encoded: memoryview) -> bool:
    if any(codec.name in _ALWAYS for codec in compressors):
        return True
    if not compressors:
        return False
    last = compressors[-1].name
    if last == "zstd":
        return _zstd_has_checksum(encoded)
    # The low half of the second byte of the stream's flags names the check, 0 for none.
    return last in ("xz", "numcodecs.lzma") and encoded[:6] == _XZ and encoded[7] & 15 != 0


def _zstd_has_checksum(encoded: memoryview) -> bool:
    """Whether the first frame with content has one (RFC 8878, section 3.1.1.1.1)."""
    while len(encoded) >= 8:
        magic = int.from_bytes(encoded[:4], "little")
        if magic not in _SKIPPABLE:
            return magic == _ZSTD and bool(encoded[4] & 4)
        encoded = encoded[8 + int.from_bytes(encoded[4:8], "little") :]
    return False
