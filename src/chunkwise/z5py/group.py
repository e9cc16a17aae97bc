"""``Group``: a mapping from names, or paths, to groups and datasets, as in z5py."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any, TypeAlias

import numpy as np

from chunkwise.copying.array_options import Sizes, each_size, read_shape, shard_sizes
from chunkwise.errors import AlreadyExistsError, ChunkwiseError, OptionError
from chunkwise.extension.inside import plain_array
from chunkwise.extension.trees import ResolvedNode, get_or_create, tree_format
from chunkwise.groups.group import Group as Tree
from chunkwise.z5py.arguments import codec_json
from chunkwise.z5py.attribute_manager import AttributeManager
from chunkwise.z5py.container import Container
from chunkwise.z5py.dataset import Dataset

__all__ = ["Group", "Member"]

Member: TypeAlias = "Group | Dataset"

_CHUNK_SIZE = 1 << 18  # elements, of z5py's default chunks
_KEY_ENCODINGS = {"default": "/", "v2": "."}


class Group(Mapping[str, Member]):
    """A group of a `File`.

    Paths are names joined by "/" from this group; a leading "/" makes no difference.

    Attributes
    ----------
    file : File
        The file that it is in.

    Examples
    --------
    >>> import tempfile
    >>> import chunkwise.z5py
    >>> f = chunkwise.z5py.File(tempfile.mkdtemp() + "/a.zarr", "a")
    >>> group = f.create_group("volumes/raw")
    >>> _ = group.create_dataset("s0", shape=(64, 64), chunks=(32, 32), dtype="uint8")
    >>> f.visititems(lambda name, member: print(name, type(member).__name__))
    volumes Group
    volumes/raw Group
    volumes/raw/s0 Dataset
    """

    def __init__(self, file: Container, group: Tree) -> None:
        self.file = file
        self._group = group

    # Two are the same if they are one object, as in z5py.
    __eq__ = object.__eq__
    __hash__ = object.__hash__

    @property
    def name(self) -> str:
        """The path in the file, with a "/" in front."""
        return self._group.name

    @property
    def parent(self) -> Group:
        """The group that it is in; the file itself for the file."""
        group: Group = self.file._group_at(self._group._tree, self._group._names[:-1])
        return group

    @property
    def attrs(self) -> AttributeManager:
        """The attributes."""
        group = self._group
        attributes = group._tree.attributes(group._names, group._node)
        return AttributeManager(attributes, group._node, repr(self), writable=self._writable)

    @property
    def is_zarr(self) -> bool:
        """True in a Zarr format, False in N5."""
        return not tree_format(self._group.format).has_containers

    @property
    def _writable(self) -> bool:
        return self._group._tree.writable

    def _check_writable(self, what: str) -> None:
        if not self._writable:
            raise ValueError(f"cannot {what}: the file was opened for reading")

    # -- looking up -----------------------------------------------------------------------------

    def __getitem__(self, name: str) -> Member:
        found = self._group._find(_relative(name))
        if _is_dataset(found):
            return Dataset(self.file, found)
        group: Group = self.file._group_at(found.tree, found.names)
        return group

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and _relative(name) in self._group

    def __iter__(self) -> Iterator[str]:
        # Every directory of an N5 container is a group; a directory in a Zarr group may not be.
        return (name for name in self._group if not self.is_zarr or name in self._group)

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def is_sub_group(self, name: str) -> bool:
        """Return whether there is a group of that name."""
        return name in self and not _is_dataset(self._group._find(_relative(name)))

    def visititems(self, func: Callable[[str, Member], Any]) -> Any:
        """Call ``func(path, member)`` for all below, until a result isn't None, and return that."""
        for name, member in self.items():
            result = func(name, member)
            if result is None and isinstance(member, Group):
                result = member.visititems(_below(name, func))
            if result is not None:
                return result
        return None

    # -- making and deleting --------------------------------------------------------------------

    def create_group(self, name: str) -> Group:
        """Create a group, and those above it that are missing.

        Raises
        ------
        KeyError
            If there is a group or dataset of that name.
        ValueError
            If the file was opened for reading.
        """
        self._check_writable("create a group")
        path = _relative(name)
        if path in self._group:
            raise KeyError(f"an object with name {name} already exists")
        return Group(self.file, self._group.create_group(path))

    def require_group(self, name: str) -> Group:
        """Return a group; create it if it is missing.

        Raises
        ------
        TypeError
            If there is a dataset of that name.
        """
        if name not in self:
            self._check_writable("create a group")
            with suppress(AlreadyExistsError):
                return Group(self.file, self._group.require_group(_relative(name)))
        member = self[name]
        if not isinstance(member, Group):
            raise TypeError(f"{name} is a dataset, not a group")
        return member

    def create_dataset(
        self,
        name: str,
        shape: Sequence[int] | None = None,
        dtype: Any = None,
        data: Any = None,
        chunks: Sizes | None = None,
        compression: str | None = None,
        fillvalue: float = 0,
        n_threads: int = 1,
        shards: Sizes | None = None,
        chunk_key_encoding: str = "default",
        **compression_options: Any,
    ) -> Dataset:
        """Create a dataset, and the groups above it that are missing.

        Parameters
        ----------
        name : str
        shape : sequence of int
        dtype : dtype_like
        data : array_like, optional
            Values to write, which give shape and data type too.
        chunks : int, sequence of int, bool or "auto", optional
            As `chunkwise.create_array` takes them, without names; by default 2**18 elements, of the same
            extent in all dimensions.
        compression : str, optional
            ``"gzip"`` by default in N5, ``"blosc"`` in Zarr; see `chunkwise.z5py.arguments`.
        fillvalue : scalar
            Value of elements that are not stored; 0 in N5.
        n_threads : int
            Number of threads that encode and decode chunks.
        shards : int, sequence of int, bool or "auto", optional
            Zarr v3 only.
        chunk_key_encoding : {"default", "v2"}
            Form of keys in Zarr v3: ``c/0/0`` or ``0.0``.
        **compression_options
            Those of the compressor, such as ``level``.

        Raises
        ------
        KeyError
            If there is a group or dataset of that name.
        TypeError
            If shape or data type is missing.
        ValueError
            If the format can't hold it, or the file was opened for reading.
        RuntimeError
            For options that the compressor does not have, and chunks that don't fit.
        """
        self._check_writable("create a dataset")
        path = _relative(name)
        if path in self._group:
            raise KeyError(f"dataset {name} is already existing")
        values = None if data is None else plain_array(data)
        sizes, element = _shape_and_dtype(shape, dtype, values)
        format = self._group.format
        threads = operator.index(n_threads)
        if chunk_key_encoding not in _KEY_ENCODINGS:
            raise ValueError(f"chunk_key_encoding: expected default or v2, got {chunk_key_encoding!r}")
        if fillvalue is None:
            raise TypeError("fillvalue has to be a number, got None")
        rules = tree_format(format)
        if not rules.has_fill_value and fillvalue != 0:
            raise ValueError("fillvalue: N5 has no fill value; it has to be 0")
        if shards is not None and shards is not False and not rules.has_shards:
            raise ValueError("shards are only supported in Zarr v3")
        box, shards = _sizes(chunks, shards, sizes, element.itemsize)
        options: dict[str, Any] = {"shape": sizes, "chunks": box, "dtype": element}
        metadata: dict[str, Any] = {}
        if rules.reversed_axes:
            options["shape"], options["chunks"] = sizes[::-1], box[::-1]
        else:
            options["fill_value"] = fillvalue
            options["shards"] = shards
        if rules.separator_member:
            metadata[rules.separator_member] = self.file._dimension_separator
        elif format == "zarr3" and chunk_key_encoding == "v2":
            metadata["chunk_key_encoding"] = {"name": "v2", "configuration": {"separator": "."}}
        codec = codec_json(format, compression, compression_options)
        try:
            self._group.create_array(
                path, codec="none" if codec is None else codec, metadata=metadata, **options
            )
        except AlreadyExistsError as e:
            raise KeyError(e.message) from e
        dataset = Dataset(self.file, self._group._find(path), threads)
        if values is not None:
            try:
                dataset[...] = values
            except BaseException:
                with suppress(ChunkwiseError):  # the store may have failed permanently
                    now, made = self._group._find(path).node.found, dataset._found.node.found
                    if now is not None and made is not None and now.generation == made.generation:
                        del self._group[path]  # not what others have put there since
                raise
        return dataset

    def require_dataset(
        self,
        name: str,
        shape: Sequence[int],
        dtype: Any = None,
        chunks: Sizes | None = None,
        n_threads: int = 1,
        **options: Any,
    ) -> Dataset:
        """Return a dataset; create it if it is missing.

        Parameters
        ----------
        name : str
        shape, dtype, chunks
            If given, an existing dataset must have them.
        n_threads : int
            Number of threads that encode and decode chunks.
        **options
            Properties of a new one; see `create_dataset`.

        Raises
        ------
        TypeError
            If there is a group, or a dataset of another shape, data type or chunks.
        """
        path = _relative(name)

        def get() -> Member | None:
            found = self._group.get(path)
            if isinstance(found, Tree) and found._node.implicit and not len(found):
                return None  # in N5, a directory that can become a dataset
            return None if found is None else self[name]

        def create() -> Member:
            try:
                return self.create_dataset(name, shape, dtype, chunks=chunks, n_threads=n_threads, **options)
            except KeyError as e:
                raise AlreadyExistsError(str(e)) from None

        member = get_or_create(get, create)
        if not isinstance(member, Dataset):
            raise TypeError(f"{name} is a group, not a dataset")
        wanted = read_shape(shape)
        if member.shape != wanted:
            raise TypeError(f"{name} has the shape {member.shape}, not {wanted}")
        if dtype is not None and member.dtype != np.dtype(dtype):
            raise TypeError(f"{name} has the data type {member.dtype}, not {np.dtype(dtype)}")
        if chunks is not None and member.chunks != _sizes(chunks, None, wanted, 1)[0]:
            raise TypeError(f"{name} has chunks of {member.chunks}, not {chunks!r}")
        member.n_threads = n_threads
        return member

    def __delitem__(self, name: str) -> None:
        self._check_writable("delete")
        path = _relative(name)
        if not path:
            raise ValueError("a file can't be deleted from itself")
        del self._group[path]

    def __repr__(self) -> str:
        return f"<chunkwise.z5py.{type(self).__name__} {self.name} in {self.file.filename}>"

    def __reduce__(self) -> tuple[Any, ...]:
        return _reopened, (self.file, self.name)


