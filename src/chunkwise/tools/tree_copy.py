"""Copies of an array or a whole tree to another location, format or store.

Each array is copied as `chunkwise.tools.array_copy` does it: in parallel, resumable, its metadata last.
Groups come before what they hold.  Links stay links:

* to what is copied too: they lead to the copy;
* to anything else: they become external links to the tree that it is in, where there is a way to say that.

What the target can't hold is left out, or kept in another place, and listed in the report.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from chunkwise.binding import dump
from chunkwise.errors import (
    AlreadyExistsError,
    ChunkwiseError,
    InvalidArgumentError,
    UnsupportedError,
    prefix,
)
from chunkwise.hierarchy.attribute_value import has_non_finite
from chunkwise.hierarchy.attributes import DATASET_NAMES, change_attributes
from chunkwise.hierarchy.change import make_link
from chunkwise.hierarchy.create import make_group
from chunkwise.hierarchy.link import Link, target_names, without_links
from chunkwise.hierarchy.location import Location
from chunkwise.hierarchy.node import Node
from chunkwise.hierarchy.resolve import ResolvedNode, group_links, source_location
from chunkwise.hierarchy.tree import Tree
from chunkwise.tools.array_copy import ArrayCopy
from chunkwise.tools.array_template import data_type
from chunkwise.tools.compressor import parse_compressor
from chunkwise.tools.executors import Workers, kept_open
from chunkwise.tools.narrowing import Cast

__all__ = ["CopyReport", "Progress", "copy_node", "fitting_attributes", "template_options"]

Progress = Callable[[str, int], None]


@dataclass
class CopyReport:
    """What was copied, and what could not be.

    Attributes
    ----------
    n_groups, n_arrays, n_links : int
    nbytes : int
        Of all elements of the arrays, in memory.
    notes : list of (str, str)
        Path from the top of the copy, and what the target holds in another way there, or not at all.
    left_out : list of (str, str)
        Path of each array that the target can't hold, and why.

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

    n_groups: int = 0
    n_arrays: int = 0
    n_links: int = 0
    nbytes: int = 0
    notes: list[tuple[str, str]] = field(default_factory=list)
    left_out: list[tuple[str, str]] = field(default_factory=list)

    def add(self, path: str, work: ArrayCopy, *, verify: bool, progress: Progress) -> None:
        """Do the work of one array, wait for it and count it."""
        if not work.complete:
            work.run(lambda nbytes: progress(path, nbytes))
        changed = "" if work.narrowing is None else str(work.narrowing)
        if verify:
            work.verify()
        work.finish()
        self.n_arrays += 1
        self.nbytes += work.nbytes
        self.notes += [(path, note) for note in (*work.notes, *filter(None, [changed]))]


@dataclass(frozen=True, kw_only=True)
class _Copy:
    """Source, target and options of one copy of a tree."""

    source: ResolvedNode
    target: Tree
    names: tuple[str, ...]
    options: Mapping[str, Any]
    resume: bool
    verify: bool
    strict: bool
    sync: bool
    cast: Cast
    workers: Workers | None
    memory: int | None
    progress: Progress
    report: CopyReport


def copy_node(
    source: ResolvedNode,
    target: Tree,
    names: Sequence[str],
    *,
    options: Mapping[str, Any] | None = None,
    resume: bool = False,
    verify: bool = False,
    strict: bool = False,
    sync: bool = True,
    cast: Cast = "error",
    workers: Workers | None = None,
    memory: int | None = None,
    progress: Progress = lambda path, nbytes: None,
) -> CopyReport:
    """Copy a node and everything below it to `names` in `target`, which is open for writing."""
    target.check_writable()
    here, there = source.node.location, target.location(names)
    if here.store.identity == there.store.identity and there.path.startswith(here.path):
        raise InvalidArgumentError(f"{here.text} can't be copied to {there.text}, which is inside it")
    copy = _Copy(
        source=source,
        target=target,
        names=tuple(names),
        options=template_options(options or {}),
        resume=resume,
        verify=verify,
        strict=strict,
        sync=sync,
        cast=cast,
        workers=workers,
        memory=memory,
        progress=progress,
        report=CopyReport(),
    )
    if workers is None:
        _copy_node(copy, source.names, source.node)
    else:
        with kept_open(workers) as kept:
            _copy_node(replace(copy, workers=kept), source.names, source.node)
    return copy.report


