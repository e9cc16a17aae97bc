"""The ``metadata`` member of a zarr3 spec: any part of a ``zarr.json``, as hard constraints.

``CodecSpec({"driver": "zarr3", "codecs": […]})``: a codec chain as a schema constraint.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple, Self

import numpy.typing as npt

from chunkwise.core.base.binding import (
    JSON,
    Members,
    dump,
    expect_int,
    expect_object,
    expect_one_of,
    parse_array,
)
from chunkwise.core.driver.zarr3.codec_constraints import merge_chains, parse_chain
from chunkwise.core.driver.zarr3.metadata import (
    Zarr3Metadata,
    check_ignorable,
    check_transformers,
    parse_dimension_name,
    parse_extension,
    parse_grid,
    parse_key_encoding,
)
from chunkwise.core.dtypes.data_type import DataType
from chunkwise.core.dtypes.fill_value import same_fill
from chunkwise.core.dtypes.zarr3 import fill_value_to_zarr3, parse_fill_value_zarr3, parse_zarr3
from chunkwise.core.grid import ChunkGrid
from chunkwise.core.specs.codec_spec import CodecSpec
from chunkwise.core.specs.unit import Unit
from chunkwise.errors import ChunkwiseError, FailedPreconditionError, SpecError, prefix, prefixed

__all__ = ["Zarr3CodecSpec", "Zarr3Constraints", "check_constraints", "parse_constraints", "parse_units"]


class Zarr3CodecSpec(CodecSpec):
    """A partial or complete Zarr v3 codec chain."""

    driver = "zarr3"
    # Entries ``{"name": …, "configuration": …}``; None leaves everything open.
    codecs: list[dict[str, JSON]] | None

    @classmethod
    def _parse(cls, members: dict[str, JSON]) -> Self:
        rest = Members(members)
        codecs = rest.take("codecs", parse_chain, None)
        rest.finish()
        return cls.of(codecs)

    @classmethod
    def of(cls, codecs: list[dict[str, JSON]] | None) -> Self:
        """Return the constraint of an already parsed chain."""
        return cls._new(codecs=codecs)

    def _members(self) -> dict[str, JSON]:
        return {} if self.codecs is None else {"codecs": self.codecs}

    def _merge(self, other: Self) -> Self:
        if self.codecs is None or other.codecs is None:
            return self if other.codecs is None else other
        try:
            return type(self).of(merge_chains(self.codecs, other.codecs))
        except ChunkwiseError as e:
            raise prefix(
                e, f"Cannot merge codec spec {dump(self.to_json())} with {dump(other.to_json())}"
            ) from None


class Zarr3Constraints(NamedTuple):
    """Constraints of a spec on a ``zarr.json``; None for no constraint."""

    members: dict[str, JSON]  # the constraints as given, in canonical form
    shape: tuple[int, ...] | None
    dtype: DataType | None
    grid: ChunkGrid | None
    fill_value: npt.NDArray[Any] | None
    codecs: list[dict[str, JSON]] | None
    dimension_names: tuple[str | None, ...] | None
    attributes: dict[str, JSON]
    units: tuple[Unit | None, ...] | None
    # Members that the specification doesn't define, all marked ``must_understand: false``.
    extra: dict[str, JSON]
    rank: int | None

    def to_json(self) -> dict[str, JSON]:
        """Return the ``metadata`` member of the spec, where TensorStore always includes the node type."""
        return {**self.members, "node_type": "array"}


def parse_constraints(value: JSON) -> Zarr3Constraints:
    """Read the ``metadata`` member of a spec."""
    members = Members(value)
    out: dict[str, JSON] = {}
    ranks: dict[str, int] = {}

    def sized(name: str, length: int) -> None:
        for other, rank in ranks.items():
            if rank != length:
                raise SpecError(
                    f'Error parsing object member "{name}": Array has length {length} but should have '
                    f'length {rank}, as "{other}" has'
                )
        ranks[name] = length

    if members.take("zarr_format", lambda v: expect_int(v, 3, 3), None):
        out["zarr_format"] = 3
    if members.take("node_type", lambda v: expect_one_of(v, ("array",)), None):
        out["node_type"] = "array"
    shape = members.take("shape", lambda v: tuple(parse_array(v, lambda n: expect_int(n, 0))), None)
    if shape is not None:
        sized("shape", len(shape))
        out["shape"] = list(shape)
    dtype, dtype_json = members.take("data_type", _parse_dtype, (None, None))
    if dtype is not None:
        out["data_type"] = dtype_json
    grid, grid_json = members.take("chunk_grid", _parse_grid, (None, None))
    if grid is not None:
        out["chunk_grid"] = grid_json
        sized("chunk_grid", grid.rank)
    keys = members.take("chunk_key_encoding", _parse_keys, None)
    if keys is not None:
        out["chunk_key_encoding"] = keys
    fill_value = members.take("fill_value", lambda v: v, None)
    if fill_value is not None:
        if dtype is None:
            raise SpecError(
                'Error parsing object member "fill_value": must be specified in conjunction with "data_type"'
            )
        with prefixed('Error parsing object member "fill_value"', SpecError):
            fill_value = parse_fill_value_zarr3(fill_value, dtype)
        out["fill_value"] = fill_value_to_zarr3(fill_value, dtype, dtype_json)
    codecs = members.take("codecs", parse_chain, None)
    if codecs is not None:
        out["codecs"] = codecs
    attributes = members.take("attributes", lambda v: dict(expect_object(v)), {})
    units = None
    if attributes:
        out["attributes"] = attributes
        units = parse_units(attributes)
        if units is not None:
            sized("attributes.dimension_units", len(units))
    names = members.take("dimension_names", lambda v: tuple(parse_array(v, parse_dimension_name)), None)
    if names is not None:
        sized("dimension_names", len(names))
        out["dimension_names"] = list(names)
    members.take("storage_transformers", check_transformers, None)  # the rest is no constraint
    extra = members.rest()
    check_ignorable(extra)
    out.update(extra)
    return Zarr3Constraints(
        members=out,
        shape=shape,
        dtype=dtype,
        grid=grid,
        fill_value=fill_value,
        codecs=codecs,
        dimension_names=names,
        attributes=attributes,
        units=units,
        extra=extra,
        rank=next(iter(ranks.values()), None),
    )


def _parse_dtype(value: JSON) -> tuple[DataType, JSON]:
    """Return the type and its JSON, which keeps the given name if a type has several."""
    dtype = parse_zarr3(value)
    if isinstance(value, Mapping) and not value.get("configuration"):
        return dtype, value["name"]
    return dtype, value


def _parse_grid(value: JSON) -> tuple[ChunkGrid, JSON]:
    name, configuration = parse_extension(value)
    return parse_grid(value, None), {"name": name, "configuration": dict(configuration)}


def _parse_keys(value: JSON) -> JSON:
    """Return the canonical form, without a default separator."""
    name, configuration = parse_extension(value)
    if parse_key_encoding(value) == parse_key_encoding({"name": name}):
        return {"name": name}
    return {"name": name, "configuration": dict(configuration)}


def parse_units(attributes: Mapping[str, JSON]) -> tuple[Unit | None, ...] | None:
    """Read TensorStore's ``dimension_units`` attribute: unit strings or null; None if missing."""
    if "dimension_units" not in attributes:
        return None
    with prefixed('Error parsing object member "dimension_units"', SpecError):
        texts = parse_array(attributes["dimension_units"], parse_dimension_name)
    return tuple(None if text is None else Unit(text) for text in texts)


