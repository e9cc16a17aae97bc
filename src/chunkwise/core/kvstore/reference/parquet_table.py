"""Reference directories in Parquet, as kerchunk and VirtualiZarr write them; needs the package pyarrow.

Specification
-------------
fsspec, ``fsspec.implementations.reference.LazyReferenceMapper``: ``.zmetadata`` has the documents and
``record_size``; ``<array>/refs.<n>.parq`` has the references of ``record_size`` chunks, in C order, in the
columns ``path``, ``offset``, ``size`` and ``raw``.  A chunk with neither path nor raw bytes is not stored; a
chunk with offset and size 0 is a whole value.
"""

from __future__ import annotations

import json
import re
from collections import OrderedDict
from collections.abc import Iterator
from math import prod
from typing import Any, NamedTuple

from chunkwise.core.base.binding import JSON, dump, parse_json
from chunkwise.core.base.extras import load as load_package
from chunkwise.core.base.threads import new_lock
from chunkwise.core.kvstore.protocol import KvStoreDriver
from chunkwise.core.kvstore.reference.store import Loaded
from chunkwise.core.kvstore.reference.table import ArrayTable, Reference, SortedKeys, cell_of, expect_part
from chunkwise.core.kvstore.value import read_own
from chunkwise.errors import DataCorruptionError, NotFoundError, TooLargeError

__all__ = ["METADATA", "ParquetTable", "load_parquet"]

METADATA = ".zmetadata"
_COLUMNS = ("path", "offset", "size", "raw")
_FILE = re.compile(r"refs\.(\d{1,18})\.parq")
# Number of files whose rows are kept.  A row takes 25 bytes, so files of 100,000 rows take 80 MB in all.
_KEPT = 32
_LARGEST_RECORD = 10_000_000  # most rows of a file: 250 MB
_LARGEST_FILE = 1 << 29  # most bytes of a file's decoded rows: twice as many, for longer paths


class _Variable(NamedTuple):
    """An array of the directory."""

    grid: tuple[int, ...]  # chunks in each dimension
    separator: str  # separator between the numbers of a key


class _Rows(NamedTuple):
    """The rows of one file."""

    paths: Any  # columns as arrow arrays
    offsets: Any
    sizes: Any
    raw: Any

    def __len__(self) -> int:
        return len(self.paths)


def load_parquet(base: KvStoreDriver, directory: str) -> Loaded:
    """Read the metadata of a directory of references, whose name ends in "/"."""
    found = read_own(base, directory + METADATA)
    if found.value is None:
        raise NotFoundError(f"there are no references: {base.describe(directory + METADATA)} is missing")
    table = ParquetTable(base, directory, bytes(found.value))
    return Loaded(table, directory + METADATA, found.generation)


