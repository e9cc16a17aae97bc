"""Preview of a pyramid in numbers: its levels, and the reads that make them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import prod
from typing import NamedTuple

from chunkwise import TensorStore
from chunkwise.copying.quantities import format_nbytes, format_shape, plural
from chunkwise.extension import JSON
from chunkwise.extension.inside import Blocks, item_nbytes
from chunkwise.images.pyramid.plan import PyramidPlan

__all__ = ["PyramidPreview", "Reads", "preview_levels"]


@dataclass(frozen=True)
class PyramidPreview:
    """A pyramid that is not written yet.

    Attributes
    ----------
    convention, path : str
    levels : list of dict
        Of each level: path, shape, data type, chunks, shards, factors to the first level, bytes; of levels
        that are there already also ``"exists": True``.
    passes : list of dict
        Of each read: the levels made of it, the shape of a block, how many there are, and about how many
        requests it takes if everything is stored.
    left_out : list of str
        Metadata of the source that the convention can't hold.
    assumed : list of str
        Properties that the source lacks and are assumed, such as the names of its axes.
    """

    convention: str
    path: str
    levels: list[dict[str, JSON]]
    passes: list[dict[str, JSON]]
    left_out: list[str]
    assumed: list[str]

    @property
    def nbytes(self) -> int:
        """Size of all elements that are to be written, in bytes."""
        return sum(level["bytes"] for level in self.levels if not level["exists"])

    def to_json(self) -> dict[str, JSON]:
        """Return all of it as JSON."""
        return {
            "path": self.path,
            "convention": self.convention,
            "levels": self.levels,
            "passes": self.passes,
            "bytes": self.nbytes,
            "left_out": self.left_out,
            "assumed": self.assumed,
        }

    def lines(self) -> Iterator[str]:
        """Yield lines for people: of each level, of each read, and of the whole."""
        for level in self.levels:
            shards = "" if level["shards"] is None else f", shards {format_shape(level['shards'])}"
            there = ", is there already" if level["exists"] else ""
            yield (
                f"{level['path']:<6} {format_shape(level['shape']):<24} {level['dtype']}, chunks "
                f"{format_shape(level['chunks'])}{shards}, factors "
                f"{', '.join(map(str, level['factors']))}{there}"
            )
        for one in self.passes:
            yield (
                f"{one['reads']} -> {', '.join(one['levels'])}: {plural(one['tasks'], 'task')} of "
                f"{format_shape(one['block_shape'])}; about {plural(one['gets'], 'request')} to read, "
                f"{one['puts']:,} to write"
            )
        yield f"{self.path}: {self.convention}, {format_nbytes(self.nbytes)} to write"


class Reads(NamedTuple):
    """Blocks of the array before a level, of each of which one level or several are made."""

    first: int  # number of the first level
    n_levels: int
    blocks: Blocks  # of the first level


def preview_levels(
    plan: PyramidPlan, names: Sequence[str], arrays: Sequence[TensorStore], reads: Sequence[Reads]
) -> tuple[list[dict[str, JSON]], list[dict[str, JSON]]]:
    """Return the levels and the passes of a preview, of arrays of these names."""
    start = reads[0].first if reads else len(arrays)
    levels: list[dict[str, JSON]] = []
    for number, (name, level, array) in enumerate(zip(names, plan.levels, arrays, strict=True)):
        chunks, whole = (_sizes(array, which) for which in ("read_chunk", "write_chunk"))
        levels.append({
            "path": name,
            "shape": list(array.shape),
            "dtype": array.dtype.name,
            "chunks": chunks,
            "shards": None if whole == chunks else whole,
            "factors": list(level.factors),
            "bytes": array.size * item_nbytes(array),
            "exists": number < start,
        })  # fmt: skip
    passes: list[dict[str, JSON]] = []
    for first, n, blocks in reads:
        source, targets = arrays[first - 1] if first else plan.source, arrays[first : first + n]
        passes.append({
            "reads": names[first - 1] if first else "the source",
            "levels": list(names[first : first + n]),
            "block_shape": list(blocks.shape),
            "tasks": blocks.n_blocks,
            "gets": _n_cells(source, "read_chunk"),
            "puts": sum(_n_cells(one, "write_chunk") for one in targets),
        })  # fmt: skip
    return levels, passes


def _sizes(array: TensorStore, which: str) -> list[int]:
    """Return the sizes of chunks, those of the array where there are none."""
    sizes = getattr(array.chunk_layout, which).shape or (None,) * array.rank
    return [size or max(1, n) for n, size in zip(array.shape, sizes, strict=True)]


def _n_cells(array: TensorStore, which: str) -> int:
    return prod(-(-n // size) for n, size in zip(array.shape, _sizes(array, which), strict=True))
