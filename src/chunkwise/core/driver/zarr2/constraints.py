"""The ``metadata`` member of a zarr spec: any part of a ``.zarray``, as hard constraints.

``CodecSpec({"driver": "zarr", "compressor": …, "filters": …})``: how Zarr v2 chunks are encoded.
"""

from __future__ import annotations

from typing import Any, NamedTuple, Self

import numpy as np
import numpy.typing as npt

from chunkwise.core.base.binding import JSON, MISSING, Members, dump, expect_int, expect_one_of, parse_array
from chunkwise.core.codec.chain import codec_to_json
from chunkwise.core.codec.zarr2 import parse_zarr2_step
from chunkwise.core.driver.zarr2.metadata import Zarr2Metadata, object_codec
from chunkwise.core.dtypes.data_type import DataType
from chunkwise.core.dtypes.fill_value import same_fill
from chunkwise.core.dtypes.zarr2 import fill_value_to_zarr2, parse_fill_value_zarr2, parse_zarr2, to_zarr2
from chunkwise.core.specs.codec_spec import CodecSpec
from chunkwise.errors import FailedPreconditionError, InvalidArgumentError, SpecError, prefixed

__all__ = [
    "Zarr2CodecSpec",
    "Zarr2Constraints",
    "check_constraints",
    "parse_compressor",
    "parse_constraints",
    "parse_filters",
]


def parse_compressor(value: JSON) -> dict[str, JSON] | None:
    """Check a ``compressor`` and fill in missing options; null means none."""
    return None if value is None else _canonical(value, is_compressor=True)


def parse_filters(value: JSON) -> list[dict[str, JSON]] | None:
    """Check ``filters`` and fill in missing options; an empty list is the same as null."""
    if value is None:
        return None
    return parse_array(value, lambda v: _canonical(v, is_compressor=False)) or None


def _canonical(value: JSON, *, is_compressor: bool) -> dict[str, JSON]:
    codec = parse_zarr2_step(value, is_last=is_compressor, serialized=not is_compressor)
    return codec_to_json(codec, "zarr2")


class Zarr2CodecSpec(CodecSpec):
    """Filters and compressor as a schema constraint."""

    driver = "zarr"
    compressor: JSON  # None requires that there is none; MISSING leaves it open
    # None leaves it open and also means none: TensorStore has no filters.
    filters: list[dict[str, JSON]] | None

    @classmethod
    def _parse(cls, members: dict[str, JSON]) -> Self:
        rest = Members(members)
        compressor = rest.take("compressor", parse_compressor, MISSING)
        filters = rest.take("filters", parse_filters, None)
        rest.finish()
        return cls.of(compressor, filters)

    @classmethod
    def of(cls, compressor: JSON, filters: list[dict[str, JSON]] | None) -> Self:
        """Return the constraint of already checked members."""
        return cls._new(compressor=compressor, filters=filters)

    def _members(self) -> dict[str, JSON]:
        out: dict[str, JSON] = {"filters": self.filters}
        if self.compressor is not MISSING:
            out["compressor"] = self.compressor
        return out

    def _merge(self, other: Self) -> Self:
        text = f"Cannot merge codec spec {dump(self.to_json())} with {dump(other.to_json())}"
        compressor = other.compressor if self.compressor is MISSING else self.compressor
        if MISSING not in (self.compressor, other.compressor) and self.compressor != other.compressor:
            raise InvalidArgumentError(f'{text}: "compressor" does not match')
        if self.filters is not None and other.filters is not None and self.filters != other.filters:
            raise InvalidArgumentError(f'{text}: "filters" does not match')
        return type(self).of(compressor, self.filters or other.filters)


class Zarr2Constraints(NamedTuple):
    """Constraints of a spec on a ``.zarray``; None, or MISSING if null has a meaning, is no constraint."""

    members: dict[str, JSON]  # the constraints as given, in canonical form
    shape: tuple[int, ...] | None
    chunks: tuple[int, ...] | None
    dtype: DataType | None
    stored_dtype: np.dtype[Any] | None
    dtype_json: JSON
    compressor: JSON
    filters: list[dict[str, JSON]] | None
    fill_value: JSON
    order: str | None
    separator: str | None

    def to_json(self) -> dict[str, JSON]:
        """Return the ``metadata`` member of a spec."""
        return dict(self.members)

    @property
    def rank(self) -> int | None:
        """Number of dimensions, if a member implies it."""
        for size in (self.shape, self.chunks):
            if size is not None:
                return len(size)
        return None


