"""Signatures of requests to S3.

Source: AWS, "Authenticating Requests: Using the Authorization Header (AWS Signature Version 4)".
"""

from __future__ import annotations

import hashlib
import hmac
import time
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import NamedTuple

from chunkwise.errors import CredentialsError
from chunkwise.fork import new_lock
from chunkwise.kvstore.aws_credentials import Keys, Provider

__all__ = ["EMPTY", "Signer"]

EMPTY = hashlib.sha256(b"").hexdigest()
# New keys are asked for this long before the present ones end, so that none ends on the way.
_MARGIN = timedelta(seconds=60)


class _Second(NamedTuple):
    """What the requests of one second have in common; in ``signed`` the content's hash is left out."""

    time: int
    signed: tuple[str, str]
    names: str
    text: str
    key: bytes
    authorization: str


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
        self._lock = new_lock()

    def forget(self) -> None:
        """Ask for keys anew with the next request."""
        self._keys = self._second = None

    def lines(self, method: str, path: str, content: str = EMPTY) -> str:
        """Return the header lines of a request: ``host``, those that are to be signed, and the signature.

        Parameters
        ----------
        method : str
        path : str
            As it is sent: percent-encoded, without a query.
        content : str
            SHA-256 of the body, in hexadecimal digits.

        Raises
        ------
        CredentialsError
            If there are no keys.
        """
        now = int(time.time())
        second = self._second
        if second is None or second.time != now:
            second = self._second = self._begin(now)
        signed = content.join(second.signed)
        canonical = f"{method}\n{path}\n\n{signed}\n{second.names}\n{content}"
        text = second.text + hashlib.sha256(canonical.encode()).hexdigest()
        lines = signed.replace("\n", "\r\n")
        return f"{lines}{second.authorization}{_hmac(second.key, text).hex()}\r\n"

    def _begin(self, now: int) -> _Second:
        keys = self._current()
        date = time.strftime("%Y%m%dT%H%M%SZ", time.gmtime(now))
        signed = {**self._headers, "x-amz-content-sha256": "\n", "x-amz-date": date}
        if keys.token:
            signed["x-amz-security-token"] = keys.token
        names = sorted(signed)
        scope = [date[:8], self._region, "s3", "aws4_request"]
        key = f"AWS4{keys.secret_access_key}".encode()
        for part in scope:
            key = _hmac(key, part)
        before, after = "".join(f"{name}:{signed[name]}\n" for name in names).split("\n\n")
        place = "/".join(scope)
        return _Second(
            now,
            (before, f"\n{after}"),
            ";".join(names),
            f"AWS4-HMAC-SHA256\n{date}\n{place}\n",
            key,
            f"authorization: AWS4-HMAC-SHA256 Credential={keys.access_key_id}/{place}, "
            f"SignedHeaders={';'.join(names)}, Signature=",
        )

    def _current(self) -> Keys:
        keys = self._keys
        if keys is None or _ends_soon(keys):
            with self._lock:
                keys = self._keys
                if keys is None or _ends_soon(keys):
                    try:
                        keys = self._keys = Keys(**self._provider())
                    except Exception as e:  # the provider may be another library's, with errors of its own
                        raise CredentialsError(f"no AWS credentials could be had: {e}") from e
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
