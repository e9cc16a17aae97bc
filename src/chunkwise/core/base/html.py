"""HTML that notebooks show: tables, text, and drawings of chunks; values and records in a few words.

Colours are those of the page, light or dark.  Everything that comes from data is escaped.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from math import ceil
from typing import Any, TypeVar

__all__ = [
    "RecordList",
    "brief",
    "chunk_drawing",
    "codec_text",
    "codec_words",
    "json_html",
    "members",
    "panel",
    "plate_drawing",
    "record_html",
    "record_text",
    "table",
    "text_block",
]

Record = TypeVar("Record")

_LONGEST, _SHORTEST = 150, 14  # pixels of the longest and shortest side
_WORDS, _MORE_WORDS = 60, 240  # characters of a value in a line, and in a table
_DENSEST = 4  # pixels between lines
_VALUE = "text-align:left;max-width:56ch;white-space:normal;overflow-wrap:anywhere"
_MOST_ROWS, _MOST_WORDS = 100, 10  # of a list of records, and of a list in one of them
_SLANT = 0.45  # slope of the third axis


def _escape(text: str) -> str:
    from html import escape  # with a table of all entities

    return escape(text)


def panel(title: str, *parts: str) -> str:
    """Return a box with a title and parts side by side; the parts are HTML already."""
    cells = "".join(f'<div style="flex:none">{part}</div>' for part in parts if part)
    return (
        '<div class="chunkwise" style="font-family:monospace;font-size:12px;color:inherit">'
        f"<b>{_escape(title)}</b>"
        f'<div style="display:flex;flex-wrap:wrap;gap:2em;align-items:center">{cells}</div></div>'
    )


def table(rows: Iterable[tuple[str, object]]) -> str:
    """Return a table of labels and values."""
    lines = "".join(
        '<tr style="background:none"><th style="text-align:left;font-weight:normal;opacity:.65">'
        f'{_escape(label)}</th><td style="{_VALUE}">{_escape(str(value))}</td></tr>'
        for label, value in rows
    )
    return f'<table style="border:none;margin:.3em 0;color:inherit;font:inherit">{lines}</table>'


def text_block(text: str) -> str:
    """Return text as preformatted HTML."""
    return f'<pre style="background:none;color:inherit;margin:.3em 0">{_escape(text)}</pre>'


def brief(value: object, most: int = 3, words: int = _WORDS) -> str:
    """Return a value in a few words: an array as shape and data type, a long list as its length.

    >>> brief("a" * 100), brief([1, 2]), brief(list(range(100)))
    ("'aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa…'", '[1, 2]', 'list of 100')
    """
    name = type(value).__name__
    shape, dtype = getattr(value, "shape", None), getattr(value, "dtype", None)
    if shape is not None and dtype is not None:
        return f"{name} {tuple(shape)} {getattr(dtype, 'name', dtype)}"
    if isinstance(value, str | bytes):
        short = repr(value[: _WORDS - 1])
        return repr(value) if len(value) < _WORDS else f"{short[:-1]}…{short[-1]}"
    if members(value) is not None:
        return name
    if isinstance(value, Sequence | Set | Mapping) and len(value) > most:
        return f"{name} of {len(value):,}"
    if isinstance(value, tuple | list) and type(value) in (tuple, list):
        parts = ", ".join(map(brief, value))
        return f"[{parts}]" if isinstance(value, list) else f"({parts}{',' * (len(value) == 1)})"
    text = repr(value)
    return text if len(text) <= words and "\n" not in text else name


def members(record: object) -> dict[str, Any] | None:
    """Return the members of a named tuple or dataclass by name; None if the value is neither."""
    kind = type(record)
    names = getattr(kind, "_fields", None) or getattr(kind, "__dataclass_fields__", None)
    return None if names is None else {name: getattr(record, name) for name in names}


def record_text(record: object) -> str:
    """Return a named tuple or dataclass in a line or two."""
    parts = ", ".join(f"{name}={brief(value)}" for name, value in (members(record) or {}).items())
    return f"{type(record).__name__}({parts})"


def record_html(record: object) -> str:
    """Return the members of a named tuple or dataclass as a table, or the lines that it prints."""
    kind = type(record)
    if kind.__str__ is not object.__str__ and "\n" in str(record):
        return panel(kind.__name__, text_block(str(record)))
    rows = []
    for name, value in (members(record) or {}).items():
        shown = value if isinstance(value, str) else brief(value, 12, _MORE_WORDS)
        text = f"{value:,}" if type(value) is int else shown
        rows.append((name.removeprefix("n_").replace("_", " "), text))
    return panel(kind.__name__, table(rows))


def codec_text(name: str, options: Mapping[str, Any]) -> str:
    """Return a codec in the syntax of option ``--codec``, as far as that goes.

    >>> codec_text("blosc", {"cname": "lz4", "clevel": 5, "shuffle": 2, "blocksize": 0})
    'blosc:lz4:5:bitshuffle'
    >>> codec_text("zstd", {"level": 3, "checksum": False})
    'zstd:3'
    """
    if name.removeprefix("numcodecs.") == "blosc":
        shuffle = options.get("shuffle")
        if isinstance(shuffle, int) and -1 <= shuffle <= 2:
            shuffle = ("noshuffle", "shuffle", "bitshuffle", "autoshuffle")[shuffle]
        parts = [options.get("cname"), options.get("clevel"), shuffle]
    elif name == "transpose":
        order = options.get("order")
        parts = [",".join(map(str, order)) if isinstance(order, list) else order]
    else:
        # The block size of N5's lz4 and bzip2 is their only option, and a level of bzip2.
        level = ("level", "preset", "quality") if name != "bzip2" else ("blockSize",)
        parts = [options[key] for key in level if key in options][:1]
    return ":".join([name, *(str(part) for part in parts if part is not None)])


def json_html(value: Any) -> str:
    """Return the JSON of a value, such as a schema, as a table, with codecs in words."""
    try:
        members = value.to_json()
    except (TypeError, ValueError, NotImplementedError):
        return panel(type(value).__name__, text_block(repr(value)))
    return panel(_public_name(value), table(_json_rows(members)))


def codec_words(spec: Mapping[str, Any]) -> str:
    """Return the codecs of a `CodecSpec`'s JSON, whichever the format.

    >>> codec_words({"driver": "n5", "compression": {"type": "gzip", "level": 6}})
    'gzip:6'
    """
    entries: list[Any] = []
    for name in ("filters", "compressor", "compression", "codecs"):
        found = spec.get(name)
        entries += found if isinstance(found, list) else [] if found is None else [found]
    return ", ".join(_codec(entry) for entry in entries) or "none"


def _codec(entry: Any) -> str:
    if not isinstance(entry, Mapping):
        return str(entry)
    kind = next((key for key in ("name", "id", "type") if key in entry), "")
    options = entry.get("configuration", {k: v for k, v in entry.items() if k != kind})
    inner = options.get("codecs") if isinstance(options, Mapping) else None
    if isinstance(inner, list):  # of shards
        return f"{entry[kind]}({', '.join(map(_codec, inner))})"
    return codec_text(str(entry.get(kind)), options if isinstance(options, Mapping) else {})


def _json_rows(members: Mapping[str, Any], above: str = "") -> Iterator[tuple[str, object]]:
    if {"codecs", "compressor", "compression", "filters"} & set(members):
        yield f"{above}codecs", codec_words(members)
    for name, value in members.items():
        if name in ("codecs", "compressor", "compression", "filters"):
            continue
        label = f"{above}{name}".replace("_", " ")
        if isinstance(value, Mapping) and value:
            yield from _json_rows(value, f"{label} " if name != "codec" else "")
        else:
            yield label, value if isinstance(value, str) else json.dumps(value, default=str)


class RecordList(list[Record]):
    """A list of records that notebooks show as a table."""

    def _repr_html_(self) -> str:
        if not self:
            return panel("nothing found")
        records = [members(one) or {} for one in self[:_MOST_ROWS]]
        names = [name.removeprefix("n_").replace("_", " ") for name in records[0]]
        head = "".join(f'<th style="text-align:left">{_escape(name)}</th>' for name in names)
        cells = ((_escape(_cell(value)) for value in one.values()) for one in records)
        rows = ["".join(f'<td style="{_VALUE}">{cell}</td>' for cell in row) for row in cells]
        more = f"<p>and {len(self) - _MOST_ROWS:,} more</p>" if len(self) > _MOST_ROWS else ""
        lines = "".join(f'<tr style="background:none">{row}</tr>' for row in [head, *rows])
        return panel(f"{len(self):,} × {type(self[0]).__name__}", f"<table>{lines}</table>{more}")


def _cell(value: object) -> str:
    if value is None or value == [] or value == "":
        return ""
    if isinstance(value, list):
        return "; ".join(_cell(one) for one in value[:_MOST_WORDS])
    if type(value) is int:
        return f"{value:,}"
    return value if isinstance(value, str) else brief(value, 12, _MORE_WORDS)


def _public_name(value: object) -> str:
    """Return the name of the public class of a value."""
    kinds = [kind.__name__ for kind in type(value).__mro__ if kind.__module__ == "chunkwise"]
    return kinds[0] if kinds else type(value).__name__


def chunk_drawing(
    shape: Sequence[int],
    chunks: Sequence[int] | None,
    shards: Sequence[int] | None = None,
    labels: Sequence[str] = (),
) -> str:
    """Return an SVG drawing, to scale, of the last three dimensions, chunks and shards (thick lines)."""
    # The last two dimensions are the front; the one before them is drawn as depth.
    rank = min(3, len(shape))
    if not rank or not all(shape[-rank:]):
        return ""
    sizes = [1] * (3 - rank) + list(shape[-rank:])
    scale = _LONGEST / max(sizes)
    depth, height, width = (max(_SHORTEST, n * scale) for n in sizes)
    depth = depth * _SLANT if rank == 3 else 0.0
    lines: list[str] = []
    for steps, thick in ((chunks, 0.5), (shards, 1.5)):
        if steps is None or len(steps) != len(shape):
            continue
        own = [1] * (3 - rank) + list(steps[-rank:])
        for x in _marks(sizes[2], own[2], width):
            lines.append(_line(x, depth, x, depth + height, thick))
            lines += [_line(x, depth, x + depth, 0, thick)] if depth else []
        for y in _marks(sizes[1], own[1], height):
            lines.append(_line(0, depth + y, width, depth + y, thick))
            lines += [_line(width, depth + y, width + depth, y, thick)] if depth else []
        for z in _marks(sizes[0], own[0], depth) if depth else ():
            lines += [
                _line(z, depth - z, width + z, depth - z, thick),
                _line(width + z, depth - z, width + z, depth - z + height, thick),
            ]
    front = f'<rect x="0" y="{depth:.1f}" width="{width:.1f}" height="{height:.1f}" {_FACE}/>'
    top = side = ""
    if depth:
        top = _polygon((0, depth), (depth, 0), (width + depth, 0), (width, depth))
        side = _polygon((width, depth), (width + depth, 0), (width + depth, height), (width, depth + height))
    names = [""] * (3 - rank) + [
        f"{label} {n:,}".strip()
        for n, label in zip(shape[-rank:], [*labels, *[""] * len(shape)][len(shape) - rank :], strict=False)
    ]
    captions = _text(width / 2, depth + height + 14, names[2], "middle")
    captions += _text(width + depth + 6, (height + depth) / 2 + 4, names[1], "start")
    captions += _text(depth / 2 - 6, depth / 2, names[0], "end") if depth else ""
    margin = 8 * len(names[0]) if depth else 2
    total = (margin + width + depth + 12 + 8 * len(names[1]), depth + height + 22)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" role="img" width="{total[0]:.0f}" height="{total[1]:.0f}" '
        f'viewBox="{-margin} -2 {total[0]:.0f} {total[1]:.0f}" style="overflow:visible">'
        f"<title>chunks</title>{front}{top}{side}{''.join(lines)}{captions}</svg>"
    )


def plate_drawing(rows: Sequence[str], columns: Sequence[str], wells: Iterable[str]) -> str:
    """Return an SVG drawing of the wells of a plate, whose paths are ``ROW/COLUMN``; others are left out."""
    down, across = ({name: at for at, name in enumerate(names)} for names in (rows, columns))
    side = max(_DENSEST, min(_SHORTEST, 2 * _LONGEST // max(len(rows), len(columns), 1)))
    circles = "".join(
        f'<circle cx="{(across[column] + 0.5) * side}" cy="{(down[row] + 0.5) * side}" r="{side * 0.42:.1f}" '
        f"{_FACE}><title>{_escape(f'{row}/{column}')}</title></circle>"
        for row, column in (path.split("/", 1) for path in wells)
    )
    width, height = len(columns) * side, len(rows) * side
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" role="img" width="{width}" height="{height}" '
        f'viewBox="0 0 {width} {height}"><title>wells</title>{circles}</svg>'
    )


_FACE = 'fill="currentColor" fill-opacity="0.08" stroke="currentColor" stroke-width="1"'


def _marks(n: int, step: int, length: float) -> list[float]:
    """Return the positions of lines along a side of `length` pixels; none if they would be too dense."""
    count = ceil(n / step) if step else 1
    if count < 2 or length / count < _DENSEST:
        return []
    return [at * step * length / n for at in range(1, count)]


def _line(x1: float, y1: float, x2: float, y2: float, width: float) -> str:
    return (
        f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" stroke="currentColor" '
        f'stroke-width="{width}" stroke-opacity="0.6"/>'
    )


def _polygon(*points: tuple[float, float]) -> str:
    return f'<polygon points="{" ".join(f"{x:.1f},{y:.1f}" for x, y in points)}" {_FACE}/>'


def _text(x: float, y: float, text: str, anchor: str) -> str:
    return (
        f'<text x="{x:.1f}" y="{y:.1f}" font-size="12" fill="currentColor" text-anchor="{anchor}">'
        f"{_escape(text)}</text>"
    )
