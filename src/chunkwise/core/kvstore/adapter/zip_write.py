"""Writing a ZIP archive: members one after the other, then the table of contents.

`zipfile` makes the headers and the table of contents; members are encoded here, also by methods that
`zipfile` lacks.  Sizes are known before a member is written, so there are no data descriptors, and ZIP64
fields only if needed.

In a directory, the archive is written to the lock file of its key.  Elsewhere it is built in a temporary
file, which is then stored as one value, in parts if it is large.
"""

from __future__ import annotations

import io
import json
import mmap
import os
import tempfile
import zlib
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import IO, Literal, NamedTuple, TypeAlias
from zipfile import ZipFile, ZipInfo

from chunkwise.core.base.binding import dump
from chunkwise.core.kvstore.adapter.zip_read import Method, method_named
from chunkwise.core.kvstore.files.file_store import FileStore
from chunkwise.core.kvstore.key_range import encode_key
from chunkwise.core.kvstore.protocol import MISSING_GENERATION, Buffer, ByteRange, KvStoreDriver, Readable
from chunkwise.core.kvstore.request_limits import Slots
from chunkwise.core.kvstore.traits import traits_of
from chunkwise.errors import AbortedError, AlreadyExistsError, FailedPreconditionError, InvalidArgumentError

__all__ = [
    "DOCUMENT",
    "ArchiveWriter",
    "Compression",
    "Encoded",
    "check_member_name",
    "default_compression",
    "export_archive",
    "make_archive",
]

Compression: TypeAlias = Literal["deflate", "store", "zstd", "xz"]

DOCUMENT = "zarr.json"
"""Name of the member that describes an archive of OME-Zarr."""

_MODE = 0o100644 << 16
_UTF8_NAME = 0x800
_UNIX = 3
_LONGEST_NAME = 0xFFFF


def default_compression(name: str) -> Compression:
    """Return the compression of new members of an archive of that name: none in OME-Zarr's (RFC-9)."""
    return "store" if name.endswith(".ozx") else "deflate"


class Encoded(NamedTuple):
    """A member as it is in an archive."""

    method: Method
    data: Buffer
    crc: int  # CRC-32 of the decoded bytes
    nbytes: int  # size when decoded


class ArchiveWriter:
    """Writer of an archive, which is to be called `name`, to an empty, seekable file."""

    # Members are dated 1980-01-01, so the same members in the same order give the same bytes.

    def __init__(
        self,
        file: IO[bytes],
        name: str = "",
        *,
        compression: Compression = "store",
        slots: Slots | None = None,
    ) -> None:
        self._file, self._is_ome, self._comment = file, name.endswith(".ozx"), b""
        self._method = method_named(compression)
        self._slots = slots  # held while a member is compressed
        self._entries: dict[str, ZipInfo] = {}

    def add(self, name: str, value: Buffer | Encoded) -> None:
        """Write a member; raise InvalidArgumentError for a name that exists or that readers refuse."""
        check_member_name(name)
        if name in self._entries:
            raise InvalidArgumentError(f"Invalid ZIP member name: {dump(name)}: it occurs twice")
        if not isinstance(value, Encoded):
            if self._is_ome and name == DOCUMENT:
                self._comment = _ome_comment(bytes(value))
            encode = self._method.encode
            data = encode(value) if self._slots is None else self._slots.call(encode, value)
            value = Encoded(self._method, data, zlib.crc32(value), memoryview(value).nbytes)
        entry = ZipInfo(name)
        entry.flag_bits |= _UTF8_NAME  # without it CPython 3.14 writes names in code page 437
        entry.compress_type = value.method.number
        entry.create_system, entry.external_attr = _UNIX, _MODE
        entry.create_version = entry.extract_version = value.method.version
        entry.CRC = value.crc
        entry.compress_size, entry.file_size = memoryview(value.data).nbytes, value.nbytes
        entry.header_offset = self._file.tell()
        self._file.write(entry.FileHeader())
        self._file.write(value.data)
        self._entries[name] = entry

    def finish(self) -> int:
        """Write the table of contents and return the size of the archive in bytes."""
        with ZipFile(self._file, "w") as archive:  # made now, since dropping it writes too
            archive.filelist.extend(self._entries.values())
            archive.start_dir = self._file.tell()
            archive.comment = self._comment
        return self._file.tell()


def _ome_comment(document: bytes) -> bytes:
    """Return the comment by which readers know that the documents of OME-Zarr come first (RFC-9)."""
    try:
        version = json.loads(document)["attributes"]["ome"]["version"]
    except (ValueError, LookupError, TypeError):  # it is no OME-Zarr
        return b""
    first = {"centralDirectory": {"jsonFirst": True}}
    return json.dumps({"ome": {"version": version, "zipFile": first}}).encode()


def _member_order(archive: str) -> Callable[[str], tuple[bool, int, bytes]]:
    """Return the key by which names of members of an archive are sorted as they are written.

    OME-Zarr's archives, ``*.ozx`` (RFC-9), begin with the documents, that of the root first.
    """

    def order(name: str) -> tuple[bool, int, bytes]:
        is_first = archive.endswith(".ozx") and name.rpartition("/")[2] == DOCUMENT
        return not is_first, name.count("/") if is_first else 0, encode_key(name)

    return order


