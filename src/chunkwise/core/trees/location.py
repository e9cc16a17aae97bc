"""Locations of nodes in key-value stores, and what can name them: paths, URLs, specs, open kvstores."""

from __future__ import annotations

import json
import operator
import os
from collections.abc import Iterator, Mapping
from copy import copy
from dataclasses import dataclass, replace
from typing import Any, ClassVar, NamedTuple, TypeAlias

from chunkwise.core.base.binding import JSON, Members
from chunkwise.core.base.catalogue import DRIVERS, kvstores
from chunkwise.core.base.extras import is_of
from chunkwise.core.driver.found_instead import directory_kind, file_kind
from chunkwise.core.kvstore.protocol import ByteRange, KvStoreDriver, is_store
from chunkwise.core.kvstore.this_process import AbsentStore, sent_store
from chunkwise.core.kvstore.value import read_bounded
from chunkwise.core.specs.context import Context, as_context
from chunkwise.core.specs.driver_spec import kvstore_from_url
from chunkwise.core.specs.kvstore_spec import (
    KvStoreSpec,
    Locatable,
    is_kvstore_object,
    kvstore_missing,
    parse_kvstore_spec,
    place_of,
)
from chunkwise.core.specs.kvstores.adapter import AdapterKvStoreSpec
from chunkwise.core.specs.public_kvstore_spec import Spec as StoreSpec
from chunkwise.core.specs.spec import Spec
from chunkwise.core.specs.storage_options import each_with_storage_options
from chunkwise.core.specs.url import is_url, shown_text, spec_json_from_path, spec_json_from_url
from chunkwise.errors import ChunkwiseError, InvalidArgumentError, noted

__all__ = [
    "Location",
    "LocationLike",
    "in_database",
    "inside_file",
    "is_ome_archive",
    "is_root_of_file",
    "locate",
    "located",
    "location_of",
]

_IN_FILES = ("hdf5", "tiff_images", "zip", "reference", "ocdbt")
"""Stores whose keys are inside a file or a database."""

LocationLike: TypeAlias = (
    "str | os.PathLike[str] | Mapping[str, JSON] | Spec | StoreSpec | Locatable | KvStoreDriver | Location"
)
"""A path, a URL, a spec of an array or a kvstore or its JSON, an open kvstore, or a location."""


_NONE: Mapping[str, JSON] = {}


class Location(NamedTuple):
    """Location of a node, which need not exist."""

    store: KvStoreDriver
    path: str  # prefix of the keys of the node: empty or ending in "/"
    text: str  # as given by the user
    base: Mapping[str, JSON]  # JSON spec of the store's root; `path` is appended to its "path"
    store_spec: KvStoreSpec  # the same, bound to live resources
    members: Mapping[str, JSON] = _NONE  # of a spec of an array that named it, such as "driver"

    @property
    def name(self) -> str:
        """Last component of the path; empty for the root of the store."""
        return self.path.rstrip("/").rpartition("/")[2]

    @property
    def parent(self) -> Location | None:
        """The location above; None for the root of the store."""
        if not self.path:
            return None
        return self.at(self.path[: self.path[:-1].rfind("/") + 1])

    @property
    def parents(self) -> Iterator[Location]:
        """The locations above, nearest first."""
        at = self.parent
        while at is not None:
            yield at
            at = at.parent

    def child(self, name: str) -> Location:
        """Return the location below this one with the given name or relative path."""
        return self.at(f"{self.path}{name}/")

    def at(self, path: str) -> Location:
        """Return the location in the same store with another path."""
        return self._replace(path=path, text=self.store.describe(path), members=_NONE)

    def describe(self, key: str) -> str:
        """Return the name of a key of the node for messages."""
        return self.store.describe(self.path + key)

    def kvstore_json(self) -> dict[str, JSON]:
        """Return the ``kvstore`` member of a spec for the node."""
        return {**self.base, "path": self.base.get("path", "") + self.path}

    def journal_json(self) -> JSON:
        """Return the JSON of the location for a journal, with a name in place of a store object."""
        named: JSON = json.loads(json.dumps(self.kvstore_json(), default=_name_of_object))
        return named

    @property
    def url(self) -> str:
        """URL of the node, or without one the store's name of it."""
        try:
            return self.kvstore().url
        except (ValueError, NotImplementedError):
            return self.describe("")

    def kvstore(self) -> KvStoreSpec:
        """Return the bound spec of a kvstore with the keys of the node."""
        return self.store_spec.with_path(self.store_spec.path + self.path)

    def alone(self) -> Location:
        """Return the same location for writes to new nodes of the caller, without other writers."""
        # Parts of chunks can then be written even in stores without conditional writes.
        spec = _alone(self.store_spec)
        return (
            self if spec is self.store_spec else self._replace(store=spec.open_driver()[0], store_spec=spec)
        )

    def __reduce__(self) -> tuple[object, ...]:
        return _unpickle, tuple(self._replace(base=_sent(self.base)))


