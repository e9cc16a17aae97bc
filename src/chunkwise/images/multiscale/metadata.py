"""Metadata of an image in any format: axes, units, levels, channels.

Names of axes decide: ``t`` and ``time`` are time, ``c`` and ``channel`` channels, everything else is space.
Dimensions without a name get one of x, y, z, c, t, beginning with the one whose elements lie next to each
other, unless these are the colours of pixels.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple, NoReturn, TypeAlias, TypeGuard

from chunkwise import TensorStore, Unit
from chunkwise.errors import InvalidArgumentError
from chunkwise.extension import JSON
from chunkwise.extension.inside import dump, unit_text
from chunkwise.groups.group import Group

__all__ = [
    "AXIS_KINDS",
    "PIXEL_CHANNELS",
    "Axis",
    "AxisKind",
    "Channel",
    "ImageAxis",
    "ImageMetadata",
    "LevelMetadata",
    "Transformation",
    "Window",
    "axis_kind",
    "axis_names",
    "cells",
    "color_axis",
    "expect_list",
    "expect_members",
    "expect_numbers",
    "expect_text",
    "image_axes",
    "level_factor",
    "memory_order",
    "metadata_file",
    "ngff_unit",
    "sized_axes",
    "slowest_first",
    "symbol_of",
    "unit_in",
    "unit_symbol",
    "unit_text",
]


# -- axes and units -----------------------------------------------------------------------------------

AxisKind: TypeAlias = Literal["time", "channel", "space", "other"]

AXIS_KINDS = ("time", "channel", "space")
"""Kinds of axes that all viewers know."""

_KINDS: dict[str, AxisKind] = {
    "t": "time",
    "time": "time",
    "c": "channel",
    "channel": "channel",
    "channels": "channel",
}
_DEFAULT_NAMES = "xyzct"
_PREFIXES = {
    "y": "yocto", "z": "zepto", "a": "atto", "f": "femto", "p": "pico", "n": "nano", "u": "micro",
    "µ": "micro", "μ": "micro", "m": "milli", "c": "centi", "d": "deci", "h": "hecto", "k": "kilo",
    "M": "mega", "G": "giga", "T": "tera", "P": "peta", "E": "exa", "Z": "zetta", "Y": "yotta", "": "",
}  # fmt: skip
_OTHERS = {
    "micron": "micrometer", "microns": "micrometer", "A": "angstrom", "Å": "angstrom", "in": "inch",
    "ft": "foot", "yd": "yard", "mi": "mile", "min": "minute", "h": "hour", "hr": "hour", "d": "day",
    "sec": "second", "ångström": "angstrom", "Ångström": "angstrom", "Angstrom": "angstrom",
}  # fmt: skip


class ImageAxis(NamedTuple):
    """A dimension of an image."""

    name: str
    kind: AxisKind
    scale: float = 1.0  # distance of neighbours, in `unit`
    unit: str = ""  # as the source has it


def image_axes(
    store: TensorStore,
    names: Sequence[str] | None = None,
    units: Sequence[Unit | None] | None = None,
) -> list[ImageAxis]:
    """Return the axis of each dimension of `store`; names and units are by default those of the store."""
    rank = store.rank
    if names is not None and len(names) != rank:
        raise InvalidArgumentError(
            f"axes: expected {rank} values, for an array of shape {store.shape}, but received {len(names)}"
        )
    known = axis_names(store, store.domain.labels if names is None else names)
    if not all(known):
        raise InvalidArgumentError(
            f"dimension {known.index('')} has no name; name the axes of an array of rank {rank}"
        )
    if len(set(known)) < rank:
        raise InvalidArgumentError(f"axes: names must be unique, but received {', '.join(known)}")
    if units is not None and len(units) != rank:
        raise InvalidArgumentError(
            f"units: expected {rank} values, one for each of the axes {', '.join(known)}, "
            f"but received {len(units)}"
        )
    axes = []
    for name, unit in zip(known, store.dimension_units if units is None else units, strict=True):
        scale, base = (1.0, "") if unit is None else (unit.multiplier, unit.base_unit)
        if not 0 < scale < float("inf"):
            raise InvalidArgumentError(
                f"units: voxels of axis {name} must have a positive size, not {scale:g}"
            )
        axes.append(ImageAxis(name, axis_kind(name), scale, base))
    return axes


def axis_names(store: TensorStore, names: Sequence[str]) -> list[str]:
    """Return names, x, y, z, c and t for those that are empty; more than these stay empty.

    Without any name, 3 or 4 bytes that lie next to each other are the colours of a pixel.
    """
    out = list(names)
    if out and not any(out) and _is_color(store):
        out[memory_order(store)[-1]] = "c"
    free = [name for name in _DEFAULT_NAMES if name not in out]
    for dim in reversed(memory_order(store)):
        if not out[dim] and free:
            out[dim] = free.pop(0)
    return out


def color_axis(store: TensorStore) -> int | None:
    """Return the dimension of the 3 or 4 colours of pixels whose bytes lie next to each other, or None."""
    if store.rank < 3 or store.dtype.name != "uint8":
        return None
    last = memory_order(store)[-1]
    named = axis_names(store, store.domain.labels)[last] == "c"
    return last if named and store.shape[last] in (3, 4) else None


def _is_color(store: TensorStore) -> bool:
    *others, last = (store.shape[dim] for dim in memory_order(store))
    return store.dtype.name == "uint8" and last in (3, 4) and len(others) > 1 and min(others[-2:]) > 4


def axis_kind(name: str) -> AxisKind:
    """Return the kind of an axis, given its name."""
    return _KINDS.get(name.lower(), "space")


def memory_order(store: TensorStore) -> list[int]:
    """Return the dimensions, the one whose elements are farthest from each other first."""
    # The layout of a view has new dimensions, and those of index arrays, last, wherever they are.
    array, transform = store._array, store._transform
    while (base := getattr(array, "base", None)) is not None:  # of an array with other elements
        array, transform = base(transform)
    order = array.schema().chunk_layout.inner_order
    if order is None:
        return list(range(store.rank))
    place: dict[int, int] = {}
    for out, m in enumerate(transform.output):
        shape = () if m.index_array is None else m.index_array.shape
        dims: list[int | None] = [dim for dim, n in enumerate(shape) if n != 1]
        place |= {dim: order.index(out) for dim in dims or [m.input_dimension] if dim is not None}
    return sorted(range(store.rank), key=lambda dim: place.get(dim, -1))


def slowest_first(store: TensorStore, axes: Sequence[ImageAxis]) -> list[int]:
    """Return the dimensions in the order of images: time, channels, then space, with x last."""
    # Axes of space that aren't x, y and z stay in the order in which they lie in memory.
    order = memory_order(store)
    space = [dim for dim in order if axes[dim].kind == "space"]
    if {axes[dim].name for dim in space} <= set("xyz"):
        space.sort(key=lambda dim: axes[dim].name, reverse=True)
    kinds: tuple[AxisKind, ...] = ("time", "channel", "other")
    return [dim for kind in kinds for dim in order if axes[dim].kind == kind] + space


def ngff_unit(unit: str) -> str:
    """Return the UDUNITS-2 name of a unit as it is used in arrays; others as they are.

    >>> ngff_unit("nm"), ngff_unit("µm"), ngff_unit("s"), ngff_unit("furlong")
    ('nanometer', 'micrometer', 'second', 'furlong')
    """
    unit = unit.strip()
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


def symbol_of(unit: str) -> str:
    """Return the symbol of a unit, whichever of its names is given; others as they are."""
    return unit_symbol(ngff_unit(unit))


_POWERS = {
    "y": -24, "z": -21, "a": -18, "f": -15, "p": -12, "n": -9, "u": -6, "m": -3, "c": -2, "d": -1,
    "": 0, "h": 2, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18, "Z": 21, "Y": 24,
}  # fmt: skip
_WORDS = {
    "angstrom": ("m", 1.0, -10), "inch": ("m", 0.0254, 0), "foot": ("m", 0.3048, 0),
    "yard": ("m", 0.9144, 0), "mile": ("m", 1609.344, 0),
    "minute": ("s", 60.0, 0), "hour": ("s", 3600.0, 0), "day": ("s", 86400.0, 0),
}  # fmt: skip


def unit_in(unit: Unit, base: str) -> float:
    """Return a length or time in the unit called `base`; raise InvalidArgumentError if that is unknown.

    >>> unit_in(Unit("200 nm"), "um"), unit_in(Unit("2.7 nm"), "angstrom")
    (0.2, 27.0)
    """
    given, wanted = symbol_of(unit.base_unit), symbol_of(base)
    if given == wanted:
        return unit.multiplier
    one, other = _in_si(given), _in_si(wanted)
    if one is None or other is None or one[0] != other[0]:
        raise InvalidArgumentError(f"{unit} can't be given in {base or 'voxels without a unit'}")
    number, power = unit.multiplier * (one[1] / other[1]), one[2] - other[2]
    return number * 10.0**power if power >= 0 else number / 10.0**-power


def _in_si(symbol: str) -> tuple[str, float, int] | None:
    """Return m or s, a factor and a power of ten; None for units that are neither length nor time."""
    power = _POWERS.get(symbol[:-1]) if symbol[-1:] in ("m", "s") else None
    return _WORDS.get(symbol) if power is None else (symbol[-1:], 1.0, power)


# -- levels and channels ------------------------------------------------------------------------------


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
    if not (isinstance(value, Sequence) and len(value) == rank and all(is_number(n) for n in value)) or (
        positive and not all(n > 0 for n in value)
    ):
        what = "positive numbers" if positive else "numbers"
        raise InvalidArgumentError(f"{where}: expected {rank} {what}, but {_found(value)}")
    return tuple(float(n) for n in value)


def is_number(value: object) -> TypeGuard[int | float]:
    """Return True for a finite number."""
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
