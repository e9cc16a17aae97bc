"""Tables that a phone can read: the cells of a row below each other, each with the name of its column."""

from __future__ import annotations

import re
from html import escape, unescape

SHORT = 24
"""Characters of the longest cell of a table that stays one on a phone, such as one of figures."""

_TABLE = re.compile(r"<table>.*?</table>", re.DOTALL)
_CELL = re.compile(r"<t([hd])([^>]*)>(.*?)</t[hd]>", re.DOTALL)


def with_labels(html: str) -> str:
    """Return a page whose tables of text are marked, and whose cells say which column they belong to."""
    return _TABLE.sub(lambda found: _marked(found[0]), html)


def _marked(table: str) -> str:
    head, _, body = table.partition("</thead>")
    names = [_text(cell) for _, _, cell in _CELL.findall(head)]
    if not body or max((len(_text(cell)) for _, _, cell in _CELL.findall(body)), default=0) <= SHORT:
        return table
    rows = re.sub(r"<tr[^>]*>.*?</tr>", lambda row: _labelled(row[0], names), body, flags=re.DOTALL)
    return f"<table data-rows{head.removeprefix('<table')}</thead>{rows}"


def _labelled(row: str, names: list[str]) -> str:
    """Return a row with the names of columns: not in the first cell, the title, nor in the only other one."""
    n = -1

    def cell(found: re.Match[str]) -> str:
        nonlocal n
        n += 1
        name = names[n] if 0 < n < len(names) and len(names) > 2 else ""
        label = f' data-label="{escape(name)}"' if name and _text(found[3]) else ""
        return f"<t{found[1]}{found[2]}{label}>{found[3]}</t{found[1]}>"

    return _CELL.sub(cell, row)


def _text(cell: str) -> str:
    return unescape(re.sub(r"<[^>]*>", "", cell)).strip()
