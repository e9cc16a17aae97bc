"""Specs of virtual arrays: functions and a schema.

They have no JSON form, but can be pickled if the functions can.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar

from chunkwise.core.index_space import IndexDomain, inf
from chunkwise.core.specs.chunk_layout import ChunkLayout
from chunkwise.core.specs.chunk_shape import choose_chunk_shape, choose_grid_origin
from chunkwise.core.specs.driver_spec import DriverSpec
from chunkwise.core.specs.schema import Schema
from chunkwise.errors import InvalidArgumentError, UnsupportedError, prefixed

if TYPE_CHECKING:
    import asyncio

__all__ = ["VirtualChunkedSpec", "complete_schema"]


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
