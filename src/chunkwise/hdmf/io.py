"""``ZarrIO``: hdmf containers in Zarr v2, Zarr v3 and N5 stores."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

from hdmf.backends.errors import UnsupportedOperation
from hdmf.backends.io import HDMFIO
from hdmf.backends.utils import WriteStatusTracker
from hdmf.build import BuildManager, GroupBuilder, ReferenceBuilder, TypeMap
from hdmf.container import AbstractContainer
from hdmf.spec import NamespaceCatalog

from chunkwise.errors import AlreadyExistsError, InvalidArgumentError, NotFoundError
from chunkwise.execute.pool import Pool
from chunkwise.hdmf.builder_writer import BuilderWriter
from chunkwise.hdmf.builders import BuilderTree
from chunkwise.hdmf.dataset import Dataset
from chunkwise.hdmf.lazy import LazyDataset
from chunkwise.hdmf.node_writer import NodeWriter
from chunkwise.hdmf.place import Place, place_of, source_name
from chunkwise.hdmf.reference import Reference, canonical_path
from chunkwise.hdmf.region import select_region
from chunkwise.hdmf.region_builder import RegionReference
from chunkwise.hdmf.resolve import ExternalLinks, StoreSet
from chunkwise.hdmf.spec_cache import copy_specifications, load_cached_namespaces, write_specifications
from chunkwise.hdmf.store import HdmfStore, open_store
from chunkwise.hdmf.stream import BUFFER_NBYTES, StreamProgress
from chunkwise.hdmf.tree import Format, Tree, detect_format
from chunkwise.hdmf.urls import with_storage_options
from chunkwise.kvstore.key_range import KeyRange

__all__ = ["MODES", "ZarrIO"]

UNFINISHED = ".chunkwise-unfinished"
"""Key that says that a new store is being written, or that its writing was interrupted."""

MODES = ("r", "r-", "r+", "a", "w", "w-", "x")
_FORMATS: dict[Any, Format] = {"zarr2": "zarr2", "zarr3": "zarr3", "n5": "n5", 2: "zarr2", 3: "zarr3"}


class ZarrIO(HDMFIO):  # type: ignore[misc, unused-ignore]
    """Reads and writes hdmf containers in a Zarr v2, Zarr v3 or N5 store.

    Parameters
    ----------
    path : str, path or KvStore
        Local path, URL, or kvstore whose prefix is the store.
    manager : BuildManager, optional
        By default one that knows no types.
    mode : {"r", "r-", "r+", "a", "w", "w-", "x"}
        ``"r-"`` reads without consolidated metadata; ``"w-"`` and ``"x"`` fail if the store exists.
    storage_options : dict, optional
        ``{"anon": True}`` for public buckets.
    force_overwrite : bool
        Whether mode ``"w"`` may replace what is no store.
    format : {"zarr2", "zarr3", "n5"}, 2 or 3, optional
        Of a new store; by default Zarr v3, and N5 for a path that ends in ``.n5``.
    object_codec : {"json", "pickle"}
        How references in Zarr v2 datasets are written; pickles, which are never executed here, are for
        readers that take nothing else.
    allow_external_links : {"siblings", "any", "none"}
        Which other stores links may lead to; see :class:`chunkwise.hdmf.resolve.StoreSet`.
    link_roots : sequence of str
        Directories or URLs below which they may always lead.
    strict_links : bool
        Whether a broken link is an error; else it is left out with a :class:`BrokenLinkWarning`.
    consolidated : bool or "check"
        Whether consolidated metadata is used in mode ``"r"``.
    attribute_types : bool
        Whether types of attributes that JSON loses, such as uint32, are recorded.
    region_attributes : {"spec", "compat"}
        Form of region references in attributes of Zarr v2; hdmf-zarr opens files with the second only.
    buffer_nbytes : int
        Limit on the data that waits to be stored while it is streamed.
    progress : callable, optional
        Called with path, rows done and rows expected.
    herd_path : str, optional
        Of hdmf's file of external resources.

    Raises
    ------
    FileExistsError
        In modes ``"w-"`` and ``"x"`` if there is something; in ``"w"`` if it is no store.
    FileNotFoundError
        In modes that read if there is no store.
    """

    def __init__(
        self,
        path: Place,
        manager: BuildManager | None = None,
        mode: str = "r",
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
        herd_path: str | None = None,
    ) -> None:
        if mode not in MODES:
            raise InvalidArgumentError(f"mode is {mode!r}, but expected one of {', '.join(MODES)}")
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
            if value not in known:
                raise InvalidArgumentError(f"{name} is {value!r}, but expected one of {known}")
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
        self._buffer_nbytes = buffer_nbytes
        self._progress = progress
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
        """The path, URL or kvstore that was given."""
        return self._path

    @property
    def mode(self) -> str:
        """How it was opened."""
        return self._mode

    @property
    def writable(self) -> bool:
        """Whether the store may be changed."""
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
    def stores(self) -> StoreSet:
        """This store and those that links lead to."""
        self.store  # noqa: B018 - raises if it is closed
        assert self._stores is not None
        return self._stores

    @property
    def _file(self) -> HdmfStore | None:
        # pynwb hands it to load_namespaces.
        return self._store

    @property
    def broken_links(self) -> list[str]:
        """Links and references that were left out so far."""
        return [] if self._tree is None else list(self._tree.broken)

    @staticmethod
    def can_read(path: Any) -> bool:
        """Return whether there is a store with HDMF data at a path or URL; raises nothing."""
        try:
            store = open_store(path) if not isinstance(path, Path) else open_store(str(path))
            root = store.tree.nodes["/"].attributes
            return bool(root) and any(
                k in root for k in ("namespace", "neurodata_type", "data_type", ".specloc")
            )
        except Exception:
            return False

    def is_open(self) -> bool:
        """Return whether it is open."""
        return getattr(self, "_store", None) is not None

    def is_remote(self) -> bool:
        """Return whether the store is not in a local file system."""
        from chunkwise.kvstore.file import FileStore

        return not isinstance(self.store.location.kv, FileStore)

    # -- opening and closing ----------------------------------------------------------------------

    def open(self) -> None:
        """Open the store if it is closed."""
        if self._store is not None:
            return
        location = place_of(self._place)
        found = detect_format(location)
        mode = "w" if self._mode in ("w-", "x") else self._mode
        if mode == "a":
            mode = "w" if found is None else "r+"
        children = None
        if mode == "w" or found is None:
            children = location.kv.list_children(location.path)
        occupied = found is not None or bool(children and (children.keys or children.prefixes))
        if mode == "w":
            if occupied and self._mode in ("w-", "x", "a"):
                raise AlreadyExistsError(
                    f"there is something at {self._source} already (mode {self._mode!r})"
                )
            if occupied and found is None and not self._force and UNFINISHED not in _names(children):
                raise AlreadyExistsError(
                    f"what is at {self._source} is no store; it is replaced only with force_overwrite=True"
                )
            self._store = self._create(location, occupied)
        elif found is None:
            raise NotFoundError(f"there is no HDMF store at {self._source}")
        else:
            consolidated = self._consolidated if mode == "r" else False
            self._store = open_store(location, consolidated=consolidated, pool=self._pool)
            self._store.source = self._source
        self._stores = StoreSet(self._store, self._open_other, self.external_links, self._roots)
        self._tree = BuilderTree(self, self._stores, strict=self._strict)
        if self.writable:
            self._writer = NodeWriter(self._store, pickled=self._pickled, compat_regions=self._compat_regions)

    def _create(self, location: Any, occupied: bool) -> HdmfStore:
        if occupied:
            keys = KeyRange.of_prefix(location.path) if location.path else KeyRange()
            location.kv.delete_range(keys.start, keys.stop)
        format: Format = self._format or ("n5" if self._source.endswith(".n5") else "zarr3")
        store = HdmfStore(location, self._source, Tree(format), self._pool)
        store.tree.add(store.convention.group("/", {}))
        location.kv.write(location.path + UNFINISHED, b"")
        return store

    def _open_other(self, name: str) -> HdmfStore | None:
        try:
            return open_store(name, pool=self._pool)
        except NotFoundError:
            return None

    def close(self) -> None:
        """Bring consolidated metadata up to date if data was changed, and close the store."""
        store, writer = getattr(self, "_store", None), getattr(self, "_writer", None)
        if store is None:
            return
        try:
            if writer is not None and writer.changed and not self._failed:
                self._finish(self._consolidate)
        finally:
            self._store = self._stores = self._tree = self._writer = None
            self._containers.clear()

    # -- reading ----------------------------------------------------------------------------------

    def read(self, **kwargs: Any) -> Any:
        """Read the container at the root.

        Raises
        ------
        UnsupportedOperation
            If the store is empty, or open for writing a new one.
        """
        if self._mode in ("w", "w-", "x"):
            raise UnsupportedOperation(
                f"Cannot read from file {self._source} in mode '{self._mode}'. "
                "Please use mode 'r', 'r+', or 'a'."
            )
        return super().read(**kwargs)

    def read_builder(self) -> GroupBuilder:
        """Return the builder of the root, with all below; data is not read."""
        self.store  # noqa: B018 - raises if it is closed
        assert self._tree is not None
        return self._tree.root()

    def builder_of(self, reference: Reference, holder: HdmfStore) -> Any:
        """Return the builder that a reference stored in `holder` means."""
        self.store  # noqa: B018 - raises if it is closed
        assert self._tree is not None
        return self._tree.target(reference, holder)

    def container_of(self, reference: Reference, holder: HdmfStore) -> Any:
        """Return the container that a reference stored in `holder` means."""
        builder = self.builder_of(reference, holder)
        # The manager's own lookup is slow where there are many references to few objects.
        found = self._containers.get(id(builder))
        if found is None or found[0] is not builder:
            found = self._containers[id(builder)] = builder, self.manager.construct(builder)
        return found[1]

    def region_reference(self, reference: Reference, holder: HdmfStore) -> RegionReference:
        """Return a region reference stored in `holder`, with the builder of its target."""
        return RegionReference(reference.region, self.builder_of(reference, holder))

    def region_data(self, reference: Reference, holder: HdmfStore) -> Any:
        """Return the data that a region reference stored in `holder` selects.

        Raises
        ------
        IndexError
            If its target has become too small.
        """
        store, path = self.stores.resolve(reference, holder)
        if reference.region is None:
            raise InvalidArgumentError("a reference without a region selects nothing")
        return select_region(LazyDataset(store.dataset(path), self), reference.region)

    def get_builder(self, obj: Any) -> Any:
        """Return the builder of a dataset that was read, or of a path."""
        dataset = obj.dataset if isinstance(obj, LazyDataset) else obj
        assert self._tree is not None
        if isinstance(dataset, Dataset):
            return self._tree.at(dataset.store, dataset.path)
        return self._tree.at(self.store, canonical_path(str(dataset)))

    def get_container(self, obj: Any) -> Any:
        """Return the container of a dataset that was read, or of a path."""
        return self.manager.construct(self.get_builder(obj))

    def resolve_ref(self, ref: Any) -> tuple[str, Any]:
        """Return the name and the object, a group path or a dataset, that a stored reference means."""
        from chunkwise.hdmf.reference import parse_reference

        store, path = self.stores.resolve(parse_reference(ref), self.store)
        return path.rpartition("/")[2], store.dataset(path) if store.is_dataset(path) else path

    # -- writing ----------------------------------------------------------------------------------

    def write(self, container: Any, **kwargs: Any) -> None:
        """Write a container as the root of the store.

        Parameters
        ----------
        container : Container
        cache_spec : bool
            Whether the specification is stored as well.
        link_data : bool
            Whether data that was read from another store becomes a link to it, not a copy.
        exhaust_dci : bool
            Whether data chunk iterators are written one after the other, not in turns.
        number_of_jobs : int
            Threads that encode and store data, if more than 1; by default one for each processor.
        max_threads_per_process : int, optional
            Multiplies `number_of_jobs`.
        consolidate_metadata : bool
            Whether all documents are also stored in one.
        """
        cache_spec = kwargs.pop("cache_spec", True)
        jobs = kwargs.pop("number_of_jobs", 1)
        threads = kwargs.pop("max_threads_per_process", None)
        if kwargs.pop("multiprocessing_context", None) is not None:
            raise InvalidArgumentError("data is written by threads; there is no multiprocessing_context")
        if jobs > 1:
            self._use_threads(jobs * (threads or 1))
        consolidate = kwargs.pop("consolidate_metadata", True)
        super().write(container=container, **kwargs, consolidate_metadata=consolidate, _finish=False)
        self._complete(self.manager.namespace_catalog if cache_spec else None, consolidate)

    def _use_threads(self, n: int) -> None:
        self._pool = self.store.pool = Pool(n, bounded=True)

    def write_builder(self, builder: GroupBuilder, **kwargs: Any) -> None:
        """Write the builder of a root.

        Parameters
        ----------
        builder : GroupBuilder
        link_data : bool
        exhaust_dci : bool
        export_source : str, optional
            The file that is exported: what is in it counts as being in this store.
        consolidate_metadata : bool

        Raises
        ------
        UnsupportedOperation
            If the store is open for reading only.
        """
        link_data = kwargs.pop("link_data", True)
        exhaust = kwargs.pop("exhaust_dci", True)
        export_source = kwargs.pop("export_source", None)
        consolidate = kwargs.pop("consolidate_metadata", True)
        finish = kwargs.pop("_finish", True)
        if kwargs:
            raise TypeError(f"write_builder got unexpected arguments: {', '.join(sorted(kwargs))}")
        writer = self._builder_writer(link_data, exhaust, export_source)
        self._failed = True
        writer.root(builder)
        self._failed = False
        if finish:
            self._complete(None, consolidate)

    def _builder_writer(
        self, link_data: bool = True, exhaust: bool = True, export_source: str | None = None
    ) -> BuilderWriter:
        if not self.writable:
            raise UnsupportedOperation(f"Cannot write to {self._source} in mode '{self._mode}'")
        self.store  # noqa: B018 - raises if it is closed
        assert self._writer is not None
        return BuilderWriter(
            self,
            self._writer,
            link_data=link_data,
            exhaust=exhaust,
            export_source=export_source,
            keep_types=self._keep_types,
            buffer_nbytes=self._buffer_nbytes,
            progress=self._progress,
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
        self._failed = False
        if self._mode in ("w", "w-", "x", "a"):
            location = self.store.location
            location.kv.delete(location.path + UNFINISHED)

    def write_group(self, parent: str, builder: GroupBuilder, **kwargs: Any) -> None:
        """Write a group below the group at the path `parent`; arguments as for :meth:`write_builder`."""
        self._builder_writer(**_renamed(kwargs)).group(canonical_path(f"{parent}/{builder.name}"), builder)

    def write_dataset(self, parent: str, builder: Any, force_data: Any = None, **kwargs: Any) -> None:
        """Write a dataset below the group at the path `parent`; arguments as for :meth:`write_builder`.

        Parameters
        ----------
        force_data : array_like, optional
            Written in the place of the builder's own data.
        """
        writer = self._builder_writer(**_renamed(kwargs))
        if force_data is not None:
            from hdmf.build import DatasetBuilder

            builder = DatasetBuilder(
                builder.name,
                force_data,
                dtype=builder.dtype,
                attributes=builder.attributes,
                source=self._source,
            )
        writer.dataset(canonical_path(parent), builder)
        writer.run_streams()

    def write_link(self, parent: str, builder: Any, **kwargs: Any) -> None:
        """Write a link into the group at the path `parent`."""
        writer = self._builder_writer(**_renamed(kwargs))
        path = canonical_path(parent)
        links = {**self.store.links(path), builder.name: writer.reference_to(builder.builder)}
        attributes = dict(self.store.tree.nodes[path].attributes)
        attributes.pop(self.store.convention.links_member, None)
        writer.writer.group(path, attributes, links)
        self.set_written(builder)

    def export(self, src_io: HDMFIO, **kwargs: Any) -> None:
        """Write the contents of another file, of any backend, as this store.

        Parameters
        ----------
        src_io : HDMFIO
            Open for reading.
        container : Container, optional
            The root that was read from it, perhaps modified since.
        write_args : dict, optional
            Arguments of :meth:`write_builder`.  ``link_data``, False by default here, makes links to the
            data of the source instead of copies.
        cache_spec : bool
        number_of_jobs : int
        consolidate_metadata : bool
        """
        if self._mode not in ("w", "w-", "x"):
            raise UnsupportedOperation(
                f"Cannot export to file {self._source} in mode '{self._mode}'. Please use mode 'w'."
            )
        cache_spec = kwargs.pop("cache_spec", True)
        consolidate = kwargs.pop("consolidate_metadata", True)
        jobs = kwargs.pop("number_of_jobs", 1)
        args = dict(kwargs.pop("write_args", None) or {})
        if jobs > 1:
            self._use_threads(jobs)
        link_data = args.setdefault("link_data", False)
        if link_data and not isinstance(src_io, ZarrIO):
            raise UnsupportedOperation(
                f"Cannot export from {type(src_io).__name__} with link_data=True: its data can't be linked to"
            )
        if src_io.source is not None:
            args["export_source"] = str(src_io.source)
        args |= {"consolidate_metadata": consolidate, "_finish": False}
        super().export(src_io=src_io, write_args=args, **kwargs)
        catalog = None
        if cache_spec:
            assert self._writer is not None
            catalog = self.manager.namespace_catalog
            if isinstance(src_io, ZarrIO):
                copy_specifications(src_io.store, self._writer)
            others = None if src_io.manager is None else src_io.manager.namespace_catalog
            if others is not None and list(others.namespaces):
                catalog = others
        self._complete(catalog, consolidate)

    # -- what was written -------------------------------------------------------------------------

    def set_written(self, builder: Any) -> None:
        """Remember that a builder is stored."""
        self._tracker.set_written(builder)

    def get_written(self, builder: Any, check_on_disk: bool = False) -> bool:
        """Return whether a builder was written or read; with `check_on_disk` whether it is there, too."""
        written = bool(self._tracker.get_written(builder))
        return written and (not check_on_disk or self.get_builder_exists_on_disk(builder))

    def get_builder_exists_on_disk(self, builder: Any) -> bool:
        """Return whether there is an object at the path of a builder."""
        return self.store.contains(BuilderWriter.path_of(builder))

    def get_builder_disk_path(self, builder: Any, filepath: str | None = None) -> str:
        """Return where a builder is stored: the path of the store and that of the object."""
        base = self._source if filepath is None else os.fspath(filepath)
        return base.rstrip("/") + BuilderWriter.path_of(builder)

    def adopt(self, path: str, builder: Any) -> None:
        """Remember which builder an object was written from."""
        assert self._tree is not None
        self._tree.adopt(self.store, path, builder)

    def data_changed(self, dataset: Dataset) -> None:
        """Remember that a dataset has another shape, so that consolidated metadata is written again."""
        if self._writer is not None and dataset.store is self._store:
            self._writer.changed = True

    def reference_to(self, value: Any, holder: HdmfStore) -> Reference | None:
        """Return the record by which `holder` refers to a container, builder or region."""
        if value is None or isinstance(value, Reference):
            return value
        if isinstance(value, AbstractContainer):
            value = self._builder_for(value)
        if not isinstance(value, ReferenceBuilder) and not hasattr(value, "location"):
            raise InvalidArgumentError(f"Expected a container or builder, but received: {value!r:.100}")
        return self._builder_writer().reference_to(value)

    def _builder_for(self, container: Any) -> Any:
        found = self.manager.get_builder(container)
        if found is not None:
            return found
        root = container
        while root.parent is not None:
            root = root.parent
        self.manager.build(root, source=self._source, root=True)
        return self.manager.build(container)

    # -- specifications ---------------------------------------------------------------------------

    @classmethod
    def load_namespaces(
        cls,
        namespace_catalog: Any,
        path: Any = None,
        namespaces: list[str] | None = None,
        io: Any = None,
        file: HdmfStore | None = None,
        storage_options: dict[str, Any] | None = None,
        **kwargs: Any,
    ) -> dict[str, Any]:
        """Load the namespaces that are cached in a store into a catalog or type map.

        Parameters
        ----------
        namespace_catalog : NamespaceCatalog or TypeMap
        path : str, path or KvStore, optional
            Of the store; or `file`, an open one, or `io`.
        namespaces : list of str, optional
            By default all.

        Returns
        -------
        dict
            From namespace to those that it includes.
        """
        given = {k for k, v in kwargs.items() if v is not None}
        if given:
            raise TypeError(f"load_namespaces got unexpected arguments: {', '.join(sorted(given))}")
        if file is None and io is not None:
            file = io.store
        store = open_store(with_storage_options(path, storage_options)) if file is None else file
        return load_cached_namespaces(store, namespace_catalog, namespaces)

    def load_namespaces_io(
        self, namespace_catalog: Any, namespaces: list[str] | None = None
    ) -> dict[str, Any]:
        """Load the namespaces that are cached in this store into a catalog or type map."""
        return load_cached_namespaces(self.store, namespace_catalog, namespaces)

    @staticmethod
    def generate_dataset_html(dataset: Any) -> str:
        """Return a table that describes a dataset."""
        from hdmf.utils import generate_array_html_repr, get_basic_array_info

        info = get_basic_array_info(dataset)
        if isinstance(dataset, LazyDataset):
            info["Chunk shape"] = dataset.chunks
        return str(generate_array_html_repr(info, dataset))

    def __exit__(self, kind: Any, value: Any, traceback: Any) -> None:
        self.close()


def _renamed(kwargs: dict[str, Any]) -> dict[str, Any]:
    names = {"link_data": "link_data", "exhaust_dci": "exhaust", "export_source": "export_source"}
    unknown = set(kwargs) - set(names)
    if unknown:
        raise TypeError(f"unexpected arguments: {', '.join(sorted(unknown))}")
    return {names[k]: v for k, v in kwargs.items()}


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


def _names(children: Any) -> set[str]:
    return set() if children is None else {key.rpartition("/")[2] for key in children.keys}
