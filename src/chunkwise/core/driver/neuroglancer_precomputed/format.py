"""A scale of a precomputed volume, for the code for chunked arrays.

A scale is opened, or added to a volume, in the order that makes concurrent creators safe, as in
`chunkwise.core.driver.chunked.open_flow`, but the document belongs to the volume: a new scale is added
to its scales, on condition that the document is unchanged.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

from chunkwise.core.base.binding import JSON, Members, dump
from chunkwise.core.codec.bytes import Bytes
from chunkwise.core.codec.chain import prepare_chain
from chunkwise.core.codec.compressed_segmentation import CompressedSegmentation
from chunkwise.core.codec.image_planes import ImagePlanes
from chunkwise.core.codec.protocol import ChunkSpec, Codec
from chunkwise.core.codec.transpose import Transpose
from chunkwise.core.driver.chunked.domain import check_schema
from chunkwise.core.driver.chunked.format import Format
from chunkwise.core.driver.chunked.open_flow import Opened, OpenRequest, replaced
from chunkwise.core.driver.flow import Flow, Get, Put
from chunkwise.core.driver.neuroglancer_precomputed.chunk_keys import VoxelBoundKeys
from chunkwise.core.driver.neuroglancer_precomputed.constraints import (
    PrecomputedConstraints,
    parse_constraints,
)
from chunkwise.core.driver.neuroglancer_precomputed.members import INFO_KEY, Info, Scale, parse_info
from chunkwise.core.driver.neuroglancer_precomputed.schema import (
    constraint_schema,
    find_scale,
    grid_of,
    morton_keys,
    scale_schema,
    with_new_scale,
)
from chunkwise.core.driver.stored_array import StoredArray
from chunkwise.core.dtypes.data_type import DataType
from chunkwise.core.index_space import IndexDomain
from chunkwise.core.kvstore.protocol import MISSING_GENERATION, UNKNOWN_GENERATION
from chunkwise.core.specs.schema import Schema
from chunkwise.errors import (
    ChunkwiseError,
    FailedPreconditionError,
    InvalidArgumentError,
    NotFoundError,
    UnsupportedError,
    prefixed,
)

__all__ = ["FORMAT", "PrecomputedFormat", "PrecomputedMetadata", "open_scale", "scale_directory"]


@dataclass(frozen=True, slots=True, eq=False)
class PrecomputedMetadata:
    """A volume, and the number of the scale that is the array."""

    info: Info
    scale_index: int
    scale: Scale
    chunk: tuple[int, ...]  # in voxels; one of the scale's chunk sizes

    @property
    def document(self) -> dict[str, JSON]:
        """The whole ``info``."""
        return self.info.document

    @property
    def shape(self) -> tuple[int, ...]:
        """Size along x, y, z and the number of channels."""
        return (*self.scale.size, self.info.n_channels)

    @property
    def dtype(self) -> DataType:
        """Type of the elements."""
        return self.info.dtype

    @property
    def shared(self) -> tuple[object, ...]:
        """Only itself: the locations of chunks depend on the size."""
        return (self,)

    def with_shape_and_attributes(self, document: dict[str, JSON]) -> None:
        """Return None: every document is parsed."""
        return

    def resized(self, shape: tuple[int, ...]) -> PrecomputedMetadata:
        """Raise: the size of a scale is fixed."""
        raise UnsupportedError("neuroglancer_precomputed volumes can't be resized")


def scale_directory(key: str) -> str:
    """Return the directory of a scale below that of its volume, with a final "/"."""
    parts = [part for part in key.split("/") if part not in ("", ".")]
    if ".." in parts or key.startswith("/") or "\0" in key:
        raise UnsupportedError(f"Scale key {dump(key)} leads out of the directory of its volume")
    return "".join(part + "/" for part in parts)


@dataclass(frozen=True, slots=True)
class PrecomputedFormat(Format):
    """Scales of precomputed volumes; an open one knows its number."""

    driver: ClassVar[str] = "neuroglancer_precomputed"

    chosen: PrecomputedConstraints = field(default_factory=PrecomputedConstraints)
    schema: Schema | None = None  # the spec's schema, which may select the scale

    def of(self, constraints: PrecomputedConstraints, schema: Schema | None = None) -> PrecomputedFormat:
        """Return the format of the scale in a spec."""
        return replace(self, chosen=constraints, schema=schema)

    def of_scale(self, metadata: PrecomputedMetadata) -> PrecomputedFormat:
        """Return the format of an open scale."""
        return self.of(PrecomputedConstraints(scale_index=metadata.scale_index, chunk_size=metadata.chunk))

    def parse_options(self, members: Members) -> None:
        """Take nothing: the format's own members are constraints."""
        return

    def options_to_json(self, options: None) -> dict[str, JSON]:
        """Return nothing."""
        return {}

    def parse_constraints(self, value: JSON) -> PrecomputedConstraints:
        """Read the format's own members of a spec, as one object."""
        return parse_constraints(value)

    def constraint_schema(self, constraints: PrecomputedConstraints, options: None, schema: Schema) -> Schema:
        """Return the schema of constraints and schema together."""
        return constraint_schema(constraints, schema)

    def metadata_key(self, options: None) -> str:
        """Return ``info``."""
        return INFO_KEY

    def parse_metadata(self, document: JSON) -> PrecomputedMetadata:
        """Read an ``info``, and choose the scale."""
        return self.metadata(parse_info(document))

    def metadata(self, info: Info) -> PrecomputedMetadata:
        """Return the requested scale."""
        self.chosen.check_info(info)
        schema = Schema() if self.schema is None else self.schema
        if schema.dtype is not None and schema.dtype != info.dtype:
            raise FailedPreconditionError(
                f'Expected "data_type" of {dump(schema.dtype.name)} but received: {dump(info.dtype.name)}'
            )
        number = find_scale(info, self.chosen, schema)
        scale = info.scales[number]
        chunks = scale.chunk_sizes
        chunk = self.chosen.chunk_size if self.chosen.chunk_size in chunks else chunks[0]
        assert chunk is not None
        return PrecomputedMetadata(info, number, scale, chunk)

    def last_scale(self, info: Info, number: int | None = None) -> PrecomputedMetadata:
        """Return the last scale of a volume, as scale `number` if given."""
        scale = info.scales[-1]
        number = len(info.scales) - 1 if number is None else number
        return PrecomputedMetadata(info, number, scale, scale.chunk_sizes[0])

    def create(
        self, constraints: PrecomputedConstraints, options: None, schema: Schema
    ) -> PrecomputedMetadata:
        """Choose the metadata of a scale in an unknown volume."""
        info = with_new_scale(None, replace(constraints, scale_index=None), schema)
        return self.last_scale(info, constraints.scale_index or 0)

    def check(
        self,
        metadata: PrecomputedMetadata,
        constraints: PrecomputedConstraints,
        options: None,
        schema: Schema,
    ) -> None:
        """Raise if a scale doesn't match a spec."""
        constraints.check_info(metadata.info)
        constraints.check_scale(metadata.scale)
        if schema.fill_value is not None:
            raise InvalidArgumentError("fill_value not supported by neuroglancer_precomputed format")
        check_schema(self.schema_of(metadata, options), schema)

    def schema_of(self, metadata: PrecomputedMetadata, options: None) -> Schema:
        """Return the schema of a scale."""
        return scale_schema(metadata.info, metadata.scale, metadata.chunk)

    def domain_of(self, metadata: PrecomputedMetadata, options: None) -> IndexDomain:
        """Return the domain of a scale; it begins at ``voxel_offset``."""
        domain = self.schema_of(metadata, options).domain
        assert domain is not None
        return domain

    def metadata_to_json(self, metadata: PrecomputedMetadata) -> dict[str, JSON]:
        """Return the members of a spec that requires this scale."""
        scale, info = metadata.scale, metadata.info
        members = scale.to_json()
        del members["chunk_sizes"]
        return {
            "scale_index": metadata.scale_index,
            "scale_metadata": {
                **members,
                "chunk_size": list(metadata.chunk),
                "sharding": members.get("sharding"),
            },
            "multiscale_metadata": {"type": info.type, "num_channels": info.n_channels},
        }

    def same_but_resized(self, a: PrecomputedMetadata, b: PrecomputedMetadata) -> bool:
        """Return True if the scale is the same in both."""
        return (a.scale, a.chunk, a.info.dtype, a.info.n_channels) == (
            b.scale,
            b.chunk,
            b.info.dtype,
            b.info.n_channels,
        )

    def stored_array(self, metadata: PrecomputedMetadata, prefix: str, options: None) -> StoredArray:
        """Return the scale as stored in its kvstore, or in that of its shards; its origin is 0."""
        scale, info = metadata.scale, metadata.info
        grid = grid_of(scale, metadata.chunk, info.n_channels)
        fill_value = info.dtype.zero()
        keys: Any
        if scale.sharding is None:
            keys = VoxelBoundKeys(prefix + scale_directory(scale.key), grid, scale.voxel_offset)
        else:
            keys = morton_keys(scale.size, metadata.chunk)
        item = ChunkSpec(grid.cell_shape, fill_value.dtype, fill_value)
        return StoredArray(
            shape=metadata.shape,
            dtype=info.dtype,
            fill_value=fill_value,
            grid=grid,
            chain=prepare_chain([Transpose((3, 2, 1, 0)), _serializer(scale)], item),
            keys=keys,
            document=metadata.document,
        )


