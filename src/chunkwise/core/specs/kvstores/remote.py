"""Kvstores on servers: limits on requests, resources that are rarely set; ``http``, files of a web server."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Any, ClassVar, Self
from urllib.parse import unquote, urlsplit

from chunkwise.core.base.binding import JSON, Members, dump, expect_bool, expect_string, parse_array
from chunkwise.core.kvstore.key_range import quote_key
from chunkwise.core.kvstore.protocol import KvStoreDriver
from chunkwise.core.kvstore.request_limits import Coalescing, Limits, Pace, Retries, Slots
from chunkwise.core.kvstore.web.http import HttpStore
from chunkwise.core.kvstore.web.request import is_public_header
from chunkwise.core.specs.context import Context, ContextResource
from chunkwise.core.specs.kvstore_spec import KvStoreSpec, member
from chunkwise.core.specs.resource_members import (
    ResourceMembers,
    bind_resources,
    resources_to_json,
    take_resources,
    unbind_resources,
)
from chunkwise.errors import SpecError

__all__ = ["HttpKvStoreSpec", "RemoteKvStoreSpec"]


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class RemoteKvStoreSpec(KvStoreSpec):
    """Base of the specs of stores behind a network."""

    protocol: ClassVar[str] = ""
    rare_kinds: ClassVar[tuple[str, ...]] = ("request_coalescing",)

    # Resources of `rare_kinds` that are not the default; unlike `resources`, others are not shown.
    rare: ResourceMembers = field(default_factory=dict)
    # Extension: a value whose read is refused (403) is missing, as in a public bucket that can't be listed.
    denied_is_missing: bool = member("denied_is_missing", expect_bool, False, shown="if set")

    @classmethod
    def parse_members(cls, members: Members) -> dict[str, Any]:
        """Take the rare resources, and the driver's own members."""
        return {"rare": take_resources(members, cls.rare_kinds), **super().parse_members(members)}

    def own_members(self, include_defaults: bool) -> dict[str, Any]:
        """Return the rare resources that are not the default, and the driver's own members."""
        rare = resources_to_json(self.rare, self.rare_kinds, {}, False)
        return {**rare, **super().own_members(include_defaults)}

    def bind_inner(self, context: Context) -> Self:
        """Return the spec with live rare resources."""
        return replace(self, rare=_set(bind_resources(self.rare, self.rare_kinds, context)))

    def strip(self) -> Self:
        """Return the spec without context and resources."""
        return replace(super().strip(), rare={})

    def unbound(self, names: Mapping[int, str] | None = None) -> Self:
        """Return the spec with names and configurations in place of bound resources."""
        return replace(super().unbound(names), rare=unbind_resources(self.rare, {}))

    def limits(self) -> Limits:
        """Return the limits that the resources of a bound spec set."""
        retries = self.live(f"{self.protocol}_request_retries")
        coalescing = self._rare("request_coalescing")
        pace = self._rare(f"experimental_{self.protocol}_rate_limiter")
        return Limits(
            self.live(f"{self.protocol}_request_concurrency").slots or _shared_slots(self.protocol),
            Retries(retries.max_retries, retries.initial_delay, retries.max_delay, retries.request_timeout),
            None if pace is None else Pace(pace.read_rate, pace.doubling_time),
            None if pace is None else Pace(pace.write_rate, pace.doubling_time),
            Coalescing() if coalescing is None else Coalescing(coalescing.gap, coalescing.max_bytes),
            self.denied_is_missing,
        )

    def _rare(self, kind: str) -> Any:
        resource = self.rare.get(kind)
        return resource.value if isinstance(resource, ContextResource) else None


def _set(resources: ResourceMembers) -> ResourceMembers:
    return {
        kind: value
        for kind, value in resources.items()
        if isinstance(value, ContextResource) and value.config != type(value.config)()
    }


@cache
def _shared_slots(protocol: str) -> Slots:
    """Return the slots that the whole process shares."""
    return Slots()


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
