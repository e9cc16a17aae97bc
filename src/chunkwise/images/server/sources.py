"""Served trees by name, one for each given path, array, group or image.

A path is a name of a source and the path in it, such as ``volume.zarr/raw/s0``.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from chunkwise import TensorStore
from chunkwise.copying.resolve import ResolvedPlace, resolve
from chunkwise.errors import ChunkwiseError, InvalidArgumentError, UnlistedError
from chunkwise.extension.inside import is_kvstore_object, is_url, shown_text
from chunkwise.extension.trees import children, locate, nothing_at, require_node
from chunkwise.groups.group import Group
from chunkwise.images.conventions.ome_plates import Plate, Well
from chunkwise.images.multiscale.image import MultiscaleImage
from chunkwise.images.multiscale.open import open_multiscale
from chunkwise.images.server.image import arranged, multiscale_at
from chunkwise.images.server.trees import (
    FIELDS,
    ConfinedStore,
    FixedTree,
    LocationTree,
    Member,
    Served,
    ServedArray,
    ServedGroup,
    Source,
    at_zero,
    member_of,
)

__all__ = ["Sources", "find_nodes", "sources_of"]

_MOST_LOOKED_AT = 64


class Sources(dict[str, Source]):
    """Sources by name."""

    def find(self, names: Sequence[str]) -> Served | None:
        """Return the node at a path, whose first name is that of a source."""
        source = self.get(names[0]) if names else None
        return None if source is None else source.find(tuple(names[1:]))

    def split(self, names: Sequence[str]) -> tuple[Served, str] | None:
        """Divide a path into a node and a key in it; None if not even the first name is a source's."""
        source = self.get(names[0]) if names else None
        found = None if source is None else source.find(())
        if source is None or found is None:
            return None
        n = 1
        while n < len(names):
            if isinstance(found, ServedArray) and names[n] != FIELDS:
                break  # the names of chunks are no nodes
            below = source.find(tuple(names[1 : n + 1]))
            if below is None:
                break
            found, n = below, n + 1
        return found, "/".join(names[n:])

    def are_quick(self, names: Sequence[str]) -> bool:
        """Return True if a path leads into an array whose stored chunks are small, and local files."""
        source = self.get(names[0]) if names else None
        if not isinstance(source, LocationTree) or not source.is_local:
            return False
        try:
            found = self.split(names)
        except ChunkwiseError:
            return False
        return (
            found is not None and found[1] != "" and isinstance(found[0], ServedArray) and found[0].is_small
        )

    def members(self, names: Sequence[str], group: ServedGroup) -> Iterator[Member]:
        """Yield the members of the group at a path; raise UnsupportedError if they can't be listed."""
        return self[names[0]].members(group)

    def top(self) -> Iterator[Member]:
        """Yield the sources."""
        for name, source in self.items():
            found = source.find(())
            if isinstance(found, ServedArray):
                yield member_of((name, found))
            elif found is not None:
                yield Member(name, "group")


def sources_of(*what: object) -> Sources:
    """Return the sources that paths, arrays and groups stand for, or one mapping or tuple of them.

    Raises
    ------
    NotFoundError
        If there is no array or group at a path; the message lists what there is.
    InvalidArgumentError
        If nothing was given.
    """
    if not what:
        raise InvalidArgumentError("there is nothing to serve: give a path, an array or a group")
    given = what[0] if len(what) == 1 else what
    sources = Sources()
    if isinstance(given, Mapping) and not _is_place(given):
        for name, one in given.items():
            if not isinstance(name, str) or not name or "/" in name or name in (".", ".."):
                raise InvalidArgumentError(f'names of served data are text without "/", not {name!r}')
            sources[name] = _source(one)
        return sources
    for one in given if isinstance(given, tuple) else (given,):
        source = _source(one)
        base = _name_of(one)
        name, n = base, 2
        while name in sources:
            name, n = f"{base}-{n}", n + 1
        sources[name] = source
    return sources


def _is_place(given: Mapping[Any, object]) -> bool:
    """Return True for a spec, and for a mapping of keys to values as other libraries have it."""
    return isinstance(given.get("driver"), str) or is_kvstore_object("kvstore", given)