def parse_constraints(value: JSON) -> Zarr2Constraints:
    """Read the ``metadata`` member of a spec."""
    members = Members(value)
    out: dict[str, JSON] = {}
    if members.take("zarr_format", lambda v: expect_int(v, 2, 2), None):
        out["zarr_format"] = 2
    shape = members.take("shape", lambda v: tuple(parse_array(v, lambda n: expect_int(n, 0))), None)
    if shape is not None:
        out["shape"] = list(shape)
    rank = None if shape is None else len(shape)
    chunks = members.take("chunks", lambda v: tuple(parse_array(v, lambda n: expect_int(n, 1), rank)), None)
    if chunks is not None:
        out["chunks"] = list(chunks)
    compressor = members.take("compressor", parse_compressor, MISSING)
    if compressor is not MISSING:
        out["compressor"] = compressor
    filters = members.take("filters", parse_filters, MISSING)
    if filters is not MISSING:
        out["filters"] = filters
    dtype_json = members.take("dtype", lambda v: v, MISSING)
    dtype = stored = None
    if dtype_json is not MISSING:
        with prefixed('Error parsing object member "dtype"', SpecError):
            dtype, stored = parse_zarr2(dtype_json, object_codec(filters or []))
        dtype_json = dtype_json if dtype_json == "|O" else _canonical_dtype(dtype, stored, dtype_json)
        out["dtype"] = dtype_json
    fill_value: JSON = members.take("fill_value", lambda v: v, MISSING)
    if fill_value is not MISSING:
        if dtype is None:
            raise SpecError(
                'Error parsing object member "fill_value": must be specified in conjunction with "dtype"'
            )
        with prefixed('Error parsing object member "fill_value"', SpecError):
            fill_value = parse_fill_value_zarr2(fill_value, dtype, stored)
        out["fill_value"] = fill_value_to_zarr2(fill_value, dtype, stored)
    order = members.take("order", lambda v: expect_one_of(v, ("C", "F")), None)
    if order is not None:
        out["order"] = order
    separator = members.take("dimension_separator", lambda v: expect_one_of(v, (".", "/")), None)
    if separator is not None:
        out["dimension_separator"] = separator
    members.finish()
    return Zarr2Constraints(
        members=out,
        shape=shape,
        chunks=chunks,
        dtype=dtype,
        stored_dtype=stored,
        dtype_json=dtype_json,
        compressor=compressor,
        filters=filters or None,
        fill_value=fill_value,
        order=order,
        separator=separator,
    )


def _canonical_dtype(dtype: DataType, stored: np.dtype[Any], given: JSON) -> JSON:
    if stored.fields is not None or isinstance(given, list):
        return given
    return to_zarr2(dtype, "big" if stored.byteorder == ">" else "little")


def check_constraints(constraints: Zarr2Constraints, metadata: Zarr2Metadata) -> None:
    """Compare stored metadata with the constraints of a spec."""
    document = metadata.document
    for name, wanted in constraints.members.items():
        stored = document.get(name)
        if name == "zarr_format":
            continue
        if name == "dtype":
            same = constraints.stored_dtype == metadata.stored_dtype and constraints.dtype == metadata.dtype
        elif name == "compressor":
            same = parse_compressor(stored) == wanted
        elif name == "filters":
            same = parse_filters(stored) == wanted
        elif name == "fill_value":
            same = _same(constraints.fill_value, metadata.fill_value)
        elif name == "dimension_separator":
            stored = metadata.separator
            same = stored == wanted
        else:
            same = stored == wanted
        if not same:
            raise FailedPreconditionError(
                f"Expected {dump(name)} of {dump(wanted)} but received: {dump(stored)}"
            )


def _same(a: npt.NDArray[Any] | None, b: npt.NDArray[Any] | None) -> bool:
    return a is b if a is None or b is None else same_fill(a, b)
