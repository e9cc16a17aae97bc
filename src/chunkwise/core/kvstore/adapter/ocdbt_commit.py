"""Commits to an OCDBT database: all waiting writes become one new version.

Data files are written first, under unique names.  Then the manifest that leads to them replaces the one that
was read, if that is still current.  If not, everything is done again on the current version.
"""

from __future__ import annotations

import os
import random
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import Any, NamedTuple
from weakref import WeakValueDictionary

from chunkwise.core.base.threads import new_lock, new_rlock, put_in_order_in_child
from chunkwise.core.kvstore.adapter.ocdbt_database import Database, MissingFileError, State
from chunkwise.core.kvstore.key_range import KeyRange, encode_key
from chunkwise.core.kvstore.ocdbt.history import add_version, find_generation
from chunkwise.core.kvstore.ocdbt.manifest import (
    Config,
    Manifest,
    Statistics,
    Version,
    VersionNode,
    encode_version_node,
    make_config,
)
from chunkwise.core.kvstore.ocdbt.node import Child, Node, encode_node
from chunkwise.core.kvstore.ocdbt.places import NO_PLACE, DataFile, Place
from chunkwise.core.kvstore.ocdbt.tree import NodeRef, edit_tree, entries, find, root_of
from chunkwise.core.kvstore.protocol import MISSING_GENERATION
from chunkwise.errors import AbortedError

__all__ = ["Committer", "Storage", "generation_of"]

# An attempt fails only if another writer's commit succeeds.  The pause before the next, in seconds, is
# random, so that the two don't collide again; a thousand attempts take at most a minute.
_ATTEMPTS = 1000
_LONGEST_PAUSE = 0.1
# Number of failed commits whose files may be deleted later; limited in case a store stays down.
_MOST_DOUBTFUL = 100
# Largest node to write, in bytes, even if the database allows larger ones, since a commit rewrites whole
# nodes.  Committing one key among 64,000 takes 7 ms of processor time and 14 KB; with nodes of 8 MiB, 73 ms
# and 198 KB. A first read takes 4 requests instead of 3.
_LARGEST_NODE = 1 << 17


class Storage(NamedTuple):
    """Paths of new data files, and the first version of a new database.

    Attributes
    ----------
    value_prefix, node_prefix, version_prefix : str
        Prefixes of the paths of data files for values, nodes of the B+tree and nodes of versions.
    file_nbytes : int or None
        Size at which another file is begun; None or 0 for no limit.
    assume_config : bool
        True if the first version of a new database is the first commit, False if it is empty.
    """

    value_prefix: str = "d/"
    node_prefix: str = "d/"
    version_prefix: str = "d/"
    file_nbytes: int | None = None
    assume_config: bool = False


def generation_of(value: bytes | Place) -> bytes:
    """Return the generation of a value: equal for equal values in nodes, or for the same place in a file."""
    text = repr(value).encode() if isinstance(value, Place) else b"=" + value
    return b"\0" + blake2b(text, digest_size=20).digest()


@dataclass(eq=False)
class Request:
    """Changes to make together, and their outcome."""

    values: Mapping[bytes, bytes | Place | None]  # a place refers to a value that is stored already
    conditions: Mapping[bytes, bytes]
    deleted: Sequence[KeyRange]
    refused: bytes | None = None  # a key whose condition failed
    generations: dict[bytes, bytes] = field(default_factory=dict)
    done: bool = False
    error: Exception | None = None


