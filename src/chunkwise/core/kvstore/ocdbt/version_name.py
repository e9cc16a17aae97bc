"""Names of versions: a generation, or the time at which a version was the latest.

A generation is a number in JSON, and ``v3`` in URLs.  A time is ``2026-01-31T12:00:00Z``, with up to nine
digits of a second.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime
from typing import NamedTuple

from chunkwise.core.base.binding import JSON, dump, expect_int
from chunkwise.errors import InvalidArgumentError, SpecError

__all__ = ["VersionName", "parse_version", "parse_version_text"]

_TIME = re.compile(r"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)(?:\.(\d{1,9}))?Z", re.ASCII)
_GENERATION = re.compile(r"v(\d+)", re.ASCII)
_SECOND = 10**9
_LAST = 2**63 - 1


class VersionName(NamedTuple):
    """A generation, or a time in nanoseconds since the epoch."""

    number: int
    is_time: bool = False

    @property
    def text(self) -> str:
        """The name in URLs."""
        return self._time if self.is_time else f"v{self.number}"

    @property
    def json(self) -> JSON:
        """The name in JSON."""
        return self._time if self.is_time else self.number

    @property
    def condition(self) -> str:
        """The condition on the version, for messages."""
        return f"commit_time<={self._time}" if self.is_time else f"generation_number={self.number}"

    @property
    def _time(self) -> str:
        seconds, rest = divmod(self.number, _SECOND)
        fraction = f".{rest:09}".rstrip("0") if rest else ""
        return f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%dT%H:%M:%S}{fraction}Z"


def parse_version(value: JSON) -> VersionName:
    """Read the member ``version``."""
    if isinstance(value, str):
        return VersionName(_parse_time(value), is_time=True)
    return VersionName(expect_int(value, 1, 2**64 - 1))


def parse_version_text(text: str) -> VersionName:
    """Read a name from a URL."""
    try:
        if not text.startswith("v"):
            return VersionName(_parse_time(text), is_time=True)
        match = _GENERATION.fullmatch(text)
        number = 0 if match is None else int(match[1]) if len(match[1]) < 100 else 2**64
        if not 1 <= number < 2**64:
            raise SpecError("Invalid generation number")
        return VersionName(number)
    except SpecError as e:
        raise InvalidArgumentError(f"Invalid OCDBT version: {dump(text)}: {e.message}") from None


def _parse_time(text: str) -> int:
    match = _TIME.fullmatch(text)
    try:
        if match is None:
            raise ValueError
        seconds = int(datetime.fromisoformat(f"{match[1]}+00:00").timestamp())
    except ValueError:
        raise SpecError(
            f"Invalid OCDBT commit time {dump(text)}: expected such as 2026-01-31T12:00:00.5Z"
        ) from None
    time = seconds * _SECOND + int((match[2] or "0").ljust(9, "0"))
    if not 0 <= time <= _LAST:
        raise SpecError(f"Invalid OCDBT commit time {dump(text)}: it can't be 64-bit nanoseconds since 1970")
    return time
