"""Specs of the driver ``zarr3``."""

from __future__ import annotations

from chunkwise.binding import Members
from chunkwise.driver.chunked.spec import ChunkedSpec
from chunkwise.driver.zarr3.format import Zarr3Format
from chunkwise.spec.spec_members import SpecMembers

__all__ = ["parse_zarr3"]

FORMAT = Zarr3Format()


def parse_zarr3(members: Members, common: SpecMembers) -> ChunkedSpec:
    """Take the members of a spec of this driver."""
    return ChunkedSpec.parse(FORMAT, members, common)
