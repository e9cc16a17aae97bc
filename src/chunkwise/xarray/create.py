"""Creation of the array of an encoded variable."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from chunkwise.api.tensorstore import TensorStore
from chunkwise.dtypes.data_type import DataType
from chunkwise.errors import InvalidArgumentError, prefix
from chunkwise.hierarchy.location import Location
from chunkwise.tools.array_template import NAMES, ArrayTemplate
from chunkwise.tools.compressor import Compressor, parse_compressor
from chunkwise.tools.new_array import create_array
from chunkwise.tools.target import target_spec
from chunkwise.xarray.encode import Encoded

__all__ = ["create_variable"]


def create_variable(
    location: Location, name: str, encoded: Encoded, format: str, *, asked: bool
) -> TensorStore:
    """Make an array for a variable, without its elements; a layout not `asked` for is dropped if need be."""
    try:
        variable = encoded.variable
        dtype = DataType(encoded.dtype)
        chunks, shards = _chunks(encoded, format, asked=asked)
        names = tuple(str(dim) for dim in variable.dims)
        attributes = encoded.attributes_in(format)
        if format == "zarr2":
            attributes[NAMES] = list(names)
        template = ArrayTemplate(
            shape=tuple(variable.shape),
            dtype=dtype,
            chunks=chunks,
            shards=shards,
            codec=_codec(encoded.layout.get("codec"), asked=asked),
            fill_value=None if format == "n5" else _fill_value(encoded, format, asked=asked),
            names=() if format == "zarr2" else names,
            attributes=attributes,
        )
        given = [field for field in ("codec", "shards") if encoded.layout.get(field) is not None and asked]
        target = target_spec(template, format, given)
        if format == "zarr2" and encoded.fill_value is None:
            # Any other fill value would stand for a missing one.
            target = replace(target, spec={**target.spec, "metadata": _with_null(target.spec["metadata"])})
        return create_array(location, target)
    except Exception as e:
        raise prefix(e, f'Error creating variable "{name}"') from None


def _with_null(metadata: dict[str, Any]) -> dict[str, Any]:
    return {**metadata, "fill_value": None}


def _fill_value(encoded: Encoded, format: str, *, asked: bool) -> Any:
    """Return the value that is read where nothing is stored."""
    dtype = encoded.element_type
    value = encoded.layout.get("fill_value") if format == "zarr3" else None
    if value is not None and not asked and not np.can_cast(np.asarray(value).dtype, dtype, "same_kind"):
        value = None  # that of another type, which it had where it came from
    if value is None:
        value = encoded.fill_value
    if value is None and dtype.kind in "fc" and format == "zarr3":
        value = np.nan if dtype.kind == "f" else 0
    return None if value is None else np.asarray(value, dtype)


def _chunks(
    encoded: Encoded, format: str, *, asked: bool
) -> tuple[tuple[int, ...] | None, tuple[int, ...] | None]:
    """Return chunks and shards: those that were asked for, dask's, those it came with, or None."""
    variable, layout = encoded.variable, encoded.layout
    shape = variable.shape
    if not asked and any(
        len(layout[key] or shape) != len(shape)
        for key in ("chunks", "shards")
        if _is_sequence(layout.get(key))
    ):
        layout = {}  # that of an array with other dimensions, which it had where it came from
    chunks, shards = _sizes("chunks", layout, shape), _sizes("shards", layout, shape)
    if shards is not None and format != "zarr3":
        if asked:
            raise InvalidArgumentError(f"{format} has no shards; Zarr v3 (zarr3) has")
        shards = None
    if asked and chunks is not None:
        return chunks, shards
    blocks = variable.chunks
    if blocks is None:
        return chunks, shards
    if chunks is not None and _aligned(blocks, shards or chunks):
        return chunks, shards
    return tuple(max(1, *along) for along in blocks), None


def _is_sequence(value: Any) -> bool:
    return isinstance(value, list | tuple)


def _sizes(key: str, layout: dict[str, Any], shape: Sequence[int]) -> tuple[int, ...] | None:
    value = layout.get(key)
    if value is None:
        return None
    sizes = (value,) * len(shape) if isinstance(value, int) else tuple(int(n) for n in value)
    if len(sizes) != len(shape) or any(n < 1 for n in sizes):
        raise InvalidArgumentError(f'encoding "{key}" of {value!r} does not fit the shape {tuple(shape)}')
    return sizes


def _aligned(blocks: Sequence[Sequence[int]], chunks: Sequence[int]) -> bool:
    return all(n % size == 0 for along, size in zip(blocks, chunks, strict=True) for n in along[:-1])


def _codec(value: Any, *, asked: bool) -> Any:
    if value is None or isinstance(value, Compressor):
        return value
    if isinstance(value, str):
        return parse_compressor(value)
    return value if asked else None
