"""The members of a dataset's metadata, each read by one function that knows the rank.

The texts of errors are TensorStore's.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from chunkwise.core.base.binding import JSON, expect_array, expect_int, expect_string, parse_array
from chunkwise.core.dtypes.data_type import DataType, dtypes
from chunkwise.errors import SpecError

__all__ = [
    "DATASET_MEMBERS",
    "ITEM_NBYTES",
    "MAX_BLOCK_NBYTES",
    "MAX_RANK",
    "array_data_type",
    "check_block_nbytes",
    "dtype_of",
    "parse_array_data_type",
    "parse_axes",
    "parse_ranked",
    "parse_size",
    "parse_stored_data_type",
]

T = TypeVar("T")

MAX_RANK = 32
MAX_BLOCK_NBYTES = 1 << 31
"""Largest uncompressed block, in bytes."""

ITEM_NBYTES = {
    "uint8": 1,
    "uint16": 2,
    "uint32": 4,
    "uint64": 8,
    "int8": 1,
    "int16": 2,
    "int32": 4,
    "int64": 8,
    "float32": 4,
    "float64": 8,
}
"""Numeric data types of N5 datasets, with the size of an element in bytes."""

DATASET_MEMBERS = ("dimensions", "blockSize", "dataType", "compression", "axes", "units", "resolution")
"""Members with a defined meaning; all others are attributes."""


def parse_size(lowest: int) -> Callable[[JSON], int]:
    """Return a parser of one extent in elements, at least `lowest`."""
    return lambda value: expect_int(value, lowest, 2**63 - 2)


def parse_ranked(element: Callable[[JSON], T], rank: int | None) -> Callable[[JSON], tuple[T, ...]]:
    """Return a parser of an array with one value per dimension; `rank` is None if not known yet."""

    def parse(value: JSON) -> tuple[T, ...]:
        n = len(expect_array(value, rank))
        if n > MAX_RANK:
            raise SpecError(f"Rank {n} is outside valid range [0, {MAX_RANK}]")
        return tuple(parse_array(value, element))

    return parse


def parse_axes(rank: int | None) -> Callable[[JSON], tuple[str, ...]]:
    """Return a parser of ``axes``: labels, unique except for the empty one."""

    def parse(value: JSON) -> tuple[str, ...]:
        labels = parse_ranked(expect_string, rank)(value)
        named = [label for label in labels if label]
        twice = sorted({label for label in named if named.count(label) > 1})
        if twice:
            names = ", ".join(f'"{label}"' for label in twice)
            raise SpecError(f"Dimension label(s) {names} not unique")
        return labels

    return parse


def array_data_type(dtype: DataType) -> str:
    """Return the ``dataType`` of an array of `dtype`."""
    if dtype == "ustring":
        return "string"
    if dtype.name in ITEM_NBYTES:
        return dtype.name
    raise SpecError(
        f"{dtype.name} data type is not one of the supported data types: {', '.join(ITEM_NBYTES)}"
    )


def dtype_of(data_type: str) -> DataType:
    """Return the element type of an array; text for ``string``."""
    return dtypes["ustring" if data_type == "string" else data_type]


def parse_array_data_type(value: JSON) -> str:
    """Read a ``dataType`` for arrays: ten types of numbers, and ``string``; case matters."""
    name = expect_string(value)
    if name == "string":
        return name
    if name in dtypes:
        return array_data_type(dtypes[name])
    raise SpecError(f'Unsupported data type: "{name}"')


def parse_stored_data_type(value: JSON) -> str:
    """Read a ``dataType`` that n5-java may have written, including ``object``."""
    return "object" if value == "object" else parse_array_data_type(value)


def check_block_nbytes(block_size: tuple[int, ...], data_type: str) -> None:
    """Raise SpecError if a block would have more than 2^31 bytes before compression."""
    nbytes = ITEM_NBYTES.get(data_type, 1)
    for size in block_size:
        nbytes *= size
    if nbytes > MAX_BLOCK_NBYTES:
        raise SpecError(
            f'"blockSize" of {{{", ".join(map(str, block_size))}}} with data type of {data_type} '
            "exceeds maximum chunk size of 2GB"
        )
