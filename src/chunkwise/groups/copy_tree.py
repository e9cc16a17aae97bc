"""``copy_tree``: a group with all that it holds, copied to another location, format or store."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Executor
from typing import Any

from chunkwise.errors import AlreadyExistsError, InvalidArgumentError
from chunkwise.groups.group import Group
from chunkwise.groups.open_group import open_group
from chunkwise.hierarchy.location import Location, LocationLike, locate
from chunkwise.hierarchy.new_location import suggested_format
from chunkwise.hierarchy.node import Node, find_node, require_node
from chunkwise.tools.copy_source import check_apart
from chunkwise.tools.executors import Workers
from chunkwise.tools.narrowing import Cast
from chunkwise.tools.tree_copy import CopyReport

__all__ = ["copy_tree", "open_target"]


def copy_tree(
    source: LocationLike,
    destination: LocationLike,
    *,
    executor: Executor | Workers | None = None,
    memory: int | str | None = None,
    format: str | None = None,
    cast: Cast = "error",
    verify: bool = False,
    strict: bool = False,
    resume: bool = False,
    overwrite: bool = False,
    sync: bool = True,
    progress: Callable[[str, int], None] = lambda path, nbytes: None,
    **options: Any,
) -> CopyReport:
    """Copy a group with all groups, arrays, attributes and links in it to another place, format or store.

    Parameters
    ----------
    source, destination : str, path-like, Spec, KvStore, KvStore.Spec or JSON
    executor : concurrent.futures.Executor, optional
        Who copies the blocks of arrays, as for `chunkwise.copy`.  By default threads of this process.
    memory : int or str, optional
        Bytes that a worker process may use for the copy of an array, such as ``"2GB"``.
    format : {"zarr3", "zarr2", "n5"}, optional
        By default that of the group around the destination, or what its name says, or that of the source.
    cast : {"error", "clamp", "wrap", "scale"}
        What becomes of values that another ``dtype`` can't hold.
    verify : bool
        Read each array again and compare.
    strict : bool
        Raise if the format can't hold an array, instead of leaving it out.
    resume : bool
        Go on with an unfinished copy: what is there already is kept.
    overwrite : bool
        Delete what is at the destination.
    sync : bool
        Whether chunks are on the disk before an array is there.
    progress : callable
        Is told the path of an array, from the top of the copy, and a number of bytes copied.
    **options
        What the arrays are to have other than in the source: ``chunks``, ``shards``, ``codec``, ``checksum``,
        ``fill_value``, ``dtype``.

    Returns
    -------
    CopyReport

    Raises
    ------
    AlreadyExistsError
        If there is something at the destination.
    InvalidArgumentError
        If one of the two places holds the other, or the format has no groups.
    FailedPreconditionError
        If the unfinished copy of an array is with other options, somebody is at work on it, or a worker
        doesn't see what it is to read and write.

    Examples
    --------
    >>> import tempfile
    >>> import numpy as np
    >>> import chunkwise
    >>> place = tempfile.mkdtemp()
    >>> tree = chunkwise.create_group(f"{place}/a.n5", format="n5", attributes={"subject": "m7"})
    >>> _ = tree.create_array("raw", np.arange(6))
    >>> report = chunkwise.copy_tree(f"{place}/a.n5", f"{place}/a.zarr", format="zarr3")
    >>> report.n_arrays, report.nbytes
    (1, 48)
    """
    here, there = locate(source), locate(destination)
    root = require_node(here)
    format = format or suggested_format(there, root.format) or "zarr3"
    if format == "zarr1":
        raise InvalidArgumentError("Zarr v1 has no groups")
    check_apart(here, there)
    tree = open_group(here, "r")
    target = open_target(there, format, resume=resume, overwrite=overwrite)
    report = target.copy(
        tree,
        "",
        options=options,
        resume=resume,
        verify=verify,
        strict=strict,
        sync=sync,
        cast=cast,
        executor=executor,
        memory=memory,
        progress=progress,
    )
    if format != "n5" and _is_consolidated(root):
        target.consolidate()
    return report


def open_target(destination: Location, format: Any, *, resume: bool, overwrite: bool) -> Group:
    """Return the group that is to hold a copy."""
    there = find_node(destination)
    if there is None or resume:
        return open_group(destination, "a", format=format)
    if there.kind == "group" and not overwrite:
        text = destination.text
        raise AlreadyExistsError(f"{text} is there already; overwrite=True, or --overwrite, deletes it first")
    return open_group(destination, "w" if overwrite else "w-", format=format)


def _is_consolidated(root: Node) -> bool:
    if root.format == "zarr3":
        return "consolidated_metadata" in root.document
    kv, path = root.location.store, root.location.path
    return root.format == "zarr2" and kv.read(path + ".zmetadata").value is not None