def _reopened(file: Container, name: str) -> Any:
    return file[name]


def _relative(name: str) -> str:
    if not isinstance(name, str):
        raise TypeError(f"names of groups and datasets are text, got {type(name).__name__}")
    return name.strip("/")


def _is_dataset(found: ResolvedNode) -> bool:
    """Return whether a node is a dataset; the root of an N5 container counts as a group."""
    return found.node.kind == "array" and bool(found.names)


def _below(path: str, func: Callable[[str, Member], Any]) -> Callable[[str, Member], Any]:
    return lambda name, member: func(f"{path}/{name}", member)


def _shape_and_dtype(shape: Any, dtype: Any, values: Any) -> tuple[tuple[int, ...], np.dtype[Any]]:
    if shape is None and values is None:
        raise TypeError("one of shape or data must be specified")
    if dtype is None and values is None:
        raise TypeError("one of dtype or data must be specified")
    sizes = values.shape if shape is None else read_shape(shape)
    try:
        element = values.dtype if dtype is None else np.dtype(dtype)
    except TypeError as e:
        raise TypeError(f"dtype: {e}") from None
    if not sizes:
        raise ValueError("datasets without dimensions are not supported")
    if element.kind not in "biufc":
        raise ValueError(f"dtype: {element} is not one of numbers")
    if values is not None and values.shape != sizes:
        raise ValueError(f"shape {sizes} is incompatible with data of shape {values.shape}")
    if values is not None and values.dtype != element:
        raise ValueError(f"data type {element} is incompatible with data of {values.dtype}")
    return sizes, element


def _sizes(
    chunks: Any, shards: Any, shape: tuple[int, ...], itemsize: int
) -> tuple[tuple[int, ...], tuple[int, ...] | None]:
    usual = [round(_CHUNK_SIZE ** (1 / len(shape)))] * len(shape)
    try:
        asked = each_size("chunks", "auto" if chunks is None else chunks, shape, usual)
        box = tuple(max(1, min(chunk, size)) for chunk, size in zip(asked, shape, strict=True))
        return box, shard_sizes(shards, shape, box, itemsize)
    except OptionError as e:
        raise RuntimeError(e.message) from None
