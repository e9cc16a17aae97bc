"""The kvstores ``s3``, ``gcs`` and ``azure``: objects in a bucket."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar
from urllib.parse import urlsplit

from chunkwise.core.base.binding import Members, dump, expect_bool, expect_string
from chunkwise.core.kvstore.objects.azure import AzureContainer
from chunkwise.core.kvstore.objects.gcs import GcsBucket
from chunkwise.core.kvstore.objects.object_store import ObjectStore
from chunkwise.core.kvstore.objects.s3 import S3Bucket
from chunkwise.core.kvstore.protocol import KvStoreDriver
from chunkwise.core.specs.kvstore_spec import member
from chunkwise.core.specs.kvstores.remote import RemoteKvStoreSpec
from chunkwise.core.specs.url import expect_azure_container, expect_gcs_bucket, expect_s3_bucket, quote_path
from chunkwise.errors import SpecError, UnsupportedError

__all__ = ["AzureKvStoreSpec", "GcsKvStoreSpec", "S3KvStoreSpec"]


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class S3KvStoreSpec(RemoteKvStoreSpec):
    """``{"driver": "s3", "bucket": "b", "path": "a/"}``, ``s3://b/a/``."""

    driver: ClassVar[str] = "s3"
    protocol: ClassVar[str] = "s3"
    resource_kinds: ClassVar[tuple[str, ...]] = (
        "aws_credentials",
        "data_copy_concurrency",
        "s3_request_concurrency",
        "s3_request_retries",
    )
    rare_kinds: ClassVar[tuple[str, ...]] = ("experimental_s3_rate_limiter", "request_coalescing")

    bucket: str = member("bucket", expect_string, "", shown="with defaults")
    aws_region: str = member("aws_region", expect_string, "", shown="with defaults")
    endpoint: str = member("endpoint", expect_string, "", shown="if set")
    # not supported; would be sent in place of the endpoint's name
    host_header: str = member("host_header", expect_string, "", shown="if set")
    requester_pays: bool = member("requester_pays", expect_bool, False, shown="with defaults")
    # Extension: there is no other writer, so the server need not support conditional writes.
    single_writer: bool = member("single_writer", expect_bool, False, shown="if set")
    # whether the server supports them; None to probe
    use_conditional_write: bool | None = member("use_conditional_write", expect_bool, None, shown="if set")

    @classmethod
    def parse_members(cls, members: Members) -> dict[str, Any]:
        """Take the members that locate the bucket."""
        out = super().parse_members(members)
        bucket = out["bucket"]
        if not bucket and not out["endpoint"]:
            raise SpecError('"bucket" must be specified when "endpoint" is not set')
        if bucket:
            expect_s3_bucket(bucket)
        if out["host_header"] and not out["endpoint"]:
            raise SpecError('"host_header" cannot be set without also setting "endpoint"')
        return out

    def open_driver(self) -> tuple[KvStoreDriver, str]:
        """Return the store of the bucket; the path stays a prefix of keys."""
        if self.host_header:
            raise UnsupportedError('"host_header" is not supported; expected the name in "endpoint"')
        if self.endpoint and urlsplit(self.endpoint).scheme not in ("http", "https"):
            raise SpecError(
                f'Expected "endpoint" to be an http or https URL, but received: {dump(self.endpoint)}'
            )
        credentials = self.live("aws_credentials")
        bucket = S3Bucket(
            self.bucket,
            self.aws_region,
            self.endpoint,
            self.requester_pays,
            credentials.type,
            credentials.options,
        )
        store = ObjectStore(
            bucket,
            self.limits(),
            single_writer=self.single_writer,
            use_conditional_write=self.use_conditional_write,
        )
        return store, self.path

    def to_url(self) -> str:
        """Return ``s3://bucket/path``; a spec with an endpoint has no URL."""
        if self.endpoint:
            raise UnsupportedError("S3 URL syntax not supported with explicit endpoint")
        return f"s3://{self.bucket}/{quote_path(self.path)}"


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class GcsKvStoreSpec(RemoteKvStoreSpec):
    """``{"driver": "gcs", "bucket": "b", "path": "a/"}``, ``gs://b/a/``."""

    driver: ClassVar[str] = "gcs"
    protocol: ClassVar[str] = "gcs"
    resource_kinds: ClassVar[tuple[str, ...]] = (
        "data_copy_concurrency",
        "gcs_request_concurrency",
        "gcs_request_retries",
        "gcs_user_project",
    )
    rare_kinds: ClassVar[tuple[str, ...]] = ("experimental_gcs_rate_limiter", "request_coalescing")

    bucket: str = member("bucket", expect_gcs_bucket, example="images")
    single_writer: bool = member("single_writer", expect_bool, False, shown="if set")  # an extension

    def open_driver(self) -> tuple[KvStoreDriver, str]:
        """Return the store of the bucket; the path stays a prefix of keys."""
        bucket = GcsBucket(self.bucket, self.live("gcs_user_project").project_id or "")
        return ObjectStore(bucket, self.limits(), single_writer=self.single_writer), self.path

    def to_url(self) -> str:
        """Return ``gs://bucket/path``."""
        return f"gs://{self.bucket}/{quote_path(self.path)}"


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class AzureKvStoreSpec(RemoteKvStoreSpec):
    """``{"driver": "azure", "container": "c", "account_name": "me"}``, ``az://c/``."""

    driver: ClassVar[str] = "azure"
    protocol: ClassVar[str] = "azure"
    resource_kinds: ClassVar[tuple[str, ...]] = (
        "azure_credentials",
        "azure_request_concurrency",
        "azure_request_retries",
    )

    container: str = member("container", expect_azure_container, example="images")
    # empty for the account from the environment
    account_name: str = member("account_name", expect_string, "", shown="if set")
    # URL of the account's blobs, if not Azure's
    endpoint: str = member("endpoint", expect_string, "", shown="if set")
    # There is no other writer, so the server need not support conditional writes.
    single_writer: bool = member("single_writer", expect_bool, False, shown="if set")

    def open_driver(self) -> tuple[KvStoreDriver, str]:
        """Return the store of the container; the path stays a prefix of keys."""
        credentials = self.live("azure_credentials").type
        container = AzureContainer(self.container, self.account_name, self.endpoint, credentials)
        return ObjectStore(container, self.limits(), single_writer=self.single_writer), self.path

    def to_url(self) -> str:
        """Return ``az://container/path``, or with an account ``abfs://container@account...``."""
        if self.endpoint:
            raise UnsupportedError("Azure URL syntax not supported with explicit endpoint")
        path = quote_path(self.path)
        if self.account_name:
            return f"abfs://{self.container}@{self.account_name}.dfs.core.windows.net/{path}"
        return f"az://{self.container}/{path}"
