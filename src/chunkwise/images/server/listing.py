"""Directories of served data: JSON for programs, and an index of links, which fsspec and browsers list."""

from __future__ import annotations

from collections.abc import Iterable
from html import escape
from typing import NamedTuple
from urllib.parse import quote

from chunkwise.errors import UnsupportedError
from chunkwise.extension import JSON
from chunkwise.extension.inside import dump_bytes
from chunkwise.images.server.answer import Document, StoredValue
from chunkwise.images.server.sources import Sources
from chunkwise.images.server.spaces import SPACES
from chunkwise.images.server.trees import Member, ServedGroup

__all__ = ["Directory", "find_directory", "index_page", "json_listing"]

_LINK = '<li><a href="{url}">{name}</a></li>\n'
_PAGE = "<!doctype html>\n<title>{title}</title>\n<h1>{title}</h1>\n<ul>\n{links}</ul>\n"


class Directory(NamedTuple):
    """Content below a path of a key space: nodes, documents and stored chunks."""

    members: tuple[Member, ...]
    keys: tuple[str, ...]
    below: tuple[str, ...] = ()  # directories of chunks


def find_directory(sources: Sources, space: str, names: list[str]) -> Directory | None:
    """Return the directory at a path, None if there is none.

    Raises
    ------
    UnsupportedError
        If it has chunks that are made when they are asked for.
    """
    if not names:
        return Directory(tuple(sources.top()), ())
    found = sources.split(names)
    if found is None:
        return None
    node, key = found
    if isinstance(node, ServedGroup):
        return None if key else Directory(tuple(sources.members(names, node)), SPACES[space].keys(node))
    prefix = f"{key}/" if key else ""
    if not SPACES[space].is_passed(node):
        if key:
            return None
        raise UnsupportedError(
            f"the chunks of {'/'.join(names)!r} are made when they are asked for, and can't be listed"
        )
    assert node.node is not None
    location = node.node.location
    keys, below = location.store.list_children(location.path + prefix)
    path = tuple(names[: len(names) - len(key.split("/"))]) if key else tuple(names)
    held = [one.removeprefix(location.path) for one in keys]
    shown = [one for one in held if isinstance(SPACES[space].content(sources, path, node, one), StoredValue)]
    documents = () if key else SPACES[space].keys(node)
    directories = tuple(one.removeprefix(location.path + prefix) for one in below)
    if key and not shown and not directories:
        return None
    return Directory((), (*documents, *(one.removeprefix(prefix) for one in shown)), directories)


def json_listing(url: str, directory: Directory) -> Document:
    """Return a directory as JSON."""
    rows: list[dict[str, JSON]] = []
    for member in directory.members:
        row: dict[str, JSON] = {
            "name": member.name,
            "kind": member.kind,
            "url": f"{url}/{quote(member.name)}",
        }
        if member.shape is not None:
            row |= {"shape": list(member.shape), "dtype": member.dtype}
        rows.append(row | ({"error": member.error} if member.error else {}))
    for kind, names in (("directory", directory.below), ("key", directory.keys)):
        rows += [{"name": name, "kind": kind, "url": f"{url}/{quote(name)}"} for name in names]
    return Document(dump_bytes({"url": url, "members": rows}))


def index_page(url: str, directory: Directory) -> Document:
    """Return a directory as links; those that end in a slash are directories."""

    def links(names: Iterable[str], slash: str) -> str:
        return "".join(
            _LINK.format(url=escape(f"{url}/{quote(name)}{slash}"), name=escape(name + slash))
            for name in names
        )

    body = links([*(member.name for member in directory.members), *directory.below], "/")
    page = _PAGE.format(title=escape(url), links=body + links(directory.keys, ""))
    return Document(page.encode(), "text/html; charset=utf-8")
