"""JSON as users give it, in Python: with tuples, NumPy numbers and arrays, data types, schemas and so on."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from chunkwise.binding import JSON

__all__ = ["plain_json"]

_PLAIN = (str, int, float, bool, type(None))


def plain_json(value: Any, keep: tuple[type, ...] = ()) -> JSON:
    """Return `value` made of dict, list, str, int, float, bool and None only, sharing no container with it.

    Parameters
    ----------
    value : object
        Objects with a method ``to_json`` are replaced by what it returns, NumPy scalars and arrays and
        other sequences by numbers and lists.  Keys become strings.
    keep : tuple of type
        Objects of these types stay as they are.

    Raises
    ------
    TypeError
        If something has no such form.

    Examples
    --------
    >>> plain_json({"shape": np.array([3, 4]), "chunks": (2, np.int64(2))})
    {'shape': [3, 4], 'chunks': [2, 2]}
    """
    if type(value) in _PLAIN or (keep and isinstance(value, keep)):
        return value
    if isinstance(value, Mapping):
        return {str(key): plain_json(item, keep) for key, item in value.items()}
    if isinstance(value, np.ndarray | np.generic):
        return plain_json(value.tolist(), keep)
    if isinstance(value, list | tuple | range):
        return [plain_json(item, keep) for item in value]
    if hasattr(value, "to_json") and not isinstance(value, type):
        return value.to_json()
    for kind in (str, int, float):
        if isinstance(value, kind):
            return kind(value)
    raise TypeError(f"Object '{type(value).__name__}' does not support conversion to JSON")
