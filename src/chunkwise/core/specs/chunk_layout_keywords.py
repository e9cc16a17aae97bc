"""The keywords of a chunk layout, and what they set."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from typing import Any, Final, TypeAlias, TypedDict

from chunkwise.core.specs.chunk_grid_constraints import GridConstraints
from chunkwise.core.specs.constraint import float_items, int_item, int_items, prefixed
from chunkwise.core.specs.layout_constraints import GRID_USAGES, LayoutConstraints

__all__ = ["CHUNK_USAGES", "ChunkLayoutKeywords", "apply_keywords", "merge_grid"]

Ints: TypeAlias = Iterable[int | None] | None
Floats: TypeAlias = Iterable[float | None] | None


class ChunkLayoutKeywords(TypedDict, total=False):
    """Keywords of `ChunkLayout` and `ChunkLayout.update`; None means not given."""

    rank: int | None
    inner_order: Iterable[int] | None
    inner_order_soft_constraint: Iterable[int] | None
    grid_origin: Ints
    grid_origin_soft_constraint: Ints
    chunk: GridConstraints | None
    write_chunk: GridConstraints | None
    read_chunk: GridConstraints | None
    codec_chunk: GridConstraints | None
    chunk_shape: Ints
    chunk_shape_soft_constraint: Ints
    write_chunk_shape: Ints
    write_chunk_shape_soft_constraint: Ints
    read_chunk_shape: Ints
    read_chunk_shape_soft_constraint: Ints
    codec_chunk_shape: Ints
    codec_chunk_shape_soft_constraint: Ints
    chunk_aspect_ratio: Floats
    chunk_aspect_ratio_soft_constraint: Floats
    write_chunk_aspect_ratio: Floats
    write_chunk_aspect_ratio_soft_constraint: Floats
    read_chunk_aspect_ratio: Floats
    read_chunk_aspect_ratio_soft_constraint: Floats
    codec_chunk_aspect_ratio: Floats
    codec_chunk_aspect_ratio_soft_constraint: Floats
    chunk_elements: int | None
    chunk_elements_soft_constraint: int | None
    write_chunk_elements: int | None
    write_chunk_elements_soft_constraint: int | None
    read_chunk_elements: int | None
    read_chunk_elements_soft_constraint: int | None
    codec_chunk_elements: int | None
    codec_chunk_elements_soft_constraint: int | None
    finalize: bool | None


CHUNK_USAGES: Final = {
    "shape": GRID_USAGES[:2],
    "aspect_ratio": GRID_USAGES,
    "elements": GRID_USAGES[:2],
}
"""The grids to which a member of ``chunk`` applies."""

_SOFT: Final = "_soft_constraint"


def apply_keywords(layout: LayoutConstraints, keywords: ChunkLayoutKeywords) -> None:
    """Set the given `keywords` on `layout`, in the order of `ChunkLayoutKeywords`."""
    given: dict[str, Any] = {name: value for name, value in keywords.items() if value is not None}
    unknown = given.keys() - ChunkLayoutKeywords.__annotations__.keys()
    if unknown:
        raise TypeError(f"ChunkLayout has no keyword {min(unknown)!r}")
    for name in ChunkLayoutKeywords.__annotations__:
        if name in given:
            with prefixed(f"Invalid {name}"):
                _apply(layout, name, given[name])


def _apply(layout: LayoutConstraints, name: str, value: Any) -> None:
    hard = not name.endswith(_SOFT)
    base = name.removesuffix(_SOFT)
    if base == "rank":
        if (rank := int_item(value, name)) != -1:
            layout.set_rank(rank)
    elif base == "finalize":
        if isinstance(value, str | bytes):
            raise TypeError(f"Invalid {name}")
        if value:
            layout.become(layout.finalized())
    elif base == "inner_order":
        order = [i for i in int_items(value, name) if i is not None]
        if len(order) < len(value):
            raise TypeError(f"Invalid {name}")
        if order:
            with prefixed("Error setting inner_order"):
                layout.set_inner_order(order, hard=hard)
    elif base == "grid_origin":
        if origin := int_items(value, name):
            with prefixed("Error setting grid_origin"):
                layout.set_grid_origin(origin, hard=hard)
    elif base in GRID_USAGES or base == "chunk":
        if not isinstance(value, GridConstraints):
            raise TypeError(f"Invalid {name}")
        merge_grid(layout, base, value)
    else:
        usage, _, part = base.rpartition("chunk_")
        _set_part(layout, f"{usage}chunk", part, name, value, hard)


def merge_grid(layout: LayoutConstraints, usage: str, grid: GridConstraints) -> None:
    """Add the constraints of `grid` to those of `layout` on the grid or grids of `usage`."""
    for target in GRID_USAGES if usage == "chunk" else (usage,):
        for part, merge in _MERGE.items():
            if usage != "chunk" or target in CHUNK_USAGES[part]:
                layout.set_grid(target, part, partial(merge, other=grid))


def _set_part(layout: LayoutConstraints, usage: str, part: str, name: str, value: Any, hard: bool) -> None:
    apply: Callable[[GridConstraints], None]
    if part == "elements":
        apply = partial(GridConstraints.set_elements, elements=int_item(value, name), hard=hard)
    elif part == "shape":
        apply = partial(GridConstraints.set_shape, sizes=int_items(value, name), hard=hard)
    else:
        apply = partial(GridConstraints.set_aspect_ratio, ratios=float_items(value, name), hard=hard)
    if part != "elements" and len(value) == 0:
        return
    for target in CHUNK_USAGES[part] if usage == "chunk" else (usage,):
        layout.set_grid(target, part, apply)


_MERGE: Final = {
    "shape": GridConstraints.merge_shape,
    "aspect_ratio": GridConstraints.merge_aspect_ratio,
    "elements": GridConstraints.merge_elements,
}
