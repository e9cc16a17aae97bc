"""Images in the attributes of OME-Zarr groups as they are read: 0.1 to 0.5, and drafts of 0.6.

A level's own transformations are applied first, those of the whole image after them; both are scales and
translations; the last may be missing.  In 0.6 a level leads to the intrinsic coordinate system, which has the
axes; transformations from there to other systems are left in the metadata.  Versions before 0.4 have no
transformations: sizes of levels follow from their shapes.  0.1 and 0.2 have five axes that need not be named.
Errors in members of display are problems, not exceptions, since they don't affect the data.

Source: OME-Zarr specification 0.1 to 0.5; drafts of 0.6 (RFC-5); SpatialData design document.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

from chunkwise.errors import InvalidArgumentError, UnsupportedError
from chunkwise.extension import JSON
from chunkwise.extension.inside import dump
from chunkwise.images.conventions.convention import LABEL, ome_members
from chunkwise.images.multiscale.metadata import (
    Axis,
    Channel,
    ImageMetadata,
    LevelMetadata,
    Transformation,
    Window,
    axis_kind,
    cells,
    expect_list,
    expect_members,
    expect_numbers,
    expect_text,
    level_factor,
    ngff_unit,
    symbol_of,
)

__all__ = [
    "HUES",
    "WITHOUT_SIZES",
    "channels_of",
    "color_of",
    "default_colors",
    "image_entry",
    "label_colors_of",
    "parse_ome_image",
    "whole_transformation",
]

_WITHOUT_AXES = ("0.1", "0.2")  # have five axes, without names
WITHOUT_SIZES = ("0.1", "0.2", "0.3")
"""Versions that have no sizes of voxels."""

_KNOWN = re.compile(r"(0\.[1-5])(?:[.-].*)?")
_DRAFTS = re.compile(r"0\.6(?:[.-]?(?:dev|rc).*)?")

_RGB = ("FF0000", "00FF00", "0000FF")
HUES = ("FF00FF", "00FF00", "00A0FF", "FFA000", "FF3030", "FFFF00")
"""Colours of channels whose colours nothing says."""

T = TypeVar("T")
_COLOR = re.compile(r"#?([0-9A-Fa-f]{6})(?:[0-9A-Fa-f]{2})?")  # other programs add a "#", or an opacity


def image_entry(
    attributes: Mapping[str, JSON], where: str, name: str | None = None, number: int | None = None
) -> tuple[int, Mapping[str, JSON]]:
    """Return the number of an image in ``multiscales``, the first or that of a name, and its entry."""
    own, at = ome_members(attributes, where)
    images = expect_list(own.get("multiscales"), f"{at}multiscales", "images")
    if number is None:
        number = _choose(images, name, f"{at}multiscales")
    where = f"{at}multiscales[{number}]"
    return number, _placed_by_cosem(expect_members(images[number], where), where)


def _placed_by_cosem(image: dict[str, JSON], where: str) -> dict[str, JSON]:
    """Return an image whose levels have a ``transform`` each, as of COSEM in Zarr, in the terms of 0.4."""
    datasets: Any = image.get("datasets")
    is_cosem = isinstance(datasets, list) and all(
        isinstance(one, dict) and "transform" in one for one in datasets
    )
    if "axes" in image or not datasets or not is_cosem:
        return image
    from chunkwise.images.conventions.n5_group import parse_transform  # many modules, for COSEM alone

    axes: tuple[Axis, ...] = ()
    levels: list[JSON] = []
    for i, dataset in enumerate(datasets):
        axes, place = parse_transform(dataset["transform"], f"{where}: datasets[{i}]: transform")
        scale, at = (list(part[::-1]) for part in place)  # x comes first in it
        steps = [{"type": "scale", "scale": scale}, {"type": "translation", "translation": at}]
        others = {name: value for name, value in dataset.items() if name != "transform"}
        levels.append({**others, "coordinateTransformations": steps})
    named = [
        {"name": one.name, "type": one.type, **({"unit": ngff_unit(one.unit)} if one.unit else {})}
        for one in axes[::-1]
    ]
    return {**image, "axes": named, "datasets": levels}


def parse_ome_image(
    attributes: Mapping[str, JSON],
    where: str,
    *,
    name: str | None = None,
    number: int | None = None,
    drafts: bool = False,
    shape_of: Callable[[str], Sequence[int] | None] = lambda _: None,
    labels_of: Callable[[str], Sequence[str]] = lambda _: (),
) -> ImageMetadata:
    """Return the image that the attributes of a group, which are in the file `where`, tell of.

    `shape_of` is asked for the shapes of levels of versions that have no sizes of voxels, and `labels_of` for
    the dimensions of the first level where a version that names no axes is of others than five.
    """
    own, at = ome_members(attributes, where)
    number, image = image_entry(attributes, where, name, number)
    here = f"{at}multiscales[{number}]: "
    version = _image_version(attributes, image, at, here, drafts=drafts)
    problems: list[str] = []
    if version == "0.6":
        axes_json, axes_at, system = _intrinsic(image, here)
    else:
        axes_json = _named_axes(image.get("axes") or _labels(image, version, labels_of), version)
        axes_at, system = f"{here}axes", None
    axes = _axes(axes_json, axes_at)
    rank = len(axes)
    whole = whole_transformation(image, rank, here, problems) if system is None else _identity(rank)
    levels = []
    for i, entry in enumerate(expect_list(image.get("datasets"), f"{here}datasets", "levels")):
        member = f"{here}datasets[{i}]"
        dataset = expect_members(entry, member)
        path = expect_text(dataset.get("path"), f"{member}: path", "the path of an array").strip("/")
        steps = dataset.get("coordinateTransformations")
        if steps is None and version in WITHOUT_SIZES:
            place = _identity(rank)
        else:
            place = _transformation(steps, rank, f"{member}: coordinateTransformations")
        levels.append(LevelMetadata(path, place.then(whole), f"{member}: path"))
    if version in WITHOUT_SIZES:
        levels = _sized(axes, levels, shape_of)
    label = own.get(LABEL)
    return ImageMetadata(
        convention=f"ome-ngff-{version}",
        axes=axes,
        levels=tuple(levels),
        name=str(image.get("name") or own.get("name") or ""),
        channels=channels_of(own.get("omero"), f"{at}omero", problems),
        is_labels=label is not None,
        label_colors={} if label is None else label_colors_of(label, f"{at}{LABEL}", problems),
        document=attributes,
        problems=tuple(problems),
    )


def _identity(rank: int) -> Transformation:
    return Transformation((1.0,) * rank, (0.0,) * rank)


def whole_transformation(
    image: Mapping[str, JSON], rank: int, here: str, problems: list[str]
) -> Transformation:
    """Return the transformation of all levels; of several to systems of coordinates that to "global"."""
    value, where = image.get("coordinateTransformations"), f"{here}coordinateTransformations"
    if value is None:
        return _identity(rank)
    # SpatialData lists one for each system of coordinates, and a system may be turned.
    listed = expect_list(value, where, "transformations", empty=True)
    outputs = [one.get("output") if isinstance(one, dict) else None for one in listed]
    names = [output.get("name") if isinstance(output, dict) else output for output in outputs]
    if not any(names):
        return _transformation(value, rank, where)
    at = names.index("global") if "global" in names else 0
    try:
        return _transformation([listed[at]], rank, where)
    except (InvalidArgumentError, UnsupportedError) as e:
        problems.append(f"{e.message}; the image is left in its own system of coordinates")
        return _identity(rank)


def _labels(
    image: Mapping[str, JSON], version: str, labels_of: Callable[[str], Sequence[str]]
) -> list[str] | None:
    """Return the dimensions of the first level in place of axes that have no names; None for the usual."""
    # tifffile writes images of any rank as 0.1, whose arrays have five dimensions.
    datasets = image.get("datasets")
    if "axes" in image or version not in _WITHOUT_AXES or not isinstance(datasets, list) or not datasets:
        return None
    path = datasets[0].get("path") if isinstance(datasets[0], dict) else None
    names = [name.lower() for name in labels_of(path)] if isinstance(path, str) else []
    return names if len(set(names)) == len(names) and all(names) and len(names) not in (0, 5) else None


def _sized(
    axes: Sequence[Axis], levels: list[LevelMetadata], shape_of: Callable[[str], Sequence[int] | None]
) -> list[LevelMetadata]:
    """Return levels with the sizes of voxels that follow from their shapes."""
    shapes = [shape_of(level.path) for level in levels]
    first = next((shape for shape in shapes if shape is not None and len(shape) == len(axes)), None)
    out = []
    for level, shape in zip(levels, shapes, strict=True):
        if first is not None and shape is not None and len(shape) == len(axes):
            steps = [
                level_factor(n, m) if axis.type == "space" else 1.0
                for axis, n, m in zip(axes, first, shape, strict=True)
            ]
            level = level._replace(place=cells(steps).then(level.place))
        out.append(level)
    return out


def _choose(images: list[Any], name: str | None, where: str) -> int:
    if name is None:
        return 0
    names = [image.get("name") if isinstance(image, dict) else None for image in images]
    if name not in names:
        known = ", ".join(dump(name) for name in names)
        raise InvalidArgumentError(f"{where}: expected an image called {dump(name)}, but found {known}")
    return names.index(name)


def _intrinsic(image: Mapping[str, JSON], here: str) -> tuple[Any, str, str]:
    """Return the axes of the system that the levels lead to, the member that has them, and its name."""
    systems = expect_list(image.get("coordinateSystems"), f"{here}coordinateSystems", "coordinate systems")
    outputs = set()
    for i, dataset in enumerate(expect_list(image.get("datasets"), f"{here}datasets", "levels")):
        at = f"{here}datasets[{i}]"
        transformations = expect_members(dataset, at).get("coordinateTransformations")
        one = expect_list(transformations, f"{at}: coordinateTransformations", "transformations")[-1]
        output = expect_members(one, f"{at}: coordinateTransformations").get("output")
        name = output.get("name") if isinstance(output, dict) else output
        outputs.add(expect_text(name, f"{at}: coordinateTransformations: output", "a coordinate system"))
    if len(outputs) > 1:
        raise InvalidArgumentError(
            f"{here}datasets: levels must lead to one coordinate system, not to {', '.join(sorted(outputs))}"
        )
    wanted = outputs.pop()
    for i, system in enumerate(systems):
        at = f"{here}coordinateSystems[{i}]"
        if expect_members(system, at).get("name") == wanted:
            return system.get("axes"), f"{at}: axes", wanted
    raise InvalidArgumentError(f"{here}coordinateSystems: expected one called {dump(wanted)}")


def _axes(value: object, where: str) -> tuple[Axis, ...]:
    axes = []
    for i, entry in enumerate(expect_list(value, where, "axes")):
        at = f"{where}[{i}]"
        axis = expect_members(entry, at)
        name = expect_text(axis.get("name"), f"{at}: name", "the name of an axis")
        kind, unit = axis.get("type"), axis.get("unit")
        if kind is None:
            kind = axis_kind(name)
        if unit is None:
            unit = ""
        if not isinstance(unit, str) or not isinstance(kind, str):
            raise InvalidArgumentError(f"{at}: expected text as type and unit, but received {dump(axis)}")
        axes.append(Axis(name, kind, symbol_of(unit)))
    if len({axis.name for axis in axes}) < len(axes):
        raise InvalidArgumentError(f"{where}: names must be unique, but received {dump(value)}")
    return tuple(axes)


def _transformation(value: object, rank: int, where: str) -> Transformation:
    """Return the combined effect of a list of transformations; the first is applied first."""
    out = Transformation((1.0,) * rank, (0.0,) * rank)
    for i, entry in enumerate(expect_list(value, where, "transformations", empty=True)):
        at = f"{where}[{i}]"
        one = expect_members(entry, at)
        kind = one.get("type")
        if kind == "identity":
            continue
        if kind == "sequence":
            out = out.then(_transformation(one.get("transformations"), rank, f"{at}: transformations"))
        elif kind == "scale" and "scale" in one:
            scale = expect_numbers(one["scale"], rank, f"{at}: scale", positive=True)
            out = out.then(Transformation(scale, (0.0,) * rank))
        elif kind == "translation" and "translation" in one:
            translation = expect_numbers(one["translation"], rank, f"{at}: translation")
            out = out.then(Transformation((1.0,) * rank, translation))
        else:
            raise UnsupportedError(f"{at}: expected scale or translation with numbers, not {dump(one)[:200]}")
    return out


def _image_version(
    attributes: Mapping[str, JSON], image: Mapping[str, JSON], at: str, here: str, *, drafts: bool
) -> str:
    """Return the version of an image; without a number it is what the place of the metadata says."""
    own = attributes.get("ome", {})
    if own.get("version") is not None:
        return _check_version(own["version"], at, drafts=drafts)
    return _check_version(
        image.get("version") or ("0.5" if "ome" in attributes else "0.4"), here, drafts=drafts
    )


def _check_version(version: object, where: str, *, drafts: bool = False) -> str:
    """Return a version of OME-Zarr that can be read; raise UnsupportedError for others."""
    text = str(version) if isinstance(version, str | float) else ""
    known = _KNOWN.fullmatch(text)
    if known is not None:
        return known[1]
    if _DRAFTS.fullmatch(text):
        if drafts:
            return "0.6"
        raise UnsupportedError(
            f"{where}version: {dump(version)} is a draft, which is read only with `drafts=True`"
        )
    raise UnsupportedError(f"{where}version: expected 0.1 to 0.5, but received {dump(version)}")


def _named_axes(value: Any, version: str) -> Any:
    """Return axes as 0.4 has them: of older versions only the names are known."""
    if value is None and version in _WITHOUT_AXES:
        value = list("tczyx")
    if not isinstance(value, list):
        return value
    return [
        {"name": axis, "type": axis_kind(axis)} if isinstance(axis, str) and axis else axis for axis in value
    ]


def channels_of(omero: object, where: str, problems: list[str]) -> tuple[Channel, ...]:
    """Return the channels of a member ``omero``; errors in it are added to `problems`."""
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
    """Return the value of a member, or else `otherwise`, with the error among the problems."""
    try:
        return read()
    except InvalidArgumentError as e:
        problems.append(e.message)
        return otherwise


def _flag(value: object, where: str) -> bool:
    if value is not None and not isinstance(value, bool):
        raise InvalidArgumentError(f"{where}: expected true or false, but received {dump(value)}")
    return value is not False


def default_colors(n: int, *, is_rgb: bool) -> list[str]:
    """Return colours for `n` channels of which nothing says one."""
    hues = ("FFFFFF",) if n == 1 else _RGB if is_rgb else HUES
    return [hues[number % len(hues)] for number in range(n)]


def color_of(value: object, where: str) -> str | None:
    """Return a colour as six hexadecimal digits; raise InvalidArgumentError for other values."""
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
    """Return the colours in a member ``image-label``; errors in it are added to `problems`."""

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
