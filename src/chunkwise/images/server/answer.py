"""Answers to GET and HEAD: content, ranges, ETags, compression of text, as RFC 9110 has them."""

from __future__ import annotations

import gzip
import os
import re
from collections.abc import Callable, Mapping
from typing import NamedTuple, TypeAlias

import xxhash

from chunkwise.errors import OutOfRangeError
from chunkwise.extension import ByteRange, KvStoreDriver
from chunkwise.extension.inside import EntryListable, FileStore, dump_bytes, extended_path, offers
from chunkwise.images.server.trees import ConfinedStore

__all__ = [
    "BINARY",
    "JSON",
    "Answer",
    "Asked",
    "Computed",
    "Content",
    "Document",
    "StoredValue",
    "answer_bytes",
    "answer_stored",
    "can_tell_size",
    "failure",
    "stored_size",
]


JSON = "application/json"
BINARY = "application/octet-stream"


class Document(NamedTuple):
    """Bytes that are known."""

    body: bytes
    media_type: str = JSON


class StoredValue(NamedTuple):
    """A value that is passed through as it is stored."""

    kv: KvStoreDriver
    key: str
    media_type: str = BINARY


class Computed(NamedTuple):
    """Bytes that have to be made."""

    make: Callable[[], bytes | None]  # None if there is nothing under the key
    nbytes: int  # of memory that it takes
    media_type: str = BINARY


Content: TypeAlias = Document | StoredValue | Computed


def can_tell_size(kv: KvStoreDriver) -> bool:
    """Return True if the store can tell the size of a value without reading it."""
    return isinstance(kv, ConfinedStore | FileStore) or offers(kv, EntryListable)


def stored_size(kv: KvStoreDriver, key: str) -> int | None:
    """Return the size of a value in bytes; None if it is missing or the store can't say."""
    if isinstance(kv, ConfinedStore):
        return kv.size(key)
    if isinstance(kv, FileStore):
        path = extended_path(kv.root + key)
        return os.path.getsize(path) if os.path.isfile(path) else None
    if offers(kv, EntryListable):
        return next((entry.size for entry in kv.list_entries(key, key + "\0")), None)
    return None


_RANGE = re.compile(r"bytes\s*=\s*(\d{0,19})\s*-\s*(\d{0,19})")
_ONE_RANGE = re.compile(r"bytes\s*=[^,]*")
_LEAST_COMPRESSED = 512  # bytes; below, it is not worth it

COMMON = {
    "Access-Control-Allow-Origin": "*",
    "Access-Control-Expose-Headers": "ETag, Content-Range, Content-Length, X-Chunkwise-Array",
    "X-Content-Type-Options": "nosniff",
    "Accept-Ranges": "bytes",
    "Cache-Control": "no-cache",  # a copy is asked about, with its ETag
}


class Asked(NamedTuple):
    """Conditions of a request on its answer."""

    is_head: bool
    headers: Mapping[str, str]  # names in lower case

    def knows(self, etag: str) -> bool:
        """Return True if the client has what has this ETag."""
        known = self.headers.get("if-none-match")
        if known is None:
            return False
        return known.strip() == "*" or etag in [tag.strip().removeprefix("W/") for tag in known.split(",")]


class Answer(NamedTuple):
    """An answer."""

    status: int
    body: bytes
    headers: dict[str, str]
    size: int | None = None  # of the body, if a HEAD has left it out


class _MalformedRangeError(Exception):
    pass


def failure(status: int, message: str, **more: object) -> Answer:
    """Return the answer for an error."""
    body = dump_bytes({"error": message, "status": status, **more})
    return Answer(status, body, {**COMMON, "Content-Type": JSON, "Cache-Control": "no-store"})


def answer_bytes(asked: Asked, body: bytes, media_type: str, more: Mapping[str, str] | None = None) -> Answer:
    """Answer with bytes that are there."""
    headers = {**COMMON, "Content-Type": media_type, **(more or {})}
    etag = f'"{xxhash.xxh3_128_hexdigest(body)}"'
    is_text = media_type.startswith(("text/", JSON, "image/svg"))
    if is_text:
        headers["Vary"] = "Accept-Encoding"
        if len(body) >= _LEAST_COMPRESSED and _takes_gzip(asked) and "range" not in asked.headers:
            etag = etag[:-1] + '-gzip"'
            headers["Content-Encoding"] = "gzip"
            body = gzip.compress(body, 5, mtime=0)
    headers["ETag"] = etag
    if asked.knows(etag):
        return Answer(304, b"", headers)
    try:
        wanted = _range(asked, etag)
        part = None if wanted is None else _within(wanted, len(body))
    except _MalformedRangeError as e:
        return failure(400, str(e))
    if wanted is None:
        return Answer(200, body, headers)
    if part is None:
        return _outside(len(body), headers)
    start, stop = part
    headers["Content-Range"] = f"bytes {start}-{stop - 1}/{len(body)}"
    return Answer(206, body[start:stop], headers)


