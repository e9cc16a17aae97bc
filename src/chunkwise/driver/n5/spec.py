"""Specs of the driver ``n5``."""

from __future__ import annotations

from chunkwise.binding import Members
from chunkwise.driver.chunked.spec import ChunkedSpec
from chunkwise.driver.n5.format import N5Format
from chunkwise.spec.spec_members import SpecMembers

__all__ = ["parse_n5"]

FORMAT = N5Format()


def parse_n5(members: Members, common: SpecMembers) -> ChunkedSpec:
    """Take the members of a spec of this driver."""
    return ChunkedSpec.parse(FORMAT, members, common)
