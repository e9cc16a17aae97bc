"""URLs of remote kvstores, as members of a spec: ``s3://bucket/path``, ``https://host/path?query``."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from chunkwise.binding import dump
from chunkwise.errors import InvalidArgumentError
from chunkwise.spec.bucket_name import expect_azure_container, expect_gcs_bucket, expect_s3_bucket

__all__ = ["remote_members"]

_HOSTS = (
    "dfs.core.windows.net",
    "blob.core.windows.net",
    "dfs.fabric.microsoft.com",
    "blob.fabric.microsoft.com",
)


def remote_members(
    driver: str, scheme: str, rest: str, decode: Callable[[str], str]
) -> dict[str, Any] | None:
    """Return the members that a URL means; None if `driver` is not a remote one."""
    if driver == "http":
        if "#" in rest:
            raise InvalidArgumentError("Fragment identifier not supported")
        return {"base_url": f"{scheme}://{rest}"}
    if driver not in ("s3", "gcs", "azure"):
        return None
    name, _, path = rest.partition("/")
    decoded = decode(path)
    decode(name)  # for a query or fragment right behind the name
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
