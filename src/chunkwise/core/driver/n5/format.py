"""The N5 format, for the code for chunked arrays."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar, NamedTuple

from chunkwise.core.base.binding import JSON, Members, expect_bool
from chunkwise.core.chunk_key.key_encoding import KeyEncoding
from chunkwise.core.codec.chain import prepare_chain
from chunkwise.core.codec.protocol import ChunkSpec
from chunkwise.core.driver.chunked.domain import domain_of_shape
from chunkwise.core.driver.chunked.format import Format
from chunkwise.core.driver.chunked.spec import ChunkedSpec
from chunkwise.core.driver.n5.constraints import N5Constraints, constraints_to_json, parse_constraints
from chunkwise.core.driver.n5.metadata import (
    N5Metadata,
    block_codec,
    parse_metadata,
    resize,
    spec_members,
    template_key,
    without_attributes,
)
from chunkwise.core.driver.n5.schema import check_metadata, constraint_schema, create_metadata, schema_of
from chunkwise.core.driver.n5.tree import (
    ATTRIBUTES_KEY,
    check_version,
    container_key,
    dump_document,
    is_dataset,
    is_marker,
    load_document,
)
from chunkwise.core.driver.stored_array import StoredArray
from chunkwise.core.grid.regular import RegularGrid
from chunkwise.core.index_space import IndexDomain
from chunkwise.core.specs.schema import Schema
from chunkwise.core.specs.spec_members import SpecMembers

__all__ = ["N5Format", "N5Options", "parse_n5", "to_stored_array"]


class N5Options(NamedTuple):
    """Members of a spec that are specific to N5."""

    # True if blocks at the edges are cropped to the dataset, as in n5-java and z5py, instead of padded, as in
    # TensorStore.  All of them read both.
    crop_end_blocks: bool = False


class N5Format(Format):
    """Datasets of N5 containers."""

    driver: ClassVar[str] = "n5"
    contained: ClassVar[bool] = True

    def parse_options(self, members: Members) -> N5Options:
        """Take ``crop_end_blocks``."""
        return N5Options(members.take("crop_end_blocks", expect_bool, False))

    def options_to_json(self, options: N5Options) -> dict[str, JSON]:
        """Return the members that aren't at their default."""
        return {"crop_end_blocks": True} if options.crop_end_blocks else {}

    def parse_constraints(self, value: JSON) -> N5Constraints:
        """Read the ``metadata`` member of a spec."""
        return parse_constraints(value)

    def constraints_to_json(self, constraints: N5Constraints) -> dict[str, JSON]:
        """Return the ``metadata`` member of a spec."""
        return constraints_to_json(constraints)

    def constraint_schema(self, constraints: N5Constraints, options: N5Options, schema: Schema) -> Schema:
        """Return the schema of constraints and schema together."""
        return constraint_schema(constraints, schema)

    def metadata_key(self, options: N5Options) -> str:
        """Return ``attributes.json``."""
        return ATTRIBUTES_KEY

    def parse_document(self, raw: bytes) -> JSON:
        """Read the stored bytes as JSON."""
        return load_document(raw)

    def is_array(self, document: JSON) -> bool:
        """Return True if a document is that of a dataset, not of a group."""
        return is_dataset(document)

    def parse_metadata(self, document: JSON) -> N5Metadata:
        """Read an ``attributes.json``; its compression must be known."""
        metadata = parse_metadata(document)
        block_codec(metadata)
        return metadata

    def template_key(self, document: JSON) -> JSON | None:
        """Return the members other than attributes, with the rank in place of dimensions."""
        return template_key(document)

    def without_attributes(self, metadata: N5Metadata) -> N5Metadata:
        """Return the metadata with only the members needed to read chunks."""
        return without_attributes(metadata)

    def create(self, constraints: N5Constraints, options: N5Options, schema: Schema) -> N5Metadata:
        """Choose the metadata of a new dataset."""
        return create_metadata(constraints, schema)

    def adopt(self, metadata: N5Metadata, existing: Mapping[str, JSON]) -> N5Metadata | None:
        """Return the metadata with the version of the container, if the group has nothing else."""
        return parse_metadata({**existing, **metadata.document}) if is_marker(existing) else None

    def check(
        self, metadata: N5Metadata, constraints: N5Constraints, options: N5Options, schema: Schema
    ) -> None:
        """Raise if stored metadata doesn't match a spec."""
        check_metadata(metadata, constraints, schema)

    def schema_of(self, metadata: N5Metadata, options: N5Options) -> Schema:
        """Return the schema of an existing dataset."""
        return schema_of(metadata)

    def domain_of(self, metadata: N5Metadata, options: N5Options) -> IndexDomain:
        """Return the domain of an existing array."""
        return domain_of_shape(metadata.dimensions, metadata.axes)

    def metadata_to_json(self, metadata: N5Metadata) -> dict[str, JSON]:
        """Return the canonical form of the document."""
        return spec_members(metadata)

    def container_key(self, path: str) -> str | None:
        """Return the key of the root of the dataset's container, ``*.n5``."""
        return container_key(path)

    def check_container(self, document: JSON) -> None:
        """Raise if the group is the root of a container with a version above 4."""
        if isinstance(document, Mapping):
            check_version(document.get("n5"))

    def resized(self, metadata: N5Metadata, shape: tuple[int, ...]) -> N5Metadata:
        """Return the metadata of the dataset with another shape."""
        return resize(metadata, shape)

    def same_but_resized(self, a: N5Metadata, b: N5Metadata) -> bool:
        """Return True if two documents differ only in dimensions and attributes."""
        return _identity(a) == _identity(b)

    def encode(self, metadata: N5Metadata) -> bytes:
        """Return the bytes of ``attributes.json``."""
        return dump_document(metadata.document)

    def stored_array(self, metadata: N5Metadata, prefix: str, options: N5Options) -> StoredArray:
        """Return the array as stored in its kvstore."""
        return to_stored_array(metadata, prefix, crop=options.crop_end_blocks)


def _identity(metadata: N5Metadata) -> tuple[object, ...]:
    return (
        metadata.rank,
        metadata.block_size,
        metadata.data_type,
        metadata.compression,
        metadata.axes,
        metadata.units,
        metadata.resolution,
    )


def to_stored_array(metadata: N5Metadata, prefix: str, *, crop: bool = False) -> StoredArray:
    """Return a dataset as stored in its kvstore."""
    fill_value = metadata.dtype.zero()
    item = ChunkSpec(metadata.block_size, fill_value.dtype, fill_value)
    return StoredArray(
        shape=metadata.dimensions,
        dtype=metadata.dtype,
        fill_value=fill_value,
        grid=RegularGrid(metadata.block_size),
        chain=prepare_chain([block_codec(metadata)], item),
        keys=KeyEncoding("", "/", "0").under(prefix),
        document=metadata.document,
        crop=crop,
    )


FORMAT = N5Format()


def parse_n5(members: Members, common: SpecMembers) -> ChunkedSpec:
    """Take the members of a spec of this driver."""
    return ChunkedSpec.parse(FORMAT, members, common)
