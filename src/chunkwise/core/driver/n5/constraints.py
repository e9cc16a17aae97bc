"""The ``metadata`` member of an n5 spec: any part of an ``attributes.json``, as hard constraints.

Unlike a stored document, it is checked in every detail, as in TensorStore.

``CodecSpec({"driver": "n5", "compression": {"type": …}})``: how N5 blocks are compressed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import field
from typing import NamedTuple, Self, TypeVar

from chunkwise.core.base.binding import JSON, MISSING, Members, dump, expect_number, expect_string
from chunkwise.core.codec.n5_parts import parse_compression
from chunkwise.core.driver.n5.metadata import (
    DATASET_MEMBERS,
    N5Metadata,
    parse_array_data_type,
    parse_axes,
    parse_ranked,
    parse_size,
    spec_members,
)
from chunkwise.core.specs.codec_spec import CodecSpec
from chunkwise.errors import FailedPreconditionError, InvalidArgumentError

__all__ = ["N5CodecSpec", "N5Constraints", "check_constraints", "parse_constraints"]


class N5CodecSpec(CodecSpec):
    """The compression as a schema constraint."""

    driver = "n5"
    # The ``compression`` object with all defaults filled in; None leaves it open.
    compression: dict[str, JSON] | None

    @classmethod
    def _parse(cls, members: dict[str, JSON]) -> Self:
        rest = Members(members)
        compression = rest.take("compression", lambda value: parse_compression(value)[0], None)
        rest.finish()
        return cls.of(compression)

    @classmethod
    def of(cls, compression: dict[str, JSON] | None) -> Self:
        """Return the constraint of an already checked ``compression``."""
        return cls._new(compression=compression)

    def _members(self) -> dict[str, JSON]:
        return {} if self.compression is None else {"compression": self.compression}

    def _merge(self, other: Self) -> Self:
        if self.compression is None or other.compression is None:
            return self if other.compression is None else other
        if self.compression != other.compression:
            raise InvalidArgumentError(
                f"Cannot merge codec spec {dump(self.to_json())} with {dump(other.to_json())}: "
                '"compression" does not match'
            )
        return self


T = TypeVar("T")


class N5Constraints(NamedTuple):
    """Constraints of a spec on an ``attributes.json``; None for no constraint."""

    rank: int | None = None  # number of dimensions, if a member implies it
    dimensions: tuple[int, ...] | None = None  # as in `chunkwise.core.driver.n5.metadata.N5Metadata`
    block_size: tuple[int, ...] | None = None
    data_type: str | None = None
    compression: dict[str, JSON] | None = None
    axes: tuple[str, ...] | None = None
    units: tuple[str, ...] | None = None
    resolution: tuple[float, ...] | None = None
    attributes: Mapping[str, JSON] = field(default_factory=dict)  # all other members

    def to_json(self) -> dict[str, JSON]:
        """Return the ``metadata`` member of a spec; ``axes`` without any label is left out."""
        out: dict[str, JSON] = dict(self.attributes)
        for name, value in (
            ("dimensions", self.dimensions),
            ("blockSize", self.block_size),
            ("axes", self.axes if self.axes and any(self.axes) else None),
            ("units", self.units),
            ("resolution", self.resolution),
        ):
            if value is not None:
                out[name] = list(value)
        if self.data_type is not None:
            out["dataType"] = self.data_type
        if self.compression is not None:
            out["compression"] = dict(self.compression)
        return out


def parse_constraints(value: JSON) -> N5Constraints:
    """Read the ``metadata`` member of a spec."""
    taken = Members(value)
    rank: int | None = None

    def ranked(
        name: str, reader: Callable[[int | None], Callable[[JSON], tuple[T, ...]]]
    ) -> tuple[T, ...] | None:
        nonlocal rank
        found = taken.take(name, reader(rank), None)
        if found is not None:
            rank = len(found)
        return found

    dimensions = ranked("dimensions", lambda n: parse_ranked(parse_size(0), n))
    block_size = ranked("blockSize", lambda n: parse_ranked(parse_size(1), n))
    data_type = taken.take("dataType", parse_array_data_type, None)
    compression = taken.take("compression", lambda v: parse_compression(v)[0], None)
    axes = ranked("axes", parse_axes)
    units = ranked("units", lambda n: parse_ranked(expect_string, n))
    resolution = ranked("resolution", lambda n: parse_ranked(expect_number, n))
    return N5Constraints(
        rank=rank,
        dimensions=dimensions,
        block_size=block_size,
        data_type=data_type,
        compression=compression,
        axes=axes,
        units=units,
        resolution=resolution,
        attributes=taken.rest(),
    )


def check_constraints(constraints: N5Constraints, metadata: N5Metadata) -> None:
    """Compare stored metadata with the constraints of a spec."""
    wanted = constraints.to_json()
    if constraints.axes is not None:
        wanted["axes"] = list(constraints.axes)
    if not wanted:
        return
    stored = spec_members(metadata)
    stored["axes"] = list(metadata.axes)
    first = [name for name in DATASET_MEMBERS if name in wanted]
    for name in [*first, *sorted(set(wanted) - set(first))]:
        found = stored.get(name, MISSING)
        if found is MISSING or not same_json(wanted[name], found):
            received = "<discarded>" if found is MISSING else dump(found)
            raise FailedPreconditionError(
                f"Expected {dump(name)} of {dump(wanted[name])} but received: {received}"
            )


def same_json(a: JSON, b: JSON) -> bool:
    """Return True if two JSON values are equal; 5 and 5.0 are equal, 1 and true are not."""
    if isinstance(a, Mapping) and isinstance(b, Mapping):
        return a.keys() == b.keys() and all(same_json(a[name], b[name]) for name in a)
    if isinstance(a, list) and isinstance(b, list):
        return len(a) == len(b) and all(map(same_json, a, b))
    return isinstance(a, bool) == isinstance(b, bool) and bool(a == b)
