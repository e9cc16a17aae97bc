"""Datasets and groups of a store for hdmf, without its builders: arrays are read when they are indexed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, MutableMapping
from functools import partial
from typing import Any, NoReturn

import numpy as np
import numpy.typing as npt
from hdmf.build import ObjectMapper
from hdmf.common import VectorIndex
from hdmf.container import Data
from hdmf.query import HDMFDataset

from chunkwise.errors import InvalidArgumentError, UnsupportedError
from chunkwise.extension.inside import ArrayInfo, instead_of
from chunkwise.hdmf.model.element import number
from chunkwise.hdmf.model.reference import canonical_path, join_path
from chunkwise.hdmf.replacement import finish_replacement, is_replacing, rewrite
from chunkwise.hdmf.storage.store import Dataset, HdmfStore
from chunkwise.hdmf.storage.stored_form import codec_objects, dataset_info, stored_codecs, stored_nbytes

__all__ = ["LazyDataset", "LazyGroup", "let_grow", "path_in"]

# -- datasets -----------------------------------------------------------------------------------------

# Marked as h5py marks them: the validator of hdmf 3 knows text and bytes by nothing else.
_TEXT = {
    "text": np.dtype(object, metadata={"vlen": str}),
    "bytes": np.dtype(object, metadata={"vlen": bytes}),
}


class LazyDataset(HDMFDataset):  # type: ignore[misc, unused-ignore]
    """Dataset that is read when it is indexed, as h5py's are; ``dataset[()]`` reads all of it."""

    def __init__(self, dataset: Dataset, io: Any) -> None:
        self._dataset = dataset
        self._io = io

    def __eq__(self, other: object) -> bool:
        """Return True if both are the same dataset of a store, as for h5py and zarr-python."""
        if not isinstance(other, LazyDataset):
            return NotImplemented
        mine, theirs = self._dataset, other._dataset
        return mine is theirs or (mine.store.source, mine.path) == (theirs.store.source, theirs.path)

    def __hash__(self) -> int:
        return hash((self._dataset.store.source, self._dataset.path))

    def __getattr__(self, name: str) -> NoReturn:
        advice = instead_of("LazyDataset", name)
        text = f"{type(self).__name__!r} object has no attribute {name!r}{advice}"
        raise AttributeError(text, name=name, obj=None if advice else self)

    def __reduce__(self) -> tuple[Any, ...]:
        """Return what a pickle needs to open the store again for reading."""
        store = self._dataset.store
        place = self._io.reopened(store)
        return reopened, (type(self), *place, self._dataset.path, self._dataset.declared)

    @property
    def dataset(self) -> Dataset:
        """The dataset of the store."""
        return self._dataset

    @property
    def io(self) -> Any:
        """The I/O object that it was read through."""
        return self._io

    @property
    def shape(self) -> tuple[int, ...]:
        """Extent of each axis."""
        return self._dataset.shape

    @property
    def ndim(self) -> int:
        """Number of axes."""
        return len(self.shape)

    @property
    def size(self) -> int:
        """Number of elements."""
        return self._dataset.size

    @property
    def dtype(self) -> Any:
        """NumPy type of the elements; object for text and bytes."""
        element = self._dataset.element
        return _TEXT.get(element.kind, element.memory_dtype)

    @property
    def chunks(self) -> tuple[int, ...] | None:
        """Shape of the smallest piece that can be read alone; None if it is not stored as one array."""
        return self._dataset.chunks

    @property
    def shards(self) -> tuple[int, ...] | None:
        """Shape of the shards that chunks lie in; None if there are none."""
        return self._dataset.shards

    @property
    def fill_value(self) -> Any:
        """Value of elements that are not stored; None if the metadata have none."""
        if not self._dataset.is_array:
            return None
        value = self._dataset.physical.stored.fill_value
        return value[()] if value is not None and value.ndim == 0 else value

    @property
    def name(self) -> str:
        """Path in the store."""
        return self._dataset.path

    @property
    def maxshape(self) -> tuple[int, ...]:
        """The shape, under the name where hdmf looks for it."""
        return self.shape

    @property
    def compressors(self) -> tuple[Any, ...]:
        """Compressors of chunks: objects of numcodecs, or JSON of those it lacks."""
        return tuple(codec_objects(stored_codecs(self._dataset)[1]))

    @property
    def compressor(self) -> Any:
        """The last of the compressors; None if there is none."""
        return next(reversed(self.compressors), None)

    @property
    def filters(self) -> list[Any]:
        """Codecs before the compressors, in the same form."""
        return codec_objects(stored_codecs(self._dataset)[0])

    @property
    def attrs(self) -> dict[str, Any]:
        """A copy of the attributes; references are records."""
        return dict(self._dataset.attributes)

    @property
    def nbytes(self) -> int:
        """Bytes of the values in memory; of text and bytes those of the pointers to them."""
        return self._dataset.nbytes

    @property
    def nbytes_stored(self) -> int:
        """Bytes that are stored, documents included; lists the store."""
        self._check_open()
        return stored_nbytes(self._dataset)

    @property
    def info(self) -> ArrayInfo:
        """Table of the dataset's properties, a mapping; lists the store."""
        self._check_open()
        return dataset_info(self._dataset)

    def _check_open(self) -> None:
        if not self._io.is_open():
            raise ValueError(f"{self._io.source} is closed: dataset {self.name} can't be used")

    def _read(self, key: Any) -> Any:
        self._check_open()
        values = self._dataset.read(key)
        return values[()] if values.ndim == 0 else values

    def __getitem__(self, key: Any) -> Any:
        return self._read(key)

    def __setitem__(self, key: Any, value: Any) -> None:
        self._check_writable()
        self._dataset.write(key, value)

    def __len__(self) -> int:
        if not self.shape:
            raise TypeError(f"dataset {self.name} is a scalar and has no length")
        return self.shape[0]

    def __bool__(self) -> bool:
        return not self.shape or self.shape[0] > 0

    def __iter__(self) -> Iterator[Any]:
        # Chunk by chunk: one read per row would decode each chunk once for each of its rows.
        step = max(1, (self.chunks or (1024,))[0]) if self.shape else 1
        for start in range(0, len(self), step):
            yield from self[start : start + step]

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> npt.NDArray[Any]:
        self._check_open()
        values = np.asarray(self._read(...))
        return values if dtype is None else values.astype(dtype)

    def _check_writable(self) -> None:
        self._check_open()
        if not self._io.writable:
            raise UnsupportedError(f"{self._io.source} is open for reading only")
        if is_replacing(self._dataset.store.tree):  # a request failed meanwhile
            finish_replacement(self._dataset.store)

    def append(self, arg: Any) -> None:
        """Add one row at the end, in the store too; as with h5py, it may have an axis of size 1 in front.

        Raises
        ------
        NotImplementedError
            If the store is open for reading only.
        InvalidArgumentError
            If there are several rows, which `extend` adds.
        """
        self._check_writable()
        if self._dataset.element.kind != "number":
            self._append_rows([arg])
            return
        row = np.asarray(arg)
        if not self.shape or row.ndim < len(self.shape):
            row = row[np.newaxis]
        elif len(row) != 1:
            raise InvalidArgumentError(f"append adds one row, not {len(row)}: data.extend(rows) adds them")
        self._append_rows(row)

    def extend(self, arg: Any) -> None:
        """Add rows at the end, in the store too."""
        self._check_writable()
        if len(arg):
            self._append_rows(arg)

    def widen(self, dtype: np.dtype[Any]) -> None:
        """Store the dataset with an integer type at least as wide as `dtype`.

        Raises
        ------
        NotImplementedError
            If the store is open for reading only.
        """
        self._check_writable()
        if self.dtype.itemsize < dtype.itemsize:
            self._rewrite(dtype)

    def _rewrite(self, dtype: np.dtype[Any]) -> None:
        rewrite(self._dataset, number(dtype))
        self._io.data_changed(self._dataset)

    def _append_rows(self, rows: Any) -> None:
        try:
            self._dataset.append(rows)
        except InvalidArgumentError:
            if self._dataset.element.kind != "number":
                raise
            # Other columns of the table already have their row, so a number that does not fit must still be
            # stored.
            before, given = self._dataset.read(), np.asarray(rows)
            if given.dtype.kind not in "biuf" or before.dtype.kind not in "biuf":
                raise
            common = np.result_type(before, given)
            whole = [v for v in (before, given) if v.dtype.kind != "f"]
            with np.errstate(invalid="ignore"):
                if any((v.astype(common).astype(v.dtype) != v).any() for v in whole):
                    raise
            self._rewrite(common)
            self._dataset.append(rows)
        self._io.data_changed(self._dataset)

    def __repr__(self) -> str:
        state = "" if self._io.is_open() else " (closed)"
        return f"<{type(self).__name__} {self.name}: shape {self.shape}, {self._dataset.element.name}{state}>"


