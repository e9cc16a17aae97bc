"""Reading elements of a stack's layers without opening each layer, in local files or in memory.

Opening a chunked array means reading its metadata document and comparing it with the spec.  Both happen here
too, at each operation, but objects derived from a document are made once for all layers that have the same
document and differ only in path and transform.  Other layers, and layers with an error, have no source: they
are opened like any array, which raises the error.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from operator import le
from time import time
from typing import Any, NamedTuple, TypeAlias

import numpy.typing as npt

from chunkwise.core.arrays.base_array import Base
from chunkwise.core.base.catalogue import ARRAYS, arrays
from chunkwise.core.driver.chunked.documents import layout_of
from chunkwise.core.driver.chunked.flows import open_array
from chunkwise.core.driver.chunked.spec import ChunkedSpec
from chunkwise.core.driver.in_memory import ArraySpec
from chunkwise.core.driver.stack_layers import kind_of
from chunkwise.core.driver.stored_array import StoredArray
from chunkwise.core.engine.requests import is_simple
from chunkwise.core.engine.sources import decoding_of
from chunkwise.core.index_space import IndexDomain, IndexTransform
from chunkwise.core.kvstore.files.file_store import FileStore
from chunkwise.core.kvstore.files.path import is_valid
from chunkwise.core.kvstore.protocol import UNKNOWN_GENERATION, Reader, Stamped
from chunkwise.core.specs.kvstores.local import FileKvStoreSpec
from chunkwise.core.specs.spec import Spec
from chunkwise.errors import ChunkwiseError

__all__ = ["FILES", "FindSource", "LayerSource", "Templates", "find_of_base", "find_of_spec", "no_source"]

FILES = FileStore("/")
"""The store of the prefixes of sources."""
# The module is only loaded if a layer must be opened.
_OPENED_BY_DOCUMENT = [name for name, entry in ARRAYS.items() if entry.target == ARRAYS["zarr3"].target]


class LayerSource(NamedTuple):
    """The elements of one layer."""

    array: StoredArray | npt.NDArray[Any]  # the array, with its keys below `prefix`; or elements in memory
    prefix: str  # prefix in `FILES`
    fill_missing: bool  # True if missing chunks read as the fill value
    offsets: tuple[int, ...]  # offset from the stack to each dimension of the array; or a constant index
    # the stack's dimension for each of the array's, ascending; None if constant
    dims: tuple[int | None, ...]
    kind: tuple[object, ...]  # equal for sources that can share a table of requests, as long as they live


FindSource: TypeAlias = Callable[[Reader], LayerSource | None]
"""Returns the source of one layer, or None; called with a reader of `FILES`."""


def no_source(fetch: Reader) -> None:
    """Return None: the layer must be opened."""


class _Offsets(NamedTuple):
    """Offsets and dims of a source, and the upper bounds of the layer in its array."""

    offsets: tuple[int, ...]
    dims: tuple[int | None, ...]
    stops: tuple[int, ...]

    @classmethod
    def of(cls, transform: IndexTransform | None, domain: IndexDomain) -> _Offsets | None:
        """Return the offsets of a layer of this domain; None with strides, index arrays or transpositions."""
        lower, upper = domain._lo, domain._hi
        output = (IndexTransform.identity(domain) if transform is None else transform)._output
        offsets, stops = [], []
        dims: list[int | None] = []
        last = -1
        for m in output:
            dim, offset = m._dim, m._offset
            if m._array is not None or (dim is not None and (dim <= last or m._stride != 1)):
                return None
            start, stop = (0, 1) if dim is None else (lower[dim], upper[dim])
            if start + offset < 0:
                return None
            last = last if dim is None else dim
            offsets.append(offset)
            dims.append(dim)
            stops.append(stop + offset)
        return cls(tuple(offsets), tuple(dims), tuple(stops))

    def source(
        self, array: StoredArray | npt.NDArray[Any], prefix: str, fill_missing: bool, *kind: object
    ) -> LayerSource | None:
        """Return the source of a layer of this array; None if the layer leads outside it."""
        if len(array.shape) != len(self.stops) or not all(map(le, self.stops, array.shape)):
            return None
        return LayerSource(array, prefix, fill_missing, self.offsets, self.dims, (*kind, self.dims))


def find_of_spec(spec: Spec, domain: IndexDomain, templates: Templates) -> FindSource:
    """Return the function that finds the source of a layer with a bound spec and this domain in the stack."""
    driver, offsets = spec._driver, _Offsets.of(spec.transform, domain)
    if offsets is None:
        return no_source
    if type(driver) is ArraySpec:
        try:
            driver.check()
        except ChunkwiseError:
            return no_source
        return _find_in_memory(driver.array, offsets)
    kvstore = driver.kvstore
    if not isinstance(driver, ChunkedSpec) or type(kvstore) is not FileKvStoreSpec:
        return no_source
    path = kvstore.path
    if path[:1] != "/" or path[-1:] != "/" or not is_valid(path[1:-1]):
        return no_source
    if driver.format.contained and ".n5" in path:  # the container must be checked
        return no_source
    name = kind_of(driver, kvstore)
    if name not in templates:
        templates[name] = _Template.of(driver)
    template, prefix = templates[name], path[1:]
    if template is None:
        return no_source
    key, array_of = prefix + template.key, template.array_of

    def current(fetch: Reader) -> StoredArray | None:
        document = fetch(key)
        return None if document is None else array_of(bytes(document))

    return _find_in_files(current, offsets, prefix, template.fill_missing)


class _Template(NamedTuple):
    """Specs that differ only in the path: the document's key, and the function from it to the array."""

    key: str
    array_of: Callable[[bytes], StoredArray | None]
    fill_missing: bool

    @classmethod
    def of(cls, driver: ChunkedSpec) -> _Template | None:
        """Return the template of a bound spec; None if opening takes more than reading the document."""
        try:
            mode = driver.mode.resolved()
        except ChunkwiseError:
            return None
        if (
            arrays.changed
            or driver.driver not in _OPENED_BY_DOCUMENT
            or driver.lazy
            or any(set for name, set in mode.to_flags().items() if name != "open")
            or not (driver.recheck_cached_metadata is True or driver.recheck_cached_metadata == "open")
            or any(pool.total_bytes_limit for pool in (driver.metadata_pool, driver.resource("cache_pool")))
            or driver.kvstore is None
            or driver.kvstore.live("file_io_mode").mode != "default"
            or driver.kvstore.live("file_io_concurrency").limit is not None
        ):
            return None
        request = driver.open_request("", FILES.describe)

        @lru_cache
        def array_of(document: bytes) -> StoredArray | None:
            flow = open_array(request)
            try:
                next(flow)
                flow.send(Stamped(document, UNKNOWN_GENERATION, time()))
            except StopIteration as end:
                return layout_of(request.format, end.value.metadata, "", request.options).stored
            except ChunkwiseError:
                return None
            flow.close()
            return None

        return cls(request.key, array_of, driver.fill_missing_data_reads)


