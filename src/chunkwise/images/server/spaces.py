"""The key spaces of served data: one tree of keys for each format."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from types import ModuleType
from typing import NamedTuple

from chunkwise.errors import UnsupportedError
from chunkwise.images.multiscale.image import MultiscaleImage
from chunkwise.images.server import n5, zarr3
from chunkwise.images.server.answer import Content
from chunkwise.images.server.consolidated import FindContent, group_with_copies
from chunkwise.images.server.encoded import for_browsers
from chunkwise.images.server.image import image_at, multiscale_at
from chunkwise.images.server.precomputed import KEY as INFO
from chunkwise.images.server.precomputed import PrecomputedVolume
from chunkwise.images.server.sources import Sources
from chunkwise.images.server.trees import Served, ServedArray, ServedGroup

__all__ = ["SPACES", "Space", "find_content"]


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
