"""Element types and values of hdmf builders, as a whole or piece by piece."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from datetime import date
from typing import Any

import numpy as np
import numpy.typing as npt
from hdmf.build import DatasetBuilder, GroupBuilder, ReferenceBuilder
from hdmf.container import AbstractContainer

from chunkwise.errors import InvalidArgumentError
from chunkwise.extension.trees import tree_format
from chunkwise.hdmf.backend.builder_references import RegionReference
from chunkwise.hdmf.backend.h5_values import H5Source
from chunkwise.hdmf.conventions.base import NewDataset
from chunkwise.hdmf.model.codecs import Settings, usable_settings
from chunkwise.hdmf.model.element import (
    Element,
    bytes_,
    compound,
    element_of_word,
    number,
    reference,
    region,
    text,
)
from chunkwise.hdmf.model.reference import Reference
from chunkwise.hdmf.model.values import as_values, element_of_dtype, guess_element, widened
from chunkwise.hdmf.storage.large_datasets import LargeDatasets
from chunkwise.hdmf.storage.node_writer import NodeWriter
from chunkwise.hdmf.storage.stream import ArrayStream, RowPieces, StreamOptions

__all__ = ["BuilderStreams", "element_of_builder", "is_reference", "is_scalar", "with_references"]

# -- values -------------------------------------------------------------------------------------------

_SPEC_WORDS = {
    "float": "float32",
    "double": "float64",
    "long": "int64",
    "int": "int32",
    "short": "int16",
    "uint": "uint32",
}
"""Names of types in schemas; stored, "int" and "float" are Python's types of 64 bits."""


_INCOMPLETE = (np.datetime64, np.timedelta64, np.void)
"""Types of scalars that leave open a unit or a size, which the data has."""


def is_reference(value: Any) -> bool:
    """Return True if a value in a builder is a reference: in one of hdmf's ways, a builder or a container."""
    # hdmf leaves the containers in the records of a compound to the backend.
    return isinstance(value, ReferenceBuilder | GroupBuilder | DatasetBuilder | AbstractContainer)


def is_scalar(data: Any, element: Element) -> bool:
    """Return True if data is one value."""
    if is_reference(data) or isinstance(data, str | bytes | np.generic):
        return True
    shape = getattr(data, "shape", None)
    if shape is not None:
        return tuple(shape) == ()
    if isinstance(data, tuple) and element.kind == "compound":
        return not (data and isinstance(data[0], tuple | list | np.void))
    return not hasattr(data, "__len__") and not hasattr(data, "__next__") and not hasattr(data, "__iter__")


def element_of_builder(dtype: Any, data: Any) -> Element:
    """Return the element type of a dataset builder."""
    return widened(_element_of_builder(dtype, data), data)


def _element_of_builder(dtype: Any, data: Any) -> Element:
    found = None
    if isinstance(dtype, list | tuple) and dtype and not all(isinstance(d, str) for d in dtype):
        return _with_regions(_declared(dtype), data)
    if isinstance(dtype, list | tuple) or dtype == "numeric" or dtype in _INCOMPLETE:
        dtype = None
    if dtype is not None:
        found = _declared(dtype)
    if found is not None and found.kind == "reference":
        first = _first(data)
        if isinstance(first, RegionReference) or (isinstance(first, Reference) and first.region is not None):
            return region
        if first is None or is_reference(first) or isinstance(first, Reference):
            return found
        return guess_element(data)  # "object" also stands for text that came from HDF5
    if found is not None:
        return found
    first = _first(data)
    if is_reference(first):
        return region if isinstance(first, RegionReference) else reference
    return guess_element(data)


def _with_regions(element: Element, data: Any) -> Element:
    """Return a compound in which members are region references where the rows have regions."""
    row = data.reshape(-1)[:1].tolist() if isinstance(data, np.ndarray) else data
    row = row[0] if isinstance(row, list) and row else row
    row = row.tolist() if isinstance(row, np.void) else row
    if not element.has_references or not isinstance(row, tuple) or len(row) != len(element.members):
        return element
    return compound([(m.name, _with_region(m.element, v)) for m, v in zip(element.members, row, strict=True)])


