"""Fingerprints that are kept as an attribute of an array, with which it is verified without its source.

A missing chunk reads as the fill value.  So the fingerprint of what is stored is that of an array full of
the fill value, and for each chunk that is stored what makes it differ from that: what isn't there needs not
be looked at.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from chunkwise.driver.stored_array import StoredArray
from chunkwise.hierarchy.attributes import ATTRIBUTES_KEYS
from chunkwise.tools.array_template import FINGERPRINT
from chunkwise.tools.fingerprint import fingerprint
from chunkwise.tools.plain_read import Piece
from chunkwise.tools.target import Target

__all__ = ["chunk_fingerprint", "fill_fingerprint", "kept_fingerprint", "with_fingerprint"]

_MASK = (1 << 64) - 1


def with_fingerprint(target: Target, format: str, total: int) -> Target:
    """Return an array that is to be made with the fingerprint of all elements among its attributes."""
    own = {FINGERPRINT: f"{total:016x}"}
    if format in ATTRIBUTES_KEYS:
        return replace(target, attributes={**target.attributes, **own})
    metadata = target.spec["metadata"]
    if format == "n5":
        metadata = {**metadata, **own}
    else:
        metadata = {**metadata, "attributes": {**metadata.get("attributes", {}), **own}}
    return replace(target, spec={**target.spec, "metadata": metadata})


def kept_fingerprint(attributes: Mapping[str, Any]) -> str | None:
    """Return the fingerprint that is kept, None if there is none."""
    found = attributes.get(FINGERPRINT)
    return None if found is None else str(found)


def fill_fingerprint(array: StoredArray) -> int:
    """Return the fingerprint of an array of which nothing is stored."""
    return fingerprint(np.broadcast_to(array.fill_value, array.shape), (0,) * len(array.shape))


def chunk_fingerprint(array: StoredArray, cell: Sequence[int], piece: Piece) -> int:
    """Return by how much a stored chunk changes the fingerprint of the array."""
    lows = [array.grid.bounds(dim, number)[0] for dim, number in enumerate(cell)]
    origin = [low + part.start for low, part in zip(lows, piece.at, strict=True)]
    assert piece.elements is not None, "it was decoded"
    inside = tuple(slice(0, max(0, n - at)) for n, at in zip(array.shape, origin, strict=True))
    values = piece.elements[inside].astype(array.numpy_dtype, copy=False)
    fill = np.broadcast_to(array.fill_value, values.shape)
    return (fingerprint(values, origin) - fingerprint(fill, origin)) & _MASK
