"""N5 datasets whose blocks hold values of any length, as an array with one value for each block.

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

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, get_args

import numpy as np
import numpy.typing as npt

from chunkwise.arguments import check_choice
from chunkwise.binding import JSON
from chunkwise.chunk_key.key_encoding import KeyEncoding
from chunkwise.codec import n5_varlength as blocks
from chunkwise.codec.n5_compression import parse_compression, read_compression
from chunkwise.codec.n5_header import parse_header
from chunkwise.driver.n5.document import (
    ATTRIBUTES_KEY,
    dump_document,
    is_dataset,
    is_marker,
    load_document,
)
from chunkwise.driver.n5.metadata import parse_metadata
from chunkwise.errors import (
    AlreadyExistsError,
    ChunkwiseError,
    DataCorruptionError,
    FailedPreconditionError,
    InvalidArgumentError,
    NotFoundError,
    OutOfBoundsError,
    prefix,
)
from chunkwise.hierarchy.container import check_container, mark_container
from chunkwise.hierarchy.location import Location, locate
from chunkwise.hierarchy.new_location import check_free, check_outside_arrays
from chunkwise.kvstore.compare_and_swap import compare_and_swap
from chunkwise.kvstore.key_range import KeyRange
from chunkwise.kvstore.protocol import MISSING_GENERATION, Buffer
from chunkwise.n5.block_values import BlockValues, Kind

__all__ = ["N5Blocks", "create_n5_blocks", "open_n5_blocks"]

_KINDS = get_args(Kind)
# No compressor makes more of a byte: 128 KiB of one value take Zstandard four bytes.
_MAX_RATIO = 1 << 15
_UNSUSPICIOUS_NBYTES = 1 << 20


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
        Of the elements; ``object`` where those are no numbers.
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
            If it does not hold what blocks of this kind hold; names the key.
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
        """
        cell = self._cell(cell)
        self.put_block(cell, self._values.encode(value, self.region(cell)))

    def __delitem__(self, cell: int | Sequence[int]) -> None:
        """Delete a block; it is no error if it is not stored."""
        self._location.store.delete(self._keys.key(self._cell(cell)))

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
        """Replace the value of a block by ``change(value)``, so that no other writer's change is lost.

        Parameters
        ----------
        cell : int or sequence of int
        change : callable
            Gets the value, None for a block that is not stored; returns the new one, None to delete it.
            It is called again if the block was written by somebody else meanwhile.

        Returns
        -------
        object
            The new value.

        Raises
        ------
        GenerationMismatchError
            If others keep on writing the block.
        """
        cell = self._cell(cell)
        kv, key = self._location.store, self._keys.key(cell)
        after: Any = None

        def attempt() -> bytes | None:
            nonlocal after
            before, generation = self._read(cell)
            after = change(before)
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
        """Return a block decompressed but not interpreted: mode, dimensions, payload; None if missing."""
        return self._block(self._cell(cell))[0]

    def put_block(self, cell: int | Sequence[int], data: blocks.N5BlockData) -> None:
        """Store a block in the mode that `data` says; inverse of `block`."""
        key = self._keys.key(self._cell(cell))
        self._location.store.write(key, blocks.write_block(data, self._compression))

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
            self._check_promise(stored.value)
            return blocks.parse_block(stored.value, self._compression, itemsize=itemsize), stored.generation
        except ChunkwiseError as e:
            raise prefix(e, f"Error reading {kv.describe(key)}") from e.__cause__

    def _encode(self, cell: tuple[int, ...], value: Any) -> bytes:
        return blocks.write_block(self._values.encode(value, self.region(cell)), self._compression)

    def _check_promise(self, raw: Buffer) -> None:
        """Raise if the header promises more than any compressor makes of what is stored."""
        nbytes = parse_header(raw).n_elements * self._values.element.itemsize
        if nbytes > max(_UNSUSPICIOUS_NBYTES, _MAX_RATIO * len(raw)):
            raise DataCorruptionError(f"N5 block of {len(raw)} bytes promises {nbytes} bytes")

    def _read(self, cell: tuple[int, ...]) -> tuple[Any, bytes]:
        data, generation = self._block(cell)
        if data is None:
            return None, generation
        try:
            return self._values.decode(data, self.region(cell)), generation
        except ChunkwiseError as e:
            raise prefix(e, f"Error reading {self._location.store.describe(self._keys.key(cell))}") from None


