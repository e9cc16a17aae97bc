"""The files of an OCDBT database: manifests, and the nodes and values to which they lead; also as JSON."""

from __future__ import annotations

import copy
import re
import time
from collections.abc import Callable
from typing import Any, NamedTuple, TypeVar
from urllib.parse import quote, unquote_to_bytes

from chunkwise.core.base.binding import JSON
from chunkwise.core.base.limits import bounded
from chunkwise.core.base.threads import KeyLocks, new_lock
from chunkwise.core.kvstore.caches import LEAST_INDEX_NBYTES, ShardIndexCache
from chunkwise.core.kvstore.ocdbt.fields import LARGEST_BODY
from chunkwise.core.kvstore.ocdbt.manifest import (
    Config,
    ConfigMembers,
    Manifest,
    Statistics,
    Subtree,
    Version,
    VersionNode,
    encode_manifest,
    format_config,
    parse_version_node,
    read_manifest,
    read_version_node,
)
from chunkwise.core.kvstore.ocdbt.node import Child, Inner, Node, read_node
from chunkwise.core.kvstore.ocdbt.places import DataFile, Place, is_inside
from chunkwise.core.kvstore.ocdbt.tree import NodeRef, check_keys, read_checked
from chunkwise.core.kvstore.protocol import MISSING_GENERATION, MOST_LOST, Buffer, ByteRange, KvStoreDriver
from chunkwise.core.kvstore.request_limits import Slots
from chunkwise.core.kvstore.traits import traits_of
from chunkwise.errors import (
    AbortedError,
    ChunkwiseError,
    DataCorruptionError,
    InvalidArgumentError,
    NotFoundError,
    OutOfRangeError,
    UnsafeWriteError,
    prefix,
)

__all__ = ["MANIFEST", "Database", "Folder", "MissingFileError", "State", "dump_part", "parse_location"]

MANIFEST = "manifest.ocdbt"
_NUMBERED = re.compile(r"manifest\.([0-9a-f]{16})")
_NUMBERED_KEPT = 128  # number of numbered manifests to keep, as in TensorStore
_ENTRY_NBYTES = 230  # bytes of the Python objects of an entry that is a place (`tracemalloc`)

T = TypeVar("T")


class MissingFileError(DataCorruptionError):
    """A data file is missing: the database was replaced, or is damaged."""


class Folder(NamedTuple):
    """Keys of a store below a directory, which is empty or ends in "/"."""

    store: KvStoreDriver
    directory: str

    def describe(self, name: str) -> str:
        """Return the name of a file in messages."""
        return self.store.describe(self.directory + name)


class State(NamedTuple):
    """State of the manifests when they were last read.

    Attributes
    ----------
    manifest : Manifest or None
        None without a database.  Its `versions` are those of the latest numbered manifest, if there are any.
    generation : bytes
        Generation of the key ``manifest.ocdbt``.
    time : float
        Time at which the state was current.
    """

    manifest: Manifest | None
    generation: bytes
    time: float


_UNKNOWN = State(None, b"", 0.0)


