"""``Group``: a mapping from names, or paths, to groups and arrays."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from concurrent.futures import Executor
from typing import Any

from chunkwise.copying.array_options import OPTIONS, OTHER_NAMES
from chunkwise.copying.executors import Workers, workers_of
from chunkwise.copying.losses import CopyReport, warn_of_losses
from chunkwise.copying.narrowing import Cast
from chunkwise.copying.progress import check_progress, shown_progress
from chunkwise.core.api.tensorstore import TensorStore
from chunkwise.core.base.arguments import as_nbytes
from chunkwise.core.base.public_names import (
    checks_arguments,
    checks_methods,
    explains_foreign_names,
    options_of,
)
from chunkwise.core.specs.kvstore_spec import place_of
from chunkwise.core.trees.change import make_link, move_node
from chunkwise.core.trees.consolidated_tree import consolidate
from chunkwise.core.trees.create import make_groups
from chunkwise.core.trees.link import Link
from chunkwise.core.trees.node import split_path
from chunkwise.core.trees.tree import ResolvedNode, Tree, group_links, resolve
from chunkwise.errors import InvalidArgumentError
from chunkwise.extension.trees import removed_after_failure
from chunkwise.groups.writable_group import WritableGroup

__all__ = ["Group"]


@checks_methods
@explains_foreign_names("Group")
class Group(WritableGroup):
    """A group of a tree; `open_group` opens one.

    Paths are names joined by "/", from this group, or with a leading "/" from the root of the tree that was
    opened.  Iterating gives names and opens nothing; looking an array up opens it, but reads no elements.

    Examples
    --------
    >>> import tempfile
    >>> import numpy as np
    >>> import chunkwise
    >>> path = tempfile.mkdtemp() + "/a.zarr"
    >>> group = chunkwise.create_group(path)
    >>> _ = group.create_array("raw/em", np.arange(6))
    >>> group = chunkwise.open_group(path)
    >>> sorted(group), "raw/em" in group
    (['raw'], True)
    >>> group["raw/em"][2:4].read().result()
    array([2, 3])
    """

    __slots__ = ()

    def create_link(self, path: str, target: str, *, source: str = ".") -> None:
        """Put a link into the tree.

        Parameters
        ----------
        path : str
            Path of the link, from the group.
        target : str
            Path of the target, which need not exist; with a leading "/" from the root of the tree, else from
            the group that the link is in.
        source : str
            The tree that the target is in, if it is another one: a path relative to the root of this tree,
            an absolute path or a URL.

        Raises
        ------
        AlreadyExistsError
            If there is something at `path`.
        InvalidArgumentError
            If `target` is above the root of the tree.
        """
        self._tree.check_writable()
        make_link(self._tree, split_path(path, self.path), Link(target, source))
        self._changed()

    def get_link(self, path: str) -> Link | None:
        """Return the link at `path`, or None; links above it are followed.

        Parameters
        ----------
        path : str
            Path of the link, from the group.
        """
        names = split_path(path, self.path)
        parent = resolve(self._tree, names[:-1]) if names else None
        return None if parent is None else group_links(*parent).get(names[-1])

    def move(self, source: str, target: str) -> None:
        """Move the array or group at `source`, with everything below it, to `target`.

        Missing groups above `target` are made.  Links to the moved node, and other mentions of it, stay as
        they are.

        Parameters
        ----------
        source, target : str
            Paths in this tree.

        Raises
        ------
        NodeNotFoundError
            If there is nothing at `source`.
        AlreadyExistsError
            If there is something at `target`.
        """
        self._tree.check_writable()
        move_node(self._tree, split_path(source, self.path), split_path(target, self.path))
        self._changed()

    @checks_arguments("copy")
    @options_of((*OPTIONS, *OTHER_NAMES))
    def copy(
        self,
        source: str | Group | TensorStore,
        path: str,
        *,
        options: Mapping[str, Any] | None = None,
        resume: bool = False,
        verify: bool = False,
        strict: bool = False,
        sync: bool = True,
        cast: Cast = "error",
        keep_fingerprint: bool = False,
        executor: Executor | Workers | None = None,
        memory: int | str | None = None,
        progress: Callable[[str, int], object] | bool = False,
        **properties: Any,
    ) -> CopyReport:
        """Copy an array, or a group with everything below it, into this tree and its format.

        An unfinished copy is neither array nor group: the metadata of the node at `path` is written last.

        Parameters
        ----------
        source : str, Group or TensorStore
            A path in this tree; or a group or whole array of any tree, format and store.
        path : str
            Path of the copy; groups above it are made.
        options : mapping, optional
            The same as `properties`, as a mapping.
        resume : bool
            Continue an unfinished copy.
        verify : bool
            Read each array again and compare.
        strict : bool
            Raise if this format can't hold an array, instead of leaving it out.
        sync : bool
            Whether to wait until chunks are on the disk before an array appears; otherwise a power failure
            can leave a copy that looks complete but isn't.
        cast : {"error", "clamp", "wrap", "scale"}
            Treatment of values that another ``dtype`` can't hold: raise an error, take the nearest value,
            wrap integers around, or scale all values to its range.
        keep_fingerprint : bool
            Keep a fingerprint of the elements of each array as its attribute ``chunkwise_fingerprint``.
        executor : concurrent.futures.Executor, optional
            Executor of the copy of blocks, as for `chunkwise.copy`.
        memory : int or str, optional
            Bytes that a worker process may use for the copy of an array, such as ``"2GB"``.
        progress : callable or bool
            Called with the path of an array, from the top of the copy, and a number of bytes copied; True
            shows a bar on stderr.
        **properties
            Properties of the arrays that differ from the source: ``chunks``, ``shards``, ``codec``,
            ``checksum``, ``fill_value``, ``dtype``, ``dimension_names``, ``dimension_units``; as for
            `chunkwise.copy_tree`.

        Returns
        -------
        CopyReport
            Also lists what this format can't hold.

        Raises
        ------
        AlreadyExistsError
            If there is something at `path`.
        InvalidArgumentError
            If the copy would be inside its source.
        """
        from chunkwise.copying.copy_options import CopyOptions
        from chunkwise.copying.tree_copy import TreeCopy, check_new  # many modules, which only copies need
        from chunkwise.copying.tree_plan import NodeSource

        check_progress(progress)
        found = self._find(source) if isinstance(source, str) else _resolved(source)
        names = split_path(path, self.path)
        self._tree.check_writable()
        workers = workers_of(executor)
        how = CopyOptions(
            memory=as_nbytes(memory, "memory"),
            strict=strict,
            cast=cast,
            verify=verify,
            resume=resume,
            sync=sync,
            keep_fingerprint=keep_fingerprint,
        )
        how.check_cast({**(options or {}), **properties})
        if names and not resume:
            check_new(self._tree.location(names), found.node.kind, self._tree.format)
        of = NodeSource(found, {**(options or {}), **properties})
        work = TreeCopy(of, self._tree, names, how, workers=workers)
        with removed_after_failure(make_groups(self._tree, names[:-1])):
            work.begin()
        with shown_progress(progress, "copying", work.nbytes, work.nbytes_done, work.workers) as told:
            report = work.run(told)
        self._changed()
        warn_of_losses(report.losses)
        return report

    def consolidate(self) -> list[str]:
        """Write the consolidated metadata of the tree below this group, or replace it.

        Groups below that have their own consolidated metadata get it renewed, too.  chunkwise keeps it up to
        date when it changes the tree.

        Returns
        -------
        list of str
            Paths of nodes of another format, which consolidated metadata can't hold.

        Raises
        ------
        InvalidArgumentError
            If the tree was opened for reading, or the group isn't Zarr.
        FailedPreconditionError
            If a document in the tree can't be read.
        """
        self._tree.check_writable()
        return consolidate(self._node.location).left_out


def _resolved(source: Group | TensorStore) -> ResolvedNode:
    if isinstance(source, Group):
        return ResolvedNode(source._tree, source._names, source._node)
    if not isinstance(source, TensorStore):
        its, opens = place_of(source), "open_array" if hasattr(source, "shape") else "open_group"
        raise TypeError(
            f"expected a path, a Group or a TensorStore, got {type(source).__name__}; "
            + (
                f"did you mean chunkwise.{opens}({its})?"
                if its
                else "an array of another library is written by group[path] = array"
            )
        )
    if source._find_node().node is None:
        raise InvalidArgumentError("an array that is stored nowhere can't be copied; write it to a new array")
    node = source._whole_node()
    if node is None:
        raise InvalidArgumentError("a view of an array can't be copied as a node; write it to a new array")
    return ResolvedNode(Tree(root=node.location, format=node.format or "zarr3"), (), node)
