"""Values of datasets that are no plain arrays: encoded groups of N5, and regions in side datasets."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from chunkwise.errors import DataCorruptionError
from chunkwise.hdmf.conventions.n5 import decode_items, encoded_shape, restore_number
from chunkwise.hdmf.model.element import Element
from chunkwise.hdmf.model.logical import to_logical
from chunkwise.hdmf.model.reference import join_path
from chunkwise.hdmf.model.selection import parse_selection
from chunkwise.hdmf.storage.stored_tree import StoredTree

__all__ = ["put", "read_encoded", "stored_shape", "with_regions"]


def stored_shape(store: StoredTree, path: str) -> tuple[int, ...]:
    """Return the shape of a dataset that is no array, as stored."""
    attributes = store.tree.nodes[path].attributes
    return encoded_shape(attributes.get("_ENCODED") or attributes.get("_EMPTY"))


def read_encoded(store: StoredTree, path: str, element: Element, key: Any) -> npt.NDArray[Any]:
    """Return values of a dataset of N5 that is no array: an encoded group, or an empty one."""
    shape = stored_shape(store, path)
    if "_EMPTY" in store.tree.nodes[path].attributes:
        values = np.empty(shape, element.memory_dtype)
    else:
        values = _decoded(store, path, element, shape)
    return parse_selection(key, shape).of(values)


def _decoded(store: StoredTree, path: str, element: Element, shape: tuple[int, ...]) -> npt.NDArray[Any]:
    """Return the values of an encoded group of N5, or of a member of one."""
    node = store.tree.nodes.get(path)
    n = math.prod(shape)
    if node is not None and node.is_array:
        return restore_number(store.physical(path).read(), element).reshape(shape)
    if element.kind != "compound":

        def read(child: str, start: int, stop: int) -> npt.NDArray[Any]:
            return store.physical(join_path(path, child)).read(slice(start, stop))

        return decode_items(read, n, element).reshape(shape)
    out = np.zeros(shape, element.memory_dtype)
    for i, member in enumerate(element.members):
        if n:
            out[member.name] = _decoded(store, join_path(path, str(i)), member.element, shape)
    return out


def put(values: npt.NDArray[Any], key: Any, new: npt.NDArray[Any]) -> None:
    """Set the elements of an array in C order that an index selects."""
    at = parse_selection(key, values.shape).of(np.arange(values.size).reshape(values.shape))
    # Item by item: an object in an array of shape () would be taken for that array.
    values.reshape(-1)[at.reshape(-1)] = np.broadcast_to(new, at.shape).reshape(-1)


def with_regions(
    stored: npt.NDArray[Any],
    element: Element,
    indirect: Mapping[str, str],
    read: Callable[[str], npt.NDArray[Any]],
) -> npt.NDArray[Any]:
    """Return rows whose regions are stored as numbers of those in side datasets.

    `indirect` has the names of the side datasets by members; `read` returns all regions of one.
    """
    out = np.empty(stored.shape, element.memory_dtype)
    for m in element.members:
        if m.name not in indirect:
            out[m.name] = to_logical(_objects(stored[m.name]), m.element)
            continue
        regions = read(indirect[m.name])
        numbers = stored[m.name]
        if numbers.size and not 0 <= numbers.min() <= numbers.max() < len(regions):
            raise DataCorruptionError(
                f'member "{m.name}" counts regions up to {len(regions)}, but has others'
            )
        out[m.name] = regions[numbers]
    return out


def _objects(values: npt.NDArray[Any]) -> npt.NDArray[Any]:
    return values.astype(object) if values.dtype.kind in "US" else values
