"""A file system of fsspec, used directly.

Compatibility
-------------
fsspec has no conditional writes, so changing a part of a value is refused unless the caller promises to be
the only writer.  A generation is made of the file's details that change with a write: its ETag, checksum,
date and size.
"""

from __future__ import annotations

import time
from collections.abc import Hashable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, NoReturn

from chunkwise.core.base.binding import dump
from chunkwise.core.base.limits import held
from chunkwise.core.kvstore.key_range import KeyRange, encode_key
from chunkwise.core.kvstore.objects.bucket import check_object_key
from chunkwise.core.kvstore.objects.failure import raise_failure
from chunkwise.core.kvstore.protocol import (
    MISSING_GENERATION,
    MOST_LOST,
    Buffer,
    ByteRange,
    Children,
    Reader,
    Stamped,
)
from chunkwise.core.kvstore.request_limits import DEFAULT_CONCURRENCY
from chunkwise.core.kvstore.store_base import StoreBase
from chunkwise.core.kvstore.this_process import ProcessName, check_process, process_name
from chunkwise.core.kvstore.traits import StoreTraits
from chunkwise.core.kvstore.value import check_range, check_size, resolve_range
from chunkwise.errors import AbortedError, StorageError, UnsafeWriteError

if TYPE_CHECKING:
    from fsspec import AbstractFileSystem

__all__ = ["FsspecStore", "is_fsspec", "synchronous"]

_TOLD = ("ETag", "etag", "e_tag", "md5Hash", "content_md5", "generation", "mtime", "LastModified", "created")
_MISSING = (FileNotFoundError, IsADirectoryError, NotADirectoryError)


def is_fsspec(value: object) -> bool:
    """Return True if `value` is a file system of fsspec or a mapping of one."""
    names = {f"{c.__module__}.{c.__name__}" for c in type(value).__mro__}
    return bool(names & {"fsspec.spec.AbstractFileSystem", "fsspec.mapping.FSMap"})


def synchronous(fs: AbstractFileSystem) -> AbstractFileSystem:
    """Return a file system whose methods are not coroutines."""
    wrapped = getattr(fs, "sync_fs", None)
    if wrapped is not None:
        return wrapped
    if getattr(fs, "asynchronous", False):
        return type(fs)(*fs.storage_args, **{**fs.storage_options, "asynchronous": False})
    return fs


