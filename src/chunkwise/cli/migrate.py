"""``chunkwise migrate``: turn Zarr v1 and v2 into Zarr v3, without rewriting chunks."""

from __future__ import annotations

import argparse
from collections.abc import Iterator

from chunkwise.cli.command import as_json, message, show
from chunkwise.copying.migrate import MigratedNode, Migration, migrate, migrate_tree
from chunkwise.copying.quantities import plural
from chunkwise.copying.resolve import resolve
from chunkwise.extension.inside import shown_text
from chunkwise.extension.trees import Node

__all__ = ["add_arguments", "run"]

_EPILOG = """\
  chunkwise migrate PATH                    show what would be done
  chunkwise migrate PATH --apply            do it

If PATH is a group, everything below it is migrated; if one array can't be, nothing is written.
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    parser.epilog = _EPILOG
    parser.add_argument("path", metavar="PATH", help="array or group of Zarr v1 or v2")
    parser.add_argument("--apply", action="store_true", help="do it; without this, nothing is written")
    parser.add_argument("--keep-old", action="store_true", help="leave the old metadata beside the new")


def run(arguments: argparse.Namespace) -> int:
    """Run the command."""
    node = resolve(arguments.path).as_node()
    if node is not None and node.kind == "group":
        return _tree(arguments, node)
    done = migrate(arguments.path, apply=arguments.apply, keep_old=arguments.keep_old)
    show(arguments, {"path": shown_text(arguments.path), **done._asdict()}, *_lines(done))
    if not done.applied and not arguments.json:
        message("nothing was changed; --apply does it")
    return 0


def _lines(done: Migration) -> Iterator[str]:
    yield f"zarr.json {'written' if done.applied else 'would be written'}:"
    yield as_json(done.document)
    if done.removed:
        yield f"{'removed' if done.applied else 'would be removed'}: {', '.join(done.removed)}"
    for note in done.notes:
        yield f"note: {note}"


def _members(node: MigratedNode) -> dict[str, object]:
    return {name: value for name, value in node._asdict().items() if name != "document"}


def _tree(arguments: argparse.Namespace, root: Node) -> int:
    """Migrate a hierarchy; the exit status is 1 if a node can't be migrated, or none is there."""
    report = migrate_tree(root, apply=arguments.apply, keep_old=arguments.keep_old)
    failed = [node for node in report if node.error]
    applied = arguments.apply and not failed
    lines = []
    for node in report:
        lines.append(f"{node.name or '.'}: {node.kind}" + (f": CAN'T BE: {node.error}" if node.error else ""))
        lines += [f"  note  {note}" for note in node.notes]
    verb = "migrated" if applied else "can be migrated"
    lines.append(f"{plural(len(report) - len(failed), 'node')} {verb}")
    out = {
        "path": shown_text(arguments.path),
        "applied": applied,
        "nodes": [_members(node) for node in report],
    }
    show(arguments, out, *lines)
    if not (applied and report):
        why = "--apply does it" if report else "there is no node of Zarr v1 or v2"
        if failed:
            why = f"since {plural(len(failed), 'node')} can't be migrated"
        message(f"nothing was changed; {why}")
    return 1 if failed or (arguments.apply and not report) else 0
