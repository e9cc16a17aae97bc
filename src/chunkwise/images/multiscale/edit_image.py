"""``edit_image``: scale, units, position and channels of an image, changed as its convention has them.

A change consists of edits of documents.  All are made in memory first, and the image is read with them, to
find members that contradict the change before anything is written.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from copy import deepcopy
from dataclasses import replace
from functools import partial
from typing import Any, TypeVar

from chunkwise import Attributes, Unit
from chunkwise.copying.resolve import ResolvedPlace, resolve
from chunkwise.errors import (
    AbortedError,
    ChunkwiseError,
    DataCorruptionError,
    InvalidArgumentError,
    NotFoundError,
    UnsupportedError,
)
from chunkwise.extension.inside import dump, read_bounded, with_storage_options
from chunkwise.extension.trees import Location, LocationLike, on_trial, require_node, to_json_value
from chunkwise.images.conventions.convention import Change, Edit, plain
from chunkwise.images.conventions.known import convention_of
from chunkwise.images.conventions.ome_groups import ImageCollection
from chunkwise.images.conventions.ome_metadata import color_of
from chunkwise.images.multiscale.image import MultiscaleImage
from chunkwise.images.multiscale.metadata import Transformation, is_number, symbol_of, unit_in
from chunkwise.images.multiscale.open import Multiscale, open_multiscale

__all__ = ["chosen_image", "edit_image"]

T = TypeVar("T")

_MOST_TRIES = 100
_SHOWN = 10
_NEARLY = 2e-6  # of a voxel
_LEAST = sys.float_info.min  # smaller numbers lose digits


def edit_image(
    place: LocationLike,
    *,
    name: str | None = None,
    scale: Mapping[str, float | str | Unit] | Sequence[float | str | Unit] | None = None,
    units: Mapping[str, str | None] | Sequence[str | None] | None = None,
    translation: Mapping[str, float] | Sequence[float] | None = None,
    channels: Mapping[int | str, str] | Sequence[str] | None = None,
    colors: Mapping[int | str, str] | Sequence[str] | None = None,
    storage_options: Mapping[str, Any] | None = None,
) -> MultiscaleImage:
    """Change scale, units, position and channels of an image, in all places where its convention has them.

    Elements are not touched.

    Parameters
    ----------
    place : LocationLike
        Group of the image: OME-Zarr 0.1 to 0.5, N5 of n5-viewer, COSEM, Paintera or BigDataViewer (with its
        XML file), or a precomputed volume; or an XML file of BigDataViewer, over any container.
    name : str, optional
        Which image, if there are several, such as ``"setup0"``.
    scale : mapping of str to (float, str or Unit), or sequence, optional
        Size of a voxel of full resolution, for some axes by name, or for each in the order of the arrays: in
        the unit of the axis, or with a unit, such as ``"40 nm"``.  The sizes of the other levels, and their
        distances from the first, change by the same factor.
    units : mapping of str to (str or None), or sequence, optional
        Units of axes, such as ``"um"``; None for none.  Numbers stay as they are.
    translation : mapping of str to float, or sequence, optional
        Position of the centre of the first voxel of full resolution, in the unit of the axis.
    channels : mapping of (int or str) to str, or sequence of str, optional
        Names of channels, for some by number from 0 on or by present name, or for all.
    colors : mapping of (int or str) to str, or sequence of str, optional
        Colours of channels, six hexadecimal digits each, ``"RRGGBB"``.
    storage_options : mapping, optional
        As for `open_group`.

    Returns
    -------
    MultiscaleImage
        The image as it is now.

    Raises
    ------
    NotFoundError
        If there is nothing.
    InvalidArgumentError
        If there is no image, or no such axis or channel, or a value is wrong.  Nothing is changed then.
    UnsupportedError
        If the convention has no place for it.  Nothing is changed then.
    DataCorruptionError
        If another member says otherwise.  Nothing is changed then, unless others wrote it meanwhile.

    Examples
    --------
    >>> import tempfile
    >>> import numpy as np
    >>> import chunkwise
    >>> path = tempfile.mkdtemp() + "/image.zarr"
    >>> scan = chunkwise.array(np.zeros((64, 96), "uint16"))
    >>> _ = chunkwise.downsample_pyramid(scan, path, levels=1).result()
    >>> image = chunkwise.edit_image(path, scale={"y": "0.5 um", "x": "0.5 um"}, channels=["DAPI"])
    >>> image.scales, image.axes[0].unit, image.channels[0].label
    (((0.5, 0.5), (1.0, 1.0)), 'um', 'DAPI')
    """
    place = with_storage_options(place, storage_options)
    found = resolve(place)
    image = chosen_image(open_multiscale(found), name)
    change = _change(image, scale, units, translation)
    names = _by_channel(image, channels, "channels")
    shown = _by_channel(image, colors, "colors")
    change = replace(
        change,
        names={number: str(name) for number, name in names.items()},
        colors={number: _color(color, number) for number, color in shown.items()},
    )
    edits = _edits(image, found, name, change)
    _try(found, name, change)
    _apply(edits)
    changed = chosen_image(open_multiscale(place), name)
    _check(changed, change)
    return changed


def chosen_image(found: Multiscale, name: str | None) -> MultiscaleImage:
    """Return the image that was found, or the one of that name in a collection."""
    if isinstance(found, MultiscaleImage) and name is None:
        return found
    several = found if isinstance(found, ImageCollection) else {}
    if name is not None and name in several:
        return several[name]
    names = ", ".join(list(several)[:_SHOWN])
    how = f"name= (--name) says which: {names}" if names else "edit its images, each by its own place"
    if isinstance(found, MultiscaleImage):
        how = "a name is for one of several"
    raise InvalidArgumentError(f"{found!r}{'' if name is None else f' holds no {name!r}'}; {how}")


def _edits(image: MultiscaleImage, found: ResolvedPlace, name: str | None, change: Change) -> list[Edit]:
    convention = convention_of(image.convention)
    if (change.names or change.colors) and not (convention and convention.has_channels):
        raise UnsupportedError(f"{image.convention} has no place for names and colours of channels")
    location = found.location
    if convention is None or location is None:
        raise UnsupportedError(f"{image.location}: the metadata of {image.convention} can't be edited")
    below = location if name is None else location.child(name)
    if found.file is None:
        return convention.edits(image, below, change)
    from chunkwise.images.conventions.bdv import edits_of_file  # many modules, for N5 alone

    return edits_of_file(image, found.file, below, change)


def _try(found: ResolvedPlace, name: str | None, change: Change) -> None:
    """Make all edits in memory, and raise an error unless the image then has the change."""
    at = found.location if found.file is None else found.file
    assert at is not None, "its image has edits"
    trial = on_trial(at)
    seen = resolve(trial, found.context)
    edits = _edits(chosen_image(open_multiscale(seen), name), seen, name, change)
    if any(edit.location.store is not trial.store for edit in edits):  # the container is in another store
        for location, key, edit in edits:
            edit(_bytes(location, key)[0] if key is not None else Attributes(require_node(location)).asdict())
        return
    _apply(edits)
    _check(chosen_image(open_multiscale(resolve(trial, found.context)), name), change)


def _apply(edits: Sequence[Edit]) -> None:
    """Make all edits, or none; those of one document see each other's results."""
    undo: list[Callable[[], object]] = []
    try:
        for location, key, change in edits:
            noted: list[Any] = []
            edit = partial(_noting, change, noted)
            undo.append(partial(_change_one, location, key, partial(_as_before, noted)))
            _change_one(location, key, edit)
    except BaseException:  # an interrupt too
        for step in reversed(undo):
            with suppress(ChunkwiseError):  # the store may have failed permanently
                step()
        raise


