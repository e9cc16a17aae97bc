"""The ``zarr.json`` of an array: parsed, checked, and written back without loss.

Specification: Zarr core v3.1, "Array metadata", "Extensions".
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from chunkwise.core.base.binding import (
    JSON,
    Members,
    dump,
    expect_array,
    expect_int,
    expect_object,
    expect_one_of,
    expect_string,
    parse_array,
)
from chunkwise.core.base.catalogue import grids, key_encodings
from chunkwise.core.chunk_key import KeyEncoding
from chunkwise.core.codec.chain import Chain, parse_codecs, prepare_chain
from chunkwise.core.codec.protocol import ChunkSpec, Codec
from chunkwise.core.driver.chunked.documents import usual_form
from chunkwise.core.driver.chunked.record import Field
from chunkwise.core.driver.zarr3.codec_constraints import (
    check_byte_order,
    check_stored,
    parse_chain,
    resolve_chain,
    split_chain,
)
from chunkwise.core.dtypes.data_type import DataType
from chunkwise.core.dtypes.zarr3 import fill_value_to_zarr3, parse_fill_value_zarr3, parse_zarr3
from chunkwise.core.grid import ChunkGrid, RectilinearGrid
from chunkwise.errors import ChunkwiseError, SpecError, UnsupportedError, prefixed

__all__ = [
    "Zarr3Metadata",
    "array_to_bytes_name",
    "check_ignorable",
    "check_transformers",
    "chunk_item",
    "first_chunk_shape",
    "make_document",
    "parse_dimension_name",
    "parse_extension",
    "parse_grid",
    "parse_key_encoding",
    "parse_metadata",
    "raw_element",
    "record_chain",
]


class Zarr3Metadata(NamedTuple):
    """An array's metadata document and its meaning."""

    # The document as stored, including members unknown to chunkwise, except that a chunk size of 0 becomes 1.
    document: dict[str, JSON]
    shape: tuple[int, ...]
    dtype: DataType
    grid: ChunkGrid
    keys: KeyEncoding  # with an empty path prefix
    fill_value: npt.NDArray[Any]  # of shape ``()``
    codecs: tuple[Codec, ...]  # bound to the data type
    # The codecs as JSON, with the document's names, and with options that it leaves out.
    chain: list[dict[str, JSON]]
    dimension_names: tuple[str | None, ...]
    attributes: dict[str, JSON]

    @property
    def rank(self) -> int:
        """Number of dimensions."""
        return len(self.shape)

    @property
    def shared(self) -> tuple[object, ...]:
        """Objects that metadata with other shapes and attributes may share."""
        return self.dtype, self.grid, self.keys, self.fill_value, self.codecs, self.dimension_names

    def with_shape_and_attributes(self, document: dict[str, JSON]) -> Zarr3Metadata | None:
        """Return the metadata of a document that differs only in shape and attributes; None if in doubt."""
        shape, attributes = document.get("shape"), document.get("attributes", {})
        if type(shape) is not list or len(shape) != self.rank or type(attributes) is not dict:
            return None
        if any(type(n) is not int or not 0 <= n < 2**62 for n in shape):
            return None
        if document.get("chunk_grid") != self.document["chunk_grid"]:
            return None
        _check_reach(self.grid, tuple(shape))
        return self._replace(shape=tuple(shape), document=usual_form(document), attributes=dict(attributes))

    def resized(self, shape: tuple[int, ...]) -> Zarr3Metadata:
        """Return the metadata of the array with another shape; a grid that ends before gets another cell."""
        document = {**self.document, "shape": list(shape)}
        grid = self.grid
        if isinstance(grid, RectilinearGrid) and (longer := grid.reaching(shape)) != grid:
            document["chunk_grid"] = {**document["chunk_grid"], "configuration": longer.to_json()}
            grid = longer
        return self._replace(shape=shape, grid=grid, document=document)

    def with_attributes(self, attributes: Mapping[str, JSON]) -> Zarr3Metadata:
        """Return the metadata with other user attributes."""
        document = {**self.document, "attributes": dict(attributes)}
        if not attributes:
            del document["attributes"]
        return self._replace(attributes=dict(attributes), document=document)


