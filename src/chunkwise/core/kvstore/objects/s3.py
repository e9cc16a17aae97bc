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
from dataclasses import dataclass, field
from typing import Any

from chunkwise.core.kvstore.key_range import quote_key
from chunkwise.core.kvstore.objects.bucket import Access, Bucket, Provider
from chunkwise.core.kvstore.objects.failure import Failure
from chunkwise.core.kvstore.objects.key_source import KeySource, provided
from chunkwise.core.kvstore.objects.rest_bucket import Dialect, Pairs, RestBucket
from chunkwise.core.kvstore.objects.s3_credentials import (
    Credentials,
    Keys,
    aws_domain,
    find_credentials,
    profile_endpoint,
    provided_keys,
    signed_by_aws,
    unread_profile,
)
from chunkwise.core.kvstore.protocol import Buffer
from chunkwise.core.kvstore.request_limits import Retries
from chunkwise.core.kvstore.web.request import NoAnswerError, send
from chunkwise.errors import ChunkwiseError

__all__ = ["S3Bucket"]

_AWS = "https://s3.amazonaws.com"


@dataclass(frozen=True)
class S3Bucket(Bucket):
    """A bucket, its server, and the credentials."""

    bucket: str  # empty if the endpoint is the bucket
    region: str = ""
    endpoint: str = ""  # endpoint and region: empty for the environment's, or AWS
    requester_pays: bool = False  # requests are charged to the requester
    credentials: str = "default"  # type of credentials; see `chunkwise.core.kvstore.objects.s3_credentials`
    options: tuple[tuple[str, str], ...] = ()  # options of the type
    # Returns keys in place of `credentials`; left out of pickles.
    provider: Provider | None = field(default=None, repr=False)

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

    def _find_credentials(self) -> Credentials | None:
        if self.provider is not None:
            return Credentials(provided(self.provider, provided_keys))
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
        other = super().other_access(access, failure)
        return other if other is None or not other.signed or self._find_credentials() is not None else None

    def _asked_region(self) -> str:
        """Return the region in a header of the server's answer to any request; empty without one."""
        url = f"{(self._endpoint() or _AWS).rstrip('/')}/{self.bucket}"
        try:
            answer = send("HEAD", url, [("User-Agent", "chunkwise")], Retries(), redirects=0)
        except (ChunkwiseError, NoAnswerError):
            return ""
        return answer.headers.get("x-amz-bucket-region", "")

    def connect(self, library: Any, access: Access, retries: Retries) -> RestBucket:
        """Return the requests to the bucket."""
        credentials = self._find_credentials() if access.signed else None
        region = self._region(access, credentials)
        endpoint = (self._endpoint() or f"https://s3.{region}.{aws_domain(region)}").rstrip("/")
        url = "/".join(filter(None, (endpoint, self.bucket)))
        source = None if credentials is None else credentials.source
        always = [("x-amz-request-payer", "requester")] if self.requester_pays else []
        dialect = _Dialect(url, source, always, region)
        return RestBucket(dialect, retries, {"region": region}, in_order=self.lists_in_order)

    def _region(self, access: Access, credentials: Credentials | None) -> str:
        get = os.environ.get
        found = access.region or get("AWS_REGION") or get("AWS_DEFAULT_REGION")
        return found or (credentials.region if credentials else "") or "us-east-1"

    def advice(self, failure: Failure) -> str:
        """Return where keys are looked for, if the failure is about them."""
        if failure.kind == "region" and not failure.region and (region := self._asked_region()):
            return f'the bucket is in "{region}"'
        if not failure.is_refusal or self.credentials != "default":
            return ""
        if self._find_credentials() is not None:
            return ""
        none = (
            "no AWS credentials were found in the environment, in the profile, or from the machine, "
            "so the request was anonymous"
        )
        return "; ".join(filter(None, (none, unread_profile())))


class _Dialect(Dialect):
    mark_header = "x-amz-meta-chunkwise-write"
    deletes_many = True

    def __init__(self, url: str, source: KeySource[Keys] | None, always: Pairs, region: str) -> None:
        super().__init__(url, source, always)
        self._region = region

    def _sign(
        self, method: str, url: str, headers: Pairs, body: Buffer | None, keys: Keys
    ) -> tuple[str, Pairs]:
        return url, signed_by_aws(method, url, headers, body, keys, self._region)
