"""Requests over HTTP, with limits on what a server may do, one rule for redirects, and the values in answers.

A header that may contain a credential is never sent to a different server, and never stored in a pickle or a
spec.

Only `chunkwise.core.kvstore.request_limits.Attempts` repeats requests.  The redirects of a web server are
followed, with harmless headers only if they lead to another origin.  Those of a bucket never are, since a
request is signed for one server.
"""

from __future__ import annotations

import os
import re
import socket
import time
import zlib
from collections.abc import Iterable, Mapping
from functools import cache
from ipaddress import IPv6Address, ip_address
from typing import NamedTuple
from urllib.parse import urljoin, urlsplit
from urllib.request import getproxies, proxy_bypass

from chunkwise.core.base.binding import dump
from chunkwise.core.base.limits import largest_value
from chunkwise.core.kvstore.protocol import Buffer
from chunkwise.core.kvstore.request_limits import ANSWER_TIMEOUT, Coalescing, Retries
from chunkwise.core.kvstore.value import PageInsteadError, check_size, resolve_range
from chunkwise.core.kvstore.web.connection import (
    NoAnswerError,
    Response,
    Route,
    certificate_places,
    exchange,
    host_of,
    shown_place,
    shown_url,
)
from chunkwise.errors import ChunkwiseError, DeadlineExceededError, StorageError, UnavailableError, prefix

__all__ = [
    "CONTENT_RANGE",
    "Answer",
    "Bounds",
    "NoAnswerError",
    "cut",
    "decoded",
    "digits_in",
    "is_public_header",
    "link_local_address",
    "range_header",
    "send",
]

_PUBLIC = frozenset(
    (
        *("accept", "accept-charset", "accept-encoding", "accept-language", "cache-control", "pragma"),
        *("if-match", "if-modified-since", "if-none-match", "if-unmodified-since", "range", "user-agent"),
    )
)


def is_public_header(name: str) -> bool:
    """Return True for a header that is known to contain no credential."""
    return name.lower() in _PUBLIC


_DIGITS = re.compile("[0-9]{1,18}")
_MOST_REDIRECTS = 10  # as docs/remote.md says
_PROXIES = [
    name
    for lower in ("http_proxy", "https_proxy", "all_proxy", "no_proxy")
    for name in (lower, lower.upper())
]
REDIRECTS = (301, 302, 303, 307, 308)
_LARGEST_MESSAGE = 1 << 16  # bytes of an error text; beyond that, the connection is closed
# A part may come with bytes around it, but not more than would be read to join two parts.
_SLACK = Coalescing().gap


class Bounds(NamedTuple):
    """Limits for an answer."""

    largest: int = 1 << 30  # bytes of an answer without a length, see docs/remote.md
    seconds: float = ANSWER_TIMEOUT  # most seconds for the body of an answer


_BOUNDS = Bounds()


class Answer(NamedTuple):
    """An answer, read to its end."""

    status: int
    headers: Mapping[str, str]  # names are case-insensitive
    body: Buffer  # bytes if it isn't a value
    url: str  # after redirects


def send(
    method: str,
    url: str,
    headers: Iterable[tuple[str, str]],
    retries: Retries,
    bounds: Bounds = _BOUNDS,
    part: int | None = None,
    *,
    body: Buffer | None = None,
    redirects: int = _MOST_REDIRECTS,
    proxies: bool = True,
) -> Answer:
    """Make a request once and return the answer, whatever its status; follow at most `redirects`."""
    # Only public headers follow a redirect to another scheme, host or port.  `part` is the number of bytes
    # requested.  Without `redirects`, an answer that is one is returned.
    sent, there, shown = list(headers), url, shown_url(url)
    for _ in range(redirects + 1):
        answer = _exchange(method, there, shown, sent, retries, bounds, part, body, proxies)
        location = answer.headers.get("Location")
        if answer.status not in REDIRECTS or location is None or not redirects:
            return answer
        before = there
        try:
            there = urljoin(before, location)
            shown = shown_place(there)
            refusal = _refusal(before, there)
            same = _origin(there) == _origin(before)
        except ValueError as e:
            raise StorageError(f"Failed to read {url}: redirected to {shown_place(location)}, {e}") from e
        if refusal:
            raise StorageError(f"Failed to read {url}: redirected to {shown}, {refusal}")
        if not same:
            sent = [(name, value) for name, value in sent if is_public_header(name)]
    raise StorageError(f"Failed to read {url}: more than {_MOST_REDIRECTS} redirects, the last to {shown}")


def digits_in(text: str) -> int | None:
    """Return a header's number, in ASCII digits and at most 64 bits; None for anything else."""
    return int(text) if _DIGITS.fullmatch(text) else None


def _origin(url: str) -> tuple[str, str, int]:
    parts = urlsplit(url)
    return parts.scheme, parts.hostname or "", parts.port or (443 if parts.scheme == "https" else 80)


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
    method: str,
    url: str,
    shown: str,
    headers: Iterable[tuple[str, str]],
    retries: Retries,
    bounds: Bounds,
    part: int | None,
    body: Buffer | None,
    proxies: bool,
) -> Answer:
    try:
        route = _route(url, proxies)
        response = exchange(
            route, method, url, headers, body, retries.connect_timeout, retries.request_timeout
        )
        try:
            found = _body(response, shown, bounds, part, retries)
        except BaseException:  # an interrupt too
            response.close()
            raise
    except StorageError as e:
        raise (e if shown in str(e) else prefix(e, f"Failed to read {shown}")) from e
    except (ChunkwiseError, NoAnswerError):
        raise
    except ValueError as e:  # an invalid URL or header
        raise StorageError(f"Failed to read {shown}: {e}") from e
    except TimeoutError as e:
        raise NoAnswerError("Read timed out", timed_out=True) from e
    except OSError as e:
        raise NoAnswerError(str(e) or type(e).__name__) from e
    return Answer(response.status, response.headers, found, shown)


