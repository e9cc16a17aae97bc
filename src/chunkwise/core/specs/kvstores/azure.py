"""The kvstore ``azure``: blobs in a container; an extension, which TensorStore lacks."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from chunkwise.core.base.binding import expect_bool, expect_string
from chunkwise.core.kvstore.objects.azure import AzureContainer
from chunkwise.core.kvstore.objects.object_store import ObjectStore
from chunkwise.core.kvstore.protocol import KvStoreDriver
from chunkwise.core.specs.kvstore_spec import member
from chunkwise.core.specs.kvstores.remote import RemoteKvStoreSpec
from chunkwise.core.specs.remote_url import expect_azure_container
from chunkwise.core.specs.url import quote_path
from chunkwise.errors import UnsupportedError

__all__ = ["AzureKvStoreSpec"]


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
