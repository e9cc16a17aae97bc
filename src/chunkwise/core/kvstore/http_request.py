"""Requests over HTTP by urllib3, with limits on what a server may do.

urllib3 keeps connections open and supports proxies.  Redirects are followed here, since some must be refused,
and only `chunkwise.core.kvstore.request_limits.Attempts` repeats requests.
"""

from __future__ import annotations

import os
import re
import socket
import time
from collections.abc import Iterable, Mapping
from functools import cache
from ipaddress import IPv6Address, ip_address
from typing import Any, NamedTuple
from urllib.parse import unquote, urljoin, urlsplit
from urllib.request import getproxies, proxy_bypass

from urllib3 import HTTPHeaderDict, PoolManager, ProxyManager, Timeout, make_headers
from urllib3 import exceptions as failures

from chunkwise.core.kvstore.certificates import ADVICE, certificate_places, verifying_context
from chunkwise.core.kvstore.public_headers import is_public_header
from chunkwise.core.kvstore.request_limits import ANSWER_TIMEOUT, DEFAULT_CONCURRENCY, Coalescing, Retries
from chunkwise.core.kvstore.value_bound import check_size, largest_value
from chunkwise.errors import ChunkwiseError, DeadlineExceededError, StorageError, UnsupportedError

__all__ = ["Answer", "Bounds", "NoAnswerError", "digits_in", "link_local_address", "send"]

_DIGITS = re.compile("[0-9]{1,18}")
_MOST_REDIRECTS = 10  # as docs/remote.md says
_REDIRECTS = (301, 302, 303, 307, 308)
_MOST_CONNECTIONS = 4 * DEFAULT_CONCURRENCY  # open connections for each server, for higher request limits
# Bytes to receive before the next check of time and size: 64 MiB take 65 ms of processor time, as with larger
# pieces; 80 ms with 64 KiB, 100 ms with 16 KiB.
_PIECE = 1 << 18
_LARGEST_MESSAGE = 1 << 16  # bytes of an error text; beyond that, the connection is closed
# A part may come with bytes around it, but not more than would be read to join two parts.
_SLACK = Coalescing().gap
_NOT_CONNECTED = (
    failures.NewConnectionError,
    failures.ConnectTimeoutError,
    failures.ProxyError,
    failures.SSLError,
)


class Bounds(NamedTuple):
    """Limits for an answer."""

    largest: int = 1 << 30  # bytes of an answer without a length, see docs/remote.md
    seconds: float = ANSWER_TIMEOUT  # most seconds for the body of an answer


class Answer(NamedTuple):
    """An answer, read to its end."""

    status: int
    headers: Mapping[str, str]  # names are case-insensitive
    body: bytes
    url: str  # after redirects


class NoAnswerError(Exception):
    """No answer came, or it broke off; the request may be repeated."""

    def __init__(self, why: str, *, connected: bool = True, timed_out: bool = False) -> None:
        super().__init__(why)
        self.connected = connected  # there was a connection to the server
        self.timed_out = timed_out


def send(
    method: str,
    url: str,
    headers: Iterable[tuple[str, str]],
    retries: Retries,
    bounds: Bounds,
    part: int | None = None,
) -> Answer:
    """Make a request once and return the answer, whatever its status; follow redirects."""
    # Only public headers follow a redirect to another scheme, host or port.  `part` is the number of bytes
    # requested.
    sent, there = HTTPHeaderDict(list(headers)), url
    for _ in range(_MOST_REDIRECTS + 1):
        answer = _exchange(method, there, sent, retries, bounds, part)
        location = answer.headers.get("Location")
        if answer.status not in _REDIRECTS or location is None:
            return answer
        before = there
        try:
            there = urljoin(before, location)
            refusal = _refusal(before, there)
        except ValueError as e:
            raise StorageError(f"Failed to read {url}: redirected to {location!r}, {e}") from e
        if refusal:
            raise StorageError(f"Failed to read {url}: redirected to {_shown(there)}, {refusal}")
        if _origin(there) != _origin(before):
            sent = HTTPHeaderDict([(k, v) for k, v in sent.items() if is_public_header(k)])
    raise StorageError(
        f"Failed to read {url}: more than {_MOST_REDIRECTS} redirects, the last to {_shown(there)}"
    )


def digits_in(text: str) -> int | None:
    """Return a header's number, in ASCII digits and at most 64 bits; None for anything else."""
    return int(text) if _DIGITS.fullmatch(text) else None


def _origin(url: str) -> tuple[str, str, int]:
    parts = urlsplit(url)
    return parts.scheme, parts.hostname or "", parts.port or (443 if parts.scheme == "https" else 80)


def _shown(url: str) -> str:
    parts = urlsplit(url)
    return parts._replace(netloc=parts.netloc.rpartition("@")[2]).geturl()


