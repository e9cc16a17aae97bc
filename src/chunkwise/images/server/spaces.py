"""The key spaces of served data, one tree of keys for each format: contents, copies, directories."""

from __future__ import annotations

import json
import time
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from html import escape
from types import ModuleType
from typing import NamedTuple, TypeAlias
from urllib.parse import quote

from chunkwise.errors import ChunkwiseError, UnsupportedError
from chunkwise.extension import JSON
from chunkwise.extension.inside import dump_bytes
from chunkwise.extension.trees import EMPTY_CONSOLIDATED, is_consolidated
from chunkwise.images.multiscale.image import MultiscaleImage
from chunkwise.images.server import n5, zarr3
from chunkwise.images.server.answer import Content, Document, StoredValue
from chunkwise.images.server.encoded import for_browsers
from chunkwise.images.server.image import image_at, multiscale_at
from chunkwise.images.server.neuroglancer import KEY as INFO
from chunkwise.images.server.neuroglancer import PrecomputedVolume
from chunkwise.images.server.sources import Sources
from chunkwise.images.server.trees import KNOWN_FOR, Member, Served, ServedArray, ServedGroup
from chunkwise.images.server.zarr3 import DATA_TYPES, KEY

__all__ = [
    "SPACES",
    "Directory",
    "FindContent",
    "Space",
    "find_content",
    "find_directory",
    "group_with_copies",
    "index_page",
    "json_listing",
]


# -- copies of documents ------------------------------------------------------------------------------

# Consolidated metadata of served groups of Zarr v3: a small tree is opened with one request.
#
# It is made from the served documents when the group's is requested, and kept as long as nodes are
# (`chunkwise.core.trees.consolidated`).  A tree has none if it would be large, or if a member can't be listed
# or served or has an unusual data type: clients then look at each node.  A group that is stored with
# consolidated metadata, such as an NWB file, may depend on it where keys can't be listed, so it always has
# it.

FindContent: TypeAlias = Callable[[Sources, tuple[str, ...], Served, str], Content | None]
"""Returns the content of a key of the node at a path."""


class _Limits(NamedTuple):
    """Limits on the size of copies and the time to make them; whether all clients must know all types."""

    nodes: int
    nbytes: int
    seconds: float
    known_types: bool


_LIMITS = _Limits(200, 1 << 20, 1.0, True)
_STORED_LIMITS = _Limits(100_000, 1 << 26, 30.0, False)
_KNOWN_TYPES = (*DATA_TYPES, "string")
_IDLE_SHARE = 20
"""Copies are kept at least this many times as long as it took to make them."""

_LARGE_FOR = 300.0
"""Seconds after which a large tree is looked at again."""


def group_with_copies(
    sources: Sources, path: tuple[str, ...], group: ServedGroup, find: FindContent
) -> Document:
    """Return the document of a group, with copies of those below it that `find` gives, if they are few."""
    until, kept = group.made.get(("copies", find), (float("-inf"), None))
    now = time.monotonic()
    if now > until:
        kept = _copies(sources, path, group, find)
        took = time.monotonic() - now
        until = now + (_LARGE_FOR if kept is None else max(KNOWN_FOR, _IDLE_SHARE * took))
        group.made["copies", find] = until, kept
    document = _document(find(sources, path, group, KEY))
    if kept is not None:
        document["consolidated_metadata"] = {**EMPTY_CONSOLIDATED, "metadata": kept}
    return Document(dump_bytes(document))


def _copies(
    sources: Sources, path: tuple[str, ...], group: ServedGroup, find: FindContent
) -> dict[str, JSON] | None:
    """Return the documents of all nodes below a group by path; None if they are many, or one can't be had."""
    limits = _LIMITS
    if group.node is not None and is_consolidated(group.node):
        limits = _STORED_LIMITS
    stop = time.monotonic() + limits.seconds
    copies: dict[str, JSON] = {}
    nbytes = 0
    waiting = deque([(path, group)])
    try:
        while waiting:
            above, found = waiting.popleft()
            for member in sources.members(above, found):
                names = (*above, member.name)
                node = sources.find(names)
                content = None if node is None else find(sources, names, node, KEY)
                if not isinstance(content, Document):
                    return None
                nbytes += len(content.body)
                if nbytes > limits.nbytes or len(copies) == limits.nodes or time.monotonic() > stop:
                    return None
                copies["/".join(names[len(path) :])] = document = _document(content)
                if isinstance(node, ServedGroup):
                    document["consolidated_metadata"] = EMPTY_CONSOLIDATED
                    waiting.append((names, node))
                elif limits.known_types and document["data_type"] not in _KNOWN_TYPES:
                    return None  # a client that doesn't know one would open none of the others either
    except ChunkwiseError:  # which a client that looks at the node is told
        return None
    return copies


