"""``chunkwise mv``: move an array, a group or a link within a store."""

from __future__ import annotations

import argparse
from contextlib import nullcontext

from chunkwise.cli.command import UsageError, show
from chunkwise.copying.copy_source import how_related
from chunkwise.core.trees.change import check_unused, relocate
from chunkwise.extension.inside import shown_text
from chunkwise.extension.trees import (
    Location,
    Node,
    check_new_names,
    check_outside_arrays,
    container_root,
    find_documented,
    find_node,
    links_of,
    locate,
    mark_container,
    nothing_at,
    parents_made,
)
from chunkwise.groups.open_group import open_group

__all__ = ["add_arguments", "run"]

_EPILOG = """\
DST is the new name itself, not a group to move it into.  In a hierarchy, missing groups above DST are made
and consolidated metadata is updated; links to SRC stay as they are.  Between stores, or to another format,
use cp -r.
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    parser.epilog = _EPILOG
    parser.add_argument("source", metavar="SRC", help="array, group or link")
    parser.add_argument("destination", metavar="DST", help="new name, where nothing is yet")


def run(arguments: argparse.Namespace) -> int:
    """Run the command."""
    source, destination = locate(arguments.source), locate(arguments.destination)
    if source.store.identity != destination.store.identity:
        raise UsageError("SRC and DST are in different stores; copy it (cp -r) and delete it (rm -r)")
    if how_related(source, destination):
        raise UsageError(
            f"{shown_text(arguments.source)} can't be moved into itself, or to a group that it is in"
        )
    root = _common_group(source, destination)
    if root is not None:
        tree = open_group(root, "r+")
        tree.move(source.path[len(root.path) :], destination.path[len(root.path) :])
    else:
        _move_alone(source, destination)
    done = {"source": shown_text(arguments.source), "destination": shown_text(arguments.destination)}
    show(arguments, done, f"{shown_text(arguments.source)} -> {shown_text(arguments.destination)}")
    return 0


def _common_group(a: Location, b: Location) -> Location | None:
    """Return the nearest group that both are in."""
    for at in a.parents:
        if b.path.startswith(at.path):
            node = find_documented(at)
            if node is not None and node.kind == "group" and not node.error:
                return at
    return None


def _move_alone(source: Location, destination: Location) -> None:
    """Move a node that is in no hierarchy, or leaves its own."""
    node = find_node(source)
    above = None if source.parent is None else find_documented(source.parent)
    if node is None and above is not None and source.name in links_of(above):
        raise UsageError(f"{source.text} is a link; it can be moved in its own hierarchy only")
    if node is None or node.error:
        raise nothing_at(source, "array, group or link")
    if node.undeclared:
        raise UsageError(f"{source.text} is a directory that is neither an array nor a group")
    check_unused(destination)
    _check_home(node, destination)
    container = container_root(destination) if node.rules.has_containers else None
    is_root = container is not None and container.path == destination.path
    with nullcontext() if is_root else parents_made(destination, node.format or "zarr3"):
        relocate(source, destination, node)
    if container is not None:
        mark_container(destination)


def _check_home(node: Node, destination: Location) -> None:
    """Raise an error if the hierarchy around `destination` can't hold the node."""
    above = check_outside_arrays(destination)
    if above is None:
        return
    if above.format != node.format:
        at = above.location.text
        raise UsageError(f"{at} is {above.format}, {node.location.text} is {node.format}; copy it (cp -r)")
    check_new_names([destination.name], above.format or "zarr3")
