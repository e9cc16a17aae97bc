"""Folders and globs of pictures, which are stacks of planes in the order of their numbers."""

from __future__ import annotations

import math
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from chunkwise.core.api.open import open as open_spec
from chunkwise.core.api.tensorstore import TensorStore
from chunkwise.core.driver.found_instead import PICTURE_SUFFIXES
from chunkwise.core.index_space import d
from chunkwise.core.specs.url import is_url
from chunkwise.core.trees.location import Location
from chunkwise.errors import ChunkwiseError, InvalidArgumentError, prefix

__all__ = [
    "arranged_planes",
    "has_wildcard",
    "is_picture",
    "matching",
    "named_axes",
    "natural",
    "open_pictures",
    "pictures_at",
    "without_channel",
]

_ADDED = "__MACOSX"  # a folder that macOS puts into archives, beside the one that is packed
_OME = (".ome.tif", ".ome.tiff")
_SHOWN = 10
_COUNTED = {
    "t": "t", "time": "t", "tp": "t", "timepoint": "t", "c": "c", "ch": "c", "channel": "c", "z": "z",
}  # fmt: skip
"""Axes that numbers in the names of pictures count, by the letters before them."""

_AMBIGUOUS = (
    "their names differ in several numbers, which may be axes of their own; name the planes of one stack, "
    "such as by a glob, or put them together by `chunkwise stack`"
)

_DRIVERS = ("png", "jpeg", "tiff", "webp", "avif", "bmp")


def has_wildcard(text: str) -> bool:
    """Return True for a glob, such as ``z*.tif``, unless a file has this very name."""
    return (
        not is_url(text) and "|" not in text and bool(re.search(r"[*?\[]", text)) and not os.path.exists(text)
    )


def matching(pattern: str) -> list[str]:
    """Return the files that a glob matches, in the order of their numbers; raise if there are none."""
    from glob import glob

    found = sorted(glob(pattern, recursive=True), key=natural)
    if not found:
        raise InvalidArgumentError(f"{pattern}: no file matches")
    return found


def pictures_at(location: Location) -> dict[str, Any] | None:
    """Return the places of pictures, by name: all that is in a folder, or that a glob matches; else None."""
    text = _local_path(location)
    if text is not None and has_wildcard(text):
        files = matching(text)
        return {file: file for file in files} if all(map(is_picture, files)) else None
    if text is not None:
        names = os.listdir(text) if os.path.isdir(text) else []
    else:
        location, names = _listed(location)
    names = [name for name in names if not name.startswith(".")]
    if not names or not all(map(is_picture, names)):
        return None
    kinds = {os.path.splitext(name)[1].lower() for name in names}
    where = location.text if text is None else text
    if len(kinds) > 1:
        raise InvalidArgumentError(
            f"{where}: there are pictures of several kinds ({', '.join(sorted(kinds))}); name those that are "
            f"the planes of one stack, such as {os.path.join(where, '*' + min(kinds))}"
        )
    names.sort(key=natural)
    if text is not None:
        return {path: path for path in (os.path.join(text, name) for name in names)}
    root = location.kvstore()
    return {n: {"driver": "auto", "kvstore": root.with_path(f"{root.path}{n}")} for n in names}


def _listed(location: Location) -> tuple[Location, list[str]]:
    """Return a location and the names there; of an archive with one folder, those of the folder."""
    at, is_archive = location, location.store_spec.driver == "zip"
    while True:
        try:
            found = at.store.list_children(at.path)
        except ChunkwiseError:  # a store that can't list
            return at, []
        folders = [path for path in found.prefixes if path != _ADDED]
        if found.keys or len(folders) != 1 or not is_archive:
            return at, [name[len(at.path) :] for name in (*found.keys, *folders)]
        at = at.at(f"{folders[0]}/")


def _local_path(location: Location) -> str | None:
    """Return the path of local files at a location, as it was given if it was; None for others."""
    if location.base.get("driver") != "file":
        return None
    path = f"{location.base['path']}{location.path}".rstrip("/")
    return location.text if os.path.abspath(location.text) == os.path.abspath(path) else path


def is_picture(path: str) -> bool:
    """Return True for the name of a file with one picture."""
    return path.lower().endswith(PICTURE_SUFFIXES)


def natural(name: str) -> list[tuple[int, str]]:
    """Return a key by which ``z10`` comes after ``z9``, and ``z01`` always before ``z1``."""
    parts = re.split(r"(\d+)", name)
    return [*((int(part), "") if part.isdecimal() else (-1, part) for part in parts), (-1, name)]


def open_pictures(pictures: Mapping[str, Any]) -> tuple[TensorStore, str]:
    """Return pictures as one array, as the numbers in their names arrange them, and the assumptions made."""
    return arranged_planes(list(_opened(pictures)), list(pictures))


