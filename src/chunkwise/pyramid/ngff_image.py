"""The image in an OME-NGFF group: its axes, and the positions of the voxels of each level.

A level's own transformations are applied first, those of the whole image after them; both are scales and
translations, of which the last may be missing.

Source: OME-Zarr specification 0.4 and 0.5, sections "axes", "coordinateTransformations" and "multiscales".
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from chunkwise.binding import dump
from chunkwise.errors import InvalidArgumentError, UnsupportedError
from chunkwise.hierarchy.attributes import read_attributes
from chunkwise.hierarchy.location import Location
from chunkwise.hierarchy.node import find_node
from chunkwise.pyramid.image_axes import ImageAxis, axis_kind
from chunkwise.pyramid.ngff import unit_symbol
from chunkwise.tools.copy_source import CopySource, stored_source

__all__ = ["ImageLevel", "NgffImage", "read_ngff_image"]

_VERSIONS = ("0.4", "0.5")


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
    attributes: Mapping[str, Any]  # all others of the group


def read_ngff_image(location: Location) -> NgffImage:
    """Return the image at `location`, of OME-NGFF 0.4 or 0.5; raise if there is none that is understood."""
    attributes = dict(read_attributes(location))
    ome = attributes.get("ome")
    in_ome = isinstance(ome, dict)
    own = dict(ome) if isinstance(ome, dict) else attributes
    multiscales = own.pop("multiscales", None)
    where = f'{location.text}: "{"ome/" if in_ome else ""}multiscales"'
    if not isinstance(multiscales, list) or not multiscales:
        raise InvalidArgumentError(f"{where}: expected a list with an image, but {_found(multiscales)}")
    if len(multiscales) > 1:
        raise UnsupportedError(f"{where}: {len(multiscales)} images in one group can't be copied as one")
    image = _members(multiscales[0], where)
    version = own.pop("version", None) if in_ome else image.get("version", "0.4")
    if version not in _VERSIONS:
        raise UnsupportedError(f"{where}: version {dump(version)} isn't one of {', '.join(_VERSIONS)}")
    labels = own.pop("image-label", None) is not None
    if in_ome:
        attributes = {name: value for name, value in attributes.items() if name != "ome"}
        attributes.update({"ome": {"version": version, **own}} if own else {})
    axes = _axes(image.get("axes"), where)
    whole = _transformation(image.get("coordinateTransformations", []), len(axes), where)
    datasets = image.get("datasets")
    if not isinstance(datasets, list) or not datasets:
        raise InvalidArgumentError(f"{where}: datasets: expected a list of levels, but {_found(datasets)}")
    levels = tuple(
        _level(location, entry, axes, whole, f"{where}: datasets[{i}]") for i, entry in enumerate(datasets)
    )
    return NgffImage(
        str(image.get("name") or own.get("name") or ""),
        tuple(axis._replace(scale=size) for axis, size in zip(axes, levels[0].scale, strict=True)),
        levels,
        labels,
        attributes,
    )


def _axes(value: Any, where: str) -> list[ImageAxis]:
    if not isinstance(value, list) or not value:
        raise InvalidArgumentError(f"{where}: axes: expected a list, but {_found(value)}")
    axes = []
    for i, entry in enumerate(value):
        at = f"{where}: axes[{i}]"
        axis = _members(entry, at)
        name, unit = axis.get("name"), axis.get("unit", "")
        if not isinstance(name, str) or not name or not isinstance(unit, str):
            raise InvalidArgumentError(f"{at}: expected a name and perhaps a unit, but received {dump(axis)}")
        kind = axis.get("type", axis_kind(name))
        if kind not in ("space", "time", "channel"):
            raise UnsupportedError(f"{at}: type: expected space, time or channel, but received {dump(kind)}")
        axes.append(ImageAxis(name, kind, 1.0, unit_symbol(unit)))
    if len({axis.name for axis in axes}) < len(axes):
        raise InvalidArgumentError(f"{where}: axes: names must be unique")
    return axes


def _level(
    location: Location,
    entry: Any,
    axes: list[ImageAxis],
    whole: tuple[list[float], list[float]],
    where: str,
) -> ImageLevel:
    dataset = _members(entry, where)
    path = dataset.get("path")
    if not isinstance(path, str) or not path.strip("/"):
        raise InvalidArgumentError(f"{where}: path: expected the path of an array, but {_found(path)}")
    place = location.child(path.strip("/"))
    node = find_node(place)
    if node is None or node.kind != "array":
        raise InvalidArgumentError(f"{where}: there is no array at {place.text}")
    source = stored_source(place)
    if source.store.rank != len(axes):
        raise InvalidArgumentError(f"{where}: {source.store.rank} dimensions, but there are {len(axes)} axes")
    scale, translation = _transformation(dataset.get("coordinateTransformations"), len(axes), where)
    return ImageLevel(
        path,
        source,
        tuple(a * b for a, b in zip(scale, whole[0], strict=True)),
        tuple(t * s + at for t, s, at in zip(translation, *whole, strict=True)),
    )


def _transformation(value: Any, rank: int, where: str) -> tuple[list[float], list[float]]:
    """Return scale and translation of a list of transformations, the first of which is applied first."""
    scale, translation = [1.0] * rank, [0.0] * rank
    where = f"{where}: coordinateTransformations"
    if not isinstance(value, list):
        raise InvalidArgumentError(f"{where}: expected a list, but {_found(value)}")
    for entry in value:
        kind = _members(entry, where).get("type")
        if kind == "identity":
            continue
        if kind not in ("scale", "translation") or kind not in entry:
            raise UnsupportedError(f"{where}: expected scale or translation with numbers, not {dump(entry)}")
        numbers = entry[kind]
        if not (
            isinstance(numbers, list)
            and len(numbers) == rank
            and all(isinstance(n, int | float) and not isinstance(n, bool) for n in numbers)
            and (kind == "translation" or all(0 < n < float("inf") for n in numbers))
        ):
            what = "numbers" if kind == "translation" else "positive numbers"
            raise InvalidArgumentError(
                f"{where}: {kind}: expected {rank} {what}, but received {dump(numbers)}"
            )
        if kind == "scale":
            scale = [a * b for a, b in zip(scale, numbers, strict=True)]
            translation = [a * b for a, b in zip(translation, numbers, strict=True)]
        else:
            translation = [a + b for a, b in zip(translation, numbers, strict=True)]
    return scale, translation


def _members(value: Any, where: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise InvalidArgumentError(f"{where}: expected an object, but received {dump(value)}")
    return value


def _found(value: Any) -> str:
    return "there is none" if value is None else f"received {dump(value)}"
