"""Preview of a pyramid in numbers: its levels, and the reads that make them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import prod

from chunkwise import TensorStore
from chunkwise.copying.quantities import format_nbytes, format_shape, plural
from chunkwise.extension import JSON
from chunkwise.extension.inside import item_nbytes
from chunkwise.images.pyramid.level_step import LevelStep
from chunkwise.images.pyramid.plan import PyramidPlan

__all__ = ["PyramidPreview", "preview_levels"]


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


def preview_levels(
    plan: PyramidPlan,
    path: str,
    arrays: Sequence[TensorStore],
    steps: Sequence[tuple[int, LevelStep]],
    left_out: Sequence[str],
) -> PyramidPreview:
    """Return the preview of a plan, given its arrays, and for each read the first level and the step."""
    start = steps[0][0] if steps else len(arrays)
    levels: list[dict[str, JSON]] = []
    for number, (name, level, array, template) in enumerate(
        zip(plan.names, plan.levels, arrays, plan.templates, strict=True)
    ):
        levels.append({
            "path": name,
            "shape": list(level.shape),
            "dtype": array.dtype.name,
            "chunks": list(array.chunk_layout.read_chunk.shape or ()),
            "shards": None if template.shards is None else list(template.shards),
            "factors": list(level.factors),
            "bytes": array.size * item_nbytes(array),
            "exists": number < start,
        })  # fmt: skip
    passes: list[dict[str, JSON]] = []
    for first, step in steps:
        source = plan.source if not first else arrays[first - 1]
        passes.append({
            "reads": "the source" if not first else plan.names[first - 1],
            "levels": list(plan.names[first : first + len(step.targets)]),
            "block_shape": list(step.blocks.shape),
            "tasks": step.blocks.n_blocks,
            "gets": _n_cells(source.shape, source.chunk_layout.read_chunk.shape),
            "puts": sum(_n_cells(one.shape, one.chunk_layout.write_chunk.shape) for one in step.targets),
        })  # fmt: skip
    return PyramidPreview(plan.convention.name, path, levels, passes, list(left_out), list(plan.assumed))


def _n_cells(shape: Sequence[int], chunk: Sequence[int | None] | None) -> int:
    sizes = chunk or (None,) * len(shape)
    return prod(-(-n // (size or max(1, n))) for n, size in zip(shape, sizes, strict=True))
