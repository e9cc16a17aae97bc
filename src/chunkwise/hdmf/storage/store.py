"""A store and its datasets: each leads to the other, and they share what they keep in memory."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from chunkwise.errors import ChunkwiseError, NotFoundError, OutOfBoundsError, prefix
from chunkwise.extension.inside import Pool
from chunkwise.extension.trees import Location
from chunkwise.hdmf.conventions.n5 import restore_number
from chunkwise.hdmf.model.attributes import object_id_of
from chunkwise.hdmf.model.declaration import Declaration, declare
from chunkwise.hdmf.model.element import Element
from chunkwise.hdmf.model.physical import PhysicalArray
from chunkwise.hdmf.model.reference import join_path, parent_path
from chunkwise.hdmf.model.selection import members_of, parse_selection, split_names
from chunkwise.hdmf.model.tree import HdmfTree
from chunkwise.hdmf.model.values import as_values, infer_element, to_logical
from chunkwise.hdmf.storage.guard import StoreGuard
from chunkwise.hdmf.storage.store_content import StoreContent, put, read_encoded, stored_shape, with_regions

__all__ = ["Dataset", "HdmfStore"]

_KEEP = 1 << 20
"""Datasets of references with at most this many elements are kept in memory after they were read."""


class HdmfStore(StoreContent):
    """An open store.

    Attributes
    ----------
    location : Location
        Of its root.
    home : str
        Final prefix of its keys, after a new store has replaced another one.
    source : str
        Its name: an absolute local path with symbolic links resolved, or a URL.
    format : {"zarr2", "zarr3", "n5"}
    tree : HdmfTree
        All nodes.
    pool : Pool
        Threads that read and write chunks.
    guard : StoreGuard
        Lets writers write while the store is there.
    replace_encoded : callable
        Writes an encoded dataset of N5 again, with what a function makes of its values.
    """

    def __init__(
        self,
        location: Location,
        source: str,
        tree: HdmfTree,
        pool: Pool,
        replace_encoded: Callable[[Dataset, Callable[[npt.NDArray[Any]], npt.NDArray[Any]]], None],
    ) -> None:
        super().__init__(location, source, tree, pool)
        self.guard = StoreGuard(self)
        self.replace_encoded = replace_encoded
        self._datasets: dict[str, Dataset] = {}

    def attributes(self, path: str) -> dict[str, Any]:
        """Return the attributes of users of a group or dataset, references as records."""
        if self.is_dataset(path):
            return self.dataset(path).attributes
        return self.load_attributes(path)

    def move(self, location: Location) -> None:
        """Note that the store is now at another location."""
        self.location = location
        for dataset in self._datasets.values():
            dataset.forget()

    def changed(self, path: str) -> None:
        """Drop cached results for a node whose document has changed."""
        self._links.pop(path, None)
        dataset = self._datasets.get(path)
        if dataset is not None:
            dataset.forget()

    def dataset(self, path: str) -> Dataset:
        """Return the dataset at a path.

        Raises
        ------
        NotFoundError
            If there is none.
        """
        found = self._datasets.get(path)
        if found is None:
            if path not in self.tree.nodes or not self.is_dataset(path):
                raise NotFoundError(f"there is no dataset {path} in {self.source}")
            found = self._datasets[path] = Dataset(self, path)
        return found


class Dataset:
    """A dataset, independent of the storage format.

    Made by `HdmfStore.dataset`; two of the same path are the same object.

    Attributes
    ----------
    store : HdmfStore
    path : str
    """

    __slots__ = (
        "__weakref__",
        "_attributes",
        "_declaration",
        "_declared",
        "_element",
        "_kept",
        "_physical",
        "path",
        "store",
    )

    def __init__(self, store: HdmfStore, path: str) -> None:
        self.store = store
        self.path = path
        self._declaration: Declaration | None = None
        self._element: Element | None = None
        self._declared: Element | None = None
        self._physical: PhysicalArray | None = None
        self._attributes: dict[str, Any] | None = None
        self._kept: npt.NDArray[Any] | None = None

    def __repr__(self) -> str:
        return f"<Dataset {self.path} of {self.store.source}: {self.element.name}, shape {self.shape}>"

    # -- what it is -------------------------------------------------------------------------------

    @property
    def declaration(self) -> Declaration:
        """Element type and shape, as the store declares them."""
        if self._declaration is None:
            self._declaration = declare(self.store.tree.nodes[self.path], self.store.format)
        return self._declaration

    @property
    def element(self) -> Element:
        """Type of the elements."""
        if self._element is None:
            element = self.declaration.element
            self._element = infer_element(self._stored_values(...)) if element is None else element
        return self._element

    def declare(self, element: Element) -> Element:
        """Set the element type from a schema, which the store doesn't have."""
        self._declared = self._element = element
        return element

    @property
    def declared(self) -> Element | None:
        """The element type of the schema, or None."""
        return self._declared

    @property
    def scalar(self) -> bool:
        """True if it is one value, whatever its stored shape."""
        return self.declaration.scalar

    @property
    def attributes(self) -> dict[str, Any]:
        """Attributes of users, references as records."""
        if self._attributes is None:
            self._attributes = self.store.load_attributes(self.path)
        return self._attributes

    @property
    def object_id(self) -> str | None:
        """Identity, which datasets with a data type have."""
        return object_id_of(self.attributes)

    @property
    def physical(self) -> PhysicalArray:
        """The stored array; there is none for encoded and empty datasets of N5."""
        if self._physical is None:
            self._physical = self.store.physical(self.path)
        return self._physical

    @property
    def is_array(self) -> bool:
        """True if it is stored as one array."""
        return self.store.tree.nodes[self.path].is_array

    @property
    def stored_shape(self) -> tuple[int, ...]:
        """Shape as stored: ``(1,)`` for scalars where the format has no others."""
        return self.physical.shape if self.is_array else stored_shape(self.store, self.path)

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape as users see it; ``()`` for scalars."""
        return () if self.scalar else self.stored_shape

    @property
    def size(self) -> int:
        """Number of elements."""
        return math.prod(self.shape)

    @property
    def nbytes(self) -> int:
        """Bytes of the values in memory; of text and bytes those of the pointers to them."""
        return self.size * self.element.memory_dtype.itemsize

    @property
    def chunks(self) -> tuple[int, ...] | None:
        """Shape of the smallest piece that can be read alone; None if it is not stored as one array."""
        return self.physical.inner_chunk_shape if self.is_array else None

    @property
    def shards(self) -> tuple[int, ...] | None:
        """Shape of the shards that chunks lie in; None if there are none."""
        outer = self.physical.chunk_shape if self.is_array else None
        return None if outer == self.chunks else outer

    # -- values -----------------------------------------------------------------------------------

    def read(self, key: Any = Ellipsis) -> npt.NDArray[Any]:
        """Return the values that an index selects, as NumPy has them; of shape ``()`` for one element.

        Names of members among the indices select these members of a compound, as in h5py.

        Raises
        ------
        OutOfBoundsError
            If the index leads out of the dataset.
        ChunkwiseError
            If stored bytes are corrupt or would have to be executed; the error names the dataset.
        """
        names, key = split_names(key)
        if names is not None:
            return members_of(self.read(key), names, self.path)
        if self.scalar:
            try:
                parse_selection(key, ())
            except OutOfBoundsError:
                raise OutOfBoundsError(f'dataset "{self.path}" is a scalar; it takes no index') from None
            return self._values(...).reshape(-1)[:1].reshape(())
        if not self.element.has_references or self.size > _KEEP:
            return self._values(key)
        if self._kept is None:
            self._kept = self._values(...)
        return parse_selection(key, self.shape).of(self._kept)

    def value(self) -> Any:
        """Return the value of a scalar dataset: text, bytes, a reference, a NumPy scalar or record."""
        return self.read()[()]

    def _values(self, key: Any) -> npt.NDArray[Any]:
        try:
            if self.declaration.indirect:
                stored, parent = self._stored_values(key), parent_path(self.path)
                read = lambda name: self.store.dataset(join_path(parent, name)).read()  # noqa: E731
                return with_regions(stored, self.element, self.declaration.indirect, read)
            return to_logical(self._stored_values(key), self.element)
        except ChunkwiseError as e:
            if f'"{self.path}"' in str(e):
                raise
            raise prefix(e, f'dataset "{self.path}"') from None

    def _stored_values(self, key: Any) -> npt.NDArray[Any]:
        if not self.store.tree.has_encoded:
            return self.physical.read(key)
        if self.is_array:
            return restore_number(self.physical.read(key), self._stored_element())
        return read_encoded(self.store, self.path, self._stored_element(), key)

    def _stored_element(self) -> Element:
        assert self.declaration.element is not None
        return self.declaration.element

    def forget(self) -> None:
        """Drop cached values and metadata that a write has changed."""
        self._kept = self._physical = self._declaration = self._attributes = None
        self._element = self._declared

    # -- writing ----------------------------------------------------------------------------------

    def write(self, key: Any, values: Any) -> None:
        """Store values where an index says.

        Parameters
        ----------
        key : index
            Integers, slices, lists.
        values : array_like
            Of users: text, bytes, records, `Reference`; broadcast to the selection.

        Notes
        -----
        Text, bytes, references and compounds in N5 are written again as a whole; the old values are valid
        until the new ones are stored.
        """
        if not self.is_array:
            self._write_encoded(key, values)
            return
        self._kept = None
        stored = self.store.convention.to_stored(*self._as_stored(values), self.physical)
        self.physical.write(key, stored).result()

    def _as_stored(self, values: Any) -> tuple[Any, Element]:
        """Return values of users with the type that is stored, which may be another than a schema says."""
        stored = self.declaration.element
        if stored is None or self._declared is None or stored == self._declared:
            return values, self.element
        return as_values(as_values(values, self._declared), stored), stored

    def _write_encoded(self, key: Any, values: Any) -> None:
        """Store values in an encoded dataset of N5, which is written again as a whole."""
        element = self._stored_element()
        given = as_values(self._as_stored(values)[0], element)
        if self.scalar:
            self.read(key)  # raises for an index, which a scalar does not take

        def change(before: npt.NDArray[Any]) -> npt.NDArray[Any]:
            now = np.array(before, element.memory_dtype, copy=True, order="C")
            if self.scalar:
                now.reshape(-1)[:] = given.reshape(-1)
            else:
                put(now, key, given)
            return now

        self.store.replace_encoded(self, change)
        self._kept = None

    def stored_logical(self) -> npt.NDArray[Any]:
        """Return all values with the type that is stored."""
        values = to_logical(self._stored_values(...), self._stored_element())
        return values.reshape(()) if self.scalar else values

    def append(self, rows: Any) -> None:
        """Add rows at the end of the first axis: all of them, or none.

        Other processes may append to the same dataset at the same time.

        Parameters
        ----------
        rows : array_like
            Of users, one dimension more than a row has.
        """
        rows = as_values(rows, self.element)
        if self.scalar or rows.ndim != len(self.shape) or rows.shape[1:] != self.shape[1:]:
            raise OutOfBoundsError(
                f'rows of shape {rows.shape[1:]} don\'t fit dataset "{self.path}" of shape {self.shape}'
            )
        if not len(rows):
            return
        if self.is_array:
            physical = self.physical
            physical.append(self.store.convention.to_stored(*self._as_stored(rows), physical))
        else:
            rows = self._as_stored(rows)[0]
            self.store.replace_encoded(self, lambda now: np.concatenate([now, rows.astype(now.dtype)]))
        self._kept = None
