"""How reports and futures are shown: values in a few words, a report in one or two lines, or as a table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from typing import Any, TypeVar

__all__ = ["brief", "shown"]

_T = TypeVar("_T")
_LONGEST = 60  # characters of a value
_MOST = 3  # members of a collection


def brief(value: object) -> str:
    """Return a value in a few words: of an array its shape and data type.

    >>> brief("a" * 100), brief([1, 2]), brief(list(range(100)))
    ("'aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa…'", '[1, 2]', 'list of 100')
    """
    name = type(value).__name__
    shape, dtype = getattr(value, "shape", None), getattr(value, "dtype", None)
    if shape is not None and dtype is not None:
        return f"{name} {tuple(shape)} {getattr(dtype, 'name', dtype)}"
    if isinstance(value, str | bytes):
        short = value[: _LONGEST - 1]
        return repr(value) if len(value) < _LONGEST else f"{repr(short)[:-1]}…{repr(short)[-1]}"
    if _members(value) is not None:
        return name
    if isinstance(value, Sequence | Set | Mapping) and len(value) > _MOST:
        return f"{name} of {len(value):,}"
    if isinstance(value, tuple | list) and type(value) in (tuple, list):
        parts = ", ".join(map(brief, value))
        return f"[{parts}]" if isinstance(value, list) else f"({parts}{',' * (len(value) == 1)})"
    text = f"{value:.4g}" if isinstance(value, float) else repr(value)
    return text if len(text) <= _LONGEST and "\n" not in text else name


def _members(record: object) -> dict[str, Any] | None:
    """Return the members of a report by name; None if a value is none."""
    kind = type(record)
    names = getattr(kind, "_fields", None) or getattr(kind, "__dataclass_fields__", None)
    return None if names is None else {name: getattr(record, name) for name in names}


def _text(self: object) -> str:
    members = _members(self) or {}
    return f"{type(self).__name__}({', '.join(f'{name}={brief(value)}' for name, value in members.items())})"


def _html(self: object) -> str:
    from chunkwise.html import panel, table

    rows = []
    for name, value in (_members(self) or {}).items():
        text = f"{value:,}" if type(value) is int else value if isinstance(value, str) else brief(value)
        rows.append((name.removeprefix("n_").replace("_", " "), text))
    return panel(type(self).__name__, table(rows))


def shown(record: type[_T]) -> type[_T]:
    """Give the class of a report a short text, and a table for notebooks."""
    record.__repr__ = _text  # type: ignore[method-assign]
    record._repr_html_ = _html  # type: ignore[attr-defined]
    return record
