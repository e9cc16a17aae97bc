"""Requests to a bucket over HTTP, by the names and with the results that obstore has.

S3 and Google Cloud Storage share paths, listings in XML, and most headers.  The differences are in a
`Dialect`. No redirect is followed: a request is signed for one server, and another one's answer is not the
bucket's. A listing is whole or an error, so each page must be one: a login page is not the end of a listing.
"""

from __future__ import annotations

import base64
import hashlib
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import replace
from types import MappingProxyType
from typing import Any, NamedTuple
from xml.sax.saxutils import escape

from chunkwise.core.base.binding import dump
from chunkwise.core.base.limits import largest_value
from chunkwise.core.kvstore.key_range import encode_key
from chunkwise.core.kvstore.objects.failure import (
    Failure,
    RequestFailedError,
    failure_of_code,
)
from chunkwise.core.kvstore.objects.key_source import KeySource
from chunkwise.core.kvstore.objects.rest_answer import (
    Names,
    Page,
    bad_page,
    check_below,
    date_of,
    document,
    failure_in,
    name_of,
    no_answer,
    s3_entry,
    text_in,
)
from chunkwise.core.kvstore.objects.s3_credentials import aws_quote, query_of
from chunkwise.core.kvstore.protocol import Buffer
from chunkwise.core.kvstore.request_limits import Attempts, Retries
from chunkwise.core.kvstore.web.request import (
    Answer,
    NoAnswerError,
    cut,
    decoded,
    digits_in,
    range_header,
    send,
)

__all__ = ["Dialect", "Pairs", "Query", "RestBucket"]

Pairs = Sequence[tuple[str, str]]
Query = Sequence[tuple[str, "str | None"]]

_AT_ONCE = 8  # ranges or parts of one value, and deletions, that are requested at the same time
_NO_OPTIONS: Mapping[str, Any] = MappingProxyType({})


class Dialect(ABC):
    """Requests to one bucket, where providers differ."""

    version_header = ""  # header of the version of a value, empty without one
    mark_header = ""  # header of a value that is stored with another and comes back with it
    deletes_many = False  # one request deletes many keys

    def __init__(self, url: str, source: KeySource[Any] | None, always: Pairs = ()) -> None:
        self.url = url  # without a slash at the end
        self._source = source  # None for requests that are not signed
        self._always = always  # headers of each request

    def signed(self, method: str, url: str, headers: Pairs, body: Buffer | None) -> tuple[str, Pairs, Any]:
        """Return the URL and the headers of a request with its signature, and the credentials used."""
        headers = [*headers, *self._always]
        if self._source is None:
            return url, headers, None
        keys = self._source.keys()
        return *self._sign(method, url, headers, body, keys), keys

    @abstractmethod
    def _sign(
        self, method: str, url: str, headers: Pairs, body: Buffer | None, keys: Any
    ) -> tuple[str, Pairs]: ...

    def renewed(self, refused: Any) -> bool:
        """Return True if the source of credentials has others than those that a server refused."""
        return refused is not None and self._source is not None and self._source.renewed(refused)

    def condition(self, mode: str | Mapping[str, str]) -> Pairs:
        """Return the headers of a write that creates, or that replaces one version only."""
        return [("If-None-Match", "*") if isinstance(mode, str) else ("If-Match", mode["e_tag"])]


class _Got(NamedTuple):
    """obstore's result of a read."""

    value: Buffer
    meta: Mapping[str, Any]
    range: tuple[int, int]

    def bytes(self) -> Buffer:
        return self.value


