"""The kvstore ``gcs``: objects in a bucket of Google Cloud Storage."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from chunkwise.core.base.binding import expect_bool
from chunkwise.core.kvstore.objects.gcs import GcsBucket
from chunkwise.core.kvstore.objects.object_store import ObjectStore
from chunkwise.core.kvstore.protocol import KvStoreDriver
from chunkwise.core.specs.kvstore_spec import member
from chunkwise.core.specs.kvstores.remote import RemoteKvStoreSpec
from chunkwise.core.specs.remote_url import expect_gcs_bucket
from chunkwise.core.specs.url import quote_path

__all__ = ["GcsKvStoreSpec"]


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
