"""The content of a place: one record for every command and function that reads.

A place is what `chunkwise.open` and `chunkwise.open_group` take: a path or URL of a node, of a file or a
database with nodes in it (HDF5, TIFF, ZIP, OCDBT), of a picture or a precomputed volume; a file ``*.json``
with a spec; a spec; a store of this or another library; a folder or glob of pictures; an open array, group or
image; or an array of NumPy, dask, xarray or h5py.

Recognizers are asked in one order: open objects, specs and files of them, files that describe the images in
a container, pictures, nodes by their documents, the content of a file or a database, and arrays that only a
driver of their own finds.  The root of a file's content is the same whether it is written out, as
``FILE|hdf5:``, or found.
"""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import replace
from itertools import islice
from typing import Any, Literal, NamedTuple, TypeAlias

from chunkwise.copying.losses import is_loss
from chunkwise.copying.new_array import open_array, open_node
from chunkwise.copying.pictures import named_axes, open_pictures, pictures_at
from chunkwise.core.api.held import HeldArray, held_array
from chunkwise.core.api.open import open as open_spec
from chunkwise.core.api.open import other_images, others_left
from chunkwise.core.api.spec_cache import read_spec_file
from chunkwise.core.api.tensorstore import TensorStore
from chunkwise.core.base.cached import cached_property
from chunkwise.core.base.catalogue import DRIVERS, hooks
from chunkwise.core.base.public_names import warn_caller
from chunkwise.core.driver.tree_formats import FORMATS
from chunkwise.core.engine.concurrent_requests import is_slow
from chunkwise.core.specs.context import Context, as_context
from chunkwise.core.specs.kvstore_spec import KvStoreSpec
from chunkwise.core.specs.spec import Spec
from chunkwise.core.specs.url import shown_text
from chunkwise.core.trees.location import (
    Location,
    LocationLike,
    in_database,
    inside_file,
    is_root_of_file,
    locate,
)
from chunkwise.core.trees.node import Node, find_documented, find_node, how_to_say, nothing_at, what_is_at
from chunkwise.core.trees.tree import Tree
from chunkwise.core.trees.walk import walk
from chunkwise.errors import ChunkwiseError, InvalidArgumentError, NotFoundError, prefix
from chunkwise.extension.trees import NoFormatError, check_container_of, is_vacant, looking, node_above

__all__ = [
    "Place",
    "Resolvable",
    "ResolvedPlace",
    "inside_array",
    "resolve",
    "resolved_node",
    "what_is",
    "whole_array",
]

_SHOWN = 10

Place: TypeAlias = "LocationLike | TensorStore | Resolvable | HeldArray"


class Resolvable(ABC):
    """An open object that stands for a place: a group, an image."""

    __slots__ = ()

    @abstractmethod
    def _resolve(self) -> ResolvedPlace:
        """Return the record of the place."""


class _Stored(NamedTuple):
    """The stored content of a location."""

    location: Location  # for a file or a database, the root of its content
    node: Node | None
    array: TensorStore | None = None  # one that is not a node
    is_file: bool = False
    nothing: NotFoundError | None = None  # that there is nothing, if that is known
    assumed: str = ""  # about the array


