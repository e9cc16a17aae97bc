"""HTTP/1.1 on sockets: connections that are kept open, certificates, proxies, heads and bodies of answers.

Each of ``AWS_CA_BUNDLE``, ``REQUESTS_CA_BUNDLE``, ``CURL_CA_BUNDLE``, ``SSL_CERT_FILE`` and ``SSL_CERT_DIR``
names a file of certificates in PEM, or a directory of such files in OpenSSL's form.  All of them are trusted.

The stores make many small requests, and most of what they cost is processor time: with urllib3, 0.7 ms for
64 KiB; with this module, 0.2 ms.  A server that sends ``100 Continue`` without end is stopped at the timeout,
where urllib3 waits forever, since http.client does.  Nothing here repeats a request or follows a redirect.
"""

from __future__ import annotations

import atexit
import os
import select
import socket
import ssl
import time
from base64 import b64encode
from collections import deque
from collections.abc import Iterable
from functools import cache, lru_cache
from typing import Any, NamedTuple
from urllib.parse import quote, unquote, urlsplit

from chunkwise.core.base.binding import dump
from chunkwise.core.kvstore.protocol import Buffer
from chunkwise.core.kvstore.request_limits import DEFAULT_CONCURRENCY
from chunkwise.errors import StorageError, UnsupportedError

__all__ = [
    "NoAnswerError",
    "Response",
    "Route",
    "certificate_advice",
    "certificate_places",
    "exchange",
    "host_of",
    "shown_place",
    "shown_url",
]

