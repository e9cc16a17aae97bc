"""Opening, creating and replacing stores; the error for a place without a store."""

from __future__ import annotations

import os
import zipfile
from collections.abc import Mapping
from typing import Any, Literal, NamedTuple

from chunkwise.core.kvstore.places.staging import UNFINISHED, new_owner, staging_name
from chunkwise.errors import AlreadyExistsError, ChunkwiseError, NotFoundError
from chunkwise.extension.inside import (
    MISSING_GENERATION,
    HeldError,
    Pool,
    check_alone,
    is_url,
    load_json,
    read_bounded,
)
from chunkwise.extension.trees import (
    Destination,
    Location,
    Mode,
    Node,
    Replacement,
    State,
    check_outside_arrays,
    create_parents,
    delete_own,
    find_documented,
    format_of,
    looking_above,
    node_attributes,
    remove_groups,
    tree_format,
    what_is_at,
)
from chunkwise.hdmf.model.attributes import SPECLOC
from chunkwise.hdmf.model.place import Place, named_place, place_of, source_name
from chunkwise.hdmf.model.tree import Format, HdmfTree, detect_format, read_tree
from chunkwise.hdmf.replacement import read_replacement, replace_encoded
from chunkwise.hdmf.storage.node_writer import UnsyncedStore
from chunkwise.hdmf.storage.store import HdmfStore

__all__ = [
    "UNFINISHED",
    "Enclosing",
    "NewStore",
    "destination_of",
    "enclosing_store",
    "is_hdf5",
    "is_root_of_hdmf",
    "new_store",
    "no_store",
    "open_file",
    "open_store",
]

# -- opening ------------------------------------------------------------------------------------------

_SIGNS = ("neurodata_type", "data_type", SPECLOC)
"""Attributes of the root that say that HDMF wrote a store."""

_SURE_SIGNS = ({"neurodata_type"}, {"data_type", "namespace"}, {SPECLOC})
"""Sets of attributes that only HDMF's trees have together."""

_HDF5 = b"\x89HDF\r\n\x1a\n"


def is_hdf5(path: str | os.PathLike[str]) -> bool:
    """Return True if there is an HDF5 file at a local path."""
    if not os.path.isfile(path):
        return False
    with open(path, "rb") as f:
        return f.read(len(_HDF5)) == _HDF5


def no_store(location: Location, source: str) -> NotFoundError:
    """Return an error that says what was found instead of a store."""
    return NotFoundError(f"there is no HDMF store at {source}: {_instead(location, source)}")


def _instead(location: Location, source: str) -> str:
    if not is_url(source):
        if not os.path.lexists(source):
            return "nothing is there"
        if os.path.isfile(source):
            if is_hdf5(source):
                return (
                    "it is an HDF5 file; pynwb.NWBHDF5IO reads it, chunkwise.hdmf.convert makes a store of it"
                )
            if zipfile.is_zipfile(source):
                return f'it is a ZIP archive, whose content is at "{source}|zip:"'
            return "it is a file"
    try:
        unfinished = location.store.read(location.path + UNFINISHED).value is not None
    except ChunkwiseError:
        unfinished = False
    if unfinished:
        return f"its writing was interrupted or goes on (it has {UNFINISHED})"
    found = what_is_at(location) if is_url(source) else ""
    if found.startswith("it is "):  # a file, which has a URL of its own
        return found
    return "no zarr.json, .zgroup or attributes.json with hdmf_n5"


def destination_of(
    place: Place, format: str | None, mode: Mode, default: Literal["zarr2", "zarr3"] = "zarr3"
) -> Destination:
    """Return format and state of the place of a new store; raise if it can't be written there in a mode."""
    # A symbolic link names the store, by which the group around the link decides the format.
    said = format_of(named_place(place), "group", format=format, default=default, is_directory=True)
    return Destination.of(place_of(place), "group", format=said, mode=mode)


def new_store(location: Location, source: str, format: Format, pool: Pool) -> HdmfStore:
    """Return a store that has only a root, and stores nothing."""
    store = HdmfStore(location, source, HdmfTree(format), pool, replace_encoded)
    store.tree.add(store.convention.group("/", {}))
    return store


def open_store(
    place: Place,
    *,
    consolidated: bool | Literal["check"] = True,
    pool: Pool | None = None,
) -> HdmfStore:
    """Open an HDMF store for reading its tree and data.

    Parameters
    ----------
    place : str, path, KvStore or Location
    consolidated : bool or "check"
        Whether to use consolidated metadata; with "check" only if it agrees with the nodes.
    pool : Pool, optional
        Threads that read chunks; by default new ones.

    Raises
    ------
    NotFoundError
        If there is no store of a known convention.
    """
    location = place_of(place)
    format = detect_format(location)
    if format is None:
        raise no_store(location, source_name(place))
    pool = pool or Pool()
    tree = read_tree(location, format, consolidated)
    read_replacement(location, tree)
    root = tree.nodes["/"]
    key = tree_format(format).attributes_key
    if key and tree.consolidated and SPECLOC not in root.attributes:
        # Release 0.10 consolidated before it cached the specifications.
        raw = read_bounded(location.store, location.path + key).value
        own = {} if raw is None else load_json(raw, location.describe(key))
        if isinstance(own, dict) and SPECLOC in own:
            root.attributes[SPECLOC] = own[SPECLOC]
    return HdmfStore(location, source_name(place), tree, pool, replace_encoded)


def open_file(place: Place) -> HdmfStore:
    """Open a store, or an HDF5 file as one, under its own name."""
    if not isinstance(place, str | os.PathLike) or not is_hdf5(place):
        return open_store(place)
    store = open_store(f"{os.fspath(place)}|hdf5:")
    store.source = source_name(place)
    return store


