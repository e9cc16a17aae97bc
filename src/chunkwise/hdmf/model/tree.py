"""The nodes of a store with their documents, read once: by walking, from consolidated metadata, or copies."""

# Consolidated metadata has copies of documents only, and does not exist in N5.  So there are also copies of
# the chunks of small datasets, and in N5 of all documents.  They are written when the store is closed, and
# used only if a listing of the store proves that they are current: by the ETag that the key had when it was
# copied, in this very store, or by an ETag that is the MD5 of the copy, as that of a plain upload to S3.
# Everything else is read from its own key.  Stores that don't list ETags, such as local files, are opened
# without copies.

# After this, no more documents are read, and looking up a path is a dict access.

from __future__ import annotations

import base64
import hashlib
import json
import zlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Any, Literal, NamedTuple, TypeAlias, cast, get_args

from chunkwise.core.kvstore.objects.read import e_tag_in, is_version
from chunkwise.core.kvstore.protocol import Readable
from chunkwise.core.kvstore.store_base import SameKeysStore
from chunkwise.errors import DataCorruptionError, FailedPreconditionError, NotFoundError, UnsupportedError
from chunkwise.extension import ByteRange, Children, KvStoreDriver, Stamped
from chunkwise.extension.inside import (
    UNKNOWN_GENERATION,
    EntryListable,
    KeyRange,
    load_json,
    offers,
    read_bounded,
    traits_of,
)
from chunkwise.extension.n5 import ATTRIBUTES_KEY
from chunkwise.extension.trees import (
    Entry,
    Location,
    Node,
    find_documented,
    is_references,
    map_requests,
    node_attributes,
    parse_snapshot,
    read_document,
    tree_format,
    walk,
    with_copies,
)
from chunkwise.hdmf.model.reference import canonical_path, join_path

__all__ = [
    "COPIES",
    "Format",
    "HdmfNode",
    "HdmfTree",
    "Proven",
    "attributes_member",
    "detect_format",
    "dump_copies",
    "read_copies",
    "read_names",
    "read_tree",
    "read_values",
]

# -- copies of small values ---------------------------------------------------------------------------

COPIES = ".chunkwise-copies"
"""Key of the copies."""

_LARGEST = 1 << 15  # bytes of one value
_MOST = 1 << 22  # of all
_MAX_TEXT = 1 << 26
_MOST_KEYS = 10_000  # that are listed; ten requests on most servers


class Proven(NamedTuple):
    """Copies that are the values of their keys, and all keys, or None if there are too many."""

    values: dict[str, bytes | None]
    keys: frozenset[str] | None


def read_values(kv: KvStoreDriver, keys: Sequence[str]) -> list[Stamped]:
    """Return the values of keys; several at a time are requested from a server."""

    def read(key: str) -> Stamped:
        stamped = kv.read(key)
        return stamped._replace(value=None if stamped.value is None else bytes(stamped.value))

    return map_requests(kv, read, keys)


def dump_copies(kv: KvStoreDriver, root: str, read: Iterable[tuple[str, Stamped]]) -> bytes:
    """Return the stored form of the copies of small values, up to a total size."""
    listable = offers(kv, EntryListable)
    values: dict[str, Any] = {}
    total = 0
    for key, (value, generation, _) in read:
        nbytes = 0 if value is None else len(value)
        if nbytes > _LARGEST or total + nbytes > _MOST:
            continue
        total += nbytes
        e_tag = e_tag_in(generation) if listable else None
        values[key] = None if value is None else [e_tag, base64.b64encode(value).decode()]
    text = json.dumps({"store": _digest_of_place(kv, root), "values": values}, separators=(",", ":"))
    return zlib.compress(text.encode())


def read_copies(kv: KvStoreDriver, root: str) -> Proven | None:
    """Return the copies at a root that its keys prove; None if there are none, or the store can't tell."""
    lister: object = kv
    if traits_of(kv).request_concurrency is None or not offers(lister, EntryListable):
        return None
    copies = _load_copies(kv, root)
    if copies is None:
        return None
    keys = KeyRange.of_prefix(root)
    entries = list(islice(lister.list_entries(keys.start, keys.stop), _MOST_KEYS))
    is_whole = len(entries) < _MOST_KEYS
    e_tags = {entry.key[len(root) :]: entry.e_tag for entry in entries}
    values: dict[str, bytes | None] = {}
    for key, copy in copies.items():
        if copy is None:
            if is_whole and key not in e_tags:
                values[key] = None
        elif is_version(e_tags.get(key), copy[0]) or is_version(e_tags.get(key), _md5(copy[1])):
            values[key] = copy[1]
    return Proven(values, frozenset(e_tags) if is_whole else None)


