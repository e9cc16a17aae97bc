"""Signatures of requests to S3 without a body.

Source: AWS, "Authenticating Requests: Using the Authorization Header (AWS Signature Version 4)".
"""

from __future__ import annotations

import hashlib
import hmac
import threading
import time
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import NamedTuple

from chunkwise.kvstore.aws_credentials import Keys, Provider

__all__ = ["Signer"]

_EMPTY = hashlib.sha256(b"").hexdigest()
# New keys are asked for this long before the present ones end, so that none ends on the way.
_MARGIN = timedelta(seconds=60)


class _Second(NamedTuple):
    """What the requests of one second have in common: text around what differs."""

    time: int
    canonical: str
    text: str
    key: bytes
    lines: str


class Signer:
    """Signs requests to one server in the name of whom `provider` gives keys of.

    Parameters
    ----------
    provider : callable
    region, host : str
    more : mapping
        Headers that each request has and S3 wants signed; their names begin with ``x-amz-``.
    """

    def __init__(self, provider: Provider, region: str, host: str, more: Mapping[str, str]) -> None:
        self._provider = provider
        self._region = region
        self._headers = {"host": host, **more}
        self._keys: Keys | None = None
        self._second: _Second | None = None
        self._lock = threading.Lock()

    def forget(self) -> None:
        """Ask for keys anew with the next request."""
        self._keys = self._second = None

    def lines(self, method: str, path: str) -> str:
        """Return the header lines of a request: ``host``, those that are to be signed, and the signature.

        Parameters
        ----------
        method : str
        path : str
            As it is sent: percent-encoded, without a query.
        """
        now = int(time.time())
        second = self._second
        if second is None or second.time != now:
            second = self._second = self._begin(now)
        canonical = hashlib.sha256(f"{method}\n{path}{second.canonical}".encode()).hexdigest()
        return f"{second.lines}{_hmac(second.key, second.text + canonical).hex()}\r\n"

    def _begin(self, now: int) -> _Second:
        keys = self._current()
        date = time.strftime("%Y%m%dT%H%M%SZ", time.gmtime(now))
        signed = {**self._headers, "x-amz-content-sha256": _EMPTY, "x-amz-date": date}
        if keys.token:
            signed["x-amz-security-token"] = keys.token
        names = sorted(signed)
        scope = [date[:8], self._region, "s3", "aws4_request"]
        key = f"AWS4{keys.secret_access_key}".encode()
        for part in scope:
            key = _hmac(key, part)
        lines = "".join(f"{name}:{signed[name]}\n" for name in names)
        place = "/".join(scope)
        return _Second(
            now,
            f"\n\n{lines}\n{';'.join(names)}\n{_EMPTY}",
            f"AWS4-HMAC-SHA256\n{date}\n{place}\n",
            key,
            lines.replace("\n", "\r\n")
            + f"authorization: AWS4-HMAC-SHA256 Credential={keys.access_key_id}/{place}, "
            f"SignedHeaders={';'.join(names)}, Signature=",
        )

    def _current(self) -> Keys:
        keys = self._keys
        if keys is None or _ends_soon(keys):
            with self._lock:
                keys = self._keys
                if keys is None or _ends_soon(keys):
                    keys = self._keys = Keys(**self._provider())
        return keys


def _ends_soon(keys: Keys) -> bool:
    ends = keys.expires_at
    if ends is None:
        return False
    if ends.tzinfo is None:
        ends = ends.replace(tzinfo=UTC)
    return ends - _MARGIN < datetime.now(UTC)


def _hmac(key: bytes, text: str) -> bytes:
    return hmac.digest(key, text.encode(), "sha256")
