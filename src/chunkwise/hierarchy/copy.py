"""Copying an array or a whole tree: to another place, format or store."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from chunkwise.api.array_copy import ArrayCopy
from chunkwise.api.tensorstore import TensorStore
from chunkwise.hierarchy.group import Group
from chunkwise.hierarchy.node_name import join

__all__ = ["CopyReport", "copy_node"]


@dataclass
class CopyReport:
    """What was copied.

    Attributes
    ----------
    n_groups, n_arrays : int
    nbytes : int
        Of all elements of the arrays, in memory.
    notes : list of (str, str)
        Path from the top of the copy, and what the target can't hold there.
    """

    n_groups: int = 0
    n_arrays: int = 0
    nbytes: int = 0
    notes: list[tuple[str, str]] = field(default_factory=list)


def copy_node(
    source: Group | TensorStore,
    target: Group,
    path: str,
    options: Mapping[str, Any] | None = None,
) -> CopyReport:
    """Copy an array or a group with everything below it to `path` in the group `target`."""
    report = CopyReport()
    _copy(source, target, path, "", dict(options or {}), report)
    return report


def _copy(
    source: Group | TensorStore,
    target: Group,
    path: str,
    below: str,
    options: dict[str, Any],
    report: CopyReport,
) -> None:
    if isinstance(source, Group):
        target.create_group(path, attributes=source.attrs)
        report.n_groups += 1
        for name, member in source.items():
            _copy(member, target, join(path, name), join(below, name), options, report)
        return
    node = source._find_node().node
    assert node is not None
    where = target._tree.location([*target._names, *path.split("/")])
    copy = ArrayCopy(node.location, where, target.format, options)
    copy.run().result()
    copy.finish()
    report.n_arrays += 1
    report.nbytes += copy.nbytes
    report.notes += [(below, note) for note in copy.notes]
