"""Similar images, such as times or channels, as one image with a further axis."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from chunkwise import Dim, IndexDomain, TensorStore, Unit, d, newaxis
from chunkwise.extension import JSON
from chunkwise.images.multiscale.image import MultiscaleImage, placed
from chunkwise.images.multiscale.metadata import Axis, LevelMetadata, Transformation

__all__ = ["are_alike", "joined"]


def are_alike(images: Sequence[MultiscaleImage]) -> bool:
    """Return True if images have the same axes, levels, places, shapes and data types."""
    first = images[0]
    return all(
        (image.axes, image.paths, image.scales, image.translations)
        == (first.axes, first.paths, first.scales, first.translations)
        and [(a.domain, a.dtype) for a in image.levels] == [(a.domain, a.dtype) for a in first.levels]
        for image in images[1:]
    )


def joined(
    parts: Mapping[int, MultiscaleImage],
    axis: Axis,
    bounds: tuple[int, int],
    *,
    location: str,
    name: str = "",
    document: Mapping[str, JSON] | None = None,
    problems: Sequence[str] = (),
    members: Sequence[str] = (),
) -> MultiscaleImage:
    """Return images as one, with a last axis whose indices are the numbers of the parts, called `members`.

    Numbers from ``bounds[0]`` to ``bounds[1]`` that no part has, and levels that a part lacks, are zeros.
    """
    low, high = bounds
    own = max((part._metadata for part in parts.values()), key=lambda metadata: len(metadata.levels))
    levels = tuple(
        level._replace(
            place=Transformation((*level.place.scale, 1.0), (*level.place.translation, float(low)))
        )
        for level in own.levels
    )
    others = [problem for part in parts.values() for problem in part._metadata.problems]
    metadata = replace(
        own,
        name=name or own.name,
        axes=(*own.axes, axis),
        levels=levels,
        document=own.document if document is None else document,
        problems=tuple(dict.fromkeys([*problems, *others])),
    )

    def open_level(number: int) -> TensorStore:
        layers = _layers(parts, own.levels[number])
        one = next(iter(layers.values()))
        units = [
            Unit(size, axis.unit) for size, axis in zip(levels[number].place.scale, own.axes, strict=False)
        ]
        domain = IndexDomain([*one.domain, Dim(inclusive_min=low, exclusive_max=high + 1)])
        from chunkwise import overlay  # with the driver, which few images need

        whole = overlay(
            [layer[d[-1][newaxis]][d[-1][at : at + 1]] for at, layer in layers.items()],
            domain=domain,
            fill_value=0,
            dimension_units=[*units, None],
        )
        return placed(whole, metadata.axes, levels[number].place, levels[0].place)

    def chunks() -> tuple[int, ...] | None:
        known = next(iter(parts.values())).stored_chunks
        return None if known is None else (*known, 1)

    return MultiscaleImage(metadata, open_level, location=location, chunks=chunks, members=members)


def _layers(parts: Mapping[int, MultiscaleImage], level: LevelMetadata) -> dict[int, TensorStore]:
    """Return the arrays of a level of those parts that have it, each from 0 on and without labels."""
    layers: dict[int, TensorStore] = {}
    for number, part in parts.items():
        if level.path in part.paths:
            store = part.levels[part.paths.index(level.path)]
            layers[number] = store.label[("",) * store.rank].translate_to[(0,) * store.rank]
    return layers
