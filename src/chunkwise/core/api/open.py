"""``open``: the array of a spec, a URL or a path."""

from __future__ import annotations

import copyreg
import os
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import numpy.typing as npt

from chunkwise.core.api.spec_cache import cache_spec, cached_spec, read_spec_file, spec_key
from chunkwise.core.api.tensorstore import TensorStore
from chunkwise.core.api.transaction import Transaction, check_transaction, not_open, wrap_of
from chunkwise.core.base.arguments import as_sequence
from chunkwise.core.base.binding import JSON, not_too_deep
from chunkwise.core.base.catalogue import arrays
from chunkwise.core.dtypes.data_type import DTypeLike
from chunkwise.core.engine.abandoned_changes import EVERYWHERE
from chunkwise.core.engine.batch import Batch, check_batch
from chunkwise.core.engine.derived_futures import map_future
from chunkwise.core.engine.future import Future
from chunkwise.core.engine.unasked import in_background, watches
from chunkwise.core.index_space import IndexDomain, IndexTransform
from chunkwise.core.specs.chunk_layout import ChunkLayout
from chunkwise.core.specs.codec_spec import CodecSpec
from chunkwise.core.specs.context import Context
from chunkwise.core.specs.kvstore_spec import KvStoreSpec, Locatable, is_kvstore_object, place_of
from chunkwise.core.specs.open_mode import OpenMode
from chunkwise.core.specs.schema import Schema
from chunkwise.core.specs.schema_constraints import SchemaKeywords
from chunkwise.core.specs.spec import Spec
from chunkwise.core.specs.storage_options import with_storage_options
from chunkwise.core.specs.unit import DimensionUnits, Unit
from chunkwise.core.specs.url import is_url, spec_json_from_path
from chunkwise.errors import (
    ChunkwiseError,
    InvalidArgumentError,
    OutOfBoundsError,
    as_value_error,
    prefix,
)

if TYPE_CHECKING:
    from chunkwise.core.api.kvstore import KvStore
    from chunkwise.core.specs.public_kvstore_spec import Spec as StoreSpec

__all__ = [
    "OTHERS_LEFT",
    "SpecLike",
    "create_checked",
    "is_place",
    "open",
    "open_spec",
    "other_images",
    "others_left",
    "spec_of",
]

OTHERS_LEFT = "left out of"
"""Beginning of the note on other images of a file."""

_IMAGE_FILE, _SHOWN = "tiff_images", 10


def _with_axes_of_file(store: TensorStore, named: KvStoreSpec | None) -> TensorStore:
    """Return an array of an image file with the file's labels and units; other arrays unchanged.

    A warning tells of further images in a file that is `named` alone.
    """
    kvstore = store._array.spec().key_value_store
    if kvstore is None or kvstore.driver != _IMAGE_FILE or named is None:
        return store
    is_file = named.driver != _IMAGE_FILE or not named.path
    if is_file and (others := other_images(kvstore)):
        from chunkwise.core.base.public_names import warn_caller  # rarely needed

        file, key = named.open_driver()
        warn_caller(f"{file.describe(key)}: {others_left(others)}")
    attributes = store.attrs
    units, names = attributes.get("dimension_units"), attributes.get("_ARRAY_DIMENSIONS")
    if units is not None and not any(store.dimension_units):
        store = store._with_units(tuple(None if unit is None else Unit(unit) for unit in units))
    return store if names is None or any(store.domain.labels) else store.label[tuple(names)]


def other_images(kvstore: KvStoreSpec | None) -> list[str]:
    """Return the names of the images after the first in a TIFF file, of which `kvstore` has a part."""
    if kvstore is None or kvstore.driver != _IMAGE_FILE:
        return []
    children = kvstore.open_driver()[0].list_children("")
    return [name.rstrip("/") for name in children.prefixes if name.startswith("image")]


