"""Creation of groups, and of the groups above them.

Documents are written from the root down, each on condition that it is missing, so of two processes that
make the same group one finds that of the other.  A directory without a document becomes a Zarr group when
something is made below it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

from chunkwise.binding import JSON, dump
from chunkwise.driver.n5.document import is_dataset
from chunkwise.errors import AlreadyExistsError, InvalidArgumentError
from chunkwise.hierarchy.attribute_value import to_json_value
from chunkwise.hierarchy.consolidated import update_consolidated
from chunkwise.hierarchy.document import change_document
from chunkwise.hierarchy.location import Location
from chunkwise.hierarchy.node import FormatName, Node
from chunkwise.hierarchy.node_name import check_new_names
from chunkwise.hierarchy.resolve import group_links
from chunkwise.hierarchy.tree import Tree
from chunkwise.kvstore.protocol import MISSING_GENERATION, KvStoreDriver

__all__ = ["check_no_link", "make_group", "make_groups", "write_group"]


def make_groups(tree: Tree, names: Sequence[str], known: int = 0) -> None:
    """Make the groups along `names` that are missing; the first `known` are known to be there."""
    check_new_names(list(names[known:]), tree.format)
    for end in range(known + 1, len(names) + 1):
        node = tree.find(names[:end])
        if node is not None and node.kind == "array":
            raise AlreadyExistsError(f"{node.location.text} is an array; nothing can be below it")
        if node is None:
            check_no_link(tree, names[:end])
        if node is None or (node.implicit and tree.format != "n5"):
            write_group(tree.location(names[:end]), tree.format, {})


def make_group(
    tree: Tree,
    names: Sequence[str],
    attributes: Mapping[str, JSON],
    *,
    known: int = 0,
    exist_ok: bool = False,
) -> Node:
    """Make a group and those above it; return it."""
    values = {
        name: to_json_value(value, f"attribute {dump(name)}", tree.non_finite)
        for name, value in attributes.items()
    }
    check_new_names(list(names[known:]), tree.format)
    make_groups(tree, names[:-1], min(known, max(len(names) - 1, 0)))
    node = tree.find(names)
    if node is not None and node.kind == "array":
        raise AlreadyExistsError(f"{node.location.text} is an array already ({node.format})")
    if node is not None and not names and node.format != tree.format:
        node = None  # metadata of two formats may be in the same place
    if node is not None and not node.implicit and not exist_ok:
        raise AlreadyExistsError(f"{node.location.text} is a group already ({node.format})")
    if node is None:
        check_no_link(tree, names)
    if node is None or node.implicit:
        written = write_group(tree.location(names), tree.format, values)
        node = tree.find(names)
        if node is None or not (written or exist_ok):
            raise AlreadyExistsError(
                f"{tree.location(names).text} was made, or deleted, by somebody else meanwhile"
            )
    return node


def check_no_link(tree: Tree, names: Sequence[str]) -> None:
    """Raise AlreadyExistsError if a group has a link with the name of the node that is to be made in it."""
    if not names:
        return
    parent = tree.find(names[:-1])
    if parent is None:
        return
    link = group_links(tree, names[:-1], parent).get(names[-1])
    if link is not None:
        raise AlreadyExistsError(
            f"{tree.location(names).text} is a link to {link}; make it there, or delete the link first"
        )


def write_group(
    location: Location, format: FormatName, attributes: Mapping[str, JSON], *, follow: bool = True
) -> bool:
    """Write the documents of a group unless it has them; return True if this call made the group."""
    # Consolidated metadata above `follow`.
    kv, path = location.store, location.path
    if format == "n5":
        if "n5" in attributes:
            raise InvalidArgumentError('"n5" says the version of the container; it is no attribute')
        if is_dataset({**attributes}):
            raise InvalidArgumentError("these attributes would make a dataset of an N5 group")
        return _write_new(kv, path + "attributes.json", dict(attributes))
    if format == "zarr2":
        made = _write_new(kv, path + ".zgroup", {"zarr_format": 2})
        if made and attributes and not _write_new(kv, path + ".zattrs", dict(attributes)):
            change_document(kv, path + ".zattrs", lambda before: {**(before or {}), **attributes})
    else:
        document = {"zarr_format": 3, "node_type": "group", "attributes": dict(attributes)}
        made = _write_new(kv, path + "zarr.json", document)
    if follow:
        update_consolidated(kv, path)
    return made


def _write_new(kv: KvStoreDriver, key: str, document: JSON) -> bool:
    return kv.write(key, _encode(document), if_equal=MISSING_GENERATION) is not None


def _encode(document: JSON) -> bytes:
    try:
        return json.dumps(document, separators=(",", ":"), ensure_ascii=False).encode()
    except UnicodeEncodeError:
        return json.dumps(document, separators=(",", ":")).encode()
