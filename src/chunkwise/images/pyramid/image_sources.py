"""Images of any kind as sources of copies, with each level as an array; and the differences of two.

A copy in another format has other names of levels, another order of axes, and other attributes for the same
sizes and positions of voxels.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterator, Mapping, Sequence
from math import isclose
from typing import NamedTuple

from chunkwise import TensorStore
from chunkwise.copying.array_template import ArrayTemplate
from chunkwise.copying.copy_source import CopySource, stored_source
from chunkwise.copying.difference import Comparison, Difference, array_differences, attribute_differences
from chunkwise.copying.losses import fitting_attributes
from chunkwise.errors import ChunkwiseError, InvalidArgumentError, UnsupportedError
from chunkwise.extension import JSON
from chunkwise.extension.trees import FormatName, Location, Node, is_root_of_file, tree_format
from chunkwise.groups.group import Group
from chunkwise.groups.open_group import open_group
from chunkwise.images.conventions.convention import (
    Kept,
    image_label_of,
    n_images,
    other_members,
    with_channels,
    without_image,
)
from chunkwise.images.conventions.known import convention_of, may_be_left_out
from chunkwise.images.conventions.ome import OME_ZARR, display_of, kept_omero, shown_channels, with_windows
from chunkwise.images.conventions.ome_groups import ImageCollection
from chunkwise.images.multiscale.array_axes import ArrayImage
from chunkwise.images.multiscale.find_images import Multiscale
from chunkwise.images.multiscale.image import MultiscaleImage, most_voted
from chunkwise.images.multiscale.joined import are_alike, joined
from chunkwise.images.multiscale.metadata import AXIS_KINDS, Axis, ImageAxis, sized_axes
from chunkwise.images.multiscale.open import open_multiscale

__all__ = [
    "ImageLevel",
    "NgffImage",
    "differences_of_images",
    "image_left_out",
    "images_after",
    "images_in",
    "images_of",
    "kept_attributes",
    "level_sources",
    "read_image",
]

_IN_N5 = ("bdv", "n5-viewer")
"""Conventions of containers of several images."""


class ImageLevel(NamedTuple):
    """One resolution; scale and translation are by dimension of the array."""

    path: str  # of the array, from the group on
    source: CopySource
    scale: tuple[float, ...]  # size of a voxel
    translation: tuple[float, ...]  # centre of the first voxel


class NgffImage(NamedTuple):
    """An image."""

    name: str
    axes: tuple[ImageAxis, ...]  # by dimension; scales are those of the first level, units are symbols
    levels: tuple[ImageLevel, ...]  # full resolution first
    labels: bool
    image_label: Mapping[str, JSON]  # colours and properties of the labels
    attributes: Mapping[str, JSON]  # all others of the group
    beside: Sequence[str] = ()  # notes on what is no part of the image


class ImagesIn(NamedTuple):
    """The images that a group is."""

    found: Multiscale
    beside: list[str] | None  # paths that lead to no level; None of plates and other collections


def images_of(found: object, source: Location) -> list[tuple[str, MultiscaleImage]]:
    """Return the images to be copied."""
    if isinstance(found, MultiscaleImage):
        return [("", found)]
    if not isinstance(found, ImageCollection) or found.convention not in _IN_N5:
        raise InvalidArgumentError("expected an image, or the images of a container of N5")
    images = {name: image.available() for name, image in found.items()}
    if not images:
        raise InvalidArgumentError(f"{found.location}: there is no image in it")
    parts = list(images.values())
    times = all(name.startswith("t") for name in images)
    axis = Axis("t", "time") if times else Axis("c", "channel")
    if len(parts) > 1 and axis.name not in [one.name for one in parts[0].axes] and are_alike(parts):
        whole = joined(
            dict(enumerate(parts)),
            axis,
            (0, len(parts) - 1),
            location=found.location,
            name=source.name.removesuffix(".n5"),
            document=_with_channels(open_group(source).attrs.asdict(), parts),
        )
        return [("", whole)]
    if len(parts) == 1:
        return [("", parts[0])]
    return list(images.items())


def images_after(source: Location) -> list[tuple[str, MultiscaleImage]]:
    """Return the images of a TIFF file after the first; none if one has axes that OME-Zarr doesn't know."""
    if source.store_spec.driver != "tiff_images" or not is_root_of_file(source):
        return []
    group = open_group(source)
    found = [open_multiscale(source), *(open_multiscale(member) for _, member in group.groups())]
    images = [one for one in found if isinstance(one, MultiscaleImage)]
    if any(axis.type not in AXIS_KINDS for image in images for axis in image.axes):
        return []
    return list(zip((name for name, _ in group.groups()), images[1:], strict=True))


