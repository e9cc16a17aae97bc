"""Requests over HTTP with the standard library: connections kept open, redirects, proxies.

Each thread has its own connections, and each process: a forked one never talks on its parent's.
"""

from __future__ import annotations

import os
import ssl
import threading
from collections.abc import Iterable
from functools import cache
from http.client import HTTPConnection, HTTPException, HTTPMessage, HTTPResponse, HTTPSConnection
from socket import gaierror
from typing import NamedTuple
from urllib.parse import SplitResult, urljoin, urlsplit
from urllib.request import getproxies, proxy_bypass

from chunkwise.errors import UnavailableError

__all__ = ["HTTP_ERRORS", "Answer", "NotConnectedError", "proxy_for", "send"]


class NotConnectedError(OSError):
    """There is no connection to the server: it refuses, has no address, or doesn't answer."""


HTTP_ERRORS = (OSError, HTTPException)
"""What :func:`send` raises when no answer comes, or it breaks off."""

_MOST_REDIRECTS = 10
_MOST_CONNECTIONS = 8
_REDIRECTS = (301, 302, 303, 307, 308)


class Answer(NamedTuple):
    """An answer, read to its end.

    Attributes
    ----------
    status : int
    headers : message
        Case of names does not matter.
    body : bytes
    url : str
        Where the answer came from, after redirects.
    """

    status: int
    headers: HTTPMessage
    body: bytes
    url: str


class Timeouts(NamedTuple):
    """Seconds that connecting may take, and that the server may then be silent."""

    connect: float
    read: float


_TIMEOUTS = Timeouts(4.0, 60.0)


class _Mine(threading.local):
    """The open connections of this thread, by scheme and place."""

    def __init__(self) -> None:
        self.pid = os.getpid()
        self.open: dict[tuple[str, str], HTTPConnection] = {}


_mine = _Mine()


def send(method: str, url: str, headers: Iterable[tuple[str, str]], timeouts: Timeouts = _TIMEOUTS) -> Answer:
    """Make a request and return the answer, whatever its status; follow redirects.

    Headers with credentials do not follow a redirect to another host.

    Raises
    ------
    OSError, HTTPException
        If no answer comes, or not all of it.
    """
    headers = list(headers)
    for _ in range(_MOST_REDIRECTS):
        answer = _send(method, urlsplit(url), headers, timeouts)
        location = answer.headers.get("Location")
        if answer.status not in _REDIRECTS or location is None:
            return answer
        there = urljoin(url, location)
        if urlsplit(there).scheme not in ("http", "https"):
            return answer
        if urlsplit(there).netloc != urlsplit(url).netloc:
            headers = [(k, v) for k, v in headers if k.lower() not in ("authorization", "cookie")]
        url = there
    raise UnavailableError(f"more than {_MOST_REDIRECTS} redirects, the last to {url}")


def _send(method: str, url: SplitResult, headers: list[tuple[str, str]], timeouts: Timeouts) -> Answer:
    place = (url.scheme, url.netloc)
    if _mine.pid != os.getpid():
        _mine.__init__()  # type: ignore[misc]
    connection = _mine.open.pop(place, None)
    fresh = connection is None
    connection = connection or _connect(url, timeouts.connect)
    try:
        try:
            response = _ask(connection, method, url, headers, timeouts.read)
        except HTTP_ERRORS as e:
            if fresh or isinstance(e, TimeoutError):
                raise
            connection.close()  # which the server had done before, while it was not in use
            connection = _connect(url, timeouts.connect)
            response = _ask(connection, method, url, headers, timeouts.read)
        body = response.read()
    except BaseException:  # also an interrupt: the rest of the answer must not become another's
        connection.close()
        raise
    expected = response.headers.get("Content-Length")
    answer = Answer(response.status, response.headers, body, url.geturl())
    if response.will_close or len(_mine.open) >= _MOST_CONNECTIONS:
        connection.close()
    else:
        _mine.open[place] = connection
    if method != "HEAD" and expected is not None and int(expected) != len(body) and response.status != 304:
        raise HTTPException(f"the answer has {len(body)} bytes, expected {expected}")
    return answer


def _ask(
    connection: HTTPConnection,
    method: str,
    url: SplitResult,
    headers: list[tuple[str, str]],
    timeout: float,
) -> HTTPResponse:
    target = url.path or "/"
    if url.query:
        target += f"?{url.query}"
    if url.scheme == "http" and proxy_for("http", url.hostname or "") is not None:
        target = f"http://{url.netloc.rpartition('@')[2]}{target}"
    connection.sock.settimeout(timeout)
    connection.putrequest(method, target, skip_accept_encoding=True, skip_host=True)
    connection.putheader("Host", url.netloc.rpartition("@")[2])
    for name, value in headers:
        connection.putheader(name, value)
    connection.endheaders()
    return connection.getresponse()


def _connect(url: SplitResult, timeout: float) -> HTTPConnection:
    proxy = proxy_for(url.scheme, url.hostname or "")
    host, port = (url.hostname or "", url.port) if proxy is None else (proxy.hostname or "", proxy.port)
    connection: HTTPConnection
    if url.scheme == "http":
        connection = HTTPConnection(host, port, timeout=timeout)
    else:
        connection = HTTPSConnection(host, port, timeout=timeout, context=_tls())
        if proxy is not None:
            connection.set_tunnel(url.hostname or "", url.port)
    try:
        connection.connect()
    except (gaierror, ConnectionRefusedError, TimeoutError) as e:
        connection.close()
        raise NotConnectedError(*e.args) from e
    return connection


@cache
def _tls() -> ssl.SSLContext:
    return ssl.create_default_context()


@cache
def proxy_for(scheme: str, host: str) -> SplitResult | None:
    """Return the proxy that the environment names for a host."""
    proxy = getproxies().get(scheme)
    if not proxy or proxy_bypass(host):
        return None
    return urlsplit(proxy if "://" in proxy else f"http://{proxy}")
