"""Answers to the page; `_CALLS` has all that the viewer shows: the tree, images, tiles, values, chunks."""

from __future__ import annotations

import json
import math
import re
import time
from collections import deque
from collections.abc import Callable, Mapping
from itertools import islice
from typing import Any

import numpy as np

from chunkwise.copying.summary import summarize
from chunkwise.errors import ChunkwiseError, InvalidArgumentError, NotFoundError, UnsupportedError
from chunkwise.extension import JSON
from chunkwise.extension.inside import dump_bytes, plain_json
from chunkwise.images.conventions.ome_plates import Plate, Well
from chunkwise.images.multiscale.metadata import unit_text
from chunkwise.images.multiscale.sampling import PERCENTILES, contrast_level, contrast_of, read_extremes
from chunkwise.images.server.answer import BINARY, Computed, Content, Document
from chunkwise.images.server.forms import first_shown, forms_of
from chunkwise.images.server.image import ServedImage, image_at, multiscale_at
from chunkwise.images.server.plate import describe_plate, describe_well, find_thumbnail, well_of
from chunkwise.images.server.sources import Sources
from chunkwise.images.server.tiles import (
    Damage,
    Plane,
    check_plane,
    chunks_in,
    find_labels,
    find_line,
    find_series,
    find_volume,
    read_cells,
    read_plane,
)
from chunkwise.images.server.trees import Member, ServedArray, ServedGroup

__all__ = ["page_content"]

_MOST_MEMBERS = 10_000
_MOST_FOUND = 200
_MOST_CELLS = 10_000
_MOST_COLORS = 10_000  # of labels; the others have those that any label has
_SEARCH_SECONDS = 2.0
_INTEGER = re.compile("-?[0-9]{1,18}")


def page_content(sources: Sources, name: str, query: Mapping[str, str]) -> Content:
    """Return the content for a call of the page.

    Raises
    ------
    NotFoundError
        If there is nothing at the path.
    InvalidArgumentError
        If the query is not understood.
    """
    call = _CALLS.get(name)
    if call is None:
        raise NotFoundError(f"there is no call {name!r}; there are {', '.join(_CALLS)}")
    path = tuple(part for part in query.get("path", "").split("/") if part)
    return call(sources, path, query)


def _tree(sources: Sources, path: tuple[str, ...], query: Mapping[str, str]) -> Content:
    """Return the members of a group, or the sources."""
    if not path:
        return Document(dump_bytes({"members": [_row(m) for m in sources.top()]}))
    found = sources.find(path)
    rows: list[dict[str, JSON]] = []
    if isinstance(found, ServedGroup):
        try:
            rows = [_row(member) for member in islice(sources.members(path, found), _MOST_MEMBERS)]
        except UnsupportedError:  # of a web server, say: the path of a member can be given all the same
            rows = []
    elif isinstance(found, ServedArray) and found.node is not None:
        rows = [
            {"name": f".fields/{field}", "kind": "array", "shape": list(found.view.shape), "dtype": "field"}
            for field in found.view.dtype.memory_dtype.names or ()
        ]
    return Document(dump_bytes({"members": rows, "attributes": _plain(found.attributes) if found else {}}))


def _search(sources: Sources, path: tuple[str, ...], query: Mapping[str, str]) -> Content:
    """Return the arrays and groups, level by level, whose path has a text in it, as far as time allows."""
    text = query.get("text", "").strip().lower()
    if not text:
        raise InvalidArgumentError("text: expected a text to look for")
    rows: list[dict[str, JSON]] = []
    waiting: deque[tuple[str, ...]] = deque([()])
    stop = time.monotonic() + _SEARCH_SECONDS
    n = 0
    more = ""
    while waiting and not more:
        above = waiting.popleft()
        try:
            group = sources.find(above) if above else None
            if above and not isinstance(group, ServedGroup):
                continue
            for member in sources.members(above, group) if isinstance(group, ServedGroup) else sources.top():
                names = (*above, member.name)
                n += 1
                if text in "/".join(names).lower():
                    rows.append({**_row(member), "path": "/".join(names)})
                if member.kind == "group" and not member.error:
                    waiting.append(names)
                if time.monotonic() > stop or len(rows) == _MOST_FOUND:
                    more = f"Only the first {n:,} arrays and groups were searched."
                    break
        except ChunkwiseError:
            continue  # the tree shows its error
    return Document(dump_bytes({"members": rows, "more": more}))


