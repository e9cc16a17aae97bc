"""Values on a web server, read-only: each key is a path below a URL.

Names
-----
TensorStore's ``http``, with its members ``base_url`` and ``headers``.

Compatibility
-------------
The server need not support ranges: if it ignores them and sends the whole value, the part is cut out.  A
generation is a zero byte and the ETag, or without one the date and size of the value, or without a date a
digest of the whole value.  The server can't list keys, so listing is an error, not an empty list.
"""

from __future__ import annotations

import base64
import time
from collections.abc import Hashable, Iterator, Mapping, Sequence
from typing import NamedTuple
from urllib.parse import unquote, urlsplit

from chunkwise.core.base.binding import dump
from chunkwise.core.base.limits import largest_value
from chunkwise.core.kvstore.caches import ShardIndexCache
from chunkwise.core.kvstore.key_range import encode_key, quote_key
from chunkwise.core.kvstore.objects.failure import failure_of_answer
from chunkwise.core.kvstore.protocol import (
    MISSING_GENERATION,
    Buffer,
    ByteRange,
    Children,
    Reader,
    Stamped,
    digest_generation,
)
from chunkwise.core.kvstore.request_limits import Attempts, Limits, Slots
from chunkwise.core.kvstore.traits import DEFAULT_TRAITS, StoreTraits
from chunkwise.core.kvstore.value import check_range, resolve_range
from chunkwise.core.kvstore.web.request import (
    CONTENT_RANGE,
    Answer,
    Bounds,
    NoAnswerError,
    cut,
    decoded,
    digits_in,
    is_public_header,
    range_header,
    send,
)
from chunkwise.errors import (
    ChunkwiseError,
    DeadlineExceededError,
    StorageError,
    UnavailableError,
    UnlistedError,
    UnsupportedError,
)

__all__ = ["HttpStore"]

_AGAIN = (408, 429, 500, 502, 503, 504)
_MISSING = (404, 410)


class _Part(NamedTuple):
    """The bytes of a value that were sent."""

    value: Buffer | None  # None if the value is missing or the known one
    generation: bytes


