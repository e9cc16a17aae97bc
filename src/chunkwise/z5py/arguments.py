"""Arguments as z5py takes them: indices without steps; compressors by z5py's names and options.

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

import operator
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from chunkwise.copying.codec_option import (
    CNAMES,
    SHUFFLES,
    Compressor,
    compressor_from_json,
    compressor_to_json,
)
from chunkwise.errors import InvalidArgumentError, OutOfBoundsError
from chunkwise.extension.inside import positions
from chunkwise.extension.trees import tree_format

__all__ = [
    "DEFAULTS",
    "NAMES",
    "Region",
    "check_region",
    "codec_json",
    "compression_of",
    "fit",
    "parse_index",
    "parse_slices",
]


class IndexOutOfRangeError(ValueError, IndexError):
    """An integer outside of the dataset: ValueError for z5py's users, IndexError for loops over a dataset."""


class Region(NamedTuple):
    """A box of elements."""

    start: tuple[int, ...]
    shape: tuple[int, ...]
    squeezed: tuple[int, ...] = ()  # dimensions that an integer selects from

    @property
    def slices(self) -> tuple[slice, ...]:
        """The box as an index."""
        return tuple(slice(a, a + n) for a, n in zip(self.start, self.shape, strict=True))

    @property
    def result_shape(self) -> tuple[int, ...]:
        """Shape without the dimensions that an integer selects from."""
        return tuple(n for dim, n in enumerate(self.shape) if dim not in self.squeezed)


def parse_index(index: Any, shape: Sequence[int]) -> Region:
    """Return the region that an index selects.

    >>> parse_index((2, slice(-3, None)), (4, 10))
    Region(start=(2, 7), shape=(1, 3), squeezed=(0,))
    """
    terms = index if isinstance(index, tuple) else (index,)
    n_ellipses = sum(term is Ellipsis for term in terms)
    if n_ellipses > 1:
        raise ValueError("only one ellipsis may be used")
    if len(terms) - n_ellipses > len(shape):
        raise TypeError(f"{len(terms) - n_ellipses} indices for {len(shape)} dimensions")
    # z5py knows fewer kinds of terms than NumPy, and has its own exceptions; those it knows mean the same.
    for term in terms:
        if isinstance(term, slice):
            if term.step not in (None, 1):
                raise ValueError(f"slices with steps are not supported, got {term}")
        elif term is not Ellipsis and (isinstance(term, bool) or not isinstance(term, int | np.integer)):
            raise TypeError(
                "only integers, slices (`:`) and an ellipsis (`...`) are valid indices, "
                f"not {type(term).__name__}"
            )
    try:
        found: Sequence[Any] = positions(terms, shape)
    except OutOfBoundsError as e:
        raise IndexOutOfRangeError(str(e)) from None
    starts = tuple(part.start if isinstance(part, range) else part for part in found)
    sizes = tuple(len(part) if isinstance(part, range) else 1 for part in found)
    return Region(starts, sizes, tuple(dim for dim, part in enumerate(found) if not isinstance(part, range)))


def parse_slices(selection: Any, shape: Sequence[int]) -> Region:
    """Return the region that slices, one for each dimension, select; by default all."""
    if selection is None:
        return Region((0,) * len(shape), tuple(shape))
    slices = (selection,) if isinstance(selection, slice) else tuple(selection)
    if len(slices) != len(shape) or not all(isinstance(part, slice) for part in slices):
        raise TypeError(f"expected a slice for each of {len(shape)} dimensions, got {selection!r}")
    for dim, (part, size) in enumerate(zip(slices, shape, strict=True)):
        if part.stop is not None and part.stop > size:
            raise RuntimeError(f"{part} is out of range: dimension {dim} has {size} elements")
    return parse_index(slices, shape)


def check_region(start: Sequence[int], shape: Sequence[int], bounds: Sequence[int]) -> Region:
    """Return a region; raise RuntimeError if it is empty or outside of `bounds`."""
    region = Region(tuple(map(operator.index, start)), tuple(map(operator.index, shape)))
    if not len(region.start) == len(region.shape) == len(bounds):
        raise RuntimeError(f"the region doesn't have the {len(bounds)} dimensions of the dataset")
    if any(n < 0 for n in region.shape):
        raise ValueError(f"the region begins after its end: its shape would be {region.shape}")
    if 0 in region.shape:
        raise RuntimeError(f"the region is empty: its shape is {region.shape}")
    for dim, (a, n, bound) in enumerate(zip(region.start, region.shape, bounds, strict=True)):
        if a < 0 or a + n > bound:
            raise RuntimeError(f"the region {a}:{a + n} is out of range (0:{bound}) in dimension {dim}")
    return region


def fit(values: npt.NDArray[Any], region: Region) -> npt.NDArray[Any]:
    """Return `values` in the shape of the region; leading dimensions of size 1 don't count."""
    if values.ndim == 0:
        return np.broadcast_to(values, region.shape)
    shapes = (region.shape, region.result_shape)
    if values.shape in shapes or _trimmed(values.shape) in map(_trimmed, shapes):
        return values.reshape(region.shape)
    raise ValueError(f"values of shape {values.shape} don't fit a region of shape {region.result_shape}")


def _trimmed(shape: tuple[int, ...]) -> tuple[int, ...]:
    first = next((dim for dim, n in enumerate(shape) if n != 1), len(shape))
    return shape[first:]


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