def others_left(names: Sequence[str], root: str = "") -> str:
    """Return the note that the images called `names`, below `root`, are not the one that is opened."""
    shown = ", ".join(f"{root}{name}" for name in names[:_SHOWN]) + (", …" if len(names) > _SHOWN else "")
    return f"{OTHERS_LEFT} {len(names) + 1} images in the file, of which this is the first: {shown}"


SpecLike: TypeAlias = "Spec | JSON | str | os.PathLike[str]"
"""A spec, its JSON, a URL, the path of a local array, or a store object of another library."""


def spec_of(spec: SpecLike) -> Spec:
    """Return `spec` as a Spec; text without a URL scheme is a local path."""
    if isinstance(spec, Spec):
        return spec.copy()
    if isinstance(spec, TensorStore):
        raise TypeError("expected a spec, got a TensorStore")
    if isinstance(spec, os.PathLike) or (
        isinstance(spec, str) and not is_url(spec) and not _is_adapter(spec)
    ):
        return Spec(spec_json_from_path(spec))
    is_open = isinstance(spec, Locatable)
    if is_open or (is_kvstore_object("kvstore", spec) and _is_store_object(spec)):
        return Spec({"driver": "auto", "kvstore": spec})
    its = place_of(spec)
    if its:
        raise TypeError(
            f"expected a path, a URL, a spec or a store, got {type(spec).__name__}; give its place, {its}"
        )
    return Spec(spec)


def is_place(value: object) -> bool:
    """Return True for an argument of `open` other than a Spec: a path, URL, JSON, or any store."""
    if isinstance(value, str | os.PathLike | Mapping | Locatable):
        return not isinstance(value, TensorStore)
    return not isinstance(value, Spec) and is_kvstore_object("kvstore", value) and _is_store_object(value)


def _is_store_object(spec: object) -> bool:
    from chunkwise.core.specs.kvstores.object import is_store_object  # imports the stores of other libraries

    return is_store_object(spec)


def _is_adapter(text: str) -> bool:
    return text == "" or text.partition(":")[0] in (
        "n5",
        "zarr2",
        "zarr3",
        "zarr1",
        "auto",
        "cast",
        "zip",
        "json",
    )


