"""The Zarr v3 format as the code for chunked arrays sees it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, ClassVar

from chunkwise.binding import JSON, Members, dump
from chunkwise.codec.chain import prepare_chain
from chunkwise.codec.sharding import ShardingIndexed
from chunkwise.driver.chunked.domain import domain_of_shape
from chunkwise.driver.stored_array import ShardLevel, StoredArray
from chunkwise.driver.zarr3.constraints import Zarr3Constraints, parse_constraints
from chunkwise.driver.zarr3.item import chunk_item
from chunkwise.driver.zarr3.metadata import Zarr3Metadata, parse_metadata
from chunkwise.driver.zarr3.schema import check_metadata, constraint_schema, create_metadata, schema_of
from chunkwise.grid.regular import RegularGrid
from chunkwise.index_space import IndexDomain
from chunkwise.spec.schema import Schema

__all__ = ["Zarr3Format"]


class Zarr3Format:
    """Arrays of the Zarr core specification v3.1; no options of its own."""

    driver: ClassVar[str] = "zarr3"
    consolidated: ClassVar[bool] = True
    contained: ClassVar[bool] = False

    def parse_options(self, members: Members) -> None:
        """Take nothing: the format has no members of its own."""

    def options_to_json(self, options: None) -> dict[str, Any]:
        """Return nothing."""
        return {}

    def parse_constraints(self, value: JSON) -> Zarr3Constraints:
        """Read the ``metadata`` member of a spec."""
        return parse_constraints(value)

    def constraints_to_json(self, constraints: Zarr3Constraints) -> dict[str, Any]:
        """Return the ``metadata`` member of a spec."""
        return constraints.to_json()

    def inner_rank(self, constraints: Zarr3Constraints, options: None) -> int:
        """Return 0: no dimension lies inside an element."""
        return 0

    def constraint_schema(self, constraints: Zarr3Constraints, options: None, schema: Schema) -> Schema:
        """Return what constraints and schema say together."""
        return constraint_schema(constraints, schema)

    def metadata_key(self, options: None) -> str:
        """Return ``zarr.json``."""
        return "zarr.json"

    def parse_document(self, raw: bytes) -> JSON:
        """Read the stored bytes as JSON."""
        return json.loads(raw)

    def is_array(self, document: JSON) -> bool:
        """Whether a ``zarr.json`` is an array's."""
        return not isinstance(document, Mapping) or document.get("node_type") != "group"

    def parse_metadata(self, document: JSON) -> Zarr3Metadata:
        """Read a ``zarr.json``."""
        return parse_metadata(document)

    def create(self, constraints: Zarr3Constraints, options: None, schema: Schema) -> Zarr3Metadata:
        """Choose the metadata of a new array."""
        return create_metadata(constraints, schema)

    def adopt(self, metadata: Zarr3Metadata, existing: Mapping[str, Any]) -> None:
        """Return None: a group can't become an array."""

    def check(
        self, metadata: Zarr3Metadata, constraints: Zarr3Constraints, options: None, schema: Schema
    ) -> None:
        """Raise if stored metadata isn't what a spec asks for."""
        check_metadata(metadata, constraints, schema)

    def schema_of(self, metadata: Zarr3Metadata, options: None) -> Schema:
        """Return the schema of an existing array."""
        return schema_of(metadata)

    def domain_of(self, metadata: Zarr3Metadata, options: None) -> IndexDomain:
        """Return the domain of an existing array."""
        return domain_of_shape(metadata.shape, metadata.dimension_names)

    def metadata_to_json(self, metadata: Zarr3Metadata) -> dict[str, Any]:
        """Return the document as it is stored."""
        return dict(metadata.document)

    def container_key(self, path: str) -> str | None:
        """Return None: a group says nothing that an array below it depends on."""
        return None

    def check_container(self, document: JSON) -> None:
        """Do nothing."""

    def companions(self, options: None) -> dict[str, bytes]:
        """Return nothing: all is in ``zarr.json``."""
        return {}

    def resized(self, metadata: Zarr3Metadata, shape: tuple[int, ...]) -> Zarr3Metadata:
        """Return the metadata of the array with another shape."""
        return metadata.resized(shape)

    def same_but_resized(self, a: Zarr3Metadata, b: Zarr3Metadata) -> bool:
        """Whether two documents differ in nothing but shape and attributes."""
        ignored = ("shape", "attributes")
        return {k: v for k, v in a.document.items() if k not in ignored} == {
            k: v for k, v in b.document.items() if k not in ignored
        }

    def encode(self, metadata: Zarr3Metadata) -> bytes:
        """Return the bytes of ``zarr.json``."""
        return dump(metadata.document).encode()

    def stored_array(self, metadata: Zarr3Metadata, prefix: str, options: None) -> StoredArray:
        """Return the array as it lies in its kvstore."""
        item = chunk_item(metadata.grid, metadata.shape, metadata.fill_value)
        codec = metadata.codecs[0]
        shard = None
        if len(metadata.codecs) == 1 and isinstance(codec, ShardingIndexed) and metadata.grid.chunk_shape:
            # Only then do the bytes of an inner chunk stand by themselves in the stored object.
            shard = ShardLevel(
                grid=RegularGrid(codec.chunk_shape),
                chain=codec.inner_chain(item),
                index_location=codec.index_location or "end",
                index_chain=codec.index_chain,
            )
        return StoredArray(
            shape=metadata.shape,
            dtype=metadata.dtype,
            fill_value=metadata.fill_value,
            grid=metadata.grid,
            chain=prepare_chain(metadata.codecs, item),
            keys=metadata.keys.under(prefix),
            shard=shard,
            store_fill_chunks=False,
            document=metadata.document,
        )