def _row(member: Member) -> dict[str, JSON]:
    out = {name: value for name, value in member._asdict().items() if value}
    if (member.dtype or "").startswith(("struct", "[")):
        out["dtype"] = "records"  # the fields are too many for a row
    return out | ({"shape": list(member.shape)} if member.shape is not None else {})


def _image(sources: Sources, path: tuple[str, ...], query: Mapping[str, str]) -> Content:
    """Return all that is known of an image before its values are read."""
    found = sources.find(path)
    if found is None:
        raise NotFoundError(f"there is nothing at {'/'.join(path)!r}")
    image = image_at(path, found)
    if image is None:
        more: dict[str, JSON] = {"image": None, "attributes": _plain(found.attributes)}
        group = multiscale_at(found)
        if isinstance(group, Plate):
            more = {"image": None, "plate": describe_plate(group)}  # as the attributes say
        elif isinstance(group, Well):
            more["well"] = describe_well(sources, path, group)
        return Document(dump_bytes(more))
    first = image.levels[0].view
    info: dict[str, JSON] = {
        "name": image.name,
        "dtype": first.dtype.name,
        "axes": [{"name": a.name, "type": a.type, "unit": unit_text(a.unit)} for a in image.axes],
        "forms": [form._asdict() for form in forms_of(image)],
        "fields": first.dtype.memory_dtype.names or (),
        "labels": image.is_labels,
        "labelColors": {n: rgba[:3] for n, rgba in islice(image.label_colors.items(), _MOST_COLORS)},
        "labelImages": list(image.labels),
        "well": well_of(sources, path),
        "channels": [
            {
                "label": c.label,
                "color": c.color,
                "window": None if c.window is None else [c.window.start, c.window.end],
                "active": c.active,
            }
            for c in image.channels
        ],
        "levels": [
            {
                "path": name,
                "shape": list(level.view.shape),
                "chunks": level.view.chunks,
                "scale": scale,
                "translation": at,
            }
            for name, level, scale, at in zip(
                image.paths, image.levels, image.scales, image.translations, strict=True
            )
        ],
        "metadata": _metadata(image),
    }
    return Document(dump_bytes({"image": _plain(info), "attributes": _plain(found.attributes)}))


def _metadata(image: ServedImage) -> dict[str, JSON]:
    """Return rows for people."""
    level = image.levels[0]
    view = level.view
    out: dict[str, JSON] = {"shape": view.shape, "data type": view.dtype.name, "chunks": view.chunks}
    write = view.chunk_layout.write_chunk.shape
    if write is not None and all(write) and tuple(write) != view.chunks:
        out["shards"] = tuple(write)
    node = view._find_node().node
    if node is not None:
        out["codecs"] = list(summarize(node).codecs)
        out["format"] = node.own_format
    if view.fill_value is not None:
        out["fill value"] = str(view.fill_value[()])
    if image.assumed:
        out["assumed"] = "; ".join(image.assumed)
    out["size"] = view.nbytes
    return {name: value for name, value in out.items() if value not in (None, (), [])}


def _view(image: ServedImage, query: Mapping[str, str]) -> Any:
    level = _integer(query, "level", 0)
    if not 0 <= level < len(image.levels):
        raise InvalidArgumentError(f"level: there are {len(image.levels)}, not {level}")
    return image.levels[level].view


def _found_image(sources: Sources, path: tuple[str, ...]) -> ServedImage:
    found = sources.find(path)
    image = None if found is None else image_at(path, found)
    if image is None:
        raise NotFoundError(f"there is no image at {'/'.join(path)!r}")
    return image


def _dims(query: Mapping[str, str]) -> tuple[int | None, int | None]:
    down, across = (None if text == "" else int(text) for text in _texts(query, "dims", 2))
    return down, across


def _plane(query: Mapping[str, str]) -> Plane:
    down, across = _dims(query)
    r0, r1, c0, c1 = _integers(query, "box", 4)
    at = tuple(_integers(query, "at"))
    return Plane(down, across, at, (r0, r1), (c0, c1), _integer(query, "step", 1))


def _tile(sources: Sources, path: tuple[str, ...], query: Mapping[str, str]) -> Content:
    """Return pixels, as they are in memory; a first line of JSON tells shape, type and damaged chunks."""
    image = _found_image(sources, path)
    view, plane = _view(image, query), _plane(query)
    check_plane(view, plane)

    def make() -> bytes:
        return _pixels(*read_plane(view, plane, is_labels=image.is_labels))

    return Computed(make, plane.nbytes(view), BINARY)


