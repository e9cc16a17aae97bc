"""Attributes of OME-Zarr by their names, wherever a version of it puts them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from chunkwise.copying.conventions import OME_OF_GROUPS
from chunkwise.extension import JSON
from chunkwise.images.multiscale.metadata import expect_members

__all__ = [
    "LABEL",
    "OME_MEMBERS",
    "image_label_of",
    "label_properties",
    "marked_as_labels",
    "n_images",
    "ome_members",
    "other_members",
    "own_members",
    "says_labels",
    "with_channels",
    "without_image",
]

LABEL = "image-label"
"""Attribute of what holds labels."""

OME_MEMBERS = ("ome", *OME_OF_GROUPS, "version", "_creator")
"""Attributes of groups in all versions."""

_DISPLAY = "omero"  # names, colours and contrast of channels


def ome_members(attributes: Mapping[str, JSON], where: str) -> tuple[Mapping[str, JSON], str]:
    """Return the members of OME-Zarr, and the file and member that they are in."""
    if "ome" in attributes:
        return expect_members(attributes["ome"], f'{where}: "ome"'), f"{where}: ome/"
    return attributes, f"{where}: "


def own_members(attributes: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the members of OME-Zarr, wherever they are; they need not be valid."""
    ome = attributes.get("ome")
    return ome if isinstance(ome, Mapping) else attributes


def n_images(attributes: Mapping[str, Any]) -> int:
    """Return the number of images that the attributes of a group list; 0 of others."""
    listed = own_members(attributes).get("multiscales")
    return len(listed) if isinstance(listed, list) else 0


def image_label_of(document: Mapping[str, Any]) -> dict[str, JSON]:
    """Return the attributes of labels, without those that are valid only for their own location."""
    for own in (document.get("ome"), document):  # of one made from OME-Zarr, they may be beside
        label = own.get(LABEL) if isinstance(own, Mapping) else None
        if isinstance(label, Mapping) and label:
            return {name: value for name, value in label.items() if name not in ("version", "source")}
    return {}


def says_labels(attributes: Mapping[str, Any]) -> bool:
    """Return True if attributes say that a group or an array holds labels."""
    return any(isinstance(own, Mapping) and LABEL in own for own in (attributes, attributes.get("ome")))


def marked_as_labels(attributes: Mapping[str, JSON]) -> dict[str, JSON]:
    """Return the attributes that say so, of a group whose others don't; none if they do."""
    own = own_members(attributes)
    if LABEL in own:
        return {}
    return {LABEL: {}} if own is attributes else {"ome": {**own, LABEL: {}}}


def label_properties(document: Mapping[str, Any]) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yield labels with their properties in the attributes of an image; they need not be valid."""
    label = own_members(document).get(LABEL)
    listed = label.get("properties") if isinstance(label, Mapping) else None
    for one in listed if isinstance(listed, list) else ():
        if isinstance(one, Mapping) and isinstance(one.get("label-value"), int):
            yield one["label-value"], {name: one[name] for name in one if name != "label-value"}


def with_channels(attributes: dict[str, JSON], names: Sequence[str]) -> dict[str, JSON]:
    """Return attributes with names of channels, if they have none."""
    if _DISPLAY in own_members(attributes):
        return attributes
    return {**attributes, _DISPLAY: {"channels": [{"label": name} for name in names]}}


def without_image(document: Mapping[str, JSON]) -> dict[str, JSON]:
    """Return the attributes of a group without those of its image, the others at their place."""
    own = own_members(document)
    others: dict[str, JSON] = {name: own[name] for name in own if name not in ("multiscales", LABEL)}
    if own is document:
        return others
    beside = {name: value for name, value in document.items() if name != "ome"}
    return {**beside, "ome": others} if set(others) - {"version"} else beside


def other_members(*images: Mapping[str, JSON]) -> list[dict[str, JSON]]:
    """Return the attributes of two images, wherever they are; without channels that say the same."""
    found: list[dict[str, JSON]] = []
    for attributes in images:
        beside = {name: value for name, value in attributes.items() if name != "ome"}
        own = own_members(attributes)
        found.append(beside | {name: own[name] for name in own if own is attributes or name != "version"})
    shown = [others.get(_DISPLAY) for others in found]
    if _is_part(shown[0], shown[1]) or _is_part(shown[1], shown[0]):  # a copy has the defaults, too
        for others in found:
            others.pop(_DISPLAY, None)
    return found


def _is_part(a: JSON, b: JSON) -> bool:
    """Return True if `b` says all that `a` says."""
    if isinstance(a, dict) and isinstance(b, dict):
        return all(name in b and _is_part(value, b[name]) for name, value in a.items())
    if isinstance(a, list) and isinstance(b, list):
        return len(a) == len(b) and all(map(_is_part, a, b))
    return bool(a == b)