def _unpickle(store: KvStoreDriver, *rest: Any) -> Location:
    """Return a location; its store is absent if one that it is made of is."""
    location = Location(store, *rest)
    return location._replace(store=_absent(location.store_spec) or store)


def _absent(spec: KvStoreSpec) -> Any:
    if isinstance(spec, AdapterKvStoreSpec):
        return next(filter(None, map(_absent, spec.inner())), None)
    held = spec.kv if isinstance(spec, _OpenStore) else getattr(spec, "store", None)
    return held if isinstance(held, AbsentStore) else None


def _sent(value: Any) -> Any:
    """Return JSON with kvstores in place of objects of other libraries, whose own pickles copy values."""
    if isinstance(value, Mapping) and not is_kvstore_object("kvstore", value):
        return {name: _sent(member) for name, member in value.items()}
    if isinstance(value, list | tuple):
        return [_sent(member) for member in value]
    return _opened(value) if is_kvstore_object("kvstore", value) else value


def _opened(store: Any) -> Any:
    return parse_kvstore_spec({"driver": "object", "object": store}, kvstore_from_url).open_driver()[0]


def _name_of_object(store: Any) -> str:
    name: str = _opened(store).describe("")
    return name


def _alone(spec: KvStoreSpec) -> KvStoreSpec:
    if isinstance(spec, AdapterKvStoreSpec):
        bases = spec.inner()
        alone = tuple(map(_alone, bases))
        return spec if all(map(operator.is_, bases, alone)) else spec.with_inner(alone)
    if isinstance(spec, _OpenStore) and getattr(spec.kv, "single_writer", True) is False:
        kv: Any = copy(spec.kv)
        kv.single_writer = True
        return replace(spec, kv=kv)
    if getattr(spec, "single_writer", True) is False:
        changes: dict[str, Any] = {"single_writer": True}
        return replace(spec, **changes)
    return spec


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class _OpenStore(KvStoreSpec):
    """A kvstore that is already open and has no spec."""

    driver: ClassVar[str] = "open"

    kv: KvStoreDriver

    def __getstate__(self) -> dict[str, Any]:
        return {**vars(self), "kv": sent_store(self.kv)}

    def open_driver(self) -> tuple[KvStoreDriver, str]:
        return self.kv, self.path


def locate(place: LocationLike, context: Context | None = None) -> Location:
    """Return the location that `place` names, or raise InvalidArgumentError."""
    if isinstance(place, Location):
        return place
    if isinstance(place, Locatable):
        return location_of(place._bound_spec())
    if isinstance(place, StoreSpec):
        return location_of(place._record.bind(as_context(context)))
    if isinstance(place, Spec):
        return _of_json(place.to_json(), str(place.kvstore), context)
    is_h5 = is_of(place, "h5py")  # whose groups are mappings
    if isinstance(place, Mapping) and not is_h5 and not is_kvstore_object("object", place):
        return _of_json(place, "the spec", context)
    if not isinstance(place, str | os.PathLike):
        if is_store(place):
            return location_of(_OpenStore(kv=place))
        if is_kvstore_object("object", place) and _is_store_object(place) and not is_h5:
            return _of_json({"driver": "object", "object": place}, type(place).__name__, context)
        its = place_of(place)
        raise TypeError(
            "expected a path, a URL, a spec, a KvStore, a location, or a store of zarr-python, obstore or "
            f"fsspec, got {type(place).__name__}{its and f'; give its place, {its}'}"
        )
    text = os.fspath(place)
    if not text:
        raise InvalidArgumentError("the path is empty")
    spec = spec_json_from_url(text) if is_url(text) else spec_json_from_path(text)
    location = _of_json(spec, shown_text(text), context)
    return _in_archive(location, context) if location.name.endswith(".ozx") else location


def _in_archive(location: Location, context: Context | None) -> Location:
    """Return the root of an archive of OME-Zarr, which is there or to be; the location itself if it is a
    directory."""
    base = location.kvstore()
    if base.driver == "file" and os.path.isdir(base.path):
        return location
    inside = _inside("zip", base.with_path(base.path[:-1]), location.text.rstrip("/"), context)
    return inside._replace(members=location.members)


