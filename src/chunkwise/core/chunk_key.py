"""From a cell of the chunk grid to the key under which its chunk is stored, and back.

Zarr v3 has two encodings: ``default`` (``c/1/23/45``) and ``v2`` (``1.23.45``), which Zarr v2, Zarr v1 and N5
use too.

Specification
-------------
https://zarr-specs.readthedocs.io/en/latest/v3/chunk-key-encodings/default/, ``…/v2/``, "Description";
Zarr v2, "Chunks" and member ``dimension_separator``; N5, "File-system specification": ``/``.

Names
-----
zarr3: ``default``, ``v2``

Configuration
-------------
>>> default_keys({"separator": "."}).key((1, 23, 45))
'c.1.23.45'
>>> v2_keys({"separator": "/"}).key((1, 23, 45))
'1/23/45'
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import product
from typing import NamedTuple

from chunkwise.core.base.binding import JSON, Members, expect_one_of

__all__ = ["KeyEncoding", "default_keys", "is_number", "v2_keys"]


class KeyEncoding(NamedTuple):
    """Form of the keys of an array's chunks.

    Attributes
    ----------
    prefix : str
        Start of all keys, for example ``"volume/raw/c/"``.
    separator : str
        Between the numbers, ``"/"`` or ``"."``.
    scalar : str
        Key of the only chunk of an array of rank 0, complete with the path of the array.
    inner : int
        Number of trailing dimensions that keys leave out, since the grid has one cell along each.

    Examples
    --------
    >>> encoding = KeyEncoding("c/", "/", "c").under("volume/")
    >>> encoding.key((1, 23))
    'volume/c/1/23'
    >>> encoding.cell("volume/c/1/23", rank=2)
    (1, 23)
    """

    prefix: str
    separator: str
    scalar: str
    inner: int = 0

    def under(self, path: str) -> KeyEncoding:
        """Return the encoding for an array at `path`, which is empty or ends in ``"/"``."""
        return KeyEncoding(path + self.prefix, self.separator, path + self.scalar, self.inner)

    def key(self, cell: Sequence[int]) -> str:
        """Return the key of one cell."""
        cell = cell[: len(cell) - self.inner]
        return self.prefix + self.separator.join(map(str, cell)) if cell else self.scalar

    def keys(self, cells: Sequence[Sequence[int]]) -> Iterator[str]:
        """Yield the keys of all cells in the product of `cells`, last dimension fastest."""
        if self.inner:
            return map(self.key, product(*cells))
        if not cells:
            return iter((self.scalar,))
        head, *tail = [list(map(str, along)) for along in cells]
        return map(self.separator.join, product([self.prefix + number for number in head], *tail))

    def cell(self, key: str, rank: int) -> tuple[int, ...] | None:
        """Return the cell that is stored under `key`; None if `key` is not a chunk's key."""
        # Only the exact results of `key` are keys; ``"c/01"``, ``"c/+1"`` and ``"c/1/"`` are not.
        if self.inner:
            outer = self._replace(inner=0).cell(key, rank - self.inner)
            return None if outer is None else outer + (0,) * self.inner
        if rank == 0:
            return () if key == self.scalar else None
        if not key.startswith(self.prefix):
            return None
        numbers = key[len(self.prefix) :].split(self.separator)
        if len(numbers) != rank or not all(map(is_number, numbers)):
            return None
        return tuple(map(int, numbers))


def is_number(text: str) -> bool:
    """Return True for a number as it is in the keys of chunks, and in the names of their directories."""
    # int() accepts signs, spaces, underscores and digits of other scripts; 2**63 has 19 digits
    return text.isascii() and text.isdigit() and len(text) < 20 and (text == "0" or text[0] != "0")


def default_keys(configuration: Mapping[str, JSON]) -> KeyEncoding:
    """Read the configuration object, ``{"separator": "/" or "."}``; ``"/"`` if left out."""
    separator = _separator(configuration, ("/", "."))
    return KeyEncoding(f"c{separator}", separator, "c")


def v2_keys(configuration: Mapping[str, JSON]) -> KeyEncoding:
    """Read the configuration object, ``{"separator": "/" or "."}``; ``"."`` if left out."""
    return KeyEncoding("", _separator(configuration, (".", "/")), "0")


def _separator(configuration: Mapping[str, JSON], choices: tuple[str, str]) -> str:
    members = Members(configuration)
    separator: str = members.take("separator", lambda value: expect_one_of(value, choices), choices[0])
    members.finish()
    return separator