Templates: TypeAlias = "dict[object, _Template | None]"
"""The templates of earlier specs, by their common parts."""


def _find_in_memory(elements: npt.NDArray[Any], offsets: _Offsets) -> FindSource:
    source = offsets.source(elements, "", True, "memory")
    return lambda fetch: source


def _find_in_files(
    current: Callable[[Reader], StoredArray | None],
    offsets: _Offsets,
    prefix: str,
    fill_missing: bool,
) -> FindSource:
    """Return the function that finds the source of a layer in files; `current` returns its current array."""
    known: tuple[StoredArray | None, LayerSource | None] = None, None

    def find(fetch: Reader) -> LayerSource | None:
        nonlocal known
        array, found = current(fetch), known  # one tuple, since several threads may read it at once
        if found[0] is not array:
            source = None
            if array is not None and is_simple(array):
                # arrays opened separately have equal chains, not the same one
                decoding = decoding_of(array.chain) or id(array.chain)
                source = offsets.source(array, prefix, fill_missing, decoding, array.keys, fill_missing)
            found = known = array, source
        return found[1]

    return find


def find_of_base(base: Base, domain: IndexDomain) -> FindSource:
    """Return the function that finds the source of an open layer, respecting its staleness bound."""
    array = base.array
    # A change of metadata doesn't change the outputs of the transform, so the offsets stay too.
    offsets = _Offsets.of(base.transform, domain)
    if offsets is None or not array.readable:
        return no_source
    from chunkwise.core.arrays.chunked import ChunkedArray  # few stacks have open layers
    from chunkwise.core.arrays.memory_array import MemoryArray

    if type(array) is MemoryArray:
        return _find_in_memory(array.elements, offsets)
    if type(array) is not ChunkedArray:
        return no_source
    store = array.store
    if type(store) is not FileStore or store.io_mode != "default" or store.root[:1] != "/":
        return no_source
    prefix = store.root[1:]
    if not is_valid(prefix[:-1]):
        return no_source

    def current(fetch: Reader) -> StoredArray | None:
        try:
            return array.current()
        except ChunkwiseError:
            return None

    return _find_in_files(current, offsets, prefix, array.fill_missing)
