"""Specs of the driver ``zarr`` (Zarr v2)."""

from __future__ import annotations

from dataclasses import replace

from chunkwise.binding import Members, dump, expect_one_of
from chunkwise.driver.chunked.spec import ChunkedSpec
from chunkwise.driver.zarr2.format import Zarr2Format
from chunkwise.errors import SpecError
from chunkwise.spec.spec_members import SpecMembers

__all__ = ["parse_zarr2"]

FORMAT = Zarr2Format()


def parse_zarr2(members: Members, common: SpecMembers) -> ChunkedSpec:
    """Take the members of a spec of this driver."""
    # ``key_encoding`` is an older name of ``dimension_separator`` in ``metadata``, and becomes that.
    separator = members.take("key_encoding", lambda v: expect_one_of(v, (".", "/")), None)
    spec = ChunkedSpec.parse(FORMAT, members, common)
    if separator is None:
        return spec
    given = spec.constraints.separator
    if given not in (None, separator):
        raise SpecError(
            f'Error parsing object member "key_encoding": value ({dump(separator)}) does not match value in '
            f"metadata ({dump(given)})"
        )
    metadata = {**FORMAT.constraints_to_json(spec.constraints), "dimension_separator": separator}
    return replace(spec, constraints=FORMAT.parse_constraints(metadata))
