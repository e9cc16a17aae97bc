"""Copying a store into a new ZIP archive of any size, which appears complete or not at all.

In a directory, the archive is written to the lock file of its key.  Elsewhere it is built in a temporary
file, which is then stored as one value, in parts if it is large.
"""

from __future__ import annotations

import mmap
import os
import tempfile
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import IO, NamedTuple

from chunkwise.core.kvstore.adapter.zip_write import (
    ArchiveWriter,
    Compression,
    check_member_name,
    member_order,
)
from chunkwise.core.kvstore.files.file_store import FileStore
from chunkwise.core.kvstore.protocol import MISSING_GENERATION, Buffer, ByteRange, KvStoreDriver, Readable
from chunkwise.core.kvstore.traits import traits_of
from chunkwise.errors import AbortedError, AlreadyExistsError, FailedPreconditionError

__all__ = ["Exported", "export_archive"]

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
    keys = sorted(source.list(), key=member_order(key))
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