class HttpStore:
    """The values below `base_url`, read-only."""

    def __init__(
        self,
        base_url: str,
        headers: Sequence[tuple[str, str]] = (),
        limits: Limits | None = None,
        bounds: Bounds | None = None,
    ) -> None:
        self.base_url = base_url  # a query is sent with each request
        self.headers = tuple(headers)  # left out of pickles unless they are known to be public
        self.limits = limits or Limits(Slots())
        self.bounds = bounds or Bounds()
        self._absent = (*_MISSING, 403) if self.limits.denied_is_missing else _MISSING
        self._shard_indexes = ShardIndexCache()
        parts = urlsplit(base_url)
        user, at, host = parts.netloc.rpartition("@")
        self._root = f"{parts.scheme}://{host}{parts.path}"
        self._query = f"?{parts.query}" if parts.query else ""
        own = {name.lower() for name, _ in self.headers}
        self._sent = [("Accept-Encoding", "identity"), ("User-Agent", "chunkwise")]
        self._sent = [h for h in self._sent if h[0].lower() not in own] + list(self.headers)
        if at:
            token = base64.b64encode(encode_key(unquote(user))).decode()
            self._sent.append(("Authorization", f"Basic {token}"))

    def __reduce__(self) -> tuple[object, ...]:
        headers = tuple(h for h in self.headers if is_public_header(h[0]))
        return HttpStore, (f"{self._root}{self._query}", headers, self.limits, self.bounds)

    def __repr__(self) -> str:
        return f"HttpStore({self.url('')!r})"

    @property
    def identity(self) -> Hashable:
        """The URL."""
        return "http", self._root, self._query

    @property
    def traits(self) -> StoreTraits:
        """Those of a server; the traits of writes are meaningless."""
        return DEFAULT_TRAITS._replace(
            request_concurrency=self.limits.slots.limit,
            coalescing=self.limits.coalescing,
            shard_indexes=self._shard_indexes,
        )

    def url(self, key: str) -> str:
        """Return the URL of a key, without user and password."""
        path = quote_key(key)
        between = "/" if path and not path.startswith("/") and not self._root.endswith("/") else ""
        if path.startswith("/") and self._root.endswith("/"):
            path = path[1:]
        return f"{self._root}{between}{path}{self._query}"

    def describe(self, key: str) -> str:
        """Return the quoted URL."""
        return dump(self.url(key))

    def read(
        self, key: str, *, byte_range: ByteRange | None = None, if_not_equal: bytes | None = None
    ) -> Stamped:
        """Return the value of `key` or a part of it, with its generation."""
        now = time.time()
        start, stop = byte_range or (0, None)
        part = self._fetch(key, start, stop, if_not_equal)
        if part.generation == if_not_equal:
            return Stamped(None, part.generation, now)
        return Stamped(part.value, part.generation, now)

    def open_reader(self) -> Reader:
        """Return a reader of values; its results stay valid."""
        fetch = self._fetch

        def read(key: str, start: int = 0, stop: int | None = None) -> Buffer | None:
            return fetch(key, start, stop).value

        return read

    def _fetch(self, key: str, start: int, stop: int | None, known: bytes | None = None) -> _Part:
        check_range(start, stop)
        headers = []
        if known is not None and known.startswith(b'\0"'):
            headers.append(("If-None-Match", known[1:].decode("latin-1")))
        whole = start == 0 and stop is None
        if not whole:
            headers.append(("Range", range_header(start, stop)))
        length = -start if start < 0 else None if stop is None else max(stop - start, 1)
        answer = self._ask("GET", key, headers, length)
        if answer.status in self._absent:
            return _Part(None, MISSING_GENERATION)
        if answer.status == 304 and known is not None:
            return _Part(None, known)
        if answer.status == 416:
            return self._outside(key, start, stop, answer)
        answer = decoded(answer, key, min(self.bounds.largest, largest_value()))
        if answer.status == 200:
            begin, end = resolve_range(start, stop, len(answer.body))
            value = answer.body if whole else memoryview(answer.body)[begin:end]
            return _Part(value, _generation(answer.headers, len(answer.body), answer.body))
        if answer.status == 206 and not whole:
            value, size = cut(answer, start, stop)
            return _Part(value, _generation(answer.headers, size))
        raise self._error(key, answer)

    def _outside(self, key: str, start: int, stop: int | None, answer: Answer) -> _Part:
        """Handle a range that the server can't satisfy: an error, or an empty part at the end."""
        found = CONTENT_RANGE.fullmatch(answer.headers.get("Content-Range", ""))
        if found is None or start == stop or not answer.headers.get("ETag"):
            head = self._ask("HEAD", key, [])
            if head.status in self._absent:
                return _Part(None, MISSING_GENERATION)
            length = digits_in(head.headers.get("Content-Length", ""))
            if head.status != 200 or length is None:
                raise self._error(key, answer)
            size, headers = length, head.headers
        else:
            size, headers = int(found[3]), answer.headers
        begin, end = resolve_range(start, stop, size)
        if begin < end and start < 0:  # a server that can't count from the end
            return self._fetch(key, begin, end)
        return _Part(b"", _generation(headers, size))

    def _ask(
        self, method: str, key: str, headers: Sequence[tuple[str, str]], part: int | None = None
    ) -> Answer:
        """Make a request, and repeat it after a failure that may be temporary."""
        url, limits = self.url(key), self.limits
        arguments = method, url, (*self._sent, *headers), limits.retries, self.bounds, part
        attempts = Attempts(limits.retries, f"read {url}")
        while True:
            if limits.read_pace is not None:
                limits.read_pace.wait()
            try:
                answer = limits.slots.call(send, *arguments)
                if answer.status not in _AGAIN:
                    return answer
                if not attempts.again(f"HTTP status {answer.status}", at_least=_retry_after(answer)):
                    return answer
            except NoAnswerError as e:
                if not attempts.again(str(e), connected=e.connected):
                    raise _no_answer(url, e, attempts.failed) from e

    def _error(self, key: str, answer: Answer) -> ChunkwiseError:
        if answer.status < 400:
            return StorageError(f"Failed to read {self.url(key)}: unexpected HTTP status {answer.status}")
        start = bytes(answer.body[:2000])
        body = start.decode("utf-8", "replace") if start[:1] == b"<" else ""
        return failure_of_answer(answer.status, body).error("read", answer.url)

    def _read_only(self, operation: str) -> UnsupportedError:
        return UnsupportedError(
            f"KeyValueStore does not support {operation}: {self.url('')} is a web server, "
            "which can only be read"
        )

    def write(self, key: str, value: Buffer, *, if_equal: bytes | None = None) -> bytes | None:
        """Raise UnsupportedError."""
        raise self._read_only("writing")

    def delete(self, key: str, *, if_equal: bytes | None = None) -> bytes | None:
        """Raise UnsupportedError."""
        raise self._read_only("writing")

    def delete_range(self, start: str = "", stop: str = "") -> None:
        """Raise UnsupportedError."""
        raise self._read_only("deleting by range")

    def list(self, start: str = "", stop: str = "") -> Iterator[str]:
        """Raise UnsupportedError: the keys are not known."""
        raise UnlistedError(
            f"KeyValueStore does not support listing: {self.url(start)} is on a web server; "
            "open arrays by their own URL, or a hierarchy that has consolidated metadata"
        )

    def list_children(self, prefix: str) -> Children:
        """Raise UnsupportedError."""
        self.list(prefix)
        raise AssertionError


def _generation(headers: Mapping[str, str], size: int, whole: Buffer | None = None) -> bytes:
    e_tag, date = headers.get("ETag"), headers.get("Last-Modified")
    if e_tag is not None:
        return b"\0" + e_tag.encode("latin-1", "replace")
    if date is None and whole is not None:  # uncompressed chunks all have the same size
        return b"\0" + digest_generation(whole).hex().encode()
    return b"\0" + f"{date or ''} {size}".encode("latin-1", "replace")


def _retry_after(answer: Answer) -> float:
    seconds = digits_in(answer.headers.get("Retry-After", ""))  # the server ignored the date
    return 0.0 if seconds is None else min(float(seconds), 60.0)


def _no_answer(url: str, error: NoAnswerError, n_attempts: int) -> ChunkwiseError:
    text = f"Failed to read {url}: {error}, after {n_attempts} attempts"
    if error.timed_out:
        return DeadlineExceededError(f"{text}; check the network, or raise the retries")
    return UnavailableError(f"{text}; check the URL and the network")
