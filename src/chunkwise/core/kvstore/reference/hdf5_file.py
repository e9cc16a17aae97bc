"""HDF5 files in values of stores: links are followed here, h5py reads, and HDF5 opens no other file itself.

HDF5 would open any file that external links, virtual datasets and external storage name.  Here links are
followed one by one, and other files are opened under the rules for references: beside the file, or if the
caller allows it.
"""

from __future__ import annotations

import atexit
from collections import deque
from contextlib import AbstractContextManager, suppress
from functools import cache
from typing import TYPE_CHECKING, Any, Protocol
from weakref import WeakSet

import numpy as np
import numpy.typing as npt

from chunkwise.core.base.binding import dump
from chunkwise.core.base.extras import load as load_package
from chunkwise.core.kvstore.protocol import KvStoreDriver
from chunkwise.core.kvstore.reference.hdf5_elements import filters_of, stored_fill
from chunkwise.core.kvstore.reference.store import OpenTarget
from chunkwise.core.kvstore.value import ValueFile
from chunkwise.errors import (
    DataCorruptionError,
    OutOfRangeError,
    UnsupportedError,
)

if TYPE_CHECKING:
    import h5py

__all__ = ["Hdf5File", "Hdf5Files"]

_MOST_LINKS = 32  # links to follow for one path, twice as many as HDF5 itself follows
_MOST_FILES = 64  # each stays open, with up to 64 MiB of blocks, and may name others
_DEEPEST = 8  # depth of virtual datasets of virtual datasets

Box = tuple[slice, ...]


class Clearable(Protocol):
    """A cache."""

    def clear(self) -> None: ...


class Hdf5File:
    """An open file."""

    def __init__(self, store: KvStoreDriver, key: str, url: str) -> None:
        h5py = load_package("h5py", "reading HDF5 files")
        lock = _h5py_lock()
        self.url = url
        self._value = ValueFile(store, key)
        self._store, self._key = store, key
        self.size = self._value.size
        self.generation = self._value.generation
        try:
            with lock:  # else Python may exit after the file is open and before it is in `_open`
                self.file = h5py.File(self._value, "r")
                _open.add(self)
        except (OSError, RuntimeError, ValueError) as e:
            raise DataCorruptionError(
                f"{store.describe(key)} is no HDF5 file that can be read: {e}"
            ) from None

    def part(self, start: int, stop: int) -> bytes:
        """Return bytes of the file."""
        try:
            return self._value.part(start, stop)
        except OutOfRangeError as e:
            raise DataCorruptionError(f"{self._store.describe(self._key)}: {e.message}") from e


