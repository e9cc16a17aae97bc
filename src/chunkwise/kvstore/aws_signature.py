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

from chunkwise.kvstore.aws_credentials import Keys, Provider

__all__ = ["Signer"]

_EMPTY = hashlib.sha256(b"").hexdigest()
# New keys are asked for this long before the present ones end, so that none ends on the way.
_MARGIN = timedelta(seconds=60)


class Signer:
    """Signs requests to one region in the name of whom `provider` gives keys of.

    Parameters
    ----------
    provider : callable
    region : str
    """

    def __init__(self, provider: Provider, region: str) -> None:
        self._provider = provider
        self._region = region
        self._keys: Keys | None = None
        self._signing_key = ("", "", b"")
        self._lock = threading.Lock()

    def forget(self) -> None:
        """Ask for keys anew with the next request."""
        self._keys = None

    def headers(self, method: str, host: str, path: str, more: Mapping[str, str]) -> dict[str, str]:
        """Return the headers that sign a request, `more` among them.

        Parameters
        ----------
        method, host : str
        path : str
            As it is sent: percent-encoded, without a query.
        more : mapping
            Headers that S3 wants signed, with names in lower case that begin with ``x-amz-``.
        """
        keys = self._current()
        now = time.strftime("%Y%m%dT%H%M%SZ", time.gmtime())
        day = now[:8]
        signed = {"host": host, "x-amz-content-sha256": _EMPTY, "x-amz-date": now, **more}
        if keys.token:
            signed["x-amz-security-token"] = keys.token
        names = sorted(signed)
        lines = "".join(f"{name}:{signed[name]}\n" for name in names)
        canonical = f"{method}\n{path}\n\n{lines}\n{';'.join(names)}\n{_EMPTY}"
        scope = f"{day}/{self._region}/s3/aws4_request"
        text = f"AWS4-HMAC-SHA256\n{now}\n{scope}\n{hashlib.sha256(canonical.encode()).hexdigest()}"
        signature = _hmac(self._key_of(day, keys.secret_access_key), text).hex()
        signed["authorization"] = (
            f"AWS4-HMAC-SHA256 Credential={keys.access_key_id}/{scope}, "
            f"SignedHeaders={';'.join(names)}, Signature={signature}"
        )
        return signed

    def _current(self) -> Keys:
        keys = self._keys
        if keys is None or _ends_soon(keys):
            with self._lock:
                keys = self._keys
                if keys is None or _ends_soon(keys):
                    keys = self._keys = Keys(**self._provider())
        return keys

    def _key_of(self, day: str, secret: str) -> bytes:
        known = self._signing_key
        if known[:2] == (day, secret):
            return known[2]
        key = f"AWS4{secret}".encode()
        for part in (day, self._region, "s3", "aws4_request"):
            key = _hmac(key, part)
        self._signing_key = (day, secret, key)
        return key


def _ends_soon(keys: Keys) -> bool:
    ends = keys.expires_at
    if ends is None:
        return False
    if ends.tzinfo is None:
        ends = ends.replace(tzinfo=UTC)
    return ends - _MARGIN < datetime.now(UTC)


def _hmac(key: bytes, text: str) -> bytes:
    return hmac.digest(key, text.encode(), "sha256")
