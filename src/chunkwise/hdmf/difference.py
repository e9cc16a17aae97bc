"""Differences of two HDMF files, whatever their formats: compared by meaning, not by storage."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from chunkwise import TensorStore
from chunkwise.copying.comparison import FirstDifference, ValueDifferences, as_json, compare_values, different
from chunkwise.copying.copy_source import CopySource, stored_source
from chunkwise.copying.difference import (
    Comparison,
    Difference,
    attribute_differences,
    layout_differences,
    value_differences,
)
from chunkwise.copying.work import TaskRunner
from chunkwise.extension import JSON
from chunkwise.extension.inside import parse_json
from chunkwise.extension.trees import Node
from chunkwise.hdmf.model.element import Element
from chunkwise.hdmf.model.reference import Reference, join_path
from chunkwise.hdmf.model.region import same_region
from chunkwise.hdmf.opening import enclosing_store, open_file
from chunkwise.hdmf.storage.resolve import BrokenLinkError, StoreSet, Target
from chunkwise.hdmf.storage.store import Dataset, HdmfStore

__all__ = ["Meaning", "Region", "differences_of_copy", "differences_of_nodes", "kind_of"]

# -- meaning ------------------------------------------------------------------------------------------

# A reference stands for its target, text is compared whatever its stored length, and records by the names of
# their members.


class Region(dict[str, JSON]):
    """Part of a dataset that a reference means; equal to another that selects the same elements."""

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Region):
            return NotImplemented
        if {**self, "elements": None} != {**other, "elements": None}:
            return False
        a, b = self["elements"], other["elements"]
        assert isinstance(a, Mapping)
        assert isinstance(b, Mapping)
        return same_region(a, b)

    def __ne__(self, other: object) -> bool:
        return not self == other

    __hash__ = None


def kind_of(element: Element) -> JSON:
    """Return the type of elements as JSON, the same for text and bytes."""
    if element.kind == "compound":
        return [[member.name, kind_of(member.element)] for member in element.members]
    if element.kind == "number":
        return element.memory_dtype.name
    return {"text": "text", "bytes": "text", "reference": "object", "region": "region"}[element.kind]


class Meaning:
    """The meaning of the objects of a store, and of the stores that its links lead to.

    Parameters
    ----------
    stores : StoreSet
    """

    def __init__(self, stores: StoreSet) -> None:
        self.stores = stores
        self._objects: dict[tuple[int, str, str], dict[str, JSON]] = {}

    def target(self, reference: Reference, holder: HdmfStore) -> Target | None:
        """Return the object that a reference or link in the store `holder` leads to; None if it is broken."""
        try:
            return self.stores.resolve(reference, holder)
        except BrokenLinkError:
            return None

    def object(self, reference: Reference, holder: HdmfStore) -> dict[str, JSON]:
        """Return the meaning of a reference: the path of its target, and the file if it is another."""
        key = id(holder), reference.source, reference.path
        found = self._objects.get(key)
        if found is None:
            found = self._objects[key] = self._object(reference, holder)
        if reference.region is None:
            return found
        return Region({"region": found["object"], **found, "elements": dict(reference.region)})

    def _object(self, reference: Reference, holder: HdmfStore) -> dict[str, JSON]:
        target = self.target(reference, holder)
        if target is None:
            return {"object": reference.path, "source": reference.source, "broken": True}
        if target.store is self.stores.main:
            return {"object": target.path}
        # A file and its conversion have the same identity, but not the same name.
        return {"object": target.path, "of": target.store.object_id or target.store.source}

    def value(self, value: Any, holder: HdmfStore) -> Any:
        """Return the meaning of an attribute or of one element, as JSON."""
        if isinstance(value, Reference):
            return self.object(value, holder)
        if isinstance(value, np.ndarray | np.void) and value.dtype.names is not None:
            if isinstance(value, np.ndarray) and value.ndim:
                return [self.value(record, holder) for record in value]
            return {name: self.value(value[name], holder) for name in value.dtype.names}
        if isinstance(value, np.ndarray | np.generic):
            value = value.tolist()
        if isinstance(value, bytes):
            return value.decode("utf-8", "surrogateescape")
        if isinstance(value, complex):
            return [value.real, value.imag]
        if isinstance(value, list | tuple):
            return [self.value(item, holder) for item in value]
        if isinstance(value, Mapping):
            return {name: self.value(item, holder) for name, item in value.items()}
        return value if isinstance(value, str | int | float | None) else str(value)

    def column(self, values: npt.NDArray[Any], holder: HdmfStore) -> npt.NDArray[Any]:
        """Return an array of objects with each replaced by its meaning."""
        out = np.empty(values.shape, object)
        flat = out.reshape(-1)
        for i, value in enumerate(values.reshape(-1).tolist()):
            flat[i] = self.value(value, holder)
        return out


# -- differences --------------------------------------------------------------------------------------

# Cached specifications are compared by content.  Details of storage are not differences: types noted in
# attributes, the form of references, links and scalars, text of fixed or variable length.

_NAMES = "_ARRAY_DIMENSIONS"
_SCALES = "DIMENSION_LIST"
_UNNAMED = "phony_dim_"
"""Prefix of the names that HDF5 gives to dimensions without a name."""

_ROWS_NBYTES = 1 << 23
_FEW_NBYTES = 1 << 16
"""Datasets of fewer bytes are compared here, without workers."""


def differences_of_nodes(left: Node, right: Node, how: Comparison) -> Iterator[Difference] | None:
    """Yield the differences of two HDMF files, or of parts of them; None if one of them isn't HDMF."""
    found = [enclosing_store(node) for node in (left, right)]
    if found[0] is None or found[1] is None:
        return None
    comparison = _Stores(found[0].store, found[1].store, how)
    return comparison.run(found[0].path, found[1].path)