def make_archive(
    items: Iterable[tuple[str, Buffer | Encoded]],
    name: str = "",
    *,
    compression: Compression = "store",
    slots: Slots | None = None,
) -> bytes:
    """Return a ZIP archive of `items`, which is to be called `name`."""
    memory = io.BytesIO()
    archive = ArchiveWriter(memory, name, compression=compression, slots=slots)
    order = _member_order(name)
    for member, value in sorted(items, key=lambda item: order(item[0])):
        archive.add(member, value)
    archive.finish()
    # Avoids a copy, as a view would; but a buffer with views can't be closed, which the garbage collector
    # tries if both are in a cycle.
    return memory.getvalue()


def check_member_name(name: str) -> None:
    """Raise InvalidArgumentError for a name that a reader would refuse or change."""
    parts = name.split("/")
    if (
        "\0" in name
        or "" in parts
        or ".." in parts
        or not _is_utf8(name)
        or len(name.encode()) > _LONGEST_NAME
    ):
        raise InvalidArgumentError(
            f"Invalid ZIP member name: {dump(name)}: expected a relative path in UTF-8 of at most "
            f'{_LONGEST_NAME} bytes, without empty components, ".." or NUL'
        )


def _is_utf8(name: str) -> bool:
    try:
        name.encode()
    except UnicodeEncodeError:
        return False
    return True


# Object stores accept a condition only for a value in one request, with at most 5 GiB on S3 and Azure.
_LARGEST_CONDITIONAL = 1 << 32


class Exported(NamedTuple):
    """Number of members and size in bytes of an archive."""

    n_members: int
    nbytes: int


def export_archive(
    source: KvStoreDriver,
    target: KvStoreDriver,
    key: str,
    *,
    compression: Compression = "store",
    overwrite: bool = False,
    progress: Callable[[int], None] | None = None,
) -> Exported:
    """Write all of `source` as a ZIP archive, members in order, to the value `key` of `target`."""
    # Raises AlreadyExistsError unless `overwrite`, AbortedError if a key of `source` is deleted meanwhile,
    # and, before anything is written, InvalidArgumentError for a key that is not a safe name of a member.
    keys = sorted(source.list(), key=_member_order(key))
    for name in keys:
        check_member_name(name)
    if not overwrite:
        _check_missing(target, key)
    if isinstance(target, FileStore) and os.path.isdir(target.root + key):
        raise FailedPreconditionError(f"{target.describe(key)} is a directory, expected the name of a file")

    def write(file: IO[bytes]) -> Exported:
        archive = ArchiveWriter(file, key, compression=compression)
        for name, value in _values(source, keys):
            archive.add(name, value)
            if progress is not None:
                progress(len(value))
        return Exported(len(keys), archive.finish())

    if isinstance(target, FileStore):
        return _write_file(target, key, write, overwrite=overwrite)
    with tempfile.TemporaryFile() as file:
        exported = write(file)
        file.flush()
        with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as whole, memoryview(whole) as value:
            condition = None if overwrite else MISSING_GENERATION
            if condition is not None and len(value) > _LARGEST_CONDITIONAL:
                _check_missing(target, key)
                condition = None
            if target.write(key, value, if_equal=condition) is None:
                raise _exists(target, key)
    return exported


def _values(source: Readable, keys: Sequence[str]) -> Iterator[tuple[str, Buffer]]:
    """Yield keys and values in order; a store that answers slowly gets many requests at a time."""

    def read(key: str) -> Buffer:
        value = source.read(key).value
        if value is None:
            raise AbortedError(f'"{key}" was deleted while it was to be copied')
        return value

    n = traits_of(source).request_concurrency or 1
    if n == 1:
        yield from ((key, read(key)) for key in keys)
        return
    with ThreadPoolExecutor(n) as pool:
        pending: deque[tuple[str, Future[Buffer]]] = deque()
        try:
            for key in keys:
                pending.append((key, pool.submit(read, key)))
                if len(pending) >= n:
                    first, value = pending.popleft()
                    yield first, value.result()
            for first, value in pending:
                yield first, value.result()
        finally:
            for _, value in pending:
                value.cancel()


def _write_file(
    target: FileStore, key: str, write: Callable[[IO[bytes]], Exported], *, overwrite: bool
) -> Exported:
    exported: Exported | None = None

    def fill(file: IO[bytes]) -> None:
        nonlocal exported
        exported = write(file)
        if not overwrite:  # a program that ignores locks may have been faster
            _check_missing(target, key)

    target.write_file(key, fill, if_equal=None if overwrite else MISSING_GENERATION)
    if exported is None:
        raise _exists(target, key)
    return exported


def _check_missing(target: KvStoreDriver, key: str) -> None:
    # A link to a directory, or to nothing, has no value.
    if isinstance(target, FileStore) and os.path.lexists(target.root + key):
        raise _exists(target, key)
    if target.read(key, byte_range=ByteRange(0, 0)).generation != MISSING_GENERATION:
        raise _exists(target, key)


def _exists(target: KvStoreDriver, key: str) -> AlreadyExistsError:
    return AlreadyExistsError(f"{target.describe(key)} exists already")