def _serializer(scale: Scale) -> Codec:
    encoding = scale.encoding
    if encoding.name == "raw":
        return Bytes("little")
    if encoding.name == "compressed_segmentation":
        assert scale.block_size is not None
        return CompressedSegmentation(scale.block_size)
    assert encoding.name is not None
    return ImagePlanes(
        encoding.name, encoding.jpeg_quality if encoding.name == "jpeg" else encoding.png_level
    )


FORMAT = PrecomputedFormat()


def open_scale(request: OpenRequest, format: PrecomputedFormat) -> Flow[Opened]:
    """Open or create the scale described by `request`; `format` belongs to it."""
    mode = request.mode
    if mode.assume_metadata or mode.assume_cached_metadata:
        metadata = format.create(request.constraints, request.options, request.schema)
        return Opened(metadata, UNKNOWN_GENERATION, float("-inf"))
    if mode.delete_existing:
        return (yield from _replaced(request, format))
    while True:
        stamped = yield Get(request.key)
        info = None if stamped.value is None else _read(request, format, bytes(stamped.value))
        if info is not None and mode.open:
            try:
                metadata = format.metadata(info)
            except NotFoundError:
                if not mode.create:
                    raise
            else:
                format.check(metadata, request.constraints, request.options, request.schema)
                return Opened(metadata, stamped.generation, stamped.time)
        if not mode.create:
            raise NotFoundError(f"Metadata at {request.name} does not exist")
        with prefixed(f"Error writing {request.name}", ChunkwiseError):
            after = with_new_scale(info, request.constraints, request.schema)
            metadata = format.last_scale(after)
        if_equal = MISSING_GENERATION if info is None else stamped.generation
        if info is None:
            request.check_place()
        written = yield Put(request.key, format.encode(metadata), if_equal)
        if written is not None:
            return Opened(metadata, written, stamped.time, written=True)


def _replaced(request: OpenRequest, format: PrecomputedFormat) -> Flow[Opened]:
    """Replace everything by a new volume of one scale."""
    now = time.time()
    with prefixed(f"Error writing {request.name}", ChunkwiseError):
        metadata = format.last_scale(with_new_scale(None, request.constraints, request.schema))
        format.of_scale(metadata).stored_array(metadata, request.path, None)  # raises if its codecs fail
    request.check_place()
    generation = yield from replaced(request, {format.metadata_key(None): format.encode(metadata)})
    return Opened(metadata, generation, now, written=True)


def _read(request: OpenRequest, format: PrecomputedFormat, raw: bytes) -> Info:
    try:
        return parse_info(format.parse_document(raw))
    except (ChunkwiseError, ValueError, RecursionError) as e:
        text = e.message if isinstance(e, ChunkwiseError) else str(e)
        raise FailedPreconditionError(f"Error reading {request.name}: {text}") from e
