"""Places in data files: which bytes of which file, and the table of files at the start of a node."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from chunkwise.core.base.binding import dump
from chunkwise.core.kvstore.key_range import decode_key
from chunkwise.core.kvstore.ocdbt.fields import Fields, varint, varints
from chunkwise.errors import DataCorruptionError

__all__ = [
    "NO_FILE",
    "NO_PLACE",
    "DataFile",
    "FileTable",
    "Place",
    "is_inside",
    "prefix_lengths",
    "read_files",
    "shared_length",
    "take_keys",
]

_LONGEST_PATH = 0xFFFF
_LARGEST_TABLE = 1 << 24  # bytes of strings to compare together, all padded to the widest
_MISSING = (1 << 64) - 1


class DataFile(NamedTuple):
    """A data file, by its path below the database, in two parts.

    Attributes
    ----------
    base : bytes
        Start of the path; paths in nodes of this file are relative to it.
    relative : bytes
        Rest of the path.
    """

    base: bytes
    relative: bytes

    @property
    def key(self) -> str:
        """The whole path."""
        return decode_key(self.base + self.relative)


class Place(NamedTuple):
    """Bytes of a data file."""

    file: DataFile
    offset: int
    length: int

    @property
    def is_missing(self) -> bool:
        """True for the root of an empty tree."""
        return self.offset == self.length == _MISSING


NO_FILE = DataFile(b"", b"")
NO_PLACE = Place(NO_FILE, _MISSING, _MISSING)


def prefix_lengths(items: Sequence[bytes]) -> list[int]:
    """Return the number of bytes that each item shares with the one before, without the first."""
    widest = max(map(len, items), default=0)
    if widest == 0 or widest * len(items) > _LARGEST_TABLE:
        return [shared_length(a, b) for a, b in pairwise(items)]
    table = np.array(items, f"S{widest}").view(np.uint8).reshape(-1, widest)  # shorter ones padded with zeros
    lengths = np.fromiter(map(len, items), np.intp, len(items))
    differs = table[1:] != table[:-1]
    first = np.where(differs.any(axis=1), differs.argmax(axis=1), widest)
    found: list[int] = np.minimum(first, np.minimum(lengths[1:], lengths[:-1])).tolist()
    return found


def shared_length(a: bytes, b: bytes) -> int:
    """Return the length of the longest common prefix of `a` and `b`."""
    n = min(len(a), len(b))
    different = int.from_bytes(a[:n]) ^ int.from_bytes(b[:n])
    return n - (different.bit_length() + 7) // 8


def take_keys(
    fields: Fields, prefixes: list[int], suffixes: list[int], longest: int, most: int
) -> list[bytes]:
    """Read prefix-compressed strings of at most `longest` bytes each and `most` bytes in all."""
    total = sum(suffixes) + sum(prefixes)
    if total > most:
        raise DataCorruptionError(f"keys or paths of {total} bytes in all, expected at most {most}")
    raw = bytes(fields.take(sum(suffixes)))
    out, at, last = [], 0, b""
    for shared, n in zip((0, *prefixes), suffixes, strict=False):
        if shared > len(last):
            raise DataCorruptionError(f"{shared} bytes shared with a key or path of {len(last)} bytes")
        if shared + n > longest:
            raise DataCorruptionError(f"a key or path of {shared + n} bytes, expected at most {longest}")
        last = last[:shared] + raw[at : at + n]
        at += n
        out.append(last)
    return out


def read_files(fields: Fields, above: bytes, most: int) -> list[DataFile]:
    """Read the table of files of a node, whose paths are relative to `above`."""
    n = fields.count("data files")
    prefixes = fields.varints(n - 1) if n else []
    suffixes, bases = fields.varints(n), fields.varints(n)
    out = []
    for path, base in zip(take_keys(fields, prefixes, suffixes, _LONGEST_PATH, most), bases, strict=True):
        if base > len(path) or len(above) + len(path) > _LONGEST_PATH:
            raise DataCorruptionError(
                f"the path {dump(decode_key(path))} of a data file is too long or short"
            )
        file = DataFile(above + path[:base], path[base:])
        if path and not is_inside(file.key):
            raise DataCorruptionError(f"the path {dump(file.key)} of a data file leads out of the database")
        out.append(file)
    return out


def is_inside(path: str) -> bool:
    """Return True for a path that stays below its directory."""
    return "\0" not in path and {"", ".", ".."}.isdisjoint(path.split("/"))


class FileTable:
    """The table of files for a new node."""

    def __init__(self, files: Iterable[DataFile]) -> None:
        self.files = sorted(set(files))
        self._ids = {file: i for i, file in enumerate(self.files)}

    def ids(self, places: Iterable[Place]) -> list[int]:
        """Return the number of the file of each place."""
        return [self._ids[place.file] for place in places]

    def encoded(self) -> bytes:
        """Return the table as bytes."""
        paths = [file.base + file.relative for file in self.files]
        shared = prefix_lengths(paths)
        for i, (before, after) in enumerate(pairwise(self.files)):
            if before.base != after.base:
                shared[i] = min(shared[i], len(before.base), len(after.base))
        suffixes = [path[n:] for path, n in zip(paths, (0, *shared), strict=False)]
        return b"".join(
            (
                varint(len(paths)),
                varints(shared),
                varints(len(suffix) for suffix in suffixes),
                varints(len(file.base) for file in self.files),
                *suffixes,
            )
        )
