"""The writing half of ``ZarrIO``: containers, builders, exports, and what was written."""

from __future__ import annotations

import os
import warnings
from abc import abstractmethod
from collections.abc import Mapping
from typing import Any

from hdmf.backends.errors import UnsupportedOperation
from hdmf.backends.io import HDMFIO
from hdmf.backends.utils import WriteStatusTracker
from hdmf.build import DatasetBuilder, GroupBuilder, ReferenceBuilder
from hdmf.container import AbstractContainer
from hdmf.spec import NamespaceCatalog

from chunkwise.copying.copy_source import how_related
from chunkwise.core.kvstore.request_limits import Slots
from chunkwise.errors import ChunkwiseError, InvalidArgumentError, UnsupportedError
from chunkwise.extension.inside import Pool
from chunkwise.extension.trees import Destination, renew_copies_above
from chunkwise.hdmf.backend.builder_references import locate_alone, path_of
from chunkwise.hdmf.backend.builder_writer import BuilderWriter, check_link_name
from chunkwise.hdmf.backend.h5_copy import is_h5_io, unreadable
from chunkwise.hdmf.backend.lazy import LazyDataset, LazyGroup, path_in
from chunkwise.hdmf.backend.reading import StoreReading
from chunkwise.hdmf.backend.schema import copy_specifications, write_specifications
from chunkwise.hdmf.model.place import Place, named_place, place_of
from chunkwise.hdmf.model.reference import Reference, canonical_path, join_path
from chunkwise.hdmf.opening import NewStore
from chunkwise.hdmf.storage.large_datasets import LargeDatasets
from chunkwise.hdmf.storage.node_writer import NodeWriter
from chunkwise.hdmf.storage.store import Dataset, HdmfStore
from chunkwise.hdmf.storage.stream import StreamOptions

__all__ = ["StoreWriting"]


