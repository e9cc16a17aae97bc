"""The read-only store over a table of references to files, web servers and buckets, each read by its own
store.

A table is read when it is first needed, and again when its file has changed.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, Protocol, TypeAlias

import numpy as np

from chunkwise.core.base.binding import dump
from chunkwise.core.base.limits import bounded
from chunkwise.core.base.threads import new_lock
from chunkwise.core.kvstore.protocol import (
    MISSING_GENERATION,
    Buffer,
    ByteRange,
    Children,
    KvStoreDriver,
    Reader,
    Stamped,
    TypedAttributes,
    offers,
)
from chunkwise.core.kvstore.reference.table import Part, Reference, Table
from chunkwise.core.kvstore.traits import StoreTraits, traits_of
from chunkwise.core.kvstore.value import (
    check_claim,
    check_range,
    coalesce_ranges,
    read_ranges,
    resolve_range,
    slice_range,
    slice_ranges,
)
from chunkwise.errors import (
    ChunkwiseError,
    DataCorruptionError,
    NotFoundError,
    OutOfRangeError,
    UnsupportedError,
    prefix,
)

__all__ = ["LoadTable", "Loaded", "OpenTarget", "ReferenceStore"]

_RECHECK = 1.0  # seconds for which the table of a remote file counts as current
_UNCHECKED = 1 << 24  # bytes to allocate without checking the size of the file
_MOST_AT_ONCE = 2 * _UNCHECKED  # bytes to read at once for several keys


class Loaded(NamedTuple):
    """A table, and the version of its file."""

    table: Table
    key: str  # key of the file in the base
    generation: bytes


class OpenTarget(Protocol):
    """Returns the store and the key of a URL in a reference; raises PermissionDeniedError if not allowed."""

    def __call__(self, url: str) -> tuple[KvStoreDriver, str]: ...


LoadTable: TypeAlias = Callable[[KvStoreDriver, str, OpenTarget], Loaded]
"""``load(base, key, open_target)``: read the table of a file."""


class ReferenceStore:
    """The keys of the table that `load` makes from the value `key` of `base`."""

    def __init__(
        self, kind: str, load: LoadTable, base: KvStoreDriver, key: str, open_target: OpenTarget
    ) -> None:
        self.kind = kind
        self.base = base
        self.key = key
        self._load_table = load
        self._open_target = open_target
        self._lock = new_lock()
        self._last: Loaded | None = None
        self._time = 0.0  # time at which it was current
        self._traits: StoreTraits | None = None

    def __reduce__(self) -> tuple[object, ...]:
        return ReferenceStore, (self.kind, self._load_table, self.base, self.key, self._open_target)

    def __repr__(self) -> str:
        return f"ReferenceStore({self.kind!r}, {self.base!r}, {self.key!r})"

    @property
    def identity(self) -> Hashable:
        """The identity of the base, with the key."""
        return self.kind, self.base.identity, self.key

    @property
    def traits(self) -> StoreTraits:
        """The traits of the store that references lead to, if known."""
        if self._traits is None:
            base = traits_of(self.base)
            known = self._last
            url = None if known is None else known.table.some_url()
            if url:
                try:
                    base = traits_of(self._open_target(url)[0])
                except ChunkwiseError:  # reported on use
                    url = None
            traits = StoreTraits(
                request_concurrency=base.request_concurrency,
                io_limit=base.io_limit,
                coalescing=base.coalescing,
                conditional_writes=lambda key: True,
                by_reference=True,
            )
            if known is None:
                return traits
            self._traits = traits
        return self._traits

    def describe(self, key: str) -> str:
        """Name the key and the file."""
        return f"{dump(key)} in {self.base.describe(self.key)}"

    @property
    def table(self) -> Table:
        """The current table of the file."""
        return self._loaded().table

    def _loaded(self) -> Loaded:
        with self._lock:
            known, now = self._last, time.monotonic()
            if known is not None:
                if traits_of(self.base).request_concurrency is not None and now - self._time < _RECHECK:
                    return known
                found = self.base.read(
                    known.key, byte_range=ByteRange(0, 0), if_not_equal=known.generation
                ).generation
                if found == known.generation:
                    self._time = now
                    return known
            try:
                with bounded(None):
                    loaded = self._load_table(self.base, self.key, self._open_target)
            except (ChunkwiseError, ImportError) as e:
                raise prefix(e, f"Error reading {self.base.describe(self.key)}") from e.__cause__
            self._last, self._time, self._traits = loaded, now, None
            return loaded

    # -- reading --------------------------------------------------------------------------------------

    def read(
        self, key: str, *, byte_range: ByteRange | None = None, if_not_equal: bytes | None = None
    ) -> Stamped:
        """Return the value of `key` or a part of it, with the generation of the table."""
        now = time.time()
        loaded = self._loaded()
        reference = self._find(loaded.table, key)
        if reference is None:
            return Stamped(None, MISSING_GENERATION, now)
        if loaded.generation == if_not_equal:
            return Stamped(None, loaded.generation, now)
        value = _Targets(self).load(key, reference, *(byte_range or ByteRange()))
        return Stamped(value, loaded.generation, now)

    def open_reader(self) -> Reader:
        """Return a reader with the current table."""
        table, targets = self._loaded().table, _Targets(self)

        def read(key: str, start: int = 0, stop: int | None = None) -> Buffer | None:
            reference = self._find(table, key)
            return None if reference is None else targets.load(key, reference, start, stop)

        return read

    def read_ranges(self, key: str, starts: Sequence[int], stops: Sequence[int]) -> list[Buffer] | None:
        """Return the bytes of each range of the value of `key`, read by the store that has them."""
        reference = self._find(self._loaded().table, key)
        if reference is None:
            return None
        if not isinstance(reference, Part):
            value = reference if isinstance(reference, bytes) else reference()
            return slice_ranges(value, starts, stops)
        if reference.stop is not None:
            size = reference.stop - reference.start
            for pair in zip(starts, stops, strict=True):
                resolve_range(*pair, size)
        store, name = self.target(reference.url)
        first = reference.start
        return read_ranges(store, name, [first + n for n in starts], [first + n for n in stops])

    def read_many(self, keys: Sequence[str]) -> list[Buffer | None]:
        """Return the values of the first `keys`; close ranges of a value share a request."""
        # At least one value, and as many as may be in memory at once.
        table = self._loaded().table
        references: list[Reference | None] = []
        size = 0
        for key in keys:
            found = self._find(table, key)
            if isinstance(found, Part) and found.stop is not None:
                check_claim(found.stop - found.start, dump(key))
                size += found.stop - found.start
                if size > _MOST_AT_ONCE and references:
                    break
            references.append(found)
        out: list[Buffer | None] = [None] * len(references)
        by_url: dict[str, list[int]] = {}
        targets = _Targets(self)
        for i, found in enumerate(references):
            if isinstance(found, Part) and found.stop is not None and found.stop > found.start:
                by_url.setdefault(found.url, []).append(i)
            elif found is not None:
                value = targets.load(keys[i], found, 0, None)
                out[i] = bytes(value)
        for url, numbers in by_url.items():
            parts = [references[i] for i in numbers]
            starts = np.array([part.start for part in parts if isinstance(part, Part)], np.int64)
            stops = np.array([part.stop for part in parts if isinstance(part, Part)], np.int64)
            order = np.argsort(starts, kind="stable")
            starts, stops = starts[order], stops[order]
            coalescing = traits_of(self.target(url)[0]).coalescing
            gap, largest = (0, 0) if coalescing is None else coalescing
            for run in coalesce_ranges(starts.tolist(), (stops - starts).tolist(), gap=gap, largest=largest):
                first, last = int(starts[run.start]), int(stops[run].max())
                key = keys[numbers[order[run.start]]]
                data = memoryview(targets.part(key, Part(url, first, last)))
                for i, start, stop in zip(order[run], starts[run], stops[run], strict=True):
                    # Not a reader's memory, which may be reused for the next run.
                    out[numbers[i]] = bytes(data[start - first : stop - first])
        return out

    def note(self, prefix: str) -> str:
        """Return the reason why a library makes the values of an array; empty if they are references."""
        return self.table.note(prefix)

    def number_types(self, prefix: str) -> Mapping[str, np.dtype[Any]]:
        """Return the types of a node's numeric attributes, if the file has types."""
        table = self.table
        return table.number_types(prefix) if offers(table, TypedAttributes) else {}

    def left_out(self, prefix: str) -> Mapping[str, str]:
        """Return the attributes of a node that JSON lacks, and why."""
        table = self.table
        return table.left_out(prefix) if offers(table, TypedAttributes) else {}

    def target(self, url: str) -> tuple[KvStoreDriver, str]:
        """Return the store and the key for the URL of a reference."""
        return self._open_target(url) if url else (self.base, self.key)

    def _find(self, table: Table, key: str) -> Reference | None:
        try:
            return table.find(key)
        except ChunkwiseError as e:
            raise prefix(e, f"Error reading {self.base.describe(self.key)}") from e.__cause__

    # -- writing --------------------------------------------------------------------------------------

    def write(self, key: str, value: Buffer, *, if_equal: bytes | None = None) -> bytes | None:
        """Raise UnsupportedError."""
        raise self._read_only("write", key)

    def delete(self, key: str, *, if_equal: bytes | None = None) -> bytes | None:
        """Raise UnsupportedError."""
        raise self._read_only("delete", key)

    def delete_range(self, start: str = "", stop: str = "") -> None:
        """Raise UnsupportedError."""
        raise self._read_only("delete", start)

    def _read_only(self, operation: str, key: str) -> UnsupportedError:
        return UnsupportedError(
            f'Failed to {operation} {self.describe(key)}: the kvstore "{self.kind}" can only be read'
        )

    # -- listing --------------------------------------------------------------------------------------

    def list(self, start: str = "", stop: str = "") -> Iterator[str]:
        """Yield the keys in ``[start, stop)``."""
        return self.table.list(start, stop)

    def list_children(self, prefix: str) -> Children:
        """List one level below `prefix`."""
        return self.table.list_children(prefix)


