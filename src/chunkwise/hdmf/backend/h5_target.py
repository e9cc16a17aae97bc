"""A store as an HDF5 file: all groups, datasets, attributes, links and references, typed or not."""

# Objects of other stores that links lead to are copied to where the first link to each is, as HDF5 can't link
# to a store.  References are written last, when all that they may lead to is there.

from __future__ import annotations

import math
import os
import shutil
import warnings
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import h5py
import numpy as np
from hdmf.backends.hdf5.h5_utils import H5SpecWriter
from hdmf.backends.utils import NamespaceToBuilderHelper
from hdmf.spec import NamespaceCatalog

from chunkwise.errors import ChunkwiseError
from chunkwise.hdmf.backend.h5_values import h5_attribute, h5_dtype, h5_values, naming, select_in_space
from chunkwise.hdmf.backend.schema import DATE_WORDS, NAMESPACE, as_declared, cached_documents, declared_dtype
from chunkwise.hdmf.model.attributes import SPECLOC, is_typed, references_in
from chunkwise.hdmf.model.element import Element, text
from chunkwise.hdmf.model.reference import Reference, join_path
from chunkwise.hdmf.model.values import as_values
from chunkwise.hdmf.storage.resolve import BrokenLinkError, BrokenLinkWarning, StoreSet
from chunkwise.hdmf.storage.store import Dataset, HdmfStore

__all__ = ["copy_h5_file", "write_h5"]

_PIECE_NBYTES = 1 << 26
_CHUNK_NBYTES = 1 << 22


class _Object(NamedTuple):
    """A group or dataset with its place in the file."""

    store: HdmfStore
    path: str
    at: str
    # The part of the schema for it depends on these.
    name: str
    attributes: Mapping[str, Any]
    parent: Any

    @property
    def what(self) -> str:
        """Name for messages."""
        return f"object {self.path} of {self.store.source}"


def write_h5(stores: StoreSet, path: str, catalog: NamespaceCatalog) -> None:
    """Write the main store of a set as a new HDF5 file; broken links and references are left out."""
    with h5py.File(path, "w") as file:
        _Writing(stores, file, catalog).run()


def copy_h5_file(source: str, part: Path, path: Path) -> None:
    """Copy an HDF5 file that will be at `path`, to which the links to other files are made relative."""
    shutil.copyfile(source, part)
    with h5py.File(source, "r") as before, h5py.File(part, "r+") as file:
        seen: list[h5py.Group] = [before["/"]]
        before.visititems(lambda name, node: seen.append(node) if isinstance(node, h5py.Group) else None)
        for group in seen:
            for name in group:
                link = group.get(name, getlink=True)
                if isinstance(link, h5py.ExternalLink) and not os.path.isabs(link.filename):
                    target = os.path.join(os.path.dirname(source), link.filename)
                    relative = os.path.relpath(os.path.realpath(target), os.path.realpath(path.parent))
                    del file[group.name][name]
                    file[group.name][name] = h5py.ExternalLink(relative, link.path)


