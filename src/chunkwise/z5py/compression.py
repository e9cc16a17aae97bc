"""Compressors by z5py's names and options, in the metadata of each format.

===========  ======================================  =========================  ==================
z5py         options                                 formats                    default
===========  ======================================  =========================  ==================
``raw``                                              all
``gzip``     ``level``                               all; in Zarr v2 ``zlib``   5; of N5 itself
``zlib``     ``level``                               Zarr v2                    5
``bzip2``    ``level``                               N5, Zarr v2                5
``xz``       ``level``                               N5                         6
``lz4``                                              N5
``zstd``     ``level``                               all                        3
``blosc``    ``codec``, ``level``, ``shuffle``,      all                        5; of Zarr itself
             ``blocksize``, ``nthreads`` (1)
===========  ======================================  =========================  ==================
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from chunkwise.copying.codec_option import (
    CNAMES,
    SHUFFLES,
    Compressor,
    compressor_from_json,
    compressor_to_json,
)
from chunkwise.errors import InvalidArgumentError
from chunkwise.extension.trees import tree_format

__all__ = ["DEFAULTS", "NAMES", "codec_json", "compression_of"]

NAMES = {
    "n5": ("raw", "blosc", "gzip", "bzip2", "xz", "lz4", "zstd"),
    "zarr2": ("raw", "blosc", "zlib", "bzip2", "gzip", "zstd"),
    "zarr3": ("raw", "gzip", "blosc", "zstd"),
}
DEFAULTS = {"n5": "gzip", "zarr2": "blosc", "zarr3": "blosc"}
_LEVELS = {"gzip": 5, "zlib": 5, "bzip2": 5, "xz": 6, "zstd": 3, "blosc": 5}
_BLOSC = {"codec": "lz4", "shuffle": 1, "blocksize": 0, "nthreads": 1}
_OWN_NAMES = {"none": "raw", "bz2": "bzip2"}


def codec_json(format: str, compression: str | None, options: Mapping[str, Any]) -> Any:
    """Return the compressor in the form of `format`.

    Raises
    ------
    ValueError
        If the format, or z5py for it, has no such compressor.
    RuntimeError
        For an option that it does not have, or a value that it can't be.
    """
    name = DEFAULTS[format] if compression is None else compression
    if name not in NAMES[format]:
        known_names = ", ".join(NAMES[format])
        raise ValueError(f"compression {name!r} is not available in {format}; {known_names} are")
    known: dict[str, Any] = {"level": _LEVELS[name]} if name in _LEVELS else {}
    if name == "blosc":
        known.update(_BLOSC)
    unknown = [option for option in options if option not in known]
    if unknown:
        raise RuntimeError(
            f"invalid options for {name} compression: {', '.join(unknown)}; z5py names a compressor, such as "
            f'compression="zstd", level=5, and {name} has {", ".join(known) or "no options"}'
        )
    chosen = {**known, **options}
    for option, value in chosen.items():
        if option != "codec" and (isinstance(value, bool) or not isinstance(value, int)):
            raise RuntimeError(f"{name} compression: {option} has to be an integer, got {value!r}")
    if name not in _LEVELS:
        return compressor_to_json(Compressor("none" if name == "raw" else name), format)
    if name != "blosc":
        own = {"bzip2": "bz2", "gzip": "zlib" if format == "zarr2" else "gzip"}.get(name, name)
        return compressor_to_json(Compressor(own, chosen["level"]), format)
    if chosen["nthreads"] != 1:
        raise RuntimeError("blosc compression: nthreads is 1; chunks are compressed by n_threads threads")
    if chosen["codec"] not in CNAMES:
        raise RuntimeError(f"blosc compression: codec is one of {', '.join(CNAMES)}, not {chosen['codec']!r}")
    if chosen["shuffle"] not in range(len(SHUFFLES)):
        raise RuntimeError(f"blosc compression: shuffle is 0, 1 or 2, got {chosen['shuffle']}")
    blosc = Compressor("blosc", chosen["level"], chosen["codec"], SHUFFLES[chosen["shuffle"]])
    json = compressor_to_json(blosc, format)
    (json[0]["configuration"] if isinstance(json, list) else json)["blocksize"] = chosen["blocksize"]
    return json


def compression_of(document: Mapping[str, Any], format: str) -> tuple[str, dict[str, Any]]:
    """Return name and options of the compressor of an array."""
    value: Any = tree_format(format).compression(document)
    own = value[0].get("configuration", {}) if value and isinstance(value, list) else value or {}
    found = compressor_from_json(value, format)
    if found is None:
        raise InvalidArgumentError(f"z5py has no name for the codecs {value}")
    name = found.name if format == "zarr2" and found.name == "bz2" else _OWN_NAMES.get(found.name, found.name)
    if name == "blosc":
        shuffle = SHUFFLES.index(found.shuffle)
        options = {"codec": found.cname, "level": found.level, "shuffle": shuffle}
        return name, {**options, "blocksize": own.get("blocksize", 0), "nthreads": own.get("nthreads", 1)}
    return name, {} if found.level is None else {"level": found.level}
