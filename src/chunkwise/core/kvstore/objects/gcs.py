"""A bucket on Google Cloud Storage, and the tokens for it.

Names
-----
TensorStore's ``gcs``, with its member ``bucket`` and its resource ``gcs_user_project``.

Credentials are those that Google's tools use: from ``GOOGLE_APPLICATION_CREDENTIALS``, from ``gcloud auth
application-default login``, or of the machine's service account.  Without any, or if they are denied,
requests are anonymous.  ``STORAGE_EMULATOR_HOST`` names a server to use in place of Google's.
"""

from __future__ import annotations

import base64
import json
import os
import time
from collections.abc import Hashable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from chunkwise.core.base.extras import needs
from chunkwise.core.kvstore.key_range import quote_key
from chunkwise.core.kvstore.objects.bucket import Access, Bucket, Provider
from chunkwise.core.kvstore.objects.failure import Failure
from chunkwise.core.kvstore.objects.key_source import (
    KeySource,
    Lease,
    answered_json,
    ask_service,
    post_form,
    provided,
    read_secret,
    token_lease,
)
from chunkwise.core.kvstore.objects.rest_bucket import Dialect, Pairs, RestBucket
from chunkwise.core.kvstore.protocol import Buffer
from chunkwise.core.kvstore.request_limits import Retries
from chunkwise.errors import CredentialsError, UnsupportedError

__all__ = ["GcsBucket", "google_token"]

_FILES = ("GOOGLE_SERVICE_ACCOUNT", "GOOGLE_SERVICE_ACCOUNT_PATH", "GOOGLE_APPLICATION_CREDENTIALS")
_TEXT = "GOOGLE_SERVICE_ACCOUNT_KEY"
_LOGIN = "~/.config/gcloud/application_default_credentials.json"
_SERVICE = "https://oauth2.googleapis.com/token"
_SCOPE = "https://www.googleapis.com/auth/cloud-platform"
_HOUR = 3600


def _has_google_credentials() -> bool:
    """Return True if there are credentials other than the machine's."""
    return any(map(os.environ.get, (*_FILES, _TEXT))) or os.path.exists(os.path.expanduser(_LOGIN))


def google_token(refused: bool) -> Lease[str]:
    """Return a token; raise CredentialsError if there is none."""
    if text := os.environ.get(_TEXT):
        return _token_of(_parsed(text, _TEXT), _TEXT)
    path = next((found for found in map(os.environ.get, _FILES) if found), os.path.expanduser(_LOGIN))
    if _has_google_credentials():
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


_GOOGLE = "https://storage.googleapis.com"


@dataclass(frozen=True)
class GcsBucket(Bucket):
    """A bucket, and the project that pays for requests."""

    bucket: str
    user_project: str = ""  # pays for requests; empty for the bucket's own
    # Returns ``token`` and ``expires_at`` in place of Google's default credentials; not pickled.
    provider: Provider | None = field(default=None, repr=False)

    by_version = True

    @property
    def identity(self) -> Hashable:
        """The server and the bucket."""
        return "gcs", _emulator(), self.bucket

    def url(self, key: str) -> str:
        """Return ``gs://bucket/key``."""
        path = quote_key(key)
        return f"gs://{self.bucket}/{path}"

    def accesses(self) -> tuple[Access, ...]:
        """Return signed access if there are credentials, then anonymous access."""
        if self.provider is not None or _emulator():
            return (Access(True),)
        return (Access(True), Access(False)) if _has_google_credentials() else (Access(False), Access(True))

    def other_access(self, access: Access, failure: Failure) -> Access | None:
        """Return the other access after a refusal, or if the machine has no credentials after all."""
        is_without = access.signed and failure.kind in ("unreachable", "other")
        return self.otherwise_signed(access) if failure.is_refusal or is_without else None

    def connect(self, library: Any, access: Access, retries: Retries) -> RestBucket:
        """Return the requests to the bucket."""
        url = f"{(_emulator() or _GOOGLE).rstrip('/')}/{self.bucket}"
        always = [("x-goog-user-project", self.user_project)] if self.user_project else []
        return RestBucket(_Dialect(url, self._source() if access.signed else None, always), retries)

    def _source(self) -> KeySource[str]:
        if self.provider is not None:
            return provided(self.provider, lambda found: str(found["token"]))
        if _emulator():  # which accepts any token, so that no real one is sent
            return KeySource(lambda refused: Lease("emulator"))
        return KeySource(google_token)

    def advice(self, failure: Failure) -> str:
        """Return how to get credentials, if the failure is about them."""
        if failure.is_refusal and self.provider is None and not _has_google_credentials():
            return (
                "no Google credentials were found; set GOOGLE_APPLICATION_CREDENTIALS, "
                'or run "gcloud auth application-default login"'
            )
        return ""


def _emulator() -> str:
    host = os.environ.get("STORAGE_EMULATOR_HOST", "")
    return host if not host or "://" in host else f"http://{host}"


class _Dialect(Dialect):
    version_header = "x-goog-generation"
    mark_header = "x-goog-meta-chunkwise-write"

    def _sign(
        self, method: str, url: str, headers: Pairs, body: Buffer | None, keys: str
    ) -> tuple[str, Pairs]:
        return url, [*headers, ("Authorization", f"Bearer {keys}")]

    def condition(self, mode: str | Mapping[str, str]) -> Pairs:
        """Return the header of a conditional write."""
        return [("x-goog-if-generation-match", "0" if isinstance(mode, str) else mode["version"])]
