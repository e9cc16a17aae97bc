"""``Dataset``: an array with z5py's methods of reading and writing."""

from __future__ import annotations

import operator
from collections.abc import Mapping, Sequence
from functools import cache
from math import prod
from typing import Any

import numpy as np
import numpy.typing as npt

from chunkwise import Context, IndexTransform, TensorStore
from chunkwise.extension.inside import plain_array
from chunkwise.extension.n5 import VARLENGTH, decode_elements, encode_elements
from chunkwise.extension.trees import ResolvedNode
from chunkwise.n5.blocks import N5Blocks
from chunkwise.z5py.attribute_manager import AttributeManager
from chunkwise.z5py.compression import DEFAULTS, NAMES, compression_of
from chunkwise.z5py.container import Container
from chunkwise.z5py.selection import Region, check_region, fit, parse_index, parse_slices

__all__ = ["Dataset"]


@cache
def _context(n_threads: int) -> Context:
    return Context({"data_copy_concurrency": {"limit": n_threads}})


class Dataset:
    """An array of a `File`, in C order: the dimensions of N5 are reversed.

    Made by `Group.create_dataset`, `Group.require_dataset` and ``group[name]``.

    Attributes
    ----------
    file : File
        The file that it is in.

    Examples
    --------
    >>> import tempfile
    >>> import numpy as np
    >>> import chunkwise.z5py
    >>> f = chunkwise.z5py.File(tempfile.mkdtemp() + "/a.n5", "a")
    >>> ds = f.create_dataset("raw", shape=(4, 6), chunks=(2, 3), dtype="uint8", compression="gzip")
    >>> ds[1:3, 2:5] = 7
    >>> ds[1]
    array([0, 0, 7, 7, 7, 0], dtype=uint8)
    >>> ds.chunk_exists((0, 0)), ds.read_chunk((1, 1)).tolist()
    (True, [[7, 7, 0], [0, 0, 0]])
    """

    compressors_n5, compressors_zarr, compressors_zarr_v3 = NAMES.values()
    n5_default_compressor, zarr_default_compressor, zarr_v3_default_compressor = DEFAULTS.values()

    def __init__(self, file: Container, found: ResolvedNode, n_threads: int = 1) -> None:
        self.file = file
        self._found = found
        self._is_n5 = found.node.rules.reversed_axes
        self.n_threads = n_threads

    # -- storage --------------------------------------------------------------------------------

    @property
    def n_threads(self) -> int:
        """Number of threads that decode and encode chunks."""
        return self._n_threads

    @n_threads.setter
    def n_threads(self, value: int) -> None:
        self._n_threads = operator.index(value)
        self._array = self._open(self._found.node.document)
        self._padded: TensorStore | None = None  # opened by the first read or write of a chunk

    def _open(self, document: Mapping[str, Any], **members: Any) -> TensorStore:
        if self._is_n5:  # z5py can't read padded N5 blocks
            members["crop_end_blocks"] = True
        context = _context(max(1, self._n_threads))
        array = self._found.tree.open_array(self._found.node, document=document, context=context, **members)
        store = TensorStore._make(array, IndexTransform.identity(array.domain), None, None)
        return store.T if self._is_n5 else store

    def _check_writable(self) -> None:
        if not self._found.tree.writable:
            raise ValueError(f"cannot write to {self.name}: the file was opened for reading")

    # -- description ----------------------------------------------------------------------------

    @property
    def name(self) -> str:
        """The path in the file, with a "/" in front."""
        return "/" + "/".join(self._found.names)

    @property
    def parent(self) -> Any:
        """The `Group` that it is in."""
        return self.file._group_at(self._found.tree, self._found.names[:-1])

    @property
    def attrs(self) -> AttributeManager:
        """The attributes."""
        tree, names, node = self._found
        return AttributeManager(tree.attributes(names, node), node, repr(self), writable=tree.writable)

    @property
    def is_zarr(self) -> bool:
        """True in a Zarr format, False in N5."""
        return not self._is_n5

    @property
    def shape(self) -> tuple[int, ...]:
        """Extent of each dimension."""
        return self._array.shape

    @property
    def ndim(self) -> int:
        """Number of dimensions."""
        return len(self.shape)

    @property
    def size(self) -> int:
        """Number of elements."""
        return prod(self.shape)

    @property
    def dtype(self) -> np.dtype[Any]:
        """NumPy's data type of the elements."""
        return np.dtype(self._array.dtype.numpy_dtype)

    @property
    def chunks(self) -> tuple[int, ...]:
        """Shape of a chunk, inside a shard if there are shards."""
        return _sizes(self._array.chunk_layout.read_chunk.shape, self.name)

    @property
    def shards(self) -> tuple[int, ...] | None:
        """Shape of a shard; None without."""
        shape = _sizes(self._array.chunk_layout.write_chunk.shape, self.name)
        return None if shape == self.chunks else shape

    @property
    def chunks_per_dimension(self) -> list[int]:
        """Number of chunks along each dimension."""
        return [-(-n // chunk) for n, chunk in zip(self.shape, self.chunks, strict=True)]

    @property
    def number_of_chunks(self) -> int:
        """Number of chunks, stored or not."""
        return prod(self.chunks_per_dimension)

    @property
    def compression(self) -> str:
        """Name of the compressor."""
        return self._compression()[0]

    @property
    def compression_opts(self) -> dict[str, Any]:
        """Options of the compressor, as `Group.create_dataset` takes them."""
        return self._compression()[1]

    def _compression(self) -> tuple[str, dict[str, Any]]:
        node = self._found.node
        return compression_of(node.document, str(node.format))

    def __len__(self) -> int:
        return self.shape[0]

    def __repr__(self) -> str:
        return f"<chunkwise.z5py.Dataset {self.name} {self.dtype} {self.shape} in {self.file.filename}>"

    # -- regions --------------------------------------------------------------------------------

    def index_to_roi(self, index: Any) -> tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...]]:
        """Return start, shape and the dimensions that integers select from, for an index."""
        return tuple(parse_index(index, self.shape))  # type: ignore[return-value]

    def __getitem__(self, index: Any) -> Any:
        """Read a region.

        Raises
        ------
        TypeError
            For an index that isn't an integer, slice or ellipsis.
        ValueError
            For a slice with a step, or an integer out of range.
        """
        region = parse_index(index, self.shape)
        return self._read(region).reshape(region.result_shape)[()]

    def __setitem__(self, index: Any, item: Any) -> None:
        """Write a region; values are cast, and only scalars are broadcast."""
        self._check_writable()
        region = parse_index(index, self.shape)
        self._write(region, fit(self._cast(item), region))

    def __array__(self, dtype: npt.DTypeLike | None = None, copy: bool | None = None) -> npt.NDArray[Any]:
        if copy is False:
            raise ValueError("a dataset is not an array in memory: copy=False is not possible")
        return np.asarray(self[...], dtype)

    def read_subarray(self, start: Sequence[int], stop: Sequence[int]) -> npt.NDArray[Any]:
        """Read the region from `start` to `stop`, which has to be inside the dataset."""
        sizes = [b - a for a, b in zip(start, stop, strict=True)]
        return self._read(check_region(start, sizes, self.shape))

    def write_subarray(self, start: Sequence[int], data: npt.ArrayLike) -> None:
        """Write `data`, of the data type of the dataset, from `start` on."""
        self._check_writable()
        values = plain_array(data)
        self._check_dtype(values)
        self._write(check_region(start, values.shape, self.shape), values)

    def read_direct(self, dest: npt.NDArray[Any], source_sel: Any = None, dest_sel: Any = None) -> None:
        """Read the region `source_sel` into ``dest[dest_sel]``; both are slices, by default all."""
        region = parse_slices(source_sel, self.shape)
        dest[... if dest_sel is None else dest_sel] = self._read(region)

    def write_direct(self, source: npt.NDArray[Any], source_sel: Any = None, dest_sel: Any = None) -> None:
        """Write ``source[source_sel]`` to the region `dest_sel`; both are slices, by default all."""
        self._check_writable()
        values = plain_array(source)
        values = values[parse_slices(source_sel, values.shape).slices]
        self._check_dtype(values)
        region = parse_slices(dest_sel, self.shape)
        if values.shape != region.shape:
            raise ValueError(f"values of shape {values.shape} don't fit a region of shape {region.shape}")
        self._write(region, values)

    def append(self, data: npt.ArrayLike, axis: int = 0) -> tuple[int, ...]:
        """Add rows at the end of an axis, all of them or none; return the new shape.

        z5py has no such method.  Any number of processes may append at the same time: see
        `chunkwise.TensorStore.append`, which also has the errors.
        """
        self._check_writable()
        values = self._cast(data)
        self._array.append(values, axis)
        self._padded = None
        return self.shape

    def _read(self, region: Region) -> npt.NDArray[Any]:
        return np.asarray(self._array[region.slices].read().result())

    def _write(self, region: Region, values: npt.NDArray[Any]) -> None:
        self._array[region.slices].write(values).result()

    def _cast(self, item: Any) -> npt.NDArray[Any]:
        """Return values in the data type of the dataset; a Python integer has to fit it."""
        values = np.asarray(item, self.dtype) if type(item) is int else plain_array(item)
        if values.dtype.kind not in "biuf" and not (values.dtype.kind == self.dtype.kind == "c"):
            raise TypeError(f"values of type {values.dtype} can't be written to a dataset of {self.dtype}")
        return values.astype(self.dtype, copy=False)

    def _check_dtype(self, values: npt.NDArray[Any]) -> None:
        if values.dtype.newbyteorder("=") != self.dtype:
            raise RuntimeError(f"{self.name} has the data type {self.dtype}, got {values.dtype}")

    # -- chunks ---------------------------------------------------------------------------------

    def chunk_exists(self, chunk_indices: Sequence[int]) -> bool:
        """Return whether a chunk is stored; False for one outside of the grid."""
        region = self._chunk(chunk_indices)
        if region is None or 0 in region.shape:
            return False
        view = self._array[region.slices]
        return view.storage_statistics(query_not_stored=True).result().not_stored is False

    def get_chunk_shape(self, chunk_indices: Sequence[int], from_header: bool = False) -> list[int]:
        """Return the shape of a chunk as far as it is inside the dataset.

        Parameters
        ----------
        chunk_indices : sequence of int
        from_header : bool
            The shape that the stored block of N5 has, empty if there is none.
        """
        region = self._existing(chunk_indices)
        if from_header and self._is_n5:
            block = self._blocks().block(tuple(chunk_indices)[::-1])
            return [] if block is None else list(block.dims[::-1])
        return list(region.shape)

    def read_chunk(self, chunk_indices: Sequence[int]) -> npt.NDArray[Any] | None:
        """Return a chunk; None if it is not stored.

        In Zarr it has the full shape of a chunk, even at the end of a dimension; in N5 that of the block, or
        one dimension if the block has any length.
        """
        region = self._chunk(chunk_indices)
        if region is None or not self.chunk_exists(chunk_indices):
            return None
        if not self._is_n5:
            return np.asarray(self._whole_chunk(chunk_indices).read().result())
        block = self._blocks().block(tuple(chunk_indices)[::-1])
        if block is None:
            return None
        elements = decode_elements(block, self.dtype)
        if block.mode == VARLENGTH:
            return elements
        return elements.reshape(block.dims[::-1])[tuple(map(slice, region.shape))]

    def write_chunk(self, chunk_indices: Sequence[int], data: npt.NDArray[Any], varlen: bool = False) -> None:
        """Write a chunk.

        Parameters
        ----------
        chunk_indices : sequence of int
        data : ndarray
            The values, in the data type of the dataset, and in the shape that `read_chunk` gives, or flat.
        varlen : bool
            Whether the block may have any length; N5 only.

        Raises
        ------
        RuntimeError
            If there is no such chunk, or `data` is of another type or size.
        """
        self._check_writable()
        if varlen and not self._is_n5:
            raise RuntimeError("chunks of any length are not supported in Zarr")
        region = self._existing(chunk_indices)
        if not isinstance(data, np.ndarray):
            raise TypeError(f"expected an array, got {type(data).__name__}")
        self._check_dtype(data)
        if varlen:
            blocks, cell = self._blocks(), tuple(chunk_indices)[::-1]
            block = encode_elements(data.ravel(), blocks.region(cell), self.dtype)
            blocks.put_block(cell, block._replace(mode=VARLENGTH))
            return
        shape = region.shape if self._is_n5 else self.chunks
        if data.shape != shape and data.shape != (prod(shape),):
            raise RuntimeError(f"a chunk {tuple(chunk_indices)} has the shape {shape}, got {data.shape}")
        view = self._array[region.slices] if self._is_n5 else self._whole_chunk(chunk_indices)
        view.write(data.reshape(shape)).result()

    def _blocks(self) -> N5Blocks:
        node = self._found.node
        return N5Blocks(node.location, node.document, "numbers")

    def _chunk(self, chunk_indices: Sequence[int]) -> Region | None:
        """Return the region of a chunk inside the dataset; None for one outside of the grid."""
        cell = tuple(map(operator.index, chunk_indices))
        grid = self.chunks_per_dimension
        if len(cell) != len(grid) or min(cell, default=0) < 0:
            raise RuntimeError(f"invalid chunk {cell} of a grid of {grid}")
        if any(i >= n for i, n in zip(cell, grid, strict=True)):
            return None
        start = tuple(i * n for i, n in zip(cell, self.chunks, strict=True))
        ends = (min(a + n, size) for a, n, size in zip(start, self.chunks, self.shape, strict=True))
        return Region(start, tuple(end - a for a, end in zip(start, ends, strict=True)))

    def _existing(self, chunk_indices: Sequence[int]) -> Region:
        region = self._chunk(chunk_indices)
        if region is None:
            raise RuntimeError(f"invalid chunk {chunk_indices} of a grid of {self.chunks_per_dimension}")
        return region

    def _whole_chunk(self, chunk_indices: Sequence[int]) -> TensorStore:
        """Return a view of a chunk of Zarr with what lies beyond the array."""
        chunks = self.chunks
        if self._padded is None:
            shape = [n * chunk for n, chunk in zip(self.chunks_per_dimension, chunks, strict=True)]
            document = {**self._found.node.document, "shape": shape}
            self._padded = self._open(document, assume_metadata=True)  # shared with no other handle
        box = zip(chunk_indices, chunks, strict=True)
        return self._padded[tuple(slice(i * n, (i + 1) * n) for i, n in box)]

    def __reduce__(self) -> tuple[Any, ...]:
        return _reopened, (self.file, self.name, self._n_threads)


def _sizes(shape: Any, name: str) -> tuple[int, ...]:
    if shape is None or None in shape:
        raise ValueError(f"the chunks of {name} are not of one size; open it with chunkwise.open_group")
    return tuple(shape)


def _reopened(file: Container, name: str, n_threads: int) -> Dataset:
    dataset = file[name]
    assert isinstance(dataset, Dataset)
    dataset.n_threads = n_threads
    return dataset
