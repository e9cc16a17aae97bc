"""Copies of small values at the root of a store: opening it on a server takes few requests."""

# They belong to consolidated metadata, which hold copies of documents only, and none in N5: the chunks of
# small datasets, and in N5 all documents.  They are written when the store is closed.  A copy is used only
# if a listing of the store proves that it is the value of its key: by the ETag that the key had when it was
# copied, in this very store, or by an ETag that is the MD5 of the copy, as that of a plain upload to S3.
# All else is read from its own key.  Stores that don't list ETags, files of this machine among them, are
# opened without copies.

from __future__ import annotations

import base64
import hashlib
import json
import zlib
from collections.abc import Callable, Iterable, Sequence
from itertools import islice
from typing import Any, NamedTuple

from chunkwise.core.kvstore.object_read import e_tag_in, is_version
from chunkwise.errors import DataCorruptionError
from chunkwise.extension import KvStoreDriver, Stamped
from chunkwise.extension.inside import EntryListable, KeyRange, Pool, Stop, offers, read_bounded, traits_of

__all__ = ["COPIES", "Proven", "dump_copies", "read_copies", "read_names", "read_values"]

COPIES = ".chunkwise-copies"
"""Key of the copies."""

_LARGEST = 1 << 15  # bytes of one value
_MOST = 1 << 22  # of all
_MAX_TEXT = 1 << 26
_MOST_KEYS = 10_000  # that are listed; ten requests on most servers


class Proven(NamedTuple):
    """Copies that are the values of their keys, and all keys, or None if there are too many."""

    values: dict[str, bytes | None]
    keys: frozenset[str] | None


def read_values(kv: KvStoreDriver, pool: Pool, keys: Sequence[str]) -> list[Stamped]:
    """Return the values of keys; of a server several are asked for at the same time."""
    found: dict[str, Stamped] = {}

    def open_worker(stop: Stop) -> Callable[[str], None]:
        def work(key: str) -> None:
            if not stop:
                stamped = kv.read(key)
                found[key] = stamped._replace(value=None if stamped.value is None else bytes(stamped.value))

        return work

    concurrency = traits_of(kv).request_concurrency
    pool.run(keys, open_worker, lambda: None, n_workers=concurrency or 1, inline=concurrency is None).result()
    return [found[key] for key in keys]


def dump_copies(kv: KvStoreDriver, root: str, read: Iterable[tuple[str, Stamped]]) -> bytes:
    """Return the stored form of copies of those values that are small, as long as they are small together."""
    listable = offers(kv, EntryListable)
    values: dict[str, Any] = {}
    total = 0
    for key, (value, generation, _) in read:
        nbytes = 0 if value is None else len(value)
        if nbytes > _LARGEST or total + nbytes > _MOST:
            continue
        total += nbytes
        e_tag = e_tag_in(generation) if listable else None
        values[key] = None if value is None else [e_tag, base64.b64encode(value).decode()]
    text = json.dumps({"store": _digest_of_place(kv, root), "values": values}, separators=(",", ":"))
    return zlib.compress(text.encode())


def read_copies(kv: KvStoreDriver, root: str) -> Proven | None:
    """Return the copies at a root that its keys prove; None if there are none, or the store can't tell."""
    lister: object = kv
    if traits_of(kv).request_concurrency is None or not offers(lister, EntryListable):
        return None
    copies = _load_copies(kv, root)
    if copies is None:
        return None
    keys = KeyRange.of_prefix(root)
    entries = list(islice(lister.list_entries(keys.start, keys.stop), _MOST_KEYS))
    is_whole = len(entries) < _MOST_KEYS
    e_tags = {entry.key[len(root) :]: entry.e_tag for entry in entries}
    values: dict[str, bytes | None] = {}
    for key, copy in copies.items():
        if copy is None:
            if is_whole and key not in e_tags:
                values[key] = None
        elif is_version(e_tags.get(key), copy[0]) or is_version(e_tags.get(key), _md5(copy[1])):
            values[key] = copy[1]
    return Proven(values, frozenset(e_tags) if is_whole else None)


def _load_copies(kv: KvStoreDriver, root: str) -> dict[str, tuple[str | None, bytes] | None] | None:
    """Return the copies at a root, each with the ETag that its key had; None if there are none."""
    raw = read_bounded(kv, root + COPIES).value
    if raw is None:
        return None
    try:
        found = json.loads(zlib.decompressobj().decompress(raw, _MAX_TEXT))
        here = found["store"] == _digest_of_place(kv, root)
        return {
            key: None if copy is None else (copy[0] if here else None, base64.b64decode(copy[1]))
            for key, copy in found["values"].items()
        }
    except (zlib.error, ValueError, LookupError, TypeError, AttributeError) as e:
        raise DataCorruptionError(f"{kv.describe(root + COPIES)}: {e!r:.100}") from None


def read_names(kv: KvStoreDriver, root: str) -> Proven | None:
    """Return the keys that have copies at the root of a store that can't list its own; no copy is proven."""
    copies = _load_copies(kv, root)
    return None if copies is None else Proven({}, frozenset(copies))


def _md5(value: bytes) -> str:
    return hashlib.md5(value, usedforsecurity=False).hexdigest()


def _digest_of_place(kv: KvStoreDriver, root: str) -> str:
    """Return the digest of what a store and a root are called: ETags mean nothing in others."""
    return hashlib.blake2b(repr((kv.identity, root)).encode(), digest_size=16).hexdigest()
