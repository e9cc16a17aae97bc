"""OME-Zarr as it is written and edited: 0.4, in Zarr v2 groups, and 0.5, in Zarr v3 groups.

Source: OME-Zarr specification 0.5 and 0.4, sections "axes", "coordinateTransformations",
"multiscales" and "labels" metadata.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from copy import deepcopy
from functools import partial
from typing import Any

from chunkwise import Unit
from chunkwise.errors import ChunkwiseError, InvalidArgumentError, UnsupportedError
from chunkwise.extension import JSON
from chunkwise.extension.trees import FormatName, Location, read_attributes
from chunkwise.images.conventions.convention import (
    LABEL,
    OME_MEMBERS,
    Change,
    Edit,
    Kept,
    NewImage,
    PyramidConvention,
    own_members,
)
from chunkwise.images.conventions.ome_metadata import (
    WITHOUT_SIZES,
    channels_of,
    default_colors,
    image_entry,
    whole_transformation,
)
from chunkwise.images.multiscale.image import MultiscaleImage
from chunkwise.images.multiscale.metadata import (
    Channel,
    ImageAxis,
    Transformation,
    expect_list,
    expect_members,
    ngff_unit,
    symbol_of,
)
from chunkwise.images.multiscale.sampling import contrast_level, contrast_of
from chunkwise.version import __version__

__all__ = [
    "OME_ZARR",
    "OmeZarr",
    "check_ngff_axes",
    "display_of",
    "kept_omero",
    "ngff_image",
    "omero_of",
    "shown_channels",
    "with_windows",
]

_UNITS = "dimension_units"  # TensorStore's attribute of an array


def check_ngff_axes(axes: Sequence[ImageAxis]) -> None:
    """Raise InvalidArgumentError unless there are 2 or 3 axes of space and at most one of each other kind."""
    kinds = [axis.kind for axis in axes]
    n_others = kinds.count("channel") + kinds.count("other")
    if kinds.count("space") not in (2, 3) or kinds.count("time") > 1 or n_others > 1:
        raise InvalidArgumentError(
            "an OME-NGFF image has 2 or 3 axes of space, at most one of time (t) and one of channels (c), "
            f"but these are {', '.join(f'{axis.name} ({axis.kind})' for axis in axes)}; name them with `axes`"
        )


class OmeZarr(PyramidConvention):
    """A version of OME-Zarr that is written."""

    version: str
    has_channels = True
    reserved = frozenset(OME_MEMBERS)

    def __init__(self, version: str, format: FormatName) -> None:
        self.name, self.version, self.format = f"ome-ngff-{version}", version, format

    def check(self, axes: Sequence[ImageAxis], *, labels: bool, kind: str) -> None:
        """Raise InvalidArgumentError unless there can be such an image, and labels are integers."""
        check_ngff_axes(axes)
        if labels and kind != "int":
            raise InvalidArgumentError(
                'labels of an OME-NGFF image must be integers: chunkwise.cast(labels, "uint8")'
            )

    def group_attributes(self, image: NewImage) -> dict[str, JSON]:
        """Return the attributes of the group, of axes slowest first."""
        levels = [(path, level.scale, level.translation) for path, level in image.levels]
        multiscale: dict[str, JSON] = {
            **ngff_image(image.name, image.axes, levels),
            "type": image.method,
            "metadata": {
                "description": "each level is downsampled from the one before",
                "method": "chunkwise.downsample_pyramid",
                "version": __version__,
                "kwargs": {"method": image.method},
            },
        }
        return self.image_attributes(
            multiscale, image.kept, labels=image.labels, source_image=image.source_image
        )

    def image_attributes(
        self, multiscale: dict[str, JSON], kept: Kept, *, labels: bool, source_image: str | None = None
    ) -> dict[str, JSON]:
        """Return the attributes of the group of an image, with those kept from another."""
        own: dict[str, JSON] = {"multiscales": [multiscale]}
        if kept.omero:
            own["omero"] = dict(kept.omero)
        if labels:
            own[LABEL] = {} if source_image is None else {"source": {"image": source_image}}
            own[LABEL].update(kept.image_label)
        if not self._is_nested:
            multiscale["version"] = self.version
            if labels:
                own[LABEL]["version"] = self.version
        return self._with(kept.attributes, own)

    def series_attributes(self, paths: Sequence[str]) -> tuple[dict[str, JSON], dict[str, JSON]]:
        """Return the attributes of a group of images, and those of its member ``OME``, which lists them."""
        return self._with({}, {"bioformats2raw.layout": 3}), self._with({}, {"series": list(paths)})

    def merged(
        self, stored: Mapping[str, JSON], made: Mapping[str, JSON], first: str, *, renamed: bool
    ) -> dict[str, JSON]:
        """Return the attributes of a group whose image has new levels; its first is called `first`.

        Everything that isn't about the levels stays as it is stored: other images, names, channels.
        """
        before, after = self._own(stored), self._own(made)
        entries, (new,) = list(before.get("multiscales") or []), after["multiscales"]
        for i, entry in enumerate(entries):
            if _has_level(entry, first):
                kept = {k: v for k, v in entry.items() if k != "coordinateTransformations"}
                name = new["name"] if renamed or not entry.get("name") else entry["name"]
                entries[i] = {**kept, **new, "name": name}
                break
        else:
            entries.append(new)
        own = {**after, **before, "multiscales": entries}
        label = before.get(LABEL) or {}
        if LABEL in after and isinstance(label, Mapping):
            own[LABEL] = {**after[LABEL], **label}
        return self._with(stored, own)

    def cleared(self, stored: Mapping[str, JSON], first: str | None) -> dict[str, JSON]:
        """Return attributes without those of a pyramid; the level called `first` remains an image."""
        if first is None:
            own = ("ome",) if self._is_nested else ("multiscales", LABEL)
            return {name: stored[name] for name in stored if name not in own}
        entries = list(self._own(stored).get("multiscales") or [])
        for i, entry in enumerate(entries):
            if _has_level(entry, first):
                entries[i] = {
                    **entry,
                    "datasets": [one for one in entry["datasets"] if _is_level(one, first)],
                }
                return self._with(stored, {**self._own(stored), "multiscales": entries})
        return dict(stored)

    def listing(self, stored: Mapping[str, JSON], name: str) -> dict[str, JSON]:
        """Return the attributes of a group ``labels`` that lists `name` besides what it lists already."""
        own = self._own(stored)
        listed = own.get("labels", [])
        return self._with(stored, {**own, "labels": [*listed, *([] if name in listed else [name])]})

    @property
    def _is_nested(self) -> bool:
        """True if all members are in one, ``ome``."""
        return self.version != "0.4"

    def _own(self, attributes: Mapping[str, JSON]) -> Mapping[str, JSON]:
        own = attributes.get("ome") if self._is_nested else attributes
        return own if isinstance(own, Mapping) else {}

    def _with(self, attributes: Mapping[str, JSON], own: Mapping[str, JSON]) -> dict[str, JSON]:
        if not self._is_nested:
            return {**attributes, **own}
        return {**attributes, "ome": {"version": self.version, **own} | {"version": self.version}}

    def edits(self, image: MultiscaleImage, location: Location, change: Change) -> list[Edit]:
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
            own: Any = own_members(out)
            if moved:
                number, entry = image_entry(out, location.text)
                _place(entry, change, location.text)
                own["multiscales"][number] = entry
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


OME_ZARR = {one.version: one for one in (OmeZarr("0.5", "zarr3"), OmeZarr("0.4", "zarr2"))}
"""Versions that are written."""


def _has_level(entry: JSON, name: str) -> bool:
    datasets = entry.get("datasets") if isinstance(entry, dict) else None
    return isinstance(datasets, list) and any(_is_level(one, name) for one in datasets)


def _is_level(dataset: JSON, name: str) -> bool:
    path = dataset.get("path") if isinstance(dataset, dict) else None
    return isinstance(path, str) and path.strip("/") == name


def ngff_image(
    name: str, axes: Sequence[ImageAxis], levels: Sequence[tuple[str, Sequence[float], Sequence[float]]]
) -> dict[str, JSON]:
    """Return an entry of ``multiscales``, of levels with their path, scale and translation."""
    return {
        "name": name,
        "axes": [_axis(axis) for axis in axes],
        "datasets": [
            {
                "path": path,
                "coordinateTransformations": [
                    {"type": "scale", "scale": list(scale)},
                    {"type": "translation", "translation": list(translation)},
                ],
            }
            for path, scale, translation in levels
        ],
    }


def _axis(axis: ImageAxis) -> dict[str, str]:
    out = {"name": axis.name, "type": axis.kind}
    if axis.unit and axis.kind != "channel":
        out["unit"] = ngff_unit(axis.unit)
    return out


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
    where = f"{image.location}: omero"
    omero = expect_members(own_members(image.metadata).get("omero") or {}, where)
    where = f"{where}: channels"
    listed = expect_list(omero.get("channels") or [], where, "channels", empty=True)
    dim = next((dim for dim, axis in enumerate(image.axes) if axis.type == "channel"), None)
    n = 1 if dim is None else image.levels[0].shape[dim]
    out: list[Any] = []
    for number in range(n):
        known = listed[number] if number < len(listed) else {"active": True}
        entry = dict(expect_members(known, f"{where}[{number}]"))
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


def with_windows(listed: list[JSON], image: MultiscaleImage, chosen: tuple[int, ...] | None) -> list[JSON]:
    """Return channels with colours and windows, which OME-Zarr requires for all of them."""
    dim = next((dim for dim, axis in enumerate(image.axes) if axis.type == "channel"), None)
    out = []
    n = len(listed) if dim is None else image.levels[0].shape[dim]
    colors = default_colors(n, is_rgb=n == 3 and image.levels[0].dtype.name == "uint8")
    for number, channel in enumerate(listed):
        index = number if chosen is None else chosen[number]
        if isinstance(channel, dict) and not channel.get("color"):
            channel = {**channel, "color": colors[index % len(colors)]}
        fixed = {} if dim is None else {dim: index}
        if isinstance(channel, dict) and channel.get("window") is None:
            try:
                levels = [level.translate_to[(0,) * level.rank] for level in image.available().levels]
                known = contrast_of(contrast_level(levels, fixed), fixed)
            except ChunkwiseError:
                out.append(channel)
                continue
            (low, high), (start, end) = known["range"], known["window"]
            channel = {**channel, "window": {"min": low, "max": high, "start": start, "end": end}}
        out.append(channel)
    return out


def omero_of(channels: tuple[Channel, ...]) -> dict[str, JSON]:
    """Return the member ``omero`` of channels; empty if there are none."""
    out = []
    for channel in channels:
        entry: dict[str, JSON] = {"label": channel.label} if channel.label else {}
        if channel.color:
            entry["color"] = channel.color
        if channel.window is not None:
            entry["window"] = {k: v for k, v in vars(channel.window).items() if v is not None}
        if not channel.active:
            entry["active"] = False
        out.append(entry)
    return {"channels": out} if out else {}


def shown_channels(image: MultiscaleImage) -> tuple[Channel, ...]:
    """Return how channels are shown; of an image that was made of OME-Zarr as its attributes still say."""
    return image.channels or channels_of(own_members(image.metadata).get("omero"), "omero", [])


def kept_omero(image: MultiscaleImage, chosen: tuple[int, ...] | None) -> dict[str, JSON]:
    """Return a member ``omero`` with the channels that are chosen; empty if there is nothing in it."""
    omero, channels = own_members(image.metadata).get("omero"), image.channels
    own = dict(omero) if isinstance(omero, dict) else {}
    listed = own.pop("channels", None)  # damaged ones are among the problems of the image
    if not isinstance(listed, list) or (channels and len(listed) != len(channels)):
        listed = omero_of(channels).get("channels", [])
    if chosen is not None and listed:
        listed = [listed[n] for n in chosen if n < len(listed)]
    own.pop("version", None)
    return {**own, "channels": listed} if listed else own


def display_of(image: MultiscaleImage) -> dict[str, JSON]:
    """Return the attribute with names and colours of channels, of an image of another convention."""
    omero = kept_omero(image, None)
    return {"omero": omero} if omero else {}