def _thumbnail(sources: Sources, path: tuple[str, ...], query: Mapping[str, str]) -> Content:
    """Return the pixels of a field of a well, or of its labels; the first line also tells which field.

    If there is none, `missing` there says so.
    """
    size = _integer(query, "size", 128)
    channels = _integers(query, "channels")
    try:
        found = find_thumbnail(sources, path, query.get("field", ""), channels, size, query.get("labels", ""))
    except NotFoundError as e:  # a plate lists wells before they are stored
        return Document(_pixels(np.zeros((0, 0, 0), "u1"), [], missing=e.message), BINARY)

    def make() -> bytes:
        values, damages = found.read()
        return _pixels(values, damages, **found.describe(values))

    return Computed(make, found.nbytes, BINARY)


def _pixels(values: Any, damages: list[Damage], **more: Any) -> bytes:
    """Return pixels as they are in memory, behind a line of JSON with shape, type and damaged chunks."""
    damaged = [{"box": [*d.rows, *d.columns], "message": d.message} for d in damages]
    head = dump_bytes(
        _plain({"shape": values.shape, "dtype": values.dtype.str[1:], "damaged": damaged, **more})
    )
    padding = -(len(head) + 1) % 8  # so that values of 8 bytes are aligned
    return head + b" " * padding + b"\n" + bytes(values.tobytes())


def _contrast(sources: Sources, path: tuple[str, ...], query: Mapping[str, str]) -> Content:
    image = _found_image(sources, path)
    texts = _texts(query, "at")
    view = contrast_level(image.views, {dim: 0 for dim, at in enumerate(texts) if at})
    over = _two_numbers(query, "over")
    numbers = _two_numbers(query, "percentiles") or PERCENTILES
    if not 0 <= numbers[0] < numbers[1] <= 100:
        raise InvalidArgumentError("percentiles: expected two numbers from 0 to 100")
    fixed = {}
    base = image.levels[0].view.shape
    if len(texts) > len(base) or (any(texts) and not view.size):
        raise InvalidArgumentError(f"at: {query['at']!r} is outside of {base}")
    for dim, at in enumerate(texts):
        if at:
            index = int(at) * view.shape[dim] // max(1, base[dim])
            fixed[dim] = min(max(index, 0), max(view.shape[dim] - 1, 0))
    nbytes = min(view.size, 1 << 22) * 24

    def make() -> bytes:
        return dump_bytes(_plain(contrast_of(view, fixed, numbers, over)))

    return Computed(make, nbytes, "application/json")


def _labels(sources: Sources, path: tuple[str, ...], query: Mapping[str, str]) -> Content:
    """Return the labels of an image at a position, the largest first, and a place in each."""
    found = find_labels(_found_image(sources, path), _integers(query, "at"), query.get("find", ""))
    return Computed(lambda: dump_bytes(_plain(found.read())), found.nbytes, "application/json")


def _cells(sources: Sources, path: tuple[str, ...], query: Mapping[str, str]) -> Content:
    """Return texts of the values of a plane, rows first; of records those of a field, or of all in a list."""
    view, plane = _view(_found_image(sources, path), query), _plane(query)
    check_plane(view, plane)
    if plane.n_elements > _MOST_CELLS:
        raise InvalidArgumentError(
            f"box: expected at most {_MOST_CELLS:,} elements, not {plane.n_elements:,}"
        )
    names = view.dtype.memory_dtype.names or ()
    field = query.get("field", "")
    if field and field not in names:
        raise InvalidArgumentError(f"field: expected one of {', '.join(names)}, not {field!r}")

    def make() -> bytes:
        cells, damages = read_cells(view, plane, field)
        return dump_bytes(_plain({"cells": cells, "damaged": [d.message for d in damages]}))

    return Computed(make, 2 * plane.nbytes(view) + (1 << 20), "application/json")


def _extremes(sources: Sources, path: tuple[str, ...], query: Mapping[str, str]) -> Content:
    """Return the least and largest values of each part of a range, of one line or several."""
    view = _view(_found_image(sources, path), query)
    at, (start, stop), n = _integers(query, "at"), _integers(query, "range", 2), _integer(query, "n", 1)
    along, lines = _dims(query)
    part = find_series(view, along, lines, at, (start, stop), n)

    def make() -> bytes:
        values, is_exact, damaged = read_extremes(part, n)
        return _pixels(values, [], exact=is_exact, messages=[one.message for one in damaged])

    return Computed(make, 1 << 27, BINARY)


