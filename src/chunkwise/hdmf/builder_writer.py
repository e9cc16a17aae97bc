"""From hdmf builders to a store: groups, datasets, attributes, links and references."""

from __future__ import annotations

import warnings
from dataclasses import replace
from typing import Any

import numpy as np
from hdmf.build import DatasetBuilder, GroupBuilder, LinkBuilder, ReferenceBuilder
from hdmf.data_utils import AbstractDataChunkIterator, DataIO

from chunkwise.errors import ChunkwiseError, InvalidArgumentError, prefix
from chunkwise.hdmf.attributes import RESERVED, dump_attributes, is_typed
from chunkwise.hdmf.builder_values import element_of_builder, is_reference, is_scalar, with_references
from chunkwise.hdmf.builders import ROOT
from chunkwise.hdmf.codecs import Settings
from chunkwise.hdmf.convention import NewArray
from chunkwise.hdmf.copy_dataset import copy_dataset, stored_settings
from chunkwise.hdmf.data_io import settings_of, settings_of_h5
from chunkwise.hdmf.element import Element
from chunkwise.hdmf.h5_source import H5Source, h5_dataset_of
from chunkwise.hdmf.lazy import LazyDataset
from chunkwise.hdmf.node_writer import NodeWriter
from chunkwise.hdmf.place import canonical_source, relative_source
from chunkwise.hdmf.reference import Reference, canonical_path, join_path
from chunkwise.hdmf.region import normalize_region
from chunkwise.hdmf.region_builder import RegionReference
from chunkwise.hdmf.resolve import BrokenLinkError, BrokenLinkWarning
from chunkwise.hdmf.store import HdmfStore
from chunkwise.hdmf.stream import BUFFER_NBYTES, ArrayStream, StreamProgress
from chunkwise.hdmf.values import as_values, guess_element, shape_of

__all__ = ["BuilderWriter"]


