"""Group attributes of OME-NGFF: 0.4, in Zarr v2 groups, and 0.5, in Zarr v3 groups.

Source: OME-Zarr specification 0.5 and 0.4, sections "axes", "coordinateTransformations",
"multiscales" and "labels" metadata.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from chunkwise.errors import InvalidArgumentError
from chunkwise.pyramid.geometry import Level
from chunkwise.pyramid.image_axes import ImageAxis
from chunkwise.version import __version__

__all__ = ["check_ngff_axes", "ngff_attributes", "ngff_labels", "ngff_unit", "unit_symbol"]

_PREFIXES = {
    "y": "yocto", "z": "zepto", "a": "atto", "f": "femto", "p": "pico", "n": "nano", "u": "micro",
    "µ": "micro", "μ": "micro", "m": "milli", "c": "centi", "d": "deci", "h": "hecto", "k": "kilo",
    "M": "mega", "G": "giga", "T": "tera", "P": "peta", "E": "exa", "Z": "zetta", "Y": "yotta", "": "",
}  # fmt: skip
_OTHERS = {
    "micron": "micrometer", "microns": "micrometer", "A": "angstrom", "Å": "angstrom", "in": "inch",
    "ft": "foot", "yd": "yard", "mi": "mile", "min": "minute", "h": "hour", "hr": "hour", "d": "day",
    "sec": "second",
}  # fmt: skip


def check_ngff_axes(axes: Sequence[ImageAxis]) -> None:
    """Raise InvalidArgumentError unless there are 2 or 3 axes of space and at most one of each other kind."""
    kinds = [axis.kind for axis in axes]
    if kinds.count("space") not in (2, 3) or kinds.count("time") > 1 or kinds.count("channel") > 1:
        raise InvalidArgumentError(
            "an OME-NGFF image has 2 or 3 axes of space, at most one of time (t) and one of channels (c), "
            f"but these are {', '.join(f'{axis.name} ({axis.kind})' for axis in axes)}; name them with `axes`"
        )


def ngff_unit(unit: str) -> str:
    """Return the UDUNITS-2 name of a unit as it is used in arrays; others as they are.

    >>> ngff_unit("nm"), ngff_unit("µm"), ngff_unit("s"), ngff_unit("furlong")
    ('nanometer', 'micrometer', 'second', 'furlong')
    """
    if unit in _OTHERS:
        return _OTHERS[unit]
    for symbol, name in (("m", "meter"), ("s", "second")):
        prefix = unit.removesuffix(symbol)
        if unit.endswith(symbol) and prefix in _PREFIXES:
            return _PREFIXES[prefix] + name
    return unit.replace("metre", "meter")


def unit_symbol(unit: str) -> str:
    """Return the symbol of a metric length or time that OME-NGFF names; others as they are.

    >>> unit_symbol("nanometer"), unit_symbol("micrometer"), unit_symbol("second"), unit_symbol("inch")
    ('nm', 'um', 's', 'inch')
    """
    for symbol, name in (("m", "meter"), ("s", "second")):
        if unit.endswith(name):
            for prefix, text in _PREFIXES.items():
                if text == unit.removesuffix(name) and prefix.isascii():
                    return prefix + symbol
    return unit


def ngff_attributes(
    version: str,
    axes: Sequence[ImageAxis],
    levels: Sequence[tuple[str, Level]],
    *,
    name: str,
    method: str,
    source_image: str | None,
    labels: bool,
) -> dict[str, Any]:
    """Return the attributes of the group, of axes slowest first and levels of full resolution first."""
    multiscale: dict[str, Any] = {
        "name": name,
        "axes": [_axis(axis) for axis in axes],
        "datasets": [
            {
                "path": path,
                "coordinateTransformations": [
                    {"type": "scale", "scale": list(level.scale)},
                    {"type": "translation", "translation": list(level.translation)},
                ],
            }
            for path, level in levels
        ],
        "type": method,
        "metadata": {
            "description": "each level is downsampled from the one before",
            "method": "chunkwise.downsample_pyramid",
            "version": __version__,
            "kwargs": {"method": method},
        },
    }
    own: dict[str, Any] = {"multiscales": [multiscale]}
    if labels:
        own["image-label"] = {} if source_image is None else {"source": {"image": source_image}}
    if version == "0.4":
        multiscale["version"] = version
        if labels:
            own["image-label"]["version"] = version
        return own
    return {"ome": {"version": version, **own}}


def ngff_labels(version: str, before: dict[str, Any], name: str) -> dict[str, Any]:
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