def _change_one(location: Location, key: str | None, change: Callable[[Any], Any]) -> None:
    if key is None:
        Attributes(require_node(location)).change(change)
        return
    for _ in range(_MOST_TRIES):
        value, generation = _bytes(location, key)
        if location.store.write(location.path + key, change(value), if_equal=generation) is not None:
            return
    raise AbortedError(f"{location.describe(key)} is changed by other writers all the time")


def _noting(change: Callable[[Any], Any], noted: list[Any], stored: Any) -> Any:
    noted[:] = deepcopy(stored), change(stored)
    return noted[1]


def _as_before(noted: list[Any], stored: Any) -> Any:
    """Return what was stored before an edit, unless others have changed it since."""
    before, after = noted or (stored, stored)
    is_same = stored == (after if isinstance(after, bytes) else to_json_value(after, "attributes"))
    return before if is_same else stored


def _bytes(location: Location, key: str) -> tuple[bytes, bytes]:
    found = read_bounded(location.store, location.path + key)
    if found.value is None:
        raise NotFoundError(f"there is no {location.describe(key)}")
    return bytes(found.value), found.generation


def _change(image: MultiscaleImage, scale: object, units: object, translation: object) -> Change:
    """Return the units, and the place of each level, that the image is to have."""
    named = {dim: "" if unit is None else unit for dim, unit in _by_axis(image, units, "units").items()}
    for dim, unit in named.items():
        if not isinstance(unit, str) or Unit(unit).base_unit != unit.strip():
            raise InvalidArgumentError(
                f"units: expected text or None for axis {image.axes[dim].name}, without a size, "
                f"but received {unit!r}"
            )
    symbols = [symbol_of(named.get(dim, axis.unit)) for dim, axis in enumerate(image.axes)]
    first = image._metadata.levels[0].place
    sizes, starts = list(first.scale), list(first.translation)
    for dim, given in _by_axis(image, scale, "scale").items():
        at = f"scale: {image.axes[dim].name}"
        if isinstance(given, str | Unit):
            unit = Unit(given) if isinstance(given, str) else given
            symbols[dim] = symbols[dim] or symbol_of(unit.base_unit)
            sizes[dim] = unit_in(unit, symbols[dim]) if unit.base_unit else unit.multiplier
        else:
            sizes[dim] = _number(given, at)
        if not 0 < sizes[dim] < math.inf:
            raise InvalidArgumentError(f"{at}: expected a positive size, but received {given!r}")
    factors = [new / old for new, old in zip(sizes, first.scale, strict=True)]
    moved = _by_axis(image, translation, "translation")
    convention = convention_of(image.convention)
    if convention is not None and convention.is_placed_in_voxels:
        starts = [start * factor for start, factor in zip(starts, factors, strict=True)]
    starts = [
        _number(moved[dim], f"translation: {image.axes[dim].name}") if dim in moved else start
        for dim, start in enumerate(starts)
    ]
    places = []
    for level in image._metadata.levels:
        by_dim = zip(*level.place, first.translation, starts, factors, strict=True)
        pairs = [(plain(s * f), plain(start + (t - old) * f)) for s, t, old, start, f in by_dim]
        for axis, (size, start) in zip(image.axes, pairs, strict=True):
            if not (_LEAST <= size < math.inf and math.isfinite(start)):
                raise InvalidArgumentError(
                    f"scale, translation: level {level.path} would have voxels of {size} at {start} along "
                    f"{axis.name}, which no number can say"
                )
        places.append(Transformation(tuple(s for s, _ in pairs), tuple(t for _, t in pairs)))
    return Change(tuple(symbols), tuple(factors), tuple(places))


