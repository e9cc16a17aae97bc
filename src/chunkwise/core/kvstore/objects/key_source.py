"""Credentials for object stores are kept until they expire or are refused, and then looked for again.

Services are asked directly, never through a proxy, and their redirects are not followed.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping
from typing import Any, Generic, NamedTuple, TypeVar
from urllib.parse import urlencode

from chunkwise.core.base.threads import new_lock
from chunkwise.core.kvstore.objects.bucket import Provider
from chunkwise.core.kvstore.request_limits import Retries
from chunkwise.core.kvstore.web.request import Answer, NoAnswerError, send
from chunkwise.errors import ChunkwiseError, CredentialsError

__all__ = [
    "KeySource",
    "Lease",
    "answered_json",
    "ask_service",
    "post_form",
    "provided",
    "read_secret",
    "token_lease",
]

K = TypeVar("K")

_MARGIN = 60.0  # seconds before keys expire in which others are looked for
_TIMES = 3  # a service is asked, if it fails
_PATIENCE = Retries(max_retries=0, request_timeout=5.0)


class Lease(NamedTuple, Generic[K]):
    """Credentials, and the time at which they expire."""

    keys: K
    until: float | None = None  # seconds since 1970; None for keys that last


class KeySource(Generic[K]):
    """Credentials from `fetch`, which is told whether the last ones were refused."""

    def __init__(self, fetch: Callable[[bool], Lease[K]]) -> None:
        self._fetch = fetch
        self._lease: Lease[K] | None = None
        self._lock = new_lock()

    def keys(self) -> K:
        """Return keys that are valid now."""
        lease = self._lease
        if lease is None or (lease.until is not None and lease.until - _MARGIN < time.time()):
            with self._lock:
                if self._lease is lease:
                    self._lease = self._fetch(False)
                lease = self._lease
        assert lease is not None
        return lease.keys

    def renewed(self, refused: K) -> bool:
        """Look for keys in place of refused ones; return True if there are any."""
        with self._lock:
            if self._lease is None or self._lease.keys == refused:
                self._lease = self._fetch(True)
            return self._lease.keys != refused


def ask_service(
    method: str,
    url: str,
    headers: list[tuple[str, str]],
    body: bytes | None = None,
    *,
    proxies: bool = False,
) -> Answer:
    """Return the answer of a service with status 200."""
    why = ""
    for n in range(_TIMES):
        if n:
            time.sleep(0.1 * 2**n)
        sent = [("User-Agent", "chunkwise"), *headers]
        body = b"" if method == "PUT" else body
        try:
            answer = send(method, url, sent, _PATIENCE, body=body, redirects=0, proxies=proxies)
        except NoAnswerError as e:
            why = str(e)
            continue
        except ChunkwiseError as e:
            raise CredentialsError(f"No credentials: {e}") from e
        if answer.status == 200:
            return answer
        why = f"HTTP status {answer.status}"
        if answer.status < 500:
            break
    raise CredentialsError(f"No credentials: {url}: {why}")


def post_form(url: str, members: Mapping[str, str]) -> Answer:
    """Send a form to a service that gives credentials, through the environment's proxy."""
    headers = [("Content-Type", "application/x-www-form-urlencoded")]
    return ask_service("POST", url, headers, urlencode(members).encode(), proxies=True)


def read_secret(path: str) -> str:
    """Return the text of a file; raise CredentialsError if it can't be read."""
    try:
        with open(path, encoding="utf-8") as file:
            return file.read()
    except (OSError, UnicodeDecodeError) as e:
        raise CredentialsError(f"No credentials: {e}") from e


def provided(provider: Provider, keys_in: Callable[[Mapping[str, Any]], K]) -> KeySource[K]:
    """Return a source of what a provider returns, whose keys are taken by a function."""

    def fetch(refused: bool) -> Lease[K]:
        found = provider()
        until = found.get("expires_at")
        return Lease(keys_in(found), None if until is None else float(until.timestamp()))

    return KeySource(fetch)


def answered_json(answer: Answer) -> dict[str, Any]:
    """Return the JSON object that a service has answered with."""
    try:
        found = json.loads(bytes(answer.body))
    except ValueError:
        found = None
    if not isinstance(found, dict):
        raise CredentialsError(f"No credentials: {answer.url}: expected a JSON object")
    return found


def token_lease(answer: Answer) -> Lease[str]:
    """Return the bearer token that a service has answered with."""
    found = answered_json(answer)
    try:
        lasts, until = found.get("expires_in"), found.get("expires_on")
        end = time.time() + float(lasts) if lasts is not None else float(until)  # type: ignore[arg-type]
        if not isinstance(token := found["access_token"], str):
            raise TypeError("access_token is not text")
        return Lease(token, end)
    except (KeyError, ValueError, TypeError) as e:
        raise CredentialsError(f"No credentials: {answer.url}: the answer has no token: {e!r}") from e
