"""Layers of a stack that are read without being opened one by one: in local files, or in memory.

To open a chunked array means to read its metadata document and to compare it with the spec.  Both happen
here, too, at each operation; but what follows from a document is found out once for all layers that have the
same one and differ in nothing but path and transform, and no handle is made.

A layer of any other kind, and one with which something is wrong, has no site: it is opened as any array is,
which tells what is the matter.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any, NamedTuple, TypeAlias

import numpy.typing as npt

from chunkwise.arrays.based import Base
from chunkwise.arrays.chunked import ChunkedArray
from chunkwise.arrays.layer_place import LayerPlace
from chunkwise.arrays.memory_array import MemoryArray
from chunkwise.arrays.open_chunked import open_chunked
from chunkwise.catalogue import arrays
from chunkwise.driver.array.spec import ArraySpec
from chunkwise.driver.chunked.known_documents import layout_of
from chunkwise.driver.chunked.open_flow import open_array
from chunkwise.driver.chunked.spec import ChunkedSpec
from chunkwise.driver.stack.alike import kind_of
from chunkwise.driver.stored_array import StoredArray
from chunkwise.engine.pool import Pool, pool_of
from chunkwise.engine.requests import is_simple
from chunkwise.errors import ChunkwiseError
from chunkwise.index_space import IndexDomain
from chunkwise.kvstore.file import FileStore
from chunkwise.kvstore.file_path import is_valid
from chunkwise.kvstore.protocol import UNKNOWN_GENERATION, Reader, Stamped
from chunkwise.spec.kvstores.file import FileKvStoreSpec
from chunkwise.spec.spec import Spec

__all__ = ["FILES", "NO_SITE", "FileSite", "Finder", "MemorySite", "Site", "SpecSites", "open_finder"]

FILES = FileStore("/")
"""The store that the prefixes of sites are in."""

_MOST_DOCUMENTS = 512
_LARGEST_DOCUMENT = 1 << 12


class FileSite(NamedTuple):
    """A chunked array that boxes can be read from.

    Attributes
    ----------
    array : StoredArray
        With the keys that it has below `prefix`.
    prefix : str
        In :data:`FILES`.
    place : LayerPlace
        Of the layer in it.
    fill_missing : bool
        Whether missing chunks read as the fill value.
    pool : Pool or None
        Who works on what is too large for one worker, where the layer is a spec.
    """

    array: StoredArray
    prefix: str
    place: LayerPlace
    fill_missing: bool
    pool: Pool | None = None

    def below(self) -> StoredArray:
        """Return the array with the keys that it has in :data:`FILES`."""
        return replace(self.array, keys=self.array.keys.under(self.prefix))


class MemorySite(NamedTuple):
    """An array in memory.

    Attributes
    ----------
    elements : ndarray
    place : LayerPlace
        Of the layer in it.
    """

    elements: npt.NDArray[Any]
    place: LayerPlace


Site: TypeAlias = FileSite | MemorySite


class Finder(NamedTuple):
    """What finds the site of one layer.

    Attributes
    ----------
    find : callable
        Gives the site with a reader of :data:`FILES`, None if there is none; the same object as before as
        long as nothing has changed.
    lasting : bool
        Whether nothing changes before :attr:`SharedMetadata.state` does.
    """

    find: Callable[[Reader], Site | None]
    lasting: bool


NO_SITE = Finder(lambda fetch: None, lasting=True)
"""Of what has to be opened."""


class SpecSites:
    """The sites of layers that are given by specs."""

    def __init__(self) -> None:
        self._kinds: dict[object, _Kind | None] = {}

    def finder(self, spec: Spec, domain: IndexDomain) -> Finder:
        """Return what reads the metadata of a layer and gives its site.

        Parameters
        ----------
        spec : Spec
            Of the layer, bound.
        domain : IndexDomain
            Of the layer in the stack.
        """
        known = self._look_at(spec, domain)
        if known is None or isinstance(known, MemorySite):
            return Finder(lambda fetch: known, lasting=True)
        kind, prefix, place = known
        key = prefix + kind.key
        site: FileSite | None = None

        def find(fetch: Reader) -> Site | None:
            nonlocal site
            raw = fetch(key)
            array = None if raw is None else kind.array_of(bytes(raw))
            if array is None or not place.lies_in(array.shape):
                return None
            found = site
            if found is None or found.array is not array:
                found = site = FileSite(array, prefix, place, kind.fill_missing, kind.pool)
            return found

        return Finder(find, lasting=False)

    def _look_at(self, spec: Spec, domain: IndexDomain) -> tuple[_Kind, str, LayerPlace] | MemorySite | None:
        driver, place = spec._driver, LayerPlace.of(spec.transform, domain)
        if place is None:
            return None
        if type(driver) is ArraySpec:
            return _in_memory(driver, place)
        if not isinstance(driver, ChunkedSpec):
            return None
        kvstore = driver.kvstore
        if type(kvstore) is not FileKvStoreSpec:
            return None
        path = kvstore.path
        if path[:1] != "/" or path[-1:] != "/" or not is_valid(path[1:-1]):
            return None
        if driver.format.contained and ".n5" in path:  # the container is to be looked at
            return None
        name = kind_of(driver, kvstore)
        if name not in self._kinds:
            self._kinds[name] = _Kind.of(driver)
        kind = self._kinds[name]
        return None if kind is None else (kind, path[1:], place)


class _Kind:
    """Specs that differ in nothing but the path."""

    def __init__(self, driver: ChunkedSpec) -> None:
        self._request = driver.open_request("", FILES.describe)
        self.key = self._request.key
        self.fill_missing = driver.fill_missing_data_reads
        self.pool = pool_of(driver.resource("data_copy_concurrency"))
        self._arrays: dict[bytes, StoredArray | None] = {}

    @classmethod
    def of(cls, driver: ChunkedSpec) -> _Kind | None:
        """Return the kind of a bound spec; None if it takes more to open it than a look at the document."""
        try:
            mode = driver.mode.resolved()
        except ChunkwiseError:
            return None
        if (
            arrays.find(driver.driver) is not open_chunked
            or driver.lazy
            or any(set for name, set in mode.to_flags().items() if name != "open")
            or not (driver.recheck_cached_metadata is True or driver.recheck_cached_metadata == "open")
            or any(pool.total_bytes_limit for pool in (driver.metadata_pool, driver.resource("cache_pool")))
            or driver.kvstore is None
            or driver.kvstore.live("file_io_mode").mode != "default"
            or driver.kvstore.live("file_io_concurrency").limit is not None
        ):
            return None
        return cls(driver)

    def array_of(self, raw: bytes) -> StoredArray | None:
        """Return the array of a document, with keys below it; None if it can't be read here."""
        try:
            return self._arrays[raw]
        except KeyError:
            pass
        if len(raw) > _LARGEST_DOCUMENT:
            return self._opened(raw)
        if len(self._arrays) >= _MOST_DOCUMENTS:
            self._arrays.clear()
        array = self._arrays[raw] = self._opened(raw)
        return array

    def _opened(self, raw: bytes) -> StoredArray | None:
        request = self._request
        flow = open_array(request)
        try:
            next(flow)
            flow.send(Stamped(raw, UNKNOWN_GENERATION, time.time()))
        except StopIteration as end:
            return layout_of(request.format, end.value.metadata, "", request.options).stored
        except ChunkwiseError:
            return None
        flow.close()
        return None