def _first(sources: Sources, path: tuple[str, ...], query: Mapping[str, str]) -> Content:
    """Return the path that is shown first."""
    return Document(dump_bytes({"path": first_shown(sources)[0]}))


def _value(sources: Sources, path: tuple[str, ...], query: Mapping[str, str]) -> Content:
    image = _found_image(sources, path)
    view, at = _view(image, query), _integers(query, "at")
    if len(at) != view.rank or any(not 0 <= i < n for i, n in zip(at, view.shape, strict=True)):
        raise InvalidArgumentError(f"at: {tuple(at)} is outside of {tuple(view.shape)}")

    def make() -> bytes:
        value = view[tuple(at)].read().result() if view.rank else view.read().result()
        return dump_bytes({"value": str(np.asarray(value)[()])})

    nbytes = 1 << 20
    return Computed(make, nbytes, "application/json")


def _chunks(sources: Sources, path: tuple[str, ...], query: Mapping[str, str]) -> Content:
    view, plane = _view(_found_image(sources, path), query), _plane(query)
    return Computed(lambda: dump_bytes(_plain(chunks_in(view, plane))), 1 << 20, "application/json")


def _volume(sources: Sources, path: tuple[str, ...], query: Mapping[str, str]) -> Content:
    """Return the voxels of a volume that is small enough to be drawn whole."""
    found = find_volume(_found_image(sources, path), _integers(query, "at"))

    def make() -> bytes:
        return _pixels(found.read(), [], level=found.level, factors=found.factors)

    return Computed(make, found.view.size * 3 * max(8, found.view.dtype.memory_dtype.itemsize), BINARY)


def _line(sources: Sources, path: tuple[str, ...], query: Mapping[str, str]) -> Content:
    """Return the values on a line through a plane."""
    view = _view(_found_image(sources, path), query)
    line = find_line(view, _dims(query), _integers(query, "at"), _integers(query, "line", 4))
    return Computed(lambda: dump_bytes(_plain({"values": line.read()})), 1 << 20, "application/json")


_CALLS: dict[str, Callable[[Sources, tuple[str, ...], Mapping[str, str]], Content]] = {
    "tree": _tree,
    "search": _search,
    "image": _image,
    "tile": _tile,
    "thumbnail": _thumbnail,
    "contrast": _contrast,
    "labels": _labels,
    "value": _value,
    "cells": _cells,
    "extremes": _extremes,
    "first": _first,
    "chunks": _chunks,
    "volume": _volume,
    "line": _line,
}


def _texts(query: Mapping[str, str], name: str, n: int | None = None) -> list[str]:
    texts = query[name].split(",") if query.get(name) else []
    if n is not None and len(texts) != n:
        raise InvalidArgumentError(f"{name}: expected {n} values, but received {query.get(name, '')[:100]!r}")
    if not all(text == "" or _INTEGER.fullmatch(text) for text in texts):
        raise InvalidArgumentError(f"{name}: expected integers, but received {query[name][:100]!r}")
    return texts


def _integers(query: Mapping[str, str], name: str, n: int | None = None) -> list[int]:
    texts = _texts(query, name, n)
    if n is not None and "" in texts:
        raise InvalidArgumentError(f"{name}: expected {n} values, but received {query[name]!r}")
    return [int(text) for text in texts if text]


def _integer(query: Mapping[str, str], name: str, default: int) -> int:
    found = _integers(query, name)
    return found[0] if found else default


def _two_numbers(query: Mapping[str, str], name: str) -> tuple[float, float] | None:
    text = query.get(name, "")
    if not text:
        return None
    try:
        low, high = map(float, text.split(","))
    except ValueError:
        low = high = math.nan
    if not (math.isfinite(low) and math.isfinite(high)):
        raise InvalidArgumentError(f"{name}: expected two numbers, but received {text[:100]!r}")
    return low, high


def _plain(value: object) -> Any:
    """Return JSON: numbers that it lacks become text."""
    try:
        return json.loads(json.dumps(value, allow_nan=False, default=str))
    except (ValueError, ChunkwiseError):
        return plain_json(json.loads(json.dumps(value, default=str)))
