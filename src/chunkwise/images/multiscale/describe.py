"""Descriptions of images as rows of a label and a text, for the command line and for notebooks."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from chunkwise.copying.summary import shape_text
from chunkwise.errors import ChunkwiseError
from chunkwise.images.conventions.ome_plates import Plate, Well
from chunkwise.images.multiscale.image import MultiscaleImage
from chunkwise.images.multiscale.metadata import Channel
from chunkwise.images.multiscale.open import Multiscale

__all__ = ["describe_images"]

_SHOWN = 10


def describe_images(found: Multiscale) -> list[tuple[str, str]]:
    """Return rows that describe an image, a plate, a well or a collection."""
    if isinstance(found, MultiscaleImage):
        return _image(found)
    if isinstance(found, Plate):
        return [
            ("plate", found.name),
            ("rows", _names(found.rows)),
            ("columns", _names(found.columns)),
            ("wells", f"{len(found.wells)}: {_names(found.wells)}"),
            *_acquisitions(found),
            *_problems(found.problems),
        ]
    if isinstance(found, Well):
        return [("well", f"fields {_names(found.fields)}"), *_problems(found.problems)]
    return [("images", f"{found.convention}: {_names(found)}"), *_problems(found.problems)]


def _acquisitions(plate: Plate) -> list[tuple[str, str]]:
    names = [str(one.get("name") or one.get("id")) for one in plate.acquisitions if isinstance(one, dict)]
    return [("acquisitions", _names(names))] if names else []


def _image(image: MultiscaleImage) -> list[tuple[str, str]]:
    axes = ", ".join(
        f"{axis.name} ({axis.type}{', ' + axis.unit if axis.unit else ''})" for axis in image.axes
    )
    rows = [("labels" if image.is_labels else "image", f"{image.name} ({image.convention})"), ("axes", axes)]
    for number, (path, scale) in enumerate(zip(image.paths, image.scales, strict=True)):
        try:
            level = image.levels[number]
            shape = f"{level.dtype.name} {shape_text(level.shape)}"
        except ChunkwiseError as e:
            shape = f"can't be read: {e.message}"
        sizes = ", ".join(
            f"{size:g}{' ' + axis.unit if axis.unit else ''}"
            for size, axis in zip(scale, image.axes, strict=True)
        )
        rows.append((f"level {number}", f"{path}: {shape}, voxels of {sizes}"))
    if image.channels:
        rows.append(("channels", ", ".join(map(_channel, image.channels))))
    if image.label_colors:
        rows.append(("colours", f"{len(image.label_colors)} labels"))
    if not image.is_labels and image.labels:
        rows.append(("labels", _names(image.labels)))
    return [*rows, *_problems(image._metadata.problems)]


def _problems(problems: Sequence[str]) -> list[tuple[str, str]]:
    """Return a row for each problem; those of levels are in the rows of these."""
    more = [f"and {len(problems) - _SHOWN} more"] if len(problems) > _SHOWN else []
    return [("problem", problem) for problem in (*problems[:_SHOWN], *more)]


def _channel(channel: Channel) -> str:
    return " ".join(filter(None, (channel.label or "-", f"#{channel.color}" if channel.color else "")))


def _names(names: Iterable[str]) -> str:
    found = list(names)
    return ", ".join(found[:_SHOWN]) + (", …" if len(found) > _SHOWN else "")
