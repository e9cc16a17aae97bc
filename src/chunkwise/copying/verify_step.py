"""Verification of one array by ranges of its keys; each is listed, read and decoded.

Chunks are read by the plain reader (`chunkwise.copying.plain_read`), several at a time where requests take
long.
"""

from __future__ import annotations

from bisect import insort
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise, product
from math import prod
from typing import Any, NamedTuple

from chunkwise.copying.comparison import chunk_fingerprint
from chunkwise.copying.node_arrays import check_node_visible, stored_array
from chunkwise.copying.plain_read import PlainReader
from chunkwise.core.base.binding import JSON
from chunkwise.core.base.cached import cached_property
from chunkwise.core.chunk_key import KeyEncoding
from chunkwise.core.driver.stored_array import StoredArray
from chunkwise.core.driver.tree_format import FormatName
from chunkwise.core.engine.concurrent_requests import map_requests
from chunkwise.core.grid import n_array_cells
from chunkwise.core.kvstore.key_range import KeyRange, encode_key
from chunkwise.core.kvstore.protocol import Buffer
from chunkwise.core.kvstore.traits import traits_of
from chunkwise.core.trees.location import Location
from chunkwise.core.trees.node import DOCUMENTS, JOURNAL, Node
from chunkwise.errors import ChunkwiseError, PermissionDeniedError, UnlistedError

__all__ = ["SHOWN", "BadKey", "RangeFindings", "Some", "VerifyStep"]

SHOWN = 3
_TASK_KEYS = 64
_TASK_NBYTES = 32 << 20
_MOST_TASKS = 4096
_AHEAD_NBYTES = 1 << 27


class BadKey(NamedTuple):
    """A key whose value is damaged or wrong.

    Attributes
    ----------
    key : str
        Key, relative to the place that was verified.
    reason : str
    """

    key: str
    reason: str


@dataclass
class Some:
    """Number of keys of a kind, and the first of them."""

    n: int = 0
    keys: list[str] = field(default_factory=list)

    def add(self, keys: Iterable[str], n: int = 1) -> None:
        self.n += n
        for key in keys:
            insort(self.keys, key)
        del self.keys[SHOWN:]


@dataclass
class RangeFindings:
    """Findings in some ranges of keys."""

    n_chunks: int = 0
    n_decoded: int = 0
    n_covered: int = 0
    nbytes: int = 0
    bad: list[BadKey] = field(default_factory=list)
    outside: Some = field(default_factory=Some)  # chunks beyond the shape of the array
    strays: Some = field(default_factory=Some)  # neither chunks nor metadata
    misnamed: dict[str, Some] = field(default_factory=dict)  # chunks by what the metadata should say of keys
    fingerprint: int = 0  # the difference from that of the fill value


