"""Kinds of context resources: records of members, read from JSON and written to it.

Durations are text with units, ``"1m30s"``, in the form of Abseil and Go.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from typing import Any, ClassVar, NamedTuple, Protocol, Self, runtime_checkable

from chunkwise.core.base.binding import JSON, Members, dump
from chunkwise.errors import SpecError

__all__ = ["Member", "ObjectResource", "ResourceConfig", "format_duration", "parse_duration"]

_NANOSECONDS = {"ns": 1, "us": 10**3, "ms": 10**6, "s": 10**9, "m": 60 * 10**9, "h": 3600 * 10**9}
_PART = r"(\d+\.?\d*|\.\d+)(ns|us|ms|s|m|h)"
_DURATION = rf"(?a)([+-]?)(?:(?P<parts>(?:{_PART})+)|(?P<zero>0)|(?P<inf>inf))"


@runtime_checkable
class ResourceConfig(Protocol):
    """Configuration of a resource; a class for each kind, whose default instance is the default."""

    # The resource is only its configuration, so a bound spec shows that instead of a reference to a shared
    # resource.
    inline: ClassVar[bool]

    @classmethod
    def parse(cls, value: JSON) -> Self:
        """Read the JSON of a configuration."""
        ...

    def to_json(self, *, include_defaults: bool = False) -> JSON:
        """Return the JSON of the configuration."""
        ...

    def create(self) -> Any:
        """Return a new live object with this configuration."""
        ...


def _same(value: Any) -> JSON:
    return value


class Member(NamedTuple):
    """Reader and writer of one member of a configuration."""

    parse: Callable[[JSON], Any]  # from JSON to a value, and back
    format: Callable[[Any], JSON] = _same
    shown: bool = True  # True if the default is written on request


class ObjectResource:
    """Base of the kinds that are JSON objects; class attributes are the defaults of the members."""

    # A dataclass for each kind takes ten times as long to make, in every process that opens an array.
    inline: ClassVar[bool] = False
    members: ClassVar[Mapping[str, Member]] = {}

    def __init__(self, **given: Any) -> None:
        vars(self).update(given)

    @classmethod
    def parse(cls, value: JSON) -> Self:
        """Read a JSON object; a missing member has its default."""
        members = Members(value)
        found = {name: members.take(name, m.parse, getattr(cls, name)) for name, m in cls.members.items()}
        members.finish()
        return cls(**found)

    def to_json(self, *, include_defaults: bool = False) -> JSON:
        """Return the JSON object; members at their default are left out unless requested."""
        out = {}
        for name, member in sorted(self.members.items()):
            value = getattr(self, name)
            if value != getattr(type(self), name) or (include_defaults and member.shown):
                out[name] = member.format(value)
        return out

    def create(self) -> Any:
        """Return the configuration, which itself is the resource."""
        return self

    def _values(self) -> tuple[Any, ...]:
        return tuple([getattr(self, name) for name in self.members])

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other) and self._values() == other._values()

    def __hash__(self) -> int:
        return hash((type(self), self._values()))

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(f'{n}={getattr(self, n)!r}' for n in self.members)})"


def parse_duration(value: JSON) -> float:
    """Return the seconds of a text such as ``"1h2m"``, ``"1.5ms"``, ``"0"`` or ``"inf"``."""
    match = re.fullmatch(_DURATION, value) if isinstance(value, str) else None
    if match is None:
        raise SpecError(
            'Expected Duration formatted as a string using time units "ns", "us" "ms", "s", "m", or "h"., '
            f"but received: {dump(value)}"
        )
    if match["inf"]:
        seconds = math.inf
    else:
        parts = re.findall(_PART, match["parts"] or "", re.ASCII)
        seconds = sum(float(number) * _NANOSECONDS[unit] for number, unit in parts) / 10**9
    return -seconds if match[1] == "-" else seconds


def format_duration(seconds: float) -> str:
    """Return the shortest text of a duration in seconds, to the nanosecond: ``1m30s``, ``1.5ms``."""
    if math.isinf(seconds):
        return "inf" if seconds > 0 else "-inf"
    left = round(abs(seconds) * 10**9)
    if left == 0:
        return "0"
    text = "-" if seconds < 0 else ""
    if left < 10**9:
        unit = "ns" if left < 10**3 else "us" if left < 10**6 else "ms"
        return text + _count(left, unit)
    for unit in ("h", "m"):
        whole, left = divmod(left, _NANOSECONDS[unit])
        text += f"{whole}{unit}" if whole else ""
    return text + (_count(left, "s") if left else "")


def _count(nanoseconds: int, unit: str) -> str:
    whole, rest = divmod(nanoseconds, _NANOSECONDS[unit])
    digits = str(rest).zfill(len(str(_NANOSECONDS[unit])) - 1).rstrip("0") if rest else ""
    return f"{whole}{'.' if digits else ''}{digits}{unit}"
