"""``*_retries`` and ``experimental_*_rate_limiter``: repetition and rate of requests."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import ClassVar

from chunkwise.core.base.binding import JSON, dump, expect_int, expect_number
from chunkwise.core.kvstore.request_limits import Coalescing, Retries
from chunkwise.core.specs.resources.kind import Member, ObjectResource, format_duration, parse_duration
from chunkwise.errors import SpecError, UnsupportedError

__all__ = ["FileIoRetries", "RateLimiter", "RequestCoalescing", "RequestRetries"]

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
