"""An HDF5 or NetCDF-4 file as a tree of Zarr v2: groups, datasets, attributes, and locations of chunks.

Needs the package h5py.  The index of a dataset is read when it is opened, under a lock, since h5py does one
thing at a time.  Chunks are then read from the file without h5py.
"""

from __future__ import annotations

import json
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from math import prod
from typing import TYPE_CHECKING, Any, NamedTuple

from chunkwise.core.base.binding import JSON, dump
from chunkwise.core.base.threads import new_rlock
from chunkwise.core.kvstore.key_range import KeyRange, encode_key
from chunkwise.core.kvstore.protocol import Children, KvStoreDriver
from chunkwise.core.kvstore.reference.hdf5_array import Hdf5Array, describe_dataset
from chunkwise.core.kvstore.reference.hdf5_elements import FILL_VALUE
from chunkwise.core.kvstore.reference.hdf5_file import Hdf5File, Hdf5Files
from chunkwise.core.kvstore.reference.hdf5_objects import (
    Attributes,
    address_of,
    attributes_of,
    conventions_of,
    dimension_names,
    is_mere_dimension,
    links_of,
)
from chunkwise.core.kvstore.reference.store import Loaded, OpenTarget
from chunkwise.core.kvstore.reference.table import Reference, cell_of, read_by
from chunkwise.errors import (
    ChunkwiseError,
    DataCorruptionError,
    NotFoundError,
    PermissionDeniedError,
    UnsupportedError,
    prefix,
)

if TYPE_CHECKING:
    import h5py
    import numpy as np

__all__ = ["Hdf5Table", "load_hdf5"]

_DEEPEST = 64  # depth of nested groups


_MOST_NODES = 16384
_MOST_CHUNKS = 4_000_000  # indices of 128 MB


class _Node(NamedTuple):
    """A group or a dataset."""

    attributes: Attributes
    document: bytes
    array: Hdf5Array | None
    children: _Children  # a group's members
    address: Any  # address of the object, to notice groups that contain themselves


class _Children:
    """Names of the members of a group, in the order of their keys."""

    def __init__(self, path: str, names: Iterable[str]) -> None:
        front = f"{path}/" if path else ""
        pairs = sorted((encode_key(f"{front}{name}/"), name) for name in names)
        self._prefixes = [prefix for prefix, _ in pairs]
        self.names = [name for _, name in pairs]
        self.there: dict[str, bool] = {}  # whether a name leads to a node, if known

    def in_range(self, keys: KeyRange) -> list[str]:
        """Return the members that may have keys in a range."""
        first = max(0, bisect_right(self._prefixes, keys.inclusive_min) - 1)
        last = bisect_left(self._prefixes, keys.exclusive_max) if keys.exclusive_max else None
        return self.names[first:last]


class _Nodes:
    """The nodes that were used last, within a memory limit."""

    def __init__(self) -> None:
        self._nodes: dict[str, _Node | None] = {}
        self._n_chunks = 0

    def __contains__(self, path: str) -> bool:
        return path in self._nodes

    def __getitem__(self, path: str) -> _Node | None:
        self._nodes[path] = node = self._nodes.pop(path)  # becomes the most recent
        return node

    def put(self, path: str, node: _Node | None) -> None:
        self._nodes[path] = node
        self._n_chunks += _n_chunks(node)
        while len(self._nodes) > _MOST_NODES or (self._n_chunks > _MOST_CHUNKS and len(self._nodes) > 1):
            self._n_chunks -= _n_chunks(self._nodes.pop(next(iter(self._nodes))))

    def clear(self) -> None:
        self._nodes.clear()


def _n_chunks(node: _Node | None) -> int:
    return 0 if node is None or node.array is None else prod(node.array.grid)


def load_hdf5(base: KvStoreDriver, key: str, open_target: OpenTarget) -> Loaded:
    """Open an HDF5 file."""
    files = Hdf5Files(base, key, open_target)
    return Loaded(Hdf5Table(files), key, files.first.generation)