def _with_channels(attributes: dict[str, JSON], parts: list[MultiscaleImage]) -> dict[str, JSON]:
    """Return the attributes of a container, with the names of its setups as those of channels."""
    names = [part.name for part in parts if part.convention == "bdv"]
    is_named = not all(re.fullmatch(r"setup\d+", name) for name in names)
    return with_channels(attributes, names) if is_named else attributes


def level_sources(image: MultiscaleImage) -> list[CopySource]:
    """Return the levels as sources of copies, without the attributes by which viewers of N5 place them."""
    convention, out = convention_of(image.convention), []
    placing = frozenset[str]() if convention is None else convention.level_members
    for path, level in zip(image.paths, image.levels, strict=True):
        source = _level_source(most_voted(level), image.stored_chunks, f"{image.location}/{path}")
        own = {name: value for name, value in source.template.attributes.items() if name not in placing}
        out.append(source._replace(template=source.template.replaced({"attributes": own})))
    return out


def _level_source(store: TensorStore, usual: tuple[int, ...] | None, where: str) -> CopySource:
    """Return a level as the source of a copy: the stored array, or one that is put together of several."""
    node = store._whole_node(placed=True)
    if node is not None:
        return stored_source(node.location)
    store = store.translate_to[(0,) * store.rank]
    template = ArrayTemplate(
        shape=store.shape,
        dtype=store.dtype,
        chunks=usual,
        codec=None,
        fill_value=store.fill_value,
    )
    try:
        spec = store.spec().to_json()
    except NotImplementedError:  # labels that are computed
        spec = {"computed": where}
    return CopySource(store, template, spec, "", None)


def read_image(location: Location, images: Multiscale | None = None) -> NgffImage:
    """Return the image at `location`, or `images`; raise if there is none, or more than one."""
    found = images_of(open_multiscale(location, drafts=True) if images is None else images, location)
    n = len(found)
    image = found[0][1]
    is_ome = image.convention.startswith("ome-ngff-")
    if is_ome:
        n = n_images(image.metadata)
    else:
        image = image.available()
    if n > 1:
        raise UnsupportedError(
            f"{location.text}: {n} images can't be copied as one; copy each by itself, or to OME-Zarr"
        )
    for axis in image.axes:
        if axis.type not in AXIS_KINDS:
            raise UnsupportedError(
                f"{location.text}: axis {axis.name}: expected space, time or channel, not {axis.type!r}"
            )
    of_levels = zip(image.paths, level_sources(image), image.scales, image.translations, strict=True)
    kept = kept_attributes(ArrayImage((), image), "n5")
    return NgffImage(
        image._metadata.name,
        sized_axes(image.axes, image.scales[0]),
        tuple(ImageLevel(*level) for level in of_levels),
        image.is_labels,
        kept.image_label,
        without_image(image.metadata) if is_ome else {**kept.attributes, **display_of(image)},
        kept.beside,
    )


def images_in(source: Location) -> ImagesIn | None:
    """Return the images that a group is; None if it is none."""
    try:
        group = open_group(source)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # the copy reports what can't be read
            found = open_multiscale(group, drafts=True)
        if isinstance(found, MultiscaleImage):
            if found.convention == "raw":
                return None
            levels = found.available()._level_paths
        elif isinstance(found, ImageCollection) and found.convention in _IN_N5:
            levels = frozenset(f"{at}/{path}" for at, image in found.items() for path in image._level_paths)
        else:
            return ImagesIn(found, None)
        return ImagesIn(found, list(_paths_beside(group, levels, "")))
    except (InvalidArgumentError, NotImplementedError, LookupError, OSError):
        return None


def image_left_out(
    node: Node, attributes: Mapping[str, JSON], children: Sequence[str], format: FormatName
) -> str:
    """Return the note on a group that is an image, of which a copy with these attributes is none; or ""."""
    if not may_be_left_out(node, attributes, children, format) or images_in(node.location) is None:
        return ""
    rules = tree_format(format)
    how = 'with layout="n5-viewer", "paintera" or "bdv" (--layout)' if rules.has_containers else "alone"
    return f"what makes it an image is left out; a copy of this group {how} is an image in {rules.title}"


def _paths_beside(group: Group, levels: frozenset[str], above: str) -> Iterator[str]:
    for name in group:
        path = f"{above}{name}"
        if path in levels:
            continue
        member = group[name] if any(level.startswith(f"{path}/") for level in levels) else None
        if isinstance(member, Group):
            yield from _paths_beside(member, levels, f"{path}/")
        else:
            yield path


