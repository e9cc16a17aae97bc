"""Signatures of requests to S3: version 4 of AWS's, over the headers that S3 requires."""

from __future__ import annotations

import hashlib
import hmac
import time
from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple
from urllib.parse import quote, urlsplit

from chunkwise.core.kvstore.http_connection import host_of
from chunkwise.core.kvstore.protocol import Buffer

__all__ = ["Keys", "aws_domain", "aws_quote", "query_of", "signed_by_aws"]

_EMPTY = hashlib.sha256().hexdigest()


class Keys(NamedTuple):
    """An access key, its secret, and the token of the session, empty for lasting keys."""

    access_key: str
    secret: str
    token: str = ""

    def __repr__(self) -> str:
        return f"Keys({self.access_key!r})"


def aws_domain(region: str) -> str:
    """Return the domain of the services in a region."""
    return "amazonaws.com.cn" if region.startswith("cn-") else "amazonaws.com"


def aws_quote(text: str) -> str:
    """Return text quoted as signatures require it; "/" is kept."""
    return quote(text, safe="/-_.~")


def query_of(parameters: Sequence[tuple[str, str | None]]) -> str:
    """Return the query of a URL, in the order of the signature; None stands for a name without a value."""
    quoted = sorted((quote(k, safe="-_.~"), v if v is None else quote(v, safe="-_.~")) for k, v in parameters)
    return "&".join(name if value is None else f"{name}={value}" for name, value in quoted)


def signed_by_aws(
    method: str,
    url: str,
    headers: Sequence[tuple[str, str]],
    body: Buffer | None,
    keys: Keys,
    region: str,
) -> list[tuple[str, str]]:
    """Return the headers of a request with its signature; `url` is quoted by `aws_quote` and `query_of`."""
    now = time.strftime("%Y%m%dT%H%M%SZ", time.gmtime())
    digest = _EMPTY if not body else hashlib.sha256(body).hexdigest()
    own = [("x-amz-content-sha256", digest), ("x-amz-date", now)]
    if keys.token:
        own.append(("x-amz-security-token", keys.token))
    sent = [*headers, *own]
    signed = {"host": host_of(url)}
    signed.update((k.lower(), v.strip()) for k, v in sent if k.lower().startswith(("x-amz-", "content-md5")))
    names = ";".join(sorted(signed))
    parts = urlsplit(url)
    query = "&".join(part if "=" in part else f"{part}=" for part in parts.query.split("&") if part)
    canonical = "\n".join(
        (
            *(method, parts.path or "/", query),
            *(f"{name}:{signed[name]}" for name in sorted(signed)),
            *("", names, digest),
        )
    )
    scope = f"{now[:8]}/{region}/s3/aws4_request"
    text = "\n".join(("AWS4-HMAC-SHA256", now, scope, hashlib.sha256(canonical.encode()).hexdigest()))
    signature = hmac.digest(_signing_key(keys.secret, now[:8], region), text.encode(), "sha256").hex()
    credential = f"Credential={keys.access_key}/{scope}, SignedHeaders={names}, Signature={signature}"
    return [*sent, ("Authorization", f"AWS4-HMAC-SHA256 {credential}")]


@lru_cache(maxsize=64)
def _signing_key(secret: str, day: str, region: str) -> bytes:
    key = f"AWS4{secret}".encode()
    for part in (day, region, "s3", "aws4_request"):
        key = hmac.digest(key, part.encode(), "sha256")
    return key
