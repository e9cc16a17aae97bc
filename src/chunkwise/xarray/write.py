"""``write_dataset``: a dataset as a group of arrays.

1. Each dataset is checked and encoded (`chunkwise.xarray.dataset_write`), all before the first change.
2. Arrays are made, or found; those that grow are taken for an append.
3. Data in memory, or lazy without dask, is written block by block; then dask writes the rest, in one graph
   and without a lock.
4. New arrays replace old ones; attributes of the group and consolidated metadata follow.  New rows
   appear last, those of all variables together.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Hashable, Mapping, Sequence
from contextlib import ExitStack
from itertools import count
from typing import TYPE_CHECKING, Any, Literal, TypedDict, Unpack, overload

import numpy as np

from chunkwise import TensorStore
from chunkwise.dask.in_place import Written, check_sources
from chunkwise.dask.write import store_apart
from chunkwise.errors import AlreadyExistsError, InvalidArgumentError, NotFoundError, ResizedError
from chunkwise.extension.inside import (
    Append,
    appending,
    check_choice,
    divide,
    excluding,
    load,
    with_storage_options,
)
from chunkwise.extension.trees import NonFinite, check_non_finite
from chunkwise.xarray.dataset_write import DatasetWrite
from chunkwise.xarray.target import DatasetTarget

if TYPE_CHECKING:
    from dask.delayed import Delayed
    from xarray import Dataset, DataTree

__all__ = ["write_dataset", "write_datatree"]

_MOST_ATTEMPTS = 5


class WriteKeywords(TypedDict, total=False):
    """Keywords of `write_dataset` on which its result doesn't depend."""

    format: str | None
    group: str | None
    mode: str | None
    encoding: Mapping[str, Mapping[str, Any]] | None
    consolidated: bool | None
    append_dim: Hashable | None
    region: Mapping[Any, slice | Literal["auto"]] | Literal["auto"] | None
    non_finite: NonFinite
    storage_options: Mapping[str, Any] | None


@overload
def write_dataset(
    dataset: Dataset, target: Any, *, compute: Literal[True] = ..., **options: Unpack[WriteKeywords]
) -> None: ...
@overload
def write_dataset(
    dataset: Dataset, target: Any, *, compute: Literal[False], **options: Unpack[WriteKeywords]
) -> Delayed: ...
@overload
def write_dataset(
    dataset: Dataset, target: Any, *, compute: bool = ..., **options: Unpack[WriteKeywords]
) -> Delayed | None: ...


