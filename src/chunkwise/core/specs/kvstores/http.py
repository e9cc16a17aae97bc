"""The kvstore ``http``: files of a web server, read-only."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self
from urllib.parse import unquote, urlsplit

from chunkwise.core.base.binding import JSON, Members, dump, expect_string, parse_array
from chunkwise.core.kvstore.key_range import quote_key
from chunkwise.core.kvstore.protocol import KvStoreDriver
from chunkwise.core.kvstore.web.http import HttpStore
from chunkwise.core.kvstore.web.request import is_public_header
from chunkwise.core.specs.kvstore_spec import member
from chunkwise.core.specs.kvstores.remote import RemoteKvStoreSpec
from chunkwise.errors import SpecError

__all__ = ["HttpKvStoreSpec"]

_HEADER = re.compile(r"([!#$%&'*+.^_`|~0-9A-Za-z-]+):[ \t]*([^\0\r\n]*?)[ \t]*")


def _expect_base_url(value: JSON) -> str:
    url = expect_string(value)
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https"):
        raise SpecError(f'Expected scheme of "http" or "https" but received: {dump(parts.scheme)}')
    if parts.fragment:
        raise SpecError("Fragment identifier not supported")
    return url


def _expect_header(value: JSON) -> str:
    text = expect_string(value)
    if _HEADER.fullmatch(text) is None:
        raise SpecError(f"Invalid HTTP header: {dump(text)}")
    return text


def _public(headers: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(h for h in headers if is_public_header(h.partition(":")[0]))


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class HttpKvStoreSpec(RemoteKvStoreSpec):
    """``{"driver": "http", "base_url": "https://example.com/a/"}``, ``https://example.com/a/``."""

    driver: ClassVar[str] = "http"
    protocol: ClassVar[str] = "http"
    resource_kinds: ClassVar[tuple[str, ...]] = (
        "data_copy_concurrency",
        "http_request_concurrency",
        "http_request_retries",
    )

    # JSON, URL and pickle leave out the user and headers that may contain a credential.
    # without a path (the spec's) and user; perhaps with a query
    base_url: str = member("base_url", _expect_base_url, example="https://example.org/a.zarr/")
    user: str = ""  # with the password
    # ``name: value``
    headers: tuple[str, ...] = member(
        "headers",
        lambda v: tuple(parse_array(v, _expect_header)),
        (),
        shown="with defaults",
        to_json=list,
    )

    @classmethod
    def parse(cls, members: Members) -> Self:
        """Take the members; the URL's path becomes the spec's."""
        spec = super().parse(members)
        parts = urlsplit(spec.base_url)
        user, _, host = parts.netloc.rpartition("@")
        base = f"{parts.scheme}://{host}" + (f"?{parts.query}" if parts.query else "")
        below = unquote(parts.path, errors="surrogateescape")
        if below and spec.path:
            below = f"{below.rstrip('/')}/{spec.path.lstrip('/')}"
        return replace(spec, base_url=base, user=user, path=below or spec.path)

    def own_members(self, include_defaults: bool) -> dict[str, Any]:
        """Return the members that aren't at their default."""
        public = replace(self, headers=_public(self.headers))
        return super(HttpKvStoreSpec, public).own_members(include_defaults)

    def __getstate__(self) -> dict[str, Any]:
        return {**vars(self), "user": "", "headers": _public(self.headers)}

    def open_driver(self) -> tuple[KvStoreDriver, str]:
        """Return the store of the server; the path stays a prefix of keys."""
        headers = []
        for header in self.headers:
            name, _, value = header.partition(":")
            headers.append((name, value.strip()))
        url = self.base_url.replace("://", f"://{self.user}@", 1) if self.user else self.base_url
        return HttpStore(url, headers, self.limits()), self.path

    def to_url(self) -> str:
        """Return the URL; headers are not part of it."""
        base, question, query = self.base_url.partition("?")
        path = quote_key(self.path)
        between = "/" if path and not path.startswith("/") else ""
        return f"{base}{between}{path}{question}{query}"