def _with_region(element: Element, value: Any) -> Element:
    if element.kind == "compound":
        return _with_regions(element, value)
    return region if element.kind == "reference" and isinstance(value, RegionReference) else element


def _first(data: Any) -> Any:
    while isinstance(data, list | tuple | np.ndarray):
        if isinstance(data, np.ndarray) and (data.dtype != object or data.ndim == 0):
            return data[()] if data.dtype == object else None
        if len(data) == 0:
            return None
        data = data[0]
    return data


def _declared(dtype: Any) -> Element:
    if isinstance(dtype, dict):  # a RefSpec
        return region if dtype.get("reftype") == "region" else reference
    if isinstance(dtype, list):
        for d in dtype:
            if not isinstance(d, dict) or not d.keys() >= {"name", "dtype"}:
                raise InvalidArgumentError(f"Expected a member with name and dtype, but received: {d!r:.100}")
        return compound([(d["name"], _declared(d["dtype"])) for d in dtype])
    if isinstance(dtype, np.dtype):
        return reference if dtype.kind == "O" else element_of_dtype(dtype)
    if isinstance(dtype, type):
        if issubclass(dtype, str):
            return text
        if issubclass(dtype, bytes | date):
            return bytes_
        if dtype in (bool, int, float):
            return number({bool: "bool", int: "int64", float: "float64"}[dtype], dtype.__name__)
        return reference if issubclass(dtype, np.object_) or dtype is object else number(dtype)
    if not isinstance(dtype, str):
        raise InvalidArgumentError(f"Expected a type, but received: {dtype!r:.100}")
    return element_of_word(_SPEC_WORDS.get(dtype, dtype))


def _has_no_references(kind: type) -> bool:
    return kind in (str, bytes, bool, int, float) or issubclass(kind, np.number | np.bool_ | np.character)


def with_references(data: Any, convert: Callable[[Any], Reference]) -> Any:
    """Return data with references as records; lists and arrays of objects become lists."""
    if data is None or isinstance(data, str | bytes):
        return data
    if is_reference(data):
        return convert(data)
    if isinstance(data, np.ndarray):
        if data.dtype.names is not None and data.dtype.hasobject:
            return _records(data, convert)
        if data.dtype != object:
            return data
        out = np.empty(data.shape, object)
        flat, source = out.reshape(-1), data.reshape(-1)
        for i in range(len(flat)):
            flat[i] = with_references(source[i], convert)
        return out
    if isinstance(data, np.void) and data.dtype.hasobject:
        return tuple(with_references(item, convert) for item in data.tolist())
    if isinstance(data, tuple):
        return tuple(with_references(item, convert) for item in data)
    if isinstance(data, list):
        if all(map(_has_no_references, set(map(type, data)))):  # as most columns are
            return data
        return [with_references(item, convert) for item in data]
    return data


def _records(data: npt.NDArray[Any], convert: Callable[[Any], Reference]) -> npt.NDArray[Any]:
    out = data.copy()
    for name in data.dtype.names or ():
        if data.dtype[name].hasobject:
            out[name] = with_references(data[name], convert)
    return out


# -- streams ------------------------------------------------------------------------------------------


