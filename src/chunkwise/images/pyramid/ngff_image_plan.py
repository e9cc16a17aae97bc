"""Copies of images to OME-Zarr: of N5 in the layouts of its viewers, TIFF, precomputed volumes, OME-Zarr.

Levels are copied as they are, with x last; the attributes, by which viewers recognise an image, come after
them. The setups or channels of an N5 container become one image with an axis of channels if they are alike,
or else an image each, in a group of the same name.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from chunkwise import Attributes, Unit
from chunkwise.copying.array_copy import ArrayCopy
from chunkwise.copying.array_template import template_options
from chunkwise.copying.copy_options import CopyOptions
from chunkwise.copying.copy_plan import CopyPlan
from chunkwise.copying.copy_report import CopyReport
from chunkwise.copying.copy_source import CopySource, check_apart
from chunkwise.copying.destination import Destination
from chunkwise.copying.executors import Workers, kept_open
from chunkwise.copying.named_sizes import check_named, resolved_sizes
from chunkwise.copying.planned_copy import Progress
from chunkwise.copying.target import target_spec
from chunkwise.errors import InvalidArgumentError, prefix
from chunkwise.extension import JSON
from chunkwise.extension.trees import Location, require_node, tree_format
from chunkwise.groups.open_group import open_group
from chunkwise.images.multiscale.array_axes import ArrayImage
from chunkwise.images.multiscale.image import MultiscaleImage
from chunkwise.images.multiscale.image_axes import AXIS_KINDS, ImageAxis, slowest_first
from chunkwise.images.multiscale.label_votes import most_voted
from chunkwise.images.multiscale.open import open_multiscale
from chunkwise.images.pyramid.image_copy import array_options, copy_array
from chunkwise.images.pyramid.image_journal import beating, begin_image, check_nothing_begun, saved
from chunkwise.images.pyramid.image_sources import OF_VIEWERS, images_of, level_source
from chunkwise.images.pyramid.kept import Kept, kept_attributes
from chunkwise.images.pyramid.ngff import check_ngff_axes, ngff_image

__all__ = ["NgffCopy"]


class _Part(NamedTuple):
    """An image that is to be copied into a group."""

    path: str  # of the group, from the destination on
    image: MultiscaleImage
    axes: tuple[ImageAxis, ...]  # in the order of the copy
    order: tuple[int, ...]  # dimensions of the source
    sources: tuple[CopySource, ...]  # of the levels
    kept: Kept


class NgffCopy:
    """A copy of an image, or of several, planned and then made by `run`."""

    def __init__(
        self, source: Location, destination: Location, format: str, options: Mapping[str, Any]
    ) -> None:
        check_apart(source, destination)
        rules = tree_format(format)
        if not rules.ngff_version:
            raise InvalidArgumentError(f"OME-Zarr is Zarr v3 or v2, not {format}")
        self._where, self._version, self._format = destination, rules.ngff_version, rules.name
        self._to = Destination(destination, destination)
        self._options, self._source = template_options(options), source
        self._targets: dict[str, JSON] = {}
        found = open_multiscale(source, drafts=True)
        self._problems = list(found.problems) if not isinstance(found, MultiscaleImage) else []
        self._parts = [self._part(*one) for one in images_of(found, source)]
        self.nbytes = sum(
            one.store.size * one.store.dtype.memory_dtype.itemsize
            for part in self._parts
            for one in part.sources
        )

    def begin(self, how: CopyOptions) -> None:
        """Make the group, beside what it replaces; raise AlreadyExistsError if something is in the way."""
        if not (how.overwrite or how.resume):
            check_nothing_begun(self._where)
        self._to = Destination.choose(self._where, overwrite=how.overwrite, go_on=how.resume, tree=True)
        if how.overwrite:
            self._to.clear()
        self._to.create_parents(self._format)
        for path in ("", *(part.path for part in self._parts if part.path)):
            open_group(self._group(path), "a", format=self._format)
        n_arrays = sum(len(part.sources) for part in self._parts)
        self._journal = begin_image(self._to, self._source, self._format, self._targets, n_arrays)

    def plans(self, how: CopyOptions, workers: Workers) -> dict[str, CopyPlan]:
        """Return how each array is copied."""
        return {path: work.passes for part in self._parts for path, work in self._arrays(part, how, workers)}

    def run(self, how: CopyOptions, *, workers: Workers, progress: Progress) -> CopyReport:
        """Copy everything into the group that `begin` has made."""
        with saved(self._journal):
            return self._run(how, workers, beating(self._journal, progress))

    def _run(self, how: CopyOptions, workers: Workers, progress: Progress) -> CopyReport:
        report = CopyReport()
        with kept_open(workers) as opened:
            for part in self._parts:
                for path, work in self._arrays(part, how, opened):
                    copy_array(report, path, work, progress)
                    self._journal.mark(report.n_arrays - 1)
                attributes = Attributes(require_node(self._group(part.path)))
                attributes.update(self._attributes(part))
        report.n_groups = len({"", *(part.path for part in self._parts)})
        report.notes += [("", f"is left out: {problem}") for problem in self._problems]
        report.notes += [
            (part.path, note if "left out" in note else f"is left out: {note}")
            for part in self._parts
            for note in part.kept.left_out
        ]
        self._journal.delete()
        if self._to.replacement is not None:
            self._to.commit()
        return report

    def _group(self, path: str) -> Location:
        return self._to.place.child(path) if path else self._to.place

    def _arrays(self, part: _Part, how: CopyOptions, workers: Workers) -> Iterator[tuple[str, ArrayCopy]]:
        for number, source in enumerate(part.sources):
            path = f"{part.path}/{number}".lstrip("/")
            where = self._to.place.child(path)
            fields = self._options_of(source)
            yield path, ArrayCopy(source, where, self._format, fields, array_options(how), workers=workers)

    def _options_of(self, source: CopySource) -> dict[str, Any]:
        """Return the options for an array; shapes for axes of space only have 1 in front of them."""
        rank = source.store.rank
        out = dict(self._options)
        for name in ("chunks", "shards"):
            sizes = out.get(name)
            if sizes is not None and not isinstance(sizes, Mapping):
                out[name] = (*(1,) * (rank - len(sizes)), *sizes)
        check_named(out, source.template.names, "the image")
        return resolved_sizes(source.template, out)

    def _part(self, path: str, image: MultiscaleImage) -> _Part:
        kept = kept_attributes(ArrayImage((), image.available()), self._format)
        image = image.available()
        named = [
            ImageAxis(
                axis.name,
                axis.type if axis.type in AXIS_KINDS else "other",  # type: ignore[arg-type]
                size,
                axis.unit,
            )
            for axis, size in zip(image.axes, image.scales[0], strict=True)
        ]
        order = tuple(slowest_first(image.levels[0], named))
        axes = tuple(named[dim] for dim in order)
        check_ngff_axes(axes)
        sources: list[CopySource] = []
        first: tuple[int, ...] | None = None
        for number, level in enumerate(image.levels):
            where = f"{image.location}/{image.paths[number]}"
            source = level_source(most_voted(level), image.stored_chunks, where).arranged(order)
            sizes = [image.scales[number][dim] for dim in order]
            units = [Unit(n, axis.unit) if axis.unit else None for n, axis in zip(sizes, axes, strict=True)]
            inner = source.template.chunks
            if number == 0:
                first = inner
            elif self._options.get("shards") is not None:  # lower levels may have been cut to their own size
                inner = first
            template = source.template.replaced(
                {
                    "chunks": inner,
                    "names": tuple(axis.name for axis in axes),
                    "units": tuple(units),
                    "attributes": {
                        name: value
                        for name, value in source.template.attributes.items()
                        if name not in OF_VIEWERS
                    },
                }
            )
            source = source._replace(template=template)
            options = self._options_of(source)
            try:
                target = target_spec(template.replaced(options), self._format, list(options))
            except InvalidArgumentError as e:
                raise prefix(e, f"{image.location}: level {image.paths[number]}") from None
            self._targets[f"{path}/{number}".lstrip("/")] = dict(target.spec)
            sources.append(source)
        return _Part(path, image, axes, order, tuple(sources), kept)

    def _attributes(self, part: _Part) -> dict[str, JSON]:
        image = part.image
        levels = [
            (str(number), [scale[dim] for dim in part.order], [at[dim] for dim in part.order])
            for number, (scale, at) in enumerate(zip(image.scales, image.translations, strict=True))
        ]
        name = (
            image._metadata.name or part.path or self._where.name.removesuffix(".zarr").removesuffix(".ome")
        )
        entry = ngff_image(name, part.axes, levels)
        own: dict[str, JSON] = {"multiscales": [entry]}
        if part.kept.omero:
            own["omero"] = dict(part.kept.omero)
        if image.is_labels:
            own["image-label"] = dict(part.kept.image_label)
        if self._version == "0.4":
            entry["version"] = "0.4"
            return {**part.kept.attributes, **own}
        return {**part.kept.attributes, "ome": {"version": self._version, **own}}
