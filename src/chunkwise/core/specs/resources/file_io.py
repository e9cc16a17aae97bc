"""``file_io_sync``, ``file_io_locking``, ``file_io_mode``: how the kvstore ``file`` uses the file system."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import ClassVar, Literal

from chunkwise.core.base.binding import JSON, expect_bool, expect_one_of
from chunkwise.core.specs.resources.kind import Member, ObjectResource, format_duration, parse_duration

__all__ = ["FileIoLocking", "FileIoMode", "FileIoSync"]


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
