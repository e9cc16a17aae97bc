"""A place in a key-value store, given as people give it: a path, a URL, a path object."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any, NamedTuple

from chunkwise.errors import InvalidArgumentError
from chunkwise.kvstore.file import FileStore
from chunkwise.kvstore.protocol import KvStoreDriver
from chunkwise.spec.context import Context
from chunkwise.spec.kvstore_spec import parse_kvstore_spec
from chunkwise.spec.spec_members import kvstore_from_url
from chunkwise.spec.url import is_url, spec_json_from_path, spec_json_from_url

__all__ = ["Location", "locate"]


class Location(NamedTuple):
    """A node of a hierarchy, there or not.

    Attributes
    ----------
    kv : KvStoreDriver
    path : str
        Prefix of the keys of the node: empty or ending in "/".
    text : str
        As the user gave it.
    base : mapping
        JSON spec of the store's root: `path` is to be appended to its ``path``.
    """

    kv: KvStoreDriver
    path: str
    text: str
    base: Mapping[str, Any]

    @property
    def name(self) -> str:
        """Last component of the path; empty for the root of the store."""
        return self.path.rstrip("/").rpartition("/")[2]

    @property
    def parent(self) -> Location | None:
        """The node that this one is in; None for the root of the store."""
        if not self.path:
            return None
        return self.at(self.path[: self.path[:-1].rfind("/") + 1])

    def child(self, name: str) -> Location:
        """Return the node below this one with the given name or relative path."""
        return self.at(f"{self.path}{name}/")

    def at(self, path: str) -> Location:
        """Return the node of the same store with another path."""
        return Location(self.kv, path, self.kv.describe(path), self.base)

    def kvstore_json(self) -> dict[str, Any]:
        """Return the ``kvstore`` member of a spec for the node."""
        return {**self.base, "path": self.base.get("path", "") + self.path}


def locate(place: str | os.PathLike[str] | Location) -> Location:
    """Return the location that a path or URL names.

    The store of a local path is the whole file system, so that the groups above can be looked at.

    Raises
    ------
    InvalidArgumentError
        If it is empty, or not a valid URL.
    """
    if isinstance(place, Location):
        return place
    text = os.fspath(place)
    if not text:
        raise InvalidArgumentError("the path is empty")
    json = spec_json_from_url(text) if is_url(text) else spec_json_from_path(text)
    kvstore = json.get("kvstore")
    if kvstore is None:
        raise InvalidArgumentError(f'"{text}" names a view of an array, not where one is stored')
    if kvstore["driver"] == "file":
        return _local(os.path.abspath(kvstore["path"]), text)
    spec = parse_kvstore_spec(kvstore, kvstore_from_url).as_directory().bind(Context())
    kv, path = spec.open_driver()
    base = spec.path[: len(spec.path) - len(path)]
    return Location(kv, path, text, {**spec.strip().to_json(), "path": base})


def _local(absolute: str, text: str) -> Location:
    anchor = os.path.splitdrive(absolute)[0] + os.sep
    relative = os.path.relpath(absolute, anchor).replace(os.sep, "/")
    path = "" if relative == "." else relative + "/"
    return Location(FileStore(anchor), path, text, {"driver": "file", "path": anchor})