def _route(url: str, proxies: bool) -> Route:
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise ValueError("expected a URL of http or https with a host")
    place = host_of(url)
    proxy = _proxy(parts.scheme, place, tuple(map(os.environ.get, _PROXIES))) if proxies else ""
    port = parts.port or (443 if parts.scheme == "https" else 80)
    host = urlsplit(f"//{place}").hostname or ""
    encrypted = parts.scheme == "https" or proxy.startswith("https:")
    return Route(parts.scheme, host, port, proxy, certificate_places() if encrypted else ())


def _body(response: Response, shown: str, bounds: Bounds, part: int | None, retries: Retries) -> Buffer:
    """Return the body; for an error, only its beginning."""
    has_value = response.status in (200, 206)
    seconds = bounds.seconds if has_value else min(bounds.seconds, retries.request_timeout)
    if not has_value:
        most = _LARGEST_MESSAGE
    elif response.status == 206 and part is not None:
        most = part + _SLACK
    else:
        if response.length is not None:
            check_size(response.length, shown, stop=part)
        most = bounds.largest if response.length is None else response.length
        most = min(most, largest_value()) if part is None else most
    end = time.monotonic() + seconds
    try:
        found, complete = response.read(most, end)
    except TimeoutError as e:
        if time.monotonic() < end:  # silence
            raise
        raise DeadlineExceededError(
            f"Failed to read {shown}: the answer did not end within {seconds:g} s"
        ) from e
    if has_value and not complete:
        raise StorageError(f"Failed to read {shown}: the server sends more than {most} bytes")
    return found if has_value else bytes(found)


@cache
def _proxy(scheme: str, place: str, environment: tuple[str | None, ...]) -> str:
    """Return the proxy that the `environment` names for a server, empty for none."""
    found = getproxies()
    proxy = found.get(scheme) or found.get("all")
    if not proxy or proxy_bypass(place):
        return ""
    return proxy if "://" in proxy else f"http://{proxy}"


CONTENT_RANGE = re.compile(r"bytes (?:([0-9]{1,18})-([0-9]{1,18})|\*)/([0-9]{1,18})")
_PAGE = re.compile(rb"\s*(?:<!--.*?-->\s*)*<(?:!doctype html|html)\b", re.IGNORECASE | re.DOTALL)
_TITLE = re.compile(rb"<title>([^<]*)</title>", re.IGNORECASE)


def range_header(start: int, stop: int | None) -> str:
    """Return the header ``Range``; negative numbers count from the end."""
    if start < 0:
        return f"bytes={start}"
    if stop is None:
        return f"bytes={start}-"
    return f"bytes={start}-{max(stop - 1, start)}"  # empty ranges can't be expressed: one byte is dropped


def cut(answer: Answer, start: int, stop: int | None) -> tuple[Buffer, int]:
    """Return the requested bytes of an answer with status 206, and the size of the whole value."""
    found = CONTENT_RANGE.fullmatch(answer.headers.get("Content-Range", ""))
    # An empty part may be told as ``bytes 5-4/5``.
    if found is None or found[1] is None or not int(found[1]) - 1 <= int(found[2]) < int(found[3]):
        raise UnavailableError(
            f"Failed to read {answer.url}: HTTP status 206 without a valid Content-Range: "
            f"{answer.headers.get('Content-Range')!r}"
        )
    first, last, size = map(int, found.groups())
    begin, end = resolve_range(start, stop, size)
    value = memoryview(answer.body)[begin - first : end - first]
    if begin < first or len(value) != end - begin or len(answer.body) != last + 1 - first:
        raise UnavailableError(
            f"Failed to read {answer.url}: the server sent bytes {found[1]}-{found[2]}, "
            f"expected {begin}-{end - 1}"
        )
    return value, size


def decoded(answer: Answer, key: str, largest: int) -> Answer:
    """Return an answer with the decoded value; raise if the server has sent something else."""
    coding = answer.headers.get("Content-Encoding", "identity").strip().lower()
    if answer.status not in (200, 206) or not answer.body:
        return answer
    if coding not in ("identity", ""):
        body = _unzipped(answer.body, largest) if answer.status == 200 else None
        if coding not in ("gzip", "x-gzip") or body is None:
            what = "a part of " if answer.status == 206 else ""
            raise StorageError(
                f"Failed to read {answer.url}: the server sent {what}the value in Content-Encoding "
                f"{dump(coding)}, though it was asked for the value as it is"
            )
        answer = answer._replace(body=body)
    is_page = answer.headers.get("Content-Type", "").lower().startswith("text/html")
    if is_page and not key.endswith((".html", ".htm")) and _PAGE.match(answer.body):
        title = _TITLE.search(bytes(answer.body[:20_000]))
        shown = "" if title is None else f" {dump(title[1].decode('utf-8', 'replace').strip()[:80])}"
        raise PageInsteadError(
            f"Failed to read {answer.url}: the server sent an HTML page{shown} with status "
            f"{answer.status} in place of the value, such as a login or error page; check the URL, "
            "and whether it has to be signed in to"
        )
    return answer


def _unzipped(body: Buffer, most: int) -> bytes | None:
    """Return the content of a gzip stream; None for other data, or content longer than `most`."""
    unzip = zlib.decompressobj(zlib.MAX_WBITS | 16)
    try:
        out = unzip.decompress(body, most)
    except zlib.error:
        return None
    return out if unzip.eof and not unzip.unused_data else None