class Database:
    """Access to the files of a database."""

    def __init__(
        self, data: Folder, manifests: Folder, config: ConfigMembers, slots: Slots | None, cache_nbytes: int
    ) -> None:
        self.data = data
        self.manifests = manifests
        self.config = config  # the required members
        self._slots = slots  # held while a node is decoded or encoded
        self._lock = new_lock()
        self._last = _UNKNOWN
        self._looking, self._looked = new_lock(), 0.0  # lock and start time of reading manifests
        self._failure: Exception | None = None
        self._node_locks = KeyLocks()  # so that each node is read once
        self._nodes = ShardIndexCache(max(cache_nbytes, LEAST_INDEX_NBYTES))  # nodes never change

    def work(self, function: Callable[..., T], *arguments: Any) -> T:
        """Call a function that decodes or encodes."""
        if self._slots is None:
            return function(*arguments)
        return self._slots.call(function, *arguments)

    # -- manifests ------------------------------------------------------------------------------------

    @property
    def last_state(self) -> State:
        """The state as it was last seen."""
        return self._last if self._last.time else self.current()

    @property
    def known_config(self) -> Config | None:
        """The configuration, if it has been read."""
        manifest = self._last.manifest
        return None if manifest is None else manifest.config

    def current(self) -> State:
        """Read the manifests and return the state."""
        if traits_of(self.manifests.store).request_concurrency is None:
            return self._look()
        asked = time.time()
        with self._looking:  # of simultaneous calls two read: the first, and the next for the others
            if self._looked <= asked:
                began, failure = time.time(), None
                try:
                    with bounded(None):  # manifests, and a listing of them
                        self._look()
                except Exception as e:
                    failure = e
                self._looked, self._failure = began, failure  # not after an interrupt
                if failure is not None:
                    raise failure
            elif self._failure is not None:
                raise copy.copy(self._failure)
            return self._last

    def _look(self) -> State:
        known, began = self._last, time.time()
        store, key = self.manifests.store, self.manifests.directory + MANIFEST
        for _ in range(MOST_LOST):
            found = store.read(key, if_not_equal=known.generation or None)
            manifest = known.manifest
            if found.generation == MISSING_GENERATION:
                manifest = None
            elif found.value is not None:
                manifest = self._read(MANIFEST, found.value, self._read_first)
            if manifest is not None and manifest.config.manifest_kind == "numbered":
                manifest = self._latest_numbered(manifest)
                if manifest is None:
                    continue
            return self.remember(State(manifest, found.generation, began))
        raise AbortedError(f"manifests beside {store.describe(key)} were deleted while they were read")

    def _read_first(self, raw: Buffer) -> Manifest:
        manifest = read_manifest(raw)
        self.config.check(manifest.config)
        return manifest

    def remember(self, state: State) -> State:
        """Keep a state, unless a newer one is known, and return it."""
        with self._lock:
            if state.time >= self._last.time:
                self._last = state
        return state

    def _latest_numbered(self, manifest: Manifest) -> Manifest | None:
        """Return `manifest` with the versions of the latest numbered one; None if that has been deleted."""
        store, directory = self.manifests
        names = (
            key[len(directory) :] for key in store.list(directory + "manifest.", directory + "manifest/")
        )
        numbered = max(filter(_NUMBERED.fullmatch, names), default=None)
        if numbered is None:
            return manifest._replace(versions=[], subtrees=[])
        if manifest.versions and numbered == _numbered(manifest.latest.generation):
            return manifest
        found = store.read(directory + numbered)
        if found.value is None:
            return None

        def read(raw: Buffer) -> Manifest:
            one = read_manifest(raw)
            same = manifest.config._replace(manifest_kind="single")
            if one.config != same or numbered != _numbered(one.latest.generation):
                raise DataCorruptionError(f"it does not belong to {self.manifests.describe(MANIFEST)}")
            return one._replace(config=manifest.config)

        return self._read(numbered, found.value, read)

    def _read(self, name: str, raw: Buffer, read: Callable[[Buffer], Manifest]) -> Manifest:
        try:
            return self.work(read, raw)
        except ChunkwiseError as e:
            raise prefix(e, f"Error reading {self.manifests.describe(name)}") from None

    def check_conditional(self) -> None:
        """Raise UnsafeWriteError if two writers could replace a manifest at once."""
        store, directory = self.manifests
        if not traits_of(store).conditional_writes(directory + MANIFEST):
            raise UnsafeWriteError(
                f"Failed to write {self.manifests.describe(MANIFEST)}: the store has no conditional "
                'writes, so concurrent commits could be lost; set "single_writer" of the store if no other '
                "process writes"
            )

    def replace(self, state: State, manifest: Manifest) -> State | None:
        """Replace the manifest of `state` by `manifest`; return None if another writer was first."""
        assert state is not _UNKNOWN, "the manifests were not looked at"
        store, directory = self.manifests
        generation: bytes | None = state.generation
        if manifest.config.manifest_kind == "single":
            raw = self.work(encode_manifest, manifest)
            generation = store.write(directory + MANIFEST, raw, if_equal=generation)
        else:
            if state.manifest is None:
                raw = self.work(encode_manifest, manifest._replace(versions=[], subtrees=[]))
                generation = store.write(directory + MANIFEST, raw, if_equal=generation)
            if generation is not None:
                generation = self._write_numbered(manifest) and generation
        if generation is None:
            return None
        # Use the later time: a reader in between may have seen the old value.
        return self.remember(State(manifest, generation, time.time()))

    def _write_numbered(self, manifest: Manifest) -> bytes | None:
        store, directory = self.manifests
        single = manifest._replace(config=manifest.config._replace(manifest_kind="single"))
        raw, number = self.work(encode_manifest, single), manifest.latest.generation
        generation = store.write(directory + _numbered(number), raw, if_equal=MISSING_GENERATION)
        if generation is not None and number > _NUMBERED_KEPT:
            store.delete(directory + _numbered(number - _NUMBERED_KEPT))
        return generation

    # -- nodes and values -----------------------------------------------------------------------------

    def load_node(self, ref: NodeRef) -> Node:
        """Return a node of the B+tree."""
        name = ref.place, ref.shared, ref.height
        node: Node | None = self._nodes.get(name)
        if node is None:
            with self._node_locks.of(name):
                node = self._nodes.get(name)
                if node is None:
                    node = self._load(ref.place, lambda raw: read_checked(raw, ref))
                    self._nodes.put(name, node, _node_nbytes(node, ref.place))
                    return node
        found = node
        return self._load(ref.place, lambda _: check_keys(found, ref), b"")

    def remember_node(self, child: Child, node: Node) -> None:
        """Keep a node that was written, since the next commit usually begins with it."""
        name = child.place, child.key[: child.shared], node.height
        self._nodes.put(name, node, _node_nbytes(node, child.place))

    def load_versions(self, arity_log2: int) -> Callable[[Subtree], VersionNode]:
        """Return a function that reads nodes of versions."""

        def load(subtree: Subtree) -> VersionNode:
            name = subtree, arity_log2
            node: VersionNode | None = self._nodes.get(name)
            if node is None:
                node = self._load(subtree.place, lambda raw: read_version_node(raw, subtree, arity_log2))
                self._nodes.put(name, node, _ENTRY_NBYTES * (len(node.versions) + len(node.subtrees)))
            return node

        return load

    def _load(self, place: Place, read: Callable[[Buffer], T], raw: Buffer | None = None) -> T:
        try:
            if raw is None:
                if place.length > LARGEST_BODY:
                    raise DataCorruptionError(f"it has {place.length} bytes, expected at most {LARGEST_BODY}")
                raw = self.read_place(place)
            return self.work(read, raw)
        except MissingFileError:
            raise
        except ChunkwiseError as e:
            where = self.data.describe(place.file.key)
            raise prefix(e, f"Error reading the node at byte {place.offset} of {where}") from None

    def read_node(self, place: Place, read: Callable[[Buffer, bytes], T]) -> T:
        """Return the result of `read` for the bytes of a node and the base path of its relative paths."""
        return self._load(place, lambda raw: read(raw, place.file.base))

    def read_place(self, place: Place, start: int = 0, stop: int | None = None) -> Buffer:
        """Return the bytes of a place in a data file, or those from `start` to `stop` within it."""
        key = self.data.directory + place.file.key
        begin, end = place.offset + start, place.offset + (place.length if stop is None else stop)
        try:
            found = self.data.store.read(key, byte_range=ByteRange(begin, end))
        except OutOfRangeError as e:
            raise self.cut_off(place.file, e) from None
        if found.value is None:
            raise self.missing(place.file)
        return found.value

    def cut_off(self, file: DataFile, error: OutOfRangeError) -> DataCorruptionError:
        """Return the error for a data file that ends too soon."""
        where, manifest = self.data.describe(file.key), self.manifests.describe(MANIFEST)
        return DataCorruptionError(f"{where}, to which {manifest} leads, is cut off: {error.message}")

    def missing(self, file: DataFile) -> MissingFileError:
        """Return the error for a missing data file."""
        where, manifest = self.data.describe(file.key), self.manifests.describe(MANIFEST)
        return MissingFileError(f"{where}, to which {manifest} leads, is missing")


