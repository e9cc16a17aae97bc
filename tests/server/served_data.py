"""Arrays in five formats and twelve data types, and the values that are in them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

import chunkwise

FORMATS = ("zarr3", "zarr3-sharded", "zarr2", "zarr1", "n5")
DTYPES = (
    "bool", "int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64",
    "float16", "float32", "float64",
)  # fmt: skip
SHAPE = (21, 18, 13)
CHUNKS = (8, 8, 4)

_ZARR1 = ("compression", "compression_opts")
_CODECS: dict[str, list[Any]] = {
    "zarr3": ["zstd:3", "gzip:1", "blosc:lz4:5:shuffle", "bz2", "xz", "lz4", "none"],
    "zarr2": ["zstd:3", "zlib:1", "blosc:zstd:5:bitshuffle", "bz2", "xz", "lz4", "none"],
    "zarr1": ["zlib:1", "blosc:lz4:5:shuffle", "bz2"],
    "n5": ["gzip:1", "bz2", "xz", "lz4", "none", "zstd:3"],
}


def values_of(dtype: str, shape: tuple[int, ...] = SHAPE) -> np.ndarray:
    """Return values over the whole range of a type, with a missing chunk in the corner."""
    rng = np.random.default_rng(len(dtype) * 31 + ord(dtype[0]))
    if dtype == "bool":
        out = rng.integers(0, 2, shape).astype(bool)
    elif dtype.startswith("float"):
        out = rng.normal(0, 100, shape).astype(dtype)
    else:
        limits = np.iinfo(dtype)
        out = rng.integers(limits.min, limits.max, shape, dtype=dtype, endpoint=True)
    out[tuple(slice(0, n) for n in CHUNKS)] = 0
    return out


def has_dtype(format: str, dtype: str) -> bool:
    """Return False for the types that N5 lacks."""
    return format != "n5" or dtype not in ("bool", "float16")


def write_tree(place: Path, format: str) -> dict[str, np.ndarray]:
    """Write a tree with an array of each type, each with another codec, and return the values by name."""
    written = {t: values_of(t) for t in DTYPES if has_dtype(format, t)}
    for dtype, values in written.items():
        write_array(place, format, dtype, values)
    return written


def write_array(place: Path, format: str, dtype: str, values: np.ndarray) -> None:
    """Write the array of a type, with a codec of its own, into a tree."""
    base = format.partition("-")[0]
    group = chunkwise.open_group(place, "a", format=base if base != "zarr1" else "zarr2")
    number = [t for t in DTYPES if has_dtype(format, t)].index(dtype)
    codec = _CODECS[base][number % len(_CODECS[base])]
    if base == "zarr1":
        spec = {"driver": "zarr1", "kvstore": {"driver": "file", "path": f"{place}/{dtype}/"}}
        compression = {"zlib:1": ("zlib", 1), "bz2": ("bz2", 1)}.get(codec, ("zlib", 5))
        metadata = {
            "chunks": list(CHUNKS),
            "compression": compression[0],
            "compression_opts": compression[1],
        }
        chunkwise.open(
            {**spec, "metadata": metadata}, create=True, dtype=dtype, shape=values.shape
        ).result().write(values).result()
    else:
        shards = {"shards": tuple(2 * n for n in CHUNKS)} if format == "zarr3-sharded" else {}
        group.create_array(dtype, values, chunks=CHUNKS, codec=codec, **shards)
