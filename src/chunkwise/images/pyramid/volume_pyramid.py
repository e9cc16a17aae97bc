"""A pyramid as a precomputed volume: each scale is made from the one before."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from chunkwise import TensorStore, downsample
from chunkwise import open as open_spec
from chunkwise.copying.copy_options import CopyOptions
from chunkwise.copying.executors import Workers
from chunkwise.extension.trees import VOLUME, Location
from chunkwise.images.conventions.convention import LABEL
from chunkwise.images.conventions.ome_metadata import label_colors_of
from chunkwise.images.multiscale.array_axes import ArrayImage
from chunkwise.images.multiscale.image import MultiscaleImage
from chunkwise.images.multiscale.metadata import Axis, ImageMetadata, LevelMetadata, Transformation
from chunkwise.images.pyramid.plan import PyramidPlan
from chunkwise.images.pyramid.pyramid_work import PyramidWork, Reads
from chunkwise.images.pyramid.volume_copy import VolumeCopy

__all__ = ["VolumePyramid"]


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
