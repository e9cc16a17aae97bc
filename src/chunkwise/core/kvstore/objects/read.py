"""Reading from an object store: values, parts of them, their generations, and listings.

A range that ends beyond the value is answered with fewer bytes than requested, one that begins there with an
error.  Either way the answer, or one more request, tells the size, and the caller gets an error that names
both.  If the last bytes can't be requested without the size, the size is requested first.

A generation is a zero byte and the ETag, or whatever else distinguishes versions.

obstore requests a page of a listing when it is taken, and after a failure the listing seems to have ended.
So after a failure the listing continues after the last key, if the failure may be temporary; otherwise
every call fails.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from types import ModuleType
from typing import TYPE_CHECKING, Any, NamedTuple

from chunkwise.core.kvstore.protocol import MOST_LOST, Buffer
from chunkwise.core.kvstore.request_limits import Retries
from chunkwise.core.kvstore.value import check_range, check_size, resolve_range
from chunkwise.errors import AbortedError, UnavailableError

if TYPE_CHECKING:
    import obstore.store

__all__ = ["ObjectValue", "Pages", "e_tag_in", "fetch", "generation_of", "is_version", "version_in"]

# Further attempts, with delays of 15 s in all by default.  Each reads the whole body; obstore itself retries
# after other failures.
_BODY_ATTEMPTS = 4
_PAGE = 1000  # keys; S3 lists as many in one answer


class ObjectValue(NamedTuple):
    """Bytes of an object, and ``size``, ``e_tag``, ``version``, ``last_modified`` of the whole object."""

    value: Buffer
    meta: Mapping[str, Any]


def fetch(
    library: ModuleType,
    store: obstore.store.ObjectStore,
    key: str,
    start: int,
    stop: int | None,
    *,
    suffix_ranges: bool,
    retries: Retries,
    unless: str | None = None,
    name: str = "",
) -> ObjectValue:
    """Return a part of the object `key`; raises obstore's errors, and OutOfRangeError outside the object."""
    # The version with the ETag `unless` is not sent.  `retries` are for answers that break off.  `name` is
    # the URL.
    check_range(start, stop)
    extra: dict[str, Any] = {} if unless is None else {"if_none_match": unless}
    if start == 0 and stop is None:
        return _get(library, store, key, extra, retries, name or key)
    refused: Any = None
    for _ in range(MOST_LOST):
        if start == stop or (start < 0 and not suffix_ranges):
            meta = library.head(store, key)
            begin, end = resolve_range(start, stop, meta["size"])
            if begin == end:
                return ObjectValue(b"", meta)
            options = {"range": (begin, end), "if_match": meta["e_tag"], **extra}
        else:
            options = {"range": _range(start, stop), **extra}
        try:
            found = _get(library, store, key, options, retries, name or key)
        except Exception as e:
            from chunkwise.core.kvstore.objects.failure import failure_of

            kind = failure_of(e).kind
            if kind == "mismatch" and "if_match" in options:  # replaced since its size was read
                continue
            if kind != "range":
                raise
            meta = library.head(store, key)
            begin, end = resolve_range(start, stop, meta["size"])
            if begin == end:
                return ObjectValue(b"", meta)
            if meta == refused:
                raise
            refused = meta  # replaced since, or the server is wrong
            continue
        begin, end = resolve_range(start, stop, found.meta["size"])
        if len(found.value) != end - begin:
            raise UnavailableError(
                f"the server sent {len(found.value)} bytes of {key}, expected {end - begin}: "
                "check for proxies between here and the server"
            )
        return found
    raise AbortedError(f"{key} was replaced {MOST_LOST} times while it was read")


def _range(start: int, stop: int | None) -> dict[str, int] | tuple[int, int]:
    if start < 0:
        return {"suffix": -start}
    return {"offset": start} if stop is None else (start, stop)


def _get(
    library: ModuleType,
    store: obstore.store.ObjectStore,
    key: str,
    options: dict[str, Any],
    retries: Retries,
    name: str,
) -> ObjectValue:
    """Return the answer; if it breaks off, the request is repeated."""
    attempt = 0
    while True:
        result = library.get(store, key, options=options)
        meta = result.meta
        begin, end = result.range
        wanted = options.get("range", (0, None))
        span = wanted if isinstance(wanted, tuple) else (wanted.get("offset", -1), None)
        check_size(end - begin, name, *span)  # obstore would abort the process
        try:
            return ObjectValue(memoryview(result.bytes()), meta)
        except Exception:  # for a body that breaks off, obstore names neither a type nor a cause
            if attempt >= min(_BODY_ATTEMPTS, retries.max_retries):
                raise
        time.sleep(retries.delay(attempt))
        attempt += 1


def generation_of(meta: Mapping[str, Any], *, by_version: bool) -> bytes:
    """Return the generation of an object from its metadata in obstore."""
    # Without an ETag, ``last_modified`` and ``size`` are used; with `by_version`, the version.
    e_tag, version = meta["e_tag"], meta["version"]
    if by_version and version is not None:
        return b"\0" + f"{e_tag or ''}\n{version}".encode()
    if e_tag is None:
        return b"\0" + f"{meta['last_modified'].timestamp()} {meta['size']}".encode()
    return b"\0" + str(e_tag).encode()


def e_tag_in(generation: bytes) -> str | None:
    """Return the ETag in a generation; None if it can't be an object's."""
    if generation[:1] != b"\0":
        return None
    text = generation[1:].decode("ascii", "replace").partition("\n")[0]
    return text if text and text.isprintable() and "�" not in text else None


def is_version(listed: str | None, e_tag: str | None) -> bool:
    """Return True if the ETag in a listing identifies the version."""
    if listed is None or e_tag is None or listed.startswith("W/"):  # several values may share a weak ETag
        return False
    return listed.strip('"') == e_tag.strip('"')  # Azure quotes ETags in headers, but not in listings


def version_in(generation: bytes) -> str | None:
    """Return the version in a generation, if there is one."""
    return generation[1:].decode("ascii", "replace").partition("\n")[2] or None


class Pages:
    """Requests for the pages of one listing of a directory, one for each call."""

    def __init__(self, prefix: str, after: str | None = None) -> None:
        self._prefix = prefix
        self._stream: Iterator[Sequence[Any]] = iter(())
        self._last = after
        self._begun = False
        self._failure: Exception | None = None

    def __call__(self, library: ModuleType, store: obstore.store.ObjectStore) -> Sequence[Any] | None:
        """Return the next page, None after the last one."""
        if not self._begun or self._failure is not None:
            if self._begun and self._failure is not None:
                from chunkwise.core.kvstore.objects.failure import failure_of

                if failure_of(self._failure).again == "never":
                    raise self._failure
            prefix = self._prefix.rstrip("/") or None
            self._stream = library.list(store, prefix=prefix, offset=self._last, chunk_size=_PAGE)
        try:
            page = next(self._stream, None)
            while page is not None and not page:  # no progress: a failure behind it counts as one more
                page = next(self._stream, None)
        except Exception as e:
            self._failure = e
            raise
        self._begun, self._failure = True, None
        if page and isinstance(page[-1], Mapping):
            self._last = page[-1]["path"]
        return page
