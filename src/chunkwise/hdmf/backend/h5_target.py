"""A store as an HDF5 file: all groups, datasets, attributes, links and references, typed or not."""

# Objects of other stores that links lead to are copied to where the first link to each is, as HDF5 can't link
# to a store.  References are written last, when all that they may lead to is there.

from __future__ import annotations

import math
import os
import shutil
import warnings
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import h5py
from hdmf.backends.hdf5.h5_utils import H5SpecWriter
from hdmf.backends.utils import NamespaceToBuilderHelper
from hdmf.spec import NamespaceCatalog

from chunkwise.errors import ChunkwiseError
from chunkwise.hdmf.backend.h5_copy import Placed, Places
from chunkwise.hdmf.backend.h5_values import h5_attribute, h5_dtype, h5_values, naming, select_in_space
from chunkwise.hdmf.backend.schema import DATE_WORDS, NAMESPACE, as_declared, cached_documents, declared_dtype
from chunkwise.hdmf.model.attributes import SPECLOC, is_typed, references_in
from chunkwise.hdmf.model.element import Element, text
from chunkwise.hdmf.model.reference import Reference, join_path
from chunkwise.hdmf.model.values import as_values, map_members
from chunkwise.hdmf.storage.resolve import BrokenLinkError, BrokenLinkWarning, StoreSet, Target
from chunkwise.hdmf.storage.store import Dataset

__all__ = ["copy_h5_file", "write_h5"]

_PIECE_NBYTES = 1 << 26
_CHUNK_NBYTES = 1 << 22


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


class _Writing(Places):
    """One file that is being written."""

    def __init__(self, stores: StoreSet, file: h5py.File, catalog: NamespaceCatalog) -> None:
        super().__init__()
        self._stores = stores
        self._file = file
        self._catalog = catalog
        self._elements: dict[str, Element] = {}
        self._later: list[Callable[[], None]] = []

    def run(self) -> None:
        """Write all."""
        self.plan(Target(self._stores.main, "/"))
        for each in self.objects:
            with naming(each.what):
                if not self._is_group(each.node):
                    self._elements[each.at] = self._element(each)
                    h5_dtype(self._elements[each.at])
        for each in self.objects:
            with naming(each.what):
                if not self._is_group(each.node):
                    self._dataset(each, each.node.store.dataset(each.node.path))
                elif each.at != "/":
                    self._file.create_group(each.at)
        for group, name, _, at in self.links:
            self._file[group.at][name] = h5py.SoftLink(at)
        for fill in self._later:
            fill()
        for each in self.objects:
            with naming(each.what):
                self._attributes(each)
        for each in self.objects:
            if not self._is_group(each.node):
                with naming(each.what):
                    self._attach_scales(each)
        self._specifications()

    # -- places -----------------------------------------------------------------------------------

    def _key(self, node: Target) -> Any:
        return node.store.source, node.path

    def _described(self, node: Target) -> tuple[str, Mapping[str, Any]]:
        return f"object {node.path} of {node.store.source}", node.store.attributes(node.path)

    def _is_group(self, node: Target) -> bool:
        return not node.store.is_dataset(node.path)

    def _members(self, group: Placed) -> Iterator[tuple[str, Target, bool]]:
        store, path = group.node
        names = store.names(path)
        for name in names:
            member = join_path(path, name)
            if member != store.specloc:
                yield name, Target(store, member), False
        for name, link in store.links(path).items():
            try:
                target = self._stores.resolve(link, store)
            except ChunkwiseError as e:
                self._lost(f'link "{name}" of {group.what}: {e.message}')
                continue
            if name in names:
                self._lost(f'link "{name}" of {group.what}: there is another object of that name')
            else:
                yield name, target, True

    @staticmethod
    def _lost(text: str) -> None:
        warnings.warn(f"{text}; it is left out", BrokenLinkWarning, stacklevel=2)

    # -- datasets ---------------------------------------------------------------------------------

    def _element(self, each: Placed) -> Element:
        element = each.node.store.dataset(each.node.path).element
        declared = declared_dtype(self._catalog, each.name, each.attributes, each.parent)
        if declared in DATE_WORDS and element.kind == "bytes":
            return text
        return as_declared(element, declared)

    def _dataset(self, each: Placed, dataset: Dataset) -> None:
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

    def _fill(self, each: Placed, dataset: Dataset, made: h5py.Dataset, element: Element) -> None:
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

    def _reference(self, holder: Placed, value: Reference | None) -> Any:
        """Return the HDF5 reference for a record; a null reference if there is no target."""
        if value is None:
            return h5py.h5r.Reference()
        try:
            target = self._stores.resolve(value, holder.node.store)
        except ChunkwiseError as e:
            self._lost(f"a reference in {holder.what}: {e.message}")
            return h5py.h5r.Reference()
        at = self.find(target)
        if at is None:
            raise BrokenLinkError(
                f"it refers to {target.path} of {target.store.source}, to which HDF5 can't refer from "
                "another file; a link to that object would have it copied"
            )
        found = self._file[at]
        if value.region is None:
            return found.ref
        space = found.id.get_space()
        select_in_space(holder.what, space, value.region)
        return h5py.h5r.create(self._file.id, at.encode(), h5py.h5r.DATASET_REGION, space)

    # -- attributes -------------------------------------------------------------------------------

    def _attributes(self, each: Placed) -> None:
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

    def _attach_scales(self, each: Placed) -> None:
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
        return map_members(values, element, _as)
    if element.kind in ("text", "bytes"):
        return as_values(values, element)
    return values
