"""Compressors in a notation that all formats share: ``zstd:5``, ``blosc:lz4:5:shuffle``, ``none``.

Each format names the same compressors differently.  The table is used to create arrays, and to keep a
compressor when an array is copied to another format.

=================================  ======================  ===============  ==========================
text                               zarr3                   zarr2, zarr1     n5
=================================  ======================  ===============  ==========================
``none``                           nothing                 null             ``raw``
``zstd[:level]``                   ``zstd``                ``zstd``         ``zstd``
``gzip[:level]``                   ``gzip``                ``gzip``         ``gzip``
``zlib[:level]``                   ``numcodecs.zlib``      ``zlib``         ``gzip`` with ``useZlib``
``blosc[:cname[:level[:shuffle]]]``  ``blosc``             ``blosc``        ``blosc``
``lz4``                            ``numcodecs.lz4``       ``lz4``          ``lz4``, in Java's framing
``bz2[:level]``                    ``numcodecs.bz2``       ``bz2``          ``bzip2``
``xz[:preset]``                    ``numcodecs.lzma``      ``lzma``         ``xz``
=================================  ======================  ===============  ==========================

``+crc32c`` behind any of them adds the Zarr v3 codec of that name.  A codec of a plug-in has its own name in
all formats, and an option if its class has a `short_option`: ``squeeze``, ``squeeze:2``.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from chunkwise.core.base.binding import JSON
from chunkwise.core.base.catalogue import codecs
from chunkwise.core.driver.tree_formats import tree_format
from chunkwise.errors import InvalidArgumentError, UnknownExtensionError, hint

__all__ = ["CNAMES", "Compressor", "compressor_from_json", "compressor_to_json", "parse_compressor"]

CNAMES = ("blosclz", "lz4", "lz4hc", "snappy", "zlib", "zstd")
SHUFFLES = ("noshuffle", "shuffle", "bitshuffle")
_LEVELS = {"zstd": 3, "gzip": 6, "zlib": 6, "bz2": 9, "xz": 6}
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
        raise InvalidArgumentError(f'codec "{name}" is not known; {hint(name, _NAMES, "; others as JSON")}')
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
    return _from_options(name, value.get("configuration", {}) if notation.is_chain else value)


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
    return Compressor(name, level)


def _level_member(name: str) -> str:
    """Return the name of a format's member with the level of a compressor."""
    return {"bzip2": "blockSize", "xz": "preset", "lzma": "preset"}.get(
        name.removeprefix("numcodecs."), "level"
    )