class ResolvedPlace(Resolvable):
    """The content of a place; nothing is read before it is asked for.

    `array` is an array that is not a node: a view, pictures, a volume.  Otherwise `location` has `node`, if
    there is anything.  The root of the content of a file or a database, `is_file`, stands for its only array.
    """

    def __init__(
        self,
        named: str,
        *,
        asked: Location | None = None,
        view: TensorStore | None = None,
        found: _Stored | None = None,
        context: Context | None = None,
        is_spec: bool = False,
        assumed: str = "",
        file: Location | None = None,
        images: Callable[[], Any] | None = None,
        image: Any = None,
    ) -> None:
        self.named = named  # by the user; empty for an object
        self.asked = asked  # the location that is named; None without one place
        self.context = context
        self.is_spec = is_spec  # named by a spec, or a file with one
        self.assumed = assumed  # about it, since nothing says so
        self.file = file  # that describes the images in a container
        self.images = images  # opens the images in a container, as the file describes them
        self.image = image  # whose full resolution `as_array` returns, or the array that a program holds
        self.left_out = ""  # note on other things than the array that `as_array` returns
        self._view, self._known = view, found

    def _resolve(self) -> ResolvedPlace:
        return self

    def _found(self) -> _Stored:
        if self._known is None:
            assert self.asked is not None
            self._known = _looked_for(self.asked, self.context)
            self.assumed = self.assumed or self._known.assumed
        return self._known

    def seen(self, location: Location, node: Node | None) -> ResolvedPlace:
        """Return the place itself, which need not look for the node that `find_node` has found at a
        location."""
        if self._known is None and self.asked is not None and self.asked.path == location.path:
            self._known = _stored(self.asked, node, self.context)
        return self

    @property
    def is_view(self) -> bool:
        """True for an array that is not stored at one place, such as a stack, or a folder of pictures."""
        return self.asked is None

    @property
    def array(self) -> TensorStore | None:
        """The array that isn't a node, if there is one, else None."""
        return self._view if self.is_view else self._found().array

    @property
    def location(self) -> Location | None:
        """Location of the content; for a file or a database, its root."""
        return None if self.is_view else self._found().location

    @property
    def node(self) -> Node | None:
        """The array or group there; None if there is none."""
        return None if self.is_view else self._found().node

    @property
    def is_file(self) -> bool:
        """True for the root of the content of a file or a database."""
        return not self.is_view and self._found().is_file

    @property
    def kind(self) -> Literal["array", "group", "directory", "unfinished", "nothing"]:
        """Kind of the content; a directory is a group that no document declares."""
        if self.array is not None:
            return "array"
        if self.node is None:
            return "nothing"
        if self.node.error:
            return "unfinished"
        return "directory" if self.node.format is None else self.node.kind

    @property
    def is_volume(self) -> bool:
        """True for a precomputed volume, which is an array and the scales of an image."""
        return self.location is not None and self.array is not None and _is_volume(self.array)

    @cached_property
    def found_images(self) -> Any:
        """The image, plate or others that a group is, or a file describes; None if it is none."""
        return hooks.find("images of a place")(self)

    @property
    def what(self) -> str:
        """Description of the content, in words."""
        if self.array is not None:
            return what_is(self.array)
        return {"group": "a group", "array": "an array"}.get(self.kind, f"a {self.kind}")

    def as_array(self, *, of_image: bool = False) -> TensorStore:
        """Open the array that the place stands for, for reading.

        It is the array itself, the only one in a file, or the first image in it; with `of_image` also the
        full resolution of the image that a group is.
        """
        if self.array is not None:
            return self.array
        location, node = self.location, self.node
        assert location is not None
        if node is None:
            raise self._found().nothing or nothing_at(location)
        node.check()
        if node.kind == "group" and of_image and node.format is not None:
            self.image = hooks.find("only image")(self)
            if self.image is not None:
                self.left_out = "; ".join(filter(is_loss, self.image._metadata.problems))
                found: TensorStore = self.image._full_resolution()
                return found
        if node.kind == "group" and self.is_file:
            return self._only_array(node)
        if node.format is None:
            how = how_to_say(node)
            if not how and what_is_at(location):
                raise nothing_at(location)
            raise InvalidArgumentError(f"{location.text} is a group, not an array (a directory){how}")
        rules, is_array = node.rules, node.kind == "array" and node.found is not None
        if node.format and is_array and rules.group_key and is_slow(location.store):  # asked once
            if rules.has_containers:
                check_container_of(location, node.document)
            tree = Tree(root=location, format=node.format, context=as_context(self.context))
            return open_node(tree, (), node)
        return open_array(location, found=node, read=True, context=self.context)

    def part(self, array: TensorStore) -> ResolvedPlace:
        """Return a view of the array that the place stands for, of which the same is known."""
        part = ResolvedPlace("", view=array, assumed=self.assumed, image=self.image)
        part.left_out = self.left_out
        return part

    def as_node(self, *, damaged: bool = False) -> Node:
        """Return the group or array in which everything is stored; raise if there is none.

        One that is unfinished, or whose document can't be read, is an error unless `damaged` ones are taken.
        """
        if self.location is None or self.array is not None:
            lacks = "no place of its own" if self.location is None else "no documents of Zarr or N5"
            raise InvalidArgumentError(f"{self.named or 'this'} is {self.what}, which has {lacks}")
        if self.node is None:
            raise self._found().nothing or nothing_at(self.location)
        if not damaged:
            self.node.check()
        return self.node

    def _only_array(self, root: Node) -> TensorStore:
        """Return the array in a file that has one alone, or the first image of a file with images."""
        location = root.location
        if location.store_spec.driver == "tiff_images":  # a file of one picture has a driver of its own
            whole = location.store_spec.base
            if others := other_images(location.store_spec):
                whole = location.child("0").kvstore()
                self.left_out = others_left(others, location.text)
            return _opened(whole, self.context)  # type: ignore[arg-type]  # it has one
        nodes = (walked.node for walked in walk(root) if walked.node.kind == "array")
        found = list(islice(nodes, _SHOWN + 1))
        if len(found) == 1:
            return open_array(found[0].location, read=True, context=self.context)
        start = len(location.path)
        above = location.text if location.text.endswith(":") else f"{location.text}/"
        names = [f"{above}{node.location.path[start:].rstrip('/')}" for node in found[:_SHOWN]]
        more = ", …" if len(found) > _SHOWN else ""
        raise InvalidArgumentError(
            f"{location.text} is a group, not an array; name one of its arrays: "
            f"{', '.join(names) or 'there are none'}{more}"
        )


