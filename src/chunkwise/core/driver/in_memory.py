"""Specs of arrays that a program holds: ``array``, given by elements, ``virtual_chunked``, by functions.

Configuration
-------------
>>> from chunkwise.core.specs.spec import Spec
>>> Spec({"driver": "array", "array": [[1, 2, 3], [4, 5, 6]], "dtype": "uint8"}).shape
(2, 3)

Functions have no JSON form, but can be pickled if they can.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING, Any, ClassVar

import numpy.typing as npt

from chunkwise.core.base.binding import JSON, Members
from chunkwise.core.dtypes.data_type import DataType
from chunkwise.core.dtypes.fill_value import array_from_json, array_to_json
from chunkwise.core.index_space import IndexDomain, inf
from chunkwise.core.specs.chunk_layout import ChunkLayout
from chunkwise.core.specs.chunk_shape import choose_chunk_shape, choose_grid_origin
from chunkwise.core.specs.driver_spec import DriverSpec, SpecMembers
from chunkwise.core.specs.open_mode import OpenMode
from chunkwise.core.specs.resource_members import take_resources
from chunkwise.core.specs.schema import Schema
from chunkwise.errors import InvalidArgumentError, SpecError, UnsupportedError, prefixed

if TYPE_CHECKING:
    import asyncio

__all__ = ["ArraySpec", "VirtualChunkedSpec", "complete_schema", "parse_array"]

_MOST_SHOWN = 20_000  # elements; TensorStore shows all, which takes seconds for a million elements


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class ArraySpec(DriverSpec):
    """``{"driver": "array", "array": …, "dtype": …}``."""

    driver: ClassVar[str] = "array"
    resource_kinds: ClassVar[tuple[str, ...]] = ("data_copy_concurrency",)

    array: npt.NDArray[Any]  # has the memory type of ``schema.dtype``; must not be changed

    @property
    def element_type(self) -> DataType:
        """Data type of the elements; always known."""
        assert self.schema.dtype is not None
        return self.schema.dtype

    @property
    def in_memory(self) -> bool:
        """True: the elements are in the spec."""
        return True

    @property
    def rank(self) -> int:
        """Rank."""
        return self.array.ndim

    @property
    def dtype(self) -> DataType:
        """Data type."""
        return self.element_type

    @property
    def domain(self) -> IndexDomain:
        """Domain, which begins at 0."""
        return IndexDomain._of_shape(self.array.shape)

    def own_members(self, include_defaults: bool) -> dict[str, JSON]:
        """Return the elements as nested lists."""
        return {"array": array_to_json(self.array, self.element_type)}

    def abbreviated(self) -> DriverSpec:
        """Return a spec that shows only the number of elements if there are many."""
        if self.array.size <= _MOST_SHOWN:
            return self
        members = {field.name: getattr(self, field.name) for field in fields(self)}
        return _LongArraySpec(**members)

    def effective_schema(self) -> Schema:
        """Return type, domain, layout in memory and dimension units."""
        rank = self.array.ndim
        layout = ChunkLayout(rank=rank)
        layout._set("grid_origin", [0] * rank, hard=True)
        layout._set("inner_order", range(rank), hard=True)
        out = Schema(dtype=self.element_type, domain=self.domain, chunk_layout=layout)
        units = self.schema.dimension_units
        if units is not None and len(units) == self.array.ndim:
            out.update(dimension_units=units)
        return out

    def with_open_mode(self, mode: OpenMode) -> ArraySpec:
        """Return the spec: there is nothing to open or create."""
        return self

    def check(self) -> None:
        """Raise if the schema requires properties that an array in memory lacks."""
        schema = self.schema
        if schema.fill_value is not None:
            raise InvalidArgumentError("fill_value not supported")
        if schema.codec is not None:
            raise InvalidArgumentError("codec not supported")
        layout = schema.chunk_layout
        for grid in (layout.write_chunk, layout.read_chunk, layout.codec_chunk):
            if any(grid.shape or ()):
                raise InvalidArgumentError("chunking not supported")
        domain, shape = schema.domain, self.array.shape
        if domain is not None and (domain.origin != (0,) * len(shape) or domain.shape != shape):
            origin = ", ".join("0" for _ in shape)
            raise InvalidArgumentError(
                f"Mismatch between domain in schema {{ {domain} }} and array "
                f"{{ {{origin={{{origin}}}, shape={{{', '.join(map(str, shape))}}}}} }}"
            )


class _LongArraySpec(ArraySpec):
    """A spec to show, not to open."""

    def own_members(self, include_defaults: bool) -> dict[str, JSON]:
        return {"array": f"... {self.array.size} elements of shape {list(self.array.shape)}"}


def parse_array(members: Members, common: SpecMembers) -> ArraySpec:
    """Take the members of a spec of this driver."""
    dtype = common.schema.dtype
    if dtype is None:
        raise SpecError("dtype must be specified")

    def elements(value: JSON) -> npt.NDArray[Any]:
        rank = common.schema.rank
        return array_from_json(value, dtype, _depth(value) if rank is None and dtype.kind == "json" else rank)

    array = members.take("array", elements)
    schema = common.schema.copy()
    schema._set_rank(array.ndim)
    return ArraySpec(
        schema=schema,
        context=common.context,
        resources=take_resources(members, ArraySpec.resource_kinds),
        array=array,
    )


def _depth(value: JSON) -> int:
    depth = 0
    while isinstance(value, list):
        depth += 1
        value = value[0] if value else None
    return depth


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class VirtualChunkedSpec(DriverSpec):
    """Functions and schema of a virtual array."""

    driver: ClassVar[str] = "virtual_chunked"
    resource_kinds: ClassVar[tuple[str, ...]] = ("cache_pool", "data_copy_concurrency")

    read_function: Callable[..., Any] | None = None
    write_function: Callable[..., Any] | None = None
    loop: asyncio.AbstractEventLoop | None = None  # event loop for coroutines; not pickled

    def to_members(self, include_defaults: bool = False, *, names: Any = None) -> dict[str, Any]:
        """Fail: functions have no JSON form."""
        raise UnsupportedError("JSON representation not supported")

    def __reduce__(self) -> tuple[Any, ...]:
        return _unpickle, tuple((name, v) for name, v in vars(self).items() if name != "loop")


def _unpickle(*members: tuple[str, Any]) -> VirtualChunkedSpec:
    return replace(VirtualChunkedSpec(), **dict(members))


def complete_schema(given: Schema) -> Schema:
    """Return a complete schema of a virtual array; missing members are chosen."""
    if given.dtype is None:
        raise InvalidArgumentError("dtype must be specified")
    if given.rank is None:
        raise InvalidArgumentError("rank must be specified")
    if given.fill_value is not None:
        raise InvalidArgumentError("fill_value not supported")
    rank = given.rank
    bounds = given.domain or IndexDomain(rank=rank)
    domain = IndexDomain(
        inclusive_min=bounds.inclusive_min,
        exclusive_max=bounds.exclusive_max,
        implicit_lower_bounds=[False] * rank,
        implicit_upper_bounds=[False] * rank,
        labels=bounds.labels,
    )
    layout = given.chunk_layout
    extents = [dim.size if dim.finite else None for dim in domain]
    with prefixed("Failed to compute chunk grid"):
        chunk_shape = choose_chunk_shape(layout, extents)
    lower = [None if lo == -inf else lo for lo in domain.inclusive_min]
    order = layout.inner_order or layout.inner_order_soft_constraint or range(rank)
    chosen = ChunkLayout(
        inner_order=list(order),
        grid_origin=choose_grid_origin(layout, lower, chunk_shape),
        chunk_shape=chunk_shape,
    )
    out = Schema(dtype=given.dtype, domain=domain, chunk_layout=chosen)
    units = given.dimension_units
    if units is not None and any(u is not None for u in units):
        out.update(dimension_units=units)
    return out
