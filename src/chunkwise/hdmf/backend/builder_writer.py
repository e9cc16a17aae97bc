"""From hdmf builders to a store: groups, datasets, attributes, links, references, and untyped members."""

# hdmf makes new builders for changed containers.  Members of the file that the schema doesn't know, so that
# no container holds them, are added to these builders again.  Members that the schema knows, and that are
# missing, were removed.

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import closing
from dataclasses import replace
from typing import Any, TypeAlias

import numpy as np
from hdmf.backends.io import HDMFIO
from hdmf.build import DatasetBuilder, GroupBuilder, LinkBuilder
from hdmf.data_utils import AbstractDataChunkIterator, DataIO
from hdmf.spec import NamespaceCatalog

from chunkwise.errors import ChunkwiseError, InvalidArgumentError, prefix
from chunkwise.extension.inside import is_of
from chunkwise.extension.trees import tree_format, without_links
from chunkwise.hdmf.backend.builder_references import (
    BuilderReferences,
    builders_below,
    identity_of,
    path_of,
    target_of,
)
from chunkwise.hdmf.backend.builder_values import (
    BuilderStreams,
    element_of_builder,
    is_reference,
    is_scalar,
    with_references,
)
from chunkwise.hdmf.backend.data_io import settings_of, settings_of_h5
from chunkwise.hdmf.backend.h5_copy import H5Builders, is_h5_io
from chunkwise.hdmf.backend.h5_values import H5Source, attribute_of_h5, h5_dataset_of
from chunkwise.hdmf.backend.lazy import LazyDataset
from chunkwise.hdmf.backend.schema import as_declared, declared_dtype, spec_of
from chunkwise.hdmf.conventions.base import NewDataset
from chunkwise.hdmf.model.attributes import (
    ATTR_DTYPES,
    RESERVED,
    SPECLOC,
    data_type_of,
    dump_attributes,
    is_typed,
)
from chunkwise.hdmf.model.codecs import Settings, usable_settings
from chunkwise.hdmf.model.element import Element, number
from chunkwise.hdmf.model.place import canonical_source
from chunkwise.hdmf.model.reference import Reference, join_path, parent_path
from chunkwise.hdmf.model.values import as_values
from chunkwise.hdmf.storage.large_datasets import LargeDatasets, copy_dataset
from chunkwise.hdmf.storage.node_writer import NodeWriter
from chunkwise.hdmf.storage.store import Dataset
from chunkwise.hdmf.storage.stored_form import stored_settings
from chunkwise.hdmf.storage.stream import StreamOptions

__all__ = ["BuilderWriter", "check_link_name", "keep_untyped"]

# -- untyped members ----------------------------------------------------------------------------------

_OWN = ("neurodata_type", "data_type", "namespace", "object_id", SPECLOC)


Attributes: TypeAlias = Callable[[Any], Mapping[str, Any]]


def keep_untyped(
    new: GroupBuilder, old: GroupBuilder, catalog: NamespaceCatalog, attributes_of: Attributes
) -> None:
    """Add members that are in the file, but in no container, to the builders made from containers.

    Parameters
    ----------
    new, old : GroupBuilder
        The root that is written, and that which was read.
    catalog : NamespaceCatalog
    attributes_of : callable
        Returns the attributes of a builder that was read.
    """
    if new is old:
        return
    before, after = (
        {identity_of(builder): builder for builder, _ in builders_below(root) if is_typed(builder.attributes)}
        for root in (old, new)
    )
    for identity, builder in after.items():
        found = before.get(identity)
        if found is not None and found is not builder and type(found) is type(builder):
            _keep(builder, found, spec_of(catalog, builder.attributes), after, attributes_of)


def _keep(new: Any, old: Any, spec: Any, after: dict[Any, Any], attributes_of: Attributes) -> None:
    for name, value in attributes_of(old).items():
        if name not in new.attributes and name not in _OWN and _has(spec, "get_attribute", name) is None:
            new.set_attribute(name, value)
    if not isinstance(old, GroupBuilder):
        return
    for member, get in (("groups", "get_group"), ("datasets", "get_dataset")):
        for name, child in getattr(old, member).items():
            if child is None or is_typed(child.attributes):
                continue
            inner = _has(spec, get, name)
            found = getattr(new, member).get(name)
            if found is not None:
                if found is not child and not is_typed(found.attributes):
                    _keep(found, child, inner, after, attributes_of)
            elif inner is None and not _is_there(new, name):
                (new.set_group if member == "groups" else new.set_dataset)(child)
    for name, link in old.links.items():
        if _has(spec, "get_link", name) is None and not _is_there(new, name):
            target = target_of(link)
            if is_typed(target.attributes) and _names_type(spec):
                continue  # one of a container's children; the schema names only their types
            found = after.get(identity_of(target), target)
            new.set_link(LinkBuilder(found, name, source=link.source))


