"""``copy_of_image``: the copy that `copy_tree` and ``chunkwise cp -r`` make of an image, in N5 for a viewer.

In another format an image becomes an image again if that needs no choice: of OME-Zarr in Zarr.  In N5 each
viewer has a layout of its own, and what lies beside the levels has no place, so then a layout is to be given;
without one the copy is a plain tree, whose report says so.  Each stack of each level becomes an array of N5.
The XML file of BigDataViewer comes after everything else.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from chunkwise import Unit
from chunkwise.copying.array_options import array_options, check_named
from chunkwise.copying.copy_options import CopyOptions
from chunkwise.copying.copy_source import CopySource
from chunkwise.copying.executors import Workers
from chunkwise.copying.losses import fitting_attributes
from chunkwise.copying.resolve import ResolvedPlace
from chunkwise.copying.tree_copy import TreeCopy, tree_copy_to
from chunkwise.errors import AlreadyExistsError, InvalidArgumentError, OptionError, UnsupportedError
from chunkwise.extension import JSON
from chunkwise.extension.n5 import array_data_type
from chunkwise.extension.trees import FormatName, Location, container_root, tree_format
from chunkwise.images.conventions.bdv_file import bdv_file_beside, made_bdv_file
from chunkwise.images.conventions.convention import LABEL, Level, NewImage
from chunkwise.images.conventions.n5 import Stack
from chunkwise.images.conventions.n5_group import LEVEL_MEMBERS
from chunkwise.images.conventions.n5_viewers import N5_CONVENTIONS
from chunkwise.images.multiscale.metadata import ImageAxis, slowest_first
from chunkwise.images.multiscale.open import Multiscale
from chunkwise.images.pyramid.image_plan import ImagePlan, LevelSource, NgffImagePlan
from chunkwise.images.pyramid.image_sources import ImageLevel, NgffImage, images_after, images_in, read_image

__all__ = ["copy_of_image"]

_NEARLY = 1e-6


class N5ImagePlan(ImagePlan):
    """An image to copy to N5; `images` are by default those that the source is."""

    format: FormatName = "n5"

    def __init__(
        self,
        source: Location,
        destination: Location,
        layout: str,
        options: Mapping[str, Any],
        images: Multiscale | None = None,
    ) -> None:
        super().__init__(source, destination, options)
        self._layout = N5_CONVENTIONS[layout]
        self._image = image = read_image(source, images)
        first = image.levels[0]
        order = slowest_first(first.source.store, image.axes)[::-1]
        self._space = [dim for dim in order if image.axes[dim].kind == "space"]
        self._channel, self._time = (_only(image, kind) for kind in ("channel", "time"))
        axes = [image.axes[dim] for dim in self._space]
        self._layout.check_stack(axes)
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

    def check_free(self, how: CopyOptions) -> None:
        """Raise AlreadyExistsError if the XML file is there already, unless it may be replaced."""
        if self._xml is not None and not (how.overwrite or how.go_on):
            at, key = self._xml
            if at.store.read(at.path + key).value is not None:
                raise AlreadyExistsError(f"{at.describe(key)} is there already")

    def levels(self) -> Iterator[LevelSource]:
        """Yield the arrays."""
        for stack in self._stacks():
            for number, level in enumerate(self._image.levels):
                source = self._stack_source(number, stack)
                check_named(self.options, source.template.names, "the image")
                yield LevelSource(f"{stack.path}/s{number}".lstrip("/"), level.path, source, self.options)

    def groups(self) -> dict[str, dict[str, JSON]]:
        """Return the attributes of the groups, by path from the top; those above need none."""
        found: dict[str, dict[str, JSON]] = {}
        data_type = array_data_type(self.options.get("dtype", self._image.levels[0].source.store.dtype))
        named = [(f"s{number}", level) for number, level in enumerate(self._levels)]
        new = NewImage(self._axes, named, labels=self._image.labels, data_type=data_type)
        for stack in self._stacks():
            for path, attributes in self._layout.stack_attributes(stack.path, new).items():
                found.setdefault(path, {}).update(attributes)
            if self._image.labels:  # which viewers have no word for, or one that needs more files
                found[stack.path][LABEL] = dict(self._image.image_label)
        kept, _ = fitting_attributes(self._image.attributes, "n5")
        title = {"name": self._image.name} if self._image.name else {}
        return {**found, "": {**title, **kept, **found.get("", {})}}

    def _stacks(self) -> Iterable[Stack]:
        sizes = self._image.levels[0].source.store.shape
        return self._layout.stacks(
            *(None if dim is None else sizes[dim] for dim in (self._channel, self._time))
        )

    def _level(self, level: ImageLevel) -> Level:
        """Return the factors of a level relative to the first, along x, y and z."""
        first, image = self._image.levels[0], self._image
        where = f"{self.location.text}: level {level.path}"
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
                    **{k: v for k, v in part.template.attributes.items() if k not in LEVEL_MEMBERS},
                    **self._layout.level_attributes(self._axes, level),
                },
            }
        )
        return part._replace(template=template)

    def notes(self) -> list[tuple[str, str]]:
        """Return paths, and notes on losses and other forms there."""
        _, notes = fitting_attributes(self._image.attributes, "n5")
        return [("", note) for note in (*notes, *self._image.beside, *self._own_notes())]

    def _own_notes(self) -> list[str]:
        image, viewer = self._image, self._layout.viewer
        out = []
        for number, level in enumerate(self._levels):
            if any(offset := self._layout.offset(self._levels[0], level)):
                unit = self._axes[0].unit or "pixels"
                far = ", ".join(f"{distance:g}" for distance in offset)
                out.append(f"s{number} lies {far} {unit} along x, y, z from where {viewer} has it")
        attributes = {name for level in image.levels for name in level.source.template.attributes}
        for name in sorted(attributes.intersection(LEVEL_MEMBERS)):
            out.append(f"the attribute {name} of levels is left out: {viewer} would take it for its own")
        if self._time is not None:
            axis = image.axes[self._time]
            if axis.scale != 1 or axis.unit:
                out.append(f"the distance of times is left out: {axis.scale:g} {axis.unit}".rstrip())
        if self._n_new:
            out.append(f"the image has no z; it is one voxel of 1 {self._axes[0].unit or 'pixel'} there")
        if image.labels and self._layout.name == "paintera":
            out.append("Paintera's tables of labels aren't made; open \"data\" as a dataset that has none")
        return out

    def _xml_location(self) -> tuple[Location, str]:
        """Return the directory of the XML file, and its key."""
        file = bdv_file_beside(self.destination)
        if file is None or container_root(file[0]) is not None:
            raise InvalidArgumentError(
                f"{self.destination.text}: BigDataViewer takes a whole container, with its XML file "
                "beside it, not a group in one"
            )
        return file

    def finish(self) -> None:
        """Write the XML file of BigDataViewer."""
        if self._xml is None:
            return
        sizes = self._image.levels[0].source.store.shape
        channels, times = (1 if dim is None else sizes[dim] for dim in (self._channel, self._time))
        document = made_bdv_file(
            self.destination.name,
            self._image.name or self.destination.name.removesuffix(".n5"),
            self._axes,
            self._levels[0],
            n_channels=channels,
            n_times=times,
        )
        at, key = self._xml
        at.store.write(at.path + key, document)


def _only(image: NgffImage, kind: str) -> int | None:
    """Return the dimension of this kind, None if there is none."""
    dims = [dim for dim, axis in enumerate(image.axes) if axis.kind == kind]
    if len(dims) > 1:
        names = ", ".join(image.axes[dim].name for dim in dims)
        raise UnsupportedError(f"the image has several axes of {kind}: {names}")
    return dims[0] if dims else None


_OF_ARRAYS = ("fill_value", "dimension_names", "dimension_units")
_VIEWERS = 'layout="n5-viewer", "paintera" or "bdv" (--layout) makes an image for that viewer'


def copy_of_image(
    found: ResolvedPlace,
    destination: Location,
    format: FormatName,
    layout: str | None,
    options: Mapping[str, Any],
    how: CopyOptions,
    workers: Workers,
) -> TreeCopy | str:
    """Return the copy of an image; or, if it is copied as a plain tree, the text on what that loses."""
    node, source, is_n5 = found.node, found.location, tree_format(format).has_containers
    assert source is not None
    described: Multiscale | None = None if found.images is None else found.images()
    is_image = described is not None or node is None or node.format is None
    if layout is None and is_image and is_n5:
        what = "a precomputed volume" if described is None else "a file about images"
        raise InvalidArgumentError(f"{found.named or source.text} is {what}; in N5, {_VIEWERS}")
    known = None if described is not None else images_in(source)
    if layout is None and not is_image:
        assert node is not None
        if known is None or is_n5:
            return ""
        is_file = bool(known.beside) and bool(images_after(source))
        if known.beside is None or (known.beside and not (is_file or node.rules.has_containers)):
            return ""
        if known.beside and not is_file:
            return (
                f"what makes it an image is left out, since {known.beside[0]} is no level of it; "
                'layout="ome-zarr" (--layout ome-zarr) copies the image alone'
            )
    _check_options(options, how)
    image: ImagePlan
    images = described if known is None else known.found
    if layout in (None, "ome-zarr"):
        image = NgffImagePlan(source, destination, format, options, images)
    else:
        image = N5ImagePlan(source, destination, layout, options, images)
    image.beside = [] if known is None or known.beside is None or image.has_others else known.beside
    if how.strict and image.beside:
        raise UnsupportedError(f"{image.beside[0]}: it is no level of the image, so the copy would lack it")
    image.check_free(how)
    return tree_copy_to(image, destination, format, how, workers=workers)


def _check_options(options: Mapping[str, Any], how: CopyOptions) -> None:
    for name in array_options(options):
        if name in _OF_ARRAYS:
            raise OptionError(f"{name}: it is for arrays; the levels of an image have those of its axes")
    if how.cast == "scale":
        raise OptionError("cast: scale would scale each level by itself; it is for single arrays")
