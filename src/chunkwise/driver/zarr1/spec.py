"""Specs of the driver ``zarr1``."""

from __future__ import annotations

from chunkwise.binding import Members
from chunkwise.driver.chunked.spec import ChunkedSpec
from chunkwise.driver.zarr1.format import Zarr1Format
from chunkwise.spec.spec_members import SpecMembers

__all__ = ["parse_zarr1"]

FORMAT = Zarr1Format()


def parse_zarr1(members: Members, common: SpecMembers) -> ChunkedSpec:
    """Take the members of a spec of this driver."""
    return ChunkedSpec.parse(FORMAT, members, common)