@watches
def open(
    spec: SpecLike,
    *,
    read: bool | None = None,
    write: bool | None = None,
    open_mode: OpenMode | None = None,
    open: bool | None = None,
    create: bool | None = None,
    delete_existing: bool | None = None,
    assume_metadata: bool | None = None,
    assume_cached_metadata: bool | None = None,
    context: Context | None = None,
    transaction: Transaction | None = None,
    batch: Batch | None = None,
    kvstore: KvStore | StoreSpec | None = None,
    recheck_cached_metadata: bool | float | Literal["open"] | None = None,
    recheck_cached_data: bool | float | Literal["open"] | None = None,
    recheck_cached: bool | float | Literal["open"] | None = None,
    rank: int | None = None,
    dtype: DTypeLike | None = None,
    domain: IndexDomain | None = None,
    shape: Iterable[int] | None = None,
    chunk_layout: ChunkLayout | None = None,
    codec: CodecSpec | None = None,
    fill_value: npt.ArrayLike | None = None,
    dimension_units: Iterable[Unit | str | float | tuple[float, str] | None] | None = None,
    schema: Schema | None = None,
    storage_options: Mapping[str, Any] | None = None,
    field: str | None = None,
) -> Future[TensorStore]:
    """Open or create an array.

    Parameters
    ----------
    spec : Spec, JSON, str or path-like
        The array to open: a spec, its JSON, a file ``*.json`` with that, a URL, or the path of a local array,
        whose format is detected.  A store of zarr-python or obstore, a file system or mapper of fsspec, a
        path of universal_pathlib or an object with the methods of a kvstore must have the array at its root.
    read, write : bool, optional
        Requested access; by default everything that the array allows.
    open_mode, open, create, delete_existing, assume_metadata, assume_cached_metadata
        Open mode; see `OpenMode`.
    context : Context, optional
        Source of shared resources; by default new ones.
    transaction : Transaction, optional
        Transaction of reads and writes.
    batch : Batch, optional
        Requests for opening start with the batch.
    kvstore : KvStore or KvStore.Spec, optional
        Location of the array, if not in `spec`.
    recheck_cached_metadata, recheck_cached_data, recheck_cached : bool, "open" or float, optional
        Staleness bounds of cached data; `recheck_cached` sets both.
    rank, dtype, domain, shape, chunk_layout, codec, fill_value, dimension_units, schema
        Constraints on the array, or properties of a new one; see `Schema`.  They are added to the spec's.
    storage_options : mapping, optional
        Options of fsspec for a URL, such as ``{"anon": True}``; see `chunkwise.core.specs.storage_options`.
    field : str, optional
        Name of a field of the elements, which are records; the result is that of ``array[field]``.

    Returns
    -------
    Future of TensorStore

    Raises
    ------
    ValueError, TypeError
        At once if the spec or an option is malformed; other errors come through the future.

    Examples
    --------
    >>> import chunkwise
    >>> store = chunkwise.open(
    ...     "memory://|zarr3", create=True, dtype=chunkwise.uint16, shape=[4, 6]
    ... ).result()
    >>> store[1, 2:4] = [7, 8]
    >>> store[0:2, 1:5].read().result()
    array([[0, 0, 0, 0],
           [0, 7, 8, 0]], dtype=uint16)
    """
    if context is not None and not isinstance(context, Context):
        raise TypeError("Invalid context")
    check_transaction(transaction)
    check_batch(batch)
    if kvstore is not None:
        from chunkwise.core.api.kvstore import KvStore

        if isinstance(kvstore, KvStore):
            transaction = _common_transaction(transaction, kvstore.transaction)
            kvstore = kvstore.spec(retain_context=True)
    flags = (open, create, delete_existing, assume_metadata, assume_cached_metadata)
    if isinstance(spec, str | os.PathLike):
        try:
            spec = read_spec_file(spec, context) or spec
        except ChunkwiseError as e:
            return Future.failed(e)
    others = (open_mode, kvstore, recheck_cached_metadata, recheck_cached_data, recheck_cached, rank, dtype,
              domain, shape, chunk_layout, codec, fill_value, dimension_units, schema)  # fmt: skip
    key = None
    if all(option is None for option in others):
        key = spec_key(spec, flags)
        parsed = None if key is None else cached_spec(key)
        if parsed is not None:
            return _start(parsed, read, write, context, transaction, batch, field)
    schema_options: SchemaKeywords = {
        "rank": rank,
        "dtype": dtype,
        "domain": domain,
        "shape": None if shape is None else as_sequence(shape, "shape"),
        "chunk_layout": chunk_layout,
        "codec": codec,
        "fill_value": fill_value,
        "dimension_units": (
            None if dimension_units is None else as_sequence(dimension_units, "dimension_units")
        ),
        "schema": schema,
    }
    # Invalid options are an error of the call; options that don't fit the spec are an error of opening.
    Schema(**schema_options)
    parsed = spec_of(with_storage_options(spec, storage_options))
    try:
        parsed.update(
            open_mode=open_mode,
            open=open,
            create=create,
            delete_existing=delete_existing,
            assume_metadata=assume_metadata,
            assume_cached_metadata=assume_cached_metadata,
            kvstore=kvstore,
            recheck_cached_metadata=recheck_cached_metadata,
            recheck_cached_data=recheck_cached_data,
            recheck_cached=recheck_cached,
            **schema_options,
        )
    except ChunkwiseError as e:
        return Future.failed(e)

    if key is not None:
        cache_spec(key, parsed)
    return _start(parsed, read, write, context, transaction, batch, field)


def _start(
    spec: Spec,
    read: bool | None,
    write: bool | None,
    context: Context | None,
    transaction: Transaction | None,
    batch: Batch | None,
    field: str | None,
) -> Future[TensorStore]:
    def open_it() -> Future[TensorStore]:
        opened = open_spec(spec, read, write, context, transaction)
        return opened if field is None else map_future(lambda array: array[field], opened)

    def start() -> Future[TensorStore]:
        if spec._driver.is_remote:
            mode = spec.open_mode
            changes = EVERYWHERE if mode.create or mode.delete_existing else None
            return in_background(lambda: open_it().result(), writes=changes)
        return open_it()

    if batch is None:
        return start()
    driver = spec._driver
    at_once = driver.in_memory or driver.driver == "stack"  # its layers are opened later
    return batch.defer(start, at_once=at_once)