class Hdf5Files:
    """A file and the files that it refers to."""

    def __init__(self, store: KvStoreDriver, key: str, open_target: OpenTarget) -> None:
        _free_left()
        self.first = Hdf5File(store, key, "")
        self._open_target = open_target
        self._others: dict[str, Hdf5File] = {}

    def leave(self, nodes: Clearable) -> None:
        """Leave the objects of h5py, here and in `nodes`, to the next thread that opens a file.

        Freeing them takes h5py's lock.  The thread that collects garbage may be one for which another thread
        waits with that lock held.
        """
        self._open_target = _left_behind  # its objects are freed now
        _left.append((self, nodes))

    def close(self) -> None:
        """Close the files, which nothing uses any more."""
        for opened in (self.first, *self._others.values()):
            opened.file.close()

    def other(self, of: Hdf5File, name: str) -> Hdf5File:
        """Return the file named by a link or dataset; "." is the file itself."""
        if name in (".", ""):
            return of
        found = self._others.get(name)
        if found is None:
            if len(self._others) >= _MOST_FILES:
                raise UnsupportedError(f"more than {_MOST_FILES} files referenced by an HDF5 file")
            found = self._others[name] = Hdf5File(*self._open_target(name), name)
        return found

    def external_part(self, segments: list[tuple[str, int, int]], start: int, stop: int) -> bytes:
        """Return bytes of a dataset whose storage is in other files."""
        out, at = [], 0
        for name, offset, size in segments:
            first, last = max(start, at), min(stop, at + size)
            if first < last:
                store, key = self._open_target(name)
                read = store.open_reader()
                try:
                    value = read(key, offset + first - at, offset + last - at)
                except OutOfRangeError as e:
                    raise DataCorruptionError(f"{store.describe(key)}: {e.message}") from e
                if value is None:
                    raise DataCorruptionError(
                        f"{store.describe(key)} is missing, which has data of an HDF5 file"
                    )
                out.append(bytes(value))
            at += size
        return b"".join(out).ljust(stop - start, b"\0")

    # -- links ----------------------------------------------------------------------------------------

    def find(self, path: str, *, follow: bool = True) -> tuple[Hdf5File, h5py.HLObject] | None:
        """Return the object at a path from the root; None if there is none, or only through a link."""
        return self._walk(self.first, self.first.file["/"], path, [_MOST_LINKS if follow else 0])

    def _walk(
        self, file: Hdf5File, at: h5py.HLObject, path: str, left: list[int]
    ) -> tuple[Hdf5File, h5py.HLObject] | None:
        import h5py

        if path.startswith("/"):
            at = file.file["/"]
        for name in path.split("/"):
            if name in ("", "."):
                continue
            if not isinstance(at, h5py.Group):
                return None
            link = at.get(name, getlink=True)
            if link is None:
                return None
            if isinstance(link, h5py.HardLink):
                at = at[name]
                continue
            left[0] -= 1
            if left[0] < 0:
                return None
            if isinstance(link, h5py.SoftLink):
                found = self._walk(file, at, link.path, left)
            elif isinstance(link, h5py.ExternalLink):
                other = self.other(file, link.filename)
                found = self._walk(other, other.file["/"], link.path, left)
            else:
                return None
            if found is None:
                return None
            file, at = found
        return file, at

    # -- values ---------------------------------------------------------------------------------------

    def read_box(self, file: Hdf5File, dataset: h5py.Dataset, box: Box, depth: int = 0) -> npt.NDArray[Any]:
        """Read a part of a dataset by h5py; a virtual dataset is assembled from its sources."""
        import h5py

        if dataset.shape is None:
            return np.empty((0,), dataset.dtype)
        if dataset.is_virtual:
            return self._virtual_box(file, dataset, box, depth)
        if dataset.external:
            raise UnsupportedError(f"dataset {dump(dataset.name)}: its data are in other files")
        _load_filters(dataset)
        text = h5py.check_string_dtype(dataset.dtype)
        source = dataset
        if text is not None and text.length is None:
            source = dataset.asstr("utf-8", "surrogateescape")
        values = source[box] if box else source[()]
        if not dataset.dtype.hasobject:
            return np.asarray(values)
        out = np.empty(np.shape(values) if box else (), object)  # a single element may be a list
        if out.shape:
            out[...] = values
        else:
            out[()] = values
        return out

    def _virtual_box(self, file: Hdf5File, dataset: h5py.Dataset, box: Box, depth: int) -> npt.NDArray[Any]:
        if depth >= _DEEPEST:
            raise DataCorruptionError(
                f"virtual dataset {dump(dataset.name)} is nested more than {_DEEPEST} deep"
            )
        out = np.empty([part.stop - part.start for part in box], dataset.dtype)
        fill = stored_fill(dataset)
        if fill is None:
            out = np.zeros(out.shape, out.dtype)
        else:
            out[...] = fill
        for place, name, path, source in dataset.virtual_sources():
            there = _box_of(place, dataset.shape, dataset.name)
            common = tuple(
                slice(max(a.start, b.start), min(a.stop, b.stop)) for a, b in zip(box, there, strict=True)
            )
            if any(part.start >= part.stop for part in common):
                continue
            if "%b" in name or "%b" in path:
                raise UnsupportedError(f"virtual dataset {dump(dataset.name)} has sources without number")
            found = self._walk(self.other(file, name), self.other(file, name).file["/"], path, [_MOST_LINKS])
            if found is None:
                continue  # the fill value, as in HDF5
            origin, of = found
            here = _box_of(source, of.shape, dataset.name)
            pairs = _matched(here, there)
            if pairs is None:
                raise UnsupportedError(f"virtual dataset {dump(dataset.name)} has sources of another shape")
            moved = list(here)
            for a, b in pairs:
                shift = here[a].start - there[b].start
                moved[a] = slice(common[b].start + shift, common[b].stop + shift)
            part = self.read_box(origin, of, tuple(moved), depth + 1)
            shape = [c.stop - c.start for c in common]
            where = tuple(
                slice(c.start - b.start, c.stop - b.start) for c, b in zip(common, box, strict=True)
            )
            out[where] = part.reshape(shape)
        return out


