"""Options of ``create`` and ``cp`` for the properties of the new array."""

from __future__ import annotations

import argparse
from typing import Any

from chunkwise import DataType
from chunkwise.cli.command import UsageError
from chunkwise.cli.options import array_arguments, parse_chunk_sizes, parse_codec, parse_names, units_of
from chunkwise.copying.array_options import array_options
from chunkwise.copying.codec_option import Compressor, parse_compressor
from chunkwise.errors import InvalidArgumentError
from chunkwise.extension import JSON
from chunkwise.extension.inside import parse_fill_value_zarr3, parse_json
from chunkwise.extension.trees import FormatName, Kind, Location, format_of

__all__ = [
    "FORMATS",
    "add_template_arguments",
    "check_ranks",
    "choose_format",
    "fill_value_of",
    "template_options",
]

FORMATS = ("zarr3", "zarr2", "zarr1", "n5")
_WORDS = {"nan": "NaN", "inf": "Infinity", "+inf": "Infinity", "-inf": "-Infinity"}


def add_template_arguments(parser: argparse.ArgumentParser, *more_formats: str) -> None:
    """Declare the options of both commands."""
    parser.add_argument(
        "--format",
        choices=(*FORMATS, *more_formats),
        help="by default that of the group around it, or by name: n5 for *.n5, zarr3 for *.zarr",
    )
    parser.add_argument(
        "--chunk",
        metavar="SIZES",
        type=lambda text: parse_chunk_sizes(text, "chunks"),
        help="chunk shape, such as 64,64,32 (-1: a whole dimension), 64 for all dimensions, or auto; or by "
        "dimension name: time=90,lat=8",
    )
    parser.add_argument(
        "--shard",
        metavar="SIZES",
        type=lambda text: parse_chunk_sizes(text, "shards"),
        help="shard shape (zarr3), as for --chunk, or none",
    )
    parser.add_argument(
        "--codec",
        metavar="CODEC",
        type=_codec,
        help="none, zstd:LEVEL, gzip:LEVEL, blosc:CNAME:LEVEL:SHUFFLE, lz4, bz2:LEVEL, xz:LEVEL, "
        "zlib:LEVEL; with +crc32c appended for a checksum (zarr3); or JSON in the format's own form",
    )
    parser.add_argument(
        "--checksum", action="store_true", help="store a checksum in each chunk, for `verify`"
    )
    parser.add_argument("--fill-value", metavar="VALUE", help="what missing chunks read as")
    parser.add_argument("--dtype", metavar="TYPE", type=_dtype, help="data type, such as uint16")
    parser.add_argument(
        "--dimension-names",
        "--labels",
        metavar="NAMES",
        type=lambda text: tuple(name or None for name in parse_names(text)),
        help="dimension names, such as x,y,z",
    )
    parser.add_argument(
        "--units", metavar="UNITS", help="units of the dimensions, such as '4 nm,4 nm,40 nm' or 'z=40 nm'"
    )


def choose_format(
    arguments: argparse.Namespace, location: Location, source: str | None = None, *, kind: Kind = "array"
) -> FormatName:
    """Return the format that was asked for, or else the one that the location suggests."""
    if kind == "group" and arguments.format == "zarr1":
        raise UsageError("Zarr v1 has no groups")
    return format_of(location, kind, format=arguments.format, source=source)


def template_options(arguments: argparse.Namespace, dtype: DataType | None = None) -> dict[str, Any]:
    """Return the options of a new array; `dtype` is that of the source."""
    dtype = arguments.dtype or dtype
    fill_value = arguments.fill_value
    if fill_value is not None:
        fill_value = _fill_value(fill_value) if dtype is None else fill_value_of(fill_value, dtype)
    given = {
        **array_arguments(arguments),
        "checksum": arguments.checksum or None,
        "dtype": arguments.dtype,
        "fill_value": fill_value,
        "dimension_names": arguments.dimension_names,
        "dimension_units": units_of(arguments),
    }
    return array_options(given)


def check_ranks(options: dict[str, Any], rank: int) -> None:
    """Raise UsageError if an option has not one value for each of `rank` dimensions."""
    names = {
        "chunks": "chunk",
        "shards": "shard",
        "dimension_names": "dimension-names",
        "dimension_units": "units",
    }
    for field, name in names.items():
        values = options.get(field)
        if isinstance(values, tuple) and len(values) != rank:
            raise UsageError(f"--{name} has {len(values)} values, but the array has {rank} dimensions")


def _codec(text: str) -> Compressor | JSON:
    codec = parse_codec(text)
    try:
        return parse_compressor(codec) if isinstance(codec, str) else codec
    except InvalidArgumentError as e:
        raise UsageError(f"--codec: {e.message}") from None


def _dtype(text: str) -> DataType:
    try:
        return DataType(text)
    except (ValueError, TypeError) as e:
        raise UsageError(f"--dtype: {e}") from None


def fill_value_of(text: str, dtype: DataType) -> Any:
    """Return the fill value of `dtype` that `text` means: JSON as in Zarr v3 metadata, or a bare word."""
    value = _fill_value(text)
    try:
        return parse_fill_value_zarr3(value, dtype)
    except InvalidArgumentError as e:
        raise UsageError(f'--fill-value: "{text}" is no {dtype.name}: {e.message}') from None


def _fill_value(text: str) -> Any:
    try:
        return parse_json(text)
    except ValueError:
        return _WORDS.get(text.lower(), text)