def _common_transaction(given: Transaction | None, of_kvstore: Transaction | None) -> Transaction | None:
    if given is not None and of_kvstore is not None and given is not of_kvstore:
        raise InvalidArgumentError("Invalid kvstore: Inconsistent transactions specified")
    return given or of_kvstore


@not_too_deep
def open_spec(
    spec: Spec,
    read: bool | None,
    write: bool | None,
    context: Context | None,
    transaction: Transaction | None,
    *,
    is_checked: bool = False,
) -> Future[TensorStore]:
    """Open a spec to which all options have been added; its place `is_checked` if it is in no array."""
    driver = spec._driver
    error = not_open(transaction)
    if error is not None:
        return Future.failed(error)
    try:
        if read and not write and driver.own_mode().create:
            raise InvalidArgumentError("Cannot specify an open mode of `create` without `write`")
        bound = driver.bind(context or Context())
        options: dict[str, Any] = {} if transaction is None else {"wrap": wrap_of(transaction)}
        if is_checked:
            options["is_checked"] = True
        array = arrays.find(driver.driver)(
            bound, readable=bool(read or not write), writable=bool(write or not read), **options
        )
        if (write and not array.writable) or (read and not array.readable):
            raise InvalidArgumentError(f"only {'reading' if array.readable else 'writing'} is supported")
        if array.writable:  # what a write of another array needs; writes import nothing
            from chunkwise.core.api import copy  # noqa: F401
        if isinstance(array, TensorStore):
            store = array
        else:
            store = TensorStore._make(array, IndexTransform.identity(array.domain), transaction)
            store = _with_axes_of_file(store, bound.kvstore) if driver.driver == "auto" else store
        transform = spec.transform
        if transform is not None:
            store = _view(store, transform)
    except ChunkwiseError as e:
        return Future.failed(prefix(e, f'Error opening "{driver.driver}" driver'))
    return Future.ready(store)


def create_checked(spec: SpecLike, *, context: Context | None = None, **options: Any) -> TensorStore:
    """Create an array of a chunked format, at a place that the caller has checked; see `open`."""
    parsed = spec_of(spec)
    parsed.update(create=True, **options)
    return open_spec(parsed, None, None, context, None, is_checked=True).result()


def _view(store: TensorStore, transform: IndexTransform) -> TensorStore:
    try:
        return store[transform]
    except OutOfBoundsError as e:
        raise as_value_error(e) from None


def _reopen(spec: Spec, mode: str, units: DimensionUnits | None = None) -> TensorStore:
    lazy = Spec._of(spec._driver.unpickled(), spec.transform)
    store = open_spec(lazy, "r" in mode, "w" in mode, None, None).result()
    return store if units is None else store._with_units(units)


def _reopen_rows(spec: Spec, mode: str, rows: Any, transform: IndexTransform) -> TensorStore:
    array: Any = _reopen(spec, mode)._array
    return TensorStore._make(array.longer(rows.array.axis, rows.stop, rows), transform)


def _reduce(store: TensorStore) -> tuple[Any, ...]:
    if store.transaction is not None:
        raise InvalidArgumentError("Cannot serialize bound transaction")
    units = getattr(store._array, "given_units", None)
    rows = getattr(store._array, "wrap", None)
    if rows is not None:  # it is being appended to
        outside: Any = store._array
        spec = Spec._of(outside.in_transaction(None).spec(), None)
        return _reopen_rows, (spec, store.mode, rows, store._transform)
    return _reopen, (store.spec(retain_context=True), store.mode, *(() if units is None else (units,)))


copyreg.pickle(TensorStore, _reduce)