def arranged_planes(planes: Sequence[TensorStore], paths: Sequence[str]) -> tuple[TensorStore, str]:
    """Return arrays of the same shape as one array, by the numbers in file names, and the assumptions made.

    Letters before a number name the axis that it counts, such as ``t`` and ``c`` in ``img_t00_c0.tif``.
    Without them the planes follow each other along z, or t if they have a z.
    """
    planes = [plane.label[plane.domain.labels] if plane.rank else plane for plane in planes]
    planes = list(map(without_channel, planes))
    labels = planes[0].domain.labels
    numbers = _varying_numbers([os.path.basename(path) for path in paths])
    counted = {_COUNTED.get(letters.lower(), ""): each for letters, each in numbers}
    named = {name: each for name, each in counted.items() if name and name not in labels}
    at = sorted(zip(*named.values(), planes, strict=True), key=lambda row: row[:-1]) if named else []
    if len({row[:-1] for row in at}) < len(planes):
        if named:
            raise InvalidArgumentError(f"{paths[0]}, …: {_AMBIGUOUS}")
        free = next((name for name in ("z", "t") if name not in labels), "")
        one = free if any(labels) else ""
        why = _AMBIGUOUS if len(numbers) > 1 else "in the order of their names"
        whole = _stacked(planes, [len(planes)]).label[(one, *labels)]
        if len(planes) == 1:
            return whole, ""
        return whole, f"{len(planes)} pictures are taken as planes along {one or 'a new axis'}: {why}"
    sizes = {name: len(set(each)) for name, each in named.items()}
    text = " x ".join(f"{name} ({n})" for name, n in sizes.items())
    if math.prod(sizes.values()) != len(planes):
        raise InvalidArgumentError(
            f"{paths[0]}, …: the names of {len(planes)} pictures number {text}, so some are missing; name "
            "those that are the planes of one stack, such as a glob with one of these numbers"
        )
    whole = _stacked([row[-1] for row in at], list(sizes.values())).label[(*sizes, *labels)]
    return whole, f"pictures are taken as {text}, by the numbers in their names"


def _varying_numbers(names: Sequence[str]) -> list[tuple[str, list[int]]]:
    """Return the numbers in which names differ, each with the letters before it; none if more differs."""
    split = [re.split(r"(\d+)", name) for name in names]
    if len({tuple(parts[::2]) for parts in split}) > 1:
        return []
    found = []
    for at in range(1, len(split[0]), 2):
        each = [int(parts[at]) for parts in split]
        if len(set(each)) > 1:
            letters = re.search(r"([A-Za-z]*)[-_ =]?$", split[0][at - 1])
            found.append(("" if letters is None else letters[1], each))
    return found


def _stacked(planes: Sequence[TensorStore], sizes: Sequence[int]) -> TensorStore:
    """Return planes in the order of their indices as one array with a dimension for each size."""
    from chunkwise.core.api.stack import stack

    step = len(planes) // sizes[0]
    if len(sizes) == 1:
        return stack(list(planes))
    return stack([_stacked(planes[at : at + step], sizes[1:]) for at in range(0, len(planes), step)])


def _opened(pictures: Mapping[str, Any]) -> Iterator[TensorStore]:
    from chunkwise.core.api.stack import check_only_image  # which a single picture does not need

    first: TensorStore | None = None
    paths = list(pictures)
    for path, place in pictures.items():
        try:
            store = named_axes(open_spec(place, read=True).result())
        except ChunkwiseError as e:
            raise prefix(e, path) from None
        check_only_image(store, path)
        store = store[d[:].mark_bounds_implicit[False]] if store.rank else store
        first = first or store
        if path.lower().endswith(_OME) and store.rank > 2:
            raise InvalidArgumentError(
                f"{os.path.dirname(path)}: each OME-TIFF file has an image of its own; name one of them: "
                f"{', '.join(paths[:_SHOWN])}{', …' if len(paths) > _SHOWN else ''}"
            )
        if (store.shape, store.dtype) != (first.shape, first.dtype):
            raise InvalidArgumentError(
                f"{path}: it is {store.dtype.name} of {list(store.shape)}, but {paths[0]} is "
                f"{first.dtype.name} of {list(first.shape)}"
            )
        yield store


def without_channel(store: TensorStore) -> TensorStore:
    """Return a grey picture without its only channel; others as they are."""
    is_grey = store.rank == 3 and store.shape[2] == 1 and store.spec()._driver.driver in _DRIVERS
    return store[..., 0] if is_grey else store


def named_axes(store: TensorStore) -> TensorStore:
    """Return a picture of Pillow's with its dimensions named y, x and c; others as they are."""
    if store.spec()._driver.driver in _DRIVERS and store.rank == 3 and not any(store.domain.labels):
        return store.label["y", "x", "c"]
    return store
