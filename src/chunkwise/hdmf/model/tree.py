"""The nodes of a store with their documents, read once: from consolidated metadata, or by walking."""

# After this nothing more is read to know what is in a store, and looking a path up is a dict access.

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import groupby
from typing import Any, Literal, TypeAlias

from chunkwise.driver.n5.document import is_dataset, load_document
from chunkwise.engine.pool import Pool
from chunkwise.errors import ChunkwiseError, FailedPreconditionError, NotFoundError, prefix
from chunkwise.hdmf.model.copies import read_copies, read_values
from chunkwise.hdmf.model.reference import canonical_path, join_path
from chunkwise.hierarchy.document import load_json
from chunkwise.hierarchy.location import Location
from chunkwise.kvstore.protocol import Buffer

__all__ = ["Format", "StoredNode", "Tree", "detect_format", "read_tree"]

Format: TypeAlias = Literal["zarr2", "zarr3", "n5"]

_N5 = "attributes.json"


@dataclass(slots=True)
class StoredNode:
    """A group or array."""

    # Canonical: ``"/"``, ``"/a/b"``.
    path: str
    is_array: bool
    # ``.zarray`` or ``.zgroup``, ``zarr.json``, or ``attributes.json``.
    document: dict[str, Any]
    # All that are stored, reserved ones included.
    attributes: dict[str, Any]
    # Where it is stored, if not at its path: see :mod:`chunkwise.hdmf.replacement.successor`.
    stored_at: str | None = None

    @property
    def prefix(self) -> str:
        """Prefix of its keys, relative to the store."""
        at = self.path if self.stored_at is None else self.stored_at
        return at[1:] + "/" if at != "/" else ""


@dataclass(slots=True)
class Tree:
    """All nodes of a store."""

    format: Format
    # From path to node; each group before what is in it.
    nodes: dict[str, StoredNode] = field(default_factory=dict)
    # From the path of a group to the names in it.
    children: dict[str, list[str]] = field(default_factory=dict)
    # Whether this comes from consolidated metadata.
    consolidated: bool = False
    # Copies of small values by key relative to the store; see :mod:`chunkwise.hdmf.model.copies`.
    values: dict[str, bytes | None] = field(default_factory=dict)

    def add(self, node: StoredNode) -> None:
        """Put a node in its place; a node that is there already is replaced."""
        if node.path not in self.nodes:
            parent, _, name = node.path.rpartition("/")
            if name:
                self.children.setdefault(parent or "/", []).append(name)
        self.nodes[node.path] = node
        if not node.is_array:
            self.children.setdefault(node.path, [])

    def is_dataset(self, path: str) -> bool:
        """Return True for datasets; an encoded group of N5 is one."""
        node = self.nodes[path]
        return node.is_array or (
            self.format == "n5" and ("_ENCODED" in node.attributes or "_EMPTY" in node.attributes)
        )

    def replace(self, path: str, nodes: Iterable[StoredNode]) -> None:
        """Put others in the place of a node that is there and all below it, the one at `path` first."""
        for at in [at for at in self.nodes if at.startswith(path + "/")]:
            del self.nodes[at]
            self.children.pop(at, None)
        self.children.pop(path, None)
        for node in nodes:
            self.add(node)

    def below(self, path: str) -> Iterator[StoredNode]:
        """Yield a node and all below it, parents first."""
        node = self.nodes.get(path)
        if node is None:
            return
        pending = [path]
        while pending:
            at = pending.pop(0)
            yield self.nodes[at]
            pending += [join_path(at, name) for name in self.children.get(at, ())]


def detect_format(location: Location) -> Format | None:
    """Return the convention that the store at `location` follows; None if there is no store."""
    kv, path = location.kv, location.path
    if kv.read(path + "zarr.json").value is not None:
        return "zarr3"
    for key in (".zgroup", ".zarray", ".zmetadata"):
        if kv.read(path + key).value is not None:
            return "zarr2"
    raw = kv.read(path + "attributes.json").value
    if raw is not None:
        try:
            document = load_document(raw)
        except ChunkwiseError:
            return None
        if isinstance(document, dict) and "hdmf_n5" in document:
            return "n5"
    return None


def read_tree(
    location: Location,
    format: Format,
    consolidated: bool | Literal["check"] = True,
    root: str = "/",
    *,
    pool: Pool | None = None,
) -> Tree:
    """Read the documents of all nodes."""
    tree = None
    if consolidated:
        tree = _read_consolidated(location, format, pool or Pool())
    if tree is not None and consolidated != "check":
        return tree
    walked = Tree(format)
    for node in _walk(location, format, root):
        walked.add(node)
    if root not in walked.nodes:
        raise NotFoundError(f"there is no {format} group at {location.text}")
    if tree is not None and _said(tree) == _said(walked):
        return tree
    return walked


def _said(tree: Tree) -> dict[str, Any]:
    """Return what a tree says of its nodes, without copies of other documents."""
    return {
        path: (
            node.is_array,
            node.attributes,
            {k: v for k, v in node.document.items() if k != "consolidated_metadata"},
        )
        for path, node in tree.nodes.items()
    }


