"""Creation of the array of an encoded variable: planned completely, then made."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from chunkwise import DataType
from chunkwise import open as open_spec
from chunkwise.copying.array_template import NAMES, ArrayTemplate
from chunkwise.copying.compressor import Compressor, parse_compressor
from chunkwise.copying.target import Target, target_spec
from chunkwise.errors import InvalidArgumentError, prefix
from chunkwise.extension.inside import parse_fill_value_zarr3
from chunkwise.extension.trees import Location, tree_format
from chunkwise.xarray.encode import Encoded

__all__ = ["plan_variable"]


def plan_variable(location: Location, name: str, encoded: Encoded, format: str, *, asked: bool) -> Target:
    """Return the plan of a variable's array; a layout that was not `asked` for is dropped if it doesn't
    fit."""
    try:
        variable = encoded.variable
        dtype = DataType(encoded.dtype)
        chunks, shards = _chunks(encoded, format, asked=asked)
        names, rules = tuple(str(dim) for dim in variable.dims), tree_format(format)
        attributes = encoded.attributes_in(format)
        if not rules.names_member:
            attributes[NAMES] = list(names)
        template = ArrayTemplate(
            shape=tuple(variable.shape),
            dtype=dtype,
            chunks=chunks,
            shards=shards,
            codec=_codec(encoded.layout.get("codec"), asked=asked),
            fill_value=_fill_value(encoded, dtype, format, asked=asked) if rules.has_fill_value else None,
            names=names if rules.names_member else (),
            attributes={} if rules.attributes_member else attributes,
        )
        given = [field for field in ("codec", "shards") if encoded.layout.get(field) is not None and asked]
        target = target_spec(template, format, given)
        if rules.attributes_member:  # NaN and infinities stay bare words if asked for
            target.spec["metadata"][rules.attributes_member].update(attributes)
        for note in target.notes:
            warnings.warn(f'variable "{name}": {note}', stacklevel=5)
        if rules.fill_value_can_be_null and encoded.fill_value is None:
            # Any other fill value would mark missing values.
            target = replace(target, spec={**target.spec, "metadata": _with_null(target.spec["metadata"])})
        # Everything that can't be stored is refused here, before any change.
        open_spec(
            {**target.spec, "kvstore": location.kvstore(), "open": True, "assume_metadata": True}
        ).result()
        return target
    except Exception as e:
        raise prefix(e, f'Error creating variable "{name}"') from None


def _with_null(metadata: dict[str, Any]) -> dict[str, Any]:
    return {**metadata, "fill_value": None}


def _fill_value(encoded: Encoded, dtype: DataType, format: str, *, asked: bool) -> Any:
    """Return the value of elements that are not stored."""
    element = encoded.element_type
    value, is_plain = encoded.layout.get("fill_value"), tree_format(format).fill_value_is_plain
    if value is not None and not is_plain:
        if asked:
            raise InvalidArgumentError(
                f'encoding "fill_value": {format} has none beside "_FillValue"; Zarr v3 (zarr3) has'
            )
        value = None  # that of Zarr v3, which it had where it came from
    if (
        isinstance(value, str) and element.kind not in "OUS"
    ):  # as JSON has it: "NaN", "Infinity", "0x7fc00000"
        return parse_fill_value_zarr3(value, dtype)
    if value is not None:
        if not asked and not np.can_cast(np.asarray(value).dtype, element, "same_kind"):
            value = None  # that of another type, which it had where it came from
        else:
            return _exactly(value, element)
    if encoded.fill_value is not None:
        return _exactly(encoded.fill_value, element)
    if element.kind in "fc" and is_plain:
        return np.asarray(np.nan if element.kind == "f" else 0, element)
    return None


def _exactly(value: Any, element: np.dtype[Any]) -> Any:
    """Return a fill value in the type of the elements, rounded if that is one of floating-point numbers."""
    with np.errstate(all="ignore"):
        given = np.asarray(value)
        typed = given.astype(element) if given.dtype != element else given
    if given.dtype.kind in "biufc" and element.kind in "biu" and not (typed == given).all():
        limits = "" if element.kind == "b" else f", {np.iinfo(element).min} to {np.iinfo(element).max}"
        raise InvalidArgumentError(f"the fill value {value} is none of {element}{limits}")
    if given.dtype.kind in "biuf" and element.kind == "f" and np.isfinite(given) != np.isfinite(typed):
        raise InvalidArgumentError(f"the fill value {value} is beyond {element}, {np.finfo(element).max}")
    if element.kind in "US" and typed.tolist() != given.tolist():
        raise InvalidArgumentError(f"the fill value {value!r} is longer than {element}")
    return typed.reshape(())


def _chunks(
    encoded: Encoded, format: str, *, asked: bool
) -> tuple[tuple[int, ...] | None, tuple[int, ...] | None]:
    """Return chunks and shards: those asked for, dask's, those of the source, or None."""
    variable, layout = encoded.variable, encoded.layout
    shape = variable.shape
    if not asked and any(
        len(layout[key] or shape) != len(shape)
        for key in ("chunks", "shards")
        if _is_sequence(layout.get(key))
    ):
        layout = {}  # from a source array with other dimensions
    chunks, shards = _sizes("chunks", layout, shape), _sizes("shards", layout, shape)
    if shards is not None and not tree_format(format).has_shards:
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
