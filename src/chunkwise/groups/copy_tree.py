"""``copy_tree``: a group with everything in it, copied to another location, format or store."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from concurrent.futures import Executor
from contextlib import suppress
from typing import Any

from chunkwise.copying.array_options import OPTIONS, OTHER_NAMES
from chunkwise.copying.array_template import NAMES
from chunkwise.copying.copy_options import CopyOptions
from chunkwise.copying.copy_source import check_apart
from chunkwise.copying.executors import Workers, workers_of
from chunkwise.copying.journal import parse_part
from chunkwise.copying.losses import CopyReport, warn_of_losses
from chunkwise.copying.narrowing import Cast
from chunkwise.copying.progress import check_progress, shown_progress
from chunkwise.copying.resolve import ResolvedPlace, resolve
from chunkwise.copying.tree_copy import TreeCopy, tree_copy_to
from chunkwise.copying.tree_plan import NodeSource
from chunkwise.core.base.arguments import as_nbytes, check_choice
from chunkwise.core.base.catalogue import hooks
from chunkwise.core.base.public_names import options_of
from chunkwise.core.driver.tree_formats import tree_format
from chunkwise.core.trees.consolidated_tree import is_consolidated
from chunkwise.core.trees.location import Location, LocationLike, locate, located
from chunkwise.core.trees.node import Node
from chunkwise.core.trees.tree import ResolvedNode
from chunkwise.errors import ChunkwiseError, InvalidArgumentError, OptionError
from chunkwise.extension.trees import FormatName, format_of, is_volume
from chunkwise.groups.group import Group
from chunkwise.groups.open_group import check_implicit, open_group

__all__ = ["LAYOUTS", "copy_tree", "prepare_tree_copy"]

LAYOUTS = ("n5-viewer", "paintera", "bdv", "ome-zarr")
"""Layouts of the copy of an image: for a viewer of N5, or OME-Zarr."""


@options_of((*OPTIONS, *OTHER_NAMES))
def copy_tree(
    source: LocationLike,
    destination: LocationLike,
    *,
    executor: Executor | Workers | None = None,
    memory: int | str | None = None,
    format: str | None = None,
    layout: str | None = None,
    cast: Cast = "error",
    keep_fingerprint: bool = False,
    verify: bool = False,
    strict: bool = False,
    resume: bool = False,
    overwrite: bool = False,
    sync: bool = True,
    part: str | None = None,
    progress: Callable[[str, int], object] | bool = False,
    storage_options: Mapping[str, Any] | None = None,
    **options: Any,
) -> CopyReport:
    """Copy a group with all groups, arrays, attributes and links in it to another location, format or store.

    Blocks of all arrays are copied at the same time, arrays of up to 16 MB as wholes.  An unfinished copy is
    not a group: the metadata at the top is written last.

    Parameters
    ----------
    source, destination : str, path-like, Spec, KvStore, KvStore.Spec or JSON
    executor : concurrent.futures.Executor, optional
        Executor of the copy of blocks, as for `chunkwise.copy`.  By default threads of this process.
    memory : int or str, optional
        Bytes that a worker process may use for the copy of an array, such as ``"2GB"``.
    format : {"zarr3", "zarr2", "n5", "neuroglancer_precomputed"}, optional
        By default that of the group around the destination, or the one in its name, or that of the source.
    layout : {"ome-zarr", "n5-viewer", "paintera", "bdv"}, optional
        Copy an image, of any convention, with all its levels and nothing else: as OME-Zarr, or as N5 for this
        viewer.  By default an image becomes OME-Zarr if its group holds nothing else and is copied to Zarr of
        another format.
    cast : {"error", "clamp", "wrap", "scale"}
        Treatment of values that another ``dtype`` can't hold.
    keep_fingerprint : bool
        Keep a fingerprint of the elements of each array as its attribute ``chunkwise_fingerprint``.
    verify : bool
        Read each array again and compare.
    strict : bool
        Raise if the format can't hold an array, instead of leaving it out.
    resume : bool
        Continue an unfinished copy.
    overwrite : bool
        Replace the destination once the copy is complete.  Files that belong to no array or group
        stay.
    sync : bool
        Whether to wait until chunks are on the disk before an array appears.
    part : str, optional
        ``"3/100"``: do one of 100 parts, each in a process that needs no contact to the others.  The part
        that finishes last makes the tree; `n_left` in the reports of the others says how many tasks are left.
    progress : callable or bool
        Called with the path of an array, from the top of the copy, and a number of bytes copied; True shows a
        bar on stderr.
    storage_options : mapping, optional
        As for `open_group`; used for source and destination if they are URLs of an object store or web
        server.
    **options
        Properties of the arrays that differ from the source: ``chunks``, ``shards``, ``codec``, ``checksum``,
        ``fill_value``, ``dtype``, ``dimension_names``, ``dimension_units``, as for `chunkwise.copy`.  Sizes
        by dimension name, such as ``{"time": 90, "x": 8}``, apply to each array that has dimensions of these
        names; other dimensions and arrays keep theirs.  An option that an array can't have is an error, and
        nothing is written.

    Returns
    -------
    CopyReport

    Raises
    ------
    AlreadyExistsError
        If there is something at the destination.
    InvalidArgumentError
        If source or destination contains the other, the format has no groups, no array has a dimension of a
        given name, or shards can't be divided into chunks.
    FailedPreconditionError
        If the unfinished copy has other options, another process is at work on it, or a worker doesn't see
        the source or the destination.

    Warns
    -----
    LossWarning
        If the format can't hold an array or anything else; `losses` of the report lists everything.

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
    check_progress(progress)
    source, destination = located(storage_options, source, destination)
    how = CopyOptions(
        memory=as_nbytes(memory, "memory"),
        part=None if part is None else parse_part(part),
        strict=strict,
        cast=cast,
        verify=verify,
        resume=resume,
        overwrite=overwrite,
        sync=sync,
        keep_fingerprint=keep_fingerprint,
    )
    work = prepare_tree_copy(source, destination, format, layout, options, how, executor)
    work.begin()
    with shown_progress(progress, "copying", work.nbytes, work.nbytes_done, work.workers) as told:
        report = work.run(told)
    warn_of_losses(report.losses)
    return report


