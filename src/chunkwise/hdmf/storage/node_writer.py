"""Creation of groups and datasets in a store, its tree and its consolidated metadata."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from chunkwise.core.kvstore.protocol import SyncedLater
from chunkwise.core.kvstore.traits import Writer
from chunkwise.errors import AlreadyExistsError, ChunkwiseError
from chunkwise.extension import Buffer, KvStoreDriver, StoreTraits
from chunkwise.extension.inside import Pool, Stop, offers, traits_of
from chunkwise.extension.trees import tree_format
from chunkwise.hdmf.conventions.base import NewDataset
from chunkwise.hdmf.conventions.n5 import N5Convention
from chunkwise.hdmf.conventions.zarr3 import is_utf8, longest_text
from chunkwise.hdmf.model.codecs import Settings
from chunkwise.hdmf.model.element import Element, Member, number, region
from chunkwise.hdmf.model.physical import PhysicalArray
from chunkwise.hdmf.model.reference import Reference, join_path, parent_path
from chunkwise.hdmf.model.tree import COPIES, HdmfNode, dump_copies, read_values
from chunkwise.hdmf.storage.store import HdmfStore

__all__ = ["NodeWriter", "UnsyncedStore"]


# -- stores that wait for the disk once ---------------------------------------------------------------

# A kvstore during the writing of a new HDMF store, which waits for the disk once, at the end.
# A new store can't be opened before the documents of its root exist, which are written last.  So the files
# below may reach the disk at any time before that, and thousands of small files wait for it together.

_CONCURRENCY = 16
"""Files that are waited for at the same time: they share the wait."""


class UnsyncedStore:
    """Store over `base` whose writes don't wait for the disk until `settle`."""

    def __init__(self, base: KvStoreDriver) -> None:
        later: object = base
        self.base = base
        self._fast = later.unsynced() if offers(later, SyncedLater) else None
        self._changed: set[str] = set()

    def __getattr__(self, name: str) -> Any:
        return getattr(self.base, name)

    @property
    def traits(self) -> StoreTraits:
        """Those of the store that is written to."""
        if self._fast is None:
            return traits_of(self.base)
        return traits_of(self._fast)._replace(open_writer=lambda: _Recorder(self))

    def write(self, key: str, value: Buffer, *, if_equal: bytes | None = None) -> bytes | None:
        """Replace the value of `key`, as the store does."""
        if self._fast is None:
            return self.base.write(key, value, if_equal=if_equal)
        self._changed.add(key)
        return self._fast.write(key, value, if_equal=if_equal)

    def delete(self, key: str, *, if_equal: bytes | None = None) -> bytes | None:
        """Delete `key`, as the store does."""
        if self._fast is None:
            return self.base.delete(key, if_equal=if_equal)
        self._changed.add(key)
        return self._fast.delete(key, if_equal=if_equal)

    def settle(self, prefix: str, pool: Pool) -> None:
        """Wait until everything written below `prefix` is on disk; afterwards each write waits again."""
        store: object = self.base
        if self._fast is None or not offers(store, SyncedLater):
            return
        n = pool.n_workers if pool.bounded else _CONCURRENCY

        def each(function: Callable[[str], None], arguments: Sequence[str]) -> None:
            def open_worker(stop: Stop) -> Callable[[str], None]:
                return lambda argument: None if stop else function(argument)

            pool.run(arguments, open_worker, lambda: None, n_workers=n).result()

        store.sync(self._changed, prefix, each)
        self._fast = None
        self._changed.clear()


class _Recorder:
    """The writer of an unsynced store, for one worker."""

    def __init__(self, store: UnsyncedStore) -> None:
        assert store._fast is not None
        opener = traits_of(store._fast).open_writer
        writer: Writer | KvStoreDriver = store._fast if opener is None else opener()
        self._changed = store._changed
        self._write, self._delete = writer.write, writer.delete
        self._write_if = getattr(writer, "write_if", partial(_write_if, store._fast))

    def write(self, key: str, value: Buffer) -> None:
        self._changed.add(key)
        self._write(key, value)

    def write_if(self, key: str, value: Buffer, if_equal: bytes | None) -> bytes | None:
        self._changed.add(key)
        return self._write_if(key, value, if_equal)

    def delete(self, key: str) -> None:
        self._changed.add(key)
        self._delete(key)

    def flush(self) -> None:
        """Do nothing: `UnsyncedStore.settle` waits."""


