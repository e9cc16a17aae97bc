"""Values of the options of new arrays, each known to be right or wrong for a source and a format."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from dataclasses import dataclass
from random import Random
from typing import Any

import numcodecs
import numpy as np
import zarr.codecs
from destinations.request_model import FORMATS

CODECS = {  # as text, with the names in each format
    "none": {"zarr3": None, "zarr2": None, "n5": "raw"},
    "gzip:3": {"zarr3": "gzip", "zarr2": "gzip", "n5": "gzip"},
    "zstd:2": {"zarr3": "zstd", "zarr2": "zstd", "n5": "zstd"},
    "blosc:lz4:4:shuffle": {"zarr3": "blosc", "zarr2": "blosc", "n5": "blosc"},
    "zlib:4": {"zarr3": "numcodecs.zlib", "zarr2": "zlib", "n5": "gzip"},
    "bz2:4": {"zarr3": "numcodecs.bz2", "zarr2": "bz2", "n5": "bzip2"},
}


@dataclass(frozen=True)
class Source:
    """What is copied or written."""

    format: str
    values: np.ndarray[Any, Any]
    chunks: tuple[int, ...]
    shards: tuple[int, ...] | None
    names: tuple[str | None, ...]
    attributes: dict[str, Any]
    written: int  # rows; the others are missing


@dataclass(frozen=True)
class Option:
    """A value of an option."""

    name: str
    value: Any
    right: bool | None  # None: perhaps
    text: str | None = None  # in a command
    expect: Any = None  # what the document says then

    def __repr__(self) -> str:
        kind = {True: "right", False: "wrong", None: "?"}[self.right]
        return f"{self.name}={self.value!r} ({kind})"


def _sizes_text(sizes: Any) -> str:
    return ",".join(map(str, sizes)) if isinstance(sizes, tuple) else str(sizes)


def _chunks(random: Random, source: Source, format: str) -> Option:
    shape, rank = source.values.shape, source.values.ndim
    kind = random.choice(("each", "each", "one", "whole", "auto", "names", "wrong"))
    if kind == "each":
        sizes = tuple(random.randint(1, max(1, n + 1)) for n in shape)
        return Option("chunks", sizes, True, _sizes_text(sizes) if rank else None, sizes)
    if kind == "one":
        return Option("chunks", 3, True, "3", (3,) * rank)
    if kind == "whole":
        whole = tuple(max(1, n) for n in shape)
        return Option("chunks", -1, True, "-1", whole)
    if kind == "auto":
        return Option("chunks", "auto", True, "auto")
    if kind == "names" and rank and all(source.names) and len(set(source.names)) == rank:
        sizes = {str(name): 2 for name in source.names}
        text = ",".join(f"{name}=2" for name in sizes)
        return Option("chunks", sizes, None, text, (2,) * rank)
    value = random.choice(
        ((2,) * (rank + 1), 0, -2, "x", 1.5, {"nowhere": 2}, (0,) * max(1, rank), b"x", [[2]])
    )
    text = _sizes_text(value) if isinstance(value, int | tuple) or value == "x" else None
    return Option("chunks", value, False, text)


def _shards(random: Random, source: Source, format: str) -> Option:
    rank = source.values.ndim
    value = random.choice(
        (None, False, "auto", -1, 6, (6,) * rank, (6,) * (rank + 1), 0, "x", 2.5, {"nowhere": 4})
    )
    if value is None or value is False:
        return Option("shards", value, True, "none")
    text = _sizes_text(value) if isinstance(value, int | tuple) or value in ("x", "auto") else None
    if text == "":
        text = None
    if format != "zarr3" or value in (0, "x", 2.5) or isinstance(value, dict):
        return Option("shards", value, False, text)
    if isinstance(value, tuple) and len(value) != rank:
        return Option("shards", value, False, text)
    return Option("shards", value, None, text)


def _codec(random: Random, source: Source, format: str) -> Option:
    other = FORMATS[(FORMATS.index(format) + 1) % 3]
    own: dict[str, Any] = {
        "zarr3": {"name": "gzip", "configuration": {"level": 3}},
        "zarr2": {"id": "gzip", "level": 3},
        "n5": {"type": "gzip", "level": 3},
    }
    bad: dict[str, Any] = {
        "zarr3": {"name": "gzip", "configuration": {"level": 99}},
        "zarr2": {"id": "gzip", "level": 99},
        "n5": {"type": "gzip", "level": 99},
    }
    kind = random.choice(("text", "text", "own", "other", "object", "zarr", "bad", "wrong"))
    if kind == "text":
        text = random.choice(list(CODECS))
        return Option("codec", text, True, text, (CODECS[text][format],))
    if kind == "own":
        return Option("codec", own[format], True, json.dumps(own[format]), ("gzip",))
    if kind == "other":
        return Option("codec", own[other], True, json.dumps(own[other]), ("gzip",))
    if kind == "object":
        return Option("codec", numcodecs.GZip(level=3), True, None, ("gzip",))
    if kind == "zarr":
        return Option("codec", zarr.codecs.GzipCodec(level=3), True, None, ("gzip",))
    if kind == "bad":
        value = random.choice((bad[format], bad[other], "gzip:99", "zstd:x", "blosc:nope:1:shuffle"))
        return Option("codec", value, False, value if isinstance(value, str) else json.dumps(value))
    value = random.choice(
        (False, 7, "nope", {"name": 5}, {}, object(), [1], b"gzip", {"id": "nope"}, "gzip:3:4")
    )
    text = value if isinstance(value, str) else json.dumps(value) if isinstance(value, dict) else None
    return Option("codec", value, False, text)


def _fill_value(random: Random, source: Source, format: str) -> Option:
    dtype = source.values.dtype
    value = random.choice((0, 1, 7, -1, 300, 1.5, float("nan"), "x", [1, 2], object(), 1 << 70, True, b"x"))
    text = str(value) if isinstance(value, int | float | str) and not isinstance(value, bool) else None
    if isinstance(value, str | list | bytes) or type(value) is object:
        return Option("fill_value", value, False if dtype.kind in "uif" else None, text)
    if format == "n5":
        return Option("fill_value", value, None, text)  # it has none but zero
    if dtype.kind in "ui":
        info = np.iinfo(dtype)
        exact = (
            not isinstance(value, bool)
            and value == value
            and value % 1 == 0
            and info.min <= value <= info.max
        )
        return Option("fill_value", value, None if isinstance(value, bool) else exact, text, value)
    if dtype.kind == "f":
        right = None if isinstance(value, bool) or value == 1 << 70 else True
        return Option("fill_value", value, right, text, value)
    return Option("fill_value", value, None, text)


def _names(random: Random, source: Source, format: str) -> Option:
    rank = source.values.ndim
    if random.random() < 0.6:
        names = [random.choice("abcdefgh") + str(at) for at in range(rank)]
        return Option("dimension_names", names, True, ",".join(names) if rank else None, names)
    value = random.choice(
        (
            ["a"] * (rank + 1),
            5,
            [1] * max(1, rank),
            b"ab",
            ["\ud800"] * max(1, rank),
            {"a": 1},
            ["a"] * max(0, rank - 1),
        )
    )
    if value == [] and not rank:
        return Option("dimension_names", [], True, None, [])
    text = ",".join(value) if isinstance(value, list) and len(value) > rank and value[0] == "a" else None
    return Option("dimension_names", value, False, text)


def _units(random: Random, source: Source, format: str) -> Option:
    rank = source.values.ndim
    if random.random() < 0.6:
        return Option("dimension_units", ["4 nm"] * rank, True, ",".join(["4 nm"] * rank) if rank else None)
    value = random.choice(
        (["nm"] * (rank + 1), 5, [object()] * max(1, rank), [math.inf] * max(1, rank), "nm")
    )
    text = ",".join(value) if isinstance(value, list) and value[0] == "nm" else None
    return Option("dimension_units", value, False, text)


def _dtype(random: Random, source: Source, format: str) -> Option:
    value = random.choice(
        ("float64", "f8", np.dtype("<f8"), "int64", "nope", 5, "u3", object(), "uint8", "S3")
    )
    dtype = source.values.dtype
    text = value if isinstance(value, str) else None
    if value in ("float64", "f8", np.dtype("<f8")):
        right = True if (dtype.kind in "ui" and dtype.itemsize < 8) or dtype.kind == "f" else None
        return Option("dtype", value, right, text, "float64")
    if value == "int64" and dtype.kind in "ui" and dtype.itemsize < 8:
        return Option("dtype", value, True, text, "int64")
    if isinstance(value, str) and value in ("int64", "uint8", "S3"):
        return Option("dtype", value, None, text)
    return Option("dtype", value, False, text)


def _checksum(random: Random, source: Source, format: str) -> Option:
    value = random.choice((True, False, "no", 2))
    return Option("checksum", value, None if value is True else value is False, "" if value is True else None)


def _attributes(random: Random, source: Source, format: str) -> Option:
    value: Any = random.choice(
        (
            {"q": [1, {"w": "é"}]},
            {},
            {"q": np.int64(3)},
            "x",
            [1],
            {"a": object()},
            {1: 2},
            {"a": math.nan},
            {"\udc00": 1},
        )
    )
    wrong = not isinstance(value, dict) or value.keys() & {"a", 1, "\udc00"}
    expect = None if wrong else json.loads(json.dumps(value, default=int))
    text = value if isinstance(value, str) else json.dumps(value, default=int) if not wrong else None
    return Option("attributes", value, not wrong, text, expect)


DRAWN: dict[str, Callable[[Random, Source, str], Option]] = {
    "chunks": _chunks,
    "shards": _shards,
    "codec": _codec,
    "fill_value": _fill_value,
    "dimension_names": _names,
    "dimension_units": _units,
    "dtype": _dtype,
    "checksum": _checksum,
    "attributes": _attributes,
}
FLAGS = {
    "chunks": "--chunk",
    "shards": "--shard",
    "dimension_names": "--dimension-names",
    "dimension_units": "--units",
    "fill_value": "--fill-value",
}