def _refusal(before: str, there: str) -> str:
    """Return the reason not to follow a redirect, empty if there is none."""
    old, new = urlsplit(before), urlsplit(there)
    if new.scheme not in ("http", "https") or (old.scheme, new.scheme) == ("https", "http"):
        return f"expected the scheme {old.scheme}" + (" or https" if old.scheme == "http" else "")
    address = link_local_address(new.hostname or "")
    return f"which is the link-local address {address}" if address else ""


def link_local_address(host: str) -> str:
    """Return the link-local address of a name, where clouds hand out credentials; empty if it has none."""
    try:
        found = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError):
        return ""  # the request will report the error, or a proxy knows the name
    for address in {str(entry[4][0]).partition("%")[0] for entry in found}:
        ip = ip_address(address)
        mapped = ip.ipv4_mapped if isinstance(ip, IPv6Address) else None
        if (mapped or ip).is_link_local:
            return address
    return ""


def _exchange(
    method: str, url: str, headers: HTTPHeaderDict, retries: Retries, bounds: Bounds, part: int | None
) -> Answer:
    try:
        parts = urlsplit(url)
        if not parts.netloc.isascii():
            url = parts._replace(netloc=parts.netloc.encode("idna").decode()).geturl()
        proxy = _proxy(parts.scheme, parts.netloc.rpartition("@")[2])
        response = _manager(os.getpid(), proxy, certificate_places()).urlopen(
            method,
            url,
            redirect=False,
            headers=headers,
            retries=False,
            timeout=Timeout(connect=retries.connect_timeout, read=retries.request_timeout),
            preload_content=False,
            decode_content=False,
        )
        try:
            body = _body(response, url, bounds, part)
        except BaseException:  # an interrupt too: the rest of the answer must not be read as another's
            response.close()
            raise
    except ChunkwiseError:  # some are OSErrors
        raise
    except ValueError as e:  # an invalid URL or header
        raise StorageError(f"Failed to read {_shown(url)}: {e}") from e
    except (failures.HTTPError, OSError) as e:
        if "CERTIFICATE_VERIFY_FAILED" in str(e):
            raise StorageError(f"Failed to read {_shown(url)}: {e}; {ADVICE}") from e
        why = str(e) or type(e).__name__
        if isinstance(e, failures.ProxyError):
            why = f"the proxy {_shown(proxy)} of the environment does not answer: {e.original_error}"
        raise NoAnswerError(
            why,
            connected=not isinstance(e, _NOT_CONNECTED),
            # urllib3 counts refused connections as timeouts
            timed_out=isinstance(e, failures.TimeoutError) and not isinstance(e, failures.NewConnectionError),
        ) from e
    return Answer(response.status, response.headers, body, _shown(url))


def _body(response: Any, url: str, bounds: Bounds, part: int | None) -> bytes:
    """Return the body; for an error, only its beginning."""
    announced = digits_in(response.headers.get("Content-Length", ""))
    has_value = response.status in (200, 206)
    if not has_value:
        most = _LARGEST_MESSAGE
    elif response.status == 206 and part is not None:
        most = part + _SLACK
    else:
        if announced is not None:
            check_size(announced, _shown(url))
        most = min(bounds.largest, largest_value()) if announced is None else announced
    pieces, size, end = [], 0, time.monotonic() + bounds.seconds
    while piece := response.read1(_PIECE):
        pieces.append(piece)
        size += len(piece)
        if size > most and has_value:
            raise StorageError(f"Failed to read {_shown(url)}: the server sends more than {most} bytes")
        if size > most:
            response.close()
            break
        if time.monotonic() > end:
            raise DeadlineExceededError(
                f"Failed to read {_shown(url)}: the answer did not end within {bounds.seconds:g} s"
            )
    return b"".join(pieces)


@cache
def _manager(pid: int, proxy: str, certificates: tuple[str, ...]) -> PoolManager:
    """Return the connections of this process: a forked one never uses its parent's."""
    options: dict[str, Any] = {"maxsize": _MOST_CONNECTIONS, "ssl_context": verifying_context(certificates)}
    if not proxy:
        return PoolManager(**options)
    user, at, _ = urlsplit(proxy).netloc.rpartition("@")
    headers = make_headers(proxy_basic_auth=unquote(user)) if at else None
    try:
        return ProxyManager(proxy, proxy_headers=headers, **options)
    except failures.ProxySchemeUnknown as e:
        raise UnsupportedError(f"The proxy {_shown(proxy)} of the environment can't be used: {e}") from e


@cache
def _proxy(scheme: str, place: str) -> str:
    """Return the proxy that the environment names for a server, empty for none."""
    proxy = getproxies().get(scheme)
    if not proxy or proxy_bypass(place):
        return ""
    return proxy if "://" in proxy else f"http://{proxy}"