def _node_nbytes(node: Node, place: Place) -> int:
    """Return the approximate memory of a node: its text, and some objects for each entry."""
    return place.length + _ENTRY_NBYTES * len(node.keys)


def _numbered(generation: int) -> str:
    return f"manifest.{generation:016x}"


_LOCATION = re.compile(r"(value|btreenode|versionnode):([^:]*):([^:]*):([0-9]{1,19}):([0-9]{1,19})")


def parse_location(text: str) -> tuple[str, Place]:
    """Return the kind and the place of a part, from its text in the content of another part."""
    match = _LOCATION.fullmatch(text)
    if match is None:
        raise InvalidArgumentError(
            f'node: expected "btreenode", "versionnode" or "value", the parts of a path, an offset and a '
            f'length, with ":" between them, not {text!r}'
        )
    file = DataFile(unquote_to_bytes(match[2]), unquote_to_bytes(match[3]))
    if not is_inside(file.key):
        raise InvalidArgumentError(f"node: {text!r} leads out of the database")
    return match[1], Place(file, int(match[4]), int(match[5]))


def dump_part(database: Database, part: tuple[str, Place] | None) -> Any:
    """Return a part of the database, the manifest for None."""
    if part is None:
        manifest = database.current().manifest
        if manifest is None:
            raise NotFoundError(f"there is no OCDBT database at {database.manifests.describe('')}")
        return _manifest(manifest)
    kind, place = part
    if kind == "value":
        return bytes(database.read_place(place))
    return database.read_node(place, _node if kind == "btreenode" else _versions)


