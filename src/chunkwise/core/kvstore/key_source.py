"""Where keys for S3 come from: they are kept until they expire or are refused, and then looked for again.

Services are asked directly, never through a proxy, and their redirects are not followed.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable
from datetime import datetime
from typing import Any, NamedTuple
from urllib.parse import urlencode
from xml.etree import ElementTree

from chunkwise.core.base.fork import new_lock
from chunkwise.core.kvstore.aws_signature import Keys
from chunkwise.core.kvstore.bucket import Provider
from chunkwise.core.kvstore.http_request import Answer, NoAnswerError, send
from chunkwise.core.kvstore.request_limits import Retries
from chunkwise.errors import ChunkwiseError, CredentialsError

__all__ = [
    "KeySource",
    "Lease",
    "container_keys",
    "environment_keys",
    "instance_keys",
    "provided_keys",
    "web_identity_keys",
]

_MARGIN = 60.0  # seconds before keys expire in which others are looked for
_TIMES = 3  # a service is asked, if it fails
_PATIENCE = Retries(max_retries=0, request_timeout=5.0)


class Lease(NamedTuple):
    """Keys, and the time at which they expire."""

    keys: Keys
    until: float | None = None  # seconds since 1970; None for keys that last


class KeySource:
    """Keys from `fetch`, which is told whether the last ones were refused."""

    def __init__(self, fetch: Callable[[bool], Lease]) -> None:
        self._fetch = fetch
        self._lease: Lease | None = None
        self._lock = new_lock()

    def keys(self) -> Keys:
        """Return keys that are valid now."""
        lease = self._lease
        if lease is None or (lease.until is not None and lease.until - _MARGIN < time.time()):
            with self._lock:
                if self._lease is lease:
                    self._lease = self._fetch(False)
                lease = self._lease
        assert lease is not None
        return lease.keys

    def renewed(self, refused: Keys) -> bool:
        """Look for keys in place of refused ones; return True if there are any."""
        with self._lock:
            if self._lease is None or self._lease.keys == refused:
                self._lease = self._fetch(True)
            return self._lease.keys != refused


def environment_keys(refused: bool) -> Lease:
    """Return the keys of the environment, which are looked at for each request."""
    get = os.environ.get
    access, secret = get("AWS_ACCESS_KEY_ID"), get("AWS_SECRET_ACCESS_KEY")
    if not access or not secret:
        raise CredentialsError("No credentials: AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY are not set")
    return Lease(Keys(access, secret, get("AWS_SESSION_TOKEN", "")), 0.0)


def provided_keys(provider: Provider) -> Callable[[bool], Lease]:
    """Return a source over a function of the caller, with obstore's names."""

    def fetch(refused: bool) -> Lease:
        found = provider()
        until = found.get("expires_at")
        keys = Keys(found["access_key_id"], found["secret_access_key"], found.get("token") or "")
        return Lease(keys, None if until is None else until.timestamp())

    return fetch


def container_keys(url: str, token_file: str) -> Lease:
    """Return the keys of a container from its endpoint."""
    headers = []
    if token_file:
        try:
            with open(token_file, encoding="utf-8") as file:
                headers.append(("Authorization", file.read()))
        except (OSError, UnicodeDecodeError) as e:
            raise CredentialsError(f"No credentials: {e}") from e
    return _lease(_ask("GET", url, headers))


def instance_keys(service: str) -> Lease:
    """Return the keys of the role of an instance, from its metadata service."""
    token = _ask("PUT", f"{service}/latest/api/token", [("X-aws-ec2-metadata-token-ttl-seconds", "600")])
    headers = [("X-aws-ec2-metadata-token", _text(token).strip())]
    roles = f"{service}/latest/meta-data/iam/security-credentials/"
    role = _text(_ask("GET", roles, headers)).split("\n")[0].strip()
    return _lease(_ask("GET", roles + role, headers))


def web_identity_keys(refused: bool) -> Lease:
    """Return keys of a role for the token of a web identity."""
    get = os.environ.get
    try:
        with open(os.environ["AWS_WEB_IDENTITY_TOKEN_FILE"], encoding="utf-8") as file:
            token = file.read().strip()
    except (OSError, UnicodeDecodeError) as e:
        raise CredentialsError(f"No credentials: {e}") from e
    region = get("AWS_REGION") or get("AWS_DEFAULT_REGION") or "us-east-1"
    service = get("AWS_ENDPOINT_URL_STS") or f"https://sts.{region}.amazonaws.com"
    wanted = {
        "Action": "AssumeRoleWithWebIdentity",
        "DurationSeconds": "3600",
        "RoleArn": os.environ["AWS_ROLE_ARN"],
        "RoleSessionName": get("AWS_ROLE_SESSION_NAME") or "chunkwise",
        "Version": "2011-06-15",
        "WebIdentityToken": token,
    }
    headers = [("Content-Type", "application/x-www-form-urlencoded")]
    answer = _ask("POST", service, headers, urlencode(wanted).encode(), proxies=True)
    try:
        root = ElementTree.fromstring(bytes(answer.body))
    except ElementTree.ParseError as e:
        raise CredentialsError(f"No credentials: {answer.url}: {e}") from e
    found = {item.tag.rpartition("}")[2]: item.text or "" for item in root.iter()}
    found["Token"] = found.get("SessionToken", "")
    return _lease_of(found, answer.url)


def _lease(answer: Answer) -> Lease:
    try:
        found = json.loads(bytes(answer.body))
    except ValueError:
        found = None
    if not isinstance(found, dict):
        raise CredentialsError(f"No credentials: {answer.url}: expected a JSON object")
    return _lease_of(found, answer.url)


def _lease_of(found: dict[str, Any], url: str) -> Lease:
    try:
        keys = Keys(found["AccessKeyId"], found["SecretAccessKey"], found.get("Token") or "")
        until = found.get("Expiration")
        return Lease(keys, datetime.fromisoformat(until).timestamp() if until else None)
    except (KeyError, ValueError, TypeError, AttributeError) as e:
        raise CredentialsError(f"No credentials: {url}: the answer has no keys: {e!r}") from e


def _text(answer: Answer) -> str:
    return bytes(answer.body).decode("utf-8", "replace")


def _ask(
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
