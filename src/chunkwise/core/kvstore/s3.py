"""A bucket on S3, or on a server that speaks its protocol.

Names
-----
TensorStore's ``s3``, with its members ``bucket``, ``aws_region``, ``endpoint`` and ``requester_pays`` and
its resource ``aws_credentials`` as the fields of `S3Bucket`.

Compatibility
-------------
With an endpoint and a bucket, requests are path-style, as in TensorStore; an endpoint without a bucket is the
bucket.  If no region was requested, a bucket in another region than the configured one is found in the region
that the server names.
"""

from __future__ import annotations

import os
from collections.abc import Hashable
from dataclasses import dataclass, field, replace
from types import ModuleType
from typing import TYPE_CHECKING, Any

from chunkwise.core.kvstore.bucket import Access, Provider, client_options
from chunkwise.core.kvstore.http_request import Bounds, NoAnswerError, send
from chunkwise.core.kvstore.key_range import quote_key
from chunkwise.core.kvstore.object_failure import Failure
from chunkwise.core.kvstore.request_limits import Retries
from chunkwise.core.kvstore.s3_credentials import (
    Credentials,
    credential_services,
    find_credentials,
    profile_endpoint,
    unread_profile,
)
from chunkwise.errors import ChunkwiseError

if TYPE_CHECKING:
    import obstore.store

__all__ = ["S3Bucket"]

_AWS = "https://s3.amazonaws.com"


@dataclass(frozen=True)
class S3Bucket:
    """A bucket, its server, and the credentials."""

    bucket: str  # empty if the endpoint is the bucket
    region: str = ""
    endpoint: str = ""  # endpoint and region: empty for the environment's, or AWS
    requester_pays: bool = False  # requests are charged to the requester
    credentials: str = "default"  # type of credentials; see `chunkwise.core.kvstore.s3_credentials`
    options: tuple[tuple[str, str], ...] = ()  # options of the type
    # Returns keys in place of `credentials`; left out of pickles.
    provider: Provider | None = field(default=None, repr=False)

    suffix_ranges = True
    refused_characters = ""
    keeps_buffers = False
    retries_itself = False
    by_version = False

    def __reduce__(self) -> tuple[object, ...]:
        plain = replace(self, provider=None)
        return S3Bucket, tuple(getattr(plain, name) for name in _PICKLED)

    @property
    def identity(self) -> Hashable:
        """The server and the bucket."""
        return "s3", self._endpoint() or "aws", self.bucket

    @property
    def lists_in_order(self) -> bool:
        """True except for directory buckets."""
        return not self.bucket.endswith("--x-s3")

    def url(self, key: str) -> str:
        """Return ``s3://bucket/key``, or the URL at a given endpoint."""
        path = quote_key(key)
        endpoint = self._endpoint()
        if not endpoint:
            return f"s3://{self.bucket}/{path}"
        return "/".join(filter(None, (endpoint.rstrip("/"), self.bucket))) + f"/{path}"

    def _endpoint(self) -> str:
        get = os.environ.get
        found = self.endpoint or get("AWS_ENDPOINT_URL_S3") or get("AWS_ENDPOINT_URL")
        if found or self.provider is not None or self.credentials not in ("default", "profile"):
            return found or ""
        return profile_endpoint(dict(self.options))

    @property
    def credential_services(self) -> tuple[str, ...]:
        """Services of the machine, the container and for tokens."""
        return credential_services(dict(self.options))

    def _find_credentials(self) -> Credentials | None:
        if self.provider is not None:
            return Credentials(provider=self.provider)
        return find_credentials(self.credentials, dict(self.options))

    def accesses(self) -> tuple[Access, ...]:
        """Return signed access if there are keys, and anonymous access unless keys were requested."""
        signed = Access(True, self.region)
        if self.provider is not None or self.credentials not in ("default", "anonymous"):
            return (signed,)
        anonymous = Access(False, self.region)
        if self.credentials == "anonymous":
            return (anonymous,)
        found = find_credentials("default", dict(self.options), ask_machine=False)
        return (signed, anonymous) if found is not None else (anonymous, signed)

    def other_access(self, access: Access, failure: Failure) -> Access | None:
        """Return access in the right region if the server named it, or anonymous access after a refusal."""
        if failure.kind == "region" and not self.region:
            region = failure.region or self._asked_region()
            if region and access.region != region:
                return access._replace(region=region)
        if failure.kind in ("denied", "credentials"):
            other = next((a for a in self.accesses() if a.signed != access.signed), None)
            if other is None or not other.signed or self._find_credentials() is not None:
                return other
        return None

    def _asked_region(self) -> str:
        """Return the region in a header of the server's answer to any request; empty without one."""
        url = f"{(self._endpoint() or _AWS).rstrip('/')}/{self.bucket}"
        try:
            answer = send("HEAD", url, [("User-Agent", "chunkwise")], Retries(), Bounds())
        except (ChunkwiseError, NoAnswerError):
            return ""
        return answer.headers.get("x-amz-bucket-region", "")

    def connect(self, library: ModuleType, access: Access, retries: Retries) -> obstore.store.ObjectStore:
        """Return obstore's store."""
        endpoint = self._endpoint()
        credentials = self._find_credentials() if access.signed else None
        config: dict[str, Any] = {"region": self._region(access, credentials)}
        if endpoint:
            config["aws_endpoint_url_s3"] = endpoint  # the environment variable would override "endpoint"
        if endpoint and not self.bucket:
            config["virtual_hosted_style_request"] = True
        if self.requester_pays:
            config["request_payer"] = True
        if credentials is None:
            config["skip_signature"] = True
        else:
            config.update(credentials.config)
        return library._store.S3Store(
            self.bucket or "bucket",
            config=config,
            client_options={**client_options(retries, endpoint), "allow_http": True},
            retry_config=retries.config(),
            credential_provider=None if credentials is None else credentials.provider,
        )

    def _region(self, access: Access, credentials: Credentials | None) -> str:
        get = os.environ.get
        found = access.region or get("AWS_REGION") or get("AWS_DEFAULT_REGION")
        return found or (credentials.region if credentials else "") or "us-east-1"

    def advice(self, failure: Failure) -> str:
        """Return where keys are looked for, if the failure is about them."""
        if failure.kind == "region" and not failure.region and (region := self._asked_region()):
            return f'the bucket is in "{region}"'
        if failure.kind not in ("denied", "credentials") or self.credentials != "default":
            return ""
        if self._find_credentials() is not None:
            return ""
        none = (
            "no AWS credentials were found in the environment, in the profile, or from the machine, "
            "so the request was anonymous"
        )
        return "; ".join(filter(None, (none, unread_profile())))


_PICKLED = ("bucket", "region", "endpoint", "requester_pays", "credentials", "options")
