"""The kvstores ``file`` and ``memory``: values in the local file system, or in this process."""

from __future__ import annotations

import ntpath
from dataclasses import dataclass
from typing import Any, ClassVar

from chunkwise.core.base.binding import dump, expect_bool
from chunkwise.core.kvstore.files.file_store import FileStore
from chunkwise.core.kvstore.files.path import is_valid
from chunkwise.core.kvstore.files.platform import WINDOWS
from chunkwise.core.kvstore.protocol import KvStoreDriver
from chunkwise.core.specs.context import ContextResource
from chunkwise.core.specs.kvstore_spec import KvStoreSpec, member
from chunkwise.core.specs.url import quote_path
from chunkwise.errors import InvalidArgumentError

__all__ = ["FileKvStoreSpec", "MemoryKvStoreSpec", "file_url"]


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class FileKvStoreSpec(KvStoreSpec):
    """``{"driver": "file", "path": "/data/a/"}``, ``file:///data/a/``."""

    driver: ClassVar[str] = "file"
    resource_kinds: ClassVar[tuple[str, ...]] = (
        "file_io_concurrency",
        "file_io_locking",
        "file_io_mode",
        "file_io_retries",
        "file_io_sync",
    )

    @classmethod
    def normal_path(cls, path: str) -> str:
        """Refuse paths with components that no key can have; on Windows, replace backslashes."""
        if WINDOWS:
            path = path.replace("\\", "/")
        if not _is_valid_path(path):
            raise InvalidArgumentError(f"Invalid file path: {dump(path)}")
        return path

    def open_driver(self) -> tuple[KvStoreDriver, str]:
        """Return a store of the directory at or around the path."""
        root, slash, name = self.path.rpartition("/")
        directory = root + slash if slash else "."
        if not _is_valid_path(self.path):  # then complete keys are needed, to be refused
            directory = "/" if self.path.startswith("/") else "."
            name = self.path.removeprefix("/")
        locking = self._value("file_io_locking")
        return (
            FileStore(
                directory,
                sync=self._value("file_io_sync").sync,
                locking=locking.mode,
                acquire_timeout=locking.acquire_timeout,
                io_mode=self._value("file_io_mode").mode,
                io_limit=self._value("file_io_concurrency").limit,
            ),
            name,
        )

    def _value(self, kind: str) -> Any:
        resource = self.resources[kind]
        assert isinstance(resource, ContextResource)
        return resource.value

    def to_url(self) -> str:
        """Return ``file:///path``; a relative path has no URL."""
        return file_url(self.path)


def file_url(path: str, *, windows: bool = WINDOWS) -> str:
    """Return the URL of a path with ``/``: ``file:///data/a``, ``file:///C:/a``, ``file://server/share/a``."""
    drive, below = ntpath.splitdrive(path) if windows else ("", path)
    if not below.startswith("/"):
        raise InvalidArgumentError(f'file: URIs do not support relative paths: "{path}"')
    if drive.startswith("//"):
        return "file:" + quote_path(path, "@")
    return f"file:///{drive}{quote_path(below, '@')}" if drive else "file://" + quote_path(path, "@")


def _is_valid_path(path: str) -> bool:
    if WINDOWS:
        path = ntpath.splitdrive(path)[1]
    inner = path.removeprefix("/").removesuffix("/")
    return is_valid(inner) if inner else path != "//"


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class MemoryKvStoreSpec(KvStoreSpec):
    """``{"driver": "memory", "path": "a/"}``, ``memory://a/``."""

    driver: ClassVar[str] = "memory"
    resource_kinds: ClassVar[tuple[str, ...]] = ("memory_key_value_store",)

    atomic: bool = member(
        "atomic", expect_bool, True, shown="with defaults"
    )  # whether transactions of several keys may be atomic

    def open_driver(self) -> tuple[KvStoreDriver, str]:
        """Return the store itself; the path stays a prefix of keys."""
        resource = self.resources["memory_key_value_store"]
        assert isinstance(resource, ContextResource)
        return resource.value, self.path

    def to_url(self) -> str:
        """Return ``memory://path``."""
        return "memory://" + quote_path(self.path)
