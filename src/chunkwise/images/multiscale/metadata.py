"""Metadata of an image in any format: axes, levels, channels."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, NoReturn

from chunkwise.errors import InvalidArgumentError
from chunkwise.extension import JSON
from chunkwise.extension.inside import dump
from chunkwise.groups.group import Group
from chunkwise.images.multiscale.image_axes import AXIS_KINDS, ImageAxis

__all__ = [
    "PIXEL_CHANNELS",
    "Axis",
    "Channel",
    "ImageMetadata",
    "LevelMetadata",
    "Transformation",
    "Window",
    "cells",
    "expect_list",
    "expect_members",
    "expect_numbers",
    "expect_text",
    "level_factor",
    "metadata_file",
    "sized_axes",
]


@dataclass(frozen=True)
class Axis:
    """A dimension of an image.

    Attributes
    ----------
    name : str
    type : str
        ``"space"``, ``"time"`` or ``"channel"``; OME-Zarr also has others.
    unit : str
        Its symbol, such as ``"um"``; empty if it is unknown.
    """

    name: str
    type: str = "space"
    unit: str = ""


def sized_axes(axes: Sequence[Axis], sizes: Sequence[float]) -> tuple[ImageAxis, ...]:
    """Return axes with sizes of voxels; kinds that viewers don't know are others."""
    return tuple(
        ImageAxis(axis.name, axis.type if axis.type in AXIS_KINDS else "other", size, axis.unit)  # type: ignore[arg-type]
        for axis, size in zip(axes, sizes, strict=True)
    )


@dataclass(frozen=True)
class Window:
    """The range of values that a channel is shown with.

    Attributes
    ----------
    min, max : float or None
        Values that there can be.
    start, end : float or None
        Values that are shown darkest and brightest.
    """

    min: float | None = None
    max: float | None = None
    start: float | None = None
    end: float | None = None

    def __iter__(self) -> NoReturn:
        raise TypeError(
            "a window has four numbers: (window.start, window.end) are shown darkest and brightest"
        )


@dataclass(frozen=True)
class Channel:
    """Display of a channel.

    Attributes
    ----------
    label : str
    color : str or None
        Six hexadecimal digits, ``"RRGGBB"``.
    window : Window or None
    active : bool
        False if it is hidden at first.
    """

    label: str = ""
    color: str | None = None
    window: Window | None = None
    active: bool = True


PIXEL_CHANNELS = (
    *(
        Channel(label, color, Window(0.0, 255.0, 0.0, 255.0))
        for label, color in (("red", "FF0000"), ("green", "00FF00"), ("blue", "0000FF"))
    ),
    Channel("alpha", active=False),
)
"""Channels of pixels in colour whose elements are bytes."""


class Transformation(NamedTuple):
    """Scale and translation, by dimension of the array: ``position = index * scale + translation``."""

    scale: tuple[float, ...]
    translation: tuple[float, ...]

    def then(self, other: Transformation) -> Transformation:
        """Return this transformation followed by `other`."""
        return Transformation(
            tuple(a * b for a, b in zip(self.scale, other.scale, strict=True)),
            tuple(t * s + at for t, s, at in zip(self.translation, *other, strict=True)),
        )


def cells(factors: Sequence[float]) -> Transformation:
    """Return the transformation of a level whose voxels stand for cells of this size in full resolution."""
    steps = tuple(map(float, factors))
    return Transformation(steps, tuple(0.5 * (f - 1) for f in steps))


def level_factor(n: int, m: int) -> float:
    """Return the factor by which `n` elements became `m`: a power of two, or a whole number, if one fits."""
    powers = [2**k for k in range(n.bit_length() + 1)]
    for f in (*powers, max(1, round(n / max(1, m)))):
        if n // f <= m <= -(-n // f):
            return float(f)
    return max(1.0, n / m) if m else 1.0


class LevelMetadata(NamedTuple):
    """One resolution."""

    path: str  # of the array, from the group on
    place: Transformation  # from indices to the axes' units
    where: str  # which file and member names it, for errors


@dataclass(frozen=True)
class ImageMetadata:
    """The metadata of one image."""

    convention: str
    axes: tuple[Axis, ...]
    levels: tuple[LevelMetadata, ...]  # full resolution first
    name: str = ""
    channels: tuple[Channel, ...] = ()
    is_labels: bool = False
    label_colors: Mapping[int, tuple[int, int, int, int]] = field(default_factory=dict)
    document: Mapping[str, JSON] = field(default_factory=dict)  # the attributes, as stored
    problems: tuple[str, ...] = ()  # wrong or missing metadata, which was left out
    assumed: tuple[str, ...] = ()  # about the axes, since nothing says so
    lacks: str = ""  # why the first level isn't full resolution


def expect_members(value: object, where: str) -> dict[str, JSON]:
    """Return a JSON object; raise InvalidArgumentError, which says `where`, for anything else."""
    if not isinstance(value, dict):
        raise InvalidArgumentError(f"{where}: expected an object, but {_found(value)}")
    return value


def expect_list(value: object, where: str, what: str, *, empty: bool = False) -> list[Any]:
    """Return a JSON array of `what`; raise InvalidArgumentError for anything else, or if it is empty."""
    if not isinstance(value, list) or not (value or empty):
        raise InvalidArgumentError(f"{where}: expected a list of {what}, but {_found(value)}")
    return value


def expect_text(value: object, where: str, what: str) -> str:
    """Return text that isn't empty; raise InvalidArgumentError for anything else."""
    if not isinstance(value, str) or not value:
        raise InvalidArgumentError(f"{where}: expected {what}, but {_found(value)}")
    return value


def expect_numbers(value: object, rank: int, where: str, *, positive: bool = False) -> tuple[float, ...]:
    """Return `rank` finite numbers; raise InvalidArgumentError for anything else."""
    if not (isinstance(value, Sequence) and len(value) == rank and all(_is_number(n) for n in value)) or (
        positive and not all(n > 0 for n in value)
    ):
        what = "positive numbers" if positive else "numbers"
        raise InvalidArgumentError(f"{where}: expected {rank} {what}, but {_found(value)}")
    return tuple(float(n) for n in value)


def _is_number(value: object) -> bool:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return False
    try:
        return math.isfinite(float(value))
    except OverflowError:
        return False


def _found(value: object) -> str:
    return "there is none" if value is None else f"received {dump(value)[:200]}"


def metadata_file(group: Group) -> str:
    """Return the file that the attributes of a group are in, for errors."""
    node = group._node
    key = node.rules.attributes_key or node.key
    return node.location.describe(key)
