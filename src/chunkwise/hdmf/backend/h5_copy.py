"""HDF5 files as stores: copies of whole files, and properties that hdmf's builders lack."""

# hdmf takes a reference to a region for one to the whole dataset, and leaves references in arrays alone.

# An object that has several names becomes one object with links to it.  Objects of other HDF5 files are
# copied to where the first link to each is, as a store can't link to HDF5.

from __future__ import annotations

import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing
from dataclasses import replace
from typing import Any, NamedTuple

import h5py
import numpy as np
from hdmf.backends.io import HDMFIO
from hdmf.build import Builder, ReferenceBuilder
from hdmf.spec import NamespaceCatalog

from chunkwise.core.kvstore.reference.hdf5_objects import address_of, object_id
from chunkwise.errors import InvalidArgumentError, LossWarning
from chunkwise.extension.trees import tree_format
from chunkwise.hdmf.backend.builder_references import path_of
from chunkwise.hdmf.backend.builder_values import BuilderStreams
from chunkwise.hdmf.backend.data_io import settings_of_h5
from chunkwise.hdmf.backend.h5_values import H5Source, attributes_of_h5, naming
from chunkwise.hdmf.backend.schema import declared_dtype, put_specification
from chunkwise.hdmf.model.attributes import SPECLOC, dump_attributes
from chunkwise.hdmf.model.place import canonical_source
from chunkwise.hdmf.model.reference import Reference, join_path
from chunkwise.hdmf.storage.node_writer import NodeWriter
from chunkwise.hdmf.storage.resolve import BrokenLinkWarning

__all__ = ["H5Builders", "H5Copy", "Placed", "Places", "is_h5_io", "unreadable"]

# -- builders of a file -------------------------------------------------------------------------------


def is_h5_io(io: HDMFIO | None) -> bool:
    """Return True if files are read by hdmf's HDF5 backend."""
    return any(cls.__module__.startswith("hdmf.backends.hdf5") for cls in type(io).__mro__)


def unreadable(io: Any) -> str | None:
    """Return the name of a dataset that hdmf fails to read, without saying which; None if there is none."""
    found: list[str] = []

    def visit(name: str, node: Any) -> None:
        dtype = getattr(node, "dtype", None)
        if dtype is not None and dtype.kind == "V" and dtype.names is None:
            found.append(str(node.name))

    io._file.visititems(visit)
    return found[0] if found else None


class H5Builders:
    """The builders of one file."""

    def __init__(self, io: Any, convert: Callable[[Any, Reference], Reference]) -> None:
        self._file = io._file
        self._source = canonical_source(str(io.source))
        self._convert = convert

    def _object(self, builder: Any) -> Any:
        """Return the object that a builder was read from; None if it was made otherwise."""
        if builder.location is None or builder.source is None:
            return None
        if canonical_source(builder.source) != self._source:
            return None
        return self._file.get(path_of(builder))

    def attributes(self, builder: Any) -> Mapping[str, Any]:
        """Return the attributes of a builder, references as records; labels of dimensions are its names."""
        given: dict[str, Any] = builder.attributes
        names = [k for k, v in given.items() if isinstance(v, Builder) or _has_objects(v)]
        if "DIMENSION_LABELS" in given:
            names.append("DIMENSION_LABELS")
        found = self._object(builder) if names else None
        if found is None:
            return given
        return {k: v for k, v in given.items() if k not in names} | attributes_of_h5(
            found, self._convert, [name for name in names if name in found.attrs]
        )

    def dataset(self, builder: Any) -> Any:
        """Return the dataset of h5py for a builder whose data hdmf has read; None if that is complete."""
        data = builder.data
        if isinstance(data, ReferenceBuilder) or (_has_objects(data) and data.shape == ()):
            return self._object(builder)
        return None


def _has_objects(value: Any) -> bool:
    return isinstance(value, np.ndarray | np.void) and value.dtype.hasobject


# -- places of objects in a copy ----------------------------------------------------------------------


class Placed(NamedTuple):
    """A group or dataset with its place in a copy."""

    node: Any
    at: str
    what: str  # name for messages
    # The part of the schema for it depends on these.
    name: str
    attributes: Mapping[str, Any]
    parent: Placed | None


