"""A container of Azure Blob Storage: its credentials, its requests.

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

import base64
import hashlib
import hmac
import json
import os
import shutil
import subprocess
import time
from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from email.utils import formatdate
from typing import Any, NamedTuple
from urllib.parse import parse_qsl, urlencode, urlsplit
from xml.etree import ElementTree

from chunkwise.core.base.binding import dump
from chunkwise.core.kvstore.key_range import quote_key
from chunkwise.core.kvstore.objects.bucket import Access, Bucket, Provider
from chunkwise.core.kvstore.objects.failure import Failure
from chunkwise.core.kvstore.objects.key_source import (
    KeySource,
    Lease,
    ask_service,
    post_form,
    provided,
    read_secret,
    token_lease,
)
from chunkwise.core.kvstore.objects.rest_answer import (
    Names,
    Page,
    bad_page,
    check_below,
    document,
    name_of,
    text_in,
)
from chunkwise.core.kvstore.objects.rest_bucket import Dialect, Pairs, Query, RestBucket
from chunkwise.core.kvstore.protocol import Buffer
from chunkwise.core.kvstore.request_limits import Retries
from chunkwise.core.kvstore.web.request import digits_in
from chunkwise.errors import CredentialsError, InvalidArgumentError

__all__ = ["AzureContainer"]

_RESOURCE = "https://storage.azure.com"
_INSTANCE = "http://169.254.169.254/metadata/identity/oauth2/token"
_SIGNED = (
    *("content-encoding", "content-language", "content-length", "content-md5", "content-type", "date"),
    *("if-modified-since", "if-match", "if-none-match", "if-unmodified-since", "range"),
)


class AzureKey(NamedTuple):
    """One of: the key of an account in base64, the query of a shared access signature, a bearer token."""

    account_key: str = ""
    sas: str = ""
    token: str = ""


def _signed_by_azure(
    method: str, url: str, headers: Sequence[tuple[str, str]], length: int, account: str, key: str
) -> str:
    """Return the header ``Authorization`` of a request that the key of an account signs."""
    sent = {name.lower(): value.strip() for name, value in headers}
    if length:
        sent["content-length"] = str(length)
    own = "".join(f"{name}:{sent[name]}\n" for name in sorted(sent) if name.startswith("x-ms-"))
    parts = urlsplit(url)
    query: dict[str, list[str]] = {}
    for name, value in parse_qsl(parts.query, keep_blank_values=True):
        query.setdefault(name.lower(), []).append(value)
    resource = f"/{account}{parts.path}" + "".join(
        f"\n{k}:{','.join(sorted(query[k]))}" for k in sorted(query)
    )
    text = "\n".join((method, *(sent.get(name, "") for name in _SIGNED), own + resource))
    try:
        secret = base64.b64decode(key, validate=True)
    except ValueError:
        raise CredentialsError("No credentials: the key of the Azure account is not in base64") from None
    signature = base64.b64encode(hmac.digest(secret, text.encode(), hashlib.sha256)).decode()
    return f"SharedKey {account}:{signature}"


def _provided_key(found: Mapping[str, Any]) -> AzureKey:
    """Return the key in what a function of the caller returns, with obstore's names."""
    return AzureKey(*(found.get(name) or "" for name in ("access_key", "sas_token", "token")))


def _azure_source(kind: str, found: Mapping[str, str]) -> KeySource[AzureKey]:
    """Return the source for credentials of a type, with those `found` in the environment."""
    if "account_key" in found:
        return KeySource(lambda refused: Lease(AzureKey(account_key=found["account_key"])))
    if "sas_key" in found:
        return KeySource(lambda refused: Lease(AzureKey(sas=found["sas_key"].lstrip("?"))))
    ask = _of_command_line if kind == "cli" else _of_machine if not found.get("tenant_id") else _of_principal

    def fetch(refused: bool) -> Lease[AzureKey]:
        lease = ask(found)
        return Lease(AzureKey(token=lease.keys), lease.until)

    return KeySource(fetch)


def _of_principal(found: Mapping[str, str]) -> Lease[str]:
    """Return a token of a service principal, or of the identity of a workload."""
    authority = os.environ.get("AZURE_AUTHORITY_HOST", "https://login.microsoftonline.com").rstrip("/")
    wanted = {"client_id": found["client_id"], "scope": f"{_RESOURCE}/.default"}
    wanted["grant_type"] = "client_credentials"
    if "client_secret" in found:
        wanted["client_secret"] = found["client_secret"]
    elif "federated_token_file" in found:
        wanted["client_assertion"] = read_secret(found["federated_token_file"]).strip()
        wanted["client_assertion_type"] = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer"
    else:
        return _of_machine(found)
    return token_lease(post_form(f"{authority}/{found['tenant_id']}/oauth2/v2.0/token", wanted))


def _of_machine(found: Mapping[str, str]) -> Lease[str]:
    """Return a token of the managed identity of a machine or a service."""
    get = os.environ.get
    url = get("IDENTITY_ENDPOINT") or get("MSI_ENDPOINT") or _INSTANCE
    version = "2019-08-01"
    wanted = {"api-version": version, "resource": _RESOURCE}
    if "client_id" in found:
        wanted["client_id"] = found["client_id"]
    headers = [("Metadata", "true")]
    if secret := get("IDENTITY_HEADER"):
        headers.append(("X-IDENTITY-HEADER", secret))
    return token_lease(ask_service("GET", f"{url}?{urlencode(wanted)}", headers))


