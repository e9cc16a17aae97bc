"""Paths of builders and references among them, to regions and other stores too."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import hdmf.build
import numpy as np
from hdmf.build import DatasetBuilder, GroupBuilder, LinkBuilder, ReferenceBuilder
from hdmf.container import AbstractContainer

from chunkwise.core.kvstore.reference.hdf5_objects import region_json
from chunkwise.errors import InvalidArgumentError, LossWarning
from chunkwise.extension.inside import is_url
from chunkwise.hdmf.backend.h5_values import h5_dataset_of
from chunkwise.hdmf.model.attributes import data_type_of, object_id_of
from chunkwise.hdmf.model.place import canonical_source, relative_source
from chunkwise.hdmf.model.reference import Reference, canonical_path, join_path
from chunkwise.hdmf.model.region import hyperslab_axes, normalize_region, select_region
from chunkwise.hdmf.model.values import shape_of
from chunkwise.hdmf.opening import is_hdf5
from chunkwise.hdmf.storage.resolve import BrokenLinkError, BrokenLinkWarning
from chunkwise.hdmf.storage.store import HdmfStore

__all__ = [
    "ROOT",
    "BuilderReferences",
    "CopiedObjects",
    "RegionReference",
    "builders_below",
    "identity_of",
    "locate_alone",
    "path_of",
    "target_of",
    "top_of",
]

# -- paths --------------------------------------------------------------------------------------------

ROOT = "root"
"""Name of the builder of a root."""


def path_of(builder: Any) -> str:
    """Return the path of a builder in its store."""
    if builder.parent is None and builder.name == ROOT:
        return "/"
    if builder.location is not None:
        return join_path(canonical_path(builder.location), builder.name)
    if builder.parent is None:  # what has no parent becomes the root, whatever its name
        return "/"
    return join_path(path_of(builder.parent), builder.name)


def locate_alone(builder: Any, group: str) -> None:
    """Note the group that a builder without a parent is written to."""
    if builder.parent is None and builder.location is None:
        builder.location = group


def top_of(builder: Any) -> Any:
    """Return the root of a builder's tree."""
    while builder.parent is not None:
        builder = builder.parent
    return builder


def target_of(link: Any) -> Any:
    """Return the builder of the object that a link leads to."""
    while isinstance(link, LinkBuilder):
        link = link.builder
    return link


def identity_of(builder: Any) -> str | None:
    """Return the identity of a builder's object, or None."""
    attributes = getattr(builder, "attributes", None)
    return None if attributes is None else object_id_of(attributes)


