"""The JSON form of a chunk layout."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial

from chunkwise.core.base.binding import JSON, Members, expect_int, parse_array
from chunkwise.core.grid.rectilinear import parse_sizes, sizes_to_json
from chunkwise.core.specs.chunk_grid_constraints import take_grid_members
from chunkwise.core.specs.chunk_layout_keywords import CHUNK_USAGES
from chunkwise.core.specs.constraint import MAX_RANK, hard_part, put_vector
from chunkwise.core.specs.layout_constraints import GRID_USAGES, LayoutConstraints

__all__ = ["layout_to_json", "parse_layout"]


def layout_to_json(layout: LayoutConstraints) -> dict[str, JSON]:
    """Return the JSON form, with the rank only if no other member implies it."""
    json: dict[str, JSON] = {}
    order = layout._inner_order
    if order is not None:
        json["inner_order" if order.hard else "inner_order_soft_constraint"] = list(order.value)
    put_vector(json, "grid_origin", layout._grid_origin)
    if any(layout._chunk_shapes):
        shapes = hard_part(layout._chunk_shapes, 0)
        json["chunk_shapes"] = [None if sizes is None else sizes_to_json(sizes) for sizes in shapes]
    rank_is_known = bool(json)
    for usage, grid in layout._grids.items():
        if members := grid.to_json():
            json[usage] = members
            rank_is_known |= any(grid.sizes) or any(grid.ratios)
    if layout._rank is not None and not rank_is_known:
        json["rank"] = layout._rank
    return dict(sorted(json.items()))


def parse_layout(layout: LayoutConstraints, json: JSON) -> None:
    """Add the constraints in plain JSON to `layout`."""
    members = Members(json)
    members.take("rank", lambda v: layout.set_rank(expect_int(v, 0, MAX_RANK)), None)
    for name, hard in (("inner_order", True), ("inner_order_soft_constraint", False)):
        members.take(name, partial(_parse_inner_order, layout, hard), None)
    for name, hard in (("grid_origin", True), ("grid_origin_soft_constraint", False)):
        members.take(name, partial(_parse_grid_origin, layout, hard), None)
    members.take("chunk_shapes", partial(_parse_chunk_shapes, layout), None)
    members.take("chunk", partial(_parse_grid, layout, CHUNK_USAGES), None)
    for usage in GRID_USAGES:
        members.take(usage, partial(_parse_grid, layout, dict.fromkeys(CHUNK_USAGES, (usage,))), None)
    members.finish()


def _parse_inner_order(layout: LayoutConstraints, hard: bool, value: JSON) -> None:
    if value is not None:
        layout.set_inner_order(parse_array(value, lambda v: expect_int(v, 0, MAX_RANK - 1)), hard=hard)


def _parse_grid_origin(layout: LayoutConstraints, hard: bool, value: JSON) -> None:
    layout.set_grid_origin(parse_array(value, lambda v: v if v is None else expect_int(v)), hard=hard)


def _parse_chunk_shapes(layout: LayoutConstraints, value: JSON) -> None:
    layout.set_chunk_shapes(parse_array(value, lambda v: v if v is None else parse_sizes(v)))


def _parse_grid(layout: LayoutConstraints, usages: Mapping[str, Sequence[str]], value: JSON) -> None:
    members = Members(value)
    take_grid_members(members, {part: [layout._grids[u] for u in usages[part]] for part in usages})
    members.finish()
    for grid in layout._grids.values():
        if grid.rank is not None:
            layout.set_rank(grid.rank)
