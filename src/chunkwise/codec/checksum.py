"""Checksums in encoded chunks."""

from __future__ import annotations

from collections.abc import Sequence

from chunkwise.codec.decode import Stages
from chunkwise.codec.protocol import Buffer, BytesToBytes
from chunkwise.codec.size import byte_view

__all__ = ["compressors_have_checksum", "has_checksum"]


def has_checksum(stages: Stages, encoded: Buffer) -> bool:
    """Return True if a checksum in `encoded` covers all values of the chunk."""
    view = byte_view(encoded)
    if stages.compressors:
        return compressors_have_checksum(stages.compressors, view)
    return stages.serializer.has_checksum(view)


def compressors_have_checksum(compressors: Sequence[BytesToBytes], encoded: memoryview) -> bool:
    """Return True if one of the compressors has stored a checksum; only the last one's bytes can be seen."""
    return any(codec.always_checked for codec in compressors) or (
        bool(compressors) and compressors[-1].has_checksum(encoded)
    )
