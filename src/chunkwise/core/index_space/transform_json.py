"""The JSON form of the output index maps of a transform."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from chunkwise.core.base.binding import JSON, Members, dump, expect_int, parse_array
from chunkwise.core.index_space.domain_json import bound_to_json, parse_bound
from chunkwise.core.index_space.interval import INF, UPPER, closed
from chunkwise.core.index_space.label import MAX_RANK
from chunkwise.core.index_space.output_map import (
    IndexArray,
    OutputIndexMap,
    array_map,
    constant_map,
    single_map,
)
from chunkwise.errors import SpecError, braced

__all__ = ["output_to_json", "parse_output"]


def parse_output(value: JSON) -> list[OutputIndexMap]:
    """Return the maps of the ``output`` member; that they fit the domain is not checked here."""
    maps = parse_array(value, _parse_map)
    if len(maps) > MAX_RANK:
        raise SpecError(f"Rank {len(maps)} is outside valid range [0, {MAX_RANK}]")
    return maps


def _parse_map(value: JSON) -> OutputIndexMap:
    members = Members(value)
    offset = members.take("offset", expect_int, 0)

    def parse_stride(stride: JSON) -> int:
        if not isinstance(value, dict) or not {"input_dimension", "index_array"} & value.keys():
            raise SpecError(
                'Either "input_dimension" or "index_array" must be specified in conjunction with "stride"'
            )
        return expect_int(stride)

    stride = members.take("stride", parse_stride, 1)
    if {"input_dimension", "index_array"} <= value.keys():
        raise SpecError('At most one of "input_dimension", "index_array" members is allowed')
    dim = members.take("input_dimension", expect_int, None)
    array = members.take("index_array", _parse_index_array, None)

    def parse_range(bounds: JSON) -> tuple[int, int]:
        if array is None:
            raise SpecError('"index_array_bounds" is only valid with "index_array"')
        infinities = {"-inf": -INF, "+inf": INF}
        lo, hi = parse_array(bounds, lambda x: parse_bound(x, infinities, INF), 2)
        return closed(lo, hi)

    index_range = members.take("index_array_bounds", parse_range, (-INF, UPPER))
    members.finish()
    if array is not None:
        return array_map(offset, stride, array, index_range)
    return constant_map(offset) if dim is None else single_map(offset, stride, dim)


def _parse_index_array(value: JSON) -> IndexArray:
    shape: list[int] = []
    item = value
    while isinstance(item, list | tuple):
        shape.append(len(item))
        item = item[0] if item else None
    flat: list[int] = []
    _flatten(value, tuple(shape), (), flat)
    return np.array(flat, np.int64).reshape(shape)


def _flatten(value: Any, shape: tuple[int, ...], position: tuple[int, ...], out: list[int]) -> None:
    where = braced(position)
    if len(position) == len(shape):
        try:
            number = int(value) if isinstance(value, str) else value
            out.append(expect_int(number))
        except ValueError:
            raise SpecError(
                f"Error parsing array element at position {where}: "
                f"Expected 64-bit signed integer, but received: {dump(value)}"
            ) from None
        return
    full = braced(shape)
    if not isinstance(value, list | tuple):
        raise SpecError(f"Expected array of shape {full}, but found {dump(value)} at position {where}.")
    if len(value) != shape[len(position)]:
        raise SpecError(
            f"Expected array of shape {full}, but found array element {dump(value)} "
            f"of length {len(value)} at position {where}."
        )
    for i, item in enumerate(value):
        _flatten(item, shape, (*position, i), out)


def _map_to_json(m: OutputIndexMap) -> dict[str, JSON]:
    out: dict[str, JSON] = {}
    if m._array is not None:
        out["index_array"] = m._array.tolist()
        lo, hi = m._range
        # Bounds that all elements satisfy are left out.
        if m._array.size and not (lo <= int(m._array.min()) and int(m._array.max()) < hi):
            out["index_array_bounds"] = [bound_to_json(lo, False), "+inf" if hi == UPPER else hi - 1]
    if m._dim is not None:
        out["input_dimension"] = m._dim
    if m._offset:
        out["offset"] = m._offset
    if (m._dim is not None or m._array is not None) and m._stride != 1:
        out["stride"] = m._stride
    return out


def output_to_json(output: Sequence[OutputIndexMap], rank: int) -> list[JSON] | None:
    """Return the ``output`` member, or None if the maps are the identity of `rank`."""
    if len(output) == rank and all(
        m._dim == i and m._offset == 0 and m._stride == 1 for i, m in enumerate(output)
    ):
        return None
    return [_map_to_json(m) for m in output]
