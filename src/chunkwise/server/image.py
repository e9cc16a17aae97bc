"""Images at several resolutions, as the page and neuroglancer show them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from chunkwise.pyramid.image_axes import axis_kind, memory_order
from chunkwise.pyramid.ngff import unit_symbol
from chunkwise.server.sources import Served, ServedArray, ServedGroup, Sources

__all__ = ["Channel", "ImageAxis", "ServedImage", "image_at"]


@dataclass(frozen=True)
class ImageAxis:
    """A dimension of an image."""

    name: str
    kind: str  # "space", "time" or "channel"
    unit: str  # symbol, such as "um"; empty if it is not known


@dataclass(frozen=True)
class Channel:
    """How a channel is shown."""

    label: str
    color: str | None = None  # six hexadecimal digits
    window: tuple[float, float] | None = None
    active: bool = True


@dataclass(frozen=True)
class ServedImage:
    """An image; a single array is one of one level."""

    name: str
    axes: tuple[ImageAxis, ...]
    levels: tuple[ServedArray, ...]  # the first has the highest resolution
    paths: tuple[str, ...]  # of the levels, below the image; empty for an array itself
    scales: tuple[tuple[float, ...], ...]  # distance of neighbours in each level, in the units of the axes
    translations: tuple[tuple[float, ...], ...]
    channels: tuple[Channel, ...] = ()
    is_label: bool = False
    attributes: Mapping[str, Any] = field(default_factory=dict)


def image_at(sources: Sources, path: tuple[str, ...], found: Served) -> ServedImage | None:
    """Return the image at a path, None if a group there is none."""
    if isinstance(found, ServedArray):
        return _of_array(found, _labels_above(sources, path))
    return _of_group(sources, path, found)


def _of_array(found: ServedArray, is_label: bool) -> ServedImage:
    view = found.view
    units = [(1.0, "") if u is None else (u.multiplier, u.base_unit) for u in view.dimension_units]
    return ServedImage(
        name=found.name,
        axes=_axes(found, [unit for _, unit in units]),
        levels=(found,),
        paths=("",),
        scales=(tuple(abs(size) or 1.0 for size, _ in units),),
        translations=((0.0,) * view.rank,),
        is_label=is_label or view.dtype.name in ("uint64", "int64", "bool"),
        attributes=found.attributes,
    )


def _axes(found: ServedArray, units: list[str]) -> tuple[ImageAxis, ...]:
    """Return axes by their labels; those without one are called as images have them, x the fastest."""
    view = found.view
    names = list(view.domain.labels)
    free = [name for name in "xyzct" if name not in names]
    for dim in reversed(memory_order(view)):
        if not names[dim]:
            names[dim] = free.pop(0) if free else f"d{dim}"
    return tuple(
        ImageAxis(name, axis_kind(name), unit_symbol(unit)) for name, unit in zip(names, units, strict=True)
    )


def _labels_above(sources: Sources, path: tuple[str, ...]) -> bool:
    above = sources.find(path[:-1]) if len(path) > 1 else None
    return isinstance(above, ServedGroup) and "image-label" in _own(above)


def _own(group: ServedGroup) -> Mapping[str, Any]:
    ome = group.attributes.get("ome")
    return ome if isinstance(ome, Mapping) else group.attributes


def _of_group(sources: Sources, path: tuple[str, ...], group: ServedGroup) -> ServedImage | None:
    names = [
        m.name for m in sources.members(path, group) if m.kind == "array" and m.name.strip("s").isdigit()
    ]
    levels = [sources.find((*path, name)) for name in names]
    arrays = [(name, a) for name, a in zip(names, levels, strict=True) if isinstance(a, ServedArray)]
    if not arrays or arrays[0][0] not in ("0", "s0") or len({a.view.rank for _, a in arrays}) > 1:
        return None
    first = _of_array(arrays[0][1], "image-label" in _own(group))
    base = arrays[0][1].view.shape
    scales = []
    for _, level in arrays:
        factors = (max(1, round(n / m)) if m else 1 for n, m in zip(base, level.view.shape, strict=True))
        scales.append(tuple(s * f for s, f in zip(first.scales[0], factors, strict=True)))
    return ServedImage(
        name=group.name,
        axes=first.axes,
        levels=tuple(a for _, a in arrays),
        paths=tuple(name for name, _ in arrays),
        scales=tuple(scales),
        translations=tuple(
            tuple((s - b) / 2 for s, b in zip(scale, scales[0], strict=True)) for scale in scales
        ),
        is_label=first.is_label,
        attributes=group.attributes,
    )