class ParquetTable(ArrayTable):
    """The references of a directory."""

    def __init__(self, base: KvStoreDriver, directory: str, raw: bytes) -> None:
        try:
            document = parse_json(raw)
        except ValueError as e:
            raise DataCorruptionError(f"{METADATA} is not JSON: {e}") from None
        metadata = document.get("metadata") if isinstance(document, dict) else None
        if not isinstance(metadata, dict):
            raise DataCorruptionError(f'{METADATA}: expected an object with the member "metadata"')
        size = document.get("record_size")
        if type(size) is not int or not 1 <= size <= _LARGEST_RECORD:
            raise DataCorruptionError(
                f'{METADATA}: "record_size": expected an integer in the range [1, {_LARGEST_RECORD}], '
                f"received {repr(size)[:40]}"
            )
        self._base = base
        self._directory = directory
        self._record_size = size
        self._documents = {key: json.dumps(value).encode() for key, value in metadata.items()}
        consolidated = {"zarr_consolidated_format": 1, "metadata": metadata}
        self._documents[METADATA] = json.dumps(consolidated).encode()
        self._arrays = {
            key[: -len(".zarray")].rstrip("/"): _variable(key, value)
            for key, value in metadata.items()
            if key == ".zarray" or key.endswith("/.zarray")
        }
        self._keys = SortedKeys(list(self._documents))
        self._lock = new_lock()
        self._rows: OrderedDict[tuple[str, int], _Rows | None] = OrderedDict()

    def find(self, key: str) -> Reference | None:
        """Return the reference of `key`, None if there is none."""
        if key in self._documents:
            return self._documents[key]
        name, number = self._chunk(key)
        if number < 0:
            return None
        rows = self._load(name, number // self._record_size)
        at = number % self._record_size
        return None if rows is None or at >= len(rows) else self._reference(key, rows, at)

    def _chunk(self, key: str) -> tuple[str, int]:
        """Return the array of a key and its chunk number in C order; -1 if it is not a chunk's key."""
        parts = key.split("/")
        for end in range(len(parts) - 1, -1, -1):
            name = "/".join(parts[:end])
            variable = self._arrays.get(name)
            if variable is None:
                continue
            cell = cell_of("/".join(parts[end:]), variable.grid, variable.separator)
            if cell is None:
                return name, -1
            number = 0
            for i, n in zip(cell, variable.grid, strict=True):
                number = number * n + i
            return name, number
        return "", -1

    def _reference(self, key: str, rows: _Rows, at: int) -> Reference | None:
        raw, path = rows.raw[at].as_py(), rows.paths[at].as_py()
        if raw is not None:
            return raw if isinstance(raw, bytes) else str(raw).encode()
        if not path:
            return None
        offset, size = rows.offsets[at].as_py(), rows.sizes[at].as_py()
        if not offset and not size:
            return expect_part(key, path)
        return expect_part(key, path, offset, size)

    def _load(self, name: str, number: int) -> _Rows | None:
        """Return the rows of a file, None if it is missing."""
        which = name, number
        with self._lock:
            if which in self._rows:
                self._rows.move_to_end(which)
                return self._rows[which]
            rows = self._rows[which] = self._read(
                f"{name}/refs.{number}.parq" if name else f"refs.{number}.parq"
            )
            if len(self._rows) > _KEPT:
                self._rows.popitem(last=False)
            return rows

    def _read(self, name: str) -> _Rows | None:
        key = self._directory + name
        where = self._base.describe(key)
        parquet = load_package("pyarrow.parquet", "reading references in Parquet")
        arrow = load_package("pyarrow", "reading references in Parquet")
        value = read_own(self._base, key).value
        if value is None:
            return None
        try:
            file = parquet.ParquetFile(arrow.BufferReader(arrow.py_buffer(bytes(value))))
            metadata = file.metadata
            if metadata.num_rows > self._record_size:
                raise DataCorruptionError(
                    f"{where} has {metadata.num_rows} rows, expected at most {self._record_size}"
                )
            groups = range(metadata.num_row_groups)
            nbytes = sum(metadata.row_group(i).total_byte_size for i in groups)
            if nbytes > _LARGEST_FILE:
                raise TooLargeError(f"{where} has {nbytes} bytes, expected at most {_LARGEST_FILE}")
            there = [name for name in _COLUMNS if name in file.schema_arrow.names]
            table = file.read(columns=there)
        except arrow.ArrowException as e:
            raise DataCorruptionError(f"{where}: {e}") from e
        except OSError as e:  # raised by Parquet for truncated files
            raise DataCorruptionError(f"{where}: {e}") from e
        columns = [
            table.column(name).combine_chunks()
            if name in there
            else arrow.array(
                [None] * len(table), arrow.int64() if name in ("offset", "size") else arrow.null()
            )
            for name in _COLUMNS
        ]
        for name, column in zip(("offset", "size"), columns[1:3], strict=True):
            if not arrow.types.is_integer(column.type):
                raise DataCorruptionError(
                    f"{where}: column {dump(name)} is of {column.type}, expected integers"
                )
        return _Rows(*columns)

    # -- listing --------------------------------------------------------------------------------------

    def _chunk_keys(self, name: str) -> Iterator[str]:
        """Yield the keys of the stored chunks of an array."""
        variable = self._arrays[name]
        front = f"{name}/" if name else ""
        found = self._base.list_children(self._directory + front).keys
        files = (_FILE.fullmatch(key.rpartition("/")[2]) for key in found)
        total = prod(variable.grid)
        for file_number in sorted(int(match[1]) for match in files if match is not None):
            rows = self._load(name, file_number)
            first = file_number * self._record_size
            for at in range(0 if rows is None else min(len(rows), max(0, total - first))):
                assert rows is not None
                if rows.raw[at].is_valid or rows.paths[at].as_py():
                    yield front + variable.separator.join(map(str, _cell(first + at, variable.grid)))

    def some_url(self) -> str | None:
        """Return None: URLs are in files that have not been read."""
        with self._lock:
            for rows in self._rows.values():
                for at in range(min(1, 0 if rows is None else len(rows))):
                    assert rows is not None
                    path = rows.paths[at].as_py()
                    return path if isinstance(path, str) else None
        return None


def _cell(number: int, grid: tuple[int, ...]) -> list[int]:
    """Return the cell of a chunk from its number in C order; 0 for an array without dimensions."""
    cell: list[int] = []
    for n in reversed(grid):
        number, i = divmod(number, n)
        cell.insert(0, i)
    return cell or [0]


def _variable(key: str, document: JSON) -> _Variable:
    """Return the grid and key form from an array's document."""
    try:
        shape, chunks = document["shape"], document["chunks"]
        separator = document.get("dimension_separator", ".")
        if separator not in (".", "/") or len(shape) != len(chunks):
            raise ValueError
        grid = tuple(-(-int(n) // max(1, int(c))) for n, c in zip(shape, chunks, strict=True))
        if any(not 0 <= n < 1 << 62 for n in grid):
            raise ValueError
    except (KeyError, TypeError, ValueError):
        raise DataCorruptionError(f"{METADATA}: {dump(key)} is not the document of an array") from None
    return _Variable(grid, separator)