def _location(kind: str, place: Place) -> str:
    file = place.file
    return f"{kind}:{quote(file.base)}:{quote(file.relative)}:{place.offset}:{place.length}"


def _statistics(found: Statistics) -> dict[str, int]:
    return {
        "num_indirect_value_bytes": found.n_value_bytes,
        "num_keys": found.n_keys,
        "num_tree_bytes": found.n_tree_bytes,
    }


def _version(version: Version) -> dict[str, JSON]:
    location = {} if version.root.is_missing else {"location": _location("btreenode", version.root)}
    return {
        "commit_time": version.time,
        "generation_number": version.generation,
        "root": {**location, "statistics": _statistics(version.statistics)},
        "root_height": version.height,
    }


def _subtree(subtree: Subtree) -> dict[str, JSON]:
    return {
        "commit_time": subtree.time,
        "generation_number": subtree.generation,
        "height": subtree.height,
        "location": _location("versionnode", subtree.place),
        "num_generations": subtree.n_generations,
    }


def _manifest(manifest: Manifest) -> dict[str, JSON]:
    given = manifest.config._asdict()
    if given["manifest_kind"] == "single" or manifest.versions:  # that of a numbered one is "single"
        del given["manifest_kind"]
    return {
        "config": format_config(given),
        "version_tree_nodes": [_subtree(subtree) for subtree in manifest.subtrees],
        "versions": [_version(version) for version in manifest.versions],
    }


def _node(raw: Any, above: bytes) -> dict[str, JSON]:
    node = read_node(raw, above, b"", None)
    entries: list[dict[str, JSON]] = []
    if isinstance(node, Inner):
        entries = [
            {
                "key": child.key,
                "location": _location("btreenode", child.place),
                "statistics": _statistics(child.statistics),
                "subtree_common_prefix": child.key[: child.shared],
            }
            for child in node.entries
        ]
    else:
        for key, value in node.entries:
            stored = (
                {"indirect_value": _location("value", value)}
                if isinstance(value, Place)
                else {"inline_value": bytes(value)}
            )
            entries.append({**stored, "key": key})
    return {"entries": entries, "height": node.height}


def _versions(raw: Any, above: bytes) -> dict[str, JSON]:
    arity_log2, node = parse_version_node(raw, above)
    entries = [_version(v) for v in node.versions] + [_subtree(s) for s in node.subtrees]
    return {"entries": entries, "height": node.height, "version_tree_arity_log2": arity_log2}
