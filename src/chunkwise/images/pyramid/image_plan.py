"""``ImagePlan``: an image as the source of a tree copy, its levels and the groups that make them an image.

Everything is checked when a plan is made, so that an image that can't be copied is refused before anything is
written.  The attributes of groups, by which viewers recognise an image, come after the levels.
"""

from __future__ import annotations

import hashlib
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from chunkwise import Unit
from chunkwise.copying.array_options import array_options, check_named
from chunkwise.copying.copy_job import planned_job
from chunkwise.copying.copy_options import CopyOptions
from chunkwise.copying.copy_source import CopySource, check_apart
from chunkwise.copying.small_arrays import location_below, small_view
from chunkwise.copying.tree_plan import CopyRoom, TreePlan
from chunkwise.errors import InvalidArgumentError, prefix
from chunkwise.extension import JSON
from chunkwise.extension.inside import OTHERS_LEFT
from chunkwise.extension.trees import FormatName, Location, tree_format
from chunkwise.images.conventions.convention import Kept
from chunkwise.images.conventions.ome import OME_ZARR, check_ngff_axes, ngff_image
from chunkwise.images.multiscale.array_axes import ArrayImage
from chunkwise.images.multiscale.image import MultiscaleImage
from chunkwise.images.multiscale.metadata import ImageAxis, sized_axes, slowest_first
from chunkwise.images.multiscale.open import Multiscale, open_multiscale
from chunkwise.images.pyramid.image_sources import (
    images_after,
    images_of,
    kept_attributes,
    level_sources,
)

__all__ = ["ImagePlan", "LevelSource", "NgffImagePlan"]


class LevelSource(NamedTuple):
    """An array of the copy."""

    path: str  # from the top of the copy
    name: str  # of the level in the source, for errors
    source: CopySource
    options: Mapping[str, Any]  # in which the copy differs


class ImagePlan(ABC):
    """An image to copy into the group at `destination`; subclasses know the layout."""

    format: FormatName  # of the copy
    beside: list[str]  # names in the source that belong to no level
    has_others: bool = False  # whether these are images of the same file, which are copied too

    def __init__(self, source: Location, destination: Location, options: Mapping[str, Any]) -> None:
        check_apart(source, destination)
        self.location, self.destination = source, destination
        self.options = array_options(options)
        self._specs: dict[str, JSON] = {}

    @abstractmethod
    def levels(self) -> Iterator[LevelSource]:
        """Yield the arrays."""

    @abstractmethod
    def groups(self) -> dict[str, dict[str, JSON]]:
        """Return the attributes of the groups, by path from the top; those above need none."""

    @abstractmethod
    def notes(self) -> list[tuple[str, str]]:
        """Return paths, and notes on losses and other forms there."""

    @abstractmethod
    def check_free(self, how: CopyOptions) -> None:
        """Raise AlreadyExistsError if a file that `finish` writes exists, unless it may be replaced."""

    @abstractmethod
    def finish(self) -> None:
        """Write the files beside the group."""

    def plan(self, room: CopyRoom) -> TreePlan:
        """Return the plan of the copy."""
        made, digest = TreePlan(), hashlib.sha256()
        for path, name, source, options in self.levels():
            where = location_below(room.top, path)
            try:
                job = planned_job(source, where, room.format, dict(options), room.how)
            except InvalidArgumentError as e:
                raise prefix(e, f"{self.location.text}: level {name}") from None
            if job.arrays.is_small(room.room):
                made.small.append(small_view(path, job))
            else:
                room.plan_blocks(job)
                made.large[path] = job
            made.notes += [(path, note) for note in job.target_spec.notes]
            digest.update(source.digest.encode())
            spec = dict(job.target_spec.spec)
            if self._specs.setdefault(name, spec) != spec:  # stacks of a level are all alike
                self._specs[path] = spec
        made.digest = digest.hexdigest()
        made.groups = self.groups()
        others = "is left out: it is no level of the image; copy it by itself"
        made.notes += [*self.notes(), *((name, others) for name in self.beside)]
        return made

    def task(self, plan: TreePlan) -> dict[str, JSON]:
        """Return the description of the copy for its journal."""
        return {"levels": self._specs, "source metadata": plan.digest}


# -- copies to OME-Zarr -------------------------------------------------------------------------------

# Sources are N5 in the layouts of its viewers, TIFF, precomputed volumes, OME-Zarr.  Levels are copied as
# they are, with x last.  The setups or channels of an N5 container become one image with an axis of channels
# if they are alike, or else an image each, in a group of the same name.