def write_dataset(
    dataset: Dataset,
    target: Any,
    *,
    format: str | None = None,
    group: str | None = None,
    mode: str | None = None,
    encoding: Mapping[str, Mapping[str, Any]] | None = None,
    consolidated: bool | None = None,
    append_dim: Hashable | None = None,
    region: Mapping[Any, slice | Literal["auto"]] | Literal["auto"] | None = None,
    compute: bool = True,
    non_finite: NonFinite = "literal",
    storage_options: Mapping[str, Any] | None = None,
) -> Delayed | None:
    """Write a dataset of xarray to a group, which any Zarr or N5 software can then read.

    Parameters
    ----------
    dataset : xarray.Dataset
    target : str, path-like, dict, Spec, KvStore or Group
        A path, a URL, the spec of a kvstore, or an open group.
    format : {"zarr3", "zarr2", "n5"}, optional
        By default that of an existing group, or of the tree around it; otherwise ``n5`` if the name of the
        target ends in ``.n5``, and else ``zarr3``.
    group : str, optional
        Path of the group in `target`.
    mode : {"w-", "w", "a", "r+"}, optional
        ``"w-"`` creates a group, and fails if there is anything; ``"w"`` replaces an existing group, once the
        new one is complete; ``"a"`` adds variables to a group, replacing those of the same name; ``"r+"``
        changes values of existing variables.  By default ``"w-"``; ``"a"`` with `append_dim`, ``"r+"`` with
        `region`.
    encoding : dict, optional
        For each variable an encoding that replaces its own: members of the CF conventions such as ``dtype``,
        ``scale_factor`` and ``_FillValue``, and ``chunks``, ``shards``, ``codec`` (such as ``"zstd:5"``,
        ``"blosc:lz4:5:shuffle"``, ``"none"``, or JSON in the format's own words) and, in Zarr v3,
        ``fill_value``.
    consolidated : bool, optional
        Whether to write consolidated metadata.  By default in Zarr, unless only values change.  Existing
        consolidated metadata, here or in a group above, is updated in any case.
    append_dim : str, optional
        Extend existing variables along this dimension; those without it are overwritten.
    region : mapping of str to (slice or "auto"), or "auto", optional
        Part of the stored arrays to write, along some dimensions; with ``"auto"`` the part where the
        coordinates of the dataset are stored.  Every variable must have one of these dimensions.
    compute : bool
        Whether to write what dask computes; otherwise it is written when the result is computed, while new
        arrays appear at once.
    non_finite : {"literal", "string", "error"}
        Treatment of NaN and infinities in attributes, which JSON doesn't have: bare words, which xarray's own
        engine writes and strict readers refuse; text; or an error.
    storage_options : mapping, optional
        As for `chunkwise.open_group`.

    Returns
    -------
    None, or dask.delayed.Delayed if not `compute`

    Raises
    ------
    ImportError
        If xarray isn't installed.
    AlreadyExistsError
        If there is something at the target, with mode ``"w-"``.
    NotFoundError
        If there is no such group or variable, with mode ``"r+"``.
    InvalidArgumentError
        If options contradict each other, the format can't hold a variable or an attribute, a stored type
        can't hold a value, a coordinate differs from the stored one, or the dataset reads an array that is
        written in place.
    """
    xr = load("xarray", "write_dataset")
    if not isinstance(dataset, xr.Dataset):
        hint = "; write array.to_dataset(name=...)" if isinstance(dataset, xr.DataArray) else ""
        raise TypeError(f"expected a Dataset, got {type(dataset).__name__}{hint}")
    check_non_finite(non_finite)
    target = with_storage_options(target, storage_options)
    mode = _mode(mode, append_dim, region)
    _check_encoding(dataset, encoding)
    if append_dim is not None and append_dim not in dataset.sizes:
        there = ", ".join(map(repr, dataset.sizes))
        raise InvalidArgumentError(f"append_dim: the dataset has no dimension {append_dim!r}, but {there}")

    def plan() -> list[DatasetWrite]:
        write = DatasetWrite(
            xr,
            dataset,
            DatasetTarget(target, group, format, mode, non_finite, whole=append_dim is not None),
            mode=mode,
            encoding=encoding,
            consolidated=consolidated,
            append_dim=append_dim,
            region=region,
            non_finite=non_finite,
        )
        return [write]

    return _write_planned(plan, compute=compute, mode=mode)


def write_datatree(
    tree: DataTree,
    target: Any,
    *,
    format: str | None = None,
    group: str | None = None,
    mode: str | None = None,
    encoding: Mapping[str, Mapping[str, Mapping[str, Any]]] | None = None,
    consolidated: bool | None = None,
    append_dim: Hashable | None = None,
    region: Mapping[Any, slice | Literal["auto"]] | Literal["auto"] | None = None,
    compute: Literal[True] = True,
    non_finite: NonFinite = "literal",
    storage_options: Mapping[str, Any] | None = None,
) -> None:
    """Write every dataset of a tree to a group of its own.

    Parameters
    ----------
    tree : xarray.DataTree
        Coordinates that a node inherits are written only where they are defined.
    target, format, mode, consolidated, region, non_finite, storage_options
        As for `write_dataset`.
    group : str, optional
        Path of the root in `target`.
    encoding : dict, optional
        From the path of a node, such as ``"/a/b"``, to the encoding of its dataset.
    append_dim : str, optional
        As for `write_dataset`, in nodes that have this dimension.
    compute : True
        Must be true: a tree is always written at once.

    Raises
    ------
    ImportError, AlreadyExistsError, NotFoundError, InvalidArgumentError
        As for `write_dataset`.
    """
    xr = load("xarray", "write_datatree")
    if not isinstance(tree, xr.DataTree):
        raise TypeError(f"expected a DataTree, got {type(tree).__name__}")
    if not compute:
        raise InvalidArgumentError("compute: a tree is written at once; write its datasets one by one")
    check_non_finite(non_finite)
    target = with_storage_options(target, storage_options)
    mode = _mode(mode, append_dim, region)
    nodes = {node.path.removeprefix(tree.path).strip("/"): node for node in tree.subtree}
    encodings = {path.strip("/"): of for path, of in (encoding or {}).items()}
    for path in encodings:
        if path not in nodes:
            raise InvalidArgumentError(f'encoding: there is no node "/{path}"')
    datasets = {path: node.to_dataset(inherit=False) for path, node in nodes.items()}
    for path, dataset in datasets.items():
        _check_encoding(dataset, encodings.get(path))
    if append_dim is not None and not any(append_dim in dataset.sizes for dataset in datasets.values()):
        raise InvalidArgumentError(f"append_dim: no node has a dimension {append_dim!r}")

    def plan() -> list[DatasetWrite]:
        root: DatasetTarget | None = None
        writes = []
        for path, dataset in datasets.items():
            whole = "/".join(part for part in ((group or "").strip("/"), path) if part)
            at = DatasetTarget(target, whole, format, mode, non_finite, root, whole=append_dim is not None)
            root = root or at
            grows = append_dim is not None and append_dim in dataset.sizes
            write = DatasetWrite(
                xr,
                dataset,
                at,
                mode=mode,
                encoding=encodings.get(path),
                consolidated=consolidated if at is root else False,
                append_dim=append_dim if grows else None,
                region=region if dataset.variables else None,
                non_finite=non_finite,
            )
            writes.append(write)
        return writes

    _write_planned(plan, compute=True, mode=mode)


