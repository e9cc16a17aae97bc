"""The keys of an OCDBT database, which is stored in several values of another store, as a store.

Specification
-------------
https://google.github.io/tensorstore/kvstore/ocdbt/index.html#storage-format

Compatibility
-------------
TensorStore and chunkwise read and write each other's databases.  Every commit is a new version; old ones
stay, and data files are never deleted.  A version that is named is read-only.  Several processes may commit
at once, each for itself: there is no coordinator like TensorStore's, which commits for several processes.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from typing import NamedTuple, TypeVar

from chunkwise.core.base.binding import dump
from chunkwise.core.kvstore.adapter.ocdbt_commit import Committer, Request, Storage, generation_of
from chunkwise.core.kvstore.adapter.ocdbt_database import MANIFEST, Database, Folder, MissingFileError, State
from chunkwise.core.kvstore.adapter.prefix import whole_store
from chunkwise.core.kvstore.atomic import Reference
from chunkwise.core.kvstore.key_range import KeyRange, decode_key, encode_key
from chunkwise.core.kvstore.ocdbt.history import VersionName, find_generation, find_time
from chunkwise.core.kvstore.ocdbt.manifest import ConfigMembers
from chunkwise.core.kvstore.ocdbt.node import LONGEST_KEY
from chunkwise.core.kvstore.ocdbt.places import DataFile, Place
from chunkwise.core.kvstore.ocdbt.tree import NodeRef, children_of, entries, find, root_of
from chunkwise.core.kvstore.protocol import (
    MISSING_GENERATION,
    MOST_LOST,
    Buffer,
    ByteRange,
    Children,
    Reader,
    Stamped,
)
from chunkwise.core.kvstore.request_limits import DEFAULT_CONCURRENCY, Coalescing, Slots
from chunkwise.core.kvstore.traits import StoreTraits, traits_of
from chunkwise.core.kvstore.value import check_claim, read_ranges, resolve_range
from chunkwise.errors import InvalidArgumentError, NotFoundError, OutOfRangeError

__all__ = ["OcdbtStore", "Options"]

T = TypeVar("T")


class Options(NamedTuple):
    """Options for opening a database."""

    config: ConfigMembers = ConfigMembers({})  # for a new database, and required of an existing one
    storage: Storage = Storage()
    version: VersionName | None = None  # version to read; None for the latest, which can be written to
    coalescing: Coalescing | None = None  # limits for reads that share a request; None for the base's own
    slots: Slots | None = None  # held while nodes are decoded and encoded
    cache_nbytes: int = 0  # bytes of nodes to keep in memory, if more than the minimum


_OPTIONS = Options()


class OcdbtStore:
    """The database in the keys of a store below a directory."""

    # A reader uses the version that was current when it was opened, or that this store has seen since.

    def __init__(self, data: Folder, manifests: Folder, options: Options = _OPTIONS) -> None:
        self.data = data
        self.manifests = manifests  # usually the same
        self.options = options
        self._database = Database(data, manifests, options.config, options.slots, options.cache_nbytes)
        self._committer = Committer(self._database, options.storage)

    def __reduce__(self) -> tuple[object, ...]:
        return OcdbtStore, (self.data, self.manifests, self.options)

    def __repr__(self) -> str:
        at = "" if self.options.version is None else f", version={self.options.version.text}"
        return f"OcdbtStore({self.data.store!r}, {self.data.directory!r}{at})"

    @property
    def database(self) -> Database:
        """The files of the database."""
        return self._database

    @property
    def traits(self) -> StoreTraits:
        """The base's traits, but every change, even a deletion, is a conditional write of a manifest."""
        base, manifests = traits_of(self.data.store), traits_of(self.manifests.store)
        manifest = self.manifests.directory + MANIFEST
        return StoreTraits(
            request_concurrency=base.request_concurrency,
            write_concurrency=DEFAULT_CONCURRENCY,  # waiting changes are committed together
            io_limit=base.io_limit,
            coalescing=self.options.coalescing or base.coalescing,
            suffix_ranges=True,  # nodes contain the sizes
            conditional_writes=lambda key: manifests.conditional_writes(manifest),
        )

    @property
    def identity(self) -> Hashable:
        """The identity of the base, with the directory and the version."""
        return "ocdbt", *self._folders, self.options.version

    @property
    def _folders(self) -> list[Hashable]:
        return [(folder.store.identity, folder.directory) for folder in (self.data, self.manifests)]

    def describe(self, key: str) -> str:
        """Name the key and the database."""
        at = "" if self.options.version is None else f"version {self.options.version.text} of "
        return f"{dump(key)} in {at}OCDBT database at {self.data.describe('')}"

    # -- reading ------------------------------------------------------------------------------------

    def read(
        self, key: str, *, byte_range: ByteRange | None = None, if_not_equal: bytes | None = None
    ) -> Stamped:
        """Return the value of `key` or a part of it."""

        def load(state: State, root: NodeRef | None) -> Stamped:
            value = self._find(root, key)
            if value is None:
                return Stamped(None, MISSING_GENERATION, state.time)
            generation = generation_of(value)
            if generation == if_not_equal:
                return Stamped(None, generation, state.time)
            size = value.length if isinstance(value, Place) else len(value)
            start, stop = resolve_range(*(byte_range or ByteRange()), size)
            check_claim(stop - start, dump(key), *(byte_range or ()))
            if isinstance(value, Place):
                return Stamped(self._database.read_place(value, start, stop), generation, state.time)
            return Stamped(value[start:stop], generation, state.time)

        return self._with_state(load)

    def open_reader(self) -> Reader:
        """Return a reader; a newer version is looked for now, not later."""
        self._with_state(lambda state, root: None)
        database, read_file = self._database, self.data.store.open_reader()

        def read(key: str, start: int = 0, stop: int | None = None) -> Buffer | None:
            def load(state: State, root: NodeRef | None) -> Buffer | None:
                value = self._find(root, key)
                if value is None:
                    return None
                size = value.length if isinstance(value, Place) else len(value)
                begin, end = resolve_range(start, stop, size)
                check_claim(end - begin, dump(key), start, stop)
                if not isinstance(value, Place):
                    return value[begin:end]
                try:
                    file = self.data.directory + value.file.key
                    found = read_file(file, value.offset + begin, value.offset + end)
                except OutOfRangeError as e:
                    raise database.cut_off(value.file, e) from None
                if found is None:
                    raise database.missing(value.file)
                return found

            return self._with_state(load, database.last_state)

        return read

    def read_ranges(self, key: str, starts: Sequence[int], stops: Sequence[int]) -> list[Buffer] | None:
        """Return the bytes of each range of the value of `key`, None if it is missing."""

        def load(state: State, root: NodeRef | None) -> list[Buffer] | None:
            value = self._find(root, key)
            if value is None:
                return None
            size = value.length if isinstance(value, Place) else len(value)
            bounds = [resolve_range(*pair, size) for pair in zip(starts, stops, strict=True)]
            if not isinstance(value, Place):
                return [value[a:b] for a, b in bounds]
            file, at = self.data.directory + value.file.key, value.offset
            try:
                found = read_ranges(
                    self.data.store, file, [at + a for a, _ in bounds], [at + b for _, b in bounds]
                )
            except OutOfRangeError as e:
                raise self._database.cut_off(value.file, e) from None
            if found is None:
                raise self._database.missing(value.file)
            return found

        return self._with_state(load)

    def read_many(self, keys: Sequence[str]) -> list[Buffer | None]:
        """Return the values of as many of the first `keys` as one request can read.

        They belong to the version that was current when a reader was opened, or that was seen since.
        """
        gap, largest = self.traits.coalescing or Coalescing()

        def load(state: State, root: NodeRef | None) -> list[Buffer | None]:
            found: list[bytes | Place | None] = []
            file, start, stop = None, 0, 0
            for key in keys:
                value = self._find(root, key)
                if isinstance(value, Place):
                    check_claim(value.length, dump(key))
                    end = value.offset + value.length
                    if file is None:
                        file, start, stop = value.file, value.offset, value.offset
                    near = value.file == file and 0 <= value.offset - stop <= gap
                    if found and (not near or end - start > largest):
                        break
                    stop = end
                found.append(value)
            if file is None:
                return [*found]  # type: ignore[list-item]
            data = memoryview(self._database.read_place(Place(file, start, stop - start)))
            return [
                data[one.offset - start : one.offset - start + one.length] if isinstance(one, Place) else one
                for one in found
            ]

        return self._with_state(load, self._database.last_state)

    def list(self, start: str = "", stop: str = "") -> Iterator[str]:
        """Yield the keys in ``[start, stop)`` of the current version, in order."""
        keys, load = KeyRange.between(start, stop), self._database.load_node

        def begin(state: State, root: NodeRef | None) -> Iterator[str]:
            return (decode_key(entry.key) for entry in entries(root, keys, load))

        return self._with_state(begin)

    def list_children(self, prefix: str) -> Children:
        """List one level below `prefix`, in order."""

        def load(state: State, root: NodeRef | None) -> Children:
            found = children_of(root, encode_key(prefix), self._database.load_node)
            return Children(*(list(map(decode_key, keys)) for keys in found))

        return self._with_state(load)

    def _find(self, root: NodeRef | None, key: str) -> bytes | Place | None:
        found = find(root, encode_key(key), self._database.load_node)
        return None if found is None else found.value

    def _with_state(self, action: Callable[[State, NodeRef | None], T], known: State | None = None) -> T:
        """Return ``action(state, root)``, which is called again if the database was replaced meanwhile."""
        for _ in range(MOST_LOST):
            state = known or self._database.current()
            try:
                return action(state, self._root(state))
            except MissingFileError:
                if self._database.current().generation == state.generation:
                    raise
                known = None
        raise NotFoundError(f"{self.data.describe('')} was replaced {MOST_LOST} times while it was read")

    def _root(self, state: State) -> NodeRef | None:
        """Return the root of the version that this store uses."""
        manifest, name = state.manifest, self.options.version
        if name is None:
            return None if manifest is None or not manifest.versions else root_of(manifest.latest)
        if manifest is None:
            raise NotFoundError(f"{self.manifests.describe(MANIFEST)}: OCDBT manifest not present")
        load = self._database.load_versions(manifest.config.version_tree_arity_log2)
        find_version = find_time if name.is_time else find_generation
        found = find_version(manifest, name.number, load)
        if found is None:
            where = self.manifests.describe(MANIFEST)
            raise NotFoundError(f"{where}: Version where {name.condition} not present")
        return root_of(found)

    # -- writing ------------------------------------------------------------------------------------

    def write(self, key: str, value: Buffer, *, if_equal: bytes | None = None) -> bytes | None:
        """Commit a value of `key`, perhaps together with other writes; return its generation."""
        done = self._commit({key: value}, {key: if_equal} if if_equal else {}, ())
        return None if done.refused is not None else done.generations[encode_key(key)]

    def delete(self, key: str, *, if_equal: bytes | None = None) -> bytes | None:
        """Commit the deletion of `key`."""
        done = self._commit({key: None}, {key: if_equal} if if_equal else {}, ())
        return MISSING_GENERATION if done.refused is None else None

    def delete_range(self, start: str = "", stop: str = "") -> None:
        """Commit the deletion of all keys in ``[start, stop)``."""
        self._commit({}, {}, (KeyRange.between(start, stop),))

    def write_all(
        self,
        values: Mapping[str, Buffer | None],
        *,
        conditions: Mapping[str, bytes],
        deleted: Sequence[KeyRange] = (),
    ) -> str | None:
        """Commit many changes as one version; see `chunkwise.core.kvstore.atomic.AtomicWritable`."""
        refused = self._commit(values, conditions, deleted).refused
        return None if refused is None else decode_key(refused)

    def can_refer_to(self, source: object) -> bool:
        """Return True for any version of this database, and for databases whose files lie below its own."""
        return isinstance(source, OcdbtStore) and self._path_of(source) is not None

    def _path_of(self, other: OcdbtStore) -> str | None:
        """Return the path of a database below the directory of this one; None if it is elsewhere."""
        (here, outer), (there, inner) = (_whole_path(store.data) for store in (self, other))
        return inner[len(outer) :] if here == there and inner.startswith(outer) else None

    def references(self, source: OcdbtStore, keys: KeyRange) -> dict[str, Reference]:
        """Return references to the values of `keys` of `source`; the files stay in place."""
        path = self._path_of(source)
        assert path is not None
        below = encode_key(path)

        def refer(value: bytes | Place) -> Reference:
            if not isinstance(value, Place):
                return Reference(value, lambda: value)
            file = DataFile(below + value.file.base, value.file.relative)
            place = value._replace(file=file)
            return Reference(place, lambda: self._database.read_place(place, 0, place.length))

        def load(state: State, root: NodeRef | None) -> dict[str, Reference]:
            found = entries(root, keys, source._database.load_node)
            return {decode_key(entry.key): refer(entry.value) for entry in found}

        return source._with_state(load)

    def write_references(self, references: Mapping[str, Reference]) -> None:
        """Commit keys with values that are stored already."""
        self._commit(references, {}, ())

    def check_key(self, key: str) -> None:
        """Raise InvalidArgumentError for a key that no database can hold."""
        n_bytes = len(encode_key(key))
        if n_bytes > LONGEST_KEY:
            raise InvalidArgumentError(
                f"Invalid key of {n_bytes} bytes: expected at most {LONGEST_KEY} in an OCDBT database"
            )

    def _commit(
        self,
        values: Mapping[str, Buffer | Reference | None],
        conditions: Mapping[str, bytes],
        deleted: Sequence[KeyRange],
    ) -> Request:
        if self.options.version is not None:
            raise InvalidArgumentError(
                f"Writing is not supported with version={self.options.version.text} specified"
            )
        for key in values:
            self.check_key(key)
        encoded = {encode_key(key): _stored(value) for key, value in values.items()}
        expected = {encode_key(key): generation for key, generation in conditions.items()}
        return self._committer.commit(Request(encoded, expected, deleted))


def _whole_path(folder: Folder) -> tuple[Hashable, str]:
    """Return the identity of the largest store around a directory, and the directory's path there."""
    whole, prefix = whole_store(folder.store)
    return whole.identity, prefix + folder.directory


def _stored(value: Buffer | Reference | None) -> bytes | Place | None:
    if isinstance(value, Reference):
        found: bytes | Place = value.value
        return found
    return None if value is None else bytes(value)
