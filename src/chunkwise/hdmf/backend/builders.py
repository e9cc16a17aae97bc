"""From the tree of a store to hdmf builders: one for each object, for the life of the I/O object."""

# hdmf checks every argument of every constructor, with rules that it looks up for each call.  This takes most
# of the time of opening a file with hundreds of objects.  So builders are copied from one that the
# constructor made; if such a copy differs from a builder of the constructor, the constructor is used.

# All groups and datasets of a tree are built first, then links and references, which find their targets
# there; so cycles end, and targets have their real parents.  For another store only the targets of
# links are built, without a parent: as with HDF5, the object with the link becomes the container's parent.

from __future__ import annotations

import warnings
from collections.abc import Iterator
from typing import Any

from hdmf.build import DatasetBuilder, GroupBuilder, LinkBuilder, ReferenceBuilder

from chunkwise.errors import ChunkwiseError
from chunkwise.hdmf.backend.builder_references import ROOT, stored_reference
from chunkwise.hdmf.backend.resolvers import resolver_of
from chunkwise.hdmf.backend.schema import DATE_WORDS, as_declared, declared_dtype
from chunkwise.hdmf.model.attributes import map_items, references_in
from chunkwise.hdmf.model.reference import Reference, join_path, parent_path
from chunkwise.hdmf.storage.resolve import BrokenLinkError, BrokenLinkWarning, StoreSet
from chunkwise.hdmf.storage.store import Dataset, HdmfStore

__all__ = ["BuilderFactory", "BuilderTree"]

# -- construction of builders -------------------------------------------------------------------------


class _Template:
    """Members of the instances of one class, and the names of those that differ."""

    def __init__(self, cls: type, example: Any, marks: dict[str, Any]) -> None:
        self.cls = cls
        self.attributes = dict(vars(example))
        self.items = dict(dict.items(example))
        self.places = {
            mark: [key for key, value in self.attributes.items() if value is given]
            for mark, given in marks.items()
        }

    def make(self, members: dict[str, Any], items: dict[str, Any]) -> Any:
        out: Any = self.cls.__new__(self.cls)  # type: ignore[call-overload]
        own = vars(out)
        for key, value in self.attributes.items():
            own[key] = dict(value) if type(value) is dict else value
        for mark, value in members.items():
            for key in self.places[mark]:
                own[key] = value
        for key, value in self.items.items():
            dict.__setitem__(
                out, key, items[key] if key in items else dict(value) if type(value) is dict else value
            )
        return out


class BuilderFactory:
    """Makes group and dataset builders, and registers them in their parents."""

    def __init__(self) -> None:
        name, source, dtype = "a name", "a source", "a dtype"
        parent = GroupBuilder("parent", source=source)
        marks = {"name": name, "source": source, "parent": parent}
        group = GroupBuilder(name, parent=parent, source=source)
        dataset = DatasetBuilder(name, None, dtype=dtype, parent=parent, source=source)
        self._group = _Template(GroupBuilder, group, marks)
        self._dataset = _Template(DatasetBuilder, dataset, {**marks, "dtype": dtype})
        self._fast = self._works()

    def _works(self) -> bool:
        above = GroupBuilder("above", source="s")
        try:
            pairs = [
                (
                    self._new_group("g", {"a": 1}, above, "s"),
                    GroupBuilder("g", attributes={"a": 1}, parent=above, source="s"),
                ),
                (
                    self._new_dataset("d", 5, "int", {"b": 2}, above, "s"),
                    DatasetBuilder("d", 5, dtype="int", attributes={"b": 2}, parent=above, source="s"),
                ),
            ]
            return all(vars(a) == vars(b) and dict(dict.items(a)) == dict(dict.items(b)) for a, b in pairs)
        except (AttributeError, KeyError, TypeError, ValueError):
            return False

    def _new_group(self, name: str, attributes: dict[str, Any], parent: Any, source: str) -> Any:
        out = self._group.make(
            {"name": name, "source": source, "parent": parent}, {"attributes": dict(attributes)}
        )
        out.obj_type.update(dict.fromkeys(attributes, "attributes"))
        return out

    def _new_dataset(
        self, name: str, data: Any, dtype: Any, attributes: dict[str, Any], parent: Any, source: str
    ) -> Any:
        members = {"name": name, "source": source, "parent": parent, "dtype": dtype}
        return self._dataset.make(members, {"data": data, "attributes": dict(attributes)})

    def group(
        self, name: str, attributes: dict[str, Any], parent: GroupBuilder | None, source: str
    ) -> GroupBuilder:
        """Return a group builder, put into its parent."""
        if not self._fast or parent is None or not _is_free(parent, name):
            made = GroupBuilder(name, attributes=attributes, source=source)
            if parent is not None:
                parent.set_group(made)
            return made
        out = self._new_group(name, attributes, parent, source)
        dict.__getitem__(parent, "groups")[name] = out
        parent.obj_type[name] = "groups"
        return out  # type: ignore[no-any-return, unused-ignore]

    def dataset(
        self,
        name: str,
        data: Any,
        dtype: Any,
        attributes: dict[str, Any],
        parent: GroupBuilder | None,
        source: str,
    ) -> DatasetBuilder:
        """Return a dataset builder, put into its parent; raises as `group` does."""
        if not self._fast or parent is None or not _is_free(parent, name):
            made = DatasetBuilder(name, data, dtype=dtype, attributes=attributes, source=source)
            if parent is not None:
                parent.set_dataset(made)
            return made
        out = self._new_dataset(name, data, dtype, attributes, parent, source)
        dict.__getitem__(parent, "datasets")[name] = out
        parent.obj_type[name] = "datasets"
        return out  # type: ignore[no-any-return, unused-ignore]