class _Upload:
    """Data files, which are filled in memory before they are written."""

    def __init__(self, database: Database, storage: Storage) -> None:
        self._database = database
        self._file_nbytes = storage.file_nbytes
        self._parts: dict[DataFile, list[bytes]] = {}
        self._open: dict[str, tuple[DataFile, int]] = {}  # with its size, by path prefix

    def put(self, beginning: str, data: bytes) -> Place:
        file, size = self._open.get(beginning, (None, 0))
        if file is None or (self._file_nbytes and size >= self._file_nbytes):
            file, size = DataFile(b"", encode_key(beginning) + os.urandom(16).hex().encode()), 0
        self._parts.setdefault(file, []).append(data)
        self._open[beginning] = file, size + len(data)
        return Place(file, size, len(data))

    def write(self) -> None:
        """Write the files, or none of them."""
        store, directory = self._database.data
        try:
            for file, parts in self._parts.items():
                store.write(directory + file.key, b"".join(parts))
        except BaseException:  # an interrupt too: no unused files may stay
            with suppress(Exception):  # the first failure is the one to report
                self.discard()
            raise

    @property
    def files(self) -> list[DataFile]:
        """The files."""
        return [*self._parts]

    def discard(self) -> None:
        """Delete the files, which no manifest refers to."""
        _delete(self._database, self.files)


def _delete(database: Database, files: Iterable[DataFile]) -> None:
    store, directory = database.data
    for file in files:
        store.delete(directory + file.key)


class _Changes:
    """The changes of several requests, one after the other, to one version."""

    def __init__(
        self, root: NodeRef | None, database: Database, put: Callable[[bytes], Place], max_inline: int
    ) -> None:
        self._root, self._load = root, database.load_node
        self._put = put
        self._max_inline = max_inline
        self.values: dict[bytes, bytes | Place | None] = {}
        self.deleted: list[KeyRange] = []

    def add(self, request: Request) -> None:
        """Add the changes of a request, unless one of its conditions fails."""
        request.refused, request.generations = None, {}
        for key, expected in request.conditions.items():
            there = self._value(key)
            if expected != (MISSING_GENERATION if there is None else generation_of(there)):
                request.refused = key
                return
        for keys in request.deleted:
            self.values = {key: value for key, value in self.values.items() if key not in keys}
            if next(entries(self._root, keys, self._load), None) is not None:
                self.deleted.append(keys)
        for key, data in request.values.items():
            if data is None:
                if self._value(key) is not None:
                    self.values[key] = None
                continue
            value = data if isinstance(data, Place) or len(data) <= self._max_inline else self._put(data)
            self.values[key] = value
            request.generations[key] = generation_of(value)

    def _value(self, key: bytes) -> bytes | Place | None:
        if key in self.values:
            return self.values[key]
        if any(key in keys for keys in self.deleted):
            return None
        found = find(self._root, key, self._load)
        return None if found is None else found.value


_locks: WeakValueDictionary[Any, Any] = WeakValueDictionary()
_locks_lock = new_lock()


def _lock_of(database: Any) -> Any:
    """Return the lock of a database in this process, so that the process's stores don't race."""
    with _locks_lock:
        lock = _locks.get(database)
        if lock is None:
            lock = _locks[database] = new_rlock()
        return lock