def reopened(
    cls: type[LazyDataset], io_class: Any, place: Any, options: dict[str, Any], path: str, declared: Any
) -> LazyDataset:
    """Return a dataset of a store that is opened for it, for unpickling."""
    io = io_class(place, **options)
    io.open()
    dataset = io.store.dataset(path)
    if declared is not None:
        dataset.declare(declared)
    return cls(dataset, io)


# hdmf takes the type of such values from their dtype then, and leaves the data alone.
ObjectMapper.no_convert(LazyDataset)


# -- rows that are added -----------------------------------------------------------------------------------

# To add ragged rows, as ``units.add_unit`` does, hdmf uses functions that accept only lists, arrays and
# datasets of h5py, and that fail after other columns have got their row.  So the column objects of the file,
# not the classes of hdmf, get methods that accept lazy datasets.  An index column that hdmf wants wider is
# written again; hdmf can only do that in memory.

_ADJUST = "_VectorIndex__adjust_precision"


def let_grow(column: Any) -> None:
    """Make a column that was read accept new rows: many at once, and larger numbers in an index."""
    if not isinstance(column, Data):
        return
    vars(column)["extend"] = partial(_extend, column, column.extend)
    known = getattr(column, _ADJUST, None)
    if isinstance(column, VectorIndex) and known is not None:
        vars(column)[_ADJUST] = partial(_adjust, column, known)