def _check_encoding(dataset: Dataset, encoding: Mapping[str, Any] | None) -> None:
    for name in encoding or {}:
        if name not in dataset.variables:
            raise InvalidArgumentError(f'encoding: there is no variable "{name}"')


def _mode(mode: str | None, append_dim: Hashable | None, region: Any) -> str:
    if mode is None:
        mode = "a" if append_dim is not None else "r+" if region is not None else "w-"
    check_choice(mode, "mode", ("w-", "w", "a", "r+"))
    if append_dim is not None and region is not None:
        raise InvalidArgumentError("append_dim and region contradict each other: one grows arrays")
    if append_dim is not None and mode != "a":
        raise InvalidArgumentError(f'append_dim needs mode "a", not "{mode}"')
    if region is not None and mode not in ("a", "r+"):
        raise InvalidArgumentError(f'region needs mode "a" or "r+", not "{mode}"')
    return mode


def _write_planned(plan: Callable[[], list[DatasetWrite]], *, compute: bool, mode: str) -> Delayed | None:
    """Write all datasets or none; return a Delayed of what dask computes, unless `compute`."""
    for attempt in count():
        try:
            writes = plan()
        except (AlreadyExistsError, NotFoundError):  # perhaps another process is making it
            if mode != "a" or attempt >= _MOST_ATTEMPTS:
                raise
            time.sleep(random.uniform(0, 0.1))
            continue
        makes = mode == "a" and any(write.new for write in writes)
        try:
            with ExitStack() as stack:
                append = confirm = None
                if makes:
                    at = writes[0].at
                    confirm = stack.enter_context(excluding(at.location, replaces=at.appears_whole))
                    writes = plan()  # again, as others may have made them meanwhile
                rooms = [room for write in writes for room in write.rooms()]
                if rooms:
                    append = stack.enter_context(appending([room.growing for room in rooms]))
                    writes = plan()  # again, as others may have appended meanwhile
                if mode == "a" and any(write.new for write in writes) and not makes:
                    continue
                if append is None or all(room.growing in append for w in writes for room in w.rooms()):
                    for write in writes:
                        write.check_lengths()
                    return _write(writes, append, confirm, compute=compute)
        except ResizedError:  # by others, without an append
            continue
    raise AssertionError("it ends by itself")


def _write(
    writes: Sequence[DatasetWrite],
    append: Append | None,
    confirm: Callable[[], None] | None,
    *,
    compute: bool,
) -> Delayed | None:
    sources: list[tuple[str, Any]] = []
    written: list[Written] = []
    for write in writes:
        written.extend(write.written(len(sources), at_once=not compute))
        sources.extend(write.sources())
    check_sources(sources, written)
    try:
        for write in writes:
            write.begin()
        jobs = [job for write in writes for job in write.views(append)]
        for variable, view in jobs:
            if variable.chunks is None:
                _write_blocks(variable, view)
        if compute and any(variable.chunks is not None for variable, _ in jobs):
            _store(jobs).compute()
        for write in reversed(writes):  # the root of a tree last
            write.commit(confirm)
        if append is not None:
            append.commit()
    except BaseException:  # an interrupt too
        for write in reversed(writes):
            write.undo()
        raise
    return None if compute else _store([job for write in writes for job in write.lazy()])


def _store(jobs: Sequence[tuple[Any, TensorStore]]) -> Delayed:
    lazy = [(variable.data, view) for variable, view in jobs if variable.chunks is not None]
    return store_apart([data for data, _ in lazy], [view for _, view in lazy])


def _write_blocks(variable: Any, view: TensorStore) -> None:
    # A variable of an open file is read in the same blocks, since it may not fit in memory.
    origin = view.origin
    for block in divide(view, view).domains():
        index = tuple(
            slice(lo - at, hi - at)
            for lo, hi, at in zip(block.inclusive_min, block.exclusive_max, origin, strict=True)
        )
        values = np.asarray(variable[index].values if index else variable.values)
        view[block].write(values).result()