def _in_memory(driver: ArraySpec, place: LayerPlace) -> MemorySite | None:
    try:
        driver.check()
    except ChunkwiseError:
        return None
    return MemorySite(driver.array, place) if place.lies_in(driver.array.shape) else None


def open_finder(base: Base, domain: IndexDomain) -> Finder:
    """Return what gives the site of a layer that is open, with metadata as its staleness bound says.

    Parameters
    ----------
    base : Base
    domain : IndexDomain
        Of the layer in the stack.
    """
    array = base.array
    # Metadata that changes leaves the outputs of the transform as they are, and so the place.
    place = LayerPlace.of(base.transform, domain)
    if place is None or not array.readable:
        return NO_SITE
    if type(array) is MemoryArray:
        in_memory = MemorySite(array.elements, place) if place.lies_in(array.elements.shape) else None
        return Finder(lambda fetch: in_memory, lasting=True)
    if type(array) is not ChunkedArray:
        return NO_SITE
    known: tuple[object, Site | None] = None, None

    def find(fetch: Reader) -> Site | None:
        nonlocal known
        try:
            stored = array.current()
        except ChunkwiseError:
            return None
        found = known
        if found[0] is not stored:
            found = known = stored, _open_site(array, stored, place)
        return found[1]

    return Finder(find, lasting=not array.rechecks)


def _open_site(array: ChunkedArray, stored: StoredArray, place: LayerPlace) -> Site | None:
    """Return the site of an open layer with metadata that is known to be current."""
    store = array.store
    if type(store) is not FileStore or store.io_mode != "default" or store.root[:1] != "/":
        return None
    prefix = store.root[1:]
    if not is_valid(prefix[:-1]) or not place.lies_in(stored.shape) or not is_simple(stored):
        return None
    return FileSite(stored, prefix, place, array.fill_missing)
