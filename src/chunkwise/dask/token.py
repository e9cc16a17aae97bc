"""Names of dask arrays that are the same whenever and wherever the same array is opened."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any
from uuid import uuid4

from chunkwise.api.tensorstore import TensorStore
from chunkwise.errors import ChunkwiseError

__all__ = ["token_of"]


def token_of(view: TensorStore) -> str:
    """Return a text that is equal for views of the same elements of the same stored array."""
    from dask.base import tokenize

    array: Any = view._array
    # Location, metadata and transform make the token; what has no description gets another one each time.
    store = getattr(array, "store", None)
    try:
        json = view.spec().to_json()
    except (ChunkwiseError, ValueError, TypeError, NotImplementedError):
        return uuid4().hex
    if store is not None and view.transaction is None:
        return str(tokenize(_plain(store.identity), json))
    if view.transaction is not None or _only_here(json):
        return uuid4().hex
    return str(tokenize(json))


def _plain(identity: Any) -> Any:
    if isinstance(identity, tuple | list):
        return [_plain(item) for item in identity]
    if identity is None or isinstance(identity, str | bytes | int | float):
        return identity
    # Alive as long as the graph refers to the array: no other storage has its address meanwhile.
    return type(identity).__qualname__, os.getpid(), id(identity)


def _only_here(json: Any) -> bool:
    """Return True if a spec names objects of this process only, or contains the elements themselves."""
    if isinstance(json, Mapping):
        return json.get("driver") in ("memory", "array") or any(map(_only_here, json.values()))
    if isinstance(json, list):
        return any(map(_only_here, json))
    return isinstance(json, str) and json.startswith("memory:")
