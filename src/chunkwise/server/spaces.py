"""The key spaces of what is served: one tree of keys for each format."""

from __future__ import annotations

from collections.abc import Sequence
from types import ModuleType

from chunkwise.errors import UnsupportedError
from chunkwise.multiscale.image import MultiscaleImage
from chunkwise.server import n5, zarr3
from chunkwise.server.consolidated import FindContent, group_with_copies
from chunkwise.server.content import Content
from chunkwise.server.encoded import for_browsers
from chunkwise.server.image import image_at, multiscale_at
from chunkwise.server.precomputed import KEY as INFO
from chunkwise.server.precomputed import PrecomputedVolume
from chunkwise.server.sources import Sources
from chunkwise.server.trees import Served, ServedArray, ServedGroup

__all__ = ["SPACES", "find_content", "is_passed", "keys_of"]


def find_content(sources: Sources, space: str, names: Sequence[str]) -> Content | None:
    """Return what is at a path of a key space, None if there is nothing; a node itself has no content.

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
    return SPACES[space](sources, tuple(names[: len(names) - key.count("/") - 1]), node, key)


def keys_of(space: str, node: Served) -> tuple[str, ...]:
    """Return the names of the documents of a node in a key space."""
    if space == "precomputed":
        return (
            (INFO,)
            if isinstance(node, ServedArray) or isinstance(multiscale_at(node), MultiscaleImage)
            else ()
        )
    return (n5.KEY if space == "n5" else zarr3.KEY,)


def is_passed(space: str, array: ServedArray) -> bool:
    """Return True if the stored chunks of an array are sent as they are, so that they can be listed."""
    if space == "precomputed":
        return False
    if space == "n5":
        return n5.is_passed(array)
    same = space == "zarr3" or for_browsers(array.view) is array.view
    return same and zarr3.passed_document(array) is not None


def _by_format(module: ModuleType) -> FindContent:
    def content(sources: Sources, path: tuple[str, ...], node: Served, key: str) -> Content | None:
        if isinstance(node, ServedArray):
            return module.array_content(node, key)  # type: ignore[no-any-return]
        return module.group_content(node, key)  # type: ignore[no-any-return]

    return content


def _viewer(sources: Sources, path: tuple[str, ...], node: Served, key: str) -> Content | None:
    """Return what Zarr v3 has under the key, in data types that neuroglancer has."""
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
        image = image_at(sources, path, node)
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


SPACES: dict[str, FindContent] = {
    "zarr3": _with_copies(_by_format(zarr3)),
    "n5": _by_format(n5),
    "precomputed": _precomputed,
    "viewer": _with_copies(_viewer),
}
"""Key spaces by the first name of a path; ``viewer`` is Zarr v3 in types that neuroglancer has."""