def kept_attributes(found: ArrayImage, format: str, image: MultiscaleImage | None = None) -> Kept:
    """Return the metadata of an image that a format keeps; `image` is that of a view."""
    image = found.image or image
    if image is None:
        return Kept(image_label=found.image_label, left_out=found.notes)
    document = image.metadata
    # A container that was made of an OME-Zarr image has what N5 has no place for among its attributes.
    convention = convention_of(image.convention) or OME_ZARR["0.5"]
    others, beside = convention.others(document), convention.beside(image)
    notes = list(dict.fromkeys([*found.notes, *image._metadata.problems, *beside]))
    omero = kept_omero(image, found.channels)
    image_label = found.image_label or image_label_of(document)
    if not tree_format(format).keeps_null:
        others, unfit = fitting_attributes(others, format)
        notes += unfit
        if omero:
            shown = ", ".join(channel.label or "-" for channel in shown_channels(image))
            notes.append(f"names and colours of channels are left out: N5 has no place for them ({shown})")
        omero = {}
    elif omero:
        omero = {**omero, "channels": with_windows(omero.get("channels", []), image, found.channels)}
    return Kept(image._metadata.name, omero, image_label, others, tuple(notes), beside)


def differences_of_images(left: Node, right: Node, how: Comparison) -> Iterator[Difference] | None:
    """Yield the differences of two images; None unless both groups are images of different formats."""
    groups = (left, right)
    if left.own_format == right.own_format or any(node.kind != "group" for node in groups):
        return None
    found = [images_in(node.location) for node in groups]
    if any(one is None or one.beside != [] for one in found):
        return None
    try:
        a, b = (read_image(node.location) for node in groups)
    except (ChunkwiseError, NotImplementedError):
        return None
    named = not any(node.rules.has_containers for node in groups)  # a name is not part of those
    return _differences(a, b, named, how)


def _differences(a: NgffImage, b: NgffImage, named: bool, how: Comparison) -> Iterator[Difference]:
    kept = [_axes(a, b), _axes(b, a)]
    names = [{image.axes[dim].name: dim for dim in dims} for image, dims in zip((a, b), kept, strict=True)]
    if names[0].keys() != names[1].keys():
        yield Difference("", "axes", list(names[0]), list(names[1]))
        return
    kept[1] = [names[1][name] for name in names[0]]
    if how.attributes:
        axes = [[image.axes[dim] for dim in dims] for image, dims in zip((a, b), kept, strict=True)]
        for what in ("kind", "unit"):
            left, right = ([getattr(axis, what) for axis in of] for of in axes)
            if left != right:
                yield Difference("", f"{what}s of axes", left, right)
        if named and a.name != b.name:
            yield Difference("", "name", a.name, b.name)
        if a.labels != b.labels:
            yield Difference("", "labels", a.labels, b.labels)
        yield from attribute_differences("", *other_members(a.attributes, b.attributes))
    for x, y in zip(a.levels, b.levels, strict=False):
        if how.attributes:
            yield from _places(x, y, kept)
        of_a, of_b = _arranged(x.source, kept[0]), _arranged(y.source, kept[1])
        yield from array_differences(x.path, of_a, of_b, how)
    for level in a.levels[len(b.levels) :]:
        yield Difference(level.path, "structure", "array", None)
    for level in b.levels[len(a.levels) :]:
        yield Difference(level.path, "structure", None, "array")


def _axes(image: NgffImage, other: NgffImage) -> list[int]:
    """Return the dimensions of an image without those of size 1 that the other lacks."""
    names = {axis.name for axis in other.axes}
    shapes = [level.source.store.shape for level in image.levels]
    return [
        dim
        for dim, axis in enumerate(image.axes)
        if axis.name in names or any(shape[dim] != 1 for shape in shapes)
    ]


def _arranged(source: CopySource, dims: Sequence[int]) -> CopySource:
    rank = source.store.rank
    if len(dims) < rank:
        source = source.part(tuple(slice(None) if dim in dims else 0 for dim in range(rank)))
        dims = [sorted(dims).index(dim) for dim in dims]
    found = source.arranged(dims)
    return found._replace(template=found.template.replaced({"names": (), "units": ()}))  # those of the axes


def _places(x: ImageLevel, y: ImageLevel, kept: Sequence[Sequence[int]]) -> Iterator[Difference]:
    for what in ("scale", "translation"):
        left, right = (
            [getattr(level, what)[dim] for dim in dims] for level, dims in zip((x, y), kept, strict=True)
        )
        if not all(isclose(m, n, rel_tol=1e-9, abs_tol=1e-12) for m, n in zip(left, right, strict=True)):
            yield Difference(x.path, what, left, right)