class FsspecStore(StoreBase):
    """The files below a path of a file system."""

    def __init__(self, fs: AbstractFileSystem, root: str = "", *, single_writer: bool = False) -> None:
        self.fs = fs
        self.root = root.rstrip("/") + "/" if root.rstrip("/") else root
        self.single_writer = single_writer  # the caller's promise that there is no other writer

    def __reduce__(self) -> tuple[object, ...]:
        process = process_name() if _is_in_memory(self.fs) else None
        return _unpickle, (self.fs, self.root, self.single_writer, process)

    def __repr__(self) -> str:
        return f"FsspecStore({self.fs!r}, {self.root!r})"

    @property
    def traits(self) -> StoreTraits:
        """Those of a remote store, unless the files are on this machine, without conditional requests."""
        return StoreTraits(
            request_concurrency=None if self._is_local() else DEFAULT_CONCURRENCY,
            suffix_ranges=False,
            conditional_deletes=False,
            conditional_writes=lambda key: self.single_writer,
        )

    def _is_local(self) -> bool:
        return not _protocols(self.fs).isdisjoint({"file", "local", "memory"})

    @property
    def identity(self) -> Hashable:
        """The file system, as fsspec identifies it, and the path."""
        return "fsspec", hash(self.fs), self.root

    def describe(self, key: str) -> str:
        """Return the quoted path with its protocol."""
        return dump(self.fs.unstrip_protocol(self.root + key))

    def read(
        self, key: str, *, byte_range: ByteRange | None = None, if_not_equal: bytes | None = None
    ) -> Stamped:
        """Return the value of `key` or a part of it, with its generation."""
        start, stop = byte_range or (0, None)
        for _ in range(MOST_LOST):
            now = time.time()
            generation = self._generation(key)
            if generation == MISSING_GENERATION:
                return Stamped(None, MISSING_GENERATION, now)
            if generation == if_not_equal:
                return Stamped(None, generation, now)
            value = self._load(key, start, stop)
            if self._generation(key) == generation:
                return Stamped(value, generation, now)
        raise AbortedError(f"{self.describe(key)} was replaced {MOST_LOST} times while it was read")

    def open_reader(self) -> Reader:
        """Return a reader of values; its results stay valid."""
        return self._load

    def _load(self, key: str, start: int = 0, stop: int | None = None) -> Buffer | None:
        check_range(start, stop)
        path = self._path(key)
        try:
            if start == 0 and stop is None:
                if held() is not None and self._is_local():
                    check_size(self.fs.info(path)["size"], self.describe(key))
                value: bytes = self.fs.cat_file(path)
                check_size(len(value), self.describe(key))
                return value
            info = self.fs.info(path)
            if info.get("type") == "directory":
                return None
            begin, end = resolve_range(start, stop, info["size"])
            part: bytes = self.fs.cat_file(path, start=begin, end=end) if end > begin else b""
        except _MISSING:
            return None
        except BaseException as e:
            self._fail(e, "read", key)
        if len(part) != end - begin:
            raise StorageError(f"Failed to read {self.describe(key)}: got {len(part)} bytes of {end - begin}")
        return part

    def read_ranges(self, key: str, starts: Sequence[int], stops: Sequence[int]) -> list[Buffer] | None:
        """Return the bytes of each range of the value of `key`, None if it is missing."""
        out = []
        if not starts:
            return None if self._info(key) is None else []
        for start, stop in zip(starts, stops, strict=True):
            part = self._load(key, start, stop)
            if part is None:
                return None
            out.append(part)
        return out

    def _path(self, key: str) -> str:
        check_object_key(key if self.root else key.removeprefix("/"))
        return self.root + key

    def _info(self, key: str) -> Any | None:
        path = self._path(key)
        try:
            self.fs.invalidate_cache(path)
            info = self.fs.info(path)
        except _MISSING:
            return None
        except BaseException as e:
            self._fail(e, "read", key)
        return None if info.get("type") == "directory" else info

    def _generation(self, key: str) -> bytes:
        info = self._info(key)
        if info is None:
            return MISSING_GENERATION
        told = [f"{name}={info[name]}" for name in _TOLD if info.get(name) is not None]
        return b"\0" + " ".join([*told, f"size={info.get('size')}"]).encode()

    def write(self, key: str, value: Buffer, *, if_equal: bytes | None = None) -> bytes | None:
        """Replace the value of `key`; return its new generation, None if the current is not `if_equal`."""
        path = self._path(key)
        if if_equal:
            if not self.single_writer and if_equal != MISSING_GENERATION:
                raise UnsafeWriteError(
                    f"Failed to write {self.describe(key)}: fsspec has no conditional writes, so "
                    "changing a part of a value could lose other writers' data; write whole values, or set "
                    '"single_writer" if no other process writes'
                )
            if self._generation(key) != if_equal:
                return None
        try:
            parent = path.rpartition("/")[0]
            if parent and self._is_local():
                self.fs.makedirs(parent, exist_ok=True)
            self.fs.pipe_file(path, bytes(memoryview(value).cast("B")))
        except BaseException as e:
            self._fail(e, "write", key)
        return self._generation(key)

    def delete(self, key: str, *, if_equal: bytes | None = None) -> bytes | None:
        """Delete `key`; return MISSING_GENERATION, None if `if_equal` is not the current generation."""
        path = self._path(key)
        if if_equal and self._generation(key) != if_equal:
            return None
        try:
            self.fs.rm_file(path)
        except _MISSING:
            pass
        except BaseException as e:
            self._fail(e, "delete", key)
        return MISSING_GENERATION

    def list(self, start: str = "", stop: str = "") -> Iterator[str]:
        """Yield the keys in ``[start, stop)``."""
        keys = KeyRange.between(start, stop)
        if keys.empty:
            return
        below = self.root + keys.common_directory()
        try:
            self.fs.invalidate_cache()
            found = self.fs.find(below.rstrip("/") or below)
        except _MISSING:
            return
        except BaseException as e:
            self._fail(e, "list", start)
        for path in found:
            key = self._key(path, below)
            if key in keys:
                yield key

    def _key(self, path: str, below: str) -> str:
        """Return the key of a path that was listed `below` another; some file systems put "/" in front."""
        if self.root:
            return path[len(str(self.fs._strip_protocol(self.root)).rstrip("/")) + 1 :]
        return path if below.startswith("/") else path.removeprefix("/")

    def list_children(self, prefix: str) -> Children:
        """List one level below `prefix`; keys and prefixes are complete."""
        keys: list[str] = []
        prefixes: list[str] = []
        below = self.root + prefix
        try:
            self.fs.invalidate_cache()
            found = self.fs.ls(below.rstrip("/") or below, detail=True)
        except _MISSING:
            return Children([], [])
        except BaseException as e:
            self._fail(e, "list", prefix)
        for info in found:
            name = self._key(info["name"].rstrip("/"), below)
            if name and name.startswith(prefix):
                (prefixes if info["type"] == "directory" else keys).append(name)
        return Children(sorted(keys, key=encode_key), sorted(prefixes, key=encode_key))

    def _fail(self, error: BaseException, operation: str, key: str) -> NoReturn:
        what = f"{operation} {self.describe(key)}"
        raise_failure(error, what, "; check the credentials of the file system")


def _protocols(fs: AbstractFileSystem) -> set[str]:
    protocol = getattr(fs, "protocol", ())
    return {protocol} if isinstance(protocol, str) else set(protocol)


def _is_in_memory(fs: Any) -> bool:
    """Return True if files, perhaps below wrappers of others, are in the memory of this process."""
    within = {id(held): held for name in ("fs", "sync_fs") if (held := getattr(fs, name, None)) is not None}
    within.pop(id(fs), None)
    return "memory" in _protocols(fs) or any(map(_is_in_memory, within.values()))


class _AbsentFiles:
    """A file system in another process's memory: it can be unpickled, but not used."""

    protocol = "memory"

    def __init__(self, process: ProcessName) -> None:
        self._process = process

    def __reduce__(self) -> tuple[object, ...]:
        return _AbsentFiles, (self._process,)

    def unstrip_protocol(self, path: str) -> str:
        return f"memory://{path}"

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        check_process(self._process, "a file system of fsspec's `memory://`")
        raise AttributeError(name)


def _unpickle(
    fs: AbstractFileSystem, root: str, single_writer: bool, process: ProcessName | None
) -> FsspecStore:
    if process is not None and process != process_name():
        fs = _AbsentFiles(process)
    return FsspecStore(fs, root, single_writer=single_writer)