@dataclass
class VerifyStep:
    """Ranges of the keys below an array; each is listed, read and decoded."""

    node: Node
    summed: bool = False  # whether fingerprints are wanted

    @cached_property
    def array(self) -> StoredArray:
        """The array of the node."""
        return stored_array(self.node)

    @cached_property
    def ranges(self) -> list[KeyRange]:
        """The ranges; together they hold all keys below the array."""
        path = self.node.location.path
        whole = KeyRange.of_prefix(path) if path else KeyRange()
        edges = [whole.inclusive_min, *sorted(set(map(encode_key, _edges(self.array)))), whole.exclusive_max]
        return [KeyRange(start, stop) for start, stop in pairwise(edges)]

    @property
    def is_remote(self) -> bool:
        """False: a task reads one key after the other."""
        return False

    def __reduce__(self) -> tuple[object, ...]:
        node = self.node
        return _sent_step, (node.location, node.format, node.key, dict(node.document), self.summed)

    def check_visible(self) -> None:
        """Raise FailedPreconditionError unless this worker sees the same array as the driver."""
        check_node_visible(self.node, "the array")

    def run(self, tasks: Iterable[int]) -> RangeFindings:
        """Check all stored keys in some of the ranges."""
        out = RangeFindings()
        node, array, kv = self.node, self.array, self.node.location.store
        reader = PlainReader(array, kv)
        limits = [array.grid.n_cells(dim, size) for dim, size in enumerate(array.shape)]
        for number in tasks:
            wanted: list[tuple[str, tuple[int, ...]]] = []
            for key in self._keys(number):
                cell = array.keys.cell(key, array.grid.rank)
                if cell is None:
                    if key[len(node.location.path) :] in (*DOCUMENTS, JOURNAL):
                        continue
                    form = self._other_form(key, limits)
                    (out.misnamed.setdefault(form, Some()) if form else out.strays).add([key])
                elif all(at < limit for at, limit in zip(cell, limits, strict=True)):
                    wanted.append((key, cell))
                    if len(wanted) == self._n_ahead:
                        self._check(out, reader, wanted)
                        wanted = []
                else:
                    out.outside.add([key])
            self._check(out, reader, wanted)
        return out

    @cached_property
    def _n_ahead(self) -> int:
        """Values that are asked for together: several only where requests take long."""
        array = self.array
        concurrency = traits_of(self.node.location.store).request_concurrency
        nbytes = prod(array.grid.chunk_shape or array.shape) * max(1, array.dtype.memory_dtype.itemsize)
        return max(1, min(concurrency or 1, _AHEAD_NBYTES // max(1, nbytes)))

    def _keys(self, number: int) -> Iterator[str]:
        """Yield the keys in a range; those that chunks would have where keys can't be listed."""
        keys, listed = self.ranges[number], False
        try:
            for key in self.node.location.store.list(keys.start, keys.stop):
                listed = True
                yield key
        except (UnlistedError, PermissionDeniedError):
            if listed:
                raise
            array = self.array
            cells = [range(array.grid.n_cells(dim, size)) for dim, size in enumerate(array.shape)]
            own = (array.keys.key(cell) for cell in product(*cells))
            yield from (key for key in own if key in keys)

    @cached_property
    def _other_forms(self) -> list[tuple[str, KeyEncoding]]:
        """The other forms of keys that the format has, with what the metadata say for each."""
        own, path = self.array.keys, self.node.location.path
        forms = [form for separator in (".", "/") for form in self.node.rules.key_forms(separator)]
        forms = [(text, form.under(path)._replace(inner=own.inner)) for text, form in forms]
        return [(text, form) for text, form in forms if form != own]

    def _other_form(self, key: str, limits: Sequence[int]) -> str:
        """Return the metadata that would make a key a chunk's; empty if it can't be one."""
        for text, form in self._other_forms:
            cell = form.cell(key, self.array.grid.rank)
            if cell is not None and all(at < limit for at, limit in zip(cell, limits, strict=True)):
                return text
        return ""

    def _check(
        self, out: RangeFindings, reader: PlainReader, wanted: Sequence[tuple[str, tuple[int, ...]]]
    ) -> None:
        """Read and decode the values of some keys."""

        def fetch(key: str) -> Any:
            try:
                return reader.fetch(key)
            except ChunkwiseError as e:
                return e

        values = map_requests(self.node.location.store, fetch, [key for key, _ in wanted])
        for (key, cell), value in zip(wanted, values, strict=True):
            if isinstance(value, ChunkwiseError):
                out.bad.append(BadKey(key, value.message))
            elif value is not None:  # deleted since the listing
                self._check_value(out, reader, key, cell, value)

    def _check_value(
        self, out: RangeFindings, reader: PlainReader, key: str, cell: tuple[int, ...], value: Buffer
    ) -> None:
        for piece in reader.pieces(cell, value):
            out.n_chunks += piece.is_chunk
            out.n_decoded += piece.elements is not None
            out.n_covered += piece.covered
            if piece.error is not None:
                reason = reason_of(piece.error)
                out.bad.append(BadKey(key, f"{piece.name}: {reason}" if piece.name else reason))
            elif self.summed:
                out.fingerprint += chunk_fingerprint(self.array, cell, piece)
        out.nbytes += memoryview(value).nbytes


def _edges(array: StoredArray) -> Iterator[str]:
    """Yield beginnings of keys at which their order is cut, so that ranges hold about as many chunks."""
    cells = [array.grid.n_cells(dim, size) for dim, size in enumerate(array.shape)]
    cells = cells[: len(cells) - array.keys.inner]
    n = n_array_cells(array.grid, array.shape)
    nbytes = prod(array.shape) * array.dtype.memory_dtype.itemsize
    wanted = min(_MOST_TASKS, n, max(n // _TASK_KEYS, nbytes // _TASK_NBYTES))
    along: list[range] = []
    so_far = 1
    for number in cells:
        if so_far >= wanted:
            break
        step = max(1, number * so_far // wanted)
        along.append(range(0, number, step))
        so_far *= len(along[-1])
    if so_far > 1:
        yield from (array.keys.prefix + array.keys.separator.join(map(str, at)) for at in product(*along))


def _sent_step(
    location: Location, format: FormatName, key: str, document: dict[str, JSON], summed: bool
) -> VerifyStep:
    return VerifyStep(Node(location, format, "array", key, document), summed)


def reason_of(error: Exception) -> str:
    text = error.message if isinstance(error, ChunkwiseError) else str(error)
    return text or type(error).__name__
