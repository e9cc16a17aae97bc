"""N5 datasets whose blocks hold values of any length, as an array with one value per block.

==================  ====================  ===========================================================
kind                dataset               value of a block
==================  ====================  ===========================================================
``numbers``         ten number types      1-D ndarray of any length, first dimension fastest
``strings``         ``string``            ndarray of str, of the shape of the block
``object``          ``object``            bytes
``label_multiset``  ``uint8`` with        ndarray of tuples of ``(id, count)``, of the shape of the
                    ``isLabelMultiset``   block
==================  ====================  ===========================================================

Blocks are written as n5-java does: cropped at the edges of the dataset, in mode 0 where the number of
elements is that of the region and in mode 1 otherwise; objects in mode 2.

Specification: N5 README, "File-system specification", item 9; imglib2-label-multisets.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from math import prod
from typing import Any, Literal, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from chunkwise.errors import (
    AbortedError,
    ChunkwiseError,
    DataCorruptionError,
    InvalidArgumentError,
    OutOfBoundsError,
    prefix,
)
from chunkwise.extension import JSON, KeyEncoding
from chunkwise.extension import n5 as blocks
from chunkwise.extension.inside import KeyRange, compare_and_swap, explains_foreign_names, plain_array
from chunkwise.extension.n5 import (
    decode_label_multiset,
    encode_label_multiset,
    parse_metadata,
    read_compression,
)
from chunkwise.extension.trees import Location

__all__ = ["BlockValues", "Kind", "N5Blocks"]


_LAYOUT = ("blockSize", "dataType", "compression")
"""Members of a document on which blocks depend; others may change the size."""

Kind: TypeAlias = Literal["numbers", "strings", "object", "label_multiset"]


class BlockValues(NamedTuple):
    """Kind, element type and shape of the blocks of one dataset."""

    kind: Kind
    element: np.dtype[Any]
    block_size: tuple[int, ...]

    def decode(self, data: blocks.N5BlockData, region: tuple[int, ...]) -> Any:
        """Return the value of a block; `region` is its shape, cropped to the dataset."""
        if self.kind == "object":
            return blocks.decode_object(data)
        if self.kind == "numbers":
            return blocks.decode_elements(data, self.element)
        if self.kind == "label_multiset":
            return _shaped(decode_label_multiset(data, region), region)
        if prod(data.dims) > 4 * prod(self.block_size):
            raise DataCorruptionError(f"N5 string block of size {list(data.dims)} is larger than its cell")
        return _shaped(blocks.decode_strings(data), data.dims)

    def encode(self, value: Any, region: tuple[int, ...]) -> blocks.N5BlockData:
        """Return the block that holds `value`; `region` is its shape, cropped to the dataset."""
        if self.kind == "object":
            return blocks.encode_object(value)
        if self.kind == "numbers":
            return blocks.encode_elements(_numbers(value, self.element), region, self.element)
        if self.kind == "label_multiset":
            cells = _listed(value, region)
            return encode_label_multiset([tuple(map(tuple, entries)) for entries in cells], region)
        return blocks.encode_strings(_listed(value, region), region)


def _numbers(value: Any, dtype: np.dtype[Any]) -> npt.NDArray[Any]:
    """Return a value as a 1-D array of `dtype`; raise if a number would change."""
    if isinstance(value, list | tuple) and all(isinstance(v, int | np.integer) for v in value):
        value = np.array([int(v) for v in value], object)  # NumPy makes floats of large integers
        if dtype.kind in "iu" and all(np.iinfo(dtype).min <= v <= np.iinfo(dtype).max for v in value):
            value = value.astype(dtype)
    array = plain_array(value)
    if array.ndim != 1:
        raise InvalidArgumentError(f"a block of numbers is a 1-D array, not one of shape {array.shape}")
    if array.size == 0:
        return np.empty(0, dtype)
    if array.dtype.kind not in "iuf" or (array.dtype.kind == "f" and dtype.kind != "f"):
        raise InvalidArgumentError(f"values of type {array.dtype} can't be stored as {dtype}")
    if dtype.kind in "iu":
        limits = np.iinfo(dtype)
        if int(array.min()) < limits.min or int(array.max()) > limits.max:
            raise InvalidArgumentError(f"values from {array.min()} to {array.max()} don't fit {dtype}")
    return array.astype(dtype)


def _shaped(values: Sequence[Any], shape: tuple[int, ...]) -> npt.NDArray[Any]:
    """Return values, given first dimension fastest, as an object array."""
    line = np.empty(len(values), object)
    for i, value in enumerate(values):
        line[i] = value
    return line.reshape(shape[::-1]).T


def _listed(value: Any, shape: tuple[int, ...]) -> list[Any]:
    """Return the elements of an array of objects with the first dimension fastest."""
    if not isinstance(value, np.ndarray) or value.shape != shape:
        given = getattr(value, "shape", type(value).__name__)
        raise InvalidArgumentError(f"expected an array of objects of shape {shape}, but received: {given}")
    return list(value.T.ravel().tolist())


@explains_foreign_names("N5Blocks")
class N5Blocks:
    """The blocks of a dataset, addressed by their position in the grid.

    Made by `open_n5_blocks` and `create_n5_blocks`.

    Attributes
    ----------
    shape : tuple of int
        Blocks along each dimension.
    dimensions, block_size : tuple of int
        Of the dataset, in elements.
    kind : {"numbers", "strings", "object", "label_multiset"}
        Kind of values in a block.
    dtype : numpy.dtype
        Type of the elements; ``object`` if they aren't numbers.
    attributes : dict
        Further members of the document.

    Examples
    --------
    >>> import tempfile
    >>> import chunkwise
    >>> place = tempfile.mkdtemp() + "/container.n5/ids"
    >>> ids = chunkwise.create_n5_blocks(place, dimensions=[8, 8], block_size=[4, 4], data_type="uint64")
    >>> ids[0, 1] = [3, 5, 8]
    >>> ids[0, 1]
    array([3, 5, 8], dtype=uint64)
    >>> list(ids)
    [(0, 1)]
    >>> ids.update((0, 1), lambda known: [*known, 2**64 - 1])
    [np.uint64(3), np.uint64(5), np.uint64(8), 18446744073709551615]
    """

    def __init__(self, location: Location, document: JSON, kind: Kind | None = None) -> None:
        metadata = parse_metadata(document)
        self._location = location
        self._layout = [document.get(name) for name in _LAYOUT]
        self._compression = read_compression(metadata.compression)[1]
        self._keys = KeyEncoding("", "/", "0").under(location.path)
        self.dimensions = metadata.dimensions
        self.block_size = metadata.block_size
        self.shape = tuple(-(-n // size) for n, size in zip(self.dimensions, self.block_size, strict=True))
        self.attributes: dict[str, Any] = dict(metadata.attributes)
        own: dict[str, Kind] = {"string": "strings", "object": "object"}
        if kind is None:
            multiset = self.attributes.get("isLabelMultiset") is True
            kind = "label_multiset" if multiset else own.get(metadata.data_type, "numbers")
        numeric = metadata.data_type not in own
        if (kind == "numbers" and not numeric) or (
            kind == "label_multiset" and metadata.data_type != "uint8"
        ):
            raise InvalidArgumentError(f'blocks of data type "{metadata.data_type}" can\'t hold {kind}')
        self.kind: Kind = kind
        element = np.dtype(metadata.data_type) if numeric else np.dtype("u1")
        self._values = BlockValues(kind, element, self.block_size)
        self.dtype = element if kind == "numbers" else np.dtype(object)

    def __repr__(self) -> str:
        return f"N5Blocks({self._location.text!r}, shape={self.shape}, kind={self.kind!r})"

    def region(self, cell: Sequence[int]) -> tuple[int, ...]:
        """Return the shape of a block, cropped to the dataset.

        Parameters
        ----------
        cell : sequence of int
            Position in the grid of blocks.

        Raises
        ------
        IndexError
            If there is no such block.
        """
        cell = self._cell(cell)
        return tuple(
            min(size, n - i * size) for i, size, n in zip(cell, self.block_size, self.dimensions, strict=True)
        )

    def __getitem__(self, cell: int | Sequence[int]) -> Any:
        """Return the value of a block; None if it is not stored.

        Raises
        ------
        IndexError
            If there is no such block.
        DataCorruptionError
            If the block isn't of this kind; the error names the key.
        """
        return self._read(self._cell(cell))[0]

    def __setitem__(self, cell: int | Sequence[int], value: Any) -> None:
        """Replace the value of a block.

        Raises
        ------
        IndexError
            If there is no such block.
        CodecError
            If it can't hold that value.
        AbortedError
            If another process has deleted the dataset, or put another in its place.
        """
        cell = self._cell(cell)
        self.put_block(cell, self._values.encode(value, self.region(cell)))

    def __delitem__(self, cell: int | Sequence[int]) -> None:
        """Delete a block; a missing block is not an error."""
        key = self._keys.key(self._cell(cell))
        self._check_there()
        self._location.store.delete(key)

    def __contains__(self, cell: int | Sequence[int]) -> bool:
        """Return True if a block is stored."""
        return self._location.store.read(self._keys.key(self._cell(cell))).value is not None

    def __iter__(self) -> Iterator[tuple[int, ...]]:
        """Yield the positions of the stored blocks inside the dataset, sorted."""
        rank = len(self.shape)
        keys = KeyRange.of_prefix(self._keys.prefix)
        found = (self._keys.cell(key, rank) for key in self._location.store.list(keys.start, keys.stop))
        yield from sorted(
            cell
            for cell in found
            if cell is not None and all(i < n for i, n in zip(cell, self.shape, strict=True))
        )

    def update(self, cell: int | Sequence[int], change: Callable[[Any], Any]) -> Any:
        """Atomically replace a block's value with ``change(value)``.

        Parameters
        ----------
        cell : int or sequence of int
        change : callable
            Gets the value, or None for a block that is not stored; returns the new value, or None to delete
            it. It is called again if another writer has changed the block in the meantime.

        Returns
        -------
        object
            The new value.

        Raises
        ------
        GenerationMismatchError
            If others keep writing the block.
        """
        cell = self._cell(cell)
        kv, key = self._location.store, self._keys.key(cell)
        after: Any = None

        def attempt() -> bytes | None:
            nonlocal after
            before, generation = self._read(cell)
            after = change(before)
            self._check_there()
            if after is None:
                done = kv.delete(key, if_equal=generation)
            else:
                done = kv.write(key, self._encode(cell, after), if_equal=generation)
            return generation if done is None else None

        compare_and_swap(kv, key, attempt)
        return after

    def read(self, region: tuple[slice, ...] | None = None) -> npt.NDArray[Any]:
        """Return the values of many blocks as an object array with an element for each; None where missing.

        Parameters
        ----------
        region : tuple of slice, optional
            Positions along each dimension, as NumPy slices them; by default all.
        """
        ranges = [range(n) for n in self.shape]
        if region is not None:
            ranges = [along[part] for along, part in zip(ranges, region, strict=True)]
        out = np.empty(tuple(map(len, ranges)), object)
        for at in np.ndindex(out.shape):
            out[at] = self[tuple(along[i] for along, i in zip(ranges, at, strict=True))]
        return out

    def block(self, cell: int | Sequence[int]) -> blocks.N5BlockData | None:
        """Return a block decompressed but not interpreted: mode, dimensions, payload; None if missing.

        Parameters
        ----------
        cell : int or sequence of int
            Position in the grid of blocks.

        Returns
        -------
        N5BlockData or None
            None if it isn't stored.
        """
        return self._block(self._cell(cell))[0]

    def put_block(self, cell: int | Sequence[int], data: blocks.N5BlockData) -> None:
        """Store a block in the mode that `data` says; inverse of `block`.

        Parameters
        ----------
        cell : int or sequence of int
            Position in the grid of blocks.
        data : N5BlockData
            Mode, dimensions in elements, and payload before compression.
        """
        key = self._keys.key(self._cell(cell))
        self._check_there()
        self._location.store.write(key, blocks.write_block(data, self._compression))

    def _check_there(self) -> None:
        """Raise AbortedError if blocks written now would be of no dataset, or of another's."""
        location = self._location
        raw = location.store.read(location.path + blocks.ATTRIBUTES_KEY).value
        document = {} if raw is None else blocks.load_document(raw)
        if [document.get(name) for name in _LAYOUT] != self._layout:
            raise AbortedError(f"another process has deleted or replaced {location.text}")

    def _cell(self, cell: int | Sequence[int]) -> tuple[int, ...]:
        cell = (cell,) if isinstance(cell, int | np.integer) else tuple(cell)
        if len(cell) != len(self.shape) or not all(0 <= i < n for i, n in zip(cell, self.shape, strict=True)):
            raise OutOfBoundsError(f"there is no block {cell} in a grid of shape {self.shape}")
        return tuple(map(int, cell))

    def _block(self, cell: tuple[int, ...]) -> tuple[blocks.N5BlockData | None, bytes]:
        kv, key = self._location.store, self._keys.key(cell)
        stored = kv.read(key)
        if stored.value is None:
            return None, stored.generation
        try:
            itemsize = self._values.element.itemsize
            return blocks.parse_block(stored.value, self._compression, itemsize=itemsize), stored.generation
        except ChunkwiseError as e:
            raise prefix(e, f"Error reading {kv.describe(key)}") from e.__cause__

    def _encode(self, cell: tuple[int, ...], value: Any) -> bytes:
        return blocks.write_block(self._values.encode(value, self.region(cell)), self._compression)

    def _read(self, cell: tuple[int, ...]) -> tuple[Any, bytes]:
        data, generation = self._block(cell)
        if data is None:
            return None, generation
        try:
            return self._values.decode(data, self.region(cell)), generation
        except ChunkwiseError as e:
            raise prefix(e, f"Error reading {self._location.store.describe(self._keys.key(cell))}") from None
