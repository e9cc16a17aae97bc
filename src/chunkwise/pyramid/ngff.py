"""Group attributes of OME-NGFF: 0.4, in Zarr v2 groups, and 0.5, in Zarr v3 groups.

Source: OME-Zarr specification 0.5 and 0.4, sections "axes", "coordinateTransformations",
"multiscales" and "labels" metadata.
"""

from __future__ import annotations

from collections.abc import Sequence

from chunkwise.binding import JSON
from chunkwise.errors import InvalidArgumentError
from chunkwise.multiscale.image_axes import ImageAxis, ngff_unit
from chunkwise.pyramid.geometry import Level
from chunkwise.version import __version__

__all__ = ["check_ngff_axes", "ngff_attributes", "ngff_image", "ngff_labels"]


def check_ngff_axes(axes: Sequence[ImageAxis]) -> None:
    """Raise InvalidArgumentError unless there are 2 or 3 axes of space and at most one of each other kind."""
    kinds = [axis.kind for axis in axes]
    if kinds.count("space") not in (2, 3) or kinds.count("time") > 1 or kinds.count("channel") > 1:
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
    own: dict[str, JSON] = {"multiscales": [multiscale]}
    if labels:
        own["image-label"] = {} if source_image is None else {"source": {"image": source_image}}
    if version == "0.4":
        multiscale["version"] = version
        if labels:
            own["image-label"]["version"] = version
        return own
    return {"ome": {"version": version, **own}}


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