class _Writing:
    """One file that is being written."""

    def __init__(self, stores: StoreSet, file: h5py.File, catalog: NamespaceCatalog) -> None:
        self._stores = stores
        self._file = file
        self._catalog = catalog
        self._objects: list[_Object] = []
        self._places: dict[tuple[str, str], str] = {}
        self._links: list[tuple[_Object, str, str]] = []  # group, name, path in the file
        self._elements: dict[str, Element] = {}
        self._later: list[Callable[[], None]] = []

    def run(self) -> None:
        """Write all."""
        self._plan()
        for each in self._objects:
            with naming(each.what):
                if each.store.is_dataset(each.path):
                    self._elements[each.at] = self._element(each)
                    h5_dtype(self._elements[each.at])
        for each in self._objects:
            with naming(each.what):
                if each.store.is_dataset(each.path):
                    self._dataset(each, each.store.dataset(each.path))
                elif each.at != "/":
                    self._file.create_group(each.at)
        for group, name, at in self._links:
            self._file[group.at][name] = h5py.SoftLink(at)
        for fill in self._later:
            fill()
        for each in self._objects:
            with naming(each.what):
                self._attributes(each)
        for each in self._objects:
            if each.store.is_dataset(each.path):
                with naming(each.what):
                    self._attach_scales(each)
        self._specifications()

    # -- places -----------------------------------------------------------------------------------

    def _plan(self) -> None:
        """Give each object its place, and each link its target."""
        main = self._stores.main
        self._add(main, "/", "/", None)
        done = 0
        while done < len(self._objects):
            group = self._objects[done]
            done += 1
            if group.store.is_dataset(group.path):
                continue
            for name in group.store.names(group.path):
                path = join_path(group.path, name)
                if path != group.store.specloc:
                    self._add(group.store, path, join_path(group.at, name), group)
        # Objects that are part of this store have their places now; links to others give them one.
        for datasets in (False, True):  # a dataset may be in one of the groups that get a place
            for group in self._objects:  # the list grows
                if group.store.is_dataset(group.path):
                    continue
                for name, link in group.store.links(group.path).items():
                    self._link(group, name, link, datasets)

    def _add(self, store: HdmfStore, path: str, at: str, parent: _Object | None) -> None:
        self._places.setdefault((store.source, path), at)
        name = at.rpartition("/")[2]
        self._objects.append(_Object(store, path, at, name, store.attributes(path), parent))

    def _link(self, group: _Object, name: str, link: Reference, datasets: bool) -> None:
        try:
            store, path = self._stores.resolve(link, group.store)
        except ChunkwiseError as e:
            if datasets:  # reported once
                self._lost(f'link "{name}" of {group.what}: {e.message}')
            return
        if store.is_dataset(path) != datasets:
            return
        if name in group.store.names(group.path):
            self._lost(f'link "{name}" of {group.what}: there is another object of that name')
            return
        at = join_path(group.at, name)
        known = self._places.get((store.source, path))
        if known is not None:
            self._links.append((group, name, known))
            return
        first = len(self._objects)
        self._add(store, path, at, group)
        while first < len(self._objects):
            each = self._objects[first]
            first += 1
            if not store.is_dataset(each.path):
                for child in store.names(each.path):
                    self._add(store, join_path(each.path, child), join_path(each.at, child), each)

    @staticmethod
    def _lost(text: str) -> None:
        warnings.warn(f"{text}; it is left out", BrokenLinkWarning, stacklevel=2)

    # -- datasets ---------------------------------------------------------------------------------

    def _element(self, each: _Object) -> Element:
        element = each.store.dataset(each.path).element
        declared = declared_dtype(self._catalog, each.name, each.attributes, each.parent)
        if declared in DATE_WORDS and element.kind == "bytes":
            return text
        return as_declared(element, declared)

    def _dataset(self, each: _Object, dataset: Dataset) -> None:
        element = self._elements[each.at]
        options: dict[str, Any] = {}
        dtype, shape = h5_dtype(element), dataset.shape
        if shape and is_typed(each.attributes):  # as hdmf makes columns, to which rows are added
            row = max(1, dtype.itemsize * math.prod(shape[1:]))
            height = max(1, min(shape[0], _CHUNK_NBYTES // row))
            options = {
                "maxshape": (None, *shape[1:]),
                "chunks": (height, *(max(1, n) for n in shape[1:])),
            }
        made = self._file.create_dataset(each.at, shape=shape, dtype=dtype, **options)
        if not dataset.size:
            return
        if element.has_references:
            self._later.append(lambda: self._fill(each, dataset, made, element))
        else:
            self._fill(each, dataset, made, element)

    def _fill(self, each: _Object, dataset: Dataset, made: h5py.Dataset, element: Element) -> None:
        def refer(value: Reference | None) -> Any:
            return self._reference(each, value)

        with naming(each.what):
            if not dataset.shape or not dataset.is_array or element.has_references:
                made[...] = h5_values(_as(dataset.read(), element), element, refer)
                return
            row = max(1, math.prod(dataset.shape[1:]) * element.memory_dtype.itemsize)
            height = (dataset.physical.chunk_shape or (1,))[0]
            step = max(1, _PIECE_NBYTES // row // height) * height
            for start in range(0, dataset.shape[0], step):
                rows = slice(start, min(start + step, dataset.shape[0]))
                made[rows] = h5_values(_as(dataset.read(rows), element), element, refer)

    # -- references -------------------------------------------------------------------------------

    def _reference(self, holder: _Object, value: Reference | None) -> Any:
        """Return the HDF5 reference for a record; a null reference if there is no target."""
        if value is None:
            return h5py.h5r.Reference()
        try:
            store, path = self._stores.resolve(value, holder.store)
        except ChunkwiseError as e:
            self._lost(f"a reference in {holder.what}: {e.message}")
            return h5py.h5r.Reference()
        at = self._places.get((store.source, path))
        if at is None:
            raise BrokenLinkError(
                f"it refers to {path} of {store.source}, to which HDF5 can't refer from another file; a "
                "link to that object would have it copied"
            )
        target = self._file[at]
        if value.region is None:
            return target.ref
        space = target.id.get_space()
        select_in_space(holder.what, space, value.region)
        return h5py.h5r.create(self._file.id, at.encode(), h5py.h5r.DATASET_REGION, space)

    # -- attributes -------------------------------------------------------------------------------

    def _attributes(self, each: _Object) -> None:
        node = self._file[each.at]
        given = dict(each.attributes)
        is_dataset = isinstance(node, h5py.Dataset)
        if is_dataset:
            given.pop("REFERENCE_LIST", None)
            given.pop("DIMENSION_LIST", None)
            labels = given.get("_ARRAY_DIMENSIONS")
            if (
                isinstance(labels, list)
                and len(labels) == len(node.shape)
                and all(type(n) is str for n in labels)
            ):
                del given["_ARRAY_DIMENSIONS"]
                for dim, label in enumerate(labels):
                    node.dims[dim].label = label
            if given.get("CLASS") == "DIMENSION_SCALE" and node.shape:
                del given["CLASS"]
                node.make_scale(str(given.pop("NAME", "")))

        def refer(value: Reference | None) -> Any:
            return self._reference(each, value)

        for name, value in given.items():
            with naming(f'attribute "{name}"'):
                node.attrs[name] = h5_attribute(f'attribute "{name}" of {each.what}', value, refer)

    def _attach_scales(self, each: _Object) -> None:
        """Attach the scales that ``DIMENSION_LIST`` names; HDF5 keeps their lists itself."""
        listed = each.attributes.get("DIMENSION_LIST")
        node = self._file[each.at]
        if not isinstance(listed, list) or len(listed) != len(node.shape):
            return
        for dim, scales in enumerate(listed):
            for value in references_in(scales):
                found = self._reference(each, value)
                if found:
                    node.dims[dim].attach_scale(self._file[found])

    # -- specifications ---------------------------------------------------------------------------

    def _specifications(self) -> None:
        """Write the specifications that the store has cached, and those of namespaces that it lacks."""
        main = self._stores.main
        path = main.specifications()
        names = list(self._catalog.namespaces)
        if path is None and not names:
            return
        cached = self._file.require_group(path or "/specifications")
        self._file.attrs[SPECLOC] = cached.ref
        for at, document in cached_documents(main):
            if document is None:
                self._file.require_group(at)
            else:
                self._file.create_dataset(at, data=document, dtype=h5py.string_dtype())
        for name in names:
            at = f"{name}/{self._catalog.get_namespace(name).version}"
            if at not in cached:
                writer = H5SpecWriter(cached.create_group(at))
                NamespaceToBuilderHelper.convert_namespace(self._catalog, name).export(
                    NAMESPACE, writer=writer
                )


def _as(values: Any, element: Element) -> Any:
    """Return values with text and bytes as the element has them."""
    if element.kind == "compound":
        out = np.array(values, element.memory_dtype, copy=True)
        for m in element.members:
            if not m.element.is_plain and not m.element.has_references:
                out[m.name] = _as(np.asarray(values[m.name]), m.element)
        return out
    if element.kind in ("text", "bytes"):
        return as_values(values, element)
    return values