def inside_array(location: Location) -> NotFoundError | None:
    """Return the error that a directory is among the chunks of an array; None if it isn't."""
    above = node_above(location)
    if above is None or above.kind != "array":
        return None
    return NotFoundError(
        f"there is no group at {location.text}, which is inside the array {above.location.text}"
    )


def whole_array(place: Place, context: Context | None = None) -> TensorStore:
    """Return the array at a place for reading; warn the caller of the library of other things there."""
    found = resolve(place, context)
    array = found.as_array()
    if found.left_out:
        warn_caller(f"{found.named or 'the file'}: {found.left_out}; chunkwise.open_group has all")
    return array


def resolved_node(node: Node) -> ResolvedPlace:
    """Return the known facts about a node."""
    found = _Stored(node.location, node, is_file=is_root_of_file(node.location))
    return ResolvedPlace("", asked=node.location, found=found)


def resolve(place: Place, context: Context | None = None) -> ResolvedPlace:
    """Return the thing at a place; raise if the place is invalid, or the thing is damaged."""
    found = _open_object(place) or _spec(place, context)
    if found is not None:
        return found
    named, location = _name_of(place), locate(place, context)  # type: ignore[arg-type]  # it is no object
    return (
        _described(named, location, context)
        or _pictures(named, location)
        or ResolvedPlace(named, asked=location, context=context)
    )


def _open_object(place: object) -> ResolvedPlace | None:
    if isinstance(place, Resolvable):
        return place._resolve()
    if isinstance(place, TensorStore):
        return ResolvedPlace("", view=place)
    view = held_array(place)
    return None if view is None else ResolvedPlace("", view=view, image=place)


def _spec(place: object, context: Context | None) -> ResolvedPlace | None:
    """Recognize the spec of an array, or a file with one; the whole array of a place is that array itself."""
    named = _name_of(place)
    if isinstance(place, str | os.PathLike):
        spec: Any = read_spec_file(place, context)
        if spec is None:
            return None
        stored = _stored_array(spec, named, context)
        if stored is not None:
            return stored
        try:
            array = open_spec(spec, read=True, context=context).result()
        except ChunkwiseError as e:
            raise prefix(e, named) from None
        return ResolvedPlace(named, view=array, is_spec=True)
    json = place.to_json() if isinstance(place, Spec) else place
    if isinstance(json, Mapping) and json.get("driver") in DRIVERS and json.get("driver") != "auto":
        return ResolvedPlace(named, view=open_spec(json, read=True, context=context).result(), is_spec=True)
    return None


