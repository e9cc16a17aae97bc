"""Codecs of new arrays: a notation of compressors that all formats share, and the option ``codec``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from enum import Enum
from typing import Any, NamedTuple

from chunkwise.core.base.binding import JSON, dump
from chunkwise.core.base.catalogue import codecs
from chunkwise.core.codec.chain import codec_to_json, parse_codec
from chunkwise.core.codec.n5_parts import read_compression
from chunkwise.core.driver.tree_format import TreeFormat
from chunkwise.core.driver.tree_formats import tree_format
from chunkwise.errors import ChunkwiseError, InvalidArgumentError, OptionError, UnknownExtensionError, hint

__all__ = [
    "CNAMES",
    "CODEC_PARTS",
    "Compressor",
    "codec_in",
    "codec_of_parts",
    "compressor_from_json",
    "compressor_to_json",
    "parse_compressor",
    "read_codec",
]

# -- compressors --------------------------------------------------------------------------------------

# Each format names the same compressors differently.  The table is used to create arrays, and to keep a
# compressor when an array is copied to another format.
#
# =================================  ======================  ===============  ==========================
# text                               zarr3                   zarr2, zarr1     n5
# =================================  ======================  ===============  ==========================
# ``none``                           nothing                 null             ``raw``
# ``zstd[:level]``                   ``zstd``                ``zstd``         ``zstd``
# ``gzip[:level]``                   ``gzip``                ``gzip``         ``gzip``
# ``zlib[:level]``                   ``numcodecs.zlib``      ``zlib``         ``gzip`` with ``useZlib``
# ``blosc[:cname[:level[:shuffle]]]``  ``blosc``             ``blosc``        ``blosc``
# ``lz4``                            ``numcodecs.lz4``       ``lz4``          ``lz4``, in Java's framing
# ``bz2[:level]``                    ``numcodecs.bz2``       ``bz2``          ``bzip2``
# ``xz[:preset]``                    ``numcodecs.lzma``      ``lzma``         ``xz``
# =================================  ======================  ===============  ==========================
#
# ``+crc32c`` behind any of them adds the Zarr v3 codec of that name.  A codec of a plug-in has its own name
# in all formats, and an option if its class has a `short_option`: ``squeeze``, ``squeeze:2``.

CNAMES = ("blosclz", "lz4", "lz4hc", "snappy", "zlib", "zstd")
SHUFFLES = ("noshuffle", "shuffle", "bitshuffle")
_LEVELS = {"zstd": 3, "gzip": 6, "zlib": 6, "bz2": 9, "xz": 6}
_OF_VOLUMES = ("jpeg", "png", "compressed_segmentation")
_NAMES = ("none", "raw", "zstd", "gzip", "zlib", "blosc", "lz4", "bz2", "bzip2", "xz", "lzma")
_ALIASES = {"raw": "none", "bzip2": "bz2", "lzma": "xz", "null": "none"}


class Compressor(NamedTuple):
    """A compressor, named as in the table."""

    name: str
    level: int | None = None  # None where there is no such thing
    cname: str = "lz4"  # of Blosc, as is `shuffle`
    shuffle: str = "shuffle"
    crc32c: bool = False

    def __str__(self) -> str:
        """Return the text that `parse_compressor` reads."""
        end = "+crc32c" if self.crc32c else ""
        if self.name == "blosc":
            return f"blosc:{self.cname}:{self.level}:{self.shuffle}{end}"
        return (self.name if self.level is None else f"{self.name}:{self.level}") + end


def parse_compressor(text: str) -> Compressor:
    """Parse a compressor as in the table above.

    >>> parse_compressor("blosc:zstd:3")
    Compressor(name='blosc', level=3, cname='zstd', shuffle='shuffle', crc32c=False)
    """
    head, plus, tail = text.strip().partition("+")
    if plus:
        if tail.strip() != "crc32c":
            raise InvalidArgumentError(f'codec "{text}": only crc32c can follow a "+", not "{tail}"')
        return parse_compressor(head)._replace(crc32c=True)
    name, *options = head.split(":")
    name = _ALIASES.get(name, name)
    if name not in _NAMES and _plugin_option(name) is None:
        encoding = (
            f', such as {{"encoding": "{name}"}} of a precomputed volume' if name in _OF_VOLUMES else ""
        )
        raise InvalidArgumentError(
            f'codec "{name}" is not known; {hint(name, _NAMES, f"; others as JSON{encoding}")}'
        )
    if name == "blosc":
        return _blosc(text, *options)
    if name in ("none", "lz4"):
        if options:
            raise InvalidArgumentError(f'codec "{text}": {name} has no level')
        return Compressor(name)
    if len(options) > 1:
        raise InvalidArgumentError(f'codec "{text}": expected {name} or {name}:LEVEL')
    return Compressor(name, _level(text, options[0]) if options else _LEVELS.get(name))


def _plugin_option(name: str) -> str | None:
    """Return the member that the number after the name of a plug-in's codec sets, or None."""
    for format in ("", "zarr3", "zarr2", "n5"):
        try:
            option: str | None = codecs.find(name, format).short_option
        except UnknownExtensionError:
            continue
        if option is not None:
            return option
    return None


