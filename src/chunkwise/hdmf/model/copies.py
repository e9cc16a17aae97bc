"""Copies of small values at the root of a store: opening it on a server takes few requests."""

# They belong to consolidated metadata, which hold copies of documents only, and none in N5: the chunks of
# small datasets, and in N5 all documents.  The root names them by a digest, in a member that others leave
# out when they consolidate anew, so that copies which are out of date are not used.  They are deleted
# before anything is changed, and written when the store is closed.  Only stores on servers are opened with
# them: files of this machine are read themselves.

from __future__ import annotations

import base64
import hashlib
import json
import zlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from chunkwise.engine.pool import Pool, Stop
from chunkwise.errors import DataCorruptionError
from chunkwise.kvstore.protocol import KvStoreDriver
from chunkwise.kvstore.traits import traits_of

__all__ = ["COPIES", "COPIES_MEMBER", "Copies", "dump_copies", "limited", "read_copies", "read_values"]

COPIES = ".chunkwise-copies"
"""Key of the copies."""

COPIES_MEMBER = "chunkwise_copies"
"""Member of consolidated metadata, and of ``hdmf_n5``, that is their digest."""

_LARGEST = 1 << 15  # bytes of one value
_MOST = 1 << 22  # of all
_MAX_TEXT = 1 << 26


class Copies:
    """Copies of the values of one store."""

    __slots__ = ("documents", "values")

    def __init__(self, values: dict[str, bytes | None], documents: Mapping[str, Any]) -> None:
        self.values = values
        self.documents = documents


def _is_on_server(kv: KvStoreDriver) -> bool:
    """Return whether each request to a store takes long."""
    return traits_of(kv).request_concurrency is not None


def limited(values: Iterable[tuple[str, bytes | None]]) -> dict[str, bytes | None]:
    """Return those values that are small, as long as they are small together."""
    out: dict[str, bytes | None] = {}
    total = 0
    for key, value in values:
        nbytes = 0 if value is None else len(value)
        if nbytes <= _LARGEST and total + nbytes <= _MOST:
            out[key] = value
            total += nbytes
    return out


def read_values(kv: KvStoreDriver, pool: Pool, keys: Sequence[str]) -> list[tuple[str, bytes | None]]:
    """Return keys with their values; of a server several are asked for at the same time."""
    found: dict[str, bytes | None] = {}

    def open_worker(stop: Stop) -> Callable[[str], None]:
        def work(key: str) -> None:
            if not stop:
                value = kv.read(key).value
                found[key] = None if value is None else bytes(value)

        return work

    concurrency = traits_of(kv).request_concurrency
    pool.run(keys, open_worker, lambda: None, n_workers=concurrency or 1, inline=concurrency is None).result()
    return [(key, found[key]) for key in keys]


def dump_copies(copies: Copies) -> tuple[str, bytes]:
    """Return the digest and the stored form of copies."""
    values = {
        key: None if value is None else base64.b64encode(value).decode()
        for key, value in copies.values.items()
    }
    text = json.dumps({"values": values, "documents": copies.documents}, separators=(",", ":"))
    raw = zlib.compress(text.encode())
    return _digest(raw), raw


def read_copies(kv: KvStoreDriver, root: str, digest: Any) -> Copies | None:
    """Return the copies that a root names by their digest; None if there are no such."""
    if not isinstance(digest, str) or not _is_on_server(kv):
        return None
    raw = kv.read(root + COPIES).value
    if raw is None or _digest(raw) != digest:
        return None
    try:
        inflate = zlib.decompressobj()
        found = json.loads(inflate.decompress(raw, _MAX_TEXT))
        values = {
            key: None if value is None else base64.b64decode(value) for key, value in found["values"].items()
        }
        return Copies(values, dict(found["documents"]))
    except (zlib.error, ValueError, KeyError, TypeError, AttributeError) as e:
        raise DataCorruptionError(f"{kv.describe(root + COPIES)}: {e!r:.100}") from None


def _digest(raw: Any) -> str:
    return hashlib.blake2b(raw, digest_size=16).hexdigest()
