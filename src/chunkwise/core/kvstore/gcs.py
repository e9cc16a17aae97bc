"""A bucket on Google Cloud Storage.

Names
-----
TensorStore's ``gcs``, with its member ``bucket`` and its resource ``gcs_user_project``.

Credentials are those that Google's tools use: from ``GOOGLE_APPLICATION_CREDENTIALS``, from ``gcloud auth
application-default login``, or of the machine's service account.  Without any, or if they are denied,
requests are anonymous.  ``STORAGE_EMULATOR_HOST`` names a server to use in place of Google's.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass, field
from typing import Any

from chunkwise.core.kvstore.bucket import Access, Provider
from chunkwise.core.kvstore.google_keys import google_token, has_google_credentials
from chunkwise.core.kvstore.key_range import quote_key
from chunkwise.core.kvstore.key_source import KeySource, Lease, expiry
from chunkwise.core.kvstore.object_failure import Failure
from chunkwise.core.kvstore.protocol import Buffer
from chunkwise.core.kvstore.request_limits import Retries
from chunkwise.core.kvstore.rest_bucket import Pairs, RestBucket

__all__ = ["GcsBucket"]

_GOOGLE = "https://storage.googleapis.com"


@dataclass(frozen=True)
class GcsBucket:
    """A bucket, and the project that pays for requests."""

    bucket: str
    user_project: str = ""  # pays for requests; empty for the bucket's own
    # Returns ``token`` and ``expires_at`` in place of Google's default credentials; not pickled.
    provider: Provider | None = field(default=None, repr=False)

    suffix_ranges = True
    lists_in_order = True
    refused_characters = ""
    keeps_buffers = False
    over_obstore = False
    retries_itself = False
    by_version = True

    def __reduce__(self) -> tuple[object, ...]:
        return GcsBucket, (self.bucket, self.user_project)

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
        if self.provider is not None:
            return (Access(True),)
        if _emulator():
            return (Access(True),)
        return (Access(True), Access(False)) if has_google_credentials() else (Access(False), Access(True))

    def other_access(self, access: Access, failure: Failure) -> Access | None:
        """Return the other access after a refusal, or if the machine has no credentials after all."""
        refused = failure.kind in ("denied", "credentials")
        if refused or (access.signed and failure.kind in ("unreachable", "other")):
            return next((a for a in self.accesses() if a.signed != access.signed), None)
        return None

    def connect(self, library: Any, access: Access, retries: Retries) -> RestBucket:
        """Return the requests to the bucket."""
        url = f"{(_emulator() or _GOOGLE).rstrip('/')}/{self.bucket}"
        source = KeySource(self._fetch())
        return RestBucket(_Dialect(url, source if access.signed else None, self.user_project), retries)

    def _fetch(self) -> Callable[[bool], Lease[str]]:
        if self.provider is not None:
            return _provided(self.provider)
        if _emulator():  # which accepts any token, so that no real one is sent
            return lambda refused: Lease("emulator")
        return google_token

    def advice(self, failure: Failure) -> str:
        """Return how to get credentials, if the failure is about them."""
        if (
            failure.kind in ("denied", "credentials")
            and self.provider is None
            and not has_google_credentials()
        ):
            return (
                "no Google credentials were found; set GOOGLE_APPLICATION_CREDENTIALS, "
                'or run "gcloud auth application-default login"'
            )
        return ""


def _emulator() -> str:
    host = os.environ.get("STORAGE_EMULATOR_HOST", "")
    return host if not host or "://" in host else f"http://{host}"


class _Dialect:
    """Requests to Google Cloud Storage."""

    version_header = "x-goog-generation"
    mark_header = "x-goog-meta-chunkwise-write"
    deletes_many = False

    def __init__(self, url: str, source: KeySource[str] | None, user_project: str) -> None:
        self.url = url
        self._source = source  # None for anonymous requests
        self._user_project = user_project

    def signed(
        self, method: str, url: str, headers: Pairs, body: Buffer | None
    ) -> tuple[str, Pairs, str | None]:
        """Return the URL and the headers of a request with the token, and the token."""
        if self._user_project:
            headers = [*headers, ("x-goog-user-project", self._user_project)]
        if self._source is None:
            return url, headers, None
        token = self._source.keys()
        return url, [*headers, ("Authorization", f"Bearer {token}")], token

    def renewed(self, refused: str | None) -> bool:
        """Return True if there is another token than the one that the server refused."""
        return refused is not None and self._source is not None and self._source.renewed(refused)

    def condition(self, mode: str | Mapping[str, str]) -> Pairs:
        """Return the header of a conditional write."""
        return [("x-goog-if-generation-match", "0" if isinstance(mode, str) else mode["version"])]


def _provided(provider: Provider) -> Callable[[bool], Lease[str]]:
    def fetch(refused: bool) -> Lease[str]:
        found = provider()
        return Lease(found["token"], expiry(found))

    return fetch
