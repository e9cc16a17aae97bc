"""``chunkwise image``: show or change scale, units, position and channels of an image."""

from __future__ import annotations

import argparse
from typing import Any

from chunkwise.cli.command import UsageError, show
from chunkwise.extension import JSON
from chunkwise.images.multiscale.edit_image import chosen_image, edit_image
from chunkwise.images.multiscale.image import MultiscaleImage
from chunkwise.images.multiscale.open import open_multiscale

__all__ = ["add_arguments", "run"]

_EPILOG = """\
  chunkwise image scan.ome.zarr                                     show
  chunkwise image scan.ome.zarr --scale 'z=40 nm,y=4 nm,x=4 nm'     sizes of a voxel of full resolution
  chunkwise image em.n5/volume --unit nm --translation 0,100,200
  chunkwise image cells.ome.zarr --channels DAPI,GFP --colors 0=0000FF,1=00FF00

Values are for each axis or channel, or for some by name: x=4, 0=DAPI.  All is changed wherever the convention
of the image has it: OME-Zarr, N5 of n5-viewer, COSEM, Paintera and BigDataViewer, precomputed volumes.
Elements are not touched.
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    parser.epilog = _EPILOG
    parser.add_argument("path", metavar="PATH", help="group of an image, or a file of BigDataViewer (*.xml)")
    parser.add_argument("--name", metavar="NAME", help="which image, if there are several, such as setup0")
    parser.add_argument(
        "--scale", metavar="SIZES", help="sizes of a voxel: numbers, or lengths such as '40 nm'"
    )
    parser.add_argument("--unit", metavar="UNIT", help="of all axes of space, or by axis; numbers stay")
    parser.add_argument("--translation", metavar="NUMBERS", help="centre of the first voxel")
    parser.add_argument("--channels", metavar="NAMES", help="names of channels")
    parser.add_argument("--colors", metavar="COLORS", help="colours of channels, RRGGBB")


def run(arguments: argparse.Namespace) -> int:
    """Run the command."""
    given = {
        "scale": _values(arguments.scale, "scale", number=False),
        "translation": _values(arguments.translation, "translation", number=True),
        "channels": _values(arguments.channels, "channels"),
        "colors": _values(arguments.colors, "colors"),
    }
    for name in ("channels", "colors"):
        if isinstance(given[name], dict):
            given[name] = {int(key) if key.isdecimal() else key: text for key, text in given[name].items()}
    image = chosen_image(open_multiscale(arguments.path), arguments.name)
    units = _values(arguments.unit, "unit")
    if isinstance(units, list) and len(units) == 1:
        units = {axis.name: units[0] for axis in image.axes if axis.type == "space"}
    given["units"] = units
    if any(value is not None for value in given.values()):
        image = edit_image(arguments.path, name=arguments.name, **given)
    out = _described(image)
    rows = [
        f"{axis['name']:<8} {axis['type']:<8} {axis['scale']:g} {axis['unit']}, from {axis['translation']:g}"
        for axis in out["axes"]
    ]
    rows += [f"channel {n}: {one['label']} {one['color'] or ''}" for n, one in enumerate(out["channels"])]
    show(arguments, out, f"{image.convention}, levels {', '.join(image.paths)}", *rows)
    return 0


def _described(image: MultiscaleImage) -> dict[str, JSON]:
    axes = zip(image.axes, image.scales[0], image.translations[0], strict=True)
    return {
        "convention": image.convention,
        "axes": [
            {"name": axis.name, "type": axis.type, "unit": axis.unit, "scale": size, "translation": at}
            for axis, size, at in axes
        ],
        "channels": [{"label": channel.label, "color": channel.color} for channel in image.channels],
    }


def _values(text: str | None, name: str, number: bool | None = None) -> Any:
    """Return values as a list, or by the name before "="; as numbers where these are possible or needed."""
    if text is None:
        return None
    parts = [part.strip() for part in text.split(",")]
    named = ["=" in part for part in parts]
    if not all(parts) or (any(named) and not all(named)):
        raise UsageError(f'--{name}: expected values, or some by name such as x=4, but received "{text}"')
    if not any(named):
        return [_value(part, name, number) for part in parts]
    pairs = [(key.strip(), value.strip()) for key, _, value in (part.partition("=") for part in parts)]
    if len({key for key, _ in pairs}) < len(pairs):
        raise UsageError(f'--{name}: a name occurs twice in "{text}"')
    return {key: _value(value, name, number) for key, value in pairs}


def _value(text: str, name: str, number: bool | None) -> Any:
    if number is None:
        return text
    try:
        return float(text)
    except ValueError:
        if number or not text[:1].isdigit():
            raise UsageError(f'--{name}: expected a number, but received "{text}"') from None
        return text