class _Part(NamedTuple):
    """An image that is to be copied into a group."""

    path: str  # of the group, from the destination on
    image: MultiscaleImage
    axes: tuple[ImageAxis, ...]  # in the order of the copy
    order: tuple[int, ...]  # dimensions of the source
    sources: tuple[CopySource, ...]  # of the levels
    kept: Kept


class NgffImagePlan(ImagePlan):
    """An image, or several, to copy to OME-Zarr; `images` are by default those that the source is."""

    def __init__(
        self,
        source: Location,
        destination: Location,
        format: str,
        options: Mapping[str, Any],
        images: Multiscale | None = None,
    ) -> None:
        super().__init__(source, destination, options)
        rules = tree_format(format)
        if not rules.ngff_version:
            raise InvalidArgumentError(f"OME-Zarr is Zarr v3 or v2, not {format}")
        self._convention, self.format = OME_ZARR[rules.ngff_version], rules.name
        found = open_multiscale(source, drafts=True) if images is None else images
        after = images_after(source)
        self._problems = list(found.problems) if not isinstance(found, MultiscaleImage) else []
        self._parts = [self._part(*one) for one in (*images_of(found, source), *after)]
        self.has_others = bool(after)
        if after:  # the first doesn't lack them
            kept = self._parts[0].kept
            notes = tuple(note for note in kept.left_out if not note.startswith(OTHERS_LEFT))
            self._parts[0] = self._parts[0]._replace(kept=kept._replace(left_out=notes))

    def levels(self) -> Iterator[LevelSource]:
        """Yield the arrays."""
        for part in self._parts:
            for number, source in enumerate(part.sources):
                path = f"{part.path}/{number}".lstrip("/")
                yield LevelSource(path, part.image.paths[number], source, self._options_of(source))

    def groups(self) -> dict[str, dict[str, JSON]]:
        """Return the attributes of the groups, by path from the top; those above need none."""
        parts = {part.path: self._attributes(part) for part in self._parts}
        if "" in parts:
            return parts
        whole, listed = self._convention.series_attributes(list(parts))
        return {"": whole, "OME": listed, **parts}

    def notes(self) -> list[tuple[str, str]]:
        """Return paths, and notes on losses and other forms there."""
        return [
            *(("", f"is left out: {problem}") for problem in self._problems),
            *(
                (part.path, note if "left out" in note else f"is left out: {note}")
                for part in self._parts
                for note in part.kept.left_out
            ),
        ]

    def check_free(self, how: CopyOptions) -> None:
        """Do nothing: there is nothing beside the group."""

    def finish(self) -> None:
        """Do nothing."""

    def _options_of(self, source: CopySource) -> dict[str, Any]:
        """Return the options for an array; shapes for axes of space only have 1 in front of them."""
        rank = source.store.rank
        out = dict(self.options)
        for name in ("chunks", "shards"):
            sizes = out.get(name)
            if isinstance(sizes, tuple):
                out[name] = (*(1,) * (rank - len(sizes)), *sizes)
        check_named(out, source.template.names, "the image")
        return out

    def _part(self, path: str, image: MultiscaleImage) -> _Part:
        kept = kept_attributes(ArrayImage((), image.available()), self.format)
        image = image.available()
        named = sized_axes(image.axes, image.scales[0])
        order = tuple(slowest_first(image.levels[0], named))
        axes = tuple(named[dim] for dim in order)
        check_ngff_axes(axes)
        sources: list[CopySource] = []
        first: tuple[int, ...] | None = None
        for number, source in enumerate(level_sources(image)):
            source = source.arranged(order)
            sizes = [image.scales[number][dim] for dim in order]
            units = [Unit(n, axis.unit) if axis.unit else None for n, axis in zip(sizes, axes, strict=True)]
            inner = source.template.chunks
            if number == 0:
                first = inner
            elif self.options.get("shards") is not None:  # lower levels may have been cut to their own size
                inner = first
            template = source.template.replaced(
                {
                    "chunks": inner,
                    "names": tuple(axis.name for axis in axes),
                    "units": tuple(units),
                }
            )
            sources.append(source._replace(template=template))
        return _Part(path, image, axes, order, tuple(sources), kept)

    def _attributes(self, part: _Part) -> dict[str, JSON]:
        image = part.image
        levels = [
            (str(number), [scale[dim] for dim in part.order], [at[dim] for dim in part.order])
            for number, (scale, at) in enumerate(zip(image.scales, image.translations, strict=True))
        ]
        name = (
            image._metadata.name
            or part.path
            or self.destination.name.removesuffix(".zarr").removesuffix(".ome")
        )
        entry = ngff_image(name, part.axes, levels)
        return self._convention.image_attributes(entry, part.kept, labels=image.is_labels)