def _is_free(parent: Any, name: str) -> bool:
    return name not in parent.obj_type


# -- builders of a store ------------------------------------------------------------------------------


class BuilderTree:
    """The builders of an I/O object."""

    def __init__(self, io: Any, stores: StoreSet, *, strict: bool) -> None:
        self.io = io
        self.stores = stores
        self.strict = strict
        self._builders: dict[tuple[str, str], Any] = {}
        self._complete: set[tuple[str, str]] = set()
        self._pending: list[tuple[HdmfStore, str]] = []
        self._referring: dict[tuple[str, str], dict[str, Any]] = {}
        self._targets: dict[tuple[str, Reference], Any] = {}
        self.broken: list[str] = []
        self._factory = BuilderFactory()

    # -- finding ----------------------------------------------------------------------------------

    def root(self) -> GroupBuilder:
        """Return the builder of the root of the store that was opened, with all below."""
        return self.at(self.stores.main, "/")

    def at(self, store: HdmfStore, path: str) -> Any:
        """Return the builder of an object that exists."""
        key = (store.source, path)
        if key not in self._complete:
            self._build(store, path)
            self._connect()
        return self._builders[key]

    def known(self) -> Iterator[Any]:
        """Yield all builders that were made so far."""
        return iter(self._builders.values())

    def target(self, reference: Reference, holder: HdmfStore) -> Any:
        """Return the builder that a reference means."""
        key = (holder.source, reference)
        try:
            found = self._targets.get(key)
        except TypeError:  # a region can't be a key
            return self.at(*self.stores.resolve(reference, holder))
        if found is None:
            found = self._targets[key] = self.at(*self.stores.resolve(reference, holder))
        return found

    def adopt(self, store: HdmfStore, path: str, builder: Any) -> None:
        """Take a builder that was written as that of the stored object."""
        key = (store.source, path)
        self._builders[key] = builder
        self._complete.add(key)

    # -- groups and datasets ----------------------------------------------------------------------

    def _build(self, store: HdmfStore, path: str) -> None:
        parent = None if self._stands_alone(store, path) else self._parent(store, path)
        skip = store.specloc
        pending = [(path, parent)]
        while pending:
            at, above = pending.pop()
            key = (store.source, at)
            if at == skip:
                continue
            if key in self._complete:
                found = self._builders[key]
                if above is not None and found.parent is None:  # a link led to it before its group was built
                    (above.set_dataset if store.is_dataset(at) else above.set_group)(found)
                continue
            builder = self._builders.get(key)
            if builder is None:
                builder = self._one(store, at, above)
            self._complete.add(key)
            self._pending.append((store, at))
            if not store.is_dataset(at):
                pending += [(join_path(at, name), builder) for name in reversed(store.names(at))]

    def _stands_alone(self, store: HdmfStore, path: str) -> bool:
        """Return True for a link's target in another store, unless the group around it was built."""
        above = parent_path(path)
        return store is not self.stores.main and (store.source, above) not in self._complete

    def _parent(self, store: HdmfStore, path: str) -> GroupBuilder | None:
        """Return the builder of the group above; missing ones are made, without members."""
        if path == "/":
            return None
        above = parent_path(path)
        found = self._builders.get((store.source, above))
        return found if found is not None else self._one(store, above, self._parent(store, above))

    def _one(self, store: HdmfStore, path: str, parent: GroupBuilder | None) -> Any:
        name = path.rpartition("/")[2] or ROOT
        attributes = store.attributes(path)
        referring = {k: v for k, v in attributes.items() if any(references_in(v))}
        if referring:
            self._referring[(store.source, path)] = referring
            attributes = {k: v for k, v in attributes.items() if k not in referring}
        if store.is_dataset(path):
            builder = self._dataset(store.dataset(path), name, attributes, parent)
        else:
            builder = self._factory.group(name, attributes, parent, store.source)
        builder.location = parent_path(path)
        builder.root_id = store.object_id  # for references to it; it may have no parent
        self._builders[(store.source, path)] = builder
        self.io.set_written(builder)
        return builder

    def _dataset(
        self, dataset: Dataset, name: str, attributes: dict[str, Any], parent: GroupBuilder | None
    ) -> DatasetBuilder:
        element, array = dataset.element, False
        if element.kind in ("text", "bytes"):
            declared = declared_dtype(self.io.manager.namespace_catalog, name, attributes, parent)
            # hdmf-zarr 0.14 marks ASCII as text; other writers of HDF5 have ASCII where the schema says text.
            element = dataset.declare(as_declared(element, declared))
            array = declared in DATE_WORDS  # hdmf parses dates in arrays only
        word = element.describe()
        data: Any
        if dataset.scalar and element.kind in ("reference", "region"):
            data = None  # set when its target is known
        elif dataset.scalar and not element.has_references:
            values = dataset.read()
            data = values if element.kind == "compound" else values[()]  # as hdmf's own backend does
        elif array:
            data = dataset.read()
        else:
            data = resolver_of(element)(dataset, self.io)
        return self._factory.dataset(name, data, word, attributes, parent, dataset.store.source)

    # -- links and references ---------------------------------------------------------------------

    def _connect(self) -> None:
        while self._pending:
            store, path = self._pending.pop()
            builder = self._builders[(store.source, path)]
            for name, value in self._referring.pop((store.source, path), {}).items():
                resolved = self._attribute(value, store, f'attribute "{name}" of {path}')
                if resolved is not None:
                    builder.set_attribute(name, resolved)
            if store.is_dataset(path):
                if builder.data is None:
                    self._set_scalar(builder, store.dataset(path))
                continue
            try:
                links = store.links(path)
            except ChunkwiseError as e:
                self._report(e, Reference(path), store, "links")
                continue
            for name, reference in links.items():
                self._link(builder, store, path, name, reference)

    def _attribute(self, value: Any, store: HdmfStore, what: str) -> Any:
        """Return an attribute with its references resolved; None if one is broken."""
        reference = None
        try:
            for reference in references_in(value):
                self.target(reference, store)
        except ChunkwiseError as e:
            assert reference is not None
            self._report(e, reference, store, what)
            return None
        # As in hdmf's own backend an object reference in an attribute is the builder itself.

        def resolved(item: Any) -> Any:
            if not isinstance(item, Reference):
                return item
            return self.target(item, store) if item.region is None else self.reference(item, store)

        return map_items(value, resolved)

    def reference(self, value: Reference, store: HdmfStore) -> ReferenceBuilder:
        """Return a reference as a builder."""
        target = self.target(value, store)
        return ReferenceBuilder(target) if value.region is None else stored_reference(value.region, target)

    def _set_scalar(self, builder: DatasetBuilder, dataset: Dataset) -> None:
        value = dataset.value()
        if isinstance(value, Reference):
            try:
                builder.data = self.reference(value, dataset.store)
            except ChunkwiseError as e:
                self._report(e, value, dataset.store, dataset.path)

    def _link(self, group: GroupBuilder, store: HdmfStore, path: str, name: str, to: Reference) -> None:
        what = f'link "{name}" of group {path}'
        try:
            target = self.target(to, store)
            link = LinkBuilder(target, name, source=store.source)
            link.location = path
            group.set_link(link)
        except ChunkwiseError as e:
            self._report(e, to, store, what)
        except (ValueError, KeyError) as e:  # the name is that of a child
            error = BrokenLinkError(f"there is another object of that name: {e}")
            self._report(error, to, store, what)
        else:
            self.io.set_written(link)

    def _report(self, error: ChunkwiseError, to: Reference, store: HdmfStore, what: str) -> None:
        text = f"{what} in {store.source}: {error.message}"
        self.broken.append(text)
        if self.strict:
            raise BrokenLinkError(
                f"Found bad link to object {to.path} in file {store.source}: {text}"
            ) from error
        warnings.warn(text, BrokenLinkWarning, stacklevel=2)
