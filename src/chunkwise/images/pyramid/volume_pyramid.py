"""A pyramid as a precomputed volume: each scale is made from the one before."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from itertools import chain
from typing import Any

from chunkwise import TensorStore, downsample
from chunkwise import open as open_spec
from chunkwise.copying.copy_options import CopyOptions
from chunkwise.copying.executors import Workers
from chunkwise.copying.tasks import Chain
from chunkwise.copying.work import TaskRunner
from chunkwise.errors import AbortedError
from chunkwise.extension import JSON
from chunkwise.extension.trees import VOLUME, Location
from chunkwise.images.multiscale.array_axes import ArrayImage
from chunkwise.images.multiscale.image import MultiscaleImage
from chunkwise.images.multiscale.metadata import Axis, ImageMetadata, LevelMetadata, Transformation
from chunkwise.images.pyramid.plan import PyramidPlan
from chunkwise.images.pyramid.preview import PyramidPreview
from chunkwise.images.pyramid.pyramid_copy import Pyramid, PyramidProgress
from chunkwise.images.pyramid.volume_copy import VolumeCopy

__all__ = ["VolumePyramid"]


class VolumePyramid(VolumeCopy):
    """A pyramid to write as a volume, with the methods of `PyramidCopy`."""

    command = "chunkwise pyramid --resume"

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
        self.wanted: Callable[[], bool] = lambda: True
        super().__init__(_image_of(plan, known, labels), destination, options, how, workers, left_out)
        self.nbytes_to_do = self.nbytes * (2 if how.verify else 1)

    def _source_of(self, number: int, source: TensorStore, before: TensorStore | None) -> TensorStore:
        if before is None:
            return source
        names, step = [axis.name for axis in self._pyramid.axes], self._pyramid.levels[number].step
        dims = [dim if dim is None else names.index(self._image.axes[dim].name) for dim in self._dims]
        factors = [1 if dim is None else step[dim] for dim in dims]
        return downsample(before, factors, self._pyramid.method)

    def preview(self) -> PyramidPreview:
        """Return a preview; write nothing, and raise what `begin` would raise."""
        if self._begun is None or not self._how.resume:
            self._check_free()
        levels: list[dict[str, JSON]] = []
        passes: list[dict[str, JSON]] = []
        for number, (level, job) in enumerate(zip(self._pyramid.levels, self._jobs, strict=True)):
            target, plan = job.arrays.target, job.plan
            chunks, shards = (list(c.shape or ()) for c in self._chunks_of(target))
            levels.append(
                {
                    "path": self._keys[number],
                    "shape": list(target.shape),
                    "dtype": target.dtype.name,
                    "chunks": chunks,
                    "shards": None if shards == chunks else shards,
                    "factors": list(level.factors),
                    "bytes": job.nbytes,
                    "exists": False,
                }
            )
            passes.append(
                {
                    "reads": "the source" if not number else self._keys[number - 1],
                    "levels": [self._keys[number]],
                    "block_shape": list(plan.passes[-1].shape),
                    "tasks": plan.n_tasks,
                    "gets": sum(plan.n_gets),
                    "puts": sum(plan.n_puts),
                }
            )
        return PyramidPreview(
            VOLUME,
            self._destination.location.text,
            levels,
            passes,
            list(self._notes),
            list(self._pyramid.assumed),
        )

    @staticmethod
    def _chunks_of(target: TensorStore) -> Iterator[Any]:
        yield target.chunk_layout.read_chunk
        yield target.chunk_layout.write_chunk

    def write(
        self, progress: Callable[[PyramidProgress], object], advance: Callable[[int], object]
    ) -> Pyramid:
        """Write the rest; raise AbortedError if it isn't wanted any more."""
        done, n = 0, len(self._keys)

        def told(path: str, nbytes: int) -> None:
            nonlocal done
            done += nbytes
            advance(nbytes)
            progress(PyramidProgress(int(path), n, done, self.nbytes_to_do))
            self._check_wanted()

        self.tell_start(partial(told, "0", self.nbytes_done))
        self.run(told, told)
        place = {"driver": VOLUME, "kvstore": self._destination.location.kvstore(), "open": True}
        levels = [open_spec({**place, "scale_index": number}).result() for number in range(n)]
        factors = tuple(level.factors for level in self._pyramid.levels)
        text = self._destination.location.text
        return Pyramid(
            VOLUME,
            text,
            tuple(self._keys),
            tuple(levels),
            factors,
            tuple(self._notes),
            self._pyramid.assumed,
        )

    def _chains(self, runner: TaskRunner) -> Iterator[Chain]:
        yield chain.from_iterable(super()._chains(runner))  # each scale is made of the one before

    def _tick(self) -> None:
        super()._tick()
        self._check_wanted()

    def _check_wanted(self) -> None:
        if not self.wanted():
            raise AbortedError("the pyramid isn't wanted any more")


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
        document={} if known.image is None else known.image.metadata,
    )
    return MultiscaleImage(metadata, lambda number: levels[number], location="the image")