def _name_of(one: object) -> str:
    if isinstance(one, Group):
        return one.location.name or "tree"
    if isinstance(one, TensorStore):
        node = one._find_node().node
        path = (one.name or "").strip("/") or ("" if node is None else node.location.name)
        return path.rpartition("/")[2] or "array"
    if isinstance(one, str | os.PathLike):
        text = shown_text(os.fspath(one)).rstrip("/|:").removesuffix("|zip")
        text = text if is_url(text) else os.path.abspath(text)
        return text.rpartition("/")[2].partition("|")[0].partition("?")[0] or "root"
    return "array" if isinstance(one, np.ndarray) else "image"


def _source(one: Any) -> Source:
    if isinstance(one, Group):
        return LocationTree(one.location)
    if isinstance(one, TensorStore):
        return FixedTree(_of_view(one, "array"))
    if isinstance(one, MultiscaleImage):
        return _of_image(one, "image")
    if isinstance(one, list | tuple) and one and all(isinstance(a, TensorStore) for a in one):
        members = {str(i): _of_view(level, str(i)) for i, level in enumerate(one)}
        return FixedTree(ServedGroup("image", members=members))
    try:
        return _stored(resolve(one), one)
    except TypeError:
        raise TypeError(
            "expected a path or another place, an array, a group, an image or a list of its levels, "
            f"but received {type(one).__name__}"
        ) from None


def _stored(found: ResolvedPlace, place: Any) -> Source:
    if found.is_view:
        assert found.array is not None
        name = os.path.basename(found.named.rstrip("/")) or "array"
        return FixedTree(ServedArray(at_zero(found.array), name, assumed=found.assumed))
    if found.images is not None:
        groups = {name: _group_of(image, name) for name, image in found.images().items()}
        return FixedTree(ServedGroup("images", groups=groups))
    if found.array is not None:  # a precomputed volume, a picture
        image = open_multiscale(place)
        assert isinstance(image, MultiscaleImage)
        return _of_image(image, image.name)
    node = found.as_node()
    location, outside = node.location, None
    if found.named and not is_url(found.named) and os.path.isdir(found.named) and not found.is_file:
        location, outside = locate(ConfinedStore(found.named)), location
        node = require_node(location)
    if node.undeclared and next(children("", node), None) is None:
        raise nothing_at(location)
    tree = LocationTree(location, outside)
    tree.find(())  # metadata that can't be understood are an error now
    return tree


def _of_image(image: MultiscaleImage, name: str) -> Source:
    return FixedTree(_group_of(image, name))


def _group_of(image: MultiscaleImage, name: str) -> ServedGroup:
    image = image.available()
    members = {str(i): _of_view(level, str(i)) for i, level in enumerate(arranged(image).levels)}
    return ServedGroup(name, members=members, image=image)


def _of_view(view: TensorStore, name: str) -> ServedArray:
    try:
        attributes = view.attrs.asdict()
    except ChunkwiseError:
        attributes = {}
    return ServedArray(at_zero(view), view.name or name, view._whole_node(), attributes)


def _names_in(sources: Sources, path: tuple[str, ...], group: ServedGroup) -> list[str]:
    """Return the names of members; where they can't be listed, those that the metadata of images have."""
    try:
        return [member.name for member in sources.members(path, group)]
    except UnlistedError:
        found = multiscale_at(group)
    if isinstance(found, Plate | Well):
        return list(found.wells if isinstance(found, Plate) else found.fields)
    return list(found.paths if isinstance(found, MultiscaleImage) else found or ())


def find_nodes(sources: Sources) -> Iterator[tuple[tuple[str, ...], ServedArray | ServedGroup]]:
    """Yield the first nodes, each group before its members; nodes that can't be opened are left out."""
    waiting: list[tuple[str, ...]] = [(name,) for name in reversed(list(sources))]
    for _ in range(_MOST_LOOKED_AT):
        if not waiting:
            return
        path = waiting.pop()
        try:
            node = sources.find(path)
            if node is None:
                continue
            yield path, node
            if isinstance(node, ServedGroup):
                names = _names_in(sources, path, node)
                waiting += [(*path, *name.split("/")) for name in reversed(names)]
        except ChunkwiseError:  # the page and the listing show its error
            continue