def prepare_tree_copy(
    source: LocationLike | ResolvedPlace,
    destination: LocationLike,
    format: str | None,
    layout: str | None,
    fields: dict[str, Any],
    how: CopyOptions,
    executor: Executor | Workers | None = None,
) -> TreeCopy:
    """Plan a copy for `copy_tree`: of an image as one, of anything else as a tree."""
    if how.part is not None and how.overwrite:
        raise InvalidArgumentError("overwrite would delete what other parts have done")
    how.check_cast(fields)
    if layout is not None:
        check_choice(layout, "layout", LAYOUTS)
    found, there, workers = resolve(source), locate(destination), workers_of(executor)
    if is_volume(there, format):
        if layout is not None:
            raise OptionError(f"layout: {layout} is of N5 or OME-Zarr, not of a precomputed volume")
        volume: TreeCopy = hooks.find("copy to a volume")(found, there, fields, how, workers)
        return volume
    if found.location is not None:
        check_apart(found.location, there)
    root = None if found.is_volume else _group_at(found)
    own = None if root is None or found.images is not None else root.own_format
    wanted, lost = _format_of(there, format, layout, own), ""
    if layout is not None or root is None or found.images is not None or root.own_format != wanted:
        image = hooks.find("copy of an image")(found, there, wanted, layout, fields, how, workers)
        if not isinstance(image, str):
            copied: TreeCopy = image
            return copied
        lost = image
    assert root is not None, "a volume is an image"
    tree = open_group(root.location, "r")
    return tree_copy_to(
        NodeSource(ResolvedNode(tree._tree, (), tree._node), fields, lost),
        there,
        wanted,
        how,
        workers=workers,
        consolidated=bool(tree_format(wanted).consolidated_key)
        and (is_consolidated(root) or (root.own_format is None and _is_dataset(tree))),
    )


def _format_of(there: Location, format: str | None, layout: str | None, source: str | None) -> FormatName:
    """Return the format of the copy; that of a layout for a viewer is N5."""
    for_viewer = layout not in (None, "ome-zarr")
    if for_viewer and format not in (None, "n5"):
        raise OptionError(f"layout: {layout} is N5, not {format}")
    wanted = format_of(there, "group", format="n5" if for_viewer else format, source=source)
    if layout == "ome-zarr" and not tree_format(wanted).ngff_version:
        raise OptionError(f"layout: {layout} is Zarr v3 or v2, not {wanted}; format= (--format) says which")
    return wanted


def _is_dataset(group: Group) -> bool:
    """Return True if an array in a group has a coordinate variable, as in a NetCDF file."""
    for name in group:
        with suppress(ChunkwiseError):  # the copy says what can't be read
            member = group[name]
            if _is_dataset(member) if isinstance(member, Group) else member.attrs.get(NAMES) == [name]:
                return True
    return False


def _group_at(found: ResolvedPlace) -> Node:
    """Return the group at a place; raise InvalidArgumentError for an array."""
    root = None if found.array is not None else found.as_node()
    if root is not None and root.format is None:
        check_implicit(root)
    if root is not None and (root.kind == "group" or root.is_container):
        return root
    text = found.named if found.location is None else found.location.text
    raise InvalidArgumentError(f"{text} is {found.what}, not a group; chunkwise.copy copies arrays")