class Hdf5Table:
    """The tree of a file."""

    def __init__(self, files: Hdf5Files) -> None:
        self._files = files
        self._lock = new_rlock()
        self._conventions = conventions_of(files.first.file)
        self._nodes = _Nodes()

    def __del__(self) -> None:
        if hasattr(self, "_nodes"):
            self._files.leave(self._nodes)

    def find(self, key: str) -> Reference | None:
        """Return the document of a node, its attributes, or the location of a chunk."""
        path, _, name = key.rpartition("/")
        if name == ".zgroup" or name == ".zarray":
            node = self._node(path)
            found = node is not None and (node.array is not None) == (name == ".zarray")
            return node.document if node is not None and found else None
        if name == ".zattrs":
            node = self._node(path)
            return None if node is None else _dump(node.attributes.values)
        node = self._node(path) if name[:1].isdigit() else None
        cell = None if node is None or node.array is None else cell_of(name, node.array.grid)
        if node is None or node.array is None or cell is None:
            return None
        reference = node.array.find(cell)
        if not callable(reference):
            return reference

        def make() -> Any:
            with self._lock:
                return read_by("HDF5", dump(key), reference)

        return make

    def note(self, key: str) -> str:
        """Return the reason why h5py reads the array at a prefix of keys; empty if it doesn't."""
        node = self._node(key.rstrip("/"))
        why = "" if node is None or node.array is None else node.array.by_h5py
        return f"read by h5py, one chunk at a time: {why}" if why else ""

    def number_types(self, prefix: str) -> Mapping[str, np.dtype[Any]]:
        """Return the types of a node's numeric attributes."""
        node = self._node(prefix.rstrip("/"))
        return {} if node is None else node.attributes.number_types

    def left_out(self, prefix: str) -> Mapping[str, str]:
        """Return the attributes of a node that the tree lacks or changes, and why."""
        node = self._node(prefix.rstrip("/"))
        return {} if node is None else node.attributes.left_out

    def _node(self, path: str) -> _Node | None:
        with self._lock:
            if path not in self._nodes:
                self._nodes.put(path, read_by("HDF5", dump("/" + path), lambda: self._read(path)))
            return self._nodes[path]

    def _read(self, path: str) -> _Node | None:
        import h5py

        names = path.split("/") if path else []
        if len(names) > _DEEPEST or any(name in ("", ".", "..") for name in names):
            return None
        # HDMF stores links as attributes, and follows them itself.
        found = self._files.find(path, follow=not self._conventions.hdmf)
        if found is None:
            return None
        file, node = found
        if not self._is_node(node, names):
            return None
        address = address_of(node)
        if isinstance(node, h5py.Group):
            attributes = attributes_of(node, self._conventions)
            members = self._members(node)
            if self._conventions.hdmf:
                links = links_of(node, self._object)
                members = [name for name in members if name not in links]
                if links:
                    attributes.values["zarr_link"] = list(links.values())
            return _Node(attributes, _dump({"zarr_format": 2}), None, _Children(path, members), address)
        try:
            array = self._array(file, node)
        except ChunkwiseError as e:
            raise prefix(e, f"Error reading dataset {dump('/' + path)}") from e.__cause__
        return _Node(
            self._array_attributes(node, array), _dump(array.document), array, _Children(path, ()), address
        )

    def _is_node(self, node: h5py.HLObject, names: Sequence[str]) -> bool:
        """Return True for a dataset or group, except a group that contains itself."""
        import h5py

        if isinstance(node, h5py.Dataset):
            return not is_mere_dimension(node)
        if not isinstance(node, h5py.Group):
            return False
        address = address_of(node)
        above = (self._node("/".join(names[:end])) for end in range(len(names)))
        return not any(group is not None and group.address == address for group in above)

    def _object(self, path: str) -> h5py.HLObject:
        """Return the object in the same file that a link leads to, or None."""
        try:
            found = self._files.find(path)
        except ChunkwiseError:
            return None
        return None if found is None or found[0] is not self._files.first else found[1]

    def _array(self, file: Hdf5File, dataset: h5py.Dataset) -> Hdf5Array:
        segments = [(str(name), int(offset), int(size)) for name, offset, size in dataset.external or ()]
        return describe_dataset(
            dataset,
            file,
            lambda of, box: self._files.read_box(file, of, box),
            (lambda start, stop: self._files.external_part(segments, start, stop)) if segments else None,
            self._conventions.paths,
        )

    def _array_attributes(self, dataset: h5py.Dataset, array: Hdf5Array) -> Attributes:
        attributes = attributes_of(dataset, self._conventions)
        names = dimension_names(dataset, self._conventions) if dataset.shape is not None else None
        if names is not None:
            attributes.values["_ARRAY_DIMENSIONS"] = names
        if array.document["fill_value"] is not None:
            # Zarr v2 has it in the document, where xarray expects it.
            attributes.values.pop(FILL_VALUE, None)
        if self._conventions.hdmf:
            attributes.values["zarr_dtype"] = array.word
        return attributes

    def _members(self, group: h5py.Group) -> list[str]:
        return [name for name in group if name not in ("", ".", "..") and not name.startswith(".z")]

    # -- listing --------------------------------------------------------------------------------------

    def list(self, start: str, stop: str) -> Iterator[str]:
        """Yield the keys in ``[start, stop)``."""
        keys = KeyRange.between(start, stop)
        yield from (key for key in self._below("", keys) if key in keys)

    def _below(self, path: str, keys: KeyRange) -> Iterator[str]:
        front = f"{path}/" if path else ""
        if KeyRange.of_prefix(front).intersect(keys).empty:
            return
        node = self._listed(path)
        if node is None:
            return
        yield from self._own_keys(front, node)
        for name in node.children.in_range(keys):
            if self._is_there(node, path, name):
                yield from self._below(front + name, keys)

    def _listed(self, path: str) -> _Node | None:
        """Return a node; None, without keys, for a member of a group that can't be described."""
        try:
            return self._node(path)
        except (DataCorruptionError, UnsupportedError):
            if not path:
                raise
            return None

    def _own_keys(self, front: str, node: _Node) -> Iterator[str]:
        yield front + (".zgroup" if node.array is None else ".zarray")
        yield front + ".zattrs"
        if node.array is not None:
            for cell in node.array.cells():
                yield front + ".".join(map(str, cell or (0,)))

    def list_children(self, prefix: str) -> Children:
        """List one level below `prefix`."""
        node = self._listed(prefix.rstrip("/"))
        if node is None or (prefix and not prefix.endswith("/")):
            return Children([], [])
        keys = sorted(self._own_keys(prefix, node), key=encode_key)
        path = prefix.rstrip("/")
        found = [prefix + name for name in node.children.names if self._is_there(node, path, name)]
        return Children(keys, sorted(found, key=encode_key))

    def _is_there(self, group: _Node, path: str, name: str) -> bool:
        """Return False for a link that is dangling or not allowed; its own name reports the error."""
        known = group.children.there.get(name)
        if known is None:
            known = group.children.there[name] = self._leads_to_node(f"{path}/{name}" if path else name)
        return known

    def _leads_to_node(self, path: str) -> bool:
        def look() -> bool:
            names = path.split("/")
            found = self._files.find(path, follow=not self._conventions.hdmf)
            return len(names) <= _DEEPEST and found is not None and self._is_node(found[1], names)

        with self._lock:
            try:
                return read_by("HDF5", dump("/" + path), look)
            except (NotFoundError, PermissionDeniedError):
                return False
            except ChunkwiseError:
                return True

    def some_url(self) -> str | None:
        """Return the URL of the file itself."""
        return ""


def _dump(value: JSON) -> bytes:
    return json.dumps(value).encode("utf-8", "surrogatepass")