def is_root_of_hdmf(attributes: Mapping[str, Any]) -> bool:
    """Return True if the attributes of a root say that HDMF wrote the store."""
    return any(sign in attributes for sign in _SIGNS)


def _is_surely_of_hdmf(attributes: Mapping[str, Any]) -> bool:
    return any(signs <= attributes.keys() for signs in _SURE_SIGNS)


class Enclosing(NamedTuple):
    """An HDMF store, and the path of an object in it."""

    store: HdmfStore
    path: str


def enclosing_store(node: Node) -> Enclosing | None:
    """Return the HDMF store around a node, or of which it is the root; None if there is none."""
    root: Node | None = None
    at: Node | None = node
    while at is not None and not at.implicit:
        if _may_be_root(at):
            root = at
        with looking_above(at.location, 1) as seen:
            above = seen.parent
            found = None if above is None else find_documented(above, at.format)
        at = found and found.in_store(node.location.store)
    if root is None or detect_format(root.location) is None:
        return None
    store = open_store(root.location, consolidated=False)
    if not _is_surely_of_hdmf(store.tree.nodes["/"].attributes):
        return None
    store.source = _name_of(root.location)
    path = "/" + node.location.path[len(root.location.path) :].rstrip("/")
    return Enclosing(store, path) if path in store.tree.nodes else None


def _may_be_root(node: Node) -> bool:
    if node.kind != "group" or node.error:
        return False
    # Where attributes are members of the document, it says whether there is a store.
    return (
        "hdmf_n5" in node.document if node.rules.has_containers else _is_surely_of_hdmf(node_attributes(node))
    )


def _name_of(location: Location) -> str:
    """Return the local path of a store or of the HDF5 file that is one; what it is called, if it has none."""
    kvstore = location.kvstore_json()
    if kvstore["driver"] == "hdf5" and isinstance(kvstore.get("base"), dict):
        kvstore = kvstore["base"]
    return os.path.realpath(str(kvstore["path"])) if kvstore["driver"] == "file" else location.text


# -- stores that replace others -----------------------------------------------------------------------


class NewStore:
    """The place where a new store is written.

    Parameters
    ----------
    location : Location
        Final location; its store may be an `UnsyncedStore`.
    format : {"zarr2", "zarr3", "n5"}
    state : State, optional
        What the location holds now; None for an unfinished store that is gone on with.
    chosen : Replacement, optional
        A place that other processes write to as well.
    """

    def __init__(
        self, location: Location, format: Format, state: State | None, chosen: Replacement | None
    ) -> None:
        self.location = location
        self._final = _synced(location)
        self._is_file = state == "file"
        self._replacement = chosen
        self._made: list[Location] | None = None  # groups above, if nothing was there before
        if state == "file":
            # Nothing can be written below a file, so the new store is beside it.
            parent = location.parent
            assert parent is not None
            name = staging_name(location.name, new_owner())
            self._replacement = Replacement(self._final, self._final.at(f"{parent.path}{name}/"))
        elif state not in (None, "nothing") and chosen is None:
            self._replacement = Replacement.begin(self._final)
        if self._replacement is not None:
            self.location = location.at(self._replacement.staging.path)
        self.is_first = state == "nothing" and chosen is None
        self.mark = new_owner().encode()
        self._write_mark(self.location.path + UNFINISHED)
        if self._replacement is None:
            made = create_parents(location, format)
            self._made = made if self.is_first else None

    def _write_mark(self, key: str) -> None:
        store = self._final.store
        while True:
            generation = store.write(key, self.mark, if_equal=MISSING_GENERATION if self.is_first else None)
            if generation is None:
                raise AlreadyExistsError(f"another process is writing a store to {self._final.text}")
            if not self.is_first:
                return
            try:
                check_alone(store, key, generation, self._check_vacant)
                return
            except HeldError as e:  # what was there is being replaced or deleted
                e.wait()

    def _check_vacant(self) -> None:
        """Raise AlreadyExistsError if others were faster; they look after they have written, too."""
        check_outside_arrays(self._final)
        if find_documented(self._final) is not None:
            raise AlreadyExistsError(f"{self._final.text} was made by another process meanwhile")

    @property
    def is_pending(self) -> bool:
        """True if the old data has not been replaced yet."""
        return self._replacement is not None

    def commit(self) -> Location:
        """Replace the old data by the new store, and return its location."""
        replacement = self._replacement
        if replacement is not None and self._is_file:
            self._replace_file(replacement.staging.path[:-1])
        elif replacement is not None:
            replacement.commit()
        self._replacement = None
        return self._final

    def _replace_file(self, new: str) -> None:
        """Exchange the new store and a file, unless others have put something else in its place."""
        store: Any = self._final.store
        old = self._final.path[:-1]
        if not store.exchange_directories(new, old, f"{new}-old"):  # in memory, or it is gone
            store.delete(old)
            store.move_directory(new, old)
            return
        try:
            if any(store.list_children(f"{new}/")):
                raise AlreadyExistsError(f"{self._final.text} was made by another process meanwhile")
            check_outside_arrays(self._final)
        except BaseException:
            store.exchange_directories(new, old, f"{new}-old")
            raise
        store.delete(new)

    def discard(self) -> None:
        """Delete a new store that would have replaced old data, which stays."""
        replacement, self._replacement = self._replacement, None
        if replacement is not None:
            replacement.discard()

    def remove(self) -> None:
        """Delete a new store where nothing was before, and the groups that were made for it."""
        if self._made is not None:
            delete_own(self._final)
            remove_groups(self._made)


def _synced(location: Location) -> Location:
    """Return a location whose store waits for each write."""
    store = location.store
    return location._replace(store=store.base) if isinstance(store, UnsyncedStore) else location