def _object(value: Any, what: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise FailedPreconditionError(f"{what}: Expected object")
    return value


def _read_json(location: Location, key: str, load: Any = load_json) -> dict[str, Any] | None:
    return _load_object(location, key, location.kv.read(location.path + key).value, load)


def _load_object(location: Location, key: str, raw: Buffer | None, load: Any) -> dict[str, Any] | None:
    if raw is None:
        return None
    try:
        return _object(load(raw), key)
    except ChunkwiseError as e:
        raise prefix(e, location.kv.describe(location.path + key)) from None


# -- consolidated -------------------------------------------------------------------------------------


def _read_consolidated(location: Location, format: Format, pool: Pool) -> Tree | None:
    if format == "zarr2":
        document = _read_json(location, ".zmetadata")
        metadata = None if document is None else document.get("metadata")
        tree = _from_zmetadata(metadata) if isinstance(metadata, dict) else None
        if tree is not None:
            _add_values(tree, location)
        return tree
    if format == "zarr3":
        document = _read_json(location, "zarr.json")
        assert document is not None
        inline = document.get("consolidated_metadata")
        metadata = inline.get("metadata") if isinstance(inline, dict) else None
        if not isinstance(metadata, dict):
            return None
        tree = Tree("zarr3", consolidated=True)
        tree.add(_zarr3_node("/", document))
        for path in _by_depth(metadata):
            tree.add(_zarr3_node(canonical_path(path), _object(metadata[path], f'consolidated "{path}"')))
        _add_values(tree, location)
        return tree
    proven = read_copies(location.kv, location.path)
    document = _read_json(location, _N5, load_document)
    if document is None or proven is None or proven.keys is None:
        return None
    tree = Tree("n5", consolidated=True, values=proven.values)
    tree.add(_n5_node("/", document))
    _add_listed(tree, location, proven.keys, pool)
    return tree


def _add_values(tree: Tree, location: Location) -> None:
    proven = read_copies(location.kv, location.path)
    if proven is not None:
        tree.values = proven.values


def _add_listed(tree: Tree, location: Location, keys: Iterable[str], pool: Pool) -> None:
    """Add the nodes of N5 whose documents are among the keys of a store, level by level."""
    paths = ["/" + key[: -len(_N5) - 1] for key in keys if key.endswith("/" + _N5)]
    for _, level in groupby(sorted(paths, key=_depth_and_path), key=lambda path: path.count("/")):
        found = {path: path[1:] + "/" + _N5 for path in level if _is_group(tree, _parent(path))}
        unproven = [key for key in found.values() if key not in tree.values]
        read = read_values(location.kv, pool, [location.path + key for key in unproven])
        raws = {key: stamped.value for key, stamped in zip(unproven, read, strict=True)}
        for path, key in found.items():
            raw = raws[key] if key in raws else tree.values[key]
            document = _load_object(location, key, raw, load_document)
            if document is not None:
                tree.add(_n5_node(path, document))


def _depth_and_path(path: str) -> tuple[int, str]:
    return path.count("/"), path


def _parent(path: str) -> str:
    return path.rpartition("/")[0] or "/"


def _is_group(tree: Tree, path: str) -> bool:
    return path in tree.nodes and not tree.nodes[path].is_array


def _by_depth(paths: Iterable[str]) -> list[str]:
    return sorted(paths, key=lambda path: path.count("/"))


def _from_zmetadata(metadata: Mapping[str, Any]) -> Tree | None:
    tree = Tree("zarr2", consolidated=True)
    groups: dict[str, dict[str, Any]] = {}
    for key, value in metadata.items():
        group, _, name = key.rpartition("/")
        if name in (".zarray", ".zgroup", ".zattrs"):
            if isinstance(value, str):  # some writers store the text
                value = load_json(value.encode())
            if not isinstance(value, dict):
                raise FailedPreconditionError(f'consolidated "{key}": Expected object')
            groups.setdefault(group, {})[name] = value
    found: dict[str, dict[str, Any]] = {}
    for group, documents in groups.items():  # "a" and "/a" are the same
        found.setdefault(canonical_path(group), {}).update(documents)
    if "/" not in found:
        return None
    # The root is one level less deep than "/a", although both have one slash.
    for path in sorted(found, key=lambda path: (path != "/", path.count("/"))):
        node = _zarr2_node(path, found[path])
        if node is not None:
            tree.add(node)
    return tree


def _zarr2_node(path: str, documents: Mapping[str, dict[str, Any]]) -> StoredNode | None:
    attributes = documents.get(".zattrs") or {}
    if ".zarray" in documents:
        return StoredNode(path, True, documents[".zarray"], attributes)
    if ".zgroup" in documents:
        return StoredNode(path, False, documents[".zgroup"], attributes)
    return None


def _zarr3_node(path: str, document: dict[str, Any]) -> StoredNode:
    attributes = _object(document.get("attributes", {}), f'attributes of "{path}"')
    return StoredNode(path, document.get("node_type") == "array", document, attributes)


# -- walking ------------------------------------------------------------------------------------------


def _walk(location: Location, format: Format, path: str) -> Iterator[StoredNode]:
    at = location if path == "/" else location.child(path.strip("/"))
    node = _read_node(at, format, path)
    if node is None:
        return
    yield node
    if node.is_array:
        return
    names = [p[len(at.path) :] for p in at.kv.list_children(at.path).prefixes]
    for name in sorted(names):
        yield from _walk(location, format, join_path(path, name))


def _read_node(at: Location, format: Format, path: str) -> StoredNode | None:
    if format == "zarr3":
        document = _read_json(at, "zarr.json")
        return None if document is None else _zarr3_node(path, document)
    if format == "zarr2":
        for key in (".zgroup", ".zarray"):
            document = _read_json(at, key)
            if document is not None:
                return _zarr2_node(path, {key: document, ".zattrs": _read_json(at, ".zattrs") or {}})
        if path == "/" and (attributes := _read_json(at, ".zattrs")) is not None:
            return StoredNode(path, False, {}, attributes)
        return None
    document = _read_json(at, "attributes.json", load_document)
    if document is None:
        return None
    return _n5_node(path, document)


def _n5_node(path: str, document: dict[str, Any]) -> StoredNode:
    attributes = _object(document.get("hdmf_attributes", {}), f'hdmf_attributes of "{path}"')
    return StoredNode(path, is_dataset(document), document, attributes)
