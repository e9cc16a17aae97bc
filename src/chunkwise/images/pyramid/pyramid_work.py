"""``PyramidWork``: the copy that writes a planned pyramid, as arrays or as a precomputed volume."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import chain
from math import prod
from typing import Any, ClassVar, NamedTuple

from chunkwise import TensorStore, downsample
from chunkwise import open as open_spec
from chunkwise.copying.copy_options import CopyOptions
from chunkwise.copying.executors import Workers
from chunkwise.copying.planned_copy import PlannedCopy
from chunkwise.copying.quantities import format_nbytes, format_shape, plural
from chunkwise.copying.tasks import Chain
from chunkwise.copying.work import TaskRunner
from chunkwise.errors import AbortedError
from chunkwise.extension import JSON
from chunkwise.extension.inside import Blocks, item_nbytes
from chunkwise.extension.trees import VOLUME, Location
from chunkwise.images.conventions.convention import LABEL
from chunkwise.images.conventions.ome_metadata import label_colors_of
from chunkwise.images.multiscale.array_axes import ArrayImage
from chunkwise.images.multiscale.image import MultiscaleImage
from chunkwise.images.multiscale.metadata import Axis, ImageMetadata, LevelMetadata, Transformation
from chunkwise.images.pyramid.plan import PyramidPlan
from chunkwise.images.pyramid.volume_copy import VolumeCopy

__all__ = ["Pyramid", "PyramidProgress", "PyramidWork", "Reads", "VolumePyramid"]

# -- what will be written -----------------------------------------------------------------------------

# Preview of a pyramid in numbers: its levels, and the reads that make them.


@dataclass(frozen=True)
class PyramidPreview:
    """A pyramid that is not written yet.

    Attributes
    ----------
    convention, path : str
    levels : list of dict
        Path, shape, data type, chunks, shards, factors to the first level and bytes of each level, and
        ``"exists": True`` if it is there already.
    passes : list of dict
        Each read has the levels made of it, the shape and the number of its blocks, and about how many
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


