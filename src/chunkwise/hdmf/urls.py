"""``storage_options`` as users of fsspec give them, for the URLs of chunkwise."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from chunkwise.api.kvstore import KvStore
from chunkwise.errors import UnsupportedError
from chunkwise.hdmf.place import Place
from chunkwise.spec.url import is_url, spec_json_from_url

__all__ = ["with_storage_options"]


def with_storage_options(path: Place, options: Mapping[str, Any] | None) -> Place:
    """Return the place that a URL and options name.

    Parameters
    ----------
    path : str, path or KvStore
    options : mapping, optional
        ``anon`` says that a public bucket of S3 is read without credentials.

    Raises
    ------
    UnsupportedError
        For any other option; such are part of a kvstore spec, which can be given instead of a URL.
    """
    options = {k: v for k, v in (options or {}).items() if v not in (None, False, {})}
    if not options:
        return path
    if set(options) != {"anon"} or not isinstance(path, str | os.PathLike) or not is_url(os.fspath(path)):
        raise UnsupportedError(
            f"storage options {sorted(options)} for {path!r}: only anon is known, and only for URLs; "
            "open a KvStore with the options of chunkwise and give that"
        )
    kvstore = spec_json_from_url(os.fspath(path)).get("kvstore")
    if not isinstance(kvstore, dict) or kvstore.get("driver") != "s3":
        return path  # nothing else asks for credentials unless it is told
    kvstore = {**kvstore, "aws_credentials": {"type": "anonymous"}}
    if kvstore.get("path") and not kvstore["path"].endswith("/"):
        kvstore["path"] += "/"
    return KvStore.open(kvstore).result()