def is_ome_archive(location: Location) -> bool:
    """Return True for a location in an archive of OME-Zarr."""
    base = location.store_spec.base if location.store_spec.driver == "zip" else None
    return base is not None and base.path.endswith(".ozx")


def located(options: Mapping[str, Any] | None, *places: Any) -> list[Any]:
    """Return the places, those on servers as locations with the storage options, if any."""
    return [
        place if given is place else _of_json(given, shown_text(os.fspath(place)), None)
        for place, given in zip(places, each_with_storage_options(options, *places), strict=True)
    ]


def _is_store_object(place: object) -> bool:
    from chunkwise.core.specs.kvstores.object import is_store_object  # imports the stores of other libraries

    return is_store_object(place)


def _of_json(members: Mapping[str, JSON], text: str, context: Context | None) -> Location:
    if "driver" not in members and "kvstore" not in members:
        try:
            Spec(members)  # the store lacks a member
        except InvalidArgumentError as e:
            raise noted(e, 'to keep data in memory, give a URL such as "memory://name/"') from None
    kvstore = members.get("kvstore", members)
    if kvstore is members and members.get("driver") in DRIVERS:
        driver = Spec(members)._driver
        if hasattr(driver, "kvstore") and not driver.parts():
            raise kvstore_missing()
        raise InvalidArgumentError(f'"{text}" names a view of an array, not where one is stored')
    spec = parse_kvstore_spec(kvstore, kvstore_from_url)
    if kvstore is members:
        return location_of(spec.bind(as_context(context)), text)
    if isinstance(members.get("path"), str):
        spec = spec.joined(members["path"])
    if members.get("context") is not None:
        context = Context(members["context"], as_context(context))
    others = {name: value for name, value in members.items() if name not in ("kvstore", "path", "context")}
    return location_of(spec.bind(as_context(context)), text)._replace(members=others)


def location_of(spec: KvStoreSpec, text: str | None = None) -> Location:
    """Return the location at the path of a bound spec."""
    spec = spec.as_directory()
    if spec.driver == "file":
        # From the root of the file system, so that parents are included.
        absolute = os.path.abspath(spec.path or ".")
        anchor = os.path.splitdrive(absolute)[0].replace(os.sep, "/") + "/"
        relative = os.path.relpath(absolute, anchor).replace(os.sep, "/")
        path = "" if relative == "." else relative + "/"
        store = spec.with_path(anchor)
        kv, _ = store.open_driver()
        return Location(kv, path, text or kv.describe(path), {"driver": "file", "path": anchor}, store)
    kv, path = spec.open_driver()
    store = spec.with_path(spec.path[: len(spec.path) - len(path)])
    base = {**store.strip().to_json(), "path": store.path}
    return Location(kv, path, text or kv.describe(path), base, store)


def inside_file(
    location: Location, context: Context | None = None, *, archives: bool = False
) -> Location | None:
    """Return the root of the tree inside the file at a location, or None."""
    # If an archive could be written to, its URL must name it as one.
    if not location.path:
        return None
    try:
        head = read_bounded(location.store, location.path[:-1], byte_range=ByteRange(0, 4)).value
    except ChunkwiseError:  # the file is shorter, or a directory
        return None
    key = location.path[:-1]
    kind = None if head is None else file_kind(bytes(head), key, lambda: location.store.read(key).value)
    if kind is None or (kind == "zip" and not archives):
        return None
    base = location.kvstore()
    return _inside(kind, base.with_path(base.path[:-1]), location.text, context)


def in_database(location: Location, context: Context | None = None) -> Location | None:
    """Return the root of the OCDBT database, or of the references, in the directory at a location."""
    if is_root_of_file(location):
        return None
    kind = directory_kind(location.store, location.path)
    return None if kind is None else _inside(kind, location.kvstore(), location.text, context)


def is_root_of_file(location: Location) -> bool:
    """Return True for the root of the tree in a file or a database."""
    return not location.path and location.store_spec.driver in _IN_FILES and not location.store_spec.path


def _inside(kind: str, base: KvStoreSpec, text: str, context: Context | None) -> Location:
    spec: KvStoreSpec = kvstores.find(kind).parse(Members({"base": base}))
    return location_of(spec.bind(as_context(context)), f"{text.rstrip('/')}|{kind.replace('_', '-')}:")