def differences_of_copy(
    source: HdmfStore, copy: HdmfStore, compared: Collection[str], runner: TaskRunner
) -> Iterator[Difference]:
    """Yield the differences of a copy from its source; the values of `compared` are known to be equal."""
    how = Comparison(True, True, False, runner, lambda nbytes: None)
    return _Stores(source, copy, how, compared).run("/", "/")


@dataclass
class _Stores:
    """Two stores to compare."""

    left: HdmfStore
    right: HdmfStore
    how: Comparison
    compared: Collection[str] = ()  # paths, on the right, of datasets whose values are known to be equal

    def __post_init__(self) -> None:
        self.meanings = [Meaning(StoreSet(store, open_file)) for store in (self.left, self.right)]

    def run(self, left: str, right: str) -> Iterator[Difference]:
        """Yield the differences between two paths."""
        if self.how.layout and self.left.format != self.right.format:
            yield Difference("", "format", self.left.format, self.right.format)
        yield from self._objects("", Target(self.left, left), Target(self.right, right))
        if left == right == "/":
            yield from self._specifications()

    def _objects(self, name: str, a: Target, b: Target) -> Iterator[Difference]:
        x, y = (at.store.is_dataset(at.path) for at in (a, b))
        if x != y:
            yield Difference(
                name, "structure", *("dataset" if is_dataset else "group" for is_dataset in (x, y))
            )
            return
        if self.how.attributes:
            found = [self._attributes(meaning, at) for meaning, at in zip(self.meanings, (a, b), strict=True)]
            yield from attribute_differences(name, *found)
        if x:
            yield from self._datasets(name, a.store.dataset(a.path), b.store.dataset(b.path))
        else:
            yield from self._groups(name, a, b)

    def _attributes(self, meaning: Meaning, at: Target) -> dict[str, Any]:
        attributes = at.store.attributes(at.path)
        hidden = _of_dimensions(attributes) if at.store.is_dataset(at.path) else ()
        return {
            name: meaning.value(value, at.store) for name, value in attributes.items() if name not in hidden
        }

    # -- groups -----------------------------------------------------------------------------------

    def _groups(self, name: str, a: Target, b: Target) -> Iterator[Difference]:
        members = [_members(at) for at in (a, b)]
        for child in sorted({*members[0], *members[1]}):
            at = f"{name}/{child}" if name else child
            x, y = (found.get(child) for found in members)
            yield from self._children(at, x, y, a, b)

    def _children(
        self, name: str, x: str | Reference | None, y: str | Reference | None, a: Target, b: Target
    ) -> Iterator[Difference]:
        """Compare the members of two groups with the same name: objects, links, or nothing."""
        left, right = self.meanings
        if isinstance(x, Reference) and isinstance(y, Reference):
            told = left.object(x, a.store), right.object(y, b.store)
            if told[0] != told[1]:
                yield Difference(name, "link", told[0], told[1])
            return
        at, there = self._target(left, a, x), self._target(right, b, y)
        if at is not None and there is not None:
            yield from self._objects(name, at, there)
        else:
            yield Difference(name, "structure", _describe(left, a, x), _describe(right, b, y))

    def _target(self, meaning: Meaning, at: Target, found: str | Reference | None) -> Target | None:
        """Return an object; for a link to another file, whose target a conversion copies, that target."""
        if found is None or isinstance(found, str):
            return None if found is None else Target(at.store, found)
        target = meaning.target(found, at.store)
        return None if target is None or target.store is at.store else target

    # -- datasets ---------------------------------------------------------------------------------

    def _datasets(self, name: str, x: Dataset, y: Dataset) -> Iterator[Difference]:
        if x.shape != y.shape:
            yield Difference(name, "shape", list(x.shape), list(y.shape))
        kinds = [kind_of(dataset.element) for dataset in (x, y)]
        untold = any(not dataset.size and dataset.declaration.element is None for dataset in (x, y))
        if kinds[0] != kinds[1] and not untold:
            yield Difference(name, "dtype", *kinds)
        names = _dimension_names(x), _dimension_names(y)
        if self.how.attributes and any(m and n and m != n for m, n in zip(*names, strict=False)):
            yield Difference(name, "dimension_names", *names)
        if self.how.layout and x.is_array and y.is_array:
            yield from layout_differences(name, *(_stored(dataset).template for dataset in (x, y)))
        if self.how.values and x.shape == y.shape and kinds[0] == kinds[1] and y.path not in self.compared:
            yield from self._values(name, x, y)

    def _values(self, name: str, x: Dataset, y: Dataset) -> Iterator[Difference]:
        stores = [_large_array(dataset) for dataset in (x, y)]
        if stores[0] is not None and stores[1] is not None:
            found = compare_values(stores[0], stores[1], self.how.runner, self.how.progress)
        else:
            found = self._rows(x, y)
        yield from value_differences(name, x.size, found)

    def _rows(self, x: Dataset, y: Dataset) -> ValueDifferences:
        """Compare two datasets some rows at a time; return how many elements differ, and the first."""
        n_different = 0
        first: FirstDifference | None = None
        for start, stop in _row_ranges(x, y) if x.size else ():
            key: Any = slice(start, stop) if x.shape else ...
            a, b = x.read(key), y.read(key)
            mask = self._mask(a, b, x.element, y.element, x.store, y.store)
            n_different += int(np.count_nonzero(mask))
            if first is None and mask.any():
                at = np.unravel_index(int(np.argmax(mask)), mask.shape)
                where = [int(i) + (start if dim == 0 else 0) for dim, i in enumerate(at)]
                shown = [
                    as_json(meaning.value(part[at], dataset.store))
                    for meaning, part, dataset in zip(self.meanings, (a, b), (x, y), strict=True)
                ]
                first = FirstDifference(where, shown[0], shown[1])
            self.how.progress(a.nbytes)
        return ValueDifferences(0, n_different, first)

    def _mask(
        self, a: Any, b: Any, x: Element, y: Element, left: HdmfStore, right: HdmfStore
    ) -> np.ndarray[Any, np.dtype[np.bool_]]:
        if x.kind == "number":
            return different(a, b)
        if x.kind == "compound":
            mask = np.zeros(a.shape, bool)
            for m, n in zip(x.members, y.members, strict=True):
                mask |= self._mask(a[m.name], b[n.name], m.element, n.element, left, right)
            return mask
        columns = self.meanings[0].column(a, left), self.meanings[1].column(b, right)
        return np.asarray(columns[0] != columns[1], bool).reshape(a.shape)

    # -- cached specifications --------------------------------------------------------------------

    def _specifications(self) -> Iterator[Difference]:
        found = [_specifications(store) for store in (self.left, self.right)]
        if any(of is None for of in found):
            x, y = (None if of is None else "cached specifications" for of in found)
            if x != y:
                yield Difference("specifications", "structure", x, y)
            return
        a, b = (of or {} for of in found)
        for name in sorted({*a, *b}):
            at = f"specifications/{name}"
            if name not in a or name not in b:
                x, y = ("cached specification" if name in of else None for of in (a, b))
                yield Difference(at, "structure", x, y)
            elif self.how.values and a[name] != b[name]:
                yield Difference(at, "values", *_first_other(a[name], b[name]))


