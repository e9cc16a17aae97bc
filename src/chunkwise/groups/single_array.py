"""Arrays by location: created with their contents, and read, with one call."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from chunkwise.copying.array_options import Sizes
from chunkwise.copying.codec_option import CODEC_PARTS
from chunkwise.copying.resolve import Place, resolve, whole_array
from chunkwise.core.api.open import open as open_spec
from chunkwise.core.api.tensorstore import TensorStore
from chunkwise.core.base.public_names import options_of
from chunkwise.core.driver.auto import NoFormatError
from chunkwise.core.specs.context import Context
from chunkwise.core.specs.storage_options import with_storage_options
from chunkwise.core.trees.attribute_value import NonFinite
from chunkwise.core.trees.destination import Destination, Mode
from chunkwise.core.trees.location import LocationLike, locate
from chunkwise.core.trees.node import nothing_at
from chunkwise.errors import FailedPreconditionError, InvalidArgumentError
from chunkwise.groups.new_array import new_array

__all__ = ["create_array", "open_array", "read"]


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