class RestBucket:
    """One bucket; the methods are obstore's functions."""

    written: Pairs = ()  # headers of each write

    def __init__(
        self,
        dialect: Dialect,
        retries: Retries,
        config: Mapping[str, str] | None = None,
        *,
        in_order: bool = True,
    ) -> None:
        self.dialect = dialect
        self._in_order = in_order  # listings are in the byte order of keys
        self.config = config or {}  # members that may be shown, such as the region
        self._retries = retries  # for parts of a value; other requests are made once

    # -- requests -------------------------------------------------------------------------------------

    def _ask(
        self,
        method: str,
        key: str | None,
        expected: Sequence[int],
        headers: Pairs = (),
        query: Query = (),
        body: Buffer | None = None,
        part: int | None = None,
    ) -> Answer:
        """Make a request and return an answer with an expected status; raise RequestFailedError otherwise."""
        url = self.dialect.url + ("" if key is None else f"/{aws_quote(key)}")
        url += f"?{query_of(query)}" if query else ""
        own = [("Accept-Encoding", "identity"), ("User-Agent", "chunkwise"), *headers]
        for last in (False, True):
            place, sent, credentials = self.dialect.signed(method, url, own, body)
            try:
                answer = send(method, place, sent, self._retries, part=part, body=body, redirects=0)
            except NoAnswerError as e:
                raise RequestFailedError(no_answer(url, e)) from e
            if answer.status in expected:
                return answer
            failure = failure_in(answer)
            if last or failure.kind != "credentials" or not self.dialect.renewed(credentials):
                break
        raise RequestFailedError(failure)

    def _each(self, work: Any, *arguments: Sequence[Any]) -> list[Any]:
        """Return the results of requests that are made at the same time."""
        if len(arguments[0]) == 1:
            return [work(*(a[0] for a in arguments))]
        with ThreadPoolExecutor(min(_AT_ONCE, len(arguments[0]))) as pool:
            return list(pool.map(work, *arguments))

    # -- reading --------------------------------------------------------------------------------------

    def get(self, key: str, options: Mapping[str, Any] = _NO_OPTIONS) -> _Got:
        """Return a value, or a part."""
        headers = [(n, options[k]) for k, n in _CONDITIONS if k in options]
        wanted = options.get("range")
        if wanted is None:
            answer = decoded(self._ask("GET", key, (200,), headers), key, largest_value())
            return _Got(answer.body, self._meta(answer, len(answer.body)), (0, len(answer.body)))
        start, stop = wanted if isinstance(wanted, tuple) else _open_range(wanted)
        headers.append(("Range", range_header(start, stop)))
        length = -start if start < 0 else None if stop is None else stop - start
        answer = decoded(self._ask("GET", key, (200, 206), headers, part=length), key, largest_value())
        if answer.status == 200:
            raise RequestFailedError(Failure("other", "the server sent the whole value in place of a part"))
        value, size = cut(answer, start, stop)
        begin = max(0, size + start) if start < 0 else start
        return _Got(value, self._meta(answer, size), (begin, begin + len(value)))

    def head(self, key: str) -> dict[str, Any]:
        """Return size, ETag, version and date of a value."""
        answer = self._ask("HEAD", key, (200,))
        size = digits_in(answer.headers.get("Content-Length", ""))
        if size is None:
            raise RequestFailedError(Failure("other", "the server doesn't tell the size of the value"))
        return {**self._meta(answer, size), "mark": answer.headers.get(self.dialect.mark_header)}

    def _meta(self, answer: Answer, size: int) -> dict[str, Any]:
        get, version = answer.headers.get, self.dialect.version_header
        meta: dict[str, Any] = {
            "size": size,
            "e_tag": get("ETag"),
            "version": get(version) if version else None,
        }
        meta["last_modified"] = date_of(get("Last-Modified", "")) if meta["e_tag"] is None else None
        return meta

    def get_ranges(
        self, key: str, *, starts: Sequence[int], ends: Sequence[int], coalesce: int
    ) -> list[Buffer]:
        """Return ranges of a value; close ones share a request."""
        order = sorted(range(len(starts)), key=starts.__getitem__)
        joined: list[list[int]] = []
        for i in order:
            if joined and starts[i] - joined[-1][1] <= coalesce:
                joined[-1][1] = max(joined[-1][1], ends[i])
            else:
                joined.append([starts[i], ends[i]])
        found = self._each(lambda a, b: self.get(key, {"range": (a, b)}).value, *zip(*joined, strict=True))
        out: list[Buffer] = [b""] * len(starts)
        for i in order:
            n, (first, _) = next(
                (n, r) for n, r in enumerate(joined) if r[0] <= starts[i] and ends[i] <= r[1]
            )
            out[i] = memoryview(found[n])[starts[i] - first : ends[i] - first]
        return out

    # -- writing --------------------------------------------------------------------------------------

    def put(
        self,
        key: str,
        value: Buffer,
        *,
        mode: str | Mapping[str, str],
        use_multipart: bool,
        chunk_size: int = 1 << 23,
        mark: str = "",
    ) -> dict[str, Any]:
        """Store a value; with `use_multipart`, in parts of `chunk_size` bytes.  `head` returns its `mark`."""
        if use_multipart:
            return self._put_in_parts(key, memoryview(value).cast("B"), chunk_size)
        headers = [] if mode == "overwrite" else list(self.dialect.condition(mode))
        marked = [(self.dialect.mark_header, mark)] if mark else []
        try:
            answer = self._ask("PUT", key, (200, 201, 204), [*self.written, *headers, *marked], body=value)
        except RequestFailedError as e:
            kind = e.failure.kind
            if headers and kind == "missing":
                kind = "mismatch"
            if mode == "create" and kind == "mismatch":
                kind = "exists"
            raise RequestFailedError(replace(e.failure, kind=kind)) from e
        if bytes(answer.body[:1]) == b"<":  # a login page, or an error that comes with status 200
            document(answer, "an answer without a body")
        return self._meta(answer, 0)

    def _put_in_parts(self, key: str, value: memoryview, size: int) -> dict[str, Any]:
        root = document(
            self._insist("POST", key, (200,), query=[("uploads", None)]), "InitiateMultipartUploadResult"
        )
        upload = ("uploadId", text_in(root, "UploadId"))

        def part(number: int) -> str:
            piece = value[(number - 1) * size : number * size]
            query = [("partNumber", str(number)), upload]
            return str(self._insist("PUT", key, (200, 201), query=query, body=piece).headers.get("ETag", ""))

        try:
            numbers = range(1, -(-len(value) // size) + 1)
            tags = self._each(part, numbers)
            body = "".join(
                f"<Part><PartNumber>{n}</PartNumber><ETag>{escape(tag)}</ETag></Part>"
                for n, tag in zip(numbers, tags, strict=True)
            )
            body = f"<CompleteMultipartUpload>{body}</CompleteMultipartUpload>"
            answer = self._insist("POST", key, (200,), query=[upload], body=body.encode())
            root = document(answer, "CompleteMultipartUploadResult")
        except BaseException:
            with suppress(Exception):  # remains are deleted by the rules of the bucket
                self._ask("DELETE", key, (200, 204), query=[upload])
            raise
        return {"e_tag": text_in(root, "ETag") or None, "version": None}

    def _insist(self, method: str, key: str, *arguments: Any, **options: Any) -> Answer:
        """Make a request for a part of a value, and repeat it after a failure that may be temporary."""
        attempts = Attempts(self._retries, f"write a part of {key}")
        while True:
            try:
                return self._ask(method, key, *arguments, **options)
            except RequestFailedError as e:
                f = e.failure
                if f.again == "never" or not attempts.again(
                    f.detail, connected=f.connected, at_least=f.at_least
                ):
                    raise

    def delete(self, keys: str | Sequence[str]) -> None:
        """Delete values; missing ones are fine."""
        keys = [keys] if isinstance(keys, str) else keys
        if len(keys) == 1 or not self.dialect.deletes_many:
            self._each(self._delete, keys)
            return
        named = "".join(f"<Object><Key>{escape(key)}</Key></Object>" for key in keys)
        body = f"<Delete>{named}</Delete>".encode()
        digest = base64.b64encode(hashlib.md5(body, usedforsecurity=False).digest()).decode()
        headers = [("Content-MD5", digest), ("Content-Type", "application/xml")]
        answer = self._ask("POST", None, (200,), headers, [("delete", None)], body)
        root = document(answer, "DeleteResult")
        left = set(keys)
        for item in root:
            name = name_of(item)
            if name == "Deleted":
                left.discard(text_in(item, "Key"))
            elif name == "Error" and text_in(item, "Code") not in ("NoSuchKey", "NoSuchVersion"):
                found = failure_of_code(text_in(item, "Code"))
                raise RequestFailedError(
                    replace(found, detail=f"{found.detail}: {dump(text_in(item, 'Key'))}")
                )
            elif name == "Error":
                left.discard(text_in(item, "Key"))
        if left:
            raise RequestFailedError(
                Failure(
                    "other",
                    f"the server doesn't say that it deleted {dump(min(left))}"
                    + (f" and {len(left) - 1} other keys" if len(left) > 1 else ""),
                )
            )

    def _delete(self, key: str) -> None:
        try:
            self._ask("DELETE", key, (200, 202, 204))
        except RequestFailedError as e:
            if e.failure.kind != "missing":
                raise

    # -- listing --------------------------------------------------------------------------------------

    def list(
        self, prefix: str | None = None, *, offset: str | None = None, chunk_size: int = 1000
    ) -> Iterator[Page]:
        """Yield pages of the keys below a directory; keys that end in "/" are among them."""
        for entries, _ in self._pages(prefix, offset=offset):
            yield entries

    def list_with_delimiter(self, prefix: str | None = None, *, whole: bool = True) -> dict[str, Any] | None:
        """Return the keys and directories one level below a directory; unless `whole`, None for many."""
        objects, directories, own = [], [], f"{prefix}/" if prefix else ""
        for entries, prefixes in self._pages(prefix, [("delimiter", "/")]):
            if not whole and len(entries) + len(prefixes) >= _FULL:
                return None
            objects += [entry for entry in entries if entry["path"] != own]
            directories += [name.rstrip("/") for name in prefixes]
        return {"objects": objects, "common_prefixes": directories}

    def _pages(
        self, prefix: str | None, query: Query = (), offset: str | None = None
    ) -> Iterator[tuple[Page, Names]]:
        below, token, seen, last = f"{prefix}/" if prefix else "", "", set(), b""
        while True:
            wanted: list[tuple[str, str | None]] = [("list-type", "2"), *query]
            wanted += [("prefix", below)] if below else []
            wanted += [("continuation-token", token)] if token else []
            wanted += [("start-after", offset)] if offset is not None and not token else []
            answer = self._ask("GET", None, (200,), query=wanted)
            root = document(answer, "ListBucketResult")
            entries = [s3_entry(item) for item in root if name_of(item) == "Contents"]
            prefixes = [text_in(item, "Prefix") for item in root if name_of(item) == "CommonPrefixes"]
            check_below(below, entries, prefixes)
            if self._in_order and entries and encode_key(entries[0]["path"]) <= last:
                raise bad_page(f"the key {dump(entries[0]['path'])} comes again")
            truncated, token = text_in(root, "IsTruncated").lower(), text_in(root, "NextContinuationToken")
            if truncated not in ("true", "false", ""):
                raise bad_page(f"IsTruncated is {dump(truncated)}")
            if truncated == "true" and (not token or token in seen):
                what = f"again the token {dump(token)}" if token else "no NextContinuationToken"
                raise bad_page(f"there are more keys, and {what}")
            if truncated != "true" and token:
                raise bad_page("there is a NextContinuationToken, but IsTruncated isn't true")
            yield entries, prefixes
            if truncated != "true":
                return
            seen.add(token)
            last = encode_key(entries[-1]["path"]) if entries else last


_FULL = 1000  # keys and directories of a page that others follow, in each dialect

_CONDITIONS = (("if_match", "If-Match"), ("if_none_match", "If-None-Match"))


def _open_range(wanted: Mapping[str, int]) -> tuple[int, None]:
    return (-wanted["suffix"], None) if "suffix" in wanted else (wanted["offset"], None)
