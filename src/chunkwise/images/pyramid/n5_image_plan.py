"""Copies of images to N5 containers in the layout of a viewer: axes reversed, levels as they are.

Everything is checked first (`ImageCopy`), so that an image that can't be copied is refused before anything is
written.  Then each stack of each level is copied like any array; the attributes of groups, by which viewers
recognise an image, come last, and the XML file of BigDataViewer after them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any

from chunkwise import Unit
from chunkwise.copying.array_copy import ArrayCopy
from chunkwise.copying.array_template import template_options
from chunkwise.copying.copy_options import CopyOptions
from chunkwise.copying.copy_plan import CopyPlan
from chunkwise.copying.copy_report import CopyReport
from chunkwise.copying.copy_source import CopySource, check_apart
from chunkwise.copying.destination import Destination
from chunkwise.copying.executors import Workers, kept_open
from chunkwise.copying.losses import fitting_attributes
from chunkwise.copying.named_sizes import check_named, resolved_sizes
from chunkwise.copying.planned_copy import Progress
from chunkwise.copying.target import target_spec
from chunkwise.errors import AlreadyExistsError, InvalidArgumentError, UnsupportedError, prefix
from chunkwise.extension import JSON
from chunkwise.extension.n5 import array_data_type, load_document
from chunkwise.extension.trees import Location, change_document, container_root, require_node
from chunkwise.groups.open_group import open_group
from chunkwise.images.multiscale.image_axes import ImageAxis, slowest_first
from chunkwise.images.pyramid.bdv_xml import bdv_xml
from chunkwise.images.pyramid.geometry import Level
from chunkwise.images.pyramid.image_journal import beating, begin_image, check_nothing_begun, saved
from chunkwise.images.pyramid.image_sources import names_beside, read_image
from chunkwise.images.pyramid.n5_layouts import LAYOUTS, Stack
from chunkwise.images.pyramid.ngff_image import ImageLevel, NgffImage

__all__ = ["ImageCopy", "copy_array"]

_NEARLY = 1e-6


class ImageCopy:
    """A copy of an image, planned and then made by `run`."""

    def __init__(
        self, source: Location, destination: Location, layout: str, options: Mapping[str, Any]
    ) -> None:
        check_apart(source, destination)
        self._source, self._where, self._layout = source, destination, LAYOUTS[layout]
        self._to = Destination(destination, destination)
        self._options = template_options(options)
        self._image = image = read_image(source)
        first = image.levels[0]
        order = slowest_first(first.source.store, image.axes)[::-1]
        self._space = [dim for dim in order if image.axes[dim].kind == "space"]
        self._channel, self._time = (_only(image, kind) for kind in ("channel", "time"))
        axes = [image.axes[dim] for dim in self._space]
        self._layout.check(axes)
        if not all(first.source.store.shape):
            raise InvalidArgumentError(f"{source.text}: the image is empty: {list(first.source.store.shape)}")
        self._n_new = 3 - len(axes) if self._layout.needs_z else 0
        self._axes = [*axes, *[ImageAxis("z", "space", 1.0, axes[0].unit)] * self._n_new]
        if len({axis.name for axis in self._axes}) < len(self._axes):
            raise InvalidArgumentError(
                f"{source.text}: {layout} needs a third axis z, but there is one already"
            )
        self._levels = [self._level(level) for level in image.levels]
        self._xml = self._xml_location() if layout == "bdv" else None
        self.nbytes, self._targets = 0, dict[str, JSON]()
        for number, level in enumerate(image.levels):
            template = self._stack_source(number, next(iter(self._stacks()))).template
            check_named(self._options, template.names, "the image")
            chosen = resolved_sizes(template, self._options)
            try:
                target = target_spec(template.replaced(chosen), "n5", list(chosen))
            except InvalidArgumentError as e:
                raise prefix(e, f"{source.text}: level {level.path}") from None
            self._targets[f"s{number}"] = dict(target.spec)
            self.nbytes += level.source.store.size * level.source.store.dtype.memory_dtype.itemsize
        self._data_type = array_data_type(self._options.get("dtype", first.source.store.dtype))

    def begin(self, how: CopyOptions) -> None:
        """Make the group, beside what it replaces; raise AlreadyExistsError if something is in the way."""
        where = self._where
        if not (how.overwrite or how.resume):
            if self._xml is not None and self._xml[0].store.read(self._xml[1]).value is not None:
                raise AlreadyExistsError(f"{self._xml[0].store.describe(self._xml[1])} is there already")
            check_nothing_begun(where)
        self._to = Destination.choose(where, overwrite=how.overwrite, go_on=how.resume, tree=True)
        if how.overwrite:
            self._to.clear()
        self._to.create_parents("n5")
        open_group(self._to.place, "a", format="n5")
        n_arrays = len(self._levels) * len(list(self._stacks()))
        self._journal = begin_image(self._to, self._source, self._layout.name, self._targets, n_arrays)

    def arrays(
        self, stack: Stack, how: CopyOptions, workers: Workers | None
    ) -> Iterator[tuple[str, ArrayCopy]]:
        """Yield the path and the copy of each level of a stack."""
        for number in range(len(self._levels)):
            path = f"{stack.path}/s{number}".lstrip("/")
            source, where = self._stack_source(number, stack), self._to.place.child(path)
            yield (
                path,
                ArrayCopy(source, where, "n5", dict(self._options), array_options(how), workers=workers),
            )

    def plans(self, how: CopyOptions, workers: Workers) -> dict[str, CopyPlan]:
        """Return how each array is copied."""
        return {
            path: work.passes for stack in self._stacks() for path, work in self.arrays(stack, how, workers)
        }

    def run(self, how: CopyOptions, *, workers: Workers, progress: Progress) -> CopyReport:
        """Copy everything into the group that `begin` has made."""
        with saved(self._journal):
            return self._run(how, workers, beating(self._journal, progress))

    def _run(self, how: CopyOptions, workers: Workers, progress: Progress) -> CopyReport:
        report = CopyReport()
        groups: dict[str, dict[str, JSON]] = {"": {}}
        named = [(f"s{number}", level) for number, level in enumerate(self._levels)]
        with kept_open(workers) as opened:
            for stack in self._stacks():
                for path, work in self.arrays(stack, how, opened):
                    copy_array(report, path, work, progress)
                    self._journal.mark(report.n_arrays - 1)
                made = self._layout.group_attributes(
                    stack, self._axes, named, data_type=self._data_type, labels=self._image.labels
                )
                for path, attributes in made.items():
                    groups.setdefault(path, {}).update(attributes)
        kept, notes = fitting_attributes(self._image.attributes, "n5")
        report.notes += [("", note) for note in (*notes, *self._notes())]
        report.notes += [
            (name, "is left out: it is no level of the image; copy it by itself") for name in self._others()
        ]
        title = {"name": self._image.name} if self._image.name else {}
        groups[""] = {**title, **kept, **groups[""]}
        for path, attributes in groups.items():
            self._write_attributes(path, attributes)
        report.n_groups = len({"", *(above for path in groups for above in _with_groups_above(path))})
        if self._to.replacement is not None:
            self._journal.delete()
            self._to.commit()
        self._write_xml()
        if self._to.replacement is None:
            self._journal.delete()
        return report

    def _stacks(self) -> Iterable[Stack]:
        sizes = self._image.levels[0].source.store.shape
        return self._layout.stacks(
            *(None if dim is None else sizes[dim] for dim in (self._channel, self._time))
        )

    def _level(self, level: ImageLevel) -> Level:
        """Return the factors of a level relative to the first, along x, y and z."""
        first, image = self._image.levels[0], self._image
        where = f"{self._source.text}: level {level.path}"
        factors = []
        for dim, axis in enumerate(image.axes):
            ratio = level.scale[dim] / first.scale[dim]
            sizes = first.source.store.shape[dim], level.source.store.shape[dim]
            if axis.kind != "space":
                if sizes[0] != sizes[1]:
                    raise UnsupportedError(
                        f"{where}: {sizes[1]} along {axis.name}, but the first has {sizes[0]}"
                    )
            elif round(ratio) < 1 or abs(ratio - round(ratio)) > _NEARLY * ratio:
                raise UnsupportedError(
                    f"{where}: voxels along {axis.name} are {ratio:g} times as large as those of the first "
                    f"level; {self._layout.viewer} has whole factors only"
                )
            factors.append(round(ratio))
        if level.source.store.dtype != first.source.store.dtype:
            raise UnsupportedError(
                f"{where}: {level.source.store.dtype.name} elements, unlike the first level"
            )
        ones = (1,) * self._n_new
        steps = (*(factors[dim] for dim in self._space), *ones)
        return Level(
            (*(level.source.store.shape[dim] for dim in self._space), *ones),
            steps,
            steps,
            (*(level.scale[dim] for dim in self._space), *map(float, ones)),
            (*(level.translation[dim] for dim in self._space), *(0.0 for _ in ones)),
        )

    def _stack_source(self, number: int, stack: Stack) -> CopySource:
        """Return one stack of a level, x first, and the metadata that it is to have."""
        source, level = self._image.levels[number].source, self._levels[number]
        taken = {self._channel: stack.channel, self._time: stack.time}
        index = tuple(
            slice(None) if (at := taken.get(dim)) is None else at for dim in range(source.store.rank)
        )
        kept = [dim for dim in range(source.store.rank) if isinstance(index[dim], slice)]
        part = source.part(index).arranged([kept.index(dim) for dim in self._space], n_new=self._n_new)
        full = all(f == 1 for f in level.factors)  # elsewhere viewers would multiply it by the factors
        units = [Unit(size, axis.unit) for size, axis in zip(level.scale, self._axes, strict=True)]
        template = part.template.replaced(
            {
                "names": tuple(axis.name for axis in self._axes),
                "units": tuple(units) if full else (),
                "attributes": {
                    **part.template.attributes,
                    **self._layout.level_attributes(self._axes, self._levels[0], level),
                },
            }
        )
        return part._replace(template=template)

    def _notes(self) -> list[str]:
        image, viewer = self._image, self._layout.viewer
        out = []
        if self._layout.name != "n5-viewer":
            for number, level in enumerate(self._levels):
                if any(offset := self._layout.offset(self._levels[0], level)):
                    unit = self._axes[0].unit or "pixels"
                    far = ", ".join(f"{distance:g}" for distance in offset)
                    out.append(f"s{number} lies {far} {unit} along x, y, z from where {viewer} has it")
        if self._time is not None:
            axis = image.axes[self._time]
            if axis.scale != 1 or axis.unit:
                out.append(f"the distance of times is left out: {axis.scale:g} {axis.unit}".rstrip())
        if self._n_new:
            out.append(f"the image has no z; it is one voxel of 1 {self._axes[0].unit or 'pixel'} there")
        if image.labels and self._layout.name == "paintera":
            out.append("Paintera's tables of labels aren't made; open \"data\" as a dataset that has none")
        return out

    def _others(self) -> list[str]:
        """Return the groups and arrays beside the levels."""
        if require_node(self._source).rules.has_containers:
            return names_beside(self._source) or []
        levels = {level.path.strip("/").partition("/")[0] for level in self._image.levels}
        return [name for name in open_group(self._source, "r") if name not in levels]

    def _write_attributes(self, path: str, attributes: Mapping[str, JSON]) -> None:
        group = self._to.place.child(path) if path else self._to.place

        def change(document: JSON) -> Any:
            return {**(document or {}), **attributes}

        change_document(group.store, group.path + "attributes.json", change, load=load_document)

    def _xml_location(self) -> tuple[Location, str]:
        """Return the directory of the XML file, and its key."""
        above = self._where.parent
        if above is None or container_root(above) is not None:
            raise InvalidArgumentError(
                f"{self._where.text}: BigDataViewer takes a whole container, with its XML file "
                "beside it, not a group in one"
            )
        return above, above.path + self._where.name.removesuffix(".n5") + ".xml"

    def _write_xml(self) -> None:
        if self._xml is None:
            return
        sizes = self._image.levels[0].source.store.shape
        channels, times = (1 if dim is None else sizes[dim] for dim in (self._channel, self._time))
        document = bdv_xml(
            self._where.name,
            self._image.name or self._where.name.removesuffix(".n5"),
            self._axes,
            self._levels[0],
            n_channels=channels,
            n_times=times,
        )
        self._xml[0].store.write(self._xml[1], document)


def array_options(how: CopyOptions) -> CopyOptions:
    """Return the options for an array of an image, without those about replacing the image."""
    return replace(how, overwrite=False)


def copy_array(report: CopyReport, path: str, work: ArrayCopy, progress: Progress) -> None:
    """Do the work of one array, wait for it and count it."""
    work.begin()
    made = work.run(lambda _, nbytes: progress(path, nbytes))
    report.n_arrays += 1
    report.nbytes += made.nbytes
    report.notes += [(path, note) for _, note in made.notes]


def _only(image: NgffImage, kind: str) -> int | None:
    """Return the dimension of this kind, None if there is none."""
    dims = [dim for dim, axis in enumerate(image.axes) if axis.kind == kind]
    if len(dims) > 1:
        names = ", ".join(image.axes[dim].name for dim in dims)
        raise UnsupportedError(f"the image has several axes of {kind}: {names}")
    return dims[0] if dims else None


def _with_groups_above(path: str) -> list[str]:
    parts = path.split("/")
    return ["/".join(parts[: n + 1]) for n in range(len(parts))]
