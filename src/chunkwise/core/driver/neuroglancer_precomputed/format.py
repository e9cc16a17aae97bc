"""The driver ``neuroglancer_precomputed``: specs, and a scale of a volume for the code for chunked arrays.

A scale is opened, or added to a volume, in the order that makes concurrent creators safe, as in
`chunkwise.core.driver.chunked.flows`, but the document belongs to the volume: a new scale is added
to its scales, on condition that the document is unchanged.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Self

from chunkwise.core.base.binding import JSON, MISSING, Members, dump
from chunkwise.core.base.cached import cached_property
from chunkwise.core.codec.bytes import Bytes
from chunkwise.core.codec.chain import prepare_chain
from chunkwise.core.codec.compressed_segmentation import CompressedSegmentation
from chunkwise.core.codec.pictures import ImagePlanes
from chunkwise.core.codec.protocol import ChunkSpec, Codec
from chunkwise.core.codec.reshape import Transpose
from chunkwise.core.driver.chunked.domain import check_schema
from chunkwise.core.driver.chunked.flows import Opened, OpenRequest, replaced
from chunkwise.core.driver.chunked.format import Format, Metadata
from chunkwise.core.driver.chunked.spec import ChunkedSpec
from chunkwise.core.driver.flow import Flow, Get, Put
from chunkwise.core.driver.neuroglancer_precomputed.chunk_keys import VoxelBoundKeys
from chunkwise.core.driver.neuroglancer_precomputed.constraints import (
    MEMBERS,
    PrecomputedConstraints,
    parse_constraints,
)
from chunkwise.core.driver.neuroglancer_precomputed.members import (
    INFO_KEY,
    Info,
    Scale,
    check_encoding,
    parse_info,
)
from chunkwise.core.driver.neuroglancer_precomputed.schema import (
    constraint_schema,
    find_scale,
    grid_of,
    known_domain,
    morton_keys,
    scale_schema,
    with_new_scale,
)
from chunkwise.core.driver.stored_array import StoredArray
from chunkwise.core.dtypes.data_type import DataType
from chunkwise.core.index_space import IndexDomain
from chunkwise.core.kvstore.protocol import MISSING_GENERATION, UNKNOWN_GENERATION
from chunkwise.core.specs.driver_spec import SpecMembers
from chunkwise.core.specs.schema import Schema
from chunkwise.errors import (
    ChunkwiseError,
    FailedPreconditionError,
    InvalidArgumentError,
    NotFoundError,
    UnsupportedError,
    prefix,
    prefixed,
)

__all__ = ["PrecomputedMetadata", "PrecomputedSpec", "open_scale", "parse_precomputed", "scale_directory"]


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


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class PrecomputedSpec(ChunkedSpec):
    """``{"driver": "neuroglancer_precomputed", "kvstore": …, "scale_index": 1}``."""

    of_a_url: bool = False

    resource_kinds: ClassVar[tuple[str, ...]] = ("cache_pool", "data_copy_concurrency")

    @classmethod
    def take_constraints(cls, format: Format, members: Members) -> PrecomputedConstraints:
        """Take ``scale_index``, ``scale_metadata`` and ``multiscale_metadata``."""
        given = {name: members.take(name, lambda v: v, MISSING) for name in MEMBERS}
        return parse_constraints({name: value for name, value in given.items() if value is not MISSING})

    @property
    def precomputed(self) -> PrecomputedFormat:
        """The format, for the scale that the spec requests."""
        return FORMAT.of(self.constraints, self.schema)

    def own_members(self, include_defaults: bool) -> dict[str, JSON]:
        """Return the members of this class, without those that every spec has."""
        out = super().own_members(include_defaults)
        out.update(out.pop("metadata", {}))
        return out

    def effective_schema(self) -> Schema:
        """Return the schema of constraints and schema together."""
        return self._constraint_schema(self.schema)

    @property
    def rank(self) -> int | None:
        """4: x, y, z and channel."""
        return None if self.of_a_url else 4

    def of_url(self) -> Self:
        """Return a spec without a rank, as in TensorStore."""
        return replace(self, of_a_url=True)

    @cached_property
    def domain(self) -> IndexDomain:
        """Domain, as far as it is known; its bounds can't be resized."""
        return known_domain(self.constraints, self.schema)

    def check_consistent(self) -> None:
        """Raise if the schema contradicts the members."""
        self.schema.copy()._set_rank(4)
        try:
            check_encoding(self.constraints.encoding.name, self.dtype, self.constraints.n_channels)
        except FailedPreconditionError as e:
            error = InvalidArgumentError(e.message)
            raise prefix(error, 'Error parsing object member "scale_metadata"') from None
        self._constraint_schema(Schema(dtype=self.schema.dtype, domain=self.schema.domain))

    def url_suffix(self) -> str:
        """Return ``neuroglancer-precomputed:``."""
        if self.constraints.scale_index:
            raise UnsupportedError(
                "neuroglancer-precomputed URL syntax not supported with non-zero scale_index"
            )
        return "neuroglancer-precomputed:"

    def minimal(self) -> Self:
        """Return the spec with only the number of the scale as constraint."""
        alone = self.format.parse_constraints({})
        return replace(
            self,
            constraints=replace(alone, scale_index=self.constraints.scale_index),
            schema=self.schema.merged(Schema(rank=4, dtype=self.dtype)),
        )

    def with_metadata(self, metadata: Metadata) -> Self:
        """Return the spec of an existing scale, which requires only that scale."""
        spec = super().with_metadata(metadata)
        return replace(spec, schema=Schema(dtype=metadata.dtype, rank=4))

    def open_request(self, path: str, describe: Callable[[str], str]) -> OpenRequest:
        """Return the input of the open flow; the scale is chosen later."""
        return super().open_request(path, describe)._replace(format=self.precomputed)


def parse_precomputed(members: Members, common: SpecMembers) -> PrecomputedSpec:
    """Take the members of a spec of this driver."""
    return PrecomputedSpec.parse(FORMAT, members, common)
