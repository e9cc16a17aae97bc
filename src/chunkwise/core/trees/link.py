"""Links: names in a group that stand for a node somewhere else.

None of the formats has links.  HDMF stores them in an attribute of their group, and so does chunkwise in
every format: a list of objects with ``name``, ``path`` of the target in its tree, and ``source``, the tree of
the target.

======  ===========================================
zarr2   attribute ``zarr_link``
zarr3   attribute ``_LINKS``, as hdmf-zarr 0.14
n5      attribute ``_LINKS``; a convention of ours
======  ===========================================

Both attributes are read in all formats.  ``source`` is ``"."`` for the same tree (a *soft* link); otherwise
it is a path relative to the root of the link's tree, an absolute path or a URL (an *external* link).

Specification: hdmf-zarr, "Storing links and references"; the layout of hdmf-zarr 0.14.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from chunkwise.core.base.binding import JSON, dump
from chunkwise.core.driver.tree_formats import tree_format
from chunkwise.core.kvstore.key_range import encode_key
from chunkwise.core.trees.attributes import change_attributes, node_attributes
from chunkwise.core.trees.node import Node, is_name
from chunkwise.errors import InvalidArgumentError

__all__ = [
    "LINK_ATTRIBUTES",
    "Link",
    "add_link",
    "links_of",
    "no_links",
    "parse_links",
    "remove_link",
    "target_names",
    "with_link",
    "without_links",
]


LINK_ATTRIBUTES = ("zarr_link", "_LINKS")
"""Attributes of groups with links."""


class Link(NamedTuple):
    """The target of a link: a group or array under another name.

    Attributes
    ----------
    path : str
        Path of the target; with a leading "/" from the root of its tree, otherwise from the group with the
        link.
    source : str
        The tree of the target: ``"."`` for the same, or the path or URL of another tree's root.

    Examples
    --------
    >>> import tempfile
    >>> import numpy as np
    >>> import chunkwise
    >>> group = chunkwise.create_group(tempfile.mkdtemp() + "/a.zarr")
    >>> _ = group.create_array("raw", np.arange(6))
    >>> group.create_link("latest", "raw")
    >>> group.get_link("latest")
    Link(path='/raw', source='.')
    >>> group["latest"].shape
    (6,)
    """

    path: str
    source: str = "."

    @property
    def external(self) -> bool:
        """True if the target is in another tree."""
        return self.source not in (".", "")

    def __str__(self) -> str:
        return f"{self.source}?{self.path}" if self.external else self.path


def parse_links(attributes: Mapping[str, JSON]) -> dict[str, Link]:
    """Return the links in the attributes of a group; malformed entries are left out."""
    out: dict[str, Link] = {}
    for attribute in LINK_ATTRIBUTES:
        entries = attributes.get(attribute)
        for entry in entries if isinstance(entries, list) else []:
            if _is_link(entry):
                out.setdefault(entry["name"], Link(entry["path"], entry.get("source", ".")))
    return out


def _is_link(entry: JSON) -> bool:
    if not isinstance(entry, dict):
        return False
    name, path, source = entry.get("name"), entry.get("path"), entry.get("source", ".")
    return isinstance(name, str) and is_name(name) and isinstance(path, str) and isinstance(source, str)


def no_links(attributes: Mapping[str, JSON]) -> list[str]:
    """Return the names of attributes for links that have anything else."""
    found = [name for name in LINK_ATTRIBUTES if name in attributes]
    return [n for n in found if not (isinstance(attributes[n], list) and all(map(_is_link, attributes[n])))]


def links_of(node: Node, attributes: Mapping[str, JSON] | None = None) -> dict[str, Link]:
    """Return the links in a group; its attributes are read if not given."""
    if node.kind == "array" or not node.key:
        return {}
    return parse_links(node_attributes(node) if attributes is None else attributes)


def without_links(attributes: Mapping[str, JSON]) -> dict[str, JSON]:
    """Return the attributes of a group without those for links."""
    return {name: value for name, value in attributes.items() if name not in LINK_ATTRIBUTES}


def with_link(attributes: Mapping[str, JSON], name: str, link: Link, format: str | None) -> dict[str, JSON]:
    """Return the attributes of a group in a format with one more link."""
    own = tree_format(format).link_attribute
    entry = {"name": name, "path": link.path, "source": link.source}
    return {**attributes, own: [*attributes.get(own, []), entry]}


def add_link(node: Node, name: str, link: Link) -> None:
    """Add a link to a group, replacing one with the same name; other changes are not lost."""
    for text in link:
        encode_key(text)  # a target that UTF-8 can't encode can't exist

    def add(attributes: dict[str, JSON]) -> dict[str, JSON]:
        attributes = _without(attributes, name)
        own = node.rules.link_attribute
        if not isinstance(attributes.get(own, []), list):
            raise InvalidArgumentError(f"{node.location.text}: attribute {dump(own)} is not a list of links")
        return with_link(attributes, name, link, node.format)

    change_attributes(node, add)


def remove_link(node: Node, name: str) -> None:
    """Remove a link from a group."""
    change_attributes(node, lambda attributes: _without(attributes, name))


def _without(attributes: dict[str, JSON], name: str) -> dict[str, JSON]:
    out = dict(attributes)
    for attribute in LINK_ATTRIBUTES:
        entries = out.get(attribute)
        if not isinstance(entries, list):
            continue
        kept = [entry for entry in entries if not (isinstance(entry, dict) and entry.get("name") == name)]
        if kept or not entries:
            out[attribute] = kept
        else:
            del out[attribute]
    return out


def target_names(link: Link, group: tuple[str, ...]) -> list[str]:
    """Return the names from the root of the tree to the target of a link in `group`."""
    out = [] if link.path.startswith("/") or link.external else list(group)
    for name in link.path.split("/"):
        if name in ("", "."):
            continue
        if name == "..":
            if not out:
                raise InvalidArgumentError(
                    f"the target {dump(link.path)} of a link is above the root of the tree"
                )
            out.pop()
        elif is_name(name):
            out.append(name)
        else:
            raise InvalidArgumentError(f"the target {dump(link.path)} of a link can't be the path of a node")
    return out