def check_constraints(constraints: Zarr3Constraints, metadata: Zarr3Metadata) -> None:
    """Compare stored metadata with the constraints of a spec."""
    document = metadata.document
    for name, wanted in constraints.members.items():
        if name in ("zarr_format", "node_type"):
            continue
        if name == "codecs":
            _check_codecs(wanted, metadata.chain)
        elif name == "attributes":
            for key, value in wanted.items():
                if key not in metadata.attributes or metadata.attributes[key] != value:
                    stored = dump(metadata.attributes[key]) if key in metadata.attributes else "<discarded>"
                    raise FailedPreconditionError(
                        f'Mismatch in "attributes": Expected {dump(key)} of {dump(value)} '
                        f"but received: {stored}"
                    )
        elif name == "chunk_grid":
            _check_grid(constraints, metadata)
        elif name == "chunk_key_encoding":
            if parse_key_encoding(wanted) != metadata.keys:
                raise _mismatch(name, wanted, document[name])
        elif name == "fill_value":
            assert constraints.fill_value is not None
            if not same_fill(constraints.fill_value, metadata.fill_value):
                raise _mismatch(name, wanted, document[name])
        elif name == "data_type":
            if constraints.dtype != metadata.dtype:
                raise _mismatch(name, wanted, document[name])
        elif name == "dimension_names":
            if list(metadata.dimension_names) != wanted:  # no names is the same as null for each
                raise _mismatch(name, wanted, document.get(name))
        elif document.get(name) != wanted:
            raise _mismatch(name, wanted, document.get(name))


def _check_codecs(wanted: list[dict[str, JSON]], stored: list[dict[str, JSON]]) -> None:
    with prefixed('Mismatch in "codecs"', FailedPreconditionError):
        merge_chains(stored, wanted)


def _check_grid(constraints: Zarr3Constraints, metadata: Zarr3Metadata) -> None:
    grid = constraints.grid
    if grid is None or grid == metadata.grid:
        return
    if grid.chunk_shape is not None and metadata.grid.chunk_shape is not None:
        raise _mismatch("chunk_shape", list(grid.chunk_shape), list(metadata.grid.chunk_shape))
    raise _mismatch("chunk_grid", constraints.members["chunk_grid"], metadata.document["chunk_grid"])


def _mismatch(name: str, wanted: JSON, stored: JSON) -> FailedPreconditionError:
    received = "<discarded>" if stored is None else dump(stored)
    return FailedPreconditionError(f"Expected {dump(name)} of {dump(wanted)} but received: {received}")