_open: WeakSet[Hdf5File] = WeakSet()


@cache
def _h5py_lock() -> AbstractContextManager[object]:
    """Return h5py's lock, under which all files are closed when Python exits."""
    # HDF5 itself closes files when the process ends, and crashes, since the functions of Python that these
    # are read with are gone then.  h5py's own handler, which threads that read don't survive, must come after
    # this, so it must be registered by now.
    from h5py._objects import phil

    def close_all() -> None:
        phil.acquire()  # for ever: threads that still run must not use the files any more
        for opened in list(_open):
            opened.file.close()
        for files, _ in list(_left):  # which the garbage collector took out of `_open`
            files.close()

    atexit.register(close_all)
    lock: AbstractContextManager[object] = phil
    return lock


_left: deque[tuple[Hdf5Files, Clearable]] = deque()


def _free_left() -> None:
    if _left:
        with _h5py_lock():  # else Python may exit when the files are no longer in `_left` and not yet closed
            while _left:
                _left[0][1].clear()
                _left.popleft()


def _left_behind(url: str) -> tuple[KvStoreDriver, str]:
    raise AssertionError(f"the file that leads to {url} is no longer in use")


def _box_of(space: h5py.h5s.SpaceID, shape: tuple[int, ...], name: str) -> Box:
    """Return the box selected in a dataspace."""
    from h5py import h5s

    kind = space.get_select_type()
    if kind == h5s.SEL_ALL:
        return tuple(slice(0, n) for n in shape)
    if kind == h5s.SEL_HYPERSLABS and space.is_regular_hyperslab():
        start, stride, count, block = space.get_regular_hyperslab()
        if all(c == 1 or s == b for s, c, b in zip(stride, count, block, strict=True)):
            parts = zip(start, count, block, shape, strict=True)
            return tuple(slice(int(s), min(n, int(s) + int(c) * int(b))) for s, c, b, n in parts)
    raise UnsupportedError(f"virtual dataset {dump(name)} has a source that is not a box")


def _matched(here: Box, there: Box) -> list[tuple[int, int]] | None:
    """Return the dimension of a virtual dataset for each dimension of a source, except those of length 1."""
    first = [(dim, p.stop - p.start) for dim, p in enumerate(here) if p.stop - p.start != 1]
    second = [(dim, p.stop - p.start) for dim, p in enumerate(there) if p.stop - p.start != 1]
    if [n for _, n in first] != [n for _, n in second]:
        return None
    return [(a, b) for (a, _), (b, _) in zip(first, second, strict=True)]


def _load_filters(dataset: h5py.Dataset) -> None:
    """Register the filters of a dataset, or raise an error that names the missing one."""
    from h5py import h5z

    numbers = [one.number for one in filters_of(dataset)]
    if all(map(h5z.filter_avail, numbers)):
        return
    with suppress(ImportError):
        import hdf5plugin  # noqa: F401
    missing = [number for number in numbers if not h5z.filter_avail(number)]
    if missing:
        raise UnsupportedError(
            f"dataset {dump(dataset.name)}: HDF5 filter {missing[0]} is not available; the package "
            "hdf5plugin may have it: pip install hdf5plugin"
        )
