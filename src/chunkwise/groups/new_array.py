"""Creation of an array, in a group or by its location: its metadata is chosen, and written in a safe order.

Defaults are chunks of about a megabyte; ``zstd:3`` in Zarr v3; Blosc in Zarr v2, long the default of
zarr-python; ``gzip`` in N5, which every N5 reader has.  The metadata document is written last, so nothing
looks like an array before it is one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from chunkwise.copying.array_options import (
    Sizes,
    array_options,
    check_named,
    data_type,
    for_array,
    for_format,
    is_of_dask,
    read_shape,
)
from chunkwise.copying.array_template import ArrayTemplate
from chunkwise.copying.codec_option import CODEC_PARTS, parse_compressor
from chunkwise.copying.new_array import NewArray, target_spec
from chunkwise.copying.resolve import Place, resolve, whole_array
from chunkwise.core.api.held import type_of
from chunkwise.core.api.open import open as open_spec
from chunkwise.core.api.tensorstore import TensorStore
from chunkwise.core.base.arguments import check_flag
from chunkwise.core.base.binding import dump
from chunkwise.core.base.catalogue import hooks
from chunkwise.core.base.extras import is_of
from chunkwise.core.base.public_names import options_of
from chunkwise.core.driver.auto import NoFormatError
from chunkwise.core.driver.tree_formats import tree_format
from chunkwise.core.dtypes.as_array import as_numpy
from chunkwise.core.dtypes.data_type import DTypeLike
from chunkwise.core.index_space import IndexDomain
from chunkwise.core.specs.codec_spec import CodecSpec
from chunkwise.core.specs.context import Context
from chunkwise.core.specs.schema import Schema
from chunkwise.core.specs.storage_options import with_storage_options
from chunkwise.core.trees.attributes import NonFinite, attributes_to_json, check_non_finite, to_json_value
from chunkwise.core.trees.container import container_root
from chunkwise.core.trees.destination import Destination, Mode
from chunkwise.core.trees.location import Location, LocationLike, locate
from chunkwise.core.trees.node import nothing_at
from chunkwise.core.trees.replacement import Replacement, replacing
from chunkwise.errors import FailedPreconditionError, InvalidArgumentError, OptionError
from chunkwise.extension.trees import is_in_archive, removed_after_failure

__all__ = ["SCHEMA_OPTIONS", "create_array", "new_array", "open_array", "read"]

SCHEMA_OPTIONS = ("rank", "domain", "chunk_layout", "schema", "context")
"""Options that `Group.create_array` passes on to `chunkwise.open`."""

_CODEC_MEMBERS = ("codecs", "compressor", "compression")


def new_array(
    location: Location,
    *,
    format: str,
    shape: Sequence[int] | int | None,
    dtype: DTypeLike | None,
    data: Any,
    chunks: Sizes | None,
    shards: Sizes | None,
    codec: Any,
    checksum: bool,
    fill_value: npt.ArrayLike | None,
    dimension_names: Sequence[str | None] | None,
    dimension_units: Sequence[Any] | Mapping[str, Any] | None,
    attributes: Mapping[str, Any],
    metadata: Mapping[str, Any],
    schema_options: Mapping[str, Any],
    non_finite: NonFinite,
    overwrite: bool,
    look: Callable[[], None],
    make_parents: Callable[[bool], list[Location]],
) -> TensorStore:
    """Make an array at `location`; see `Group.create_array` for most parameters."""
    # `look` raises, before anything is changed, if the array can't be made here.  `make_parents` is told
    # whether it is an array of text; it makes the groups above and returns them.
    parts = {name: value for name, value in schema_options.items() if name in CODEC_PARTS}
    schema_options = {name: value for name, value in schema_options.items() if name not in parts}
    check_flag(overwrite, "overwrite")
    check_non_finite(non_finite)
    if not isinstance(metadata, Mapping):
        raise OptionError(f"metadata: expected members of the metadata document, not {metadata!r}")
    template, rules = _template(shape, dtype, data, schema_options), tree_format(format)
    # A CodecSpec of another format is translated, as JSON is.
    is_spec = isinstance(codec, CodecSpec) and codec.to_json()["driver"] == rules.driver
    schema, domain = _schema_and_domain(schema_options)
    if dimension_names is None:
        if domain is not None and any(domain.labels):
            dimension_names = tuple(label or None for label in domain.labels)
        elif is_of(data, "xarray") and hasattr(data, "dims"):
            dimension_names = tuple(map(str, data.dims))
    if fill_value is None and schema is not None:
        fill_value = schema.fill_value
    given = array_options(
        {
            "chunks": chunks,
            **({} if shards is None else {"shards": shards}),
            "codec": None if is_spec else codec,
            "checksum": checksum or None,
            "fill_value": fill_value,
            "dimension_names": dimension_names,
            "dimension_units": dimension_units,
            **parts,
        }
    )
    layout_given = schema_options.get("chunk_layout") is not None or (
        schema is not None and "chunk_layout" in schema.to_json()
    )
    if layout_given or "chunk_grid" in metadata:
        if given.get("chunks") == "auto":
            del given["chunks"]
    else:
        given.setdefault("chunks", "auto")
    options = {name: value for name, value in schema_options.items() if value is not None}
    schema_codec = codec if is_spec else None if schema is None else schema.codec
    if is_spec:
        options["codec"] = codec
    codecs_given = schema_codec is not None or any(name in metadata for name in _CODEC_MEMBERS)
    if "checksum" in given and codecs_given:
        raise InvalidArgumentError(
            "checksum: the codecs are given by `metadata`, `schema` or a CodecSpec, which can say it"
        )
    check_named(given, given.get("dimension_names", ()), "the array")
    if given.get("chunks") == "auto" and is_of_dask(data):
        given["chunks"] = tuple(max(1, *sizes) for sizes in data.chunks)
    given = for_array(for_format(given, format), template)
    if rules.codecs.is_chain and "codecs" in metadata:
        given["codec"] = metadata["codecs"]
    elif "codec" not in given and rules.codecs.is_chain and schema_codec is not None:
        given["codec"] = schema_codec.to_json().get("codecs", [])
    elif "codec" not in given and rules.codecs.new_compressor and not codecs_given:
        given["codec"] = parse_compressor(rules.codecs.new_compressor)
    values = attributes_to_json(attributes, non_finite)
    if template.dtype.memory_dtype.kind in "iub" and (isinstance(data, TensorStore) or is_of_dask(data)):
        values = {**hooks.find("label mark")(data), **values}
    metadata = {
        name: value if name == "fill_value" else to_json_value(value, f"metadata: {dump(name)}", non_finite)
        for name, value in metadata.items()
    }
    if rules.attributes_are_members:  # which the array is made with, and null is kept when asked for
        own_members = [n for n in values if n in rules.dimension_attributes or values[n] is None]
        metadata = {**{n: values.pop(n) for n in own_members}, **metadata}
    given["attributes"] = values
    target = target_spec(template.replaced(given), format, list(given))
    left_out = [note for note in target.notes if note.startswith("attribute ")]
    if left_out:
        raise InvalidArgumentError("; ".join(left_out))
    own = {**target.spec["metadata"], **metadata}
    spec: dict[str, Any] = {**target.spec, "metadata": own, "kvstore": location.kvstore()}
    is_null = rules.fill_value_can_be_null and fill_value is None
    if is_null and "fill_value" not in metadata and not template.dtype.memory_dtype.hasobject:
        own["fill_value"] = None  # xarray treats any other value as missing
    if rules.codecs.is_chain:
        own["codecs"] = target.spec["metadata"][
            "codecs"
        ]  # the codecs of `metadata`, in shards if there are any
        if layout_given and "codecs" not in metadata:
            # The layout says whether there are shards around the codecs, and in which order elements lie.
            layout = {"read_chunk": {"shape": given["chunks"]}} if "chunks" in given else {}
            codec_spec = {"driver": "zarr3", "codecs": own.pop("codecs")}
            spec["schema"] = {"codec": codec_spec, "chunk_layout": layout}
    elif schema_codec is not None and "codec" not in given:
        for name in ("compressor", "compression"):
            own.pop(name, None)
    # Nothing may remain of an array that can't be made.
    open_spec({**spec, "open": True, "assume_metadata": True}, **options).result()
    look()
    text = template.dtype.name == "ustring"
    new = NewArray(format, spec, target.attributes, options, data)
    root = container_root(location) if rules.has_containers else None
    is_root = rules.has_containers and (root or location).path == location.path
    beside = None if data is None or overwrite or is_root else Replacement.begin_vacant(location)
    is_packed = data is not None and is_in_archive(location) and not (is_root and root)
    if not (overwrite or beside or is_packed):
        return new.write_to(location, partial(make_parents, text))
    # Also where nothing is yet: another process may be making it at the same time, and after a loss of power
    # an array without all of its data could not be told from a whole one.
    parents: list[Location] = []
    with removed_after_failure(parents):
        if beside is not None:  # first, since the new place makes directories
            parents += make_parents(text)
        with replacing(location, beside) as staging:
            new.write_to(staging)
            if beside is None:
                parents += make_parents(text)
    whole = {"driver": spec["driver"], "kvstore": spec["kvstore"], "open": True}
    return open_spec(whole, context=options.get("context")).result()


def _schema_and_domain(options: Mapping[str, Any]) -> tuple[Schema | None, IndexDomain | None]:
    """Return the schema and the domain among options of TensorStore."""
    schema, domain = options.get("schema"), options.get("domain")
    return schema, schema.domain if domain is None and schema is not None else domain


def _template(
    shape: Sequence[int] | int | None, dtype: DTypeLike | None, data: Any, schema_options: Mapping[str, Any]
) -> ArrayTemplate:
    """Return the template with nothing but shape and data type."""
    schema, domain = _schema_and_domain(schema_options)
    if shape is None and domain is not None:
        shape = domain.shape
    if dtype is None and schema is not None:
        dtype = schema.dtype
    if data is not None and not (isinstance(data, TensorStore) or is_of_dask(data)):
        data = np.asarray(as_numpy(data, has_dtype=dtype is not None))
    if data is not None:
        shape = data.shape if shape is None else read_shape(shape)
        if len(data.shape) and shape != tuple(data.shape):
            raise InvalidArgumentError(f"shape: the data has {tuple(data.shape)}, not {shape}")
        dtype = type_of(data) if dtype is None else dtype
    if shape is None:
        raise InvalidArgumentError("an array needs a shape, or data")
    if dtype is None:
        raise InvalidArgumentError("an array needs a dtype, or data")
    return ArrayTemplate(shape=read_shape(shape), dtype=data_type(dtype))


@options_of(("schema", "domain", "rank", "chunk_layout"), CODEC_PARTS)
def create_array(
    place: LocationLike,
    data: Any = None,
    *,
    shape: Sequence[int] | int | None = None,
    dtype: Any = None,
    chunks: Sizes | None = "auto",
    shards: Sizes | None = None,
    codec: Any = None,
    checksum: bool = False,
    fill_value: Any = None,
    dimension_names: Sequence[str | None] | None = None,
    dimension_units: Sequence[Any] | Mapping[str, Any] | None = None,
    attributes: Mapping[str, Any] | None = None,
    metadata: Mapping[str, Any] | None = None,
    format: str | None = None,
    overwrite: bool = False,
    context: Context | None = None,
    non_finite: NonFinite = "error",
    storage_options: Mapping[str, Any] | None = None,
    **schema_options: Any,
) -> TensorStore:
    """Create an array, with `data` in it if given.

    Parameters
    ----------
    place : str, path-like, Spec, KvStore, KvStore.Spec or JSON
        Location of the new array.
    data : array_like or TensorStore, optional
        Values to write; shape and data type are by default those of the data.
    format : {"zarr3", "zarr2", "zarr1", "n5"}, optional
        By default that of the group that it is in, else N5 for a name ``*.n5``, else Zarr v3.
    overwrite : bool
        Replace an existing array once the new one is complete, which may be made from the old one.  Files in
        its directory that belong to no array stay; without `overwrite` they are an error.
    context : Context, optional
        Source of the resources of a spec.
    non_finite : {"error", "string", "literal"}
        Treatment of NaN and infinities in attributes.
    storage_options : mapping, optional
        As for `open_group`.
    shape, dtype, chunks, shards, codec, checksum, fill_value
        As for `Group.create_array`.
    dimension_names, dimension_units, attributes, metadata
        As for `Group.create_array`.
    **schema_options
        ``schema``, ``domain``, ``rank`` and ``chunk_layout``; see `chunkwise.open`.  In place of `codec`,
        zarr-python's ``compressor``, ``compressors``, ``filters`` and ``serializer``.

    Returns
    -------
    TensorStore
        Open for reading and writing.

    Raises
    ------
    AlreadyExistsError
        If there is something at `place`, or an array above it.
    InvalidArgumentError
        If the format can't hold the array, or parameters contradict each other; nothing is written then.

    Examples
    --------
    >>> import tempfile
    >>> import numpy as np
    >>> import chunkwise
    >>> path = tempfile.mkdtemp() + "/a.zarr"
    >>> store = chunkwise.create_array(path, np.arange(6).reshape(2, 3), chunks=(1, 3))
    >>> store.shape, store.chunk_layout.read_chunk.shape
    ((2, 3), (1, 3))
    >>> chunkwise.read(path)
    array([[0, 1, 2],
           [3, 4, 5]])
    """
    mode: Mode = "overwrite" if overwrite else "new"
    given = with_storage_options(place, storage_options)
    to = Destination.of(given, "array", format=format, mode=mode, context=context)
    return new_array(
        to.location,
        format=to.format,
        shape=shape,
        dtype=dtype,
        data=data,
        chunks=chunks,
        shards=shards,
        codec=codec,
        checksum=checksum,
        fill_value=fill_value,
        dimension_names=dimension_names,
        dimension_units=dimension_units,
        attributes={} if attributes is None else attributes,
        metadata={} if metadata is None else metadata,
        schema_options={**schema_options, "context": context},
        non_finite=non_finite,
        overwrite=overwrite,
        look=lambda: None,
        make_parents=lambda text: to.create_parents(text=text),
    )


def open_array(
    place: LocationLike,
    mode: Literal["r", "r+"] = "r",
    *,
    context: Context | None = None,
    storage_options: Mapping[str, Any] | None = None,
) -> TensorStore:
    """Open an array of any format; `create_array` creates one, `chunkwise.open` has all options.

    Parameters
    ----------
    place : str, path-like, Spec, KvStore, KvStore.Spec or JSON
        Location of the array.
    mode : {"r", "r+"}
        Whether to open it for reading, or for reading and writing.
    context : Context, optional
        Source of the resources of a spec.
    storage_options : mapping, optional
        As for `open_group`.

    Returns
    -------
    TensorStore
        No elements have been read.

    Raises
    ------
    NotFoundError
        If there is nothing at `place`.
    FailedPreconditionError
        If it is a group.
    InvalidArgumentError
        For another mode.

    Examples
    --------
    >>> import tempfile
    >>> import chunkwise
    >>> path = tempfile.mkdtemp() + "/a.n5"
    >>> store = chunkwise.create_array(path, [1.5, 2.5])
    >>> float(chunkwise.open_array(path)[1])
    2.5
    """
    if mode not in ("r", "r+"):
        raise InvalidArgumentError(
            f'mode: expected "r" or "r+", but received {mode!r}; create_array makes one'
        )
    spec: Any = place if storage_options is None else with_storage_options(place, storage_options)
    try:
        return open_spec(spec, read=True, write=mode == "r+", context=context).result()
    except FailedPreconditionError as e:
        found = resolve(spec, context)
        if mode == "r" and found.is_file:
            return found.as_array()
        if not isinstance(e, NoFormatError):
            raise
        if found.kind == "group" and not found.is_file:
            raise  # it says so, and what opens it
        raise nothing_at(found.asked or locate(spec, context), "array") from None


def read(
    place: Place,
    *,
    context: Context | None = None,
    storage_options: Mapping[str, Any] | None = None,
) -> npt.NDArray[Any]:
    """Read a whole array of any format; `chunkwise.open` opens one to read parts of it.

    Parameters
    ----------
    place : str, path-like, Spec, KvStore, KvStore.Spec, TensorStore or JSON
        Anything that `chunkwise.open` takes, a file with one array or image, or a folder or glob of pictures.
    context : Context, optional
        Source of the resources of a spec.
    storage_options : mapping, optional
        As for `open_group`.

    Returns
    -------
    numpy.ndarray
        With the shape and data type of the array.

    Raises
    ------
    NotFoundError
        If there is nothing.
    InvalidArgumentError
        If it is a group, or a file of several arrays.

    Examples
    --------
    >>> import tempfile
    >>> import chunkwise
    >>> path = tempfile.mkdtemp() + "/a.n5"
    >>> chunkwise.create_array(path, [1.5, 2.5]).shape
    (2,)
    >>> chunkwise.read(path)
    array([1.5, 2.5])
    """
    return np.asarray(whole_array(with_storage_options(place, storage_options), context).read().result())