class CopiedObjects:
    """Objects outside of a tree of builders, each copied to the path of the first link to it."""

    def __init__(self) -> None:
        self._builders: dict[int, tuple[Any, str]] = {}  # the builder is kept, so that its id stays its own
        self._paths: dict[tuple[str, str], str] = {}
        self._identities: dict[str, str] = {}  # of all that is written

    def plan(self, root: GroupBuilder, is_copied: Callable[[Any], bool]) -> None:
        """Find the links below a root whose targets are copied."""
        for builder, relative in builders_below(root):
            self._note(builder, relative or "/")
        for kind in (GroupBuilder, DatasetBuilder):  # a dataset may be in one of the groups
            self._plan(root, kind, is_copied)

    def _plan(self, root: GroupBuilder, kind: type, is_copied: Callable[[Any], bool]) -> None:
        pending: list[tuple[Any, str]] = [(root, "/")]
        while pending:
            group, path = pending.pop()
            for name, link in group.links.items():
                target = target_of(link)
                if self.path_of(target) == join_path(path, name) and isinstance(target, GroupBuilder):
                    pending.append((target, join_path(path, name)))  # found in the pass before
                if not isinstance(target, kind) or id(target) in self._builders or not is_copied(target):
                    continue
                place = join_path(path, name)
                for builder, relative in builders_below(target):
                    self._add(builder, place + relative)
                if isinstance(target, GroupBuilder):
                    pending.append((target, place))
            pending += [(child, join_path(path, child.name)) for child in group.groups.values()]

    def _note(self, builder: Any, path: str) -> None:
        identity = identity_of(builder)
        if identity is not None:
            self._identities.setdefault(identity, path)

    def _add(self, builder: Any, path: str) -> None:
        self._note(builder, path)
        self._builders.setdefault(id(builder), (builder, path))
        if builder.source is not None:
            self._paths.setdefault((canonical_source(builder.source), path_of(builder)), path)

    def path_of(self, builder: Any) -> str | None:
        """Return the path of the copy of an object; None if it is not copied."""
        found = self._builders.get(id(builder))
        return None if found is None else found[1]

    def path_like(self, builder: Any) -> str | None:
        """Return the path at which an object of another file with this builder is written."""
        relative = ""
        while builder is not None and path_of(builder) != "/":
            found = self._identities.get(identity_of(builder) or "")
            if found is not None:
                return found.rstrip("/") + relative
            builder, relative = builder.parent, f"/{builder.name}{relative}"
        return None

    def path_of_stored(self, path: str, identity: Callable[[str], str | None]) -> str | None:
        """Return the path at which a stored object is written; `identity` gives the identity at a path."""
        relative = ""
        while path:
            found = self._identities.get(identity(path) or "")
            if found is not None:
                return found.rstrip("/") + relative
            path, _, name = path.rpartition("/")
            relative = f"/{name}{relative}"
        return None

    def path_at(self, source: str, path: str) -> str | None:
        """Return the path of the copy of an object of another file; None if it is not copied."""
        return self._paths.get((canonical_source(source), path)) if self._paths else None


def builders_below(builder: Any) -> Iterator[tuple[Any, str]]:
    """Yield a builder and all in it, each with its path from there."""
    pending = [(builder, "")]
    while pending:
        at, path = pending.pop()
        yield at, path
        if isinstance(at, GroupBuilder):
            members = (*at.groups.values(), *at.datasets.values())
            pending += [(child, f"{path}/{child.name}") for child in members if child is not None]


# -- references ---------------------------------------------------------------------------------------

# hdmf had such builders until release 4; specs with regions work with those only.
_Base: Any = getattr(hdmf.build, "RegionBuilder", None)


class RegionReference(_Base or ReferenceBuilder):  # type: ignore[misc, unused-ignore]
    """A reference to a region of the dataset of a builder.

    Parameters
    ----------
    region : slice, tuple, list, mask, or mapping
        The selected part; see `chunkwise.hdmf.model.region.normalize_region`.
    builder : DatasetBuilder
        The dataset.

    Raises
    ------
    IndexError
        If the region reaches out of the dataset.
    """

    def __init__(self, region: Any, builder: DatasetBuilder) -> None:
        if _Base is None:
            super().__init__(builder)
        else:
            super().__init__(region if isinstance(region, slice | tuple | list) else slice(None), builder)
        self["region"] = normalize_region(region, shape_of(builder.data))

    @property
    def region(self) -> dict[str, Any]:
        """Canonical form of the region."""
        return self["region"]  # type: ignore[no-any-return]

    @property
    def selection(self) -> Any:
        """NumPy index of the region; for boxes that are no single index, a list of such."""
        region = self.region
        kind = region["type"]
        if kind == "slices":
            return tuple(slice(*s) for s in region["slices"])
        if kind == "points":
            return (
                tuple(list(axis) for axis in zip(*region["points"], strict=True)) if region["points"] else []
            )
        if kind == "blocks":
            boxes = [tuple(slice(f, t + 1) for f, t in zip(*box, strict=True)) for box in region["blocks"]]
            return boxes[0] if len(boxes) == 1 else boxes
        if kind == "hyperslab":
            return np.ix_(*hyperslab_axes(region))
        return Ellipsis if kind == "all" else []

    def data(self) -> Any:
        """Read and return the selected elements.

        Raises
        ------
        IndexError
            If the dataset has become too small.
        """
        data = self.builder.data
        if not hasattr(data, "shape"):
            data = np.asarray(data)
        return select_region(data, self.region)


