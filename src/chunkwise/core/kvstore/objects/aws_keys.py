"""Keys for S3: from the environment, from a container or an instance, for a web identity, from the caller.

Requests are signed with version 4 of AWS's signatures, over the headers that S3 requires.
"""

from __future__ import annotations

import hashlib
import hmac
import os
import time
from collections.abc import Mapping, Sequence
from datetime import datetime
from functools import lru_cache
from typing import Any, NamedTuple
from urllib.parse import quote, urlsplit
from xml.etree import ElementTree

from chunkwise.core.kvstore.objects.key_source import (
    Lease,
    answered_json,
    ask_service,
    post_form,
    read_secret,
)
from chunkwise.core.kvstore.protocol import Buffer
from chunkwise.core.kvstore.web.connection import host_of
from chunkwise.core.kvstore.web.request import Answer
from chunkwise.errors import CredentialsError

__all__ = [
    "Keys",
    "aws_domain",
    "aws_quote",
    "container_keys",
    "environment_keys",
    "instance_keys",
    "provided_keys",
    "query_of",
    "signed_by_aws",
    "web_identity_keys",
]


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


def environment_keys(refused: bool) -> Lease[Keys]:
    """Return the keys of the environment, which are looked at for each request."""
    get = os.environ.get
    access, secret = get("AWS_ACCESS_KEY_ID"), get("AWS_SECRET_ACCESS_KEY")
    if not access or not secret:
        raise CredentialsError("No credentials: AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY are not set")
    return Lease(Keys(access, secret, get("AWS_SESSION_TOKEN", "")), 0.0)


def provided_keys(found: Mapping[str, Any]) -> Keys:
    """Return the keys in what a function of the caller returns, with obstore's names."""
    return Keys(found["access_key_id"], found["secret_access_key"], found.get("token") or "")


def container_keys(url: str, token_file: str) -> Lease[Keys]:
    """Return the keys of a container from its endpoint."""
    headers = [("Authorization", read_secret(token_file))] if token_file else []
    return _lease_of_json(ask_service("GET", url, headers))


def instance_keys(service: str) -> Lease[Keys]:
    """Return the keys of the role of an instance, from its metadata service."""
    token = ask_service(
        "PUT", f"{service}/latest/api/token", [("X-aws-ec2-metadata-token-ttl-seconds", "600")]
    )
    headers = [("X-aws-ec2-metadata-token", _text(token).strip())]
    roles = f"{service}/latest/meta-data/iam/security-credentials/"
    role = _text(ask_service("GET", roles, headers)).split("\n")[0].strip()
    return _lease_of_json(ask_service("GET", roles + role, headers))


def web_identity_keys(refused: bool) -> Lease[Keys]:
    """Return keys of a role for the token of a web identity."""
    get = os.environ.get
    region = get("AWS_REGION") or get("AWS_DEFAULT_REGION") or "us-east-1"
    service = get("AWS_ENDPOINT_URL_STS") or f"https://sts.{region}.{aws_domain(region)}"
    wanted = {
        "Action": "AssumeRoleWithWebIdentity",
        "DurationSeconds": "3600",
        "RoleArn": os.environ["AWS_ROLE_ARN"],
        "RoleSessionName": get("AWS_ROLE_SESSION_NAME") or "chunkwise",
        "Version": "2011-06-15",
        "WebIdentityToken": read_secret(os.environ["AWS_WEB_IDENTITY_TOKEN_FILE"]).strip(),
    }
    answer = post_form(service, wanted)
    try:
        root = ElementTree.fromstring(bytes(answer.body))
    except ElementTree.ParseError as e:
        raise CredentialsError(f"No credentials: {answer.url}: {e}") from e
    found = {item.tag.rpartition("}")[2]: item.text or "" for item in root.iter()}
    found["Token"] = found.get("SessionToken", "")
    return _lease_of(found, answer.url)


def _lease_of_json(answer: Answer) -> Lease[Keys]:
    return _lease_of(answered_json(answer), answer.url)


def _lease_of(found: dict[str, Any], url: str) -> Lease[Keys]:
    try:
        keys = Keys(found["AccessKeyId"], found["SecretAccessKey"], found.get("Token") or "")
        if not all(isinstance(text, str) for text in keys):
            raise TypeError("a key is not text")
        until = found.get("Expiration")
        return Lease(keys, datetime.fromisoformat(until).timestamp() if until else None)
    except (KeyError, ValueError, TypeError, AttributeError) as e:
        raise CredentialsError(f"No credentials: {url}: the answer has no keys: {e!r}") from e


def _text(answer: Answer) -> str:
    return bytes(answer.body).decode("utf-8", "replace")