def _load_copies(kv: KvStoreDriver, root: str) -> dict[str, tuple[str | None, bytes] | None] | None:
    """Return the copies at a root, each with the ETag that its key had; None if there are none."""
    raw = read_bounded(kv, root + COPIES).value
    if raw is None:
        return None
    try:
        found = json.loads(zlib.decompressobj().decompress(raw, _MAX_TEXT))
        here = found["store"] == _digest_of_place(kv, root)
        return {
            key: None if copy is None else (copy[0] if here else None, base64.b64decode(copy[1]))
            for key, copy in found["values"].items()
        }
    except (zlib.error, ValueError, LookupError, TypeError, AttributeError) as e:
        raise DataCorruptionError(f"{kv.describe(root + COPIES)}: {e!r:.100}") from None


def read_names(kv: KvStoreDriver, root: str) -> Proven | None:
    """Return the keys that have copies at the root of a store that can't list its own; no copy is proven."""
    copies = _load_copies(kv, root)
    return None if copies is None else Proven({}, frozenset(copies))


_DOCUMENT = "/" + ATTRIBUTES_KEY


class _CopiesStore(SameKeysStore):
    """A store with proven copies of small values; its documents of N5 are listed without asking it."""

    def __init__(self, location: Location, proven: Proven) -> None:
        super().__init__(location.store)
        self._values = {location.path + key: value for key, value in proven.values.items()}
        self._children: dict[str, list[str]] = {}
        for key in proven.keys or ():
            if key.endswith(_DOCUMENT):
                path = location.path + key[: -len(_DOCUMENT)]
                self._children.setdefault(path[: path.rfind("/") + 1], []).append(path)

    def read(
        self, key: str, *, byte_range: ByteRange | None = None, if_not_equal: bytes | None = None
    ) -> Stamped:
        """Return a copy, or read the value."""
        if key in self._values and byte_range is None:
            return Stamped(self._values[key], UNKNOWN_GENERATION, 0.0)
        return self.base.read(key, byte_range=byte_range, if_not_equal=if_not_equal)

    def list_children(self, prefix: str) -> Children:
        """Return the level of the known documents."""
        return Children([], self._children.get(prefix, []))


def _md5(value: bytes) -> str:
    return hashlib.md5(value, usedforsecurity=False).hexdigest()


def _digest_of_place(kv: KvStoreDriver, root: str) -> str:
    """Return the digest of the names of a store and a root: ETags mean nothing in others."""
    return hashlib.blake2b(repr((kv.identity, root)).encode(), digest_size=16).hexdigest()


# -- nodes --------------------------------------------------------------------------------------------

Format: TypeAlias = Literal["zarr2", "zarr3", "n5"]


@dataclass(slots=True)
class HdmfNode:
    """A group or array."""

    # Canonical: ``"/"``, ``"/a/b"``.
    path: str
    is_array: bool
    # ``.zarray`` or ``.zgroup``, ``zarr.json``, or ``attributes.json``.
    document: dict[str, Any]
    # All that are stored, reserved ones included.
    attributes: dict[str, Any]
    # Where it is stored, if not at its path: see `chunkwise.hdmf.replacement`.
    stored_at: str | None = None

    @property
    def prefix(self) -> str:
        """Prefix of its keys, relative to the store."""
        at = self.path if self.stored_at is None else self.stored_at
        return at[1:] + "/" if at != "/" else ""


@dataclass(slots=True)
class HdmfTree:
    """All nodes of a store."""

    format: Format
    # From path to node; each group before its members.
    nodes: dict[str, HdmfNode] = field(default_factory=dict)
    # From the path of a group to the names in it.
    children: dict[str, list[str]] = field(default_factory=dict)
    # Whether this comes from consolidated metadata.
    consolidated: bool = False
    # The store, whose small values are known from proven copies.
    copies: Readable | None = None

    @property
    def has_encoded(self) -> bool:
        """True if text and records are groups that encode them, as the format has no arrays of them."""
        return not tree_format(self.format).has_fixed_text

    def add(self, node: HdmfNode) -> None:
        """Put a node in its place, replacing an existing one."""
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
            self.has_encoded and ("_ENCODED" in node.attributes or "_EMPTY" in node.attributes)
        )

    def replace(self, path: str, nodes: Iterable[HdmfNode]) -> None:
        """Replace a node and all below it by others, the one at `path` first."""
        for at in [at for at in self.nodes if at.startswith(path + "/")]:
            del self.nodes[at]
            self.children.pop(at, None)
        self.children.pop(path, None)
        for node in nodes:
            self.add(node)

    def below(self, path: str) -> Iterator[HdmfNode]:
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
    node = find_documented(location)
    if (
        node is None
        or node.format not in get_args(Format)
        or (node.rules.has_containers and "hdmf_n5" not in node.document)
    ):
        copies = read_bounded(location.store, location.path + ".zmetadata").value
        return None if copies is None or is_references(bytes(copies)) else "zarr2"
    return cast(Format, node.format)