def template_options(options: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options of a copy as fields of a template; raise InvalidArgumentError for unknown ones."""
    known = ("chunks", "shards", "codec", "checksum", "fill_value", "dtype", "names", "units")
    for name in options:
        if name not in known:
            raise InvalidArgumentError(f"options: expected some of {', '.join(known)}, not {name!r}")
    out = dict(options)
    if isinstance(out.get("codec"), str):
        out["codec"] = parse_compressor(out["codec"])
    if "dtype" in out:
        out["dtype"] = data_type(out["dtype"])
    return out


def _copy_node(copy: _Copy, names: tuple[str, ...], node: Node) -> None:
    tree = copy.source.tree
    if node.kind == "array":
        _copy_array(copy, names, node)
        return
    _copy_group(copy, names, node)
    for name in tree.children(names, node):
        below = tree.find((*names, name), node.format)
        if below is None:
            continue
        if below.undeclared and not tree.children((*names, name), below):
            continue  # a directory that has nothing to do with it
        _copy_node(copy, (*names, name), below)
    for name, link in group_links(tree, names, node).items():
        _copy_link(copy, (*names, name), link)


def _below(copy: _Copy, names: tuple[str, ...]) -> str:
    return "/".join(names[len(copy.source.names) :])


def _there(copy: _Copy, names: tuple[str, ...]) -> tuple[str, ...]:
    return (*copy.names, *names[len(copy.source.names) :])


def _copy_group(copy: _Copy, names: tuple[str, ...], node: Node) -> None:
    where = _there(copy, names)
    attributes = without_links(copy.source.tree.attributes(names, node).asdict())
    kept, notes = fitting_attributes(attributes, copy.target.format)
    copy.report.notes += [(_below(copy, names), note) for note in notes]
    if not where:  # the root of the target, which is there
        root = copy.target.find(())
        assert root is not None
        change_attributes(root, lambda own: {**own, **kept})
    else:
        there = copy.target.find(where)
        if there is not None and there.kind == "group" and copy.resume:
            change_attributes(there, lambda own: {**own, **kept})
        else:
            make_group(copy.target, where, {})
            there = copy.target.find(where)
            assert there is not None
            if kept:  # not through make_group: NaN that the source has are kept
                change_attributes(there, lambda own: kept)
    copy.report.n_groups += 1


def fitting_attributes(attributes: Mapping[str, Any], format: str) -> tuple[dict[str, Any], list[str]]:
    """Return the attributes that a group of this format can hold, and notes on the others."""
    notes: list[str] = []
    out = dict(attributes)
    if format == "n5":
        for name in list(out):
            if name == "n5" or out[name] is None:
                why = (
                    "N5 has a meaning of its own for that name"
                    if name == "n5"
                    else "null means missing in N5"
                )
                notes.append(f"attribute {dump(name)} is left out: {why}")
                del out[name]
        if all(name in out for name in DATASET_NAMES[:4]):
            del out["dimensions"]
            notes.append('attribute "dimensions" is left out: it would make a dataset of the group')
    for name, value in out.items():
        if has_non_finite(value):
            notes.append(f"attribute {dump(name)} has NaN or infinities, which is no proper JSON")
    return out, notes


def _copy_array(copy: _Copy, names: tuple[str, ...], node: Node) -> None:
    below, report = _below(copy, names), copy.report
    try:
        work = ArrayCopy(
            node.location,
            copy.target.location(_there(copy, names)),
            copy.target.format,
            dict(copy.options),
            resume=copy.resume,
            sync=copy.sync,
            cast=copy.cast,
            workers=copy.workers,
            memory=copy.memory,
        )
        work.begin()
    except AlreadyExistsError:
        raise
    except ChunkwiseError as e:
        if copy.strict or not isinstance(e, InvalidArgumentError | UnsupportedError):
            raise prefix(e, f"Error copying {node.location.text}") from None
        report.left_out.append((below, e.message))
        return
    report.add(below, work, verify=copy.verify, progress=copy.progress)


def _copy_link(copy: _Copy, names: tuple[str, ...], link: Link) -> None:
    below, tree = _below(copy, names), copy.source.tree
    try:
        target = tuple(target_names(link, names[:-1]))
        source = source_location(tree, link) if link.external else tree.root
    except (InvalidArgumentError, UnsupportedError) as e:
        copy.report.notes.append((below, f"link to {link} is left out: {e.message}"))
        return
    top = copy.source.names
    if not link.external and target[: len(top)] == top:
        new = Link("/" + "/".join(_there(copy, target)))
    elif _same_root(source, copy.target.root):
        new = Link("/" + "/".join(target))
    else:
        new = Link("/" + "/".join(target), _source_text(source, copy.target.root))
        if not link.external:
            copy.report.notes.append(
                (below, f"link to {link} leads out of what is copied; it is external now")
            )
    where = _there(copy, names)
    before = copy.target.find(where[:-1])
    if copy.resume and before is not None and where[-1] in group_links(copy.target, where[:-1], before):
        return
    make_link(copy.target, where, new)
    copy.report.n_links += 1


def _same_root(a: Location, b: Location) -> bool:
    return bool(a.store.identity == b.store.identity and a.path == b.path)


def _source_text(source: Location, root: Location) -> str:
    """Return how a link in the tree at `root` says where the tree at `source` is."""
    if source.store.identity == root.store.identity:
        return os.path.relpath("/" + source.path, "/" + root.path)
    return source.kvstore().url
