"""JSON documents: reading them, and changing them without losing other writers' changes."""

from __future__ import annotations

import re
from collections.abc import Callable

from chunkwise.core.base.binding import JSON, dump_bytes, load_json
from chunkwise.core.base.limits import as_document
from chunkwise.core.kvstore.compare_and_swap import compare_and_swap
from chunkwise.core.kvstore.protocol import MISSING_GENERATION, Buffer, KvStoreDriver, Stamped
from chunkwise.core.kvstore.value import read_bounded
from chunkwise.errors import prefix

__all__ = ["change_document", "dump_like", "read_document", "read_version", "write_new"]

_INDENT = re.compile(rb"\A\s*[{\[][ \t]*\r?\n([ \t]*)")


def read_document(
    kv: KvStoreDriver, key: str, load: Callable[[bytes], JSON] = load_json, *, missing: JSON = None
) -> JSON:
    """Return the value of a document, or `missing`; errors name the key."""
    return read_version(kv, key, load, missing=missing)[0]


def read_version(
    kv: KvStoreDriver, key: str, load: Callable[[bytes], JSON] = load_json, *, missing: JSON = None
) -> tuple[JSON, bytes]:
    """Return the value of a document, or `missing`, and its generation; errors name the key."""
    found = read_bounded(kv, key)
    return missing if found.value is None else _loaded(kv, key, found.value, load), found.generation


def _loaded(kv: KvStoreDriver, key: str, raw: Buffer, load: Callable[[bytes], JSON]) -> JSON:
    try:
        return load(bytes(raw))
    except Exception as e:
        raise prefix(e, f"Error reading {kv.describe(key)}") from None


def write_new(kv: KvStoreDriver, key: str, document: JSON) -> bool:
    """Write a document unless there is one; return True if this call wrote it."""
    return kv.write(key, dump_like(document, b""), if_equal=MISSING_GENERATION) is not None


def change_document(
    kv: KvStoreDriver,
    key: str,
    change: Callable[[JSON], JSON],
    *,
    load: Callable[[bytes], JSON] = load_json,
    found: Stamped | None = None,
) -> JSON:
    """Replace a document by ``change(document)``; return the new value."""
    # `change` gets None for a missing document, returns None to delete it, and must not modify its argument.
    # `found` is the document if it was just read; it is read again only if it has changed.
    out: JSON = None

    def attempt() -> bytes | None:
        nonlocal out, found
        stored, found = found or read_bounded(kv, key), None
        raw = None if stored.value is None else bytes(stored.value)
        before = None if raw is None else _loaded(kv, key, raw, load)
        out = change(before)
        if out == before and repr(out) == repr(before):  # 1 is not 1.0, nor true
            return None
        if out is None:
            done = kv.delete(key, if_equal=stored.generation)
        else:
            done = kv.write(key, dump_like(out, raw or b""), if_equal=stored.generation)
        return stored.generation if done is None else None

    compare_and_swap(kv, key, attempt)
    return out


def dump_like(value: JSON, before: bytes) -> bytes:
    """Return JSON text with the indentation of the text `before`; compact if `before` has none."""
    # NaN and infinities are written by name, as in the formats' own software.
    found = _INDENT.match(before)
    indent = found[1].decode() if found else None
    return as_document(dump_bytes(value, indent=indent, sort_keys=False))
