"""Reading from and writing to an S3 server that speaks plain HTTP, without the library in between.

Servers without TLS are close by, so that what a request costs here is a good part of what it costs.  The
library hands each request from thread to thread several times, and its connections don't acknowledge at
once (see :mod:`chunkwise.kvstore.plain_http`).  Only what is clear is done here: a value or a part of it
that came as asked for, the definite refusals of one, and a value that was stored whatever was there.  For
anything else the library asks again, with its retries and its ways to tell the cause.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from hashlib import sha256
from typing import Any
from urllib.parse import quote

from chunkwise.errors import ChunkwiseError
from chunkwise.kvstore.aws_credentials import Provider
from chunkwise.kvstore.aws_signature import EMPTY, Signer
from chunkwise.kvstore.http_connection import proxy_for
from chunkwise.kvstore.object_failure import AnswerError
from chunkwise.kvstore.object_read import Found
from chunkwise.kvstore.plain_http import Answer, Memory, OddAnswerError, PlainServer
from chunkwise.kvstore.plain_sender import PlainSender
from chunkwise.kvstore.protocol import Buffer

__all__ = ["DirectAccess", "direct_access"]

_CONTENT_RANGE = re.compile(r"bytes (\d+)-(\d+)/(\d+)")
# Definite: not changed, not there, another version, no such range.
_REFUSALS = (304, 404, 412, 416)
_STALE_KEYS = (401, 403)
# After so many answers in a row that made no sense here, no more are asked for.
_PATIENCE = 4
_PLACE = re.compile(r"(?:[\w.-]+|\[[0-9a-fA-F:]+\])(?::\d+)?", re.ASCII)


class DirectAccess:
    """Reads and writes the objects of one bucket.

    Parameters
    ----------
    server : PlainServer
    root : str
        What the paths of the objects begin with, percent-encoded.
    signer : Signer or None
        None for anonymous requests.
    lines : str
        Header lines of anonymous requests.
    """

    def __init__(self, server: PlainServer, root: str, signer: Signer | None, lines: str) -> None:
        self._server = server
        self._sender = PlainSender(*server.place)
        self._root = root
        self._signer = signer
        self._lines = lines
        self._n_odd = 0

    def __call__(self, key: str, options: Mapping[str, Any], memory: Memory | None = None) -> Found | None:
        """Make one request; return what was found, None if the library should ask.

        Parameters
        ----------
        key : str
        options : mapping
            As obstore's ``get`` takes them; the part must not be empty.
        memory : Memory, optional
            Where to put the value.

        Raises
        ------
        AnswerError
            If the server definitely refuses.
        """
        if self._n_odd >= _PATIENCE:
            return None
        path = self._root + quote(key, safe="/")
        signer, wanted = self._signer, options.get("range")
        try:
            lines = self._lines if signer is None else signer.lines("GET", path)
            for name, value in options.items():
                lines += _range_line(value) if name == "range" else f"{name.replace('_', '-')}: {value}\r\n"
            request = f"GET {path} HTTP/1.1\r\n{lines}user-agent: chunkwise\r\naccept: */*\r\n\r\n"
            answer = self._server.ask(request.encode("latin-1"), memory)
        except OddAnswerError:
            self._n_odd += 1
            return None
        except (OSError, ChunkwiseError):  # of the connection, or of who gives the keys
            return None
        if answer.status in _REFUSALS:
            raise AnswerError(answer.status, bytes(answer.body[:2000]).decode("utf-8", "replace"))
        if answer.status in _STALE_KEYS and signer is not None:
            signer.forget()
        found = _found(answer, wanted)
        if found is not None:
            self._n_odd = 0
        elif answer.status < 300:
            self._n_odd += 1
        return found

    def put(self, key: str, value: memoryview) -> str | None:
        """Store a value; return its ETag, None if the library should do it."""
        try:
            answer = self._server.ask(self._put_head(key, value), None, value)
        except (OSError, OddAnswerError, ChunkwiseError):
            return None
        return answer.headers.get("etag") if self._status(answer) == 200 else None

    def send(self, key: str, value: Buffer | None, done: Callable[[bool], None]) -> None:
        """Begin to store a value, or to delete it if that is None.

        Another thread calls `done`, with False if the library should do it.

        Raises
        ------
        OSError, ChunkwiseError
            If it can't be begun.
        """
        head = self._head("DELETE", key, EMPTY) if value is None else self._put_head(key, value)
        expected = 204 if value is None else 200

        def ended(answer: Answer | None) -> None:
            done(answer is not None and self._status(answer) == expected)

        self._sender.send(head, value or b"", ended)

    def _put_head(self, key: str, value: Buffer) -> bytes:
        return self._head("PUT", key, sha256(value).hexdigest(), f"content-length: {len(value)}\r\n")

    def _head(self, method: str, key: str, content: str, more: str = "") -> bytes:
        path, signer = self._root + quote(key, safe="/"), self._signer
        lines = self._lines if signer is None else signer.lines(method, path, content)
        request = f"{method} {path} HTTP/1.1\r\n{lines}{more}user-agent: chunkwise\r\naccept: */*\r\n\r\n"
        return request.encode("latin-1")

    def _status(self, answer: Answer) -> int:
        if answer.status in _STALE_KEYS and self._signer is not None:
            self._signer.forget()
        return answer.status


def direct_access(
    endpoint: str, bucket: str, provider: Provider | None, region: str, more: Mapping[str, str]
) -> DirectAccess | None:
    """Return what reads from and writes to `bucket` at `endpoint`, None if that takes more than plain HTTP.

    Parameters are those of :class:`~chunkwise.kvstore.aws_signature.Signer`; without a provider requests
    are anonymous.
    """
    scheme, _, rest = endpoint.partition("://")
    place, _, base = rest.partition("/")
    name, colon, port = place.rpartition(":") if not place.endswith("]") else (place, "", "")
    if not colon:
        name, port = place, "80"
    if scheme.lower() != "http" or not name or not port.isdecimal() or not _PLACE.fullmatch(place):
        return None
    if proxy_for("http", name.strip("[]")) is not None:
        return None
    host = name if port == "80" else place
    root = "/".join(filter(None, (base.strip("/"), bucket)))
    root = f"/{root}/" if root else "/"
    if quote(root, safe="/") != root:
        return None
    signer = None if provider is None else Signer(provider, region, host, more)
    lines = "".join(f"{name}: {value}\r\n" for name, value in {"host": host, **more}.items())
    return DirectAccess(PlainServer(name.strip("[]"), int(port)), root, signer, lines)


def _range_line(wanted: Any) -> str:
    if isinstance(wanted, tuple):
        return f"range: bytes={wanted[0]}-{wanted[1] - 1}\r\n"
    if "suffix" in wanted:
        return f"range: bytes=-{wanted['suffix']}\r\n"
    return f"range: bytes={wanted['offset']}-\r\n"


def _found(answer: Answer, wanted: Any) -> Found | None:
    """Return what an answer tells, None if it is not just what was asked for."""
    size = len(answer.body)
    if answer.status != (200 if wanted is None else 206) or "etag" not in answer.headers:
        return None
    if wanted is not None:
        told = _CONTENT_RANGE.fullmatch(answer.headers.get("content-range", ""))
        if told is None:
            return None
        begin, end, size = int(told[1]), int(told[2]) + 1, int(told[3])
        if (begin, end) != _resolved(wanted, size) or len(answer.body) != end - begin:
            return None
    meta = {
        "size": size,
        "e_tag": answer.headers["etag"],
        "version": answer.headers.get("x-amz-version-id"),
        "last_modified": None,
    }
    return Found(answer.body, meta)


def _resolved(wanted: Any, size: int) -> tuple[int, int]:
    if isinstance(wanted, tuple):
        return wanted[0], min(wanted[1], size)
    return (max(0, size - wanted["suffix"]), size) if "suffix" in wanted else (wanted["offset"], size)
