"""A container of Azure Blob Storage.

Names
-----
``azure``, an extension: TensorStore has no driver for it.  URLs are ``az://container/path``, with the
account from the environment, and ``abfs://container@account.dfs.core.windows.net/path``.

Credentials come from ``AZURE_STORAGE_CONNECTION_STRING``, ``AZURE_STORAGE_ACCOUNT_KEY``,
``AZURE_STORAGE_SAS_TOKEN`` or a service principal (``AZURE_CLIENT_ID`` and so on); with type
``managed_identity`` or ``cli``, from the machine or from Azure's command line.

Compatibility
-------------
Azure has no ranges that count from the end, so the size of a value is requested first.
"""

from __future__ import annotations

import os
from collections.abc import Hashable
from dataclasses import dataclass, field
from typing import Any

from chunkwise.core.kvstore.key_range import quote_key
from chunkwise.core.kvstore.objects.azure_keys import AzureKey, azure_source, provided_key
from chunkwise.core.kvstore.objects.azure_rest import AzureDialect, AzureRest
from chunkwise.core.kvstore.objects.bucket import Access, Bucket, Provider
from chunkwise.core.kvstore.objects.failure import Failure
from chunkwise.core.kvstore.objects.key_source import KeySource, provided
from chunkwise.core.kvstore.request_limits import Retries
from chunkwise.errors import CredentialsError, InvalidArgumentError

__all__ = ["AzureContainer"]


@dataclass(frozen=True)
class AzureContainer(Bucket):
    """A container, its server, and the credentials."""

    container: str
    account: str = ""  # empty for the account from the environment
    endpoint: str = ""  # URL of the account's blobs; empty for Azure's
    # ``default``, ``anonymous``, ``environment``, ``managed_identity`` or ``cli``.
    credentials: str = "default"
    # Returns ``token``, ``access_key`` or ``sas_token``, and ``expires_at``, instead; not pickled.
    provider: Provider | None = field(default=None, repr=False)

    suffix_ranges = False
    lists_in_order = False
    refused_characters = "\\"

    @property
    def identity(self) -> Hashable:
        """The account's URL and the container."""
        return "azure", self._endpoint() or self._account(), self.container

    def url(self, key: str) -> str:
        """Return ``az://container/key``, or with the account's URL if that is not Azure's."""
        path = quote_key(key)
        endpoint = self._endpoint()
        if endpoint:
            return f"{endpoint.rstrip('/')}/{self.container}/{path}"
        return f"az://{self.container}/{path}"

    def accesses(self) -> tuple[Access, ...]:
        """Return signed access if there are credentials, and anonymous access unless some were requested."""
        if self.credentials == "anonymous":
            return (Access(False),)
        if self.provider is not None or self.credentials != "default":
            return (Access(True),)
        return (Access(True), Access(False)) if _from_environment() else (Access(False),)

    def connect(self, library: Any, access: Access, retries: Retries) -> AzureRest:
        """Return the requests to the container."""
        account, endpoint = self._account(), self._endpoint()
        if not account and not endpoint:
            raise InvalidArgumentError(
                f'The account of the Azure container "{self.container}" is not known; give "account_name" '
                "or set AZURE_STORAGE_ACCOUNT_NAME"
            )
        base = endpoint or f"https://{account}.blob.core.windows.net"
        source = self._source() if access.signed else None
        url = f"{base.rstrip('/')}/{self.container}"
        return AzureRest(AzureDialect(url, source, account), retries, in_order=False)

    def _source(self) -> KeySource[AzureKey]:
        if self.provider is not None:
            return provided(self.provider, provided_key)
        found = _from_environment()
        if self.credentials == "cli":
            return azure_source("cli", {})
        if self.credentials == "managed_identity":
            return azure_source("managed_identity", {k: v for k, v in found.items() if k == "client_id"})
        if not found:
            raise CredentialsError(
                f'No Azure credentials of type "{self.credentials}": none of '
                "AZURE_STORAGE_CONNECTION_STRING, AZURE_STORAGE_ACCOUNT_KEY, AZURE_STORAGE_SAS_TOKEN "
                "and AZURE_CLIENT_ID is set"
            )
        return azure_source(self.credentials, found)

    def advice(self, failure: Failure) -> str:
        """Return where credentials are looked for, if the failure is about them."""
        if (failure.is_refusal or failure.kind == "bucket") and not self.accesses()[0].signed:
            return (
                "no Azure credentials were found, so the request was anonymous; set "
                "AZURE_STORAGE_CONNECTION_STRING, AZURE_STORAGE_ACCOUNT_KEY or AZURE_STORAGE_SAS_TOKEN"
            )
        return ""

    def _account(self) -> str:
        get = os.environ.get
        return (
            self.account
            or get("AZURE_STORAGE_ACCOUNT_NAME")
            or get("AZURE_STORAGE_ACCOUNT")
            or _connection_string().get("AccountName", "")
        )

    def _endpoint(self) -> str:
        if self.endpoint:
            return self.endpoint
        found = _connection_string()
        return found.get("BlobEndpoint", "") if found.get("AccountName", "") == self._account() else ""


def _connection_string() -> dict[str, str]:
    text = os.environ.get("AZURE_STORAGE_CONNECTION_STRING", "")
    return dict(part.split("=", 1) for part in text.split(";") if "=" in part)


def _from_environment() -> dict[str, str]:
    """Return the options for credentials from the environment; empty without any."""
    get, found = os.environ.get, _connection_string()
    key = found.get("AccountKey") or get("AZURE_STORAGE_ACCOUNT_KEY") or get("AZURE_STORAGE_KEY")
    sas = found.get("SharedAccessSignature") or get("AZURE_STORAGE_SAS_TOKEN") or get("AZURE_STORAGE_SAS_KEY")
    if key:
        return {"account_key": key}
    if sas:
        return {"sas_key": sas}
    names = {
        "client_id": "AZURE_CLIENT_ID",
        "client_secret": "AZURE_CLIENT_SECRET",
        "tenant_id": "AZURE_TENANT_ID",
        "federated_token_file": "AZURE_FEDERATED_TOKEN_FILE",
    }
    out = {name: value for name, variable in names.items() if (value := get(variable))}
    return out if "client_id" in out else {}