def open_n5_blocks(place: str | os.PathLike[str] | Location, *, kind: Kind | None = None) -> N5Blocks:
    """Open the blocks of an N5 dataset.

    Parameters
    ----------
    place : str, path or Location
        The dataset: a path or a URL.
    kind : {"numbers", "strings", "object", "label_multiset"}, optional
        Kind of values; by default from its data type and the attribute ``isLabelMultiset``.

    Returns
    -------
    N5Blocks

    Raises
    ------
    NotFoundError
        If there is no dataset.
    FailedPreconditionError
        If its document can't be read.
    UnsupportedError
        If it is in a container of a version above 4.

    Examples
    --------
    >>> import tempfile
    >>> import numpy as np
    >>> import chunkwise
    >>> path = tempfile.mkdtemp() + "/a.n5/d"
    >>> options = {"dimensions": [4, 4], "block_size": [2, 2], "data_type": "uint8"}
    >>> blocks = chunkwise.create_n5_blocks(path, **options)
    >>> blocks[0, 1] = np.array([7, 8, 9], "uint8")
    >>> chunkwise.open_n5_blocks(path)[0, 1].tolist()
    [7, 8, 9]
    """
    if kind is not None:
        check_choice(kind, "kind", _KINDS)
    location = locate(place)
    key = location.path + ATTRIBUTES_KEY
    raw = location.store.read(key).value
    where = location.store.describe(key)
    if raw is None:
        raise NotFoundError(f"Metadata at {where} does not exist")
    try:
        document = load_document(raw)
        if not is_dataset(document):
            raise FailedPreconditionError("it is the document of a group")
        found = N5Blocks(location, document, kind)
    except ChunkwiseError as e:
        raise FailedPreconditionError(f"Error reading {where}: {e.message}") from None
    check_container(location)
    return found


def create_n5_blocks(
    place: str | os.PathLike[str] | Location,
    *,
    dimensions: Sequence[int],
    block_size: Sequence[int],
    data_type: str,
    compression: Mapping[str, Any] | None = None,
    attributes: Mapping[str, Any] | None = None,
) -> N5Blocks:
    """Create a dataset for blocks of any length.

    Parameters
    ----------
    place : str, path or Location
        The new dataset; only the root of a container may be there already.
    dimensions, block_size : sequence of int
        In elements.
    data_type : str
        One of the ten number types, ``string`` or ``object``; ``uint8`` for label multisets.
    compression : mapping, optional
        The ``compression`` member; by default ``{"type": "gzip"}``.
    attributes : mapping, optional
        Further members of the document; for label multisets ``{"isLabelMultiset": True}``.

    Returns
    -------
    N5Blocks
        Without any block yet.

    Raises
    ------
    AlreadyExistsError
        If there is a dataset or a group, or a dataset above.
    SpecError
        For a member that is not what the format allows.

    Examples
    --------
    >>> import tempfile
    >>> import numpy as np
    >>> import chunkwise
    >>> path = tempfile.mkdtemp() + "/a.n5/d"
    >>> options = {"dimensions": [4, 4], "block_size": [2, 2], "data_type": "uint8"}
    >>> blocks = chunkwise.create_n5_blocks(path, **options)
    >>> blocks[0, 1] = np.array([7, 8, 9], "uint8")
    >>> chunkwise.open_n5_blocks(path)[0, 1].tolist()
    [7, 8, 9]
    """
    location = locate(place)
    document: dict[str, Any] = {
        **(attributes or {}),
        "dimensions": list(dimensions),
        "blockSize": list(block_size),
        "dataType": data_type,
        "compression": parse_compression(dict(compression or {"type": "gzip"}))[0],
    }
    found = N5Blocks(location, document)
    check_outside_arrays(location)
    check_free(location, "n5")
    key = location.path + ATTRIBUTES_KEY
    while True:
        stored = location.store.read(key)
        existing: Any = {} if stored.value is None else load_document(stored.value)
        if not is_marker(existing):
            raise AlreadyExistsError(f"{location.store.describe(key)} is there already")
        generation = MISSING_GENERATION if stored.value is None else stored.generation
        if (
            location.store.write(key, dump_document({**existing, **document}), if_equal=generation)
            is not None
        ):
            break
    mark_container(location, text=data_type == "string")
    return found
