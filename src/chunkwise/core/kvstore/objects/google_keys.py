"""Tokens for Google Cloud Storage: of a service account, a login, another provider, and the machine."""

from __future__ import annotations

import base64
import json
import os
import time
from collections.abc import Mapping
from datetime import datetime
from typing import Any

from chunkwise.core.base.extras import needs
from chunkwise.core.kvstore.objects.key_source import (
    Lease,
    answered_json,
    ask_service,
    post_form,
    read_secret,
    token_lease,
)
from chunkwise.errors import CredentialsError, UnsupportedError

__all__ = ["google_token", "has_google_credentials"]

_FILES = ("GOOGLE_SERVICE_ACCOUNT", "GOOGLE_SERVICE_ACCOUNT_PATH", "GOOGLE_APPLICATION_CREDENTIALS")
_TEXT = "GOOGLE_SERVICE_ACCOUNT_KEY"
_LOGIN = "~/.config/gcloud/application_default_credentials.json"
_SERVICE = "https://oauth2.googleapis.com/token"
_SCOPE = "https://www.googleapis.com/auth/cloud-platform"
_HOUR = 3600


def has_google_credentials() -> bool:
    """Return True if there are credentials other than the machine's."""
    return any(map(os.environ.get, (*_FILES, _TEXT))) or os.path.exists(os.path.expanduser(_LOGIN))


def google_token(refused: bool) -> Lease[str]:
    """Return a token; raise CredentialsError if there is none."""
    if text := os.environ.get(_TEXT):
        return _token_of(_parsed(text, _TEXT), _TEXT)
    path = next((found for found in map(os.environ.get, _FILES) if found), os.path.expanduser(_LOGIN))
    if has_google_credentials():
        return _token_of(_parsed(read_secret(path), path), path)
    host = os.environ.get("GCE_METADATA_HOST", "metadata.google.internal")
    url = f"http://{host}/computeMetadata/v1/instance/service-accounts/default/token"
    return token_lease(ask_service("GET", url, [("Metadata-Flavor", "Google")]))


def _parsed(text: str, name: str) -> dict[str, Any]:
    try:
        found = json.loads(text)
    except ValueError as e:
        raise CredentialsError(f"No credentials: {name}: {e}") from e
    if not isinstance(found, dict):
        raise CredentialsError(f"No credentials: {name}: expected a JSON object")
    return found


def _token_of(found: Mapping[str, Any], name: str) -> Lease[str]:
    kind = found.get("type", "service_account" if "private_key" in found else None)
    try:
        if kind == "service_account":
            return _signed_token(found["client_email"], found["private_key"], found.get("private_key_id"))
        if kind == "authorized_user":
            wanted = {name: found[name] for name in ("client_id", "client_secret", "refresh_token")}
            return token_lease(post_form(_SERVICE, {"grant_type": "refresh_token", **wanted}))
        if kind == "external_account":
            return _exchanged_token(found, name)
    except KeyError as e:
        raise CredentialsError(f"No credentials: {name} has no {e}") from e
    raise CredentialsError(
        f"No credentials: {name} has the type {kind!r}, expected 'service_account', 'authorized_user' or "
        "'external_account'"
    )


def _exchanged_token(found: Mapping[str, Any], name: str) -> Lease[str]:
    """Return a token for one of another provider, perhaps of a service account that it may act for."""
    wanted = {
        "grant_type": "urn:ietf:params:oauth:grant-type:token-exchange",
        "requested_token_type": "urn:ietf:params:oauth:token-type:access_token",
        "scope": _SCOPE,
        "audience": found["audience"],
        "subject_token_type": found["subject_token_type"],
        "subject_token": _subject_token(found["credential_source"], name),
    }
    lease = token_lease(post_form(found["token_url"], wanted))
    other = found.get("service_account_impersonation_url")
    if not other:
        return lease
    headers = [("Content-Type", "application/json"), ("Authorization", f"Bearer {lease.keys}")]
    body = json.dumps({"scope": [_SCOPE], "lifetime": f"{_HOUR}s"}).encode()
    answer = ask_service("POST", other, headers, body, proxies=True)
    told = answered_json(answer)
    try:
        return Lease(str(told["accessToken"]), datetime.fromisoformat(told["expireTime"]).timestamp())
    except (KeyError, ValueError, TypeError) as e:
        raise CredentialsError(f"No credentials: {answer.url}: the answer has no token: {e!r}") from e


def _subject_token(source: Mapping[str, Any], name: str) -> str:
    """Return the token of the other provider, from a file or a service."""
    if "file" in source:
        text = read_secret(source["file"])
    elif "url" in source:
        answer = ask_service("GET", source["url"], list(source.get("headers", {}).items()), proxies=True)
        text = bytes(answer.body).decode("utf-8", "replace")
    else:
        raise CredentialsError(f'No credentials: {name}: expected "file" or "url" in "credential_source"')
    form = source.get("format", {})
    if form.get("type") == "json":
        return str(_parsed(text, name)[form["subject_token_field_name"]])
    return text.strip()


def _signed_token(email: str, key: str, key_id: str | None) -> Lease[str]:
    """Return a token that the key of a service account signs, which Google accepts as it is."""
    try:
        from cryptography.hazmat.primitives import hashes
        from cryptography.hazmat.primitives.asymmetric.padding import PKCS1v15
        from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey
        from cryptography.hazmat.primitives.serialization import load_pem_private_key
    except ImportError as e:
        raise UnsupportedError(needs("the key of a Google service account", "cryptography")) from e
    now = int(time.time())
    header = {"alg": "RS256", "typ": "JWT"} | ({"kid": key_id} if key_id else {})
    claims = {"iss": email, "sub": email, "scope": _SCOPE, "iat": now, "exp": now + _HOUR}
    text = b".".join(_coded(json.dumps(part).encode()) for part in (header, claims))
    try:
        private = load_pem_private_key(key.encode(), password=None)
        if not isinstance(private, RSAPrivateKey):
            raise ValueError("the private key is not one of RSA")
        signature = private.sign(text, PKCS1v15(), hashes.SHA256())
    except ValueError as e:
        raise CredentialsError(f"No credentials: the private key of {email} can't be used: {e}") from e
    return Lease(b".".join((text, _coded(signature))).decode(), float(now + _HOUR))


def _coded(data: bytes) -> bytes:
    return base64.urlsafe_b64encode(data).rstrip(b"=")