def _blosc(
    text: str, cname: str = "lz4", level: str = "5", shuffle: str = "shuffle", *rest: str
) -> Compressor:
    if rest or cname not in CNAMES or shuffle not in SHUFFLES:
        raise InvalidArgumentError(
            f'codec "{text}": expected blosc:CNAME:LEVEL:SHUFFLE with CNAME one of {", ".join(CNAMES)} '
            f"and SHUFFLE one of {', '.join(SHUFFLES)}"
        )
    return Compressor("blosc", _level(text, level), cname, shuffle)


def _level(text: str, level: str) -> int:
    try:
        return int(level)
    except ValueError:
        raise InvalidArgumentError(f'codec "{text}": expected an integer level, not "{level}"') from None


def compressor_to_json(compressor: Compressor, format: str) -> JSON:
    """Return ``codecs`` of zarr3, ``compressor`` of zarr2 and zarr1, or ``compression`` of n5; or raise."""
    name, level, cname, shuffle, crc32c = compressor
    notation = tree_format(format).codecs
    if crc32c:
        if not notation.is_chain:
            raise InvalidArgumentError(
                f'codec "{compressor}": only Zarr v3 has crc32c behind a compressor, not {format}; '
                "a checksum of the compressor's own is what --checksum, or checksum=True, asks for"
            )
        return [*compressor_to_json(compressor._replace(crc32c=False), format), {"name": "crc32c"}]
    if name == "none":
        return notation.compressor("", {})
    own, options = notation.names.get(name, name), notation.options.get(name, {})
    if name == "blosc":
        chosen = shuffle if notation.has_words else SHUFFLES.index(shuffle)
        options = {"cname": cname, "clevel": level, "shuffle": chosen, "blocksize": 0}
    elif level is not None:
        member = _level_member(own) if name in _NAMES else str(_plugin_option(name))
        options = {member: level, **options}
    return notation.compressor(own, options)


def compressor_from_json(value: object, format: str) -> Compressor | None:
    """Return the compressor that a metadata member describes; None if the table doesn't have it."""
    notation = tree_format(format).codecs
    if notation.is_chain and isinstance(value, list) and len(value) < 2:
        value = value[0] if value else None
    if value is None:
        return Compressor("none")
    if not isinstance(value, Mapping):
        return None
    name = str(value.get(notation.name_member))
    options = value.get("configuration", {}) if notation.is_chain else value
    with suppress(ChunkwiseError):  # as the codec takes them: GDAL's words as numbers, and defaults
        if notation.ignores_unknown:
            options = read_compression(dict(value))[0]
        else:
            options = parse_codec(dict(value), notation.format).to_json(notation.format)
    return _from_options(name, options)


def _from_options(name: str, options: Mapping[str, JSON]) -> Compressor | None:
    member = _level_member(name)
    name = name.removeprefix("numcodecs.")
    name = "zlib" if name == "gzip" and options.get("useZlib") else _ALIASES.get(name, name)
    if name in ("none", "lz4"):
        return Compressor(name)
    if name == "blosc":
        shuffle = options.get("shuffle")
        if isinstance(shuffle, int):
            shuffle = SHUFFLES[shuffle] if 0 <= shuffle <= 2 else "shuffle"
        return Compressor(
            "blosc", options.get("clevel", 5), str(options.get("cname", "lz4")), shuffle or "shuffle"
        )
    if name not in _LEVELS:
        return None
    level = options.get(member)
    if not isinstance(level, int) or level < 0:  # -1 is the library's default, which has no name elsewhere
        level = _LEVELS[name]
    return Compressor(name, level & 31 if name == "xz" else level)  # without the flag for "extreme"


def _level_member(name: str) -> str:
    """Return the name of a format's member with the level of a compressor."""
    return {"bzip2": "blockSize", "xz": "preset", "lzma": "preset"}.get(
        name.removeprefix("numcodecs."), "level"
    )


# -- the option ``codec`` -----------------------------------------------------------------------------

# A description in the words of another format is translated where it means the same there.

CODEC_PARTS = ("compressor", "compressors", "filters", "serializer")
"""Arguments of zarr-python that together correspond to `codec`."""

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
                codec, filters = described[member], described.get("filters")
                return [*filters, codec or "none"] if filters else codec or Compressor("none")
        if "encoding" in described:  # of a precomputed volume
            return {name: member for name, member in described.items() if name != "driver"}
        raise OptionError(f"codec: {value!r} has no compressor")
    if isinstance(value, list | tuple):
        return [one if isinstance(one, str) else _described(one) for one in value]
    return _described(value)


def codec_of_parts(parts: Mapping[str, Any]) -> Any:
    """Return the argument of `read_codec` for those of zarr-python; None if all are left to the format.

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
    """Return a codec from `read_codec` in the words of `format`; raise OptionError if it has none."""
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
    if len(entries) > 1 and entries[-1] in ("none", None):
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


def _translated(entry: str | Mapping[str, JSON] | None, rules: TreeFormat) -> Sequence[JSON]:
    """Return the codecs of a format that an entry of any format stands for: one, or none."""
    notation = rules.codecs
    if entry is None or entry == "none":
        return []
    if isinstance(entry, str):
        if not set(":+").isdisjoint(entry):
            found = compressor_to_json(parse_compressor(entry), rules.name)
            return found if isinstance(found, list) else [found]
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
    entry = codec_to_json(parse_codec(dict(entry), format), format)  # with missing options filled in
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
