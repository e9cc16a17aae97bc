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
from collections.abc import Hashable
from dataclasses import dataclass, field
from types import ModuleType
from typing import TYPE_CHECKING, Any

from chunkwise.core.kvstore.bucket import Access, Provider, client_options
from chunkwise.core.kvstore.key_range import quote_key
from chunkwise.core.kvstore.object_failure import Failure
from chunkwise.core.kvstore.request_limits import Retries

if TYPE_CHECKING:
    import obstore.store

__all__ = ["GcsBucket"]


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
    over_obstore = True
    retries_itself = False
    by_version = True
    credential_services = (
        "http://metadata.google.internal/",
        "http://169.254.169.254/",
        "https://oauth2.googleapis.com/",
    )

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
        return (Access(True), Access(False)) if _has_credentials() else (Access(False), Access(True))

    def other_access(self, access: Access, failure: Failure) -> Access | None:
        """Return the other access after a refusal, or if the machine has no credentials after all."""
        refused = failure.kind in ("denied", "credentials")
        if refused or (access.signed and failure.kind in ("unreachable", "other")):
            return next((a for a in self.accesses() if a.signed != access.signed), None)
        return None

    def connect(self, library: ModuleType, access: Access, retries: Retries) -> obstore.store.ObjectStore:
        """Return obstore's store."""
        options: dict[str, Any] = client_options(retries, _emulator())
        config: dict[str, Any] = {}
        if self.user_project:
            options["default_headers"] = {"x-goog-user-project": self.user_project}
        if _emulator():
            config["base_url"] = _emulator()
            options["allow_http"] = True
        if not access.signed:
            config["skip_signature"] = True
        return library._store.GCSStore(
            self.bucket,
            config=config,
            client_options=options,
            retry_config=retries.config(),
            credential_provider=(self.provider or _emulator_provider()) if access.signed else None,
        )

    def advice(self, failure: Failure) -> str:
        """Return how to get credentials, if the failure is about them."""
        if failure.kind in ("denied", "credentials") and self.provider is None and not _has_credentials():
            return (
                "no Google credentials were found; set GOOGLE_APPLICATION_CREDENTIALS, "
                'or run "gcloud auth application-default login"'
            )
        return ""


def _emulator() -> str:
    host = os.environ.get("STORAGE_EMULATOR_HOST", "")
    return host if not host or "://" in host else f"http://{host}"


def _emulator_provider() -> Provider | None:
    """Return a source of tokens for a server that accepts any, so that no real token is requested."""
    return (lambda: {"token": "emulator", "expires_at": None}) if _emulator() else None


def _has_credentials() -> bool:
    names = ("GOOGLE_APPLICATION_CREDENTIALS", "GOOGLE_SERVICE_ACCOUNT", "GOOGLE_SERVICE_ACCOUNT_KEY")
    if any(os.environ.get(name) for name in names):
        return True
    return os.path.exists(os.path.expanduser("~/.config/gcloud/application_default_credentials.json"))
