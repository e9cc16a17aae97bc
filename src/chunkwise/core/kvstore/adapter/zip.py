"""The members of a ZIP archive, which is one value of another store, as a store.

Specification
-------------
https://pkware.cachefly.net/webdocs/casestudies/APPNOTE.TXT (6.3.10).

The table of contents is read once for each version of the archive, then each member by one request for its
bytes, whatever the base.  Parts of *stored* members are read without the rest.

Compatibility
-------------
Methods *stored*, *deflate*, *bzip2*, *lzma*, *zstd* and *xz*; others and encryption are an
UnsupportedError.  A missing archive is an empty store, as in TensorStore.  Every write replaces the archive,
on condition that no other writer has, so it is better to write many members at once, in a transaction.
Members that don't change keep their bytes, compressed or not.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from typing import NamedTuple, TypeVar

from chunkwise.core.base.binding import dump
from chunkwise.core.base.threads import new_lock
from chunkwise.core.kvstore.adapter.zip_read import (
    TAIL_SIZE,
    Get,
    Member,
    MisplacedError,
    method_numbered,
    read_directory,
    read_member,
    stored_bytes,
)
from chunkwise.core.kvstore.adapter.zip_write import (
    DOCUMENT,
    Compression,
    Encoded,
    check_member_name,
    default_compression,
    make_archive,
)
from chunkwise.core.kvstore.compare_and_swap import ReplacedError, while_replaced
from chunkwise.core.kvstore.key_range import KeyRange, encode_key
from chunkwise.core.kvstore.protocol import (
    MISSING_GENERATION,
    Buffer,
    ByteRange,
    KvStoreDriver,
    Reader,
    Stamped,
)
from chunkwise.core.kvstore.request_limits import Slots
from chunkwise.core.kvstore.store_base import StoreBase
from chunkwise.core.kvstore.traits import StoreTraits, traits_of
from chunkwise.core.kvstore.value import read_own
from chunkwise.errors import (
    ChunkwiseError,
    DataCorruptionError,
    FailedPreconditionError,
    OutOfRangeError,
    prefix,
)

__all__ = ["ZipStore"]

T = TypeVar("T")


class _Archive(NamedTuple):
    """The table of contents of one version of the archive, which was current at `time`."""

    members: Mapping[str, Member]
    generation: bytes
    time: float
    positions: dict[int, int]  # positions of members' data, where known, by position of their headers
    n_front: int = 0  # number of bytes in front of the first member
    measured: bool = True  # whether positions were corrected for these, by the size of the file
    whole: Buffer | None = None  # a small archive, which is read at once


class ZipStore(StoreBase):
    """The members of the archive in the value `key` of `base`."""

    # The generation of every member is that of the archive.  A reader uses the table of contents from when it
    # was opened, until it notices that the archive was replaced.

    def __init__(
        self,
        base: KvStoreDriver,
        key: str,
        *,
        compression: Compression | None = None,
        slots: Slots | None = None,
    ) -> None:
        self.base = base
        self.key = key
        self.compression: Compression = compression or default_compression(key)  # of new values
        self.slots = slots  # held while a member is compressed or decompressed
        self._lock = new_lock()
        self._known: _Archive | None = None

    def __reduce__(self) -> tuple[object, ...]:
        return _unpickle, (self.base, self.key, self.compression, self.slots)

    def __repr__(self) -> str:
        return f"ZipStore({self.base!r}, {self.key!r})"

    @property
    def traits(self) -> StoreTraits:
        """The base's traits, but every change, even a deletion, is a conditional write of the archive."""
        base = traits_of(self.base)
        return StoreTraits(
            request_concurrency=base.request_concurrency,
            write_concurrency=None,  # archives are written one after the other
            io_limit=base.io_limit,
            coalescing=None,  # a member is read whole, or in one range
            suffix_ranges=True,  # the directory contains the sizes
            conditional_writes=lambda key: base.conditional_writes(self.key),
            own_generations=False,
        )

    @property
    def identity(self) -> Hashable:
        """The identity of the base, with the key."""
        return "zip", self.base.identity, self.key

    def describe(self, key: str) -> str:
        """Name the member and the archive."""
        return f"{dump(key)} in {self.base.describe(self.key)}"

    def read(
        self, key: str, *, byte_range: ByteRange | None = None, if_not_equal: bytes | None = None
    ) -> Stamped:
        """Return the member `key` or a part of it, with the archive's generation."""

        def load(archive: _Archive) -> Stamped:
            if key not in archive.members:
                return Stamped(None, MISSING_GENERATION, archive.time)
            if archive.generation == if_not_equal:
                return Stamped(None, archive.generation, archive.time)
            value = self._load(archive, key, *(byte_range or ByteRange()))
            return Stamped(value, archive.generation, archive.time)

        return self._with_archive(load)

    def open_reader(self) -> Reader:
        """Return a reader; it checks for a new archive now, and later only when a read reveals one."""
        self._archive()

        def read(key: str, start: int = 0, stop: int | None = None) -> Buffer | None:
            def load(archive: _Archive) -> Buffer | None:
                return self._load(archive, key, start, stop) if key in archive.members else None

            return self._with_archive(load, self._known)

        return read

    def write(self, key: str, value: Buffer, *, if_equal: bytes | None = None) -> bytes | None:
        """Replace the archive by one with the new value of `key`; return its generation."""
        return self._change({key: value}, {key: if_equal} if if_equal else {}, ())[1]

    def delete(self, key: str, *, if_equal: bytes | None = None) -> bytes | None:
        """Replace the archive by one without `key`."""
        refused, _ = self._change({key: None}, {key: if_equal} if if_equal else {}, ())
        return MISSING_GENERATION if refused is None else None

    def delete_range(self, start: str = "", stop: str = "") -> None:
        """Replace the archive by one without the members in ``[start, stop)``."""
        self._change({}, {}, (KeyRange.between(start, stop),))

    def write_all(
        self,
        values: Mapping[str, Buffer | None],
        *,
        conditions: Mapping[str, bytes],
        deleted: Sequence[KeyRange] = (),
    ) -> str | None:
        """Make many changes with one new archive; see `chunkwise.core.kvstore.atomic.AtomicWritable`."""
        return self._change(values, conditions, deleted)[0]

    def _change(
        self,
        values: Mapping[str, Buffer | None],
        conditions: Mapping[str, bytes],
        deleted: Sequence[KeyRange],
    ) -> tuple[str | None, bytes | None]:
        """Return the key whose condition failed, or the new generation."""
        for key in values:
            check_member_name(key)

        def change(archive: _Archive) -> tuple[str | None, bytes | None]:
            members = archive.members
            for key, expected in conditions.items():
                if expected != (archive.generation if key in members else MISSING_GENERATION):
                    return key, None
            gone = {key for key in members if any(key in keys for keys in deleted)}
            gone.update(key for key, value in values.items() if value is None and key in members)
            new = {key: value for key, value in values.items() if value is not None}
            if not gone and not new:
                return None, archive.generation
            self._check_front(archive)
            items = {key: self._kept(archive, key) for key in members if key not in gone and key not in new}
            if not items and not new and self.key.endswith(".ozx"):  # which has a root
                written = self.base.delete(self.key, if_equal=archive.generation)
            else:
                data = make_archive(
                    (items | new).items(), self.key, compression=self.compression, slots=self.slots
                )
                written = self.base.write(self.key, data, if_equal=archive.generation)
            if written is None:
                raise ReplacedError
            self._archive()  # open readers continue with the new archive
            return None, written

        return self._with_archive(change)

    def list(self, start: str = "", stop: str = "") -> Iterator[str]:
        """Yield the members in ``[start, stop)``, in order, without directories."""
        keys = KeyRange.between(start, stop)
        return iter(sorted((k for k in self._archive().members if k in keys), key=encode_key))

    def _with_archive(self, action: Callable[[_Archive], T], known: _Archive | None = None) -> T:
        """Return ``action(archive)``, which is called again if the archive was replaced meanwhile."""

        def attempt() -> T:
            nonlocal known
            archive, known = known or self._archive(), None
            return action(archive)

        return while_replaced(self.base, self.key, attempt)

    def _archive(self) -> _Archive:
        """Return the current table of contents of the archive."""
        with self._lock:
            self._known = while_replaced(self.base, self.key, self._latest)
            return self._known

    def _latest(self) -> _Archive:
        known = self._known
        try:
            tail = self._tail(None if known is None else known.generation)
            if known is not None and tail.generation == known.generation:
                return known._replace(time=tail.time)
            return self._directory(tail)
        except ChunkwiseError as e:
            raise prefix(e, f"Error reading {self.base.describe(self.key)}") from None

    def _directory(self, tail: Stamped, nbytes: int | None = None) -> _Archive:
        """Return the archive that ends with `tail`; the size of the file is known if it is small."""
        if tail.value is None:
            return _Archive({}, tail.generation, tail.time, {})
        raw = bytes(tail.value)
        whole = raw if len(raw) < TAIL_SIZE else None
        nbytes = nbytes if whole is None else len(raw)
        try:
            members, n_front = read_directory(raw, self._open_get(tail.generation, whole), nbytes)
        except MisplacedError:
            return self._directory(tail, self._nbytes())
        return _Archive(members, tail.generation, tail.time, {}, n_front, nbytes is not None, whole)

    def _measure(self, archive: _Archive) -> None:
        """Read the table of contents again, with positions corrected by the size of the file."""
        with self._lock:
            tail = self._tail(None)
            if tail.generation == archive.generation:
                self._known = self._directory(tail, self._nbytes())

    def _nbytes(self) -> int:
        """Return the size of the file; a store can only tell that nothing lies beyond a position."""
        low, high = TAIL_SIZE, 2 * TAIL_SIZE
        while self._reaches(high):
            low, high = high, 2 * high
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (middle, high) if self._reaches(middle) else (low, middle)
        return low

    def _reaches(self, nbytes: int) -> bool:
        try:
            self.base.read(self.key, byte_range=ByteRange(nbytes - 1, nbytes))
        except OutOfRangeError:
            return False
        return True

    def _check_front(self, archive: _Archive) -> None:
        """Raise FailedPreconditionError if a new archive would lose the bytes in front of this one."""
        for key in list(archive.members)[:1] if not archive.measured else ():
            self._load(archive, key, 0, None)  # reading a header may reveal them
        if archive.n_front:
            raise FailedPreconditionError(
                f"{self.base.describe(self.key)} has {archive.n_front} bytes in front of the archive, such "
                "as a program that extracts it, and is only read; copy its members to another archive"
            )

    def _tail(self, known: bytes | None) -> Stamped:
        try:
            return self.base.read(self.key, byte_range=ByteRange(-TAIL_SIZE), if_not_equal=known)
        except OutOfRangeError:  # the whole archive is not that long
            return read_own(self.base, self.key, if_not_equal=known)

    def _open_get(self, generation: bytes, whole: Buffer | None) -> Get:
        """Return a reader of one generation of the archive, and no other."""
        # Some web servers give parts of a value another generation than the whole value.

        def get(start: int, stop: int) -> Buffer:
            if whole is not None:
                if stop > len(whole):
                    raise DataCorruptionError(f"ZIP archive is cut off: it has {len(whole)} bytes")
                return memoryview(whole)[start:stop]
            try:
                found = self.base.read(self.key, byte_range=ByteRange(start, stop))
            except OutOfRangeError as e:
                now = self.base.read(self.key, byte_range=ByteRange(0, 0), if_not_equal=generation)
                if now.generation != generation:
                    raise ReplacedError from None
                raise DataCorruptionError(f"ZIP archive is cut off: {e.message}") from e
            if found.value is None or found.generation != generation:
                raise ReplacedError
            return found.value

        return get

    def _kept(self, archive: _Archive, key: str) -> Buffer | Encoded:
        """Return a member for a new archive: as it is, if other archives can have it so."""
        member = archive.members[key]
        method = method_numbered(member.method)
        if method is None or member.encrypted or key == DOCUMENT:
            return bytes(self._load(archive, key, 0, None))
        data = self._read(archive, key, lambda get: bytes(stored_bytes(member, get)))
        return Encoded(method, data, member.crc, member.nbytes)

    def _load(self, archive: _Archive, key: str, start: int, stop: int | None) -> Buffer:
        member = archive.members[key]
        return self._read(
            archive, key, lambda get: read_member(member, start, stop, get, archive.positions, self.slots)
        )

    def _read(self, archive: _Archive, key: str, read: Callable[[Get], T]) -> T:
        """Return the result of `read` in this version of the archive."""
        try:
            return read(self._open_get(archive.generation, archive.whole))
        except OutOfRangeError:
            raise
        except MisplacedError as e:
            if not archive.measured:
                self._measure(archive)
                raise ReplacedError from None
            raise prefix(e, f"Error reading {self.describe(key)}") from None
        except ChunkwiseError as e:
            raise prefix(e, f"Error reading {self.describe(key)}") from None


def _unpickle(base: KvStoreDriver, key: str, compression: Compression, slots: Slots | None) -> ZipStore:
    return ZipStore(base, key, compression=compression, slots=slots)
