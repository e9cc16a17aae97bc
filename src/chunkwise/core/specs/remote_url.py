"""URLs of remote kvstores as members of a spec, ``s3://bucket/path``, and valid names of buckets."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from chunkwise.core.base.binding import JSON, dump, expect_string
from chunkwise.errors import InvalidArgumentError, SpecError, noted

__all__ = ["ENCODED", "expect_azure_container", "expect_gcs_bucket", "expect_s3_bucket", "remote_members"]

ENCODED = 'a name\'s own "#" is written "%23", its "?" "%3F"; a format is named after "|", as in "...|zarr3:"'
"""Note for errors about URL parts that a kvstore's URL can't have."""

_HOSTS = (
    "dfs.core.windows.net",
    "blob.core.windows.net",
    "dfs.fabric.microsoft.com",
    "blob.fabric.microsoft.com",
)


def remote_members(driver: str, scheme: str, rest: str, decode: Callable[[str], str]) -> dict[str, Any]:
    """Return the members of the URL of an HTTP server or a bucket."""
    if driver == "http":
        if "#" in rest:
            raise noted(InvalidArgumentError("Fragment identifier not supported"), ENCODED)
        return {"base_url": f"{scheme}://{rest}"}
    name, _, path = rest.partition("/")
    decoded = decode(path)
    decode(name)  # for a query or fragment directly after the name
    if driver == "azure":
        out = _azure(name)
    else:
        out = {"bucket": (expect_s3_bucket if driver == "s3" else expect_gcs_bucket)(name)}
    if decoded:
        out["path"] = decoded
    return out


def _azure(authority: str) -> dict[str, Any]:
    container, at, host = authority.rpartition("@")
    if not at:
        return {"container": expect_azure_container(host)}
    account, _, domain = host.partition(".")
    if domain and domain not in _HOSTS:
        raise InvalidArgumentError(
            f"Unknown Azure host {dump(host)}; expected an account, alone or followed by one of "
            f"{', '.join(_HOSTS)}"
        )
    return {"container": expect_azure_container(container), "account_name": account}


_S3 = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9_]|-(?!\.)|\.(?![.-]))*[A-Za-z0-9]")
_ADDRESS = re.compile(r"\d+\.\d+\.\d+\.\d+")
_GCS = re.compile(r"[a-z0-9](?:[a-z0-9_.-]*[a-z0-9])?")
_AZURE = re.compile(r"[a-z0-9](?:-?[a-z0-9])*|\$[a-z]+")


def expect_s3_bucket(value: JSON) -> str:
    """Return the name of a bucket on S3; old names may have more than 63 characters, and capitals."""
    name = expect_string(value)
    valid = 3 <= len(name) <= 255 and _S3.fullmatch(name) and not _ADDRESS.fullmatch(name)
    if not valid or name.startswith(("xn--", "sthree-")) or name.endswith(("-s3alias", "--ol-s3")):
        raise SpecError(f"Invalid S3 bucket name: {dump(name)}")
    return name


def expect_gcs_bucket(value: JSON) -> str:
    """Return the name of a bucket on Google Cloud Storage; parts between dots have up to 63 characters."""
    name = expect_string(value)
    valid = 3 <= len(name) <= 222 and _GCS.fullmatch(name)
    if not valid or not all(0 < len(part) <= 63 for part in name.split(".")):
        raise SpecError(f"Invalid GCS bucket name: {dump(name)}")
    return name


def expect_azure_container(value: JSON) -> str:
    """Return the name of a container on Azure."""
    name = expect_string(value)
    if not 3 <= len(name) <= 63 or not _AZURE.fullmatch(name):
        raise SpecError(f"Invalid Azure container name: {dump(name)}")
    return name