def _preview_levels(
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


# -- the work -----------------------------------------------------------------------------------------


class WrittenLevels(tuple[TensorStore, ...]):
    """The arrays of a pyramid, shown by their shapes and data types."""

    __slots__ = ()

    def __repr__(self) -> str:
        shown = [f"TensorStore {level.shape} {level.dtype.name}" for level in self]
        return f"({', '.join(shown)}{',' * (len(shown) == 1)})"


class PyramidProgress(NamedTuple):
    """Progress of a pyramid.

    Attributes
    ----------
    level : int
        The one that is being written.
    n_levels : int
    nbytes_done, nbytes : int
        Bytes of all levels to write, plus those to compare.
    """

    level: int
    n_levels: int
    nbytes_done: int
    nbytes: int


class Pyramid(NamedTuple):
    """A pyramid that has been written.

    Attributes
    ----------
    convention : str
    path : str
        Path of the group.
    names : tuple of str
        Names of the arrays in it.
    levels : tuple of TensorStore
        The arrays, the one of full resolution first.
    factors : tuple of tuple of int
        Factors of each level relative to the first.
    left_out : tuple of str
        Metadata of the source that the convention can't hold.
    assumed : tuple of str
        Properties that the source lacks and are assumed, such as the names of its axes.
    """

    convention: str
    path: str
    names: tuple[str, ...]
    levels: tuple[TensorStore, ...]
    factors: tuple[tuple[int, ...], ...]
    left_out: tuple[str, ...] = ()
    assumed: tuple[str, ...] = ()

    def __repr__(self) -> str:
        shapes = ", ".join(
            f"{name}: {'x'.join(map(str, level.shape))}"
            for name, level in zip(self.names, self.levels, strict=True)
        )
        return f"<{self.convention} pyramid at {self.path}: {shapes}>"


class PyramidWork(PlannedCopy):
    """A copy whose larger arrays are levels, each made of the one before; see `begin` and `write`."""

    command: ClassVar[str] = "chunkwise pyramid --resume"
    convention: str
    level_names: tuple[str, ...]
    left_out: tuple[str, ...]
    _pyramid: PyramidPlan

    wanted: Callable[[], bool] = staticmethod(lambda: True)
    """Whether anyone waits for it still."""

    @abstractmethod
    def _check(self) -> None:
        """Raise AlreadyExistsError if something is in the way that can't be replaced."""

    @abstractmethod
    def _reads(self) -> tuple[list[TensorStore], list[Reads]]:
        """Return the arrays of all levels, and the reads of which they are made."""

    @abstractmethod
    def _open_levels(self) -> Iterable[TensorStore]:
        """Open the levels that have been written."""

    @property
    def nbytes_to_do(self) -> int:
        """Bytes to write, and to compare."""
        return self.nbytes * (2 if self._how.verify else 1)

    def preview(self) -> PyramidPreview:
        """Return a preview; write nothing, and raise what `begin` would raise."""
        if self._begun is None or not self._how.resume:
            self._check()
        levels, passes = _preview_levels(self._pyramid, self.level_names, *self._reads())
        assumed = list(self._pyramid.assumed)
        return PyramidPreview(self.convention, self._at, levels, passes, list(self.left_out), assumed)

    def write(
        self, progress: Callable[[PyramidProgress], object], advance: Callable[[int], object]
    ) -> Pyramid:
        """Write the rest; raise AbortedError if it isn't wanted any more."""
        pyramid, done = self._pyramid, 0

        def told(path: str, nbytes: int) -> None:
            nonlocal done
            if nbytes:
                done += nbytes
                advance(nbytes)
                level, n = pyramid.names.index(path), len(pyramid.names)
                progress(PyramidProgress(level, n, done, self.nbytes_to_do))
            self._check_wanted()

        if self.plan.large:
            self.tell_start(partial(told, next(iter(self.plan.large)), self.nbytes_done))
        self.run(told, told)
        return Pyramid(
            self.convention,
            self._at,
            self.level_names,
            WrittenLevels(self._open_levels()),
            tuple(level.factors for level in pyramid.levels),
            self.left_out,
            pyramid.assumed,
        )

    @property
    def _at(self) -> str:
        """Location of the pyramid, for people."""
        return self._destination.location.text if self.archive is None else self.archive.location.text

    def _chains(self, runner: TaskRunner) -> Iterator[Chain]:
        yield chain.from_iterable(super()._chains(runner))  # each level is made of the one before

    def _tick(self) -> None:
        super()._tick()
        self._check_wanted()

    def _check_wanted(self) -> None:
        if not self.wanted():
            raise AbortedError("the pyramid isn't wanted any more")


class VolumePyramid(PyramidWork, VolumeCopy):
    """The work that writes a pyramid as a volume."""

    convention = VOLUME

    def __init__(
        self,
        plan: PyramidPlan,
        known: ArrayImage,
        destination: Location,
        options: Mapping[str, Any],
        how: CopyOptions,
        workers: Workers,
        *,
        labels: bool,
        left_out: str,
    ) -> None:
        self._pyramid = plan
        VolumeCopy.__init__(
            self, _image_of(plan, known, labels), destination, options, how, workers, left_out
        )
        self.level_names, self.left_out = tuple(self._keys), tuple(self._notes)

    def _source_of(self, number: int, source: TensorStore, before: TensorStore | None) -> TensorStore:
        if before is None:
            return source
        names, step = [axis.name for axis in self._pyramid.axes], self._pyramid.levels[number].step
        dims = [dim if dim is None else names.index(self._image.axes[dim].name) for dim in self._dims]
        factors = [1 if dim is None else step[dim] for dim in dims]
        return downsample(before, factors, self._pyramid.method)

    def _check(self) -> None:
        self._check_free()

    def _reads(self) -> tuple[list[TensorStore], list[Reads]]:
        reads = [Reads(number, 1, job.plan.passes[-1]) for number, job in enumerate(self._jobs)]
        return [job.arrays.target for job in self._jobs], reads

    def _open_levels(self) -> Iterator[TensorStore]:
        place = {"driver": VOLUME, "kvstore": self._destination.location.kvstore(), "open": True}
        return (open_spec({**place, "scale_index": number}).result() for number in range(len(self._keys)))


def _image_of(plan: PyramidPlan, known: ArrayImage, labels: bool) -> MultiscaleImage:
    """Return the image that the levels of a plan will be; those below the first are not made yet."""
    levels = [plan.source]
    for level in plan.levels[1:]:
        levels.append(downsample(levels[-1], level.step, plan.method))
    metadata = ImageMetadata(
        "raw" if known.image is None else known.image.convention,
        tuple(Axis(axis.name, axis.kind, axis.unit) for axis in plan.axes),
        tuple(
            LevelMetadata(str(number), Transformation(level.scale, level.translation), "")
            for number, level in enumerate(plan.levels)
        ),
        "",
        known.shown,
        is_labels=labels,
        label_colors=label_colors_of(known.image_label, LABEL, []),
        document={} if known.image is None else known.image.metadata,
    )
    return MultiscaleImage(metadata, lambda number: levels[number], location="the image")
