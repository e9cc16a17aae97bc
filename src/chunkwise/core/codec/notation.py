"""``CodecNotation``: how each format writes codecs in general."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

__all__ = ["CodecNotation", "notation_of"]


@dataclass(frozen=True)
class CodecNotation:
    """Form of codecs in the documents of one format."""

    format: str  # the format, as passed to `parse` and `to_json` of codecs
    name_member: str = "name"
    # True if all codecs are listed, from elements to bytes, each with its options in ``configuration``.
    # Otherwise there is one compressor, with its options beside its name.
    is_chain: bool = False
    has_filters: bool = True
    has_words: bool = False  # for choices; otherwise numbers of the library, -1 for automatic
    ignores_unknown: bool = False  # options
    has_numcodecs_options: bool = False  # as NumCodecs and GDAL write them, with byte orders in data types
    # Names and further options of compressors, by their names in options of chunkwise.
    names: Mapping[str, str] = field(default_factory=dict)
    options: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    no_compressor: str = ""  # name that means no compressor
    new_compressor: str = ""  # default that all software has; empty for the driver's own
    with_checksum: str = ""  # compressors with a checksum, if the format has no checksum codec

    def is_of_numcodecs(self, name: str) -> bool:
        """Return True if a codec with this name may have all options that NumCodecs and GDAL write."""
        return self.has_numcodecs_options or name.startswith("numcodecs.")

    def described(self, name: str, options: Mapping[str, Any]) -> dict[str, Any]:
        """Return the description of a codec."""
        if self.is_chain:
            return {"name": name, "configuration": dict(options)}
        return {self.name_member: name, **options}

    def compressor(self, name: str, options: Mapping[str, Any]) -> Any:
        """Return the compressor of an array in its document's form; an empty name means no compressor."""
        if self.is_chain:
            return [self.described(name, options)] if name else []
        name = name or self.no_compressor
        return self.described(name, options) if name else None


_NOTATIONS = (
    CodecNotation(
        "zarr3",
        is_chain=True,
        has_words=True,
        names={name: f"numcodecs.{name}" for name in ("zlib", "lz4", "bz2")} | {"xz": "numcodecs.lzma"},
        options={"zstd": {"checksum": False}},
    ),
    CodecNotation(
        "zarr2",
        name_member="id",
        has_numcodecs_options=True,
        names={"xz": "lzma"},
        with_checksum="zstd, gzip, zlib, bz2 and xz",
    ),
    CodecNotation(
        "n5",
        name_member="type",
        has_filters=False,
        ignores_unknown=True,
        names={"zlib": "gzip", "bz2": "bzip2"},
        options={"zlib": {"useZlib": True}, "lz4": {"blockSize": 65536}},
        no_compressor="raw",
        new_compressor="gzip",
        with_checksum="gzip, bz2, lz4 and xz",
    ),
)
_BY_FORMAT = {notation.format: notation for notation in _NOTATIONS}


def notation_of(format: str) -> CodecNotation:
    """Return the notation of "zarr3", "zarr2" or "n5"."""
    return _BY_FORMAT[format]
