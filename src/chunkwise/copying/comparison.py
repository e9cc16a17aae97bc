"""Comparison of the values of arrays: by a fingerprint that is added up from parts, or block by block.

A fingerprint depends neither on chunks nor on the order in which parts come, so each worker adds its own.
The hash of an index is the product of an odd number for each dimension: the sum over a box is a chain of dot
products, and that over a box of one value is a product.  Values are taken as words of at most 4 bytes, so
that numbers whose last bits are all zero, such as small floats, are told apart as well as others.

A copy may keep its fingerprint as an attribute, with which it can be verified without its source.  A missing
chunk reads as the fill value.  So the fingerprint of the array is that of an array full of the fill value
plus, for each stored chunk, the difference from it: missing chunks need no look.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from chunkwise.copying.array_template import FINGERPRINT
from chunkwise.copying.new_array import Target
from chunkwise.copying.plain_read import Piece, read_plainly
from chunkwise.copying.work import TaskRunner, Work
from chunkwise.copying.worker_view import check_array_visible
from chunkwise.core.api.copy import BLOCK_NBYTES, divide, item_nbytes
from chunkwise.core.api.tensorstore import TensorStore
from chunkwise.core.base.binding import JSON
from chunkwise.core.driver.stored_array import StoredArray
from chunkwise.core.driver.tree_formats import tree_format
from chunkwise.core.dtypes.fill_value import same_fill, same_object
from chunkwise.core.plan.blocks import Blocks
from chunkwise.errors import UnsupportedError

__all__ = [
    "FirstDifference",
    "ValueDifferences",
    "as_json",
    "bits_of",
    "chunk_fingerprint",
    "compare_small",
    "compare_values",
    "different",
    "fill_fingerprint",
    "fingerprint",
    "kept_fingerprint",
    "same_json",
    "with_fingerprint",
]

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
    words = bits_of(values).reshape(-1).view(f"<u{width}").reshape(*values.shape, size // width)
    return np.broadcast_to(words, (*shape, size // width))


def bits_of(values: npt.NDArray[Any]) -> npt.NDArray[np.uint8]:
    """Return the bytes of each element, in a row of its own, as they would be stored."""
    bits = np.ascontiguousarray(values).reshape(-1).view(np.uint8).reshape(values.size, values.itemsize)
    # Unused bits are 0 in what was read, but have the sign in a fill value.
    used = _USED_BITS.get(values.dtype.name)
    return bits if used is None else bits & np.uint8(used)


_USED_BITS = {"int2": 0x03, "int4": 0x0F}


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


_SMALL = 1 << 22  # bytes of an array, of which many are compared at the same time


class FirstDifference(NamedTuple):
    """First place where two arrays differ, and both values."""

    where: list[int]
    left: JSON
    right: JSON


class ValueDifferences(NamedTuple):
    """Differences in some blocks of two arrays."""

    nbytes: int
    n_different: int
    first: FirstDifference | None


def compare_values(
    left: TensorStore, right: TensorStore, runner: TaskRunner, progress: Callable[[int], object]
) -> ValueDifferences:
    """Return how many elements of two arrays of the same shape and type differ, and the first that do."""
    nbytes = n_different = 0
    firsts: list[FirstDifference] = []

    def done(start: int, stop: int, found: ValueDifferences) -> None:
        nonlocal nbytes, n_different
        nbytes += found.nbytes
        n_different += found.n_different
        if found.first is not None:
            firsts[:] = [min([*firsts, found.first], key=lambda first: first.where)]
        progress(found.nbytes)

    workers, nbytes_at_once = runner.workers, BLOCK_NBYTES
    if workers.memory is not None:  # a block of each, the comparison, and what codecs take
        nbytes_at_once = max(1, min(nbytes_at_once, workers.memory // (4 * workers.n_at_once)))
    blocks = divide(left, right, nbytes_at_once)
    runner.run(Work("diff", [_DiffStep(left, right, blocks)]), 0, [(0, blocks.n_blocks)], done)
    return ValueDifferences(nbytes, n_different, firsts[0] if firsts else None)


def compare_small(left: TensorStore, right: TensorStore, n_at_once: int) -> ValueDifferences | None:
    """Compare two arrays, if both are small, with `n_at_once` requests at most; None for larger ones."""
    if left.size * max(map(item_nbytes, (left, right))) > _SMALL:
        return None
    blocks = divide(left, right)
    return _DiffStep(left, right, blocks, n_at_once).run(range(blocks.n_blocks))


@dataclass
class _DiffStep:
    """Blocks of two arrays that are compared."""

    left: TensorStore
    right: TensorStore
    blocks: Blocks
    n_at_once: int = 32  # requests of a task to a server

    @property
    def is_remote(self) -> bool:
        """False: a task reads one chunk after the other."""
        return False

    def check_visible(self) -> None:
        """Raise FailedPreconditionError unless this worker sees the same arrays as the driver."""
        for store in (self.left, self.right):
            check_array_visible(store, "the array")

    def run(self, tasks: Iterable[int]) -> ValueDifferences:
        """Compare some blocks."""
        nbytes = n_different = 0
        first: FirstDifference | None = None
        fills = [s.dtype.zero() if s.fill_value is None else s.fill_value for s in (self.left, self.right)]
        same_fills = same_fill(*fills)
        for number in tasks:
            block = self.blocks.block(number)
            views = self.left[block], self.right[block]
            if same_fills and self.blocks.n_blocks > 1 and all(map(_is_not_stored, views)):
                continue
            x, y = (read_plainly(view, self.n_at_once) for view in views)
            nbytes += x.nbytes
            found = different(x, y)
            n = int(np.count_nonzero(found))
            if not n:
                continue
            n_different += n
            at = np.unravel_index(int(np.argmax(found)), found.shape)
            where = [int(i) + lo for i, lo in zip(at, block.inclusive_min, strict=True)]
            if first is None or where < first.where:
                first = FirstDifference(where, as_json(x[at]), as_json(y[at]))
        return ValueDifferences(nbytes, n_different, first)


def _is_not_stored(view: TensorStore) -> bool:
    try:
        return bool(view.storage_statistics(query_not_stored=True).result().not_stored)
    except UnsupportedError:  # a stack, or pictures
        return False


def different(x: npt.NDArray[Any], y: npt.NDArray[Any]) -> npt.NDArray[np.bool_]:
    """Return which elements of two arrays of the same shape and type differ; NaN is NaN."""
    if x.dtype.names is not None or (x.dtype.kind == "V" and not _is_number(x.dtype)):
        return np.asarray((bits_of(x) != bits_of(y)).any(axis=1)).reshape(x.shape)
    if x.dtype.hasobject and y.dtype.hasobject:
        pairs = zip(x.ravel().tolist(), y.ravel().tolist(), strict=True)
        return np.array([not same_json(a, b) for a, b in pairs], bool).reshape(x.shape)
    unequal = np.asarray(x != y, bool).reshape(x.shape)
    if x.dtype.kind in "fcmMV":
        unequal &= ~(np.asarray(x != x) & np.asarray(y != y))
    return unequal


def _is_number(dtype: np.dtype[Any]) -> bool:
    """Return True if a type that NumPy itself doesn't have compares its values, as bfloat16 does."""
    return dtype.isbuiltin == 2


def as_json(value: object) -> JSON:
    """Return an element as JSON, or as text if JSON can't hold it."""
    value = value.tolist() if isinstance(value, np.generic | np.ndarray) else value
    if isinstance(value, bytes):
        return value.decode("utf-8", "backslashreplace")
    return value if isinstance(value, bool | int | float | str | list | dict | None) else str(value)


def same_json(a: object, b: object) -> bool:
    """Return True if two JSON values are the same: 1 is 1.0, but not true; NaN is NaN."""
    if isinstance(a, bool) or isinstance(b, bool):
        return a is b
    if isinstance(a, Mapping) and isinstance(b, Mapping):
        return a.keys() == b.keys() and all(same_json(value, b[key]) for key, value in a.items())
    if isinstance(a, list) and isinstance(b, list):
        return len(a) == len(b) and all(map(same_json, a, b))
    if isinstance(a, np.ndarray) or isinstance(b, np.ndarray):
        return same_object(a, b)
    return bool(a == b or (a != a and b != b))
