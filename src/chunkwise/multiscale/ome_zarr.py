"""Images in the attributes of OME-Zarr groups: 0.4, 0.5, and drafts of 0.6.

A level's own transformations are applied first, those of the whole image after them; both are scales and
translations, of which the last may be missing.  In 0.6 a level leads to the intrinsic coordinate system,
which has the axes; transformations from there to other systems are left in the metadata.

Source: OME-Zarr specification 0.4 and 0.5, sections "axes", "coordinateTransformations", "multiscales",
"omero" and "labels"; drafts of 0.6 (RFC-5), section "coordinateSystems".
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from chunkwise.binding import JSON, dump
from chunkwise.errors import InvalidArgumentError, UnsupportedError
from chunkwise.multiscale.image_axes import axis_kind, ngff_unit, unit_symbol
from chunkwise.multiscale.metadata import (
    Axis,
    Channel,
    ImageMetadata,
    LevelMetadata,
    Transformation,
    Window,
    expect_list,
    expect_members,
    expect_numbers,
    expect_text,
)

__all__ = ["check_version", "ome_members", "parse_ome_image", "symbol_of"]

_VERSIONS = ("0.4", "0.5")
_DRAFTS = re.compile(r"0\.6([.-]?(dev|rc).*)?")
_COLOR = re.compile(r"[0-9A-Fa-f]{6}")


def ome_members(attributes: Mapping[str, JSON], where: str) -> tuple[Mapping[str, JSON], str]:
    """Return the members of OME-Zarr, and the file and member that they are in."""
    if "ome" in attributes:
        return expect_members(attributes["ome"], f'{where}: "ome"'), f"{where}: ome/"
    return attributes, f"{where}: "


def check_version(version: object, where: str, *, drafts: bool = False) -> str:
    """Return a version of OME-Zarr that can be read; raise UnsupportedError for others."""
    if version in _VERSIONS:
        return str(version)
    if isinstance(version, str) and _DRAFTS.fullmatch(version):
        if drafts:
            return "0.6"
        raise UnsupportedError(
            f"{where}version: {dump(version)} is a draft, which is read only with `drafts=True`"
        )
    raise UnsupportedError(
        f"{where}version: expected one of {', '.join(_VERSIONS)}, but received {dump(version)}"
    )


def symbol_of(unit: str) -> str:
    """Return the symbol of a unit, whichever of its names is given; others as they are."""
    return unit_symbol(ngff_unit(unit))


def parse_ome_image(
    attributes: Mapping[str, JSON], where: str, *, name: str | None = None, drafts: bool = False
) -> ImageMetadata:
    """Return the image that the attributes of a group tell of.

    Parameters
    ----------
    attributes : mapping
    where : str
        The file that they are in, for errors.
    name : str, optional
        Which of several images; by default the first.
    drafts : bool
        Whether drafts of 0.6 are read.
    """
    own, at = ome_members(attributes, where)
    images = expect_list(own.get("multiscales"), f"{at}multiscales", "images")
    number = _choose(images, name, f"{at}multiscales")
    here = f"{at}multiscales[{number}]: "
    image = expect_members(images[number], here[:-2])
    given = own.get("version") if "ome" in attributes else image.get("version", "0.4")
    version = check_version(given, at if "ome" in attributes else here, drafts=drafts)
    if version == "0.6":
        axes_json, axes_at, system = _intrinsic(image, here)
    else:
        axes_json, axes_at, system = image.get("axes"), f"{here}axes", None
    axes = _axes(axes_json, axes_at)
    rank = len(axes)
    whole = Transformation((1.0,) * rank, (0.0,) * rank)
    if system is None and "coordinateTransformations" in image:
        whole = _transformation(image["coordinateTransformations"], rank, f"{here}coordinateTransformations")
    levels = []
    for i, entry in enumerate(expect_list(image.get("datasets"), f"{here}datasets", "levels")):
        member = f"{here}datasets[{i}]"
        dataset = expect_members(entry, member)
        path = expect_text(dataset.get("path"), f"{member}: path", "the path of an array")
        place = _transformation(
            dataset.get("coordinateTransformations"), rank, f"{member}: coordinateTransformations"
        )
        levels.append(LevelMetadata(path.strip("/"), place.then(whole), f"{member}: path"))
    label = own.get("image-label")
    return ImageMetadata(
        convention=f"ome-ngff-{version}",
        axes=axes,
        levels=tuple(levels),
        name=str(image.get("name") or own.get("name") or ""),
        channels=_channels(own.get("omero"), f"{at}omero"),
        is_labels=label is not None,
        label_colors={} if label is None else _label_colors(label, f"{at}image-label"),
        document=attributes,
    )


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
    """Return what a list of transformations, the first of which is applied first, does."""
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


def _channels(omero: object, where: str) -> tuple[Channel, ...]:
    if omero is None:
        return ()
    entries = expect_members(omero, where).get("channels", [])
    out = []
    for i, entry in enumerate(expect_list(entries, f"{where}: channels", "channels", empty=True)):
        at = f"{where}: channels[{i}]"
        channel = expect_members(entry, at)
        color = channel.get("color")
        if color is not None and not (isinstance(color, str) and _COLOR.fullmatch(color)):
            raise InvalidArgumentError(
                f"{at}: color: expected six hexadecimal digits, but received {dump(color)}"
            )
        label, active = channel.get("label"), channel.get("active", True)
        if not isinstance(active, bool):
            raise InvalidArgumentError(f"{at}: active: expected true or false, but received {dump(active)}")
        out.append(
            Channel(
                "" if label is None else str(label),
                None if color is None else color.upper(),
                _window(channel.get("window"), f"{at}: window"),
                active,
            )
        )
    return tuple(out)


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


def _label_colors(value: object, where: str) -> dict[int, tuple[int, int, int, int]]:
    colors = expect_members(value, where).get("colors") or []
    out = {}
    for i, entry in enumerate(expect_list(colors, f"{where}: colors", "colors", empty=True)):
        at = f"{where}: colors[{i}]"
        color = expect_members(entry, at)
        label, rgba = color.get("label-value"), color.get("rgba")
        if not isinstance(label, int) or isinstance(label, bool):
            raise InvalidArgumentError(f"{at}: label-value: expected an integer, but received {dump(label)}")
        if rgba is None:
            continue
        numbers = expect_numbers(rgba, 4, f"{at}: rgba")
        if not all(0 <= n <= 255 for n in numbers):
            raise InvalidArgumentError(f"{at}: rgba: expected numbers up to 255, but received {dump(rgba)}")
        out[label] = (int(numbers[0]), int(numbers[1]), int(numbers[2]), int(numbers[3]))
    return out
