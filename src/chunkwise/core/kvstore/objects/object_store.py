"""A kvstore in a bucket of an object store: S3, Google Cloud Storage, Azure, or a compatible one.

Compatibility
-------------
Generations are, as in TensorStore, a zero byte and the ETag.  If ETags are computed from the content, as
usual on S3, writing the same bytes again gives the same generation.

Conditional writes are used only if a probe showed that the server honours them; see
`chunkwise.core.kvstore.objects.connection`.  Otherwise a missing value is created after checking for it, but
an existing one is not replaced.  A conditional delete checks the generation and then deletes, because servers
have no such request; the traits say so.

Keys with empty components, ``.``, ``..``, control characters, or that are not UTF-8 are refused.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from itertools import islice
from types import ModuleType
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from chunkwise.core.kvstore.caches import ShardIndexCache
from chunkwise.core.kvstore.key_range import KeyRange, encode_key
from chunkwise.core.kvstore.objects.bucket import Bucket, check_object_key, is_object_key
from chunkwise.core.kvstore.objects.connection import (
    ConditionalWrites,
    Request,
    Requests,
    head_marked,
    put_marked,
    update_mode,
)
from chunkwise.core.kvstore.objects.failure import LOST_RACE, Failure, Kind
from chunkwise.core.kvstore.objects.obstore import ForeignBucket
from chunkwise.core.kvstore.objects.read import ObjectValue, Pages, e_tag_in, fetch, generation_of, version_in
from chunkwise.core.kvstore.protocol import (
    MISSING_GENERATION,
    UNKNOWN_GENERATION,
    Buffer,
    ByteRange,
    Children,
    ListEntry,
    Reader,
    Stamped,
)
from chunkwise.core.kvstore.request_limits import Attempts, Limits, Slots
from chunkwise.core.kvstore.store_base import StoreBase
from chunkwise.core.kvstore.this_process import reduced
from chunkwise.core.kvstore.traits import StoreTraits
from chunkwise.core.kvstore.value import check_range, resolve_range
from chunkwise.errors import LostAnswerError, StorageError, UnsafeWriteError

if TYPE_CHECKING:
    import obstore.store

__all__ = ["ObjectStore"]

_MISSING: tuple[Kind, ...] = ("missing",)
_CONDITION: tuple[Kind, ...] = ("mismatch", "exists")
# Bytes of a part, as in the AWS CLI. Values of more than two parts are sent in parts, each of which can be
# retried alone.  S3 accepts 10,000 parts of at least 5 MiB, and deletes 1000 keys at a time.
_PART = 1 << 23
_MOST_PARTS = 10_000
_DELETE_BATCH = 1000
_REPLACED = "another writer has replaced the value meanwhile, and this write may have been carried out before"
_UNMARKED = "the value has changed, and this store keeps no marks that tell whose write was carried out"


class ObjectStore(StoreBase):
    """The objects of one bucket."""

    def __init__(
        self,
        bucket: Bucket,
        limits: Limits | None = None,
        *,
        single_writer: bool = False,
        use_conditional_write: bool | None = None,
    ) -> None:
        self.bucket = bucket
        self.limits = limits or Limits(Slots())
        self._shard_indexes = ShardIndexCache()
        # False never uses them, True requires them, None probes the server.
        self.use_conditional_write = use_conditional_write
        # The caller's promise; without conditional writes on the server, changes are then unconditional.
        self.single_writer = single_writer and not use_conditional_write
        self._requests = Requests(bucket, self.limits)
        # Failures that mean that there is no value.
        self._absent: tuple[Kind, ...] = (*_MISSING, "denied") if self.limits.denied_is_missing else _MISSING

    def __reduce__(self) -> tuple[object, ...]:
        options = self.limits, self.single_writer, self.use_conditional_write
        if isinstance(self.bucket, ForeignBucket) and self.bucket.kind == "MemoryStore":
            store = self.bucket.store
            return reduced(store, id(store), "a `MemoryStore` of obstore", _same_memory, *options)
        return _unpickle, (self.bucket, *options)

    def __repr__(self) -> str:
        return f"ObjectStore({self.bucket!r})"

    @property
    def identity(self) -> Hashable:
        """The bucket and the server."""
        return self.bucket.identity

    @property
    def traits(self) -> StoreTraits:
        """Those of a server without conditional deletes, and perhaps without conditional writes."""
        return StoreTraits(
            request_concurrency=self.limits.slots.limit,
            coalescing=self.limits.coalescing,
            suffix_ranges=self.bucket.suffix_ranges,
            conditional_deletes=False,
            conditional_writes=self._is_safe,
            why_unsafe=lambda: self._requests.why_unsafe,
            shard_indexes=self._shard_indexes,
        )

    def describe(self, key: str) -> str:
        """Return the quoted URL."""
        return f'"{self.bucket.url(key)}"'

    # -- reading --------------------------------------------------------------------------------------

    def read(
        self, key: str, *, byte_range: ByteRange | None = None, if_not_equal: bytes | None = None
    ) -> Stamped:
        """Return the value of `key` or a part of it, with its generation."""
        now = time.time()
        unless = None if if_not_equal is None else e_tag_in(if_not_equal)
        start, stop = byte_range or (0, None)
        found, failure = self._fetch(key, start, stop, unless)
        if failure is not None:
            if failure.kind == "unchanged" and if_not_equal is not None:
                return Stamped(None, if_not_equal, now)
            return Stamped(None, MISSING_GENERATION, now)
        assert found is not None
        generation = self._generation(found.meta)
        if generation == if_not_equal:
            return Stamped(None, generation, now)
        return Stamped(found.value, generation, now)

    def open_reader(self) -> Reader:
        """Return a reader of values; its results stay valid."""
        fetch = self._fetch

        def read(key: str, start: int = 0, stop: int | None = None) -> Buffer | None:
            found, _ = fetch(key, start, stop)
            return None if found is None else found.value

        return read

    def _fetch(
        self, key: str, start: int, stop: int | None, unless: str | None = None
    ) -> tuple[ObjectValue | None, Failure | None]:
        check_object_key(key, self.bucket.refused_characters)
        suffix, retries, name = self.bucket.suffix_ranges, self.limits.retries, self.bucket.url(key)
        return self._requests.run(
            "read",
            key,
            lambda library, store: fetch(
                library,
                store,
                key,
                start,
                stop,
                suffix_ranges=suffix,
                retries=retries,
                unless=unless,
                name=name,
            ),
            self._absent if unless is None else (*self._absent, "unchanged"),
        )

    def read_ranges(self, key: str, starts: Sequence[int], stops: Sequence[int]) -> list[Buffer] | None:
        """Return the bytes of each range of the value of `key`, None if that is missing."""
        # Close ranges share a request, and the requests are made at the same time.
        check_object_key(key, self.bucket.refused_characters)
        for pair in zip(starts, stops, strict=True):
            check_range(*pair)
        wanted = [i for i, (a, b) in enumerate(zip(starts, stops, strict=True)) if a < b]
        out: list[Buffer] = [b""] * len(starts)
        if len(wanted) < len(starts):  # checks whether an empty range lies inside the value
            meta = self._head(key)
            if meta is None:
                return None
            for pair in zip(starts, stops, strict=True):
                resolve_range(*pair, meta["size"])
        if not wanted:
            return out
        a, b = [starts[i] for i in wanted], [stops[i] for i in wanted]
        gap = self.limits.coalescing.gap
        parts, failure = self._requests.run(
            "read",
            key,
            lambda library, store: library.get_ranges(store, key, starts=a, ends=b, coalesce=gap),
            (*self._absent, "range"),
        )
        if parts is not None and all(len(p) == y - x for p, x, y in zip(parts, a, b, strict=True)):
            for i, part in zip(wanted, parts, strict=True):
                out[i] = memoryview(part)
            return out
        if failure is not None and failure.kind in self._absent:
            return None
        meta = self._head(key)
        if meta is None:
            return None
        for pair in zip(a, b, strict=True):
            resolve_range(*pair, meta["size"])
        raise StorageError(f"Failed to read {self.bucket.url(key)}: the server does not answer ranges")

    def _head(self, key: str) -> Mapping[str, Any] | None:
        meta, _ = self._requests.run(
            "read", key, lambda library, store: library.head(store, key), self._absent
        )
        return meta

    def _generation(self, meta: Mapping[str, Any]) -> bytes:
        return generation_of(meta, by_version=self.bucket.by_version)

    # -- writing --------------------------------------------------------------------------------------

    def write(self, key: str, value: Buffer, *, if_equal: bytes | None = None) -> bytes | None:
        """Replace the value of `key`; return its new generation, None if the current is not `if_equal`."""
        check_object_key(key, self.bucket.refused_characters)
        view = memoryview(value).cast("B")
        if not if_equal:
            return self._put(key, view, None)
        known = self.conditional_writes(key)
        if not known.safe:
            if not self.single_writer and (if_equal != MISSING_GENERATION or self.use_conditional_write):
                raise UnsafeWriteError(
                    f"Failed to write {self.bucket.url(key)}: its server does not honour conditional "
                    f"writes{_since(known)}, so changing a part of a value could lose other writers' data; "
                    'write whole values, or set "single_writer" if no other process writes'
                )
            if self._current(key) != if_equal:
                return None
            return self._put(key, view, None)
        if if_equal == MISSING_GENERATION:
            return self._put(key, view, "create", if_equal)
        e_tag, version = e_tag_in(if_equal), version_in(if_equal)
        if e_tag is None:
            return None
        return self._put(key, view, update_mode(e_tag, version, quoted=known.quoted), if_equal)

    def _is_safe(self, key: str) -> bool:
        return self.single_writer or self.conditional_writes(key).safe

    def _put(
        self,
        key: str,
        value: memoryview,
        mode: str | dict[str, str] | None,
        if_equal: bytes = UNKNOWN_GENERATION,
    ) -> bytes | None:
        if self.bucket.keeps_buffers:  # workers reuse their connections
            value = memoryview(bytes(value))
        multipart = mode is None and len(value) > 2 * _PART
        part = max(_PART, -(-len(value) // _MOST_PARTS))

        mark = uuid4().hex if mode is not None and self.conditional_writes(key).keeps_marks else ""

        def put(library: ModuleType, store: obstore.store.ObjectStore) -> Any:
            return put_marked(
                library,
                store,
                key,
                value,
                mark,
                mode=mode or "overwrite",
                use_multipart=multipart,
                chunk_size=part,
            )

        if mode is not None:
            return self._put_if(key, put, if_equal, mark)
        result, _ = self._requests.run("write", key, put, parts=multipart)
        assert result is not None
        return self._generation_of_put(key, result)

    def _put_if(self, key: str, put: Request[Any], if_equal: bytes, mark: str) -> bytes | None:
        """Put a value on a condition; after a lost answer, the mark that is stored tells if it succeeded."""
        attempts = Attempts(self.limits.retries, f"write {self.bucket.url(key)}")
        lost: Failure | None = None
        while True:
            result, failure = self._requests.run("write", key, put, (*_CONDITION, "lost"), conditional=True)
            if result is not None:
                return self._generation_of_put(key, result)
            assert failure is not None
            if failure.kind == "lost":
                lost = failure
            elif lost is None and not (mark and self.bucket.retries_itself):
                return None
            stored, found = self._stored(key)
            if mark and found == mark:
                return stored
            if lost is None:
                return None
            if stored != if_equal:
                if mark and (if_equal == MISSING_GENERATION or lost.detail.endswith(LOST_RACE)):
                    return None  # another writer created it, before or after this, or was faster
                raise LostAnswerError(
                    f"Failed to write {self.bucket.url(key)}: {lost.detail}; "
                    + (_REPLACED if mark else _UNMARKED)
                )
            if failure.kind != "lost":  # it was not carried out, and can't be any more
                return None
            if not attempts.again(lost.detail, connected=True):
                raise lost.error("write", self.bucket.url(key), "the stored value was not changed")

    def _stored(self, key: str) -> tuple[bytes, str | None]:
        """Return the generation of the stored value, and the mark of the write that stored it."""
        meta, _ = self._requests.run(
            "read", key, lambda library, store: head_marked(library, store, key), self._absent
        )
        return (MISSING_GENERATION, None) if meta is None else (self._generation(meta), meta["mark"])

    def _generation_of_put(self, key: str, result: Mapping[str, Any]) -> bytes:
        if result["e_tag"] is None or not self._requests.same_tags:
            return self._current(key)
        return self._generation({"last_modified": None, "size": 0, **result})

    def _current(self, key: str) -> bytes:
        meta = self._head(key)
        return MISSING_GENERATION if meta is None else self._generation(meta)

    def conditional_writes(self, key: str) -> ConditionalWrites:
        """Return the conditions that the server honours; probed once for the bucket, close to `key`."""
        if self.use_conditional_write is False:
            return ConditionalWrites(create=False, replace=False, quoted=False)
        return self._requests.conditional_writes(key)

    def delete(self, key: str, *, if_equal: bytes | None = None) -> bytes | None:
        """Delete `key`; return MISSING_GENERATION, None if `if_equal` is not the current generation."""
        check_object_key(key, self.bucket.refused_characters)
        if if_equal:
            current = self._current(key)
            if current != if_equal:
                return None
            if current == MISSING_GENERATION:
                return MISSING_GENERATION
        self._delete([key])
        return MISSING_GENERATION

    def delete_where(self, start: str, stop: str, wanted: Callable[[str], bool]) -> None:
        """Delete the keys in ``[start, stop)`` that are `wanted`, marks of directories included."""
        keys = (entry.key for entry in self._entries(start, stop) if wanted(entry.key))
        while batch := list(islice(keys, _DELETE_BATCH)):
            self._delete(batch)

    def _delete(self, keys: Sequence[str]) -> None:
        self._requests.run(
            "delete", keys[0], lambda library, store: library.delete(store, list(keys)), _MISSING
        )

    # -- listing --------------------------------------------------------------------------------------

    def list(self, start: str = "", stop: str = "") -> Iterator[str]:
        """Yield the keys in ``[start, stop)``, page by page."""
        return (entry.key for entry in self.list_entries(start, stop))

    def list_entries(self, start: str = "", stop: str = "") -> Iterator[ListEntry]:
        """Yield the keys in ``[start, stop)`` with sizes and ETags of their values, page by page."""
        # A key that ends in "/" is the mark of a directory, which some tools leave.
        return (entry for entry in self._entries(start, stop) if not entry.key.endswith("/"))

    def _entries(self, start: str, stop: str) -> Iterator[ListEntry]:
        keys = KeyRange.between(start, stop)
        if keys.empty:
            return
        prefix = keys.common_directory()
        if prefix and not is_object_key(prefix[:-1]):
            return
        pages = Pages(prefix, _before(keys.start) if keys.start > prefix else None)
        while True:
            page, _ = self._requests.run("list", prefix, pages)
            if page is None:
                return
            for entry in page:
                if entry["path"] in keys:
                    yield ListEntry(entry["path"], entry["size"], entry["e_tag"])
                elif self.bucket.lists_in_order and _is_behind(entry["path"], keys):
                    return

    def list_children(self, prefix: str) -> Children:
        """List one level below `prefix`; keys and prefixes are complete, from the bucket's root."""
        found = self._level(prefix)
        assert found is not None
        return found

    def few_children(self, prefix: str) -> Children | None:
        """List one level below `prefix` with one request; None if that can't be done."""
        return None if self.bucket.over_obstore else self._level(prefix, whole=False)

    def _level(self, prefix: str, **options: bool) -> Children | None:
        if prefix and not is_object_key(prefix.rstrip("/")):
            return Children([], [])
        found, _ = self._requests.run(
            "list",
            prefix,
            lambda library, store: library.list_with_delimiter(store, prefix.rstrip("/") or None, **options),
        )
        if found is None:
            return None
        keys = sorted(
            (entry["path"] for entry in found["objects"] if not entry["path"].endswith("/")), key=encode_key
        )
        return Children(keys, sorted(found["common_prefixes"], key=encode_key))


def _unpickle(
    bucket: Bucket, limits: Limits, single_writer: bool, use_conditional_write: bool | None
) -> ObjectStore:
    return ObjectStore(
        bucket, limits, single_writer=single_writer, use_conditional_write=use_conditional_write
    )


def _same_memory(store: Any, *options: Any) -> ObjectStore:
    return _unpickle(ForeignBucket(store), *options)


def _since(known: ConditionalWrites) -> str:
    return f", since {known.why}" if known.why else ""


def _before(key: str) -> str | None:
    """Return a key shortly before `key`, None if skipping earlier keys is not worth it."""
    stem, last = key[:-1], key[-1]
    if not (last.isascii() and last.isdigit()) or (last == "0" and stem.endswith("/")):
        return None
    return stem + chr(ord(last) - 1) + "z"


def _is_behind(key: str, keys: KeyRange) -> bool:
    return bool(keys.exclusive_max) and encode_key(key) >= keys.exclusive_max