def _members(at: Target) -> dict[str, str | Reference]:
    """Return the members of a group: paths of objects, and links."""
    out: dict[str, str | Reference] = dict(at.store.links(at.path))
    skip = at.store.specloc
    for name in at.store.names(at.path):
        path = join_path(at.path, name)
        if path != skip:
            out[name] = path
    return out


def _describe(meaning: Meaning, at: Target, found: str | Reference | None) -> str | None:
    if found is None:
        return None
    if isinstance(found, Reference):
        return f"link to {meaning.object(found, at.store)['object']}"
    return _kind(Target(at.store, found))


def _kind(at: Target) -> str:
    return "dataset" if at.store.is_dataset(at.path) else "group"


def _of_dimensions(attributes: Mapping[str, Any]) -> set[str]:
    """Return the attributes of a dataset by which HDF5 or Zarr names its dimensions."""
    scale = {"CLASS", "NAME", "REFERENCE_LIST"} if attributes.get("CLASS") == "DIMENSION_SCALE" else set()
    return {_NAMES, _SCALES, *scale}


def _dimension_names(dataset: Dataset) -> list[str | None]:
    """Return the names of the dimensions: of HDF5's scales if there are any, as its files are read."""
    node = dataset.store.tree.nodes[dataset.path]
    found = node.attributes.get(_NAMES) or node.document.get("dimension_names")
    names = [*found] if isinstance(found, list) else []
    scales = dataset.attributes.get(_SCALES)
    if isinstance(scales, list) and len(scales) == len(dataset.shape):
        names += [None] * (len(scales) - len(names))
        for dim, listed in enumerate(scales):
            if listed and isinstance(listed, list) and isinstance(listed[0], Reference):
                names[dim] = listed[0].path.rpartition("/")[2]
    return [n if isinstance(n, str) and n and not n.startswith(_UNNAMED) else None for n in names]


