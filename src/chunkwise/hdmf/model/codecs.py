"""Compressors and filters by the names that users give, in the form of each format."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from chunkwise.copying.codec_option import compressor_to_json, parse_compressor
from chunkwise.errors import (
    ChunkwiseError,
    InvalidArgumentError,
    OptionError,
    SpecError,
    UnknownExtensionError,
    UnsupportedError,
)
from chunkwise.extension.formats import codec_to_json, parse_codec
from chunkwise.extension.trees import tree_format
from chunkwise.hdmf.model.element import Element
from chunkwise.hdmf.model.tree import Format

__all__ = ["DEFAULT_COMPRESSOR", "Settings", "check_compressor", "codec_document", "usable_settings"]

DEFAULT_COMPRESSOR: dict[str, dict[str, Any]] = {
    "zarr2": {"blocksize": 0, "clevel": 5, "cname": "lz4", "id": "blosc", "shuffle": 1},
    "zarr3": {"name": "zstd", "configuration": {"level": 0}},
    "n5": {"type": "gzip", "level": 6, "useZlib": False},
}
"""Compressor that hdmf-zarr uses; gzip, which every N5 reader has, for N5."""

_NAMED: dict[str, dict[str, Any]] = {
    "gzip": {"name": "gzip", "configuration": {"level": 5}},
    "zstd": DEFAULT_COMPRESSOR["zarr3"],
    "blosc": {
        "name": "blosc",
        "configuration": {"cname": "lz4", "clevel": 5, "shuffle": "shuffle", "blocksize": 0},
    },
}
"""Options of a codec given by name alone in Zarr v3, where they may not be left out."""


class _LackingError(SpecError):
    """A codec, with right options, that a format does not have."""


def _does_nothing(codec: Any) -> bool:
    """Return True for values that mean no compressor, or the serializer that every format has."""
    described = codec.to_dict() if hasattr(codec, "to_dict") else codec
    if isinstance(described, Mapping) and described.get("name") == "bytes":
        endian = (described.get("configuration") or {}).get("endian", "little")
        return str(getattr(endian, "value", endian)) == "little"
    return any(described == nothing for nothing in ("none", "raw", {"type": "raw"}))


@dataclass(frozen=True, slots=True)
class Settings:
    """Storage settings of a dataset: chunks, shards, codecs, fill value."""

    # Chunks and shards are in any form that new arrays take; shards are of Zarr v3 only.
    chunks: Any = None
    shards: Any = None
    compressor: Any = True
    # Codecs that come before the compressor.
    filters: Sequence[Any] | None = None
    # The codec that makes bytes of an array, Zarr v3 only; None for the usual one.
    serializer: Any = None
    # Value of elements that were not written; None for zero.
    fill_value: Any = None

    def compressors(self, format: Format) -> list[dict[str, Any]]:
        """Return the compressors as `format` writes them."""
        if self.compressor is True or self.compressor == "auto":
            return [DEFAULT_COMPRESSOR[format]]
        if self.compressor is None or self.compressor is False:
            return []
        given = self.compressor if isinstance(self.compressor, list | tuple) else [self.compressor]
        return _documents([codec for codec in given if not _does_nothing(codec)], format)

    def filter_documents(self, format: Format) -> list[dict[str, Any]]:
        """Return the filters as `format` writes them."""
        if self.filters is None or self.filters == "auto":
            return []
        return _documents(self.filters, format)


def _documents(given: Sequence[Any], format: Format) -> list[dict[str, Any]]:
    out, rules = [], tree_format(format)
    for codec in given:
        try:
            out.append(codec_document(codec, format))
        except _LackingError as e:
            if rules.codecs.has_filters:
                raise
            warnings.warn(f"{rules.title} has no such codec, gzip is used: {e.message}", stacklevel=2)
            out.append(DEFAULT_COMPRESSOR[format])
    if not rules.codecs.has_filters and len(out) > 1:
        raise UnsupportedError(f"{rules.title} has one compressor, but {len(out)} are given")
    return out


def codec_document(codec: Any, format: Format) -> dict[str, Any]:
    """Return one codec as `format` writes it."""
    if hasattr(codec, "to_dict"):
        codec = codec.to_dict()
    elif hasattr(codec, "get_config"):
        codec = codec.get_config()
    if isinstance(codec, str):
        codec = _with_level(codec, format) if ":" in codec else _named(codec, format)
    if not isinstance(codec, Mapping):
        raise InvalidArgumentError(f"Expected a codec, but received: {codec!r:.100}")
    forms = {"name": "zarr3", "id": "zarr2", "type": "n5"}
    member = next((m for m in forms if m in codec), None)
    if member is None:
        raise InvalidArgumentError(f"codec has none of the members name, id, type: {dict(codec)!r:.100}")
    written = forms[member]
    if codec.get("id") == "pickle" or codec.get("name") == "pickle":
        raise InvalidArgumentError('"pickle" is refused')
    if written != format and (own := _for_n5(codec[member], codec.get("configuration", codec), format)):
        codec, written = own, format
    if tree_format(format).codecs.is_chain and codec.get("id") == "zlib":
        # The same compression, under a name that readers other than zarr-python know.
        codec = {"id": "gzip", "level": codec.get("level", 1)}
    parsed = parse_codec(dict(codec), written)
    try:
        return codec_to_json(parsed, format)
    except ChunkwiseError as e:
        if written == format:
            raise
        # The same name may exist in the other format without a translation of its options.
        try:
            return _same_name(codec, member, format)
        except UnknownExtensionError:
            pass
        raise _LackingError(e.message) from None


def check_compressor(codec: Any, format: Format) -> None:
    """Raise OptionError unless `codec` says how arrays of a format are compressed."""
    if codec == "auto" or format not in DEFAULT_COMPRESSOR:
        return
    try:
        with warnings.catch_warnings(action="ignore"):  # they come when it is used
            Settings(compressor=codec).compressors(format)
    except ChunkwiseError as e:
        raise OptionError(f"codec: {e.message}") from None


def _with_level(text: str, format: Format) -> Any:
    """Return a compressor such as ``zstd:5``, which is one codec in each format."""
    found = compressor_to_json(parse_compressor(text), format)
    return found[0] if isinstance(found, list) and len(found) == 1 else found


def _named(name: str, format: Format) -> dict[str, Any]:
    notation = tree_format(format).codecs
    if not notation.is_chain:
        return _for_n5(name, {}, format) or notation.described(name, {})
    if name in _NAMED:
        return _NAMED[name]
    try:  # one of numcodecs, with its options
        return codec_to_json(parse_codec({"id": name}, "zarr2"), "zarr3")
    except ChunkwiseError:
        return {"name": name}


def _for_n5(name: Any, options: Mapping[str, Any], format: Format) -> dict[str, Any] | None:
    """Return the N5 name of a compressor that numcodecs calls otherwise; None for the other formats."""
    if format != "n5":
        return None
    name = str(name).removeprefix("numcodecs.")
    if name == "zlib":
        return {"type": "gzip", "level": options.get("level", 1), "useZlib": True}
    if name == "bz2":
        return {"type": "bzip2", "blockSize": options.get("level", 1)}
    if name == "lzma" and options.get("format", 1) == 1 and options.get("filters") is None:
        preset = options.get("preset")
        return {"type": "xz", "preset": 6 if preset is None else preset}
    return None


def _same_name(codec: Mapping[str, Any], member: str, format: Format) -> dict[str, Any]:
    plain = {k: v for k, v in codec.items() if k != member}
    notation = tree_format(format).codecs
    options = plain if notation.is_chain else plain.get("configuration", plain)
    return codec_to_json(parse_codec(notation.described(str(codec[member]), options), format), format)


def usable_settings(settings: Settings | None, element: Element, format: Format) -> Settings:
    """Return settings without those that the format or the type doesn't support."""
    settings = settings or Settings()
    width = element.memory_dtype.itemsize if element.is_plain else 0
    shuffled = settings.filters is not None and "shuffle" in settings.filters and width > 1
    deflate = isinstance(settings.compressor, Mapping) and settings.compressor.get("id") in ("gzip", "zlib")
    notation = tree_format(format).codecs
    if notation.is_chain and shuffled and (deflate or settings.compressor is True):
        # Zarr v3 has a shuffle of bytes in Blosc only; that of numcodecs is known to zarr-python alone.
        options = {
            "cname": "zlib" if deflate else "zstd",
            "clevel": settings.compressor.get("level", 5) if deflate else 5,
            "shuffle": "shuffle",
            "typesize": width,
            "blocksize": 0,
        }
        compressor = {"name": "blosc", "configuration": options}
        filters = [f for f in settings.filters or () if f != "shuffle"]
        return replace(settings, compressor=compressor, filters=filters or None)
    if settings.filters and "shuffle" in settings.filters:
        filters = [
            {"id": "shuffle", "elementsize": width} if f == "shuffle" else f
            for f in settings.filters
            if f != "shuffle" or (width > 1 and notation.has_filters)
        ]
        settings = replace(settings, filters=filters or None)
    return settings
