"""Built-in context resources: credentials, use of the file system, repetition and rate of requests, state."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from chunkwise.core.base.binding import (
    JSON,
    MISSING,
    Members,
    dump,
    expect_bool,
    expect_int,
    expect_number,
    expect_one_of,
    expect_string,
)
from chunkwise.core.kvstore.request_limits import Coalescing, Retries, Slots
from chunkwise.core.specs.resource_kind import Member, ObjectResource, format_duration, parse_duration
from chunkwise.errors import SpecError, UnsupportedError, prefixed

if TYPE_CHECKING:
    from chunkwise.core.kvstore.memory import MemoryStore

__all__ = [
    "AwsCredentials",
    "AzureCredentials",
    "CachePool",
    "CachePoolConfig",
    "Concurrency",
    "ConcurrencyLimit",
    "FileIoLocking",
    "FileIoMode",
    "FileIoRetries",
    "FileIoSync",
    "GcsUserProject",
    "MemoryKeyValueStore",
    "RateLimiter",
    "RequestCoalescing",
    "RequestRetries",
]

_AZURE_TYPES = ("default", "anonymous", "environment", "managed_identity", "cli")


@dataclass(frozen=True)
class AwsCredentials:
    """Source of the keys for S3: ``{"type": "profile", "profile": "science"}``."""

    inline: ClassVar[bool] = True
    options_of: ClassVar[Mapping[str, tuple[str, ...]]] = {
        "default": ("profile",),
        "anonymous": (),
        "environment": (),
        "imds": (),
        "profile": ("profile", "config_file", "credentials_file"),
        "ecs": ("endpoint", "auth_token_file"),
    }

    type: str = "default"
    options: tuple[tuple[str, str], ...] = ()

    @classmethod
    def parse(cls, value: JSON) -> AwsCredentials:
        """Read a JSON object with `type` and the members of that type."""
        members = Members(value)
        with prefixed("Failed to parse AWS credentials spec"):
            tag = members.take("type", expect_string)
            if tag not in cls.options_of:
                raise SpecError(
                    f"Failed to parse tag name, expected one of: {', '.join(cls.options_of)}, "
                    f"but received: {tag}"
                )
            found = {name: members.take(name, expect_string, None) for name in cls.options_of[tag]}
        members.finish()
        return cls(tag, tuple((k, v) for k, v in found.items() if v is not None))

    def to_json(self, *, include_defaults: bool = False) -> JSON:
        """Return the JSON object, `type` always included."""
        return dict(sorted({"type": self.type, **dict(self.options)}.items()))

    def create(self) -> AwsCredentials:
        """Return the configuration, which itself is the resource."""
        return self


class AzureCredentials(ObjectResource):
    """Source of the credentials for Azure: ``{"type": "cli"}``; an extension."""

    inline: ClassVar[bool] = True
    members: ClassVar[Mapping[str, Member]] = {
        "type": Member(partial(expect_one_of, choices=_AZURE_TYPES)),
    }

    type: str = "default"


class GcsUserProject(ObjectResource):
    """The project that pays for requests to GCS: ``{"project_id": "mine"}``."""

    inline: ClassVar[bool] = True
    members: ClassVar[Mapping[str, Member]] = {"project_id": Member(expect_string, shown=False)}

    project_id: str | None = None


@dataclass(frozen=True)
class FileIoSync:
    """``true`` if a write returns only once it is on disk, or ``false``."""

    inline: ClassVar[bool] = True

    sync: bool = True

    @classmethod
    def parse(cls, value: JSON) -> FileIoSync:
        """Read a JSON boolean."""
        return cls(expect_bool(value))

    def to_json(self, *, include_defaults: bool = False) -> JSON:
        """Return the JSON boolean."""
        return self.sync

    def create(self) -> FileIoSync:
        """Return the configuration, which itself is the resource."""
        return self


class FileIoLocking(ObjectResource):
    """Mutual exclusion of the writers of one file; `acquire_timeout` in seconds."""

    # ``{"mode": "os", "acquire_timeout": "60s"}``

    inline: ClassVar[bool] = True
    members: ClassVar[Mapping[str, Member]] = {
        "mode": Member(partial(expect_one_of, choices=("os", "lockfile", "none", "non_atomic")), shown=False),
        "acquire_timeout": Member(parse_duration, format_duration, shown=False),
    }

    mode: Literal["os", "lockfile", "none", "non_atomic"] = "os"
    acquire_timeout: float = 60.0


class FileIoMode(ObjectResource):
    """Way of reading files: ``{"mode": "default"}``, ``memmap`` or ``direct``."""

    inline: ClassVar[bool] = True
    members: ClassVar[Mapping[str, Member]] = {
        "mode": Member(partial(expect_one_of, choices=("default", "memmap", "direct")), shown=False),
    }

    mode: Literal["default", "memmap", "direct"] = "default"


_DEFAULTS = Retries()
_RETRIES = {
    "max_retries": Member(partial(expect_int, lo=0)),
    "initial_delay": Member(parse_duration, format_duration),
    "max_delay": Member(parse_duration, format_duration),
}


def _parse_timeout(value: JSON) -> float:
    seconds = parse_duration(value)
    if not 0 < seconds < float("inf"):
        raise SpecError(f"Expected a duration of more than 0, but received: {dump(value)}")
    return seconds


class RequestRetries(ObjectResource):
    """Number of repeated requests, after delays, in seconds, that double up to `max_delay`."""

    # The member `request_timeout` is an extension: how long, in seconds, a server may send nothing.
    # ``{"max_retries": 32, "initial_delay": "1s", "max_delay": "32s", "request_timeout": "60s"}``

    inline: ClassVar[bool] = True
    members: ClassVar[Mapping[str, Member]] = {
        **_RETRIES,
        "request_timeout": Member(_parse_timeout, format_duration, shown=False),
    }

    max_retries: int = _DEFAULTS.max_retries
    initial_delay: float = _DEFAULTS.initial_delay
    max_delay: float = _DEFAULTS.max_delay
    request_timeout: float = _DEFAULTS.request_timeout


def _parse_no_retries(value: JSON) -> int:
    number = expect_int(value, 0)
    if number:
        raise UnsupportedError(
            f'"max_retries" of {number} is not supported for files: a failure is an error at once'
        )
    return number


class FileIoRetries(ObjectResource):
    """Like `RequestRetries`, but without retries."""

    inline: ClassVar[bool] = True
    members: ClassVar[Mapping[str, Member]] = {**_RETRIES, "max_retries": Member(_parse_no_retries)}

    max_retries: int = 0
    initial_delay: float = _DEFAULTS.initial_delay
    max_delay: float = _DEFAULTS.max_delay


class RateLimiter(ObjectResource):
    """Requests per second at the start, doubled every `doubling_time` seconds; None is no limit."""

    # ``{"read_rate": 100, "write_rate": 50, "doubling_time": "4m"}``

    inline: ClassVar[bool] = True
    members: ClassVar[Mapping[str, Member]] = {
        "read_rate": Member(expect_number, shown=False),
        "write_rate": Member(expect_number, shown=False),
        "doubling_time": Member(parse_duration, format_duration, shown=False),
    }

    read_rate: float | None = None
    write_rate: float | None = None
    doubling_time: float | None = None


class RequestCoalescing(ObjectResource):
    """Byte ranges of one value that share a request; an extension, with sizes in bytes."""

    # Gaps of up to `gap` are read rather than skipped; a request of `max_bytes` is not extended.  ``{"gap":
    # 1048576, "max_bytes": 67108864}``

    inline: ClassVar[bool] = True
    members: ClassVar[Mapping[str, Member]] = {
        "gap": Member(partial(expect_int, lo=0)),
        "max_bytes": Member(partial(expect_int, lo=1)),
    }

    gap: int = Coalescing().gap
    max_bytes: int = Coalescing().largest


class ConcurrencyLimit:
    """Live limit on how many tasks run at a time."""

    __slots__ = ("__weakref__", "limit", "pool", "slots")

    def __init__(self, limit: int | None) -> None:
        # None: the whole process shares the limit and the threads.
        self.limit = limit
        self.slots = None if limit is None else Slots(limit)
        # The threads, set on first use by the layer that runs them.
        self.pool: Any = None


def _parse_limit(value: JSON) -> int | None:
    return None if value == "shared" else expect_int(value, 1, 2**64 - 1)


def _format_limit(limit: int | None) -> JSON:
    return "shared" if limit is None else limit


class Concurrency(ObjectResource):
    """``{"limit": "shared"}``, or a number from 1 on."""

    members: ClassVar[Mapping[str, Member]] = {"limit": Member(_parse_limit, _format_limit)}

    limit: int | None = None

    def create(self) -> ConcurrencyLimit:
        """Return a new limit."""
        return ConcurrencyLimit(self.limit)


class MemoryKeyValueStore(ObjectResource):
    """``{}``."""

    def create(self) -> MemoryStore:
        """Return an empty storage."""
        from chunkwise.core.kvstore.memory import MemoryStore

        return MemoryStore()


class CachePool:
    """Live cache pool of `total_bytes_limit` bytes beyond those in use."""

    __slots__ = ("__weakref__", "cache", "metadata", "total_bytes_limit")

    def __init__(self, total_bytes_limit: int) -> None:
        self.total_bytes_limit = total_bytes_limit
        # Set on first use by the layers that cache chunks and open arrays.
        self.cache: Any = None
        self.metadata: Any = None


def _expect_uint64(value: JSON) -> int:
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value < 2**64:
        received = "member is missing" if value is MISSING else f"received: {dump(value)}"
        raise SpecError(f"Expected 64-bit unsigned integer, but {received}")
    return value


class CachePoolConfig(ObjectResource):
    """``{"total_bytes_limit": 0}``."""

    members: ClassVar[Mapping[str, Member]] = {"total_bytes_limit": Member(_expect_uint64)}

    total_bytes_limit: int = 0

    def create(self) -> CachePool:
        """Return an empty pool."""
        return CachePool(self.total_bytes_limit)
