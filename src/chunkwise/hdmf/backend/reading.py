"""Reading half of ``ZarrIO``: containers, builders, targets of references, cached specifications."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any

from hdmf.backends.errors import UnsupportedOperation
from hdmf.backends.io import HDMFIO
from hdmf.build import ConstructError, DatasetBuilder, GroupBuilder

from chunkwise.errors import InvalidArgumentError
from chunkwise.hdmf.backend.builder_references import RegionReference, stored_reference
from chunkwise.hdmf.backend.builders import BuilderTree
from chunkwise.hdmf.backend.lazy import LazyDataset, LazyGroup, let_grow
from chunkwise.hdmf.backend.schema import load_cached_namespaces, unknown_type
from chunkwise.hdmf.model.attributes import is_typed
from chunkwise.hdmf.model.place import with_storage_options
from chunkwise.hdmf.model.reference import Reference, canonical_path, parse_reference
from chunkwise.hdmf.model.region import select_region
from chunkwise.hdmf.opening import open_store
from chunkwise.hdmf.storage.resolve import BrokenLinkError, StoreSet
from chunkwise.hdmf.storage.store import Dataset, HdmfStore

__all__ = ["StoreReading"]


class StoreReading(HDMFIO):  # type: ignore[misc, unused-ignore]
    """Reads from the store that `chunkwise.hdmf.backend.io.ZarrIO` has opened."""

    _source: str
    _mode: str
    _stores: StoreSet | None
    _tree: BuilderTree | None
    _containers: dict[int, tuple[Any, Any]]

    @property
    @abstractmethod
    def writable(self) -> bool:
        """True if the store may be changed."""

    @property
    @abstractmethod
    def store(self) -> HdmfStore:
        """The open store."""

    @property
    def stores(self) -> StoreSet:
        """This store and those that links lead to."""
        self.store  # noqa: B018 - raises if it is closed
        assert self._stores is not None
        return self._stores

    @property
    def builders(self) -> BuilderTree:
        """The builders of all objects read or written so far."""
        self.store  # noqa: B018 - raises if it is closed
        assert self._tree is not None
        return self._tree

    @property
    def broken_links(self) -> list[str]:
        """Links and references that were left out so far."""
        return [] if self._tree is None else list(self._tree.broken)

    # -- containers and builders -----------------------------------------------------------------

    def read(self, **kwargs: Any) -> Any:
        """Read the container at the root.

        Raises
        ------
        UnsupportedOperation
            If the store is empty, or open for writing a new one.
        UnsupportedError
            If it has types of a schema that is newer than the installed one.
        BrokenLinkError
            If an object needs the target of a broken link; the error names all broken links.
        """
        if self._mode in ("w", "w-", "x"):
            raise UnsupportedOperation(
                f"Cannot read from file {self._source} in mode '{self._mode}'. "
                "Please use mode 'r', 'r+', or 'a'."
            )
        try:
            container = super().read(**kwargs)
            if self.writable:
                self._let_columns_grow()
            return container
        except ConstructError as e:
            if not self.broken_links:
                raise
            listed = "\n".join(self.broken_links)
            raise BrokenLinkError(
                f"{self._source} can't be read, as an object needs what a broken link leads to:\n{listed}"
            ) from e
        except ValueError as e:
            unknown = unknown_type(self.store, self.manager.namespace_catalog, e)
            if unknown is None:
                raise
            raise unknown from e

    def _let_columns_grow(self) -> None:
        for builder in list(self.builders.known()):
            own = isinstance(builder, DatasetBuilder) and builder.source == self._source
            if own and is_typed(builder.attributes) and isinstance(builder.data, LazyDataset):
                let_grow(self.manager.construct(builder))

    def read_builder(self) -> GroupBuilder:
        """Return the builder of the root, with all below; data is not read."""
        return self.builders.root()

    def builder_of(self, reference: Reference, holder: HdmfStore) -> Any:
        """Return the builder that a reference stored in `holder` means."""
        return self.builders.target(reference, holder)

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
        if reference.region is None:
            raise InvalidArgumentError("a reference without a region selects nothing")
        return stored_reference(reference.region, self.builder_of(reference, holder))

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
        if isinstance(dataset, Dataset):
            return self.builders.at(dataset.store, dataset.path)
        return self.builders.at(self.store, canonical_path(str(dataset)))

    def get_container(self, obj: Any) -> Any:
        """Return the container of a dataset that was read, or of a path."""
        return self.manager.construct(self.get_builder(obj))

    def resolve_ref(self, ref: Any) -> tuple[str, Any]:
        """Return the name and the object, a group path or a dataset, that a stored reference means."""
        store, path = self.stores.resolve(parse_reference(ref), self.store)
        return path.rpartition("/")[2], store.dataset(path) if store.is_dataset(path) else path

    # -- specifications ---------------------------------------------------------------------------

    @classmethod
    def load_namespaces(
        cls,
        namespace_catalog: Any,
        path: Any = None,
        namespaces: list[str] | None = None,
        io: Any = None,
        file: LazyGroup | HdmfStore | None = None,
        storage_options: dict[str, Any] | None = None,
        **kwargs: Any,
    ) -> dict[str, Any]:
        """Load the namespaces that are cached in a store into a catalog or type map.

        Parameters
        ----------
        namespace_catalog : NamespaceCatalog or TypeMap
        path : str, path or KvStore, optional
            The store to read, unless `file` or `io` is an open one.
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
        if isinstance(file, LazyGroup):
            file = file.store
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