def _document(content: Content | None) -> dict[str, JSON]:
    assert isinstance(content, Document), "a group has a document"
    document: dict[str, JSON] = json.loads(content.body)
    return document


# -- key spaces ---------------------------------------------------------------------------------------


def find_content(sources: Sources, space: str, names: Sequence[str]) -> Content | None:
    """Return the content at a path of a key space, None if there is none; a node itself has no content.

    Raises
    ------
    UnsupportedError
        If the array can't be had in that format.
    """
    found = sources.split(names)
    if found is None:
        return None
    node, key = found
    if not key:
        return None
    return SPACES[space].content(sources, tuple(names[: len(names) - key.count("/") - 1]), node, key)


def _keys_of_volume(node: Served) -> tuple[str, ...]:
    """Return ``info`` if a node is a volume."""
    is_volume = isinstance(node, ServedArray) or isinstance(multiscale_at(node), MultiscaleImage)
    return (INFO,) if is_volume else ()


def _is_passed_to_viewers(array: ServedArray) -> bool:
    return for_browsers(array.view) is array.view and zarr3.is_passed(array)


def _by_format(module: ModuleType) -> FindContent:
    def content(sources: Sources, path: tuple[str, ...], node: Served, key: str) -> Content | None:
        if isinstance(node, ServedArray):
            return module.array_content(node, key)  # type: ignore[no-any-return]
        return module.group_content(node, key)  # type: ignore[no-any-return]

    return content


def _viewer(sources: Sources, path: tuple[str, ...], node: Served, key: str) -> Content | None:
    """Return the content of a key in Zarr v3, in data types that neuroglancer has."""
    if isinstance(node, ServedGroup):
        return zarr3.group_content(node, key)
    view = for_browsers(node.view)
    if view is node.view:
        return zarr3.array_content(node, key)
    converted = node.made.get("viewer")
    if converted is None:
        converted = node.made["viewer"] = ServedArray(view, node.name, attributes=node.attributes)
    return zarr3.array_content(converted, key)


def _precomputed(sources: Sources, path: tuple[str, ...], node: Served, key: str) -> Content | None:
    if isinstance(node, ServedGroup) and key != INFO and key[0] != ".":
        return None
    volume = node.made.get("precomputed")
    if volume is None:
        image = image_at(path, node)
        if image is None:
            raise UnsupportedError(f'"{"/".join(path)}" is a group that is no image')
        volume = node.made["precomputed"] = PrecomputedVolume(image)
    content: Content | None = volume.content(key)
    return content


def _with_copies(one: FindContent) -> FindContent:
    """Return Zarr v3 whose groups have the documents of all that is below them, if that is not much."""

    def content(sources: Sources, path: tuple[str, ...], node: Served, key: str) -> Content | None:
        if isinstance(node, ServedGroup) and key == zarr3.KEY:
            return group_with_copies(sources, path, node, one)
        return one(sources, path, node, key)

    return content


class Space(NamedTuple):
    """A key space: its content, documents of a node, whether stored chunks are sent as they are."""

    content: FindContent
    keys: Callable[[Served], tuple[str, ...]]
    is_passed: Callable[[ServedArray], bool]


SPACES: dict[str, Space] = {
    "zarr3": Space(_with_copies(_by_format(zarr3)), lambda _: (zarr3.KEY,), zarr3.is_passed),
    "n5": Space(_by_format(n5), lambda _: (n5.KEY,), n5.is_passed),
    "precomputed": Space(_precomputed, _keys_of_volume, lambda _: False),
    "viewer": Space(_with_copies(_viewer), lambda _: (zarr3.KEY,), _is_passed_to_viewers),
}
"""Key spaces by the first name of a path; ``viewer`` is Zarr v3 in types that neuroglancer has."""


# -- directories --------------------------------------------------------------------------------------

# Directories of served data: JSON for programs, and an index of links, which fsspec and browsers list.

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