class BuilderStreams:
    """Writes data of builders to arrays that it makes."""

    def __init__(
        self,
        writer: NodeWriter,
        reference_to: Callable[[Any], Reference],
        options: StreamOptions,
        *,
        exhaust: bool,
        copies: LargeDatasets | None,
    ) -> None:
        self.writer = writer
        self.store = writer.store
        self._reference_to = reference_to
        self._options = options
        self._exhaust = exhaust
        self._copies = copies
        self._streams: list[ArrayStream] = []

    def add(
        self, path: str, dtype: Any, iterator: Any, settings: Settings, attributes: dict[str, Any]
    ) -> None:
        """Make a dataset of the pieces that a data chunk iterator yields."""
        element = _element(dtype, iterator)
        shape = iterator.recommended_data_shape()
        if shape is None:
            shape = iterator.maxshape
        if shape is None:
            raise InvalidArgumentError("the iterator has no items, and no shape")
        shape = tuple(0 if n is None else int(n) for n in shape)
        if settings.chunks is None:
            chunks = iterator.recommended_chunk_shape()
            if chunks is not None:
                settings = replace(settings, chunks=tuple(int(n) for n in chunks))
            elif 0 in shape:
                settings = replace(settings, chunks=_open_chunks(shape, element))
        settings = usable_settings(settings, element, self.store.format)
        if not self.store.convention.can_stream(element):
            # Objects are few; they are collected and written whole.
            rows = [item for piece in iterator for item in piece.data]
            values = as_values(with_references(rows, self._reference_to), element)
            self.writer.dataset(path, element, values, settings, attributes)
            return
        if not tree_format(self.store.format).has_empty_arrays and 0 in shape:
            # An N5 dataset can't be empty; rows are added as they come.
            shape = tuple(max(1, n) for n in shape)
        stream = self._open(NewDataset(path, element, shape, settings, attributes), iterator)
        if self._exhaust:
            stream.run()
            self.store.changed(path)
        else:
            self._streams.append(stream)

    def _open(self, new: NewDataset, iterator: Any) -> ArrayStream:
        array = self.writer.create(new)
        return ArrayStream(array, new.element, self.store.convention, iterator, self._options)

    def run(self) -> None:
        """Write the postponed iterators, one piece of each in turn."""
        running = list(self._streams)
        try:
            while running:
                running = [stream for stream in running if stream.step()]
            for stream in self._streams:
                stream.finish()
                self.store.changed(stream.array.node.path)
        except BaseException:  # an interrupt too: no write may be under way when it is passed on
            for stream in self._streams:
                stream.abandon()
            raise
        self._streams = []

    def copy_h5(self, path: str, source: H5Source, settings: Settings, attributes: dict[str, Any]) -> None:
        """Make a copy of a dataset of HDF5."""
        element = source.element()
        settings = usable_settings(settings, element, self.store.format)
        shape = source.shape
        if shape == () or 0 in shape or not self.store.convention.can_stream(element):
            values, element = source.read_whole()
            scalar = values.shape == ()
            self.writer.dataset(path, element, values, settings, attributes, scalar=scalar)
            return

        def read(rows: slice) -> npt.NDArray[Any]:
            return source.read(rows, element)

        height, nbytes = (source.chunks or (1,))[0], self._options.buffer_nbytes // 4
        pieces = RowPieces(read, shape, source.dtype.itemsize, height, nbytes)
        stream = self._open(NewDataset(path, element, shape, settings, attributes), pieces)
        # As a tree in Zarr v2, a file of HDF5 is read without h5py.
        if self._copies is None or not self._copies.take(stream.array, element, source.location(), "zarr2"):
            stream.run()


def _element(dtype: Any, iterator: Any) -> Element:
    """Return the type that a builder has, else that of its iterator."""
    own = iterator.dtype
    if isinstance(own, np.dtype):
        return element_of_builder(dtype, np.empty(0, own))
    if dtype is None or dtype == "numeric":
        dtype = own
    if dtype is None:
        raise InvalidArgumentError("neither the dataset nor the iterator has a type")
    return element_of_builder(dtype, None)


def _open_chunks(shape: tuple[int, ...], element: Element) -> tuple[int, ...]:
    """Return chunks for a dataset whose first axis has no length yet."""
    others = [max(1, n) for n in shape[1:]]
    row = element.memory_dtype.itemsize * math.prod(others)
    return (max(1, (1 << 20) // row), *others)
