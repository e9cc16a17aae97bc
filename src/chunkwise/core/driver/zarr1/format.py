"""The Zarr v1 format, for the code for chunked arrays: Zarr v2 with another document."""

from __future__ import annotations

from typing import ClassVar

from chunkwise.core.base.binding import JSON, Members
from chunkwise.core.driver.chunked.record import FieldOptions
from chunkwise.core.driver.chunked.spec import ChunkedSpec
from chunkwise.core.driver.zarr1.tree import from_zarr2, to_zarr2
from chunkwise.core.driver.zarr2.constraints import Zarr2Constraints
from chunkwise.core.driver.zarr2.format import Zarr2Format, Zarr2Options
from chunkwise.core.driver.zarr2.metadata import Zarr2Metadata
from chunkwise.core.specs.driver_spec import SpecMembers
from chunkwise.core.specs.schema import Schema

__all__ = ["Zarr1Format", "parse_zarr1"]


class Zarr1Format(Zarr2Format):
    """Arrays of the Zarr v1 specification; no groups."""

    driver: ClassVar[str] = "zarr1"
    consolidated_key: ClassVar[str] = ""
    # As in the specification's example; automatic shuffle is newer than Zarr v1.
    default_compressor: ClassVar[dict[str, JSON]] = {"id": "blosc", "cname": "lz4", "clevel": 5, "shuffle": 1}

    def parse_options(self, members: Members) -> Zarr2Options:
        """Take ``field`` and ``open_as_void``; the metadata is always under ``meta``."""
        return Zarr2Options.parse(members, metadata_key="meta")

    def options_to_json(self, options: Zarr2Options) -> dict[str, JSON]:
        """Return the members that `parse_options` takes."""
        return FieldOptions.to_json(options)

    def parse_constraints(self, value: JSON) -> Zarr2Constraints:
        """Read the ``metadata`` member of a spec."""
        return super().parse_constraints(to_zarr2(value))

    def constraints_to_json(self, constraints: Zarr2Constraints) -> dict[str, JSON]:
        """Return the ``metadata`` member of a spec."""
        return from_zarr2(constraints.members)

    def create(self, constraints: Zarr2Constraints, options: Zarr2Options, schema: Schema) -> Zarr2Metadata:
        """Choose the metadata of a new array; raise if Zarr v1 can't hold it."""
        return self.parse_metadata(from_zarr2(super().create(constraints, options, schema).document))

    def parse_metadata(self, document: JSON) -> Zarr2Metadata:
        """Read a ``meta``."""
        translated = {**to_zarr2(document, stored=True), "filters": None}
        metadata = super().parse_metadata(translated)
        return metadata._replace(document=translated)

    def template_key(self, document: JSON) -> None:
        """Return None: each document is translated separately."""

    def metadata_to_json(self, metadata: Zarr2Metadata) -> dict[str, JSON]:
        """Return the stored document."""
        return self.document_of(metadata)

    def companions(self, options: Zarr2Options) -> dict[str, bytes]:
        """Return ``attrs``, which every v1 array must have."""
        return {"attrs": b"{}"}

    def document_of(self, metadata: Zarr2Metadata) -> dict[str, JSON]:
        """Return the document as stored, not as members of Zarr v2."""
        return from_zarr2(metadata.document)


FORMAT = Zarr1Format()


def parse_zarr1(members: Members, common: SpecMembers) -> ChunkedSpec:
    """Take the members of a spec of this driver."""
    return ChunkedSpec.parse(FORMAT, members, common)
