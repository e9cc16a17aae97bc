"""Group attributes of OME-NGFF: 0.4, in Zarr v2 groups, and 0.5, in Zarr v3 groups.

Source: OME-Zarr specification 0.5 and 0.4, sections "axes", "coordinateTransformations",
"multiscales" and "labels" metadata.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from chunkwise.errors import InvalidArgumentError
from chunkwise.extension import JSON
from chunkwise.images.multiscale.image_axes import ImageAxis, ngff_unit
from chunkwise.images.pyramid.geometry import Level
from chunkwise.images.pyramid.kept import NOTHING, Kept
from chunkwise.version import __version__

__all__ = [
    "check_ngff_axes",
    "first_level_only",
    "merged_attributes",
    "ngff_attributes",
    "ngff_group",
    "ngff_image",
    "ngff_labels",
]


def check_ngff_axes(axes: Sequence[ImageAxis]) -> None:
    """Raise InvalidArgumentError unless there are 2 or 3 axes of space and at most one of each other kind."""
    kinds = [axis.kind for axis in axes]
    n_others = kinds.count("channel") + kinds.count("other")
    if kinds.count("space") not in (2, 3) or kinds.count("time") > 1 or n_others > 1:
        raise InvalidArgumentError(
            "an OME-NGFF image has 2 or 3 axes of space, at most one of time (t) and one of channels (c), "
            f"but these are {', '.join(f'{axis.name} ({axis.kind})' for axis in axes)}; name them with `axes`"
        )


def ngff_attributes(
    version: str,
    axes: Sequence[ImageAxis],
    levels: Sequence[tuple[str, Level]],
    *,
    name: str,
    method: str,
    source_image: str | None,
    labels: bool,
    kept: Kept = NOTHING,
) -> dict[str, JSON]:
    """Return the attributes of the group, of axes slowest first and levels of full resolution first."""
    multiscale: dict[str, JSON] = {
        **ngff_image(name, axes, [(path, level.scale, level.translation) for path, level in levels]),
        "type": method,
        "metadata": {
            "description": "each level is downsampled from the one before",
            "method": "chunkwise.downsample_pyramid",
            "version": __version__,
            "kwargs": {"method": method},
        },
    }
    return ngff_group(version, multiscale, kept, labels=labels, source_image=source_image)


def ngff_group(
    version: str,
    multiscale: dict[str, JSON],
    kept: Kept,
    *,
    labels: bool,
    source_image: str | None = None,
) -> dict[str, JSON]:
    """Return the attributes of the group of an image, with what is kept of another."""
    own: dict[str, JSON] = {"multiscales": [multiscale]}
    if kept.omero:
        own["omero"] = dict(kept.omero)
    if labels:
        own["image-label"] = {} if source_image is None else {"source": {"image": source_image}}
        own["image-label"].update(kept.image_label)
    if version == "0.4":
        multiscale["version"] = version
        if labels:
            own["image-label"]["version"] = version
        return {**kept.attributes, **own}
    return {**kept.attributes, "ome": {"version": version, **own}}


def merged_attributes(
    version: str, stored: Mapping[str, JSON], made: Mapping[str, JSON], first: str, *, renamed: bool
) -> dict[str, JSON]:
    """Return the attributes of a group whose image has new levels; its first is called `first`.

    Everything that isn't about the levels stays as it is stored: other images, names, channels.
    """
    before, after = _members(version, stored), _members(version, made)
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
    if "image-label" in after:
        own["image-label"] = {**after["image-label"], **(before.get("image-label") or {})}
    return {**stored, **own} if version == "0.4" else {**stored, "ome": {**own, "version": version}}


def first_level_only(version: str, stored: Mapping[str, JSON], first: str) -> dict[str, JSON]:
    """Return the attributes of a group whose image is left with the level called `first`."""
    own = _members(version, stored)
    entries = list(own.get("multiscales") or [])
    for i, entry in enumerate(entries):
        if _has_level(entry, first):
            entries[i] = {**entry, "datasets": [one for one in entry["datasets"] if _is_level(one, first)]}
            break
    else:
        return dict(stored)
    own = {**own, "multiscales": entries}
    return {**stored, **own} if version == "0.4" else {**stored, "ome": own}


def _members(version: str, attributes: Mapping[str, JSON]) -> Mapping[str, JSON]:
    own = attributes if version == "0.4" else attributes.get("ome")
    return own if isinstance(own, Mapping) else {}


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


def ngff_labels(version: str, before: dict[str, JSON], name: str) -> dict[str, JSON]:
    """Return the attributes of a group ``labels`` that lists `name` besides what it lists already."""
    own = before if version == "0.4" else before.get("ome", {})
    listed = own.get("labels", []) if isinstance(own, dict) else []
    names = [*listed, *([] if name in listed else [name])]
    if version == "0.4":
        return {"labels": names}
    return {"ome": {**own, "version": version, "labels": names}}


def _axis(axis: ImageAxis) -> dict[str, str]:
    out = {"name": axis.name, "type": axis.kind}
    if axis.unit and axis.kind != "channel":
        out["unit"] = ngff_unit(axis.unit)
    return out
