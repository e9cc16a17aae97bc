"""Data of builders that is written piece by piece: data chunk iterators, and datasets of HDF5."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from chunkwise.errors import InvalidArgumentError
from chunkwise.extension.trees import tree_format
from chunkwise.hdmf.backend.builder_values import element_of_builder, with_references
from chunkwise.hdmf.backend.h5_source import H5Source
from chunkwise.hdmf.conventions.base import NewDataset
from chunkwise.hdmf.model.codecs import Settings, usable_settings
from chunkwise.hdmf.model.element import Element
from chunkwise.hdmf.model.reference import Reference
from chunkwise.hdmf.model.values import as_values
from chunkwise.hdmf.storage.large_datasets import LargeDatasets
from chunkwise.hdmf.storage.node_writer import NodeWriter
from chunkwise.hdmf.storage.stream import ArrayStream, RowPieces, StreamOptions

__all__ = ["BuilderStreams"]


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
        """Make a dataset of what a data chunk iterator yields."""
        element = _element(dtype, iterator)
        shape = iterator.recommended_data_shape()
        if shape is None:
            shape = tuple(n or 0 for n in iterator.maxshape)
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
        """Write the iterators that were put off, one piece of each in turn."""
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
