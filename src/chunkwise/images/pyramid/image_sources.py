"""Images of any kind as sources of copies: what is copied, and each level as an array."""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterator, Mapping
from typing import NamedTuple, cast, get_args

from chunkwise import TensorStore
from chunkwise.copying.array_template import ArrayTemplate
from chunkwise.copying.copy_source import CopySource, stored_source
from chunkwise.errors import InvalidArgumentError, UnsupportedError
from chunkwise.extension import JSON
from chunkwise.extension.trees import Location, find_node, node_attributes, require_node
from chunkwise.groups.group import Group
from chunkwise.groups.open_group import open_group
from chunkwise.images.conventions.n5_group import LEVEL_MEMBERS
from chunkwise.images.conventions.ome_groups import ImageCollection
from chunkwise.images.conventions.ome_metadata import ome_members, parse_ome_image
from chunkwise.images.multiscale.array_axes import ArrayImage, image_label_of
from chunkwise.images.multiscale.find_images import Multiscale
from chunkwise.images.multiscale.image import MultiscaleImage
from chunkwise.images.multiscale.image_axes import AxisKind, ImageAxis
from chunkwise.images.multiscale.joined import are_alike, joined
from chunkwise.images.multiscale.label_votes import most_voted
from chunkwise.images.multiscale.metadata import Axis, LevelMetadata
from chunkwise.images.multiscale.open import open_multiscale
from chunkwise.images.pyramid.kept import kept_attributes

__all__ = [
    "ImageLevel",
    "NgffImage",
    "images_in",
    "images_of",
    "is_whole_image",
    "level_source",
    "names_beside",
    "read_image",
]

_IN_N5 = ("bdv", "n5-viewer")
"""Conventions of containers of several images."""

_OF_IMAGE = ("multiscales", "image-label")


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


def _with_channels(attributes: dict[str, JSON], parts: list[MultiscaleImage]) -> dict[str, JSON]:
    """Return the attributes of a container, with the names of its setups as those of channels."""
    own = ome_members(attributes, "")[0]
    names = [part.name for part in parts if part.convention == "bdv"]
    if "omero" in own or not names or all(re.fullmatch(r"setup\d+", name) for name in names):
        return attributes
    return {**attributes, "omero": {"channels": [{"label": name} for name in names]}}


def level_source(store: TensorStore, usual: tuple[int, ...] | None, where: str) -> CopySource:
    """Return a level as the source of a copy: the stored array, or what is put together of several."""
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


def _read_ngff_image(location: Location) -> NgffImage:
    """Return the image at `location`, of OME-NGFF 0.4 or 0.5; raise if there is none that is understood."""
    node = require_node(location)
    attributes = node_attributes(node)
    where = location.describe(node.rules.attributes_key or node.key)
    image = parse_ome_image(attributes, where)
    own, at = ome_members(attributes, where)
    if len(own["multiscales"]) > 1:
        n = len(own["multiscales"])
        raise UnsupportedError(f"{at}multiscales: {n} images in one group can't be copied as one")
    for axis in image.axes:
        if axis.type not in get_args(AxisKind):
            raise UnsupportedError(
                f"{at}multiscales[0]: axes: type: expected space, time or channel of {axis.name}, but "
                f"received {axis.type!r}"
            )
    others: dict[str, JSON] = {name: value for name, value in own.items() if name not in _OF_IMAGE}
    if "ome" in attributes:
        beside = {name: value for name, value in attributes.items() if name != "ome"}
        others = {**beside, "ome": others} if set(others) - {"version"} else beside
    return NgffImage(
        image.name,
        tuple(
            ImageAxis(axis.name, cast(AxisKind, axis.type), size, axis.unit)
            for axis, size in zip(image.axes, image.levels[0].place.scale, strict=True)
        ),
        tuple(_level(location, level, len(image.axes)) for level in image.levels),
        image.is_labels,
        image_label_of(own),
        others,
    )


def _level(location: Location, level: LevelMetadata, rank: int) -> ImageLevel:
    place = location.child(level.path)
    node = find_node(place)
    if node is None or node.kind != "array":
        raise InvalidArgumentError(f"{level.where}: there is no array at {place.text}")
    source = stored_source(place)
    if source.store.rank != rank:
        raise InvalidArgumentError(
            f"{level.where}: {source.store.rank} dimensions, but there are {rank} axes"
        )
    return ImageLevel(level.path, source, *level.place)


def read_image(location: Location, images: Multiscale | None = None) -> NgffImage:
    """Return the image at `location`, or `images`: of OME-NGFF by its document, any other as it is opened."""
    node = find_node(location)
    if images is None and node is not None and not node.undeclared and not node.rules.has_containers:
        return _read_ngff_image(location)
    found = images_of(open_multiscale(location, drafts=True) if images is None else images, location)
    if len(found) > 1:
        raise UnsupportedError(
            f"{location.text}: {len(found)} images that differ can't be copied as one; copy each by itself"
        )
    image = found[0][1].available()
    kept = kept_attributes(ArrayImage((), image), "n5")
    axes = []
    for axis, size in zip(image.axes, image.scales[0], strict=True):
        if axis.type not in get_args(AxisKind):
            raise UnsupportedError(
                f"{location.text}: axis {axis.name}: expected space, time or channel, not {axis.type!r}"
            )
        axes.append(ImageAxis(axis.name, cast(AxisKind, axis.type), size, axis.unit))
    levels = []
    for number, level in enumerate(image.levels):
        path = image.paths[number]
        source = level_source(most_voted(level), image.stored_chunks, f"{image.location}/{path}")
        attributes = source.template.attributes
        own = {name: value for name, value in attributes.items() if name not in LEVEL_MEMBERS}
        source = source._replace(template=source.template.replaced({"attributes": own}))
        levels.append(ImageLevel(path, source, image.scales[number], image.translations[number]))
    name = image._metadata.name or ""
    return NgffImage(name, tuple(axes), tuple(levels), image.is_labels, kept.image_label, kept.attributes)


def is_whole_image(source: Location) -> bool:
    """Return True if a group is an image, or images, and nothing else."""
    return names_beside(source) == []


def names_beside(source: Location) -> list[str] | None:
    """Return the paths in a group that lead to no level of its images; None if it has no images."""
    found = images_in(source)
    return None if found is None else found.beside


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
