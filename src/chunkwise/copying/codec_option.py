"""The option ``codec``: text, JSON of any format, objects of NumCodecs and zarr-python, or a list of them.

A description in the words of another format is translated where it means the same there.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import Enum
from typing import Any

from chunkwise.copying.compressor import (
    Compressor,
    compressor_from_json,
    compressor_to_json,
    parse_compressor,
)
from chunkwise.core.base.binding import JSON, dump
from chunkwise.core.codec.codec_json import codec_to_json, parse_codec
from chunkwise.core.driver.tree_format import TreeFormat
from chunkwise.core.driver.tree_formats import tree_format
from chunkwise.errors import ChunkwiseError, InvalidArgumentError, OptionError

__all__ = ["CODEC_PARTS", "codec_in", "codec_of_parts", "read_codec"]

CODEC_PARTS = ("compressor", "compressors", "filters", "serializer")
"""Arguments in which zarr-python takes what `codec` says."""

_FORMS = (
    'text such as "zstd:5" or "none", JSON in the words of a format, a codec of numcodecs or zarr.codecs, or '
    "a list of them"
)
_DEFAULT = "zstd:3"  # the compressor behind filters that are given alone
_FORMAT_OF = {"name": "zarr3", "id": "zarr2", "type": "n5"}
_IMPLIED: Mapping[str, JSON] = {"checksum": False, "blocksize": 0, "nthreads": 1, "useZlib": False}
"""Options that mean nothing else when they are left out."""


def read_codec(value: Any) -> Any:
    """Return the codecs that `value` describes: a Compressor, JSON, or a list of JSON, of any format."""
    if isinstance(value, str):
        try:
            return parse_compressor(value)
        except InvalidArgumentError as e:
            raise OptionError(_named(e.message)) from None
    if isinstance(value, Compressor):
        return value
    to_json = getattr(value, "to_json", None)  # of a CodecSpec
    described = to_json() if callable(to_json) else value
    if isinstance(described, Mapping) and "driver" in described:
        for member in ("codecs", "compressor", "compression"):
            if member in described:
                return described[member] or Compressor("none")
        if "encoding" in described:  # of a precomputed volume
            return {name: member for name, member in described.items() if name != "driver"}
        raise OptionError(f"codec: {value!r} has no compressor")
    if isinstance(value, list | tuple):
        return [one if isinstance(one, str) else _described(one) for one in value]
    return _described(value)


def codec_of_parts(parts: Mapping[str, Any]) -> Any:
    """Return what `read_codec` takes, from the arguments of zarr-python; None if all are left to the format.

    Those are ``compressor`` or ``compressors``, ``filters`` and ``serializer``.
    """
    if "compressor" in parts and "compressors" in parts:
        raise OptionError("compressor: given twice, as compressors too")
    found: dict[str, list[Any]] = {}
    for name, value in parts.items():
        is_auto = isinstance(value, str) and value == "auto"
        several = isinstance(value, list | tuple) and name != "serializer"
        if isinstance(value, bool) or (name == "serializer" and isinstance(value, list | tuple)):
            raise OptionError(f"{name}: expected {_FORMS}, not {value!r}")
        found[name] = [] if value is None or is_auto else list(value) if several else [value]
    filters, serializer = found.get("filters", []), found.get("serializer", [])
    compressors = found.get("compressor", found.get("compressors", []))
    says_none = any(parts.get(name, "auto") in (None, (), []) for name in ("compressor", "compressors"))
    if filters or serializer or len(compressors) > 1:
        return [*filters, *serializer, *(compressors or ["none" if says_none else _DEFAULT])]
    return compressors[0] if compressors else "none" if says_none else None


def _described(value: Any) -> dict[str, JSON]:
    """Return the JSON of one codec."""
    config, described = getattr(value, "get_config", None), getattr(value, "to_dict", None)
    if isinstance(value, type):
        config = described = None
    describe: Any = config if callable(config) else described
    if not isinstance(value, Mapping) and not callable(describe):
        raise OptionError(f"codec: expected {_FORMS}, not {value!r}")
    try:
        found: dict[str, JSON] = _plain(dict(value if isinstance(value, Mapping) else describe()))
    except (TypeError, ValueError) as e:
        raise OptionError(f"codec: {value!r} can't be described: {e}") from None
    if not any(isinstance(found.get(member), str) for member in (*_FORMAT_OF, "encoding")):
        raise OptionError(
            f'codec: expected the name of a codec, as "name" (zarr3), "id" (zarr2) or "type" (n5), '
            f"in {value!r}"
        )
    return found


def _plain(value: Any) -> Any:
    """Return JSON without the tuples and choices that objects of zarr-python have."""
    if isinstance(value, Mapping):
        return {str(name): _plain(item) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    return value.value if isinstance(value, Enum) else value


def codec_in(codec: Any, format: str) -> Any:
    """Return what `read_codec` has read in the words of `format`; raise OptionError if it has none."""
    rules = tree_format(format)
    notation = rules.codecs
    try:
        if isinstance(codec, Compressor):
            found = compressor_to_json(codec, format)
            for one in found if isinstance(found, list) else [found] if codec.name != "none" else []:
                parse_codec(one, notation.format)
            return codec
        entries = codec if isinstance(codec, list) else [codec]
        out = [translated for one in entries for translated in _translated(one, rules)]
        for one in out:
            parse_codec(one, notation.format)
    except ChunkwiseError as e:
        raise OptionError(_named(e.message)) from None
    if notation.is_chain:
        return out
    if len(entries) > 1 and entries[-1] == "none":
        out.append(None)
    if len(out) > 1:
        if not notation.has_filters:
            raise OptionError(f"codec: {format} has one compressor, not {len(out)} codecs")
        try:
            rules.of_zarr2_members({"filters": out[:-1]})
        except InvalidArgumentError as e:  # of Zarr v1
            raise OptionError(_named(e.message)) from None
        return out
    return out[0] if out else Compressor("none")


def _named(message: str) -> str:
    return message if message.startswith(("codec ", "codec:")) else f"codec: {message}"


def _translated(entry: str | Mapping[str, JSON], rules: TreeFormat) -> Sequence[JSON]:
    """Return the codecs of a format that an entry of any format stands for: one, or none."""
    notation = rules.codecs
    if isinstance(entry, str):
        if entry == "none" or not set(":+").isdisjoint(entry):
            found = compressor_to_json(parse_compressor(entry), rules.name)
            return found if isinstance(found, list) else [found] if found else []
        if notation.is_chain:
            return [entry]
        entry = {"name": entry}
    own = notation.name_member
    member = next((name for name in (own, *_FORMAT_OF) if isinstance(entry.get(name), str)), "")
    if not member:
        raise OptionError(
            f"codec: {dump(entry)} is an encoding of precomputed volumes, and means nothing in "
            f"{notation.format}; that has codecs by {dump(own)}"
        )
    if member == own and entry[own] != notation.no_compressor:
        return [entry]
    format = _FORMAT_OF[member]
    if entry[member] == tree_format(format).codecs.no_compressor:
        return []
    entry = codec_to_json(parse_codec(dict(entry), format), format)  # with what is left out
    name, options = str(entry[member]), {key: value for key, value in entry.items() if key != member}
    if member == "name":
        options = dict(options.get("configuration") or {})
        if name == "bytes" and options.get("endian", "little") == "little":
            return []  # as elements lie in all formats but for N5, which has an order of its own
    known = compressor_from_json([entry] if member == "name" else entry, format)
    if known is not None and (found := _the_same(known, options, format, rules)) is not None:
        return found
    if member == "id" and notation.is_chain:
        return [{"name": f"numcodecs.{name}", "configuration": options}]
    if notation.has_numcodecs_options and name.startswith("numcodecs."):
        return [{"id": name.removeprefix("numcodecs."), **options}]
    raise OptionError(
        f"codec: {dump(entry)} is in the words of {format}, and means nothing in "
        f"{notation.format}; that has codecs by {dump(notation.name_member)}"
    )


def _the_same(
    known: Compressor, options: Mapping[str, JSON], format: str, rules: TreeFormat
) -> Sequence[JSON] | None:
    """Return a compressor with the `options` of a format in another; None if some would be lost."""
    back, notation = compressor_to_json(known, format), rules.codecs
    described = (back[0]["configuration"] if isinstance(back, list) else back) if back else {}
    kept = {key: value for key, value in options.items() if key != "typesize"}
    checksum = kept.pop("checksum", False)
    for key, value in kept.items():
        is_default = value is None or (key == "level" and value == -1 and known.name in ("gzip", "zlib"))
        if not is_default and described.get(key, _IMPLIED.get(key)) != value:
            return None
    found = compressor_to_json(known, rules.name)
    out = found if isinstance(found, list) else [found] if found else []
    if checksum:
        own = out[0]["configuration"] if notation.is_chain else out[0]
        own["checksum"] = True
        if not parse_codec(out[0], notation.format).writes_checksum:
            return None
    return out
