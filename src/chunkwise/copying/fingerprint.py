"""A fingerprint of an array that can be added up from parts: the sum of value x hash(index) mod 2^64.

It depends neither on chunks nor on the order in which parts come, so each worker adds its own.  The hash of
an index is the product of an odd number for each dimension: the sum over a box is a chain of dot products,
and that over a box of one value is a product.  Values are taken as words of at most 4 bytes, so that numbers
whose last bits are all zero, such as small floats, are told apart as well as others.

A copy may keep its fingerprint as an attribute, with which it can be verified without its source.  A missing
chunk reads as the fill value.  So the fingerprint of the array is that of an array full of the fill value
plus, for each stored chunk, the difference from it: missing chunks need no look.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import reduce
from typing import Any

import numpy as np
import numpy.typing as npt

from chunkwise.copying.array_template import FINGERPRINT
from chunkwise.copying.new_array import Target
from chunkwise.copying.plain_read import Piece
from chunkwise.core.base.binding import JSON
from chunkwise.core.driver.stored_array import StoredArray
from chunkwise.core.driver.tree_formats import tree_format

__all__ = ["chunk_fingerprint", "fill_fingerprint", "fingerprint", "kept_fingerprint", "with_fingerprint"]

_LONGEST = 1 << 16  # numbers along a dimension whose weights are in memory at a time
_MASK = (1 << 64) - 1
_ROW = 1 << 12  # least number of elements that are summed at a time, if an array has so many
_STAGED = 1 << 16  # words that are widened to 64 bits at a time


def fingerprint(values: npt.NDArray[Any], origin: Sequence[int]) -> int:
    """Return the fingerprint of a box of an array.

    Parameters
    ----------
    values : ndarray
        All elements of the box.
    origin : sequence of int
        Index of the first of them.

    Returns
    -------
    int
        Below 2^64.  The fingerprints of boxes that make up an array add up, mod 2^64, to that of the array.

    Examples
    --------
    >>> import numpy as np
    >>> a = np.arange(12).reshape(3, 4)
    >>> whole = fingerprint(a, (0, 0))
    >>> whole == (fingerprint(a[:2], (0, 0)) + fingerprint(a[2:], (2, 0))) % 2**64
    True
    """
    for dim, n in enumerate(values.shape):
        if n > _LONGEST:  # the weights would take more memory than the elements
            at = (slice(None),) * dim
            parts = (
                fingerprint(
                    values[(*at, slice(first, first + _LONGEST))],
                    [start + first * (d == dim) for d, start in enumerate(origin)],
                )
                for first in range(0, n, _LONGEST)
            )
            return sum(parts) & _MASK
    words = _words(values)
    weights = [
        _hashes(dim, start, n) for dim, (start, n) in enumerate(zip(origin, values.shape, strict=True))
    ]
    weights.append(_hashes(values.ndim, 0, words.shape[-1]))
    if not words.size:
        return 0
    if not any(words.strides[:-1]):  # one value, repeated by broadcasting
        one = words[(0,) * values.ndim].astype(np.uint64)
        sums = [int(np.dot(one, weights.pop())), *(int(w.sum(dtype=np.uint64)) for w in weights)]
        return reduce(lambda a, b: a * b & _MASK, sums)
    tail = weights.pop()
    while weights and len(tail) < _ROW and len(tail) * len(weights[-1]) <= _STAGED:
        tail = np.multiply.outer(weights.pop(), tail).reshape(-1)
    head = np.ones(1, np.uint64)
    for weight in weights:
        head = np.multiply.outer(head, weight).reshape(-1)
    rows = words.reshape(len(head), len(tail))
    step = max(1, _STAGED // len(tail))
    total = 0
    for first in range(0, len(rows), step):
        part = rows[first : first + step].astype(np.uint64)
        total += int(np.dot(np.dot(part, tail), head[first : first + step]))
    return total & _MASK


def _words(values: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Return the elements as unsigned words, in an added last dimension."""
    if values.dtype.hasobject:
        digests = [_digest(value) for value in values.reshape(-1).tolist()]
        return np.array(digests, np.uint32).reshape(*values.shape, 2)
    size = values.dtype.itemsize
    width = 4 if size % 4 == 0 else 2 if size % 2 == 0 else 1
    if not size or not values.size:
        return np.empty((*values.shape, 0), np.uint8)
    shape = values.shape
    if shape and not any(values.strides):  # one value, repeated by broadcasting, as is the result
        values = values[(slice(0, 1),) * values.ndim]
    flat = np.ascontiguousarray(values).reshape(-1).view(np.uint8)
    words = flat.view(f"<u{width}").reshape(*values.shape, size // width)
    return np.broadcast_to(words, (*shape, size // width))


def _digest(value: object) -> tuple[int, int]:
    """Return 64 bits that identify variable-length elements by value."""
    text = value if isinstance(value, bytes) else repr(value).encode("utf-8", "surrogatepass")
    kind = b"b" if isinstance(value, bytes) else b"r"
    found = int.from_bytes(hashlib.blake2b(kind + text, digest_size=8).digest(), "little")
    return found & 0xFFFFFFFF, found >> 32


def _hashes(dim: int, start: int, n: int) -> npt.NDArray[np.uint64]:
    """Return an odd number for each of `n` indices along a dimension (the last step of SplitMix64)."""
    with np.errstate(over="ignore"):
        x = np.arange(n, dtype=np.uint64) + np.uint64((start + 1 + dim * 0x632BE59BD9B4E019) & _MASK)
        x *= np.uint64(0x9E3779B97F4A7C15)
        x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    odd: npt.NDArray[np.uint64] = (x ^ (x >> np.uint64(31))) | np.uint64(1)
    return odd


def with_fingerprint(target: Target, format: str, total: int) -> Target:
    """Return a new array that will have the fingerprint of all elements among its attributes."""
    own: dict[str, Any] = {FINGERPRINT: f"{total:016x}"}
    rules = tree_format(format)
    if rules.attributes_key:
        return replace(target, attributes={**target.attributes, **own})
    metadata = target.spec["metadata"]
    if member := rules.attributes_member:
        own = {member: {**metadata.get(member, {}), **own}}
    metadata = {**metadata, **own}
    return replace(target, spec={**target.spec, "metadata": metadata})


def kept_fingerprint(attributes: Mapping[str, JSON]) -> str | None:
    """Return the kept fingerprint, or None."""
    found = attributes.get(FINGERPRINT)
    return None if found is None else str(found)


def fill_fingerprint(array: StoredArray) -> int:
    """Return the fingerprint of an array that stores nothing."""
    return fingerprint(np.broadcast_to(array.fill_value, array.shape), (0,) * len(array.shape))


def chunk_fingerprint(array: StoredArray, cell: Sequence[int], piece: Piece) -> int:
    """Return by how much a stored chunk changes the fingerprint of the array."""
    lows = [array.grid.bounds(dim, number)[0] for dim, number in enumerate(cell)]
    origin = [low + part.start for low, part in zip(lows, piece.at, strict=True)]
    assert piece.elements is not None, "it was decoded"
    inside: Any = tuple(slice(0, max(0, n - at)) for n, at in zip(array.shape, origin, strict=True))
    values = piece.elements[(*inside, ...)].astype(array.numpy_dtype, copy=False)  # an array of rank 0 too
    fill = np.broadcast_to(array.fill_value, values.shape)
    return (fingerprint(values, origin) - fingerprint(fill, origin)) & _MASK
