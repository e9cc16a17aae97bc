"""``chunkwise rm``: delete arrays, groups and links."""

from __future__ import annotations

import argparse

from chunkwise.cli.command import UsageError, message, show
from chunkwise.copying.quantities import plural
from chunkwise.core.trees.change import delete_all
from chunkwise.core.trees.key_ownership import foreign_keys
from chunkwise.core.trees.link import remove_link
from chunkwise.core.trees.node import nodes_below
from chunkwise.errors import PermissionDeniedError
from chunkwise.extension import JSON
from chunkwise.extension.inside import shown_text
from chunkwise.extension.trees import (
    JOURNAL,
    Location,
    Node,
    find_documented,
    find_node,
    links_of,
    locate,
    nothing_at,
    walk,
)

__all__ = ["add_arguments", "run"]

_SHOWN = 5

_EPILOG = """\
A group that isn't empty is deleted only with -r.  A directory that is neither an array nor a group is never
deleted, nor are files that belong to no array or group: they stay, and the exit status is 3.
Consolidated metadata of the groups above is updated.
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    parser.epilog = _EPILOG
    parser.add_argument("paths", metavar="PATH", nargs="+", help="array, group or link")
    parser.add_argument("-r", "--recursive", action="store_true", help="delete groups and everything in them")
    parser.add_argument("-f", "--force", action="store_true", help="ignore what doesn't exist")
    parser.add_argument("-n", "--dry-run", action="store_true", help="say what would be deleted")


def run(arguments: argparse.Namespace) -> int:
    """Run the command."""
    # Look up all of them before the first is deleted.
    found = [_find(path, arguments) for path in arguments.paths]
    report = [
        _delete(path, location, node, link, dry=arguments.dry_run)
        for path, (location, node, link) in zip(arguments.paths, found, strict=True)
        if location is not None
    ]
    verb = "would delete" if arguments.dry_run else "deleted"
    show(arguments, report, *(f"{verb} {_text(entry)}" for entry in report))
    left = [name for entry in report for name in entry["left"]]
    if left:
        some = ", ".join(left[:_SHOWN]) + (f" and {len(left) - _SHOWN} more" if len(left) > _SHOWN else "")
        stays = "would stay" if arguments.dry_run else "stays"
        message(f"what belongs to no array or group {stays}: {some}")
    return 3 if left else 0


def _text(entry: dict[str, JSON]) -> str:
    text = f"{entry['kind']} {entry['path']}"
    if entry["kind"] == "group":
        text += f" with {plural(entry['groups'], 'group')} and {plural(entry['arrays'], 'array')} in it"
    return text


def _find(path: str, arguments: argparse.Namespace) -> tuple[Location | None, Node | None, Node | None]:
    """Return the location, its node, and the group that has it as a link; nothing if there is none."""
    location = locate(path)
    node = find_node(location)
    above = None if location.parent is None else _group(location.parent)
    if above is not None and location.name in links_of(above) and (node is None or node.implicit):
        return location, None, above
    if node is None and arguments.force:
        return None, None, None
    if node is None:
        raise nothing_at(location, "array, group or link")
    if node.undeclared:
        raise UsageError(
            f"{shown_text(path)} is a directory that is neither an array nor a group; nothing is deleted"
        )
    if node.kind == "group" and node.key != JOURNAL and not arguments.recursive and not _is_empty(node):
        raise UsageError(
            f"{shown_text(path)} is a group that isn't empty; -r deletes it with all that is in it"
        )
    return location, node, None


def _group(location: Location) -> Node | None:
    try:
        node = find_documented(location)  # which lists nothing: directories above may be those of others
    except PermissionDeniedError:
        return None
    return node if node is not None and node.kind == "group" and not node.error else None


def _is_empty(node: Node) -> bool:
    return not nodes_below(node.location) and not links_of(node)


def _delete(
    path: str, location: Location, node: Node | None, above: Node | None, *, dry: bool
) -> dict[str, JSON]:
    if node is None:
        assert above is not None
        if not dry:
            remove_link(above, location.name)
        return {"path": path, "kind": "link", "groups": 0, "arrays": 0, "left": []}
    walked = list(walk(node))
    nodes = [inner for _, inner in walked]
    below = [inner.kind for name, inner in walked if name]
    left = foreign_keys(location, nodes) if dry else delete_all(location, node, nodes)
    return {
        "path": path,
        "kind": "unfinished copy" if node.key == JOURNAL else node.kind,
        "groups": below.count("group"),
        "arrays": below.count("array"),
        "left": [location.store.describe(key) for key in left],
    }
