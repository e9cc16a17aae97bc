"""JSON documents: reading them, and changing them so that no other writer's change is lost."""

from __future__ import annotations

import json
import re
from collections.abc import Callable

from chunkwise.binding import JSON, load_json
from chunkwise.errors import prefix
from chunkwise.kvstore.compare_and_swap import compare_and_swap
from chunkwise.kvstore.protocol import KvStoreDriver
from chunkwise.kvstore.value_bound import read_bounded

__all__ = ["change_document", "dump_like", "read_document"]

_INDENT = re.compile(rb"\A\s*[{\[][ \t]*\r?\n([ \t]*)")


def read_document(
    kv: KvStoreDriver, key: str, load: Callable[[bytes], JSON] = load_json, *, missing: JSON = None
) -> JSON:
    """Return the value of a document, or `missing`; errors name the key."""
    raw = read_bounded(kv, key).value
    try:
        return missing if raw is None else load(bytes(raw))
    except Exception as e:
        raise prefix(e, f"Error reading {kv.describe(key)}") from None


def change_document(
    kv: KvStoreDriver,
    key: str,
    change: Callable[[JSON], JSON],
    *,
    load: Callable[[bytes], JSON] = load_json,
) -> JSON:
    """Replace a document by what `change` makes of it; return the new value."""
    # `change` gets None for a missing document, returns None to delete it, and must not modify its argument.
    out: JSON = None

    def attempt() -> bytes | None:
        nonlocal out
        stored = read_bounded(kv, key)
        raw = None if stored.value is None else bytes(stored.value)
        try:
            before = None if raw is None else load(raw)
        except Exception as e:
            raise prefix(e, f"Error reading {kv.describe(key)}") from None
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
    """Return JSON text with the indentation of the text `before`; compact if that has none."""
    # NaN and infinities are written by their names, as the software of these formats does.
    found = _INDENT.match(before)
    indent = found[1].decode() if found else None
    separators = (",", ":") if indent is None else (",", ": ")
    try:
        return json.dumps(value, indent=indent, separators=separators, ensure_ascii=False).encode()
    except UnicodeEncodeError:  # half of a surrogate pair has no UTF-8
        return json.dumps(value, indent=indent, separators=separators).encode()