class StoreWriting(StoreReading):
    """Writes to the store that `chunkwise.hdmf.backend.io.ZarrIO` has opened."""

    _pool: Pool
    _place: Place
    _store: HdmfStore | None
    _writer: NodeWriter | None
    _tracker: WriteStatusTracker
    _consolidate: bool
    _failed: bool
    _to: Destination | None
    _new: NewStore | None
    _keep_types: bool
    _stream_options: StreamOptions
    _copies: LargeDatasets | None

    _source_io: HDMFIO | None = None
    """The file that is being exported."""

    @abstractmethod
    def _begin(self) -> None:
        """Choose the place of a new store, before the first write."""

    @abstractmethod
    def _take_place(self) -> None:
        """Replace the old data by the complete new store."""

    @abstractmethod
    def _discard_new(self) -> None:
        """Delete a new store that would have replaced another one."""

    # -- writing ----------------------------------------------------------------------------------

    def write(self, container: Any, **kwargs: Any) -> None:
        """Write a container as the root of the store.

        Parameters
        ----------
        container : Container
        cache_spec : bool
            Whether to store the specification too.
        link_data : bool
            Whether data that was read from another store becomes a link to it, not a copy.
        exhaust_dci : bool
            Whether data chunk iterators are written one after the other, not in turns.
        number_of_jobs : int
            Threads that encode and store data; by default one for each processor.
        max_threads_per_process : int, optional
            Multiplies `number_of_jobs`.
        consolidate_metadata : bool
            Whether to write consolidated metadata.

        Warns
        -----
        UserWarning
            If an object that was read was taken out of its container: it stays in the store.
        """
        cache_spec = kwargs.pop("cache_spec", True)
        self._check_source(container)
        self._warn_of_removed(container)
        self._use_threads(kwargs)
        consolidate = kwargs.pop("consolidate_metadata", True)
        super().write(container=container, **kwargs, consolidate_metadata=consolidate, _finish=False)
        self._complete(self.manager.namespace_catalog if cache_spec else None, consolidate)

    def _check_source(self, container: Any) -> None:
        """Raise an error for a container that was read from the store that it would replace."""
        read = getattr(container, "read_io", None)
        if self._mode in ("w", "w-", "x") and read is not None and self._overlaps(read):
            raise UnsupportedOperation(
                f"{container.name} was read from {read.source}, which it would replace: export it to "
                "another place, or write it in mode 'r+'"
            )

    def _overlaps(self, other: HDMFIO) -> bool:
        """Return True if another file is the same as this, is in it, or holds it."""
        is_open = isinstance(other, StoreWriting) and other.is_open()
        try:
            there = other.store.location if is_open else place_of(other.source or self._place)
        except ChunkwiseError:  # a name that only another library knows
            return False
        return other.source is not None and how_related(there, place_of(self._place)) != ""

    def _warn_of_removed(self, container: Any) -> None:
        """Warn if objects of the store were taken out of their containers."""
        found = self.manager.get_builder(container) if container.read_io is self else None
        containers = getattr(self.manager, "_BuildManager__containers", {})  # there is no public way
        pending, removed = [found] if found is not None else [], []
        while pending:
            builder = pending.pop()
            known = containers.get(id(builder))
            if known is not None and known is not container and known.parent is None:
                removed.append(path_of(builder))
            elif isinstance(builder, GroupBuilder):
                pending += [*builder.groups.values(), *builder.datasets.values()]
        if removed:
            warnings.warn(
                f"{', '.join(sorted(removed))}: taken out of the container, but writing deletes nothing from "
                f"{self._source}; export to a new file to leave it out",
                stacklevel=3,
            )

    def _use_threads(self, kwargs: dict[str, Any]) -> None:
        given = {name: kwargs.pop(name, None) for name in ("number_of_jobs", "max_threads_per_process")}
        if kwargs.pop("multiprocessing_context", None) is not None:
            raise InvalidArgumentError("data is written by threads; there is no multiprocessing_context")
        n = 1
        for name, value in given.items():
            if value is not None and (not isinstance(value, int) or value < 1):
                raise InvalidArgumentError(f"{name} is {value!r}, but expected a positive number")
            n *= value or 1
        if any(value is not None for value in given.values()):
            self._pool = self.store.pool = Pool(n, slots=Slots(n))

    def write_builder(
        self,
        builder: GroupBuilder,
        link_data: bool | None = True,
        exhaust_dci: bool = True,
        export_source: str | None = None,
        consolidate_metadata: bool = True,
        *,
        _finish: bool = True,
    ) -> None:
        """Write the builder of a root.

        Parameters
        ----------
        builder : GroupBuilder
        link_data : bool or None
            None is the choice of `export`.
        exhaust_dci : bool
        export_source : str, optional
            The file that is exported: its objects count as objects of this store.
        consolidate_metadata : bool

        Raises
        ------
        UnsupportedOperation
            If the store is open for reading only.
        """
        writer = self._builder_writer(link_data, exhaust_dci, export_source)
        self._failed = True
        writer.root(builder)
        self._failed = False
        if _finish:
            self._complete(None, consolidate_metadata)

    def _builder_writer(
        self, link_data: bool | None = True, exhaust: bool = True, export_source: str | None = None
    ) -> BuilderWriter:
        if not self.writable:
            raise UnsupportedOperation(f"Cannot write to {self._source} in mode '{self._mode}'")
        self.store  # noqa: B018 - raises if it is closed
        assert self._writer is not None
        self._begin()
        return BuilderWriter(
            self,
            self._writer,
            self._stream_options,
            link_data=link_data,
            exhaust=exhaust,
            export_source=export_source,
            keep_types=self._keep_types,
            copies=self._copies,
            source_io=self._source_io,
        )

    def _complete(self, catalog: NamespaceCatalog | None, consolidate: bool) -> None:
        assert self._writer is not None
        self._failed = True
        if catalog is not None:
            write_specifications(self._writer, catalog)
        self._finish(consolidate)

    def _finish(self, consolidate: bool) -> None:
        assert self._writer is not None
        self._consolidate = consolidate
        self._failed = True
        self._writer.finish(consolidate=consolidate)
        if self._copies is not None:
            self._copies.finish()
        self.store.guard.end()
        self._take_place()
        renew_copies_above(self.store.location)
        named = named_place(self._place)
        if named.path != self.store.location.path:  # a symbolic link, in another group
            renew_copies_above(named)
        self._failed = False

    def write_group(self, parent: Any, builder: GroupBuilder, **kwargs: Any) -> LazyGroup:
        """Write a group below `parent`, a group or its path; arguments as for `write_builder`."""
        path = canonical_path(f"{path_in(parent)}/{builder.name}")
        writer = self._builder_writer(**_renamed(kwargs))
        locate_alone(builder, path_in(parent))
        writer.group(path, builder)
        writer.streams.run()
        return LazyGroup(self, path)

    def write_dataset(
        self, parent: Any, builder: Any, force_data: Any = None, **kwargs: Any
    ) -> LazyDataset | None:
        """Write a dataset below `parent`, a group or its path; arguments as for `write_builder`.

        Parameters
        ----------
        force_data : array_like, optional
            Written instead of the builder's own data.

        Returns
        -------
        LazyDataset or None
            The dataset as written; None if it became a link.
        """
        writer = self._builder_writer(**_renamed(kwargs))
        if force_data is not None:
            builder = DatasetBuilder(
                builder.name,
                force_data,
                dtype=builder.dtype,
                attributes=builder.attributes,
                source=self._source,
            )
        group = path_in(parent)
        locate_alone(builder, group)
        writer.dataset(group, builder)
        writer.streams.run()
        writer.link_extra(group)
        path = join_path(group, builder.name)
        stored = path in self.store.tree.nodes and self.store.is_dataset(path)
        return LazyDataset(self.store.dataset(path), self) if stored else None

    def write_link(self, parent: Any, builder: Any, **kwargs: Any) -> None:
        """Write a link into the group `parent`, which may be its path."""
        path = path_in(parent)
        check_link_name(builder.name, path)
        writer = self._builder_writer(**_renamed(kwargs))
        writer.add_links(path, {builder.name: writer.references.reference_to(builder.builder)})
        self.set_written(builder)

    def write_attributes(self, obj: Any, attributes: Mapping[str, Any], **kwargs: Any) -> None:
        """Set attributes of a group or dataset, or of the object at a path; None removes one.

        References may be builders, containers or records.
        """
        self._builder_writer(**_renamed(kwargs)).set_attributes(path_in(obj), attributes)

    def export(self, src_io: HDMFIO, **kwargs: Any) -> None:
        """Write the contents of another file, of any backend, as this store.

        Parameters
        ----------
        src_io : HDMFIO
            Open for reading.
        container : Container, optional
            The root that was read from it, perhaps modified since.
        write_args : dict, optional
            Arguments of `write_builder`.  By default data of the source is copied, once if several objects
            share it, and links to third stores stay links.  With ``link_data=True`` data of the source
            becomes links to it; with ``link_data=False`` everything is copied.
        cache_spec : bool
        number_of_jobs, max_threads_per_process : int
            As for `write`.
        consolidate_metadata : bool
        """
        if self._mode not in ("w", "w-", "x"):
            raise UnsupportedOperation(
                f"Cannot export to file {self._source} in mode '{self._mode}'. Please use mode 'w'."
            )
        if not kwargs.pop("in_place", False) and self._overlaps(src_io):
            raise UnsupportedOperation(f"Cannot export {src_io.source} to itself, or to what holds it")
        cache_spec = kwargs.pop("cache_spec", True)
        consolidate = kwargs.pop("consolidate_metadata", True)
        self._use_threads(kwargs)
        args = dict(kwargs.pop("write_args", None) or {})
        if args.setdefault("link_data", None) and not isinstance(src_io, StoreWriting):
            raise UnsupportedOperation(
                f"Cannot export from {type(src_io).__name__} with link_data=True: its data can't be linked to"
            )
        if src_io.source is not None:
            args["export_source"] = str(src_io.source)
        args |= {"consolidate_metadata": consolidate, "_finish": False}
        self._source_io = src_io
        try:
            super().export(src_io=src_io, write_args=args, **kwargs)
        except TypeError as e:
            found = unreadable(src_io) if is_h5_io(src_io) else None
            if found is None:
                raise
            raise UnsupportedError(
                f"hdmf can't read dataset {found} of {src_io.source}, whose elements are opaque; "
                "chunkwise.hdmf.convert can"
            ) from e
        finally:
            self._source_io = None
        catalog = None
        if cache_spec:
            assert self._writer is not None
            catalog = self.manager.namespace_catalog
            if isinstance(src_io, StoreWriting):
                copy_specifications(src_io.store, self._writer)
            others = None if src_io.manager is None else src_io.manager.namespace_catalog
            if others is not None and list(others.namespaces):
                catalog = others
        self._complete(catalog, consolidate)

    def copy_h5(self, copy: Any, catalog: NamespaceCatalog) -> None:
        """Write the contents of an HDF5 file, with the specifications of a catalog.

        Parameters
        ----------
        copy : chunkwise.hdmf.backend.h5_copy.H5Copy
        catalog : NamespaceCatalog
        """
        writer = self._builder_writer()
        self._failed = True
        compat = writer.writer.compat_regions
        copy.write(writer.writer, writer.streams, keep_types=self._keep_types, compat_regions=compat)
        writer.copy_large()
        copy.write_specifications(writer.writer)
        self._complete(catalog, True)

    def discard(self) -> None:
        """Remove an incomplete new store; does nothing in other modes."""
        writer = self._writer
        if self._mode not in ("w", "w-", "x") or writer is None or self._to is not None:
            return  # nothing was written yet
        if self._new is not None and self._new.is_pending:
            self._discard_new()
        elif self._new is not None and (self._failed or writer.changed):
            self._new.remove()

    # -- what was written -------------------------------------------------------------------------

    def set_written(self, builder: Any) -> None:
        """Remember that a builder is stored."""
        self._tracker.set_written(builder)

    def get_written(self, builder: Any, check_on_disk: bool = False) -> bool:
        """Return True if a builder was written or read; with `check_on_disk`, if it is stored now."""
        written = bool(self._tracker.get_written(builder))
        return written and (not check_on_disk or self.get_builder_exists_on_disk(builder))

    def get_builder_exists_on_disk(self, builder: Any) -> bool:
        """Return True if there is an object at the path of a builder; looks into the store."""
        path = path_of(builder)
        if path not in self.store.tree.nodes:
            return self.store.contains(path)  # a link
        return self.store.is_stored(path)

    def get_builder_disk_path(self, builder: Any, filepath: str | None = None) -> str:
        """Return the location of a builder: the path of the store and that of the object."""
        base = self._source if filepath is None else os.fspath(filepath)
        return base.rstrip("/") + path_of(builder)

    def adopt(self, path: str, builder: Any) -> None:
        """Remember which builder an object was written from."""
        self.builders.adopt(self.store, path, builder)

    def data_changed(self, dataset: Dataset) -> None:
        """Remember that a dataset has changed its shape, so that consolidated metadata is written again."""
        if self._writer is not None and dataset.store is self._store:
            self._writer.changed = True

    def reference_to(self, value: Any) -> Reference | None:
        """Return the record by which this store refers to a container, builder or region."""
        if value is None or isinstance(value, Reference):
            return value
        if isinstance(value, AbstractContainer):
            value = self._builder_for(value)
        if not isinstance(value, ReferenceBuilder) and not hasattr(value, "location"):
            raise InvalidArgumentError(f"Expected a container or builder, but received: {value!r:.100}")
        return self._builder_writer().references.reference_to(value)

    def _builder_for(self, container: Any) -> Any:
        found = self.manager.get_builder(container)
        if found is not None:
            return found
        root = container
        while root.parent is not None:
            root = root.parent
        self.manager.build(root, source=self._source, root=True)
        return self.manager.build(container)


def _renamed(kwargs: dict[str, Any]) -> dict[str, Any]:
    names = {"link_data": "link_data", "exhaust_dci": "exhaust", "export_source": "export_source"}
    unknown = set(kwargs) - set(names)
    if unknown:
        raise TypeError(f"unexpected arguments: {', '.join(sorted(unknown))}")
    return {names[k]: v for k, v in kwargs.items()}
