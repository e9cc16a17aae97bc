"""Buckets of object stores: how to reach one, its abilities, and the keys that it accepts.

`chunkwise.core.kvstore.objects.object_store.ObjectStore` does the work; each kind of store, such as
`chunkwise.core.kvstore.objects.s3`, is a frozen description of one bucket.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable, Mapping
from dataclasses import fields
from typing import Any, NamedTuple, TypeAlias, cast
from urllib.request import getproxies, proxy_bypass

from chunkwise.core.base.binding import dump
from chunkwise.core.kvstore.objects.failure import Failure
from chunkwise.core.kvstore.request_limits import Retries
from chunkwise.errors import InvalidArgumentError

__all__ = [
    "Access",
    "Bucket",
    "Provider",
    "check_object_key",
    "is_object_key",
    "proxy_advice",
]

_PLACE = re.compile(r"(?P<scheme>https?)://(?P<host>[^/\s]+?):? ")
_BAD = re.compile(r"(?:\A|/)\.{0,2}(?:/|\Z)|[\x00-\x1f\x7f\ud800-\udfff]")

Provider: TypeAlias = Callable[[], Mapping[str, Any]]
"""Returns credentials that are valid now, with obstore's names for them."""


def proxy_advice(failure: Failure) -> str:
    """Name the environment's proxy, if the failed connection may be to the proxy and not to the server."""
    asked = None if failure.connected else _PLACE.match(failure.detail)
    proxy = getproxies().get(asked["scheme"]) if asked else None
    if asked is None or not proxy or proxy_bypass(asked["host"]):
        return ""
    return f"requests go through the proxy {proxy.rpartition('@')[2]} of the environment, so check that too"


class Access(NamedTuple):
    """One way to send requests."""

    signed: bool  # with credentials
    region: str = ""  # empty for the one from the configuration or the environment


class Bucket(ABC):
    """A bucket or container: immutable, picklable without secrets."""

    suffix_ranges: bool = True  # the last bytes of a value can be requested without knowing its size
    refused_characters: str = ""  # that the server would change in a key
    keeps_buffers: bool = False  # the store keeps the memory of a value that is put, without a copy
    retries_itself: bool = False  # the store that `connect` returns repeats failed requests itself
    over_obstore: bool = False  # `connect` returns a store of obstore, not a `RestBucket`
    by_version: bool = False  # conditional writes compare the version of an object, not its ETag

    def __reduce__(self) -> tuple[object, ...]:
        names = (member.name for member in fields(cast(Any, self)))
        return type(self), tuple(getattr(self, name) for name in names if name != "provider")

    @property
    @abstractmethod
    def identity(self) -> Hashable:
        """Equal for the same storage, whatever the credentials."""

    @property
    def lists_in_order(self) -> bool:
        """True if listings are in the byte order of keys."""
        return True

    @abstractmethod
    def url(self, key: str) -> str:
        """Return the name of a key in messages."""

    @abstractmethod
    def accesses(self) -> tuple[Access, ...]:
        """Return the allowed ways of access, the best first; looks for credentials."""

    def other_access(self, access: Access, failure: Failure) -> Access | None:
        """Return another access that is worth trying after this failure of `access`, or None."""
        return self.otherwise_signed(access) if failure.is_refusal else None

    def otherwise_signed(self, access: Access) -> Access | None:
        """Return the access without credentials in place of one with them, or the reverse, if allowed."""
        return next((other for other in self.accesses() if other.signed != access.signed), None)

    @abstractmethod
    def connect(self, library: Any, access: Access, retries: Retries) -> Any:
        """Return obstore's store, or a `RestBucket`, which makes `retries` for parts of a value itself."""

    @abstractmethod
    def advice(self, failure: Failure) -> str:
        """Return advice on a failure that is specific to this store."""


def is_object_key(key: str, refused: str = "") -> bool:
    """Return True if a server that changes the `refused` characters stores `key` under its own name."""
    return _BAD.search(key) is None and not any(c in key for c in refused)


def check_object_key(key: str, refused: str = "") -> None:
    """Raise InvalidArgumentError for a key that can't be stored under its own name."""
    # Such a key is empty, has an empty component, ``.`` or ``..``, a control character, or is not UTF-8.
    if not is_object_key(key, refused):
        raise InvalidArgumentError(
            f"Invalid key: {dump(key)}: object stores take UTF-8 without control characters"
            f'{_and(refused)} and no component that is empty, "." or ".."'
        )


def _and(refused: str) -> str:
    return f" or {refused}," if refused else ","