def _number(value: object, where: str) -> float:
    if not is_number(value):
        raise InvalidArgumentError(f"{where}: expected a number, but received {dump(value)[:200]}")
    return float(value)


def _by_axis(image: MultiscaleImage, given: object, what: str) -> dict[int, Any]:
    """Return the given values by dimension."""
    names = [axis.name for axis in image.axes]
    if given is None:
        return {}
    if isinstance(given, Mapping):
        if unknown := [name for name in given if name not in names]:
            raise InvalidArgumentError(f"{what}: no axis {unknown[0]!r} among {', '.join(names)}")
        return {names.index(name): value for name, value in given.items()}
    if isinstance(given, str) or not isinstance(given, Sequence) or len(given) != len(names):
        raise InvalidArgumentError(
            f"{what}: expected a value for each of the axes {', '.join(names)}, or a mapping of some, but "
            f"received {given!r}"
        )
    return dict(enumerate(given))


def _by_channel(image: MultiscaleImage, given: object, what: str) -> dict[int, Any]:
    """Return the given values by number of the channel."""
    if given is None:
        return {}
    dim = next((dim for dim, axis in enumerate(image.axes) if axis.type == "channel"), None)
    n = 1 if dim is None else image.levels[0].shape[dim]
    if not isinstance(given, Mapping):
        if isinstance(given, str) or not isinstance(given, Sequence) or len(given) != n:
            raise InvalidArgumentError(
                f"{what}: expected a text for each of {n} channels, or a mapping of some, but received "
                f"{given!r}"
            )
        given = dict(enumerate(given))
    labels: list[Any] = [channel.label for channel in image.channels]
    out = {}
    for key, value in given.items():
        number = labels.index(key) if labels.count(key) == 1 else key
        if isinstance(number, bool) or not isinstance(number, int) or not 0 <= number < n:
            known = ", ".join(dump(label) for label in labels if label)
            raise InvalidArgumentError(
                f"{what}: expected the number of a channel up to {n - 1}{known and f', or one of {known}'}, "
                f"but received {key!r}"
            )
        if not isinstance(value, str):
            raise InvalidArgumentError(f"{what}: expected text for channel {key}, but received {value!r}")
        out[number] = value
    return out


def _color(value: str, number: int) -> str:
    found = color_of(value, f"colors: channel {number}")
    if found is None:
        raise InvalidArgumentError(f"colors: channel {number}: expected six hexadecimal digits")
    return found


def _check(image: MultiscaleImage, change: Change) -> None:
    """Raise DataCorruptionError unless an image has all changes."""
    found = [tuple(level.place) for level in image._metadata.levels]
    if len(found) != len(change.places) or len(image.axes) != len(change.units):
        raise AbortedError(f"another process has replaced {image.location} meanwhile")
    pairs = zip(found, change.places, strict=True)
    same = all(
        math.isclose(size, a, rel_tol=1e-9) and math.isclose(at, b, rel_tol=1e-9, abs_tol=_NEARLY * a)
        for place, wanted in pairs
        for size, at, a, b in zip(*place, *wanted, strict=True)
    )
    if not same or tuple(axis.unit for axis in image.axes) != change.units:
        raise DataCorruptionError(
            f"{image.location}: another member says otherwise: levels are at {found} in "
            f"{[axis.unit for axis in image.axes]}, not at {[tuple(place) for place in change.places]} in "
            f"{list(change.units)}"
        )
