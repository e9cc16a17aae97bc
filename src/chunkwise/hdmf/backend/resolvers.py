"""Datasets that hold references: indexing gives what they mean, as builders or as containers."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
from hdmf.build import ObjectMapper
from hdmf.query import BuilderResolver, ContainerResolver

from chunkwise.hdmf.backend.lazy import LazyDataset
from chunkwise.hdmf.model.element import Element, Member
from chunkwise.hdmf.model.reference import Reference
from chunkwise.hdmf.model.selection import split_names
from chunkwise.hdmf.model.values import map_objects

__all__ = [
    "BuilderReferences",
    "BuilderRegions",
    "BuilderTable",
    "ContainerReferences",
    "ContainerRegions",
    "ContainerTable",
    "resolver_of",
]


class _Resolving(LazyDataset):
    """Base of resolvers: ``_resolve`` turns a reference into a builder or container."""

    _builders = True
    _inverse: ClassVar[type[_Resolving]]

    def _resolve(self, reference: Reference | None) -> Any:
        if reference is None:
            return None
        find = self._io.builder_of if self._builders else self._io.container_of
        return find(reference, self._dataset.store)

    def invert(self) -> Any:
        """Return the dataset that resolves to containers instead of builders, or the other way round."""
        return self.get_inverse_class()(self._dataset, self._io)

    @classmethod
    def get_inverse_class(cls) -> type[_Resolving]:
        """Return the class of `invert`."""
        return cls._inverse

    def _reference_to(self, value: Any) -> Any:
        return self._io.reference_to(value)

    def _stored(self, row: Any) -> Any:
        """Return the stored form of a row that is added."""
        return self._reference_to(row)

    def append(self, arg: Any) -> None:
        self._check_writable()
        self._append_rows([self._stored(arg)])

    def extend(self, arg: Any) -> None:
        self._check_writable()
        self._append_rows([self._stored(row) for row in arg])

    def __iter__(self) -> Iterator[Any]:
        for i in range(len(self)):
            yield self[i]


class _References(_Resolving):
    """Object references."""

    @property
    def dtype(self) -> Any:
        return "object"

    def __getitem__(self, key: Any) -> Any:
        found = self._read(key)
        if isinstance(found, np.ndarray):
            return _nested(found, self._resolve)
        return self._resolve(found)

    def ref(self, i: int) -> Reference | None:
        """Return one reference as it is stored."""
        return self._read(i)  # type: ignore[no-any-return]

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> npt.NDArray[Any]:
        return map_objects(np.asarray(self._read(...), object).reshape(self.shape), self._resolve)

    def __setitem__(self, key: Any, value: Any) -> None:
        self._check_writable()
        listed = isinstance(value, list | tuple)
        self._dataset.write(
            key, [self._reference_to(v) for v in value] if listed else self._reference_to(value)
        )


def _nested(values: npt.NDArray[Any], resolve: Callable[[Any], Any]) -> Any:
    if values.ndim == 0:
        return resolve(values[()])
    return [_nested(v, resolve) if isinstance(v, np.ndarray) else resolve(v) for v in values]


class BuilderReferences(_References, BuilderResolver):  # type: ignore[misc, unused-ignore]
    """Object references that resolve to builders."""


class ContainerReferences(_References, ContainerResolver):  # type: ignore[misc, unused-ignore]
    """Object references that resolve to containers."""

    _builders = False


class _Regions(_References):
    """Region references: indexing gives the selected data."""

    @property
    def dtype(self) -> Any:
        return "region"

    def _resolve(self, reference: Reference | None) -> Any:
        return None if reference is None else self._io.region_data(reference, self._dataset.store)

    def ref(self, i: int) -> Any:
        """Return one region reference: its target's builder, and the selected elements."""
        reference = self._read(i)
        return None if reference is None else self._io.region_reference(reference, self._dataset.store)


class BuilderRegions(_Regions, BuilderResolver):  # type: ignore[misc, unused-ignore]
    """Region references in the hands of builders."""


class ContainerRegions(_Regions, ContainerResolver):  # type: ignore[misc, unused-ignore]
    """Region references in the hands of containers."""

    _builders = False


class _Table(_Resolving):
    """Records with members that are references."""

    @property
    def dtype(self) -> Any:
        return [m["dtype"] for m in self._dataset.element.describe()]

    @property
    def record_dtype(self) -> np.dtype[Any]:
        """NumPy type of a row."""
        return self._dataset.element.memory_dtype

    def __getitem__(self, key: Any) -> Any:
        names, rest = split_names(key)
        if isinstance(names, str):  # references are swapped in records
            rows = self[([names], *(rest if isinstance(rest, tuple) else (rest,)))]
            return rows[names]
        found = self._read(key)
        rows = np.array(found, found.dtype, copy=True)  # without a type a record would share its memory
        members = self._dataset.element.members
        if names is not None:
            members = tuple(m for name in names for m in members if m.name == name)
        self._swap(rows, members)
        return rows[()] if rows.ndim == 0 else rows

    def _swap(self, rows: npt.NDArray[Any], members: Sequence[Member]) -> None:
        for m in members:
            if m.element.kind == "compound":
                self._swap(rows[m.name], m.element.members)
            elif m.element.has_references:
                column = rows[m.name]
                for index in np.ndindex(rows.shape):
                    column[index] = self._member(column[index], m.element)

    def _member(self, value: Any, element: Element) -> Any:
        if element.kind == "region" and value is not None:
            return self._io.region_data(value, self._dataset.store)
        return self._resolve(value) if element.kind == "reference" else value

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> npt.NDArray[Any]:
        return np.asarray(self[...])

    def _stored(self, row: Any) -> tuple[Any, ...]:
        return self._stored_row(row, self._dataset.element)

    def _stored_row(self, row: Any, element: Element) -> tuple[Any, ...]:
        return tuple(
            self._stored_row(value, m.element)
            if m.element.kind == "compound"
            else self._reference_to(value)
            if m.element.has_references
            else value
            for value, m in zip(tuple(row), element.members, strict=True)
        )

    def resolve(self, manager: Any) -> Any:
        """Return all rows."""
        return self[...]


class BuilderTable(_Table, BuilderResolver):  # type: ignore[misc, unused-ignore]
    """Records whose references resolve to builders."""


class ContainerTable(_Table, ContainerResolver):  # type: ignore[misc, unused-ignore]
    """Records whose references resolve to containers."""

    _builders = False


_Pair = tuple[type[_Resolving], type[_Resolving]]
_PAIRS: tuple[_Pair, ...] = (
    (BuilderReferences, ContainerReferences),
    (BuilderRegions, ContainerRegions),
    (BuilderTable, ContainerTable),
)
for _to_builders, _to_containers in _PAIRS:
    _to_builders._inverse, _to_containers._inverse = _to_containers, _to_builders
    ObjectMapper.no_convert(_to_builders)
    ObjectMapper.no_convert(_to_containers)


def resolver_of(element: Element) -> type[LazyDataset]:
    """Return the class of builder data for an element type."""
    if element.kind == "reference":
        return BuilderReferences
    if element.kind == "region":
        return BuilderRegions
    return BuilderTable if element.has_references else LazyDataset
