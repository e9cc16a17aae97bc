"""Keys for S3: from the environment, from a container or an instance, for a web identity, from the caller."""

from __future__ import annotations

import os
from collections.abc import Callable
from datetime import datetime
from typing import Any
from urllib.parse import urlencode
from xml.etree import ElementTree

from chunkwise.core.kvstore.aws_signature import Keys, aws_domain
from chunkwise.core.kvstore.bucket import Provider
from chunkwise.core.kvstore.http_request import Answer
from chunkwise.core.kvstore.key_source import Lease, answered_json, ask_service, expiry
from chunkwise.errors import CredentialsError

__all__ = ["container_keys", "environment_keys", "instance_keys", "provided_keys", "web_identity_keys"]


def environment_keys(refused: bool) -> Lease[Keys]:
    """Return the keys of the environment, which are looked at for each request."""
    get = os.environ.get
    access, secret = get("AWS_ACCESS_KEY_ID"), get("AWS_SECRET_ACCESS_KEY")
    if not access or not secret:
        raise CredentialsError("No credentials: AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY are not set")
    return Lease(Keys(access, secret, get("AWS_SESSION_TOKEN", "")), 0.0)


def provided_keys(provider: Provider) -> Callable[[bool], Lease[Keys]]:
    """Return a source over a function of the caller, with obstore's names."""

    def fetch(refused: bool) -> Lease[Keys]:
        found = provider()
        keys = Keys(found["access_key_id"], found["secret_access_key"], found.get("token") or "")
        return Lease(keys, expiry(found))

    return fetch


def container_keys(url: str, token_file: str) -> Lease[Keys]:
    """Return the keys of a container from its endpoint."""
    headers = []
    if token_file:
        try:
            with open(token_file, encoding="utf-8") as file:
                headers.append(("Authorization", file.read()))
        except (OSError, UnicodeDecodeError) as e:
            raise CredentialsError(f"No credentials: {e}") from e
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
    try:
        with open(os.environ["AWS_WEB_IDENTITY_TOKEN_FILE"], encoding="utf-8") as file:
            token = file.read().strip()
    except (OSError, UnicodeDecodeError) as e:
        raise CredentialsError(f"No credentials: {e}") from e
    region = get("AWS_REGION") or get("AWS_DEFAULT_REGION") or "us-east-1"
    service = get("AWS_ENDPOINT_URL_STS") or f"https://sts.{region}.{aws_domain(region)}"
    wanted = {
        "Action": "AssumeRoleWithWebIdentity",
        "DurationSeconds": "3600",
        "RoleArn": os.environ["AWS_ROLE_ARN"],
        "RoleSessionName": get("AWS_ROLE_SESSION_NAME") or "chunkwise",
        "Version": "2011-06-15",
        "WebIdentityToken": token,
    }
    headers = [("Content-Type", "application/x-www-form-urlencoded")]
    answer = ask_service("POST", service, headers, urlencode(wanted).encode(), proxies=True)
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