def answer_document(asked: Asked, document: Document) -> Answer:
    """Answer with a document."""
    return answer_bytes(asked, document.body, document.media_type)


def answer_stored(asked: Asked, value: StoredValue) -> Answer:
    """Answer with a stored value; no more of it is read than is sent."""
    kv, key, media_type = value
    if not can_tell_size(kv):
        body = kv.read(key).value
        return _missing(value) if body is None else answer_bytes(asked, bytes(body), media_type)
    headers = {**COMMON, "Content-Type": media_type}
    try:
        wanted = _range(asked, None)
    except _MalformedRangeError as e:
        return failure(400, str(e))
    if wanted is None and not asked.is_head:
        return _whole(asked, value, headers)
    size = stored_size(kv, key)
    if size is None:
        return _missing(value)
    part = (0, size) if wanted is None else _within(wanted, size)
    if part is None:
        return _outside(size, headers)
    start, stop = part
    try:
        found = kv.read(key, byte_range=ByteRange(0, 0) if asked.is_head else ByteRange(start, stop))
    except OutOfRangeError:  # it has become shorter since its size was looked at
        return _outside(size, headers)
    if found.value is None:
        return _missing(value)
    headers["ETag"] = etag = _etag(found.generation, size)
    if asked.knows(etag):
        return Answer(304, b"", headers)
    if wanted is not None:
        if asked.headers.get("if-range", etag) != etag:
            return _whole(asked, value, headers)
        headers["Content-Range"] = f"bytes {start}-{stop - 1}/{size}"
    return Answer(200 if wanted is None else 206, bytes(found.value), headers, stop - start)


def _whole(asked: Asked, value: StoredValue, headers: dict[str, str]) -> Answer:
    found = value.kv.read(value.key)
    if found.value is None:
        return _missing(value)
    headers["ETag"] = etag = _etag(found.generation, len(found.value))
    return Answer(304, b"", headers) if asked.knows(etag) else Answer(200, bytes(found.value), headers)


def _etag(generation: bytes, size: int) -> str:
    return f'"{generation.hex()}-{size:x}"'


def _missing(value: StoredValue) -> Answer:
    return failure(404, f"there is nothing at {value.kv.describe(value.key)}")


def _takes_gzip(asked: Asked) -> bool:
    for entry in asked.headers.get("accept-encoding", "").split(","):
        name, _, quality = entry.partition(";")
        if name.strip().lower() in ("gzip", "*"):
            return quality.strip().replace(" ", "") not in ("q=0", "q=0.0", "q=0.00", "q=0.000")
    return False


def _range(asked: Asked, etag: str | None) -> tuple[int | None, int | None] | None:
    """Return first and last byte of the range that is asked for; None if all is to be sent."""
    text = asked.headers.get("range")
    if text is None or not _ONE_RANGE.fullmatch(text.strip()):
        return None  # another unit, or several ranges, which a server need not know
    if etag is not None and asked.headers.get("if-range", etag) != etag:
        return None
    found = _RANGE.fullmatch(text.strip())
    if found is None or found[1] == found[2] == "":
        raise _MalformedRangeError(
            f"malformed range {text[:100]!r}: expected bytes=FIRST-LAST or bytes=-LENGTH"
        )
    first, last = (int(part) if part else None for part in found.groups())
    if first is not None and last is not None and last < first:
        raise _MalformedRangeError(f"malformed range {text[:100]!r}: it ends before it begins")
    return first, last


def _within(wanted: tuple[int | None, int | None], size: int) -> tuple[int, int] | None:
    """Return begin and end of a range in a value of `size` bytes; None if there is no byte in it."""
    first, last = wanted
    if first is None:
        assert last is not None
        return (max(0, size - last), size) if last and size else None
    if first >= size:
        return None
    return first, size if last is None else min(last + 1, size)


def _outside(size: int, headers: dict[str, str]) -> Answer:
    found = failure(416, f"the value has {size} bytes")
    return found._replace(headers={**headers, **found.headers, "Content-Range": f"bytes */{size}"})