def _has(spec: Any, get: str, name: str) -> Any:
    """Return the specification of a member; None if there is none."""
    return None if spec is None or not hasattr(spec, get) else getattr(spec, get)(name)


def _names_type(spec: Any) -> bool:
    listed = (*getattr(spec, "groups", ()), *getattr(spec, "datasets", ()), *getattr(spec, "links", ()))
    return any(getattr(one, "name", None) is None for one in listed)


def _is_there(group: GroupBuilder, name: str) -> bool:
    return name in group.groups or name in group.datasets or name in group.links


# -- the writer ---------------------------------------------------------------------------------------

_NARROW = (np.dtype("u1"), np.dtype("u2"))


def check_link_name(name: str, group: str) -> None:
    """Raise InvalidArgumentError if a link has an empty name, which other software can't read."""
    if not name:
        raise InvalidArgumentError(f"a link in group {group} has the empty name")


class BuilderWriter:
    """Writes builders to the store of an I/O object."""

    def __init__(
        self,
        io: Any,
        writer: NodeWriter,
        options: StreamOptions,
        *,
        link_data: bool | None,
        exhaust: bool,
        export_source: str | None,
        keep_types: bool,
        copies: LargeDatasets | None,
        source_io: HDMFIO | None = None,
    ) -> None:
        self.io = io
        self._catalog = (getattr(source_io, "manager", None) or io.manager).namespace_catalog
        self.writer = writer
        self.store = writer.store
        self.link_data = link_data
        self.keep_types = keep_types
        self._source_io = source_io
        self._options = options
        self._large = copies
        self.references = BuilderReferences(
            io,
            export_source,
            manager=None if source_io is None else source_io.manager,
            copies_all=export_source is not None and link_data is False,
        )
        self._h5 = H5Builders(source_io, self.references.of_h5) if is_h5_io(source_io) else None
        self.streams = BuilderStreams(
            writer, self.references.reference_to, options, exhaust=exhaust, copies=copies
        )
        self._extra_links: dict[str, dict[str, Reference]] = {}
        self._copies: dict[tuple[str, str], str] = {}  # path of the copy of each dataset of another store
        self._shared: list[tuple[str, LazyDataset, Settings | None, dict[str, Any]]] = []

    def _stored_reference(self, value: Any) -> Any:
        if not is_reference(value) and not isinstance(value, Reference):
            return None
        convention = self.store.convention
        return convention.reference_attribute(
            self.references.reference_to(value), compat=self.writer.compat_regions
        )

    def attributes(self, builder: Any) -> dict[str, Any]:
        """Return the attributes of a builder as JSON values."""
        given = {k: attribute_of_h5(v) for k, v in self._attributes_of(builder).items()}
        labels = getattr(builder, "dimension_labels", None)
        if labels is not None and len(given.get("_ARRAY_DIMENSIONS", ())) != len(labels):
            given["_ARRAY_DIMENSIONS"] = ["" if label is None else label for label in labels]
        try:
            return dump_attributes(given, self._stored_reference, self.keep_types)
        except (ChunkwiseError, TypeError) as e:
            raise prefix(e, f"object {path_of(builder)}") from None

    def _attributes_of(self, builder: Any) -> Mapping[str, Any]:
        return builder.attributes if self._h5 is None else self._h5.attributes(builder)

    # -- groups -----------------------------------------------------------------------------------

    def root(self, builder: GroupBuilder) -> None:
        """Write a whole file; the root's own documents are left to `NodeWriter.finish`."""
        self.references.root_id = identity_of(builder)
        if self._source_io is not None:
            keep_untyped(builder, self._source_io.read_builder(), self._catalog, self._attributes_of)
        self.references.plan_copies(builder)
        self.group("/", builder)
        self._write_shared()
        self.streams.run()
        self.copy_large()

    def copy_large(self) -> None:
        """Copy the large datasets that were left to workers."""
        if self._large is not None:
            self._large.run()

    def group(self, path: str, builder: GroupBuilder) -> None:
        """Write a group and all below it that was not written yet."""
        node = self.store.tree.nodes.get(path)
        if node is not None and self.store.is_dataset(path):
            raise InvalidArgumentError(f"{path} is a dataset in {self.store.source}, not a group")
        # The group is in the tree before its members, and in the store when its links are complete.
        if node is None:
            self.writer.begin_group(path)
        for child in builder.groups.values():
            self.group(join_path(path, child.name), child)
        for dataset in builder.datasets.values():
            self.dataset(path, dataset)
        links = dict(self.store.links(path))
        for name, link in builder.links.items():
            check_link_name(name, path)
            target, place = target_of(link), join_path(path, name)
            if self.references.places.path_of(target) != place:
                links[name] = self.references.reference_to(target)
            elif isinstance(target, GroupBuilder):
                self.group(place, target)
            else:
                self.dataset(path, target, name)
        links |= self._extra_links.pop(path, {})
        own = {k: v for k, v in self.store.tree.nodes[path].attributes.items() if k in RESERVED}
        own.pop(ATTR_DTYPES, None)
        self.writer.group(path, {**without_links(own), **self.attributes(builder)}, links)
        self._written(path, builder)
        for link in builder.links.values():
            self.io.set_written(link)

    def add_links(self, path: str, links: Mapping[str, Reference]) -> None:
        """Put links into a group that is stored."""
        attributes = without_links(self.store.tree.nodes[path].attributes)
        self.writer.group(path, attributes, {**self.store.links(path), **links})

    def link_extra(self, path: str) -> None:
        """Store the links that replace datasets in their group."""
        links = self._extra_links.pop(path, None)
        if links:
            self.add_links(path, links)

    def set_attributes(self, path: str, attributes: Mapping[str, Any]) -> None:
        """Set some attributes of the object stored at a path; None removes one."""
        try:
            new = dump_attributes(attributes, self._stored_reference, self.keep_types)
        except (ChunkwiseError, TypeError) as e:
            raise prefix(e, f"object {path}") from None
        own = dict(self.store.tree.nodes[path].attributes)
        types = {k: v for k, v in own.pop(ATTR_DTYPES, {}).items() if k not in attributes}
        types |= new.pop(ATTR_DTYPES, {})
        own = {k: v for k, v in own.items() if k not in attributes} | new
        self.writer.set_attributes(path, own | ({ATTR_DTYPES: types} if types else {}))

    def _written(self, path: str, builder: Any) -> None:
        self.io.set_written(builder)
        self.io.adopt(path, builder)

    # -- datasets ---------------------------------------------------------------------------------

    def dataset(self, parent: str, builder: DatasetBuilder, name: str | None = None) -> None:
        """Write a dataset, unless it was written or read before."""
        path = join_path(parent, name or builder.name)
        if self.io.get_written(builder) and path in self.store.tree.nodes:
            return
        try:
            self._dataset(path, builder)
        except (ChunkwiseError, TypeError, ValueError) as e:
            raise prefix(e, f"dataset {path}") from None
        if path in self.store.tree.nodes:
            self._written(path, builder)

    def _dataset(self, path: str, builder: DatasetBuilder) -> None:
        data, settings = builder.data, None
        # As a link, a dataset with its own type, such as a column, would be an object of the other file.
        # Text, such as names of experimenters, is expected by pynwb in the file itself.
        text = isinstance(data, LazyDataset) and data.dataset.element.kind in ("text", "bytes")
        link = self.link_data
        while isinstance(data, DataIO):
            link = getattr(data, "link_data", link)  # the wrapped data decides, as in hdmf
            settings = settings_of(data) if settings is None else settings
            if data.data is None and data.shape is not None:  # an array that is filled later
                self._reserve(path, builder, data, settings)
                return
            data = data.data
        if type(data).__name__ == "TermSetWrapper":
            data = data.value
        attributes = self.attributes(builder)
        if isinstance(data, LazyDataset):
            foreign = link if link is False or not (text or is_typed(builder.attributes)) else False
            if self._is_here(data.dataset) and data.dataset.path == path:
                return
            to = self._link_to(data.dataset, link, foreign)
            if to is not None:
                self._extra_links.setdefault(parent_path(path), {})[path.rpartition("/")[2]] = to
            elif foreign is None and path != data.dataset.path:
                self._shared.append((path, data, settings, attributes))
            else:
                self._copy(path, data, settings, attributes)
            return
        h5 = h5_dataset_of(data)
        if h5 is None and self._h5 is not None:
            h5 = self._h5.dataset(builder)
        if h5 is not None:
            with closing(H5Source(h5, self._declared(builder), self.references.of_h5)) as source:
                self.streams.copy_h5(path, source, settings or self._h5_settings(h5), attributes)
            return
        if isinstance(data, AbstractDataChunkIterator):
            self.streams.add(path, builder.dtype, data, settings or Settings(), attributes)
            return
        if data is None:
            raise InvalidArgumentError("it has no data")
        if (is_of(data, "zarr") or is_of(data, "hdmf_zarr")) and hasattr(data, "__getitem__"):
            data = np.asarray(data[...])
        element = self._element(builder, data, wrapped=settings is not None)
        data = with_references(data, self.references.reference_to)
        scalar = is_scalar(data, element) or isinstance(data, Reference)
        if not scalar and not hasattr(data, "shape") and not isinstance(data, list | tuple | range):
            data = list(data)
        values = as_values(data, element, () if scalar else None)
        self.writer.dataset(
            path,
            element,
            values,
            usable_settings(settings, element, self.store.format),
            attributes,
            scalar=scalar,
        )

    def _element(self, builder: DatasetBuilder, data: Any, *, wrapped: bool) -> Element:
        dtype, own = builder.dtype, getattr(data, "dtype", None)
        if builder.location is not None and isinstance(own, np.dtype) and own.kind in "biuf":
            dtype = own  # it was read: its type is that of its values, whatever its file calls it
        try:
            element = element_of_builder(dtype, data)
            if self._h5 is not None:  # text of HDF5 may be ASCII, which is text or bytes as the schema says
                element = as_declared(element, self._declared(builder))
            index = data_type_of(builder.attributes) == "VectorIndex"
            # An index grows with its column, and a wider type means writing all of it again.  Wrapped
            # data is stored as given.
            return number("uint32") if index and not wrapped and element.dtype in _NARROW else element
        except InvalidArgumentError as e:
            above = "" if builder.parent is None else f" to {builder.parent.name}"
            raise InvalidArgumentError(f"cannot add {builder.name}{above} - {e.message}") from None

    def _is_here(self, dataset: Dataset) -> bool:
        if dataset.store is self.store:
            return True
        # Builders with the name of a new store were read from the store that it replaces.
        same = canonical_source(dataset.store.source) == canonical_source(self.io.source)
        return same and self.io.mode in ("r+", "a")

    def _link_to(self, source: Dataset, link: bool | None, foreign: bool | None) -> Reference | None:
        """Return the link that stands for a dataset that is stored already; None if it is copied."""
        # `link` is for data of this store, `foreign` for that of others; None is the choice of an export.
        store = source.store
        if self._is_here(source):
            name = None if link is False else "."
        elif canonical_source(store.source) == canonical_source(self.io.source):
            name = None  # of the store that is replaced
        elif foreign is None and canonical_source(store.source) != self.references.export_source:
            try:
                name = self.references.name_of(store.source)
            except InvalidArgumentError:  # a link would be absolute
                name = None
        else:
            name = self.references.name_of(store.source) if foreign else None
        return None if name is None else Reference(source.path, name, source.object_id, store.object_id)

    def _write_shared(self) -> None:
        """Write data that the exported file has at another path: once, and as links elsewhere."""
        for path, data, settings, attributes in self._shared:
            source = data.dataset
            copy = self._copies.get((source.store.source, source.path))
            if copy is None:
                self._copy(path, data, settings, attributes)
            else:
                to = Reference(copy, ".", source.object_id, self.references.root_id)
                self.add_links(parent_path(path), {path.rpartition("/")[2]: to})

    def _copy(
        self, path: str, data: LazyDataset, settings: Settings | None, attributes: dict[str, Any]
    ) -> None:
        source = data.dataset
        self._copies[source.store.source, source.path] = path
        if settings is None:
            settings = stored_settings(source, self.store.format)
        copy_dataset(
            source,
            self.writer,
            path,
            usable_settings(settings, source.element, self.store.format),
            attributes,
            lambda value: self.references.rebased(value, data.io, source.store),
            self._options,
            self._large,
        )

    def _declared(self, builder: DatasetBuilder) -> Any:
        return declared_dtype(self._catalog, builder.name, builder.attributes, builder.parent)

    def _h5_settings(self, h5: Any) -> Settings:
        settings = settings_of_h5(H5Source(h5).dataset)
        return (
            settings if tree_format(self.store.format).has_fill_value else replace(settings, fill_value=None)
        )

    def _reserve(self, path: str, builder: DatasetBuilder, data: DataIO, settings: Settings) -> None:
        element = element_of_builder(data.dtype if builder.dtype is None else builder.dtype, None)
        shape = tuple(0 if n is None else int(n) for n in data.shape)
        self.writer.create(
            NewDataset(
                path,
                element,
                shape,
                usable_settings(settings, element, self.store.format),
                self.attributes(builder),
            )
        )
