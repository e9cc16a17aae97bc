"""Valid names of buckets and containers."""

from __future__ import annotations

import re

from chunkwise.binding import JSON, dump, expect_string
from chunkwise.errors import SpecError

__all__ = ["expect_azure_container", "expect_gcs_bucket", "expect_s3_bucket"]

_S3 = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9_]|-(?!\.)|\.(?![.-]))*[A-Za-z0-9]")
_ADDRESS = re.compile(r"\d+\.\d+\.\d+\.\d+")
_GCS = re.compile(r"[a-z0-9](?:[a-z0-9_.-]*[a-z0-9])?")
_AZURE = re.compile(r"[a-z0-9](?:-?[a-z0-9])*|\$[a-z]+")


def expect_s3_bucket(value: JSON) -> str:
    """Return the name of a bucket on S3; old ones may be longer than 63 characters, with capitals."""
    name = expect_string(value)
    valid = 3 <= len(name) <= 255 and _S3.fullmatch(name) and not _ADDRESS.fullmatch(name)
    if not valid or name.startswith(("xn--", "sthree-")) or name.endswith(("-s3alias", "--ol-s3")):
        raise SpecError(f"Invalid S3 bucket name: {dump(name)}")
    return name


def expect_gcs_bucket(value: JSON) -> str:
    """Return the name of a bucket on Google Cloud Storage; each part between dots has up to 63 characters."""
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