def _extend(column: Any, known: Any, arg: Any, **kwargs: Any) -> None:
    if isinstance(column.data, LazyDataset) and not kwargs:
        column.data.extend(arg)
    else:
        known(arg, **kwargs)


def _adjust(column: Any, known: Any, uint: Any) -> None:
    if isinstance(column.data, LazyDataset):
        column.data.widen(np.dtype(uint))
    else:
        known(uint)


# -- groups -------------------------------------------------------------------------------------------


class LazyGroup(Mapping[str, Any]):
    """A group of the open store; looking up gives groups and datasets.

    Attributes
    ----------
    path : str
        From the root, which is "/".
    attrs : MutableMapping
        Attributes of the store, references and links as they are stored; changes are stored.
    """

    def __init__(self, io: Any, path: str = "/") -> None:
        self._io = io
        self.path = path
        self.attrs: MutableMapping[str, Any] = _Attributes(io, path)

    def __repr__(self) -> str:
        return f"<LazyGroup {self.path} of {self.store.source}>"

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

    def __getitem__(self, name: str) -> LazyGroup | LazyDataset:
        path = canonical_path(name if name.startswith("/") else join_path(self.path, name))
        if path not in self.store.tree.nodes:
            raise KeyError(name)
        if self.store.is_dataset(path):
            return LazyDataset(self.store.dataset(path), self._io)
        return LazyGroup(self._io, path)

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
    if isinstance(parent, LazyGroup):
        return parent.path
    if isinstance(parent, LazyDataset):
        return parent.dataset.path
    if isinstance(parent, HdmfStore):
        return "/"
    raise TypeError(f"expected a path, or a group or dataset of the store, got {type(parent).__name__}")
