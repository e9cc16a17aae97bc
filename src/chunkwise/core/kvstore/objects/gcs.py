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
from collections.abc import Hashable, Mapping
from dataclasses import dataclass, field
from typing import Any

from chunkwise.core.kvstore.key_range import quote_key
from chunkwise.core.kvstore.objects.bucket import Access, Bucket, Provider
from chunkwise.core.kvstore.objects.failure import Failure
from chunkwise.core.kvstore.objects.google_keys import google_token, has_google_credentials
from chunkwise.core.kvstore.objects.key_source import KeySource, Lease, provided
from chunkwise.core.kvstore.objects.rest_bucket import Dialect, Pairs, RestBucket
from chunkwise.core.kvstore.protocol import Buffer
from chunkwise.core.kvstore.request_limits import Retries

__all__ = ["GcsBucket"]

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
        return (Access(True), Access(False)) if has_google_credentials() else (Access(False), Access(True))

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
        if failure.is_refusal and self.provider is None and not has_google_credentials():
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
