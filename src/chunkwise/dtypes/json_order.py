"""The order of JSON values: null, booleans, numbers, objects, arrays, strings."""

from __future__ import annotations

from typing import Any

from chunkwise.binding import JSON

__all__ = ["json_order"]


def json_order(value: JSON) -> Any:
    """Return a hashable key by which JSON values are ordered as TensorStore does, and equal as JSON is."""
    if value is None:
        return (0,)
    if isinstance(value, bool):
        return 1, value
    if isinstance(value, int | float):
        return 2, value
    if isinstance(value, dict):
        return 3, tuple(sorted((key, json_order(item)) for key, item in value.items()))
    if isinstance(value, list | tuple):
        return 4, tuple(map(json_order, value))
    return 5, value