class Places(ABC):
    """The places of all objects of a file in its copy, each object once.

    Members of groups have the paths that they had.  Objects that only links lead to are where the first link
    is, groups before datasets, since a dataset may be in one of them.
    """

    def __init__(self) -> None:
        self.objects: list[Placed] = []
        self.links: list[tuple[Placed, str, Any, str]] = []  # group, name, target and its place
        self._at: dict[Any, str] = {}

    @abstractmethod
    def _key(self, node: Any) -> Any:
        """Return the identity of an object."""

    @abstractmethod
    def _described(self, node: Any) -> tuple[str, Mapping[str, Any]]:
        """Return the name of an object for messages, and the attributes that the schema depends on."""

    @abstractmethod
    def _members(self, group: Placed) -> Iterator[tuple[str, Any, bool]]:
        """Yield name and object of each member of a group, or link in it, and whether it is a link."""

    @abstractmethod
    def _is_group(self, node: Any) -> bool:
        """Return True for groups."""

    def find(self, node: Any) -> str | None:
        """Return the place of an object; None if it has none."""
        return self._at.get(self._key(node))

    def plan(self, root: Any) -> None:
        """Give each object its place."""
        self._add(root, "/", None)
        pending: list[tuple[Placed, str, Any]] = []  # links to objects that may have no place yet
        done = 0
        while done < len(self.objects) or pending:
            if done == len(self.objects):
                first = (i for i, (_, _, node) in enumerate(pending) if self._is_group(node))
                self._link_or_add(*pending.pop(next(first, 0)))
                continue
            group = self.objects[done]
            done += 1
            for name, node, is_link in self._members(group) if self._is_group(group.node) else ():
                if is_link:
                    pending.append((group, name, node))
                else:
                    self._link_or_add(group, name, node)

    def _link_or_add(self, group: Placed, name: str, node: Any) -> None:
        at = self.find(node)
        if at is None:
            self._add(node, join_path(group.at, name), group)
        else:
            self.links.append((group, name, node, at))

    def _add(self, node: Any, at: str, parent: Placed | None) -> None:
        self._at[self._key(node)] = at
        what, attributes = self._described(node)
        self.objects.append(Placed(node, at, what, at.rpartition("/")[2], attributes, parent))


# -- copies of files ----------------------------------------------------------------------------------