_VARIABLES = ("AWS_CA_BUNDLE", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE", "SSL_CERT_FILE", "SSL_CERT_DIR")
_OF_OPENSSL = ("SSL_CERT_FILE", "SSL_CERT_DIR")


def certificate_places() -> tuple[str, ...]:
    """Return the files and directories that the environment names; empty for the system's own."""
    found: dict[str, None] = {}
    for name in _VARIABLES:
        path = os.environ.get(name)
        if path and not os.path.exists(path) and name not in _OF_OPENSSL:  # OpenSSL treats it as empty
            raise StorageError(f"{name} names {path!r} as certificate file, which does not exist")
        if path:
            found[path] = None
    return tuple(found)


def _verifying_context(places: tuple[str, ...]) -> ssl.SSLContext:
    """Return a context that trusts the authorities in files and directories too."""
    import ssl  # only servers need it

    context = ssl.create_default_context()  # it already trusts those from OpenSSL's variables
    for path in places:
        if path in map(os.environ.get, _OF_OPENSSL):
            continue
        try:
            if os.path.isdir(path):
                context.load_verify_locations(capath=path)
            else:
                context.load_verify_locations(cafile=path)
        except (OSError, ssl.SSLError) as e:
            raise StorageError(f"{path!r} has no certificates that can be read: {e}") from e
    return context


def certificate_advice() -> str:
    """Return the advice for a certificate that isn't trusted."""
    named = [name for name in _VARIABLES if os.environ.get(name)]
    if named:
        return (
            f"its certificate is not trusted; {' and '.join(named)} must have the certificate "
            "of the authority that signed it, and that one must name this host"
        )
    return (
        "its certificate is not trusted; if an authority of your own has signed it, set SSL_CERT_FILE to a "
        "file with that authority's certificate"
    )


_PORTS = {"http": 80, "https": 443}
_MOST_IDLE = 4 * DEFAULT_CONCURRENCY  # open connections for each server, for higher request limits
_IDLE_SECONDS = 30.0  # shorter than the time after which servers close them: nginx 75 s, AWS 60 s
_PIECE = 1 << 18  # bytes to receive at a time
_SENT_AT_ONCE = 1 << 20  # bytes for which the request timeout holds
_LARGEST_HEAD = 1 << 18
_PRINTABLE = "!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~"


class NoAnswerError(Exception):
    """No answer came, or it broke off; the request may be repeated."""

    def __init__(self, why: str, *, connected: bool = True, timed_out: bool = False) -> None:
        super().__init__(why)
        self.connected = connected  # there was a connection to the server
        self.timed_out = timed_out


class Headers(dict[str, str]):
    """Headers of an answer; names are case-insensitive."""

    def get(self, name: str, default: Any = None) -> Any:
        """Return the value, `default` if there is none."""
        return super().get(name.lower(), default)


class Route(NamedTuple):
    """A server, and the way to it."""

    scheme: str
    host: str
    port: int
    proxy: str  # URL, empty for none
    certificates: tuple[str, ...]  # files and directories, from `certificate_places`


def host_of(url: str) -> str:
    """Return the header ``Host`` for a URL, in ASCII."""
    parts = urlsplit(url)
    return _host_of(parts.scheme, parts.netloc)


@lru_cache(maxsize=1024)
def _host_of(scheme: str, netloc: str) -> str:
    parts = urlsplit(f"{scheme}://{netloc}")
    host = parts.hostname or ""
    host = host if host.isascii() else host.encode("idna").decode()
    host = f"[{host}]" if ":" in host else host
    port = parts.port
    return host if port in (None, _PORTS.get(scheme)) else f"{host}:{port}"


def shown_url(url: str) -> str:
    """Return a URL without user and password."""
    parts = urlsplit(url)
    return parts._replace(netloc=parts.netloc.rpartition("@")[2]).geturl()


def shown_place(url: str) -> str:
    """Return where a server leads to, also without the query, which may be a signature."""
    place = url.partition("?")[0]
    try:
        return shown_url(place)
    except ValueError:  # an invalid URL
        return dump(place.rpartition("@")[2])


class Response:
    """The head of an answer; `read` takes the body and gives the connection back."""

    def __init__(self, route: Route, connection: Any, timeout: float, method: str) -> None:
        self._route, self._socket = route, connection
        self._pending = bytearray()  # received and not used
        self.status, self.headers, self._kept = self._head(time.monotonic() + timeout, timeout)
        self.length: int | None = None  # bytes of the body, None if the server doesn't say
        if method == "HEAD" or self.status in (204, 304):
            self.length = 0
        elif "chunked" not in self.headers.get("Transfer-Encoding", "").lower():
            told = self.headers.get("Content-Length", "")
            self.length = int(told) if told.isascii() and told.isdigit() and len(told) < 19 else None

    def _head(self, end: float, timeout: float) -> tuple[int, Headers, bool]:
        status = 100
        while 100 <= status < 200:  # an answer before the answer
            head = self._line(b"\r\n\r\n", _LARGEST_HEAD, end)
            first, *lines = head.decode("latin-1").split("\r\n")
            version, _, rest = first.partition(" ")
            if not version.startswith("HTTP/1.") or not rest[:3].isdecimal():
                raise NoAnswerError(f"this is not an answer of HTTP: {first[:80]!r}")
            status = int(rest[:3])
        headers = Headers()
        for line in lines:
            name, _, value = line.partition(":")
            name, value = name.strip().lower(), value.strip()
            headers[name] = f"{headers[name]}, {value}" if name in headers else value
        wish = headers.get("Connection", "").lower()
        return status, headers, "close" not in wish and (version != "HTTP/1.0" or "keep-alive" in wish)

    def _line(self, mark: bytes, most: int, end: float) -> bytes:
        """Take the bytes before `mark`, and the mark."""
        while (at := self._pending.find(mark)) < 0:
            if len(self._pending) > most:
                raise NoAnswerError(f"a line of the answer has more than {most} bytes")
            if time.monotonic() > end:
                raise NoAnswerError("Read timed out", timed_out=True)
            self._more()
        found = bytes(self._pending[:at])
        del self._pending[: at + len(mark)]
        return found

    def _more(self) -> None:
        piece = self._socket.recv(_PIECE)
        if not piece:
            raise NoAnswerError("the server closed the connection before the answer was complete")
        self._pending += piece

    def read(self, most: int, end: float) -> tuple[Buffer, bool]:
        """Return the body or its first `most` bytes, and whether that is all; TimeoutError after `end`."""
        if self.length is not None and self.length <= most:
            value = self._known(self.length, end)
            complete = True
        else:
            value, complete = self._unknown(most, end)
        if complete and self._kept and not self._pending and (self.length is not None or self._chunked):
            _keep(self._route, self._socket)
        else:
            self.close()
        return value, complete

    @property
    def _chunked(self) -> bool:
        return "chunked" in self.headers.get("Transfer-Encoding", "").lower()

    def _known(self, length: int, end: float) -> Buffer:
        got = len(self._pending)
        if got >= length:
            value = bytes(self._pending[:length])
            del self._pending[:length]
            return value
        out = bytearray(length)
        out[:got] = self._pending
        self._pending.clear()
        view = memoryview(out)
        while got < length:
            n = self._socket.recv_into(view[got:], min(length - got, _PIECE))
            if not n:
                raise NoAnswerError(f"the answer broke off after {got} of {length} bytes")
            got += n
            if got < length:
                _check_time(end)
        return view.toreadonly()

    def _unknown(self, most: int, end: float) -> tuple[Buffer, bool]:
        """Return a body whose length is told in pieces, by its end, or is larger than `most`."""
        out = bytearray()
        while len(out) <= most:
            _check_time(end)
            if self._chunked:
                size = self._line(b"\r\n", 1 << 12, end).partition(b";")[0].strip()
                try:
                    n = int(size, 16)
                except ValueError:
                    raise NoAnswerError(f"a chunk of the answer has the size {size[:20]!r}") from None
                while len(self._pending) < n + 2 and len(out) + len(self._pending) <= most:
                    self._more()
                    _check_time(end)
                if n == 0:
                    while self._pending[:2] != b"\r\n":  # trailers
                        self._line(b"\r\n", 1 << 12, end)
                    del self._pending[:2]
                    return bytes(out), True
                out += self._pending[:n]
                del self._pending[: n + 2]
            elif self._pending:
                out += self._pending
                self._pending.clear()
            else:
                piece = self._socket.recv(_PIECE)
                if not piece and self.length is not None:
                    raise NoAnswerError(f"the answer broke off after {len(out)} of {self.length} bytes")
                if not piece:
                    return bytes(out), True
                self._pending += piece
        return bytes(out[:most]), False

    def close(self) -> None:
        """Close the connection: the rest of the answer must not be read as another's."""
        self._socket.close()


def _check_time(end: float) -> None:
    if time.monotonic() > end:
        raise TimeoutError


def exchange(
    route: Route,
    method: str,
    url: str,
    headers: Iterable[tuple[str, str]],
    body: Buffer | None,
    connect_timeout: float,
    timeout: float,
) -> Response:
    """Send a request and return its answer, with the body unread.

    Raises NoAnswerError, OSError if the connection breaks, ValueError for an invalid URL or header, and
    StorageError for a certificate that isn't trusted.
    """
    parts = urlsplit(url)
    target = quote(parts._replace(scheme="", netloc="", fragment="").geturl() or "/", safe=_PRINTABLE)
    target = target if target.startswith("/") else f"/{target}"
    lines = [("Host", host_of(url)), *headers]
    if route.proxy and route.scheme == "http":
        target = f"http://{host_of(url)}{target}"
        lines += _proxy_headers(route.proxy)
    view = memoryview(body or b"").cast("B")
    if body is not None:
        lines.append(("Content-Length", str(len(view))))
    head = f"{method} {target} HTTP/1.1\r\n" + "".join(f"{name}: {value}\r\n" for name, value in lines)
    if head.count("\r\n") != len(lines) + 1 or head.count("\n") != len(lines) + 1 or "\0" in head:
        raise ValueError("a header has a line break or a control character")
    sent = head.encode("latin-1") + b"\r\n"
    connection = _idle(route) or _connected(route, connect_timeout)
    try:
        connection.settimeout(timeout)
        try:
            if len(view) <= _PIECE:
                connection.sendall(sent + bytes(view))
            else:
                connection.sendall(sent)
                for start in range(0, len(view), _SENT_AT_ONCE):
                    connection.sendall(view[start : start + _SENT_AT_ONCE])
        except (BrokenPipeError, ConnectionResetError):
            if not view:
                raise
            # The server may have refused the value before it had all of it.
        return Response(route, connection, timeout, method)
    except BaseException:  # an interrupt too
        connection.close()
        raise


# -- connections --------------------------------------------------------------------------------------

_idle_connections: dict[tuple[int, Route], deque[tuple[float, Any]]] = {}


@atexit.register
def _close_idle() -> None:
    for kept in _idle_connections.values():
        for _, connection in kept:
            connection.close()


def _keep(route: Route, connection: Any) -> None:
    kept = _idle_connections.setdefault((os.getpid(), route), deque())
    if len(kept) >= _MOST_IDLE:
        connection.close()
    else:
        kept.append((time.monotonic(), connection))


def _idle(route: Route) -> Any | None:
    """Return an idle open connection, None if there is none; a fork never uses its parent's."""
    kept = _idle_connections.get((os.getpid(), route))
    while kept:
        try:
            since, connection = kept.pop()
        except IndexError:  # another thread took it
            return None
        if time.monotonic() - since < _IDLE_SECONDS and not _readable(connection):
            return connection
        connection.close()
    return None


def _readable(connection: Any) -> bool:
    """Return True if an idle connection has something to read: its end."""
    if not hasattr(select, "poll"):
        return bool(select.select([connection], [], [], 0)[0])
    waiting = select.poll()
    waiting.register(connection, select.POLLIN)
    return bool(waiting.poll(0))


def _connected(route: Route, timeout: float) -> Any:
    place = urlsplit(route.proxy) if route.proxy else None
    if place is not None and place.scheme not in _PORTS:
        raise UnsupportedError(
            f"The proxy {shown_url(route.proxy)} of the environment can't be used: "
            "expected the scheme http or https"
        )
    address = (route.host, route.port)
    if place is not None:
        address = (place.hostname or "", place.port or _PORTS[place.scheme])
    try:
        connection: Any = socket.create_connection(address, timeout)
    except (OSError, UnicodeError) as e:
        why = str(e) or type(e).__name__
        if place is not None:
            why = f"the proxy {shown_url(route.proxy)} of the environment does not answer: {why}"
        late = isinstance(e, TimeoutError)
        raise NoAnswerError(why, connected=False, timed_out=late and place is None) from e
    try:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if place is not None and place.scheme == "https":
            connection = _context(route.certificates).wrap_socket(connection, server_hostname=place.hostname)
        if place is not None and route.scheme == "https":
            _tunnel(route, connection, timeout)
        return _encrypted(route, connection) if route.scheme == "https" else connection
    except ssl.SSLError as e:
        connection.close()
        if isinstance(e, ssl.SSLCertVerificationError):
            raise StorageError(f"{e.verify_message}; {certificate_advice()}") from e
        raise NoAnswerError(str(e), connected=False) from e
    except OSError as e:
        connection.close()
        late = isinstance(e, TimeoutError)
        raise NoAnswerError(str(e) or type(e).__name__, connected=False, timed_out=late) from e
    except BaseException:
        connection.close()
        raise


def _encrypted(route: Route, connection: Any) -> Any:
    context = _context(route.certificates)
    if isinstance(connection, ssl.SSLSocket):  # through a proxy that is itself reached by TLS
        from urllib3.util.ssltransport import SSLTransport

        return SSLTransport(connection, context, server_hostname=route.host)
    return context.wrap_socket(connection, server_hostname=route.host)


def _tunnel(route: Route, connection: Any, timeout: float) -> None:
    """Ask a proxy to pass on bytes to a server."""
    host = f"[{route.host}]" if ":" in route.host else route.host
    lines = [f"CONNECT {host}:{route.port} HTTP/1.1", f"Host: {host}:{route.port}"]
    lines += [f"{name}: {value}" for name, value in _proxy_headers(route.proxy)]
    connection.sendall("\r\n".join([*lines, "", ""]).encode("latin-1"))
    status = Response(route, connection, timeout, "HEAD").status
    if status >= 300:
        raise NoAnswerError(
            f"the proxy {shown_url(route.proxy)} of the environment answers with HTTP status {status}",
            connected=False,
        )


def _proxy_headers(proxy: str) -> list[tuple[str, str]]:
    user, at, _ = urlsplit(proxy).netloc.rpartition("@")
    token = b64encode(unquote(user).encode()).decode()
    return [("Proxy-Authorization", f"Basic {token}")] if at else []


@cache
def _context(certificates: tuple[str, ...]) -> ssl.SSLContext:
    return _verifying_context(certificates)
