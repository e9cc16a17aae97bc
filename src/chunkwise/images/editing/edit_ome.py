"""Edits of images in OME-Zarr: transformations of levels, units of axes, display of channels."""

from __future__ import annotations

from copy import deepcopy
from functools import partial
from typing import Any

from chunkwise import Unit
from chunkwise.errors import UnsupportedError
from chunkwise.extension import JSON
from chunkwise.extension.trees import Location, read_attributes
from chunkwise.images.editing.change import Change, Edit
from chunkwise.images.multiscale.image import MultiscaleImage
from chunkwise.images.multiscale.image_axes import ngff_unit, symbol_of
from chunkwise.images.multiscale.metadata import Transformation
from chunkwise.images.multiscale.ome_versions import WITHOUT_SIZES
from chunkwise.images.multiscale.ome_zarr import image_entry, whole_transformation
from chunkwise.images.pyramid.kept import with_windows

__all__ = ["ome_edits"]

_UNITS = "dimension_units"  # TensorStore's attribute of an array


def ome_edits(image: MultiscaleImage, location: Location, change: Change) -> list[Edit]:
    """Return the edits of an image's group and of its arrays."""
    places = tuple(level.place for level in image._metadata.levels)
    version = image.convention.removeprefix("ome-ngff-")
    moved = change.places != places or change.units != tuple(axis.unit for axis in image.axes)
    if moved and version in WITHOUT_SIZES:
        raise UnsupportedError(
            f"OME-Zarr {version} has no sizes, units and positions; `chunkwise cp -r` makes 0.5 of it"
        )
    channels = _channels(image, change)

    def group(stored: dict[str, JSON]) -> dict[str, JSON]:
        out = deepcopy(stored)
        if moved:
            _, entry = image_entry(out, location.text)
            _place(entry, change, location.text)
        own = out.get("ome", out)
        if channels:
            own["omero"] = {**(own.get("omero") or {}), "channels": channels}
        return out

    edits = []
    if moved:
        for path, place in zip(image.paths, change.places, strict=True):
            at = location.child(path)
            if _UNITS in read_attributes(at):
                edits.append(Edit(at, None, partial(_with_units, place=place, change=change)))
    return [*edits, Edit(location, None, group)]


def _place(entry: Any, change: Change, where: str) -> None:
    """Give an entry of ``multiscales`` its units, and transformations for each level."""
    for axis, unit in zip(entry["axes"], change.units, strict=True):
        if symbol_of(axis.get("unit") or "") == unit:
            continue
        axis.pop("unit", None)
        if unit:
            axis["unit"] = ngff_unit(unit)
    whole = whole_transformation(entry, len(change.units), where, [])
    for dataset, place in zip(entry["datasets"], change.places, strict=True):
        own = _before(place, whole)
        steps: list[JSON] = [{"type": "scale", "scale": list(own.scale)}]
        if any(own.translation) or any(
            isinstance(step, dict) and step.get("type") == "translation"
            for step in dataset.get("coordinateTransformations") or ()
        ):
            steps.append({"type": "translation", "translation": list(own.translation)})
        dataset["coordinateTransformations"] = steps


def _before(place: Transformation, whole: Transformation) -> Transformation:
    """Return the transformation that, followed by `whole`, is `place`."""
    return Transformation(
        tuple(a / b for a, b in zip(place.scale, whole.scale, strict=True)),
        tuple((t - at) / s for t, s, at in zip(place.translation, *whole, strict=True)),
    )


def _channels(image: MultiscaleImage, change: Change) -> list[Any]:
    """Return the channels to store, with a colour and a window each; none if they stay as they are."""
    if not (change.names or change.colors):
        return []
    document = image.metadata
    own = document["ome"] if isinstance(document.get("ome"), dict) else document
    listed = (own.get("omero") or {}).get("channels") or []
    dim = next((dim for dim, axis in enumerate(image.axes) if axis.type == "channel"), None)
    n = 1 if dim is None else image.levels[0].shape[dim]
    out: list[Any] = []
    for number in range(n):
        entry = dict(listed[number]) if number < len(listed) else {"active": True}
        if number in change.names:
            entry["label"] = change.names[number]
        if number in change.colors:
            entry["color"] = change.colors[number]
        out.append(entry)
    return with_windows(out, image, None)


def _with_units(stored: dict[str, JSON], place: Transformation, change: Change) -> dict[str, JSON]:
    """Return the attributes of an array whose voxels have sizes with units."""
    units = [
        str(Unit(size, unit)) if unit or size != 1 else None
        for size, unit in zip(place.scale, change.units, strict=True)
    ]
    return {**stored, _UNITS: units}