def read_tree(
    location: Location,
    format: Format,
    consolidated: bool | Literal["check"] = True,
    root: str = "/",
) -> HdmfTree:
    """Read the documents of all nodes."""
    tree = _read_consolidated(location, format) if consolidated else None
    if tree is not None and consolidated != "check":
        return tree
    try:
        walked = _walked(location, format, root)
        return tree if tree is not None and _said(tree) == _said(walked) else walked
    except UnsupportedError as e:
        if tree_format(format).consolidated_key or root != "/":
            raise
        # Plain web servers don't list; the keys that had copies when the store was closed are its documents.
        found = _read_listed(location, read_names(location.store, location.path))
        if found is None:
            raise UnsupportedError(
                f"{location.text}: an N5 store on a server that lists no keys is opened by the names in "
                f"{COPIES}, which is not there: open and close the store with chunkwise.hdmf in mode r+ "
                f"where it can be listed, put it into a ZIP archive, or convert it to Zarr ({e.message})"
            ) from None
        return found


def _walked(location: Location, format: Format, root: str = "/") -> HdmfTree:
    """Return the nodes that are found by listing."""
    walked, member = HdmfTree(format), attributes_member(format)
    top = find_documented(location if root == "/" else location.child(root[1:]), format)
    for name, node in () if top is None else walk(top, implicit=False):
        if node.format == format:
            node.check()
            attributes = None if member else node_attributes(node)
            walked.add(_stored_node(join_path(root, name) if name else root, node, member, attributes))
    if root not in walked.nodes:
        if root != "/" or (own := _root_attributes(location, format)) is None:
            raise NotFoundError(f"there is no {format} group at {location.text}")
        walked.add(HdmfNode(root, False, {}, own))
    return walked


def attributes_member(format: Format) -> str:
    """Return the member of a document that attributes are in; empty if they have a document of their own."""
    rules = tree_format(format)
    return "" if rules.attributes_key else rules.attributes_member or "hdmf_attributes"


def _root_attributes(location: Location, format: Format) -> dict[str, Any] | None:
    """Return the attributes of the root of a Zarr v2 store that has no ``.zgroup``."""
    key = tree_format(format).attributes_key
    attributes = read_document(location.store, location.path + key) if key else None
    return attributes if isinstance(attributes, dict) else None


def _said(tree: HdmfTree) -> dict[str, Any]:
    """Return the documents of a tree's nodes, without copies of other documents."""
    return {
        path: (
            node.is_array,
            node.attributes,
            {k: v for k, v in node.document.items() if k != "consolidated_metadata"},
        )
        for path, node in tree.nodes.items()
    }


def _stored_node(path: str, found: Node | Entry, member: str, attributes: Any = None) -> HdmfNode:
    """Return a node as one of a store; its attributes are in a member of its document, if not given."""
    document = dict(found.document)
    attributes = document.get(member, {}) if attributes is None else attributes
    if not isinstance(attributes, dict):
        raise FailedPreconditionError(f'attributes of "{path}": Expected object')
    return HdmfNode(path, found.kind == "array", document, attributes)


# -- consolidated -------------------------------------------------------------------------------------


def _read_consolidated(location: Location, format: Format) -> HdmfTree | None:
    if not tree_format(format).consolidated_key:
        return _read_listed(location, read_copies(location.store, location.path))
    tree = _read_snapshot(location, format)
    if tree is not None and (proven := read_copies(location.store, location.path)) is not None:
        tree.copies = _CopiesStore(location, proven)
    return tree


def _read_listed(location: Location, proven: Proven | None) -> HdmfTree | None:
    """Return the nodes of N5 whose documents are among the keys of a store, which are not listed again."""
    if proven is None or proven.keys is None:
        return None
    copies = _CopiesStore(location, proven)
    tree = _walked(location._replace(store=cast(KvStoreDriver, copies)), "n5")
    tree.consolidated, tree.copies = True, copies
    return tree


def _read_snapshot(location: Location, format: Format) -> HdmfTree | None:
    key = tree_format(format).consolidated_key
    document = read_document(location.store, location.path + key)
    snapshot = parse_snapshot(key, with_copies(document, format, _canonical_copies), 0.0)
    if snapshot is None:
        return None
    tree, member = HdmfTree(format, consolidated=True), attributes_member(format)
    for path, entry in snapshot.entries():
        tree.add(_stored_node("/" + path, entry, member, entry.attributes))
    return tree


def _canonical_copies(copies: dict[str, Any]) -> dict[str, Any]:
    """Return copies as objects under canonical paths, which some writers don't have."""
    canonical: dict[str, Any] = {}
    for path, copy in copies.items():
        if isinstance(copy, str):  # some writers store the text
            copy = load_json(copy.encode())
        if not isinstance(copy, dict):
            raise FailedPreconditionError(f'consolidated "{path}": Expected object')
        canonical[canonical_path(path)[1:]] = copy
    return canonical
