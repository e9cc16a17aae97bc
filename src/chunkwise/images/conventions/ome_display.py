"""How OME-Zarr images are to be shown: channels, and the colours of labels.

None of it affects the data, so a wrong member is left out and named as a problem; the others are kept.

Source: OME-Zarr specification 0.4 and 0.5, sections "omero" and "labels".
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, TypeVar

from chunkwise.errors import InvalidArgumentError
from chunkwise.extension.inside import dump
from chunkwise.images.multiscale.metadata import Channel, Window, expect_list, expect_members, expect_numbers

__all__ = ["channels_of", "color_of", "label_colors_of"]

T = TypeVar("T")

_COLOR = re.compile(r"#?([0-9A-Fa-f]{6})(?:[0-9A-Fa-f]{2})?")  # other programs add a "#", or an opacity


def channels_of(omero: object, where: str, problems: list[str]) -> tuple[Channel, ...]:
    """Return the channels of a member ``omero``; what is wrong in it is added to `problems`."""
    if omero is None:
        return ()

    def entries() -> list[Any]:
        listed = expect_members(omero, where).get("channels")
        return expect_list(listed, f"{where}: channels", "channels", empty=True) if listed is not None else []

    none: list[Any] = []
    return tuple(
        _channel(entry, f"{where}: channels[{i}]", problems)
        for i, entry in enumerate(_attempt(entries, none, problems))
    )


def _channel(entry: object, where: str, problems: list[str]) -> Channel:
    none: dict[str, Any] = {}
    channel = _attempt(lambda: expect_members(entry, where), none, problems)
    label, active = channel.get("label"), channel.get("active")
    return Channel(
        "" if label is None else str(label),
        _attempt(lambda: color_of(channel.get("color"), f"{where}: color"), None, problems),
        _attempt(lambda: _window(channel.get("window"), f"{where}: window"), None, problems),
        _attempt(lambda: _flag(active, f"{where}: active"), True, problems),
    )


def _attempt(read: Callable[[], T], otherwise: T, problems: list[str]) -> T:
    """Return what a member says, or else `otherwise`, with the error among the problems."""
    try:
        return read()
    except InvalidArgumentError as e:
        problems.append(e.message)
        return otherwise


def _flag(value: object, where: str) -> bool:
    if value is not None and not isinstance(value, bool):
        raise InvalidArgumentError(f"{where}: expected true or false, but received {dump(value)}")
    return value is not False


def color_of(value: object, where: str) -> str | None:
    """Return a colour as six hexadecimal digits; raise InvalidArgumentError for what is none."""
    if value is None or value == "":
        return None
    found = _COLOR.fullmatch(value) if isinstance(value, str) else None
    if found is None:
        raise InvalidArgumentError(f"{where}: expected six hexadecimal digits, but received {dump(value)}")
    return found[1].upper()


def _window(value: object, where: str) -> Window | None:
    if value is None:
        return None
    window = expect_members(value, where)
    ends = {
        name: expect_numbers([window[name]], 1, f"{where}: {name}")[0]
        for name in ("min", "max", "start", "end")
        if window.get(name) is not None
    }
    return Window(**ends)


def label_colors_of(value: object, where: str, problems: list[str]) -> dict[int, tuple[int, int, int, int]]:
    """Return the colours in a member ``image-label``; what is wrong in it is added to `problems`."""

    def entries() -> list[Any]:
        colors = expect_members(value, where).get("colors")
        return expect_list(colors, f"{where}: colors", "colors", empty=True) if colors is not None else []

    out = {}
    none: list[Any] = []
    for i, entry in enumerate(_attempt(entries, none, problems)):
        found = _attempt(lambda: _label_color(entry, f"{where}: colors[{i}]"), None, problems)  # noqa: B023
        if found is not None:
            out[found[0]] = found[1]
    return out


def _label_color(entry: object, where: str) -> tuple[int, tuple[int, int, int, int]] | None:
    color = expect_members(entry, where)
    label, rgba = color.get("label-value"), color.get("rgba")
    if not isinstance(label, int) or isinstance(label, bool):
        raise InvalidArgumentError(f"{where}: label-value: expected an integer, but received {dump(label)}")
    if rgba is None:
        return None
    numbers = expect_numbers(rgba, 4, f"{where}: rgba")
    if not all(0 <= n <= 255 for n in numbers):
        raise InvalidArgumentError(f"{where}: rgba: expected numbers up to 255, but received {dump(rgba)}")
    return label, (int(numbers[0]), int(numbers[1]), int(numbers[2]), int(numbers[3]))