def _stored_array(spec: Mapping[str, Any], named: str, context: Context | None) -> ResolvedPlace | None:
    """Return the node of a spec that is nothing but the place of an array."""
    if not {"driver", "kvstore"} <= spec.keys() <= {"driver", "kvstore", "path"}:
        return None
    location = locate(spec, context)
    node = find_documented(location)
    if node is None or node.kind != "array" or FORMATS.get(spec["driver"]) not in (None, node.format):
        return None
    location = location._replace(text=named)
    return ResolvedPlace(named, asked=location, found=_Stored(location, node), context=context)


def _described(named: str, location: Location, context: Context | None) -> ResolvedPlace | None:
    """Recognize an XML file of BigDataViewer, which stands for the container that it describes."""
    if not location.name.lower().endswith(".xml"):
        return None
    found = hooks.find("container of a file")(location, context)
    if found is None:
        return None
    container, images = found
    return ResolvedPlace(named, asked=container, context=context, file=location, images=images)


def _pictures(named: str, location: Location) -> ResolvedPlace | None:
    found = pictures_at(location) if location.base.get("driver") == "file" else None
    if found is None:
        return None
    whole, assumed = open_pictures(found)
    return ResolvedPlace(named, view=whole, assumed=assumed)


def _looked_for(location: Location, context: Context | None) -> _Stored:
    """Return the thing stored at a location; in a slow store, after one look if there is no node."""
    said = FORMATS.get(location.members.get("driver", ""))
    if not is_slow(location.store):
        return _stored(location, find_node(location, said), context)
    node = find_documented(location, said)
    if node is not None:
        return _stored(location, node, context)
    with looking(location) as seen:
        node = find_node(seen, said)
        if node is None and is_vacant(seen):
            return _Stored(location, None, nothing=nothing_at(seen))
    return _stored(location, None if node is None else node.in_store(location.store), context)


def _stored(location: Location, node: Node | None, context: Context | None) -> _Stored:
    """Return the node at a location, in the file or database there, or the array that a driver finds."""
    is_file = is_root_of_file(location)
    if node is None or node.undeclared:
        inside = None if node is not None else inside_file(location, context, archives=True)
        inside = inside or in_database(location, context)
        if inside is not None:
            location, is_file, node = inside, True, find_node(inside)
    array, nothing, assumed = None, None, ""
    if is_file and node is not None and node.undeclared and (only := _only_node(node)) is not None:
        text = f"{location.text}{only.location.path[len(location.path) :].rstrip('/')}"
        location = only.location._replace(text=text)
        node = replace(only, location=location)
    if node is None or node.undeclared:
        array = _detected(location, node, context)
        is_listed = location.base.get("driver") != "file" and not is_slow(location.store)
        if array is None and is_listed and (found := pictures_at(location)) is not None:
            array, assumed = open_pictures(found)
    if node is not None and node.implicit and not node.error and array is None:
        nothing = inside_array(location)
        node = None if nothing is not None else node
    return _Stored(location, node, array, is_file, nothing, assumed)


def _only_node(root: Node) -> Node | None:
    """Return the array or group of an archive, if it isn't at the root, as in a packed folder."""
    nodes = (walked for walked in walk(root) if not walked.node.implicit)
    first = next(nodes, None)
    if first is None or any(not walked.name.startswith(f"{first.name}/") for walked in nodes):
        return None
    return first.node


def _detected(location: Location, node: Node | None, context: Context | None) -> TensorStore | None:
    """Open the array at a location with the driver that its files call for, None if they call for none."""
    kvstore = location.kvstore()
    if node is None:
        kvstore = kvstore.with_path(kvstore.path.rstrip("/"))
    try:
        return _opened(kvstore, context)
    except NoFormatError:
        return None


def _opened(kvstore: KvStoreSpec, context: Context | None) -> TensorStore:
    """Open an array with the driver that its files call for."""
    spec: dict[str, Any] = {"driver": "auto", "kvstore": kvstore}
    return named_axes(open_spec(spec, read=True, context=context).result())


def _name_of(place: object) -> str:
    return shown_text(os.fspath(place)) if isinstance(place, str | os.PathLike) else ""


def what_is(array: TensorStore) -> str:
    """Return the description of an array that is not a node, for messages."""
    return "a precomputed volume" if _is_volume(array) else f"one array ({array.spec()._driver.driver})"


def _is_volume(array: TensorStore) -> bool:
    return array.spec()._driver.driver == "neuroglancer_precomputed"
