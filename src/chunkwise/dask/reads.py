"""The arrays that a lazy array reads: those in its graph and in its wrappers.

An object that is sent to other processes contains everything that it needs there.  So it is pickled without
an output, and the pickler notes the arrays that it meets in tasks, closures and wrappers of any library.
"""

from __future__ import annotations

import os
import pickle
from collections.abc import Collection, Iterable
from typing import Any

import numpy as np

from chunkwise import TensorStore
from chunkwise.copying.overlap import overlap, store_and_path
from chunkwise.extension.inside import FileStore, is_of
from chunkwise.extension.trees import Location

try:
    from cloudpickle import Pickler as _Pickler
except ImportError:  # then there is no dask, only wrappers
    from pickle import Pickler as _Pickler

__all__ = ["Reads", "reads_of"]


class Reads:
    """Arrays and groups that something reads, and the paths of files that it mentions."""

    def __init__(self) -> None:
        self.operands: list[Any] = []
        self.texts: set[str] = set()

    def of(self, locations: Iterable[Location]) -> Iterable[tuple[Any, str]]:
        """Yield each operand at one of the locations, or None for a path, and its name."""
        for location in locations:
            for operand in self.operands:
                name = overlap(operand, location)
                if name is not None:
                    yield operand, name
            if isinstance(location.store, FileStore):
                _, top = store_and_path(location.store, location.path)
                for text in self.texts:
                    path = os.path.realpath(text.removeprefix("file://"))
                    if location.name in text and os.path.join(path, "").startswith(top):
                        yield None, text


def reads_of(data: Any, without: Collection[str] = ()) -> Reads:
    """Return what the data of a variable, or a dask array, reads; some layers of its graph can be left
    out."""
    found = Reads()
    if data is None or isinstance(data, np.ndarray):
        return found
    graph = data.__dask_graph__() if hasattr(data, "__dask_graph__") else data
    layers = getattr(graph, "layers", None)
    parts = [graph] if layers is None else [layer for name, layer in layers.items() if name not in without]
    for part in parts:
        try:
            _Finder(found).dump(part)
        except Exception:  # what comes before it is found
            continue
    return found


_PLAIN = frozenset({tuple, list, dict, set, int, float, bool, type(None), slice, type})


class _Nowhere:
    def write(self, data: Any) -> int:
        return len(data)


class _Finder(_Pickler):  # type: ignore[misc]
    def __init__(self, found: Reads) -> None:
        super().__init__(_Nowhere(), protocol=5)
        self._found = found
        self._seen: dict[int, Any] = {}
        self._usual: set[type] = set()  # types of objects that could be pickled

    def persistent_id(self, obj: Any) -> str | None:
        """Record an object that is read, without looking into it."""
        if type(obj) in _PLAIN:
            return None
        if isinstance(obj, np.ndarray):
            return "values"
        if isinstance(obj, str | os.PathLike):
            text = os.fspath(obj)
            if isinstance(text, str) and "/" in text.replace(os.sep, "/"):
                self._found.texts.add(text)
            return None
        is_of_zarr = is_of(obj, "zarr") and hasattr(obj, "store") and hasattr(obj, "path")
        is_group = is_of(obj, "chunkwise") and isinstance(getattr(obj, "location", None), Location)
        if isinstance(obj, TensorStore) or is_of_zarr or is_group:
            if id(obj) not in self._seen:
                self._seen[id(obj)] = obj
                self._found.operands.append(obj)
            return "array"
        return None

    def reducer_override(self, obj: Any) -> Any:
        """Leave out what can't be pickled, such as locks."""
        above = getattr(super(), "reducer_override", None)
        try:
            reduced = NotImplemented if above is None else above(obj)
            if reduced is not NotImplemented or isinstance(obj, type):
                return reduced
            if type(obj) in self._usual or type(obj) in getattr(self, "dispatch_table", {}):
                return NotImplemented
            reduced = obj.__reduce_ex__(pickle.HIGHEST_PROTOCOL)
            self._usual.add(type(obj))
            return reduced
        except Exception:  # the code of any class may have run
            return int, ()
