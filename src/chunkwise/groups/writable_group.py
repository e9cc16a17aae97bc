"""Groups in which members are made and deleted."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, NoReturn, Self

from chunkwise.copying.array_options import Sizes, data_type, read_shape
from chunkwise.copying.codec_option import CODEC_PARTS
from chunkwise.core.api.tensorstore import TensorStore
from chunkwise.core.base.public_names import checks_arguments, options_of
from chunkwise.core.driver.tree_formats import tree_format
from chunkwise.core.trees.change import delete_node
from chunkwise.core.trees.create import check_names, get_or_create, make_group, make_groups
from chunkwise.core.trees.destination import check_place
from chunkwise.core.trees.node import Node, check_new_names, find_node, split_path
from chunkwise.core.trees.tree import check_format
from chunkwise.errors import InvalidArgumentError
from chunkwise.extension.trees import looking
from chunkwise.groups.new_array import SCHEMA_OPTIONS, new_array
from chunkwise.groups.readable_group import ReadableGroup

__all__ = ["WritableGroup"]


class _OtherNodeError(InvalidArgumentError, TypeError):  # as h5py and zarr-python raise it
    pass


class WritableGroup(ReadableGroup):
    """A group to which groups and arrays can be added, and from which they can be deleted."""

    __slots__ = ()

    def create_group(
        self, path: str, *, attributes: Mapping[str, Any] | None = None, overwrite: bool = False
    ) -> Self:
        """Create a group, and those above it that are missing.

        Parameters
        ----------
        path : str
        attributes : mapping, optional
        overwrite : bool
            Replace an existing node, with everything below it, by an empty group.  Files that belong to no
            array or group stay.

        Raises
        ------
        AlreadyExistsError
            If there is already a group or array, or files that belong to none, and `overwrite` is false.
        InvalidArgumentError
            If a name is reserved, an attribute can't be stored, or the tree was opened for reading.
        """
        self._tree.check_writable()
        names = split_path(path, self.path)
        node = make_group(self._tree, names, attributes or {}, known=self._known(names), overwrite=overwrite)
        if overwrite:
            self._changed()
        return self._make(self._tree, names, node)

    def require_group(self, path: str, *, attributes: Mapping[str, Any] | None = None) -> Self:
        """Return the group at `path`; create it, with `attributes`, if it is missing.

        Parameters
        ----------
        path : str
            Path of the group.
        attributes : mapping, optional
            Attributes of a new group.

        Raises
        ------
        AlreadyExistsError
            If there is an array.
        """
        names = split_path(path, self.path)

        def get() -> Node | None:
            node = self._tree.find(names, self._node.format)
            return None if node is None or node.implicit or node.kind == "array" else node

        def create() -> Node:
            self._tree.check_writable()
            return make_group(self._tree, names, attributes or {}, known=self._known(names), exist_ok=True)

        return self._make(self._tree, names, get_or_create(get, create))

    def _known(self, names: Sequence[str]) -> int:
        return len(self._names) if tuple(names[: len(self._names)]) == self._names else 0

    @checks_arguments("create_array")
    @options_of(SCHEMA_OPTIONS, CODEC_PARTS)
    def create_array(
        self,
        path: str,
        data: Any = None,
        *,
        shape: Sequence[int] | int | None = None,
        dtype: Any = None,
        chunks: Sizes | None = "auto",
        shards: Sizes | None = None,
        codec: Any = None,
        checksum: bool = False,
        fill_value: Any = None,
        dimension_names: Sequence[str | None] | None = None,
        dimension_units: Sequence[Any] | Mapping[str, Any] | None = None,
        attributes: Mapping[str, Any] | None = None,
        metadata: Mapping[str, Any] | None = None,
        format: str | None = None,
        overwrite: bool = False,
        **schema_options: Any,
    ) -> TensorStore:
        """Create an array, and the groups above it that are missing.

        Parameters
        ----------
        path : str
        data : array_like, TensorStore or dask array, optional
            Values to write; shape and data type are by default those of the data.  A scalar fills any shape.
            A dask array is computed and written block by block.
        shape : sequence of int, or int
        dtype : dtype_like
        chunks : int, sequence of int, mapping, bool or "auto"
            Shape of the chunks, inside shards if there are any; one number is for all dimensions, -1 a whole
            dimension, a mapping has sizes by dimension name.  ``"auto"`` or True: about a megabyte each,
            or as large as the blocks of a dask array; False: one chunk.
        shards : int, sequence of int, mapping, bool or "auto", optional
            Zarr v3 only.
        codec : str, JSON, codec of numcodecs or zarr-python, list or CodecSpec, optional
            ``"zstd:5"``, ``"gzip:6"``, ``"blosc:lz4:5:shuffle"``, ``"none"``, ...; JSON in the words of any
            format is translated.  In Zarr v3 ``"zstd:5+crc32c"`` has a checksum.
        checksum : bool
            Whether each chunk gets a checksum, by which reads and ``chunkwise verify`` find damage:
            ``crc32c`` in Zarr v3, that of the compressor elsewhere.
        fill_value : scalar, optional
            Value of elements that are not stored.  N5 has none but 0.
        dimension_names : sequence of (str or None), optional
            Zarr v2 keeps them in the attribute ``_ARRAY_DIMENSIONS``, N5 in ``axes``.
        dimension_units : sequence of (Unit, str or None), or mapping, optional
            Size of a step along each dimension, such as ``"4 nm"``, in their order or by name.
        attributes : mapping, optional
        metadata : mapping, optional
            Members of the metadata document, in place of the defaults.
        format : {"zarr3", "zarr2", "zarr1"}, optional
            By default that of the tree.
        overwrite : bool
            Replace an existing array once the new one is complete, which may be made from the old one.
        **schema_options
            ``schema``, ``domain``, ``rank``, ``chunk_layout`` and ``context``; see `chunkwise.open`.  In
            place of `codec`, zarr-python's ``compressor``, ``compressors``, ``filters`` and ``serializer``.

        Raises
        ------
        AlreadyExistsError
            If there is something at `path`.
        InvalidArgumentError
            If the format can't hold the array, a name is reserved, or parameters contradict each other;
            nothing is written then.

        Examples
        --------
        >>> import chunkwise
        >>> group = chunkwise.create_group("memory://")
        >>> array = group.create_array("raw/s0", shape=(512, 512), dtype="uint8", dimension_names=["y", "x"])
        >>> array.name, array.domain.labels
        ('/raw/s0', ('y', 'x'))
        """
        self._tree.check_writable()
        names = split_path(path, self.path)
        known = self._known(names)
        kind = check_format(format) if format else self._tree.format
        check_new_names(names[known:], kind)
        if tree_format(kind).has_containers != self._tree.rules.has_containers:
            raise InvalidArgumentError(f"format: an {kind} array can't be in an {self._tree.format} tree")
        if not names:
            raise InvalidArgumentError("the root of a tree is a group; an array needs a name")

        known = min(known, len(names) - 1)
        location = self._tree.location(names)

        def look() -> None:
            with looking(location, self._tree.root, self._tree.format) as seen:
                tree = replace(self._tree, root=self._tree.root._replace(store=seen.store))
                check_names(tree, names, known)
                others: list[str] = []
                node = find_node(seen, tree.format, others)
                check_place(seen, "array", kind, "overwrite" if overwrite else "new", (node, others))

        store = new_array(
            location,
            format=kind,
            shape=shape,
            dtype=dtype,
            data=data,
            chunks=chunks,
            shards=shards,
            codec=codec,
            checksum=checksum,
            fill_value=fill_value,
            dimension_names=dimension_names,
            dimension_units=dimension_units,
            attributes={} if attributes is None else attributes,
            metadata={} if metadata is None else metadata,
            schema_options={"context": self._tree.context, **schema_options},
            non_finite=self._tree.non_finite,
            overwrite=overwrite,
            look=look,
            make_parents=lambda _: make_groups(self._tree, names[:-1], known),
        )
        made: Any = store._array
        node = Node(location, kind, "array", tree_format(kind).array_key, made.document)
        return TensorStore._make(store._array, store._transform, None, self._tree.array_node(names, node))

    @checks_arguments("create_array")
    @options_of(create_array)
    def require_array(
        self, path: str, *, shape: Sequence[int] | int | None = None, dtype: Any = None, **options: Any
    ) -> TensorStore:
        """Return the array at `path`; create it if it is missing.

        Parameters
        ----------
        path : str
        shape, dtype
            If given, an existing array must have them.
        **options
            Properties of a new array; see `create_array`.

        Raises
        ------
        InvalidArgumentError
            If there is a group, or an array with another shape or data type.
        """
        create = partial(self.create_array, path, shape=shape, dtype=dtype, **options)
        return self._required(path, shape, dtype, create)

    def _required(
        self, path: str, shape: Sequence[int] | int | None, dtype: Any, create: Callable[[], TensorStore]
    ) -> TensorStore:
        """Return the array at `path`, of a given shape and data type, or one that `create` makes there."""

        def get() -> TensorStore | None:
            found: Self | TensorStore | None = self.get(path)
            if isinstance(found, WritableGroup) and found._node.implicit:
                found = self.get(path)  # perhaps another process has just made an array there
            if isinstance(found, WritableGroup):
                if found._node.implicit and not len(found):  # in N5, a directory that can become an array
                    return None
                raise _OtherNodeError(f"{found.location.text} is a group, not an array")
            return found

        member = get_or_create(get, create)
        wanted = None if shape is None else read_shape(shape)
        if wanted is not None and wanted != member.shape:
            raise _OtherNodeError(f"{member.name} has the shape {member.shape}, not {wanted}")
        if dtype is not None and data_type(dtype) != member.dtype:
            raise _OtherNodeError(f"{member.name} is of {member.dtype.name}, not {data_type(dtype).name}")
        return member

    @checks_arguments("create_array")
    @options_of(create_array)
    def create_dataset(
        self,
        name: str,
        shape: Sequence[int] | int | None = None,
        dtype: Any = None,
        data: Any = None,
        *,
        chunks: Sizes | None = None,
        compression: str | int | None = None,
        compression_opts: int | None = None,
        fillvalue: Any = None,
        **options: Any,
    ) -> TensorStore:
        """Create an array as `create_array` does, with the parameters of h5py.

        Parameters
        ----------
        name, shape, dtype, data
            In the order of h5py.
        chunks : int, sequence of int, mapping, bool or "auto", optional
            As `create_array` takes them; True and None let chunkwise choose.
        compression : str or int, optional
            Name of a codec, such as ``"gzip"``, or a level of gzip.
        compression_opts : int, optional
            Its level.
        fillvalue : scalar, optional
        **options
            Those of `create_array`.
        """
        if compression_opts is not None and compression is None:
            raise InvalidArgumentError("compression_opts: expected a compression that it belongs to")
        if compression is False:
            raise InvalidArgumentError(
                "compression: expected the name of a codec, or a level of gzip, not False"
            )
        if isinstance(compression, int):  # a level of gzip; True is the usual one
            compression = "gzip" if compression is True else f"gzip:{compression}"
        if compression is not None:
            options["codec"] = (
                compression if compression_opts is None else f"{compression}:{compression_opts}"
            )
        if fillvalue is not None:
            options["fill_value"] = fillvalue
        return self.create_array(name, data, shape=shape, dtype=dtype, chunks=chunks, **options)

    @checks_arguments("create_array")
    @options_of(create_dataset)
    def require_dataset(
        self, name: str, shape: Sequence[int] | int, dtype: Any, **options: Any
    ) -> TensorStore:
        """Return the array at `name`, after making it as `create_dataset` does if it is missing.

        Parameters
        ----------
        name : str
            Path of the array.
        shape : int or sequence of int
            In elements; an existing array must have it.
        dtype : DTypeLike
            Data type; an existing array must have it.
        **options
            Properties of a new array; see `create_dataset`.

        Raises
        ------
        InvalidArgumentError
            If there is a group, or an array with another shape or data type.
        """
        return self._required(name, shape, dtype, partial(self.create_dataset, name, shape, dtype, **options))

    def __setitem__(self, path: str, value: Any) -> None:
        """Create an array from values, as `create_array` does; one that is there is an error."""
        self.create_array(path, value)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        """Do nothing: there is nothing to close."""

    def __array__(self, *dtype: Any, **how: Any) -> NoReturn:
        # NumPy would take the names for elements.
        raise TypeError("a group has no elements: group[name] is an array, and group.copy copies a group")

    def __delitem__(self, path: str) -> None:
        self._tree.check_writable()
        left = delete_node(self._tree, split_path(path, self.path))
        self._changed()
        if left:
            warnings.warn(
                f"{len(left)} files in {path!r} belong to no array or group and were not deleted, such as "
                f"{self._tree.root.store.describe(left[0])}",
                stacklevel=2,
            )

    def _changed(self) -> None:
        """Look at the group again after its links may have changed."""
        node = self._tree.find(self._names, self._node.format)
        if node is not None:
            self._node = node
            self._attributes = None