def _stored(dataset: Dataset) -> CopySource:
    return stored_source(dataset.store.location.at(dataset.physical.prefix))


def _large_array(dataset: Dataset) -> TensorStore | None:
    """Return the array that a dataset is stored as, if workers can compare it; None for others."""
    if dataset.scalar or not dataset.is_array or dataset.nbytes < _FEW_NBYTES:
        return None
    if dataset.element.kind != "number" or dataset.physical.dtype != dataset.element.dtype:
        return None
    array = _stored(dataset).store
    return array.transpose() if dataset.physical.rules.reversed_axes else array


def _row_ranges(x: Dataset, y: Dataset) -> Iterator[tuple[int, int]]:
    """Yield ranges of rows that are compared at a time: whole chunks, if these are not large."""
    if not x.shape:
        yield 0, 1
        return
    row = max(1, max(dataset.nbytes for dataset in (x, y)) // x.shape[0])
    n = max(1, _ROWS_NBYTES // row)
    unit = max(chunks[0] if (chunks := dataset.chunks) else 1 for dataset in (x, y))
    n = max(n // unit * unit, min(unit, n)) if unit else n
    for start in range(0, x.shape[0], n):
        yield start, min(start + n, x.shape[0])


def _specifications(store: HdmfStore) -> dict[str, Any] | None:
    """Return the cached specifications as JSON, by namespace, version and source; None if there are none."""
    path = store.specifications()
    if path is None:
        return None
    out: dict[str, Any] = {}
    for at in store.walk(path, specifications=True):
        if store.is_dataset(at):
            value = store.dataset(at).read().reshape(-1)[0]
            text = value.decode("utf-8", "surrogateescape") if isinstance(value, bytes) else str(value)
            try:
                out[at[len(path) + 1 :]] = parse_json(text)
            except ValueError:
                out[at[len(path) + 1 :]] = text
    return out


def _first_other(a: JSON, b: JSON) -> tuple[JSON, JSON]:
    """Return the innermost parts in which two JSON values differ."""
    while True:
        if isinstance(a, Mapping) and isinstance(b, Mapping) and a.keys() == b.keys():
            other = [name for name in a if a[name] != b[name]]
            x, y = a[other[0]], b[other[0]]
        elif isinstance(a, list) and isinstance(b, list) and len(a) == len(b):
            other = [i for i in range(len(a)) if a[i] != b[i]]
            x, y = a[other[0]], b[other[0]]
        else:
            return a, b
        a, b = x, y