class H5Copy(Places):
    """A copy of one file.

    Attributes
    ----------
    broken : list of str
        Links and references that lead to nothing.
    """

    def __init__(self, file: h5py.File, catalog: NamespaceCatalog) -> None:
        super().__init__()
        self._file = file
        self._catalog = catalog
        self.broken: list[str] = []
        self._specloc = self._specifications()
        self.plan(file["/"])
        self._links: dict[str, dict[str, Reference]] = {}
        for group, name, node, at in self.links:
            self._links.setdefault(group.at, {})[name] = self._record(node, at)
        for each in self.objects:
            self._note_broken_references(each)

    def close(self) -> None:
        """Let go of all objects of h5py: one of a linked file keeps that file open."""
        self.objects.clear()
        self.links.clear()

    # -- places -----------------------------------------------------------------------------------

    def _specifications(self) -> str | None:
        """Return the path of the group of cached specifications."""
        value = self._file.attrs.get(SPECLOC)
        if not isinstance(value, h5py.Reference) or not value:
            return None
        return str(self._file[value].name)

    def _key(self, node: Any) -> Any:
        return address_of(node)

    def _described(self, node: Any) -> tuple[str, Mapping[str, Any]]:
        attributes = {k: node.attrs[k] for k in _TYPE_NAMES if k in node.attrs}
        attributes = {k: v.decode() if isinstance(v, bytes) else v for k, v in attributes.items()}
        return f"object {node.name} of {node.file.filename}", attributes

    def _is_group(self, node: Any) -> bool:
        return isinstance(node, h5py.Group)

    def _members(self, group: Placed) -> Iterator[tuple[str, Any, bool]]:
        for name in group.node:
            link = group.node.get(name, getlink=True)
            try:
                target = group.node[name]
            except (KeyError, OSError) as e:
                self.broken.append(f'link "{name}" of {group.what}: {_where(link)} is not there ({e})')
                continue
            is_link = not isinstance(link, h5py.HardLink)
            if isinstance(target, h5py.Datatype):
                warnings.warn(
                    f'the type "{name}" of {group.what} is left out: a store has no named types',
                    LossWarning,
                    stacklevel=2,
                )
            elif is_link or target.file != self._file or target.name != self._specloc:
                yield name, target, is_link

    def _record(self, target: Any, at: str) -> Reference:
        return Reference(at, ".", object_id(target), object_id(self._file))

    def _refer(self, target: Any, value: Reference) -> Reference:
        """Return the record of a reference to an object of h5py."""
        at = self.find(target)
        if at is None:
            raise InvalidArgumentError(
                f"there is a reference to {target.name} of {target.file.filename}, to which no link leads: "
                "it is not part of the copy"
            )
        return replace(self._record(target, at), region=value.region)

    def _note_broken_references(self, each: Placed) -> None:
        """Check the references of an object: each must lead to an object that is copied."""
        for name in each.node.attrs:
            if name == SPECLOC:
                continue
            with naming(each.what):
                try:
                    attributes_of_h5(each.node, self._refer, [name])
                except InvalidArgumentError as e:
                    self.broken.append(f'attribute "{name}" of {each.what}: {e.message}')
        if isinstance(each.node, h5py.Dataset):
            source = self._source(each)
            if source.element().has_references:
                with naming(each.what):
                    try:
                        source.read_whole()
                    except InvalidArgumentError as e:
                        self.broken.append(f"{each.what}: {e.message}")

    def _source(self, each: Placed) -> H5Source:
        declared = declared_dtype(self._catalog, each.name, each.attributes, each.parent)
        return H5Source(each.node, declared, self._refer_or_none if self._dropping else self._refer)

    # -- writing ----------------------------------------------------------------------------------

    _dropping = False

    def _refer_or_none(self, target: Any, value: Reference) -> Any:
        return self._refer(target, value) if self.find(target) is not None else None

    def write(
        self, writer: NodeWriter, streams: BuilderStreams, *, keep_types: bool, compat_regions: bool
    ) -> None:
        """Write all but specifications and the root's documents; broken links and references are left out."""
        self._dropping = True
        for text in self.broken:
            warnings.warn(f"{text}; it is left out", BrokenLinkWarning, stacklevel=2)
        convention = writer.store.convention

        def stored(value: Any) -> Any:
            if not isinstance(value, Reference):
                return None
            return convention.reference_attribute(value, compat=compat_regions)

        for each in self.objects:
            with naming(each.what):
                attributes = dump_attributes(self._attributes(each), stored, keep_types)
                if isinstance(each.node, h5py.Dataset):
                    self._dataset(each, streams, attributes)
                else:
                    writer.begin_group(each.at)
                    writer.group(each.at, attributes, self._links.get(each.at, {}))

    def _attributes(self, each: Placed) -> dict[str, Any]:
        out: dict[str, Any] = {}
        for name in each.node.attrs:
            if name == SPECLOC and each.at == "/":
                continue
            try:
                out |= attributes_of_h5(each.node, self._refer, [name])
            except InvalidArgumentError:  # a broken reference, which has been reported
                continue
        return out

    def _dataset(self, each: Placed, streams: BuilderStreams, attributes: dict[str, Any]) -> None:
        if each.node.shape is None:
            warnings.warn(
                f"{each.what} has no value, and becomes one without elements", LossWarning, stacklevel=2
            )
        enum = h5py.check_enum_dtype(each.node.dtype)
        if enum is not None and set(enum) != {"FALSE", "TRUE"}:
            warnings.warn(
                f"the names of values of {each.what} are left out: {enum}", LossWarning, stacklevel=2
            )
        settings = settings_of_h5(each.node)
        if not tree_format(streams.store.format).has_fill_value:
            settings = replace(settings, fill_value=None)
        with closing(self._source(each)) as source:  # the cyclic garbage of a copy may hold it for long
            streams.copy_h5(each.at, source, settings, attributes)

    def write_specifications(self, writer: NodeWriter) -> None:
        """Copy the cached specifications as they are."""
        path = self._specloc
        if path is None:
            return
        root = writer.store.tree.nodes["/"]
        writer.set_attributes("/", {**root.attributes, SPECLOC: path[1:]})
        writer.group(path, {}, {})

        def visit(name: str, node: Any) -> None:
            at = f"{path}/{name}"
            if isinstance(node, h5py.Group):
                writer.group(at, {}, {})
            elif isinstance(node, h5py.Dataset):
                content = np.asarray(node[()]).reshape(-1)[0]
                put_specification(
                    writer, at, content.decode() if isinstance(content, bytes) else str(content)
                )

        self._file[path].visititems(visit)


_TYPE_NAMES = ("neurodata_type", "data_type", "namespace")


def _where(link: Any) -> str:
    if isinstance(link, h5py.ExternalLink):
        return f"{link.path} of {link.filename}"
    return str(getattr(link, "path", "its target"))
