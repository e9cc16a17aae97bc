"""``ocdbt_coordinator``: the server through which several writers of an OCDBT database agree."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from chunkwise.binding import JSON, Members, expect_string
from chunkwise.errors import SpecError, prefix
from chunkwise.spec.resources.duration import format_duration, parse_duration
from chunkwise.spec.resources.kind import Member, ObjectResource

__all__ = ["OcdbtCoordinator"]


def _parse_security(value: JSON) -> Any:
    method = Members(value).take("method", expect_string)
    error = SpecError(f'"{method}" is not registered')
    raise prefix(error, 'Error parsing object member "method"')


@dataclass(frozen=True)
class OcdbtCoordinator(ObjectResource):
    """``{"address": "host:port", "lease_duration": "10s"}``; `lease_duration` in seconds."""

    inline: ClassVar[bool] = True
    members: ClassVar[Mapping[str, Member]] = {
        "address": Member(expect_string, shown=False),
        "lease_duration": Member(parse_duration, format_duration, shown=False),
        "security": Member(_parse_security, shown=False),
    }

    address: str | None = None
    lease_duration: float | None = None
    security: None = None
