"""Sizes of chunks and shards by dimension name: one option for arrays of different dimensions.

``{"time": 90, "lat": 8}`` applies to each array that has dimensions of these names.  Other dimensions and
arrays keep their sizes.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from chunkwise.copying.array_template import ArrayTemplate
from chunkwise.core.base.binding import dump
from chunkwise.errors import InvalidArgumentError

__all__ = ["SIZES", "SizesError", "check_named", "resolved_sizes"]

SIZES = ("chunks", "shards")
"""Options that take sizes by dimension name."""


class SizesError(InvalidArgumentError):
    """The requested sizes don't fit an array."""


def check_named(options: Mapping[str, Any], names: Iterable[str | None], where: str) -> None:
    """Raise SizesError if sizes are given for a name that isn't in `names`, those of `where`."""
    known = sorted({name for name in names if name})
    for option in SIZES:
        sizes = options.get(option)
        for name in sizes if isinstance(sizes, Mapping) else ():
            if name not in known:
                there = f"there are {', '.join(map(dump, known))}" if known else "none has a name"
                raise SizesError(f"{option}: {where} has no dimension {dump(name)}; {there}")


def resolved_sizes(template: ArrayTemplate, options: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options of a copy with one size for each dimension of the template's array.

    Options for names that the array doesn't have are left out.
    """
    out = dict(options)
    names = out.get("names", template.names)
    for option in SIZES:
        sizes = out.get(option)
        if isinstance(sizes, Mapping):
            # New shards are as large as the chunks along the other dimensions.
            before = template.shards or out.get("chunks", template.chunks) if option == "shards" else None
            found = _of_dimensions(sizes, names, before or template.chunks, option, len(template.shape))
            if found is None:
                del out[option]
            else:
                out[option] = found
        elif sizes is not None and len(sizes) != len(template.shape):
            raise SizesError(
                f"{option}: expected one size for each of {len(template.shape)} dimensions, or sizes by "
                f"dimension name, not {list(sizes)}"
            )
    if any(isinstance(options.get(option), Mapping) for option in SIZES):
        _check_divided(out.get("shards", template.shards), out.get("chunks", template.chunks))
    return out


def _of_dimensions(
    sizes: Mapping[str, int],
    names: Sequence[str | None],
    before: Sequence[int] | None,
    option: str,
    rank: int,
) -> tuple[int, ...] | None:
    """Return one size for each dimension, None if none of them has one of the names."""
    if not any(name in sizes for name in names):
        return None
    wanted = [sizes.get(name) if name else None for name in names]
    if before is None:
        if None in wanted:
            others = [dump(name) for name, size in zip(names, wanted, strict=True) if size is None]
            raise SizesError(
                f"{option}: sizes are needed for {', '.join(others)} too, where the array has no single one"
            )
        before = (0,) * rank
    return tuple(old if size is None else size for size, old in zip(wanted, before, strict=True))


def _check_divided(shards: Sequence[int] | None, chunks: Sequence[int] | None) -> None:
    if shards is None or chunks is None:
        return
    if any(outer % inner for outer, inner in zip(shards, chunks, strict=True)):
        raise SizesError(f"shards of {list(shards)} can't be divided into chunks of {list(chunks)}")
