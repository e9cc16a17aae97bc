"""The ``n5_default`` codec: N5 blocks as chunks of a Zarr v3 array.

A directory can then have both ``attributes.json`` and ``zarr.json``, for the same blocks.

Specification
-------------
zarr-extensions, ``codecs/n5_default``.

Names
-----
zarr3: ``n5_default``.

Configuration
-------------
>>> codecs = [{"name": "transpose", "configuration": {"order": [1, 0]}},
...           {"name": "bytes", "configuration": {"endian": "big"}}]
>>> N5Default.parse("zarr3", "n5_default", {"codecs": codecs}).to_json("zarr3") == {"codecs": codecs}
True

``transpose`` must reverse all dimensions (it may be left out below rank 2), ``bytes`` must be big-endian
(``endian`` may be left out for one-byte types), and at most one compressor may follow.

Compatibility
-------------
Blocks are read as in N5 datasets (`chunkwise.core.codec.n5_block`), but in mode 0 only; they are written in
full size.  Cropped blocks are padded with the fill value of the array, which in N5 itself is 0.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Self

from chunkwise.core.base.binding import JSON, Members
from chunkwise.core.codec.bytes import Bytes
from chunkwise.core.codec.codec_json import codecs_to_json, parse_codecs
from chunkwise.core.codec.n5_block import N5Block
from chunkwise.core.codec.protocol import BytesToBytes, ChunkSpec, Codec
from chunkwise.core.codec.transpose import Transpose
from chunkwise.errors import CodecError, SpecError

__all__ = ["N5Default"]


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