class _Targets:
    """Readers of the stores that references lead to, for one worker."""

    def __init__(self, store: ReferenceStore) -> None:
        self._store = store
        self._readers: dict[int, tuple[KvStoreDriver, Reader]] = {}

    def load(self, key: str, reference: Reference, start: int, stop: int | None) -> Buffer:
        """Return a range of the value of `key`."""
        check_range(start, stop)
        if isinstance(reference, Part):
            if reference.stop is None:
                return self.part(key, Part(reference.url, start, stop), whole=start == 0 and stop is None)
            begin, end = resolve_range(start, stop, reference.stop - reference.start)
            check_claim(end - begin, dump(key), start, stop)
            return self.part(key, Part(reference.url, reference.start + begin, reference.start + end))
        value = memoryview(reference if isinstance(reference, bytes) else reference())
        return slice_range(value, start, stop)

    def part(self, key: str, part: Part, *, whole: bool = False) -> Buffer:
        """Return bytes of another value, whose size is checked before memory is allocated."""
        url, start, stop = part
        store, name = self._store.target(url)
        known = self._readers.get(id(store))
        if known is None:
            known = self._readers[id(store)] = store, store.open_reader()
        read = known[1]
        try:
            if whole:
                value = read(name)
            else:
                if stop is not None and stop - start > _UNCHECKED:
                    read(name, stop - 1, stop)
                value = read(name, start, stop)
        except OutOfRangeError as e:
            where = self._store.describe(key)
            raise DataCorruptionError(
                f"{where} is bytes {start} to {stop} of {store.describe(name)}: {e}"
            ) from e
        if value is None:
            raise NotFoundError(f"{self._store.describe(key)} is in {store.describe(name)}, which is missing")
        return value