class BuilderWriter:
    """Writes builders to the store of an I/O object.

    Parameters
    ----------
    io : ZarrIO
    writer : NodeWriter
    link_data : bool
        Whether datasets of other stores become links instead of copies.
    exhaust : bool
        Whether an iterator is written to its end at once; otherwise all take turns at the end.
    export_source : str, optional
        The file that is exported: what is in it counts as being in this store.
    keep_types : bool
        Whether types of attributes that JSON loses are recorded.
    buffer_nbytes : int
        Limit on the data that waits to be stored.
    progress : callable, optional
        Called with path, rows done and rows expected.
    """

    def __init__(
        self,
        io: Any,
        writer: NodeWriter,
        *,
        link_data: bool = True,
        exhaust: bool = True,
        export_source: str | None = None,
        keep_types: bool = True,
        buffer_nbytes: int = BUFFER_NBYTES,
        progress: StreamProgress | None = None,
    ) -> None:
        self.io = io
        self.writer = writer
        self.store = writer.store
        self.link_data = link_data
        self.exhaust = exhaust
        self.export_source = None if export_source is None else canonical_source(export_source)
        self.keep_types = keep_types
        self.buffer_nbytes = buffer_nbytes
        self.progress = progress
        self.streams: list[ArrayStream] = []
        self._root_id: str | None = None
        self._here: dict[str, bool] = {}
        self._extra_links: dict[str, dict[str, Reference]] = {}

    # -- references -------------------------------------------------------------------------------

    def reference_to(self, value: Any) -> Reference:
        """Return the record of a reference, or of a builder that is referred to.

        Raises
        ------
        InvalidArgumentError
            If the target is in a store that has no relative name.
        """
        region = None
        target = value
        if isinstance(value, ReferenceBuilder):
            target = value.builder
            given = value.get("region")
            if isinstance(value, RegionReference):
                region = value.region
            elif given is not None:
                region = self._foreign_region(given, target)
        if isinstance(target, LinkBuilder):
            target = target.builder
        root = target
        while root.parent is not None:
            root = root.parent
        return Reference(
            self.path_of(target),
            self.source_of(target),
            _id(target),
            _id(root) or (self._root_id if self._is_here(target) else None),
            region,
        )

    @staticmethod
    def _foreign_region(given: Any, target: Any) -> dict[str, Any]:
        """Return the region of an hdmf 3 ``RegionBuilder``, which may be one of h5py."""
        shape = shape_of(target.data)
        if type(given).__name__ == "RegionReference":
            from chunkwise.hdmf.h5_source import region_of_h5

            return region_of_h5(h5_dataset_of(target.data).file, given, shape)
        return normalize_region(given, shape)

    @staticmethod
    def path_of(builder: Any) -> str:
        """Return the path of a builder in its store."""
        if builder.parent is None and builder.name == ROOT:
            return "/"
        if builder.location is not None:
            return join_path(canonical_path(builder.location), builder.name)
        names = []
        at = builder
        while at is not None and not (at.parent is None and at.name == ROOT):
            names.append(at.name)
            at = at.parent
        return "/" + "/".join(reversed(names))

    def _is_here(self, builder: Any) -> bool:
        source = builder.source
        if source is None:
            return True
        here = self._here.get(source)
        if here is None:
            places = canonical_source(self.io.source), self.export_source
            here = self._here[source] = canonical_source(source) in places
        return here

    def source_of(self, builder: Any) -> str:
        """Return the name by which this store calls that of a builder."""
        return "." if self._is_here(builder) else self._name_of(builder.source)

    def _name_of(self, other: str) -> str:
        source = relative_source(canonical_source(other), canonical_source(self.io.source))
        if source is None:
            if self.io.external_links == "any":
                return str(other)
            raise InvalidArgumentError(
                f"{other} has no name relative to {self.io.source}; "
                'absolute links are written only with allow_external_links="any"'
            )
        return source

    def _rebased(self, value: Reference, other_io: Any, holder: HdmfStore) -> Reference:
        """Return what a reference stored in another store is in this one."""
        try:
            store, path = other_io.stores.resolve(value, holder)
        except BrokenLinkError as e:
            warnings.warn(f"reference to {value.path}: {e.message}", BrokenLinkWarning, stacklevel=2)
            return value
        here = canonical_source(store.source) in (canonical_source(self.io.source), self.export_source)
        object_id = store.tree.nodes[path].attributes.get("object_id")
        return Reference(
            path,
            "." if here else self._name_of(store.source),
            value.object_id if not isinstance(object_id, str) else object_id,
            store.object_id,
            value.region,
        )

    def _stored_reference(self, value: Any) -> Any:
        if not is_reference(value):
            return None
        convention = self.store.convention
        return convention.reference_attribute(self.reference_to(value), compat=self.writer.compat_regions)

    def attributes(self, builder: Any) -> dict[str, Any]:
        """Return the attributes of a builder as JSON values."""
        given = {k: v for k, v in builder.attributes.items() if v is not None}
        labels = getattr(builder, "dimension_labels", None)
        if labels is not None:
            given["_ARRAY_DIMENSIONS"] = ["" if label is None else label for label in labels]
        try:
            return dump_attributes(given, self._stored_reference, self.keep_types)
        except (ChunkwiseError, TypeError) as e:
            raise prefix(e, f"object {self.path_of(builder)}") from None

    # -- groups -----------------------------------------------------------------------------------

    def root(self, builder: GroupBuilder) -> None:
        """Write a whole file; the root's own documents are left to :meth:`NodeWriter.finish`."""
        self._root_id = _id(builder)
        self.group("/", builder)
        self.run_streams()

    def group(self, path: str, builder: GroupBuilder) -> None:
        """Write a group and all below it that was not written yet."""
        node = self.store.tree.nodes.get(path)
        if node is not None and self.store.is_dataset(path):
            raise InvalidArgumentError(f"{path} is a dataset in {self.store.source}, not a group")
        # The group exists before what is in it; its links and attributes are complete only afterwards.
        if node is None:
            self.writer.group(path, {}, {})
        for child in builder.groups.values():
            self.group(join_path(path, child.name), child)
        for dataset in builder.datasets.values():
            self.dataset(path, dataset)
        links = dict(self.store.links(path))
        for name, link in builder.links.items():
            target = link.builder
            links[name] = self.reference_to(target)
        links |= self._extra_links.pop(path, {})
        own = {k: v for k, v in self.store.tree.nodes[path].attributes.items() if k in RESERVED}
        own.pop(self.store.convention.links_member, None)
        own.pop("_ATTR_DTYPES", None)
        self.writer.group(path, {**own, **self.attributes(builder)}, links)
        self._written(path, builder)
        for link in builder.links.values():
            self.io.set_written(link)

    def _written(self, path: str, builder: Any) -> None:
        self.io.set_written(builder)
        self.io.adopt(path, builder)

    # -- datasets ---------------------------------------------------------------------------------

    def dataset(self, parent: str, builder: DatasetBuilder, *, force: bool = False) -> None:
        """Write a dataset, unless it was written or read before."""
        path = join_path(parent, builder.name)
        if not force and self.io.get_written(builder) and path in self.store.tree.nodes:
            return
        try:
            self._dataset(path, builder)
        except (ChunkwiseError, TypeError, ValueError) as e:
            raise prefix(e, f"dataset {path}") from None
        if path in self.store.tree.nodes:
            self._written(path, builder)

    def _dataset(self, path: str, builder: DatasetBuilder) -> None:
        data, settings = builder.data, None
        # A dataset with a type of its own, as columns are, would be an object of the other file as a link.
        link = self.link_data and not is_typed(builder.attributes)
        while isinstance(data, DataIO):
            link = bool(getattr(data, "link_data", False)) or link
            settings = settings_of(data) if settings is None else settings
            if data.data is None and data.shape is not None:  # an array that is filled later
                self._reserve(path, builder, data, settings)
                return
            data = data.data
        if type(data).__name__ == "TermSetWrapper":
            data = data.value
        attributes = self.attributes(builder)
        if isinstance(data, LazyDataset):
            self._copy(path, data, settings, attributes, link)
            return
        h5 = h5_dataset_of(data)
        if h5 is not None:
            self._from_h5(path, H5Source(h5), settings or self._h5_settings(h5), attributes)
            return
        if isinstance(data, AbstractDataChunkIterator):
            self._stream(path, builder.dtype, data, settings or Settings(), attributes)
            return
        if data is None:
            raise InvalidArgumentError("it has no data")
        if type(data).__module__.partition(".")[0] in ("zarr", "hdmf_zarr") and hasattr(data, "__getitem__"):
            data = np.asarray(data[...])
        element = self._element(builder, data)
        data = with_references(data, self.reference_to)
        scalar = is_scalar(data, element) or isinstance(data, Reference)
        if not scalar and not hasattr(data, "shape") and not isinstance(data, list | tuple | range):
            data = list(data)
        values = as_values(data, element, () if scalar else None)
        self.writer.dataset(path, element, values, self._usable(settings, element), attributes, scalar=scalar)

    def _element(self, builder: DatasetBuilder, data: Any) -> Element:
        try:
            return element_of_builder(builder.dtype, data)
        except InvalidArgumentError as e:
            above = "" if builder.parent is None else f" to {builder.parent.name}"
            raise InvalidArgumentError(f"cannot add {builder.name}{above} - {e.message}") from None

    def _usable(self, settings: Settings | None, element: Element) -> Settings:
        """Return settings without what the format or the type can't have."""
        settings = settings or Settings()
        if settings.filters and "shuffle" in settings.filters:
            width = element.memory_dtype.itemsize if element.is_plain else 0
            filters = [
                {"id": "shuffle", "elementsize": width} if f == "shuffle" else f
                for f in settings.filters
                if f != "shuffle" or (width > 1 and self.store.format != "n5")
            ]
            settings = replace(settings, filters=filters or None)
        return settings

    def _copy(
        self, path: str, data: LazyDataset, settings: Settings | None, attributes: dict[str, Any], link: bool
    ) -> None:
        source = data.dataset
        same_file = canonical_source(source.store.source) == canonical_source(self.io.source)
        if same_file and source.path == path:
            return
        if link or same_file:  # data that is shared
            to = Reference(source.path, "." if same_file else self._name_of(source.store.source))
            group, _, name = path.rpartition("/")
            self._extra_links.setdefault(group or "/", {})[name] = to
            return
        if settings is None:
            settings = stored_settings(source, self.store.format)
        copy_dataset(
            source,
            self.writer,
            path,
            self._usable(settings, source.element),
            attributes,
            lambda value: self._rebased(value, data.io, source.store),
            buffer_nbytes=self.buffer_nbytes,
            progress=self.progress,
        )

    def _h5_settings(self, h5: Any) -> Settings:
        settings = settings_of_h5(H5Source(h5).dataset)
        return replace(settings, fill_value=None) if self.store.format == "n5" else settings

    def _from_h5(self, path: str, source: H5Source, settings: Settings, attributes: dict[str, Any]) -> None:
        element = source.element()
        settings = self._usable(settings, element)
        if (
            source.shape == ()
            or not element.is_plain
            or 0 in source.shape
            or (self.store.format == "n5" and element.kind != "number")
        ):
            values = source.read((), element)
            self.writer.dataset(path, element, values, settings, attributes, scalar=source.shape == ())
            return
        array = self.writer.create(NewArray(path, element, source.shape, settings, attributes))
        iterator = _Pieces(source, element, self.buffer_nbytes // 4)
        ArrayStream(
            array,
            element,
            self.store.convention,
            iterator,
            buffer_nbytes=self.buffer_nbytes,
            progress=self.progress,
        ).run()

    def _stream(
        self, path: str, dtype: Any, iterator: Any, settings: Settings, attributes: dict[str, Any]
    ) -> None:
        element = None
        if dtype is not None and dtype != "numeric":
            element = element_of_builder(dtype, None)
        if element is None:
            own = iterator.dtype
            if own is None:
                raise InvalidArgumentError("neither the dataset nor the iterator has a type")
            element = (
                element_of_builder(own, None)
                if not isinstance(own, np.dtype)
                else guess_element(np.empty(0, own))
            )
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
        if not element.is_plain or (self.store.format == "n5" and element.kind != "number"):
            # Objects are few; they are collected and written whole.
            rows = [item for piece in iterator for item in piece.data]
            values = as_values(with_references(rows, self.reference_to), element)
            self.writer.dataset(path, element, values, self._usable(settings, element), attributes)
            return
        if self.store.format == "n5" and 0 in shape:
            # An N5 dataset can't be empty; rows are added as they come.
            shape = tuple(max(1, n) for n in shape)
        array = self.writer.create(
            NewArray(path, element, shape, self._usable(settings, element), attributes)
        )
        stream = ArrayStream(
            array,
            element,
            self.store.convention,
            iterator,
            buffer_nbytes=self.buffer_nbytes,
            progress=self.progress,
        )
        if self.exhaust:
            stream.run()
            self.store.changed(path)
        else:
            self.streams.append(stream)

    def run_streams(self) -> None:
        """Write the iterators that were put off, one piece of each in turn."""
        running = list(self.streams)
        try:
            while running:
                running = [stream for stream in running if stream.step()]
            for stream in self.streams:
                stream.finish()
                self.store.changed(stream.array.node.path)
        except BaseException:  # an interrupt too: no write may be under way when it is passed on
            for stream in self.streams:
                stream.abandon()
            raise
        self.streams = []

    def _reserve(self, path: str, builder: DatasetBuilder, data: DataIO, settings: Settings) -> None:
        element = element_of_builder(data.dtype if builder.dtype is None else builder.dtype, None)
        shape = tuple(0 if n is None else int(n) for n in data.shape)
        self.writer.create(
            NewArray(path, element, shape, self._usable(settings, element), self.attributes(builder))
        )


class _Pieces:
    """The pieces of a dataset of HDF5, as those of a data chunk iterator."""

    def __init__(self, source: H5Source, element: Element, nbytes: int) -> None:
        self.source = source
        self.element = element
        self.maxshape = source.shape
        self._slices = source.pieces(nbytes)

    def __next__(self) -> Any:
        part = next(self._slices)
        return _Piece(self.source.read(part, self.element), part, self.source.shape)


class _Piece:
    def __init__(self, data: Any, selection: slice, shape: tuple[int, ...]) -> None:
        self.data = data
        self.selection = selection
        self._shape = shape

    def get_min_bounds(self) -> tuple[int, ...]:
        return self._shape


def _open_chunks(shape: tuple[int, ...], element: Element) -> tuple[int, ...]:
    """Return chunks for a dataset whose first axis has no length yet."""
    row = element.memory_dtype.itemsize
    for n in shape[1:]:
        row *= max(1, n)
    return (max(1, (1 << 20) // row), *(max(1, n) for n in shape[1:]))


def _id(builder: Any) -> str | None:
    attributes = getattr(builder, "attributes", None)
    value = None if attributes is None else attributes.get("object_id")
    return value if isinstance(value, str) else None
