"""Stored groups with their attributes: ``ZarrIO.file``, without hdmf's builders."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, MutableMapping
from typing import Any

from chunkwise.hdmf.backend.lazy import LazyDataset
from chunkwise.hdmf.model.reference import canonical_path, join_path
from chunkwise.hdmf.storage.store import HdmfStore

__all__ = ["StoredGroup", "path_in"]


class StoredGroup(Mapping[str, Any]):
    """A group of the open store; looking up gives groups and datasets.

    Attributes
    ----------
    path : str
        From the root, which is "/".
    attrs : MutableMapping
        Attributes of the store, references and links as they are stored; what is set is stored.
    """

    def __init__(self, io: Any, path: str = "/") -> None:
        self._io = io
        self.path = path
        self.attrs: MutableMapping[str, Any] = _Attributes(io, path)

    def __repr__(self) -> str:
        return f"<StoredGroup {self.path} of {self.store.source}>"

    @property
    def name(self) -> str:
        """The path."""
        return self.path

    @property
    def basename(self) -> str:
        """Last name of the path."""
        return self.path.rpartition("/")[2]

    @property
    def store(self) -> HdmfStore:
        """The store that it is in."""
        store: HdmfStore = self._io.store
        return store

    def __getitem__(self, name: str) -> StoredGroup | LazyDataset:
        path = canonical_path(name if name.startswith("/") else join_path(self.path, name))
        if path not in self.store.tree.nodes:
            raise KeyError(name)
        if self.store.is_dataset(path):
            return LazyDataset(self.store.dataset(path), self._io)
        return StoredGroup(self._io, path)

    def __iter__(self) -> Iterator[str]:
        return iter(self.store.names(self.path))

    def __len__(self) -> int:
        return len(self.store.names(self.path))


class _Attributes(MutableMapping[str, Any]):
    """The attributes of a group as they are stored."""

    def __init__(self, io: Any, path: str) -> None:
        self._io = io
        self._path = path

    def _all(self) -> Mapping[str, Any]:
        attributes: Mapping[str, Any] = self._io.store.tree.nodes[self._path].attributes
        return attributes

    def __getitem__(self, name: str) -> Any:
        value = self._all()[name]
        return tuple(value) if isinstance(value, list) else value  # a change of the list would be lost

    def __setitem__(self, name: str, value: Any) -> None:
        self._io.write_attributes(self._path, {name: value})

    def __delitem__(self, name: str) -> None:
        if name not in self._all():
            raise KeyError(name)
        self._io.write_attributes(self._path, {name: None})

    def __iter__(self) -> Iterator[str]:
        return iter(self._all())

    def __len__(self) -> int:
        return len(self._all())

    def __repr__(self) -> str:
        return repr(self.asdict())

    def asdict(self) -> dict[str, Any]:
        """Return a copy of all, as zarr-python's attributes do."""
        return dict(self._all())

    def put(self, attributes: Mapping[str, Any]) -> None:
        """Replace all by others, as zarr-python's attributes do."""
        self._io.write_attributes(self._path, dict.fromkeys(self._all()) | dict(attributes))


def path_in(parent: Any) -> str:
    """Return the path of an object of the store: of a path, a group or a dataset."""
    if isinstance(parent, str):
        return canonical_path(parent)
    if isinstance(parent, StoredGroup):
        return parent.path
    if isinstance(parent, LazyDataset):
        return parent.dataset.path
    if isinstance(parent, HdmfStore):
        return "/"
    raise TypeError(f"expected a path, or a group or dataset of the store, got {type(parent).__name__}")