class Committer:
    """Makes new versions; requests of several threads during a commit go into the next one together."""

    def __init__(self, database: Database, storage: Storage) -> None:
        self._database = database
        self._storage = storage
        manifests = database.manifests
        self._lock = _lock_of((manifests.store.identity, manifests.directory))  # the process that commits
        self._queue_lock = new_lock()
        self._queue: list[Request] = []
        self._doubtful: list[tuple[Config, Version, list[DataFile]]] = []  # failed commits
        put_in_order_in_child(self)

    def after_fork(self) -> None:
        """Forget the requests of the parent's threads."""
        self._queue, self._doubtful = [], []

    def commit(self, request: Request) -> Request:
        """Return `request` once it is done."""
        with self._queue_lock:
            self._queue.append(request)
        with self._lock:
            if not request.done:
                with self._queue_lock:
                    batch, self._queue = self._queue, []
                try:
                    self._commit_all(batch)
                finally:
                    left = [one for one in batch if not one.done and one is not request]
                    with self._queue_lock:  # a waiting thread will do each of them
                        self._queue = left + self._queue
        if request.error is not None:
            raise request.error
        return request

    def _commit_all(self, batch: list[Request]) -> None:
        try:
            self._commit_batch(batch)
        except Exception as e:
            if len(batch) == 1:
                batch[0].error, batch[0].done = e, True
                return
            for one in batch:  # one by one, so that only impossible ones fail
                self._commit_all([one])
            return
        for one in batch:
            one.done = True

    def _commit_batch(self, batch: list[Request]) -> None:
        for attempt in range(_ATTEMPTS):
            state = self._database.current()
            try:
                if self._try(state, batch):
                    return
            except MissingFileError:
                if self._database.current().generation == state.generation:
                    raise
            time.sleep(random.uniform(0, min(_LONGEST_PAUSE, 0.001 * 2 ** min(attempt, 10))))
        where = self._database.manifests.describe("")
        raise AbortedError(f"other writers changed the database in {where} {_ATTEMPTS} times meanwhile")

    def _try(self, state: State, batch: list[Request]) -> bool:
        """Make the changes to the version in `state`; return False if another writer was first."""
        database, storage, upload = self._database, self._storage, _Upload(self._database, self._storage)
        manifest = state.manifest or Manifest(make_config(database.config), [], [])
        config = manifest.config
        now = time.time_ns()
        if not manifest.versions and not storage.assume_config:
            manifest = manifest._replace(versions=[Version(1, NO_PLACE, 0, Statistics(), now)])
        root = root_of(manifest.latest) if manifest.versions else None
        changes = _Changes(
            root,
            database,
            lambda value: upload.put(storage.value_prefix, value),
            config.max_inline_value_bytes,
        )
        for request in batch:
            changes.add(request)
        if not changes.values and not changes.deleted:
            return True

        written: list[tuple[Child, Node]] = []

        def write_node(node: Node, is_root: bool) -> Child:
            raw, child = database.work(encode_node, node, config.level, is_root)
            child = child._replace(place=upload.put(storage.node_prefix, raw))
            written.append((child, node))
            return child

        def write_versions(node: VersionNode) -> Place:
            raw = database.work(encode_version_node, node, config.version_tree_arity_log2, config.level)
            return upload.put(storage.version_prefix, raw)

        database.check_conditional()
        load_versions = database.load_versions(config.version_tree_arity_log2)
        new = edit_tree(
            root,
            database.load_node,
            changes.values,
            changes.deleted,
            largest=max(1, min(config.max_decoded_node_bytes, _LARGEST_NODE)),
            write=write_node,
        )
        last = manifest.latest if manifest.versions else Version(0, NO_PLACE, 0, Statistics(), 0)
        version = Version(last.generation + 1, new.place, new.height, new.statistics, max(now, last.time + 1))
        manifest = add_version(manifest, version, load_versions, write_versions)
        upload.write()
        try:
            done = database.replace(state, manifest) is not None
        except Exception:  # after any failure, the manifest may have been stored
            self._doubtful.append((config, version, upload.files))
            with suppress(Exception):  # the first failure is the one to report
                self._settle(database.current().manifest)
            raise
        if done:
            for child, node in written:
                database.remember_node(child, node)
            with suppress(Exception):  # the commit is done; leftover files only take space
                self._settle(manifest)
            return True
        # The write may have succeeded even so, if an answer was lost and the request repeated.
        if self._has(database.current().manifest, config, version):
            return True
        upload.discard()
        return False

    def _has(self, manifest: Manifest | None, config: Config, version: Version) -> bool:
        if manifest is None or manifest.config != config:
            return False
        load = self._database.load_versions(config.version_tree_arity_log2)
        return find_generation(manifest, version.generation, load) == version

    def _settle(self, manifest: Manifest | None) -> None:
        """Delete the files of failed commits that can no longer succeed."""
        left = []
        for config, version, files in self._doubtful[-_MOST_DOUBTFUL:]:
            if manifest is None or manifest.config != config or not manifest.versions:
                continue
            if manifest.latest.generation < version.generation:
                left.append((config, version, files))  # a late request may still be carried out
            elif not self._has(manifest, config, version):
                _delete(self._database, files)
        self._doubtful = left
