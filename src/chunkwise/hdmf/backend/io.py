"""``ZarrIO``: hdmf containers in Zarr v2, Zarr v3 and N5 stores."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any, Literal, cast

import numcodecs
from hdmf.backends.errors import UnsupportedOperation
from hdmf.backends.utils import WriteStatusTracker
from hdmf.build import BuildManager, TypeMap
from hdmf.spec import NamespaceCatalog

from chunkwise.errors import (
    FailedPreconditionError,
    InvalidArgumentError,
    UnlistedError,
    UnsupportedError,
)
from chunkwise.extension import KvStoreDriver
from chunkwise.extension.inside import Pool, check_choice, is_url, shown_text
from chunkwise.extension.trees import Destination, Location, Mode, Replacement
from chunkwise.hdmf.backend.builders import BuilderTree
from chunkwise.hdmf.backend.lazy import LazyGroup
from chunkwise.hdmf.backend.writing import StoreWriting
from chunkwise.hdmf.model.codecs import check_compressor
from chunkwise.hdmf.model.place import (
    Place,
    is_nested,
    is_read_only,
    is_store_of_zarr2,
    place_of,
    source_name,
    with_login,
    with_storage_options,
)
from chunkwise.hdmf.model.tree import Format, detect_format
from chunkwise.hdmf.opening import (
    NewStore,
    destination_of,
    is_root_of_hdmf,
    new_store,
    no_store,
    open_store,
)
from chunkwise.hdmf.replacement import finish_replacement
from chunkwise.hdmf.storage.large_datasets import LargeDatasets
from chunkwise.hdmf.storage.node_writer import NodeWriter, UnsyncedStore
from chunkwise.hdmf.storage.resolve import ExternalLinks, StoreSet
from chunkwise.hdmf.storage.store import HdmfStore
from chunkwise.hdmf.storage.stream import BUFFER_NBYTES, StreamOptions, StreamProgress

__all__ = ["MODES", "ZarrIO"]

MODES = ("r", "r-", "r+", "a", "w", "w-", "x")


_FORMATS: dict[Any, Format] = {"zarr2": "zarr2", "zarr3": "zarr3", "n5": "n5", 2: "zarr2", 3: "zarr3"}


class ZarrIO(StoreWriting):
    """Reads and writes hdmf containers in a Zarr v2, Zarr v3 or N5 store.

    Parameters
    ----------
    path : str, path or KvStore
        Local path, URL, or kvstore whose prefix is the store; or a store object of zarr-python:
        of local files, in memory, or in a file system of fsspec.
    mode : {"r", "r-", "r+", "a", "w", "w-", "x"}
        ``"r-"`` reads without consolidated metadata; ``"w-"`` and ``"x"`` fail if the store exists.  With
        ``"w"`` the new store replaces an existing one when it is complete; other files in its directory stay.
    manager : BuildManager, optional
        By default one that knows no types.
    storage_options : dict, optional
        ``{"anon": True}`` for public buckets.
    force_overwrite : bool
        Whether mode ``"w"`` may replace something that is neither array nor group, even a file.
    format : {"zarr2", "zarr3", "n5"}, 2 or 3, optional
        Of a new store; by default as its name says, as the group around it, or else Zarr v3, and Zarr v2 for
        a store object of zarr-python 2.
    object_codec : {"json", "pickle"}
        Form of references in Zarr v2 datasets; pickles, which are never executed here, are for readers that
        need them.
    allow_external_links : {"siblings", "any", "none"}
        Other stores that links may lead to; see `chunkwise.hdmf.storage.resolve.StoreSet`.
    link_roots : sequence of str
        Directories or URLs below which links may always lead.
    strict_links : bool
        Whether a broken link is an error; otherwise it is left out with a `BrokenLinkWarning`.
    consolidated : bool or "check"
        Whether consolidated metadata is used in mode ``"r"``.
    attribute_types : bool
        Whether types of attributes that JSON loses, such as uint32, are recorded.
    region_attributes : {"spec", "compat"}
        Form of region references in attributes of Zarr v2; hdmf-zarr opens only files with the second.
    buffer_nbytes : int
        Limit on streamed data that waits to be stored.
    progress : callable, optional
        Called with path, rows done and rows expected.
    codec : str, JSON or object, optional
        The compressor of all new arrays, whatever their data asks for; False for none.
    herd_path : str, optional
        Path of hdmf's file of external resources.
    copies : LargeDatasets, optional
        Lets workers copy the large datasets of a new store; see `chunkwise.hdmf.convert`.
    replacement : Replacement, optional
        Place of these copies until they replace the old store.

    Raises
    ------
    FileExistsError
        In modes ``"w-"`` and ``"x"`` if there is something; in ``"w"`` if it is neither array nor group.
    FileNotFoundError
        In modes that read if there is no store.
    """

    _found: HdmfStore | None = None
    """The store at the path, if it was looked up already: it is parsed once."""

    _to: Destination | None = None
    """The place of a new store, until the first write."""

    def __init__(
        self,
        path: Place,
        mode: str = "r",
        manager: BuildManager | None = None,
        storage_options: dict[str, Any] | None = None,
        force_overwrite: bool = False,
        *,
        format: str | int | None = None,
        object_codec: Literal["json", "pickle"] = "json",
        object_codec_class: Any = None,
        allow_external_links: ExternalLinks = "siblings",
        link_roots: Sequence[str] = (),
        strict_links: bool = False,
        consolidated: bool | Literal["check"] = True,
        attribute_types: bool = True,
        region_attributes: Literal["spec", "compat"] = "spec",
        buffer_nbytes: int = BUFFER_NBYTES,
        progress: StreamProgress | None = None,
        codec: Any = None,
        herd_path: str | None = None,
        copies: LargeDatasets | None = None,
        replacement: Replacement | None = None,
    ) -> None:
        check_choice(mode, "mode", MODES)
        if format is not None and format not in _FORMATS:
            raise InvalidArgumentError(f"format is {format!r}, but expected zarr2, zarr3 or n5")
        if object_codec_class is not None:
            object_codec = _codec_of_class(object_codec_class)
        for name, value, known in (
            ("object_codec", object_codec, ("json", "pickle")),
            ("allow_external_links", allow_external_links, ("siblings", "any", "none")),
            ("region_attributes", region_attributes, ("spec", "compat")),
            ("consolidated", consolidated, (True, False, "check")),
        ):
            check_choice(value, name, known)
        if mode not in ("r", "r-") and is_read_only(path):
            raise InvalidArgumentError(f"{path} is read-only, so mode {mode!r} is impossible")
        self._place = with_storage_options(path, storage_options)
        self._path = path
        self._source = source_name(path)
        self._mode = mode
        self._force = force_overwrite
        self._format = None if format is None else _FORMATS[format]
        self._pickled = object_codec == "pickle"
        self.external_links = allow_external_links
        self._roots = tuple(link_roots)
        self._strict = strict_links
        self._consolidated: bool | Literal["check"] = False if mode == "r-" else consolidated
        self._keep_types = attribute_types
        self._compat_regions = region_attributes == "compat"
        self._stream_options = StreamOptions(buffer_nbytes, progress)
        if self._format is not None:
            check_compressor(codec, self._format)
        self._codec = codec
        self._copies = copies
        self._chosen = replacement
        self._new: NewStore | None = None
        self._pool = Pool()
        self._store: HdmfStore | None = None
        self._stores: StoreSet | None = None
        self._tree: BuilderTree | None = None
        self._writer: NodeWriter | None = None
        self._consolidate = True
        self._failed = False
        self._tracker = WriteStatusTracker()
        self._containers: dict[int, tuple[Any, Any]] = {}
        if manager is None:
            manager = BuildManager(TypeMap(NamespaceCatalog()))
        super().__init__(manager=manager, source=self._source, herd_path=herd_path)
        # hdmf takes URLs whose schemes it doesn't know for local paths.
        self._HDMFIO__source = self._source

    # -- what it is -------------------------------------------------------------------------------

    @property
    def source(self) -> str:
        """Name of the store, which all its builders carry."""
        return self._source

    @property
    def path(self) -> Any:
        """The absolute path, or the URL or kvstore that was given."""
        if isinstance(self._path, str | os.PathLike) and not is_url(os.fspath(self._path)):
            return os.path.abspath(os.fspath(self._path))
        return self._path

    @property
    def abspath(self) -> str:
        """Absolute path or URL of the store."""
        return self._source

    @property
    def mode(self) -> str:
        """Mode in which it was opened."""
        return self._mode

    @property
    def object_codec_class(self) -> type[numcodecs.abc.Codec]:
        """Codec of references in Zarr v2 datasets that are written: ``numcodecs.JSON`` or ``Pickle``."""
        return numcodecs.Pickle if self._pickled else numcodecs.JSON  # type: ignore[no-any-return]

    @property
    def writable(self) -> bool:
        """True if the store may be changed."""
        return self._mode not in ("r", "r-")

    @property
    def store(self) -> HdmfStore:
        """The open store: its groups, datasets and links without hdmf.

        Raises
        ------
        UnsupportedOperation
            If it is closed.
        """
        if self._store is None:
            raise UnsupportedOperation(f"{self._source} is closed")
        return self._store

    @property
    def file(self) -> LazyGroup | None:
        """The root of the store, as a group with attributes; None if the store is closed."""
        return None if self._store is None else LazyGroup(self)

    _file = file  # pynwb hands it to load_namespaces

    @staticmethod
    def can_read(path: Any) -> bool:
        """Return True if there is a store with HDMF data at a path or URL; never raises."""
        try:
            return is_root_of_hdmf(open_store(place_of(path, patient=False)).tree.nodes["/"].attributes)
        except Exception:  # hdmf asks each backend about any file: after any error, it is another's
            return False

    def is_open(self) -> bool:
        """Return True if it is open."""
        return getattr(self, "_store", None) is not None

    def is_remote(self) -> bool:
        """Return True if the store is not in a local file system."""
        return self.store.location.base.get("driver") != "file"

    # -- opening and closing ----------------------------------------------------------------------

    def open(self) -> None:
        """Open the store if it is closed."""
        if self._store is not None:
            return
        location = place_of(self._place)
        found = detect_format(location) if self._found is None else self._found.format
        if self._mode in ("w", "w-", "x") or (self._mode == "a" and found is None):
            self._to = self._destination()
            check_compressor(self._codec, cast(Format, self._to.format))
            at = location._replace(store=cast(KvStoreDriver, UnsyncedStore(location.store)))
            self._store = new_store(at, self._source, cast(Format, self._to.format), self._pool)
        elif found is None:
            raise no_store(location, self._source)
        else:
            store = self._open_own(location, "r+" if self._mode == "a" else self._mode)
            if store.is_dataset("/"):
                raise FailedPreconditionError(f"{self._source} is an array, not a group with HDMF data")
            self._store, store.source = store, self._source
            if self.writable:
                try:
                    finish_replacement(store)
                except UnlistedError:
                    raise UnsupportedError(
                        f"{self._source} is on a web server, which can only be read: "
                        f"mode {self._mode!r} is impossible"
                    ) from None
        self._stores = StoreSet(self._store, self._open_other, self.external_links, self._roots)
        self._tree = BuilderTree(self, self._stores, strict=self._strict)
        if self.writable:
            self._writer = NodeWriter(
                self._store,
                pickled=self._pickled,
                compat_regions=self._compat_regions,
                nested=is_nested(self._path),
                codec=self._codec,
            )

    def _open_own(self, location: Location, mode: str) -> HdmfStore:
        found, self._found = self._found, None
        if found is not None and mode == "r" and self._consolidated is True:
            found.pool = self._pool
            return found
        return open_store(
            location, consolidated=self._consolidated if mode == "r" else False, pool=self._pool
        )

    def _destination(self) -> Destination:
        mode: Mode = "vacant" if self._mode != "w" else "force" if self._force else "replace"
        default: Literal["zarr2", "zarr3"] = "zarr2" if is_store_of_zarr2(self._path) else "zarr3"
        return destination_of(self._place, self._format, mode, default)

    def _begin(self) -> None:
        if self._to is None:
            return
        going_on = self._copies is not None and self._copies.begun and self._chosen is None
        state = None if going_on else self._destination().state  # others may have written since
        self._new = NewStore(self.store.location, self.store.format, state, self._chosen)
        self.store.location = self._new.location
        self.store.guard.begin(self._new.mark, is_first=self._new.is_first)
        self._to = None

    def _take_place(self) -> None:
        if self._new is None or not self._new.is_pending:
            return
        self.store.move(self._new.commit())
        if self._consolidate and self._writer is not None:
            self._writer.renew_copies()

    def _discard_new(self) -> None:
        if self._new is not None and (self._copies is None or not self._copies.begun):
            self._new.discard()

    def _open_other(self, name: str) -> HdmfStore:
        return open_store(with_login(name, self._place), pool=self._pool)

    def reopened(self, store: HdmfStore) -> tuple[type[ZarrIO], Any, dict[str, Any]]:
        """Return the class, place and options that open one of this object's stores in another process."""
        options: dict[str, Any] = {
            "mode": "r-" if self.writable else "r",
            "allow_external_links": self.external_links,
            "link_roots": self._roots,
        }
        if store is self._store:
            place = self._place
            return type(self), shown_text(place) if isinstance(place, str) else place, options
        return type(self), store.source, options

    def close(self) -> None:
        """Update consolidated metadata if data was changed, and close the store."""
        store, writer = getattr(self, "_store", None), getattr(self, "_writer", None)
        if store is None:
            return
        try:
            if writer is not None and writer.changed and not self._failed:
                self._finish(self._consolidate)
        finally:
            self._discard_new()
            self._store = self._stores = self._tree = self._writer = self._to = None
            self._containers.clear()

    def __exit__(self, kind: Any, value: Any, traceback: Any) -> None:
        if kind is not None and self._new is not None and self._new.is_pending:
            self._failed = True  # an incomplete store must not replace the old one
        self.close()


def _codec_of_class(given: Any) -> Literal["json", "pickle"]:
    name = getattr(given, "codec_id", None) or getattr(given, "__name__", str(given))
    known: dict[str, Literal["json", "pickle"]] = {
        "json2": "json",
        "pickle": "pickle",
        "JSON": "json",
        "Pickle": "pickle",
    }
    if name not in known:
        raise InvalidArgumentError(f"object_codec_class is {given!r}, but expected numcodecs' JSON or Pickle")
    return known[name]