def _of_command_line(found: Mapping[str, str]) -> Lease[str]:
    """Return a token of Azure's command line."""
    command = ["account", "get-access-token", "--output", "json", "--resource", _RESOURCE]
    try:
        done = subprocess.run(
            [shutil.which("az") or "az", *command], capture_output=True, text=True, timeout=60, check=True
        )
        told = json.loads(done.stdout)
        return Lease(str(told["accessToken"]), float(told.get("expires_on") or time.time() + 300))
    except (OSError, ValueError, KeyError, TypeError, subprocess.SubprocessError) as e:
        why = getattr(e, "stderr", "") or str(e)
        raise CredentialsError(f"No credentials: Azure's command line: {why.strip()}") from e


_VERSION = "2023-11-03"


class AzureDialect(Dialect):
    """Requests to Azure."""

    mark_header = "x-ms-meta-chunkwise_write"

    def __init__(self, url: str, source: KeySource[AzureKey] | None, account: str) -> None:
        super().__init__(url, source)
        self._account = account

    def signed(self, method: str, url: str, headers: Pairs, body: Buffer | None) -> tuple[str, Pairs, Any]:
        """Return the URL and the headers of a request with date and signature, and the credentials used."""
        dated = [*headers, ("x-ms-date", formatdate(usegmt=True)), ("x-ms-version", _VERSION)]
        return super().signed(method, url, dated, body)

    def _sign(
        self, method: str, url: str, headers: Pairs, body: Buffer | None, keys: AzureKey
    ) -> tuple[str, Pairs]:
        if keys.account_key:
            length = memoryview(body or b"").nbytes
            told = _signed_by_azure(method, url, headers, length, self._account, keys.account_key)
            return url, [*headers, ("Authorization", told)]
        if keys.token:
            return url, [*headers, ("Authorization", f"Bearer {keys.token}")]
        return f"{url}{'&' if '?' in url else '?'}{keys.sas.lstrip('?')}", headers


class AzureRest(RestBucket):
    """One container."""

    written = (("x-ms-blob-type", "BlockBlob"),)

    def _put_in_parts(self, key: str, value: memoryview, size: int) -> dict[str, Any]:
        def part(number: int) -> str:
            name = base64.b64encode(b"%08d" % number).decode()
            query: Query = [("comp", "block"), ("blockid", name)]
            self._insist("PUT", key, (201,), query=query, body=value[number * size : (number + 1) * size])
            return name

        names = self._each(part, range(-(-len(value) // size)))
        body = "".join(f"<Latest>{name}</Latest>" for name in names)
        body = f"<?xml version='1.0' encoding='utf-8'?><BlockList>{body}</BlockList>"
        answer = self._insist("PUT", key, (201,), query=[("comp", "blocklist")], body=body.encode())
        return {"e_tag": answer.headers.get("ETag"), "version": None}

    def _pages(
        self, prefix: str | None, query: Query = (), offset: str | None = None
    ) -> Iterator[tuple[Page, Names]]:
        below, marker = f"{prefix}/" if prefix else "", ""
        seen: set[str] = set()
        while True:
            wanted: list[tuple[str, str | None]] = [("restype", "container"), ("comp", "list"), *query]
            wanted += [("prefix", below)] if below else []
            wanted += [("marker", marker)] if marker else []
            root = document(self._ask("GET", None, (200,), query=wanted), "EnumerationResults")
            blobs = next((item for item in root if name_of(item) == "Blobs"), None)
            if blobs is None:
                raise bad_page("there are no Blobs")
            found = [_entry(item) for item in blobs if name_of(item) == "Blob"]
            entries = [entry for entry in found if offset is None or entry["path"] > offset]
            prefixes = [text_in(item, "Name") for item in blobs if name_of(item) == "BlobPrefix"]
            check_below(below, entries, prefixes)
            marker = text_in(root, "NextMarker")
            if marker in seen:
                raise bad_page(f"there are more keys, and again the marker {dump(marker)}")
            # Accounts with directories list these too.
            yield [entry for entry in entries if entry.pop("type") != "directory"], prefixes
            if not marker:
                return
            seen.add(marker)


def _entry(item: ElementTree.Element) -> dict[str, Any]:
    properties = next((part for part in item if name_of(part) == "Properties"), item)
    key, size = text_in(item, "Name"), digits_in(text_in(properties, "Content-Length"))
    if not key or size is None:
        raise bad_page(f"an entry has the key {dump(key)} and no size")
    kind = text_in(properties, "ResourceType")
    return {"path": key, "size": size, "e_tag": text_in(properties, "Etag") or None, "type": kind}


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
            return provided(self.provider, _provided_key)
        found = _from_environment()
        if self.credentials == "cli":
            return _azure_source("cli", {})
        if self.credentials == "managed_identity":
            return _azure_source("managed_identity", {k: v for k, v in found.items() if k == "client_id"})
        if not found:
            raise CredentialsError(
                f'No Azure credentials of type "{self.credentials}": none of '
                "AZURE_STORAGE_CONNECTION_STRING, AZURE_STORAGE_ACCOUNT_KEY, AZURE_STORAGE_SAS_TOKEN "
                "and AZURE_CLIENT_ID is set"
            )
        return _azure_source(self.credentials, found)

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