def _write_if(kv: KvStoreDriver, key: str, value: Buffer, if_equal: bytes | None) -> bytes | None:
    return kv.write(key, value, if_equal=if_equal)


# -- nodes --------------------------------------------------------------------------------------------

_MOST_ELEMENTS = 1 << 15
"""Chunks of larger arrays have no copies."""

WIDEST_REGION = 4096
"""Characters of region text that a Zarr v3 compound holds itself; longer ones go to a side dataset."""


class NodeWriter:
    """Writes nodes of one store."""

    def __init__(
        self,
        store: HdmfStore,
        *,
        pickled: bool = False,
        compat_regions: bool = False,
        nested: bool = False,
        codec: Any = None,
    ) -> None:
        self.store = store
        self.pickled = pickled
        self.nested = nested
        self.compat_regions = compat_regions
        self._codec = codec
        self._writer = self._open_writer()
        self.changed = False
        self._begun: set[str] = set()

    # -- nodes ------------------------------------------------------------------------------------

    def put(self, node: HdmfNode) -> None:
        """Store the documents of a node and put it in the tree; the root is only put in the tree."""
        self.store.tree.add(node)
        self.store.changed(node.path)
        self.changed = True
        if node.path != "/":
            self._write(node)

    def _write(self, node: HdmfNode) -> None:
        at = self.store.location.path + node.prefix
        for key, value in self.store.convention.documents(node).items():
            self._writer.write(at + key, value)

    def begin_group(self, path: str) -> None:
        """Put a group in the tree; `group` stores it, when its attributes and links are known."""
        self.store.tree.add(self.store.convention.group(path, {}))
        self._begun.add(path)

    def group(self, path: str, attributes: Mapping[str, Any], links: Mapping[str, Reference]) -> None:
        """Make a group, or replace its attributes and links."""
        convention = self.store.convention
        own: dict[str, Any] = {}
        if links:
            member = tree_format(self.store.format).link_attribute
            own[member] = [convention.link(name, to) for name, to in links.items()]
        own |= attributes
        node = self.store.tree.nodes.get(path)
        if node is None or path in self._begun:
            self._begun.discard(path)
            self.put(convention.group(path, own))
        elif dict(node.attributes) != own:
            self.put(convention.with_attributes(node, own))

    def set_attributes(self, path: str, attributes: Mapping[str, Any]) -> None:
        """Replace all attributes of a node, reserved ones included."""
        self.put(self.store.convention.with_attributes(self.store.tree.nodes[path], attributes))

    def _open_writer(self) -> Writer | KvStoreDriver:
        guarded = self.store.guard.over(self.store.location.store)
        opener = traits_of(guarded).open_writer
        return guarded if opener is None else opener()

    def flush(self) -> None:
        """Wait until everything is as durable as the kvstore makes it."""
        kv = self.store.location.store
        flush = getattr(self._writer, "flush", None)
        if flush is not None:
            flush()
        if isinstance(kv, UnsyncedStore):
            kv.settle(self.store.location.path, self.store.pool)
            self._writer = self._open_writer()

    def finish(self, *, consolidate: bool) -> None:
        """Write the documents of the root: copies of all others, if asked for, then its own."""
        tree, location, convention = self.store.tree, self.store.location, self.store.convention
        while self._begun:  # nodes in the tree whose writing failed
            self.put(tree.nodes[self._begun.pop()])
        self.flush()
        root, rules = tree.nodes["/"], tree_format(self.store.format)
        documents = dict(convention.documents(root))
        if consolidate:
            documents |= convention.consolidated(tree)
            self._write_copies()
        else:
            location.store.delete(location.path + COPIES)
            if rules.consolidated_key and rules.consolidated_key not in documents:
                location.store.delete(location.path + rules.consolidated_key)
        if (member := rules.consolidated_member) and not consolidate and member in root.document:
            root.document.pop(member)
            documents = dict(convention.documents(root))
        # The document that makes a directory a store is written last.
        last = documents.pop(rules.group_key)
        for key, value in documents.items():
            self._writer.write(location.path + key, value)
        self.store.guard.write_root(last)
        tree.consolidated = consolidate
        self.changed = False
        self.flush()

    def renew_copies(self) -> None:
        """Write copies of small values again, since the store has moved on its server."""
        kv = self.store.location.store
        self._writer = self._open_writer()
        if traits_of(kv).request_concurrency is not None:
            self._write_copies()

    def _write_copies(self) -> None:
        """Write copies of small values, and in N5 of documents."""
        store, kv, root = self.store, self.store.location.store, self.store.location.path
        keys = []
        if not tree_format(store.format).consolidated_key:  # the document of the root is read at each opening
            keys += [
                root + node.prefix + tree_format(store.format).array_key
                for path, node in store.tree.nodes.items()
                if path != "/"
            ]
        for node in store.tree.nodes.values():
            if node.is_array:
                with suppress(ChunkwiseError):  # an array that can't be read has no copy
                    array = store.array_of(node)
                    if array.size <= _MOST_ELEMENTS and (key := array.single_key) is not None:
                        keys.append(key)
        values = read_values(kv, keys)
        relative = [key[len(root) :] for key in keys]
        self._writer.write(root + COPIES, dump_copies(kv, store.home, zip(relative, values, strict=True)))

    # -- datasets ---------------------------------------------------------------------------------

    def dataset(
        self,
        path: str,
        element: Element,
        values: npt.NDArray[Any],
        settings: Settings,
        attributes: Mapping[str, Any],
        *,
        scalar: bool = False,
    ) -> None:
        """Make a dataset and store its values."""
        convention = self.store.convention
        if isinstance(convention, N5Convention) and (element.kind != "number" or 0 in values.shape):
            settings = self._settings(settings)
            for node, column in convention.encoded(path, element, values, scalar, settings, attributes):
                self.put(node)
                if column is not None:
                    self.store.physical(node.path).write(..., column).result()
            return
        width = 0
        if element.kind == "compound" and convention.compounds_have_width:
            element, values, extra = self._sided(path, element, values, settings)
            attributes = {**attributes, **extra}
            width = longest_text(values, element) if not element.is_plain else 0
        binary = element.kind == "bytes" and convention.has_binary and not is_utf8(values)
        new = NewDataset(path, element, values.shape, settings, attributes, scalar, width, binary)
        array = self.create(new)
        if values.size:
            stored = convention.to_stored(values, element, array)
            array.write(..., stored.reshape(array.shape)).result()

    def create(self, new: NewDataset) -> PhysicalArray:
        """Make an array without values."""
        if new.path in self.store.tree.nodes:
            raise AlreadyExistsError(f"there is an object {new.path} in {self.store.source} already")
        settings = self._settings(new.settings)
        new = replace(new, pickled=self.pickled, nested=self.nested, settings=settings)
        node = self.store.convention.array(new)
        array = self.store.array_of(node)
        _ = array.stored  # an array that can't be opened must not be left behind
        self.put(node)
        return array

    def _settings(self, settings: Settings) -> Settings:
        return settings if self._codec is None else replace(settings, compressor=self._codec, filters=None)

    def _sided(
        self, path: str, element: Element, values: npt.NDArray[Any], settings: Settings
    ) -> tuple[Element, npt.NDArray[Any], dict[str, Any]]:
        """Move regions whose text is too long for a compound to datasets beside it."""
        sides: dict[str, str] = {}
        members = []
        for m in element.members:
            one = replace(element, members=(m,))
            if m.element.kind == "region" and longest_text(values[[m.name]], one) > WIDEST_REGION:
                name = path.rpartition("/")[2]
                sides[m.name] = f"{name}__{m.name}_regions"
                side = join_path(parent_path(path), sides[m.name])
                regions = np.asarray(values[m.name], object).reshape(-1)
                self.dataset(side, region, regions, Settings(compressor=settings.compressor), {})
                members.append(Member(m.name, number("int32")))
            else:
                members.append(m)
        if not sides:
            return element, values, {}
        changed = replace(element, members=tuple(members))
        out = np.zeros(values.shape, changed.memory_dtype)
        for m in element.members:
            out[m.name] = np.arange(values.size).reshape(values.shape) if m.name in sides else values[m.name]
        return changed, out, {"_REGION_FIELDS": sides}
