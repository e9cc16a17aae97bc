"""Attributes of N5 pyramids, as n5-viewer and COSEM (CellMap) have them.

N5 lists are x first.  n5-viewer gives the voxel size of full resolution at every level and multiplies it by
``downsamplingFactors``; COSEM gives each level's own, in ``pixelResolution`` x first and in ``transform``
in C order, z first.  So ``resolution``, TensorStore's attribute, which is of the array itself, is left out
where readers would multiply it.  On the group there are the attributes that neuroglancer reads.
"""

from __future__ import annotations

from collections.abc import Sequence

from chunkwise import Unit
from chunkwise.errors import InvalidArgumentError
from chunkwise.extension import JSON
from chunkwise.images.multiscale.image_axes import ImageAxis, symbol_of, unit_in
from chunkwise.images.pyramid.geometry import Level

__all__ = [
    "check_n5_viewer_axes",
    "check_one_unit",
    "cosem_group",
    "cosem_level",
    "in_one_unit",
    "level_offset",
    "n5_viewer_group",
    "n5_viewer_level",
]

_NEARLY = 1e-6  # of a voxel


def check_n5_viewer_axes(axes: Sequence[ImageAxis]) -> None:
    """Raise InvalidArgumentError unless there are up to 3 axes, all of space and of one unit."""
    if any(axis.kind != "space" for axis in axes) or not 1 <= len(axes) <= 3:
        raise InvalidArgumentError(
            "a pyramid for n5-viewer has up to 3 axes of space; write one for each channel and time "
            f"(these are {', '.join(axis.name for axis in axes)})"
        )
    check_one_unit(axes, "n5-viewer")


def check_one_unit(axes: Sequence[ImageAxis], viewer: str) -> None:
    """Raise InvalidArgumentError if axes have several units."""
    if len({axis.unit for axis in axes}) > 1:
        raise InvalidArgumentError(
            f"{viewer} has one unit for all axes, but these have "
            + ", ".join(axis.unit or "none" for axis in axes)
        )


def in_one_unit(axes: Sequence[ImageAxis], starts: Sequence[float]) -> tuple[list[ImageAxis], list[float]]:
    """Return axes, and positions along them, in the unit of the first axis, where they can be given in it."""
    out, moved = [], []
    for axis, start in zip(axes, starts, strict=True):
        unit = axes[0].unit
        try:
            factor = 1.0 if axis.unit == unit else unit_in(Unit(1.0, axis.unit), symbol_of(unit))
        except InvalidArgumentError:
            factor, unit = 1.0, axis.unit
        # Of a product such as 0.04 * 1000 the digits that are there, and no others.
        out.append(axis._replace(scale=float(f"{axis.scale * factor:.14g}"), unit=unit))
        moved.append(float(f"{start * factor:.14g}"))
    return out, moved


def n5_viewer_level(
    axes: Sequence[ImageAxis], level: Level, start: Sequence[float] = (0.0, 0.0, 0.0)
) -> dict[str, JSON]:
    """Return the attributes of a dataset: the voxel size is that of full resolution.

    Where a level lies elsewhere than in the middle of the voxels it stands for, of an image at `start`, an
    affine transformation says so.
    """
    out: dict[str, JSON] = {"pixelResolution": _pixel_resolution(axes, [axis.scale for axis in axes])}
    if any(f > 1 for f in level.factors):
        out["downsamplingFactors"] = list(level.factors)
    offset = level_offset(axes, level, start)
    if any(offset):
        ends = (*offset, 0.0, 0.0)[:3]
        out["affineTransform"] = [[*(float(i == j) for j in range(3)), ends[i]] for i in range(3)]
    return out


def level_offset(axes: Sequence[ImageAxis], level: Level, start: Sequence[float]) -> tuple[float, ...]:
    """Return by how much a level lies elsewhere than viewers have it, of an image at `start`, by axis."""
    out = []
    for at, f, axis, begin in zip(level.translation, level.factors, axes, start, strict=False):
        distance = at - 0.5 * (f - 1) * axis.scale - begin
        out.append(0.0 if abs(distance) <= _NEARLY * axis.scale else distance)
    return tuple(out)


def n5_viewer_group(axes: Sequence[ImageAxis], levels: Sequence[tuple[str, Level]]) -> dict[str, JSON]:
    """Return the attributes of the group, which older versions and neuroglancer read."""
    return {
        "axes": [axis.name for axis in axes],
        "units": [axis.unit for axis in axes],
        "resolution": [axis.scale for axis in axes],
        "scales": [list(level.factors) for _, level in levels],
        "pixelResolution": _pixel_resolution(axes, [axis.scale for axis in axes]),
    }


def cosem_level(axes: Sequence[ImageAxis], level: Level) -> dict[str, JSON]:
    """Return the attributes of a dataset: the voxel size is its own."""
    return {"transform": _transform(axes, level), "pixelResolution": _pixel_resolution(axes, level.scale)}


def cosem_group(axes: Sequence[ImageAxis], levels: Sequence[tuple[str, Level]], name: str) -> dict[str, JSON]:
    """Return the attributes of the group."""
    return {
        "axes": [axis.name for axis in axes],
        "units": [axis.unit for axis in axes],
        "scales": [list(level.factors) for _, level in levels],
        "pixelResolution": _pixel_resolution(axes, [axis.scale for axis in axes]),
        "multiscales": [
            {
                "name": name,
                "datasets": [{"path": path, "transform": _transform(axes, level)} for path, level in levels],
            }
        ],
    }


def _pixel_resolution(axes: Sequence[ImageAxis], scale: Sequence[float]) -> dict[str, JSON]:
    space = [(axis, size) for axis, size in zip(axes, scale, strict=True) if axis.kind == "space"]
    unit = next((axis.unit for axis, _ in space if axis.unit), "pixel")
    return {"unit": unit, "dimensions": [size for _, size in space]}


def _transform(axes: Sequence[ImageAxis], level: Level) -> dict[str, JSON]:
    return {
        "axes": [axis.name for axis in reversed(axes)],
        "scale": list(reversed(level.scale)),
        "translate": list(reversed(level.translation)),
        "units": [axis.unit for axis in reversed(axes)],
    }
