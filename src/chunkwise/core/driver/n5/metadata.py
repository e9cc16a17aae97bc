"""The metadata of one N5 dataset, each member read by one function that knows the rank.

The texts of errors are TensorStore's.

Specification
-------------
N5 README, "File-system specification", item 4; ``axes``, ``units`` and ``resolution`` as TensorStore
and Neuroglancer use them.  All lists are in N5 order, which is the order of the array's dimensions.

Compatibility
-------------
A stored document is read as leniently as by n5-java:

* ``compressionType`` (version 0 metadata) stands in for a missing ``compression``;
* settings of the encoder may be missing, unknown or unusable (`chunkwise.core.codec.n5_parts`);
* an unknown compression makes the blocks unreadable, not the document;
* ``axes``, ``units`` and ``resolution`` in a form other than TensorStore's are plain attributes: N5 gives
  these names no meaning, and all other readers open such a dataset.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple, TypeVar

from chunkwise.core.base.binding import (
    JSON,
    Members,
    expect_array,
    expect_int,
    expect_number,
    expect_object,
    expect_string,
    parse_array,
)
from chunkwise.core.codec.n5_block import N5Block
from chunkwise.core.codec.n5_parts import read_compression
from chunkwise.core.codec.n5_varlength import N5StringBlock
from chunkwise.core.dtypes.data_type import DataType, dtypes
from chunkwise.errors import (
    InvalidArgumentError,
    SpecError,
    UnknownExtensionError,
    UnsupportedError,
    prefixed,
)

__all__ = [
    "DATASET_MEMBERS",
    "ITEM_NBYTES",
    "N5Metadata",
    "array_data_type",
    "block_codec",
    "dtype_of",
    "parse_array_data_type",
    "parse_axes",
    "parse_metadata",
    "parse_ranked",
    "parse_size",
    "spec_members",
    "to_json",
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


def _parse_stored_data_type(value: JSON) -> str:
    """Read a ``dataType`` that n5-java may have written, including ``object``."""
    return "object" if value == "object" else parse_array_data_type(value)


def _check_block_nbytes(block_size: tuple[int, ...], data_type: str) -> None:
    """Raise SpecError if a block would have more than 2^31 bytes before compression."""
    nbytes = ITEM_NBYTES.get(data_type, 1)
    for size in block_size:
        nbytes *= size
    if nbytes > MAX_BLOCK_NBYTES:
        raise SpecError(
            f'"blockSize" of {{{", ".join(map(str, block_size))}}} with data type of {data_type} '
            "exceeds maximum chunk size of 2GB"
        )


_OBJECT = 'N5 data type "object" holds opaque bytes, not an array; its blocks can be read one by one'


class N5Metadata(NamedTuple):
    """Metadata of one dataset."""

    dimensions: tuple[int, ...]  # in elements
    block_size: tuple[int, ...]
    data_type: str  # one of the ten number types, ``string`` or ``object``
    # The ``compression`` object with all defaults filled in; as stored if its type is unknown.
    compression: Mapping[str, JSON]
    axes: tuple[str, ...]  # a label for each dimension, perhaps empty
    units: tuple[str, ...] | None  # base unit of each dimension
    resolution: tuple[float, ...] | None  # multiplier of the unit of each dimension
    attributes: Mapping[str, JSON]  # all other members
    document: dict[str, JSON]  # the whole document as stored

    @property
    def rank(self) -> int:
        """Number of dimensions."""
        return len(self.dimensions)

    @property
    def shared(self) -> tuple[object, ...]:
        """Objects that metadata with other shapes and attributes may share."""
        return self.block_size, self.data_type, self.compression, self.axes, self.units, self.resolution

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of the array: `dimensions`."""
        return self.dimensions

    def with_shape_and_attributes(self, document: dict[str, JSON]) -> N5Metadata | None:
        """Return the metadata of a document with the same template key; None if it must be parsed."""
        dimensions = document["dimensions"]
        if any(type(n) is not int or not 0 <= n < 2**62 for n in dimensions):
            return None
        taken = self.document.keys() - self.attributes.keys()
        attributes = {name: value for name, value in document.items() if name not in taken}
        return self._replace(dimensions=tuple(dimensions), attributes=attributes, document=dict(document))

    def resized(self, shape: tuple[int, ...]) -> N5Metadata:
        """Return the metadata of the dataset with other dimensions; the rest of the document is kept."""
        if len(shape) != self.rank:
            raise SpecError(f"New shape has rank {len(shape)}, but the dataset has rank {self.rank}")
        return self._replace(dimensions=shape, document={**self.document, "dimensions": list(shape)})

    @property
    def dtype(self) -> DataType:
        """Type of the elements; text for ``string``."""
        if self.data_type == "object":
            raise UnsupportedError(_OBJECT)
        return dtype_of(self.data_type)


def parse_metadata(document: JSON) -> N5Metadata:
    """Read a stored document."""
    taken = Members(document)
    dimensions = taken.take("dimensions", parse_ranked(parse_size(0), None))
    rank = len(dimensions)
    block_size = taken.take("blockSize", parse_ranked(parse_size(1), rank))
    data_type = taken.take("dataType", _parse_stored_data_type)
    stored = expect_object(document)
    if "compression" not in stored and "compressionType" in stored:
        version0 = taken.take("compressionType", expect_string)
        compression = _stored_compression({"type": version0})
    else:
        compression = taken.take("compression", _stored_compression)
    _check_block_nbytes(block_size, data_type)

    def lenient(name: str, parse: Callable[[JSON], T]) -> T | None:
        try:
            value = parse(stored[name]) if name in stored else None
        except InvalidArgumentError:
            return None
        taken.take(name, lambda _: None, None)
        return value

    axes = lenient("axes", parse_axes(rank))
    units = lenient("units", parse_ranked(expect_string, rank))
    resolution = lenient("resolution", parse_ranked(expect_number, rank))
    return N5Metadata(
        dimensions=dimensions,
        block_size=block_size,
        data_type=data_type,
        compression=compression,
        axes=axes or ("",) * rank,
        units=units,
        resolution=resolution,
        attributes=taken.rest(),
        document=dict(stored),
    )


def _stored_compression(value: JSON) -> Mapping[str, JSON]:
    try:
        return read_compression(value)[0]
    except UnknownExtensionError:
        return dict(expect_object(value))


def to_json(metadata: N5Metadata) -> dict[str, JSON]:
    """Return the document of a dataset in canonical form, as in TensorStore."""
    out = dict(metadata.attributes)
    out["dimensions"] = list(metadata.dimensions)
    out["blockSize"] = list(metadata.block_size)
    out["dataType"] = metadata.data_type
    out["compression"] = dict(metadata.compression)
    if any(metadata.axes):
        out["axes"] = list(metadata.axes)
    if metadata.units is not None:
        out["units"] = list(metadata.units)
    if metadata.resolution is not None:
        out["resolution"] = list(metadata.resolution)
    return out


def spec_members(metadata: N5Metadata) -> dict[str, JSON]:
    """Return the members for a spec, without axes and units that don't describe the dimensions."""
    plain = {name: value for name, value in metadata.attributes.items() if name not in DATASET_MEMBERS}
    return to_json(metadata._replace(attributes=plain))


def block_codec(metadata: N5Metadata) -> N5Block | N5StringBlock:
    """Return the codec of the dataset's blocks."""
    with prefixed('Error parsing object member "compression"'):
        _, compression = read_compression(metadata.compression)
    if metadata.data_type == "object":
        raise UnsupportedError(_OBJECT)
    return N5StringBlock(compression) if metadata.data_type == "string" else N5Block(compression)