def parse_metadata(document: JSON) -> Zarr3Metadata:
    """Read a stored document."""
    document = usual_form(expect_object(document))
    members = Members(document)
    members.take("zarr_format", lambda v: expect_int(v, 3, 3))
    members.take("node_type", lambda v: expect_one_of(v, ("array",)))
    shape = tuple(members.take("shape", lambda v: parse_array(v, lambda n: expect_int(n, 0))))
    rank = len(shape)
    dtype = members.take("data_type", parse_zarr3)
    grid, grid_json = members.take("chunk_grid", lambda v: _parse_cells(v, shape))
    _check_reach(grid, shape)
    keys = members.take("chunk_key_encoding", parse_key_encoding)
    fill_value = members.take("fill_value", lambda v: _parse_fill_value(v, dtype))
    chain = members.take("codecs", parse_chain)
    item = chunk_item(grid, fill_value)
    with prefixed('Error parsing object member "codecs"'):
        check_stored(chain)
        resolved = resolve_chain(chain, item, array_to_bytes_name(dtype))
        if type(document["data_type"]) is str or document["data_type"]["name"] != "structured":
            check_byte_order(chain, resolved.json)
    attributes = members.take("attributes", lambda v: dict(expect_object(v)), {})
    names = members.take("dimension_names", lambda v: parse_array(v, parse_dimension_name, rank), None)
    members.take("storage_transformers", check_transformers, None)
    check_ignorable(members.rest())
    return Zarr3Metadata(
        document={**document, "chunk_grid": grid_json},
        shape=shape,
        dtype=dtype,
        grid=grid,
        keys=keys,
        fill_value=fill_value,
        codecs=resolved.codecs,
        chain=resolved.json,
        dimension_names=tuple(names) if names is not None else (None,) * rank,
        attributes=attributes,
    )


def _parse_fill_value(value: JSON, dtype: DataType) -> npt.NDArray[Any]:
    """Return the fill value; null, which GDAL writes, is zero unless an extension defines it."""
    if value is None and dtype.extension is None:
        return dtype.zero()
    return parse_fill_value_zarr3(value, dtype)


def make_document(
    *,
    shape: tuple[int, ...],
    dtype: DataType,
    data_type: JSON,
    chunk_grid: JSON,
    chunk_key_encoding: JSON,
    fill_value: npt.NDArray[Any],
    codecs: JSON,
    dimension_names: JSON,
    attributes: Mapping[str, JSON],
    extra: Mapping[str, JSON],
) -> dict[str, JSON]:
    """Return the document of a new array; optional members only if they aren't at their default."""
    document: dict[str, JSON] = {
        "zarr_format": 3,
        "node_type": "array",
        "shape": list(shape),
        "data_type": data_type,
        "chunk_grid": chunk_grid,
        "chunk_key_encoding": chunk_key_encoding,
        "fill_value": fill_value_to_zarr3(fill_value, dtype, data_type),
        "codecs": codecs,
    }
    if dimension_names is not None:
        document["dimension_names"] = dimension_names
    if attributes:
        document["attributes"] = dict(attributes)
    document.update(extra)
    return document


def parse_extension(value: JSON) -> tuple[str, Mapping[str, JSON]]:
    """Read the name and configuration of an extension object or short-hand name."""
    if isinstance(value, str):
        return value, {}
    members = Members(value)
    name = members.take("name", expect_string)
    configuration = members.take("configuration", expect_object, {})
    members.take("must_understand", lambda v: expect_one_of(v, (True,)), True)
    members.finish()
    return name, configuration


def parse_grid(value: JSON, rank: int | None) -> ChunkGrid:
    """Read a ``chunk_grid``; its rank must be `rank` unless that is unknown."""
    name, configuration = parse_extension(value)
    grid: ChunkGrid = grids.find(name, "zarr3").parse(configuration)
    if rank is not None and grid.rank != rank:
        raise SpecError(f"Expected a chunk grid of rank {rank}, but received one of rank {grid.rank}")
    return grid


def _parse_cells(value: JSON, shape: tuple[int, ...]) -> tuple[ChunkGrid, JSON]:
    """Read the grid of an array; a size of 0, which some write for dimensions of length 0, becomes 1."""
    name, configuration = parse_extension(value)
    sizes = configuration.get("chunk_shape")
    if name == "regular" and isinstance(sizes, list) and 0 in sizes and len(sizes) == len(shape):
        cells = [1 if n == size == 0 else n for n, size in zip(sizes, shape, strict=True)]
        value = {"name": name, "configuration": {**configuration, "chunk_shape": cells}}
    return parse_grid(value, len(shape)), value