def stored_reference(region: Mapping[str, Any], builder: DatasetBuilder) -> RegionReference:
    """Return a reference with its stored region; the dataset may have become smaller since."""
    reference = RegionReference(..., builder)
    reference["region"] = dict(region)
    return reference


class BuilderReferences:
    """References to builders, as the store of an I/O object writes them."""

    def __init__(
        self, io: Any, export_source: str | None, *, manager: Any = None, copies_all: bool = False
    ) -> None:
        self.io = io
        self.copies_all = copies_all
        self.top: Any = None
        self.export_source = None if export_source is None else canonical_source(export_source)
        self.root_id: str | None = None
        self.places = CopiedObjects()
        self._managers = [m for m in (manager, io.manager) if m is not None]
        self._here: dict[str, bool] = {}
        self._hdf5: dict[str, bool] = {}
        self._unknown: set[str] = set()
        self._outside: set[tuple[str, str]] = set()

    def reference_to(self, value: Any) -> Reference:
        """Return the record of a reference, or of a builder that is referred to."""
        if isinstance(value, Reference):
            return value
        region = None
        if isinstance(value, AbstractContainer):
            value = self._builder_of(value)
        target = value
        if isinstance(value, ReferenceBuilder):
            target = value.builder
            given = value.get("region")
            if isinstance(value, RegionReference):
                region = value.region
            elif given is not None:
                region = self._foreign_region(given, target)
        target = target_of(target)
        copied = self.places.path_of(target)
        if copied is not None:
            return Reference(copied, ".", identity_of(target), self.root_id, region)
        here = self.is_here(target)
        found = None if here else self.places.path_like(target)
        if found is not None:
            return Reference(found, ".", identity_of(target), self.root_id, region)
        self._check_there(target, here)
        root_id = getattr(target, "root_id", None) or identity_of(top_of(target))
        if (
            not here
            and root_id is None
            and identity_of(target) is None
            and target.source not in self._unknown
        ):
            self._unknown.add(target.source)
            warnings.warn(
                f"{target.source} has no object_id: a link to it also leads to another file that "
                "is put in its place",
                stacklevel=2,
            )
        return Reference(
            path_of(target),
            "." if here else self.name_of(target.source),
            identity_of(target),
            root_id or (self.root_id if here else None),
            region,
        )

    def _builder_of(self, container: AbstractContainer) -> Any:
        """Return the builder of a container that a record refers to."""
        for manager in self._managers:
            found = manager.get_builder(container)
            if found is not None:
                return found
        kind = type(container).__name__
        raise InvalidArgumentError(
            f'there is a reference to {kind} "{container.name}", which is not in the file: add it first'
        )

    def _check_there(self, target: Any, here: bool) -> None:
        """Raise an error for an object that is neither written to this store nor in another one that links
        can name."""
        what = f'{data_type_of(getattr(target, "attributes", {})) or "object"} "{target.name}"'
        if not here and self._is_hdf5(target.source):
            raise InvalidArgumentError(
                f"there is a reference to {what} of {target.source}, an HDF5 file, to which a store "
                "can't refer: add the object itself, which is copied"
            )
        if here and self.top is not None and target.location is None and top_of(target) is not self.top:
            raise InvalidArgumentError(
                f"there is a reference to {what}, which is not in the file: add it first"
            )
        if not here:
            self._note_outside(target.source, path_of(target))

    def _note_outside(self, source: str, path: str) -> None:
        """Warn of a reference to an object that no link leads to, when targets of links are copied."""
        if self.copies_all and (source, path) not in self._outside:
            self._outside.add((source, path))
            warnings.warn(
                f"references still lead to {path} of {source}: no link to that object is there that could be "
                "a copy",
                LossWarning,
                stacklevel=2,
            )

    def plan_copies(self, root: Any) -> None:
        """Find the objects of other files that are copied to where a tree of builders links to them."""
        self.top = root
        self.places.plan(root, self._is_copied)

    def _is_copied(self, target: Any) -> bool:
        if self.is_here(target):
            if target.location is None:  # of a container of another file, made for this one
                return top_of(target) is not self.top
            # The tree may have another builder of a stored object, at the same path.
            path = path_of(target)
            return path not in self.io.store.tree.nodes and not self._has(path, identity_of(target))
        return self.copies_all or self._is_hdf5(target.source)

    def _is_hdf5(self, source: str) -> bool:
        found = self._hdf5.get(source)
        if found is None:
            found = self._hdf5[source] = not is_url(source) and is_hdf5(source)
        return found

    @staticmethod
    def _foreign_region(given: Any, target: Any) -> dict[str, Any]:
        """Return the region of an hdmf 3 ``RegionBuilder``, which may be one of h5py."""
        shape = shape_of(target.data)
        if type(given).__name__ == "RegionReference":
            return region_json(h5_dataset_of(target.data).file, given, shape)
        return normalize_region(given, shape)

    def of_h5(self, target: Any, value: Reference) -> Reference:
        """Return the reference in this store that stands for one in an HDF5 file, to an object of h5py."""
        source = target.file.filename
        copied = self.places.path_at(source, value.path)
        if copied is not None:
            return Reference(copied, ".", value.object_id, self.root_id, value.region)
        if canonical_source(source) == self.export_source or self._has(value.path):
            return value
        raise InvalidArgumentError(
            f"there is a reference to {value.path} of {source}, an HDF5 file, to which a store can't "
            "refer: add the object itself, which is copied"
        )

    def _has(self, path: str, identity: str | None = None) -> bool:
        """Return True if there is an object at a path in the tree that is written, of that identity."""
        at = self.top
        for name in path.strip("/").split("/") if path != "/" else ():
            at = None if not isinstance(at, GroupBuilder) else at.groups.get(name, at.datasets.get(name))
        return at is not None and (identity is None or identity_of(at) in (None, identity))

    def is_here(self, builder: Any) -> bool:
        """Return True if a builder is one of this store, or of the file that is exported to it."""
        source = builder.source
        if source is None:
            return True
        here = self._here.get(source)
        if here is None:
            places = canonical_source(self.io.source), self.export_source
            here = self._here[source] = canonical_source(source) in places
        return here

    def name_of(self, other: str) -> str:
        """Return the name by which this store calls another."""
        source = relative_source(canonical_source(other), canonical_source(self.io.source))
        if source is None:
            if self.io.external_links == "any":
                return str(other)
            raise InvalidArgumentError(
                f"{other} has no name relative to {self.io.source}; "
                'absolute links are written only with allow_external_links="any"'
            )
        return source

    def rebased(self, value: Reference, other_io: Any, holder: HdmfStore) -> Reference:
        """Return the reference in this store that stands for one of another store."""
        try:
            store, path = other_io.stores.resolve(value, holder)
        except BrokenLinkError as e:
            warnings.warn(f"reference to {value.path}: {e.message}", BrokenLinkWarning, stacklevel=2)
            return value
        copied = self.places.path_at(store.source, path)
        if copied is not None:
            return Reference(copied, ".", value.object_id, self.root_id, value.region)
        here = canonical_source(store.source) in (canonical_source(self.io.source), self.export_source)
        if not here:
            nodes = store.tree.nodes
            found = self.places.path_of_stored(path, lambda at: object_id_of(nodes[at].attributes))
            if found is not None:
                return Reference(found, ".", value.object_id, self.root_id, value.region)
            self._note_outside(store.source, path)
        own = object_id_of(store.tree.nodes[path].attributes)
        return Reference(
            path,
            "." if here else self.name_of(store.source),
            value.object_id if own is None else own,
            store.object_id,
            value.region,
        )
