"""Credentials for Azure: account keys, shared access signatures, and tokens of Microsoft's services."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import os
import shutil
import subprocess
import time
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple
from urllib.parse import parse_qsl, urlencode, urlsplit

from chunkwise.core.kvstore.objects.key_source import (
    KeySource,
    Lease,
    ask_service,
    post_form,
    read_secret,
    token_lease,
)
from chunkwise.errors import CredentialsError

__all__ = ["AzureKey", "azure_source", "provided_key", "signed_by_azure"]

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


def signed_by_azure(
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


def provided_key(found: Mapping[str, Any]) -> AzureKey:
    """Return the key in what a function of the caller returns, with obstore's names."""
    return AzureKey(*(found.get(name) or "" for name in ("access_key", "sas_token", "token")))


def azure_source(kind: str, found: Mapping[str, str]) -> KeySource[AzureKey]:
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
