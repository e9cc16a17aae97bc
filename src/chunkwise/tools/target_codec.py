"""Codecs of a new array, in the words of its format, with a checksum if one is asked for.

Zarr v3 has ``crc32c`` behind any compressor.  Zarr v1, Zarr v2 and N5 have one place, that of the compressor:
there the checksum depends on the compressor.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from chunkwise.binding import JSON, dump
from chunkwise.codec.codec_json import parse_codec
from chunkwise.errors import InvalidArgumentError
from chunkwise.tools.array_template import ArrayTemplate
from chunkwise.tools.compressor import Compressor, compressor_to_json

__all__ = ["codec_json", "with_checksum"]

_FALLBACK = Compressor("zstd", 3)


def codec_json(template: ArrayTemplate, format: str, given: Sequence[str], notes: list[str]) -> Any:
    """Return the compressor in the words of `format`."""
    codec = template.codec
    if isinstance(codec, Compressor):
        try:
            return compressor_to_json(codec, format)
        except InvalidArgumentError:
            if "codec" in given:
                raise
    if "codec" in given or (format == template.format and codec is not None):
        return codec
    if template.format is not None:
        notes.append(f"the codecs of the source aren't those of {format}; zstd:3 takes their place")
    return compressor_to_json(_FALLBACK, format)


_OWN = {"zarr2": "zstd, gzip, zlib, bz2 and xz", "n5": "gzip, bz2, lz4 and xz"}


def with_checksum(codecs: Any, format: str) -> Any:
    """Return codecs, or the compressor of Zarr v1, v2 or N5, with a checksum; raise if there can be none."""
    if format == "zarr3":
        return codecs if any(map(_writes_checksum, codecs)) else [*codecs, {"name": "crc32c"}]
    words = "n5" if format == "n5" else "zarr2"
    name = (codecs or {}).get("type" if format == "n5" else "id", "raw" if format == "n5" else "none")
    if name not in ("raw", "none"):
        if _writes_checksum(codecs, words):
            return codecs
        if _writes_checksum({**codecs, "checksum": True}, words):
            return {**codecs, "checksum": True}
    title = {"n5": "N5", "zarr2": "Zarr v2", "zarr1": "Zarr v1"}[format]
    raise InvalidArgumentError(
        f"checksum: {title} has no place for one with the compressor {dump(name)}; "
        f"{_OWN[words]} have one of their own, and Zarr v3 has one for any"
    )


def _writes_checksum(codec: JSON, format: str = "zarr3") -> bool:
    """Return True if what the codec writes has a checksum; False of one that is not known."""
    try:
        return parse_codec(codec, format).writes_checksum
    except InvalidArgumentError:  # what is wrong with it is told where the array is created
        return False
