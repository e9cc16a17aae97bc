"""A store's tree in memory: links, stored arrays, and values that are not plain arrays."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from chunkwise.core.codec.protocol import DecodeInto, PreparedChain
from chunkwise.errors import (
    ChunkwiseError,
    DataCorruptionError,
    FailedPreconditionError,
    NotFoundError,
    prefix,
)
from chunkwise.extension.inside import Pool
from chunkwise.extension.trees import LINK_ATTRIBUTES, Location
from chunkwise.hdmf.conventions import convention_of
from chunkwise.hdmf.conventions.base import Convention
from chunkwise.hdmf.conventions.n5 import decode_items, encoded_shape, restore_number
from chunkwise.hdmf.model.attributes import SPECLOC, load_attributes, object_id_of
from chunkwise.hdmf.model.element import Element
from chunkwise.hdmf.model.physical import PhysicalArray
from chunkwise.hdmf.model.reference import Reference, canonical_path, join_path, parse_reference
from chunkwise.hdmf.model.selection import parse_selection
from chunkwise.hdmf.model.tree import Format, HdmfNode, HdmfTree, read_tree
from chunkwise.hdmf.model.values import to_logical

__all__ = ["StoreContent", "put", "read_encoded", "stored_shape", "with_regions"]

# -- the tree -----------------------------------------------------------------------------------------


class StoreContent:
    """The content of a store, as it is stored."""

    def __init__(self, location: Location, source: str, tree: HdmfTree, pool: Pool) -> None:
        self.location = location
        self.home = location.path
        self.source = source
        self.tree = tree
        self.pool = pool
        self.convention: Convention = convention_of(tree.format)
        self._decoders: dict[int, tuple[PreparedChain, list[DecodeInto]]] = {}
        self._links: dict[str, dict[str, Reference]] = {}
        self._own_names: frozenset[str] | None = None

    @property
    def format(self) -> Format:
        """Storage format."""
        return self.tree.format

    @property
    def object_id(self) -> str | None:
        """Identity of the root."""
        return object_id_of(self.tree.nodes["/"].attributes)

    @property
    def own_names(self) -> frozenset[str]:
        """Names of directories by which references call this store, as release 0.10.0 did."""
        if self._own_names is None:
            found = set()
            for node in self.tree.nodes.values():
                for value in node.attributes.values():
                    reference = value.get("value") if isinstance(value, dict) else None
                    if isinstance(reference, dict) and reference.get("source_object_id") == self.object_id:
                        found.add(str(reference.get("source")))
            self._own_names = frozenset(name for name in found if "/" not in name)
        return self._own_names

    @property
    def specloc(self) -> str | None:
        """Path of the group of cached specifications, as the root names it; None if it does not."""
        value = self.tree.nodes["/"].attributes.get(SPECLOC)
        if isinstance(value, dict):
            value = value.get("_REFERENCE", value.get("value", value))
        if value is None:
            return None
        try:
            return canonical_path(parse_reference(value).path)
        except ChunkwiseError as e:
            raise prefix(e, f'attribute "{SPECLOC}" of {self.source}') from None

    def specifications(self) -> str | None:
        """Return the path of the group of cached specifications if it exists.

        Some releases left it out of consolidated metadata; it is read then.
        """
        path = self.specloc
        if path is None or path == "/":
            return None
        if self.tree.consolidated and not any(node.is_array for node in self.tree.below(path)):
            try:
                found = read_tree(self.location, self.format, False, path)
            except NotFoundError:
                return None
            for node in found.nodes.values():
                self.tree.add(node)
        return path if path in self.tree.nodes else None

    # -- groups -----------------------------------------------------------------------------------

    def is_dataset(self, path: str) -> bool:
        """Return True for datasets; an encoded group of N5 is one."""
        return self.tree.is_dataset(path)

    def names(self, path: str) -> list[str]:
        """Return the names of groups and datasets in a group; links are not among them."""
        return [] if self.is_dataset(path) else list(self.tree.children.get(path, ()))

    def load_attributes(self, path: str) -> dict[str, Any]:
        """Return the attributes of users of a group or dataset, as the document has them now."""
        try:
            return load_attributes(self.tree.nodes[path].attributes)
        except ChunkwiseError as e:
            raise prefix(e, f'{"dataset" if self.is_dataset(path) else "group"} "{path}"') from None

    def links(self, path: str) -> dict[str, Reference]:
        """Return the links of a group, from name to target.

        Raises
        ------
        FailedPreconditionError
            If the list of links is malformed; names the group.
        """
        found = self._links.get(path)
        if found is None:
            found = self._links[path] = self._load_links(self.tree.nodes[path])
        return found

    def _load_links(self, node: HdmfNode) -> dict[str, Reference]:
        out: dict[str, Reference] = {}
        for member in LINK_ATTRIBUTES:
            listed = node.attributes.get(member)
            if listed is None:
                continue
            if not isinstance(listed, list):
                raise FailedPreconditionError(f'group "{node.path}": Expected array in "{member}"')
            for item in listed:
                if not isinstance(item, dict) or not isinstance(item.get("name") or "", str):
                    raise FailedPreconditionError(f'group "{node.path}": malformed link {item!r:.100}')
                try:
                    link = replace(parse_reference(item), link=True)
                except ChunkwiseError as e:
                    raise prefix(e, f'link "{item.get("name")}" of group "{node.path}"') from None
                name = item.get("name") or link.path.rstrip("/").rpartition("/")[2]  # as hdmf calls it
                if out.setdefault(name, link) != link:
                    raise FailedPreconditionError(
                        f'group "{node.path}": two links are called "{name}", '
                        f"to {out[name].path} and to {link.path}"
                    )
        return out

    # -- arrays -----------------------------------------------------------------------------------

    def physical(self, path: str) -> PhysicalArray:
        """Return the stored array at a path."""
        node = self.tree.nodes.get(path)
        if node is None or not node.is_array:
            raise NotFoundError(f"there is no array {path} in {self.source}")
        return self.array_of(node)

    def array_of(self, node: HdmfNode) -> PhysicalArray:
        """Return the array of a node, which need not be in the tree yet."""
        return PhysicalArray(self.location, self.format, node, self.pool, self._decoders, self.tree.copies)

    def contains(self, path: str) -> bool:
        """Return True if there is a group, a dataset or a link on the way at a canonical path."""
        if path in self.tree.nodes:
            return not self._inside_encoded(path)
        at = path
        while at:
            at, _, name = at.rpartition("/")
            node = self.tree.nodes.get(at or "/")
            if node is not None:
                return not self.is_dataset(at or "/") and name in self.links(at or "/")
        return False

    def is_stored(self, path: str) -> bool:
        """Return True if the document of the group or dataset at a path is in the store now."""
        node = self.tree.nodes[path]
        at = self.location.path + node.prefix
        return any(
            self.location.store.read(at + key).value is not None for key in self.convention.documents(node)
        )

    def _inside_encoded(self, path: str) -> bool:
        if not self.tree.has_encoded:
            return False
        at = path.rpartition("/")[0]
        while at:
            if self.is_dataset(at):
                return True
            at = at.rpartition("/")[0]
        return False

    def walk(self, path: str = "/", *, specifications: bool = False) -> list[str]:
        """Return the paths of a group and all groups and datasets below, parents first.

        Parameters
        ----------
        path : str
        specifications : bool
            Whether cached specifications are among them.
        """
        skip = None if specifications else self.specloc
        out, pending = [], [path]
        while pending:
            at = pending.pop(0)
            if at == skip:
                continue
            out.append(at)
            pending += [join_path(at, name) for name in self.names(at)]
        return out


# -- encoded values -----------------------------------------------------------------------------------


def stored_shape(store: StoreContent, path: str) -> tuple[int, ...]:
    """Return the shape of a dataset that is not an array, as stored."""
    attributes = store.tree.nodes[path].attributes
    try:
        return encoded_shape(attributes.get("_ENCODED") or attributes.get("_EMPTY"))
    except DataCorruptionError as e:
        raise prefix(e, f'dataset "{path}"') from None


def read_encoded(store: StoreContent, path: str, element: Element, key: Any) -> npt.NDArray[Any]:
    """Return values of a dataset of N5 that is not an array: an encoded group, or an empty one."""
    shape = stored_shape(store, path)
    if "_EMPTY" in store.tree.nodes[path].attributes:
        if math.prod(shape):
            raise DataCorruptionError(f"a dataset of shape {shape} has no values: it is marked as empty")
        values = np.empty(shape, element.memory_dtype)
    else:
        values = _decoded(store, path, element, shape)
    return parse_selection(key, shape).of(values)


def _decoded(store: StoreContent, path: str, element: Element, shape: tuple[int, ...]) -> npt.NDArray[Any]:
    """Return the values of an encoded group of N5, or of a member of one."""
    node = store.tree.nodes.get(path)
    n = math.prod(shape)
    if node is not None and node.is_array:
        array = store.physical(path)
        if element.kind != "number" or array.size != n:
            raise DataCorruptionError(
                f"array {path} has {array.size} values of {array.dtype}, but expected {n} of {element.name}"
            )
        return restore_number(array.read(), element).reshape(shape)
    if element.kind != "compound":

        def read(child: str, start: int, stop: int) -> npt.NDArray[Any]:
            return store.physical(join_path(path, child)).read(slice(start, stop))

        return decode_items(read, n, element).reshape(shape)
    if not n:
        return np.empty(shape, element.memory_dtype)
    columns = [
        _decoded(store, join_path(path, str(i)), m.element, shape) for i, m in enumerate(element.members)
    ]
    out = np.empty(shape, element.memory_dtype)  # now that as many values are there
    for member, column in zip(element.members, columns, strict=True):
        out[member.name] = column
    return out


def put(values: npt.NDArray[Any], key: Any, new: npt.NDArray[Any]) -> None:
    """Set the elements of an array in C order that an index selects."""
    at = parse_selection(key, values.shape).of(np.arange(values.size).reshape(values.shape))
    # Item by item: an object in an array of shape () would be taken for that array.
    values.reshape(-1)[at.reshape(-1)] = np.broadcast_to(new, at.shape).reshape(-1)


def with_regions(
    stored: npt.NDArray[Any],
    element: Element,
    indirect: Mapping[str, str],
    read: Callable[[str], npt.NDArray[Any]],
) -> npt.NDArray[Any]:
    """Return rows whose regions are stored as numbers of those in side datasets.

    `indirect` has the names of the side datasets by members; `read` returns all regions of one.
    """
    out = np.empty(stored.shape, element.memory_dtype)
    for m in element.members:
        if m.name not in indirect:
            out[m.name] = to_logical(_objects(stored[m.name]), m.element)
            continue
        regions = read(indirect[m.name])
        numbers = stored[m.name]
        if numbers.size and not 0 <= numbers.min() <= numbers.max() < len(regions):
            raise DataCorruptionError(
                f'member "{m.name}" counts regions up to {len(regions)}, but has others'
            )
        out[m.name] = regions[numbers]
    return out


def _objects(values: npt.NDArray[Any]) -> npt.NDArray[Any]:
    return values.astype(object) if values.dtype.kind in "US" else values