def parse_key_encoding(value: JSON) -> KeyEncoding:
    """Read a ``chunk_key_encoding``."""
    name, configuration = parse_extension(value)
    keys: KeyEncoding = key_encodings.find(name, "zarr3")(configuration)
    return keys


def _check_reach(grid: ChunkGrid, shape: tuple[int, ...]) -> None:
    """Raise unless `grid`, which may be rectilinear, reaches the end of an array of `shape`."""
    with prefixed('Error parsing object member "chunk_grid"', ChunkwiseError):
        for dim, size in enumerate(shape):
            grid.n_cells(dim, size)


def parse_dimension_name(value: JSON) -> str | None:
    """Read the name of one dimension, or null."""
    return None if value is None else expect_string(value)


def check_ignorable(members: Mapping[str, JSON]) -> None:
    """Raise for members that the specification doesn't define, unless they can be ignored."""
    for name, value in members.items():
        if not (isinstance(value, Mapping) and value.get("must_understand") is False):
            raise SpecError(
                f'Unsupported metadata field {dump(name)} is not marked {{"must_understand": false}}'
            )


def check_transformers(value: JSON) -> None:
    """Raise for a storage transformer that can't be ignored."""
    for item in expect_array(value):
        if not (isinstance(item, Mapping) and item.get("must_understand") is False):
            raise SpecError(f"No storage transformers supported, but received: {dump(item)}")


ARRAY_TO_BYTES = {"ustring": "vlen-utf8", "string": "vlen-bytes"}


def array_to_bytes_name(dtype: DataType) -> str:
    """Return the name of the array -> bytes codec for new arrays of `dtype`."""
    return ARRAY_TO_BYTES.get(dtype.name, "bytes")


def chunk_item(grid: ChunkGrid, fill_value: npt.NDArray[Any]) -> ChunkSpec:
    """Return the description of a chunk for its codecs; the first one for a grid of unequal cells."""
    return ChunkSpec(grid.chunk_shape or first_chunk_shape(grid), fill_value.dtype, fill_value)


def first_chunk_shape(grid: ChunkGrid) -> tuple[int, ...]:
    """Return the shape of the cell at the origin of a grid."""
    bounds = (grid.bounds(dim, 0) for dim in range(grid.rank))
    return tuple(stop - start for start, stop in bounds)


def _byte_order(chain: list[dict[str, JSON]]) -> str:
    """Return "<" or ">", the byte order of a codec chain in JSON."""
    codec = split_chain(chain).array_to_bytes
    if codec is None:
        return "<"
    options = codec.get("configuration", {})
    if codec["name"] == "sharding_indexed":
        return _byte_order(options.get("codecs", []))
    return ">" if options.get("endian") == "big" else "<"


def raw_element(chain: list[dict[str, JSON]], fill: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Return the stored bytes of an element."""
    order: Any = _byte_order(chain)
    stored = fill.dtype
    if stored.names is not None and stored.fields is not None:
        stored = np.dtype([(name, stored.fields[name][0].newbyteorder(order)) for name in stored.names])
    elif stored.isbuiltin != 2:
        stored = stored.newbyteorder(order)
    raw = fill.astype(stored).tobytes()
    return np.ndarray((), f"V{len(raw)}", raw)


def record_chain(chain: list[dict[str, JSON]], item: ChunkSpec, field: Field) -> Chain:
    """Return the codec chain for chunks of the elements that contain a field."""
    if field.name is None:
        _check_raw(chain)
        raw = raw_element(chain, item.fill_value)
        item = ChunkSpec(item.shape, raw.dtype, raw)
    return prepare_chain(parse_codecs(chain), item)


def _check_raw(chain: list[dict[str, JSON]]) -> None:
    split = split_chain(chain)
    for codec in [*split.array_to_array, *([] if split.array_to_bytes is None else [split.array_to_bytes])]:
        if codec["name"] not in ("bytes", "sharding_indexed", "transpose"):
            raise UnsupportedError(
                f'"open_as_void" needs elements that codec "{codec["name"]}" does not keep'
            )
    if split.array_to_bytes is not None and split.array_to_bytes["name"] == "sharding_indexed":
        _check_raw(split.array_to_bytes.get("configuration", {}).get("codecs", []))
